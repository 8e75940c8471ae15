"""What the decoders have in common: buffers that grow, the texture that the picture goes to, times."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import wgpu

from .passes import Profiler
from .stages import Stages

__all__ = ["DecoderStages", "TextureDecoder"]

_ALIGNMENT = 256


class DecoderStages(Stages):
    """Stages that read what a file says."""

    TRUSTED = False
    BOUND: ClassVar[dict[str, str]]
    """By stage: the names of what is bound, in the order of the shader's bindings, "+" before what is written to. ``frame`` is a
    uniform buffer, ``picture`` a texture, all others are storage buffers."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        known = {"frame": "uniform", "+picture": "picture"}
        cls.BINDINGS = {
            stage: " ".join(
                known.get(name, "storage" if name.startswith("+") else "read-only-storage")
                for name in names.split()
            )
            for stage, names in cls.BOUND.items()
        }


class TextureDecoder(ABC):
    """A decoder of files into textures of a device; a subclass decodes them.

    Arguments:
        device: its default limits suffice, no optional feature is needed.
        profile: time the work on the GPU, for :meth:`timings`: True as a whole, ``"stages"`` each stage in a pass of its own; needs
            the device feature ``timestamp-query``.
    """

    _STAGES: ClassVar[type[DecoderStages]]

    def __init__(self, device: wgpu.GPUDevice, *, profile: bool | str = False) -> None:
        if not isinstance(device, wgpu.GPUDevice):
            raise TypeError(f"device must be a wgpu.GPUDevice, not {type(device).__name__}")
        self._device = device
        self._stages = self._STAGES.of(device)
        self._bind_groups: dict[str, wgpu.GPUBindGroup] = {}
        self._picture_bind_groups: weakref.WeakKeyDictionary[wgpu.GPUTexture, wgpu.GPUBindGroup] = (
            weakref.WeakKeyDictionary()
        )
        self._profiler = Profiler(device, profile) if profile else None
        self._buffers: dict[str, wgpu.GPUBuffer] = {}
        self._closed = False

    def decode(
        self, data: bytes | bytearray | memoryview, *, out: wgpu.GPUTexture | None = None
    ) -> wgpu.GPUTexture:
        """Decodes a file; the work is submitted when this returns, and later submissions see its result.

        Arguments:
            data: the complete file.
            out: a texture to write to: ``rgba8unorm``, of the picture's size, with usage ``STORAGE_BINDING``, and ``COPY_DST`` for
                files that the GPU does not decode. Without it, a new texture is made, with usages for all that and for sampling
                and copying from.

        Returns:
            The texture, (width, height) of the file.

        Raises:
            ValueError: the file cannot be decoded, by the codec's own errors, which are ValueErrors; ``out`` does not fit; or the
                picture is larger than the device's textures or buffers.
            RuntimeError: the decoder is closed.
        """
        if self._closed:
            raise RuntimeError("the decoder is closed")
        return self._decode(data, out)

    @abstractmethod
    def _decode(self, data: bytes | bytearray | memoryview, out: wgpu.GPUTexture | None) -> wgpu.GPUTexture:
        """What :meth:`decode` does, while the decoder is open."""

    def timings(self) -> dict[str, float]:
        """With ``profile``: seconds of GPU time that the last file took, as ``gpu`` in all and by stage. Waits for the GPU.

        Empty before the first file. Uploads are not in it, nor what is decoded on the CPU.

        Raises:
            RuntimeError: the decoder was made without ``profile=True``, or is closed.
        """
        if self._profiler is None:
            raise RuntimeError("timings() needs a decoder made with profile=True")
        return self._profiler.read()

    def close(self) -> None:
        """Frees all that the decoder has on the GPU. The textures stay with who has them. Decoding is over then."""
        self._closed = True
        for buffer in self._buffers.values():
            buffer.destroy()
        self._buffers.clear()
        self._forget_bind_groups()
        if self._profiler:
            self._profiler.destroy()
            self._profiler = None

    def _forget_bind_groups(self) -> None:
        self._bind_groups.clear()
        self._picture_bind_groups.clear()

    def _bind_group(self, stage: str, picture: wgpu.GPUTexture) -> wgpu.GPUBindGroup:
        names = [name.removeprefix("+") for name in self._stages.BOUND[stage].split()]
        takes_picture = "picture" in names
        known = self._picture_bind_groups.get(picture) if takes_picture else self._bind_groups.get(stage)
        if known is not None:
            return known
        group = self._stages.bind_group(
            stage, *(picture.create_view() if name == "picture" else self._buffers[name] for name in names)
        )
        if takes_picture:
            self._picture_bind_groups[picture] = group
        else:
            self._bind_groups[stage] = group
        return group

    def _texture(self, width: int, height: int, out: wgpu.GPUTexture | None, usage: str) -> wgpu.GPUTexture:
        """``out`` if the picture fits it, or a new texture."""
        limit = self._device.limits["max-texture-dimension-2d"]
        if max(width, height) > limit:
            raise ValueError(
                f"the picture is {width}x{height}, the device's textures have at most {limit} a side"
            )
        if out is None:
            flags = wgpu.TextureUsage
            return self._device.create_texture(
                label="rfb_gpu picture",
                size=(width, height, 1),
                format="rgba8unorm",
                usage=flags.STORAGE_BINDING | flags.TEXTURE_BINDING | flags.COPY_SRC | flags.COPY_DST,
            )
        if out._device is not self._device:
            raise ValueError("out belongs to another device than the decoder")
        if tuple(out.size) != (width, height, 1) or out.format != "rgba8unorm" or out.dimension != "2d":
            raise ValueError(
                f"out must be a 2D rgba8unorm texture of {width}x{height}, not {out.format} of {'x'.join(map(str, out.size))}"
            )
        if not out.usage & wgpu.TextureUsage[usage]:
            raise ValueError(
                f"out cannot be written to: create it with usage wgpu.TextureUsage.{usage}"
                + (", which files that the GPU does not decode need" if usage == "COPY_DST" else "")
            )
        return out

    def _upload_pixels(self, out: wgpu.GPUTexture, rgba: Any) -> wgpu.GPUTexture:
        """Pixels of the CPU, shape (height, width, 4), to all of the texture."""
        height, width = rgba.shape[:2]
        self._device.queue.write_texture(
            {"texture": out},
            rgba,
            {"bytes_per_row": 4 * width, "rows_per_image": height},
            (width, height, 1),
        )
        return out

    def _reserve(self, name: str, size: int) -> bool:
        """Makes the buffer at least ``size`` bytes; one that has to grow gets half as much again, so that it seldom does.

        Returns whether it is another one now.
        """
        buffer = self._buffers.get(name)
        if buffer is not None and buffer.size >= size:
            return False
        limit = min(
            self._device.limits["max-storage-buffer-binding-size"], self._device.limits["max-buffer-size"]
        )
        if size > limit:
            raise ValueError(
                f"decoding needs a buffer of {size} bytes, the device's limit max-storage-buffer-binding-size is {limit}: "
                "request a device with a higher limit"
            )
        if buffer is not None:
            buffer.destroy()
            size = min(size * 3 // 2, limit)
        usage = wgpu.BufferUsage.UNIFORM if name == "frame" else wgpu.BufferUsage.STORAGE
        self._buffers[name] = self._device.create_buffer(
            label=f"rfb_gpu {name}",
            size=max(-(-size // _ALIGNMENT), 1) * _ALIGNMENT,
            usage=usage | wgpu.BufferUsage.COPY_DST,
        )
        self._forget_bind_groups()
        return True

    def _write_bytes(self, name: str, data: memoryview) -> None:
        """Bytes to the beginning of a buffer; the word that they end in is filled up with zeros."""
        write = self._device.queue.write_buffer
        whole = len(data) // 4 * 4
        if whole:
            write(self._buffers[name], 0, data[:whole])
        if whole < len(data):
            write(self._buffers[name], whole, bytes(data[whole:]).ljust(4, b"\0"))
