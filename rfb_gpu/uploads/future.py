"""One upload: what is put, where, when, and what has become of it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Generator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import wgpu
from numpy.typing import NDArray

from ..native import TextureCopy
from .staging import Part, StagingBuffer
from .workers import changed

if TYPE_CHECKING:
    from .stream import TextureStream

__all__ = ["UploadFuture"]


class UploadFuture(Future[None]):
    """Done when the upload is recorded: whatever is drawn from then on shows it.

    A ``concurrent.futures.Future`` that can be awaited as well. Callbacks are called on the thread that draws. An upload that was
    dropped is :meth:`cancelled` like one that the program cancels: ``concurrent.futures.CancelledError`` is what it raises.
    """

    def __init__(self, stream: TextureStream, array: NDArray[Any], part: Part, at: float | None) -> None:
        super().__init__()
        self.nbytes = math.prod(part.size) * stream._texel.nbytes
        """Of texels, without the rows' padding."""
        self._stream = stream
        self._array: NDArray[Any] | None = array
        self._part = part
        self._at = -math.inf if at is None else at
        self._made = time.perf_counter()
        self._staging: StagingBuffer | None = None
        self._stage = "waiting"
        self._job: Future[None] | None = None
        self._may_run: bool | None = None

    def _start(self) -> bool:
        """Keeps it from being cancelled from now on; False: it is already. Under the lock."""
        if self._may_run is None:
            self._may_run = self.set_running_or_notify_cancel()
        return self._may_run

    def _fail(self, error: BaseException) -> None:
        with changed:
            fails = not self.done() and self._start()
        if fails:
            self.set_exception(error)

    def _is_due(self) -> bool:
        return self._at <= time.perf_counter()

    def result(self, timeout: float | None = None) -> None:
        """Waits until the upload is recorded; on the thread that draws, it records it.

        Raises:
            TimeoutError: it is not, after ``timeout`` seconds.
            concurrent.futures.CancelledError: it was cancelled or dropped.
            Exception: what kept it from being copied or recorded.
        """
        self._wait(timeout)
        return super().result()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits like :meth:`result`; gives the error, or None."""
        self._wait(timeout)
        return super().exception()

    def _wait(self, timeout: float | None) -> None:
        if not self._stream._wait_until(self.done, timeout):
            raise TimeoutError(f"after {timeout} s the upload is not recorded but {self._stage}")

    def cancel(self) -> bool:
        """Keeps the upload from the texture, unless it is recorded already; tells whether it did."""
        is_cancelled = super().cancel()
        if is_cancelled:
            self._stream._discard(self)
        return is_cancelled

    def __await__(self) -> Generator[Any, None, None]:
        loop = asyncio.get_running_loop()
        self._stream._follow(loop)
        if not self.done():
            # Not asyncio.wrap_future(): a dropped upload would look as if the task that waits for it were cancelled.
            arrived = asyncio.Event()
            self.add_done_callback(lambda _: loop.call_soon_threadsafe(arrived.set))
            yield from arrived.wait().__await__()
        return super().result()

    def _lend(self, texture: wgpu.GPUTexture) -> TextureCopy:
        """The copy from its staging buffer, to be submitted next."""
        assert self._staging is not None
        bytes_per_row = self._part.bytes_per_row(self._stream._texel)
        return TextureCopy(self._staging.lend(), bytes_per_row, texture, *self._part)

    def _copy(self) -> None:
        """Runs on a worker thread; or in put(), for an array that may change when that returns."""
        error = None
        try:
            if not self.done():
                assert self._staging is not None and self._array is not None
                self._staging.fill(self._array, self._part, self._stream._texel)
        except BaseException as caught:
            error = caught
        self._stream._copied(self, error)
