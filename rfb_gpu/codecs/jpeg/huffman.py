"""Huffman tables that follow the content: what an encoder keeps between frames. Pure NumPy, no GPU.

The GPU counts the symbols of a part of each frame; when tables fitted to them would save enough, the frames from then on use
those. Every file carries its tables, so a change needs nobody's consent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .tables import STANDARD_HUFFMAN, HuffmanTable, fitted_table

__all__ = ["HISTOGRAM_PARTS", "STANDARD_TABLES", "AdaptiveHuffman"]

# Mirrors encode_span.wgsl.
HISTOGRAM_PARTS: dict[str, slice] = {
    "ac_luma": slice(0, 256),
    "ac_chroma": slice(256, 512),
    "dc_luma": slice(512, 528),
    "dc_chroma": slice(528, 544),
}
"""Where a histogram of 544 counts has those of each table, by symbol."""

STANDARD_TABLES: tuple[HuffmanTable, ...] = tuple(STANDARD_HUFFMAN[name] for name in HISTOGRAM_PARTS)
"""Those of T.81 Annex K, in the order of ``HISTOGRAM_PARTS``."""

# Bits that follow a symbol's code: the lower half of an AC symbol, the whole DC symbol.
_EXTRA_BITS: NDArray[np.int64] = np.concatenate([np.tile(np.arange(256) & 15, 2), np.tile(np.arange(16), 2)])


def _lengths(tables: Sequence[HuffmanTable]) -> NDArray[np.int64]:
    return np.concatenate(
        [
            table.lengths(part.stop - part.start)
            for table, part in zip(tables, HISTOGRAM_PARTS.values(), strict=True)
        ]
    )


_STANDARD_LENGTHS = _lengths(STANDARD_TABLES)


class AdaptiveHuffman:
    """The tables for the next frame.

    Follows the histograms of the frames before: :meth:`observe` replaces ``tables`` when that saves ``WORTH_IT`` of the bytes, and
    whenever they have become worse than the standard's.
    """

    WORTH_IT = 0.02
    EVERY = 4
    """Frames from one look at the histogram to the next: it takes a tenth of a millisecond, on the thread that draws."""

    def __init__(self) -> None:
        self.tables = STANDARD_TABLES
        self._lengths = _lengths(self.tables)
        self._frames = 0
        self._unavoidable = 0.0  # above the entropy, by the best tables last time: a share of all bits

    def observe(self, histogram: NDArray[np.integer]) -> None:
        """Takes note of how often each symbol came: shape (544,), see ``HISTOGRAM_PARTS``."""
        self._frames += 1
        if self._frames % self.EVERY != 1:
            return
        code_bits = int(histogram @ self._lengths)
        entropy = sum(_entropy_bits(histogram[part]) for part in HISTOGRAM_PARTS.values())
        bits = code_bits + int(histogram @ _EXTRA_BITS)
        is_worse_than_standard = code_bits > int(histogram @ _STANDARD_LENGTHS)
        # Fitting takes half a millisecond, and comes to nothing where the gap to the entropy is what it was the last time.
        if code_bits - entropy <= (self._unavoidable + self.WORTH_IT) * bits and not is_worse_than_standard:
            return
        tables = tuple(fitted_table(name, histogram[part]) for name, part in HISTOGRAM_PARTS.items())
        lengths = _lengths(tables)
        fitted_bits = int(histogram @ lengths)
        self._unavoidable = (fitted_bits - entropy) / bits
        if code_bits - fitted_bits > self.WORTH_IT * bits or is_worse_than_standard:
            self.tables, self._lengths = tables, lengths


def _entropy_bits(counts: NDArray[np.integer]) -> float:
    """The Shannon entropy of all symbols together, in bits."""
    present = counts[counts > 0].astype(np.float64)
    return float(present @ np.log2(present.sum() / present)) if present.size else 0.0
