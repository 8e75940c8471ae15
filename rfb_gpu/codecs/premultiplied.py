"""Premultiplied colour on the CPU: what shaders/srgb.wgsl does with texels, for arrays of 8-bit numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["with_colour_of_alpha"]

_ENCODED = np.arange(256) / 255
_LINEAR = np.where(
    _ENCODED <= 0.04045, _ENCODED / 12.92, ((_ENCODED + 0.055) / 1.055) ** 2.4
)  # IEC 61966-2-1


def _encode(linear: NDArray[np.floating]) -> NDArray[np.floating]:
    return np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)


def with_colour_of_alpha(image: NDArray[np.uint8], *, is_linear: bool, straight: bool) -> NDArray[np.uint8]:
    """The image with the encoded colours that its pixels have by themselves, or those multiplied with alpha.

    What is brighter than its alpha allows becomes as bright as that.

    Arguments:
        image: shape (height, width, 4), alpha last. The numbers of a texture of premultiplied colour.
        is_linear: the texture is in an ``-srgb`` format: its colour was multiplied before it was encoded.
        straight: not multiplied, as PNG has it. Multiplied with alpha and rounded, these numbers are the texture's again, unless
            that is ``is_linear``.
    """
    alpha = image[..., 3]
    clear = alpha == 0
    partial = ~clear & (alpha < 255)
    result = image.copy()
    result[clear] = 0
    pixels = image[partial]
    factor = pixels[:, 3:] / 255
    colour = (_LINEAR if is_linear else _ENCODED)[pixels[:, :3]] / factor
    colour = np.minimum(colour, 1)
    if is_linear:
        colour = _encode(colour)
    result[partial, :3] = np.floor(255 * (colour if straight else colour * factor) + 0.5)
    return result
