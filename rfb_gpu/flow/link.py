"""What a link carries, learned from when frames left here and when they arrived there.

The page stamps each frame's arrival with its own clock. The two clocks need not agree: the least difference between arrival and
departure that was seen stands for a frame that took no time at all, and all else is measured beyond it. A link in order works on
a frame from the moment when it could have arrived at once, or from the end of the frame before; whatever delays an arrival besides
(a page that is busy) can only make the link look slower. So the *rate* is at least the bytes of any run of frames over the time
from the first one's earliest arrival to the last one's arrival. The best of the recent runs is the estimate, which batches of
arrivals cannot fool, as they can the packet pairs of older methods.

Pure logic; no clock but the ``now`` that callers pass in.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Link"]

RATE_SECONDS = 0.6
"""A measured arrival counts for so long, and longer while no newer ones come."""
RATE_SAMPLES = 3, 24
"""How many arrivals count at least and at most."""
DELAY_SECONDS = 60.0
"""How long a measured delay counts; the least is taken."""
RUN_SECONDS = 0.25
"""A run that is measured from arrival to arrival is at least so long."""
APART_SECONDS = 0.005
"""What arrives sooner after another may have been noticed in one go with it."""
LEAST_SECONDS = 0.0005
"""What takes less is not told apart by the clocks of browsers."""
CLOCKS_DIFFER_SECONDS = 3600.0
"""Arrivals so far from what was seen before are another clock's."""


@dataclass(frozen=True)
class _Sent:
    size: int
    when: float


@dataclass
class _Arrival:
    sent: _Sent
    when: float  # on the page's clock
    rate: float = 0.0


class Link:
    """The way to one page and back."""

    def __init__(self) -> None:
        self._in_flight: OrderedDict[int, _Sent] = OrderedDict()  # not acknowledged
        self._arriving: OrderedDict[int, _Sent] = OrderedDict()  # of no known arrival
        self._arrivals: deque[_Arrival] = deque()  # the last ones
        self._offsets: deque[tuple[float, float]] = deque()  # when; arrival there minus departure here
        self._trips: deque[tuple[float, float]] = deque()  # when; departure until acknowledgement
        self._rate: float | None = None
        self._knows_delay = False

    @property
    def bytes_in_flight(self) -> int:
        """Sent and not acknowledged."""
        return sum(sent.size for sent in self._in_flight.values())

    @property
    def rate(self) -> float | None:
        """Bytes per second, rather too few than too many; None while nothing is known."""
        return self._rate

    @property
    def delay(self) -> float | None:
        """Seconds from a departure to its acknowledgement at the best; None while nothing is known."""
        return min((trip for _, trip in self._trips), default=None)

    def seconds_for(self, size: int) -> float:
        """How long so many bytes keep the link busy; 0 while nothing is known."""
        return size / self._rate if self._rate else 0.0

    def queue(self, now: float) -> float:
        """Seconds until the link is done with what was sent; 0 while nothing is known."""
        return max(self._done(list(self._in_flight.values())) - now, 0.0)

    @property
    def oldest_done(self) -> float:
        """When the link should be done with the oldest frame in flight; minus infinity without one."""
        return self._done(list(self._in_flight.values())[:1])

    def overdue(self, now: float) -> float:
        """By how many seconds the oldest acknowledgement is later than the estimate says; 0 while nothing is known."""
        if not self._in_flight or self._rate is None or self.delay is None:
            return 0.0
        return max(now - self.oldest_done - self.delay, 0.0)

    def sent(self, frame: int, size: int, now: float) -> None:
        """A frame of so many bytes goes out. Numbers ascend."""
        self._in_flight[frame] = self._arriving[frame] = _Sent(size, now)

    @property
    def knows_delay(self) -> bool:
        """Whether a message of no size was ever answered; without that no rate is known."""
        return self._knows_delay

    def pong(self, sent: float, arrived: float, now: float) -> None:
        """A message of no size, which left at ``sent``, arrived at ``arrived`` on the page's clock."""
        self._knows_delay = True
        self._keep_offset(arrived - sent, now)
        _keep(self._trips, now, now - sent, DELAY_SECONDS)

    def ack(self, frame: int, now: float, arrivals: Iterable[tuple[int, float]] = ()) -> None:
        """All frames up to this one have been dealt with.

        Arguments:
            arrivals: of the frames since the last acknowledgement: number, and seconds on the page's clock.
        """
        for number, when in arrivals:
            if number in self._arriving:
                self._arrived(self._arriving.pop(number), when, now)
        last = None
        while self._in_flight and next(iter(self._in_flight)) <= frame:
            last = self._in_flight.popitem(last=False)[1]
        while self._arriving and next(iter(self._arriving)) <= frame:
            self._arriving.popitem(last=False)
        if last is not None:
            _keep(self._trips, now, now - last.when, DELAY_SECONDS)

    def _done(self, frames: list[_Sent]) -> float:
        """When the link is done with frames that go one after the other, on this side's clock."""
        # From where it was with the last frame that is known to have arrived: a queue may have stood before it.
        done = self._arrivals[-1].when - self._offset if self._arrivals and self._rate else -math.inf
        for sent in frames:
            done = max(done, sent.when) + self.seconds_for(sent.size)
        return done

    @property
    def _offset(self) -> float:
        """What the page's clock shows beyond ours, and the delay."""
        return min((offset for _, offset in self._offsets), default=0.0)

    def _keep_offset(self, offset: float, now: float) -> None:
        if self._offsets and abs(offset - self._offsets[-1][1]) > CLOCKS_DIFFER_SECONDS:
            self._offsets.clear()
            self._arrivals.clear()
        _keep(self._offsets, now, offset, DELAY_SECONDS)

    def _arrived(self, sent: _Sent, when: float, now: float) -> None:
        before = self._offset
        self._keep_offset(when - sent.when, now)
        self._arrivals.append(arrival := _Arrival(sent, when))
        if self._offset == before:
            arrival.rate = self._rate_until(len(self._arrivals) - 1)
        else:
            for last, known in enumerate(self._arrivals):
                known.rate = self._rate_until(last)
        least, most = RATE_SAMPLES
        while len(self._arrivals) > most or (
            len(self._arrivals) > least and self._arrivals[0].when < when - RATE_SECONDS
        ):
            self._arrivals.popleft()
        if self._knows_delay:  # without it, the transmission of the smallest frame passes for delay
            self._rate = max(known.rate for known in self._arrivals)

    def _rate_until(self, last: int) -> float:
        """The best rate of the runs that end with this arrival."""
        offset, end = self._offset, self._arrivals[last].when
        size, best = 0, 0.0
        for index in range(last, -1, -1):
            first = self._arrivals[index]
            size += first.sent.size
            best = max(best, size / max(end - first.sent.when - offset, LEAST_SECONDS))
            # Where a queue stood before the run, it began with the end of the frame before. When that was noticed is less sure
            # than a departure, so it must be long ago.
            if index:
                before = self._arrivals[index - 1].when
                if end - before >= RUN_SECONDS and first.when - before >= APART_SECONDS:
                    best = max(best, size / (end - before))
        return best


def _keep(samples: deque[tuple[float, float]], now: float, value: float, seconds: float) -> None:
    samples.append((now, value))
    # The last one stays, however old it is: something is better than nothing.
    while len(samples) > 1 and samples[0][0] < now - seconds:
        samples.popleft()
