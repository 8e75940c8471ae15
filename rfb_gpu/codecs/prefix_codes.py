"""Prefix codes of limited length, for JPEG and for PNG."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["code_lengths"]


def code_lengths(counts: ArrayLike, limits: ArrayLike) -> NDArray[np.int64]:
    """The lengths of the prefix code that takes the fewest bits for symbols that come ``counts`` times.

    Both arguments have shape (symbols,); no code is longer than its entry of ``limits``. Symbols of count 0 get a code as well.
    The package-merge method of Larmore and Hirschberg (1990), whose coins of denomination 2^-l are here only minted for symbols
    that may have l bits.
    """
    weights = np.asarray(counts, np.float64)
    limits = np.asarray(limits)
    order = np.argsort(weights, kind="stable")
    packages = np.empty(0)
    levels: list[tuple[NDArray[np.int64], NDArray[np.bool_]]] = []
    for level in range(int(limits.max()), 0, -1):
        leaves = order[limits[order] >= level]
        values = np.concatenate([weights[leaves], packages])
        ranks = np.argsort(values, kind="stable")
        is_leaf = ranks < leaves.size
        levels.append((leaves, is_leaf))
        merged = values[ranks]
        packages = merged[: merged.size // 2 * 2].reshape(-1, 2).sum(1)
    lengths = np.zeros(weights.size, np.int64)
    wanted = 2 * (weights.size - 1)
    for leaves, is_leaf in reversed(levels):
        chosen = int(np.count_nonzero(is_leaf[:wanted]))
        lengths[leaves[:chosen]] += 1
        wanted = 2 * (wanted - chosen)
    return lengths
