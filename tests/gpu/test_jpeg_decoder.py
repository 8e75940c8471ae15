"""The decoder against libjpeg-turbo, on our files and on others, and against bytes that mean harm."""

import io

import numpy as np
import pytest
import simplejpeg
import wgpu
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from rfb_gpu import JpegDecoder, JpegEncoder
from rfb_gpu.codecs import ForeignJpegError, JpegError
from tests.gpu.helpers import PICTURES, image_of, picture, texture_of


@pytest.fixture(scope="module")
def decoder(device):
    return JpegDecoder(device)


def libjpeg_decode(data):
    # Without smoothing of chroma, as the decoder does.
    return simplejpeg.decode_jpeg(data, fastdct=False, fastupsample=True).astype(int)


def encode(device, image, quality, subsampling):
    return bytes(JpegEncoder(device, quality, subsampling).encode(texture_of(device, image)).result())


@pytest.mark.parametrize("subsampling", ["444", "420"])
@pytest.mark.parametrize("kind", PICTURES)
def test_same_picture_as_libjpeg(device, decoder, kind, subsampling):
    data = encode(device, picture(kind, 333, 177), 85, subsampling)
    difference = np.abs(image_of(device, decoder.decode(data))[..., :3] - libjpeg_decode(data))
    assert difference.max() <= 4
    assert difference.mean() < 0.1


@given(
    width=st.integers(1, 150),
    height=st.integers(1, 80),
    quality=st.integers(1, 100),
    subsampling=st.sampled_from(["444", "420"]),
    kind=st.sampled_from(PICTURES),
)
def test_any_size_and_quality(device, decoder, width, height, quality, subsampling, kind):
    data = encode(device, picture(kind, width, height), quality, subsampling)
    difference = np.abs(image_of(device, decoder.decode(data))[..., :3] - libjpeg_decode(data))
    assert difference.max() <= 4


@pytest.mark.parametrize("size", [(1, 1), (7, 5), (333, 777), (4097, 3)])
@pytest.mark.parametrize("subsampling", ["444", "420"])
def test_odd_sizes(device, decoder, size, subsampling):
    data = encode(device, picture("gradient", *size), 80, subsampling)
    texture = decoder.decode(data)
    assert texture.size[:2] == size
    assert np.abs(image_of(device, texture)[..., :3] - libjpeg_decode(data)).max() <= 4


def test_files_of_libjpeg_with_optimised_tables(device, decoder):
    """Other Huffman tables, no index: restart markers are found."""
    file = io.BytesIO()
    rgb = np.ascontiguousarray(picture("gradient", 200, 100)[..., :3])
    Image.fromarray(rgb).save(file, "JPEG", quality=90, subsampling=2, optimize=True, restart_marker_rows=1)
    data = file.getvalue()
    assert np.abs(image_of(device, decoder.decode(data))[..., :3] - libjpeg_decode(data)).max() <= 4


def test_foreign_files_are_refused_by_name(device, decoder):
    file = io.BytesIO()
    Image.fromarray(picture("gradient", 64, 64)[..., :3]).save(file, "JPEG", progressive=True)
    with pytest.raises(ForeignJpegError, match="progressive"):
        decoder.decode(file.getvalue())


def test_out_is_written_and_steady_state_makes_no_gpu_objects(device, decoder):
    usage = wgpu.TextureUsage.STORAGE_BINDING | wgpu.TextureUsage.COPY_SRC
    out = device.create_texture(size=(120, 90, 1), format="rgba8unorm", usage=usage)
    files = [encode(device, picture("gradient", 120, 90, seed), 80, "444") for seed in range(4)]
    for data in files:
        assert decoder.decode(data, out=out) is out

    def counts():
        kinds = wgpu.diagnostics.object_counts.get_dict()
        return {
            kind: kinds[kind]["count"]
            for kind in ("Buffer", "BindGroup", "ComputePipeline", "Texture", "TextureView")
        }

    before = counts()
    for data in files * 5:
        decoder.decode(data, out=out)
    assert counts() == before
    assert np.abs(image_of(device, out)[..., :3] - libjpeg_decode(files[-1])).max() <= 4
    with pytest.raises(ValueError, match="120x91"):
        decoder.decode(encode(device, picture("flat", 120, 91), 80, "444"), out=out)


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
    assert np.abs(image_of(device, decoder.decode(good))[..., :3] - libjpeg_decode(good)).max() <= 4
