"""Baseline JPEG on the GPU."""

from .bitstream import CorruptJpegError, ForeignJpegError, JpegError
from .decoder import JpegDecoder
from .encoder import JpegEncoder

__all__ = ["CorruptJpegError", "ForeignJpegError", "JpegDecoder", "JpegEncoder", "JpegError"]
