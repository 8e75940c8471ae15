"""PNG on the GPU."""

from .decoder import PngDecoder
from .encoder import PngEncoder
from .file import CorruptPngError, ForeignPngError, PngError

__all__ = ["CorruptPngError", "ForeignPngError", "PngDecoder", "PngEncoder", "PngError"]
