"""Encoders and decoders of frames. Know nothing of canvases, messages or event loops; each can be used alone.

:func:`choose` picks the encoder for a device.
"""

from __future__ import annotations

import wgpu

from .cpu import CpuEncoder
from .frame import EncodedFrame, Encoder
from .jpeg import AlphaJpegEncoder, CorruptJpegError, ForeignJpegError, JpegDecoder, JpegEncoder, JpegError
from .png import CorruptPngError, ForeignPngError, PngDecoder, PngEncoder, PngError

__all__ = [
    "CorruptJpegError",
    "CorruptPngError",
    "CpuEncoder",
    "EncodedFrame",
    "Encoder",
    "ForeignJpegError",
    "ForeignPngError",
    "JpegDecoder",
    "JpegEncoder",
    "JpegError",
    "PngDecoder",
    "PngEncoder",
    "PngError",
    "choose",
]

PREFERENCES = ("auto", "gpu", "cpu")


def choose(
    device: wgpu.GPUDevice, preference: str = "auto", *, has_alpha: bool = False
) -> tuple[JpegEncoder | AlphaJpegEncoder | CpuEncoder, str]:
    """The JPEG encoder for a device, and in one line why it is that one.

    ``"auto"`` takes the GPU, unless the adapter is a processor that only plays one (lavapipe, SwiftShader): there, a library
    written for processors is ten times faster. ``"gpu"`` and ``"cpu"`` force it.

    It has as many slots as keep the device busy: where the device is what takes the time, every further one lets a picture get
    older.
    """
    if preference not in PREFERENCES:
        raise ValueError(f"encoder must be one of {', '.join(map(repr, PREFERENCES))}, not {preference!r}")
    info = device.adapter.info
    if preference == "auto":
        is_cpu = info["adapter_type"].upper() == "CPU"
        what = f"adapter {info['device']!r} is {'a CPU' if is_cpu else 'a GPU'}"
    else:
        is_cpu = preference == "cpu"
        what = f"encoder={preference!r} was asked for"
    if is_cpu:
        return CpuEncoder(device, "jpeg", has_alpha=has_alpha), what
    return (AlphaJpegEncoder if has_alpha else JpegEncoder)(device, slots=2), what
