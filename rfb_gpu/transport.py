"""The fast road: a websocket from the page straight to the kernel's process, beside the notebook's own channel (the comm).

One server for all canvases of a process, on a thread and an event loop of its own. It starts with the first canvas that wants it
and stops with the last that is closed, so that nothing listens when there is nothing to serve. It listens on 127.0.0.1 only; a page
on another machine reaches it through jupyter-server-proxy, or not at all.

Who may come in: whoever knows the token of a canvas, which the page is told over the comm and says in its first message. The
``Origin`` header is looked at too, as a second line only.

It knows nothing of frames' contents, of views or of widgets. Nothing here blocks the caller: what is to be sent is handed to the
server's loop, and what arrives is handed to callbacks **on the server's thread**, which hand it on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from websockets.asyncio.server import ServerConnection
    from websockets.http11 import Request, Response

__all__ = [
    "ACCEPTED",
    "Link",
    "Road",
    "Socket",
    "TransportError",
    "frame_pieces",
    "open_road",
    "origin_is_trusted",
]

logger = logging.getLogger("rfb_gpu.transport")

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
TOKEN_BYTES = 32
TOKEN_SECONDS = 5.0
"""How long a stranger may take to become a page: for the handshake, and then for the token."""
MESSAGE_MAX_BYTES = 2**20
"""Of one message from a page. The largest that ours sends is an event of some hundred bytes."""
CONNECTIONS_MAX = 256
WAITING_MAX = 64
"""So many messages besides a frame wait for a stalled socket before it is given up."""
PIECE_BYTES = 256 * 1024
"""A file goes in pieces of one message: the library and the event loop buffer no more than a piece at a time."""
FLUSH_SECONDS = 1.0
"""How long the last words may take when a canvas is closed."""
REFUSED = 4401
"""Close code of a websocket whose first message was not a known token; after HTTP's 401."""
ACCEPTED = {"type": "accepted"}
"""The answer to a known token. Behind a proxy a websocket is open before it reaches us; this tells that it does."""


class TransportError(RuntimeError):
    """The server cannot run here; the text says why."""


def origin_is_trusted(origin: str | None, hosts: Iterable[str]) -> bool:
    """Whether a page of this ``Origin`` may knock.

    Pages of this machine may, those in a webview of VS Code, and those of the host that the request names, as behind a proxy.

    Arguments:
        origin: the header, or None if there was none: browsers always send one.
        hosts: the headers ``X-Forwarded-Host`` and ``Host``, as far as they are there.
    """
    try:
        parts = urlsplit(origin or "")
        name = parts.hostname
    except ValueError:
        return False
    if parts.scheme == "vscode-webview":
        return True
    if parts.scheme not in ("http", "https") or not name:
        return False
    return name in LOOPBACK_NAMES or any(name == _host_name(host) for host in hosts)


def _host_name(host: str) -> str | None:
    """``Example.org:8888`` without the port, in lower case. Of a list, which proxies in a row make, the first."""
    try:
        return urlsplit(f"//{host.split(',')[0].strip()}").hostname
    except ValueError:
        return None


def frame_pieces(message: Mapping[str, Any], file: bytes | memoryview) -> list[bytes | memoryview]:
    """A frame as the pieces of one binary message: length of the header (4 bytes, little-endian), header (JSON), file.

    The file's bytes are not copied, and must not change.
    """
    header = json.dumps(message, separators=(",", ":")).encode()
    view = memoryview(file)
    return [
        struct.pack("<I", len(header)) + header,
        *(view[start : start + PIECE_BYTES] for start in range(0, len(view), PIECE_BYTES)),
    ]


class Socket(Protocol):
    """What a link needs of a websocket, whoever serves it. All of it happens on the server's loop."""

    async def send(self, message: str | Sequence[bytes | memoryview]) -> None:
        """Sends one message, text or binary. Returns once there is room for the next; a page that is gone gets nothing."""

    async def close(self) -> None:
        """Says goodbye."""

    def abort(self) -> None:
        """Breaks the connection, whatever still waits in it."""


class _Frame(NamedTuple):
    pieces: Sequence[bytes | memoryview]
    on_written: Callable[[], object] | None


class Link:
    """One page's websocket, after its token was accepted."""

    def __init__(self, loop: asyncio.AbstractEventLoop, websocket: Socket) -> None:
        self._loop = loop
        self._socket = websocket
        self._outbox: deque[str | _Frame] = deque()
        self._wake = asyncio.Event()
        self._is_closing = False
        self._writer = loop.create_task(self._write())

    # ----- from any thread

    def send(self, message: Mapping[str, Any]) -> None:
        """Sends a message as text. Returns at once; a page that is gone gets nothing."""
        _call(self._loop, self._put, json.dumps(message))

    def send_frame(
        self,
        message: Mapping[str, Any],
        file: bytes | memoryview,
        on_written: Callable[[], object] | None = None,
    ) -> None:
        """Sends a frame and its file. Returns at once.

        A frame that has not begun when the next one comes is never sent: a stalled socket holds one begun and one waiting.

        Arguments:
            on_written: called on the server's thread when the whole frame was handed to the system, or its page was gone.
        """
        _call(self._loop, self._put, _Frame(frame_pieces(message, file), on_written))

    def drop(self) -> None:
        """Breaks the connection without a word, as a network does."""
        _call(self._loop, self._abort)

    def close(self) -> None:
        """Closes the connection after what was sent on it. Returns at once."""
        _call(self._loop, self._close)

    # ----- on the server's loop

    def end(self) -> None:
        """The connection is closed, by whomever: nothing more is sent."""
        self._writer.cancel()

    def _put(self, item: str | _Frame) -> None:
        if not isinstance(item, str):
            self._outbox = deque(waiting for waiting in self._outbox if isinstance(waiting, str))
        elif len(self._outbox) >= WAITING_MAX:
            self._abort()
            return
        self._outbox.append(item)
        self._wake.set()

    async def _write(self) -> None:
        while True:
            while self._outbox:
                item = self._outbox.popleft()
                if isinstance(item, str):
                    await self._socket.send(item)
                    continue
                await self._socket.send(item.pieces)
                if item.on_written is not None:
                    item.on_written()
            if self._is_closing:
                await self._socket.close()
                return
            self._wake.clear()
            await self._wake.wait()

    def _close(self) -> None:
        """Has what waits sent and the connection closed; after ``FLUSH_SECONDS`` without that."""
        self._is_closing = True
        self._wake.set()
        self._loop.call_later(FLUSH_SECONDS, self._abort)

    def _abort(self) -> None:
        if not self._writer.done():
            self._outbox.clear()
            self._socket.abort()


class _Connection:
    """A connection of the library ``websockets`` as a link's socket."""

    def __init__(self, connection: ServerConnection) -> None:
        from websockets.exceptions import ConnectionClosed

        self._connection = connection
        self._when_gone = contextlib.suppress(ConnectionClosed)

    async def send(self, message: str | Sequence[bytes | memoryview]) -> None:
        with self._when_gone:
            await self._connection.send(message)

    async def close(self) -> None:
        await self._connection.close()

    def abort(self) -> None:
        self._connection.transport.abort()


class Road:
    """What a canvas has of the server: a token, and the links of the pages that knew it. Made by :func:`open_road`.

    Attributes:
        port: of 127.0.0.1.
        token: text of 256 random bits.
    """

    def __init__(
        self,
        server: _Server,
        on_message: Callable[[Any, Link], None],
        on_lost: Callable[[Link], None],
    ) -> None:
        self.port = server.port
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        self._server = server
        self._on_message = on_message
        self._on_lost = on_lost
        self._links: set[Link] = set()
        self._is_closed = False

    def close(self) -> None:
        """Closes the connections, after what was sent on them. Returns at once; to be called from any thread, and twice."""
        global _server
        with _lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._server.roads.discard(self)
            is_last = not self._server.roads
            if is_last and _server is self._server:
                _server = None
        _call(self._server.loop, self._server.end, self, is_last)


def open_road(on_message: Callable[[Any, Link], None], on_lost: Callable[[Link], None]) -> Road:
    """Lets pages come in by a new token, and starts the server if it does not run.

    Arguments:
        on_message: called on the server's thread with a message (decoded JSON) and the link that it came by.
        on_lost: called on the server's thread with a link that is closed, by whomever.

    Raises:
        TransportError: the library ``websockets`` is missing, or nothing can listen on 127.0.0.1.
    """
    global _server
    with _lock:
        if _server is None:
            _server = _Server()
        road = Road(_server, on_message, on_lost)
        _server.roads.add(road)
        return road


_lock = (
    threading.RLock()
)  # reentrant: a canvas that is collected as garbage closes its road wherever that happens
_server: _Server | None = None


class _Server:
    def __init__(self) -> None:
        try:
            from websockets.asyncio.server import serve
        except ImportError as error:
            raise TransportError(
                f"the Python library websockets is missing ({error}): python -m pip install 'websockets>=14'"
            ) from None
        try:
            # Bound here and not in the thread: the port is known at once, and who comes before the thread runs just waits.
            self._socket = socket.create_server(("127.0.0.1", 0))
        except OSError as error:
            raise TransportError(f"nothing can listen on 127.0.0.1 ({error})") from None
        self.port: int = self._socket.getsockname()[1]
        self.roads: set[Road] = set()
        self._serve_websockets = serve
        self.loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        threading.Thread(target=self._run, name="rfb_gpu websocket", daemon=True).start()

    def end(self, road: Road, is_last: bool) -> None:
        """Closes the links of a road; then stops the server, if that was the last."""
        self._spawn(self._end(road, is_last))

    async def _end(self, road: Road, is_last: bool) -> None:
        for link in road._links:
            link._close()
        await asyncio.gather(*(link._writer for link in road._links), return_exceptions=True)
        if is_last:
            self._stop.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)  # a loop alone keeps tasks only weakly
        task.add_done_callback(self._tasks.discard)

    def _run(self) -> None:
        try:
            self.loop.run_until_complete(self._serve())
        except Exception:
            logger.exception("the websocket server failed; frames go over the notebook's own channel")
        finally:
            self._socket.close()
            self.loop.run_until_complete(self._sweep())
            self.loop.close()

    async def _sweep(self) -> None:
        """Ends what is left: somebody may have knocked just now."""
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def _serve(self) -> None:
        # What strangers do wrong is no news: the library's log must not end up in a notebook's cell.
        library_logger = logging.getLogger("rfb_gpu.transport.websockets")
        library_logger.setLevel(logging.CRITICAL)
        async with self._serve_websockets(
            self._handle,
            sock=self._socket,
            compression=None,
            write_limit=0,  # what was sent is with the system, all of it
            max_size=MESSAGE_MAX_BYTES,
            process_request=self._look_at,
            open_timeout=TOKEN_SECONDS,
            close_timeout=FLUSH_SECONDS,
            server_header=None,
            logger=library_logger,
        ):
            await self._stop.wait()

    def _look_at(self, connection: ServerConnection, request: Request) -> Response | None:
        """Refuses a handshake by its headers."""
        origins = request.headers.get_all("Origin")
        hosts = [*request.headers.get_all("X-Forwarded-Host"), *request.headers.get_all("Host")]
        if len(origins) != 1 or not origin_is_trusted(origins[0], hosts):
            return connection.respond(
                HTTPStatus.FORBIDDEN, "This page is not of this machine or its notebook.\n"
            )
        if len(connection.server.connections) >= CONNECTIONS_MAX:
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "Too many connections.\n")
        return None

    async def _handle(self, connection: ServerConnection) -> None:
        from websockets.exceptions import ConnectionClosed

        road = await self._admit(connection)
        if road is None:
            await connection.close(REFUSED, "the first message must be the token of an open canvas")
            return
        # asyncio sets this for sockets that it makes itself. Without it the end of a frame waits until the page's system
        # acknowledges its beginning, which that puts off, or until the next frame.
        connection.transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = Link(self.loop, _Connection(connection))
        road._links.add(link)
        link.send(ACCEPTED)
        try:
            async for text in connection:
                content = _parse(text)
                if content is not None:
                    road._on_message(content, link)
        except ConnectionClosed:
            pass
        finally:
            road._links.discard(link)
            link.end()
            road._on_lost(link)

    async def _admit(self, connection: ServerConnection) -> Road | None:
        """The road whose token the first message is; None if there is none, or no message in time."""
        from websockets.exceptions import ConnectionClosed

        try:
            content = _parse(await asyncio.wait_for(connection.recv(), TOKEN_SECONDS))
        except (asyncio.TimeoutError, ConnectionClosed):  # in Python 3.10 not the built-in one
            return None
        token = content.get("token") if isinstance(content, dict) else None
        if not isinstance(token, str):
            return None
        said = token.encode(errors="replace")
        with _lock:
            roads = list(self.roads)
        known = [road for road in roads if secrets.compare_digest(said, road.token.encode())]
        return known[0] if known else None


def _parse(text: str | bytes) -> Any:
    """A page's message; None for what is no JSON text, which no page of ours sends."""
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *args: Any) -> None:
    try:
        loop.call_soon_threadsafe(callback, *args)
    except RuntimeError:
        pass  # the server has stopped, and with it every link
