"""Compute passes: the stages of a codec submitted one after the other, and timed for whom it interests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import wgpu

from .. import native

__all__ = ["Copy", "Profiler", "Stage", "submit"]


class Stage(NamedTuple):
    """One dispatch."""

    name: str
    pipeline: wgpu.GPUComputePipeline
    bind_group: wgpu.GPUBindGroup
    workgroups: tuple[int, ...]


class Copy(NamedTuple):
    """A copy of the first bytes of a buffer to another's."""

    source: wgpu.GPUBuffer
    target: wgpu.GPUBuffer
    size: int


def submit(
    device: wgpu.GPUDevice,
    stages: Sequence[Stage],
    copies: Sequence[Copy] = (),
    profiler: Profiler | None = None,
) -> None:
    """Submits the stages, as one compute pass, or each as one of its own if their times are wanted; and then the copies."""
    direct = native.load()
    if direct is not None and profiler is None:
        direct.submit(device, stages, copies)
        return
    commands = device.create_command_encoder(label="rfb_gpu")
    if profiler:
        profiler.begin()
    apart = profiler is not None and profiler.each_stage
    for group in [[stage] for stage in stages] if apart else [stages]:
        stamps = profiler.next_pass(group[0].name if apart else "gpu") if profiler else None
        compute = commands.begin_compute_pass(timestamp_writes=stamps)
        for stage in group:
            compute.set_pipeline(stage.pipeline)
            compute.set_bind_group(0, stage.bind_group)
            compute.dispatch_workgroups(*stage.workgroups)
        compute.end()
    if profiler:
        profiler.end(commands)
    for copy in copies:
        commands.copy_buffer_to_buffer(copy.source, 0, copy.target, 0, copy.size)
    device.queue.submit([commands.finish()])


class Profiler:
    """Times the passes of a frame by the GPU's timestamps.

    Arguments:
        device: with the feature ``timestamp-query``.
        profile: True for all stages in one pass, as they run without a profiler; ``"stages"`` to time each of them in a pass of its
            own, which makes the whole a little slower.

    Raises:
        ValueError: ``profile`` is something else, or the device lacks the feature.
    """

    MAX_PASSES = 64

    def __init__(self, device: wgpu.GPUDevice, profile: bool | str) -> None:
        if profile not in (True, "stages"):
            raise ValueError(f"profile must be False, True or 'stages', not {profile!r}")
        if "timestamp-query" not in device.features:
            raise ValueError("to profile, the device needs the feature 'timestamp-query'")
        self.each_stage = profile == "stages"
        self._device = device
        self._queries = device.create_query_set(type="timestamp", count=2 * self.MAX_PASSES)
        self._resolved = device.create_buffer(
            size=16 * self.MAX_PASSES, usage=wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC
        )
        self._names: list[str] = []

    def begin(self) -> None:
        """Starts a frame."""
        self._names = []

    def next_pass(self, name: str) -> dict[str, Any]:
        """The ``timestamp_writes`` of a pass."""
        n = 2 * len(self._names)
        self._names.append(name)
        return {
            "query_set": self._queries,
            "beginning_of_pass_write_index": n,
            "end_of_pass_write_index": n + 1,
        }

    def end(self, commands: wgpu.GPUCommandEncoder) -> None:
        """Ends a frame; to be called before the commands are finished."""
        commands.resolve_query_set(self._queries, 0, 2 * len(self._names), self._resolved, 0)

    def read(self) -> dict[str, float]:
        """Seconds by stage, and ``gpu``: from the beginning of the first pass to the end of the last. Waits for the GPU.

        Empty before the first frame.
        """
        if not self._names:
            return {}
        # Timestamps count nanoseconds in WebGPU. As floats they would lose the last digits.
        data = self._device.queue.read_buffer(self._resolved, 0, 16 * len(self._names))
        stamps = np.frombuffer(data, np.uint64).astype(np.int64).reshape(-1, 2)
        seconds: dict[str, float] = {}
        for name, (start, end) in zip(self._names, stamps, strict=True):
            seconds[name] = seconds.get(name, 0.0) + float(end - start) * 1e-9
        seconds["gpu"] = float(stamps.max() - stamps.min()) * 1e-9
        return seconds

    def destroy(self) -> None:
        """Frees the GPU's objects."""
        self._queries.destroy()
        self._resolved.destroy()
