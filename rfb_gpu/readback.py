"""From GPU memory to bytes without stalling: futures of GPU work, and staging buffers that copy only what is expected.

A :class:`GPUFuture` runs a generator that yields what it waits for (a map, work on another thread) and finally returns the
result. On an event loop it goes on by itself as each wait ends, on that loop, never on the thread where the wait ended.
Without a loop (a script), :meth:`GPUFuture.result` drives it. This module never decides what is encoded or sent.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future as ThreadFuture
from concurrent.futures import TimeoutError as ThreadTimeoutError
from typing import Any, Generic, TypeVar, cast

import numpy as np
import wgpu
from numpy.typing import NDArray
from rendercanvas.utils.asyncs import detect_current_call_soon_threadsafe

__all__ = ["GPUFuture", "Mapped", "Readback", "RecycledMemory"]

T = TypeVar("T")
Wait = Any  # a GPUPromise or a concurrent.futures.Future

_UNSET: Any = object()
logger = logging.getLogger("rfb_gpu")


class GPUFuture(Generic[T]):
    """The eventual result of GPU work: await it, give it callbacks, or ask for :meth:`result`.

    Belongs to the thread that made it. Callbacks run on that thread's event loop; without one, in the call of :meth:`result` that
    completes the future.
    """

    def __init__(self, steps: Generator[Wait, None, T]) -> None:
        self._steps = steps
        self._value: T = _UNSET
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[GPUFuture[T]], object]] = []
        self._waiting_for: Wait = None  # None: not begun
        self._waits = 0  # so far
        self.busy_seconds = 0.0
        """Spent on the thread that made it, in all steps so far; waiting and callbacks do not count."""
        call_soon = detect_current_call_soon_threadsafe()
        self._follows_loop = call_soon is not None
        if call_soon is not None:
            # Not at once: whoever made the GPU work wants to go on, and asking for a map takes as long as submitting the work.
            call_soon(self._advance, 0)

    def done(self) -> bool:
        """Whether a result or an error is there."""
        return self._value is not _UNSET or self._error is not None

    def result(self, timeout: float | None = None) -> T:
        """The result, waiting for it if need be; works with and without an event loop.

        Raises:
            TimeoutError: it is not there after ``timeout`` seconds for one wait.
        """
        while not self.done():
            waiting_for = self._waiting_for
            if waiting_for is not None:
                _block(waiting_for, timeout)
            self._advance(self._waits)
        if self._error is not None:
            raise self._error
        return self._value

    def wait(self) -> Generator[Wait, None, T]:
        """The result, for the steps of another future: ``value = yield from future.wait()``."""
        while not self.done():
            waiting_for, number = self._waiting_for, self._waits
            if waiting_for is not None:
                yield waiting_for
            self._advance(number)
        return self.result()

    def exception(self) -> BaseException | None:
        """The error of a future that is done, or None."""
        return self._error

    def add_done_callback(self, callback: Callable[[GPUFuture[T]], object]) -> None:
        """Calls ``callback(future)`` when the future is done; at once if it is."""
        if self.done():
            self._call(callback)
        else:
            self._callbacks.append(callback)

    def __await__(self) -> Generator[Any, None, T]:
        while not self.done():
            if self._follows_loop:
                arrived = asyncio.Event()
                self.add_done_callback(lambda _, arrived=arrived: arrived.set())  # type: ignore[misc]
                yield from arrived.wait().__await__()
            else:
                # Made before there was a loop: nobody will call us, so a thread waits in our place.
                waiting_for, number = self._waiting_for, self._waits
                if waiting_for is not None:
                    yield from asyncio.get_running_loop().run_in_executor(None, _block, waiting_for, None)
                self._advance(number)
        return self.result()

    def _advance(self, number: int) -> None:
        """Runs the generator up to its next wait. Ignored when the wait of this number has been dealt with already."""
        if self.done() or number != self._waits:
            return
        began = time.perf_counter()
        try:
            self._waiting_for = self._steps.send(None)
        except StopIteration as stop:
            self._value = stop.value
        except BaseException as error:
            self._error = error
        else:
            self._waits += 1
            self._attach(self._waiting_for, self._waits)
            return
        finally:
            self.busy_seconds += time.perf_counter() - began
        self._waiting_for = None
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            self._call(callback)

    def _call(self, callback: Callable[[GPUFuture[T]], object]) -> None:
        # A callback's error is its own: neither the other callbacks nor whoever asks for the result shall have it.
        try:
            callback(self)
        except Exception:
            logger.exception("a callback of a frame's future failed")

    def _attach(self, waiting_for: Wait, number: int) -> None:
        call_soon = detect_current_call_soon_threadsafe()
        self._follows_loop = call_soon is not None
        if call_soon is None:
            return
        # By number, and not by the wait itself: that would refer to itself, and the frame would live until the garbage collector
        # comes, with its memory.
        if isinstance(waiting_for, ThreadFuture):
            waiting_for.add_done_callback(lambda _: call_soon(self._advance, number))
        else:
            waiting_for.then(lambda _: self._advance(number), title="rfb_gpu readback")
            on_error = waiting_for.catch(lambda _: self._advance(number))
            # wgpu 0.32 keeps each promise that it has not settled, and so for ever those for an error that never comes, each with
            # the whole frame. While there may be an error, the promise that is waited for keeps this one.
            getattr(type(on_error), "_UNRESOLVED", set()).discard(on_error)


def _block(waiting_for: Wait, timeout: float | None) -> None:
    """Waits until ``waiting_for`` is over, whatever its outcome: the generator asks for that itself."""
    if isinstance(waiting_for, ThreadFuture):
        try:
            waiting_for.exception(timeout)
        except ThreadTimeoutError:  # the built-in one from Python 3.11 on
            raise TimeoutError(f"the encoder has not answered within {timeout} s") from None
        return
    if timeout is None:
        _settle(waiting_for)
        return
    # A wgpu promise can be waited for, but not for a limited time.
    waiter = threading.Thread(target=_settle, args=(waiting_for,), name="rfb_gpu wait", daemon=True)
    waiter.start()
    waiter.join(timeout)
    if waiter.is_alive():
        raise TimeoutError(f"the GPU has not answered within {timeout} s")


def _settle(promise: Any) -> None:
    try:
        promise.sync_wait()
    except Exception:
        pass  # kept in the promise


class Readback:
    """One staging buffer, and the habit of copying into it about as much as the last results were long.

    Results of unknown length come as: a head of ``head_bytes`` that tells the length, then the rest. What the guess leaves out is
    fetched by a second copy, so ``source`` must stay as it is until :meth:`read` is through.
    """

    HISTORY = 8
    HEADROOM = 1.25
    SPARE_BYTES = 4096
    ALIGNMENT = 256

    def __init__(self, device: wgpu.GPUDevice, source: wgpu.GPUBuffer, history: deque[int]) -> None:
        self._device = device
        self._source = source
        self._history = history  # shared by the buffers of a ring: lengths of the last results
        self._staging: wgpu.GPUBuffer | None = None
        self._copied = 0

    def prepare(self) -> tuple[wgpu.GPUBuffer, wgpu.GPUBuffer, int]:
        """The copy to record: from which buffer, to which, and how many bytes, as many as are expected."""
        longest = max(self._history, default=0)
        guess = int(longest * self.HEADROOM) + self.SPARE_BYTES
        self._copied = min(-(-guess // self.ALIGNMENT) * self.ALIGNMENT, self._source.size)
        if self._staging is None or self._staging.size < self._copied:
            if self._staging is not None:
                self._staging.destroy()
            # Twice what is needed: lengths wander, and a buffer made anew stalls the driver.
            size = min(-(-2 * self._copied // self.ALIGNMENT) * self.ALIGNMENT, self._source.size)
            self._staging = self._device.create_buffer(
                label="rfb_gpu staging",
                size=size,
                usage=wgpu.BufferUsage.COPY_DST | wgpu.BufferUsage.MAP_READ,
            )
        return self._source, self._staging, self._copied

    def read(self, length_of: Callable[[memoryview], int]) -> Generator[Wait, None, Mapped]:
        """Waits for the copy and gives its bytes, mapped; ``length_of(head)`` tells how many there are in truth.

        The memory is valid until :meth:`release`.
        """
        staging = self._staging
        assert staging is not None
        yield (promise := staging.map_async("READ_NOSYNC", 0, self._copied))
        promise.sync_wait()  # raises, should the map have failed
        mapped = cast(memoryview, staging.read_mapped(0, self._copied, copy=False))
        length = -(-length_of(mapped) // 4) * 4
        self._history.append(length)
        if length <= self._copied:
            return Mapped([mapped[:length]])
        # The guess was short. The first part is kept as a copy, because a mapped buffer cannot be copied into.
        first, rest = bytes(mapped), length - self._copied
        self.release()
        if staging.size < rest:
            staging.destroy()
            self._staging = staging = self._device.create_buffer(
                label="rfb_gpu staging",
                size=rest,
                usage=wgpu.BufferUsage.COPY_DST | wgpu.BufferUsage.MAP_READ,
            )
        commands = self._device.create_command_encoder()
        commands.copy_buffer_to_buffer(self._source, self._copied, staging, 0, rest)
        self._device.queue.submit([commands.finish()])
        yield (promise := staging.map_async("READ_NOSYNC", 0, rest))
        promise.sync_wait()
        return Mapped([memoryview(first), cast(memoryview, staging.read_mapped(0, rest, copy=False))])

    def release(self) -> None:
        """Gives the mapped memory back, so that the next copy can go there."""
        if self._staging is not None and self._staging.map_state == "mapped":
            self._staging.unmap()

    def destroy(self) -> None:
        """Frees the staging buffer. Not while a copy or a map is under way."""
        if self._staging is not None:
            self._staging.destroy()
            self._staging = None


class Mapped:
    """Bytes in one or two pieces."""

    def __init__(self, pieces: list[memoryview]) -> None:
        self._pieces = pieces

    def slice(self, start: int, stop: int) -> list[memoryview]:
        """The bytes from ``start`` to ``stop``, in as many pieces as they lie in."""
        found, offset = [], 0
        for piece in self._pieces:
            a, b = max(start - offset, 0), min(stop - offset, len(piece))
            if a < b:
                found.append(piece[a:b])
            offset += len(piece)
        return found

    def words(self, start: int, stop: int) -> NDArray[np.uint32]:
        """A copy of the 32-bit words from number ``start`` to ``stop``."""
        return np.frombuffer(b"".join(self.slice(4 * start, 4 * stop)), np.uint32)


class RecycledMemory:
    """Joins pieces in memory that an earlier result has given back.

    Memory that is new to a process is cleared by the system page by page when it is first written to, which takes several times as
    long as the copy; and the C library gives large pieces back to the system as soon as they are free.
    """

    SPARE = 3
    """So many pieces of memory are kept: one that is being shown, one that is sent, one that is made."""
    LEAST = 64 * 1024
    """Bytes. Less is not worth it, and who keeps results would keep the rest as well."""
    HEADROOM = 1.25

    def __init__(self) -> None:
        self._spare: deque[NDArray[np.uint8]] = deque(maxlen=self.SPARE)

    def join(self, pieces: Sequence[bytes | memoryview]) -> memoryview:
        """The pieces one after the other, read-only. The memory comes back when nothing refers to the result any more."""
        size = sum(len(piece) for piece in pieces)
        if size < self.LEAST:
            return memoryview(b"".join(pieces))
        memory = self._take(size)
        lease = memory[:size]
        # From whichever thread has held it for longest; one call of a deque is safe there.
        weakref.finalize(lease, self._spare.append, memory).atexit = False
        start = 0
        for piece in pieces:
            lease[start : start + len(piece)] = np.frombuffer(piece, np.uint8)
            start += len(piece)
        lease.flags.writeable = False
        return lease.data

    def _take(self, size: int) -> NDArray[np.uint8]:
        while self._spare:
            memory = self._spare.popleft()
            if len(memory) >= size:
                return memory
        return np.empty(int(size * self.HEADROOM), np.uint8)
