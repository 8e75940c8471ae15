"""Which arrays fit which textures, how they lie in staging buffers, and which can change under our hands."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from rfb_gpu.uploads import configure
from rfb_gpu.uploads.staging import Part, can_change, copy_texels, part_for, texel_format

RGBA8, R16, RGBA_FLOAT = (texel_format(name) for name in ("rgba8unorm-srgb", "r16uint", "rgba32float"))


def test_formats_tell_channels_and_type():
    assert texel_format("rgba8unorm-srgb") == (4, np.uint8)
    assert texel_format("bgra8unorm") == (4, np.uint8)
    assert texel_format("rg16float") == (2, np.float16)
    assert texel_format("r32sint") == (1, np.int32)
    assert texel_format("rgba8snorm").opaque == 127
    assert texel_format("rgba16float").opaque == 1.0


@pytest.mark.parametrize("name", ["bc1-rgba-unorm", "depth24plus", "rgb10a2unorm", "rg11b10ufloat"])
def test_formats_that_no_array_has_are_refused(name):
    with pytest.raises(ValueError, match=name):
        texel_format(name)


@pytest.mark.parametrize(
    ("shape", "texel", "size"),
    [
        ((90, 160, 4), RGBA8, (160, 90, 1)),
        ((90, 160, 3), RGBA8, (160, 90, 1)),
        ((90, 160), R16, (160, 90, 1)),
        ((5, 90, 160), R16, (160, 90, 5)),
        ((5, 90, 160, 4), RGBA8, (160, 90, 5)),
        ((160, 4), RGBA8, (160, 1, 1)),
    ],
)
def test_whole_textures(shape, texel, size):
    assert part_for(np.zeros(shape, texel.dtype), None, size, texel) == ((0, 0, 0), size)


@pytest.mark.parametrize(
    ("shape", "origin", "part"),
    [
        ((10, 20), (3, 4), ((3, 4, 0), (20, 10, 1))),
        ((90, 160), (0, 0, 4), ((0, 0, 4), (160, 90, 1))),
        ((2, 10, 20), (140, 80, 3), ((140, 80, 3), (20, 10, 2))),
    ],
)
def test_parts(shape, origin, part):
    assert part_for(np.zeros(shape, np.uint16), origin, (160, 90, 5), R16) == part


@pytest.mark.parametrize(
    ("shape", "origin", "error", "says"),
    [
        ((90, 100, 4), None, ValueError, "origin="),
        ((90, 160, 2), None, ValueError, "4 channels"),
        ((90, 160), None, ValueError, "4 channels"),
        ((90, 0, 4), (0, 0), ValueError, "cannot be put"),
        ((1, 1, 90, 160, 4), None, ValueError, "cannot be put"),
        ((10, 10, 4), (151, 0), ValueError, "beyond"),
        ((10, 10, 4), (-1, 0), ValueError, "beyond"),
        ((10, 10, 4), (0.5, 0), TypeError, "whole numbers"),
        ((10, 10, 4), 3, TypeError, "whole numbers"),
        ((10, 10, 4), (0, 0, 0, 0), TypeError, "whole numbers"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_cure(shape, origin, error, says):
    with pytest.raises(error, match=says):
        part_for(np.zeros(shape, np.uint8), origin, (160, 90, 1), RGBA8)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, bool, ">u2"])
def test_other_types_are_refused_with_the_cure(dtype):
    with pytest.raises(TypeError, match="astype"):
        part_for(np.zeros((90, 160), dtype), None, (160, 90, 1), R16)


@pytest.mark.parametrize("name", ["r8unorm", "rg16float", "rgba32float"])
def test_rows_begin_where_webgpu_wants_them(name):
    texel = texel_format(name)
    part = Part((0, 0, 0), (7, 3, 2))
    array = np.random.default_rng(1).random((2, 3, 7, texel.channels)).astype(texel.dtype)
    memory = np.zeros(part.staging_bytes(texel), np.uint8)
    assert part.bytes_per_row(texel) % 256 == 0
    copy_texels(array, memory, part.bytes_per_row(texel), part, texel)
    rows = memory.reshape(6, -1)[:, : 7 * texel.nbytes]
    assert rows.tobytes() == array.tobytes()


@pytest.mark.parametrize("texel", [RGBA8, RGBA_FLOAT])
def test_three_channels_become_opaque(texel):
    part = Part((0, 0, 0), (7, 3, 1))
    rgb = np.random.default_rng(1).random((3, 7, 3)).astype(texel.dtype)
    memory = np.full(part.staging_bytes(texel), 9, np.uint8)
    copy_texels(rgb, memory, 256, part, texel)
    rgba = memory.reshape(3, 256)[:, : 7 * texel.nbytes].copy().view(texel.dtype).reshape(3, 7, 4)
    np.testing.assert_array_equal(rgba[..., :3], rgb)
    assert (rgba[..., 3] == texel.opaque).all()


def test_what_can_change_is_found_through_views(tmp_path):
    array = np.zeros((4, 4), np.uint8)
    view = array[1:]
    view.flags.writeable = False
    assert can_change(array)
    assert can_change(view), "its base can"
    array.flags.writeable = False
    assert not can_change(array[1:])
    assert not can_change(np.frombuffer(b"abcd", np.uint8))
    assert can_change(np.frombuffer(bytearray(b"abcd"), np.uint8))
    array.tofile(tmp_path / "film")
    assert not can_change(np.memmap(tmp_path / "film", np.uint8, "r")[2:])
    assert can_change(np.memmap(tmp_path / "film", np.uint8, "r+"))


@pytest.mark.parametrize(
    ("bounds", "error"),
    [
        ({"threads": 0}, ValueError),
        ({"threads": None}, TypeError),
        ({"threads": 1.5}, TypeError),
        ({"max_in_flight": 0}, ValueError),
        ({"bytes_per_second": 0}, ValueError),
        ({"bytes_per_second": float("nan")}, ValueError),
    ],
)
def test_impossible_bounds_are_refused(bounds, error):
    with pytest.raises(error, match=next(iter(bounds))):
        configure(**bounds)


def test_the_codecs_alone_do_not_bring_uploads():
    code = (
        "import sys, rfb_gpu\n"
        "assert 'rfb_gpu.uploads' not in sys.modules\n"
        "assert rfb_gpu.TextureStream is rfb_gpu.uploads.TextureStream\n"
        "assert 'pygfx' not in sys.modules and 'anywidget' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
