"""Who is looking, and whether another frame may be sent.

State is kept per view and epoch. A page that reloads is a new view: what the old one left unacknowledged cannot hold it up. A view
that stays silent with frames in flight stops counting after a while; when it is heard again, it counts again.

Two things bound what is under way to a page: the bytes that its link carries within the latency budget (:mod:`.link`), and the
frames that it can show, and when (:mod:`.window`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from .link import Link
from .window import FrameWindow

__all__ = ["Views"]

ACK_TIMEOUT_SECONDS = 1.0
"""How long the oldest frame in flight may stay unacknowledged once its link should be done with it, at least."""
ACK_TIMEOUT_ROUND_TRIPS = 4
ACK_TIMEOUT_MAX_SECONDS = 8.0
FIRST_ANSWER_SECONDS = 5.0
FORGET_SECONDS = 60.0
"""A view that was silent for so long, with frames to answer, is forgotten: its page is gone."""
MAX_VIEWS = 64
QUEUE_SHARE = 0.25
"""Of the latency budget, for what is before a frame on its link."""
OVERDUE_SHARE = 0.5
"""An answer that is so late, as a share of the latency budget, stops what would follow. Answers wait up to 25 ms for each other."""


@dataclass
class _View:
    epoch: int
    window: FrameWindow
    visible: bool = False
    in_flight: OrderedDict[int, float] = field(default_factory=OrderedDict)  # frame id -> when sent
    strikes: int = 0  # times in a row that its frames timed out
    lost: bool = False  # the last frame that it was sent was one of those
    silent_since: float | None = None
    round_trip: float | None = None  # smoothed, seconds
    link: Link = field(default_factory=Link)

    @property
    def timeout(self) -> float:
        base = max(ACK_TIMEOUT_SECONDS, ACK_TIMEOUT_ROUND_TRIPS * (self.round_trip or 0.0))
        return min(base * 2**self.strikes, ACK_TIMEOUT_MAX_SECONDS)

    @property
    def deadline(self) -> float | None:
        if not self.in_flight:
            return None
        return max(next(iter(self.in_flight.values())), self.link.oldest_done) + self.timeout


class Views:
    """The pages that get the same frames.

    Arguments:
        window: how many frames each may have unacknowledged; None: what it shows while a frame is under way, and a few.
        latency_budget: seconds that what is in flight may keep a link busy; beyond, new frames wait. None: only the window counts.
    """

    def __init__(self, window: int | None = None, latency_budget: float | None = None) -> None:
        if window is not None and window < 1:
            raise ValueError(f"window must be 1 or more, not {window}")
        self._fixed_window = window
        self.latency_budget = latency_budget
        self._views: OrderedDict[str, _View] = OrderedDict()

    def set_window(self, window: int | None) -> None:
        """Of all pages, from now on."""
        if window != self._fixed_window:
            self._fixed_window = window
            for view in self._views.values():
                view.window = FrameWindow(window)

    def __len__(self) -> int:
        return len(self._views)

    def __contains__(self, view: object) -> bool:
        return view in self._views

    def hello(self, view: str, epoch: int) -> bool:
        """A page begins a conversation. False if it is an old one, overtaken by a newer hello of the same page."""
        known = self._views.get(view)
        if known is not None and known.epoch >= epoch:
            return False
        visible = known.visible if known is not None else False
        self._views[view] = _View(epoch, FrameWindow(self._fixed_window), visible)
        self._views.move_to_end(view)
        while len(self._views) > MAX_VIEWS:
            self._views.popitem(last=False)
        return True

    def epoch(self, view: str) -> int:
        """The conversation that a view is in."""
        return self._views[view].epoch

    def is_visible(self, view: str) -> bool:
        """Whether a view looks."""
        return self._views[view].visible

    @property
    def attention(self) -> int:
        """2 while somebody looks and answers, 1 while somebody looks, else 0."""
        looking = [v for v in self._views.values() if v.visible]
        return 2 if any(not v.strikes for v in looking) else int(bool(looking))

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

    def window(self, view: str | None = None) -> int:
        """How many frames a view may have unacknowledged; without a view, the smallest of those who look."""
        views = [v for name, v in self._views.items() if name == view or (view is None and v.visible)]
        return min((v.window.size for v in views), default=FrameWindow(self._fixed_window).size)

    @property
    def rate(self) -> float | None:
        """Bytes per second of the slowest link to somebody who looks; None while nothing is known."""
        rates = [v.link.rate for v in self._watching() if v.link.rate is not None]
        return min(rates, default=None)

    def due_leads(self, size: int, now: float) -> list[str]:
        """The views that shall have a lead ahead of a frame of ``size`` bytes: see :class:`.link.Link`."""
        return [name for name, v in self._views.items() if v.link.wants_lead(size, now)]

    def drawn(self, now: float) -> None:
        """The draw of a frame begins, which is made for these views."""
        for v in self._views.values():
            v.window.drawn(now)

    def sent(
        self,
        frame: int,
        now: float,
        view: str | None = None,
        *,
        began: float | None = None,
        size: int = 0,
        leads: Collection[str] = (),
    ) -> None:
        """A frame of ``size`` bytes, whose draw began at ``began``, went out to all views or to one.

        To those of ``leads`` it went behind a lead.
        """
        for name, v in self._views.items():
            if view is None or name == view:
                v.in_flight[frame] = now
                v.lost = False
                v.window.sent(frame, now, began)
                v.link.sent(frame, size, now, lead=name in leads)

    def written(self, frame: int) -> None:
        """A frame needs this process no more: the system has it."""
        for v in self._views.values():
            v.window.written(frame)

    def ack(
        self,
        view: str,
        epoch: int,
        frame: int,
        now: float,
        *,
        arrivals: Iterable[tuple[int, float, float | None]] = (),
        waits: Iterable[float] = (),
        turns: Iterable[float | None] = (),
    ) -> list[tuple[int, float]]:
        """A page has dealt with all frames up to ``frame``. Gives those that were waited for, with their round trips in seconds.

        Arguments:
            arrivals: of frames: number, when it arrived and when its lead did, in seconds on the page's clock; None without a lead.
            waits, turns: of the page, in seconds: see :meth:`.window.FrameWindow.ack`.
        """
        known = self._views.get(view)
        if known is None or known.epoch != epoch:
            return []
        known.link.ack(frame, now, arrivals)
        known.window.ack(frame, now, waits, turns)
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

    def may_send(self, now: float, coming: int = 0, coming_bytes: int = 0) -> bool:
        """Whether a new frame may be made: somebody looks, and everybody who answers has room.

        Arguments:
            coming: how many frames are being made, but not sent yet.
            coming_bytes: how many bytes those will have, all together.
        """
        self._expire(now)
        visible = [v for v in self._views.values() if v.visible]
        lively = [v for v in visible if not v.strikes]
        if lively:
            return all(self._has_room(v, now, coming, coming_bytes) for v in lively)
        # Nobody has answered of late: one frame at a time, to find out.
        return not coming and any(not v.in_flight for v in visible)

    def awaited_until(self, now: float) -> float | None:
        """Until when somebody who looks may yet answer for a frame; None if no answer is missing.

        The first answer is waited for longer than others: before it, nothing is known of the link.
        """
        self._expire(now)
        times = []
        for v in self._watching():
            if v.deadline is not None:
                times.append(v.deadline)
            elif v.link.rate is None and v.link.oldest_sent is not None:
                times.append(v.link.oldest_sent + FIRST_ANSWER_SECONDS)
        return max((when for when in times if when > now), default=None)

    def take_lost(self, now: float) -> list[str]:
        """The views that look, but did not answer for their last frame in time. Each is named once."""
        self._expire(now)
        lost = [name for name, v in self._views.items() if v.visible and v.lost]
        for name in lost:
            self._views[name].lost = False
        return lost

    def next_loss(self) -> float | None:
        """When :meth:`take_lost` may name one without a message; None if no answer is missing."""
        return min(
            (v.deadline for v in self._views.values() if v.visible and v.deadline is not None), default=None
        )

    def next_deadline(self, now: float, coming: int = 0) -> float | None:
        """When :meth:`may_send` may turn true without a message; None if it cannot. ``coming`` as there."""
        deadlines = [v.deadline for v in self._views.values() if v.visible and v.deadline is not None]
        deadlines += [when for v in self._watching() if (when := v.window.earliest_draw(coming)) > now]
        if self.latency_budget is not None:
            for v in self._watching():
                if (
                    len(v.in_flight) < v.window.size
                    and (wait := v.link.queue(now) - self.latency_budget * QUEUE_SHARE) > 0
                ):
                    deadlines.append(now + wait)
        return max(min(deadlines), now) if deadlines else None

    def seconds_for(self, size: int) -> float:
        """How long so many bytes take on the slowest link to somebody who looks; 0 while nothing is known."""
        return max((v.link.seconds_for(size) for v in self._watching()), default=0.0)

    def _watching(self) -> list[_View]:
        """Who looks and answers, or if nobody answers, who looks."""
        visible = [v for v in self._views.values() if v.visible]
        return [v for v in visible if not v.strikes] or visible

    def _has_room(self, view: _View, now: float, coming: int, coming_bytes: int) -> bool:
        if len(view.in_flight) + coming >= view.window.size or now < view.window.earliest_draw(coming):
            return False
        if self.latency_budget is None or not len(view.in_flight) + coming:
            return True
        # A link that has got slower is known by answers that stay away, before any comes.
        queue = view.link.queue(now) + view.link.seconds_for(coming_bytes)
        return (
            queue <= self.latency_budget * QUEUE_SHARE
            and view.link.overdue(now) <= self.latency_budget * OVERDUE_SHARE
        )

    def _expire(self, now: float) -> None:
        for name, v in list(self._views.items()):
            if v.deadline is not None and now >= v.deadline:
                v.window.forget()
                v.in_flight.clear()  # its link still waits: a late answer tells how slow it is
                v.strikes += 1
                v.lost = True
                v.silent_since = v.silent_since or now
            if v.silent_since is not None and now - v.silent_since > FORGET_SECONDS:
                del self._views[name]
