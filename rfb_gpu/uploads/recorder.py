"""A turn of a thread that draws: what is due in all its streams is recorded, and submitted once.

A submission takes longer than a copy in it: sixteen streams that are due together are to cost little more than one.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import wgpu

from .. import native
from ..native import TextureCopy
from .workers import changed, recording

if TYPE_CHECKING:
    from .future import UploadFuture
    from .stream import TextureStream

__all__ = ["Recorder", "recorder_of"]

INTERVAL_SECONDS = 0.004
"""On an event loop, while threads copy more. A quarter of a frame: what comes in parts is not recorded one by one."""


class Recorder:
    """Of one thread, which alone takes turns."""

    def __init__(self) -> None:
        self.streams: weakref.WeakSet[TextureStream] = weakref.WeakSet()
        self._turned = -math.inf
        self._is_put_off = False

    def ask_back(self) -> None:
        """From a thread that has copied: if all have, so that the next arrays find buffers that the GPU is through with.

        Not sooner: the GPU may still read, and while wgpu waits for it, draws that submit wait as well.
        """
        with changed:
            are_through = not any(stream._at_workers for stream in self.streams)
            streams = list(self.streams) if are_through else []
        for stream in streams:
            with changed:  # for each anew: a map is long for a lock that draws need
                stream._ask_back()

    def take_turn_soon(self, loop: Any) -> None:
        """On its event loop, because something is ready."""
        left = self._turned + INTERVAL_SECONDS - time.perf_counter()
        if left <= 0 or not any(stream._at_workers for stream in self.streams):
            self.take_turn()
        elif not self._is_put_off:
            self._is_put_off = True
            loop.call_later(left, self.take_turn)

    def take_turn_if_due(self) -> None:
        """Whichever stream it is for."""
        with changed:
            is_due = any(stream._seconds_until_due() == 0 for stream in self.streams)
        if is_due:
            self.take_turn()

    def take_turn(self, drawing: Any = None) -> None:
        """Records what is due, and has the canvases drawn that show it, except the one that is about to be."""
        self._turned, self._is_put_off = time.perf_counter(), False
        errors: dict[TextureStream, Exception] = {}
        with recording:
            with changed:
                due = {stream: uploads for stream in self.streams if (uploads := stream._take_due())}
            for device in {stream._target.device for stream in due}:
                its = {stream: uploads for stream, uploads in due.items() if stream._target.device is device}
                errors |= _record(device, its)
            with changed:
                for stream, uploads in due.items():
                    for upload in uploads:
                        stream._put_back(upload)
        for stream, uploads in due.items():
            if stream in errors:
                stream._break(errors[stream], uploads)
                continue
            for upload in uploads:
                upload.set_result(None)
            stream._set_alarm()
            canvas = stream._canvas()
            if canvas is not None and canvas is not drawing:
                canvas.request_draw()
        with changed:
            changed.notify_all()


def _record(
    device: wgpu.GPUDevice, due: dict[TextureStream, list[UploadFuture]]
) -> dict[TextureStream, Exception]:
    """Submits the copies; gives the errors of those that could not be."""
    errors: dict[TextureStream, Exception] = {}
    copies: list[TextureCopy] = []
    for stream, uploads in due.items():
        newest = {upload._part: upload for upload in uploads}  # what is overwritten at once is not copied
        try:
            texture = stream._target.begin()
            copies += [upload._lend(texture) for upload in uploads if newest[upload._part] is upload]
        except Exception as error:
            errors[stream] = error
    try:
        _copy(device, copies)
        for stream in due.keys() - errors.keys():
            stream._target.end()
    except Exception as error:
        errors = dict.fromkeys(due, error) | errors
    return errors


def _copy(device: wgpu.GPUDevice, copies: list[TextureCopy]) -> None:
    direct = native.load()
    if direct is not None:
        direct.copy_to_textures(device, copies)
        return
    commands = device.create_command_encoder()
    for copy in copies:
        source = {
            "buffer": copy.buffer,
            "bytes_per_row": copy.bytes_per_row,
            "rows_per_image": copy.size[1],
        }
        commands.copy_buffer_to_texture(source, {"texture": copy.texture, "origin": copy.origin}, copy.size)
    device.queue.submit([commands.finish()])


_recorders: weakref.WeakValueDictionary[threading.Thread, Recorder] = weakref.WeakValueDictionary()


def recorder_of(thread: threading.Thread) -> Recorder:
    """The one that its streams share."""
    with changed:
        return _recorders.setdefault(thread, Recorder())
