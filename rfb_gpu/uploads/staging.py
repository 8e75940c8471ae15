"""How an array lies in a texture and in the staging buffer before it: texel formats, parts of textures, padded rows.

Nothing here records a command or knows a thread; that is :mod:`.stream`'s.
"""

from __future__ import annotations

import re
import sys
import time
from operator import index
from typing import Any, NamedTuple

import numpy as np
import wgpu
from numpy.typing import NDArray

__all__ = [
    "ROW_ALIGNMENT",
    "Part",
    "StagingBuffer",
    "TexelFormat",
    "can_change",
    "copy_texels",
    "part_for",
    "texel_format",
]

POLL_SECONDS = 0.0001
"""Between two looks whether the GPU is through with a buffer, while a program waits in put()."""
ROW_ALIGNMENT = 256
"""Bytes: rows of a copy from a buffer to a texture begin at multiples of it (WebGPU specification, GPUTexelCopyBufferLayout)."""

_FORMAT = re.compile(r"(r|rg|rgba|bgra)(8|16|32)(unorm|snorm|uint|sint|float)(-srgb)?")
_KINDS = {"unorm": "u", "uint": "u", "snorm": "i", "sint": "i", "float": "f"}


class TexelFormat(NamedTuple):
    """What an array for a texture must have."""

    channels: int
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Of a texel."""
        return self.channels * self.dtype.itemsize

    @property
    def opaque(self) -> float:
        """The alpha that stands for opaque."""
        return 1.0 if self.dtype.kind == "f" else int(np.iinfo(self.dtype).max)


def texel_format(name: str) -> TexelFormat:
    """The array that a texture format of wgpu takes.

    Raises:
        ValueError: the format is compressed, packed, or of depths.
    """
    match = _FORMAT.fullmatch(name)
    if match is None:
        raise ValueError(
            f"textures of the format {name!r} cannot be streamed: only uncompressed ones of 8, 16 or 32 bits a channel"
        )
    channels, bits, kind, _ = match.groups()
    return TexelFormat(len(channels), np.dtype(f"{_KINDS[kind]}{int(bits) // 8}"))


class Part(NamedTuple):
    """A box of texels, in x, y and z (or the layer); the whole texture is one as well."""

    origin: tuple[int, int, int]
    size: tuple[int, int, int]

    def bytes_per_row(self, texel: TexelFormat) -> int:
        """In the staging buffer."""
        return -(-self.size[0] * texel.nbytes // ROW_ALIGNMENT) * ROW_ALIGNMENT

    def staging_bytes(self, texel: TexelFormat) -> int:
        """That the part takes in a staging buffer."""
        return self.bytes_per_row(texel) * self.size[1] * self.size[2]


def part_for(array: NDArray[Any], origin: Any, size: tuple[int, int, int], texel: TexelFormat) -> Part:
    """Where an array belongs in a texture of this size.

    Raises:
        ValueError, TypeError: it does not fit.
    """
    channels, dtype = texel
    if array.dtype != dtype:
        raise TypeError(
            f"the texture takes {dtype}, not {array.dtype}: convert with array.astype(np.{dtype})"
        )
    shape = array.shape
    if channels > 1:
        if not shape or not (shape[-1] == channels or (channels, shape[-1]) == (4, 3)):
            raise ValueError(
                f"the array's last axis must be the texture's {channels} channels; its shape is {shape}"
            )
        shape = shape[:-1]
    if not 1 <= len(shape) <= 3 or 0 in shape:
        raise ValueError(f"an array of the shape {array.shape} cannot be put into a texture of {_by(size)}")
    width, height, depth = (*reversed(shape), 1, 1)[:3]
    part = Part((0, 0, 0), (width, height, depth))
    if origin is None:
        if part.size != size:
            raise ValueError(
                f"the array is {_by(part.size)} and the texture {_by(size)} (width, height, depth): "
                "give origin=(x, y, z) for a part of it"
            )
        return part
    try:
        x, y, z = (*(index(o) for o in origin), 0, 0)[: max(3, len(origin))]
    except (TypeError, ValueError):
        raise TypeError(f"origin must be up to three whole numbers, x, y and z, not {origin!r}") from None
    part = Part((x, y, z), part.size)
    if any(o < 0 or o + n > whole for o, n, whole in zip(*part, size, strict=True)):
        raise ValueError(
            f"an array of {_by(part.size)} at {part.origin} reaches beyond the texture of {_by(size)} (width, height, depth)"
        )
    return part


def _by(size: tuple[int, int, int]) -> str:
    return "x".join(map(str, size))


def can_change(array: NDArray[Any]) -> bool:
    """Whether anybody could write to the array's memory; by itself, not by what else points there in secret."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return True
        owner = owner.base
    if owner is None:
        return False
    try:
        return not memoryview(owner).readonly
    except TypeError:
        return True


def copy_texels(array: NDArray[Any], memory: Any, bytes_per_row: int, part: Part, texel: TexelFormat) -> None:
    """Copies an array to where rows begin every so many bytes; alpha that it lacks becomes opaque."""
    width, height, depth = part.size
    strides = (bytes_per_row * height, bytes_per_row, texel.nbytes, texel.dtype.itemsize)
    shape = (depth, height, width, texel.channels)
    texels: NDArray[Any] = np.ndarray(shape, texel.dtype, memory, 0, strides)
    source = array.reshape(depth, height, width, -1)  # no copy: only axes of one are new
    if source.shape[-1] == texel.channels:
        np.copyto(texels, source)
        return
    for channel in range(source.shape[-1]):  # NumPy takes several times as long for all of them at once
        np.copyto(texels[..., channel], source[..., channel])
    texels[..., -1] = texel.opaque


class StagingBuffer:
    """A buffer that the CPU writes and the GPU copies from, by turns. Not for two threads at once.

    Only :meth:`lend` is for the thread that draws. The memory is made and mapped by those that fill it: for a draw, a map is the
    longest of all calls that an upload needs.
    """

    def __init__(self, device: wgpu.GPUDevice, nbytes: int) -> None:
        self._device = device
        self._nbytes = nbytes
        self._buffer: wgpu.GPUBuffer | None = None
        self._memory: memoryview | None = None
        self._mapping: Any = None  # a GPUPromise, while it is asked back

    def fill(self, array: NDArray[Any], part: Part, texel: TexelFormat) -> None:
        """Copies an array into it, once the GPU is through with it. Other threads run meanwhile."""
        if self._memory is None:
            self._memory = self._map()
        copy_texels(array, self._memory, part.bytes_per_row(texel), part, texel)

    def ask_back(self) -> None:
        """Has the GPU give it back when it is through, unless it is back."""
        if self._buffer is None or self._memory is not None or self._mapping is not None:
            return
        # Where an event loop runs, wgpu settles the promise there once more, by when the buffer may be lent again.
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(None, None)
        try:
            self._mapping = self._buffer.map_async("WRITE")
        finally:
            sys.set_asyncgen_hooks(*hooks)

    def comes_back(self, timeout: float) -> bool:
        """Whether the GPU is through with it, within so many seconds."""
        self.ask_back()
        until = time.perf_counter() + timeout
        # wgpu 0.32 has no public way to ask a promise.
        while self._mapping is not None and self._mapping._state == "pending":
            if time.perf_counter() >= until:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def lend(self) -> wgpu.GPUBuffer:
        """Leaves the memory to the GPU, for the commands that are submitted next."""
        assert self._buffer is not None
        self._memory = None
        self._buffer.unmap()
        return self._buffer

    def destroy(self) -> None:
        """Frees the memory. Not while a thread fills it."""
        if self._buffer is not None:
            self._memory = None
            self._buffer.destroy()

    def _map(self) -> memoryview:
        if self._buffer is None:
            self._buffer = self._device.create_buffer(
                label="rfb_gpu upload",
                size=self._nbytes,
                usage=wgpu.BufferUsage.MAP_WRITE | wgpu.BufferUsage.COPY_SRC,
                mapped_at_creation=True,
            )
        else:
            self.ask_back()
            mapping, self._mapping = self._mapping, None
            mapping.sync_wait()
        # wgpu has no other way to memory that a thread can fill without holding Python up.
        memory: memoryview = self._buffer._experimental_get_mapped_range()
        return memory
