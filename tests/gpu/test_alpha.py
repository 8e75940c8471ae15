"""Frames with an alpha channel: what a page that knows of it makes of the file, and what everybody else sees."""

import io

import numpy as np
import pytest
import simplejpeg
import wgpu
from PIL import Image

from rfb_gpu import JpegDecoder, PngEncoder
from rfb_gpu.codecs import AlphaJpegEncoder, CpuEncoder, JpegEncoder
from tests.gpu.helpers import psnr, texture_of


def encode(device, codec, image, on_cpu, texture_format="rgba8unorm", **arguments):
    texture = texture_of(device, image, texture_format)
    if on_cpu:
        encoder = CpuEncoder(device, codec, has_alpha=True, **arguments)
    elif codec == "png":
        encoder = PngEncoder(device, "premultiplied", **arguments)
    else:
        encoder = AlphaJpegEncoder(device, **arguments)
    frame = encoder.encode(texture).result()
    encoder.close()
    return frame


def premultiplied(straight):
    """What a compositor makes of straight alpha, in whole numbers."""
    straight = straight.astype(np.uint32)
    colour = (straight[..., :3] * straight[..., 3:] + 127) // 255
    return np.concatenate([colour, straight[..., 3:]], axis=-1).astype(np.uint8)


def merged(frame):
    """What our page makes of a JPEG with alpha."""
    data = bytes(frame)
    colour = simplejpeg.decode_jpeg(data[: frame.alpha_start], "RGB")
    alpha = simplejpeg.decode_jpeg(data[frame.alpha_start :], "GRAY")
    return np.concatenate([np.minimum(colour, alpha), alpha], axis=-1)


def all_pairs():
    """Every alpha with every number that it allows, in all channels."""
    alpha, colour = np.indices((256, 256), dtype=np.uint8)
    colour = np.minimum(colour, alpha)
    return np.stack([colour, alpha - colour, alpha // 2, alpha], axis=-1)


def scene(width=200, height=150):
    """A soft disc, an opaque box and lines on nothing."""
    y, x = np.mgrid[:height, :width].astype(float)
    alpha = np.clip(1.5 - np.hypot(x - 60, y - 70) / 40, 0, 1)
    alpha[20:60, 120:180] = 1
    alpha[100:102] = 1
    colour = np.stack([x / width, y / height, 1 - x / width], axis=-1)
    image = np.concatenate([colour * alpha[..., None], alpha[..., None]], axis=-1)
    return np.round(image * 255).astype(np.uint8)


@pytest.mark.parametrize("on_cpu", [False, True], ids=["gpu", "cpu"])
@pytest.mark.parametrize("texture_format", ["rgba8unorm", "bgra8unorm"])
def test_a_png_multiplied_with_its_alpha_is_every_number_of_the_texture(device, on_cpu, texture_format):
    image = all_pairs()
    frame = encode(device, "png", image, on_cpu, texture_format)
    shown = np.asarray(Image.open(io.BytesIO(bytes(frame))))
    assert shown.shape[2] == 4
    assert (premultiplied(shown) == image).all()


@pytest.mark.parametrize("on_cpu", [False, True], ids=["gpu", "cpu"])
def test_colours_of_srgb_textures_are_those_of_opaque_ones(device, on_cpu):
    """pygfx multiplies linear values with alpha; half of a colour is to look like that colour, half covered."""
    grays = np.arange(256, dtype=np.uint8)
    linear = np.where(grays <= 10, grays / 255 / 12.92, ((grays / 255 + 0.055) / 1.055) ** 2.4)
    image = np.zeros((2, 256, 4), np.uint8)
    for row, alpha in enumerate((128, 255)):
        half = linear * alpha / 255
        encoded = np.where(half <= 0.0031308, half * 12.92, 1.055 * half ** (1 / 2.4) - 0.055)
        image[row, :, :3] = np.round(255 * encoded)[:, None]
        image[row, :, 3] = alpha
    shown = np.asarray(Image.open(io.BytesIO(bytes(encode(device, "png", image, on_cpu, "rgba8unorm-srgb")))))
    assert (shown[1, :, 0] == grays).all()
    # A level of half the light is up to 1.4 of the whole.
    assert np.abs(shown[0, :, 0].astype(int) - grays).max() <= 1
    assert (shown[..., 3] == image[..., 3]).all()
    jpeg = merged(encode(device, "jpeg", np.repeat(image, 8, axis=0), on_cpu, "rgba8unorm-srgb", quality=95))
    assert np.abs(jpeg[4, :, 0] - grays * (128 / 255)).max() < 6
    assert np.abs(jpeg[12, :, 0].astype(int) - grays).max() < 6


@pytest.mark.parametrize("on_cpu", [False, True], ids=["gpu", "cpu"])
@pytest.mark.parametrize("subsampling", ["444", "420"])
def test_a_jpeg_has_alpha_behind_it(device, on_cpu, subsampling):
    image = scene()
    frame = encode(device, "jpeg", image, on_cpu, quality=80, subsampling=subsampling)
    assert frame.codec == "jpeg" and 0 < frame.alpha_start < len(frame)
    picture = merged(frame)
    assert psnr(picture[..., 3], image[..., 3]) > 38
    assert psnr(picture[..., :3], image[..., :3]) > (36 if subsampling == "444" else 33)
    # Where nothing is, nothing is added; what is opaque lets nothing through.
    empty = np.s_[110:, 120:]
    assert not picture[empty].any()
    assert (picture[24:56, 128:176, 3] == 255).all()


def test_others_see_the_colour_of_a_jpeg_with_alpha(device):
    image = scene()
    frame = encode(device, "jpeg", image, on_cpu=False)
    shown = np.asarray(Image.open(io.BytesIO(bytes(frame))))
    plain = JpegEncoder(device, huffman="standard").encode(texture_of(device, image)).result()
    assert (shown == np.asarray(Image.open(io.BytesIO(bytes(plain))))).all()
    texture = JpegDecoder(device).decode(bytes(frame))
    assert texture.size[:2] == (200, 150)


def test_what_is_brighter_than_its_alpha_is_as_bright_as_that(device):
    image = np.full((16, 16, 4), 100, np.uint8)
    image[..., 0] = 200
    for on_cpu in (False, True):
        shown = np.asarray(Image.open(io.BytesIO(bytes(encode(device, "png", image, on_cpu)))))
        assert (premultiplied(shown) == 100).all()
        assert np.abs(merged(encode(device, "jpeg", image, on_cpu)).astype(int) - 100).max() <= 2


@pytest.mark.parametrize("on_cpu", [False, True], ids=["gpu", "cpu"])
def test_scaled(device, on_cpu):
    image = np.kron(scene(100, 76), np.ones((2, 2, 1), np.uint8))
    frame = encode(device, "jpeg", image, on_cpu, scale=2, quality=90)
    assert (frame.width, frame.height, frame.scale) == (100, 76, 2)
    assert psnr(merged(frame), scene(100, 76)) > 36


def test_frames_in_flight_keep_their_settings(device):
    encoder = AlphaJpegEncoder(device, 90)
    texture = texture_of(device, scene())
    first = encoder.encode(texture)
    encoder.quality, encoder.subsampling = 40, "420"
    second = encoder.encode(texture)
    assert (second.result().quality, second.result().subsampling) == (40, "420")
    assert (first.result().quality, first.result().subsampling) == (90, "444")
    assert len(second.result()) < len(first.result())
    encoder.close()


def test_an_unknown_plane_is_named(device):
    with pytest.raises(
        ValueError, match="plane must be one of 'colour', 'premultiplied', 'alpha', not 'red'"
    ):
        JpegEncoder(device, plane="red")


def test_usage_is_checked_as_ever(device):
    texture = device.create_texture(size=(8, 8, 1), format="rgba8unorm", usage=wgpu.TextureUsage.COPY_DST)
    with pytest.raises(ValueError, match="TEXTURE_BINDING"):
        AlphaJpegEncoder(device).encode(texture)
