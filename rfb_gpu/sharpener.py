"""A picture at rest is sent once more without loss, and on a thin link a finer one before, and then stripes.

When this is done is decided here, on the thread of the canvas, which encodes and sends; how fast the link is, :mod:`.flow` knows.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import TYPE_CHECKING

from .codecs import EncodedFrame
from .context import EncodingContext
from .flow import Settings
from .flow.protocol import Ack
from .flow.stripes import Stripes, outward
from .readback import GPUFuture
from .wakeup import Wakeup

if TYPE_CHECKING:
    from .audience import Audience
    from .canvas import StreamingCanvas

__all__ = ["Sharpener", "settings_of"]

logger = logging.getLogger("rfb_gpu")

AGAIN_SECONDS = 0.1
REFINE_SECONDS = 0.5
"""A lossless frame that takes longer on its way is preceded by one in the best quality, and comes in stripes."""
STRIPE_SECONDS = 0.1
"""That a stripe takes on its way, about."""
MOST_REPEATS = 3
"""So often a picture's stripes begin again after a page refused one."""


class Sharpener:
    """For one audience.

    Arguments:
        canvas, audience: whose pictures it sharpens, and for whom.
        delay: seconds of rest before it begins; None: it never does.
    """

    def __init__(self, canvas: StreamingCanvas, audience: Audience, delay: float | None) -> None:
        self._canvas = canvas
        self._audience = audience
        self._delay = delay
        self._when = 0.0
        # One timer for all frames: those that flush() sends in a long cell would leave one each.
        self._timer = Wakeup(canvas._rfb_call_later, self._rested)
        self._changes = 0  # counts the frames that differed from the one before
        self.is_encoding = False
        """A picture without loss; at most one at a time."""
        self._final: EncodedFrame | None = None  # waits for room
        self._is_refining = False
        self._stripes: Stripes | None = None
        self._repeats = 0
        self.base: int | None = None
        """The number of the last full frame, if all pages of the audience have it."""

    @property
    def is_done(self) -> bool:
        """Whether nothing is under way that a page could still get."""
        return self._final is None and not self.is_encoding and not (self._stripes and self._stripes.waiting)

    def changed(self) -> None:
        """The picture is another one: a sharp one of it is made once it rests."""
        self._changes += 1
        self._final = self._stripes = None
        self._repeats = 0
        self._sharpen_if_wanted()

    def begin_again(self) -> None:
        """A page has come that has the picture, but may lack stripes of it."""
        if self._final is None:
            self._stripes = None
            self._sharpen_if_wanted()

    def acknowledged(self, ack: Ack, answered: list[tuple[int, float]]) -> None:
        """Begins again if a page refused a stripe."""
        stripes = self._stripes
        if stripes is None:
            return
        ours = stripes.in_flight.intersection(frame for frame, _ in answered)
        if ours and ack.dropped and self._repeats < MOST_REPEATS:
            self._repeats += 1
            self._stripes = self.base = None
            self._sharpen_if_wanted()

    def send(self) -> None:
        """Sends what waits, if there is room for it."""
        canvas, now = self._canvas, time.perf_counter()
        if self._final is not None:
            if (until := self._audience.views.awaited_until(now)) is not None:
                # From the answer it is known how long a lossless frame will take.
                canvas._rfb_wakeup.at(until)
            elif self._audience.views.seconds_for(len(self._final)) > REFINE_SECONDS:
                # In one piece, it would be in the way of the next gesture.
                self._begin_stripes(self._final)
            elif self._audience.views.may_send(now):
                frame, self._final = self._final, None
                self._audience.deliver(frame, final=True)
            else:
                canvas._rfb_wakeup.at(self._audience.views.next_deadline(now))
        self._send_stripe()

    def stop(self) -> None:
        """Nobody is there any more."""
        self._delay = self._final = self._stripes = None

    # ----- one picture

    def _sharpen_if_wanted(self) -> None:
        if self._delay is not None and self._audience.can_be_sharper:
            self._sharpen_after(self._delay)

    def _sharpen_after(self, seconds: float) -> None:
        self._when = time.perf_counter() + seconds
        self._timer.at(self._when)

    def _rested(self) -> None:
        if time.perf_counter() < self._when:
            self._timer.at(self._when)
        else:
            self._sharpen()

    def _sharpen(self) -> None:
        """Encodes the last frame once more, without loss, and sends it if nothing has changed meanwhile."""
        canvas = self._canvas
        if self._delay is None or self.is_encoding or not self._audience.can_be_sharper:
            return  # an encoding under way comes back here when it is through
        if self._audience.is_behind:
            return  # it comes back here when the audience has followed
        if canvas._rfb_waits_for_room(time.perf_counter()) or not canvas._rfb_can_encode(None):
            # Not at rest: only the link is slow. Or another audience's stripe is being encoded.
            self._sharpen_after(AGAIN_SECONDS)
            return
        change = self._changes
        future = canvas._rfb_encode(None)
        if future is None:
            return
        self.is_encoding = True

        def deliver(future: GPUFuture[EncodedFrame]) -> None:
            self.is_encoding = False
            if canvas._is_closed:
                return
            error = future.exception()
            if error is not None:
                self._failed(error)
            elif change == self._changes:
                self._final = final = future.result()
                choice, last = self._audience.codec_choice, self._audience.last_lossy
                if choice is not None and last is not None:
                    choice.compared(len(final), len(last), settings_of(last), self._audience.policy.best)
                self._refine(change)
                canvas._rfb_flush()
            elif self._delay is not None:
                self._sharpen_after(self._delay)

        future.add_done_callback(deliver)

    def _failed(self, error: BaseException) -> None:
        context = self._canvas._canvas_context
        if isinstance(context, EncodingContext) and context.lossless_fall_back(error):
            self._sharpen_after(AGAIN_SECONDS)
        else:
            logger.error("the sharp frame could not be encoded", exc_info=error)

    def _refine(self, change: int) -> None:
        """Sends the picture in the best quality first where the lossless one will take long."""
        canvas = self._canvas
        last, final, best = self._audience.last_lossy, self._final, self._audience.policy.best
        if last is None or final is None or settings_of(last) == best:
            return
        if self._audience.views.seconds_for(len(final)) <= REFINE_SECONDS:
            return
        future = canvas._rfb_encode(best)
        if future is None:
            return
        self._is_refining = True

        def deliver(future: GPUFuture[EncodedFrame]) -> None:
            self._is_refining = False
            if change == self._changes and not canvas._is_closed and future.exception() is None:
                self._audience.deliver(future.result(), final=False)
            canvas._rfb_flush()

        future.add_done_callback(deliver)

    # ----- in stripes, which build on the last full frame; all pages must have that

    def _begin_stripes(self, whole: EncodedFrame) -> None:
        last = self._audience.last
        if self._is_refining or last is None:
            return  # the finer frame comes first, and back here
        self._final = None
        full = last.frame
        if (full.width, full.height) != (whole.width, whole.height):
            self._audience.deliver(whole, final=True)  # no finer frame was to be had
            return
        if self.base is None:
            self._audience.deliver(full, final=False)
        assert self.base is not None
        count = self._audience.views.seconds_for(len(whole)) / STRIPE_SECONDS
        pointer_y = self._canvas._rfb_pointer_y
        centre = whole.height / 2 if pointer_y is None else pointer_y
        self._stripes = Stripes(self.base, deque(outward(whole.height, count, centre)))

    def _send_stripe(self) -> None:
        """Encodes the next stripe and sends it, if the link has room and nothing is being drawn."""
        canvas, stripes = self._canvas, self._stripes
        if stripes is None or not stripes.waiting or stripes.encoding or canvas._rfb_encoding:
            return
        if not canvas._rfb_encoder_ready(lossless=True):
            return  # another audience's stripe is being encoded, after which this is called again
        now = time.perf_counter()
        if not self._audience.views.may_send(now):
            canvas._rfb_wakeup.at(self._audience.views.next_deadline(now))
            return
        part, draws = stripes.next, canvas._rfb_draws
        future = canvas._rfb_encode_lossless(part.y, part.rows)
        if future is None:
            return
        stripes.encoding = True

        def deliver(future: GPUFuture[EncodedFrame]) -> None:
            stripes.encoding = False
            if canvas._is_closed or stripes is not self._stripes:
                return
            error = future.exception()
            if error is not None:
                self._stripes = None
                self._failed(error)
            elif draws == canvas._rfb_draws:
                # Else it may be of another picture; if that turns out to be the same, again.
                number = self._audience.deliver(future.result(), final=stripes.done(), part=part)
                stripes.in_flight.add(number)
            canvas._rfb_flush()

        future.add_done_callback(deliver)


def settings_of(frame: EncodedFrame) -> Settings:
    """How it was encoded."""
    return Settings(frame.quality, frame.subsampling, frame.scale)
