"""Every stage of the PNG encoder against its twin in tests/reference."""

import numpy as np
import pytest

from rfb_gpu import PngEncoder
from rfb_gpu.codecs.passes import submit
from rfb_gpu.codecs.png.deflate import TOKENS, DeflateCodes
from rfb_gpu.codecs.png.encoder import _PLACES, _STATISTICS_COLOURS, _ranked
from tests.gpu.helpers import picture, slanted_edges, texture_of, words
from tests.reference import png as reference

CASES = [
    ("gradient", 61, 45, "rgb"),
    ("gradient", 131, 34, "rgba"),
    ("gradient", 67, 35, "gray"),
    ("noise", 21, 3, "rgba"),
    ("text", 1400, 3, "rgb"),  # two spans a row
    ("text", 131, 37, "rgb"),
    ("text", 9, 300, "gray"),  # every other row is counted
    ("edges", 203, 66, "rgb"),
    ("edges", 4200, 2, "gray"),
    ("flat", 1, 1, "rgb"),
    ("white", 2000, 4, "rgb"),  # matches of more than 258 bytes
    ("runs", 700, 40, "rgb"),
    ("runs", 333, 35, "rgba"),
    ("runs", 1999, 34, "gray"),
]
CHANNELS = {"gray": 1, "rgb": 3, "rgba": 4}


def image_to_encode(kind, width, height):
    if kind == "edges":
        return slanted_edges(width, height)
    if kind != "runs":
        return picture(kind, width, height, seed=width)
    # Of every length up to more than a piece, and each row like the one above but for a few pixels.
    rng = np.random.default_rng(width)
    lengths = rng.integers(1, rng.choice([3, 20, 120], width))
    colours = rng.integers(0, 256, (width, 4), np.uint8)
    image = np.repeat(np.repeat(colours, lengths, 0)[None, :width], height, 0)
    changed = rng.random((height, width)) < 0.01
    image[changed] = rng.integers(0, 256, 4)
    return image


def bytes_of_rows(device, buffer, way, height):
    """Without what stands before and behind them: the filter's number and the pixels."""
    rows = words(device, buffer, way.row_words * height).reshape(height, -1)
    return rows.view(np.uint8)[:, 3 : 3 + way.row_bytes]


@pytest.mark.usefixtures("readable_buffers")
@pytest.mark.parametrize("kind, width, height, channels", CASES)
def test_encoder_stages(device, kind, width, height, channels):
    image = image_to_encode(kind, width, height)
    encoder = PngEncoder(device, channels)
    slot = encoder._free_slot(width, height)
    rows, colours = reference.pack_rows(image, CHANNELS[channels])

    # Pixels to rows, and their colours.
    submit(device, [slot.first_stage(texture_of(device, image), (0, 0), False, False)])
    np.testing.assert_array_equal(bytes_of_rows(device, slot._rows[0], slot.pixels[0], height)[:, 1:], rows)
    table = words(device, slot.statistics, _STATISTICS_COLOURS + _PLACES + 1)[_STATISTICS_COLOURS:]
    kinds_of_rows = [(slot.pixels, slot._rows[0], rows)]
    if channels == "rgb" and len(colours) <= 256:
        assert table[-1] == len(colours)
        np.testing.assert_array_equal(np.sort(table[:-1][table[:-1] > 0] & 0xFFFFFF), colours)

        # Rows to indexes.
        palette, ranks = _ranked(table[:-1])
        device.queue.write_buffer(slot.ranks, 0, ranks.tobytes())
        submit(device, slot.index)
        indexes = reference.index_rows(rows, palette.astype(int) @ [1, 1 << 8, 1 << 16])
        np.testing.assert_array_equal(
            bytes_of_rows(device, slot._rows[1], slot.indexes[0], height)[:, 1:], indexes
        )
        kinds_of_rows.append((slot.indexes, slot._rows[1], indexes))
    elif channels == "rgb":
        assert table[-1] > 256

    for ways, buffer, expected in kinds_of_rows:
        for way in ways:
            check_way(device, slot, way, buffer, expected)
    encoder.close()


def check_way(device, slot, way, buffer, rows):
    """From rows to the stream, in one of the ways to lay them out."""
    height = len(rows)
    sampled = np.arange(height // slot.sample_step) * slot.sample_step

    # Rows to counts.
    submit(device, way.count)
    filters = np.zeros(height, int)
    if way.is_filtered:
        filters = reference.choose_filters(rows, way.channels)
        seen = bytes_of_rows(device, buffer, way, height)
        np.testing.assert_array_equal(seen[sampled, 0], filters[sampled])
    data = reference.residuals(rows, way.channels, filters)
    counts = words(device, slot.statistics, TOKENS * (way.number + 1))[TOKENS * way.number :]
    np.testing.assert_array_equal(counts, reference.count_spans(data, sampled, way.candidates))

    # Rows to bits. How good the codes are does not matter: the counts' may be of a part.
    codes = DeflateCodes(counts, way.distances, is_sample=True)
    sent = np.append(codes.tokens, np.uint32(codes.start))
    device.queue.write_buffer(slot.codes, 0, sent.tobytes())
    submit(device, way.encode)
    bits, sums = reference.encode_spans(data, way.candidates, codes.tokens)
    spans = [span for row in bits for span in row]
    by_name = {buffer.label.removeprefix("rfb_gpu "): buffer for buffer in slot._buffers}
    records = words(device, by_name["records"], 4 * way.spans).reshape(-1, 4)
    np.testing.assert_array_equal(records[:, 0], [len(span) for span in spans])
    np.testing.assert_array_equal(records[:, 2:], sums)
    scratch = words(device, by_name["scratch"], by_name["scratch"].size // 4)
    for (length, start, _, _), span in zip(records.tolist(), spans, strict=True):
        assert as_text(scratch[start : start + -(-length // 32)]) == span.ljust(-(-length // 32) * 32, "0")

    # Bits to places.
    stream = words(device, by_name["stream"], slot.stream_start + slot.stream_words)
    places = reference.place_spans(bits, codes.start)
    table = stream[4 : 4 + 4 * height].reshape(-1, 4)
    assert [*table[:, 0], stream[0]] == places
    if way.cut:
        assert table[:, 3].tolist() == reference.place_cuts(data, way.candidates, codes.tokens, places)

    # Places to the stream.
    whole, row_sums = reference.write_stream(bits, data)
    assert as_text(stream[slot.stream_start :])[codes.start : places[-1]] == whole
    np.testing.assert_array_equal(table[:, 1:3], row_sums)
    assert not words(device, slot.statistics, 1 + _STATISTICS_COLOURS + _PLACES).any()


def as_text(found):
    """Bits, first bit first."""
    return "".join(f"{word:032b}"[::-1] for word in found.tolist())
