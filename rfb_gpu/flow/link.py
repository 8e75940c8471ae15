"""What a link carries, learned from when things arrive at the other end.

Ahead of a frame goes a message of next to no size, its *lead*; the page tells when it had each. However long a queue both had
to wait in, however far away the page is, and whatever its clock shows: what lies between the two arrivals is the frame's own
time on the link. A page that is busy notices either of them late, which evens out over a few frames; the slowest one is left
out, as it may have met a pause. (Packet pairs, but of pieces that differ in size, so that pauses of the page show as noise
and not as a rate.)

When the link will be done with what is under way follows from that rate, from the departures, and from how late the last lead
arrived compared to the quickest one seen. Pure logic; no clock but the ``now`` that callers pass in.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Link"]

RATE_SECONDS = 2.0
RATE_SAMPLES = 3, 12
"""A frame counts for the rate for so long, but of them so many at least and at most."""
ENOUGH_SECONDS = 0.1
"""The latest frames that took so long together tell the rate: on a slow link few, on a fast one many."""
LEAST_SECONDS = 0.0005
"""What takes less is not told apart by the clocks of browsers."""
DELAY_SECONDS = 60.0
"""How long the delay of a lead counts; the least is taken."""
LAGS = 8
"""How many answers tell how late an answer is on this link: so that a page that is farther away from now on is soon known."""
CLOCKS_DIFFER_SECONDS = 3600.0
"""Arrivals so far from what was seen before are another clock's."""
LEAD_SECONDS = 0.5
"""Frames that take next to no time need a lead only so often."""
LEAD_WORTH_SECONDS = 0.002


@dataclass(frozen=True)
class _Sent:
    size: int
    when: float
    due: float | None  # when the link should be done with it, if that was known


class Link:
    """The way to one page and back."""

    def __init__(self) -> None:
        self._in_flight: OrderedDict[int, _Sent] = OrderedDict()  # not acknowledged
        self._arriving: OrderedDict[int, _Sent] = OrderedDict()  # of no known arrival
        self._samples: deque[tuple[float, int, float]] = deque(maxlen=RATE_SAMPLES[1])  # when, bytes, seconds
        self._offsets: deque[tuple[float, float]] = deque()  # when; arrival there minus departure here
        self._lags: deque[float] = deque(maxlen=LAGS)  # seconds from when a frame was due until its answer
        self._last_arrival = -math.inf  # on the page's clock
        self._last_lead = -math.inf
        self._rate: float | None = None

    @property
    def bytes_in_flight(self) -> int:
        """Sent and not acknowledged."""
        return sum(sent.size for sent in self._in_flight.values())

    @property
    def rate(self) -> float | None:
        """Bytes per second; None while nothing is known."""
        return self._rate

    def seconds_for(self, size: int) -> float:
        """How long so many bytes keep the link busy; 0 while nothing is known."""
        return size / self._rate if self._rate else 0.0

    def queue(self, now: float) -> float:
        """Seconds until the link is done with what was sent; 0 while nothing is known."""
        return max(self._done(list(self._in_flight.values())) - now, 0.0)

    @property
    def oldest_sent(self) -> float | None:
        """When the oldest frame in flight was sent; None without one."""
        return next(iter(self._in_flight.values())).when if self._in_flight else None

    @property
    def oldest_done(self) -> float:
        """When the link should be done with the oldest frame in flight; minus infinity without one."""
        return self._done(list(self._in_flight.values())[:1])

    def overdue(self, now: float) -> float:
        """By how many seconds an answer is late, or the last one was, compared to the last few; 0 while nothing is known."""
        if not self._in_flight or not self._lags:
            return 0.0
        usual = sorted(self._lags)[len(self._lags) // 2]
        return max(now - self.oldest_done, self._lags[-1]) - usual

    def wants_lead(self, size: int, now: float) -> bool:
        """Whether a lead shall go ahead of a frame of so many bytes."""
        return (
            self._rate is None
            or self.seconds_for(size) >= LEAD_WORTH_SECONDS
            or now - self._last_lead >= LEAD_SECONDS
        )

    def sent(self, frame: int, size: int, now: float, *, lead: bool = False) -> None:
        """A frame of so many bytes goes out, behind a lead or without. Numbers ascend."""
        due = None if self._rate is None else now + self.queue(now) + self.seconds_for(size)
        self._in_flight[frame] = self._arriving[frame] = _Sent(size, now, due)
        if lead:
            self._last_lead = now

    def ack(self, frame: int, now: float, arrivals: Iterable[tuple[int, float, float | None]] = ()) -> None:
        """All frames up to this one have been dealt with.

        Arguments:
            arrivals: of the frames since the last acknowledgement: number, when it arrived and when its lead did, in seconds
                on the page's clock; None without a lead.
        """
        for number, when, lead in arrivals:
            if number in self._arriving:
                self._arrived(self._arriving.pop(number), when, lead, now)
        last = None
        while self._in_flight and next(iter(self._in_flight)) <= frame:
            last = self._in_flight.popitem(last=False)[1]
        while self._arriving and next(iter(self._arriving)) <= frame:
            self._arriving.popitem(last=False)
        if last is not None and last.due is not None:
            self._lags.append(now - last.due)

    def _arrived(self, sent: _Sent, when: float, lead: float | None, now: float) -> None:
        offset = (when if lead is None else lead) - sent.when
        if self._offsets and abs(offset - self._offsets[-1][1]) > CLOCKS_DIFFER_SECONDS:
            self._offsets.clear()
        self._offsets.append((now, offset))
        while self._offsets[0][0] < now - DELAY_SECONDS:
            self._offsets.popleft()
        self._last_arrival = when
        if lead is not None and sent.size > 0:
            self._samples.append((now, sent.size, max(when - lead, 0.0)))
            while len(self._samples) > RATE_SAMPLES[0] and self._samples[0][0] < now - RATE_SECONDS:
                self._samples.popleft()
            self._rate = self._measured_rate()

    def _measured_rate(self) -> float:
        slowest = -1
        if len(self._samples) >= RATE_SAMPLES[0]:
            slowest = max(range(len(self._samples)), key=lambda i: self._samples[i][2] / self._samples[i][1])
        count, total, seconds = 0, 0, 0.0
        for index in range(len(self._samples) - 1, -1, -1):
            if index != slowest:
                count += 1
                total += self._samples[index][1]
                seconds += self._samples[index][2]
                if seconds >= ENOUGH_SECONDS and count >= RATE_SAMPLES[0] - 1:
                    break
        return total / max(seconds, count * LEAST_SECONDS)

    def _done(self, frames: list[_Sent]) -> float:
        """When the link is done with frames that go one after the other, on this side's clock."""
        # From where it was with the last frame that is known to have arrived: a queue may have stood before it.
        done = -math.inf
        if self._rate is not None and self._offsets:
            done = self._last_arrival - min(offset for _, offset in self._offsets)
        for sent in frames:
            done = max(done, sent.when) + self.seconds_for(sent.size)
        return done
