"""The codes of a deflate stream (RFC 1951): made for the tokens of ``shaders/png_tokens.wgsl``, and read from a file. No GPU.

A token is a literal (0 to 255), or the length of a match of 3 to 258 bytes (256 to 511), after which comes the number of its
distance (from 512 on).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..prefix_codes import code_lengths

__all__ = [
    "LONGEST_DISTANCE",
    "TOKENS",
    "BlockHead",
    "CorruptBlockError",
    "DeflateCodes",
    "adler32",
    "distance_table",
    "estimated_bits",
    "literal_table",
    "read_head",
]

TOKENS = 528
LONGEST_DISTANCE = 32768
_END_OF_BLOCK = 256
_SYMBOLS = 286
_LONGEST = 15
_LONGEST_OF_DISTANCES = 7  # so that a distance's code and extra bits come to 20 at most
_LONGEST_OF_LENGTHS = 7
_LENGTHS_ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)
_ZLIB_HEAD = b"\x78\x01"
_ADLER_BASE = 65521


def _match_symbols() -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Of the matches of 3 to 258 bytes: symbol, how many extra bits, and these."""
    above = np.arange(256)
    extra = np.maximum(np.floor(np.log2(np.maximum(above, 1))).astype(np.int64) - 2, 0)
    symbols = 257 + 4 * extra + (above >> extra)
    bits = above & ((1 << extra) - 1)
    symbols[255], extra[255], bits[255] = 285, 0, 0
    return symbols, extra, bits


_MATCH_SYMBOLS, _MATCH_EXTRA, _MATCH_BITS = _match_symbols()
_TOKEN_SYMBOLS = np.concatenate([np.arange(256), _MATCH_SYMBOLS])  # of literals and lengths
_TOKEN_EXTRA = np.concatenate([np.zeros(256, np.int64), _MATCH_EXTRA])


def _distance_symbol(distance: int) -> tuple[int, int, int]:
    """Symbol, how many extra bits, and these (RFC 1951, 3.2.5)."""
    above = distance - 1
    extra = max(above.bit_length() - 2, 0)
    return 2 * extra + (above >> extra), extra, above & ((1 << extra) - 1)


class _Bits:
    """Bits, lowest first."""

    def __init__(self) -> None:
        self.value = 0
        self.length = 0

    def put(self, value: int, length: int) -> None:
        self.value |= value << self.length
        self.length += length

    def __bytes__(self) -> bytes:
        return self.value.to_bytes(-(-self.length // 8), "little")


def _used_code_lengths(counts: NDArray[np.integer], longest: int) -> NDArray[np.int64]:
    """Code lengths of an alphabet, 0 for what does not come."""
    lengths = np.zeros(counts.size, np.int64)
    used = np.flatnonzero(counts)
    lengths[used] = 1 if used.size == 1 else code_lengths(counts[used], np.full(used.size, longest))
    return lengths


def _codes(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The canonical codes, first bit lowest, as deflate packs them (RFC 1951, 3.2.2)."""
    order = np.lexsort((np.arange(lengths.size), lengths))
    order = order[lengths[order] > 0]
    codes = np.zeros(lengths.size, np.int64)
    code, before = 0, 0
    for symbol in order:
        length = int(lengths[symbol])
        code <<= length - before
        codes[symbol] = int(f"{code:0{length}b}"[::-1], 2)
        code, before = code + 1, length
    return codes


def _runs(lengths: Iterable[int]) -> list[tuple[int, int, int]]:
    """Code lengths as symbols of the code length alphabet: symbol, extra bits, how many (RFC 1951, 3.2.7)."""
    found: list[tuple[int, int, int]] = []
    sequence = list(lengths)
    at = 0
    while at < len(sequence):
        value, run = sequence[at], 1
        while at + run < len(sequence) and sequence[at + run] == value:
            run += 1
        at += run
        if value == 0:
            while run >= 11:
                part = min(run, 138)
                found.append((18, part - 11, 7))
                run -= part
            if run >= 3:
                found.append((17, run - 3, 3))
                run = 0
        else:
            found.append((value, 0, 0))
            run -= 1
            while run >= 3:
                part = min(run, 6)
                found.append((16, part - 3, 2))
                run -= part
        found += [(value, 0, 0)] * run
    return found


class DeflateCodes:
    """One block with the Huffman codes that take the fewest bits for the tokens that come.

    Arguments:
        counts: how often each token comes, shape (528,).
        distances: of the tokens from 512 on, in bytes.
        is_sample: the counts are an estimate, so tokens that they lack get a code as well.
    """

    tokens: NDArray[np.uint32]
    """The bits of each token from bit 5 on, lowest first, and their number below: shape (528,)."""
    start: int
    """The bit of the zlib stream where the first token begins."""
    stop: int
    """The bit behind the last one, if they come as often as was said."""

    def __init__(
        self, counts: NDArray[np.integer], distances: Sequence[int], *, is_sample: bool = False
    ) -> None:
        symbol_counts = np.bincount(_TOKEN_SYMBOLS, counts[:512], _SYMBOLS) + is_sample
        symbol_counts[_END_OF_BLOCK] = 1
        lengths = _used_code_lengths(symbol_counts, _LONGEST)
        codes = _codes(lengths)
        self._end = int(codes[_END_OF_BLOCK]), int(lengths[_END_OF_BLOCK])
        token_lengths = np.zeros(TOKENS, np.int64)
        token_codes = np.zeros(TOKENS, np.int64)
        token_lengths[:512] = lengths[_TOKEN_SYMBOLS] + _TOKEN_EXTRA
        token_codes[:512] = codes[_TOKEN_SYMBOLS]
        token_codes[256:512] |= _MATCH_BITS << lengths[_MATCH_SYMBOLS]

        symbols, extra, bits = np.array([_distance_symbol(distance) for distance in distances]).T
        used = slice(512, 512 + len(distances))
        distance_counts = np.bincount(symbols, counts[used] + is_sample, 30)
        if not distance_counts.any():
            distance_counts[0] = 1  # there must be one
        distance_lengths = _used_code_lengths(distance_counts, _LONGEST_OF_DISTANCES)
        distance_codes = _codes(distance_lengths)
        token_lengths[used] = distance_lengths[symbols] + extra
        token_codes[used] = distance_codes[symbols] | bits << distance_lengths[symbols]

        self.tokens = (token_codes << 5 | token_lengths).astype(np.uint32)
        self._head = _head(lengths, distance_lengths)
        self.start = self._head.length
        self.stop = self.start + int(counts @ token_lengths)

    def zlib_stream(self, pieces: Iterable[bytes | memoryview], stop: int, checksum: int) -> bytearray:
        """The whole stream (RFC 1950).

        Arguments:
            pieces: its first bytes, where the bits from ``start`` to ``stop`` are those of the tokens, and others of
                their bytes are zero.
            stop: the bit behind the last token.
            checksum: Adler-32 of what it holds.
        """
        code, length = self._end
        size = -(-(stop + length) // 8)
        data = bytearray(b"".join(pieces)[: -(-stop // 8)])
        data += bytes(size - len(data))
        data[: self.start // 8] = bytes(self.start // 8)
        for at, bits in (
            (0, bytes(self._head)),
            (stop // 8, (code << stop % 8).to_bytes(4, "little")),
        ):
            for i, byte in enumerate(bits):
                if byte:
                    data[at + i] |= byte
        return data + checksum.to_bytes(4, "big")


def _head(lengths: NDArray[np.int64], distance_lengths: NDArray[np.int64]) -> _Bits:
    """What comes before the tokens: the zlib header, the block's header, the codes (RFC 1951, 3.2.7)."""
    count = max(int(np.flatnonzero(lengths)[-1]) + 1, 257)
    distances = int(np.flatnonzero(distance_lengths)[-1]) + 1
    runs = _runs([*map(int, lengths[:count]), *map(int, distance_lengths[:distances])])
    run_lengths = _used_code_lengths(np.bincount([run[0] for run in runs], minlength=19), _LONGEST_OF_LENGTHS)
    run_codes = _codes(run_lengths)
    sent = max(max(i for i, symbol in enumerate(_LENGTHS_ORDER) if run_lengths[symbol]) + 1, 4)
    bits = _Bits()
    bits.put(int.from_bytes(_ZLIB_HEAD, "little"), 16)
    bits.put(1, 1)  # the last block
    bits.put(2, 2)  # with codes of its own
    bits.put(count - 257, 5)
    bits.put(distances - 1, 5)
    bits.put(sent - 4, 4)
    for symbol in _LENGTHS_ORDER[:sent]:
        bits.put(int(run_lengths[symbol]), 3)
    for symbol, extra, extra_bits in runs:
        bits.put(int(run_codes[symbol]), int(run_lengths[symbol]))
        bits.put(extra, extra_bits)
    return bits


def estimated_bits(counts: NDArray[np.integer], distances: Sequence[int]) -> float:
    """About what the tokens take with codes made for them, without making these: the entropy of lengths and distances."""
    symbols, extra, _ = np.array([_distance_symbol(distance) for distance in distances]).T
    of_distances = counts[512 : 512 + len(distances)]
    bits = float(counts[:512] @ _TOKEN_EXTRA + of_distances @ extra)
    for alphabet in (np.bincount(_TOKEN_SYMBOLS, counts[:512]), np.bincount(symbols, of_distances)):
        present = alphabet[alphabet > 0]
        bits += float(present @ np.log2(present.sum() / present)) if present.size else 0.0
    return bits


def adler32(rows: NDArray[np.integer], row_bytes: int) -> int:
    """Adler-32 of rows of ``row_bytes`` bytes (RFC 1950), from sums over the bytes d of each row alone, modulo 65521.

    Arguments:
        rows: shape (rows, 2): the sum of d, and the sum of (row_bytes - position) * d.
    """
    sums, weighted = rows.astype(np.int64).T
    behind = np.arange(len(rows) - 1, -1, -1) * row_bytes  # bytes after a row
    low = 1 + int(sums.sum())
    high = len(rows) * row_bytes + int(weighted.sum()) + int((sums * (behind % _ADLER_BASE)).sum())
    return high % _ADLER_BASE << 16 | low % _ADLER_BASE


# ---- what comes in


class CorruptBlockError(ValueError):
    """The bytes are no zlib stream of one block with codes of its own."""


@dataclass(frozen=True)
class BlockHead:
    """The codes of a block, by their lengths."""

    literals: tuple[int, ...]
    """Of literals, the end of the block and lengths; up to 286."""
    distances: tuple[int, ...]
    """Up to 30, none longer than 7."""
    stop: int
    """The bit of the zlib stream behind the head."""


class _BitReader:
    """Bits from a stream, lowest first; zeros behind its end."""

    def __init__(self, data: bytes) -> None:
        self._value = int.from_bytes(data, "little")
        self.at = 0

    def take(self, count: int) -> int:
        value = self._value >> self.at & (1 << count) - 1
        self.at += count
        return value


_MOST_HEAD_BYTES = 1024
_LENGTH_RUNS = {16: (3, 2), 17: (3, 3), 18: (11, 7)}  # by symbol: least repetitions, extra bits


def read_head(stream: bytes | memoryview) -> BlockHead:
    """The head of a zlib stream and of its first block (RFC 1950, 2.2; RFC 1951, 3.2.7).

    Raises:
        CorruptBlockError: it has none, or not one that our encoder makes.
    """
    if len(stream) < 6 or (stream[0] << 8 | stream[1]) % 31 or stream[0] & 15 != 8 or stream[1] & 32:
        raise CorruptBlockError("it has no zlib stream")
    bits = _BitReader(bytes(stream[:_MOST_HEAD_BYTES]))
    bits.at = 16
    if bits.take(3) != 1 | 2 << 1:
        raise CorruptBlockError("its zlib stream is not one block with codes of its own")
    literal_count, distance_count, sent = 257 + bits.take(5), 1 + bits.take(5), 4 + bits.take(4)
    if literal_count > _SYMBOLS or distance_count > 30:
        raise CorruptBlockError("its codes are more than there can be")
    of_lengths = [0] * 19
    for symbol in _LENGTHS_ORDER[:sent]:
        of_lengths[symbol] = bits.take(3)
    symbols = {
        (length, code): symbol
        for symbol, (length, code) in enumerate(zip(of_lengths, _checked_codes(of_lengths), strict=True))
        if length
    }
    lengths: list[int] = []
    while len(lengths) < literal_count + distance_count:
        symbol = _next_symbol(bits, symbols)
        if symbol < 16:
            lengths.append(symbol)
            continue
        least, extra = _LENGTH_RUNS[symbol]
        if symbol == 16 and not lengths:
            raise CorruptBlockError("its codes repeat one before the first")
        lengths += [lengths[-1] if symbol == 16 else 0] * (least + bits.take(extra))
    if len(lengths) > literal_count + distance_count or bits.at > 8 * min(len(stream), _MOST_HEAD_BYTES):
        raise CorruptBlockError("its codes do not end where they should")
    literals, distances = tuple(lengths[:literal_count]), tuple(lengths[literal_count:])
    _checked_codes(literals)
    _checked_codes(distances)
    if max(distances) > _LONGEST_OF_DISTANCES:
        raise CorruptBlockError("its codes of distances are longer than our encoder makes them")
    return BlockHead(literals, distances, bits.at)


def _next_symbol(bits: _BitReader, symbols: dict[tuple[int, int], int]) -> int:
    code = 0
    for length in range(1, _LONGEST_OF_LENGTHS + 1):
        code |= bits.take(1) << length - 1
        if (length, code) in symbols:
            return symbols[length, code]
    raise CorruptBlockError("it has a code that is not in its table")


def _checked_codes(lengths: Sequence[int]) -> NDArray[np.int64]:
    """The codes of these lengths, if there are so many."""
    if sum(2.0**-length for length in lengths if length) > 1:
        raise CorruptBlockError("its codes are more than there can be")
    return _codes(np.array(lengths, np.int64))


# By symbol from 257 on, of the shortest match.
_SHORTEST = np.unique(_MATCH_SYMBOLS, return_index=True)[1]
_LENGTH_BASES, _LENGTH_EXTRAS = 3 + _SHORTEST, _MATCH_EXTRA[_SHORTEST]
_DISTANCE_EXTRAS = np.maximum(np.arange(30) // 2 - 1, 0)
_DISTANCE_BASES = np.array([1 + i if i < 4 else 1 + (2 + i % 2 << i // 2 - 1) for i in range(30)])


def _table(lengths: Sequence[int], words: NDArray[np.int64]) -> NDArray[np.uint32]:
    """For each next bits, as many as the longest code has, the word of the symbol that they begin with; 0 for none."""
    longest = max(*lengths, 1)
    table = np.zeros(1 << longest, np.uint32)
    for length, code, word in zip(lengths, _checked_codes(lengths), words, strict=False):
        if length:
            table[code :: 1 << length] = word | length
    return table


def literal_table(block: BlockHead) -> NDArray[np.uint32]:
    """What png/inflate_rows.wgsl reads for literals and lengths; shape (2^n,), n from 1 to 15."""
    words = np.zeros(_SYMBOLS, np.int64)
    words[:256] = np.arange(256) << 8
    words[257:] = _LENGTH_BASES << 8 | 1 << 7 | _LENGTH_EXTRAS << 4
    return _table(block.literals, words)


def distance_table(block: BlockHead) -> NDArray[np.uint32]:
    """What png/inflate_rows.wgsl reads for distances; shape (2^n,), n from 1 to 7."""
    return _table(block.distances, _DISTANCE_BASES << 8 | _DISTANCE_EXTRAS << 4)
