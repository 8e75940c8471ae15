"""The canvas for notebooks: a rendercanvas backend that is also an anywidget.

How a frame goes. The scheduler asks for a draw; the canvas grants it when a page looks and has room in its window. The user's draw
function draws into the texture of :class:`.context.EncodingContext`, which encodes it and gives a future. When the bytes are
there, they are sent; the page acknowledges; that makes room. When drawing rests, the same frame is sent once more without loss.

Threads. A kernel may deliver messages on a thread of its own (ipykernel 7 with JupyterLab's subshells), so a message handler does
nothing but hand over to the canvas's loop. Everything else here runs on that loop.

There is no codec in here, and no decision about flow: see :mod:`.codecs` and :mod:`.flow`.
"""

from __future__ import annotations

import base64
import contextvars
import html
import logging
import math
import time
import traceback
from collections.abc import Callable
from typing import Any

import anywidget
import numpy as np
from numpy.typing import NDArray
from rendercanvas import contexts
from rendercanvas.asyncio import loop
from rendercanvas.base import BaseCanvasGroup, BaseRenderCanvas
from rendercanvas.core.events import valid_event_types
from traitlets import Bool, Unicode

from ._version import __version__
from .codecs import CpuEncoder, EncodedFrame
from .codecs.jpeg.bitstream import SUBSAMPLINGS
from .codecs.jpeg.tables import check_quality
from .context import ArrayContext, EncodingContext
from .diagnostics import BUNDLE, STYLE, NoAdapterError, find_adapter, find_bundle
from .flow import PROTOCOL_VERSION, Inbox, ProtocolError, Views, parse_message
from .flow.protocol import (
    Ack,
    Bye,
    DecoderReport,
    Event,
    Hello,
    Message,
    RoadReport,
    Visibility,
    again_message,
    clean_event,
    clean_size,
    error_message,
    frame_message,
    welcome_message,
)
from .readback import GPUFuture
from .roads import TRANSPORTS, Roads
from .transport import Link

__all__ = ["RenderCanvas", "loop"]

logger = logging.getLogger("rfb_gpu")

if find_bundle() is None:
    raise ImportError(
        "rfb_gpu's front end is not built: run `make setup` in the checkout (or `python hatch_build.py`), or install the wheel"
    )

DEFAULT_MAX_SIDE = 8192
"""Largest side in pixels while no device is known: WebGPU's default limit."""
MAX_PIXELS = 64 * 2**20
"""A page that asks for more gets less: 64 Mpixel are 256 MiB a texture."""
MAX_INBOXES = 64
AGAIN_SECONDS = 1.0
"""A page that is not known is asked to say hello at most so often."""

_BASE_ARGUMENTS = ("size", "title", "update_mode", "min_fps", "max_fps", "vsync", "present_method")


class _DrawCancelled(Exception):
    pass


# The name is what rendercanvas looks for: the draw is over, nothing is presented, the scheduler goes on.
_DrawCancelled.__name__ = "DrawCancelled"


class CanvasGroup(BaseCanvasGroup):
    """All canvases of this backend, which share a loop."""


class RenderCanvas(BaseRenderCanvas, anywidget.AnyWidget):
    """A canvas to use in notebooks; a drop-in for ``rendercanvas.anywidget.RenderCanvas``.

    Arguments (besides those of ``BaseRenderCanvas``: size, title, update_mode, min_fps, max_fps, vsync, present_method):
        quality: of JPEG frames, 1 to 100.
        subsampling: ``"444"``, or ``"422"`` or ``"420"`` for fewer bytes and softer colours, or ``"gray"``.
        encoder: ``"auto"``: the GPU, unless the adapter is a CPU; or ``"gpu"`` or ``"cpu"``.
        decoder: in the page. ``"auto"``: WebGPU where there is a GPU, else the browser's own; or ``"webgpu"`` or ``"browser"``.
        lossless_delay: seconds without a draw after which the last frame is sent without loss; None: never.
        max_buffered_frames: how many frames a page may have unacknowledged.
        transport: of frames. ``"auto"``: a websocket from the page to this process where it can be had (on this machine, or by
            jupyter-server-proxy), else the notebook's own channel; ``"comm"``: that channel alone, and no port is opened;
            ``"websocket"``: as auto, and pages that cannot have one say so. The port is of 127.0.0.1 only, and takes a secret.

    Raises:
        NoAdapterError: pygfx is loaded, and there is no adapter that it could draw with. Without pygfx,
            ``get_context("wgpu")`` raises it.
        ValueError, TypeError: an argument is out of its range.
    """

    # Names of our own begin with _rfb_: widgets and canvases have many attributes.

    _rc_canvas_group = CanvasGroup(loop)

    # As texts: anywidget watches files, and what watches holds every canvas for ever.
    _esm = BUNDLE.read_text(encoding="utf-8")
    _css = STYLE.read_text(encoding="utf-8")

    # Kernel -> page only. The page never writes a trait.
    _css_width = Unicode("500px").tag(sync=True)
    _css_height = Unicode("300px").tag(sync=True)
    _resizable = Bool(True).tag(sync=True)
    _is_minimizable = Bool(False).tag(sync=True)
    _is_closable = Bool(False).tag(sync=True)
    _has_titlebar = Bool(False).tag(sync=True)
    _title = Unicode("").tag(sync=True)
    _cursor = Unicode("default").tag(sync=True)
    _decoder = Unicode("auto").tag(sync=True)

    # ----- life

    def __init__(
        self,
        *args: Any,
        quality: int = 80,
        subsampling: str = "444",
        encoder: str = "auto",
        decoder: str = "auto",
        lossless_delay: float | None = 0.3,
        max_buffered_frames: int = 3,
        transport: str = "auto",
        **kwargs: Any,
    ) -> None:
        check_quality(quality)
        _check_choice("subsampling", subsampling, SUBSAMPLINGS)
        _check_choice("encoder", encoder, ("auto", "gpu", "cpu"))
        _check_choice("decoder", decoder, ("auto", "webgpu", "browser"))
        _check_choice("transport", transport, TRANSPORTS)
        if lossless_delay is not None and not (
            isinstance(lossless_delay, (int, float)) and 0 <= lossless_delay < math.inf  # type: ignore[redundant-expr]
        ):
            raise ValueError(
                f"lossless_delay must be a number of seconds from 0 or None, not {lossless_delay!r}"
            )
        if isinstance(max_buffered_frames, bool) or not isinstance(max_buffered_frames, int):
            raise TypeError(f"max_buffered_frames must be a whole number, not {max_buffered_frames!r}")
        for name in kwargs:
            if name not in _BASE_ARGUMENTS and not self.has_trait(name):
                raise TypeError(f"RenderCanvas() has no argument {name!r}")
        views = Views(max_buffered_frames)
        _complain_without_adapter()
        kwargs.setdefault("title", "")

        super().__init__(*args, **kwargs)

        self._is_closed = False
        self._decoder = decoder
        self._rfb_quality = quality
        self._rfb_subsampling = subsampling
        self._rfb_encoder_preference = encoder
        self._rfb_lossless_delay = lossless_delay

        # Where output of ours belongs: the cell that made the canvas. Callbacks start from other cells' messages.
        self._rfb_context = contextvars.copy_context()

        self._rfb_views = views
        self._rfb_inboxes: dict[str, Inbox] = {}  # least recently heard first
        self._rfb_asked_again: dict[str, float] = {}
        self._rfb_to_greet: set[str] = set()
        self._rfb_hosts: dict[str, str] = {}
        self._rfb_decoders: dict[str, DecoderReport] = {}
        self._rfb_roads = Roads(transport, self._rfb_on_socket_message, self._rfb_on_socket_lost)
        self._rfb_wakeup = _Wakeup(self._rfb_call_later, self._rfb_flush)

        self._rfb_draw_requested = False
        self._rfb_user_draw: Callable[[], None] | None = super()._draw_frame
        self._rfb_draw_errors: set[str] = set()
        self._rfb_badges: dict[str, str] = {}

        self._rfb_frame_id = 0
        self._rfb_draws = 0  # counts what was drawn, which tells newer frames from older ones
        self._rfb_delivered = 0  # the newest draw whose frame went out
        self._rfb_sharpening = False  # at most one lossless encoding at a time
        self._rfb_unconfirmed: dict[int, None] = {}
        self._rfb_encode_failures = 0
        self._rfb_last_frame: tuple[EncodedFrame, str, bool] | None = None  # frame, fit, final
        self._rfb_pending_final: EncodedFrame | None = None
        self._rfb_array_encoders: dict[str, CpuEncoder] = {}
        self._rfb_last_array: NDArray[np.uint8] | None = None
        self._rfb_size_is_from_page = False
        self._last_set_logical_size: tuple[float, float] = (100, 100)

        self.reset_stats()
        self.on_msg(self._rfb_on_message)
        self._final_canvas_init()

    def get_context(self, context_type: str | type) -> contexts.BaseContext:
        """See ``BaseRenderCanvas.get_context``; "wgpu" gives a context that encodes on the GPU."""
        if context_type == "wgpu" or context_type is contexts.WgpuContext:
            context_type = EncodingContext
        elif context_type == "bitmap" or context_type is contexts.BitmapContext:
            context_type = ArrayContext
        return super().get_context(context_type)

    def describe(self) -> str:
        """One line for people: size, encoder and why, and each page's decoder and road, and why."""
        width, height = self.get_physical_size()
        context = self._canvas_context
        if isinstance(context, EncodingContext) and context.encoder is not None:
            encoder = f"{context.encoder.name} ({context.encoder_reason})"
        else:
            encoder = "no encoder yet"
        pages = [
            f"{self._rfb_hosts.get(view, 'a page')} decodes with {': '.join(filter(None, (report.name, report.method)))} "
            f"({report.reason}; {report.adapter or 'no adapter'}), frames come {self._rfb_roads.describe(view)}"
            for view, report in self._rfb_decoders.items()
        ]
        return f"{width}x{height}, {encoder}; {'; '.join(pages) or 'no page yet'}"

    # ----- messages from pages

    def _rfb_on_message(self, _widget: object, content: Any, _buffers: object) -> None:
        """Called on whichever thread the kernel likes. Hands over, does nothing else."""
        group_loop = self._rc_canvas_group.get_loop()
        if group_loop is not None and not self._is_closed:
            group_loop.call_soon_threadsafe(self._rfb_receive, content)

    def _rfb_on_socket_message(self, content: Any, link: Link) -> None:
        """Called on the websocket server's thread. What handlers print belongs to the canvas's cell."""
        group_loop = self._rc_canvas_group.get_loop()
        if group_loop is not None and not self._is_closed:
            self._rfb_context.copy().run(group_loop.call_soon_threadsafe, self._rfb_receive, content, link)

    def _rfb_on_socket_lost(self, link: Link) -> None:
        """Called on the websocket server's thread."""
        group_loop = self._rc_canvas_group.get_loop()
        if group_loop is not None and not self._is_closed:
            self._rfb_context.copy().run(group_loop.call_soon_threadsafe, self._rfb_lose, link)

    def _rfb_receive(self, content: Any, link: Link | None = None) -> None:
        try:
            message = parse_message(content)
        except ProtocolError as error:
            logger.debug("message ignored: %s", error)
            return
        if message is None:
            return
        now = time.perf_counter()
        inbox = self._rfb_inboxes.pop(message.view, None) or Inbox()
        self._rfb_inboxes[message.view] = inbox
        if len(self._rfb_inboxes) > MAX_INBOXES:
            self._rfb_forget(next(iter(self._rfb_inboxes)))
        self._rfb_handle_all(message.view, inbox, inbox.push(message, now), link)

    def _rfb_expire_inbox(self, view: str) -> None:
        inbox = self._rfb_inboxes.get(view)
        if inbox is not None:
            self._rfb_handle_all(view, inbox, inbox.expire(time.perf_counter()))

    def _rfb_handle_all(
        self, view: str, inbox: Inbox, messages: list[Message], link: Link | None = None
    ) -> None:
        for message in messages:
            try:
                self._rfb_handle(message, link)
            except Exception:
                logger.exception("a message of the page could not be handled: %s", message)
        if inbox.deadline is not None:
            self._rfb_call_later(inbox.deadline - time.perf_counter(), self._rfb_expire_inbox, view)

    def _rfb_handle(self, message: Message, link: Link | None) -> None:
        if self._is_closed:
            return
        now = time.perf_counter()
        if message.view not in self._rfb_views and not isinstance(message, (Hello, Bye)):
            # Forgotten, or of another version: nothing of it counts until it has said hello.
            if now - self._rfb_asked_again.get(message.view, -math.inf) >= AGAIN_SECONDS:
                self._rfb_asked_again[message.view] = now
                self.send(again_message(message.view))
            return
        self._rfb_views.heard(message.view)
        match message:
            case Hello():
                # The first of its epoch, so it was not kept waiting: it came by this link.
                self._rfb_handle_hello(message, link)
            case Visibility():
                self._rfb_views.set_visible(message.view, message.visible)
                if message.visible and self._rfb_last_frame is None:
                    self.request_draw()
            case Ack():
                self._rfb_count_acks(
                    message, self._rfb_views.ack(message.view, message.epoch, message.frame, now)
                )
            case DecoderReport():
                self._rfb_decoders[message.view] = message
            case RoadReport():
                self._rfb_roads.explain(message.view, message.reason)
                self._rfb_complain_of_road(message.view)
            case Event():
                self._rfb_handle_event(dict(message.event))
            case Bye():
                self._rfb_forget(message.view)
        self._rfb_flush()

    def _rfb_handle_hello(self, hello: Hello, link: Link | None) -> None:
        if hello.version != PROTOCOL_VERSION:
            text = (
                f"the page runs rfb_gpu {hello.frontend or 'of an unknown release'} and the kernel {__version__}, which do not "
                "understand each other: restart the kernel and reload the page"
            )
            self.send(error_message("version", text, hello.view))
            return
        if not self._rfb_views.hello(hello.view, hello.epoch):
            return
        self._rfb_hosts[hello.view] = hello.host
        self._rfb_roads.begin(hello.view, link, hello.host)
        offer = self._rfb_roads.offer() if link is None else None
        welcome = welcome_message(hello.view, hello.epoch, __version__, self._rfb_views.window, offer)
        if link is None:
            self.send(welcome)
        else:
            link.send(welcome)
        self._rfb_complain_of_road(hello.view)
        for code, text in self._rfb_badges.items():
            self.send(error_message(code, text))
        # The last picture at once, so that a page that reloads never waits for a draw; but once for many hellos.
        if hello.view not in self._rfb_to_greet:
            self._rfb_to_greet.add(hello.view)
            self._rfb_call_later(0, self._rfb_greet, hello.view)

    def _rfb_greet(self, view: str) -> None:
        self._rfb_to_greet.discard(view)
        if self._rfb_last_frame is not None and view in self._rfb_views and not self._is_closed:
            self._rfb_send(*self._rfb_last_frame, view=view)

    def _rfb_complain_of_road(self, view: str) -> None:
        complaint = self._rfb_roads.complaint(view)
        if complaint is not None:
            self.send(error_message("road", complaint, view))

    def _rfb_lose(self, link: Link) -> None:
        """A websocket broke. A page that lives says hello over the comm; one that is gone must hold nothing up."""
        for view in self._rfb_roads.views_of(link):
            self._rfb_forget(view)
        self._rfb_flush()

    def _rfb_forget(self, view: str) -> None:
        self._rfb_views.bye(view)
        self._rfb_roads.forget(view)
        self._rfb_inboxes.pop(view, None)
        self._rfb_asked_again.pop(view, None)
        self._rfb_hosts.pop(view, None)
        self._rfb_decoders.pop(view, None)

    def _rfb_handle_event(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        if kind == "resize":
            size = clean_size(event, self._rfb_max_side(), MAX_PIXELS)
            if size is None:
                logger.debug("impossible size ignored: %s", event)
                return
            self._rfb_size_is_from_page = True
            if (size.width, size.height) != self.get_physical_size() or size.ratio != self.get_pixel_ratio():
                self._size_info.set_physical_size(size.width, size.height, size.ratio)
                self.request_draw()
        elif kind == "close":
            self.close()
        elif kind in valid_event_types and kind not in ("before_draw", "animate"):
            cleaned = clean_event(event)
            if cleaned is None:
                logger.debug("incomplete event ignored: %s", event)
                return
            cleaned["time_stamp"] = event.get("timestamp", time.perf_counter())
            self.submit_event(cleaned)

    def _rfb_max_side(self) -> int:
        context = self._canvas_context
        device = context.device if isinstance(context, EncodingContext) else None
        return int(device.limits["max-texture-dimension-2d"]) if device is not None else DEFAULT_MAX_SIDE

    # ----- drawing

    # Every draw goes through self._draw_frame, which users set with request_draw(). A property puts our guard around it.
    @property
    def _draw_frame(self) -> Callable[[], None] | None:
        return self._rfb_guarded_draw if self._rfb_user_draw is not None else None

    @_draw_frame.setter
    def _draw_frame(self, function: Callable[[], None] | None) -> None:
        if function is not self._rfb_user_draw:
            self._rfb_draw_errors.clear()
        self._rfb_user_draw = function

    def _rfb_guarded_draw(self) -> None:
        """The user's draw function. An error is shown once, and as a badge until a draw succeeds."""
        assert self._rfb_user_draw is not None
        try:
            self._rfb_user_draw()
        except Exception as error:
            if type(error).__name__ == "DrawCancelled":
                raise
            where = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__} {where.filename}:{where.lineno}"
            if kind not in self._rfb_draw_errors:
                self._rfb_draw_errors.add(kind)
                # Without the frames of ours and rendercanvas, which no user can do anything about.
                error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
                logger.error("the draw function of this canvas failed", exc_info=error)
            self._rfb_set_badge(
                "draw", f"Draw function failed: {type(error).__name__}: {error}".splitlines()[0][:200]
            )
            raise _DrawCancelled from error
        self._rfb_set_badge("draw", "")

    def _rfb_maybe_draw(self) -> None:
        """Draws, if a draw is wanted and somebody is ready to see it."""
        if not self._rfb_draw_requested or self._is_closed:
            return
        now = time.perf_counter()
        if not self._rfb_size_is_from_page:
            return  # the first resize calls again: a picture of one pixel helps nobody
        if self._rfb_views.may_send(now) and self._rfb_encoder_ready():
            self._rfb_draw_requested = False
            self._rfb_context.copy().run(self._time_to_draw)
        else:
            # Acks, visibility and finished frames call again; only a time-out needs a clock.
            self._rfb_wakeup.at(self._rfb_views.next_deadline(now))

    def _rfb_encoder_ready(self) -> bool:
        context = self._canvas_context
        if isinstance(context, EncodingContext):
            return context.ready
        return all(encoder.ready for encoder in self._rfb_array_encoders.values())

    def _rfb_flush(self) -> None:
        """Sends what waits for room, and draws if a draw waits."""
        now = time.perf_counter()
        if self._rfb_pending_final is not None and not self._is_closed:
            if self._rfb_views.may_send(now):
                frame, self._rfb_pending_final = self._rfb_pending_final, None
                self._rfb_deliver(frame, final=True)
            else:
                self._rfb_wakeup.at(self._rfb_views.next_deadline(now))
        self._rfb_maybe_draw()

    # ----- frames

    def _rfb_take(self, future: GPUFuture[EncodedFrame]) -> None:
        """Delivers what was just drawn as soon as it is encoded, unless something newer went out meanwhile."""
        self._rfb_draws += 1
        self._rfb_pending_final = None
        draw = self._rfb_draws

        def deliver(future: GPUFuture[EncodedFrame]) -> None:
            if self._is_closed:
                return
            error = future.exception()
            if error is not None:
                self._rfb_encoding_failed(error)
            elif draw > self._rfb_delivered:
                self._rfb_delivered = draw
                self._rfb_encode_failures = 0
                self._rfb_set_badge("encode", "")
                frame = future.result()
                self._rfb_stats["img_encoding_sum"] += frame.timings["ready"]
                self._rfb_deliver(frame, final=False)
                if self._rfb_lossless_delay is not None:
                    self._rfb_call_later(self._rfb_lossless_delay, self._rfb_sharpen, draw)
            self._rfb_flush()

        future.add_done_callback(deliver)

    def _rfb_encoding_failed(self, error: BaseException) -> None:
        """Shows it, goes on with another encoder if there is one, and tries once more by itself."""
        logger.error("a frame could not be encoded", exc_info=error)
        self._rfb_set_badge("encode", f"Encoding failed: {error}".splitlines()[0][:200])
        context = self._canvas_context
        fell_back = isinstance(context, EncodingContext) and context.fall_back(error)
        self._rfb_encode_failures += 1
        if fell_back or self._rfb_encode_failures == 1:
            self.request_draw()

    def _rfb_sharpen(self, draw: int) -> None:
        """Encodes the last frame once more, without loss, if nothing was drawn since."""
        if draw != self._rfb_draws or self._is_closed or self._rfb_sharpening:
            return  # an encoding under way comes back here when it is through
        future = self._rfb_encode_lossless()
        if future is None:
            return
        self._rfb_sharpening = True

        def deliver(future: GPUFuture[EncodedFrame]) -> None:
            self._rfb_sharpening = False
            if self._is_closed:
                return
            if future.exception() is not None:
                logger.error("the sharp frame could not be encoded", exc_info=future.exception())
            elif draw == self._rfb_draws:
                self._rfb_pending_final = future.result()
                self._rfb_flush()
            elif self._rfb_lossless_delay is not None:
                self._rfb_call_later(self._rfb_lossless_delay, self._rfb_sharpen, self._rfb_draws)

        future.add_done_callback(deliver)

    def _rfb_encode_lossless(self) -> GPUFuture[EncodedFrame] | None:
        context = self._canvas_context
        if isinstance(context, EncodingContext):
            return context.encode_lossless()
        if self._rfb_last_array is not None:
            return self._rfb_array_encoder("png").encode_array(self._rfb_last_array)
        return None

    def _rfb_deliver(self, frame: EncodedFrame, *, final: bool) -> None:
        fit = "exact" if isinstance(self._canvas_context, EncodingContext) else "stretch"
        self._rfb_frame_id += 1
        self._rfb_last_frame = (frame, fit, final)
        if len(self._rfb_views):
            if not final:
                self._rfb_unconfirmed[self._rfb_frame_id] = None
                while len(self._rfb_unconfirmed) > 1000:
                    del self._rfb_unconfirmed[next(iter(self._rfb_unconfirmed))]
                stats = self._rfb_stats
                stats["sent_frames"] += 1
                stats["start_time"] = stats["start_time"] or time.perf_counter()
            self._rfb_send(frame, fit, final)

    def _rfb_send(self, frame: EncodedFrame, fit: str, final: bool, view: str | None = None) -> None:
        self._rfb_views.sent(self._rfb_frame_id, time.perf_counter(), view)
        message = frame_message(
            self._rfb_frame_id,
            codec=frame.codec,
            width=frame.width,
            height=frame.height,
            fit=fit,
            final=final,
            quality=frame.quality,
            subsampling=frame.subsampling,
            window=self._rfb_views.window,
            view=view,
        )
        self._rfb_roads.send(message, frame.data, self._rfb_views, self.send, view)

    def _rfb_set_badge(self, code: str, text: str) -> None:
        if self._rfb_badges.get(code, "") != text:
            self._rfb_badges[code] = text
            if not text:
                del self._rfb_badges[code]
            self.send(error_message(code, text))

    def _rfb_array_encoder(self, codec: str) -> CpuEncoder:
        if codec not in self._rfb_array_encoders:
            self._rfb_array_encoders[codec] = CpuEncoder(
                None, codec, self._rfb_quality, self._rfb_subsampling
            )
        return self._rfb_array_encoders[codec]

    def _rfb_call_later(self, delay: float, callback: Callable[..., None], *args: Any) -> None:
        group_loop = self._rc_canvas_group.get_loop()
        if group_loop is not None:
            group_loop.call_later(max(delay, 0), callback, *args)

    # ----- what a user can call, besides the base class

    def snapshot(self, *, pixel_ratio: float | None = None) -> None:
        """Shows the current picture as an image in the cell's output, where it stays when the notebook is saved.

        Arguments:
            pixel_ratio: pixels per logical pixel, for a canvas that no page shows yet; default 1. A canvas that is shown keeps
                its size.
        """
        from IPython.display import HTML, display

        if not self._rfb_size_is_from_page:
            ratio = 1.0 if pixel_ratio is None else float(pixel_ratio)
            width, height = (max(int(side * ratio), 1) for side in self._last_set_logical_size)
            self._size_info.set_physical_size(width, height, ratio)
        self.force_draw()
        future = self._rfb_encode_lossless()
        if future is None:
            raise RuntimeError(
                "there is nothing to show: give the canvas a draw function with request_draw() first"
            )
        frame = future.result()
        width, height = self.get_logical_size()
        source = base64.b64encode(frame.data).decode()
        alt = html.escape(self._title or "canvas")
        display(
            HTML(
                f'<img alt="{alt}" src="data:image/png;base64,{source}" style="width:{width}px;height:{height}px">'
            )
        )

    def reset_stats(self) -> None:
        """Starts measuring anew, with the next frame that is sent."""
        self._rfb_stats: dict[str, float] = dict.fromkeys(
            (
                "start_time",
                "last_time",
                "sent_frames",
                "confirmed_frames",
                "roundtrip_count",
                "roundtrip_sum",
                "delivery_sum",
                "img_encoding_sum",
            ),
            0,
        )

    def get_stats(self) -> dict[str, float]:
        """What was measured since :meth:`reset_stats`, with the names of ``rendercanvas.anywidget``:

        * *sent_frames*, *confirmed_frames*: frames sent, and acknowledged by a page.
        * *roundtrip*: mean seconds from sending a frame to its acknowledgement.
        * *delivery*: the part of it that is not spent in the page: the ways of the frame and of its acknowledgement.
        * *img_encoding*: mean seconds from the end of a draw until the frame's bytes were there.
        * *fps*: frames acknowledged per second, from the first that was sent.
        """
        stats = self._rfb_stats
        seconds = stats["last_time"] - stats["start_time"]
        return {
            "sent_frames": stats["sent_frames"],
            "confirmed_frames": stats["confirmed_frames"],
            "roundtrip": stats["roundtrip_sum"] / (stats["roundtrip_count"] or 1),
            "delivery": stats["delivery_sum"] / (stats["roundtrip_count"] or 1),
            "img_encoding": stats["img_encoding_sum"] / (stats["sent_frames"] or 1),
            "fps": stats["confirmed_frames"] / seconds if seconds > 0 else 0.0,
        }

    def _rfb_count_acks(self, ack: Ack, answered: list[tuple[int, float]]) -> None:
        """Counts each lossy frame once, by the first page that answers."""
        stats = self._rfb_stats
        round_trips = [trip for frame, trip in answered if self._rfb_unconfirmed.pop(frame, True) is None]
        if not round_trips or not stats["start_time"]:
            return
        stats["confirmed_frames"] += len(round_trips)
        stats["roundtrip_count"] += len(round_trips)
        stats["roundtrip_sum"] += sum(round_trips)
        stats["last_time"] = time.perf_counter()
        in_page = 0.0 if ack.present_ms is None else ack.present_ms / 1000
        stats["delivery_sum"] += sum(max(round_trip - in_page, 0) for round_trip in round_trips)

    def set_css_width(self, css_width: str) -> None:
        """Sets the width as a CSS text, e.g. ``"100%"``."""
        self._css_width = css_width

    def set_css_height(self, css_height: str) -> None:
        """Sets the height as a CSS text, e.g. ``"50vh"``."""
        self._css_height = css_height

    def set_resizable(self, resizable: bool) -> None:
        """Whether the user can resize the canvas by its corner."""
        self._resizable = bool(resizable)

    def set_minimizable(self, minimizable: bool) -> None:
        """Whether the title bar has a button that folds the canvas away; nothing is drawn while no page shows it."""
        self._is_minimizable = bool(minimizable)

    def set_closable(self, closable: bool) -> None:
        """Whether the title bar has a button that closes the canvas."""
        self._is_closable = bool(closable)

    # ----- the backend, in the base class's order

    def _rc_gui_poll(self) -> None:
        pass

    def _rc_get_present_info(self, present_methods: list[str]) -> dict[str, Any] | None:
        if "bitmap" not in present_methods:
            return None
        return {
            "method": "bitmap",
            "formats": ["rgba-u8", "bgra-u8"],
            "encoder": self._rfb_encoder_preference,
            "quality": self._rfb_quality,
            "subsampling": self._rfb_subsampling,
        }

    def _rc_request_draw(self) -> None:
        if not self._rfb_draw_requested:
            self._rfb_draw_requested = True
            # Not at once: the scheduler's task belongs to a cell, and several requests become one draw.
            self._rfb_call_later(0, self._rfb_maybe_draw)

    def _rc_request_paint(self) -> None:
        pass  # there is no paint event; frames are sent when they are there

    def _rc_force_paint(self) -> None:
        pass

    def _rc_present_failed(self, *, error: BaseException) -> None:
        self._rfb_encoding_failed(error)

    def _rc_present_encoded(self, *, future: GPUFuture[EncodedFrame]) -> None:
        self._rfb_take(future)

    def _rc_present_bitmap(self, *, data: NDArray[np.uint8], format: str, **_: Any) -> None:
        assert format == "rgba-u8"
        self._rfb_last_array = np.array(data)  # our own: the program may draw into its array at any time
        self._rfb_take(self._rfb_array_encoder("jpeg").encode_array(self._rfb_last_array))

    def _rc_set_logical_size(self, width: float, height: float) -> None:
        self._last_set_logical_size = width, height
        self._css_width = f"{width}px"
        self._css_height = f"{height}px"

    def _rc_close(self) -> None:
        if self._is_closed:
            return
        self.send({"type": "closed"})
        self._rfb_roads.close()
        self._is_closed = True
        for encoder in self._rfb_array_encoders.values():
            encoder.close()
        self._rfb_last_frame = self._rfb_pending_final = self._rfb_last_array = None
        anywidget.AnyWidget.close(self)

    def _rc_get_closed(self) -> bool:
        return self._is_closed

    def _rc_set_title(self, title: str) -> None:
        self._title = str(title)
        self._has_titlebar = bool(title)

    def _rc_set_cursor(self, cursor: str) -> None:
        self._cursor = cursor


class _Wakeup:
    """Calls back at a time, at most once for the earliest time asked for."""

    def __init__(self, call_later: Callable[..., None], callback: Callable[[], None]) -> None:
        self._call_later = call_later
        self._callback = callback
        self._when: float | None = None

    def at(self, when: float | None) -> None:
        if when is not None and (self._when is None or when < self._when):
            self._when = when
            self._call_later(when - time.perf_counter(), self._fire, when)

    def _fire(self, when: float) -> None:
        if when == self._when:
            self._when = None
            self._callback()


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")


def _complain_without_adapter() -> None:
    """Raises early what pygfx would raise as a driver's message. NumPy frames need no adapter, so only then."""
    import sys

    if "pygfx" in sys.modules and find_adapter() is None:
        raise NoAdapterError()
