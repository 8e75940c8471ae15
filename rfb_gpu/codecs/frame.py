"""What every encoder gives: a complete file, and what it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import wgpu

from ..readback import GPUFuture

__all__ = ["EncodedFrame", "Encoder"]

_BEGINNING = 4096  # bytes


@dataclass(frozen=True, repr=False)
class EncodedFrame:
    """One image as a complete JPEG or PNG file; ``frame.data`` and ``bytes(frame)`` are the file."""

    view: bytes | memoryview
    """The file where it lies, read-only and without a copy."""
    width: int
    height: int
    codec: str
    """``"jpeg"`` or ``"png"``."""
    quality: int
    """1 to 100; 100 for a lossless file."""
    subsampling: str
    """``"444"``, ``"422"``, ``"420"`` or ``"gray"``; ``"444"`` for PNG."""
    scale: int = 1
    """Each pixel stands for so many by so many of the source's."""
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds: ``submit`` (in the call of encode), ``ready`` (from that call until the bytes were there); with profiling also
    one entry per GPU pass."""
    alpha_start: int = 0
    """Where in the file a second JPEG begins, the alpha channel as a gray picture; 0: there is none. Other viewers show the first
    alone, whose colour is multiplied with alpha."""

    @cached_property
    def data(self) -> bytes:
        """The file."""
        return bytes(self.view)

    def __bytes__(self) -> bytes:
        return self.data

    def __len__(self) -> int:
        return len(self.view)

    def has_file_of(self, other: EncodedFrame) -> bool:
        """Whether both are the same file, byte for byte. Quick where they differ near the beginning."""
        if len(self) != len(other) or self.view[:_BEGINNING] != other.view[:_BEGINNING]:
            return False
        # Memoryviews compare item by item.
        return bool((np.frombuffer(self.view, np.uint8) == np.frombuffer(other.view, np.uint8)).all())

    def __repr__(self) -> str:
        return (
            f"<EncodedFrame {self.codec} {self.width}x{self.height} quality {self.quality} {self.subsampling}, "
            f"{len(self)} bytes>"
        )


class Encoder(Protocol):
    """An encoder of textures, on the GPU or not."""

    @property
    def name(self) -> str:
        """For people: which encoder this is."""
        ...

    quality: int
    subsampling: str
    scale: int

    @property
    def ready(self) -> bool:
        """Whether :meth:`encode` would return at once."""
        ...

    def encode(self, texture: wgpu.GPUTexture) -> GPUFuture[EncodedFrame]:
        """Encodes what the texture holds once all work submitted so far is done."""
        ...

    def close(self) -> None:
        """Gives everything back; frames in flight are completed first."""
        ...
