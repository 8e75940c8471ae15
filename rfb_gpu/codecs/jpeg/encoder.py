"""Textures to JPEG files on the GPU: three compute passes, and a readback of nothing but the compressed bytes.

:meth:`JpegEncoder.encode` reads from top to bottom as the list of what the GPU does. The stages are the ``.wgsl`` files beside
this one; the bytes around the entropy-coded stream are made in :mod:`.bitstream`. This module knows nothing of canvases.
"""

from __future__ import annotations

import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Generator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import wgpu
from numpy.typing import ArrayLike

from ...readback import GPUFuture, Readback
from ..frame import EncodedFrame
from ..wgsl import assemble, shader_module
from .bitstream import MAX_SIDE, Layout, file_head, index_markers
from .settings import JpegSettings
from .tables import (
    AAN_SCALE,
    STANDARD_HUFFMAN,
    ZIGZAG,
    check_quantisation,
    quantisation_tables,
    worst_case_block_bits,
)

__all__ = ["JpegEncoder", "check_source"]

# Mirrors shaders/encoder_frame.wgsl.
_RECORD_BYTES = 8
_PLACE_BYTES = 12
_RESULT_POSITIONS = 16
_FRAME_ORIGIN_OFFSET = 8
_FLAG_OVERFLOW = 1

# Stuffing adds a byte for each 0xFF. The bound of worst_case_block_bits leaves codes no room for many; this is ample.
_STUFFING_ALLOWANCE = 1.25
_ALIGNMENT = 256

_SOURCE_FORMATS = ("rgba8unorm", "rgba8unorm-srgb", "bgra8unorm", "bgra8unorm-srgb")


def _align(size: float, to: int = _ALIGNMENT) -> int:
    return -(-int(size) // to) * to


def check_source(texture: wgpu.GPUTexture, device: wgpu.GPUDevice, usage: str = "TEXTURE_BINDING") -> None:
    """Raises an error that names the cure when a texture cannot be encoded."""
    if not isinstance(texture, wgpu.GPUTexture):
        raise TypeError(f"encode() takes a wgpu.GPUTexture, not {type(texture).__name__}")
    if texture._device is not device:
        raise ValueError(
            "the texture belongs to another device than the encoder: make the encoder with the texture's device"
        )
    if not texture.usage & wgpu.TextureUsage[usage]:
        raise ValueError(f"the texture cannot be read: create it with usage wgpu.TextureUsage.{usage}")
    if texture.format not in _SOURCE_FORMATS:
        raise ValueError(
            f"texture format {texture.format!r} cannot be encoded, only {', '.join(_SOURCE_FORMATS)}"
        )
    width, height, layers = texture.size
    if texture.dimension != "2d" or layers != 1 or texture.sample_count != 1:
        raise ValueError("only plain 2D textures can be encoded: no layers, no multisampling")
    if max(width, height) > MAX_SIDE:
        raise ValueError(f"a JPEG has at most {MAX_SIDE} pixels a side, the texture is {width}x{height}")


def _part(texture: wgpu.GPUTexture, rect: tuple[int, int, int, int] | None) -> tuple[int, int, int, int]:
    """The rectangle to encode, checked."""
    texture_width, texture_height = texture.size[:2]
    if rect is None:
        return 0, 0, texture_width, texture_height
    x, y, width, height = (int(value) for value in rect)
    if x < 0 or y < 0 or width < 1 or height < 1 or x + width > texture_width or y + height > texture_height:
        raise ValueError(
            f"rect (x, y, width, height) = {(x, y, width, height)} is not within the texture of "
            f"{texture_width}x{texture_height} pixels"
        )
    return x, y, width, height


def _safe_size() -> int:
    """The largest size up to which every AC symbol takes at most 16 bits for each coefficient that it stands for.

    A run of one or more zeros stands for two coefficients or more, and takes at most 16 + 10 bits; so only run 0 decides.
    """
    tables = [STANDARD_HUFFMAN[name].codes() for name in ("ac_luma", "ac_chroma")]
    size = 0
    while all(table[size + 1][1] + size + 1 <= 16 for table in tables):
        size += 1
    return size


@lru_cache(maxsize=128)
def _tables(quantisers: bytes, chroma_samples: int) -> bytes:
    """The storage buffer ``Tables`` of encode_segment.wgsl. ``chroma_samples``: how many pixels a chroma sample is the sum of."""
    scale = np.outer(AAN_SCALE, AAN_SCALE).ravel() * 8
    steps = np.frombuffer(quantisers, np.uint8).reshape(2, 64)
    divisors = steps * scale * np.array([[1], [chroma_samples]])
    reciprocal = (1 / divisors)[:, ZIGZAG].astype(np.float32)
    huffman = [
        STANDARD_HUFFMAN[name].packed(size)
        for name, size in (("ac_luma", 256), ("ac_chroma", 256), ("dc_luma", 16), ("dc_chroma", 16))
    ]
    safe_level = np.array([1 << _safe_size()], np.uint32)
    return b"".join(part.tobytes() for part in (reciprocal, *huffman, safe_level))


def _worst_case_mcu_bits(layout: Layout, quantisers: bytes) -> int:
    luma_blocks = layout.blocks_per_mcu - 2
    luma, chroma = quantisers[:64], quantisers[64:]
    return luma_blocks * worst_case_block_bits(luma, False) + 2 * worst_case_block_bits(chroma, True)


@dataclass
class _Pipelines:
    encode_segment: wgpu.GPUComputePipeline
    place_segments: wgpu.GPUComputePipeline
    write_stream: wgpu.GPUComputePipeline


_Stage = tuple[wgpu.GPUComputePipeline, wgpu.GPUBindGroup, tuple[int, ...]]
_Variant = tuple[str, bool]  # subsampling, whether the source gives linear values
_pipelines: weakref.WeakKeyDictionary[wgpu.GPUDevice, dict[_Variant, _Pipelines]] = (
    weakref.WeakKeyDictionary()
)


def _get_pipelines(device: wgpu.GPUDevice, layout: Layout, linear_source: bool) -> _Pipelines:
    """Compiled once per device and variant, for all encoders."""
    compiled = _pipelines.setdefault(device, {})
    variant = (layout.subsampling, linear_source)
    constants = {**layout.constants, "LINEAR_SOURCE": linear_source}
    if variant not in compiled:
        compiled[variant] = _Pipelines(
            *(
                device.create_compute_pipeline(
                    label=f"rfb_gpu {stage}",
                    layout="auto",
                    compute={
                        "module": shader_module(
                            device,
                            f"rfb_gpu {stage}",
                            assemble(f"jpeg/{stage}.wgsl", constants),
                            trusted=True,
                        ),
                        "entry_point": stage,
                    },
                )
                for stage in ("encode_segment", "place_segments", "write_stream")
            )
        )
    return compiled[variant]


class _Band:
    """Some MCU rows of a frame, few enough that their worst case fits the device's buffers."""

    def __init__(
        self, device: wgpu.GPUDevice, layout: Layout, first_row: int, rows: int, code_bytes: int
    ) -> None:
        self.first_row = first_row
        self.rows = rows
        self.segments = rows * layout.segments_per_row
        self.stream_start = _align((_RESULT_POSITIONS + self.segments) * 4, 16)
        self.stream_capacity = _align(code_bytes * _STUFFING_ALLOWANCE + 4 * rows)
        self.result_bytes = _align(self.stream_start + self.stream_capacity)
        is_last = first_row + rows == layout.rows
        self.frame = device.create_buffer_with_data(
            label="rfb_gpu frame",
            data=np.array(
                [
                    layout.width,
                    layout.height,
                    0,
                    0,
                    layout.mcus_per_row,
                    layout.segments_per_row,
                    first_row,
                    rows,
                    code_bytes // 4,
                    self.stream_start,
                    self.stream_capacity,
                    is_last,
                ],
                np.uint32,
            ).tobytes(),
            usage=wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_DST,
        )


class _Slot:
    """What one frame in flight owns: per band a result buffer and its readback."""

    def __init__(self, device: wgpu.GPUDevice, bands: list[_Band], history: deque[int]) -> None:
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
        self.results = [
            device.create_buffer(label="rfb_gpu result", size=band.result_bytes, usage=usage)
            for band in bands
        ]
        self.used = [band.result_bytes for band in bands]  # bytes that may be non-zero
        self.readbacks = [Readback(device, result, history) for result in self.results]
        self.busy = False


class _Plan:
    """All buffers for frames of one layout, up to some worst case."""

    def __init__(self, device: wgpu.GPUDevice, layout: Layout, mcu_bits: int, slots: int) -> None:
        self._device = device
        self._quantisers = b""
        self._origin = (0, 0)
        self.layout = layout
        self.mcu_bits = mcu_bits
        # Each segment rounds up to a word of scratch.
        row_bytes = layout.mcus_per_row * mcu_bits / 8 + layout.segments_per_row * 4
        most_bytes = min(device.limits["max-storage-buffer-binding-size"], device.limits["max-buffer-size"])
        head_bytes = 4 * (_RESULT_POSITIONS + layout.segments_per_row) + 4 * _ALIGNMENT
        rows_per_band = int(
            min(
                (most_bytes - head_bytes)
                / (row_bytes * _STUFFING_ALLOWANCE + 4 * layout.segments_per_row + 4),
                device.limits["max-compute-workgroups-per-dimension"],
                layout.rows,
            )
        )
        if rows_per_band < 1:
            raise ValueError(
                f"a row of {layout.width} pixels needs a buffer of {int(row_bytes * _STUFFING_ALLOWANCE)} bytes, the device's "
                f"limit max-storage-buffer-binding-size is {most_bytes}: request a device with a higher limit"
            )
        code_bytes = _align(row_bytes * rows_per_band)
        self.bands = [
            _Band(device, layout, first, min(rows_per_band, layout.rows - first), code_bytes)
            for first in range(0, layout.rows, rows_per_band)
        ]
        segments = max(band.segments for band in self.bands)
        storage = wgpu.BufferUsage.STORAGE

        def buffer(label: str, size: int) -> wgpu.GPUBuffer:
            return device.create_buffer(label=f"rfb_gpu {label}", size=size, usage=storage)

        self.tables = device.create_buffer(
            label="rfb_gpu tables",
            size=len(_tables(quantisation_tables(50).tobytes(), 1)),
            usage=storage | wgpu.BufferUsage.COPY_DST,
        )
        self.scratch = buffer("scratch", code_bytes + _ALIGNMENT)  # stages look one word ahead
        self.records = buffer("records", segments * _RECORD_BYTES)
        self.places = buffer("places", segments * _PLACE_BYTES)
        self.row_bytes = buffer("row lengths", rows_per_band * 4)
        self.slots = [_Slot(device, self.bands, deque(maxlen=Readback.HISTORY)) for _ in range(slots)]
        self.bind_groups: OrderedDict[int, tuple[Any, list[list[list[wgpu.GPUBindGroup]]]]] = OrderedDict()
        self.retired = False

    def use_tables(self, quantisers: bytes) -> None:
        """Has the frames that are submitted from now on coded with these quantisation tables."""
        if quantisers != self._quantisers:
            self._quantisers = quantisers
            chroma_samples = 4 if self.layout.is_subsampled else 1
            self._device.queue.write_buffer(self.tables, 0, _tables(quantisers, chroma_samples))

    def use_origin(self, x: int, y: int) -> None:
        """Has the frames that are submitted from now on begin at this pixel of the texture."""
        if (x, y) != self._origin:
            self._origin = (x, y)
            for band in self.bands:
                self._device.queue.write_buffer(
                    band.frame, _FRAME_ORIGIN_OFFSET, np.array([x, y], np.uint32).tobytes()
                )

    def fits(self, layout: Layout, mcu_bits: int) -> bool:
        # Not kept when it is more than twice as large as needed: memory follows the quality down as well.
        return layout == self.layout and mcu_bits <= self.mcu_bits <= 2 * mcu_bits + 64

    def destroy(self) -> None:
        self.bind_groups.clear()
        for buffer in (self.tables, self.scratch, self.records, self.places, self.row_bytes):
            buffer.destroy()
        for band in self.bands:
            band.frame.destroy()
        for slot in self.slots:
            for readback in slot.readbacks:
                readback.destroy()
            for result in slot.results:
                result.destroy()

    def retire(self) -> None:
        """Frees everything as soon as no frame is in flight."""
        self.retired = True
        self.let_go()

    def let_go(self) -> None:
        if self.retired and not any(slot.busy for slot in self.slots):
            self.destroy()


class JpegEncoder(JpegSettings):
    """Encodes textures to baseline JPEG files on the device that holds them.

    Arguments:
        device: the device of the textures. Its default limits suffice, no optional feature is needed.
        quality: 1 to 100, on the scale of the IJG's library. Can be changed between frames.
        subsampling: ``"444"`` (colour at full resolution: plots, text, thin lines) or ``"420"`` (half, about 1/3 fewer bytes).
        slots: how many frames can be in flight. Encoding one more waits for the oldest.
        quantisation: the quantisation tables themselves, luma and chroma, shape (2, 8, 8), 1 to 255; they override what
            ``quality`` gives.
        dpi: pixel density to note in the files for print programs, 1 to 65535; None notes none.
        profile: also time each pass on the GPU; needs the device feature ``timestamp-query``.

    Raises:
        ValueError, TypeError: an argument is out of its range.

    The files are complete, any decoder opens them; a restart marker follows every MCU row and, from a few kB on, an index in APP9
    markers lets :class:`JpegDecoder` decode in parallel. Memory: about 15 bytes a pixel at quality 80 and 32 at 100,
    because buffers hold the worst frame there can be.

    Method: fused colour conversion, AAN DCT and Huffman coding per segment into scratch memory, a prefix sum over segment
    lengths, and byte stuffing once it is known where bytes begin. Alpha is ignored.
    """

    name = "GPU JPEG"

    def __init__(
        self,
        device: wgpu.GPUDevice,
        quality: int = 80,
        subsampling: str = "444",
        *,
        slots: int = 3,
        quantisation: ArrayLike | None = None,
        dpi: int | None = None,
        profile: bool = False,
    ) -> None:
        if not isinstance(device, wgpu.GPUDevice):
            raise TypeError(f"device must be a wgpu.GPUDevice, not {type(device).__name__}")
        if slots < 1:
            raise ValueError(f"slots must be 1 or more, not {slots}")
        if dpi is not None and not 1 <= dpi <= 65535:
            raise ValueError(f"dpi must be from 1 to 65535 or None, not {dpi}")
        if profile and "timestamp-query" not in device.features:
            raise ValueError("profile=True needs a device with the feature 'timestamp-query'")
        self._device = device
        self.quality = quality
        self.subsampling = subsampling
        self._slot_count = slots
        self._quantisers = b"" if quantisation is None else check_quantisation(quantisation).tobytes()
        self._dpi = dpi
        self._plan: _Plan | None = None
        self._in_flight: deque[GPUFuture[EncodedFrame]] = deque()
        self._closed = False
        self._profiler = _Profiler(device) if profile else None

    @property
    def ready(self) -> bool:
        """Whether a slot is free, so that :meth:`encode` returns at once."""
        self._forget_done()
        return len(self._in_flight) < self._slot_count

    def encode(
        self, texture: wgpu.GPUTexture, *, rect: tuple[int, int, int, int] | None = None
    ) -> GPUFuture[EncodedFrame]:
        """Encodes what the texture holds once all work submitted so far is done.

        The texture may be drawn to, and destroyed, right after this call; not destroyed before it, which wgpu answers by ending
        the process. Returns at once, except when all slots are in flight: then
        it first waits for the oldest frame.

        Arguments:
            texture: 2D, ``rgba8unorm`` or ``bgra8unorm`` or their ``-srgb`` forms, with usage ``TEXTURE_BINDING``. Its
                8-bit numbers are taken as sRGB-encoded, with either form.
            rect: x, y, width and height in pixels of the part to encode; None for all of it.

        Raises:
            TypeError, ValueError: the texture cannot be encoded; the message says what to change.
            RuntimeError: the encoder is closed.
        """
        began = time.perf_counter()
        if self._closed:
            raise RuntimeError("the encoder is closed")
        check_source(texture, self._device)
        x, y, width, height = _part(texture, rect)
        while not self.ready:
            self._in_flight[0].result()

        layout = Layout(width, height, self._subsampling)
        quantisers = self._quantisers or quantisation_tables(self._quality).tobytes()
        plan = self._plan_for(layout, quantisers)
        slot = next(slot for slot in plan.slots if not slot.busy)
        groups = self._bind_groups(plan, texture)[plan.slots.index(slot)]
        pipelines = _get_pipelines(self._device, layout, texture.format.endswith("-srgb"))
        plan.use_tables(quantisers)
        plan.use_origin(x, y)

        commands = self._device.create_command_encoder(label="rfb_gpu jpeg")
        if self._profiler:
            self._profiler.begin(commands)
        for i, band in enumerate(plan.bands):
            segments = (layout.segments_per_row, band.rows)
            commands.clear_buffer(slot.results[i], 0, slot.used[i])
            self._compute(
                commands,
                (pipelines.encode_segment, groups[i][0], segments),
                (pipelines.place_segments, groups[i][1], (band.rows,)),
                (pipelines.write_stream, groups[i][2], segments),
            )
        if self._profiler:
            self._profiler.end(commands)
        for readback in slot.readbacks:
            readback.record(commands)
        self._device.queue.submit([commands.finish()])

        slot.busy = True
        submitted = time.perf_counter()
        future = GPUFuture(self._collect(plan, slot, quantisers, self._quality, began, submitted))
        self._in_flight.append(future)
        return future

    def close(self) -> None:
        """Frees all buffers, those of frames in flight as soon as these are done."""
        self._closed = True
        if self._plan is not None:
            self._plan.retire()
            self._plan = None

    def _forget_done(self) -> None:
        while self._in_flight and self._in_flight[0].done():
            self._in_flight.popleft()

    def _plan_for(self, layout: Layout, quantisers: bytes) -> _Plan:
        mcu_bits = _worst_case_mcu_bits(layout, quantisers)
        if self._plan is None or not self._plan.fits(layout, mcu_bits):
            plan = _Plan(self._device, layout, mcu_bits, self._slot_count)
            if self._plan is not None:
                self._plan.retire()
            self._plan = plan
        return self._plan

    def _bind_groups(self, plan: _Plan, texture: wgpu.GPUTexture) -> list[list[list[wgpu.GPUBindGroup]]]:
        """By slot, band and stage. Only the first stage's depend on the texture; a canvas draws into few of them."""
        known = plan.bind_groups.get(id(texture))
        if known is not None and known[0]() is texture:
            plan.bind_groups.move_to_end(id(texture))
            return known[1]
        view = texture.create_view()
        pipelines = _get_pipelines(self._device, plan.layout, texture.format.endswith("-srgb"))

        def group(pipeline: wgpu.GPUComputePipeline, *resources: Any) -> wgpu.GPUBindGroup:
            return self._device.create_bind_group(
                layout=pipeline.get_bind_group_layout(0),
                entries=[{"binding": i, "resource": resource} for i, resource in enumerate(resources)],
            )

        groups = [
            [
                [
                    group(
                        pipelines.encode_segment,
                        band.frame,
                        view,
                        plan.tables,
                        plan.scratch,
                        plan.records,
                        slot.results[i],
                    ),
                    group(
                        pipelines.place_segments,
                        band.frame,
                        plan.scratch,
                        plan.records,
                        plan.places,
                        plan.row_bytes,
                    ),
                    group(
                        pipelines.write_stream,
                        band.frame,
                        plan.scratch,
                        plan.records,
                        plan.places,
                        plan.row_bytes,
                        slot.results[i],
                    ),
                ]
                for i, band in enumerate(plan.bands)
            ]
            for slot in plan.slots
        ]
        plan.bind_groups[id(texture)] = (weakref.ref(texture), groups)
        while len(plan.bind_groups) > 4:
            plan.bind_groups.popitem(last=False)
        return groups

    def _compute(self, commands: wgpu.GPUCommandEncoder, *stages: _Stage) -> None:
        """Records the stages, one after the other; each in a pass of its own if their times are wanted."""
        for group in [[stage] for stage in stages] if self._profiler else [stages]:
            stamps = self._profiler.next_pass(group[0][0].label) if self._profiler else None
            compute = commands.begin_compute_pass(timestamp_writes=stamps)
            for pipeline, bind_group, workgroups in group:
                compute.set_pipeline(pipeline)
                compute.set_bind_group(0, bind_group)
                compute.dispatch_workgroups(*workgroups)
            compute.end()

    def _collect(
        self, plan: _Plan, slot: _Slot, quantisers: bytes, quality: int, began: float, submitted: float
    ) -> Generator[Any, None, EncodedFrame]:
        """Waits for the bands' bytes and puts the file together."""
        layout = plan.layout
        streams: list[bytes | memoryview] = []
        positions: list[np.ndarray] = []
        stream_bytes = 0
        try:
            for band, readback, i in zip(plan.bands, slot.readbacks, range(len(plan.bands)), strict=True):

                def length_of(head: memoryview, band: _Band = band) -> int:
                    return band.stream_start + int(np.frombuffer(head, np.uint32, 3)[1])

                mapped = yield from readback.read(length_of)
                try:
                    head = np.frombuffer(b"".join(mapped.slice(0, band.stream_start)), np.uint32)
                    length, flags = int(head[1]), int(head[2])
                    if flags & _FLAG_OVERFLOW:
                        raise RuntimeError(
                            "the frame is longer than the longest that there can be: please report this"
                        )
                    slot.used[i] = min(_align(band.stream_start + length + 4), band.result_bytes)
                    segments = head[_RESULT_POSITIONS : _RESULT_POSITIONS + band.segments]
                    positions.append(segments.reshape(band.rows, -1).astype(np.int64) + stream_bytes * 8)
                    streams += mapped.slice(band.stream_start, band.stream_start + length)
                    stream_bytes += length
                    if len(plan.bands) > 1:
                        streams = [
                            b"".join(streams)
                        ]  # before the next band's wait: mapped memory goes back below
                    first, rest = file_head(
                        layout, np.frombuffer(quantisers, np.uint8).reshape(2, 64), self._dpi
                    )
                    if i == len(plan.bands) - 1:
                        index = index_markers(layout, np.concatenate(positions), stream_bytes)
                        data = b"".join([first, index, rest, *streams])
                finally:
                    readback.release()
        finally:
            slot.busy = False
            plan.let_go()
        timings = {"submit": submitted - began, "ready": time.perf_counter() - began}
        if self._profiler:
            timings |= self._profiler.read()
        return EncodedFrame(data, layout.width, layout.height, "jpeg", quality, layout.subsampling, timings)


class _Profiler:
    """Times one frame by timestamps: each pass, and with the feature for it everything from the first command to the last."""

    MAX_PASSES = 64
    _WHOLE = 2  # the first two timestamps are around everything

    def __init__(self, device: wgpu.GPUDevice) -> None:
        self._device = device
        self._can_stamp_commands = "timestamp-query-inside-encoders" in device.features
        self._queries = device.create_query_set(type="timestamp", count=2 * self.MAX_PASSES)
        self._resolved = device.create_buffer(
            size=16 * self.MAX_PASSES, usage=wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC
        )
        self._labels: list[str] = []

    def begin(self, commands: wgpu.GPUCommandEncoder) -> None:
        self._stamp(commands, 0)

    def _stamp(self, commands: wgpu.GPUCommandEncoder, index: int) -> None:
        if self._can_stamp_commands:
            from wgpu.backends.wgpu_native.extras import write_timestamp

            write_timestamp(commands, self._queries, index)

    def next_pass(self, label: str) -> dict[str, Any]:
        n = self._WHOLE + 2 * len(self._labels)
        self._labels.append(label.removeprefix("rfb_gpu "))
        return {
            "query_set": self._queries,
            "beginning_of_pass_write_index": n,
            "end_of_pass_write_index": n + 1,
        }

    def end(self, commands: wgpu.GPUCommandEncoder) -> None:
        self._stamp(commands, 1)
        first = 0 if self._can_stamp_commands else self._WHOLE
        count = self._WHOLE - first + 2 * len(self._labels)
        commands.resolve_query_set(self._queries, first, count, self._resolved, 0)

    def read(self) -> dict[str, float]:
        """Seconds per pass, and ``gpu``: of all commands, or else from the beginning of the first pass to the end of the last."""
        labels, self._labels = self._labels, []
        whole = self._WHOLE if self._can_stamp_commands else 0
        # Timestamps count nanoseconds in WebGPU.
        data = self._device.queue.read_buffer(self._resolved, 0, 8 * (whole + 2 * len(labels)))
        stamps = np.frombuffer(data, np.uint64) * 1e-9
        seconds = {"gpu": float(stamps.max() - stamps.min())}
        for i, label in enumerate(labels):
            start, end = stamps[whole + 2 * i : whole + 2 * i + 2]
            seconds[label] = seconds.get(label, 0.0) + float(end - start)
        return seconds
