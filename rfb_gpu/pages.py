"""The pages that show a canvas: who they are, what they say, and what they are told besides frames.

What a page says is put in order, one page at a time, and handled on the canvas's loop: this keeps who is there, tells the audiences
and the sharpener what was acknowledged, decides by :class:`.flow.Control` whose events count, and hands those to the canvas.
It sends no frames and makes no draws.
"""

from __future__ import annotations

import gc
import logging
import math
import time
from typing import TYPE_CHECKING, Any

from . import lifetime
from ._version import __version__
from .audience import Audiences
from .flow import PROTOCOL_VERSION, Control, Inbox, ProtocolError, parse_message
from .flow.protocol import (
    Ack,
    Bye,
    ControlRequest,
    DecoderReport,
    Event,
    Hello,
    Message,
    Ping,
    RoadReport,
    Visibility,
    again_message,
    control_message,
    error_message,
    pong_message,
    welcome_message,
)
from .roads import Roads
from .transport import Link

if TYPE_CHECKING:
    from .canvas import StreamingCanvas

__all__ = ["Pages"]

logger = logging.getLogger("rfb_gpu")

COLLECT_SECONDS = 0.1
MAX_INBOXES = 64
AGAIN_SECONDS = 1.0
"""A page that is not known is asked to say hello at most so often."""


class Pages:
    """Of one canvas.

    Arguments:
        audiences: that the pages belong to.
        roads: that they are reached by.

    Attributes:
        hosts: by page, what it is in: "JupyterLab", "marimo" and so on. Those that are there.
        decoders: by page, what decodes there.
        control: whose events count.
    """

    def __init__(self, canvas: StreamingCanvas, audiences: Audiences, roads: Roads) -> None:
        self._canvas = canvas
        self._audiences = audiences
        self._roads = roads
        self.hosts: dict[str, str] = {}
        self.decoders: dict[str, DecoderReport] = {}
        self.control = Control(audiences)
        self._told_control: str | None = None
        self._inboxes: dict[str, Inbox] = {}  # least recently heard first
        self._asked_again: dict[str, float] = {}
        self._to_greet: set[str] = set()
        self._badges: dict[str, str] = {}

    # ----- for the canvas

    def describe(self) -> str:
        """For people: each page's decoder and road, and why."""
        lines = [
            f"{self.hosts.get(view, 'a page')} decodes with {': '.join(filter(None, (report.name, report.method)))} "
            f"({report.reason}; {report.adapter or 'no adapter'}), frames come {self._roads.describe(view)}"
            for view, report in list(self.decoders.items())
        ]
        return "; ".join(lines) or "no page yet"

    @property
    def is_greeting(self) -> bool:
        """Whether a page is about to get the last picture, because it has come."""
        return bool(self._to_greet)

    def tell_all(self, message: dict[str, Any]) -> None:
        """Sends what is not of the flow of frames to all pages; those that it is not for ignore it."""
        self._roads.broadcast(message, self._canvas.send)

    def set_badge(self, code: str, text: str) -> None:
        """Has all pages show a line of text, those to come as well; an empty one takes it away."""
        if self._badges.get(code, "") != text:
            self._badges[code] = text
            if not text:
                del self._badges[code]
            self.tell_all(error_message(code, text))

    def close(self) -> None:
        """The canvas closes. Pages that have no comm keep their last picture without it; the others need the widget for that."""
        self._canvas.send({"type": "closed"})
        for view in filter(self._roads.is_alone, list(self.hosts)):
            del self.hosts[view]

    # ----- what pages say

    def receive(self, content: Any, link: Link | None) -> None:
        """Takes a message, by a websocket or, without a link, by the comm."""
        try:
            message = parse_message(content)
        except ProtocolError as error:
            logger.debug("message ignored: %s", error)
            return
        if message is None:
            return
        inbox = self._inboxes.pop(message.view, None) or Inbox()
        self._inboxes[message.view] = inbox
        if len(self._inboxes) > MAX_INBOXES:
            self.forget(next(iter(self._inboxes)))
        self._handle_all(message.view, inbox, inbox.push(message, time.perf_counter()), link)

    def expire(self) -> None:
        """Handles what has waited too long for a message that did not come."""
        for view in list(self._inboxes):
            self._expire_inbox(view)

    def lose(self, link: Link) -> None:
        """A websocket broke. A page that lives says hello over the comm; one that is gone must hold nothing up."""
        for view in self._roads.views_of(link):
            self.forget(view)
        self._audiences.lose(link)

    def forget(self, view: str) -> None:
        """A page is gone."""
        self._audiences.bye(view)
        self.control.leave(view)
        self._follow_control()
        self._roads.forget(view)
        self._inboxes.pop(view, None)
        self._asked_again.pop(view, None)
        self.hosts.pop(view, None)
        self.decoders.pop(view, None)

    def _expire_inbox(self, view: str) -> None:
        inbox = self._inboxes.get(view)
        if inbox is not None:
            self._handle_all(view, inbox, inbox.expire(time.perf_counter()))
            self._canvas._rfb_flush()

    def _handle_all(self, view: str, inbox: Inbox, messages: list[Message], link: Link | None = None) -> None:
        for message in messages:
            try:
                self._handle(message, link)
            except Exception:
                logger.exception("a message of the page could not be handled: %s", message)
        if inbox.deadline is not None:
            self._canvas._rfb_call_later(inbox.deadline - time.perf_counter(), self._expire_inbox, view)

    def _handle(self, message: Message, link: Link | None) -> None:
        canvas = self._canvas
        if canvas._is_closed:
            self._handle_closed(message)
            return
        now = time.perf_counter()
        audience = self._audiences.of(message.view)
        if audience is None and not isinstance(message, (Hello, Bye)):
            # Forgotten, or of another version: nothing of it counts until it has said hello.
            if now - self._asked_again.get(message.view, -math.inf) >= AGAIN_SECONDS:
                self._asked_again[message.view] = now
                self.tell_all(again_message(message.view))
            return
        match message:
            case Hello():
                # The first of its epoch, so it was not kept waiting: it came by this link.
                self._handle_hello(message, link)
            case Bye():
                self.forget(message.view)
                if message.unseen and not self.hosts:
                    lifetime.let_go(canvas._rfb_widget)
                    # What it draws hangs together in circles, and its memory is the GPU's, of which Python knows nothing.
                    canvas._rfb_call_later(COLLECT_SECONDS, _collect)
        if audience is None:
            return
        audience.views.heard(message.view)
        match message:
            case Visibility():
                audience.views.set_visible(message.view, message.visible)
                if message.visible and canvas._rfb_last is None:
                    canvas.request_draw()
            case Ack():
                answered = audience.views.ack(
                    message.view,
                    message.epoch,
                    message.frame,
                    now,
                    arrivals=message.arrivals,
                    waits=message.waits,
                    turns=message.turns,
                )
                canvas._rfb_count_acks(message, answered)
                audience.sharpener.acknowledged(message, answered)
            case DecoderReport():
                self.decoders[message.view] = message
            case RoadReport():
                self._roads.explain(message.view, message.reason)
                self._complain_of_road(message.view)
            case Event():
                counts = self.control.admits(message.view, message.event)
                self._follow_control()
                if counts:
                    canvas._rfb_handle_event(dict(message.event))
            case ControlRequest():
                self.control.ask(message.view)
                self._follow_control()
            case Ping():
                self._roads.tell(message.view, pong_message(message.view), canvas.send)

    def _handle_closed(self, message: Message) -> None:
        """The comm outlives the canvas while pages show its last picture: with the comm, hosts take that away."""
        if isinstance(message, Hello):
            self.hosts[message.view] = message.host
            self._canvas.send({"type": "closed"})
        elif isinstance(message, Bye):
            self.hosts.pop(message.view, None)
            if message.unseen and not self.hosts:
                lifetime.close(self._canvas._rfb_widget)

    def _handle_hello(self, hello: Hello, link: Link | None) -> None:
        canvas = self._canvas
        if hello.version != PROTOCOL_VERSION:
            text = (
                f"the page runs rfb_gpu {hello.frontend or 'of an unknown release'} and the kernel {__version__}, which do not "
                "understand each other: restart the kernel and reload the page"
            )
            self.tell_all(error_message("version", text, hello.view))
            return
        if not self._audiences.hello(hello.view, hello.epoch, link):
            return
        audience = self._audiences.of(hello.view)
        assert audience is not None
        lifetime.hold(canvas._rfb_widget)
        self.hosts[hello.view] = hello.host
        self._roads.begin(hello.view, link, hello.host)
        offer = self._roads.offer() if link is None else None
        welcome = welcome_message(
            hello.view, hello.epoch, __version__, audience.views.window(hello.view), offer
        )
        if link is None:
            canvas.send(welcome)
        else:
            link.send(welcome)
        self._complain_of_road(hello.view)
        for code, text in self._badges.items():
            self.tell_all(error_message(code, text))
        self.control.come(hello.view, takes_by_use=self._roads.has_comm(link))
        self._told_control = None  # the new page has not been told
        self._follow_control()
        # The last picture at once, so that a page that reloads never waits for a draw; but once for many hellos.
        if hello.view not in self._to_greet:
            self._to_greet.add(hello.view)
            canvas._rfb_call_later(0, self._greet, hello.view)

    def _greet(self, view: str) -> None:
        self._to_greet.discard(view)
        audience = self._audiences.of(view)
        if audience is not None and not self._canvas._is_closed:
            audience.greet(view)
            self._canvas._rfb_flush()

    def _complain_of_road(self, view: str) -> None:
        complaint = self._roads.complaint(view)
        if complaint is not None:
            self.tell_all(error_message("road", complaint, view))

    def _follow_control(self) -> None:
        """Tells pages when another one is in control, and gives the canvas its size."""
        holder = self.control.holder
        if holder is None or holder == self._told_control:
            return
        self._told_control = holder
        self.tell_all(control_message(holder))
        if self.control.size is not None:
            self._canvas._rfb_handle_event(dict(self.control.size))


def _collect() -> None:
    gc.collect()
