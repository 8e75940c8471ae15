"""Who gets the same files: all pages that the notebook's own channel reaches, or the page of one websocket.

Each audience has a flow of its own: what its links carry, how fine its frames are, and its sharp picture when drawing rests. A draw
is made for one of them, in its rhythm and quality: for that of the page in control, while it looks and answers. The others follow:
each gets what was drawn last as soon as it has room, encoded once more if its link affords another quality. So a slow page is shown
less, and nobody waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .codecs import EncodedFrame
from .flow import CodecChoice, QualityPolicy, Settings, Views
from .flow.protocol import frame_message, lead_message
from .flow.stripes import Part
from .readback import GPUFuture
from .sharpener import Sharpener, settings_of
from .transport import Link

if TYPE_CHECKING:
    from .canvas import StreamingCanvas

__all__ = ["Audience", "Audiences", "Limits"]

PRECEDENCE_SECONDS = 0.05
"""So long after a draw the next one is left to the page in control. Then any page that has room gets one."""


@dataclass(frozen=True)
class Limits:
    """Of quality and of what is under way: see the arguments of :class:`.widget.RenderCanvas`."""

    floor: int
    ceiling: int
    codec: str
    subsampling: str
    latency_budget: float | None
    window: int | None
    lossless_delay: float | None

    @property
    def is_lossless(self) -> bool:
        """Whether all frames are."""
        return self.codec == "png" or (self.codec == "auto" and self.floor == 100)

    def policy(self) -> QualityPolicy:
        """Of one audience."""
        if self.is_lossless:
            return QualityPolicy(100, 100, "444")
        if self.latency_budget is None:
            return QualityPolicy(self.ceiling, self.ceiling, self.subsampling)
        return QualityPolicy(self.floor, self.ceiling, self.subsampling, self.latency_budget)

    def codec_choice(self) -> CodecChoice | None:
        """Of one audience; None: there is no choice."""
        return CodecChoice(self.latency_budget) if self.codec == "auto" and not self.is_lossless else None


@dataclass(frozen=True)
class Sent:
    """A whole frame that was sent."""

    number: int
    frame: EncodedFrame
    fit: str
    final: bool


class Audience:
    """Of one canvas.

    Arguments:
        link: the websocket of its page; None: the notebook's own channel.
        limits: of the canvas.
    """

    def __init__(self, canvas: StreamingCanvas, link: Link | None, limits: Limits) -> None:
        self._canvas = canvas
        self.link = link
        self.views = Views(limits.window, limits.latency_budget)
        self.limit(limits)
        self.sharpener = Sharpener(canvas, self, limits.lossless_delay)
        self.coming = 0
        """How many frames are being encoded for it."""
        self.draw = 0
        """Of which draw the newest frame is that was sent."""
        self.last: Sent | None = None
        self.last_lossy: EncodedFrame | None = None
        """That came from a draw, in whatever codec, and not from the sharpener."""
        self._is_following = False

    def limit(self, limits: Limits) -> None:
        """Of the frames from now on."""
        self._limits = limits
        self.policy = limits.policy()
        self.codec_choice = limits.codec_choice()
        self.views.set_window(limits.window)

    def has_room(self, now: float) -> bool:
        """Whether a new frame may be made for it."""
        coming_bytes = self.coming * len(self.last_lossy) if self.last_lossy is not None else 0
        return self.views.may_send(now, self.coming, coming_bytes)

    def next_deadline(self, now: float) -> float | None:
        """When :meth:`has_room` may turn true without a message; None if it cannot."""
        return self.views.next_deadline(now, self.coming)

    def choose(self, now: float) -> Settings | None:
        """How its next frame is encoded; None: without loss."""
        last, rate = self.last_lossy, self.views.rate
        if last is not None and last.codec == "jpeg":
            self.policy.choose(now, rate, len(last), settings_of(last))
        if self._limits.is_lossless:
            return None
        choice = self.codec_choice
        if choice is not None and self._canvas._rfb_is_quickly_lossless() and choice.choose(rate):
            return None
        return self.policy.settings

    @property
    def can_be_sharper(self) -> bool:
        """Whether what was sent last has lost something."""
        return not self._limits.is_lossless and (self.last_lossy is None or self.last_lossy.codec == "jpeg")

    @property
    def is_behind(self) -> bool:
        """Whether there is a newer picture than it has."""
        return self.draw < self._canvas._rfb_picture or self._is_following

    def follow(self, now: float) -> None:
        """Brings it up to date with what was drawn for another, if it has room."""
        canvas = self._canvas
        if self.coming or not self.is_behind:
            return
        if not self.has_room(now):
            canvas._rfb_wakeup.at(self.next_deadline(now))
            return
        settings = self.choose(now)
        if not canvas._rfb_can_encode(settings):
            return
        draw, future = canvas._rfb_draws, canvas._rfb_encode(settings)
        if future is None:
            return
        self._is_following = True
        self.coming += 1

        def deliver(future: GPUFuture[EncodedFrame]) -> None:
            self._is_following = False
            self.coming -= 1
            if canvas._is_closed:
                return
            error = future.exception()
            if error is not None:
                canvas._rfb_encoding_failed(error)
            elif draw > self.draw:  # else it has got something newer meanwhile
                self.show(future.result(), draw)
                self.sharpener.begin_again()
            canvas._rfb_flush()

        future.add_done_callback(deliver)

    def show(self, frame: EncodedFrame, draw: int, *, began: float | None = None) -> None:
        """Sends what came from a draw, which began at ``began`` if it was made for this audience."""
        self.draw = draw
        self.last_lossy = frame
        if self.codec_choice is not None and frame.codec == "png":
            self.codec_choice.sent(len(frame))
        self.deliver(frame, final=False, began=began)

    def deliver(
        self, frame: EncodedFrame, *, final: bool, began: float | None = None, part: Part | None = None
    ) -> int:
        """Sends a frame under a number of its own, which it gives."""
        canvas = self._canvas
        sent = Sent(canvas._rfb_next_number(), frame, canvas._rfb_fit, final)
        if part is None:
            self.last = canvas._rfb_last = sent
            self.sharpener.base = sent.number
        if len(self.views):
            is_lossy = part is None and not final
            now = time.perf_counter()
            self._send(sent, began=began, part=part)
            canvas._rfb_count_sent(self, sent, is_lossy, now)
        return sent.number

    def close(self) -> None:
        """Nothing more is sent."""
        self.last = self.last_lossy = None
        self.sharpener.stop()

    def greet(self, view: str) -> None:
        """A page has come: it gets the last picture."""
        newest = self._canvas._rfb_last
        if newest is None:
            return
        if self.last is not None and not self.is_behind:
            self._send(self.last, view)
            newest = self.last
        else:
            self.draw = self._canvas._rfb_picture
            self.deliver(newest.frame, final=newest.final)
        if not newest.final:
            self.sharpener.begin_again()

    def send_lost(self, now: float) -> None:
        """Sends the last picture again to pages that did not answer for it, unless a better one is on its way.

        Only of the notebook's own channel: a websocket breaks, but loses nothing.
        """
        if self.link is None and self.sharpener.is_done:
            for view in self.views.take_lost(now):
                self.greet(view)

    def _send(
        self, sent: Sent, view: str | None = None, *, began: float | None = None, part: Part | None = None
    ) -> None:
        """To all of it, or to one page."""
        if view is not None:
            self.sharpener.base = None  # for this page it is a frame of another number
        canvas, frame = self._canvas, sent.frame
        whole = frame if part is None or self.last is None else self.last.frame
        now, size = time.perf_counter(), len(frame)
        leads = [name for name in self.views.due_leads(size, now) if view in (None, name)]
        for name in leads:
            canvas._rfb_roads.tell(name, lead_message(sent.number, name), canvas.send)
        self.views.sent(sent.number, now, view, began=began, size=size, leads=leads)
        message = frame_message(
            sent.number,
            codec=frame.codec,
            width=whole.width,
            height=whole.height,
            fit=sent.fit,
            final=sent.final or (frame.codec == "png" and part is None),
            quality=frame.quality,
            subsampling=frame.subsampling,
            scale=frame.scale,
            window=self.views.window(view),
            view=view,
            part=part,
            alpha=frame.alpha_start if canvas._rfb_has_alpha else None,
        )
        canvas._rfb_roads.send(message, frame.view, self.link, canvas.send)
        if self.link is None:
            canvas._rfb_wakeup.at(self.views.next_loss())


class Audiences:
    """All of one canvas: that of the notebook's channel, always, and one for each websocket."""

    def __init__(self, canvas: StreamingCanvas, limits: Limits) -> None:
        self._canvas = canvas
        self._limits = limits
        self._by_comm = Audience(canvas, None, limits)
        self._by_link: dict[Link, Audience] = {}

    def __iter__(self) -> Iterator[Audience]:
        yield self._by_comm
        yield from list(self._by_link.values())

    def __len__(self) -> int:
        """How many pages there are."""
        return sum(len(audience.views) for audience in self)

    def __contains__(self, view: object) -> bool:
        return any(view in audience.views for audience in self)

    def of(self, view: str) -> Audience | None:
        """That a page belongs to."""
        return next((audience for audience in self if view in audience.views), None)

    @property
    def limits(self) -> Limits:
        """Of all of them."""
        return self._limits

    def limit(self, limits: Limits) -> None:
        """Of the frames from now on."""
        if limits != self._limits:
            self._limits = limits
            for audience in self:
                audience.limit(limits)

    def hello(self, view: str, epoch: int, link: Link | None) -> bool:
        """A page begins an epoch, by this road. False if it is an old one, overtaken by a newer hello of the same page."""
        known = self.of(view)
        visible = False
        if known is not None and known.link is not link:
            if known.views.epoch(view) >= epoch:
                return False
            visible = known.views.is_visible(view)
            self.bye(view)
        if link is None:
            audience = self._by_comm
        else:
            audience = self._by_link.get(link) or Audience(self._canvas, link, self._limits)
            self._by_link[link] = audience
        if not audience.views.hello(view, epoch):
            return False
        if visible:
            audience.views.set_visible(view, True)
        return True

    def bye(self, view: str) -> None:
        """A page is gone."""
        audience = self.of(view)
        if audience is None:
            return
        audience.views.bye(view)
        if audience.link is not None and not len(audience.views):
            self.lose(audience.link)

    def written(self, frame: int, link: Link) -> None:
        """A frame was handed to a websocket."""
        if (audience := self._by_link.get(link)) is not None:
            audience.views.written(frame)

    def lose(self, link: Link) -> None:
        """A websocket is gone, or its page."""
        if (audience := self._by_link.pop(link, None)) is not None:
            audience.close()

    def leading(self, holder: str | None) -> Audience:
        """The one that draws are made for: that of the page in control, or if that does not look or answer, of one that does."""
        of_holder = self.of(holder) if holder is not None else None
        first = sorted(self, key=lambda audience: audience is not of_holder)
        return max(first, key=lambda audience: audience.views.attention)

    def with_room(self, leading: Audience, now: float, drawn: float) -> Audience | None:
        """Whom to draw for now, after the last draw was made at ``drawn``."""
        if leading.has_room(now):
            return leading
        if now - drawn < PRECEDENCE_SECONDS:
            return None
        return next((other for other in self._others(leading) if other.has_room(now)), None)

    def next_deadline(self, leading: Audience, now: float, drawn: float) -> float | None:
        """When :meth:`with_room` may have another answer without a message; None if it cannot."""
        deadlines = [leading.next_deadline(now)]
        for other in self._others(leading):
            when = now if other.has_room(now) else other.next_deadline(now)
            if when is not None and (when := max(when, drawn + PRECEDENCE_SECONDS)) > now:
                deadlines.append(when)
        return min((when for when in deadlines if when is not None), default=None)

    def close(self) -> None:
        """Forgets all that was to be sent: the canvas is closed."""
        for audience in self:
            audience.close()

    def _others(self, leading: Audience) -> list[Audience]:
        return [other for other in self if other is not leading and other.views.attention == 2]
