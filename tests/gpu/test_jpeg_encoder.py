"""The encoder's files, as any other program sees them."""

import asyncio
import gc
import io
import warnings
import weakref

import numpy as np
import pytest
import simplejpeg
import wgpu
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from rfb_gpu import JpegEncoder, native
from rfb_gpu.codecs import CpuEncoder
from rfb_gpu.codecs.jpeg import encoder as encoder_module
from rfb_gpu.codecs.jpeg.bitstream import SUBSAMPLINGS, Layout
from rfb_gpu.codecs.jpeg.huffman import AdaptiveHuffman
from rfb_gpu.readback import GPUFuture
from tests.gpu.helpers import PICTURES, picture, psnr, texture_of


def encode(device, image, quality=80, subsampling="444", format="rgba8unorm"):
    encoder = JpegEncoder(device, quality, subsampling)
    frame = encoder.encode(texture_of(device, image, format)).result()
    encoder.close()
    return frame


def libjpeg(image, quality, subsampling):
    """libjpeg-turbo's own file, with its default, accurate DCT."""
    file = io.BytesIO()
    as_pillow_has_it(image, subsampling).save(
        file, "JPEG", quality=quality, subsampling={"444": 0, "422": 1, "420": 2, "gray": 0}[subsampling]
    )
    return file.getvalue()


def as_pillow_has_it(image, subsampling):
    """The picture without alpha, and without colour where a file has none."""
    picture = Image.fromarray(np.ascontiguousarray(image[..., :3]))
    return picture.convert("L") if subsampling == "gray" else picture


def decode(data):
    """By libjpeg-turbo, strictly; and Pillow must open it without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Image.open(io.BytesIO(data)).load()
    return simplejpeg.decode_jpeg(data, fastdct=False, strict=True)


def assert_as_good_as_libjpeg(image, frame, all_blocks_are_one=False):
    """PSNR within 0.1 dB, bytes within 2 % and what restart markers must cost; 1/80 of it is for the index."""
    theirs = libjpeg(image, frame.quality, frame.subsampling)
    rgb = np.asarray(as_pillow_has_it(image, frame.subsampling).convert("RGB"))
    ours_psnr = psnr(decode(bytes(frame)), rgb)
    theirs_psnr = psnr(simplejpeg.decode_jpeg(theirs, fastdct=False), rgb)
    # In pictures of a few blocks, one level that rounds the other way is more than that; beyond 50 dB there is nothing to see.
    pixels = frame.width * frame.height
    assert (
        ours_psnr
        > min(theirs_psnr, 30 if all_blocks_are_one else 50) - 0.1 - 12 / pixels**0.5 - 2 * all_blocks_are_one
    )
    # A marker takes two bytes; before it comes padding, after it DC starts from 0 again: up to 20 + 2 * 22 bits.
    layout = Layout(frame.width, frame.height, frame.subsampling)
    markers = (layout.rows - 1) * 10
    # In pictures of a block or two, or of one block over and over, every level that rounds the other way counts.
    assert len(frame) <= (1.1 if all_blocks_are_one else 1.02) * len(theirs) + markers + 64


@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
@pytest.mark.parametrize("quality", [1, 50, 80, 100])
@pytest.mark.parametrize("kind", PICTURES)
def test_as_good_as_libjpeg(device, kind, quality, subsampling):
    image = picture(kind, 331, 253)
    assert_as_good_as_libjpeg(image, encode(device, image, quality, subsampling))


@given(
    width=st.integers(1, 200),
    height=st.integers(1, 100),
    quality=st.integers(1, 100),
    subsampling=st.sampled_from(SUBSAMPLINGS),
    kind=st.sampled_from(PICTURES),
    seed=st.integers(0, 1000),
)
def test_any_size_quality_and_content(device, width, height, quality, subsampling, kind, seed):
    image = picture(kind, width, height, seed)
    # Where all blocks are the same, one level that rounds the other way counts everywhere.
    all_blocks_are_one = kind in ("alternating", "flat") or width * height <= 64
    assert_as_good_as_libjpeg(image, encode(device, image, quality, subsampling), all_blocks_are_one)


@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
@pytest.mark.parametrize(
    "size", [(1, 1), (8, 8), (9, 17), (1, 300), (4099, 3), (3, 4099), (1920, 64), (16384, 9), (9, 16384)]
)
def test_odd_sizes(device, size, subsampling):
    image = picture("gradient", *size)
    frame = encode(device, image, 90, subsampling)
    assert (frame.width, frame.height) == size
    assert_as_good_as_libjpeg(image, frame)


def stuffed_picture(width, height):
    """Blocks whose code is rich in ones: checkerboards and noise of full contrast at quality 100."""
    rng = np.random.default_rng(7)
    image = picture("alternating", width, height)
    image[:, ::3, :3] = rng.choice([0, 255], (height, -(-width // 3), 3))
    return image


@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
def test_byte_stuffing_is_exact(device, subsampling):
    image = stuffed_picture(300, 200)
    frame = encode(device, image, 100, subsampling)
    assert bytes(frame).count(b"\xff\0") > 100
    assert_as_good_as_libjpeg(image, frame)


@pytest.mark.parametrize("format", ["rgba8unorm", "rgba8unorm-srgb", "bgra8unorm", "bgra8unorm-srgb"])
def test_all_formats_give_the_same_file(device, format):
    """All 256 values of each channel come through: an sRGB texture's are not bent."""
    ramp = np.arange(256, dtype=np.uint8).repeat(2)
    image = (
        np.stack([ramp, ramp[::-1], np.roll(ramp, 100), np.full(512, 255)], -1)[None]
        .repeat(16, 0)
        .astype(np.uint8)
    )
    assert bytes(encode(device, image, 100, "444", format)) == bytes(encode(device, image, 100, "444"))


def test_gray_ramp_survives_an_srgb_texture(device):
    ramp = np.arange(256, dtype=np.uint8).repeat(8)
    image = np.repeat(ramp.reshape(1, -1, 1), 4, -1).repeat(8, 0)
    frame = encode(device, image, 100, "444", "rgba8unorm-srgb")
    np.testing.assert_array_equal(decode(bytes(frame)), image[..., :3])


def test_the_same_picture_gives_the_same_bytes(device):
    image = picture("gradient", 333, 111)
    assert len({bytes(encode(device, image)) for _ in range(5)}) == 1


def test_bands_join_to_the_same_file(device, monkeypatch):
    """A frame that is too large for the device's buffers is coded in bands; nobody can tell."""
    image = picture("gradient", 300, 400)
    whole = bytes(encode(device, image, 80, "420"))
    limits = {**device.limits, "max-storage-buffer-binding-size": 64 * 1024}
    monkeypatch.setattr(type(device), "limits", property(lambda self: limits))
    encoder = JpegEncoder(device, 80, "420")
    frame = encoder.encode(texture_of(device, image)).result()
    assert len(encoder._plan.bands) > 2
    assert bytes(frame) == whole


def test_a_row_that_fits_no_buffer_names_the_limit(device, monkeypatch):
    limits = {**device.limits, "max-storage-buffer-binding-size": 1024}
    monkeypatch.setattr(type(device), "limits", property(lambda self: limits))
    with pytest.raises(ValueError, match="max-storage-buffer-binding-size"):
        JpegEncoder(device).encode(texture_of(device, picture("flat", 300, 20)))


def test_frames_in_flight_keep_their_picture_and_settings(device):
    """The texture may be drawn to, and quality and size changed, as soon as encode has returned."""
    images = [
        picture(kind, *size)
        for kind, size in (("noise", (100, 80)), ("text", (100, 80)), ("gradient", (64, 90)))
    ]
    encoder = JpegEncoder(device, 50)
    texture = texture_of(device, images[0])
    futures = [encoder.encode(texture)]
    device.queue.write_texture({"texture": texture}, images[1], {"bytes_per_row": 400}, (100, 80, 1))
    encoder.quality = 90
    futures.append(encoder.encode(texture))
    encoder.subsampling = "420"
    futures.append(encoder.encode(texture_of(device, images[2])))
    frames = [future.result() for future in futures]
    assert [(f.quality, f.subsampling) for f in frames] == [(50, "444"), (90, "444"), (90, "420")]
    for image, frame in zip(images, frames, strict=True):
        assert_as_good_as_libjpeg(image, frame)


def test_more_frames_than_slots_all_arrive(device):
    encoder = JpegEncoder(device, slots=2)
    images = [picture("gradient", 64, 64, seed) for seed in range(7)]
    textures = [texture_of(device, image) for image in images]
    futures = [encoder.encode(texture) for texture in textures]
    for image, future in zip(images, futures, strict=True):
        assert_as_good_as_libjpeg(image, future.result())


def test_a_guess_that_was_short_is_made_up_for(device):
    """After flat frames comes noise: more bytes than were copied."""
    encoder = JpegEncoder(device, 95, huffman="standard")
    flat, noise = picture("flat", 400, 300), picture("noise", 400, 300)
    for image in (flat, flat, noise, noise, flat, noise):
        frame = encoder.encode(texture_of(device, image)).result()
        assert_as_good_as_libjpeg(image, frame)


def test_steady_state_makes_no_gpu_objects(device):
    encoder = JpegEncoder(device)
    texture = texture_of(device, picture("gradient", 200, 100))
    for _ in range(4):
        encoder.encode(texture).result()

    def counts():
        kinds = wgpu.diagnostics.object_counts.get_dict()
        return {
            kind: kinds[kind]["count"]
            for kind in ("Buffer", "BindGroup", "ComputePipeline", "TextureView", "ShaderModule")
        }

    before = counts()
    for quality in (80, 80, 79, 81) * 5:
        encoder.quality = quality
        encoder.encode(texture).result()
    assert counts() == before


def test_close_frees_the_buffers(device):
    gc.collect()
    before = wgpu.diagnostics.object_counts.get_dict()["Buffer"]["count"]
    encoder = JpegEncoder(device)
    future = encoder.encode(texture_of(device, picture("gradient", 200, 100)))
    encoder.close()
    assert len(future.result()) > 600, "a frame in flight is completed"
    with pytest.raises(RuntimeError, match="closed"):
        encoder.encode(texture_of(device, picture("gradient", 200, 100)))
    del encoder, future
    gc.collect()
    assert wgpu.diagnostics.object_counts.get_dict()["Buffer"]["count"] == before


def test_await_and_callbacks(device):
    async def main():
        encoder = JpegEncoder(device)
        texture = texture_of(device, picture("text", 90, 60))
        called = []
        future = encoder.encode(texture)
        future.add_done_callback(called.append)
        frame = await future
        await asyncio.sleep(0)
        assert called == [future]
        assert future.done()
        assert future.result() is frame
        late = []
        future.add_done_callback(late.append)
        assert late == [future]
        return await encoder.encode(texture)

    assert asyncio.run(main()).codec == "jpeg"


def test_a_callback_that_fails_is_nobody_elses_business(device, caplog):
    future = JpegEncoder(device).encode(texture_of(device, picture("text", 90, 60)))
    called = []
    future.add_done_callback(lambda _: 1 / 0)
    future.add_done_callback(called.append)
    assert future.result().width == 90
    assert called == [future]
    assert "ZeroDivisionError" in caplog.text


def test_a_future_made_without_a_loop_can_be_awaited(device):
    future = JpegEncoder(device).encode(texture_of(device, picture("text", 90, 60)))

    async def main():
        return await future

    assert asyncio.run(main()).width == 90


def test_result_on_the_loops_own_thread(device):
    async def main():
        return JpegEncoder(device).encode(texture_of(device, picture("text", 90, 60))).result(timeout=60)

    assert asyncio.run(main()).width == 90


def test_profiling_times_every_pass(device):
    timed = device.adapter.request_device_sync(required_features=["timestamp-query"])
    texture = texture_of(timed, picture("gradient", 300, 300))
    timings = JpegEncoder(timed, profile="stages").encode(texture).result().timings
    passes = [timings[name] for name in ("encode_span", "place_spans", "write_stream")]
    assert all(seconds > 0 for seconds in passes)
    assert timings["gpu"] >= max(passes)
    timings = JpegEncoder(timed, profile=True).encode(texture).result().timings
    assert timings["gpu"] > 0 and "encode_span" not in timings


@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
def test_a_part_of_a_texture_gives_the_file_of_that_part(device, subsampling):
    image = picture("gradient", 200, 150)
    encoder = JpegEncoder(device, 80, subsampling, huffman="standard")
    texture = texture_of(device, image)
    whole = bytes(encoder.encode(texture).result())
    for x, y, width, height in [(0, 0, 200, 150), (13, 7, 101, 90), (199, 149, 1, 1), (150, 0, 50, 150)]:
        frame = encoder.encode(texture, rect=(x, y, width, height)).result()
        part = np.ascontiguousarray(image[y : y + height, x : x + width])
        assert bytes(frame) == bytes(encode(device, part, 80, subsampling))
    assert bytes(encoder.encode(texture).result()) == whole


@pytest.mark.parametrize("make", [JpegEncoder, lambda device, **settings: CpuEncoder(device, **settings)])
@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
@pytest.mark.parametrize("scale", [2, 4])
def test_a_smaller_picture_is_the_mean_of_its_pixels(device, scale, subsampling, make):
    image = picture("gradient", 103, 61)
    encoder = make(device, quality=95, subsampling=subsampling, scale=scale)
    frame = encoder.encode(texture_of(device, image, "rgba8unorm-srgb")).result()
    encoder.close()
    width, height = -(-103 // scale), -(-61 // scale)
    assert (frame.width, frame.height, frame.scale) == (width, height, scale)
    whole = np.pad(image, ((0, height * scale - 61), (0, width * scale - 103), (0, 0)), mode="edge")
    mean = whole.reshape(height, scale, width, scale, 4).mean((1, 3)).round().astype(np.uint8)
    if make is JpegEncoder:
        assert_as_good_as_libjpeg(mean, frame)
    else:
        best = simplejpeg.decode_jpeg(libjpeg(mean, 95, subsampling), fastdct=False)
        assert psnr(decode(bytes(frame)), best) > 40


@pytest.mark.parametrize("scale", [1, 2, 4])
def test_a_part_of_a_texture_at_a_smaller_scale(device, scale):
    """What lies beside the part must not be seen in it."""
    image = picture("noise", 90, 70)
    encoder = JpegEncoder(device, scale=scale, huffman="standard")
    part = encoder.encode(texture_of(device, image), rect=(11, 7, 53, 37)).result()
    alone = encoder.encode(texture_of(device, np.ascontiguousarray(image[7:44, 11:64]))).result()
    encoder.close()
    assert bytes(part) == bytes(alone)


def test_a_layer_of_a_texture_by_its_view(device):
    images = [picture("gradient", 120, 80), picture("text", 120, 80)]
    texture = device.create_texture(
        size=(120, 80, 2),
        format="rgba8unorm",
        usage=wgpu.TextureUsage.TEXTURE_BINDING | wgpu.TextureUsage.COPY_DST,
    )
    encoder = JpegEncoder(device, huffman="standard")
    for layer, image in enumerate(images):
        device.queue.write_texture(
            {"texture": texture, "origin": (0, 0, layer)}, image, {"bytes_per_row": 480}, (120, 80, 1)
        )
    for layer, image in enumerate(images):
        view = texture.create_view(dimension="2d", base_array_layer=layer, array_layer_count=1)
        for _ in range(2):
            assert bytes(encoder.encode(view).result()) == bytes(encode(device, image, 80))
    with pytest.raises(ValueError, match="view of one layer"):
        encoder.encode(texture)


@pytest.mark.parametrize(
    "rect", [(-1, 0, 10, 10), (0, 0, 0, 10), (0, 0, 10, -1), (195, 0, 10, 10), (0, 145, 10, 10)]
)
def test_a_part_outside_of_the_texture_is_refused(device, rect):
    with pytest.raises(ValueError, match="not within the texture of 200x150"):
        JpegEncoder(device).encode(texture_of(device, picture("flat", 200, 150)), rect=rect)


def test_quantisation_tables_of_ones_own(device):
    image = picture("gradient", 120, 80)
    tables = np.stack([np.full((8, 8), 3), np.arange(1, 65).reshape(8, 8)])
    data = bytes(JpegEncoder(device, quantisation=tables).encode(texture_of(device, image)).result())
    file = io.BytesIO()
    zigzag = [table.ravel().tolist() for table in tables]
    rgb = np.ascontiguousarray(image[..., :3])
    Image.fromarray(rgb).save(file, "JPEG", qtables=zigzag, subsampling=0)
    assert Image.open(io.BytesIO(data)).quantization == Image.open(file).quantization
    assert psnr(decode(data), rgb) > psnr(decode(file.getvalue()), rgb) - 0.2


def test_dpi_is_noted_in_the_file(device):
    texture = texture_of(device, picture("text", 60, 40))
    with_dpi = bytes(JpegEncoder(device, dpi=300).encode(texture).result())
    assert Image.open(io.BytesIO(with_dpi)).info["dpi"] == (300, 300)
    assert "dpi" not in Image.open(io.BytesIO(bytes(JpegEncoder(device).encode(texture).result()))).info


def test_files_are_the_same_with_and_without_the_checks_that_wgpu_adds(device, monkeypatch):
    """Shaders are compiled without bounds checks; with them, nothing changes but the time."""
    images = [picture(kind, 333, 111) for kind in PICTURES]
    trusted = [bytes(encode(device, image, 95, "420")) for image in images]
    monkeypatch.setenv("RFB_GPU_CHECKED_SHADERS", "1")
    checked_device = device.adapter.request_device_sync()
    assert [bytes(encode(checked_device, image, 95, "420")) for image in images] == trusted


@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
def test_blocks_too_dense_to_be_coded_over_their_levels(device, subsampling):
    """Levels of 8 bits and more in a row take more than 16 bits each: such blocks are walked twice."""
    rng = np.random.default_rng(3)
    image = np.full((64, 96, 4), 255, np.uint8)
    image[..., :3] = rng.choice([0, 255], (64, 96, 3))
    image[:, 48:, :3] = 128  # and calm ones beside them
    frame = encode(device, image, 100, subsampling)
    assert_as_good_as_libjpeg(image, frame)


def test_files_are_the_same_by_wgpus_public_functions(device, monkeypatch):
    image = picture("gradient", 301, 99)
    direct = bytes(encode(device, image))
    assert native.load() is not None
    monkeypatch.setattr(native, "load", lambda: None)
    assert bytes(encode(device, image)) == direct


def test_what_wgpu_refuses_is_raised(device, monkeypatch):
    encoder = JpegEncoder(device)
    texture = texture_of(device, picture("flat", 32, 32))
    whole = bytes(encoder.encode(texture).result())
    with monkeypatch.context() as patch:
        patch.setattr(
            encoder_module, "_spans_per_row", lambda layout: 1 << 20
        )  # more workgroups than there can be
        with pytest.raises(wgpu.GPUError, match="dispatch group size"):
            encoder.encode(texture)
    np.testing.assert_array_equal(decode(bytes(encoder.encode(texture).result())), decode(whole))


def smooth(width, height):
    """A rendering: broad gradients and one edge."""
    y, x = np.mgrid[:height, :width]
    rgb = np.stack([x * 200 / width, y * 255 / height, 100 + 100 * np.sin(x / 90)], -1)
    rgb[(x - width / 2) ** 2 + (y - height / 2) ** 2 < (height / 3) ** 2] *= 0.5
    return np.dstack([rgb, np.full((height, width), 255)]).astype(np.uint8)


@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
def test_huffman_tables_follow_the_content(device, subsampling):
    texture = texture_of(device, smooth(640, 480))
    encoder = JpegEncoder(device, 80, subsampling)
    frames = [encoder.encode(texture).result() for _ in range(6)]
    assert len(frames[-1]) < 0.9 * len(frames[0])
    # Other codes, the same levels: every file has its tables with it.
    pictures = [decode(bytes(frame)) for frame in frames]
    assert all(np.array_equal(picture, pictures[0]) for picture in pictures)
    # Once fitted they stay, until the content is another.
    assert bytes(frames[-1]) == bytes(frames[-2])
    assert bytes(frames[0]) == bytes(
        JpegEncoder(device, 80, subsampling, huffman="standard").encode(texture).result()
    )


@pytest.mark.parametrize("kind", PICTURES)
def test_fitted_tables_never_cost_more(device, kind):
    """Not on the picture that they were fitted to; and on the first of another kind, two bits a symbol at most."""
    before, image = texture_of(device, smooth(400, 304)), texture_of(device, picture(kind, 400, 304))
    standard = len(JpegEncoder(device, 80, huffman="standard").encode(image).result())
    encoder = JpegEncoder(device, 80)
    for _ in range(3):
        encoder.encode(before).result()
    frames = [encoder.encode(image).result() for _ in range(2 * AdaptiveHuffman.EVERY)]
    assert len(frames[0]) < 1.35 * standard
    tables = 420  # bytes that all four take in a file
    assert len(frames[-1]) <= standard + tables


@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
@pytest.mark.parametrize("kind", ["noise", "text", "gradient"])
def test_levels_of_8_bits_give_the_same_file_as_levels_of_16(device, kind, subsampling, monkeypatch):
    image = picture(kind, 410, 90)
    narrow = bytes(encode(device, image, 80, subsampling))
    monkeypatch.setattr(encoder_module, "_needs_wide_levels", lambda quantisers: True)
    assert bytes(encode(device, image, 80, subsampling)) == narrow


def test_levels_of_8_bits_are_enough_wherever_they_are_used(device):
    """The largest coefficients that there can be: each basis function at full contrast."""
    k = np.arange(8)
    signs = np.sign(np.cos((2 * k[None, :] + 1) * k[:, None] * np.pi / 16)) + 0.0
    blocks = np.einsum("vy,ux->vyux", signs, signs)
    image = np.full((64, 64, 4), 255, np.uint8)
    image[..., :3] = (blocks.reshape(64, 64) > 0)[..., None] * 255
    quality = max(
        q for q in range(1, 101) if not encoder_module._needs_wide_levels(encoder_module._quantisers(q))
    )
    assert quality >= 80
    frame = encode(device, image, quality)
    assert_as_good_as_libjpeg(image, frame)


def test_a_frame_is_freed_when_the_next_one_comes_at_the_latest(device):
    async def main():
        encoder = JpegEncoder(device)
        texture = texture_of(device, picture("gradient", 64, 64))
        frames = []
        for _ in range(5):
            frame = await encoder.encode(texture)
            frames.append(weakref.ref(frame))
            del frame
        await asyncio.sleep(0.05)
        encoder.close()
        return [frame() for frame in frames[:-1]]  # wgpu has the last promise in hand

    gc.disable()
    try:
        assert asyncio.run(main()) == [None] * 4
    finally:
        gc.enable()


def test_a_map_that_fails_is_told_to_who_waits(device):
    def steps():
        buffer = device.create_buffer(size=16, usage=wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST)
        promise = buffer.map_async("READ_NOSYNC", 0, 16)
        buffer.destroy()
        yield promise
        promise.sync_wait()

    async def main():
        future, told = GPUFuture(steps()), asyncio.Event()
        future.add_done_callback(lambda _: told.set())
        await asyncio.wait_for(told.wait(), 10)
        return future.exception()

    # On a busy machine the map may be done before the buffer is destroyed.
    assert any(asyncio.run(main()) is not None for _ in range(20))


def test_textures_that_cannot_be_encoded_say_why(device):
    encoder = JpegEncoder(device)
    image = picture("flat", 8, 8)
    with pytest.raises(ValueError, match="TEXTURE_BINDING"):
        encoder.encode(
            texture_of(device, image, usage=wgpu.TextureUsage.COPY_DST | wgpu.TextureUsage.COPY_SRC)
        )
    with pytest.raises(TypeError, match=r"wgpu\.GPUTexture"):
        encoder.encode(image)
    usage = wgpu.TextureUsage.TEXTURE_BINDING
    with pytest.raises(ValueError, match="rgba16float"):
        encoder.encode(device.create_texture(size=(8, 8, 1), format="rgba16float", usage=usage))
    with pytest.raises(ValueError, match="layers"):
        encoder.encode(device.create_texture(size=(8, 8, 2), format="rgba8unorm", usage=usage))
    other = device.adapter.request_device_sync()
    with pytest.raises(ValueError, match="another device"):
        encoder.encode(texture_of(other, image))


@pytest.mark.parametrize(
    "arguments, error, match",
    [
        ({"quality": 0}, ValueError, "from 1 to 100"),
        ({"quality": 80.5}, TypeError, "whole number"),
        ({"subsampling": "422x"}, ValueError, "subsampling"),
        ({"slots": 0}, ValueError, "slots"),
        ({"scale": 3}, ValueError, "scale"),
        ({"dpi": 0}, ValueError, "dpi"),
    ],
)
def test_bad_arguments(device, arguments, error, match):
    with pytest.raises(error, match=match):
        JpegEncoder(device, **arguments)


def test_device_of_another_type():
    with pytest.raises(TypeError, match="GPUDevice"):
        JpegEncoder("cuda")
