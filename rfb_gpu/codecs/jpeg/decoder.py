"""JPEG files to textures on the GPU: two compute passes over the bytes of the file, from the shaders that the page runs too.

``js/src/decoders/jpeg.ts`` is the same in TypeScript. Takes the files that our encoder makes, and any baseline file with a restart
marker per MCU row (:func:`.bitstream.parse` says what it refuses). Never trusts the bytes, never touches pixels on the CPU.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import wgpu
from numpy.typing import NDArray

from ..wgsl import assemble
from .bitstream import JpegFile, Layout, parse
from .tables import AAN_SCALE, ZIGZAG, HuffmanTable

__all__ = ["JpegDecoder"]

# Mirrors huffman_decode.wgsl.
_FAST_BITS = 9
_TABLE_WORDS = 800
_WORKGROUP = 64
_ALIGNMENT = 256

_SCALE = np.outer(AAN_SCALE, AAN_SCALE).ravel()[ZIGZAG] / 8


@lru_cache(maxsize=64)
def decoding_table(table: HuffmanTable) -> NDArray[np.uint32]:
    """The form of a Huffman table that huffman_decode.wgsl reads: 800 words."""
    words = np.zeros(_TABLE_WORDS, np.uint32)
    fast, limits, offsets, symbols = np.split(words, [512, 528, 544])  # views
    symbols[: len(table.symbols)] = np.frombuffer(table.symbols, np.uint8)
    code = place = 0
    for length, count in enumerate(table.counts, 1):
        offsets[length - 1] = (place - code) & 0xFFFFFFFF
        for symbol in table.symbols[place : place + count]:
            if length <= _FAST_BITS:
                first = code << (_FAST_BITS - length)
                fast[first : first + (1 << (_FAST_BITS - length))] = length << 8 | symbol
            code += 1
        place += count
        limits[length - 1] = code << (16 - length) if count else 0
        code <<= 1
    return words


def dequantisation_table(quantisers: NDArray[np.uint8]) -> bytes:
    """The storage buffer ``Tables`` of reconstruct.wgsl."""
    multiplier = (quantisers * _SCALE).astype(np.float32)
    return multiplier.tobytes() + ZIGZAG.astype(np.uint32).tobytes()


@dataclass
class _Pipelines:
    huffman_decode: wgpu.GPUComputePipeline
    reconstruct: wgpu.GPUComputePipeline


_pipelines: weakref.WeakKeyDictionary[wgpu.GPUDevice, dict[str, _Pipelines]] = weakref.WeakKeyDictionary()


def _get_pipelines(device: wgpu.GPUDevice, layout: Layout) -> _Pipelines:
    compiled = _pipelines.setdefault(device, {})
    if layout.subsampling not in compiled:
        compiled[layout.subsampling] = _Pipelines(
            *(
                device.create_compute_pipeline(
                    label=f"rfb_gpu {stage}",
                    layout="auto",
                    compute={
                        "module": device.create_shader_module(
                            label=f"rfb_gpu {stage}", code=assemble(f"jpeg/{stage}.wgsl", layout.constants)
                        ),
                        "entry_point": stage,
                    },
                )
                for stage in ("huffman_decode", "reconstruct")
            )
        )
    return compiled[layout.subsampling]


class JpegDecoder:
    """Decodes JPEG files into textures of a device.

    Takes the files of :class:`JpegEncoder` and other baseline files in 4:4:4 or 4:2:0 with a restart marker per MCU row.
    """

    _BUFFERS = ("frame", "stream", "entries", "huffman", "tables", "list", "segments", "entry_dc")

    def __init__(self, device: wgpu.GPUDevice) -> None:
        if not isinstance(device, wgpu.GPUDevice):
            raise TypeError(f"device must be a wgpu.GPUDevice, not {type(device).__name__}")
        self._device = device
        self._buffers: dict[str, wgpu.GPUBuffer] = {}
        self._bind_groups: tuple[str, list[wgpu.GPUBindGroup]] | None = None
        self._picture: weakref.ReferenceType[wgpu.GPUTexture] | None = None

    def decode(
        self, data: bytes | bytearray | memoryview, *, out: wgpu.GPUTexture | None = None
    ) -> wgpu.GPUTexture:
        """Decodes a file; the work is submitted when this returns, and later submissions see its result.

        Arguments:
            data: the complete file.
            out: a texture to write to: ``rgba8unorm``, of the picture's size, with usage ``STORAGE_BINDING``. Without it, a new
                texture is made, with usages for storage, sampling and copying from.

        Returns:
            The texture, (width, height) of the file, opaque, sRGB-encoded values.

        Raises:
            CorruptJpegError: the bytes are no JPEG file, or a broken one.
            ForeignJpegError: the file uses what is not decoded here.
            ValueError: ``out`` does not fit, or the picture is larger than the device's textures.
        """
        file = parse(data)
        layout = file.layout
        limit = self._device.limits["max-texture-dimension-2d"]
        if max(layout.width, layout.height) > limit:
            raise ValueError(
                f"the picture is {layout.width}x{layout.height}, the device's textures have at most {limit} a side"
            )
        if out is None:
            usage = wgpu.TextureUsage
            out = self._device.create_texture(
                label="rfb_gpu picture",
                size=(layout.width, layout.height, 1),
                format="rgba8unorm",
                usage=usage.STORAGE_BINDING | usage.TEXTURE_BINDING | usage.COPY_SRC,
            )
        elif tuple(out.size[:2]) != (layout.width, layout.height) or out.format != "rgba8unorm":
            raise ValueError(
                f"out must be an rgba8unorm texture of {layout.width}x{layout.height}, not {out.format} of "
                f"{out.size[0]}x{out.size[1]}"
            )

        entries = file.positions.size
        self._upload(file)
        huffman_decode, reconstruct = self._groups(layout, out)
        pipelines = _get_pipelines(self._device, layout)
        commands = self._device.create_command_encoder(label="rfb_gpu jpeg decode")
        compute = commands.begin_compute_pass()
        compute.set_pipeline(pipelines.huffman_decode)
        compute.set_bind_group(0, huffman_decode)
        compute.dispatch_workgroups(-(-entries // _WORKGROUP))
        compute.set_pipeline(pipelines.reconstruct)
        compute.set_bind_group(0, reconstruct)
        compute.dispatch_workgroups(layout.segments_per_row, layout.rows)
        compute.end()
        self._device.queue.submit([commands.finish()])
        return out

    def close(self) -> None:
        """Frees the buffers. The textures stay with who has them."""
        for buffer in self._buffers.values():
            buffer.destroy()
        self._buffers.clear()
        self._bind_groups = None

    def _upload(self, file: JpegFile) -> None:
        layout = file.layout
        stream_bytes = len(file.stream)
        blocks = layout.rows * layout.mcus_per_row * layout.blocks_per_mcu
        segments = layout.rows * layout.segments_per_row
        list_words = stream_bytes * 4 + blocks + 64
        frame = np.array(
            [
                layout.width,
                layout.height,
                layout.mcus_per_row,
                layout.rows,
                layout.segments_per_row,
                file.mcus_per_entry,
                file.positions.shape[1],
                stream_bytes,
                list_words,
                0,
                0,
                0,
            ],
            np.uint32,
        )
        # write_buffer takes multiples of 4 bytes.
        self._write("frame", frame.tobytes(), wgpu.BufferUsage.UNIFORM)
        whole = stream_bytes // 4 * 4
        self._reserve("stream", stream_bytes + 4, wgpu.BufferUsage.STORAGE)
        if whole:
            self._device.queue.write_buffer(self._buffers["stream"], 0, file.stream[:whole])
        self._device.queue.write_buffer(
            self._buffers["stream"], whole, bytes(file.stream[whole:]).ljust(4, b"\0")
        )
        self._write("entries", file.positions.tobytes())
        self._write("huffman", b"".join(decoding_table(table).tobytes() for table in file.huffman))
        self._write("tables", dequantisation_table(file.quantisers))
        self._reserve("list", list_words * 4)
        self._reserve("segments", segments * 8)
        self._reserve("entry_dc", file.positions.size * 16)

    def _reserve(self, name: str, size: int, usage: int = wgpu.BufferUsage.STORAGE) -> None:
        """Makes the buffer at least ``size`` bytes, with room to grow by half before the next time."""
        buffer = self._buffers.get(name)
        if buffer is not None and buffer.size >= size:
            return
        limit = min(
            self._device.limits["max-storage-buffer-binding-size"], self._device.limits["max-buffer-size"]
        )
        if size > limit:
            raise ValueError(f"decoding needs a buffer of {size} bytes, the device's limit is {limit}")
        if buffer is not None:
            buffer.destroy()
            size = min(size * 3 // 2, limit)
        self._buffers[name] = self._device.create_buffer(
            label=f"rfb_gpu {name}",
            size=-(-size // _ALIGNMENT) * _ALIGNMENT,
            usage=usage | wgpu.BufferUsage.COPY_DST,
        )
        self._bind_groups = None

    def _write(self, name: str, data: bytes, usage: int = wgpu.BufferUsage.STORAGE) -> None:
        self._reserve(name, len(data), usage)
        self._device.queue.write_buffer(self._buffers[name], 0, data)

    def _groups(self, layout: Layout, picture: wgpu.GPUTexture) -> list[wgpu.GPUBindGroup]:
        known = self._bind_groups
        if (
            known is not None
            and known[0] == layout.subsampling
            and self._picture
            and self._picture() is picture
        ):
            return known[1]
        pipelines = _get_pipelines(self._device, layout)
        b = self._buffers

        def group(pipeline: wgpu.GPUComputePipeline, *resources: object) -> wgpu.GPUBindGroup:
            return self._device.create_bind_group(
                layout=pipeline.get_bind_group_layout(0),
                entries=[{"binding": i, "resource": resource} for i, resource in enumerate(resources)],
            )

        groups = [
            group(
                pipelines.huffman_decode,
                *(
                    b[name]
                    for name in ("frame", "stream", "entries", "huffman", "list", "segments", "entry_dc")
                ),
            ),
            group(
                pipelines.reconstruct,
                *(b[name] for name in ("frame", "tables", "list", "segments", "entry_dc")),
                picture.create_view(),
            ),
        ]
        self._bind_groups = (layout.subsampling, groups)
        self._picture = weakref.ref(picture)
        return groups
