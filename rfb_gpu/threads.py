"""Which thread does what: the thread of live canvases, the mail that any thread may leave, and the lock around callbacks.

A canvas draws on one thread only. For most that is the one of the kernel's event loop, which stands still while a cell runs. A
*live* canvas has its draws, encodings, maps and event handlers on a daemon thread with a loop of its own, so it goes on meanwhile.

Nothing here draws, sends or knows a message; that is the canvas's.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from rendercanvas.asyncio import AsyncioLoop
from rendercanvas.base import BaseCanvasGroup

__all__ = [
    "CallbackLock",
    "LiveGroup",
    "LiveLoop",
    "Mail",
    "Pulse",
    "callback_lock",
    "live_group",
    "receive_directly",
]

T = TypeVar("T")

_ALIVE_SECONDS = 1.0
"""How often to make sure, while waiting for the thread, that it is still there."""


_PATIENCE_SECONDS = 0.3
"""An event loop that is late by more is taken as stopped by a cell."""


class CallbackLock(threading.Condition):
    """A re-entrant lock, held while any canvas handles events or draws. There is one, because pygfx shares what it makes.

    Being a condition it is let go, however often it is held, while its holder waits for the thread: no deadlock.
    """

    def __init__(self) -> None:
        super().__init__(threading.RLock())
        self._depth = 0

    @contextlib.contextmanager
    def callback(self) -> Iterator[None]:
        """Held around the user's event handlers and draw functions."""
        with self:
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    @property
    def inside_callback(self) -> bool:
        """Whether the calling thread is in a callback. To be asked while holding the lock, so no other thread is in one."""
        return self._depth > 0


callback_lock = CallbackLock()


class Mail:
    """What arrives on any thread, for one thread to read: in order, each letter once. Neither side waits for the other.

    Arguments:
        wake: called on the thread that puts a letter in, to have the mail read; not for each letter while it is about to be.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._letters: deque[Any] = deque()
        self._woken = False

    def put(self, letter: Any) -> None:
        """Leaves a letter. From any thread."""
        self._letters.append(letter)
        if not self._woken:  # two threads may both see it so: the mail is then read once in vain
            self._woken = True
            self._wake()

    def take(self) -> list[Any]:
        """All letters that are there. From the reading thread."""
        self._woken = False  # first: a letter that comes from here on wakes again, even if it is taken now
        return [self._letters.popleft() for _ in range(len(self._letters))]


class Pulse:
    """Tells whether the event loop of the thread that made this still turns, or a cell has stopped it."""

    def __init__(self) -> None:
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None
        self._asked: float | None = None

    def has_stopped(self, now: float) -> bool:
        """Whether it has left the question that this method asks without an answer for a while. ``now`` in seconds."""
        if self._loop is None or self._loop.is_closed():
            return False
        asked = self._asked  # the answer may come, on the other thread, at any moment
        if asked is None:
            asked = self._asked = now
            self._loop.call_soon_threadsafe(self._answer)
        return now - asked > _PATIENCE_SECONDS

    def _answer(self) -> None:
        self._asked = None


class LiveLoop(AsyncioLoop):
    """A rendercanvas loop on a daemon thread of its own, which goes on while a cell runs.

    Only :meth:`call_soon_threadsafe` and :meth:`run_there` are for other threads; all else of it happens on its own.
    """

    _stop_when_no_canvases = False

    def __init__(self) -> None:
        super().__init__()
        self._native = asyncio.new_event_loop()
        self.thread = _thread_class()(target=self._native.run_forever, name="rfb_gpu live", daemon=True)
        self.thread.start()
        atexit.register(self._end)

    def run_there(self, function: Callable[..., T], *args: Any) -> T:
        """Calls a function on the thread and waits for it; gives what it returns, raises what it raises."""
        if threading.current_thread() is self.thread or sys.is_finalizing() or not self.thread.is_alive():
            return function(*args)
        results: list[T] = []
        errors: list[BaseException] = []

        def call() -> None:
            try:
                results.append(function(*args))
            except BaseException as error:
                errors.append(error)
            with callback_lock:
                callback_lock.notify_all()

        self._native.call_soon_threadsafe(call)
        with callback_lock:
            while not callback_lock.wait_for(lambda: bool(results or errors), _ALIVE_SECONDS):
                if not self.thread.is_alive():
                    raise RuntimeError("the thread of live canvases has ended")
        if errors:
            raise errors[0]
        return results[0]

    def _rc_call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        self._native.call_soon_threadsafe(callback)

    def _end(self) -> None:
        # A daemon thread that still runs while the interpreter goes down may crash in a driver.
        if self.thread.is_alive():
            self._native.call_soon_threadsafe(self._end_there)
            self.thread.join(_ALIVE_SECONDS)

    def _end_there(self) -> None:
        # Or else asyncio complains of tasks that are pending.
        for task in asyncio.all_tasks(self._native):
            task.cancel()
        self._native.call_soon(self._native.stop)


class LiveGroup(BaseCanvasGroup):
    """The live canvases that one thread made; they share a loop."""

    def _register_canvas(self, canvas: Any, task: Any) -> None:
        # Called by the base class's __init__. The thread must not see a canvas that is half made.
        canvas._rfb_unregistered_task = task

    def begin(self, canvas: Any) -> None:
        """Has the canvas scheduled, now that it is whole."""
        task = canvas.__dict__.pop("_rfb_unregistered_task")
        loop = self.get_loop()
        assert loop is not None
        loop.call_soon_threadsafe(super()._register_canvas, canvas, task)


_made_here = threading.local()


def live_group() -> LiveGroup:
    """The group of the calling thread's live canvases. In a kernel that is one for all; marimo's sessions have a thread each."""
    if not hasattr(_made_here, "group"):
        _made_here.group = LiveGroup(LiveLoop())
    group: LiveGroup = _made_here.group
    return group


def _thread_class() -> type[threading.Thread]:
    """In marimo, threads of another kind than its own cannot send: what they send is dropped without a word."""
    marimo = sys.modules.get("marimo")
    if marimo is not None and marimo.running_in_notebook():
        marimo_thread: type[threading.Thread] = marimo.Thread
        return marimo_thread
    return threading.Thread


def receive_directly(comm: Any, receive: Callable[[Any], None]) -> None:
    """Lets a widget's messages through while a cell runs, where the front end has a thread (a subshell) for them.

    ipykernel from 7.4 on sends answers to whichever shell sent last, so to the main one, which a cell may keep busy for long: here
    the page's own choice counts. And IPython's hooks for executed cells (inline figures are shown and closed by one) are not for
    messages that arrive in the middle of a cell.
    """
    if type(comm).__module__.startswith("ipykernel."):
        comm.handle_msg = receive
        if hasattr(comm, "_reply_subshell_for"):
            comm._reply_subshell_for = lambda _data, default=None: default
