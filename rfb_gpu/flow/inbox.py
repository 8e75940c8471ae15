"""Puts the messages of a view back into order.

A kernel may deliver a view's messages on two threads and so out of order; a pointer that is released before it is pressed
turns a drag into nonsense. Never waits long: a gap is given up after ``GAP_SECONDS``.
"""

from __future__ import annotations

from .protocol import Message

__all__ = ["Inbox"]

GAP_SECONDS = 0.05
"""Longer than two threads of one process are apart, shorter than a person notices."""

MAX_WAITING = 1000


class Inbox:
    """The messages of one view."""

    def __init__(self) -> None:
        self._epoch = -1
        self._expected = 0
        self._waiting: dict[int, tuple[float, Message]] = {}

    def push(self, message: Message, now: float) -> list[Message]:
        """Takes a message in; gives those that are next in order."""
        if message.epoch < self._epoch:
            return []  # from before the page started anew
        if message.epoch > self._epoch:
            self._epoch, self._expected, self._waiting = message.epoch, 0, {}
        if message.seq == self._expected or (
            message.seq > self._expected and len(self._waiting) < MAX_WAITING
        ):
            self._waiting.setdefault(message.seq, (now, message))
        return self._take()

    def expire(self, now: float) -> list[Message]:
        """Gives what has waited too long for a message that did not come, and what follows it."""
        deadline = self.deadline
        if deadline is None or now < deadline:
            return []
        self._expected = min(self._waiting)
        return self._take()

    @property
    def deadline(self) -> float | None:
        """When to call :meth:`expire`; None if nothing waits."""
        if not self._waiting:
            return None
        return min(arrived for arrived, _ in self._waiting.values()) + GAP_SECONDS

    def _take(self) -> list[Message]:
        ready = []
        while self._expected in self._waiting:
            ready.append(self._waiting.pop(self._expected)[1])
            self._expected += 1
        return ready
