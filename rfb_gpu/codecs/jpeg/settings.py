"""What can be changed between frames, the same for the encoder on the GPU and the one on the CPU."""

from __future__ import annotations

from .bitstream import SUBSAMPLINGS
from .tables import check_quality

__all__ = ["JpegSettings"]

SCALES = (1, 2, 4)


class JpegSettings:
    """Quality, subsampling and scale, checked."""

    @property
    def quality(self) -> int:
        """1 to 100. Frames in flight keep theirs."""
        return self._quality

    @quality.setter
    def quality(self, quality: int) -> None:
        self._quality = check_quality(quality)

    @property
    def subsampling(self) -> str:
        """``"444"``, ``"422"``, ``"420"`` or ``"gray"``. Frames in flight keep theirs."""
        return self._subsampling

    @subsampling.setter
    def subsampling(self, subsampling: str) -> None:
        if subsampling not in SUBSAMPLINGS:
            raise ValueError(
                f"subsampling must be one of {', '.join(map(repr, SUBSAMPLINGS))}, not {subsampling!r}"
            )
        self._subsampling = subsampling

    @property
    def scale(self) -> int:
        """1, 2 or 4: of so many pixels by so many, one is made. Frames in flight keep theirs."""
        return self._scale

    @scale.setter
    def scale(self, scale: int) -> None:
        if scale not in SCALES:
            raise ValueError(f"scale must be one of {', '.join(map(str, SCALES))}, not {scale!r}")
        self._scale = int(scale)
