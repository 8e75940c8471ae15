"""Runs the application of one canvas with uvicorn: in a script the canvas in the same event loop, in a notebook beside it."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from urllib.parse import quote

import uvicorn

from ..transport import FLUSH_SECONDS, MESSAGE_MAX_BYTES, TOKEN_BYTES
from .app import SIGNALS, CanvasApp, is_in_event_loop

__all__ = ["run"]

ALL_ADDRESSES = ("0.0.0.0", "::")


def run(app: CanvasApp, host: str, port: int) -> None:
    """See :func:`.serve`."""
    if app.token is None:
        app.token = secrets.token_urlsafe(TOKEN_BYTES)
    listener = _listen(host, port)
    if not _is_loopback(host):
        print(
            f"rfb_gpu: {host} lets other machines in, and what goes over the network is not encrypted: see docs/server.md",
            file=sys.stderr,
        )
    name = socket.gethostname() if host in ALL_ADDRESSES else f"[{host}]" if ":" in host else host
    address = f"http://{name}:{listener.getsockname()[1]}/?token={quote(app.token)}"
    if is_in_event_loop():
        print(f"The canvas is at {address} until it is closed.", flush=True)
        threading.Thread(target=_run, args=(app, listener), name="rfb_gpu server", daemon=True).start()
    else:
        print(f"The canvas is at {address} until Ctrl-C.", flush=True)
        with _own_signals():
            _run(app, listener)


def _run(app: CanvasApp, listener: socket.socket) -> None:
    with listener:
        asyncio.run(_serve(app, listener))


async def _serve(app: CanvasApp, listener: socket.socket) -> None:
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(FLUSH_SECONDS),
        ws_max_size=MESSAGE_MAX_BYTES,
        ws_per_message_deflate=False,  # frames are compressed
    )
    await _Server(config, app).serve(sockets=[listener])


class _Server(uvicorn.Server):
    """Ends with the canvas, and by Ctrl-C without an exception: pages are left to wait for the next server."""

    def __init__(self, config: uvicorn.Config, app: CanvasApp) -> None:
        super().__init__(config)
        self._app = app

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._app.draw()

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._app.canvas.get_closed()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Unlike the original it does not raise what it has captured.
        if _is_main_thread():
            for number in SIGNALS:
                signal.signal(number, self.handle_exit)
        yield


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Signals are handled afterwards as before, whoever handles them meanwhile."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        if _is_main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise ValueError(f"port must be from 0 to 65535, not {port!r}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named, or asyncio does not set TCP_NODELAY: the end of a frame would wait for the page's system.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise OSError(
            error.errno,
            f"nothing can listen on {host}, port {port} ({error.strerror}): try another port, or 0 for any",
        ) from None
    return listener


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
