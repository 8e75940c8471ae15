"""Puts the messages of a view back into order.

A kernel may deliver a view's messages on two threads and so out of order; a pointer that is released before it is pressed
turns a drag into nonsense. Never waits long: a gap is given up after ``GAP_SECONDS``.
"""

from __future__ import annotations

from .protocol import Event, Message

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
        if (message.epoch, message.seq) < (self._epoch, self._expected):
            # Given up, or from before the page started anew, by another road perhaps. What the user did counts all the same: a
            # button whose release got lost would stay pressed.
            return [message] if _is_input(message) else []
        overtaken: list[Message] = []
        if message.epoch > self._epoch:
            overtaken = [late for _, (_, late) in sorted(self._waiting.items()) if _is_input(late)]
            self._epoch, self._expected, self._waiting = message.epoch, 0, {}
        if message.seq == self._expected or len(self._waiting) < MAX_WAITING:
            self._waiting.setdefault(message.seq, (now, message))
        return overtaken + self._take()

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


def _is_input(message: Message) -> bool:
    """Whether the user did something; what size an element has, a page tells again when it starts anew."""
    return isinstance(message, Event) and message.event["type"] != "resize"
