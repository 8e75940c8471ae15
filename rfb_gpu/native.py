"""wgpu-native's own functions, for what is done once a frame: recording some dispatches and copies, and submitting them.

wgpu-py wraps every call in an error scope and every handle in an object, which takes as long as the work itself: 18 calls are half
of the time that an encode keeps the event loop. Here two error scopes are around all of them. Where wgpu-py's insides are not
as expected, :func:`load` gives None and everything goes through its public functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import wgpu

__all__ = ["Native", "TextureCopy", "load"]

_FUNCTIONS = (
    "wgpuDeviceCreateCommandEncoder",
    "wgpuCommandEncoderBeginComputePass",
    "wgpuCommandEncoderCopyBufferToBuffer",
    "wgpuCommandEncoderCopyBufferToTexture",
    "wgpuCommandEncoderFinish",
    "wgpuCommandEncoderRelease",
    "wgpuComputePassEncoderSetPipeline",
    "wgpuComputePassEncoderSetBindGroup",
    "wgpuComputePassEncoderDispatchWorkgroups",
    "wgpuComputePassEncoderEnd",
    "wgpuComputePassEncoderRelease",
    "wgpuQueueSubmit",
    "wgpuCommandBufferRelease",
)


class TextureCopy(NamedTuple):
    """A copy of a buffer's bytes, from its first on, to a box of a texture's texels."""

    buffer: wgpu.GPUBuffer
    bytes_per_row: int
    texture: wgpu.GPUTexture
    origin: tuple[int, int, int]
    size: tuple[int, int, int]


@cache
def load() -> Native | None:
    """The functions, or None where they are not to be had."""
    try:
        return Native()
    except Exception:
        return None


class Native:
    """Raises whatever comes from another version of wgpu-py than it knows."""

    def __init__(self) -> None:
        from wgpu.backends.wgpu_native import _api, _helpers

        self._lib, self._ffi = _api.lib, _api.ffi
        self._errors = _api.libf._error_handler
        self._error_types = _helpers.ERROR_TYPES
        for function in _FUNCTIONS:
            getattr(self._lib, function)
        self._whole_texel: int = self._lib.WGPUTextureAspect_All
        for struct in ("WGPUTexelCopyBufferInfo", "WGPUTexelCopyTextureInfo", "WGPUExtent3D"):
            self._ffi.typeof(struct)
        self._errors.capture(__name__)
        if self._errors.release(__name__) is not None:
            raise RuntimeError("an error of somebody else")

    def submit(self, device: wgpu.GPUDevice, stages: Sequence[Any], copies: Sequence[Any]) -> None:
        """Submits the dispatches, in one compute pass, and then the copies: see :mod:`.passes`.

        Raises:
            wgpu.GPUError: wgpu refuses something.
        """
        lib, null = self._lib, self._ffi.NULL
        with self._submitted(device) as commands:
            compute = lib.wgpuCommandEncoderBeginComputePass(commands, null)
            for stage in stages:
                x, y, z = (*stage.workgroups, 1, 1)[:3]
                lib.wgpuComputePassEncoderSetPipeline(compute, stage.pipeline._internal)
                lib.wgpuComputePassEncoderSetBindGroup(compute, 0, stage.bind_group._internal, 0, null)
                lib.wgpuComputePassEncoderDispatchWorkgroups(compute, x, y, z)
            lib.wgpuComputePassEncoderEnd(compute)
            lib.wgpuComputePassEncoderRelease(compute)
            for source, target, size in copies:
                lib.wgpuCommandEncoderCopyBufferToBuffer(
                    commands, source._internal, 0, target._internal, 0, size
                )

    def copy_to_textures(self, device: wgpu.GPUDevice, copies: Sequence[TextureCopy]) -> None:
        """Submits the copies.

        Raises:
            wgpu.GPUError: wgpu refuses something; nothing is copied then.
        """
        source = self._ffi.new("WGPUTexelCopyBufferInfo *")
        target = self._ffi.new("WGPUTexelCopyTextureInfo *", {"aspect": self._whole_texel})
        size = self._ffi.new("WGPUExtent3D *")
        with self._submitted(device) as commands:
            for copy in copies:
                source.buffer = copy.buffer._internal
                source.layout.bytesPerRow = copy.bytes_per_row
                target.texture = copy.texture._internal
                target.origin.x, target.origin.y, target.origin.z = copy.origin
                size.width, source.layout.rowsPerImage, size.depthOrArrayLayers = copy.size
                size.height = source.layout.rowsPerImage
                self._lib.wgpuCommandEncoderCopyBufferToTexture(commands, source, target, size)

    @contextmanager
    def _submitted(self, device: wgpu.GPUDevice) -> Iterator[Any]:
        """A command encoder, whose commands are submitted in the end."""
        lib, null = self._lib, self._ffi.NULL
        with self._errors_raised():
            commands = lib.wgpuDeviceCreateCommandEncoder(device._internal, null)
            yield commands
            buffer = lib.wgpuCommandEncoderFinish(commands, null)
            lib.wgpuCommandEncoderRelease(commands)
        # Only now: wgpu ends the process when commands that it has refused are submitted.
        with self._errors_raised():
            lib.wgpuQueueSubmit(device.queue._internal, 1, self._ffi.new("WGPUCommandBuffer[]", [buffer]))
            lib.wgpuCommandBufferRelease(buffer)

    @contextmanager
    def _errors_raised(self) -> Iterator[None]:
        self._errors.capture(__name__)
        try:
            yield
        finally:
            error = self._errors.release(__name__)
        if error is not None:
            raise self._error_types.get(error[0], wgpu.GPUError)(error[1])
