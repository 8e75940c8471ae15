"""What the encoders on the GPU have in common: their arguments, and how many frames are in flight."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque

import wgpu

from ..readback import GPUFuture
from .frame import EncodedFrame
from .passes import Profiler
from .source import Part, check_source

__all__ = ["TextureEncoder"]


class TextureEncoder(ABC):
    """Takes sources, checked, one after the other while it has slots; a subclass encodes them.

    Raises:
        ValueError, TypeError: an argument is out of its range.
    """

    def __init__(self, device: wgpu.GPUDevice, *, slots: int, dpi: int | None, profile: bool | str) -> None:
        if not isinstance(device, wgpu.GPUDevice):
            raise TypeError(f"device must be a wgpu.GPUDevice, not {type(device).__name__}")
        if slots < 1:
            raise ValueError(f"slots must be 1 or more, not {slots}")
        if dpi is not None and not 1 <= dpi <= 65535:
            raise ValueError(f"dpi must be from 1 to 65535 or None, not {dpi}")
        self._device = device
        self._slot_count = slots
        self._dpi = dpi
        self._profiler = Profiler(device, profile) if profile else None
        self._in_flight: deque[GPUFuture[EncodedFrame]] = deque()
        self._closed = False

    @property
    def ready(self) -> bool:
        """Whether a slot is free, so that :meth:`encode` returns at once."""
        while self._in_flight and self._in_flight[0].done():
            self._in_flight.popleft()
        return len(self._in_flight) < self._slot_count

    def encode(
        self, texture: wgpu.GPUTexture | wgpu.GPUTextureView, *, rect: Part | None = None
    ) -> GPUFuture[EncodedFrame]:
        """Encodes what the texture holds once all work submitted so far is done.

        The texture may be drawn to, and destroyed, right after this call; not destroyed before it, which wgpu answers by ending
        the process. Returns at once, except when all slots are in flight: then it first waits for the oldest frame.

        Arguments:
            texture: 2D, ``rgba8unorm`` or ``bgra8unorm`` or their ``-srgb`` forms, with usage ``TEXTURE_BINDING``. Its
                8-bit numbers are taken as sRGB-encoded, with either form. Of a texture with layers, a 2D view of one, of its
                first mip level.
            rect: x, y, width and height in pixels of the part to encode; None for all of it.

        Raises:
            TypeError, ValueError: the texture cannot be encoded; the message says what to change.
            RuntimeError: the encoder is closed.
        """
        began = time.perf_counter()
        if self._closed:
            raise RuntimeError("the encoder is closed")
        whole, part = check_source(texture, self._device, rect)
        while not self.ready:
            self._in_flight[0].result()
        future = self._encode(texture, whole.format.endswith("-srgb"), part, began)
        self._in_flight.append(future)
        return future

    @abstractmethod
    def _encode(
        self, source: wgpu.GPUTexture | wgpu.GPUTextureView, is_linear: bool, part: Part, began: float
    ) -> GPUFuture[EncodedFrame]:
        """Submits the work for a frame; ``is_linear``: the source gives linear values."""
