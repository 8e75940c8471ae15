"""The file around the compressed rows: written for our encoder, parsed for our decoder. No GPU.

A file of ours is a PNG of 8 bits a sample, not interlaced, whose rows are one deflate block with codes of its own in one IDAT
chunk, and which has an index, so that a decoder can begin with every row at once. The index is a private, ancillary chunk, unsafe
to copy, before IDAT; other decoders skip it.

The index, ``rfIX``: version (u8), flags (u8; 1: matches reach into the row above), rows of a stripe (u8); and then LEB128 numbers.
The first is the byte of a row, its filter's number included, where its second part begins, a multiple of four less three; 0 if rows
are not cut. The others are for each part of each row, first to last, by how many bits it begins behind the part before, and the
first behind the beginning of the zlib stream: less the same number of the row above, and signs are folded in, so that 0, -1, 1, -2
are 0, 1, 2, 3.

In the first row of a stripe neither filters nor matches reach above. Matches reach back ``REACH_BACK`` bytes in their own row, and
to ``REACH`` bytes to either side of the place that they fill in the row above, and no farther. None goes beyond the end of its
part, or takes anything from the other one.

Nothing here trusts its input: :func:`parse` raises :class:`ForeignPngError` for files that our decoder does not take (another
decoder may) and :class:`CorruptPngError` for bytes that are no PNG. ``js/src/decoders/png-file.ts`` is the same in TypeScript.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .deflate import BlockHead, CorruptBlockError, read_head

__all__ = ["CorruptPngError", "ForeignPngError", "PngError", "PngFile", "index_data", "parse", "png_file"]

STRIPE_ROWS = 32
"""Mirrors shaders/png_rows.wgsl."""
REACH, REACH_BACK = 16, 128
"""Bytes. Mirrors png/inflate_rows.wgsl."""

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_INDEX_VERSION = 2
_REACHES_ABOVE = 1
_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}  # by channels: grayscale, truecolour, truecolour with alpha
_CHANNELS = {0: 1, 2: 3, 3: 1, 6: 4}  # by colour type
_INDEXED = 3
_MOST_SIDE = 2**31 - 1
_SHIFTS = 7 * np.arange(5)
_OPAQUE = 0xFF000000


class PngError(ValueError):
    """The bytes cannot be decoded here."""


class CorruptPngError(PngError):
    """The bytes are not a PNG file, or a broken one."""


class ForeignPngError(PngError):
    """A PNG that the GPU's decoder does not take: one without an index, which all but our own are. Other decoders may."""


def index_data(part_bits: NDArray[np.integer], reaches_above: bool, cut: int = 0) -> bytes:
    """The data of the index.

    Arguments:
        part_bits: the bit where each part of each row begins; shape (rows, parts), or (rows,).
        reaches_above: whether matches reach into the row above.
        cut: the byte of a row where its second part begins; 0 if there is one part.
    """
    places = part_bits.astype(np.int64).reshape(len(part_bits), -1)
    steps = np.diff(places.ravel(), prepend=0).reshape(places.shape)
    changes = np.diff(steps, prepend=0, axis=0).ravel()
    numbers = np.append(cut, changes << 1 ^ changes >> 63)
    parts = numbers[:, None] >> _SHIFTS
    follows = np.zeros_like(parts, bool)
    follows[:, :-1] = parts[:, 1:] > 0
    is_there = np.ones_like(follows)
    is_there[:, 1:] = follows[:, :-1]
    data = ((parts & 127) | follows * 128)[is_there].astype(np.uint8)
    return bytes([_INDEX_VERSION, _REACHES_ABOVE * reaches_above, STRIPE_ROWS]) + data.tobytes()


def _parts(numbers: memoryview, rows: int) -> tuple[int, NDArray[np.uint32]]:
    """Where rows are cut, and the bit where each part begins, shape (rows, parts)."""
    data = np.frombuffer(numbers, np.uint8).astype(np.int64)
    ends = np.flatnonzero(data < 128)
    if not ends.size or ends[-1] != data.size - 1:
        raise CorruptPngError("the PNG file's index is cut off")
    starts = np.append(0, ends[:-1] + 1)
    place = np.arange(data.size) - np.repeat(starts, ends - starts + 1)
    if place.max() >= _SHIFTS.size:
        raise CorruptPngError("the PNG file's index has a number that is too large")
    found = np.add.reduceat((data & 127) << 7 * place, starts)
    cut = int(found[0])
    parts = 2 if cut else 1
    if found.size != 1 + parts * rows:
        raise CorruptPngError("the PNG file's index has not as many entries as the picture has rows")
    changes = (found[1:] >> 1 ^ -(found[1:] & 1)).reshape(rows, parts)
    steps = changes.cumsum(0)
    bits = steps.ravel().cumsum().reshape(rows, parts)
    if steps.min() < 0 or bits[-1, -1] >= 2**32:
        raise CorruptPngError("the PNG file's index points beyond the file")
    return cut, bits.astype(np.uint32)


def chunk(kind: bytes, *data: bytes | bytearray) -> bytes:
    """A chunk of a PNG file."""
    checksum = zlib.crc32(kind)
    for part in data:
        checksum = zlib.crc32(part, checksum)
    return b"".join([struct.pack(">I", sum(map(len, data))), kind, *data, struct.pack(">I", checksum)])


def png_file(
    width: int,
    height: int,
    channels: int,
    stream: bytes | bytearray,
    index: bytes,
    dpi: int | None = None,
    palette: NDArray[np.uint8] | None = None,
) -> bytes:
    """A PNG file of 8 bits a channel.

    Arguments:
        stream: the zlib stream of its rows.
        index: from :func:`index_data`.
        palette: shape (colours, 3); with one, the rows have 8 bits a pixel.
    """
    colour_type = _COLOUR_TYPES[channels] if palette is None else _INDEXED
    parts = [_SIGNATURE, chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, colour_type, 0, 0, 0))]
    if palette is not None:
        parts.append(chunk(b"PLTE", palette.tobytes()))
    if dpi is not None:
        parts.append(chunk(b"pHYs", struct.pack(">2IB", *[round(dpi / 0.0254)] * 2, 1)))
    return b"".join([*parts, chunk(b"rfIX", index), chunk(b"IDAT", stream), chunk(b"IEND")])


@dataclass(frozen=True)
class PngFile:
    """What the GPU needs of a file."""

    width: int
    height: int
    channels: int
    """Bytes of a pixel in the rows."""
    palette: NDArray[np.uint32] | None
    """RGBA, R lowest; shape (256,), black beyond the file's colours."""
    stream: memoryview
    """The zlib stream."""
    block: BlockHead
    cut: int
    """The byte of a row, its filter's number included, where its second part begins; 0 if rows are not cut."""
    part_bits: NDArray[np.uint32]
    """The bit of ``stream`` where each part of each row begins; shape (height, parts)."""
    reaches_above: bool

    @property
    def row_bytes(self) -> int:
        """Of a row, its filter's number included."""
        return 1 + self.width * self.channels


def _chunks(data: memoryview) -> dict[bytes, list[memoryview]]:
    """All chunks by name, their checksums compared."""
    if bytes(data[: len(_SIGNATURE)]) != _SIGNATURE:
        raise CorruptPngError("the bytes are no PNG file")
    found: dict[bytes, list[memoryview]] = {}
    at = len(_SIGNATURE)
    while b"IEND" not in found:
        if at + 12 > len(data):
            raise CorruptPngError("the PNG file is cut off")
        (length,) = struct.unpack_from(">I", data, at)
        if at + 12 + length > len(data):
            raise CorruptPngError("the PNG file is cut off")
        kind = bytes(data[at + 4 : at + 8])
        (checksum,) = struct.unpack_from(">I", data, at + 8 + length)
        if zlib.crc32(data[at + 4 : at + 8 + length]) != checksum:
            raise CorruptPngError(f"the PNG file is broken: its chunk {kind!r} has another checksum")
        found.setdefault(kind, []).append(data[at + 8 : at + 8 + length])
        at += 12 + length
    return found


def parse(data: bytes | bytearray | memoryview) -> PngFile:
    """Takes a file apart.

    Raises:
        ForeignPngError: the file has no index, or is of a kind that our encoder does not make.
        CorruptPngError: it is no PNG file, or broken.
    """
    chunks = _chunks(memoryview(data).cast("B"))
    header = chunks.get(b"IHDR", [memoryview(b"")])[0]
    if len(header) != 13 or b"IDAT" not in chunks:
        raise CorruptPngError("the PNG file has no header, or no picture")
    width, height, depth, colour_type, compression, filtering, interlacing = struct.unpack(">2I5B", header)
    if not (0 < width <= _MOST_SIDE and 0 < height <= _MOST_SIDE) or compression or filtering:
        raise CorruptPngError("the PNG file's header is broken")
    if depth != 8 or colour_type not in _CHANNELS or interlacing or b"tRNS" in chunks:
        raise ForeignPngError("the GPU decodes PNG files of 8 bits a sample, not interlaced, without tRNS")
    if b"rfIX" not in chunks or len(chunks[b"IDAT"]) != 1:
        raise ForeignPngError("the PNG file has no index, so it is not PngEncoder's")
    index = chunks[b"rfIX"][0]
    if len(index) < 3 or index[0] != _INDEX_VERSION or index[2] != STRIPE_ROWS:
        raise ForeignPngError("the PNG file's index is of another version of rfb_gpu")
    palette = None
    if colour_type == _INDEXED:
        colours = np.frombuffer(chunks.get(b"PLTE", [memoryview(b"")])[0], np.uint8)
        if colours.size % 3 or not 0 < colours.size <= 768:
            raise CorruptPngError("the PNG file's palette is broken")
        palette = np.full(256, _OPAQUE, np.uint32)
        palette[: colours.size // 3] |= colours.reshape(-1, 3).astype(np.uint32) @ np.array(
            [1, 256, 65536], np.uint32
        )
    stream = chunks[b"IDAT"][0]
    try:
        block = read_head(stream)
    except CorruptBlockError as error:
        raise CorruptPngError(f"the PNG file is broken: {error}") from None
    cut, part_bits = _parts(index[3:], height)
    if part_bits[0, 0] != block.stop or part_bits[-1, -1] >= 8 * len(stream):
        raise CorruptPngError("the PNG file's index points beyond its picture")
    if cut and (cut % 4 != 1 or cut > width * _CHANNELS[colour_type]):
        raise CorruptPngError("the PNG file's index cuts rows where they cannot be cut")
    return PngFile(
        width,
        height,
        _CHANNELS[colour_type],
        palette,
        stream,
        block,
        cut,
        part_bits,
        bool(index[1] & _REACHES_ABOVE),
    )
