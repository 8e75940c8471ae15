"""The file around the entropy-coded bytes: written for our encoder, parsed for our decoder. Pure Python, no GPU.

A file of ours is a baseline JPEG (ITU-T T.81, T.871) with a restart marker after every MCU row and, where it is worth its bytes, an
index in APP9 markers that lets a decoder start in many places at once. Other decoders skip the index.

The index: ``"RFBG" 0``, version (u8), how many bits a count has (u8, 1 to 15), number of the marker's first word (u32); then words
of 16 bits. Little-endian, unlike the rest of the file. A word is an entry: its low bits, so many as just said, count its segments
(:class:`Layout`); the others count the bits of the stream from its start to the start of the next one, with stuffing, padding
and restart markers. Where these are too few, a word with a count of 0 goes before it, which has the higher bits of the number.
Every MCU row begins an entry. More than ``INDEX_WORDS_PER_MARKER`` words take several markers. Entries hold many segments where
there is little to decode and few where there is much, because a decoder is done when the longest one is.

Nothing here trusts its input: :func:`parse` raises :class:`ForeignJpegError` for files that our decoder does not take (another
decoder may) and :class:`CorruptJpegError` for bytes that are no JPEG.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .tables import STANDARD_HUFFMAN, ZIGZAG, HuffmanTable

__all__ = [
    "FIRST_ENTRY_WORK",
    "FITTED_INDEX_BUDGET",
    "SUBSAMPLINGS",
    "CorruptJpegError",
    "ForeignJpegError",
    "JpegError",
    "JpegFile",
    "Layout",
    "entry_work",
    "file_head",
    "index_markers",
    "parse",
]

_STANDARD_HUFFMAN = tuple(STANDARD_HUFFMAN[name] for name in ("dc_luma", "ac_luma", "dc_chroma", "ac_chroma"))

_LUMA_SAMPLING = {"444": (1, 1), "422": (2, 1), "420": (2, 2), "gray": (1, 1)}
"""Luma blocks of an MCU, across and down; chroma, where there is any, has one of each."""

_MCUS_PER_SEGMENT = {"444": 2, "422": 2, "420": 1, "gray": 6}

SUBSAMPLINGS = ("444", "422", "420", "gray")

INDEX_WORDS_PER_MARKER = 32_000
INDEX_BUDGET, FITTED_INDEX_BUDGET = 1 / 80, 1 / 30
"""An index may take this share of the entropy-coded bytes; without it, decoders start at restart markers only. The second where
fitted Huffman tables save more than that: the time to decode is that of the longest entry."""

_INDEX_HEAD = struct.Struct("<5sBBI")
_INDEX_NAME = b"RFBG\0"
_INDEX_VERSION = 4
_WORD_BITS = 16
_ENTRY_BYTES = 2
_OVER_BUDGET = 1.1
"""Shares are known beforehand only about."""

# Mirrors place_spans.wgsl.
BLOCK_WORK = 3
FIRST_ENTRY_WORK = 2400
"""In bits: for a frame without another before it, and for all with the standard's Huffman tables, which depend on no other."""

_SOI, _SOS, _DQT, _DHT, _DRI, _SOF0 = 0xD8, 0xDA, 0xDB, 0xC4, 0xDD, 0xC0
_END_OF_IMAGE = b"\xff\xd9"
_APP0, _APP9 = 0xE0, 0xE9
_RST0, _RST7 = 0xD0, 0xD7
_OTHER_SOF = {0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF}


class JpegError(ValueError):
    """The bytes cannot be decoded here."""


class CorruptJpegError(JpegError):
    """The bytes are not a JPEG file, or a broken one."""


class ForeignJpegError(JpegError):
    """A JPEG that the GPU's decoder does not take: progressive, another subsampling, no restart markers. Other decoders may."""


@dataclass(frozen=True)
class Layout:
    """How a frame of a size and subsampling divides into MCUs and segments."""

    width: int
    height: int
    subsampling: str

    @cached_property
    def is_subsampled(self) -> bool:
        """4:2:0."""
        return self.subsampling == "420"

    @cached_property
    def is_gray(self) -> bool:
        """Luma only."""
        return self.subsampling == "gray"

    @cached_property
    def luma_across(self) -> int:
        """Luma blocks side by side in an MCU."""
        return _LUMA_SAMPLING[self.subsampling][0]

    @cached_property
    def luma_down(self) -> int:
        """Luma blocks one below the other in an MCU."""
        return _LUMA_SAMPLING[self.subsampling][1]

    @cached_property
    def mcu_width(self) -> int:
        """Pixels."""
        return 8 * self.luma_across

    @cached_property
    def mcu_height(self) -> int:
        """Pixels."""
        return 8 * self.luma_down

    @cached_property
    def mcu_size(self) -> int:
        """Side of an MCU in pixels."""
        return self.mcu_height

    @cached_property
    def blocks_per_mcu(self) -> int:
        """Those of luma, and one each of Cb and Cr unless the picture is gray."""
        return self.luma_across * self.luma_down + (0 if self.is_gray else 2)

    @cached_property
    def mcus_per_segment(self) -> int:
        """From one place where decoding can start to the next."""
        return _MCUS_PER_SEGMENT[self.subsampling]

    @cached_property
    def segment_blocks(self) -> int:
        """6, in 4:2:2 8."""
        return self.mcus_per_segment * self.blocks_per_mcu

    @cached_property
    def mcus_per_row(self) -> int:
        """Also the restart interval."""
        return -(-self.width // self.mcu_width)

    @cached_property
    def rows(self) -> int:
        """MCU rows."""
        return -(-self.height // self.mcu_height)

    @cached_property
    def segments_per_row(self) -> int:
        """The last one may be short."""
        return -(-self.mcus_per_row // self.mcus_per_segment)

    @cached_property
    def constants(self) -> dict[str, bool | int | float]:
        """What the WGSL stages are specialised by."""
        return {
            "SUBSAMPLED": self.is_subsampled,
            "MCU_SIZE": self.mcu_size,
            "BLOCKS_PER_MCU": self.blocks_per_mcu,
            "MCUS_PER_SEGMENT": self.mcus_per_segment,
            "MCU_WIDTH": self.mcu_width,
            "MCU_HEIGHT": self.mcu_height,
            "LUMA_ACROSS": self.luma_across,
            "LUMA_DOWN": self.luma_down,
        }


def _marker(code: int, payload: bytes = b"") -> bytes:
    return struct.pack(">BBH", 0xFF, code, len(payload) + 2) + payload


_HUFFMAN_SLOTS = (0x00, 0x10, 0x01, 0x11)
"""Class and number of the tables that a scan of ours uses: DC luma, AC luma, DC chroma, AC chroma."""

_SCAN = bytes([3, 1, 0x00, 2, 0x11, 3, 0x11, 0, 63, 0])
_GRAY_SCAN = bytes([1, 1, 0x00, 0, 63, 0])


def file_head(
    layout: Layout,
    quantisers: NDArray[np.uint8],
    dpi: int | None = None,
    huffman: Sequence[HuffmanTable] = _STANDARD_HUFFMAN,
) -> tuple[bytes, bytes]:
    """What stands before the entropy-coded bytes, in two parts: the index goes between them.

    Arguments:
        layout: of the frame.
        quantisers: the tables for luma and chroma, shape (2, 64), natural order.
        dpi: the pixel density for print programs; None says only that pixels are square.
        huffman: the tables that the stream is coded with: DC luma, AC luma, DC chroma, AC chroma.

    A gray file has the luma tables only; the others need not be given.
    """
    density = struct.pack(">BHH", 0 if dpi is None else 1, dpi or 1, dpi or 1)
    first = bytes([0xFF, _SOI]) + _marker(_APP0, b"JFIF\0\x01\x02" + density + b"\0\0")
    components = bytes([1, layout.luma_across << 4 | layout.luma_down, 0])
    if not layout.is_gray:
        components += bytes([2, 0x11, 1, 3, 0x11, 1])
    kinds = 1 if layout.is_gray else 2
    rest = _marker(
        _DQT, b"".join(bytes([slot]) + quantisers[slot][ZIGZAG].tobytes() for slot in range(kinds))
    )
    rest += _marker(
        _SOF0, struct.pack(">BHHB", 8, layout.height, layout.width, len(components) // 3) + components
    )
    for slot, table in zip(_HUFFMAN_SLOTS[: 2 * kinds], huffman, strict=False):
        rest += _marker(_DHT, bytes([slot, *table.counts]) + table.symbols)
    if layout.rows > 1:
        rest += _marker(_DRI, struct.pack(">H", layout.mcus_per_row))
    rest += _marker(_SOS, _GRAY_SCAN if layout.is_gray else _SCAN)
    return first, rest


def index_markers(
    layout: Layout, entries: NDArray[np.integer], stream_bytes: int, budget: float = INDEX_BUDGET
) -> bytes:
    """The APP9 markers for a stream, or nothing where an index is not worth it or cannot be written.

    Arguments:
        layout: of the frame.
        entries: for each the bit position in the stream and the number of the first segment, in their order, shape (entries, 2);
            every MCU row begins one.
        stream_bytes: length of the stream with all markers.
        budget: which share of that it may take, about.
    """
    # Few operations on short rows of 32 bits: this is on the thread that draws, once a frame.
    positions, first = np.ascontiguousarray(entries.T, np.uint32)
    affordable = stream_bytes * budget * _OVER_BUDGET / _ENTRY_BYTES
    while True:
        if first.size < 2 * layout.rows:
            return b""
        if first.size <= affordable:
            count_bits, words = _index_words(layout, positions, first, stream_bytes)
            if words.size <= affordable:
                break
        # A frame of much fewer bytes than the one before, or entries of two words.
        begins_row = first % layout.segments_per_row == 0
        keep = begins_row | (np.arange(first.size) % 2 == 0)
        if keep.all():
            keep = begins_row
        positions, first = positions[keep], first[keep]
    if words.size == 0:
        return b""
    coded = words.astype("<u2")
    markers = []
    for start in range(0, coded.size, INDEX_WORDS_PER_MARKER):
        head = _INDEX_HEAD.pack(_INDEX_NAME, _INDEX_VERSION, count_bits, start)
        markers.append(_marker(_APP9, head + coded[start : start + INDEX_WORDS_PER_MARKER].tobytes()))
    return b"".join(markers)


def _index_words(
    layout: Layout, positions: NDArray[np.uint32], first: NDArray[np.uint32], stream_bytes: int
) -> tuple[int, NDArray[np.integer]]:
    """How many bits a count has, and the words; none where two for an entry would not do."""
    bits, counts = np.empty_like(positions), np.empty_like(first)
    np.subtract(positions[1:], positions[:-1], bits[:-1])
    np.subtract(first[1:], first[:-1], counts[:-1])
    bits[-1] = stream_bytes * 8 - int(positions[-1])
    counts[-1] = layout.rows * layout.segments_per_row - int(first[-1])
    count_bits = int(counts.max()).bit_length()
    if int(bits.max()) >> 2 * (_WORD_BITS - count_bits):
        return count_bits, bits[:0]
    words = bits << count_bits | counts
    high = words >> _WORD_BITS
    if high.any():
        at = np.flatnonzero(high)
        words = np.insert(words, at, high[at] << count_bits)
    return count_bits, words


def entry_work(layout: Layout, stream_bytes: int, capacity: int, budget: float = INDEX_BUDGET) -> int:
    """About how much work an entry shall be so that the index of a stream of this length takes its budget: bits, and
    ``BLOCK_WORK`` for each block. In steps, since it need not be exact and every change is an upload.

    ``capacity`` is the most entries that there may be.
    """
    work = 8 * stream_bytes + layout.rows * layout.segments_per_row * layout.segment_blocks * BLOCK_WORK
    entries = min(stream_bytes * budget / _ENTRY_BYTES, 0.9 * capacity) - layout.rows / 2
    exact = work / max(entries, layout.rows)
    return int(2 ** (np.ceil(16 * np.log2(max(exact, 1))) / 16))


@dataclass(frozen=True)
class JpegFile:
    """A parsed file: everything that the decode stages need, bounds already checked."""

    layout: Layout
    quantisers: NDArray[np.uint8]
    """Per component (Y, Cb, Cr), zigzag order: shape (3, 64), or (1, 64) for gray."""
    huffman: tuple[HuffmanTable, ...]
    """DC luma, AC luma, DC chroma, AC chroma; of gray the first two."""
    stream: memoryview
    """The entropy-coded bytes, with stuffing and restart markers, without EOI."""
    positions: NDArray[np.uint32]
    """Bit position in ``stream`` of every entry, a place where decoding can start; in the order of the stream."""
    first_segments: NDArray[np.uint32]
    """The segment that each entry begins with, counted over all rows; every row begins an entry."""


def _segments(data: memoryview) -> Iterator[tuple[int, memoryview, int]]:
    """Marker code, payload, and offset after it, from SOI up to and including SOS."""
    if len(data) < 4 or data[0] != 0xFF or data[1] != _SOI:
        raise CorruptJpegError("not a JPEG file: it does not begin with an SOI marker")
    at = 2
    while True:
        if at + 4 > len(data):
            raise CorruptJpegError("the JPEG file ends before its image data")
        if data[at] != 0xFF:
            raise CorruptJpegError(f"a marker is missing at byte {at} of the JPEG file")
        code = data[at + 1]
        if code == 0xFF:  # fill byte
            at += 1
            continue
        length = data[at + 2] << 8 | data[at + 3]
        if length < 2 or at + 2 + length > len(data):
            raise CorruptJpegError(f"the marker at byte {at} of the JPEG file has an impossible length")
        yield code, data[at + 4 : at + 2 + length], at + 2 + length
        at += 2 + length


def _parse_huffman(payload: memoryview, tables: dict[int, HuffmanTable]) -> None:
    while len(payload):
        if len(payload) < 17:
            raise CorruptJpegError("a Huffman table is cut off")
        slot, counts = payload[0], tuple(payload[1:17])
        total = sum(counts)
        code = 0
        for length, count in enumerate(counts, 1):
            code += count
            if code > 1 << length:
                raise CorruptJpegError("a Huffman table has more codes than fit")
            code <<= 1
        if total > 256 or len(payload) < 17 + total:
            raise CorruptJpegError("a Huffman table is cut off")
        tables[slot] = HuffmanTable(counts, bytes(payload[17 : 17 + total]))
        payload = payload[17 + total :]


def _parse_quantisers(payload: memoryview, tables: dict[int, bytes]) -> None:
    while len(payload):
        if payload[0] >> 4:
            raise ForeignJpegError("16-bit quantisation tables are not decoded here")
        if len(payload) < 65:
            raise CorruptJpegError("a quantisation table is cut off")
        tables[payload[0]] = bytes(payload[1:65])
        payload = payload[65:]


_Entries = tuple[NDArray[np.uint32], NDArray[np.uint32]]


def _restart_entries(stream: memoryview, layout: Layout) -> _Entries:
    """Position and first segment of every row, by looking for the restart markers."""
    raw = np.frombuffer(stream, np.uint8)
    ff = np.flatnonzero(raw[:-1] == 0xFF) if raw.size > 1 else np.empty(0, np.int64)
    following = raw[ff + 1]
    markers = ff[(following >= _RST0) & (following <= _RST7)]
    if markers.size != layout.rows - 1:
        raise CorruptJpegError(
            f"the JPEG file has {markers.size} restart markers where {layout.rows - 1} belong"
        )
    positions = np.concatenate([[0], (markers + 2) * 8])
    return positions.astype(np.uint32), np.arange(layout.rows, dtype=np.uint32) * layout.segments_per_row


def _index_entries(parts: dict[int, tuple[int, bytes]], layout: Layout, stream_bytes: int) -> _Entries:
    """Position and first segment of every entry, from the index; ValueError when it does not fit the file.

    ``parts`` has of each marker, by the number of its first word, how many bits a count has, and the words.
    """
    all_bits, all_counts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    words_before = 0
    for first_word, (count_bits, part) in sorted(parts.items()):
        size, rest = divmod(len(part), _WORD_BITS // 8)
        if first_word != words_before or rest:
            raise ValueError("a part is missing or cut off")
        words = np.frombuffer(part, "<u2").astype(np.int64)
        counts, bits = words & (1 << count_bits) - 1, words >> count_bits
        bits[counts == 0] <<= _WORD_BITS - count_bits
        all_bits.append(bits)
        all_counts.append(counts)
        words_before += size
    bits, counts = np.concatenate(all_bits), np.concatenate(all_counts)
    is_entry = counts > 0
    ends = np.cumsum(bits)[is_entry]
    positions = np.append(0, ends[:-1])
    first = (np.cumsum(counts) - counts)[is_entry]
    begins_row = first % layout.segments_per_row == 0
    if counts.sum() != layout.rows * layout.segments_per_row or begins_row.sum() != layout.rows:
        raise ValueError("an entry goes beyond its row, or rows are too few or too many")
    if ends[-1] > stream_bytes * 8 or np.any(positions[begins_row] % 8):
        raise ValueError("entries point outside")
    return positions.astype(np.uint32), first.astype(np.uint32)


def parse(data: bytes | bytearray | memoryview) -> JpegFile:
    """Takes a JPEG file apart, as far as our decoder takes it.

    Raises:
        CorruptJpegError: no JPEG, or a broken one.
        ForeignJpegError: progressive or arithmetic coding, other than 4:4:4, 4:2:2, 4:2:0 or gray, more than one scan, or no
            restart marker per MCU row.
    """
    view = memoryview(data).cast("B").toreadonly()
    quantisers: dict[int, bytes] = {}
    huffman: dict[int, HuffmanTable] = {}
    index: dict[int, tuple[int, bytes]] = {}
    layout: Layout | None = None
    component_quantisers: list[int] = []
    restart_interval = 0
    scan = b""
    start = 0

    for code, payload, after in _segments(view):
        if code == _DQT:
            _parse_quantisers(payload, quantisers)
        elif code == _DHT:
            _parse_huffman(payload, huffman)
        elif code == _DRI and len(payload) == 2:
            restart_interval = payload[0] << 8 | payload[1]
        elif code == _APP9 and len(payload) >= _INDEX_HEAD.size:
            name, version, count_bits, first_word = _INDEX_HEAD.unpack_from(payload)
            if name == _INDEX_NAME and version == _INDEX_VERSION and 0 < count_bits < _WORD_BITS:
                index[first_word] = count_bits, bytes(payload[_INDEX_HEAD.size :])
        elif code in _OTHER_SOF:
            raise ForeignJpegError(
                "only baseline JPEG is decoded here, not progressive, lossless or arithmetic-coded files"
            )
        elif code == _SOF0:
            layout, component_quantisers = _parse_frame(payload)
        elif code == _SOS:
            scan, start = bytes(payload), after
            break

    if layout is None:
        raise CorruptJpegError("the JPEG file has no frame header before its image data")
    if scan != (_GRAY_SCAN if layout.is_gray else _SCAN):
        raise ForeignJpegError("only one scan of all components is decoded here")
    if layout.rows > 1 and restart_interval != layout.mcus_per_row:
        raise ForeignJpegError("only files with a restart marker per MCU row are decoded here")
    try:
        tables = tuple(huffman[slot] for slot in _HUFFMAN_SLOTS[: 2 if layout.is_gray else 4])
        quantiser_rows = np.frombuffer(
            b"".join(quantisers[q] for q in component_quantisers), np.uint8
        ).reshape(-1, 64)
    except KeyError:
        raise CorruptJpegError("the JPEG file lacks a table that it uses") from None

    stream = view[start:]
    if bytes(stream[-2:]) == _END_OF_IMAGE:
        stream = stream[:-2]
    if not len(stream):
        raise CorruptJpegError("the JPEG file ends before its image data")
    # A block takes at least one bit for DC and one for its end. So nobody claims a size, and the memory for it, for nothing.
    if len(stream) * 8 < 2 * layout.rows * layout.mcus_per_row * layout.blocks_per_mcu:
        raise CorruptJpegError(
            f"the JPEG file has {len(stream)} bytes of image data, too few for {layout.width}x{layout.height} pixels"
        )
    try:
        positions, first_segments = _index_entries(index, layout, len(stream) + 2)
    except (ValueError, IndexError):
        # Something may follow the image; it is looked for only here, because looking takes time.
        if (end := bytes(stream).find(_END_OF_IMAGE)) >= 0:
            stream = stream[:end]
        try:
            positions, first_segments = _index_entries(index, layout, len(stream) + 2)
        except (ValueError, IndexError):
            # There is none, or whoever changed the file left it behind: restart markers tell the truth.
            positions, first_segments = _restart_entries(stream, layout)
    return JpegFile(layout, quantiser_rows, tables, stream, positions, first_segments)


_SUBSAMPLING_BY_FACTORS = {
    b"\x11\x11\x11": "444",
    b"\x21\x11\x11": "422",
    b"\x22\x11\x11": "420",
    b"\x11": "gray",
}


def _parse_frame(payload: memoryview) -> tuple[Layout, list[int]]:
    if len(payload) < 6:
        raise CorruptJpegError("the frame header is cut off")
    precision, height, width, components = struct.unpack_from(">BHHB", payload)
    if precision != 8:
        raise ForeignJpegError(f"files of {precision} bits a sample are not decoded here")
    if len(payload) != 6 + 3 * components:
        raise CorruptJpegError("the frame header has the wrong length")
    if not width or not height:
        raise CorruptJpegError("the JPEG file has no size")
    ids, factors, tables = bytes(payload[6::3]), bytes(payload[7::3]), list(payload[8::3])
    subsampling = _SUBSAMPLING_BY_FACTORS.get(factors)
    if ids != b"\x01\x02\x03"[: len(ids)] or subsampling is None:
        raise ForeignJpegError("only 4:4:4, 4:2:2, 4:2:0 and gray are decoded here")
    return Layout(width, height, subsampling), tables
