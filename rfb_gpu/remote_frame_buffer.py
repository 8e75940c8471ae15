"""jupyter_rfb's widget with our canvas behind it: a program that subclasses it changes its import only.

What a program sees is jupyter_rfb's own code: traits, the words of events, ``print()``, ``display()``. What goes to pages and comes
from there is the matter of a canvas that the widget owns, whose pictures are what ``get_frame()`` returns.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import Any

import numpy as np
import wgpu
from numpy.typing import NDArray
from rendercanvas.asyncio import loop
from rendercanvas.base import BaseCanvasGroup
from traitlets import Int, dlink, observe

from . import lifetime
from .canvas import DEFAULT_QUALITY, StreamingCanvas, _DrawCancelled
from .context import TextureContext
from .threads import callback_lock
from .widget import PageWidget

CURE = "pip install 'rfb_gpu[jupyter_rfb]'"

try:
    import jupyter_rfb
except ImportError as error:
    raise ImportError(
        f"rfb_gpu.RemoteFrameBuffer is a subclass of jupyter_rfb's, which is not installed: {CURE}"
    ) from error

if tuple(jupyter_rfb.version_info[:2]) != (1, 0):
    # Parts of it are called that are not public.
    raise ImportError(
        f"rfb_gpu.RemoteFrameBuffer needs jupyter_rfb 1.0, and {jupyter_rfb.__version__} is installed: {CURE}"
    )

__all__ = ["RemoteFrameBuffer"]

_CANVAS_ARGUMENTS = (
    "alpha",
    "codec",
    "subsampling",
    "latency_budget",
    "encoder",
    "decoder",
    "lossless_delay",
    "transport",
)
_LOOKS = ("css_width", "css_height", "resizable", "has_titlebar", "title", "cursor")


class RemoteFrameBuffer(PageWidget, jupyter_rfb.RemoteFrameBuffer):
    """A drop-in for ``jupyter_rfb.RemoteFrameBuffer``, and a subclass of it.

    Subclass it and implement ``get_frame()`` and ``handle_event()``. ``get_frame()`` returns an array as there: uint8, of shape
    (height, width), (height, width, 3) or (height, width, 4); or None to send nothing. It may also return a ``wgpu.GPUTexture``:
    that is encoded on its GPU, and no pixel is downloaded. It needs a format that :class:`.JpegEncoder` takes and
    the usage ``TEXTURE_BINDING | COPY_SRC``; draw into it in ``get_frame()`` only, and do not destroy it before another
    one was returned, because it is read once more when drawing rests.

    All traits and methods are jupyter_rfb's. Two traits mean a little more:

    * *quality*: the best of JPEG frames, default 80; a thin link gets less, down to 30. 100: every frame is a PNG.
    * *max_buffered_frames*: how many frames a page may have unacknowledged; default None: as many as it turns out to need.

    Arguments: traits by their names, and of :class:`.RenderCanvas` alpha, codec, subsampling, latency_budget, encoder, decoder,
    lossless_delay and transport.

    Raises:
        ValueError: an argument is out of its range.
    """

    max_buffered_frames = Int(None, min=1, allow_none=True)

    _rfb_last_frame: NDArray[np.uint8] | wgpu.GPUTexture | None  # jupyter_rfb's, for its snapshots

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        options = {name: kwargs.pop(name) for name in _CANVAS_ARGUMENTS if name in kwargs}
        # First, because jupyter_rfb's own part already resets the statistics.
        self._rfb_canvas = _FrameCanvas(self, **options)
        super().__init__(*args, **kwargs)
        for name in _LOOKS:
            dlink((self, name), (self, f"_{name}"))
        self._decoder = self._rfb_canvas._decoder
        self._rfb_adjust()
        # Pages talk to the canvas; what of it is for the program, the canvas hands to jupyter_rfb's handler.
        self.on_msg(self._rfb_handle_msg, remove=True)
        self.on_msg(self._rfb_canvas._rfb_on_message)
        self.comm.on_msg(lifetime.weakly(self._handle_msg))

    @observe("quality", "max_buffered_frames")
    def _rfb_adjust(self, _change: object = None) -> None:
        self._rfb_canvas.adjust(self.quality, self.max_buffered_frames)

    def request_draw(self) -> None:
        """See ``jupyter_rfb.RemoteFrameBuffer.request_draw``."""
        self._rfb_canvas.request_draw()

    def send_frame(self, array: NDArray[np.uint8] | wgpu.GPUTexture) -> None:
        """See ``jupyter_rfb.RemoteFrameBuffer.send_frame``; also of a ``wgpu.GPUTexture``.

        Raises:
            TypeError, ValueError: it cannot be shown; the message names the cure.
        """
        self._rfb_canvas.present(array)

    def snapshot(self, pixel_ratio: float | None = None) -> Any:
        """See ``jupyter_rfb.RemoteFrameBuffer.snapshot``. A texture is downloaded for it."""
        if isinstance(self._rfb_last_frame, wgpu.GPUTexture):
            self._rfb_last_frame = _download(self._rfb_last_frame)
        return super().snapshot(pixel_ratio)

    def get_stats(self) -> dict[str, float]:
        """See ``jupyter_rfb.RemoteFrameBuffer.get_stats``.

        *delivery* is the part of *roundtrip* that is not spent in the page; no clocks are compared.
        """
        return self._rfb_canvas.get_stats()

    def reset_stats(self) -> None:
        """See ``jupyter_rfb.RemoteFrameBuffer.reset_stats``."""
        self._rfb_canvas.reset_stats()

    def close(self, *args: Any, **kwargs: Any) -> None:
        """See ``jupyter_rfb.RemoteFrameBuffer.close``: the widget leaves notebooks."""
        if hasattr(self, "_output_context"):  # else __init__ has failed, and this is called by __del__
            self._rfb_canvas.close()
            super().close(*args, **kwargs)

    def __del__(self) -> None:
        super().__del__()
        if hasattr(self, "_output_context"):
            for widget in (self, self._output_context):
                lifetime.close(widget)


class _FrameGroup(BaseCanvasGroup):
    """Canvases without rendercanvas' scheduler: a draw comes as soon as the program asks for it and a page has room."""

    def _register_canvas(self, canvas: Any, task: Any) -> None:
        async def nothing() -> None:
            pass

        super()._register_canvas(canvas, nothing)


class _FrameCanvas(StreamingCanvas):
    """The canvas of a widget: gets frames from it, hands events to it, and sends by it."""

    _rc_canvas_group = _FrameGroup(loop)
    _title = ""
    _show_stats = False

    def __init__(self, widget: RemoteFrameBuffer, **options: Any) -> None:
        self._rfb_widget = widget
        self._textures: TextureContext | None = None
        super().__init__(size=None, **options)
        self._draw_frame = self._show_next

    def send(self, content: dict[str, Any], buffers: list[Any] | None = None) -> None:
        """See ``ipywidgets.Widget.send``."""
        self._rfb_widget.send(content, buffers)

    def adjust(self, quality: int, window: int | None) -> None:
        """Takes the widget's traits over."""
        floor = quality if quality == 100 else min(DEFAULT_QUALITY[0], quality)
        audiences = self._rfb_audiences
        audiences.limit(replace(audiences.limits, floor=floor, ceiling=quality, window=window))

    def request_draw(self, draw_function: Any = None) -> None:
        """Has a frame got, in a later turn of the event loop."""
        self._rfb_draw_wanted = True
        self._rc_request_draw()

    def _time_to_draw(self) -> None:
        with callback_lock.callback(), contextlib.suppress(_DrawCancelled):
            self._rfb_draw_wanted = False
            self._rfb_guarded_draw()

    def _show_next(self) -> None:
        frame = self._rfb_widget.get_frame()
        if frame is not None:
            self.present(frame)

    def present(self, frame: Any) -> None:
        """Encodes and sends a frame: an array or a texture."""
        if self._is_closed:
            return
        if self._rfb_draw_for is None:
            self._rfb_settings = self._rfb_leading.choose(time.perf_counter())
        context: TextureContext | None = None
        if isinstance(frame, wgpu.GPUTexture):
            info = self._rc_get_present_info(["bitmap"])
            assert info is not None
            context = self._textures = self._textures or TextureContext(info)
            self._rfb_adjust(context)
            result = context.present(frame)
            self._rfb_last_array = None
        else:
            frame = np.asarray(frame)
            result = {"method": "bitmap", "data": _rgba(frame), "format": "rgba-u8"}
            if frame.size == 0:
                return
        self._canvas_context = context
        widget = self._rfb_widget
        widget._rfb_last_frame = frame
        self._finish_present(result)
        if widget._rfb_pending_display is not None and self._rfb_size_is_from_page:
            widget._rfb_pending_display.update(widget)  # adds the snapshot to the cell's output

    def _rfb_handle_event(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        if kind == "close":
            self._rfb_widget.close()
            return
        super()._rfb_handle_event(event)
        if kind == "resize" and self._rfb_size_is_from_page:
            # Its numbers are the page's, checked.
            (width, height), (pwidth, pheight) = self.get_logical_size(), self.get_physical_size()
            size = {"width": width, "height": height, "pwidth": pwidth, "pheight": pheight}
            self._hand_over({**event, **size, "ratio": self.get_pixel_ratio()})

    def submit_event(self, event: dict[str, Any]) -> None:
        """Hands it to the widget at once, which puts it into the words that the program wants."""
        kind, timestamp = event.pop("event_type"), event.pop("time_stamp")
        self._hand_over({"type": kind, "timestamp": timestamp, **event})

    def _hand_over(self, event: dict[str, Any]) -> None:
        with callback_lock.callback():
            self._rfb_widget._rfb_handle_msg(self._rfb_widget, event, [])

    def _rc_close(self) -> None:
        super()._rc_close()
        if self._textures is not None:
            self._textures._rc_close()


def _rgba(array: NDArray[Any]) -> NDArray[np.uint8]:
    """With four channels, as encoders take it."""
    if array.dtype != np.uint8 or not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))):
        raise ValueError(
            "a frame must be a wgpu.GPUTexture, or a uint8 array of shape (height, width), (height, width, 3) or "
            f"(height, width, 4), not {array.dtype} of {array.shape}"
        )
    if array.ndim == 3 and array.shape[2] == 4:
        return array
    colours = array if array.ndim == 3 else array[..., None]
    rgba = np.full((*array.shape[:2], 4), 255, np.uint8)
    rgba[..., :3] = colours
    return rgba


def _download(texture: wgpu.GPUTexture) -> NDArray[np.uint8]:
    """What it holds, (height, width, 4)."""
    width, height, _ = texture.size
    data = texture._device.queue.read_texture(
        {"texture": texture}, {"bytes_per_row": 4 * width}, (width, height, 1)
    )
    pixels = np.frombuffer(data, np.uint8).reshape(height, width, 4)
    return pixels[..., [2, 1, 0, 3]] if texture.format.startswith("bgra") else pixels
