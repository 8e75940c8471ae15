"""Whether frames go without loss while they move: where a PNG is smaller than a good JPEG, as of many plots, and the link carries
it.

Both sizes of one picture are known whenever it rests: the JPEG was sent, and then the PNG. The next gesture shows about the same. A
PNG takes longer to make, so where the link is no matter, it is not worth it; and where even the PNG is too much for the link, a
coarse JPEG follows the hand better. Pure logic.
"""

from __future__ import annotations

import math

from .quality import SHARE_OF_BUDGET, Settings

__all__ = ["CodecChoice"]

WORTH_IT = 0.8
"""A PNG must take no more than this share of the bytes of a JPEG in the best quality."""
SLOW_SECONDS, QUICK_SECONDS = 1 / 30, 1 / 120
"""On its way, such a JPEG takes longer than the first where the link matters; and less than the second where it does no more."""
TOLERANCE = 1.5
"""A PNG that was chosen may take so many times the bytes that it may at first, before it is given up."""


class CodecChoice:
    """Of the frames of one canvas.

    Arguments:
        latency_budget: seconds that a frame may take beyond the link's delay, as that of :class:`.QualityPolicy`; None: any time.
    """

    def __init__(self, latency_budget: float | None) -> None:
        self._affordable_seconds = math.inf if latency_budget is None else SHARE_OF_BUDGET * latency_budget
        self._png_bytes: int | None = None  # of the last one
        self._best_jpeg_bytes = 0.0
        self._lossless = False

    def compared(self, png_bytes: int, jpeg_bytes: int, settings: Settings, best: Settings) -> None:
        """Both sizes of one picture; the JPEG has these settings, while ``best`` are the finest that there may be."""
        self._png_bytes = png_bytes
        self._best_jpeg_bytes = jpeg_bytes * best.share / settings.share

    def sent(self, png_bytes: int) -> None:
        """A frame in motion went without loss."""
        if self._png_bytes is not None:
            self._png_bytes = png_bytes

    def choose(self, rate: float | None) -> bool:
        """Whether the next frame shall go without loss over a link of so many bytes a second."""
        if self._png_bytes is None or not rate:
            return False
        # Once chosen, not given up for a trifle.
        more, least = (TOLERANCE, QUICK_SECONDS) if self._lossless else (1.0, SLOW_SECONDS)
        is_smaller = self._png_bytes <= WORTH_IT * more * self._best_jpeg_bytes
        fits = self._png_bytes / rate <= self._affordable_seconds * more
        was_chosen, self._lossless = (
            self._lossless,
            is_smaller and fits and self._best_jpeg_bytes / rate > least,
        )
        if was_chosen and not self._lossless:
            self._png_bytes = None  # until both are known again
        return self._lossless
