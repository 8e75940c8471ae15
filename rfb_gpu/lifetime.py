"""How long a canvas lives: as long as a program has it, or a page shows it.

ipywidgets keeps every widget for ever, and IPython the value of every cell (``Out``). So a cell that is run again would leave a
canvas each time, with all that it draws. Here both let go of a canvas that no page shows any more; the program may keep it, and
show it again. It never closes a canvas: a canvas without owners closes itself.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

from ipywidgets import Widget
from ipywidgets.widgets.widget import _instances

__all__ = ["close", "hold", "let_go", "weakly"]


def hold(widget: Widget) -> None:
    """A page shows it, so it lives even if no program has it."""
    _instances[widget.model_id] = widget


def let_go(widget: Widget) -> None:
    """No page shows it any more: whether it lives on is up to the program."""
    # Not taken out: a notebook that is closed and opened again finds its widgets there.
    _instances[widget.model_id] = weakref.proxy(widget)
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    if shell is not None:
        _forget_value(shell, widget)


def close(widget: Widget) -> None:
    """Closes the widget, which takes it out of pages, and its layout if that is no other's."""
    layout = widget.layout
    Widget.close(widget)
    if all(getattr(other, "layout", None) is not layout for other in list(_instances.values())):
        layout.close()


def _forget_value(shell: Any, value: object) -> None:
    """Takes a cell's value out of ``Out``, ``_7``, ``_``, ``__`` and ``___``; its output was cleared before."""
    names = ["_", "__", "___"]
    out = shell.user_ns.get("_oh", {})
    for number in [number for number, kept in out.items() if kept is value]:
        del out[number]
        names.append(f"_{number}")
    for namespace in (shell.user_ns, shell.user_ns_hidden, vars(shell.displayhook)):
        for name in names:
            if namespace.get(name) is value:
                namespace[name] = ""


def weakly(method: Callable[..., None]) -> Callable[..., None]:
    """A function that calls the method, but does not keep its object alive."""
    reference = weakref.WeakMethod(method)

    def call(*args: Any) -> None:
        alive = reference()
        if alive is not None:
            alive(*args)

    return call
