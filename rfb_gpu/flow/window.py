"""When the next frame for a page is drawn, and how many may be under way to it.

A page shows a frame at its display's next refresh, or once it is done with the one before: it takes *turns*. It tells how long each
was that ended with another frame waiting, and how long a frame had waited for its turn. From that follows all that is decided here:

* Draws have the rhythm of the turns: more would be drawn in vain, and where one machine draws and shows, would take their time from
  the page. Their phase is such that a frame arrives shortly before its turn: a phase-locked loop, with the wait as its error. Where
  a turn has time for it, a draw lets the frame before be sent first, which would otherwise wait until the draw is over.
* The window holds what the page has turns for in the time from a draw to its acknowledgement, and half as many again and one, so
  that no turn goes without a frame; but no more than half as many again and one as have gone through in that time, for a link may
  carry less than the page can show. The time is the quickest of the last seconds, so frames that wait for each other do not count
  as distance (the filter of BBR's round trips, Cardwell et al. 2016, https://dl.acm.org/doi/10.1145/3009824).

Turns do not depend on how many frames come: a page that gets few of them does not look like one that wants few. While turns, one
after the other, end without a frame waiting, it is not the page that limits, and what it told before is forgotten. Pure logic; no
clock but the ``now`` that callers pass in.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, median

__all__ = ["FrameWindow"]

FIRST, LEAST, MOST = 3, 2, 32
"""Frames: one is on its way while another is shown; 32 at 60 a second are half a second."""
GAIN, SPARE = 1.5, 1
TURNS, LEAST_TURNS, TRIMMED = 15, 3, 0.2
"""So many turns count, without this share of the shortest and of the longest; while there are fewer, nothing is known."""
RATES, MAKINGS = 8, 15
"""Of so many rates the highest counts, of so many times from a draw to the sending of its frame the median."""
MAKING_SHARE, LET_SEND_SHARE = 1.0, 1.25
"""Of a turn: what makes frames in so much time has the time to let one be sent before the next draw; it is waited for so long."""
HAND_OVER_SHARE, WRITE_SHARE = 0.1, 0.25
"""Of a turn. So long a draw waits for another thread to write the frame before to its socket, since it would keep the interpreter
from that thread. The latter is where the thread tells when it has written, and hardly ever reached."""
SHORTEST_TURN, LONGEST_TURN = 0.001, 0.5
"""Seconds. Some pages' clocks have coarse steps, in which a turn may take no time. Slower than the longest, draws are not held
back, or a page that recovers would be noticed late."""
PAUSE_SECONDS = 0.5
"""What turns were before a pause of draws tells nothing."""
PHASE_GAIN = 0.1
"""Of the error, so much is made up for with the next draw."""
MARGIN_SECONDS, MARGIN_DEVIATIONS, MOST_WAIT = 0.003, 2.5, 0.6
"""A frame shall wait so long, and so many mean deviations of its waits, but this share of a turn at most."""
SMOOTHING = 1 / 16
"""Of the mean of the waits and of their deviation."""
TRIP_SECONDS = 2.0
TRIP_TOLERANCE = 1.1
"""The quickest trip counts for so long since one was about as quick. Then it is measured again, with half the window, so that no
frame waits for another."""


@dataclass(frozen=True)
class _Sent:
    began: float  # its draw
    when: float
    answered: int  # how many had been, then


class FrameWindow:
    """The window of one page, and the rhythm of draws for it.

    Arguments:
        fixed: the window is this, always. None: it follows what is measured.
    """

    def __init__(self, fixed: int | None = None) -> None:
        self._fixed = fixed
        self._in_flight: dict[int, _Sent] = {}
        self._answered = 0
        self._rates: deque[float] = deque(maxlen=RATES)  # frames per second
        self._makings: deque[float] = deque(maxlen=MAKINGS)  # seconds
        self._making = math.inf
        self._turn: float | None = None
        self._turns: deque[float] = deque(maxlen=TURNS)
        self._was_free = False  # the last turn ended without a frame waiting
        self._wait = self._deviation = 0.0
        self._shift = 0.0  # of the next draw
        self._drawn = self._handed_over = -math.inf
        self._hears_of_written = False
        self._trip: tuple[float, float] | None = None  # when, seconds
        # Ends with the answer to this frame; the quickest trip since it began.
        self._probe: tuple[int, float] | None = None
        self._last = -1
        self._size = fixed or FIRST
        self._next_draw = -math.inf

    @property
    def size(self) -> int:
        """Frames that may have no acknowledgement."""
        return self._size

    def earliest_draw(self, coming: int = 0) -> float:
        """A draw before this time would be too early for its turn; ``coming`` frames are drawn and not sent yet."""
        turn = self._turn
        if turn is None or self._making > MAKING_SHARE * turn:
            return self._next_draw
        if coming:
            return max(self._next_draw, self._drawn + LET_SEND_SHARE * turn)
        if self._hears_of_written:
            return max(self._next_draw, self._handed_over + WRITE_SHARE * turn)
        hand_over = HAND_OVER_SHARE * turn
        if self._making + hand_over > turn:
            return self._next_draw
        return max(self._next_draw, self._handed_over + hand_over)

    def drawn(self, now: float) -> None:
        """The draw of a frame begins."""
        if now - self._drawn > PAUSE_SECONDS:
            self._turns.clear()
            self._turn, self._shift = None, 0.0
        self._drawn = now
        turn = self._turn
        if turn is None:
            self._next_draw = -math.inf
            return
        late = now - self._next_draw
        # A draw that is a little late does not shift those after it.
        self._next_draw = now + turn + self._shift - (late if 0 < late < turn / 2 else 0.0)
        self._shift = 0.0

    def sent(self, frame: int, now: float, began: float | None = None) -> None:
        """A frame goes out, whose draw began at ``began``. Numbers ascend."""
        self._in_flight[frame] = _Sent(now if began is None else began, now, self._answered)
        if began is not None:
            self._makings.append(now - began)
            self._making = median(self._makings)
        self._last = frame
        self._handed_over = now

    def written(self, frame: int) -> None:
        """A frame was handed over, all of it."""
        self._hears_of_written = True
        if frame == self._last:
            self._handed_over = -math.inf

    def ack(
        self, frame: int, now: float, waits: Iterable[float] = (), turns: Iterable[float | None] = ()
    ) -> None:
        """All frames up to this one have been dealt with.

        Arguments:
            waits: for how many seconds each that was shown had waited in the page for its turn.
            turns: seconds from the beginning of a turn until the next could begin; None where no frame was there for it then.
        """
        done = [number for number in self._in_flight if number <= frame]
        if not done:
            return
        last = [self._in_flight.pop(number) for number in done][-1]
        self._answered += len(done)
        if now > last.when:
            self._rates.append((self._answered - last.answered) / (now - last.when))
        for turn in turns:
            if turn is not None:
                self._turns.append(min(max(turn, SHORTEST_TURN), LONGEST_TURN))
            elif self._was_free and self._turns:
                self._turns.popleft()
            self._was_free = turn is None
        self._turn = self._measure_turn()
        for wait in waits:
            self._lock_phase(wait)
        self._measure_trip(frame, now - last.began, now)
        self._set_size()

    def forget(self) -> None:
        """What is under way is not waited for."""
        self._in_flight.clear()

    def _measure_turn(self) -> float | None:
        if len(self._turns) < LEAST_TURNS:
            return None
        cut = int(TRIMMED * len(self._turns))
        return fmean(sorted(self._turns)[cut : len(self._turns) - cut])

    def _lock_phase(self, wait: float) -> None:
        self._deviation += SMOOTHING * (abs(wait - self._wait) - self._deviation)
        self._wait += SMOOTHING * (wait - self._wait)
        turn = self._turn
        if turn is not None:
            wanted = min(MARGIN_SECONDS + MARGIN_DEVIATIONS * self._deviation, MOST_WAIT * turn)
            self._shift = min(max(PHASE_GAIN * (wait - wanted), -turn / 4), turn / 4)

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

    def _set_size(self) -> None:
        if self._fixed is not None or not self._rates or self._trip is None:
            return
        rate, turn = max(self._rates), self._turn
        if turn is not None:
            rate = min(rate, 1 / turn)
        size = math.ceil(GAIN * self._trip[1] * rate) + SPARE
        if self._probe is not None:
            size //= 2
        self._size = min(max(size, LEAST), MOST)
