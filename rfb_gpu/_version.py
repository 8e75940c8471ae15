"""The release of rfb_gpu; the build reads it from here, so it stands in one place only."""

__version__ = "0.1.0"
