"""A timer that many may set."""

from __future__ import annotations

import time
from collections.abc import Callable

from .lifetime import weakly

__all__ = ["Wakeup"]


class Wakeup:
    """Calls back at a time, at most once for the earliest time asked for.

    Arguments:
        call_later, callback: methods; their objects are not kept alive.
    """

    def __init__(self, call_later: Callable[..., None], callback: Callable[[], None]) -> None:
        self._call_later = weakly(call_later)
        self._callback = weakly(callback)
        self._when: float | None = None

    def at(self, when: float | None) -> None:
        """Asks for a time of ``time.perf_counter()``; None: for none."""
        if when is not None and (self._when is None or when < self._when):
            self._when = when
            self._call_later(when - time.perf_counter(), self._fire, when)

    def _fire(self, when: float) -> None:
        if when == self._when:
            self._when = None
            self._callback()
