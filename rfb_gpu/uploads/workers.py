"""What all streams share: the lock, the threads that copy, the bounds, and the list of what is under way."""

from __future__ import annotations

import math
import threading
import time
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .future import UploadFuture
    from .stream import TextureStream

__all__ = ["ActiveUpload", "active", "changed", "configure", "recording", "streams", "workers"]

changed = threading.Condition()
"""Around all lists of all streams; not held while something is copied or recorded."""
recording = threading.RLock()
"""Held while copies are recorded, and while close(), perhaps on another thread, frees the buffers."""
streams: weakref.WeakSet[TextureStream] = weakref.WeakSet()


class Workers:
    """The threads that copy arrays into staging buffers, within the bounds."""

    def __init__(self) -> None:
        self._next_start = -math.inf
        self.configure(threads=2, max_in_flight=8, bytes_per_second=None)

    def configure(self, *, threads: int, max_in_flight: int | None, bytes_per_second: float | None) -> None:
        """See :func:`configure`. What is queued is still copied by the threads that it is queued for."""
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="rfb_gpu upload")
        self._max_in_flight = math.inf if max_in_flight is None else max_in_flight
        self._bytes_per_second = math.inf if bytes_per_second is None else bytes_per_second

    def submit(self, upload: UploadFuture) -> Future[None]:
        """Queues it for a thread."""
        return self._pool.submit(self._copy, upload)

    def seconds_until_room(self, nbytes: int) -> float:
        """How long to wait before a copy of so many bytes may begin. 0: it begins. Under the lock."""
        now = time.perf_counter()
        if now < self._next_start:
            return self._next_start - now
        at_workers = (upload for stream in streams for upload in stream._at_workers)
        if sum(upload._stage == "copying" for upload in at_workers) >= self._max_in_flight:
            return math.inf  # until one that is through tells
        self._next_start = now + nbytes / self._bytes_per_second
        return 0

    def _copy(self, upload: UploadFuture) -> None:
        with changed:
            while not upload.done() and (seconds := self.seconds_until_room(upload.nbytes)):
                changed.wait(min(seconds, 1.0))
            if not upload.done():
                upload._stage = "copying"
        upload._copy()


workers = Workers()


def configure(
    *, threads: int = 2, max_in_flight: int | None = 8, bytes_per_second: float | None = None
) -> None:
    """Sets the bounds for all streams together; what is not named is set to its default.

    Arguments:
        threads: that copy arrays into staging buffers.
        max_in_flight: uploads that are being copied into staging buffers, by those threads and in ``put()``; None: no bound.
        bytes_per_second: of texels; None: no bound.

    Raises:
        ValueError, TypeError: a number is not positive.
    """
    for name, count in {"threads": threads, "max_in_flight": max_in_flight}.items():
        if count is None and name == "max_in_flight":
            continue
        if isinstance(count, bool) or not isinstance(count, int):
            raise TypeError(f"{name} must be a whole number, not {count!r}")
        if count < 1:
            raise ValueError(f"{name} must be at least 1, not {count}")
    if bytes_per_second is not None and not 0 < bytes_per_second < math.inf:
        raise ValueError(f"bytes_per_second must be a positive number or None, not {bytes_per_second!r}")
    with changed:
        workers.configure(threads=threads, max_in_flight=max_in_flight, bytes_per_second=bytes_per_second)


class ActiveUpload(NamedTuple):
    """An upload that is under way."""

    name: str
    nbytes: int
    """Of texels."""
    age: float
    """Seconds since its put()."""
    state: str
    """``"waiting"`` for a staging buffer, ``"queued"`` for a thread, ``"copying"``, or ``"ready"`` to be recorded once due."""


def active() -> list[ActiveUpload]:
    """The uploads that are under way, of all streams, each stream's in the order of their put()."""
    now = time.perf_counter()
    with changed:
        uploads = [upload for stream in streams for upload in stream._uploads]
        return [ActiveUpload(u._stream.name, u.nbytes, now - u._made, u._stage) for u in uploads]
