"""Which quality the link affords: as much as arrives within the latency budget, and no more.

Down at once, because every frame that is too large delays all after it; up only after a while and in steps, because a link that has
just got better may get worse again; and after a step up that had to be taken back, a longer while. First the quality falls, then
colours are halved, then the picture is: a coarse picture that follows the hand beats a fine one that does not.

Pure logic; no clock but the ``now`` that callers pass in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

__all__ = ["QualityPolicy", "Settings"]

# Bytes of a JPEG by quality, as a share of quality 80: median of the five scenes of benchmarks/scenes.py at 720p, 4:4:4, by
# libjpeg-turbo. Scenes differ: at 30 from 0.25 to 0.61, at 95 from 1.9 to 3.3.
_QUALITIES = (1, 10, 20, 30, 40, 50, 60, 70, 80, 85, 90, 95, 100)
_LOG_BYTES = [
    math.log(share) for share in (0.2, 0.28, 0.37, 0.46, 0.52, 0.59, 0.67, 0.8, 1.0, 1.18, 1.51, 2.23, 5.2)
]
_SUBSAMPLING_BYTES = {"444": 1.0, "422": 0.85, "420": 0.72, "gray": 0.6}
_SCALE_BYTES = {1: 1.0, 2: 0.33, 4: 0.11}
"""A smaller picture has more detail to a pixel: half as wide and high takes a third, not a quarter."""

SHARE_OF_BUDGET = 0.5
"""Of the latency budget, for one frame on its way: the frame before it may be under way still."""
TOLERANCE = 1.15
"""A frame may take so much more than it should before the quality falls."""
HEADROOM = 0.8
"""A better quality must take no more than this share of what the link carries."""
STEP = 3.0
"""A better quality comes in steps of at most this many times the bytes."""
HOLD_SECONDS = 0.25, 8.0
"""For how long a better quality must have been affordable: at least, and after it had to be taken back again and again."""
TRIAL_SECONDS = 2.0
"""A better quality that is taken back within this time was a mistake."""
OTHER_LINK = 1.5
"""A link so many times as fast is another one: mistakes made before say nothing of it."""


class Settings(NamedTuple):
    """How a frame is encoded: quality 1 to 100, subsampling, and of how many pixels by how many one is made."""

    quality: int
    subsampling: str
    scale: int = 1

    @property
    def share(self) -> float:
        """About how many bytes that takes, as a share of quality 80 without subsampling at full size."""
        by_quality = math.exp(float(np.interp(self.quality, _QUALITIES, _LOG_BYTES)))
        return by_quality * _SUBSAMPLING_BYTES[self.subsampling] * _SCALE_BYTES[self.scale]


@dataclass(frozen=True)
class _Rung:
    settings: Settings
    share: float


class QualityPolicy:
    """Picks the settings of the next frame.

    Arguments:
        floor, ceiling: the least and the best quality, 1 to 100.
        subsampling: at its best, and always for a fixed quality.
        latency_budget: seconds that a frame may take beyond the link's delay.

    A floor that equals the ceiling fixes everything: that quality, that subsampling, full size.

    Raises:
        ValueError: floor and ceiling are not in that order, or the budget is not positive.
    """

    def __init__(
        self, floor: int, ceiling: int, subsampling: str = "444", latency_budget: float = 0.1
    ) -> None:
        if not 1 <= floor <= ceiling <= 100:
            raise ValueError(
                f"the floor and the ceiling of quality must be 1 <= floor <= ceiling <= 100, not {floor}, {ceiling}"
            )
        if not 0 < latency_budget < math.inf:
            raise ValueError(f"latency_budget must be a positive number of seconds, not {latency_budget!r}")
        self.latency_budget = latency_budget
        self._ladder = list(_ladder(floor, ceiling, subsampling))
        self._at = 0  # 0 is the best
        self._hold = HOLD_SECONDS[0]
        self._affordable_since: float | None = None
        self._trial_since: float | None = None
        self._failed_rate = math.inf

    @property
    def best(self) -> Settings:
        """What a link without limits gets."""
        return self._ladder[0].settings

    @property
    def settings(self) -> Settings:
        """What was chosen last."""
        return self._ladder[self._at].settings

    def choose(self, now: float, rate: float | None, last_bytes: int, last: Settings) -> Settings:
        """The settings for the next frame.

        Arguments:
            now: seconds.
            rate: what the link carries, bytes per second; None while nobody knows.
            last_bytes: size of the last lossy frame, which is the best guess of the next one's; 0: there was none.
            last: its settings.
        """
        if rate is None or last_bytes <= 0:
            return self.settings
        affordable = rate * self.latency_budget * SHARE_OF_BUDGET / (last_bytes / last.share)
        share = self._ladder[self._at].share
        if rate > OTHER_LINK * self._failed_rate:
            self._hold = HOLD_SECONDS[0]
        if share > affordable * TOLERANCE:
            self._move(max(self._first_within(affordable), self._at + 1))
            self._affordable_since = None
            if self._trial_since is not None:
                self._hold = min(2 * self._hold, HOLD_SECONDS[1])
                self._trial_since, self._failed_rate = None, rate
        elif (better := self._first_within(min(affordable * HEADROOM, share * STEP))) >= self._at:
            self._affordable_since = None
        elif self._affordable_since is None:
            self._affordable_since = now
        elif now - self._affordable_since >= self._hold:
            self._move(better)
            self._affordable_since = self._trial_since = now
        if self._trial_since is not None and now - self._trial_since >= TRIAL_SECONDS:
            self._hold, self._trial_since = HOLD_SECONDS[0], None
        return self.settings

    def _first_within(self, share: float) -> int:
        """The best rung that takes no more than this, or the last one."""
        return next((i for i, rung in enumerate(self._ladder) if rung.share <= share), len(self._ladder) - 1)

    def _move(self, to: int) -> None:
        self._at = min(to, len(self._ladder) - 1)


QUALITY_STEP = 5
HALVE_COLOURS_AT = 50
"""Below this quality halved colours are less of a loss than a lower quality."""
SMALL_QUALITY = 70
"""A smaller picture has to be scaled up to be seen: what is coarse in it becomes coarser."""


def _ladder(floor: int, ceiling: int, subsampling: str) -> Iterator[_Rung]:
    """From the best settings to the cheapest; each takes fewer bytes than the one before."""
    if floor == ceiling:
        yield _Rung(settings := Settings(ceiling, subsampling), settings.share)
        return
    coarse = subsampling if subsampling == "gray" else "420"
    legs = [
        (subsampling, 1, ceiling, max(floor, HALVE_COLOURS_AT)),
        (coarse, 1, max(floor, HALVE_COLOURS_AT), floor),
        (coarse, 2, max(floor, min(ceiling, SMALL_QUALITY)), floor),
        (coarse, 4, max(floor, min(ceiling, SMALL_QUALITY)), floor),
    ]
    least = math.inf
    for colours, scale, best, worst in legs:
        for quality in [*range(best, worst, -QUALITY_STEP), worst]:
            rung = Settings(min(quality, ceiling), colours, scale)
            if rung.share < least:
                least = rung.share
                yield _Rung(rung, least)
