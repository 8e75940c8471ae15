"""The tables against the standard's own numbers and libjpeg-turbo's."""

import io
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from rfb_gpu.codecs.jpeg.tables import (
    AAN_SCALE,
    STANDARD_HUFFMAN,
    ZIGZAG,
    check_quality,
    check_quantisation,
    quantisation_tables,
    worst_case_block_bits,
)
from tests.reference.jpeg import DCT


def libjpeg_tables(quality):
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "JPEG", quality=quality)
    return Image.open(io.BytesIO(file.getvalue())).quantization


@pytest.mark.parametrize("quality", range(1, 101))
def test_quantisation_tables_are_libjpegs(quality):
    ours = quantisation_tables(quality)
    theirs = libjpeg_tables(quality)
    assert ours[0].tolist() == theirs[0]
    assert ours[1].tolist() == theirs[1]


def test_zigzag_visits_every_coefficient_once_in_the_standards_order():
    assert sorted(ZIGZAG) == list(range(64))
    assert ZIGZAG[:10].tolist() == [0, 1, 8, 16, 9, 2, 3, 10, 17, 24]
    assert ZIGZAG[-4:].tolist() == [47, 55, 62, 63]


@pytest.mark.parametrize("name", STANDARD_HUFFMAN)
def test_huffman_tables_are_prefix_free_and_complete(name):
    codes = STANDARD_HUFFMAN[name].codes
    pairs = {run << 4 | size for run in range(16) for size in range(1, 11)}
    expected = set(range(12)) if name.startswith("dc") else {0x00, 0xF0} | pairs
    assert set(codes) == expected
    texts = sorted(f"{code:0{length}b}" for code, length in codes.values())
    assert all(not b.startswith(a) for a, b in pairwise(texts))
    assert "1" * 16 not in texts, "a code of ones only could not be told from padding"


def test_huffman_codes_are_the_ones_of_annex_k():
    assert STANDARD_HUFFMAN["ac_luma"].codes[0x00] == (0b1010, 4)
    assert STANDARD_HUFFMAN["ac_luma"].codes[0xF0] == (0b11111111001, 11)
    assert STANDARD_HUFFMAN["ac_luma"].codes[0xFA] == (0b1111111111111110, 16)
    assert STANDARD_HUFFMAN["ac_chroma"].codes[0xF0] == (0b1111111010, 10)
    assert STANDARD_HUFFMAN["dc_luma"].codes[11] == (0b111111110, 9)


def test_aan_scale_is_what_the_fast_transform_leaves():
    # Frequency 0 is a plain sum of 8 samples; the orthonormal one is that over sqrt(8).
    assert AAN_SCALE[0] == 1
    np.testing.assert_allclose(AAN_SCALE[4], np.sqrt(2) * np.cos(np.pi / 4))
    np.testing.assert_allclose(DCT @ DCT.T, np.eye(8), atol=1e-12)


@pytest.mark.parametrize("quality", [1, 25, 50, 80, 95, 100])
@pytest.mark.parametrize("chroma", [False, True])
def test_no_block_is_longer_than_the_worst_case(quality, chroma):
    """Blocks of random samples at full contrast, and blocks made to cost much, stay below the bound."""
    rng = np.random.default_rng(quality)
    table = quantisation_tables(quality)[int(chroma)].astype(float)
    ac = STANDARD_HUFFMAN["ac_chroma" if chroma else "ac_luma"].codes
    bound = worst_case_block_bits(quantisation_tables(quality)[int(chroma)].tobytes(), chroma)

    def bits(levels):
        total, run = ac[0][1] + 22, 0
        for level in levels[1:]:
            if level == 0:
                run += 1
                continue
            total += run // 16 * ac[0xF0][1]
            size = int(abs(level)).bit_length()
            total += ac[(run % 16) << 4 | size][1] + size
            run = 0
        return total

    longest = 0
    for _ in range(300):
        samples = (
            rng.choice([-128.0, 127.0], (8, 8)) if rng.random() < 0.5 else rng.integers(-128, 128, (8, 8))
        )
        levels = np.rint((DCT @ samples @ DCT.T).ravel() / table)[ZIGZAG]
        longest = max(longest, bits(levels))
    assert longest <= bound
    assert bound <= 1660, "no block can be longer than 63 of the longest symbols"


@pytest.mark.parametrize("bad", [0, 101, -5])
def test_quality_out_of_range(bad):
    with pytest.raises(ValueError, match="from 1 to 100"):
        check_quality(bad)


@pytest.mark.parametrize(
    "bad",
    [np.ones((2, 7, 8), int), np.zeros((2, 8, 8), int), np.full((2, 64), 256), np.ones((2, 8, 8)), [1, 2]],
)
def test_bad_quantisation_tables(bad):
    with pytest.raises(ValueError, match="quantisation"):
        check_quantisation(bad)


@pytest.mark.parametrize("bad", [80.5, "80", None, True])
def test_quality_of_another_type(bad):
    with pytest.raises(TypeError, match="whole number"):
        check_quality(bad)
