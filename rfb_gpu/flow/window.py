"""How many frames may be under way to a page.

As many as it shows in the time of a round trip, and a few so that it always has one at hand: fewer would leave it waiting, more
would only grow old on the way. And no faster than it shows them, once it was seen to leave some out: where one machine draws and
shows, what is drawn in vain takes its time from the page.

The rate is that of the frames shown between the acknowledgement that was the latest when a frame left, and the frame's own; the
round trip is the quickest of the last seconds. (BBR's two filters, Cardwell et al. 2016, https://dl.acm.org/doi/10.1145/3009824,
with frames that a person sees for bytes that arrive.) Pure logic; no clock but the ``now`` that callers pass in.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

__all__ = ["FrameWindow"]

FIRST, LEAST, MOST = 3, 2, 32
"""Frames: one is on its way while another is shown; 32 at 60 a second are half a second."""
SPARE = 1
GAIN = 1.5
"""The window is so much above what the page shows in a round trip, to see whether it can show more; and for a while not, after a
frame was overtaken, which shows that there are enough."""
OVERTAKEN_SECONDS = 2.0
PACE = 1.25
PACE_SECONDS, PACE_SAMPLES = 1.0, 8
WASTE = 0.2
"""While more than this share of the frames was overtaken lately, so many are drawn for each that the page shows: on average, not at
its quickest."""
PAUSE_SECONDS = 0.5
LEAST_RATE = 2.0
"""Frames per second: slower than this it is not held back, or a page that recovers would be noticed late."""
RATE_SECONDS = 2.0
"""The highest rate of so many seconds counts."""
TRIP_SECONDS = 2.0
TRIP_TOLERANCE = 1.1
"""The quickest round trip counts for so long since one was about as quick. Then it is measured again, with half the window, so
that no frame waits for another."""


@dataclass(frozen=True)
class _Sent:
    when: float
    shown: int  # by the page, of all before
    answer: float  # when the latest acknowledgement came
    answered: float  # when the frame that it was for had been sent


class FrameWindow:
    """The window of one page.

    Arguments:
        fixed: it is this, always. None: it follows what is measured.
    """

    def __init__(self, fixed: int | None = None) -> None:
        self._fixed = fixed
        self._in_flight: dict[int, _Sent] = {}
        self._shown = self._overtaken_count = 0
        self._answer = self._answered = -math.inf
        self._drawn = -math.inf
        self._history: deque[tuple[float, int, int]] = deque()  # when; frames shown so far, and overtaken
        self._rates: deque[tuple[float, float]] = deque()  # when, frames per second
        self._trip: tuple[float, float] | None = None  # when, seconds
        self._probe: tuple[int, float] | None = (
            None  # ends with the answer to this frame; the quickest trip since it began
        )
        self._last = -1
        self._overtaken = -math.inf
        self._size = fixed or FIRST
        self.next_draw = -math.inf
        """A draw before this time would not be shown."""

    @property
    def size(self) -> int:
        """Frames that may have no acknowledgement."""
        return self._size

    def drawn(self, now: float) -> None:
        """A frame is made, which will be sent."""
        if now - self._drawn > PAUSE_SECONDS:
            self._history.clear()  # what was shown before a pause tells nothing
        self._drawn = now
        if len(self._history) > 1:
            (began, shown, overtaken), (ended, shown_now, overtaken_now) = self._history[0], self._history[-1]
            shown, overtaken = shown_now - shown, overtaken_now - overtaken
            if overtaken > WASTE * (shown + overtaken):
                self.next_draw = now + 1 / max(PACE * shown / (ended - began), LEAST_RATE)

    def sent(self, frame: int, now: float) -> None:
        """A frame goes out. Numbers ascend."""
        if not self._in_flight:
            self._answer = self._answered = now  # a pause is no time that frames took
        self._in_flight[frame] = _Sent(now, self._shown, self._answer, self._answered)
        self._last = frame

    def ack(self, frame: int, now: float, dropped: int = 0) -> None:
        """All frames up to this one have been dealt with, ``dropped`` of them were overtaken by newer ones."""
        if self._fixed is not None:
            return
        was_full = len(self._in_flight) >= self._size
        done = [number for number in self._in_flight if number <= frame]
        if not done:
            return
        last = [self._in_flight.pop(number) for number in done][-1]
        self._shown += max(len(done) - dropped, 0)
        self._overtaken_count += dropped
        self._answer, self._answered = now, last.when
        if dropped:
            self._overtaken = now
        if not self._history or now > self._history[-1][0]:
            self._history.append((now, self._shown, self._overtaken_count))
        while len(self._history) > PACE_SAMPLES and self._history[0][0] < now - PACE_SECONDS:
            self._history.popleft()
        self._measure_rate(last, now, was_full)
        self._measure_trip(frame, now - last.when, now)
        self._set_size(now)

    def forget(self) -> None:
        """What is under way is not waited for."""
        self._in_flight.clear()

    @property
    def _rate(self) -> float:
        return max((rate for _, rate in self._rates), default=0.0)

    def _measure_rate(self, last: _Sent, now: float, was_full: bool) -> None:
        # The longer of both: acknowledgements that come in a bunch would look like a page that is quick.
        seconds = max(now - last.answer, last.when - last.answered)
        if seconds <= 0:
            return
        rate = (self._shown - last.shown) / seconds
        # Where fewer frames were sent than might have been, the page would perhaps have shown more.
        if was_full or rate > self._rate:
            self._rates.append((now, rate))
        while len(self._rates) > 1 and self._rates[0][0] < now - RATE_SECONDS:
            self._rates.popleft()

    def _measure_trip(self, frame: int, trip: float, now: float) -> None:
        if self._probe is not None:
            until, quickest = self._probe
            quickest = min(quickest, trip)
            self._probe = until, quickest
            if frame >= until:
                self._trip, self._probe = (now, quickest), None
        if self._trip is None or trip <= self._trip[1] * TRIP_TOLERANCE:
            self._trip = now, trip if self._trip is None else min(trip, self._trip[1])
        elif self._probe is None and now - self._trip[0] > TRIP_SECONDS:
            self._probe = self._last + 1, trip

    def _set_size(self, now: float) -> None:
        if not self._rates or self._trip is None:
            return
        gain = 1 if now - self._overtaken < OVERTAKEN_SECONDS else GAIN
        size = round(gain * self._rate * self._trip[1]) + SPARE
        if self._probe is not None:
            size = size // 2
        self._size = min(max(size, LEAST), MOST)
