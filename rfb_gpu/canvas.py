"""The canvas that streams its pictures to pages: a rendercanvas backend. What it reaches pages by is its subclasses' matter.

How a frame goes. The scheduler asks for a draw; the canvas grants it when a page looks and has room in its window. The user's draw
function draws into the texture of :class:`.context.EncodingContext`, which encodes it and gives a future. When the bytes are
there, they are sent to the audience that the draw was made for (see :mod:`.audience`), and the others follow; the page
acknowledges; that makes room. When drawing rests, the same frame is sent once more without loss.

Threads. A kernel may deliver messages on a thread of its own (ipykernel 7 with JupyterLab's subshells), so a message handler does
nothing but hand over to the canvas's loop. Everything else here runs on that loop, or in flush(). A live canvas's loop has a
thread of its own (see :mod:`.threads`); what others call of it hands over, where it must.

There is no codec in here, and no decision about flow: see :mod:`.codecs` and :mod:`.flow`.
"""

from __future__ import annotations

import contextvars
import logging
import math
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from rendercanvas import contexts
from rendercanvas.asyncio import loop
from rendercanvas.base import BaseCanvasGroup, BaseRenderCanvas
from rendercanvas.core.events import valid_event_types

from .arguments import check_choice, check_count, check_flag, check_quality_range, check_quantity
from .audience import Audience, Audiences, Limits, Sent
from .codecs import CpuEncoder, EncodedFrame
from .codecs.jpeg.bitstream import SUBSAMPLINGS
from .context import ArrayContext, EncodingContext
from .diagnostics import NoAdapterError, find_adapter
from .flow import Settings
from .flow.protocol import Ack, clean_event, clean_size, stats_message
from .pages import Pages
from .readback import GPUFuture
from .roads import TRANSPORTS, Roads
from .snapshot import as_output, fit_png
from .stats import Meter, Stats
from .threads import (
    CallbackLock,
    LiveGroup,
    LiveLoop,
    Mail,
    Pulse,
    callback_lock,
    live_group,
)
from .transport import Link
from .wakeup import Wakeup

__all__ = ["StreamingCanvas", "loop"]

logger = logging.getLogger("rfb_gpu")

T = TypeVar("T")

DEFAULT_MAX_SIDE = 8192
"""Largest side in pixels while no device is known: WebGPU's default limit."""
MAX_PIXELS = 64 * 2**20
"""A page that asks for more gets less: 64 Mpixel are 256 MiB a texture."""
DEFAULT_QUALITY = 30, 80
STATS_SECONDS = 0.5
"""How often the overlay's text is sent, while frames are."""
UNHEARD_SECONDS = 0.1
"""While a cell runs and no acknowledgement can arrive, a frame is sent at most so often..."""
UNHEARD_BYTES_PER_SECOND = 500_000
"""...and no more than this: half of what the slowest host (VS Code) carries."""

_BASE_ARGUMENTS = ("size", "title", "update_mode", "min_fps", "max_fps", "vsync", "present_method")


class _DrawCancelled(Exception):
    pass


# The name is what rendercanvas looks for: the draw is over, nothing is presented, the scheduler goes on.
_DrawCancelled.__name__ = "DrawCancelled"


class CanvasGroup(BaseCanvasGroup):
    """All canvases of this backend, which share a loop."""


class StreamingCanvas(BaseRenderCanvas):
    """A canvas whose pictures go to pages; for its arguments see :class:`.widget.RenderCanvas`.

    A subclass sends, and hands what pages say to :meth:`_rfb_on_message`.
    """

    # Names of our own begin with _rfb_: canvases, and the widgets that some are, have many attributes.

    _rc_canvas_group: CanvasGroup | LiveGroup = CanvasGroup(loop)

    # A subclass has these. No values: they would hide a widget's traits. send() sends a message and a list of buffers over the
    # notebook's own channel, to all pages. The widget is what pages have of the canvas.
    send: Callable[..., None]
    _rfb_widget: Any
    _title: str
    _decoder: str
    _show_stats: bool
    _capture_wheel: bool
    _max_pixel_ratio: float

    # ----- life

    def __init__(
        self,
        *args: Any,
        quality: int | tuple[int, int] = DEFAULT_QUALITY,
        codec: str = "auto",
        subsampling: str = "444",
        encoder: str = "auto",
        decoder: str = "auto",
        alpha: str = "opaque",
        lossless_delay: float | None = 0.3,
        latency_budget: float | None = 0.1,
        max_buffered_frames: int | None = None,
        live: bool = False,
        transport: str = "auto",
        capture_wheel: bool = False,
        max_pixel_ratio: float | None = None,
        **kwargs: Any,
    ) -> None:
        floor, ceiling = check_quality_range(quality)
        check_choice("codec", codec, ("auto", "jpeg", "png"))
        check_choice("subsampling", subsampling, SUBSAMPLINGS)
        check_choice("encoder", encoder, ("auto", "gpu", "cpu"))
        check_choice("decoder", decoder, ("auto", "webgpu", "browser"))
        check_choice("alpha", alpha, ("opaque", "premultiplied"))
        check_choice("transport", transport, TRANSPORTS)
        check_quantity("lossless_delay", lossless_delay, "number of seconds from 0", zero=True)
        check_quantity("latency_budget", latency_budget, "positive number of seconds")
        check_quantity("max_pixel_ratio", max_pixel_ratio)
        check_count("max_buffered_frames", max_buffered_frames)
        check_flag("live", live)
        check_flag("capture_wheel", capture_wheel)
        for name in kwargs:
            if name not in _BASE_ARGUMENTS and not self._rfb_is_trait(name):
                raise TypeError(f"{type(self).__name__}() has no argument {name!r}")
        limits = Limits(
            floor=floor,
            ceiling=ceiling,
            codec=codec,
            subsampling=subsampling,
            latency_budget=latency_budget,
            window=max_buffered_frames,
            lossless_delay=lossless_delay,
        )
        _complain_without_adapter()
        kwargs.setdefault("title", "")
        if live:
            self._rc_canvas_group = live_group()
        group_loop = self._rc_canvas_group.get_loop()
        self._rfb_live_loop = group_loop if isinstance(group_loop, LiveLoop) else None

        super().__init__(*args, **kwargs)

        self._is_closed = False
        self._decoder = decoder
        self._capture_wheel = capture_wheel
        self._max_pixel_ratio = max_pixel_ratio or 0.0
        self._rfb_encoder_preference = encoder
        self._rfb_has_alpha = alpha == "premultiplied"

        # Where output of ours belongs: the cell that made the canvas. Callbacks start from other cells' messages.
        self._rfb_context = contextvars.copy_context()

        self._rfb_maker = threading.current_thread()
        self._rfb_thread = self._rfb_maker if self._rfb_live_loop is None else self._rfb_live_loop.thread
        self._rfb_pulse = Pulse()
        self._rfb_mail = Mail(self._rfb_wake)
        self._rfb_update_mode = str(kwargs.get("update_mode", "ondemand"))
        self._rfb_draw_wanted = True  # by the program: request_draw() was called, and no draw has begun since
        self._rfb_newest_encoding: GPUFuture[EncodedFrame] | None = None  # of the newest draw
        self._rfb_sent_draw = 0  # the newest draw whose frame was sent
        self._rfb_drawn_when = -math.inf
        self._rfb_hears_in_cells = False
        self._rfb_is_flushing = False  # in a cell

        self._rfb_audiences = Audiences(self, limits)
        self._rfb_roads = Roads(
            transport, self._rfb_on_socket_message, self._rfb_on_socket_lost, self._rfb_on_socket_written
        )
        self._rfb_pages = Pages(self, self._rfb_audiences, self._rfb_roads)
        self._rfb_wakeup = Wakeup(self._rfb_call_later, self._rfb_flush)

        self._rfb_draw_requested = False
        self._rfb_user_draw: Callable[[], None] | None = super()._draw_frame
        self._rfb_draw_errors: set[str] = set()

        self._rfb_frame_id = 0
        self._rfb_draws = 0  # counts what was drawn, which tells newer frames from older ones
        self._rfb_draw_for: Audience | None = None  # the one that is under way
        self._rfb_settings = None if limits.is_lossless else limits.policy().settings  # of its frame
        self._rfb_files: dict[Settings | None, GPUFuture[EncodedFrame]] = {}  # of the newest draw
        self._rfb_encoding = 0  # how many draws are being encoded
        self._rfb_delivered = 0  # the newest draw whose frame is there
        self._rfb_picture = 0  # the newest of them whose picture was another one than that before
        self._rfb_unconfirmed: dict[int, None] = {}
        self._rfb_encode_failures = 0
        self._rfb_last: Sent | None = None  # whichever audience it went to
        self._rfb_pointer_y: float | None = None  # in pixels
        self._rfb_array_encoders: dict[str, CpuEncoder] = {}
        self._rfb_last_array: NDArray[np.uint8] | None = None
        self._rfb_size_is_from_page = False
        self._last_set_logical_size: tuple[float, float] = (100, 100)

        self._rfb_meter = Meter()
        self._rfb_draw_began: float | None = None
        self._rfb_draw_seconds = 0.0
        self._rfb_stats_told = 0.0
        # It has no use for them, but its task would keep all event handlers, and with them renderers and this canvas.
        self._rfb_scheduler._events = None
        self._rfb_listen()
        self._final_canvas_init()
        if isinstance(self._rc_canvas_group, LiveGroup):
            self._rfb_receive_directly()
            self._rc_canvas_group.begin(self)

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
        return f"{width}x{height}, {encoder}; {self._rfb_pages.describe()}"

    # ----- for subclasses: the way to pages

    def _rfb_listen(self) -> None:
        """Begins to hand the messages of pages to :meth:`_rfb_on_message`."""

    def _rfb_receive_directly(self) -> None:
        """Lets messages through while a cell runs, where that can be had."""

    def _rfb_is_trait(self, name: str) -> bool:
        """Whether it is an argument that a base class takes."""
        return False

    # ----- messages from pages

    def _rfb_on_message(self, _widget: object, content: Any, _buffers: object) -> None:
        """Called on whichever thread the kernel likes. Hands over, does nothing else."""
        self._rfb_hears_in_cells = threading.current_thread() is not self._rfb_maker
        self._rfb_mail.put(partial(self._rfb_receive, content, None))

    def _rfb_wake(self) -> None:
        group_loop = self._rc_canvas_group.get_loop()
        if group_loop is not None:
            group_loop.call_soon_threadsafe(self._rfb_read_mail)

    def _rfb_read_mail(self) -> None:
        """Handles all messages that have arrived, and only then draws: the draw shows the newest of many moves."""
        if mail := self._rfb_mail.take():
            for handle in mail:
                handle()
            self._rfb_flush()

    def _rfb_receive(self, content: Any, link: Link | None) -> None:
        for each in content if isinstance(content, list) else [content]:
            self._rfb_pages.receive(each, link)

    def _rfb_on_socket_message(self, content: Any, link: Link) -> None:
        """Called on the websocket server's thread. What handlers print belongs to the canvas's cell."""
        if not self._is_closed:
            self._rfb_hears_in_cells = True
            self._rfb_post(self._rfb_receive, content, link)

    def _rfb_on_socket_written(self, frame: int, link: Link) -> None:
        """Called on the websocket server's thread."""
        if not self._is_closed:
            self._rfb_post(self._rfb_audiences.written, frame, link)

    def _rfb_post(self, handle: Callable[..., None], *args: Any) -> None:
        """Leaves a letter for the canvas's loop, in the context of its cell."""
        self._rfb_context.copy().run(self._rfb_mail.put, partial(handle, *args))

    def _rfb_on_socket_lost(self, link: Link) -> None:
        """Called on the websocket server's thread."""
        group_loop = self._rc_canvas_group.get_loop()
        if group_loop is not None and not self._is_closed:
            self._rfb_context.copy().run(group_loop.call_soon_threadsafe, self._rfb_lose, link)

    def _rfb_lose(self, link: Link) -> None:
        self._rfb_pages.lose(link)
        self._rfb_flush()

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
            if kind.startswith(("pointer_", "wheel")):
                self._rfb_pointer_y = cleaned["y"] * self.get_pixel_ratio()
            self.submit_event(cleaned)

    def _rfb_max_side(self) -> int:
        context = self._canvas_context
        device = context.device if isinstance(context, EncodingContext) else None
        return int(device.limits["max-texture-dimension-2d"]) if device is not None else DEFAULT_MAX_SIDE

    # ----- drawing

    @property
    def _rfb_scheduler(self) -> Any:
        return self._BaseRenderCanvas__scheduler

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
        began = time.perf_counter()
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
            self._rfb_pages.set_badge(
                "draw", f"Draw function failed: {type(error).__name__}: {error}".splitlines()[0][:200]
            )
            raise _DrawCancelled from error
        finally:
            self._rfb_draw_seconds = time.perf_counter() - began
        self._rfb_meter.add("draw", began, self._rfb_draw_seconds)
        self._rfb_pages.set_badge("draw", "")

    def _rfb_maybe_draw(self) -> None:
        """Draws, if a draw is wanted and somebody is ready to see it."""
        if not self._rfb_draw_requested or self._is_closed:
            return
        now = time.perf_counter()
        if not self._rfb_size_is_from_page:
            return  # the first resize calls again: a picture of one pixel helps nobody
        deadline = self._rfb_audiences.next_deadline(self._rfb_leading, now, self._rfb_drawn_when)
        if self._rfb_live_loop is not None and deadline is not None and not self._rfb_hears_in_cells:
            deadline = min(deadline, now + UNHEARD_SECONDS)  # to see whether a cell keeps the acks
        audience = self._rfb_with_room(now)
        if audience is not None and self._rfb_encoder_ready(self._rfb_settings is None):
            self._rfb_draw_now(audience)
        else:
            # Acks, visibility and finished frames call again; only a time-out needs a clock.
            self._rfb_wakeup.at(deadline)

    @property
    def _rfb_leading(self) -> Audience:
        """Whom draws are made for, as long as it has room."""
        return self._rfb_audiences.leading(self._rfb_pages.control.holder)

    def _rfb_is_unheard(self, now: float) -> bool:
        """Whether a cell keeps all acknowledgements, so that silence tells nothing."""
        if self._rfb_hears_in_cells:
            return False
        return self._rfb_is_flushing if self._rfb_live_loop is None else self._rfb_pulse.has_stopped(now)

    def _rfb_with_room(self, now: float) -> Audience | None:
        """Whom to draw for now."""
        leading = self._rfb_leading
        if not self._rfb_size_is_from_page:
            return None  # a picture of one pixel helps nobody
        if self._rfb_is_unheard(now):
            return leading if self._rfb_may_send_unheard(leading, now) else None
        return self._rfb_audiences.with_room(leading, now, self._rfb_drawn_when)

    def _rfb_draw_now(self, audience: Audience) -> None:
        self._rfb_draw_requested = False
        self._rfb_drawn_when = self._rfb_draw_began = time.perf_counter()
        self._rfb_draw_for = audience
        audience.views.drawn(self._rfb_drawn_when)
        self._rfb_settings = audience.choose(self._rfb_drawn_when)
        if isinstance(self._canvas_context, EncodingContext):
            self._rfb_adjust(self._canvas_context)
        self._rfb_context.copy().run(self._time_to_draw)
        self._rfb_draw_for = None

    def _rfb_adjust(self, context: EncodingContext) -> None:
        """Has it encode as was chosen."""
        context.lossless = self._rfb_settings is None
        context.encoding = self._rfb_settings or context.encoding

    def _rfb_is_quickly_lossless(self) -> bool:
        context = self._canvas_context
        return isinstance(context, EncodingContext) and context.is_quickly_lossless

    def _rfb_waits_for_room(self, now: float) -> bool:
        """Whether a draw is wanted that no page has room for."""
        return self._rfb_draw_requested and self._rfb_with_room(now) is None

    def _rfb_encoder_ready(self, lossless: bool) -> bool:
        context = self._canvas_context
        if isinstance(context, EncodingContext):
            return context.is_ready(lossless)
        encoder = self._rfb_array_encoders.get("png" if lossless else "jpeg")
        return encoder is None or encoder.ready

    def _rfb_flush(self) -> None:
        """Sends what waits for room and what a page may have lost, and draws if a draw waits."""
        if not self._is_closed:
            now = time.perf_counter()
            for audience in self._rfb_audiences:
                audience.sharpener.send()
                if not self._rfb_is_unheard(now):
                    audience.send_lost(now)
        self._rfb_maybe_draw()
        if not self._is_closed:
            self._rfb_follow()

    def _rfb_follow(self) -> None:
        """Brings all who have room up to date with what was drawn for another."""
        if self._rfb_pages.is_greeting:
            return  # then they are greeted with it
        now = time.perf_counter()
        waiting = self._rfb_leading if self._rfb_draw_requested else None  # for the next draw
        for audience in self._rfb_audiences:
            if audience is not waiting:
                audience.follow(now)

    # ----- frames

    def _rfb_take(self, future: GPUFuture[EncodedFrame]) -> None:
        """Delivers what was just drawn as soon as it is encoded, unless something newer went out meanwhile."""
        self._rfb_draws += 1
        self._rfb_encoding += 1
        self._rfb_newest_encoding = future
        self._rfb_files = {self._rfb_settings: future}
        draw = self._rfb_draws
        audience = self._rfb_draw_for or self._rfb_leading
        audience.coming += 1
        drawn, self._rfb_draw_began = self._rfb_draw_began, None
        # A forced draw is the program's own.
        held = time.perf_counter() - drawn - self._rfb_draw_seconds if drawn is not None else 0.0

        def deliver(future: GPUFuture[EncodedFrame]) -> None:
            began = time.perf_counter()
            self._rfb_encoding -= 1
            audience.coming -= 1
            if self._is_closed:
                return
            error = future.exception()
            if error is not None:
                self._rfb_encoding_failed(error)
            elif draw > self._rfb_delivered:
                self._rfb_delivered = draw
                self._rfb_encode_failures = 0
                self._rfb_pages.set_badge("encode", "")
                frame, last = future.result(), audience.last_lossy
                self._rfb_meter.encoded(began, frame.timings["ready"])
                # The same file is the same picture, and pages have it. Different ones differ within their first bytes, so this
                # costs something only where it saves more.
                if last is None or audience.is_behind or not frame.has_file_of(last):
                    self._rfb_picture = draw
                    for each in self._rfb_audiences:
                        each.sharpener.changed()
                    audience.show(frame, draw, began=drawn)
                else:
                    self._rfb_meter.add("unchanged", began, 1)
                self._rfb_sent_draw = draw
                if self._rfb_live_loop is not None:
                    with callback_lock:
                        callback_lock.notify_all()  # flush() may wait for it
            now = time.perf_counter()
            self._rfb_meter.add("held", now, held + future.busy_seconds + now - began)
            self._rfb_flush()

        future.add_done_callback(deliver)

    def _rfb_encoding_failed(self, error: BaseException) -> None:
        """Shows it, goes on with another encoder if there is one, and tries once more by itself."""
        logger.error("a frame could not be encoded", exc_info=error)
        self._rfb_pages.set_badge("encode", f"Encoding failed: {error}".splitlines()[0][:200])
        context = self._canvas_context
        fell_back = isinstance(context, EncodingContext) and context.fall_back(error)
        self._rfb_encode_failures += 1
        if fell_back or self._rfb_encode_failures == 1:
            self.request_draw()

    def _rfb_can_encode(self, settings: Settings | None) -> bool:
        """Whether :meth:`_rfb_encode` would not wait. After each encoding there is another flush."""
        return settings in self._rfb_files or self._rfb_encoder_ready(settings is None)

    def _rfb_encode(self, settings: Settings | None) -> GPUFuture[EncodedFrame] | None:
        """What was drawn last, once for all who want it so; settings None: without loss. None if nothing was drawn yet."""
        known = self._rfb_files.get(settings)
        if known is not None and not (known.done() and known.exception()):
            return known
        future = self._rfb_encode_lossless() if settings is None else self._rfb_encode_lossy(settings)
        if future is not None:
            self._rfb_files[settings] = future
        return future

    def _rfb_encode_lossy(self, settings: Settings) -> GPUFuture[EncodedFrame] | None:
        context = self._canvas_context
        if isinstance(context, EncodingContext):
            return context.encode_again(settings)
        if self._rfb_last_array is None:
            return None
        return self._rfb_array_encoder(settings).encode_array(self._rfb_last_array)

    def _rfb_encode_lossless(self, y: int = 0, rows: int | None = None) -> GPUFuture[EncodedFrame] | None:
        """What was drawn last, or so many rows of it from ``y`` down; None if nothing was drawn yet."""
        context = self._canvas_context
        if isinstance(context, EncodingContext):
            return context.encode_lossless(None if rows is None else (0, y, context.physical_size[0], rows))
        if self._rfb_last_array is not None:
            array = self._rfb_last_array if rows is None else self._rfb_last_array[y : y + rows]
            return self._rfb_array_encoder(None).encode_array(array)
        return None

    def _rfb_next_number(self) -> int:
        """Of a frame that is sent."""
        self._rfb_frame_id += 1
        return self._rfb_frame_id

    @property
    def _rfb_fit(self) -> str:
        context = self._canvas_context
        return context.fit if isinstance(context, EncodingContext) else "stretch"

    def _rfb_count_sent(self, audience: Audience, sent: Sent, is_lossy: bool, began: float) -> None:
        """Counts what went to whom draws are made for; sending began at ``began``."""
        if audience is not self._rfb_leading:
            return
        if is_lossy:
            self._rfb_unconfirmed[sent.number] = None
            while len(self._rfb_unconfirmed) > 1000:
                del self._rfb_unconfirmed[next(iter(self._rfb_unconfirmed))]
        now = time.perf_counter()
        self._rfb_meter.sent(began, len(sent.frame), is_final=not is_lossy)
        self._rfb_meter.add("send", began, now - began)
        if self._show_stats and now - self._rfb_stats_told >= STATS_SECONDS:
            self._rfb_stats_told = now
            self._rfb_pages.tell_all(stats_message(self.stats.overlay()))

    def _rfb_array_encoder(self, settings: Settings | None) -> CpuEncoder:
        codec = "png" if settings is None else "jpeg"
        if codec not in self._rfb_array_encoders:
            self._rfb_array_encoders[codec] = CpuEncoder(None, codec, has_alpha=self._rfb_has_alpha)
        encoder = self._rfb_array_encoders[codec]
        if settings is not None:
            encoder.quality, encoder.subsampling, encoder.scale = settings
        return encoder

    def _rfb_call_later(self, delay: float, callback: Callable[..., None], *args: Any) -> None:
        group_loop = self._rc_canvas_group.get_loop()
        if group_loop is not None:
            group_loop.call_later(max(delay, 0), callback, *args)

    # ----- threads and cells

    @property
    def lock(self) -> CallbackLock:
        """Held while a canvas handles events or draws; re-entrant, and one for all canvases.

        A program that changes the scene of a live canvas on another thread, a cell for example, does so under it::

            with canvas.lock:
                scene.remove(old)
                scene.add(new)
            canvas.request_draw()

        While it is held, live canvases stand still: hold it for changes, not for computing them.
        """
        return callback_lock

    def flush(self, timeout: float = 1.0) -> bool:
        """Brings pages up to date in the middle of a cell, as for each step of a loop.

        Handles the messages that have arrived, which calls event handlers; draws, if a draw is wanted and a page has room for a
        frame; waits until that is encoded, and sends it. It does not wait for room: what a page cannot take yet is left out, and
        the last picture comes when the cell is over. Where no acknowledgement can arrive while a cell runs
        (VS Code, marimo; not by a websocket), at most ten frames and 500 kB a second are sent.

        For a live canvas it waits until the thread has drawn and sent what is wanted, if a page has room for it.

        Arguments:
            timeout: seconds to wait, once the draw function is through.

        Returns:
            True if everything that was wanted has been sent, False if something is left for later.

        Raises:
            RuntimeError: it is called by a draw function or an event handler, which would wait for themselves; or on another
                thread than the canvas's.
            ValueError: ``timeout`` is negative or not finite.
        """
        if not (isinstance(timeout, (int, float)) and 0 <= timeout < math.inf):  # type: ignore[redundant-expr]
            raise ValueError(f"timeout must be a number of seconds from 0, not {timeout!r}")
        with callback_lock:
            is_on_its_thread = threading.current_thread() is self._rfb_thread
            if callback_lock.inside_callback or (is_on_its_thread and self._rfb_live_loop is not None):
                raise RuntimeError(
                    "flush() was called by a draw function or an event handler, and would wait for itself: "
                    "call request_draw() there"
                )
            if self._is_closed:
                return False
            if self._rfb_live_loop is not None:
                # Nothing is being drawn while we have the lock; it is let go while we wait.
                wanted = self._rfb_newest_wanted()
                callback_lock.wait_for(lambda: self._rfb_sent_draw >= wanted or self._is_closed, timeout)
                return self._rfb_sent_draw >= wanted
            if not is_on_its_thread:
                raise RuntimeError(
                    "flush() was called on another thread than the canvas's: call it in a cell, or make the canvas with live=True"
                )
        self._rfb_is_flushing = True
        try:
            return self._rfb_flush_in_cell(timeout)
        finally:
            self._rfb_is_flushing = False

    def _rfb_flush_in_cell(self, timeout: float) -> bool:
        self._rfb_receive_directly()
        self._rfb_read_mail()
        self._rfb_pages.expire()
        self._process_events()
        self._rfb_wait_for_encoding(timeout)
        wanted = self._rfb_newest_wanted()
        audience = self._rfb_with_room(time.perf_counter())
        is_ready = self._rfb_encoder_ready(self._rfb_settings is None)
        if wanted > self._rfb_draws and audience is not None and is_ready:
            self._rfb_draw_now(audience)
            self._rfb_wait_for_encoding(timeout)
        return self._rfb_sent_draw >= wanted

    def _rfb_newest_wanted(self) -> int:
        """The number of the draw that would show everything."""
        is_wanted = self._rfb_draw_wanted or self._rfb_update_mode in ("continuous", "fastest")
        return self._rfb_draws + (is_wanted and self._rfb_user_draw is not None)

    def _rfb_may_send_unheard(self, leading: Audience, now: float) -> bool:
        """Whether a frame may be made while a cell keeps all acknowledgements. Silence tells nothing then: no page is given up."""
        for audience in self._rfb_audiences:
            for view in self._rfb_pages.hosts:
                audience.views.heard(view)
        size = len(self._rfb_last.frame) if self._rfb_last is not None else 0
        if now - self._rfb_drawn_when < max(UNHEARD_SECONDS, size / UNHEARD_BYTES_PER_SECOND):
            return False
        # The latter: somebody looks, and has not acknowledged everything.
        return leading.views.may_send(now) or leading.views.next_deadline(now) is not None

    def _rfb_wait_for_encoding(self, timeout: float) -> None:
        future = self._rfb_newest_encoding
        if future is not None and not future.done():
            try:
                future.result(timeout)
            except Exception as error:
                # One of the encoder's is shown as a badge; after a time-out the frame goes out by itself, when the cell is over.
                logger.debug("flush() goes on without the frame: %s", error)

    def _rfb_on_its_thread(self, function: Callable[..., T], *args: Any) -> T:
        """Calls a function that only the canvas's thread may run. The caller's, for a canvas that is not live."""
        return (
            function(*args) if self._rfb_live_loop is None else self._rfb_live_loop.run_there(function, *args)
        )

    # The user's functions are called in these two, and nowhere else.

    def _process_events(self) -> None:
        with callback_lock.callback():
            super()._process_events()

    def _draw_and_present(self, *, force_sync: bool) -> None:
        with callback_lock.callback():
            self._rfb_draw_wanted = False
            super()._draw_and_present(force_sync=force_sync)

    def request_draw(self, draw_function: Callable[[], None] | None = None) -> None:
        """See ``BaseRenderCanvas.request_draw``; from any thread."""
        # In this order: the thread of a live canvas may draw at any moment.
        if draw_function is not None:
            self._draw_frame = draw_function
        self._rfb_draw_wanted = True
        super().request_draw()

    def force_draw(self) -> None:
        """See ``BaseRenderCanvas.force_draw``. That of a live canvas is drawn by its thread, and waited for."""
        self._rfb_on_its_thread(super().force_draw)

    def set_update_mode(
        self, update_mode: Any, *, min_fps: float | None = None, max_fps: float | None = None
    ) -> None:
        """See ``BaseRenderCanvas.set_update_mode``; from any thread."""
        super().set_update_mode(update_mode, min_fps=min_fps, max_fps=max_fps)
        self._rfb_update_mode = str(update_mode)

    def add_event_handler(self, *args: Any, order: float = 0) -> Callable[..., Any]:
        """See ``BaseRenderCanvas.add_event_handler``; from any thread."""
        with callback_lock:
            return super().add_event_handler(*args, order=order)

    def remove_event_handler(self, callback: Any, *types: str) -> None:
        """See ``BaseRenderCanvas.remove_event_handler``; from any thread."""
        with callback_lock:
            super().remove_event_handler(callback, *types)

    def submit_event(self, event: dict[str, Any]) -> None:
        """See ``BaseRenderCanvas.submit_event``; that of a live canvas from any thread."""
        self._rfb_on_its_thread(super().submit_event, event)

    def close(self) -> None:
        """Closes the canvas. Pages keep its last picture, dimmed, until their output is cleared."""
        if self._rfb_live_loop is None:
            super().close()
        elif not self._is_closed:
            self._rfb_live_loop.run_there(super().close)

    # ----- what a user can call, besides the base class

    def snapshot(self, *, pixel_ratio: float | None = None, max_bytes: int | None = 200_000) -> None:
        """Shows the current picture as an image in the cell's output, where it stays when the notebook is saved.

        Arguments:
            pixel_ratio: pixels per logical pixel, for a canvas that no page shows yet; default 1. A canvas that is shown keeps
                its size.
            max_bytes: of the PNG file. A larger one is scaled down (with Pillow), and shown as large; None: it is not.

        Raises:
            RuntimeError: the canvas is closed, or has no draw function yet.
        """
        from IPython.display import display

        png = bytes(self._rfb_on_its_thread(self._rfb_take_picture, pixel_ratio))
        if max_bytes is not None:
            png = fit_png(png, max_bytes)
        width, height = self.get_logical_size()
        data, metadata = as_output(png, width, height, self._title or "a canvas")
        display(data, metadata=metadata, raw=True)

    def _rfb_take_picture(self, pixel_ratio: float | None) -> EncodedFrame:
        if self._is_closed:
            raise RuntimeError("the canvas is closed: run its cell again for a new one")
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
        return future.result()

    @property
    def stats(self) -> Stats:
        """What the canvas did in its last five seconds; prints as a small table."""
        now = time.perf_counter()
        leading = self._rfb_leading
        meter, settings = self._rfb_meter, leading.policy.settings
        seconds = meter.seconds(now)
        per_second = 1 / seconds if seconds > 0 else 0.0
        sizes = meter.values("size", now)
        rate = leading.views.rate
        context = self._canvas_context
        encoder, adapter = "none yet", "no device yet"
        if isinstance(context, EncodingContext):
            if context.encoder is not None:
                encoder = context.encoder.name
            if context.device is not None:
                adapter = context.device.adapter.info["device"]
        elif self._rfb_array_encoders:
            encoder, adapter = "simplejpeg", "NumPy arrays"
        return Stats(
            seconds=seconds,
            fps=len(meter.values("round_trip", now)) * per_second,
            sent=len(sizes),
            unchanged=len(meter.values("unchanged", now)),
            dropped=int(sum(meter.values("dropped", now))),
            megabits_per_second=sum(meter.values("bytes", now)) * 8e-6 * per_second,
            kilobytes=sum(sizes) / len(sizes) / 1000 if sizes else 0.0,
            draw=meter.spread("draw", now),
            encode=meter.spread("encode", now),
            send=meter.spread("send", now),
            held=meter.spread("held", now),
            round_trip=meter.spread("round_trip", now),
            decode=meter.spread("decode", now),
            present=meter.spread("present", now),
            link_megabits_per_second=None if rate is None else rate * 8e-6,
            quality=settings.quality,
            subsampling=settings.subsampling,
            scale=settings.scale,
            encoder=encoder,
            decoders=tuple(
                ": ".join(filter(None, (d.name, d.method))) for d in list(self._rfb_pages.decoders.values())
            ),
            adapter=adapter,
        )

    @property
    def show_stats(self) -> bool:
        """Whether :attr:`stats` lie over the picture in the page, with the times between frames as a plot."""
        return self._show_stats

    @show_stats.setter
    def show_stats(self, shown: bool) -> None:
        self._show_stats = bool(shown)

    def reset_stats(self) -> None:
        """Starts measuring anew, with the next frame that is sent."""
        self._rfb_meter.reset()

    def get_stats(self) -> dict[str, float]:
        """What was measured since :meth:`reset_stats`, with the names of ``rendercanvas.anywidget``:

        * *sent_frames*, *confirmed_frames*: frames sent, and acknowledged by a page.
        * *roundtrip*: mean seconds from sending a frame to its acknowledgement.
        * *delivery*: the part of it that is not spent in the page: the ways of the frame and of its acknowledgement.
        * *img_encoding*: mean seconds from the end of a draw until the frame's bytes were there.
        * *fps*: frames acknowledged per second, from the first that was sent.

        :attr:`stats` has more, of the last seconds.
        """
        return self._rfb_meter.rendercanvas_stats()

    def _rfb_count_acks(self, ack: Ack, answered: list[tuple[int, float]]) -> None:
        """Counts each lossy frame once, by the first page that answers."""
        now, meter = time.perf_counter(), self._rfb_meter
        in_page = 0.0 if ack.present_ms is None else ack.present_ms / 1000
        meter.confirmed(
            now,
            [trip for frame, trip in answered if self._rfb_unconfirmed.pop(frame, True) is None],
            in_page,
        )
        if ack.dropped:
            meter.add("dropped", now, ack.dropped)
        if ack.decode_ms is not None:
            meter.add("decode", now, ack.decode_ms / 1000)
        if ack.present_ms is not None:
            meter.add("present", now, in_page)

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
            "has_alpha": self._rfb_has_alpha,
            "encoding": self._rfb_leading.policy.settings,
            "lossless": self._rfb_audiences.limits.is_lossless,
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
        self._rfb_take(self._rfb_array_encoder(self._rfb_settings).encode_array(self._rfb_last_array))

    def _rc_set_logical_size(self, width: float, height: float) -> None:
        self._last_set_logical_size = width, height

    def _rc_close(self) -> None:
        if self._is_closed:
            return
        self._rfb_pages.close()
        self._rfb_roads.close()
        self._is_closed = True
        self._rfb_scheduler.on_cancel_draw()  # it may wait for a draw, and ends when it finds the canvas closed
        for encoder in self._rfb_array_encoders.values():
            encoder.close()
        self._rfb_last = self._rfb_last_array = self._rfb_newest_encoding = None
        self._rfb_files.clear()
        self._rfb_audiences.close()

    def _rc_get_closed(self) -> bool:
        return self._is_closed


def _complain_without_adapter() -> None:
    """Raises early what pygfx would raise as a driver's message. NumPy frames need no adapter, so only then."""
    import sys

    if "pygfx" in sys.modules and find_adapter() is None:
        raise NoAdapterError()
