"""The PNG decoder against libpng: our files on the GPU, others through Pillow, hostile ones with an error or a wrong picture."""

import builtins
import gc
import io
import os
import random
import struct
import zlib

import numpy as np
import pytest
import wgpu
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from rfb_gpu import PngDecoder, PngEncoder
from rfb_gpu.codecs.png import CorruptPngError, ForeignPngError, PngError
from rfb_gpu.codecs.png.deflate import TOKENS, DeflateCodes
from rfb_gpu.codecs.png.file import _parts, chunk, index_data, parse, png_file
from tests.gpu.helpers import PICTURES, image_of, picture, slanted_edges, texture_of

CHANNELS = ("rgb", "rgba", "gray")
SIZES = [(1, 1), (2, 3), (171, 5), (173, 67), (331, 253), (1031, 9), (5, 200)]
HEAD = 8


@pytest.fixture(scope="module")
def codecs(device):
    encoders = {channels: PngEncoder(device, channels) for channels in CHANNELS}
    decoder = PngDecoder(device)
    yield encoders, decoder
    for each in (*encoders.values(), decoder):
        each.close()


def ours(device, codecs, image, channels="rgb"):
    return codecs[0][channels].encode(texture_of(device, image)).result().data


def by_libpng(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGBA"))


@pytest.fixture
def no_pillow(monkeypatch):
    """What is decoded nevertheless was decoded by the GPU."""
    real_import = builtins.__import__

    def importing(name, *rest):
        if name == "PIL":
            raise ImportError("not here")
        return real_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", importing)


@pytest.mark.parametrize("channels", CHANNELS)
def test_our_files(device, codecs, channels, no_pillow):
    for size in SIZES:
        for kind in PICTURES:
            file = ours(device, codecs, picture(kind, *size), channels)
            np.testing.assert_array_equal(
                image_of(device, codecs[1].decode(file)), by_libpng(file), f"{kind} {size}"
            )


@given(
    st.lists(st.tuples(st.integers(0, 255), st.integers(1, 700)), min_size=1, max_size=12),
    st.integers(1, 700),
    st.integers(1, 140),
    st.sampled_from(CHANNELS),
)
def test_runs_of_any_length(device, codecs, runs, width, height, channels):
    values = np.concatenate([np.full(length, value, np.uint8) for value, length in runs])
    file = ours(device, codecs, np.resize(values, (height, width, 4)), channels)
    np.testing.assert_array_equal(image_of(device, codecs[1].decode(file)), by_libpng(file))


@given(
    st.integers(1, 90) | st.sampled_from([340, 341, 342, 400, 1023, 1025]),
    st.integers(1, 90),
    st.integers(1, 400),
    st.integers(0, 2**32 - 1),
)
def test_few_colours(device, codecs, width, height, colours, seed):
    """With a palette, or with matches in the row above."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 256, (colours, 4)).astype(np.uint8)
    cells = rng.integers(0, colours, (height // 5 + 1, width // 7 + 1))
    image = table[np.kron(cells, np.ones((5, 7), int))[:height, :width]]
    image[rng.random((height, width)) < 0.02] = table[0]
    file = ours(device, codecs, image)
    np.testing.assert_array_equal(image_of(device, codecs[1].decode(file)), by_libpng(file))


def slanted_noise(width, height):
    """Each row is the one above, a pixel to the side: no filter finds that."""
    noise = np.random.default_rng(1).integers(0, 100, width + height).astype(np.uint8)
    levels = np.lib.stride_tricks.sliding_window_view(noise, width)[:height]
    return np.stack([levels] * 4, -1)


def test_all_ways_to_lay_rows_out(device, codecs, no_pillow):
    files = {
        "filtered": ours(device, codecs, picture("gradient", 300, 200)),
        "as they are": ours(device, codecs, slanted_edges(700, 900)),
        "indexes, filtered": ours(device, codecs, slanted_edges(700, 130)),
        "indexes": ours(device, codecs, slanted_noise(700, 130)),
    }
    kinds = {name: parse(file) for name, file in files.items()}
    assert not kinds["filtered"].reaches_above
    assert kinds["as they are"].reaches_above and kinds["as they are"].palette is None
    assert not kinds["indexes, filtered"].reaches_above and kinds["indexes, filtered"].palette is not None
    assert kinds["indexes"].reaches_above and kinds["indexes"].palette is not None
    for name, file in files.items():
        np.testing.assert_array_equal(image_of(device, codecs[1].decode(file)), by_libpng(file), name)


def filtered_by(kinds, image):
    """A file of ours with the filters that the test wants, row by row; all in codes that zlib fits."""
    height, width, channels = image.shape
    rows, starts = [], []
    padded = np.zeros((height + 1, width + 1, channels), np.int64)
    padded[1:, 1:] = image
    for y in range(height):
        kind = kinds[y % len(kinds)] if y % 32 else kinds[y % len(kinds)] % 2
        up, left, corner = (padded[y, 1:], padded[y + 1, :-1], padded[y, :-1])
        if y % 32 == 0:
            up, corner = np.zeros_like(up), np.zeros_like(corner)
        estimate = left + up - corner
        distances = np.stack([abs(estimate - each) for each in (left, up, corner)])
        paeth = np.choose(distances.argmin(0), [left, up, corner])
        prediction = (0 * left, left, up, (left + up) // 2, paeth)[kind]
        rows.append(bytes([kind]) + ((padded[y + 1, 1:] - prediction) & 255).astype(np.uint8).tobytes())
    # One block of literals only, in a flat code of 8 or 9 bits, so that the test knows where each row begins.
    lengths = [8] * 226 + [9] * 60
    codes, code, before = {}, 0, 8
    for symbol, length in enumerate(lengths):
        code <<= length - before
        codes[symbol] = f"{code:0{length}b}"
        code, before = code + 1, length
    sent = {8: "0", 1: "10", 9: "11"}
    of_lengths = {8: 1, 9: 2, 1: 2}
    head = f"{1:01b}" + "01" + f"{286 - 257:05b}"[::-1] + f"{0:05b}"[::-1] + f"{14:04b}"[::-1]
    order = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1)
    head += "".join(f"{of_lengths.get(symbol, 0):03b}"[::-1] for symbol in order)
    bits = head + "".join(sent[length] for length in lengths) + sent[1]
    for row in rows:
        starts.append(16 + len(bits))
        bits += "".join(codes[byte] for byte in row)
    bits += codes[256]
    packed = np.packbits([int(bit) for bit in bits], bitorder="little").tobytes()
    stream = b"\x78\x01" + packed + struct.pack(">I", zlib.adler32(b"".join(rows)))
    colour_type = {1: 0, 3: 2, 4: 6}[channels]
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, colour_type, 0, 0, 0)),
            chunk(b"rfIX", index_data(np.array(starts), False)),
            chunk(b"IDAT", stream),
            chunk(b"IEND"),
        ]
    )


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_every_filter(device, codecs, channels, no_pillow):
    image = picture("noise", 37, 130)[..., :channels]
    file = filtered_by([0, 1, 2, 3, 4, 4, 3, 2], np.ascontiguousarray(image))
    np.testing.assert_array_equal(image_of(device, codecs[1].decode(file)), by_libpng(file))


def test_every_distance_within_a_row(device, codecs, no_pillow):
    """Also those that our encoder does not use, in matches of all lengths that begin anywhere in a word."""
    distances = [1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 16, 31, 32, 100, 128]
    rng = np.random.default_rng(0)
    width, rows, all_tokens, beginnings = 900, [], [], []
    for _ in range(70):
        row, tokens = bytearray(1), [0]
        while len(row) <= width:
            usable = sum(distance < len(row) for distance in distances)
            length = min(int(rng.choice([3, 4, 5, 6, 9, 20, 258])), width + 1 - len(row))
            if usable and length >= 3 and rng.random() < 0.5:
                number = int(rng.integers(usable))
                tokens += [253 + length, 512 + number]
                for _ in range(length):
                    row.append(row[-distances[number]])
            else:
                tokens.append(int(rng.integers(256)))
                row.append(tokens[-1])
        rows.append(bytes(row))
        beginnings.append(len(all_tokens))
        all_tokens += tokens
    codes = DeflateCodes(np.bincount(all_tokens, minlength=TOKENS), distances)
    ends = codes.start + np.cumsum([0, *(int(codes.tokens[token]) & 31 for token in all_tokens)])
    value = sum(int(codes.tokens[token]) >> 5 << int(at) for token, at in zip(all_tokens, ends, strict=False))
    stop = int(ends[-1])
    stream = codes.zlib_stream([value.to_bytes(-(-stop // 8), "little")], stop, zlib.adler32(b"".join(rows)))
    file = png_file(width, len(rows), 1, stream, index_data(ends[beginnings], False))
    np.testing.assert_array_equal(image_of(device, codecs[1].decode(file)), by_libpng(file))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_files_of_others_go_through_pillow(device, codecs, mode):
    rgba = picture("gradient", 61, 33)
    if mode == "I;16":
        picture_16 = (rgba[..., 0].astype(np.uint16) << 8) | 77
        image, expected = Image.fromarray(picture_16), np.dstack([rgba[..., 0]] * 3)
    else:
        image = Image.fromarray(rgba).convert("RGB").convert(mode) if mode == "P" else None
        image = image or Image.fromarray(rgba).convert(mode)
        expected = np.asarray(image.convert("RGBA"))
    file = io.BytesIO()
    image.save(file, "PNG")
    shown = image_of(device, codecs[1].decode(file.getvalue()))
    np.testing.assert_array_equal(shown[..., : expected.shape[-1]], expected)


def test_without_pillow_files_of_others_are_refused_with_the_cure(device, codecs, no_pillow):
    file = io.BytesIO()
    Image.fromarray(picture("text", 20, 10)).save(file, "PNG")
    with pytest.raises(ForeignPngError, match="pip install pillow"):
        codecs[1].decode(file.getvalue())


def test_a_given_texture(device, codecs):
    image = picture("gradient", 60, 40)
    file = ours(device, codecs, image)
    usage = wgpu.TextureUsage.STORAGE_BINDING | wgpu.TextureUsage.COPY_SRC
    out = device.create_texture(size=(60, 40, 1), format="rgba8unorm", usage=usage)
    assert codecs[1].decode(file, out=out) is out
    np.testing.assert_array_equal(image_of(device, out)[..., :3], image[..., :3])
    for options, complaint in [
        ({"size": (61, 40, 1), "format": "rgba8unorm", "usage": usage}, "60x40"),
        (
            {"size": (60, 40, 1), "format": "rgba8unorm", "usage": wgpu.TextureUsage.COPY_SRC},
            "STORAGE_BINDING",
        ),
    ]:
        with pytest.raises(ValueError, match=complaint):
            codecs[1].decode(file, out=device.create_texture(**options))


def test_steady_state_makes_no_gpu_objects(device, codecs):
    images = [picture(kind, 200, 100) for kind in ("gradient", "text")]
    files = [ours(device, codecs, image) for image in images]
    outs = [codecs[1].decode(file) for file in files] * 2
    for file, out in zip(files * 2, outs, strict=True):
        codecs[1].decode(file, out=out)

    def counts():
        kinds = wgpu.diagnostics.object_counts.get_dict()
        return {kind: kinds[kind]["count"] for kind in ("Buffer", "BindGroup", "ComputePipeline", "Texture")}

    before = counts()
    for _ in range(5):
        for file, out in zip(files, outs, strict=False):
            codecs[1].decode(file, out=out)
    assert counts() == before


def test_a_picture_too_large_for_the_device_is_refused_with_the_cure(device, codecs):
    small = device.adapter.request_device_sync(required_limits={"max-storage-buffer-binding-size": 1 << 18})
    decoder = PngDecoder(small)
    fits, image = picture("text", 150, 100), picture("noise", 400, 400)
    with pytest.raises(ValueError, match="max-storage-buffer-binding-size is 262144: request a device"):
        decoder.decode(ours(device, codecs, image))
    seen = image_of(small, decoder.decode(ours(device, codecs, fits)))
    np.testing.assert_array_equal(seen[..., :3], fits[..., :3])
    decoder.close()


@pytest.mark.skipif("RFB_GPU_SOAK" not in os.environ, reason="takes a minute; RFB_GPU_SOAK=1 runs it")
@pytest.mark.parametrize("kind", ["edges", "noise"])
def test_a_picture_of_8k(device, codecs, kind, no_pillow):
    """Buffers of 100 and 112 MB: what every device has is 128 MiB. A quarter of a minute on a CPU."""
    tile = slanted_edges(1920, 720) if kind == "edges" else picture("noise", 1920, 720)
    image = np.tile(tile, (6, 4, 1))
    file = ours(device, codecs, image)
    seen = image_of(device, codecs[1].decode(file))
    np.testing.assert_array_equal(seen[..., :3], image[..., :3])


def test_close(device):
    gc.collect()
    before = wgpu.diagnostics.object_counts.get_dict()["Buffer"]["count"]
    decoder, encoder = PngDecoder(device), PngEncoder(device)
    file = encoder.encode(texture_of(device, picture("text", 40, 30))).result().data
    encoder.close()
    decoder.decode(file)
    decoder.close()
    decoder.close()
    gc.collect()
    assert wgpu.diagnostics.object_counts.get_dict()["Buffer"]["count"] == before
    with pytest.raises(RuntimeError, match="closed"):
        decoder.decode(file)


def test_profiling(device):
    timed = device.adapter.request_device_sync(required_features=["timestamp-query"])
    encoder, decoder = PngEncoder(timed), PngDecoder(timed, profile="stages")
    assert decoder.timings() == {}
    file = encoder.encode(texture_of(timed, picture("text", 90, 70))).result().data
    decoder.decode(file)
    times = decoder.timings()
    assert set(times) == {"inflate_rows", "unfilter_rows", "gpu"}
    assert all(seconds > 0 for seconds in times.values())


def with_right_checksums(file):
    """The same chunks, with checksums that fit: what a fault inside of them meets is our own code."""
    parts, at = [file[:HEAD]], HEAD
    while at + 12 <= len(file):
        (length,) = struct.unpack_from(">I", file, at)
        if at + 12 + length > len(file):
            break
        parts.append(chunk(file[at + 4 : at + 8], file[at + 8 : at + 8 + length]))
        at += 12 + length
    return b"".join([*parts, file[at:]])


@pytest.mark.parametrize("seed", range(6))
def test_hostile_files_give_an_error_or_a_picture(device, codecs, seed):
    """Never a crash or a hang, and a good file is right after each of them."""
    rng = random.Random(seed)
    kind = ("gradient", "edges", "cut")[seed % 3]
    image = {
        "gradient": picture("gradient", 150, 90),
        "edges": slanted_edges(150, 90),
        "cut": slanted_edges(700, 900)[
            ::10
        ],  # as wide as rows are cut, and with too many colours for a palette
    }[kind]
    good = ours(device, codecs, image)
    assert (parse(good).cut > 0) == (kind == "cut")
    truth = by_libpng(good)
    for _ in range(60):
        file = bytearray(good)
        for _ in range(rng.choice([1, 1, 3, 30])):
            # The head, where most can go wrong, more often than the stream.
            file[rng.randrange(HEAD, rng.choice([60, 300, 700, len(file)]))] = rng.randrange(256)
        if rng.random() < 0.1:
            del file[rng.randrange(len(file)) :]
        try:
            codecs[1].decode(with_right_checksums(bytes(file)))
        except (PngError, ValueError):
            pass
        assert np.array_equal(image_of(device, codecs[1].decode(good)), truth)


@pytest.mark.parametrize(
    "file",
    [
        b"",
        b"\x89PNG\r\n\x1a\n",
        b"GIF89a",
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", b"") + chunk(b"IEND"),
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", bytes(13)) + chunk(b"IDAT", b"") + chunk(b"IEND"),
    ],
)
def test_what_is_no_png(codecs, file):
    with pytest.raises(CorruptPngError):
        codecs[1].decode(file)


def test_a_flipped_bit_is_noticed(device, codecs):
    file = bytearray(ours(device, codecs, picture("gradient", 90, 70)))
    file[len(file) // 2] ^= 4
    with pytest.raises(CorruptPngError, match="checksum"):
        codecs[1].decode(bytes(file))


@given(
    st.lists(st.tuples(st.integers(0, 2**31), st.integers(0, 2**31)), min_size=1, max_size=50),
    st.sampled_from([0, 5, 5761]),
    st.booleans(),
)
def test_an_index_is_read_as_it_was_written(steps, cut, reaches_above):
    parts = 2 if cut else 1
    steps = np.array(steps, np.int64)[:, :parts]
    bits = np.cumsum(steps % (2**32 // steps.size)).reshape(steps.shape)
    data = index_data(bits, reaches_above, cut)
    read_cut, read = _parts(memoryview(data)[3:], len(steps))
    assert read_cut == cut
    np.testing.assert_array_equal(read, bits)
    backwards = index_data(np.append(bits, [bits[-1] - 1], 0), reaches_above, cut)
    for broken, rows in [
        (data[3:-1] + b"\x80", len(steps)),
        (data[3:] + b"\x01", len(steps)),
        (b"\xff" * 12, len(steps)),
        (b"", len(steps)),
        (backwards[3:], len(steps) + 1),
    ]:
        with pytest.raises(CorruptPngError):
            _parts(memoryview(broken), rows)
