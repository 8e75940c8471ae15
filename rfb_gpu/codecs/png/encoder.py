"""Textures to PNG files on the GPU: filters and token counts, codes made to measure on the CPU, then the bits.

:meth:`PngEncoder._encode` and the generator that follows it read from top to bottom as the list of what the GPU does. The stages
are the ``.wgsl`` files beside this one; the codes and the bytes around the compressed ones are made in :mod:`.deflate`. This module
knows nothing of canvases.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import wgpu
from numpy.typing import NDArray

from ...readback import GPUFuture
from ..frame import EncodedFrame
from ..passes import Copy, Stage, submit
from ..source import Part
from ..stages import Stages
from ..texture_encoder import TextureEncoder
from .deflate import (
    LONGEST_DISTANCE,
    MOST_DISTANCES,
    TOKENS,
    DeflateCodes,
    adler32,
    estimated_bits,
)
from .file import index_data, png_file

__all__ = ["PngEncoder"]

CHANNELS = {"gray": 1, "rgb": 3, "rgba": 4, "premultiplied": 4}

# Mirrors shaders/png_frame.wgsl and shaders/png_palette.wgsl.
_ROW_PADDING = 3
_CHUNK_BYTES = 516
_STREAM_ROWS = 4  # words
_STATISTICS_PALETTE = 3 * TOKENS
_STATISTICS_ROWS = _STATISTICS_PALETTE + 272
_PLACES = 1024
_MOST_COLOURS = 256
_GROUP = 64
# With the best code of 286 symbols no token takes more bits on average than with the flat one, which has 9.
_MOST_BITS_PER_BYTE = 9
_HEAD_BYTES = 512
_FRAME_WORDS = 12 + 4 * MOST_DISTANCES


def _candidates(channels: int, row_bytes: int, is_filtered: bool) -> list[tuple[int, int, int]]:
    """Where matches are looked for: rows above, bytes to the left, and bytes by which a match there must at least be better.

    Filtered rows are runs, of bytes or of pixels. Unfiltered ones also look like the row above, and where an edge is not quite
    upright, like that row a few pixels to the side. What is far away takes 10 to 20 bits to tell.
    """
    near = sorted({1, channels})
    found = [(0, distance, 0) for distance in near]
    if not is_filtered:
        found += [(0, pixels * channels, 0) for pixels in (2, 3)]
        found += [(1, pixels * channels, 1) for pixels in (0, 1, -1, 2, -2, 3, -3)]
    return [each for each in found if 0 < each[0] * row_bytes + each[1] <= LONGEST_DISTANCE]


class _Stages(Stages):
    """By channels, and by whether the source gives linear values."""

    FOLDER = "png"
    BINDINGS: ClassVar[dict[str, str]] = {
        "filter_rows": "uniform texture storage storage storage",
        "count_tokens": "uniform read-only-storage storage",
        "collect_colours": "uniform read-only-storage storage",
        "rank_colours": "storage storage storage",
        "index_rows": "uniform uniform read-only-storage read-only-storage storage storage",
        "measure_chunks": "uniform read-only-storage read-only-storage storage storage storage",
        "write_chunks": "uniform read-only-storage read-only-storage read-only-storage read-only-storage storage",
    }

    def compiled(
        self, stage: str, channels: int, is_linear: bool = False, is_premultiplied: bool = False
    ) -> wgpu.GPUComputePipeline:
        constants = {"CHANNELS": channels, "LINEAR_SOURCE": is_linear, "PREMULTIPLIED": is_premultiplied}
        return self.pipeline(stage, constants)


class _Rows:
    """One of the ways to lay a frame's rows out: what of it differs from the others."""

    def __init__(self, number: int, width: int, height: int, channels: int, is_filtered: bool) -> None:
        self.number = number
        self.row_bytes = 1 + width * channels
        self.row_words = -(-(_ROW_PADDING + self.row_bytes) // 4)
        self.chunks_per_row = -(-self.row_bytes // _CHUNK_BYTES)
        self.chunks = height * self.chunks_per_row
        self.groups = -(-self.chunks // _GROUP)
        self.bytes = height * self.row_words * 4 + 16  # matching and unpacking read some words beyond
        self.counts = np.zeros(TOKENS, np.uint32)  # of all frames so far: clearing them would cost a command
        self.new_counts = self.counts  # of the last one
        self.candidates = _candidates(channels, self.row_bytes, is_filtered)
        self.distances = [above * self.row_bytes + left for above, left, _ in self.candidates]
        self.frame: wgpu.GPUBuffer
        self.count: Stage
        self.code: list[Stage]

    def numbers(
        self, width: int, height: int, origin: tuple[int, int], stream_start: int, stream_words: int
    ) -> bytes:
        """The uniform buffer ``Frame``."""
        words = np.zeros(_FRAME_WORDS, np.int32)
        words[:12] = [
            width,
            height,
            *origin,
            self.row_bytes,
            self.row_words,
            self.chunks_per_row,
            self.chunks,
            stream_words,
            self.number * TOKENS,
            len(self.candidates),
            stream_start,
        ]
        words[12:].reshape(-1, 4)[: len(self.candidates), :3] = self.candidates
        return words.tobytes()


class _Slot:
    """All buffers of one frame in flight."""

    def __init__(
        self, device: wgpu.GPUDevice, stages: _Stages, width: int, height: int, channels: int
    ) -> None:
        self._device = device
        self.shape = width, height, channels
        self.filtered = _Rows(0, width, height, channels, is_filtered=True)
        self.unfiltered = _Rows(1, width, height, channels, is_filtered=False)
        self.indexes = _Rows(2, width, height, 1, is_filtered=False) if channels == 3 else None
        ways = [self.filtered, self.unfiltered, *([self.indexes] if self.indexes else [])]
        self._ways = ways
        self._stream_words = (
            -(-height * self.filtered.row_bytes * _MOST_BITS_PER_BYTE // 32) + _HEAD_BYTES // 4
        )
        self.stream_start = -(-(_STREAM_ROWS + height) // 4) * 4  # words
        stream_bytes = 4 * (self.stream_start + self._stream_words)
        most = min(device.limits["max-storage-buffer-binding-size"], device.limits["max-buffer-size"])
        if stream_bytes > most:
            raise ValueError(
                f"a PNG of {width}x{height} pixels needs a buffer of {stream_bytes} bytes, the device's limit "
                f"max-storage-buffer-binding-size is {most}: request a device with a higher limit"
            )
        self.statistics_bytes = 4 * (_STATISTICS_ROWS + 6 * height)
        usage = wgpu.BufferUsage
        storage = usage.STORAGE
        self._stages = stages
        self._buffers: list[wgpu.GPUBuffer] = []
        self._rows = [self._buffer("rows", way.bytes, storage) for way in ways]
        self.statistics = self._buffer("statistics", self.statistics_bytes, storage | usage.COPY_SRC)
        self.codes = self._buffer("codes", 4 * (TOKENS + 1), storage | usage.COPY_DST)
        places = self._buffer("places", 4 * max(way.chunks for way in ways), storage)
        group_bits = self._buffer("groups", 4 * max(way.groups for way in ways), storage)
        self.stream = self._buffer("stream", stream_bytes, storage | usage.COPY_SRC)
        self.counts_staging = self._buffer("staging", self.statistics_bytes, usage.COPY_DST | usage.MAP_READ)
        self.statistics_copy = Copy(self.statistics, self.counts_staging, self.statistics_bytes)
        self._stream_staging: wgpu.GPUBuffer | None = None
        self._origin: tuple[int, int] | None = None
        self._source: tuple[Any, wgpu.GPUBindGroup] | None = None
        for way, rows in zip(ways, self._rows, strict=True):
            way.frame = self._buffer("frame", 4 * _FRAME_WORDS, usage.UNIFORM | usage.COPY_DST)
            coding = (self.codes, places, group_bits, self.stream)
            way.count = self._stage("count_tokens", way.groups, way.frame, rows, self.statistics)
            way.code = [
                self._stage(name, way.groups, way.frame, rows, *coding)
                for name in ("measure_chunks", "write_chunks")
            ]
        self.collect: list[Stage] = []
        self.index: list[Stage] = []
        if self.indexes:
            palette = self._buffer("palette", 4 * (_PLACES + 1), storage)
            ranks = self._buffer("ranks", 8 * _PLACES, storage)
            unfiltered = self._rows[1]
            self.collect = [
                self._stage("collect_colours", height, self.unfiltered.frame, unfiltered, palette),
                self._stage("rank_colours", 1, palette, ranks, self.statistics),
            ]
            frames = self.indexes.frame, self.unfiltered.frame
            self.index = [
                self._stage("index_rows", height, *frames, unfiltered, ranks, self._rows[2], self.statistics),
                self.indexes.count,
            ]
        self.busy = False

    def _buffer(self, label: str, size: int, usage: int) -> wgpu.GPUBuffer:
        buffer = self._device.create_buffer(label=f"rfb_gpu {label}", size=-(-size // 16) * 16, usage=usage)
        self._buffers.append(buffer)
        return buffer

    def _stage(self, name: str, workgroups: int, *resources: Any) -> Stage:
        pipeline = self._stages.compiled(name, self.shape[2])
        return Stage(name, pipeline, self._stages.bind_group(name, *resources), (workgroups,))

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
            for way in self._ways:
                numbers = way.numbers(width, height, origin, self.stream_start, self._stream_words)
                self._device.queue.write_buffer(way.frame, 0, numbers)
        if self._source is None or self._source[0]() is not source:
            view = source.create_view() if isinstance(source, wgpu.GPUTexture) else source
            group = self._stages.bind_group(
                "filter_rows", self.filtered.frame, view, *self._rows[:2], self.statistics
            )
            self._source = weakref.ref(source), group
        pipeline = self._stages.compiled("filter_rows", channels, is_linear, is_premultiplied)
        return Stage("filter_rows", pipeline, self._source[1], (height,))

    def stream_staging(self, size: int) -> wgpu.GPUBuffer:
        """A buffer that has room for so many bytes of the stream."""
        if self._stream_staging is None or self._stream_staging.size < size:
            if self._stream_staging is not None:
                self._buffers.remove(self._stream_staging)
                self._stream_staging.destroy()
            usage = wgpu.BufferUsage.COPY_DST | wgpu.BufferUsage.MAP_READ
            self._stream_staging = self._buffer("staging", min(2 * size, self.stream.size), usage)
        return self._stream_staging

    def destroy(self) -> None:
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

    The files are complete, any decoder opens them, and they hold every 8-bit number of the texture exactly. Memory: about 10 bytes
    a pixel and slot for RGB.

    Method: rows filtered by Sub, Up or Paeth, whichever leaves the fewest bits, and runs of bytes or pixels in them; or not
    filtered at all, and matches also with the row above, which suits flat colours; or the same with a palette, of up to 256
    colours: for the whole frame what takes less. One deflate block, whose Huffman codes are fitted to the frame itself. The tokens
    are counted on the GPU, their codes made on the CPU, and the bits written on the GPU; in between it waits for a few kB. There is
    no colour profile in the files: without one, viewers take the numbers as sRGB, which they are.
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
            for stage in _Stages.BINDINGS:
                if self._closed:
                    return
                of_source = (is_linear, self._is_premultiplied) if stage == "filter_rows" else ()
                self._stages.compiled(stage, self._channels, *of_source)

        self._thread.submit(compile_all)

    def _encode(
        self, source: wgpu.GPUTexture | wgpu.GPUTextureView, is_linear: bool, part: Part, began: float
    ) -> GPUFuture[EncodedFrame]:
        x, y, width, height = part
        slot = self._free_slot(width, height)
        first = slot.first_stage(source, (x, y), is_linear, self._is_premultiplied)
        stages = [first, slot.filtered.count, slot.unfiltered.count, *slot.collect]
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
            statistics = yield from _mapped(slot.counts_staging, slot.statistics_bytes)
            ways = [slot.filtered, slot.unfiltered]
            palette = None
            if slot.indexes and (colours := int(statistics[_STATISTICS_PALETTE])) <= _MOST_COLOURS:
                # A way more, which is worth another look at the counts.
                submit(self._device, slot.index, [slot.statistics_copy], self._profiler)
                self._note_times(timings)
                statistics = yield from _mapped(slot.counts_staging, slot.statistics_bytes)
                first = _STATISTICS_PALETTE + 1
                palette = statistics[first : first + colours].view(np.uint8).reshape(-1, 4)[:, :3]
                ways.append(slot.indexes)
            # In the thread, like all that takes a millisecond: this one may have to draw.
            yield (choice := self._thread.submit(_choose, ways, statistics))
            best, codes = choice.result()
            checksum = adler32(
                statistics[_STATISTICS_ROWS:].reshape(-1, 3, 2)[:, best.number], best.row_bytes
            )

            sent = np.append(codes.tokens, np.uint32(codes.start))
            self._device.queue.write_buffer(slot.codes, 0, sent.tobytes())
            size = 4 * (slot.stream_start + -(-codes.stop // 32))
            staging = slot.stream_staging(size)
            submit(self._device, best.code, [Copy(slot.stream, staging, size)], self._profiler)
            self._note_times(timings)
            yield (promise := staging.map_async("READ_NOSYNC", 0, size))
            promise.sync_wait()
            try:
                mapped = staging.read_mapped(0, size, copy=False)
                # The thread reads the mapped memory: it is given back only when that is over.
                used = palette if best is slot.indexes else None
                reaches_above = any(above for above, _, _ in best.candidates)
                work = self._thread.submit(self._file, slot, codes, mapped, checksum, used, reaches_above)
                yield work
                data = work.result()
            finally:
                staging.unmap()
        finally:
            slot.busy = False
            if self._closed:
                self._let_go()
        timings["ready"] = time.perf_counter() - began
        return EncodedFrame(data, width, height, "png", 100, "444", 1, timings)

    def _note_times(self, timings: dict[str, float]) -> None:
        if self._profiler:
            for name, seconds in self._profiler.read().items():
                timings[name] = timings.get(name, 0.0) + seconds

    def _file(
        self,
        slot: _Slot,
        codes: DeflateCodes,
        mapped: memoryview,
        checksum: int,
        palette: NDArray[np.uint8] | None,
        reaches_above: bool,
    ) -> bytes:
        """On the thread: the file; its CRC-32 takes a millisecond a megabyte."""
        width, height, channels = slot.shape
        head = np.frombuffer(mapped, np.uint32, slot.stream_start)
        if int(head[0]) != codes.stop:
            raise RuntimeError("the GPU wrote another number of bits than it counted: please report this")
        stream = codes.zlib_stream([mapped[4 * slot.stream_start :]], checksum)
        index = index_data(head[_STREAM_ROWS : _STREAM_ROWS + height], reaches_above)
        return png_file(width, height, channels, stream, index, self._dpi, palette)


def _choose(ways: list[_Rows], statistics: NDArray[np.uint32]) -> tuple[_Rows, DeflateCodes]:
    """The way that takes the fewest bits, and the codes for it."""
    bits = []
    for way in ways:
        counts = statistics[way.number * TOKENS :][:TOKENS]
        way.new_counts, way.counts = counts - way.counts, counts
        bits.append(estimated_bits(way.new_counts, way.distances))
    best = ways[int(np.argmin(bits))]
    return best, DeflateCodes(best.new_counts, best.distances)


def _mapped(staging: wgpu.GPUBuffer, size: int) -> Generator[Any, None, NDArray[np.uint32]]:
    """Waits for a copy to arrive, and gives it as an array of its own."""
    yield (promise := staging.map_async("READ_NOSYNC", 0, size))
    promise.sync_wait()  # raises, should the map have failed
    try:
        return np.frombuffer(staging.read_mapped(0, size, copy=False), np.uint32).copy()
    finally:
        staging.unmap()
