"""Huffman tables that follow the content: right, within their limits, and as short as can be."""

import gc
import heapq
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rfb_gpu.codecs.jpeg.huffman import HISTOGRAM_PARTS, STANDARD_TABLES, AdaptiveHuffman
from rfb_gpu.codecs.jpeg.tables import STANDARD_HUFFMAN, fitted_table
from rfb_gpu.codecs.prefix_codes import code_lengths

SIZES = {"ac_luma": 256, "ac_chroma": 256, "dc_luma": 16, "dc_chroma": 16}


def huffman_cost(counts):
    """Bits that the best code without a limit takes: what two least ones together weigh, again and again."""
    heap = [int(count) for count in counts]
    heapq.heapify(heap)
    cost = 0
    while len(heap) > 1:
        cost += (both := heapq.heappop(heap) + heapq.heappop(heap))
        heapq.heappush(heap, both)
    return cost


def test_a_table_is_freed_with_what_was_derived_from_it():
    """A canvas gets new ones with every other picture."""
    table = fitted_table("ac_luma", np.arange(256))
    assert len(table.codes) == 162
    reference = weakref.ref(table)
    del table
    gc.collect()
    assert reference() is None


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=60))
def test_without_a_limit_that_matters_it_is_huffmans_code(counts):
    lengths = code_lengths(counts, np.full(len(counts), 60))
    assert np.isclose(np.sum(2.0**-lengths), 1)
    assert int(np.dot(counts, lengths)) == huffman_cost(counts)


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=6), st.data())
def test_within_limits_no_code_is_better(counts, data):
    size = len(counts)
    limits = np.array(data.draw(st.lists(st.integers(3, 5), min_size=size, max_size=size)))
    lengths = code_lengths(counts, limits)
    assert np.all(lengths <= limits)
    assert np.sum(2.0**-lengths) <= 1
    grid = np.stack(np.meshgrid(*[np.arange(1, limit + 1) for limit in limits], indexing="ij"), -1).reshape(
        -1, size
    )
    possible = grid[np.sum(2.0**-grid, 1) <= 1]
    assert np.dot(counts, lengths) == (possible @ np.array(counts)).min()


@pytest.mark.parametrize("name", SIZES)
@given(seed=st.integers(0, 10**6), spread=st.floats(0, 12))
def test_every_symbol_has_a_code_that_is_not_too_long(name, seed, spread):
    counts = np.random.default_rng(seed).lognormal(0, spread, SIZES[name]).clip(max=1e9).astype(np.uint32)
    table = fitted_table(name, counts)
    standard = STANDARD_HUFFMAN[name].lengths(SIZES[name])
    lengths = table.lengths(SIZES[name])
    np.testing.assert_array_equal(lengths > 0, standard > 0)
    assert np.all(lengths <= np.minimum(standard + 2, 16))
    # Prefix-free with room to spare: T.81 reserves the code of ones only.
    assert np.sum(2.0 ** -lengths[lengths > 0]) < 1
    texts = sorted(f"{code:0{length}b}" for code, length in table.codes.values())
    assert all("0" in text for text in texts)
    assert len(set(texts)) == np.count_nonzero(lengths)


def histogram_of(seed, steepness):
    """Counts that fall off with the symbol's number, by table."""
    rng = np.random.default_rng(seed)
    histogram = np.zeros(544, np.uint32)
    for (_, part), table in zip(HISTOGRAM_PARTS.items(), STANDARD_TABLES, strict=True):
        symbols = rng.permutation(np.frombuffer(table.symbols, np.uint8)).astype(int)
        histogram[part.start + symbols] = 1e5 * np.exp(-steepness * np.arange(symbols.size))
    return histogram


def bits(tables, histogram):
    return sum(
        int(histogram[part] @ table.lengths(part.stop - part.start))
        for part, table in zip(HISTOGRAM_PARTS.values(), tables, strict=True)
    )


def observe(adaptive, histogram):
    """Until it has looked."""
    for _ in range(AdaptiveHuffman.EVERY):
        adaptive.observe(histogram)


def test_tables_change_when_that_pays_and_not_otherwise():
    adaptive = AdaptiveHuffman()
    histogram = histogram_of(1, 0.5)
    observe(adaptive, np.zeros(544, np.uint32))
    assert adaptive.tables is STANDARD_TABLES
    observe(adaptive, histogram)
    fitted = adaptive.tables
    assert bits(fitted, histogram) < 0.9 * bits(STANDARD_TABLES, histogram)
    noisy = histogram + np.random.default_rng(2).integers(0, 50, 544).astype(np.uint32) * (histogram > 0)
    for _ in range(100):
        adaptive.observe(noisy)
    assert adaptive.tables is fitted
    other = histogram_of(3, 0.5)
    observe(adaptive, other)
    assert adaptive.tables is not fitted
    assert bits(adaptive.tables, other) < 0.9 * bits(fitted, other)


def test_the_second_frame_is_coded_with_fitted_tables():
    adaptive = AdaptiveHuffman()
    adaptive.observe(histogram_of(1, 0.5))
    assert adaptive.tables is not STANDARD_TABLES
