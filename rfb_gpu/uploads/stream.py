"""Films, stacks and live data into textures while a scene renders: only the recording of a GPU copy is left to the draw.

An array's way: :meth:`TextureStream.put` gives it a staging buffer of the ring; a worker thread copies it there (NumPy
lets others run meanwhile); the thread that draws records the copy from that buffer into the texture, before the next draw, so a
scene shows the old content or the new and never a part of it; when the GPU is through, the buffer takes the next array.

Threads. One thread makes all calls of wgpu for a stream: its canvas's, or else the one that made it. It takes its turns on the
event loop, before draws, and while it waits here. ``put()`` can be called on any thread.
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
import wgpu
from numpy.typing import ArrayLike

from .future import UploadFuture
from .staging import ROW_ALIGNMENT, Part, StagingBuffer, can_change, copy_texels, part_for, texel_format
from .target import target_of
from .workers import POLL_SECONDS, changed, streams, workers

__all__ = ["TextureStream"]

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
        self._ring: list[StagingBuffer] = []
        self._free: list[StagingBuffer] = []
        self._spent: list[StagingBuffer] = []  # made for uploads that were cancelled
        self._at_workers: set[UploadFuture] = set()  # their buffers are the threads'
        self._error: BaseException | None = None
        self._closed = False
        self._alarm: float | None = None
        self._recording = threading.RLock()  # close() may come from another thread

        self._canvas: Callable[[], Any] = lambda: None
        self._loop: Any = None
        self._thread = threading.current_thread()
        self._on_turn, self._on_alarm = _weakly(self._turn), _weakly(self._alarmed)
        self._on_draw, self._on_close = _weakly(self._take_turn), _weakly(self.close)
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
        with changed:
            streams.add(self)
        if self._is_on_its_thread():
            self._turn()

    def put(
        self, array: ArrayLike, *, origin: Any = None, at: float | None = None, copy: bool = True
    ) -> UploadFuture:
        """Has an array uploaded. From any thread; does not wait for the GPU, nor, but by policy, for a buffer.

        Arguments:
            array: of the shape ``([[depth or layers,] height,] width[, channels])`` and the format's data type; channels as
                the texture has them, or three for four, of which alpha becomes opaque. It need not be contiguous; copying one
                that is not takes longer.
            origin: ``(x, y, z)`` in texels, for an array that is a part of the texture.
            at: the time of ``time.perf_counter()``, in seconds, before which it is not shown. Nor is what is put later.
            copy: True: the array may be changed at once, for it is copied before this returns, which takes the caller as long as
                ``array.copy()``; one that nobody can write to (``array.flags.writeable = False``, bytes, a read-only map of a file)
                is not copied. False: a thread reads the array later, and it must stay as it is until the future is done.

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
            self._texture_alive()
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
        if self._buffers == -1 or not self._ring:
            self._turn_or_wake()
        return upload

    def flush(self, *, wait: bool = True) -> None:
        """Records what was put and is due; on the thread that draws, or for it to do so. What failed is in its future.

        Arguments:
            wait: for copies that threads still make. False: records what is ready.

        Raises:
            RuntimeError: there is no event loop, and this is another thread than the one that made the stream.
        """
        if self._loop is None and not self._is_on_its_thread():
            raise RuntimeError("flush() was called on another thread than the one that made the stream")
        if wait:
            self._wait_until(lambda: not self._uploads or not self._uploads[0]._is_due(), None)
        else:
            self._turn_or_wake()

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
        with self._recording:
            for staging in self._ring:
                staging.buffer.destroy()
            self._ring, self._free, self._spent = [], [], []
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

    def _texture_alive(self) -> wgpu.GPUTexture:
        texture = self._target.texture
        try:
            # wgpu ends the process when commands with a destroyed texture are submitted. Writing nothing to it tells before.
            layout = {"bytes_per_row": ROW_ALIGNMENT, "rows_per_image": 1}
            self._target.device.queue.write_texture({"texture": texture}, b"nothing", layout, (0, 0, 0))
        except wgpu.GPUError as error:
            raise RuntimeError(
                f"{self.name} has been destroyed: make another texture, and a stream for it"
            ) from error
        return texture

    # ----- any thread

    def _is_on_its_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def _make_room(self, upload: UploadFuture) -> bool:
        """Does what the policy says if all buffers are taken; False: the upload was dropped."""
        if self._is_on_its_thread():
            self._notice_maps()
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
        free = len(self._free) if self._ring else self._buffers
        waiting = sum(upload._staging is None for upload in self._uploads)
        return self._buffers == -1 or waiting < free + self._queue

    def _copy_here(self, upload: UploadFuture) -> bool:
        """Copies on the caller's thread, if a buffer is free and it is this upload's turn."""
        with changed:
            self._check_usable()
            if not self._free or workers.seconds_until_room(upload.nbytes) > 0:
                return False
            upload._staging, upload._stage = self._free.pop(), "copying"
            self._uploads.append(upload)
            self._at_workers.add(upload)
        upload._copy()
        return True

    def _assign(self) -> None:
        """Gives free buffers to the uploads that wait, under the lock."""
        for upload in self._uploads:
            if upload._staging is None and self._free:
                self._hand_over(upload, self._free.pop())

    def _hand_over(self, upload: UploadFuture, staging: StagingBuffer) -> None:
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
        staging, upload._staging = upload._staging, None
        if staging is not None:
            self._put_back(staging)

    def _put_back(self, staging: StagingBuffer) -> None:
        """For others, or to be freed; under the lock."""
        if self._buffers > 0:
            self._free.append(staging)
            self._assign()
        else:
            self._spent.append(staging)

    def _wake(self) -> None:
        """Has the thread that draws take a turn."""
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._on_turn)
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
                changed.wait(min(left, POLL_SECONDS if is_on_its_thread else 1.0))

    def _in_flight(self) -> int:
        """Under the lock."""
        copying = sum(upload._stage == "copying" for upload in self._at_workers)
        return copying + sum(staging.in_flight for staging in self._ring)

    # ----- the thread that draws

    def _turn_or_wake(self) -> None:
        if self._is_on_its_thread():
            self._turn()
        else:
            self._wake()

    def _turn(self) -> None:
        """Records what is due, and has it drawn."""
        canvas = self._canvas()
        if self._take_turn() and canvas is not None:
            canvas.request_draw()

    def _take_turn(self) -> bool:
        """Does all that only this thread may do; whether the texture has changed."""
        with self._recording:
            if self._closed or self._error is not None:
                return False
            self._notice_maps()
            self._make_buffers()
            recorded = self._record()
        for upload in recorded:
            upload.set_result(None)
        if recorded:
            with changed:
                changed.notify_all()
        self._set_alarm()
        return bool(recorded)

    def _notice_maps(self) -> None:
        """An event loop does so by itself."""
        for staging in self._ring:
            if staging.mapping is not None:
                staging.mapping.poll()

    def _make_buffers(self) -> None:
        device = self._target.device
        if self._buffers > 0:
            if self._ring:
                return
            new = [
                StagingBuffer(device, self._whole.staging_bytes(self._texel)) for _ in range(self._buffers)
            ]
            with changed:
                self._ring, self._free = new, list(new)
                self._assign()
            return
        with changed:
            spent, self._spent = self._spent, []
            waiting = [upload for upload in self._uploads if upload._staging is None]
        for staging in spent:
            staging.buffer.destroy()
            self._ring.remove(staging)
        for upload in waiting:
            staging = StagingBuffer(device, upload._part.staging_bytes(self._texel))
            with changed:
                self._ring.append(staging)
                if upload.done():
                    self._put_back(staging)
                else:
                    self._hand_over(upload, staging)

    def _record(self) -> list[UploadFuture]:
        """Submits the copies of all uploads that are ready and due; gives those uploads."""
        due = []
        with changed:
            while self._uploads and self._uploads[0]._stage == "ready" and self._uploads[0]._is_due():
                upload = self._uploads[0]
                if upload._start():
                    due.append(self._uploads.popleft())
                else:
                    self._give_up(upload)
        if not due:
            return []
        newest = {upload._part: upload for upload in due}
        try:
            texture = self._texture_alive()
            self._target.begin()
            commands = self._target.device.create_command_encoder()
            for upload in due:
                if newest[upload._part] is upload:
                    self._record_copy(commands, upload, texture)
            self._target.device.queue.submit([commands.finish()])
            self._target.end()
        except Exception as error:
            self._break(error, due)
            return []
        for upload in due:
            self._take_back(upload, is_lent=newest[upload._part] is upload)
        return due

    def _record_copy(self, commands: Any, upload: UploadFuture, texture: wgpu.GPUTexture) -> None:
        staging, part = upload._staging, upload._part
        assert staging is not None
        staging.lend()
        source = {
            "buffer": staging.buffer,
            "bytes_per_row": part.bytes_per_row(self._texel),
            "rows_per_image": part.size[1],
        }
        commands.copy_buffer_to_texture(source, {"texture": texture, "origin": part.origin}, part.size)

    def _take_back(self, upload: UploadFuture, *, is_lent: bool) -> None:
        """The buffer of a recorded upload, once the GPU is through with it."""
        staging, upload._staging = upload._staging, None
        assert staging is not None
        if self._buffers == -1:
            staging.buffer.destroy()  # when the GPU is through
            self._ring.remove(staging)
        elif is_lent:
            staging.ask_back().add_done_callback(
                lambda mapping: self._came_back(staging, mapping.exception())
            )
        else:
            with changed:
                self._put_back(staging)

    def _came_back(self, staging: StagingBuffer, error: BaseException | None) -> None:
        with self._recording:
            if self._closed:
                return
            if error is None:
                staging.take()
        if error is not None:
            self._break(error, [])
            return
        with changed:
            self._put_back(staging)
            changed.notify_all()

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
        if upload._at is not None:
            raise ValueError("a stream with buffers=0 writes at once: make it with buffers=2 for at=")
        array, part = upload._array, upload._part
        assert array is not None
        bytes_per_row = part.size[0] * self._texel.nbytes
        if array.nbytes == upload.nbytes:
            texels = np.ascontiguousarray(array)
        else:
            texels = np.empty(upload.nbytes, np.uint8)
            copy_texels(array, texels, bytes_per_row, part, self._texel)
        texture = self._target.texture
        self._target.begin()
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
            at = self._uploads[0]._at if self._uploads else None
        if at is not None and at != self._alarm and self._loop is not None:
            self._alarm = at
            self._loop.call_later(max(at - time.perf_counter(), 0), self._on_alarm)

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
