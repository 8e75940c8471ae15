"""Baseline JPEG on the GPU."""

from .alpha import AlphaJpegEncoder
from .bitstream import CorruptJpegError, ForeignJpegError, JpegError
from .decoder import JpegDecoder
from .encoder import JpegEncoder

__all__ = [
    "AlphaJpegEncoder",
    "CorruptJpegError",
    "ForeignJpegError",
    "JpegDecoder",
    "JpegEncoder",
    "JpegError",
]
