"""One canvas as an ASGI application: its page, and a websocket for each page that is open.

A websocket of a page is a :class:`..transport.Link` like that of a notebook's page, so the canvas makes no difference; only that
there is no comm behind it: what a notebook's page has from there (the widget's traits, what is for all) goes by the link, too.

Who may come in: whoever knows the token, if there is one, from a page of this server or of this machine. What a page sends is
bounded in size and in number. Nothing here knows a message's meaning.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import json
import secrets
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from ..diagnostics import BUNDLE, STYLE
from ..transport import ACCEPTED, MESSAGE_MAX_BYTES, REFUSED, TOKEN_SECONDS, Link, origin_is_trusted
from ..widget import PageWidget, RenderCanvas

__all__ = ["CanvasApp"]

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

HERE = Path(__file__).parent
FILES = {
    "page.js": (HERE / "page.js", "text/javascript"),
    "page.css": (HERE / "page.css", "text/css"),
    "widget.js": (BUNDLE, "text/javascript"),
    "widget.css": (STYLE, "text/css"),
}
CONNECTIONS_MAX = 32
"""Of one application. The canvas knows 64 views at most, the pages of a notebook included."""
MESSAGES_PER_SECOND_MAX = 1000
"""From one page. Ours sends some 200 in a drag: a move every 20 ms, and an acknowledgement for each frame."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)

# Close codes, after HTTP's status codes; each comes with a reason in words, which the page shows.
FOREIGN = 4403
TOO_MUCH = 4429

SECURITY = (
    # The page makes its worker of a blob, and one of its decoders pictures; data: is the icon that the page does not have.
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; worker-src blob:; img-src blob: data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
REFUSAL = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>rfb_gpu</title>
<h1>This address does not open the canvas</h1>
<p>{reason} Open the address that the server has printed, with all that follows <code>?token=</code>.</p>
"""

_TRAITS = sorted(PageWidget.class_own_traits(sync=True))
"""What the page must know of the widget."""


class CanvasApp:
    """An ASGI application; see :func:`.asgi_app`. Without ``draws``, the canvas draws in another event loop than this runs in."""

    def __init__(self, canvas: RenderCanvas, token: str | None = None, *, draws: bool = True) -> None:
        if not isinstance(canvas, RenderCanvas):
            raise TypeError(f"a RenderCanvas can be served, not {canvas!r}")
        if not isinstance(token, str | None):
            raise TypeError(f"token must be a text or None, not {token!r}")
        if token == "":
            raise ValueError("an empty token keeps nobody out: give a longer one, or None")
        self.canvas = canvas
        self.token = token
        self._connections = 0
        self._links: set[Link] = set()
        self._drawing: asyncio.Task[None] | None = None
        canvas.observe(self._on_trait, _TRAITS)
        self._draws = draws and canvas._rfb_live_loop is None
        if self._draws and is_in_event_loop():
            self._keep_signals()  # made just now, the canvas's loop begins in a moment

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one connection."""
        if scope["type"] == "http":
            await self._serve_http(scope, send)
        elif scope["type"] == "websocket":
            await self._serve_websocket(scope, receive, send)
        elif scope["type"] == "lifespan":
            for word in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{word}.complete"})

    def draw(self) -> None:
        """Has the canvas draw in the running event loop, unless it has a loop that runs."""
        if self._draws and self._drawing is None:
            self._keep_signals()
            self._drawing = asyncio.get_running_loop().create_task(self._run_loop())

    async def _run_loop(self) -> None:
        with contextlib.suppress(RuntimeError):  # it runs already
            await self.canvas._rc_canvas_group.get_loop().run_async()

    def _keep_signals(self) -> None:
        """The canvas's loop takes Ctrl-C when it begins, and closes the canvas then. It belongs to the server, which ends."""
        if threading.current_thread() is threading.main_thread():
            handlers = {number: signal.getsignal(number) for number in SIGNALS}
            self.canvas._rc_canvas_group.get_loop().call_soon(_give_back_signals, handlers)

    # ----- the page

    async def _serve_http(self, scope: Scope, send: Send) -> None:
        name = _name(scope)
        if scope["method"] not in ("GET", "HEAD"):
            await _respond(scope, send, HTTPStatus.METHOD_NOT_ALLOWED, b"Only GET.\n", "text/plain")
        elif name is None:
            # The page's addresses are relative, so it must be in a folder.
            folder = scope["path"].rsplit("/", 1)[-1]
            query = scope["query_string"].decode("latin-1")
            there = f"./{folder}/?{query}" if query else f"./{folder}/"
            await _respond(scope, send, HTTPStatus.TEMPORARY_REDIRECT, b"", "text/plain", location=there)
        elif name == "":
            said = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
            if self._knows(said):
                title = html.escape(self.canvas._title or "rfb_gpu")
                page = (HERE / "page.html").read_text("utf-8").replace("{title}", title)
                await _respond(scope, send, HTTPStatus.OK, page.encode(), "text/html")
            else:
                status = HTTPStatus.FORBIDDEN if said else HTTPStatus.UNAUTHORIZED
                reason = "Its token is of another server, or not whole." if said else "It has no token."
                await _respond(scope, send, status, REFUSAL.format(reason=reason).encode(), "text/html")
        elif name in FILES:
            file, kind = FILES[name]
            await _respond(scope, send, HTTPStatus.OK, file.read_bytes(), kind)
        else:
            await _respond(scope, send, HTTPStatus.NOT_FOUND, b"There is no such file.\n", "text/plain")

    def _knows(self, said: object) -> bool:
        if self.token is None:
            return True
        return isinstance(said, str) and secrets.compare_digest(
            said.encode(errors="replace"), self.token.encode(errors="replace")
        )

    # ----- its websocket

    async def _serve_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # that it connects
        # Taken before it is refused: the reason of a handshake that fails never reaches a page.
        await send({"type": "websocket.accept"})
        task = asyncio.current_task()
        assert task is not None
        websocket = _Websocket(send, task)
        self._connections += 1
        try:
            refusal = self._refusal(scope) or await self._token_refusal(receive)
            if refusal is not None:
                await websocket.close(*refusal)
            else:
                await self._converse(receive, websocket)
        except _Gone:
            pass
        except asyncio.CancelledError:
            if not websocket.is_aborted:
                raise
        finally:
            self._connections -= 1

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """The close code and the reason if a page must not even knock."""
        if _name(scope) != "websocket":
            return FOREIGN, "there is no websocket at this address"
        origins = _headers(scope, b"origin")
        hosts = [*_headers(scope, b"x-forwarded-host"), *_headers(scope, b"host")]
        if len(origins) != 1 or not origin_is_trusted(origins[0], hosts):
            return (
                FOREIGN,
                "this page is not of the server's host: a proxy must pass Host or X-Forwarded-Host on",
            )
        if self._connections > CONNECTIONS_MAX:
            return TOO_MUCH, f"{CONNECTIONS_MAX} pages look at this canvas already: close one"
        return None

    async def _token_refusal(self, receive: Receive) -> tuple[int, str] | None:
        try:
            said = await asyncio.wait_for(_content(receive), TOKEN_SECONDS)
        except asyncio.TimeoutError:  # in Python 3.10 not the built-in one
            said = None
        if isinstance(said, dict) and self._knows(said.get("token")):
            return None
        return REFUSED, "the token is not this server's: open the address that it has printed"

    async def _converse(self, receive: Receive, websocket: _Websocket) -> None:
        canvas = self.canvas
        link = Link(asyncio.get_running_loop(), websocket)
        link.send(ACCEPTED)
        link.send({"type": "state", "state": {name: getattr(canvas, name) for name in _TRAITS}})
        if canvas.get_closed():
            link.send({"type": "closed"})
            link.close()
        else:
            self.draw()
        self._links.add(link)
        canvas._rfb_roads.join(link)
        second, count = 0, 0
        try:
            while True:
                content = await _content(receive)
                now = int(time.monotonic())
                count = (count if now == second else 0) + (len(content) if isinstance(content, list) else 1)
                second = now
                if count > MESSAGES_PER_SECOND_MAX:
                    await websocket.close(TOO_MUCH, "the page sent too many messages")
                    return
                if content is not None:
                    canvas._rfb_on_socket_message(content, link)
        finally:
            link.end()
            self._links.discard(link)
            canvas._rfb_roads.leave(link)
            canvas._rfb_on_socket_lost(link)

    def _on_trait(self, change: Any) -> None:
        """On any thread: links may be used from all."""
        for link in list(self._links):
            link.send({"type": "state", "state": {change.name: change.new}})


def _give_back_signals(handlers: Mapping[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        # Only what the loop took: a kernel changes its handlers with each cell.
        if getattr(signal.getsignal(number), "__module__", "").startswith("rendercanvas."):
            signal.signal(number, handler)


def is_in_event_loop() -> bool:
    """Whether the caller runs in an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _Gone(Exception):
    """The page has closed its websocket."""


class _Websocket:
    """A link's socket, by ASGI."""

    def __init__(self, send: Send, task: asyncio.Task[Any]) -> None:
        self._send = send
        self._task = task
        self.is_aborted = False

    async def send(self, message: str | Sequence[bytes | memoryview]) -> None:
        if isinstance(message, str):
            await self._put({"type": "websocket.send", "text": message})
        else:
            await self._put({"type": "websocket.send", "bytes": b"".join(message)})

    async def close(self, code: int = 1000, reason: str = "") -> None:
        await self._put({"type": "websocket.close", "code": code, "reason": reason})

    def abort(self) -> None:
        self.is_aborted = True
        self._task.cancel()  # the server ends a connection that nobody serves

    async def _put(self, event: Event) -> None:
        # Servers tell in different ways that a page is gone. To receive tells it, too.
        with contextlib.suppress(OSError, RuntimeError):
            await self._send(event)


async def _content(receive: Receive) -> Any:
    """What the page says next, a message or several; None for what is none of ours. Raises `_Gone`."""
    event = await receive()
    if event["type"] != "websocket.receive":
        raise _Gone
    text = event.get("text")
    # A character is a byte at least. Servers have a limit of their own, so that more is not even read.
    if text is None or len(text) > MESSAGE_MAX_BYTES:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


async def _respond(
    scope: Scope, send: Send, status: HTTPStatus, body: bytes, kind: str, location: str | None = None
) -> None:
    headers = {
        "content-type": f"{kind}; charset=utf-8",
        "content-length": str(len(body)),
        "content-security-policy": SECURITY,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",  # the token is in the address
        "cache-control": "no-store",
    }
    if location is not None:
        headers["location"] = location
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": int(status), "headers": encoded})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def _name(scope: Scope) -> str | None:
    """What is asked for, in whatever folder: not all proxies take their prefix off. None: the application without its slash."""
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    return path.rsplit("/", 1)[-1] if path else None


def _headers(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]
