"""Textures to JPEG files on the GPU: three compute passes, and a readback of nothing but the compressed bytes.

:meth:`JpegEncoder._encode` reads from top to bottom as the list of what the GPU does. The stages are the ``.wgsl`` files beside
this one; the bytes around the entropy-coded stream are made in :mod:`.bitstream`. This module knows nothing of canvases.
"""

from __future__ import annotations

import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Generator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import wgpu
from numpy.typing import ArrayLike

from ...readback import GPUFuture, Readback, RecycledMemory
from ..frame import EncodedFrame
from ..passes import Copy, Stage, submit
from ..source import Part
from ..stages import Stages
from ..texture_encoder import TextureEncoder
from .bitstream import (
    FIRST_ENTRY_WORK,
    FITTED_INDEX_BUDGET,
    INDEX_BUDGET,
    Layout,
    entry_work,
    file_head,
    index_markers,
)
from .huffman import HISTOGRAM_PARTS, STANDARD_TABLES, AdaptiveHuffman
from .settings import JpegSettings
from .tables import (
    AAN_SCALE,
    ZIGZAG,
    HuffmanTable,
    check_quantisation,
    quantisation_tables,
    worst_case_block_bits,
)

__all__ = ["JpegEncoder"]

# Mirrors shaders/encoder_frame.wgsl.
_PLACE_BYTES = 16
_ROW_BYTES = 8
_ENTRY_BYTES = 8
_SPAN_BLOCKS = 96
_FRAME_SOURCE_OFFSET = 8
_FRAME_ENTRY_WORK_OFFSET = 60
_RESULT_STREAM_BYTES = 0  # words
_RESULT_FLAGS = 1
_RESULT_ENTRY_COUNT = 2
_RESULT_HISTOGRAM = slice(16, 560)
_RESULT_ENTRIES = 560
_FLAG_OVERFLOW = 1
_HISTOGRAM_SIZE = _RESULT_HISTOGRAM.stop - _RESULT_HISTOGRAM.start
_TABLES_BYTES = 4 * (128 + _HISTOGRAM_SIZE)

# Stuffing adds a byte for each 0xFF. The bound of worst_case_block_bits leaves codes no room for many; this is ample.
_STUFFING_ALLOWANCE = 1.25
_ALIGNMENT = 256


def _align(size: float, to: int = _ALIGNMENT) -> int:
    return -(-int(size) // to) * to


@lru_cache(maxsize=16)
def _encoding_tables(quantisers: bytes, huffman: tuple[HuffmanTable, ...]) -> bytes:
    """The storage buffer ``Tables`` of encode_span.wgsl."""
    scale = np.outer(AAN_SCALE, AAN_SCALE).ravel() * 8
    steps = np.frombuffer(quantisers, np.uint8).reshape(2, 64)
    reciprocal = (1 / (steps * scale)).astype(np.float32)
    codes = np.zeros(_RESULT_HISTOGRAM.stop - _RESULT_HISTOGRAM.start, np.uint32)
    for table, (name, part) in zip(huffman, HISTOGRAM_PARTS.items(), strict=True):
        for symbol, (code, length) in table.codes.items():
            extra_bits = symbol & 15 if name.startswith("ac") else symbol
            codes[part.start + symbol] = (code << extra_bits) << 5 | (length + extra_bits)
    return reciprocal.tobytes() + codes.tobytes()


_layout = lru_cache(maxsize=64)(Layout)


@lru_cache(maxsize=128)
def _quantisers(quality: int) -> bytes:
    return quantisation_tables(quality).tobytes()


@lru_cache(maxsize=16)
def _file_head(
    layout: Layout, quantisers: bytes, huffman: tuple[HuffmanTable, ...], dpi: int | None
) -> tuple[bytes, bytes]:
    ac_luma, ac_chroma, dc_luma, dc_chroma = huffman
    tables = (dc_luma, ac_luma, dc_chroma, ac_chroma)
    return file_head(layout, np.frombuffer(quantisers, np.uint8).reshape(2, 64), dpi, tables)


@lru_cache(maxsize=128)
def _worst_case_mcu_bits(layout: Layout, quantisers: bytes) -> int:
    luma_blocks = layout.luma_across * layout.luma_down
    luma, chroma = quantisers[:64], quantisers[64:]
    bits = luma_blocks * worst_case_block_bits(luma, False)
    return bits if layout.is_gray else bits + 2 * worst_case_block_bits(chroma, True)


@dataclass(frozen=True)
class _Variant:
    """What the stages are compiled for."""

    subsampling: str
    scale: int
    is_linear: bool
    """The source gives linear values."""
    counts_symbols: bool
    is_wide: bool
    """Levels need more than 8 bits at all positions."""
    plane: str


_Pipelines = tuple[wgpu.GPUComputePipeline, wgpu.GPUComputePipeline, wgpu.GPUComputePipeline]


class _Stages(Stages):
    """By variant; bind groups fit all of them."""

    FOLDER = "jpeg"
    BINDINGS: ClassVar[dict[str, str]] = {
        "encode_span": "uniform texture read-only-storage storage storage storage",
        "place_spans": "uniform read-only-storage storage storage",
        "write_stream": "uniform read-only-storage read-only-storage read-only-storage read-only-storage storage",
    }

    def __init__(self, device: wgpu.GPUDevice) -> None:
        super().__init__(device)
        self._compiled: dict[_Variant, _Pipelines] = {}

    def compiled(self, layout: Layout, variant: _Variant) -> _Pipelines:
        """The pipelines of the three stages."""
        if variant not in self._compiled:
            constants = {
                **layout.constants,
                "SCALE": variant.scale,
                "LINEAR_SOURCE": variant.is_linear,
                "PREMULTIPLIED": variant.plane == "premultiplied",
                "ALPHA_PLANE": variant.plane == "alpha",
                "COUNT_SYMBOLS": variant.counts_symbols,
                "WIDE_POSITIONS": _ALL_POSITIONS if variant.is_wide else _WIDE_POSITIONS,
            }
            self._compiled[variant] = tuple(self.pipeline(stage, constants) for stage in self.BINDINGS)
        return self._compiled[variant]


PLANES = ("colour", "premultiplied", "alpha")

# An AC coefficient is at most 928 in magnitude (the sum of the basis function's magnitudes, times 128). So where the quantiser is 8
# or more, its level fits in 8 bits. Up to quality 82 that is so from this zigzag position on.
_ALL_POSITIONS = 64
_WIDE_POSITIONS = 16
_NARROW_QUANTISER = 8


@lru_cache(maxsize=128)
def _needs_wide_levels(quantisers: bytes) -> bool:
    steps = np.frombuffer(quantisers, np.uint8).reshape(2, 64)[:, ZIGZAG]
    return bool(steps[:, _WIDE_POSITIONS:].min() < _NARROW_QUANTISER)


class _Band:
    """Some MCU rows of a frame, few enough that their worst case fits the device's buffers."""

    def __init__(
        self, device: wgpu.GPUDevice, layout: Layout, first_row: int, rows: int, span_words: int
    ) -> None:
        spans_per_row = _spans_per_row(layout)
        self.first_row = first_row
        self.rows = rows
        self.spans = rows * spans_per_row
        self.entry_capacity = _entry_capacity(rows * layout.segments_per_row)
        self.stream_start = _align(4 * _RESULT_ENTRIES + _ENTRY_BYTES * self.entry_capacity, 16)
        self.stream_capacity = _align(self.spans * span_words * 4 * _STUFFING_ALLOWANCE + 4 * rows)
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
                    0,
                    0,
                    layout.mcus_per_row,
                    spans_per_row,
                    first_row,
                    rows,
                    span_words,
                    self.stream_start,
                    self.stream_capacity,
                    is_last,
                    # Odd, so that it goes through all components.
                    self.spans * _SPAN_BLOCKS // _COUNTED_BLOCKS | 1,
                    FIRST_ENTRY_WORK,
                    self.entry_capacity,
                    0,
                    0,
                    0,
                ],
                np.uint32,
            ).tobytes(),
            usage=wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_DST,
        )


# A part of a large frame's blocks is enough for the histogram: counting takes an atomic operation per symbol, many of them on the
# same few counts.
_COUNTED_BLOCKS = 4096


_LEAST_ENTRY_CAPACITY = 8192


def _index_budget(huffman: tuple[HuffmanTable, ...]) -> float:
    return INDEX_BUDGET if huffman is STANDARD_TABLES else FITTED_INDEX_BUDGET


def _entry_capacity(segments: int) -> int:
    """Entries that a result has room for: more than an index can afford but where the picture is noise."""
    return min(segments, max(segments // 2, _LEAST_ENTRY_CAPACITY))


def _spans_per_row(layout: Layout) -> int:
    return -(-layout.mcus_per_row // _mcus_per_span(layout))


def _mcus_per_span(layout: Layout) -> int:
    return _SPAN_BLOCKS // layout.blocks_per_mcu


def _record_bytes(layout: Layout) -> int:
    return 4 * (6 + _SPAN_BLOCKS // layout.segment_blocks)


class _Slot:
    """What one frame in flight owns: per band a result buffer and its readback."""

    def __init__(self, device: wgpu.GPUDevice, bands: list[_Band], history: deque[int]) -> None:
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
        self.results = [
            device.create_buffer(label="rfb_gpu result", size=band.result_bytes, usage=usage)
            for band in bands
        ]
        # Counts add up over the frames that use a slot: clearing them would cost a command.
        self.histograms = [np.zeros(_HISTOGRAM_SIZE, np.uint32) for _ in bands]
        self.readbacks = [Readback(device, result, history) for result in self.results]
        self.busy = False


class _Plan:
    """All buffers for frames of one layout, up to some worst case."""

    def __init__(self, device: wgpu.GPUDevice, layout: Layout, mcu_bits: int, slots: int) -> None:
        self._device = device
        self._tables: tuple[bytes, tuple[HuffmanTable, ...]] | None = None
        self._source: tuple[int, int, int, int] | None = None
        self._entry_work = FIRST_ENTRY_WORK
        self.layout = layout
        self.mcu_bits = mcu_bits
        spans_per_row = _spans_per_row(layout)
        span_words = -(-min(layout.mcus_per_row, _mcus_per_span(layout)) * mcu_bits // 32) + 1
        row_bytes = spans_per_row * span_words * 4
        most_bytes = min(device.limits["max-storage-buffer-binding-size"], device.limits["max-buffer-size"])
        least_capacity = min(_LEAST_ENTRY_CAPACITY, layout.rows * layout.segments_per_row)
        head_bytes = 4 * _RESULT_ENTRIES + _ENTRY_BYTES * least_capacity + 4 * _ALIGNMENT
        rows_per_band = int(
            min(
                (most_bytes - head_bytes)
                / (row_bytes * _STUFFING_ALLOWANCE + _ENTRY_BYTES * layout.segments_per_row + 4),
                device.limits["max-compute-workgroups-per-dimension"],
                layout.rows,
            )
        )
        if rows_per_band < 1:
            raise ValueError(
                f"a row of {layout.width} pixels needs a buffer of {int(row_bytes * _STUFFING_ALLOWANCE)} bytes, the device's "
                f"limit max-storage-buffer-binding-size is {most_bytes}: request a device with a higher limit"
            )
        self.bands = [
            _Band(device, layout, first, min(rows_per_band, layout.rows - first), span_words)
            for first in range(0, layout.rows, rows_per_band)
        ]
        spans = max(band.spans for band in self.bands)
        storage = wgpu.BufferUsage.STORAGE

        def buffer(label: str, size: int) -> wgpu.GPUBuffer:
            return device.create_buffer(label=f"rfb_gpu {label}", size=size, usage=storage)

        self.tables = device.create_buffer(
            label="rfb_gpu tables",
            size=_TABLES_BYTES,
            usage=storage | wgpu.BufferUsage.COPY_DST,
        )
        self.scratch = buffer("scratch", spans * span_words * 4)
        self.records = buffer("records", spans * _record_bytes(layout))
        self.places = buffer("places", spans * _PLACE_BYTES)
        self.rows = buffer("rows", rows_per_band * _ROW_BYTES)
        self.slots = [_Slot(device, self.bands, deque(maxlen=Readback.HISTORY)) for _ in range(slots)]
        self.bind_groups: OrderedDict[int, tuple[Any, list[list[list[wgpu.GPUBindGroup]]]]] = OrderedDict()
        self.retired = False

    def use_tables(self, quantisers: bytes, huffman: tuple[HuffmanTable, ...]) -> None:
        """Has the frames that are submitted from now on coded with these tables."""
        if (quantisers, huffman) != self._tables:
            self._tables = (quantisers, huffman)
            self._device.queue.write_buffer(self.tables, 0, _encoding_tables(quantisers, huffman))

    def use_source(self, first: tuple[int, int], last: tuple[int, int]) -> None:
        """Has the frames that are submitted from now on made of the texels from ``first`` to ``last``."""
        if first + last != self._source:
            self._source = first + last
            for band in self.bands:
                self._device.queue.write_buffer(
                    band.frame, _FRAME_SOURCE_OFFSET, np.array(self._source, np.uint32).tobytes()
                )

    def use_entry_work(self, work: int) -> None:
        """Has the frames that are submitted from now on get an index with entries of about so much work."""
        if work != self._entry_work:
            self._entry_work = work
            for band in self.bands:
                self._device.queue.write_buffer(
                    band.frame, _FRAME_ENTRY_WORK_OFFSET, np.array([work], np.uint32).tobytes()
                )

    def fits(self, layout: Layout, mcu_bits: int) -> bool:
        # Not kept when it is more than twice as large as needed: memory follows the quality down as well.
        return layout == self.layout and mcu_bits <= self.mcu_bits <= 2 * mcu_bits + 64

    def destroy(self) -> None:
        self.bind_groups.clear()
        for buffer in (self.tables, self.scratch, self.records, self.places, self.rows):
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


class JpegEncoder(TextureEncoder, JpegSettings):
    """Encodes textures to baseline JPEG files on the device that holds them.

    Arguments:
        device: the device of the textures. Its default limits suffice, no optional feature is needed.
        quality: 1 to 100, on the scale of the IJG's library. Can be changed between frames.
        subsampling: ``"444"`` (colour at full resolution: plots, text, thin lines), ``"422"`` (half across), ``"420"`` (half across
            and down, about 1/3 fewer bytes), ``"gray"`` (no colour).
        scale: 1, 2 or 4: of so many pixels by so many, one is made.
        slots: how many frames can be in flight. Encoding one more waits for the oldest.
        quantisation: the quantisation tables themselves, luma and chroma, shape (2, 8, 8), 1 to 255; they override what
            ``quality`` gives.
        dpi: pixel density to note in the files for print programs, 1 to 65535; None notes none.
        huffman: ``"adaptive"`` for tables that follow the content (3 to 30 % fewer bytes from the second frame on), ``"standard"``
            for those of the standard: the same picture then always gives the same file, because nothing follows the frames before.
        plane: what of the texels is coded: ``"colour"``, as it is; ``"premultiplied"``, colour that was multiplied with alpha, in
            an ``-srgb`` format as linear values, as if encoded ones had been; ``"alpha"``, as a gray picture.
        profile: time the work on the GPU: True as a whole, ``"stages"`` each stage in a pass of its own; needs the device
            feature ``timestamp-query``.

    Raises:
        ValueError, TypeError: an argument is out of its range.

    The files are complete, any decoder opens them; a restart marker follows every MCU row and, from a few kB on, an index in APP9
    markers lets :class:`JpegDecoder` decode in parallel. Memory: about 15 bytes a pixel at quality 80 and 32 at 100,
    because buffers hold the worst frame there can be.

    Method: fused colour conversion, AAN DCT and Huffman coding per span of 96 blocks into scratch memory, a prefix sum over their
    lengths, and byte stuffing once it is known where bytes begin. There is no colour profile in the files: without one, viewers
    take the numbers as sRGB, which they are.
    """

    name = "GPU JPEG"

    def __init__(
        self,
        device: wgpu.GPUDevice,
        quality: int = 80,
        subsampling: str = "444",
        *,
        scale: int = 1,
        slots: int = 3,
        quantisation: ArrayLike | None = None,
        huffman: str = "adaptive",
        dpi: int | None = None,
        plane: str = "colour",
        profile: bool | str = False,
    ) -> None:
        super().__init__(device, slots=slots, dpi=dpi, profile=profile)
        if plane not in PLANES:
            raise ValueError(f"plane must be one of {', '.join(map(repr, PLANES))}, not {plane!r}")
        if huffman not in ("adaptive", "standard"):
            raise ValueError(f"huffman must be 'adaptive' or 'standard', not {huffman!r}")
        self._stages = _Stages.of(device)
        self._memory = RecycledMemory()
        self._plane = plane
        self.quality = quality
        self.subsampling = "gray" if plane == "alpha" else subsampling
        self.scale = scale
        self._quantisers = b"" if quantisation is None else check_quantisation(quantisation).tobytes()
        self._huffman = AdaptiveHuffman() if huffman == "adaptive" else None
        self._entry_work = FIRST_ENTRY_WORK
        self._plan: _Plan | None = None

    def _encode(
        self, source: wgpu.GPUTexture | wgpu.GPUTextureView, is_linear: bool, part: Part, began: float
    ) -> GPUFuture[EncodedFrame]:
        x, y, width, height = part
        layout = _layout(-(-width // self._scale), -(-height // self._scale), self._subsampling)
        quantisers = self._quantisers or _quantisers(self._quality)
        huffman = self._huffman.tables if self._huffman else STANDARD_TABLES
        plan = self._plan_for(layout, quantisers)
        slot = next(slot for slot in plan.slots if not slot.busy)
        groups = self._bind_groups(plan, source)[plan.slots.index(slot)]
        variant = self._variant(layout, is_linear, quantisers)
        encode_span, place_spans, write_stream = self._stages.compiled(layout, variant)
        plan.use_tables(quantisers, huffman)
        plan.use_source((x, y), (x + width - 1, y + height - 1))
        plan.use_entry_work(self._entry_work)

        stages = []
        for band, (encode_group, place_group, write_group) in zip(plan.bands, groups, strict=True):
            spans = (_spans_per_row(layout), band.rows)
            stages += [
                Stage("encode_span", encode_span, encode_group, spans),
                Stage("place_spans", place_spans, place_group, (band.rows,)),
                Stage("write_stream", write_stream, write_group, spans),
            ]
        copies = [Copy(*readback.prepare()) for readback in slot.readbacks]
        submit(self._device, stages, copies, self._profiler)

        slot.busy = True
        submitted = time.perf_counter()
        return GPUFuture(
            self._collect(plan, slot, quantisers, huffman, self._quality, self._scale, began, submitted)
        )

    def close(self) -> None:
        """Frees all buffers, those of frames in flight as soon as these are done."""
        self._closed = True
        if self._plan is not None:
            self._plan.retire()
            self._plan = None

    def _plan_for(self, layout: Layout, quantisers: bytes) -> _Plan:
        mcu_bits = _worst_case_mcu_bits(layout, quantisers)
        if self._plan is None or not self._plan.fits(layout, mcu_bits):
            plan = _Plan(self._device, layout, mcu_bits, self._slot_count)
            if self._plan is not None:
                self._plan.retire()
            self._plan = plan
        return self._plan

    def _variant(self, layout: Layout, is_linear: bool, quantisers: bytes) -> _Variant:
        return _Variant(
            layout.subsampling,
            self._scale,
            is_linear,
            self._huffman is not None,
            _needs_wide_levels(quantisers),
            self._plane,
        )

    def _bind_groups(
        self, plan: _Plan, source: wgpu.GPUTexture | wgpu.GPUTextureView
    ) -> list[list[list[wgpu.GPUBindGroup]]]:
        """By slot, band and stage. Only the first stage's depend on the source; a canvas draws into few of them."""
        known = plan.bind_groups.get(id(source))
        if known is not None and known[0]() is source:
            plan.bind_groups.move_to_end(id(source))
            return known[1]
        view = source.create_view() if isinstance(source, wgpu.GPUTexture) else source
        group = self._stages.bind_group
        groups = [
            [
                [
                    group(
                        "encode_span",
                        band.frame,
                        view,
                        plan.tables,
                        plan.scratch,
                        plan.records,
                        slot.results[i],
                    ),
                    group(
                        "place_spans",
                        band.frame,
                        plan.records,
                        plan.places,
                        plan.rows,
                    ),
                    group(
                        "write_stream",
                        band.frame,
                        plan.scratch,
                        plan.records,
                        plan.places,
                        plan.rows,
                        slot.results[i],
                    ),
                ]
                for i, band in enumerate(plan.bands)
            ]
            for slot in plan.slots
        ]
        plan.bind_groups[id(source)] = (weakref.ref(source), groups)
        while len(plan.bind_groups) > 4:
            plan.bind_groups.popitem(last=False)
        return groups

    def _collect(
        self,
        plan: _Plan,
        slot: _Slot,
        quantisers: bytes,
        huffman: tuple[HuffmanTable, ...],
        quality: int,
        scale: int,
        began: float,
        submitted: float,
    ) -> Generator[Any, None, EncodedFrame]:
        """Waits for the bands' bytes and puts the file together."""
        layout = plan.layout
        streams: list[bytes | memoryview] = []
        entries: list[np.ndarray] | None = []
        histogram = np.zeros(_HISTOGRAM_SIZE, np.uint32)
        stream_bytes = 0
        try:
            for i, (band, readback) in enumerate(zip(plan.bands, slot.readbacks, strict=True)):

                def length_of(head: memoryview, band: _Band = band) -> int:
                    return band.stream_start + int(np.frombuffer(head, np.uint32, 1)[_RESULT_STREAM_BYTES])

                mapped = yield from readback.read(length_of)
                try:
                    head = mapped.words(0, _RESULT_ENTRIES)
                    length, flags = int(head[_RESULT_STREAM_BYTES]), int(head[_RESULT_FLAGS])
                    if flags & _FLAG_OVERFLOW:
                        if self._huffman:
                            self._huffman = AdaptiveHuffman()
                        raise RuntimeError(
                            "the frame is longer than the longest that there can be: please report this"
                        )
                    counts = head[_RESULT_HISTOGRAM]
                    histogram += counts - slot.histograms[i]
                    slot.histograms[i] = counts
                    count = int(head[_RESULT_ENTRY_COUNT])
                    if entries is None or count > band.entry_capacity:
                        entries = None
                    else:
                        found = mapped.words(_RESULT_ENTRIES, _RESULT_ENTRIES + 2 * count).reshape(-1, 2)
                        before = (stream_bytes * 8, band.first_row * layout.segments_per_row)
                        entries.append(found + np.array(before, np.uint32) if i else found)
                    streams += mapped.slice(band.stream_start, band.stream_start + length)
                    stream_bytes += length
                    if len(plan.bands) > 1:
                        # Before the next band's wait: mapped memory goes back below.
                        streams = [b"".join(streams)]
                    if i == len(plan.bands) - 1:
                        first, rest = _file_head(layout, quantisers, huffman, self._dpi)
                        index = (
                            b""
                            if entries is None
                            else index_markers(
                                layout,
                                np.concatenate(entries) if i else entries[0],
                                stream_bytes,
                                _index_budget(huffman),
                            )
                        )
                        file = self._memory.join([first, index, rest, *streams])
                finally:
                    readback.release()
        finally:
            slot.busy = False
            plan.let_go()
        if self._huffman:
            self._huffman.observe(histogram)
            capacity = min(band.entry_capacity for band in plan.bands) * len(plan.bands)
            budget = _index_budget(self._huffman.tables)
            self._entry_work = entry_work(layout, stream_bytes, capacity, budget)
        timings = {"submit": submitted - began, "ready": time.perf_counter() - began}
        if self._profiler:
            timings |= self._profiler.read()
        return EncodedFrame(
            file, layout.width, layout.height, "jpeg", quality, layout.subsampling, scale, timings
        )
