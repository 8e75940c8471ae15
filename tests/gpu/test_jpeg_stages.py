"""Every stage of the shaders against its twin in tests/reference."""

import numpy as np
import pytest
import wgpu

from rfb_gpu import JpegDecoder, JpegEncoder
from rfb_gpu.codecs.jpeg.bitstream import Layout, parse
from tests.gpu.helpers import image_of, picture, texture_of
from tests.reference import jpeg as reference

CASES = [
    ("gradient", 150, 70, 80, "444"),
    ("gradient", 150, 70, 80, "420"),
    ("noise", 131, 37, 100, "444"),
    ("noise", 133, 39, 100, "420"),
    ("text", 600, 20, 50, "444"),
    ("white", 80, 40, 80, "420"),
    ("alternating", 90, 50, 100, "444"),
]


@pytest.fixture
def readable_buffers(device, monkeypatch):
    """Lets a test read the buffers between the stages."""
    create = type(device).create_buffer

    def create_readable(self, *, usage, **rest):
        if not usage & wgpu.BufferUsage.MAP_READ:
            usage |= wgpu.BufferUsage.COPY_SRC
        return create(self, usage=usage, **rest)

    monkeypatch.setattr(type(device), "create_buffer", create_readable)


def words(device, buffer, count):
    return np.frombuffer(device.queue.read_buffer(buffer, 0, count * 4), np.uint32)


@pytest.mark.usefixtures("readable_buffers")
@pytest.mark.parametrize("kind, width, height, quality, subsampling", CASES)
def test_encoder_stages(device, kind, width, height, quality, subsampling):
    image = picture(kind, width, height)
    layout = Layout(width, height, subsampling)
    encoder = JpegEncoder(device, quality, subsampling)
    data = bytes(encoder.encode(texture_of(device, image)).result())
    plan = encoder._plan

    # Pixels to levels. Where a coefficient lies next to the middle between two levels, either is right.
    exact = reference.pixels_to_coefficients(image[..., :3], layout, quality)
    expected = reference.pixels_to_levels(image[..., :3], layout, quality)
    levels, _ = reference.huffman_decode(data)
    tie = np.abs(np.abs(exact - np.floor(exact)) - 0.5) < 1e-3
    beyond = np.array(
        [
            [
                [reference.is_beyond(r, c, b, layout) for b in range(layout.blocks_per_mcu)]
                for c in range(layout.mcus_per_row)
            ]
            for r in range(layout.rows)
        ]
    )
    assert np.all((levels == expected)[~beyond] | tie[~beyond])
    assert np.mean(levels != expected) < 0.01
    assert np.all(levels[beyond][:, 1:] == 0)

    # Levels to code.
    segments = reference.encode_segments(levels, layout)
    flat = [code for row in segments for code in row]
    records = words(device, plan.records, 8 * len(flat)).reshape(-1, 8)
    used = int(words(device, plan.slots[0].results[0], 1)[0])
    scratch = "".join(f"{word:032b}" for word in words(device, plan.scratch, used))
    assert records[:, 0].tolist() == [len(code) for code in flat]
    for record, code in zip(records, flat, strict=True):
        assert scratch[record[1] * 32 :][: len(code)] == code
        for offset in range(8):
            whole = [code[i : i + 8] for i in range(offset, len(code) - 7, 8)]
            assert (record[2 + offset // 2] >> (offset % 2 * 16)) & 0xFFFF == whole.count("1" * 8)
        assert record[6] & 0xFF == int(code[:8], 2)
        assert (record[6] >> 8) & 0xFF == int(code[-8:], 2)

    # Code to places.
    places, lengths = reference.place_segments(segments)
    np.testing.assert_array_equal(words(device, plan.places, 2 * len(flat)).reshape(-1, 2), places)
    np.testing.assert_array_equal(words(device, plan.row_bytes, layout.rows), lengths)

    # Places to bytes.
    stream = reference.write_stream(segments)
    assert data.endswith(stream)
    assert bytes(parse(data).stream) + b"\xff\xd9" == stream


@pytest.mark.parametrize("kind, width, height, quality, subsampling", CASES)
def test_decoder_stages(device, kind, width, height, quality, subsampling):
    image = picture(kind, width, height)
    layout = Layout(width, height, subsampling)
    data = bytes(JpegEncoder(device, quality, subsampling).encode(texture_of(device, image)).result())
    levels, found = reference.huffman_decode(data)
    assert found == layout
    expected = reference.reconstruct(levels, layout, quality)
    decoded = image_of(device, JpegDecoder(device).decode(data))
    difference = np.abs(decoded[..., :3].astype(int) - expected)
    # Sums in another order round differently once in a while, which chroma weights of 1.8 turn into 2 levels.
    assert difference.max() <= 3
    assert np.mean(difference > 0) < 0.01
    assert np.all(decoded[..., 3] == 255)
