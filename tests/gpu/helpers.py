"""Textures from arrays and back, and pictures to try."""

from __future__ import annotations

import numpy as np
import wgpu

PICTURES = ("noise", "flat", "white", "text", "alternating", "gradient")


def picture(kind: str, width: int, height: int, seed: int = 0) -> np.ndarray:
    """An RGBA image, shape (height, width, 4)."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    if kind == "noise":
        rgb = rng.integers(0, 256, (height, width, 3))
    elif kind == "flat":
        rgb = np.broadcast_to(rng.integers(0, 256, 3), (height, width, 3))
    elif kind == "white":
        rgb = np.full((height, width, 3), 255)
    elif kind == "text":
        # Thin dark strokes on white, some coloured: what labels and lines are made of.
        strokes = rng.random((height // 6 + 1, width // 4 + 1)) < 0.4
        mask = np.kron(strokes, np.ones((6, 4)))[:height, :width] * ((x % 4 < 1) | (y % 6 < 1)) > 0
        rgb = np.where(mask[..., None], np.where(y[..., None] % 24 < 12, [20, 20, 20], [220, 0, 0]), 255)
    elif kind == "alternating":
        rgb = np.repeat((((x + y) % 2) * 255)[..., None], 3, -1)
    elif kind == "gradient":
        rgb = np.stack([x * 255 / max(width, 2), y * 255 / max(height, 2), (x + y) % 256], -1)
        rgb = np.clip(rgb + rng.normal(0, 3, rgb.shape), 0, 255)
    else:
        raise ValueError(kind)
    return np.dstack([rgb, rng.integers(0, 256, (height, width))]).astype(np.uint8)


def slanted_edges(width, height):
    """Lines that are not quite upright, and beyond some 600 rows more than 256 colours: for matches above and to either side."""
    y, x = np.mgrid[:height, :width]
    stripes = (x * 3 + y * 2) // 11 % 3 + ((x - y // 3) // 17 % 5) * 3
    rng = np.random.default_rng(1)
    image = rng.integers(0, 256, (400, 4)).astype(np.uint8)[stripes + (y // 40) * 16]
    image[..., 3] = 255
    return image


def texture_of(
    device: wgpu.GPUDevice, image: np.ndarray, format: str = "rgba8unorm", usage: int = 0
) -> wgpu.GPUTexture:
    """A texture that holds the image's numbers."""
    height, width = image.shape[:2]
    texture = device.create_texture(
        size=(width, height, 1),
        format=format,
        usage=usage
        or wgpu.TextureUsage.TEXTURE_BINDING | wgpu.TextureUsage.COPY_DST | wgpu.TextureUsage.COPY_SRC,
    )
    data = image[..., [2, 1, 0, 3]] if format.startswith("bgra") else image
    device.queue.write_texture(
        {"texture": texture}, np.ascontiguousarray(data), {"bytes_per_row": width * 4}, (width, height, 1)
    )
    return texture


def image_of(device: wgpu.GPUDevice, texture: wgpu.GPUTexture) -> np.ndarray:
    """The numbers that a texture holds, (height, width, 4)."""
    width, height = texture.size[:2]
    data = device.queue.read_texture({"texture": texture}, {"bytes_per_row": width * 4}, (width, height, 1))
    return np.frombuffer(data, np.uint8).reshape(height, width, 4)


def words(device: wgpu.GPUDevice, buffer: wgpu.GPUBuffer, count: int) -> np.ndarray:
    """The first words of a buffer: see the fixture ``readable_buffers``."""
    return np.frombuffer(device.queue.read_buffer(buffer, 0, count * 4), np.uint32)


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    """In dB; 99 for equal images."""
    error = np.mean((a.astype(float) - b.astype(float)) ** 2)
    return 99.0 if error == 0 else float(10 * np.log10(255**2 / error))
