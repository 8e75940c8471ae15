"""Films, stacks and live data into textures while a scene renders: only the recording of a GPU copy is left to the draw.

An array's way: :meth:`TextureStream.put` gives it a staging buffer of the ring; a worker thread copies it there (NumPy
lets others run meanwhile); the thread that draws records the copy from that buffer into the texture, before the next draw, so a
scene shows the old content or the new and never a part of it; when the GPU is through, the buffer takes the next array.

Threads. One thread touches a stream's texture and submits: its canvas's, or else the one that made it. It takes its turns on the
event loop, before draws, and while it waits here, for all its streams together. The staging buffers are made and mapped by those
that fill them. ``put()`` can be called on any thread.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .future import UploadFuture
from .recorder import recorder_of
from .staging import Part, StagingBuffer, can_change, copy_texels, part_for, texel_format
from .target import target_of
from .workers import changed, recording, streams, workers

__all__ = ["TextureStream"]

HEARING_SECONDS = 0.0005
"""From when the GPU is through with a buffer until it is known."""
COPY_BYTES_PER_SECOND = 10e9
"""About. An array that put() would else copy to memory may wait as long for its buffer."""
POLICIES = ("wait", "drop_oldest", "drop_newest", "queue")


class TextureStream:
    """Feeds a texture with arrays that worker threads copy, so that a draw is not held up by their bytes.

    Uploads take effect in the order of their :meth:`put`. Of several that are due at once and fill the same part, only the last is
    given to the GPU; the others are done as well. Keep the stream while something is under way.

    Arguments:
        texture: a ``gfx.Texture``, best one without data of its own, ``gfx.Texture(size=..., format=..., dim=...)``, since its
            ``data`` does not follow; or a ``GPUTexture`` with the usage ``COPY_DST``. Of one, two or three dimensions, with layers.
        buffers: so many staging buffers of the texture's size make a ring. 0: no buffer and no thread, ``put()`` writes at once as
            ``queue.write_texture`` does. -1: a buffer is made for each upload and freed after it, however many there are.
        canvas: its event loop records the copies, and it is asked to draw after each; any canvas of rendercanvas, and closing
            it closes the stream. Without one, the thread that made the stream records: on its asyncio loop if it has one, and
            in :meth:`flush` and :meth:`UploadFuture.result`.
        policy: what ``put()`` does when all buffers are taken. ``"wait"``: waits; ``"queue"``: keeps up to ``queue`` uploads, and
            waits beyond; ``"drop_oldest"``: drops the oldest that is not recorded; ``"drop_newest"``: drops the new one.
        queue: see there.
        name: in :func:`active` and in errors; default: the texture's size.

    Raises:
        TypeError, ValueError: the texture cannot be copied to, its format cannot be streamed, it does not fit into a buffer of its
            device, or another argument is out of its range.
    """

    def __init__(
        self,
        texture: Any,
        buffers: int = 2,
        *,
        canvas: Any = None,
        policy: str = "wait",
        queue: int = 8,
        name: str | None = None,
    ) -> None:
        for label, count, least in (("buffers", buffers, -1), ("queue", queue, 1)):
            if isinstance(count, bool) or not isinstance(count, int):
                raise TypeError(f"{label} must be a whole number, not {count!r}")
            if count < least:
                raise ValueError(f"{label} must be at least {least}, not {count}")
        if policy not in POLICIES:
            raise ValueError(f"policy must be one of {', '.join(map(repr, POLICIES))}, not {policy!r}")
        self._target = target_of(texture)
        size = self._target.size
        self._texel = texel_format(self._target.format)
        self._whole = Part((0, 0, 0), size)
        self.name = name or f"texture {'x'.join(map(str, size))}"
        self._buffers = buffers
        self._policy = policy
        self._queue = queue if policy == "queue" else 0
        if buffers > 0:
            self._check_bytes(self._whole)

        self._uploads: deque[UploadFuture] = deque()  # not recorded yet, in the order of put()
        nbytes = self._whole.staging_bytes(self._texel)
        self._ring = [StagingBuffer(self._target.device, nbytes) for _ in range(max(buffers, 0))]
        self._free = deque(self._ring)  # the longest lent first
        self._at_workers: set[UploadFuture] = set()  # their buffers are the threads'
        self._error: BaseException | None = None
        self._closed = False
        self._alarm: float | None = None

        self._canvas: Callable[[], Any] = lambda: None
        self._loop: Any = None
        self._thread = threading.current_thread()
        self._on_wake, self._on_alarm = _weakly(self._woken), _weakly(self._alarmed)
        self._on_draw, self._on_close = _weakly(self._before_draw), _weakly(self.close)
        if canvas is not None:
            self._canvas = weakref.ref(canvas)
            self._loop = canvas._rc_canvas_group.get_loop()
            self._thread = getattr(canvas, "_rfb_thread", self._thread)
            canvas.add_event_handler(self._on_draw, "before_draw")
            canvas.add_event_handler(self._on_close, "close")
        else:
            try:
                self._loop = asyncio.get_running_loop()
            except RuntimeError:
                pass
        self._recorder = recorder_of(self._thread)
        with changed:
            streams.add(self)
            self._recorder.streams.add(self)

    def put(
        self, array: ArrayLike, *, origin: Any = None, at: float | None = None, copy: bool = True
    ) -> UploadFuture:
        """Has an array uploaded. From any thread; does not wait for the upload, nor, but by policy, for a buffer.

        Arguments:
            array: of the shape ``([[depth or layers,] height,] width[, channels])`` and the format's data type; channels as
                the texture has them, or three for four, of which alpha becomes opaque. It need not be contiguous; copying one
                that is not takes longer.
            origin: ``(x, y, z)`` in texels, for an array that is a part of the texture.
            at: the time of ``time.perf_counter()``, in seconds, before which it is not shown. Nor is what is put later.
            copy: True: the array may be changed at once, for it is copied before this returns, which takes the caller as long as
                ``array.copy()``, and twice as long where the GPU is behind; one that nobody can write to
                (``array.flags.writeable = False``, bytes, a read-only map of a file) is not copied. False: a thread reads the
                array later, and it must stay as it is until the future is done.

        Raises:
            ValueError, TypeError: the array does not fit the texture.
            RuntimeError: the stream is closed, or its texture destroyed (found out here on the thread that draws, elsewhere in the
                future of the next upload and in the ``put()`` after it).
        """
        source = np.asarray(array)
        part = part_for(source, origin, self._whole.size, self._texel)
        if self._buffers == -1:
            self._check_bytes(part)
        if at is not None and not math.isfinite(at):
            raise ValueError(f"at must be a finite time of time.perf_counter(), not {at!r}")
        self._check_usable()
        if self._is_on_its_thread():
            self._target.check()
        upload = UploadFuture(self, source, part, at)
        if self._buffers == 0:
            self._write(upload)
            return upload
        if not self._make_room(upload):
            return upload
        if copy and can_change(source):
            if self._copy_here(upload):
                return upload
            upload._array = np.array(source)
        with changed:
            self._check_usable()
            self._uploads.append(upload)
            self._assign()
        return upload

    def flush(self, *, wait: bool = True) -> None:
        """Records what was put and is due; on the thread that draws, or for it to do so. What failed is in its future.

        What is due in the thread's other streams is recorded with it.

        Arguments:
            wait: for copies that threads still make. False: records what is ready.

        Raises:
            RuntimeError: there is no event loop, and this is another thread than the one that made the stream.
        """
        if self._loop is None and not self._is_on_its_thread():
            raise RuntimeError("flush() was called on another thread than the one that made the stream")
        if wait:
            self._wait_until(lambda: not self._uploads or not self._uploads[0]._is_due(), None)
        elif self._is_on_its_thread():
            self._recorder.take_turn_if_due()
            self._set_alarm()
        else:
            self._wake()

    def close(self) -> None:
        """Cancels what is not recorded and frees the staging buffers, not the texture. From any thread."""
        with changed:
            if self._closed:
                return
            self._closed = True
            uploads = list(self._uploads)
        for upload in uploads:
            upload.cancel()
        with changed:
            # The memory that threads write to must stay until they are through.
            changed.wait_for(lambda: not self._at_workers)
        with recording:
            for staging in self._ring:
                staging.destroy()
        canvas = self._canvas()
        if canvas is not None:
            canvas.remove_event_handler(self._on_draw, "before_draw")
            canvas.remove_event_handler(self._on_close, "close")

    def __enter__(self) -> TextureStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ----- checks

    def _check_bytes(self, part: Part) -> None:
        nbytes, most = part.staging_bytes(self._texel), self._target.device.limits["max-buffer-size"]
        if nbytes > most:
            raise ValueError(
                f"{self.name} takes {nbytes} bytes at once, and a buffer of its device holds {most}: "
                "make the stream with buffers=-1 and put() parts, with origin=(x, y, z)"
            )

    def _check_usable(self) -> None:
        if self._closed:
            raise RuntimeError(f"{self.name}: the stream is closed")
        if self._error is not None:
            raise RuntimeError(f"{self.name}: an upload failed before: {self._error}") from self._error

    # ----- any thread

    def _is_on_its_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def _make_room(self, upload: UploadFuture) -> bool:
        """Does what the policy says if all buffers are taken; False: the upload was dropped."""
        with changed:
            has_room = self._has_room()
            oldest = self._uploads[0] if self._uploads else None
        if has_room:
            return True
        if self._policy == "drop_newest":
            upload.cancel()
            return False
        if self._policy == "drop_oldest":
            if oldest is not None:
                oldest.cancel()
            return True
        self._wait_until(lambda: self._has_room() or self._closed or self._error is not None, None)
        self._check_usable()
        return True

    def _has_room(self) -> bool:
        waiting = sum(upload._staging is None for upload in self._uploads)
        return self._buffers == -1 or waiting < len(self._free) + self._queue

    def _copy_here(self, upload: UploadFuture) -> bool:
        """Copies on the caller's thread, if a buffer is free and back from the GPU."""
        with changed:
            self._check_usable()
            is_free = self._buffers == -1 or self._free
            if not is_free or workers.seconds_until_room(upload.nbytes) > 0:
                return False
            staging = self._take_free(upload)
            assert staging is not None
            upload._staging, upload._stage = staging, "copying"
            self._uploads.append(upload)
            self._at_workers.add(upload)
        if not staging.comes_back(HEARING_SECONDS + upload.nbytes / COPY_BYTES_PER_SECOND):
            with changed:
                self._at_workers.discard(upload)
                self._give_up(upload)
                changed.notify_all()
            return False
        upload._copy()
        return True

    def _take_free(self, upload: UploadFuture) -> StagingBuffer | None:
        """A buffer for it, if there is one; under the lock."""
        if self._buffers == -1:
            return StagingBuffer(self._target.device, upload._part.staging_bytes(self._texel))
        return self._free.popleft() if self._free else None

    def _assign(self) -> None:
        """Gives free buffers to the uploads that wait, under the lock."""
        for upload in self._uploads:
            if upload._staging is None and (staging := self._take_free(upload)) is not None:
                upload._staging, upload._stage = staging, "queued"
                self._at_workers.add(upload)
                upload._job = workers.submit(upload)

    def _copied(self, upload: UploadFuture, error: BaseException | None) -> None:
        """An upload has come back from its thread."""
        with changed:
            self._at_workers.discard(upload)
            upload._array = None
            if error is None and not upload.done():
                upload._stage = "ready"
            else:
                self._give_up(upload)
            changed.notify_all()
        if error is not None:
            upload._fail(error)
        self._wake()
        self._recorder.ask_back()

    def _ask_back(self) -> None:
        """The next buffer, under the lock."""
        if self._free and not self._closed:
            self._free[0].ask_back()

    def _discard(self, upload: UploadFuture) -> None:
        """It is cancelled. A thread that copies it gives the buffer back by itself."""
        with changed:
            upload._start()
            if upload._job is not None and upload._job.cancel():
                self._at_workers.discard(upload)
            if upload not in self._at_workers:
                self._give_up(upload)
            elif upload in self._uploads:
                self._uploads.remove(upload)
            changed.notify_all()

    def _give_up(self, upload: UploadFuture) -> None:
        """Takes it from the list and its buffer for others, under the lock."""
        if upload in self._uploads:
            self._uploads.remove(upload)
        self._put_back(upload)

    def _put_back(self, upload: UploadFuture) -> None:
        """Its buffer is for others; one of its own is freed with it, when the GPU is through. Under the lock."""
        staging, upload._staging = upload._staging, None
        if staging is not None and self._buffers > 0:
            self._free.append(staging)
            self._assign()

    def _wake(self) -> None:
        """Has the thread that draws take a turn."""
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._on_wake)
            except (RuntimeError, AttributeError):
                pass  # it does not run, so flush() or result() will see to it; rendercanvas' loops raise the latter

    def _follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """Somebody awaits an upload on this loop. A stream without a canvas goes on there."""
        if self._canvas() is None and self._is_on_its_thread():
            self._loop = loop
            self._wake()

    def _wait_until(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Waits for what is asked under the lock; on the thread that draws, going on with its work meanwhile."""
        until = math.inf if timeout is None else time.perf_counter() + timeout
        is_on_its_thread = self._is_on_its_thread()
        while True:
            if is_on_its_thread:
                self._turn()
            with changed:
                if condition():
                    return True
                left = until - time.perf_counter()
                if left <= 0:
                    return False
                due = self._seconds_until_due() if is_on_its_thread else math.inf
                if due > 0:
                    changed.wait(min(left, due, 1.0))

    def _seconds_until_due(self) -> float:
        """Until there is something to record; infinite where a thread has yet to copy it. Under the lock."""
        if not self._uploads or self._uploads[0]._stage != "ready":
            return math.inf
        return max(self._uploads[0]._at - time.perf_counter(), 0)

    # ----- the thread that draws

    def _turn(self, drawing: Any = None) -> None:
        if self._has_due():
            self._recorder.take_turn(drawing)
        self._set_alarm()

    def _woken(self) -> None:
        if self._has_due():
            self._recorder.take_turn_soon(self._loop)
        self._set_alarm()

    def _has_due(self) -> bool:
        with changed:
            return self._seconds_until_due() == 0

    def _before_draw(self) -> None:
        self._turn(self._canvas())

    def _take_due(self) -> list[UploadFuture]:
        """Those to record now, under both locks."""
        due: list[UploadFuture] = []
        while not self._closed and self._seconds_until_due() == 0:
            upload = self._uploads[0]
            if upload._start():
                due.append(self._uploads.popleft())
            else:
                self._give_up(upload)
        return due

    def _break(self, error: BaseException, recorded: list[UploadFuture]) -> None:
        """The stream is of no use any more: all its uploads get the error, and the next put() raises."""
        with changed:
            self._error = error
            doomed = [*recorded, *self._uploads]
            self._uploads.clear()
            changed.notify_all()
        for upload in doomed:
            upload._fail(error)

    def _write(self, upload: UploadFuture) -> None:
        """Without a staging buffer of ours."""
        if not self._is_on_its_thread():
            raise RuntimeError(
                "a stream with buffers=0 writes on the thread that draws: put() there, or use buffers=2"
            )
        if upload._at > -math.inf:
            raise ValueError("a stream with buffers=0 writes at once: make it with buffers=2 for at=")
        array, part = upload._array, upload._part
        assert array is not None
        bytes_per_row = part.size[0] * self._texel.nbytes
        if array.nbytes == upload.nbytes:
            texels = np.ascontiguousarray(array)
        else:
            texels = np.empty(upload.nbytes, np.uint8)
            copy_texels(array, texels, bytes_per_row, part, self._texel)
        texture = self._target.begin()
        self._target.device.queue.write_texture(
            {"texture": texture, "origin": part.origin},
            texels,
            {"bytes_per_row": bytes_per_row, "rows_per_image": part.size[1]},
            part.size,
        )
        self._target.end()
        upload._array = None
        with changed:
            upload._start()
        upload.set_result(None)
        canvas = self._canvas()
        if canvas is not None:
            canvas.request_draw()

    def _set_alarm(self) -> None:
        with changed:
            seconds = self._seconds_until_due()
            at = self._uploads[0]._at if self._uploads else None
        if 0 < seconds < math.inf and at != self._alarm and self._loop is not None:
            self._alarm = at
            self._loop.call_later(seconds, self._on_alarm)

    def _alarmed(self) -> None:
        self._alarm = None  # it may be early by the clocks' difference, and then is set again
        self._turn()


def _weakly(method: Callable[[], object]) -> Callable[..., None]:
    """Calls a method as long as its object lives, and does not keep it."""
    reference = weakref.WeakMethod(method)

    def call(*_: object) -> None:
        method = reference()
        if method is not None:
            method()

    return call
