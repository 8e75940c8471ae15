"""Which way frames go to each page of one canvas: by the notebook's own channel (the comm), or by a websocket of the page's.

The canvas tells what pages say; this remembers it, makes the offer that goes with a welcome, and sends frames by the road of each
page. One epoch of a page has one road, so nothing is ever mixed up. It never decides whether a frame is sent, and all but
the callbacks that it is given happens on the canvas's loop.
"""

from __future__ import annotations

import base64
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from .lifetime import weakly
from .transport import Link, Road, TransportError, open_road

__all__ = ["TRANSPORTS", "Roads"]

TRANSPORTS = ("auto", "comm", "websocket")

CURE = (
    "It needs a browser on the kernel's machine, or jupyter-server-proxy installed for the Jupyter server and for the kernel; "
    'transport="auto" does without it'
)


@dataclass
class _Page:
    link: Link | None  # None: the comm
    host: str
    reason: str = ""  # why it is the comm, in the page's own words


class Roads:
    """The roads of one canvas.

    Arguments:
        transport: "auto", "comm" (nothing listens), or "websocket" (as auto, but pages complain where it cannot be had).
        on_message, on_lost: methods, see :func:`.transport.open_road`; their object is not kept alive.
        on_written: likewise, called with a frame's number and a link when the frame was handed to the link's socket.
    """

    def __init__(
        self,
        transport: str,
        on_message: Callable[[Any, Link], None],
        on_lost: Callable[[Link], None],
        on_written: Callable[[int, Link], None],
    ) -> None:
        self._transport = transport
        self._callbacks = weakly(on_message), weakly(on_lost)
        self._on_written = weakly(on_written)
        self._road: Road | None = None
        self._failure = "asked for" if transport == "comm" else ""  # why there is none
        self._pages: dict[str, _Page] = {}
        self._alone: dict[Link, None] = {}  # the links of pages that have no comm

    def join(self, link: Link) -> None:
        """A page came that has a link and no comm, as those of :mod:`.server`. From any thread, as :meth:`leave`."""
        self._alone[link] = None

    def leave(self, link: Link) -> None:
        """It is gone."""
        self._alone.pop(link, None)

    def has_comm(self, link: Link | None) -> bool:
        """Whether the page of this link is in a notebook, and so the same person's as all others there."""
        return link not in self._alone

    def is_alone(self, view: str) -> bool:
        """Whether a page has a link and no comm."""
        page = self._pages.get(view)
        return page is not None and page.link in self._alone

    def offer(self) -> dict[str, Any] | None:
        """What a page needs to know to come by websocket; None if nothing listens."""
        if self._road is None and not self._failure:
            try:
                self._road = open_road(*self._callbacks)
            except TransportError as error:
                self._failure = str(error)
        if self._road is None:
            return None
        proxy = importlib.util.find_spec("jupyter_server_proxy") is not None
        return {"port": self._road.port, "token": self._road.token, "proxy": proxy}

    def begin(self, view: str, link: Link | None, host: str) -> None:
        """A page began an epoch, by this link or, without one, by the comm."""
        self._pages[view] = _Page(link, host)

    def explain(self, view: str, reason: str) -> None:
        """A page tells why it goes by the comm."""
        if view in self._pages:
            self._pages[view].reason = reason

    def forget(self, view: str) -> None:
        """A page is gone."""
        self._pages.pop(view, None)

    def views_of(self, link: Link) -> list[str]:
        """The views whose epoch began by this link."""
        return [view for view, page in self._pages.items() if page.link is link]

    def describe(self, view: str) -> str:
        """The road of a page in words, and why if it is the comm."""
        page = self._pages.get(view)
        if page is not None and page.link is not None:
            return "by websocket"
        reason = self._failure or (page.reason if page is not None else "")
        return f"over the comm ({reason})" if reason else "over the comm"

    def complaint(self, view: str) -> str | None:
        """What the badge of a page shall say if a websocket was asked for: empty if there is nothing to complain of.

        None: nobody asked.
        """
        if self._transport != "websocket":
            return None
        page = self._pages.get(view)
        if page is None or page.link is not None:
            return ""
        reason = self._failure or page.reason
        return f"No websocket to the kernel: {reason}. Frames come over the comm. {CURE}." if reason else ""

    def broadcast(self, message: dict[str, Any], comm: Callable[..., None]) -> None:
        """Sends a message to all pages: once over the comm, and by the link of each page that has none."""
        comm(message)
        for link in list(self._alone):
            link.send(message)

    def tell(self, view: str, message: dict[str, Any], comm: Callable[..., None]) -> None:
        """Sends a page a message without a file, by the road of its frames and so in order with them."""
        page = self._pages.get(view)
        if page is not None and page.link is not None:
            page.link.send(message)
        else:
            comm(message)

    def send(
        self,
        message: dict[str, Any],
        file: bytes | memoryview,
        link: Link | None,
        comm: Callable[..., None],
    ) -> None:
        """Sends a frame by a websocket, or over the comm to all pages there."""
        if link is not None:
            link.send_frame(message, file, partial(self._on_written, message["id"], link))
        elif any(page.link is None and page.host == "VS Code" for page in self._pages.values()):
            # It makes a list of numbers of a buffer; a text is four to seven times faster there.
            comm({**message, "data": base64.b64encode(file).decode("ascii")})
        else:
            # The bytes are the frame's own: kernels send buffers later, from another thread, without a copy.
            comm(message, [file])

    def close(self) -> None:
        """Closes all websockets, after they were told that the canvas is closed."""
        for link in {page.link for page in self._pages.values()} | set(self._alone):
            if link is not None:
                link.send({"type": "closed"})
        for link in list(self._alone):
            link.close()
        self._pages.clear()
        self._alone.clear()
        self._failure = "closed"
        if self._road is not None:
            self._road.close()
            self._road = None
