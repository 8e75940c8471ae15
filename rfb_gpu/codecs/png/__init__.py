"""PNG on the GPU."""

from .encoder import PngEncoder

__all__ = ["PngEncoder"]
