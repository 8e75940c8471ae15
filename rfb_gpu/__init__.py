"""A remote-framebuffer canvas for notebooks: frames are encoded on the GPU that drew them and decoded on the one that shows them.

``RenderCanvas`` is the canvas, and ``RemoteFrameBuffer`` the one for programs of jupyter_rfb. ``JpegEncoder``, ``JpegDecoder``,
``PngEncoder`` and ``PngDecoder`` can be used alone. ``TextureStream`` feeds textures while a scene renders. ``serve()`` shows a
canvas on a web page without a notebook, ``doctor()`` tells what runs here and why.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__
from .codecs import EncodedFrame, JpegDecoder, JpegEncoder, PngDecoder, PngEncoder
from .diagnostics import NoAdapterError, doctor

if TYPE_CHECKING:
    from . import uploads
    from .canvas import loop
    from .remote_frame_buffer import RemoteFrameBuffer
    from .server import serve
    from .uploads import TextureStream
    from .widget import RenderCanvas

__all__ = [
    "EncodedFrame",
    "JpegDecoder",
    "JpegEncoder",
    "NoAdapterError",
    "PngDecoder",
    "PngEncoder",
    "RemoteFrameBuffer",
    "RenderCanvas",
    "TextureStream",
    "__version__",
    "doctor",
    "loop",
    "serve",
    "uploads",
]


def __getattr__(name: str) -> Any:
    # The canvas brings anywidget and the front end; the codecs do without.
    if name == "RenderCanvas":
        from .widget import RenderCanvas

        return RenderCanvas
    if name == "RemoteFrameBuffer":
        from .remote_frame_buffer import RemoteFrameBuffer

        return RemoteFrameBuffer
    if name == "loop":
        from .canvas import loop

        return loop
    if name == "serve":
        from .server import serve

        return serve
    if name in ("TextureStream", "uploads"):
        uploads = import_module(".uploads", __name__)
        return uploads if name == "uploads" else uploads.TextureStream
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
