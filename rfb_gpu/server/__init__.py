"""The same canvas on a plain web page, without a notebook: an ASGI application, and a server to run it.

:func:`asgi_app` is to be mounted in an application of yours; :func:`serve` runs one on its own, as ``python -m rfb_gpu serve``
does. How to use them, and who may come in, is in ``docs/server.md``; what page and canvas say, in ``docs/protocol.md``.
"""

from __future__ import annotations

from ..widget import RenderCanvas
from .app import CanvasApp, is_in_event_loop

__all__ = ["CanvasApp", "asgi_app", "serve"]


def asgi_app(canvas: RenderCanvas, *, token: str | None = None) -> CanvasApp:
    """A canvas as an ASGI application, for uvicorn, or to be mounted in Starlette or FastAPI at any path.

    It serves a page, which the canvas fills, and a websocket. The canvas draws in the event loop that the application runs in,
    unless it has one already: that of its notebook, or that of ``RenderCanvas(live=True)``.

    Arguments:
        canvas: not closed. Any number of applications may have it.
        token: what the page's address must name, as ``?token=...``, for somebody to come in. None: whoever gets as far as here may
            look at the canvas and use it, so that is for the application around it to decide.

    Raises:
        TypeError: ``canvas`` is not a ``RenderCanvas``, or ``token`` no text.
        ValueError: ``token`` is empty.
    """
    return CanvasApp(canvas, token)


def serve(
    canvas: RenderCanvas, *, host: str = "127.0.0.1", port: int = 8000, token: str | None = None
) -> None:
    """Serves a canvas on a web page until Ctrl-C, or until the canvas is closed. Prints the page's address.

    To be called at the end of a script: the canvas draws and handles its events meanwhile, in this thread. In a notebook, or
    wherever an event loop runs already, it returns at once and serves in a thread of its own until the canvas is closed; the canvas
    draws where it did before.

    Arguments:
        canvas: not closed.
        host: the address to listen on. Anything but this machine's own, as ``"0.0.0.0"``, lets other machines knock.
        port: 0 to 65535; 0: the system chooses.
        token: what the page's address must name. None: a new one, of 256 random bits. A fixed one keeps the address the same, so
            that pages find a server that was started anew.

    Raises:
        ImportError: uvicorn is not installed.
        OSError: nothing can listen there, as when the port is taken.
        TypeError, ValueError: see :func:`asgi_app`.
    """
    app = CanvasApp(canvas, token, draws=not is_in_event_loop())
    try:
        from .run import run
    except ImportError as error:
        raise ImportError(
            f"serve() needs uvicorn ({error}): python -m pip install 'rfb_gpu[server]', or mount asgi_app(canvas) elsewhere"
        ) from None
    run(app, host, port)
