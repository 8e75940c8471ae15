"""The tables of baseline JPEG: zigzag order, quantisation, Huffman codes, and what the worst block can cost.

Pure NumPy, no GPU. Sources: ITU-T T.81 (the standard), Annex K for the example tables; the scaling of the quantisation tables
by ``quality`` is that of the IJG's library, which every encoder's users know; the scale factors of the fast DCT are those of
Arai, Agui and Nakajima (1988).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "AAN_SCALE",
    "STANDARD_HUFFMAN",
    "ZIGZAG",
    "HuffmanTable",
    "check_quality",
    "check_quantisation",
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

    @cache  # noqa: B019 - tables are few and small
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

    def packed(self, size: int) -> NDArray[np.uint32]:
        """``code << 5 | length`` by symbol, 0 where a symbol has no code: the form that the shaders read."""
        table = np.zeros(size, np.uint32)
        for symbol, (code, length) in self.codes().items():
            table[symbol] = code << 5 | length
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


@cache
def worst_case_block_bits(quantiser: bytes, chroma: bool) -> int:
    """Upper bound of the bits that one entropy-coded block takes with the standard Huffman tables, DC included.

    ``quantiser`` is its quantisation table, natural order.
    """
    kind = "chroma" if chroma else "luma"
    ac = STANDARD_HUFFMAN[f"ac_{kind}"].codes()
    dc = STANDARD_HUFFMAN[f"dc_{kind}"].codes()
    steps = np.frombuffer(quantiser, np.uint8)[ZIGZAG].astype(np.float64)

    sizes = np.arange(1, _AC_SIZE_MAX + 1)
    length = np.array([[ac[run << 4 | size][1] + size for size in sizes] for run in range(16)], np.float64)
    least_level = 2.0 ** (sizes - 1) - 0.5
    cost = (steps[:, None] * least_level[None, :]) ** 2

    def bound(price: float) -> float:
        best = np.zeros(BLOCK + 1)  # best[z]: most that the positions from z on can gain
        for z in range(BLOCK - 1, 0, -1):
            here = [best[z + 1]]
            for run in range(min(16, BLOCK - z)):
                gain = length[run] - price * cost[z + run]
                here.append(float(gain.max()) + best[z + run + 1])
            best[z] = max(here)
        return float(best[1]) + price * _ENERGY

    prices = np.geomspace(1e-7, 1e-1, 25)
    ac_bits = min(bound(price) for price in prices)
    dc_bits = max(length + size for size, (_, length) in dc.items() if size <= _DC_SIZE_MAX)
    # Runs of 16 zeros (ZRL) only lengthen a code when they stand before a coefficient; at most 3 fit in a block.
    zrl_bits = 3 * ac[0xF0][1]
    return int(np.ceil(ac_bits)) + dc_bits + zrl_bits + ac[0x00][1]
