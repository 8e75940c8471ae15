"""What an encoder can read: textures, views of them, parts of them."""

from __future__ import annotations

import wgpu

__all__ = ["Part", "check_source"]

MAX_SIDE = 65535
"""Pixels. T.81: width and height of a JPEG are 16-bit fields; no texture is as large, so PNG loses nothing by it."""
FORMATS = ("rgba8unorm", "rgba8unorm-srgb", "bgra8unorm", "bgra8unorm-srgb")

Part = tuple[int, int, int, int]
"""x, y, width and height, in pixels."""


def check_source(
    source: wgpu.GPUTexture | wgpu.GPUTextureView,
    device: wgpu.GPUDevice,
    rect: Part | None = None,
    usage: str = "TEXTURE_BINDING",
) -> tuple[wgpu.GPUTexture, Part]:
    """The texture, and the part of it to encode: x, y, width and height in pixels.

    Arguments:
        source: a texture, or a view of one of its layers.
        device: of the encoder.
        rect: the part; None for all of it.
        usage: that the encoder needs.

    Raises:
        TypeError, ValueError: it cannot be encoded; the message names the cure.
    """
    texture = source.texture if isinstance(source, wgpu.GPUTextureView) else source
    if not isinstance(texture, wgpu.GPUTexture):
        raise TypeError(f"encode() takes a wgpu.GPUTexture, not {type(texture).__name__}")
    if texture._device is not device:
        raise ValueError(
            "the texture belongs to another device than the encoder: make the encoder with the texture's device"
        )
    if not texture.usage & wgpu.TextureUsage[usage]:
        raise ValueError(f"the texture cannot be read: create it with usage wgpu.TextureUsage.{usage}")
    if texture.format not in FORMATS:
        raise ValueError(f"texture format {texture.format!r} cannot be encoded, only {', '.join(FORMATS)}")
    width, height, layers = texture.size
    if texture.dimension != "2d" or texture.sample_count != 1:
        raise ValueError("only plain 2D textures can be encoded: no multisampling")
    if layers != 1 and source is texture:
        raise ValueError("the texture has layers: give a view of one layer")
    if max(width, height) > MAX_SIDE:
        raise ValueError(f"a picture has at most {MAX_SIDE} pixels a side, the texture is {width}x{height}")
    return texture, (0, 0, width, height) if rect is None else _checked_part(texture, rect)


def _checked_part(texture: wgpu.GPUTexture, rect: Part) -> Part:
    x, y, width, height = (int(value) for value in rect)
    if (
        x < 0
        or y < 0
        or width < 1
        or height < 1
        or x + width > texture.size[0]
        or y + height > texture.size[1]
    ):
        raise ValueError(
            f"rect (x, y, width, height) = {(x, y, width, height)} is not within the texture of "
            f"{texture.size[0]}x{texture.size[1]} pixels"
        )
    return x, y, width, height
