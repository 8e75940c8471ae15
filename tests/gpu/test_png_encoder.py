"""The PNG encoder's files, as any other program sees them: every number of the texture, exactly."""

import asyncio
import gc
import io
import os
import shutil
import struct
import subprocess
import warnings
import zlib

import numpy as np
import pytest
import wgpu
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from rfb_gpu import PngEncoder
from rfb_gpu.codecs.png.deflate import TOKENS, DeflateCodes, adler32, estimated_bits
from tests.gpu.helpers import PICTURES, picture, texture_of

MODES = {"gray": "L", "rgb": "RGB", "rgba": "RGBA"}
# Of the tall one, only a part of the rows is counted; of the wide ones, a row is coded in parts.
SIZES = [(1, 1), (2, 3), (173, 67), (331, 253), (41, 1050), (1031, 9), (2800, 5)]


def encode(device, image, channels="rgb", format="rgba8unorm", **options):
    encoder = PngEncoder(device, channels, **options)
    frame = encoder.encode(texture_of(device, image, format)).result()
    encoder.close()
    return frame


def decode(frame, channels="rgb"):
    """By libpng, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opened = Image.open(io.BytesIO(bytes(frame)))
        opened.load()
    assert opened.mode == MODES[channels] or (opened.mode == "P" and channels == "rgb")
    assert opened.size == (frame.width, frame.height)
    return np.asarray(opened.convert(MODES[channels]))


def as_stored(image, channels):
    if channels == "gray":
        red, green, blue = (image[..., i].astype(np.int64) for i in range(3))
        return (19595 * red + 38470 * green + 7471 * blue + 0x8000 >> 16).astype(np.uint8)
    return image[..., : len(channels)]


def chunks(data):
    """The chunks of a PNG file by name, each with its CRC checked."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    found, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack_from(">I", data, at + 8 + length)
        assert zlib.crc32(kind + body) == checksum
        found[kind] = body
        at += 12 + length
    assert at == len(data)
    return found


@pytest.mark.parametrize("channels", MODES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", PICTURES)
def test_every_number_is_kept(device, kind, size, channels):
    image = picture(kind, *size)
    np.testing.assert_array_equal(
        decode(encode(device, image, channels), channels), as_stored(image, channels)
    )


@pytest.mark.parametrize("format", ["rgba8unorm", "rgba8unorm-srgb", "bgra8unorm", "bgra8unorm-srgb"])
def test_every_format_and_every_value(device, format):
    """With the -srgb formats shaders get linear values; the numbers in the file are those in the texture all the same."""
    values = np.arange(256, dtype=np.uint8)
    image = np.stack(
        [np.tile(values, (4, 1)), np.tile(values[::-1], (4, 1)), *[np.tile(values, (4, 1))] * 2], -1
    )
    np.testing.assert_array_equal(decode(encode(device, image, "rgba", format), "rgba"), image)


@pytest.fixture(scope="module")
def encoders(device):
    made = {channels: PngEncoder(device, channels) for channels in MODES}
    yield made
    for encoder in made.values():
        encoder.close()


RUNS = st.lists(st.tuples(st.integers(0, 255), st.integers(1, 700)), min_size=1, max_size=12)


@given(RUNS, st.integers(1, 3000), st.integers(1, 40), st.sampled_from(list(MODES)))
def test_runs_of_any_length(device, encoders, runs, width, height, channels):
    """What the tokens are made of, across rows and spans."""
    values = np.concatenate([np.full(length, value, np.uint8) for value, length in runs])
    image = np.resize(values, (height, width, 4))
    frame = encoders[channels].encode(texture_of(device, image)).result()
    np.testing.assert_array_equal(decode(frame, channels), as_stored(image, channels))


@given(
    st.integers(1, 90),
    st.integers(1, 90),
    st.integers(0, 2**32 - 1),
    st.integers(1, 256),
    st.sampled_from(list(MODES)),
)
def test_noise_of_any_depth(device, encoders, width, height, seed, levels, channels):
    image = np.random.default_rng(seed).integers(0, levels, (height, width, 4)).astype(np.uint8)
    frame = encoders[channels].encode(texture_of(device, image)).result()
    np.testing.assert_array_equal(decode(frame, channels), as_stored(image, channels))


def test_rows_that_are_like_none_of_those_counted(device, encoders):
    """The codes fit white, and most is noise: with codes for white it would not fit into its buffer."""
    image = picture("noise", 400, 1050)
    image[:: 1050 // 128] = 255
    frame = encoders["rgb"].encode(texture_of(device, image)).result()
    np.testing.assert_array_equal(decode(frame), image[..., :3])
    assert len(frame) < 1.02 * image[..., :3].size


def test_the_stream_is_one_that_zlib_takes(device):
    image = picture("gradient", 200, 130)
    found = chunks(bytes(encode(device, image)))
    assert list(found) == [b"IHDR", b"rfIX", b"IDAT", b"IEND"]
    assert struct.unpack(">2I5B", found[b"IHDR"]) == (200, 130, 8, 2, 0, 0, 0)
    decoder = zlib.decompressobj()  # which checks Adler-32
    rows = np.frombuffer(decoder.decompress(found[b"IDAT"]), np.uint8).reshape(130, 601)
    assert decoder.eof and not decoder.unused_data
    assert set(rows[1:, 0]) <= {1, 2, 4}
    assert set(rows[::32, 0]) == {1}, "a stripe begins without the row above"


def of_colours(count, width=301, height=97, seed=0):
    """A picture that has so many colours, all of them, black and white too."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.append(rng.choice(np.arange(1, 2**24 - 1), count - 1, replace=False), 0))
    codes[-1] = 2**24 - 1 if count > 2 else codes[-1]
    pixels = rng.permutation(np.resize(codes, width * height)).reshape(height, width)
    return np.stack([pixels & 255, pixels >> 8 & 255, pixels >> 16, np.full_like(pixels, 255)], -1).astype(
        np.uint8
    )


@pytest.mark.parametrize("count", [1, 2, 3, 200, 255, 256, 257, 258, 1000, 5000])
def test_a_palette_for_up_to_256_colours(device, encoders, count):
    image = of_colours(count)
    frame = encoders["rgb"].encode(texture_of(device, image)).result()
    np.testing.assert_array_equal(decode(frame), image[..., :3])
    colours = len(np.unique(image[..., :3].reshape(-1, 3), axis=0))
    palette = chunks(bytes(frame)).get(b"PLTE")
    if 2 < colours <= 256:
        assert len(palette) == 3 * colours
        assert len(frame) < 0.5 * image[..., :3].size
    elif colours > 256:
        assert palette is None


def test_pictures_with_a_palette_and_without_in_turn(device, encoders):
    for i, count in enumerate([3, 5000, 256, 256, 257, 40] * 2):
        image = of_colours(count, seed=i)
        frame = encoders["rgb"].encode(texture_of(device, image)).result()
        np.testing.assert_array_equal(decode(frame), image[..., :3])


@given(st.integers(1, 90), st.integers(1, 90), st.integers(1, 300), st.integers(0, 2**32 - 1))
def test_few_colours_of_any_kind(device, encoders, width, height, count, seed):
    image = of_colours(count, width, height, seed)
    frame = encoders["rgb"].encode(texture_of(device, image)).result()
    np.testing.assert_array_equal(decode(frame), image[..., :3])


def test_pngcheck_has_no_complaint(device, tmp_path):
    if not shutil.which("pngcheck"):
        assert "CI" not in os.environ, "`make setup` installs it"
        pytest.skip(
            "pngcheck is not installed, Debian's package of that name; libpng and zlib read the files in the other tests"
        )
    for channels in MODES:
        for kind in PICTURES:
            file = tmp_path / f"{channels}-{kind}.png"
            file.write_bytes(bytes(encode(device, picture(kind, 333, 77), channels, dpi=144)))
    for count in (1, 2, 256, 257):
        (tmp_path / f"{count}.png").write_bytes(bytes(encode(device, of_colours(count))))
    done = subprocess.run(["pngcheck", "-q", *tmp_path.iterdir()], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_density(device):
    assert Image.open(io.BytesIO(bytes(encode(device, picture("text", 9, 9), dpi=300)))).info[
        "dpi"
    ] == pytest.approx((300, 300), rel=1e-3)


@pytest.mark.parametrize("kind, most", [("gradient", 1.1), ("noise", 1.02)])
def test_about_as_small_as_libpng_makes_it(device, kind, most):
    image = picture(kind, 640, 480)
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image[..., :3])).save(file, "PNG", compress_level=6)
    assert len(encode(device, image)) <= most * file.tell()


@pytest.mark.parametrize("kind", ["white", "flat"])
def test_a_picture_of_nothing_takes_next_to_nothing(device, kind):
    assert len(encode(device, picture(kind, 640, 480))) <= 4000


def test_a_part_of_a_texture_gives_the_file_of_that_part(device):
    image = picture("gradient", 200, 150)
    encoder = PngEncoder(device)
    texture = texture_of(device, image)
    for x, y, width, height in [(0, 0, 200, 150), (13, 7, 101, 90), (199, 149, 1, 1), (14, 8, 101, 90)]:
        frame = encoder.encode(texture, rect=(x, y, width, height)).result()
        np.testing.assert_array_equal(decode(frame), image[y : y + height, x : x + width, :3])
    encoder.close()


def test_a_layer_of_a_texture(device):
    image = picture("gradient", 60, 40)
    texture = device.create_texture(
        size=(60, 40, 3),
        format="rgba8unorm",
        usage=wgpu.TextureUsage.TEXTURE_BINDING | wgpu.TextureUsage.COPY_DST,
    )
    device.queue.write_texture(
        {"texture": texture, "origin": (0, 0, 2)}, image, {"bytes_per_row": 240}, (60, 40, 1)
    )
    view = texture.create_view(dimension="2d", base_array_layer=2, array_layer_count=1)
    encoder = PngEncoder(device)
    np.testing.assert_array_equal(decode(encoder.encode(view).result()), image[..., :3])
    encoder.close()


def test_it_is_what_the_texture_held_at_the_call(device):
    """Though the bits are written only after the counts came back."""
    first, second = picture("gradient", 300, 200), picture("text", 300, 200)
    texture = texture_of(device, first)
    encoder = PngEncoder(device, slots=2)
    futures = [encoder.encode(texture)]
    device.queue.write_texture({"texture": texture}, second, {"bytes_per_row": 1200}, (300, 200, 1))
    futures.append(encoder.encode(texture))
    texture.destroy()
    for image, future in zip([first, second], futures, strict=True):
        np.testing.assert_array_equal(decode(future.result()), image[..., :3])
    encoder.close()


def test_more_frames_than_slots_and_of_changing_sizes(device):
    encoder = PngEncoder(device, slots=2)
    images = [picture("gradient", 50 + 13 * (i % 3), 40, seed=i) for i in range(7)]
    futures = [encoder.encode(texture_of(device, image)) for image in images]
    for image, future in zip(images, futures, strict=True):
        np.testing.assert_array_equal(decode(future.result()), image[..., :3])
    encoder.close()


def test_on_a_loop(device):
    async def main():
        encoder = PngEncoder(device)
        frame = await encoder.encode(texture_of(device, picture("text", 90, 60)))
        encoder.close()
        return frame

    frame = asyncio.run(main())
    assert (frame.codec, frame.quality, frame.width, frame.height) == ("png", 100, 90, 60)
    assert 0 < frame.timings["submit"] < frame.timings["ready"]


@pytest.mark.parametrize("format", ["rgba8unorm", "bgra8unorm-srgb"])
def test_prepared_it_compiles_nothing_more(device, format):
    fresh = device.adapter.request_device_sync()
    encoder = PngEncoder(fresh)
    encoder.prepare(format)
    encoder._thread.submit(lambda: None).result()
    before = wgpu.diagnostics.object_counts.get_dict()["ComputePipeline"]["count"]
    encoder.encode(texture_of(fresh, of_colours(7), format)).result()
    assert wgpu.diagnostics.object_counts.get_dict()["ComputePipeline"]["count"] == before
    encoder.close()


def test_closed_while_it_is_being_prepared(device):
    for _ in range(5):
        encoder = PngEncoder(device.adapter.request_device_sync())
        encoder.prepare("rgba8unorm")
        encoder.close()


def test_steady_state_makes_no_gpu_objects(device):
    encoder = PngEncoder(device)
    textures = [texture_of(device, picture(kind, 200, 100)) for kind in ("gradient", "text")]
    for texture in textures * 2:
        encoder.encode(texture).result()

    def counts():
        kinds = wgpu.diagnostics.object_counts.get_dict()
        return {kind: kinds[kind]["count"] for kind in ("Buffer", "ComputePipeline", "ShaderModule")}

    before = counts()
    for texture in textures * 10:
        encoder.encode(texture).result()
    assert counts() == before
    encoder.close()


def test_close_frees_the_buffers(device):
    gc.collect()
    before = wgpu.diagnostics.object_counts.get_dict()["Buffer"]["count"]
    image = picture("gradient", 200, 100)
    encoder = PngEncoder(device)
    future = encoder.encode(texture_of(device, image))
    encoder.close()
    encoder.close()
    np.testing.assert_array_equal(decode(future.result()), image[..., :3])
    gc.collect()
    assert wgpu.diagnostics.object_counts.get_dict()["Buffer"]["count"] == before
    with pytest.raises(RuntimeError, match="closed"):
        encoder.encode(texture_of(device, image))


def test_profiling(device):
    timed = device.adapter.request_device_sync(required_features=["timestamp-query"])
    timings = encode(timed, picture("gradient", 300, 300), profile="stages").timings
    stages = [
        timings[name] for name in ("pack_rows", "count_spans", "encode_spans", "place_spans", "write_stream")
    ]
    assert all(seconds > 0 for seconds in stages)
    assert timings["gpu"] >= max(stages)
    timings = encode(timed, of_colours(7), profile="stages").timings
    stages = [timings[name] for name in ("index_rows", "encode_spans")]
    assert all(seconds > 0 for seconds in stages)


@pytest.mark.parametrize(
    "options, error, names",
    [
        ({"channels": "cmyk"}, ValueError, "'gray', 'rgb', 'rgba'"),
        ({"slots": 0}, ValueError, "slots"),
        ({"dpi": 70000}, ValueError, "dpi"),
    ],
)
def test_bad_arguments(device, options, error, names):
    with pytest.raises(error, match=names):
        PngEncoder(device, **options)


def test_what_cannot_be_encoded(device):
    encoder = PngEncoder(device)
    with pytest.raises(TypeError, match="GPUTexture"):
        encoder.encode(np.zeros((4, 4, 4), np.uint8))
    with pytest.raises(ValueError, match="TEXTURE_BINDING"):
        encoder.encode(texture_of(device, picture("flat", 4, 4), usage=wgpu.TextureUsage.COPY_DST))
    with pytest.raises(ValueError, match="rect"):
        encoder.encode(texture_of(device, picture("flat", 4, 4)), rect=(0, 0, 5, 4))
    small = device.adapter.request_device_sync(required_limits={"max-storage-buffer-binding-size": 1 << 16})
    with pytest.raises(ValueError, match="max-storage-buffer-binding-size"):
        PngEncoder(small).encode(texture_of(small, picture("flat", 400, 400)))
    encoder.close()


# ---- the codes


DISTANCES = [1, 3, 6, 100, 1999, 2002, 2005]


@given(
    st.lists(st.integers(0, 40), min_size=512, max_size=512),
    st.lists(st.integers(0, 6), min_size=7, max_size=7),
    st.integers(0, 2**32 - 1),
)
def test_codes_for_any_counts(counts, weights, seed):
    """Tokens in any order, coded by them, are what zlib reads."""
    rng = np.random.default_rng(seed)
    literals = rng.permutation(np.repeat(np.arange(256), counts[:256]))
    matches = rng.permutation(np.repeat(np.arange(256, 512), np.array(counts[256:]) // 20))
    first = rng.integers(0, 256, 2005)  # what the distances reach back to
    usable = np.flatnonzero(weights) if any(weights) else np.array([0])
    tokens = [*map(int, first)]
    for token in rng.permutation(np.concatenate([literals, matches])):
        tokens.append(int(token))
        if token >= 256:
            tokens.append(512 + int(rng.choice(usable)))
    codes = DeflateCodes(np.bincount(tokens, minlength=TOKENS), DISTANCES)
    value, at, expected, length = 0, codes.start, bytearray(), 0
    for token in tokens:
        entry = int(codes.tokens[token])
        value |= entry >> 5 << at
        at += entry & 31
        if token < 256:
            expected.append(token)
        elif token < 512:
            length = token - 253
        else:
            for _ in range(length):
                expected.append(expected[-DISTANCES[token - 512]])
    assert at == codes.stop
    stream = codes.zlib_stream([value.to_bytes(-(-at // 8), "little")], at, zlib.adler32(bytes(expected)))
    assert zlib.decompress(bytes(stream)) == bytes(expected)


@given(
    st.lists(st.integers(0, 5000), min_size=256, max_size=256),
    st.lists(st.integers(0, 500), min_size=7, max_size=7),
)
def test_the_estimate_is_close(lengths, distances):
    counts = np.zeros(TOKENS, np.int64)
    counts[:256] = lengths
    counts[0] += 1
    counts[512:519] = distances
    counts[300] = counts[512:].sum()
    codes = DeflateCodes(counts, DISTANCES)
    coded = codes.stop - codes.start
    # A Huffman code takes less than a bit more per symbol.
    assert coded - counts.sum() - 64 <= estimated_bits(counts, DISTANCES) <= coded + 8


def test_adler32_of_rows():
    rows = np.random.default_rng(0).integers(0, 256, (300, 7001))
    weights = np.arange(7001, 0, -1)
    sums = np.stack([rows.sum(1), (rows * weights).sum(1)], -1) % 65521
    assert adler32(sums, 7001) == zlib.adler32(rows.astype(np.uint8).tobytes())
