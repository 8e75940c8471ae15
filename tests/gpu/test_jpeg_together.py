"""Encoder and decoder through frames of ever changing kind: what one frame leaves behind must not be seen in the next."""

import os

import numpy as np
import pytest
import simplejpeg

from rfb_gpu import JpegDecoder, JpegEncoder
from rfb_gpu.codecs.jpeg.bitstream import SUBSAMPLINGS
from tests.gpu.helpers import PICTURES, image_of, picture, psnr, texture_of

FRAMES = 4000 if os.environ.get("RFB_GPU_SOAK") else 80


def test_frames_of_changing_kind(device):
    """Sizes, qualities, subsamplings, contents and parts change, with frames in flight. RFB_GPU_SOAK=1: 4,000 frames."""
    rng = np.random.default_rng(int(os.environ.get("RFB_GPU_SOAK_SEED", "5")))
    encoder, decoder = JpegEncoder(device), JpegDecoder(device)
    in_flight = []
    width, height = 200, 150

    def check(future, image, settings):
        frame = future.result()
        data = bytes(frame)
        libjpegs = simplejpeg.decode_jpeg(data, fastdct=False, fastupsample=False, strict=True)
        assert libjpegs.shape == image[..., :3].shape, settings
        target = image[..., :3].astype(float)
        if frame.subsampling == "gray":
            target = np.repeat((target @ [0.299, 0.587, 0.114])[..., None], 3, -1)
        # The file itself, against the best that libjpeg does with the picture.
        best = simplejpeg.encode_jpeg(
            np.ascontiguousarray(image[..., :3]),
            quality=frame.quality,
            colorsubsampling="Gray" if frame.subsampling == "gray" else frame.subsampling,
            fastdct=False,
        )
        bound = psnr(simplejpeg.decode_jpeg(best, fastdct=False, fastupsample=False), target)
        # In pictures of one block over and over, one level that rounds the other way is seen everywhere.
        most, slack = (30, 3) if settings[1] in ("flat", "white", "alternating") else (45, 1)
        assert psnr(libjpegs, target) > min(bound, most) - slack - 12 / (image.size / 4) ** 0.5, settings
        # Our decoder, with the index and without libjpeg's rounding of chroma.
        ours = image_of(device, decoder.decode(data))[..., :3].astype(int)
        assert np.abs(ours - libjpegs).mean() < 0.6 + 5 / (image.size / 4) ** 0.5, settings
        assert np.abs(ours - libjpegs).max() <= 4, settings

    for number in range(FRAMES):
        if rng.random() < 0.3:
            width, height = (int(2 ** rng.uniform(0, 9)) for _ in range(2))
        if rng.random() < 0.3:
            encoder.quality = int(rng.choice([1, 20, 50, 80, 82, 83, 90, 95, 100]))
        if rng.random() < 0.3:
            encoder.subsampling = str(rng.choice(SUBSAMPLINGS))
        kind = str(rng.choice(PICTURES))
        image = picture(kind, width, height, seed=number)
        texture = texture_of(device, image, str(rng.choice(["rgba8unorm", "rgba8unorm-srgb", "bgra8unorm"])))
        rect = None
        if rng.random() < 0.3:
            x, y = int(rng.integers(width)), int(rng.integers(height))
            rect = (x, y, int(rng.integers(1, width - x + 1)), int(rng.integers(1, height - y + 1)))
            image = np.ascontiguousarray(image[y : y + rect[3], x : x + rect[2]])
        settings = (number, kind, width, height, rect, encoder.quality, encoder.subsampling)
        in_flight.append((encoder.encode(texture, rect=rect), image, settings))
        while len(in_flight) > 2 or (in_flight and number == FRAMES - 1):
            check(*in_flight.pop(0))


@pytest.mark.parametrize("quality", [80, 95])
def test_flat_colours_do_not_jump_when_the_lossless_frame_comes(device, quality):
    """2,048 colours, from the default quality on; at 50 they are off by up to 4."""
    colours = np.random.default_rng(1).integers(0, 256, (32, 64, 3))
    image = np.dstack([np.kron(colours, np.ones((16, 16, 1))), np.full((512, 1024), 255)]).astype(np.uint8)
    encoder, decoder = JpegEncoder(device, quality, "444"), JpegDecoder(device)
    shown = image_of(device, decoder.decode(encoder.encode(texture_of(device, image)).result().data))
    assert np.abs(shown[..., :3].astype(int) - image[..., :3]).max() <= 1
    encoder.close()
    decoder.close()
