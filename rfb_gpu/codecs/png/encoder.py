"""Textures to PNG files on the GPU: token counts of a part of the rows, codes made to measure on the CPU, then the bits.

:meth:`PngEncoder._encode` and the generator that follows it read from top to bottom as the list of what the GPU does. The stages
are the ``.wgsl`` files beside this one; the codes and the bytes around the compressed ones are made in :mod:`.deflate`. This module
knows nothing of canvases.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import wgpu
from numpy.typing import NDArray

from ...readback import GPUFuture, Mapped, Readback
from ..frame import EncodedFrame
from ..passes import Copy, Stage, submit
from ..source import Part
from ..stages import Stages
from ..texture_encoder import TextureEncoder
from .deflate import (
    LONGEST_DISTANCE,
    TOKENS,
    DeflateCodes,
    adler32,
    estimated_bits,
)
from .file import index_data, png_file

__all__ = ["PngEncoder"]

CHANNELS = {"gray": 1, "rgb": 3, "rgba": 4, "premultiplied": 4}

# Mirrors shaders/png_frame.wgsl, png_palette.wgsl and png_spans.wgsl.
_ROW_PADDING = 3
_SPAN_BYTES = 4096
_PIECE_BYTES = 32
_STREAM_ROWS = 4  # words
_STREAM_ROW = 4
_WAYS = 4
_STATISTICS_COLOURS = _WAYS * TOKENS
_PLACES = 1024
_STATISTICS = _STATISTICS_COLOURS + _PLACES + 1
_MOST_COLOURS = 256
_MOST_CANDIDATES = 8
_FRAME_WORDS = 16 + 4 * _MOST_CANDIDATES
# With the best code of 286 symbols no token takes more bits on average than with the flat one, which has 9.
_MOST_BITS_PER_BYTE = 9
_HEAD_BYTES = 512

_SHORTEST_CUT = 1024
"""Bytes of a row with its padding."""
_SAMPLED_ROWS = 128
"""About so many rows are enough to find the codes and the best way by."""
_SAMPLE_STEP = 15
"""Of so many rows at most one is looked at; odd, so that all places in a stripe come."""


def _candidates(channels: int, row_bytes: int, is_filtered: bool) -> list[tuple[int, int, int]]:
    """Where matches are looked for: rows above, bytes to the left, and bytes by which a match there must at least be better.

    Rows are runs of a pixel. Unfiltered ones also look like the row above, and where an edge is not quite upright, like that row a
    few pixels to the side. What is far away takes 10 to 20 bits to tell.
    """
    found = [(0, channels, 0)]
    if not is_filtered:
        found += [(1, pixels * channels, 1) for pixels in (0, 1, -1, 2, -2, 3, -3)]
    return [each for each in found if 0 < each[0] * row_bytes + each[1] <= LONGEST_DISTANCE]


def _cut(bytes_of_row: int) -> int:
    """Where rows are cut, so that a decoder can go through both parts at the same time; short ones are not: 0."""
    if bytes_of_row < _SHORTEST_CUT:
        return 0
    return round(bytes_of_row / 2 / _PIECE_BYTES) * _PIECE_BYTES


class _Stages(Stages):
    """By the bytes of a pixel; of the first stage by what the source gives, too."""

    FOLDER = "png"
    BINDINGS: ClassVar[dict[str, str]] = {
        "pack_rows": "uniform texture storage storage",
        "choose_filters": "uniform storage",
        "count_spans": "uniform read-only-storage storage",
        "index_rows": "uniform uniform read-only-storage read-only-storage storage",
        "encode_spans": "uniform read-only-storage read-only-storage storage storage",
        "place_spans": "uniform read-only-storage read-only-storage storage storage storage",
        "write_stream": "uniform read-only-storage read-only-storage storage",
    }
    OF_PIXELS: ClassVar[tuple[str, ...]] = ("choose_filters", "count_spans", "encode_spans")
    """Those that know how many bytes of the rows are a pixel."""

    def compiled(self, stage: str, channels: int) -> wgpu.GPUComputePipeline:
        """All but the first."""
        return self.pipeline(stage, {"CHANNELS": channels} if stage in self.OF_PIXELS else None)

    def first(self, channels: int, is_linear: bool, is_premultiplied: bool) -> wgpu.GPUComputePipeline:
        """The one that reads the texture."""
        constants = {"CHANNELS": channels, "LINEAR_SOURCE": is_linear, "PREMULTIPLIED": is_premultiplied}
        return self.pipeline("pack_rows", constants)


class _Way:
    """One of the ways to lay a frame's rows out: as they are or filtered, of pixels or of indexes."""

    def __init__(self, number: int, width: int, height: int, channels: int, is_filtered: bool) -> None:
        self.number = number
        self.channels = channels
        self.is_filtered = is_filtered
        self.row_bytes = 1 + width * channels
        self.row_words = -(-(_ROW_PADDING + self.row_bytes) // 4)
        self.spans_per_row = -(-(_ROW_PADDING + self.row_bytes) // _SPAN_BYTES)
        self.spans = height * self.spans_per_row
        self.candidates = _candidates(channels, self.row_bytes, is_filtered)
        self.reaches_above = any(above for above, _, _ in self.candidates)
        # Where matches stay in their row, decoding is quick enough.
        self.cut = _cut(_ROW_PADDING + self.row_bytes) if self.reaches_above else 0
        self.distances = [above * self.row_bytes + left for above, left, _ in self.candidates]
        self.frame: wgpu.GPUBuffer
        self.count: list[Stage]  # of the sample
        self.count_all: list[Stage]
        self.encode: list[Stage]

    def numbers(
        self, width: int, height: int, origin: tuple[int, int], stream_start: int, stream_words: int
    ) -> bytes:
        """The uniform buffer ``Frame``."""
        words = np.zeros(_FRAME_WORDS, np.int32)
        words[:13] = [
            width,
            height,
            *origin,
            self.row_bytes,
            self.row_words,
            self.spans_per_row,
            self.is_filtered,
            self.number * TOKENS,
            len(self.candidates),
            stream_start,
            stream_words,
            self.cut,
        ]
        words[16:].reshape(-1, 4)[: len(self.candidates), :3] = self.candidates
        return words.tobytes()


class _Slot:
    """All buffers of one frame in flight."""

    def __init__(
        self, device: wgpu.GPUDevice, stages: _Stages, width: int, height: int, channels: int
    ) -> None:
        self._device = device
        self.shape = width, height, channels
        self.pixels = [_Way(i, width, height, channels, is_filtered=i == 0) for i in (0, 1)]
        self.indexes = [_Way(i, width, height, 1, is_filtered=i == 2) for i in (2, 3) if channels == 3]
        self.stream_words = (
            -(-height * self.pixels[0].row_bytes * _MOST_BITS_PER_BYTE // 32) + _HEAD_BYTES // 4
        )
        self.stream_start = -(-(_STREAM_ROWS + _STREAM_ROW * height) // 4) * 4  # words
        most_spans = max(way.spans for way in self.pixels + self.indexes)
        scratch_bytes = 4 * (1 + self.stream_words + most_spans)  # each span begins with a word of its own
        stream_bytes = 4 * (self.stream_start + self.stream_words)
        most = min(device.limits["max-storage-buffer-binding-size"], device.limits["max-buffer-size"])
        if max(stream_bytes, scratch_bytes) > most:
            raise ValueError(
                f"a PNG of {width}x{height} pixels needs a buffer of {max(stream_bytes, scratch_bytes)} bytes, the device's limit "
                f"max-storage-buffer-binding-size is {most}: request a device with a higher limit"
            )
        self.sample_step = max(1, min(_SAMPLE_STEP, height // _SAMPLED_ROWS))
        usage = wgpu.BufferUsage
        storage = usage.STORAGE
        self._stages = stages
        self._buffers: list[wgpu.GPUBuffer] = []
        self.statistics = self._buffer("statistics", 4 * _STATISTICS, storage | usage.COPY_SRC)
        self.codes = self._buffer("codes", 4 * (TOKENS + 1), storage | usage.COPY_DST)
        scratch = self._buffer("scratch", scratch_bytes, storage)
        records = self._buffer("records", 16 * (most_spans + height), storage)
        stream = self._buffer("stream", stream_bytes, storage | usage.COPY_SRC)
        self.counts_staging = self._buffer("staging", 4 * _STATISTICS, usage.COPY_DST | usage.MAP_READ)
        self.statistics_copy = Copy(self.statistics, self.counts_staging, 4 * _STATISTICS)
        self.lengths: deque[int] = deque(maxlen=1)
        self.readback = Readback(device, stream, self.lengths)
        self._origin: tuple[int, int] | None = None
        self._source: tuple[Any, wgpu.GPUBindGroup] | None = None
        self._rows: list[wgpu.GPUBuffer] = []
        for ways in filter(None, (self.pixels, self.indexes)):
            # Unpacking reads some words beyond.
            rows = self._buffer("rows", height * ways[0].row_words * 4 + 16, storage)
            self._rows.append(rows)
            for way in ways:
                way.frame = self._buffer("frame", 4 * _FRAME_WORDS, usage.UNIFORM | usage.COPY_DST)
                way.count = self._count(way, rows, height // self.sample_step)
                way.count_all = self._count(way, rows, height)
                spans = way.spans_per_row, height
                way.encode = [
                    *self._filter(way, rows, height),
                    self._stage("encode_spans", way, spans, rows, self.codes, scratch, records),
                    self._stage(
                        "place_spans", way, (1,), self.codes, records, stream, scratch, self.statistics
                    ),
                    self._stage("write_stream", way, spans, scratch, records, stream),
                ]
        self.index: list[Stage] = []
        if self.indexes:
            self.ranks = self._buffer("ranks", 4 * _PLACES, storage | usage.COPY_DST)
            resources = self.pixels[0].frame, self._rows[0], self.ranks, self._rows[1]
            self.index = [self._stage("index_rows", self.indexes[0], (height,), *resources)]
        self.busy = False

    def _buffer(self, label: str, size: int, usage: int) -> wgpu.GPUBuffer:
        buffer = self._device.create_buffer(label=f"rfb_gpu {label}", size=-(-size // 16) * 16, usage=usage)
        self._buffers.append(buffer)
        return buffer

    def _stage(self, name: str, way: _Way, workgroups: tuple[int, ...], *resources: Any) -> Stage:
        pipeline = self._stages.compiled(name, way.channels)
        return Stage(name, pipeline, self._stages.bind_group(name, way.frame, *resources), workgroups)

    def _filter(self, way: _Way, rows: wgpu.GPUBuffer, number: int) -> list[Stage]:
        return [self._stage("choose_filters", way, (number,), rows)] if way.is_filtered else []

    def _count(self, way: _Way, rows: wgpu.GPUBuffer, number: int) -> list[Stage]:
        count = self._stage("count_spans", way, (way.spans_per_row, number), rows, self.statistics)
        return [*self._filter(way, rows, number), count]

    def first_stage(
        self,
        source: wgpu.GPUTexture | wgpu.GPUTextureView,
        origin: tuple[int, int],
        is_linear: bool,
        is_premultiplied: bool,
    ) -> Stage:
        """The one that reads the texture."""
        width, height, channels = self.shape
        if origin != self._origin:
            self._origin = origin
            for way in self.pixels + self.indexes:
                numbers = way.numbers(width, height, origin, self.stream_start, self.stream_words)
                self._device.queue.write_buffer(way.frame, 0, numbers)
        if self._source is None or self._source[0]() is not source:
            view = source.create_view() if isinstance(source, wgpu.GPUTexture) else source
            group = self._stages.bind_group(
                "pack_rows", self.pixels[0].frame, view, self._rows[0], self.statistics
            )
            self._source = weakref.ref(source), group
        pipeline = self._stages.first(channels, is_linear, is_premultiplied)
        return Stage("pack_rows", pipeline, self._source[1], (height,))

    def stream_bytes(self, stop: int) -> int:
        """Of the buffer ``stream``, with so many bits; those that there is no room for are left out."""
        return 4 * (self.stream_start + min(stop // 32 + 1, self.stream_words))

    def has_room(self, stop: int) -> bool:
        """Whether so many bits fit."""
        return stop // 32 < self.stream_words

    def destroy(self) -> None:
        self.readback.destroy()
        for buffer in self._buffers:
            buffer.destroy()
        self._buffers.clear()


class PngEncoder(TextureEncoder):
    """Encodes textures to PNG files on the device that holds them.

    Arguments:
        device: the device of the textures. Its default limits suffice, no optional feature is needed.
        channels: ``"rgb"`` (alpha is ignored), ``"rgba"`` (as it is; PNG means straight alpha), ``"premultiplied"`` (RGBA, made
            straight: of 8-bit numbers, multiplying gives the same again), or ``"gray"`` (luma by BT.601).
        slots: how many frames can be in flight. Encoding one more waits for the oldest.
        dpi: pixel density to note in the files for print programs, 1 to 65535; None notes none.
        profile: time the work on the GPU: True as a whole, ``"stages"`` each stage in a pass of its own; needs the device
            feature ``timestamp-query``.

    Raises:
        ValueError, TypeError: an argument is out of its range.

    The files are complete, any decoder opens them, and they hold every 8-bit number of the texture exactly. Memory: about 11 bytes
    a pixel and slot for RGB.

    Method: rows filtered by Sub, Up or Paeth, whichever leaves the fewest bits, and runs of a pixel in them; or not filtered at
    all, and matches also with the row above, which suits flat colours; or one of both with a palette, of up to 256 colours: for
    the whole frame what takes less. One deflate block, whose Huffman codes are fitted to the frame itself. The tokens of some of
    its rows are counted on the GPU, codes made on the CPU, and the bits written on the GPU; in between it waits for a few kB.
    There is no colour profile in the files: without one, viewers take the numbers as sRGB, which they are.
    """

    name = "GPU PNG"

    def __init__(
        self,
        device: wgpu.GPUDevice,
        channels: str = "rgb",
        *,
        slots: int = 1,
        dpi: int | None = None,
        profile: bool | str = False,
    ) -> None:
        super().__init__(device, slots=slots, dpi=dpi, profile=profile)
        if channels not in CHANNELS:
            raise ValueError(f"channels must be one of {', '.join(map(repr, CHANNELS))}, not {channels!r}")
        self._stages = _Stages.of(device)
        self._channels = CHANNELS[channels]
        self._is_premultiplied = channels == "premultiplied"
        self._slots: list[_Slot] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rfb_gpu PNG")

    def prepare(self, source_format: str) -> None:
        """Compiles the stages for textures of this format in a thread, which takes some 0.3 s, so that the first frame does not."""
        is_linear = source_format.endswith("-srgb")

        def compile_all() -> None:
            self._stages.first(self._channels, is_linear, self._is_premultiplied)
            wanted = [(stage, self._channels) for stage in _Stages.BINDINGS if stage != "pack_rows"]
            if self._channels == 3:
                wanted += [(stage, 1) for stage in _Stages.OF_PIXELS]
            for stage, channels in wanted:
                if self._closed:
                    return
                self._stages.compiled(stage, channels)

        self._thread.submit(compile_all)

    def _encode(
        self, source: wgpu.GPUTexture | wgpu.GPUTextureView, is_linear: bool, part: Part, began: float
    ) -> GPUFuture[EncodedFrame]:
        x, y, width, height = part
        slot = self._free_slot(width, height)
        first = slot.first_stage(source, (x, y), is_linear, self._is_premultiplied)
        stages = [first, *(stage for way in slot.pixels for stage in way.count)]
        submit(self._device, stages, [slot.statistics_copy], self._profiler)

        slot.busy = True
        timings = {"submit": time.perf_counter() - began}
        return GPUFuture(self._code_and_collect(slot, began, timings))

    def close(self) -> None:
        """Frees all buffers, those of frames in flight as soon as these are done."""
        self._closed = True
        self._let_go()

    def _let_go(self) -> None:
        for slot in [slot for slot in self._slots if not slot.busy]:
            slot.destroy()
            self._slots.remove(slot)
        if not self._slots:
            self._thread.shutdown(wait=False)

    def _free_slot(self, width: int, height: int) -> _Slot:
        shape = width, height, self._channels
        for slot in [slot for slot in self._slots if not slot.busy and slot.shape != shape]:
            slot.destroy()
            self._slots.remove(slot)
        free = next((slot for slot in self._slots if not slot.busy), None)
        if free is None:
            free = _Slot(self._device, self._stages, *shape)
            self._slots.append(free)
        return free

    def _code_and_collect(
        self, slot: _Slot, began: float, timings: dict[str, float]
    ) -> Generator[Any, None, EncodedFrame]:
        """Waits for the counts, has the stream written with codes that fit them, and puts the file together."""
        width, height, _ = slot.shape
        try:
            self._note_times(timings)
            statistics = yield from _mapped(slot.counts_staging)
            ways, step, palette = slot.pixels, slot.sample_step, None
            if slot.indexes and int(statistics[-1]) <= _MOST_COLOURS:
                palette, ranks = _ranked(statistics[_STATISTICS_COLOURS:][:_PLACES])
                self._device.queue.write_buffer(slot.ranks, 0, ranks.tobytes())
                ways = slot.pixels + slot.indexes
                stages = slot.index + [stage for way in slot.indexes for stage in way.count]
                statistics = yield from self._counted(slot, stages, timings)
            while True:
                # In the thread, like all that takes a millisecond: this one may have to draw.
                yield (choice := self._thread.submit(_choose, ways, statistics, step))
                best, codes = choice.result()
                sent = np.append(codes.tokens, np.uint32(codes.start))
                self._device.queue.write_buffer(slot.codes, 0, sent.tobytes())
                slot.lengths.append(slot.stream_bytes(codes.stop))
                submit(self._device, best.encode, [Copy(*slot.readback.prepare())], self._profiler)
                self._note_times(timings)
                mapped = yield from slot.readback.read(lambda head: slot.stream_bytes(_stop(head)))
                if slot.has_room(_stop(mapped.words(0, 1))):
                    break
                # The sample is like nothing else in the picture. Codes for all of it always have room.
                slot.readback.release()
                ways, step = [best], 1
                statistics = yield from self._counted(slot, best.count_all, timings)
            try:
                # The thread reads the mapped memory: it is given back only when that is over.
                used = palette if best in slot.indexes else None
                yield (work := self._thread.submit(self._file, slot, best, codes, mapped, used))
                data = work.result()
            finally:
                slot.readback.release()
        finally:
            slot.busy = False
            if self._closed:
                self._let_go()
        timings["ready"] = time.perf_counter() - began
        return EncodedFrame(data, width, height, "png", 100, "444", 1, timings)

    def _counted(
        self, slot: _Slot, stages: list[Stage], timings: dict[str, float]
    ) -> Generator[Any, None, NDArray[np.uint32]]:
        submit(self._device, stages, [slot.statistics_copy], self._profiler)
        self._note_times(timings)
        return (yield from _mapped(slot.counts_staging))

    def _note_times(self, timings: dict[str, float]) -> None:
        if self._profiler:
            for name, seconds in self._profiler.read().items():
                timings[name] = timings.get(name, 0.0) + seconds

    def _file(
        self, slot: _Slot, way: _Way, codes: DeflateCodes, mapped: Mapped, palette: NDArray[np.uint8] | None
    ) -> bytes:
        """On the thread: the file; its CRC-32 takes a millisecond a megabyte."""
        width, height, channels = slot.shape
        head = mapped.words(0, slot.stream_start)
        rows = head[_STREAM_ROWS:][: _STREAM_ROW * height].reshape(-1, _STREAM_ROW)
        pieces = mapped.slice(4 * slot.stream_start, slot.stream_bytes(int(head[0])))
        stream = codes.zlib_stream(pieces, int(head[0]), adler32(rows[:, 1:3], way.row_bytes))
        parts, cut = (rows[:, [0, 3]], way.cut - _ROW_PADDING) if way.cut else (rows[:, :1], 0)
        index = index_data(parts, way.reaches_above, cut)
        return png_file(width, height, channels, stream, index, self._dpi, palette)


def _ranked(table: NDArray[np.uint32]) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    """The palette, shape (colours, 3), and what index_rows.wgsl needs, of the colours at their places.

    They are in the order of their luma, so that in a colour map's picture neighbours have numbers near each other.
    """
    places = np.flatnonzero(table)
    colours = table[places] & 0xFFFFFF
    rgb = colours.view(np.uint8).reshape(-1, 4)[:, :3]
    order = np.lexsort((colours, rgb @ np.array([19595, 38470, 7471])))
    ranks = np.zeros(_PLACES, np.uint32)
    ranks[places[order]] = colours[order] | np.arange(order.size, dtype=np.uint32) << 24
    return rgb[order], ranks


def _choose(ways: list[_Way], statistics: NDArray[np.uint32], step: int) -> tuple[_Way, DeflateCodes]:
    """The way that takes the fewest bits, and the codes for it, by the counts of one row of so many."""
    counts = [statistics[way.number * TOKENS :][:TOKENS].astype(np.int64) * step for way in ways]
    bits = [estimated_bits(each, way.distances) for way, each in zip(ways, counts, strict=True)]
    best = int(np.argmin(bits))
    return ways[best], DeflateCodes(counts[best], ways[best].distances, is_sample=step > 1)


def _stop(head: memoryview | NDArray[np.uint32]) -> int:
    """The length in bits of what the GPU wrote."""
    return int(np.frombuffer(head, np.uint32, 1)[0])


def _mapped(staging: wgpu.GPUBuffer) -> Generator[Any, None, NDArray[np.uint32]]:
    """Waits for a copy of the statistics to arrive, and gives it as an array of its own."""
    size = 4 * _STATISTICS
    yield (promise := staging.map_async("READ_NOSYNC", 0, size))
    promise.sync_wait()  # raises, should the map have failed
    try:
        return np.frombuffer(staging.read_mapped(0, size, copy=False), np.uint32).copy()
    finally:
        staging.unmap()
