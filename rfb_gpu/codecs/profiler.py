"""Times a codec's GPU work by timestamps. Only for who asks for a profile: it gives each stage a pass of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import wgpu

__all__ = ["Profiler"]


class Profiler:
    """Times the commands of one frame: each pass, and with the feature for it everything from the first command to the last.

    ``begin``, then ``next_pass`` for each pass, then ``end``; ``read`` once the commands are submitted. Passes of one label
    are summed.

    Raises:
        ValueError: the device has no feature ``timestamp-query``.
    """

    MAX_PASSES = 64
    _WHOLE = 2  # the first two timestamps are around everything

    def __init__(self, device: wgpu.GPUDevice) -> None:
        if "timestamp-query" not in device.features:
            raise ValueError("profile=True needs a device with the feature 'timestamp-query'")
        self._device = device
        self._can_stamp_commands = "timestamp-query-inside-encoders" in device.features
        self._queries = device.create_query_set(type="timestamp", count=2 * self.MAX_PASSES)
        self._resolved = device.create_buffer(
            size=16 * self.MAX_PASSES, usage=wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC
        )
        self._labels: list[str] = []

    def begin(self, commands: wgpu.GPUCommandEncoder) -> None:
        """Starts a frame."""
        self._labels = []
        self._stamp(commands, 0)

    def _stamp(self, commands: wgpu.GPUCommandEncoder, index: int) -> None:
        if self._can_stamp_commands:
            from wgpu.backends.wgpu_native.extras import write_timestamp

            write_timestamp(commands, self._queries, index)

    def next_pass(self, label: str) -> dict[str, Any]:
        """The ``timestamp_writes`` of a pass."""
        n = self._WHOLE + 2 * len(self._labels)
        self._labels.append(label.removeprefix("rfb_gpu "))
        return {
            "query_set": self._queries,
            "beginning_of_pass_write_index": n,
            "end_of_pass_write_index": n + 1,
        }

    def end(self, commands: wgpu.GPUCommandEncoder) -> None:
        """Ends a frame; to be called before the commands are finished."""
        self._stamp(commands, 1)
        first = 0 if self._can_stamp_commands else self._WHOLE
        count = self._WHOLE - first + 2 * len(self._labels)
        commands.resolve_query_set(self._queries, first, count, self._resolved, 0)

    def read(self) -> dict[str, float]:
        """Seconds per pass, and ``gpu``: of all commands, or else from the first pass to the last. Waits for the GPU.

        Empty before the first frame.
        """
        if not self._labels:
            return {}
        whole = self._WHOLE if self._can_stamp_commands else 0
        # Timestamps count nanoseconds in WebGPU.
        data = self._device.queue.read_buffer(self._resolved, 0, 8 * (whole + 2 * len(self._labels)))
        stamps = np.frombuffer(data, np.uint64) * 1e-9
        seconds = {"gpu": float(stamps.max() - stamps.min())}
        for i, label in enumerate(self._labels):
            start, end = stamps[whole + 2 * i : whole + 2 * i + 2]
            seconds[label] = seconds.get(label, 0.0) + float(end - start)
        return seconds

    def destroy(self) -> None:
        """Frees the GPU's objects."""
        self._queries.destroy()
        self._resolved.destroy()
