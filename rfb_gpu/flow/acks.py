"""Who is looking, and whether another frame may be sent.

State is kept per view and epoch. A page that reloads is a new view: what the old one left unacknowledged cannot hold it up. A view
that stays silent with frames in flight stops counting after a while; when it is heard again, it counts again.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

__all__ = ["Views"]

ACK_TIMEOUT_SECONDS = 1.0
"""How long the oldest frame in flight may stay unacknowledged, at least."""
ACK_TIMEOUT_ROUND_TRIPS = 4
ACK_TIMEOUT_MAX_SECONDS = 8.0
FORGET_SECONDS = 60.0
"""A view that was silent for so long, with frames to answer, is forgotten: its page is gone."""
MAX_VIEWS = 64


@dataclass
class _View:
    epoch: int
    visible: bool = False
    in_flight: OrderedDict[int, float] = field(default_factory=OrderedDict)  # frame id -> when sent
    strikes: int = 0  # times in a row that its frames timed out
    silent_since: float | None = None
    round_trip: float | None = None  # smoothed, seconds

    @property
    def timeout(self) -> float:
        base = max(ACK_TIMEOUT_SECONDS, ACK_TIMEOUT_ROUND_TRIPS * (self.round_trip or 0.0))
        return min(base * 2**self.strikes, ACK_TIMEOUT_MAX_SECONDS)

    @property
    def deadline(self) -> float | None:
        return next(iter(self.in_flight.values())) + self.timeout if self.in_flight else None


class Views:
    """The pages that show a canvas.

    Arguments:
        window: how many frames each may have unacknowledged.
    """

    def __init__(self, window: int = 3) -> None:
        if window < 1:
            raise ValueError(f"window must be 1 or more, not {window}")
        self.window = window
        self._views: OrderedDict[str, _View] = OrderedDict()

    def __len__(self) -> int:
        return len(self._views)

    def __contains__(self, view: str) -> bool:
        return view in self._views

    def hello(self, view: str, epoch: int) -> bool:
        """A page begins a conversation. False if it is an old one, overtaken by a newer hello of the same page."""
        known = self._views.get(view)
        if known is not None and known.epoch >= epoch:
            return False
        visible = known.visible if known is not None else False
        self._views[view] = _View(epoch, visible)
        self._views.move_to_end(view)
        while len(self._views) > MAX_VIEWS:
            self._views.popitem(last=False)
        return True

    def bye(self, view: str) -> None:
        """A page is gone."""
        self._views.pop(view, None)

    def set_visible(self, view: str, visible: bool) -> None:
        """A page shows the canvas, or no longer does."""
        if view in self._views:
            self._views[view].visible = visible

    def heard(self, view: str) -> None:
        """Any message of a page shows that it lives."""
        known = self._views.get(view)
        if known is not None:
            known.strikes, known.silent_since = 0, None
            self._views.move_to_end(view)  # when there are too many, those that were heard last stay

    def sent(self, frame: int, now: float, view: str | None = None) -> None:
        """A frame went out, to all views or to one."""
        for name, v in self._views.items():
            if view is None or name == view:
                v.in_flight[frame] = now

    def ack(self, view: str, epoch: int, frame: int, now: float) -> list[tuple[int, float]]:
        """A page has dealt with all frames up to ``frame``. Gives those that were waited for, with their round trips in seconds."""
        known = self._views.get(view)
        if known is None or known.epoch != epoch:
            return []
        answered: list[tuple[int, float]] = []
        while known.in_flight and next(iter(known.in_flight)) <= frame:
            answered_frame, when = known.in_flight.popitem(last=False)
            answered.append((answered_frame, now - when))
        for _, round_trip in answered:
            # RFC 6298's smoothing of round trips.
            known.round_trip = (
                round_trip if known.round_trip is None else 0.875 * known.round_trip + 0.125 * round_trip
            )
        return answered

    def may_send(self, now: float) -> bool:
        """Whether a new frame may be made: somebody looks, and everybody who answers has room in the window."""
        self._expire(now)
        visible = [v for v in self._views.values() if v.visible]
        lively = [v for v in visible if not v.strikes]
        if lively:
            return all(len(v.in_flight) < self.window for v in lively)
        # Nobody has answered of late: one frame at a time, to find out.
        return any(not v.in_flight for v in visible)

    def next_deadline(self, now: float) -> float | None:
        """When :meth:`may_send` may turn true without a message; None if it cannot."""
        deadlines = [v.deadline for v in self._views.values() if v.visible and v.deadline is not None]
        return max(min(deadlines), now) if deadlines else None

    def _expire(self, now: float) -> None:
        for name, v in list(self._views.items()):
            if v.deadline is not None and now >= v.deadline:
                v.in_flight.clear()
                v.strikes += 1
                v.silent_since = v.silent_since or now
            if v.silent_since is not None and now - v.silent_since > FORGET_SECONDS:
                del self._views[name]
