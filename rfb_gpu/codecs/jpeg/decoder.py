"""JPEG files to textures on the GPU: compute passes over the bytes of the file, from the shaders that the page runs too.

``js/src/decoders/jpeg.ts`` is the same in TypeScript. On the GPU it takes the files that our encoder makes, and any baseline file
with a restart marker per MCU row (:func:`.bitstream.parse` says what it refuses). Other files go through libjpeg-turbo, on the
CPU. Never trusts the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import simplejpeg
import wgpu
from numpy.typing import NDArray

from ..passes import Stage, submit
from ..texture_decoder import DecoderStages, TextureDecoder
from .bitstream import CorruptJpegError, ForeignJpegError, JpegFile, parse
from .tables import AAN_SCALE, ZIGZAG, HuffmanTable

__all__ = ["JpegDecoder"]

_DECODING_THREADS = 16384
"""Of huffman_decode.wgsl, about: where entries are fewer, some threads stay idle, so that fewer neighbours wait for each other."""
_DECODING_GROUP = 128
_GROUP_BLOCKS = 96
"""Mirrors shaders/blocks.wgsl: blocks that a workgroup has room for."""

# Mirrors huffman_decode.wgsl.
_FAST_BITS = 10
_FAST_SIZE = 1 << _FAST_BITS
_END_OF_BLOCK = 1 << 19
_COEFFICIENT = 1 << 20


def _word(code_length: int, size: int = 0, zeros: int = 0, what: int = _COEFFICIENT) -> int:
    """What huffman_decode.wgsl does on a code."""
    length = code_length + size
    return zeros << 28 | what | size << 15 | code_length << 10 | length << 5 | length


def _no_code(is_dc: bool) -> int:
    """What a code that the table does not have is taken for: a DC difference of 0, or the end of the block."""
    return _word(16, what=_COEFFICIENT if is_dc else _END_OF_BLOCK)


def _decoding_word(symbol: int, code_length: int, is_dc: bool) -> int:
    if is_dc:
        return _word(code_length, min(symbol, 15))
    if symbol == 0xF0:
        return _word(code_length, zeros=15, what=0)  # 16 zeros, of which the last is the position itself
    if symbol & 15 == 0:
        return _word(code_length, what=_END_OF_BLOCK)
    return _word(code_length, symbol & 15, symbol >> 4)


_SCALE = np.outer(AAN_SCALE, AAN_SCALE).ravel() / (8 * 255)


@lru_cache(maxsize=64)
def _decoding_words(table: HuffmanTable, is_dc: bool) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """What huffman_decode.wgsl reads for each next 10 bits, for the codes that end within them; and then for each next 16 bits.

    Codes of a table are in ascending order, the short ones first, so each part is its codes one after the other, repeated by
    as many bits as follow.
    """
    lengths = np.repeat(np.arange(1, 17), table.counts)
    coded = zip(table.symbols, lengths.tolist(), strict=True)
    words = np.array([_decoding_word(symbol, length, is_dc) for symbol, length in coded], np.uint32)
    is_short = lengths <= _FAST_BITS
    short = np.repeat(words[is_short], 1 << (_FAST_BITS - lengths[is_short]))
    long = np.repeat(words[~is_short], 1 << (16 - lengths[~is_short]))
    return short, np.append(long, np.full(-len(long) % 64, _no_code(is_dc), np.uint32))


@dataclass(frozen=True)
class _DecodingTables:
    words: NDArray[np.uint32]
    """The buffer ``huffman`` of huffman_decode.wgsl: four tables for the next 10 bits, then the words of longer codes."""
    long_codes: list[int]
    """The frame's, modulo 2^32."""


@lru_cache(maxsize=8)
def decoding_tables(tables: tuple[HuffmanTable, ...]) -> _DecodingTables:
    """What huffman_decode.wgsl reads."""
    fast = np.zeros((4, _FAST_SIZE), np.uint32)
    parts = []
    end = fast.size
    long_codes = []
    for i, table in enumerate(tables):
        short, long = _decoding_words(table, i % 2 == 0)
        fast[i] = _no_code(i % 2 == 0)
        fast[i, : len(short)] = short
        fast[i, len(short) : len(short) + len(long) // 64] = 0
        long_codes.append((end - (len(short) << (16 - _FAST_BITS))) % 2**32)
        parts.append(long)
        end += len(long)
        if i | 1 < len(tables) and 0 in tables[i | 1].codes:
            fast[i] = _with_end_of_block(fast[i], *tables[i | 1].codes[0])
    words = np.concatenate([fast.ravel(), *parts])
    return _DecodingTables(words, [*long_codes, 0, 0, 0, 0][:4])


def _with_end_of_block(fast: NDArray[np.uint32], code: int, length: int) -> NDArray[np.uint32]:
    """The entries of a table, together with the end of the block where its code follows within the 10 bits."""
    taken = fast & 31
    after = (np.arange(_FAST_SIZE) << taken) % _FAST_SIZE >> max(_FAST_BITS - length, 0)
    follows = (fast & _COEFFICIENT > 0) & (taken + length <= _FAST_BITS) & (after == code)
    return np.where(follows, fast + (length << 5) | _END_OF_BLOCK, fast).astype(np.uint32)


def dequantisation_table(quantisers: NDArray[np.uint8]) -> bytes:
    """The storage buffer ``Tables`` of shaders/blocks.wgsl."""
    natural = np.zeros((3, 64))
    natural[:, ZIGZAG] = np.resize(quantisers, (3, 64))
    return (natural * _SCALE).astype(np.float32).tobytes()


# Of a layout's constants, those that shaders/decoder_frame.wgsl asks for.
_CONSTANTS = ("LUMA_ACROSS", "LUMA_DOWN", "MCU_WIDTH", "MCU_HEIGHT", "BLOCKS_PER_MCU", "MCUS_PER_SEGMENT")


class _Stages(DecoderStages):
    FOLDER = "jpeg"
    BOUND: ClassVar[dict[str, str]] = {
        "huffman_decode": "frame stream entries huffman +list +segments +entry_dc",
        "reconstruct_chroma": "frame tables list segments entry_dc +chroma",
        "reconstruct": "frame tables list segments entry_dc chroma +picture",
    }


@dataclass(frozen=True)
class _Dispatch:
    stage: str
    workgroups: tuple[int, ...]


def _threads_per_entry(file: JpegFile) -> int:
    spare = max(_DECODING_THREADS // file.positions.size, 1)
    return min(1 << spare.bit_length() - 1, 32)


def _plan(file: JpegFile) -> list[_Dispatch]:
    """What the GPU does for a file, in order."""
    layout = file.layout
    luma_blocks = layout.luma_across * layout.luma_down
    is_subsampled = not layout.is_gray and luma_blocks > 1

    def segments(blocks_taken: int) -> tuple[int, int]:
        per_group = _GROUP_BLOCKS // (blocks_taken * layout.mcus_per_segment)
        return -(-layout.segments_per_row // per_group), layout.rows

    decoding_threads = file.positions.size * _threads_per_entry(file)
    plan = [_Dispatch("huffman_decode", (-(-decoding_threads // _DECODING_GROUP),))]
    if is_subsampled:
        plan.append(_Dispatch("reconstruct_chroma", segments(2)))
    plan.append(_Dispatch("reconstruct", segments(luma_blocks if is_subsampled else layout.blocks_per_mcu)))
    return plan


class JpegDecoder(TextureDecoder):
    """Decodes JPEG files into textures of a device.

    Arguments:
        device: its default limits suffice, no optional feature is needed.
        profile: time the work on the GPU, for :meth:`timings`: True as a whole, ``"stages"`` each stage in a pass of its own; needs
            the device feature ``timestamp-query``.

    Files of :class:`JpegEncoder` are decoded on the GPU, and so are other baseline files in 4:4:4, 4:2:2, 4:2:0 or gray with a
    restart marker per MCU row. All others that libjpeg-turbo reads are decoded by it on the CPU and uploaded, which takes some
    tens of times longer.

    Textures are opaque and hold sRGB-encoded values; gray files have R = G = B. Chroma is interpolated as libjpeg and all browsers
    do. Once the decoder has seen the sizes that are to come, it makes no more GPU objects.

    :meth:`decode` raises :class:`CorruptJpegError` for bytes that are no JPEG file or a broken one, and :class:`ForeignJpegError`
    for a file that libjpeg-turbo does not decode to RGB either: CMYK, 12-bit, lossless.
    """

    _STAGES = _Stages

    def __init__(self, device: wgpu.GPUDevice, *, profile: bool | str = False) -> None:
        super().__init__(device, profile=profile)
        # What the buffers "huffman" and "tables" are made of.
        self._huffman: tuple[HuffmanTable, ...] = ()
        self._quantisers = b""

    def _decode(self, data: bytes | bytearray | memoryview, out: wgpu.GPUTexture | None) -> wgpu.GPUTexture:
        try:
            file = parse(data)
        except ForeignJpegError as why:
            return self._decode_on_cpu(data, out, why)
        layout = file.layout
        out = self._texture(layout.width, layout.height, out, "STORAGE_BINDING")
        self._upload(file)

        plan = _plan(file)
        constants = {name: layout.constants[name] for name in _CONSTANTS}
        submit(
            self._device,
            [
                Stage(
                    dispatch.stage,
                    self._stages.pipeline(dispatch.stage, constants),
                    self._bind_group(dispatch.stage, out),
                    dispatch.workgroups,
                )
                for dispatch in plan
            ],
            profiler=self._profiler,
        )
        return out

    def _decode_on_cpu(
        self, data: bytes | bytearray | memoryview, out: wgpu.GPUTexture | None, why: ForeignJpegError
    ) -> wgpu.GPUTexture:
        try:
            height, width, colour_space, _ = simplejpeg.decode_jpeg_header(data, strict=False)
        except (ValueError, KeyError):
            raise why from None  # nor does libjpeg-turbo read it, or simplejpeg has no name for what it is
        if colour_space in ("CMYK", "YCCK"):
            raise ForeignJpegError("CMYK files are not decoded here")
        # A block takes one bit at least, in whatever kind of file: nobody claims a size, and the memory for it, for nothing.
        if len(memoryview(data).cast("B")) * 8 < -(-width // 8) * -(-height // 8):
            raise CorruptJpegError(f"the JPEG file has too few bytes for {width}x{height} pixels")
        out = self._texture(width, height, out, "COPY_DST")
        try:
            pixels = simplejpeg.decode_jpeg(data, "RGBA")
        except ValueError as error:
            if str(error).startswith("Unsupported"):  # 12-bit, lossless: what parse said is the better reason
                raise why from None
            raise CorruptJpegError(f"the JPEG file is broken: {error}") from None
        return self._upload_pixels(out, pixels)

    def _upload(self, file: JpegFile) -> None:
        layout = file.layout
        stream_bytes = len(file.stream)
        stream_words = -(-stream_bytes // 4)
        blocks = layout.rows * layout.mcus_per_row * layout.blocks_per_mcu
        # A coefficient takes two bits or more, so half the bit position is place enough; then a DC element per block.
        list_words = stream_bytes * 4 + blocks + 64
        chroma_samples = 64 * layout.rows * layout.mcus_per_row if layout.mcu_width > 8 else 0
        huffman = decoding_tables(file.huffman)
        frame = np.array(
            [
                layout.width,
                layout.height,
                layout.mcus_per_row,
                layout.rows,
                layout.segments_per_row,
                file.positions.size,
                stream_words,
                list_words,
                *huffman.long_codes,
                _threads_per_entry(file),
                0,
                0,
                0,
            ],
            np.uint32,
        )
        entries = np.zeros((file.positions.size + 1, 2), np.uint32)
        entries[:-1, 0] = file.positions
        entries[:-1, 1] = file.first_segments
        entries[-1] = stream_bytes * 8, layout.rows * layout.segments_per_row
        quantisers = file.quantisers.tobytes()
        # All buffers before the first write: a frame that does not fit leaves everything as it was.
        self._reserve("frame", frame.nbytes)
        self._reserve("stream", 4 * stream_words)
        self._reserve("entries", entries.nbytes)
        self._reserve("tables", 4 * 192)
        self._reserve("list", 4 * list_words)
        self._reserve("segments", 16 * layout.rows * layout.segments_per_row)
        self._reserve("entry_dc", 16 * file.positions.size)
        self._reserve("chroma", 4 * chroma_samples)
        self._reserve("huffman", huffman.words.nbytes)

        write = self._device.queue.write_buffer
        write(self._buffers["frame"], 0, frame)
        self._write_bytes("stream", file.stream)
        write(self._buffers["entries"], 0, entries)
        if file.huffman != self._huffman:
            write(self._buffers["huffman"], 0, huffman.words)
            self._huffman = file.huffman
        if quantisers != self._quantisers:
            write(self._buffers["tables"], 0, dequantisation_table(file.quantisers))
            self._quantisers = quantisers

    def _reserve(self, name: str, size: int) -> bool:
        is_new = super()._reserve(name, size)
        if is_new and name == "huffman":
            self._huffman = ()
        elif is_new and name == "tables":
            self._quantisers = b""
        return is_new
