"""A remote-framebuffer canvas for notebooks: frames are encoded on the GPU that drew them and decoded on the one that shows them.

``RenderCanvas`` is the canvas, and ``RemoteFrameBuffer`` the one for programs of jupyter_rfb. ``JpegEncoder``, ``JpegDecoder``,
``PngEncoder`` and ``PngDecoder`` can be used alone. ``doctor()`` tells what runs here and why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._version import __version__
from .codecs import EncodedFrame, JpegDecoder, JpegEncoder, PngDecoder, PngEncoder
from .diagnostics import NoAdapterError, doctor

if TYPE_CHECKING:
    from .canvas import loop
    from .remote_frame_buffer import RemoteFrameBuffer
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
    "__version__",
    "doctor",
    "loop",
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
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
