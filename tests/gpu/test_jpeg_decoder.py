"""The decoder against libjpeg-turbo, on our files and on others, and against bytes that mean harm."""

import gc
import os

import numpy as np
import pytest
import simplejpeg
import wgpu
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from rfb_gpu import JpegDecoder, JpegEncoder
from rfb_gpu.codecs import ForeignJpegError, JpegError
from rfb_gpu.codecs.jpeg import decoder as decoder_module
from rfb_gpu.codecs.jpeg.bitstream import CorruptJpegError, parse
from tests.gpu.helpers import PICTURES, image_of, picture, texture_of
from tests.gpu.jpeg_files import (
    SUBSAMPLINGS,
    libjpeg_decode,
    libjpeg_file,
    move_in_index,
    mutants,
    reference_file,
)


@pytest.fixture(scope="module")
def decoder(device):
    return JpegDecoder(device)


def encode(device, image, quality, subsampling):
    return bytes(JpegEncoder(device, quality, subsampling).encode(texture_of(device, image)).result())


def block_means(difference):
    """The mean of every 8x8 block of the picture, those at its edges smaller."""
    height, width = difference.shape[:2]
    sums = np.add.reduceat(np.add.reduceat(difference, range(0, height, 8), 0), range(0, width, 8), 1).sum(-1)
    ones = np.ones((height, width))
    counts = np.add.reduceat(np.add.reduceat(ones, range(0, height, 8), 0), range(0, width, 8), 1)
    return sums / counts / 3


def assert_same_picture(device, texture, data):
    """What the browser's decoder shows: changing from one to the other cannot be seen."""
    shown = image_of(device, texture)
    difference = np.abs(shown[..., :3] - libjpeg_decode(data))
    assert np.all(shown[..., 3] == 255)
    assert difference.max() <= 4
    # libjpeg rounds interpolated chroma once more than is needed.
    assert block_means(difference).max() <= 1.5
    assert difference.size < 1000 or difference.mean() < 0.5


@pytest.mark.parametrize("subsampling", ["444", "420"])
@pytest.mark.parametrize("kind", PICTURES)
def test_our_files_look_as_in_libjpeg(device, decoder, kind, subsampling):
    data = encode(device, picture(kind, 333, 177), 85, subsampling)
    assert_same_picture(device, decoder.decode(data), data)


@pytest.mark.parametrize("quality", [10, 60, 98])
@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
@pytest.mark.parametrize("kind", PICTURES)
def test_files_of_libjpeg_look_as_in_libjpeg(device, decoder, kind, subsampling, quality):
    """Tables of their own, and no index: restart markers are found."""
    data = libjpeg_file(picture(kind, 300, 90), quality, subsampling, optimize=kind != "noise")
    assert_same_picture(device, decoder.decode(data), data)


def test_without_subsampling_all_but_a_few_numbers_are_those_of_libjpeg(device, decoder):
    data = libjpeg_file(picture("gradient", 333, 177), 85, "444")
    assert np.abs(image_of(device, decoder.decode(data))[..., :3] - libjpeg_decode(data)).mean() < 0.12


@given(
    width=st.integers(1, 150),
    height=st.integers(1, 80),
    quality=st.integers(1, 100),
    subsampling=st.sampled_from(["444", "420"]),
    kind=st.sampled_from(PICTURES),
)
def test_any_size_and_quality(device, decoder, width, height, quality, subsampling, kind):
    data = encode(device, picture(kind, width, height), quality, subsampling)
    assert_same_picture(device, decoder.decode(data), data)


@pytest.mark.parametrize("size", [(1, 1), (2, 9), (4, 4), (5, 3), (7, 5), (333, 777), (4097, 3)])
@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
def test_odd_sizes(device, decoder, size, subsampling):
    data = libjpeg_file(picture("gradient", *size), 80, subsampling)
    texture = decoder.decode(data)
    assert texture.size[:2] == size
    assert_same_picture(device, texture, data)


@pytest.mark.parametrize("threads", [1, 500, 10**6])
def test_entries_may_be_spread_thinner_or_thicker(device, monkeypatch, threads):
    """A number to tune, which must not change the picture."""
    data = encode(device, picture("gradient", 700, 400), 90, "420")
    assert parse(data).positions.size > 128
    monkeypatch.setattr(decoder_module, "_DECODING_THREADS", threads)
    assert_same_picture(device, JpegDecoder(device).decode(data), data)


# ----- what the GPU does not decode


@pytest.mark.parametrize("options", [{"progressive": True}, {"restart_marker_rows": 0}])
def test_foreign_files_become_textures_all_the_same(device, decoder, options):
    data = libjpeg_file(picture("gradient", 65, 40), 80, "420", **options)
    with pytest.raises(ForeignJpegError):
        parse(data)
    assert np.abs(image_of(device, decoder.decode(data))[..., :3] - libjpeg_decode(data)).max() <= 1


@pytest.mark.parametrize("subsampling", ["440", "411"])
def test_foreign_subsamplings_become_textures_all_the_same(device, decoder, subsampling):
    rgb = np.ascontiguousarray(picture("gradient", 65, 40)[..., :3])
    data = simplejpeg.encode_jpeg(rgb, 80, colorsubsampling=subsampling)
    assert (
        np.abs(image_of(device, decoder.decode(bytearray(data)))[..., :3] - libjpeg_decode(data)).max() <= 1
    )


def test_a_foreign_file_needs_an_out_that_can_be_uploaded_to(device, decoder):
    data = libjpeg_file(picture("gradient", 65, 40), 80, "420", progressive=True)
    out = device.create_texture(
        size=(65, 40, 1), format="rgba8unorm", usage=wgpu.TextureUsage.STORAGE_BINDING
    )
    with pytest.raises(ValueError, match="COPY_DST"):
        decoder.decode(data, out=out)


def test_what_nobody_decodes_is_refused_by_name(device, decoder, tmp_path):
    Image.new("CMYK", (64, 64)).save(tmp_path / "cmyk.jpg")
    with pytest.raises(ForeignJpegError, match="CMYK"):
        decoder.decode((tmp_path / "cmyk.jpg").read_bytes())
    data = bytearray(libjpeg_file(picture("flat", 64, 64), 80, "444"))
    data[data.index(b"\xff\xc0") + 4] = 12
    with pytest.raises(ForeignJpegError, match="12 bits"):
        decoder.decode(data)


def test_a_foreign_file_that_is_broken_is_said_to_be(device, decoder):
    data = libjpeg_file(picture("gradient", 64, 64), 80, "444", progressive=True)
    with pytest.raises(CorruptJpegError, match="broken"):
        decoder.decode(data[: len(data) // 2])
    enormous = bytearray(data)
    at = data.index(b"\xff\xc2") + 5
    enormous[at : at + 4] = (60000).to_bytes(2, "big") * 2
    with pytest.raises(CorruptJpegError, match="60000x60000"):
        decoder.decode(enormous)


# ----- steady state


def texture_for(device, size):
    usage = wgpu.TextureUsage.STORAGE_BINDING | wgpu.TextureUsage.COPY_SRC
    return device.create_texture(size=(*size, 1), format="rgba8unorm", usage=usage)


def test_out_is_written(device, decoder):
    out = texture_for(device, (120, 90))
    data = encode(device, picture("gradient", 120, 90), 80, "444")
    assert decoder.decode(data, out=out) is out
    assert_same_picture(device, out, data)
    with pytest.raises(ValueError, match="120x91"):
        decoder.decode(encode(device, picture("flat", 120, 91), 80, "444"), out=out)
    with pytest.raises(ValueError, match="STORAGE_BINDING"):
        decoder.decode(data, out=texture_of(device, picture("flat", 120, 90)))


KINDS_OF_OBJECTS = ("Buffer", "BindGroup", "ComputePipeline", "Texture", "TextureView", "ShaderModule")


def object_counts():
    gc.collect()
    counts = wgpu.diagnostics.object_counts.get_dict()
    return {kind: counts[kind]["count"] for kind in KINDS_OF_OBJECTS}


@pytest.mark.parametrize(
    "rounds",
    [
        40,
        pytest.param(
            400,
            marks=pytest.mark.skipif(
                "RFB_GPU_SOAK" not in os.environ, reason="takes a minute; RFB_GPU_SOAK=1 runs it"
            ),
        ),
    ],
)
def test_steady_state_makes_no_gpu_objects(device, monkeypatch, rounds):
    """Frames of changing size, quality and subsampling, to a few textures: 1,000 of them, or 10,000 with RFB_GPU_SOAK=1."""
    decoder = JpegDecoder(device)
    sizes = [(120, 90), (64, 48), (33, 70)]
    textures = {size: [texture_for(device, size) for _ in range(2)] for size in sizes}
    files = []
    for seed, size in enumerate(sizes):
        for quality in (40, 90):
            for subsampling in SUBSAMPLINGS:
                optimize = bool(seed % 2)
                data = libjpeg_file(picture("gradient", *size, seed), quality, subsampling, optimize=optimize)
                files.append((size, data))
    files.append((sizes[0], libjpeg_file(picture("noise", *sizes[0]), 95, "444")))

    def show(turn):
        for size, data in files:
            decoder.decode(data, out=textures[size][turn % 2])

    for turn in range(4):  # buffers grow in the first round
        show(turn)
    before = object_counts()
    made = []
    made_by = [
        name for name in dir(device) if name.startswith("create_") and name != "create_command_encoder"
    ]
    for name in made_by:
        monkeypatch.setattr(type(device), name, lambda *args, name=name, **kwargs: made.append(name))
    for turn in range(rounds):
        show(turn)
    monkeypatch.undo()
    assert made == []
    assert object_counts() == before
    size, data = files[-1]
    assert_same_picture(device, textures[size][(rounds - 1) % 2], data)

    decoder.close()
    after = object_counts()
    assert before["Buffer"] - after["Buffer"] == 9
    assert before["BindGroup"] - after["BindGroup"] == 2 + 2 * len(sizes)
    with pytest.raises(RuntimeError, match="closed"):
        decoder.decode(data)


def test_a_texture_is_not_kept_alive_by_its_decoder(device):
    decoder = JpegDecoder(device)
    data = libjpeg_file(picture("gradient", 50, 50), 80, "444")
    decoder.decode(data)
    before = object_counts()
    for _ in range(20):
        decoder.decode(data)
    assert object_counts() == before


def test_passes_are_timed_on_request(device):
    with pytest.raises(RuntimeError, match="profile=True"):
        JpegDecoder(device).timings()
    if "timestamp-query" not in device.adapter.features:
        pytest.skip("the adapter has no timestamps")
    device = device.adapter.request_device_sync(required_features=["timestamp-query"])
    decoder = JpegDecoder(device, profile="stages")
    assert decoder.timings() == {}
    data = libjpeg_file(picture("gradient", 333, 177), 80, "420")
    assert_same_picture(device, decoder.decode(data), data)
    timings = decoder.timings()
    assert set(timings) == {"gpu", "huffman_decode", "reconstruct_chroma", "reconstruct"}
    assert all(0 <= seconds < 10 for seconds in timings.values())


# ----- bytes that mean harm


@given(st.data())
def test_hostile_bytes_give_an_error_or_a_picture_and_the_next_file_decodes(device, decoder, data):
    good = encode(device, picture("gradient", 100, 60), 80, data.draw(st.sampled_from(["444", "420"])))
    mutant = bytearray(good)
    for _ in range(data.draw(st.integers(1, 6))):
        mutant[data.draw(st.integers(0, len(mutant) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        mutant = mutant[: data.draw(st.integers(0, len(mutant)))]
    try:
        decoder.decode(mutant)
    except (JpegError, ValueError):
        pass
    assert_same_picture(device, decoder.decode(good), good)


def test_thousands_of_broken_files_do_no_harm(device, decoder):
    """2,000 mutants; RFB_GPU_MUTANTS=20000 in the environment makes it more, RFB_GPU_MUTANTS_SEED others."""
    count = int(os.environ.get("RFB_GPU_MUTANTS", 2000))
    rng = np.random.default_rng(int(os.environ.get("RFB_GPU_MUTANTS_SEED", 0)))
    image = picture("noise", 80, 40)
    originals = [reference_file(image[..., :3], 90, subsampling) for subsampling in SUBSAMPLINGS]
    originals += [libjpeg_file(image, 90, subsampling, optimize=True) for subsampling in SUBSAMPLINGS]
    originals.append(libjpeg_file(image, 80, "420", progressive=True))
    files = [parse(data) for data in originals[:4]]
    assert any(file.positions.size > file.layout.rows for file in files)
    decoded = 0
    for i, mutant in enumerate(mutants_of_all(originals, count, rng)):
        try:
            texture = decoder.decode(mutant)
        except (JpegError, ValueError):
            continue
        decoded += 1
        # Large textures are let go at once; the GPU is waited for now and then, so that an error shows where it was made.
        if decoded % 50 == 0:
            image_of(device, texture)
            good = originals[i % 8]
            assert_same_picture(device, decoder.decode(good), good)
    assert decoded > count // 20


def test_moved_entries_are_believed():
    """Else the tests of broken files would tell nothing of them."""
    good = reference_file(picture("noise", 80, 40)[..., :3], 90, "444")
    positions = parse(good).positions
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(50):
        file = bytearray(good)
        move_in_index(file, rng)
        seen = parse(file).positions
        wrong += seen.size == positions.size and bool((seen != positions).any())
    assert wrong > 10


def mutants_of_all(originals, count, rng):
    sources = [mutants(data, count // len(originals) + 1, rng) for data in originals]
    for _ in range(count):
        yield next(sources[int(rng.integers(len(sources)))], originals[0])


def test_tables_without_end_and_markers_within_the_stream(device, decoder):
    """Every symbol is a run of zeros, or a coefficient of the largest size, or has no code; the stream is all ones, or markers."""
    good = libjpeg_file(picture("gradient", 70, 40), 80, "420")
    head, start = good[: good.index(b"\xff\xda") + 14], good.index(b"\xff\xc4")
    rest = head[head.index(b"\xff\xda") :]
    before = head[:start] + b"\xff\xdd\0\4\0\5"
    streams = (b"\xff\0" * 300, bytes(600), b"\xff\xd0" * 300, bytes(range(255)) * 3)
    for symbol in (0x00, 0x10, 0xF0, 0x0F, 0xFF):
        for counts in (bytes([1] + [0] * 15), bytes([0] * 15 + [1]), bytes(16), bytes([1] * 16)):
            symbols = bytes([symbol] * sum(counts))
            tables = b"".join(
                b"\xff\xc4" + (19 + len(symbols)).to_bytes(2, "big") + bytes([slot]) + counts + symbols
                for slot in (0x00, 0x10, 0x01, 0x11)
            )
            for stream in streams:
                body = stream[:100] + b"\xff\xd0" + stream[100:250] + b"\xff\xd1" + stream[250:]
                try:
                    decoder.decode(before + tables + rest + body + b"\xff\xd9")
                except JpegError:
                    pass
    assert_same_picture(device, decoder.decode(good), good)
