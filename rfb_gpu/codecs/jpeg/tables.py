"""The tables of baseline JPEG: zigzag order, quantisation, Huffman codes, and what the worst block can cost.

Pure NumPy, no GPU. Sources: ITU-T T.81 (the standard), Annex K for the example tables; the scaling of the quantisation tables
by ``quality`` is that of the IJG's library, which every encoder's users know; the scale factors of the fast DCT are those of
Arai, Agui and Nakajima (1988).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..prefix_codes import code_lengths

__all__ = [
    "AAN_SCALE",
    "STANDARD_HUFFMAN",
    "ZIGZAG",
    "HuffmanTable",
    "check_quality",
    "check_quantisation",
    "fitted_table",
    "quantisation_tables",
    "worst_case_block_bits",
]

BLOCK = 64
"""Coefficients in a block of 8x8."""


def _zigzag() -> NDArray[np.uint8]:
    """Natural index (row * 8 + column) of each position in zigzag order: diagonals, turning at every edge."""
    cells = [(row, column) for row in range(8) for column in range(8)]
    return np.array(
        [
            row * 8 + column
            for row, column in sorted(cells, key=lambda c: (sum(c), c[0] if sum(c) % 2 else c[1]))
        ],
        np.uint8,
    )


ZIGZAG: NDArray[np.uint8] = _zigzag()

_K = np.arange(8)
AAN_SCALE: NDArray[np.float64] = np.where(_K == 0, 1.0, np.sqrt(2) * np.cos(_K * np.pi / 16))
"""What the AAN transform leaves unscaled: its output for frequency k is ``AAN_SCALE[k] * sqrt(8)`` times the orthonormal one."""

# T.81 Annex K.1, natural order.
_LUMA = """
16 11 10 16  24  40  51  61   12 12 14 19  26  58  60  55   14 13 16 24  40  57  69  56   14 17 22 29  51  87  80  62
18 22 37 56  68 109 103  77   24 35 55 64  81 104 113  92   49 64 78 87 103 121 120 101   72 92 95 98 112 100 103  99
"""
_CHROMA = """
17 18 24 47 99 99 99 99   18 21 26 66 99 99 99 99   24 26 56 99 99 99 99 99   47 66 99 99 99 99 99 99
99 99 99 99 99 99 99 99   99 99 99 99 99 99 99 99   99 99 99 99 99 99 99 99   99 99 99 99 99 99 99 99
"""
_ANNEX_K1 = np.array([_LUMA.split(), _CHROMA.split()], np.int64)


def check_quality(quality: int) -> int:
    """``quality`` as an int, if it is a whole number from 1 to 100; else a ``ValueError`` or ``TypeError`` that says so."""
    if isinstance(quality, bool) or not isinstance(quality, (int, np.integer)):
        raise TypeError(f"quality must be a whole number from 1 to 100, not {quality!r}")
    if not 1 <= quality <= 100:
        raise ValueError(f"quality must be from 1 to 100, not {quality}")
    return int(quality)


def quantisation_tables(quality: int) -> NDArray[np.uint8]:
    """The luma and the chroma table for a quality of 1 to 100: shape (2, 64), natural order, values 1 to 255."""
    quality = check_quality(quality)
    percent = 5000 // quality if quality < 50 else 200 - 2 * quality
    return np.clip((_ANNEX_K1 * percent + 50) // 100, 1, 255).astype(np.uint8)


def check_quantisation(tables: ArrayLike) -> NDArray[np.uint8]:
    """Two tables, luma and chroma, as shape (2, 64), natural order; a ``ValueError`` that says so if they are something else."""
    array = np.asarray(tables)
    if array.shape not in ((2, 8, 8), (2, 64)):
        raise ValueError(
            f"quantisation must be two tables of 8x8, luma and chroma, not an array of shape {array.shape}"
        )
    if array.dtype.kind not in "iu" or array.min() < 1 or array.max() > 255:
        raise ValueError("quantisation tables hold whole numbers from 1 to 255")
    return array.reshape(2, 64).astype(np.uint8)


@dataclass(frozen=True)
class HuffmanTable:
    """One Huffman table as a DHT segment has it: how many codes of each length, and the symbols in order of their codes."""

    counts: tuple[int, ...]
    """Number of codes of 1 to 16 bits."""
    symbols: bytes

    @cached_property
    def codes(self) -> dict[int, tuple[int, int]]:
        """Symbol -> (code, length in bits), by the canonical assignment of T.81 Annex C."""
        codes: dict[int, tuple[int, int]] = {}
        code, symbols = 0, iter(self.symbols)
        for length, count in enumerate(self.counts, 1):
            for _ in range(count):
                codes[next(symbols)] = (code, length)
                code += 1
            code <<= 1
        return codes

    def lengths(self, size: int) -> NDArray[np.int64]:
        """Bits of each symbol's code, 0 where it has none; shape (size,)."""
        table = np.zeros(size, np.int64)
        table[np.frombuffer(self.symbols, np.uint8)] = np.repeat(np.arange(1, 17), self.counts)
        return table


def _ac(counts: str, head: str) -> HuffmanTable:
    """An AC table of T.81 Annex K.3: all symbols that ``head`` does not spell out follow it in ascending order."""
    first = bytes.fromhex(head)
    every = (run << 4 | size for run in range(16) for size in range(1, 11))
    return HuffmanTable(
        tuple(map(int, counts.split())), first + bytes(symbol for symbol in every if symbol not in first)
    )


STANDARD_HUFFMAN: dict[str, HuffmanTable] = {
    "dc_luma": HuffmanTable((0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0), bytes(range(12))),
    "dc_chroma": HuffmanTable((0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0), bytes(range(12))),
    "ac_luma": _ac(
        "0 2 1 3 3 2 4 3 5 5 4 4 0 0 1 125",
        "01020300041105122131410613516107227114328191a1082342b1c11552d1f02433627282",
    ),
    "ac_chroma": _ac(
        "0 2 1 2 4 4 3 4 7 5 4 4 0 1 2 119",
        "000102031104052131061241510761711322328108144291a1b1c109233352f0156272d10a162434e125f1",
    ),
}


# Tables that follow the content.
#
# Every symbol has a code in every table, at most this many bits longer than its code in the standard's. A fitted table thus never
# costs much more than the standard one on a picture that it was not fitted to, and the worst case stays bounded. On pictures that
# it was fitted to, less than 0.7 % is lost by that (median of the five scenes at quality 80: 0.1 %).
_LONGER_BY = 2
_LONGEST = 16


def _limits(name: str) -> dict[int, int]:
    """The longest code that a symbol may have, by symbol."""
    return {
        symbol: min(length + _LONGER_BY, _LONGEST)
        for symbol, (_, length) in sorted(STANDARD_HUFFMAN[name].codes.items())
    }


def fitted_table(name: str, counts: NDArray[np.integer]) -> HuffmanTable:
    """The Huffman table that takes the fewest bits for these symbols.

    Arguments:
        name: one of ``STANDARD_HUFFMAN``, whose symbols it has and whose code lengths bound its own.
        counts: how often each symbol comes, by symbol.
    """
    limits = _limits(name)
    symbols = np.array(list(limits))
    # One code more, the rarest and so the last: T.81 reserves the code of all ones.
    weights = np.append(counts[symbols] + 1e-3, 0)
    lengths = code_lengths(weights, [*limits.values(), _LONGEST])
    order = np.lexsort((np.arange(weights.size), lengths))
    per_length = np.bincount(lengths[:-1], minlength=_LONGEST + 1)[1:]
    return HuffmanTable(tuple(map(int, per_length)), symbols[order[:-1]].astype(np.uint8).tobytes())


# How long the worst block can get.
#
# An orthonormal DCT keeps energy: 64 samples in -128..127 have coefficients c with sum(c^2) <= 64 * 128^2. A level L of size s
# (2^(s-1) <= |L|) needs |c| >= q * (2^(s-1) - 1/2). So a block cannot have large levels everywhere, and the longest code is the
# maximum of a knapsack: positions 1..63, items (run, size) that cover run + 1 positions, cost in energy, gain in bits. Its
# Lagrangian bound, gain - price * cost summed over the best chain plus price * budget, holds for every price >= 0; the least
# over a few prices is what we take. It is a bound, not an estimate: a buffer of this size cannot overflow.
_ENERGY = 64 * 128.0**2
_DC_SIZE_MAX = 11
_AC_SIZE_MAX = 10
_RUN_MAX = 15


@cache
def worst_case_block_bits(quantiser: bytes, chroma: bool) -> int:
    """Upper bound of the bits that one entropy-coded block takes with the standard Huffman tables or any fitted one, DC included.

    ``quantiser`` is its quantisation table, natural order.
    """
    kind = "chroma" if chroma else "luma"
    ac, dc = _limits(f"ac_{kind}"), _limits(f"dc_{kind}")
    steps = np.frombuffer(quantiser, np.uint8)[ZIGZAG].astype(np.float64)

    sizes = np.arange(1, _AC_SIZE_MAX + 1)
    length = np.array(
        [[ac[run << 4 | size] + size for size in sizes] for run in range(_RUN_MAX + 1)], np.float64
    )
    least_level = 2.0 ** (sizes - 1) - 0.5
    cost = (steps[:, None] * least_level[None, :]) ** 2
    prices = np.geomspace(1e-7, 1e-1, 25)
    # By run, position and price: the most that a level there can gain.
    gain = (length[:, None, :, None] - prices * cost[None, :, :, None]).max(2)

    best = np.zeros((BLOCK + 1, prices.size))  # best[z]: most that the positions from z on can gain
    for z in range(BLOCK - 1, 0, -1):
        runs = np.arange(min(_RUN_MAX + 1, BLOCK - z))
        best[z] = np.maximum(best[z + 1], (gain[runs, z + runs] + best[z + runs + 1]).max(0))
    ac_bits = (best[1] + prices * _ENERGY).min()
    dc_bits = max(dc[size] + size for size in range(_DC_SIZE_MAX + 1))
    # Runs of 16 zeros (ZRL) only lengthen a code when they stand before a coefficient; at most 3 fit in a block.
    return int(np.ceil(ac_bits)) + dc_bits + 3 * ac[0xF0] + ac[0x00]
