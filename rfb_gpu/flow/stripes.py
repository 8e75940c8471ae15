"""A picture without loss over a thin link, in stripes: what the hand may want next never waits for more than one of them.

Pure logic. A stripe builds on a full frame of the same picture, its base, and on the stripes before it; a page that lacks one of
these refuses it, and then it begins again with a new base.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

__all__ = ["Part", "Stripes", "outward"]

LEAST_ROWS = 16
MOST_STRIPES = 64


@dataclass(frozen=True)
class Part:
    """Which part of a picture a frame is: ``rows`` rows of pixels from ``y`` down, over the whole width."""

    y: int
    rows: int
    base: int
    """The full frame that it builds on."""
    index: int
    """How many parts came before."""


def outward(height: int, count: float, centre: float) -> list[tuple[int, int]]:
    """About so many stripes of a picture, first row and rows of each: the one at ``centre`` first, then outward."""
    most = max(min(height // LEAST_ROWS, MOST_STRIPES), 1)
    rows = math.ceil(height / min(max(math.ceil(count), 1), most))
    stripes = [(y, min(rows, height - y)) for y in range(0, height, rows)]
    return sorted(stripes, key=lambda stripe: abs(stripe[0] + stripe[1] / 2 - centre))


@dataclass
class Stripes:
    """What is left to send of a picture."""

    base: int
    waiting: deque[tuple[int, int]]
    sent: int = 0
    encoding: bool = False
    in_flight: set[int] = field(default_factory=set)
    """The frames' numbers."""

    @property
    def next(self) -> Part:
        """The next one."""
        y, rows = self.waiting[0]
        return Part(y, rows, self.base, self.sent)

    def done(self) -> bool:
        """The next one is about to be sent. Gives whether it is the last."""
        self.waiting.popleft()
        self.sent += 1
        return not self.waiting
