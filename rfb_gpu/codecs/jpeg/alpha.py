"""JPEG with an alpha channel: a second, gray JPEG behind the first.

Viewers show the first and ignore what follows it; a decoder that knows of it merges the two. (xpra's ``jpega`` does likewise.)
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Generator
from typing import Any

import wgpu

from ...readback import GPUFuture, RecycledMemory
from ..frame import EncodedFrame
from .encoder import JpegEncoder
from .settings import JpegSettings

__all__ = ["ALPHA_QUALITY", "AlphaJpegEncoder"]

ALPHA_QUALITY = 70
"""At least: errors of alpha show against whatever lies behind, and where it is flat it takes no bytes."""


class AlphaJpegEncoder(JpegSettings):
    """Encodes textures of premultiplied colour to a JPEG of the colour and one of alpha; else like :class:`.JpegEncoder`.

    Arguments:
        device, quality, subsampling, scale, slots: those of :class:`.JpegEncoder`; alpha has at least ``ALPHA_QUALITY``.
    """

    name = "GPU JPEG with alpha"

    def __init__(
        self,
        device: wgpu.GPUDevice,
        quality: int = 80,
        subsampling: str = "444",
        *,
        scale: int = 1,
        slots: int = 3,
    ) -> None:
        self.quality, self.subsampling, self.scale = quality, subsampling, scale
        self._colour = JpegEncoder(device, slots=slots, plane="premultiplied")
        self._alpha = JpegEncoder(device, slots=slots, plane="alpha")
        self._memory = RecycledMemory()

    @property
    def ready(self) -> bool:
        """Whether a slot is free, so that :meth:`encode` returns at once."""
        return self._colour.ready and self._alpha.ready

    def encode(self, texture: wgpu.GPUTexture) -> GPUFuture[EncodedFrame]:
        """See :meth:`.JpegEncoder.encode`."""
        began = time.perf_counter()
        self._colour.quality, self._alpha.quality = self.quality, max(self.quality, ALPHA_QUALITY)
        self._colour.subsampling = self.subsampling
        self._colour.scale = self._alpha.scale = self.scale
        parts = self._colour.encode(texture), self._alpha.encode(texture)
        return GPUFuture(self._join(*parts, began, time.perf_counter()))

    def close(self) -> None:
        """Frees all buffers, those of frames in flight as soon as these are done."""
        self._colour.close()
        self._alpha.close()

    def _join(
        self, colour: GPUFuture[EncodedFrame], alpha: GPUFuture[EncodedFrame], began: float, submitted: float
    ) -> Generator[Any, None, EncodedFrame]:
        frame = yield from colour.wait()
        plane = yield from alpha.wait()
        file = self._memory.join([frame.view, plane.view])
        timings = {"submit": submitted - began, "ready": time.perf_counter() - began}
        return dataclasses.replace(frame, view=file, alpha_start=len(frame), timings=timings)
