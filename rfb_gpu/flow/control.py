"""Who is in control: of the views that show a canvas, the one whose pointer and keys count, and whose size the canvas has.

All others watch. In a notebook all views are one person's, so the view that was used last is in control. Pages of a server may be
several people's: there the first one is, until it leaves or another asks. A notebook's page is known as soon as the canvas is
made, shown or not; while it has told no size, it shows nothing, and holds nothing against a view that does.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Control"]

USE = frozenset({"pointer_down", "key_down", "focus_in", "close"})
"""The events by which a person turns to a view."""


@dataclass
class _Guest:
    takes_by_use: bool
    resize: Mapping[str, Any] | None = None  # the last event of that type


class Control:
    """Which view is in control.

    Arguments:
        views: those that are known; one that is no longer is treated as one that left.
    """

    def __init__(self, views: Container[str]) -> None:
        self._views = views
        self._guests: dict[str, _Guest] = {}  # who has been here for longest comes first
        self._holder: str | None = None
        self._presses = False  # the holder has a pointer button down
        self._asked_by: str | None = None

    @property
    def holder(self) -> str | None:
        """The view in control; None while there is no view."""
        return self._holder

    @property
    def size(self) -> Mapping[str, Any] | None:
        """The last ``resize`` event of the view in control; None if it had none yet."""
        return self._guests[self._holder].resize if self._holder is not None else None

    def come(self, view: str, *, takes_by_use: bool) -> None:
        """A view begins an epoch. With ``takes_by_use``, to use it is enough to be in control, and so is to show it."""
        is_new = view not in self._guests
        if is_new:
            self._guests[view] = _Guest(takes_by_use)
        self._forget_gone()
        if self._holder is None or (is_new and takes_by_use and self.size is None):
            self._give(view)

    def leave(self, view: str) -> None:
        """A view is gone; whoever asked, or has been here for longest, follows it."""
        self._guests.pop(view, None)
        if self._asked_by == view:
            self._asked_by = None
        if self._holder == view:
            shown = [name for name, guest in self._guests.items() if guest.resize is not None]
            self._give(self._asked_by or next(iter([*shown, *self._guests]), None))

    def ask(self, view: str) -> None:
        """A view asks for control, and gets it: at once, or when the gesture is over that the view in control has begun."""
        if view not in self._guests or view == self._holder:
            return
        if self._presses:
            self._asked_by = view
        else:
            self._give(view)

    def admits(self, view: str, event: Mapping[str, Any]) -> bool:
        """Whether an event of a view counts; notes what it says of size, use and gestures."""
        guest = self._guests.get(view)
        if guest is None:
            return False
        self._forget_gone()
        kind = event["type"]
        if kind == "resize":
            is_first, guest.resize = guest.resize is None, event
            if is_first and view != self._holder and (guest.takes_by_use or self.size is None):
                self._give(view)
        if kind in USE and guest.takes_by_use and view != self._holder:
            self._give(view)
        if view != self._holder:
            return False
        if kind in ("pointer_down", "pointer_up"):
            self._presses = kind == "pointer_down"
            if self._asked_by is not None and not self._presses:
                self._give(self._asked_by)
        return True

    def _give(self, view: str | None) -> None:
        self._holder, self._presses, self._asked_by = view, False, None

    def _forget_gone(self) -> None:
        for view in [view for view in self._guests if view not in self._views]:
            self.leave(view)
