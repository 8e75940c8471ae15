"""Parsing: what is taken, what is refused, and that no bytes at all can do harm."""

import io
import struct

import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from rfb_gpu.codecs.jpeg.bitstream import (
    CorruptJpegError,
    ForeignJpegError,
    JpegError,
    Layout,
    entry_work,
    file_head,
    index_markers,
    parse,
)
from rfb_gpu.codecs.jpeg.tables import STANDARD_HUFFMAN, quantisation_tables
from tests.gpu.jpeg_files import reference_file
from tests.reference import jpeg as reference


def make_file(width=40, height=24, subsampling="444", quality=80, with_index=True):
    """A file made by the reference alone."""
    rng = np.random.default_rng(width * height)
    rgb = rng.integers(0, 256, (height, width, 3), np.uint8)
    return reference_file(rgb, quality, subsampling, with_index), rgb


@pytest.mark.parametrize("subsampling", ["444", "422", "420", "gray"])
@pytest.mark.parametrize("size", [(1, 1), (40, 24), (333, 50)])
def test_pillow_opens_what_the_reference_makes(size, subsampling):
    data, _ = make_file(*size, subsampling)
    decoded = Image.open(io.BytesIO(data))
    assert decoded.size == size
    assert decoded.mode == ("L" if subsampling == "gray" else "RGB")
    file = parse(data)
    levels, layout = reference.huffman_decode(data)
    assert layout == file.layout == Layout(*size, subsampling)
    assert len(file.quantisers) == (1 if subsampling == "gray" else 3)
    pixels = reference.reconstruct(levels, layout, 80).astype(int)
    assert np.abs(pixels - np.asarray(decoded.convert("RGB"))).max() <= 4


def test_a_file_names_the_tables_that_it_is_coded_with():
    tables = [STANDARD_HUFFMAN[name] for name in ("dc_chroma", "ac_chroma", "dc_luma", "ac_luma")]
    _, rest = file_head(Layout(8, 8, "444"), quantisation_tables(80), huffman=tables)
    first, _ = file_head(Layout(8, 8, "444"), quantisation_tables(80))
    assert parse(first + rest + bytes(10)).huffman == tuple(tables)


def test_an_index_is_found_and_points_where_restart_markers_do():
    data, _ = make_file(333, 100)
    file = parse(data)
    assert len(file.first_segments) > 10 * 13
    without, _ = make_file(333, 100, with_index=False)
    by_markers = parse(without)
    assert by_markers.first_segments.tolist() == list(range(0, 13 * 21, 21))
    begins_row = file.first_segments % 21 == 0
    np.testing.assert_array_equal(file.first_segments[begins_row], by_markers.first_segments)
    np.testing.assert_array_equal(file.positions[begins_row], by_markers.positions)


def index_of(layout, bits):
    """What parse makes of the index for segments of so many bits, and how many bytes it takes."""
    stream_bytes = int(bits.sum()) // 8
    work = entry_work(layout, stream_bytes, bits.size)
    begins = reference.index_entries([["x" * int(n) for n in row] for row in bits], work, layout)
    first = np.flatnonzero(np.ravel(begins))
    positions = (np.cumsum(bits) - bits.ravel())[first]
    markers = index_markers(layout, np.stack([positions, first], 1), stream_bytes)
    if not markers:
        return first[:0], 0
    head, rest = file_head(layout, quantisation_tables(80))
    file = parse(head + markers + rest + bytes(stream_bytes - 2) + b"\xff\xd9")
    assert set(file.first_segments) <= set(first)
    whole = (np.cumsum(bits) - bits.ravel())[file.first_segments]
    np.testing.assert_array_equal(file.positions, whole)
    return file.first_segments, len(markers)


def test_entries_are_short_where_there_is_much_to_decode():
    layout = Layout(4000, 400, "444")
    bits = np.full((layout.rows, layout.segments_per_row), 80)
    bits[10:30, 80:120] = 1200
    first, size = index_of(layout, bits)
    work = np.add.reduceat(bits.ravel() + 18, first)
    assert size <= bits.sum() / 8 / 80 * 1.1 + 40
    assert len(first) > 0.7 * bits.sum() / 8 / 80 / 2
    assert work.max() < 2.5 * work.mean()
    assert np.diff(first).max() > 4
    rows = range(0, layout.rows * layout.segments_per_row, layout.segments_per_row)
    assert set(rows) <= set(first.tolist())


@given(st.data())
def test_any_index_says_where_entries_begin(data):
    layout = Layout(data.draw(st.integers(65, 9000)), data.draw(st.integers(1, 80)), "444")
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    size = (layout.rows, layout.segments_per_row)
    bits = 8 * np.exp(rng.normal(data.draw(st.floats(3, 6)), data.draw(st.floats(0, 1)), size)) + 96
    bits = bits.astype(int)
    bits[:, -1] += -bits.sum(1) % 8  # rows begin with bytes
    _, length = index_of(layout, bits)
    assert length <= bits.sum() / 8 / 80 * 1.1 + 40, "also where entries take two words"


def test_too_many_entries_are_thinned_out():
    """The frame before had more bytes, so this one's entries were chosen too short."""
    layout = Layout(800, 240, "444")
    count = layout.rows * layout.segments_per_row
    positions = 200 * np.arange(count)
    entries = np.stack([positions, np.arange(count)], 1)
    markers = index_markers(layout, entries, 200 * count // 8)
    assert 0 < len(markers) <= 200 * count / 8 / 80 * 1.1 + 40
    head, rest = file_head(layout, quantisation_tables(80))
    file = parse(head + markers + rest + bytes(200 * count // 8 - 2) + b"\xff\xd9")
    np.testing.assert_array_equal(file.positions, positions[file.first_segments])
    assert index_markers(layout, entries, 600) == b""


def test_entries_of_two_words_count_twice():
    """In a flat picture an entry has many segments, and what is left of its word does not hold its bits."""
    layout = Layout(9000, 240, "444")
    per_row, entry_bits = 8, 1200
    first = np.add.outer(np.arange(layout.rows) * layout.segments_per_row, np.arange(per_row) * 70).ravel()
    positions = entry_bits * np.arange(first.size)
    stream_bytes = entry_bits * first.size // 8
    markers = index_markers(layout, np.stack([positions, first], 1), stream_bytes)
    assert 0 < len(markers) <= stream_bytes / 80 * 1.1 + 40


def test_a_stale_index_is_not_believed():
    data, _ = make_file(333, 100)
    at = data.index(b"RFBG\0") + 11
    broken = bytearray(data)
    broken[at : at + 2] = struct.pack("<H", 0xFFFF)
    assert parse(broken).positions.size == 13


def test_an_index_of_another_version_is_left_alone():
    data, _ = make_file(333, 100)
    at = data.index(b"RFBG\0") + 5
    other = bytearray(data)
    other[at] += 1
    assert parse(other).positions.size == 13


@pytest.mark.parametrize("bits, words", [(1 << 14, 1), (1 << 15, 2), (1 << 29, 2), (1 << 30, None)])
def test_what_is_too_long_for_a_word_takes_two(bits, words):
    layout = Layout(320, 8, "444")
    entries = np.array([[0, 0], [800, 1], [1600, 2]] + [[1600 + bits, n] for n in range(3, 20)])
    entries[3:, 0] += 800 * np.arange(17)
    stream_bytes = (int(entries[-1, 0]) + 800) // 8
    markers = index_markers(layout, entries, stream_bytes)
    if words is None:
        assert markers == b""
        return
    assert len(markers) == 15 + 2 * (len(entries) - 1 + words)
    head, rest = file_head(layout, quantisation_tables(80))
    if bits < 1 << 20:
        file = parse(head + markers + rest + bytes(stream_bytes - 2) + b"\xff\xd9")
        np.testing.assert_array_equal(file.positions, entries[:, 0])
        np.testing.assert_array_equal(file.first_segments, entries[:, 1])


def test_large_indexes_take_several_markers():
    for rows, markers in ((490, 1), (510, 2)):
        layout = Layout(1024, 8 * rows, "444")
        first = np.arange(rows * layout.segments_per_row)
        index = index_markers(layout, np.stack([2500 * first, first], 1), first.size * 2500 // 8)
        assert index.count(b"RFBG\0") == markers


def jpeg(**options):
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8)).save(
        file, "JPEG", **options
    )
    return file.getvalue()


@pytest.mark.parametrize(
    "options, why",
    [
        ({"progressive": True}, "progressive"),
        ({}, "restart marker"),
    ],
)
def test_foreign_files_say_what_is_foreign(options, why):
    with pytest.raises(ForeignJpegError, match=why):
        parse(jpeg(**options))


@pytest.mark.parametrize("subsampling", ["440", "411"])
def test_other_subsamplings_are_foreign(subsampling):
    data = simplejpeg.encode_jpeg(np.zeros((40, 40, 3), np.uint8), 80, colorsubsampling=subsampling)
    with pytest.raises(ForeignJpegError, match="4:4:4, 4:2:2, 4:2:0 and gray"):
        parse(data)


def test_files_of_libjpeg_with_restart_rows_are_taken():
    file = parse(jpeg(subsampling=0, restart_marker_rows=1))
    assert file.positions.size == 5
    levels, layout = reference.huffman_decode(jpeg(subsampling=0, restart_marker_rows=1))
    assert levels.shape == (5, 5, 3, 64)
    assert layout == Layout(40, 40, "444")


@pytest.mark.parametrize("data", [b"", b"\xff\xd8", b"\x89PNG\r\n\x1a\n" + bytes(100), bytes(1000)])
def test_what_is_no_jpeg_is_said_to_be_none(data):
    with pytest.raises(CorruptJpegError):
        parse(data)


@pytest.mark.parametrize("subsampling", ["444", "422", "420", "gray"])
def test_a_size_that_the_bytes_cannot_have_is_refused(subsampling):
    data, _ = make_file(40, 24, subsampling)
    at = data.index(b"\xff\xc0") + 5
    enormous = bytearray(data)
    enormous[at : at + 4] = b"\xff" * 4
    interval = data.index(b"\xff\xdd") + 4
    enormous[interval : interval + 2] = struct.pack(">H", Layout(65535, 65535, subsampling).mcus_per_row)
    with pytest.raises(CorruptJpegError, match="too few for 65535x65535"):
        parse(enormous)


@given(cut=st.integers(0, 3000))
def test_truncated_files_never_crash(cut):
    data, _ = make_file()
    try:
        parse(data[:cut])
    except JpegError:
        pass


@given(st.data())
def test_mutated_files_never_crash_and_stay_within_bounds(data):
    original, _ = make_file(100, 40)
    mutant = bytearray(original)
    for _ in range(data.draw(st.integers(1, 8))):
        mutant[data.draw(st.integers(0, len(mutant) - 1))] = data.draw(st.integers(0, 255))
    try:
        file = parse(mutant)
    except JpegError:
        return
    assert file.positions.max(initial=0) <= (len(file.stream) + 2) * 8
    per_row = file.layout.segments_per_row
    assert file.positions.shape == file.first_segments.shape
    assert np.all(np.diff(file.first_segments.astype(int), append=per_row * file.layout.rows) > 0)
    assert set(range(0, per_row * file.layout.rows, per_row)) <= set(file.first_segments.tolist())
