"""Encoders for hosts without a GPU, and the lossless one: an asynchronous download, then a thread that compresses.

The same contract as the GPU encoders. Compression is simplejpeg's (libjpeg-turbo) and zlib's, both of which let other
threads run. The event loop is held only for recording the copy.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import simplejpeg
import wgpu
from numpy.typing import NDArray
from rendercanvas.core.encoders import encode_png

from ..readback import GPUFuture
from .frame import EncodedFrame
from .jpeg.alpha import ALPHA_QUALITY
from .jpeg.settings import JpegSettings
from .premultiplied import with_colour_of_alpha
from .source import Part, check_source

__all__ = ["CpuEncoder"]

_ROW_ALIGNMENT = 256  # of copies from textures, by the WebGPU standard


class CpuEncoder(JpegSettings):
    """Encodes textures, and arrays, on a thread of its own.

    Arguments:
        device: the device of the textures; None if only arrays are encoded.
        codec: ``"jpeg"`` or ``"png"``.
        quality: 1 to 100, for JPEG.
        subsampling: ``"444"``, ``"422"``, ``"420"`` or ``"gray"``, for JPEG.
        scale: 1, 2 or 4, for JPEG: of so many pixels by so many, one is made.
        has_alpha: the colours are multiplied with alpha, which is encoded too: as a second JPEG behind the first, or in the PNG.
        slots: how many textures can be in flight. Encoding one more waits for the oldest. More than one hardly adds frames where a
            processor draws, and each adds the time of a frame until it is there.
    """

    def __init__(
        self,
        device: wgpu.GPUDevice | None,
        codec: str = "jpeg",
        quality: int = 80,
        subsampling: str = "444",
        *,
        scale: int = 1,
        has_alpha: bool = False,
        slots: int = 1,
    ) -> None:
        if codec not in ("jpeg", "png"):
            raise ValueError(f"codec must be 'jpeg' or 'png', not {codec!r}")
        self._device = device
        self._codec = codec
        self.quality = quality
        self.subsampling = subsampling
        self.scale = scale
        self._has_alpha = has_alpha
        self._slot_count = slots
        self._free: list[wgpu.GPUBuffer] = []
        self._in_flight: deque[GPUFuture[EncodedFrame]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rfb_gpu encode")
        self._closed = False
        self._working = 0  # encodings that are not through

    @property
    def name(self) -> str:
        """For people: which encoder this is."""
        return "simplejpeg" if self._codec == "jpeg" else "CPU PNG"

    @property
    def ready(self) -> bool:
        """Whether a slot is free, so that :meth:`encode` returns at once."""
        while self._in_flight and self._in_flight[0].done():
            self._in_flight.popleft()
        return len(self._in_flight) < self._slot_count

    def encode(self, texture: wgpu.GPUTexture, *, rect: Part | None = None) -> GPUFuture[EncodedFrame]:
        """Encodes what the texture holds once all work submitted so far is done; it needs usage ``COPY_SRC``.

        ``rect``: x, y, width and height in pixels of the part to encode; None for all of it.
        """
        began = time.perf_counter()
        if self._device is None:
            raise RuntimeError("this encoder was made for arrays: give it a device to encode textures")
        self._check_open()
        _, (x, y, width, height) = check_source(texture, self._device, rect, usage="COPY_SRC")
        stride = -(-width * 4 // _ROW_ALIGNMENT) * _ROW_ALIGNMENT
        self._make_room()
        buffer = self._staging(stride * height)
        commands = self._device.create_command_encoder(label="rfb_gpu download")
        commands.copy_texture_to_buffer(
            {"texture": texture, "origin": (x, y, 0)},
            {"buffer": buffer, "offset": 0, "bytes_per_row": stride, "rows_per_image": height},
            (width, height, 1),
        )
        self._device.queue.submit([commands.finish()])
        timings = {"submit": time.perf_counter() - began}
        return self._start(
            self._download(buffer, texture.format, (width, height), stride, self._settings(), began, timings)
        )

    def encode_array(self, array: NDArray[np.uint8]) -> GPUFuture[EncodedFrame]:
        """Encodes an image in memory: shape (height, width, 4), RGBA. It is copied at once, the caller may change it."""
        began = time.perf_counter()
        self._check_open()
        if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 4:
            raise ValueError(
                f"the image must be uint8 of shape (height, width, 4), not {array.dtype} of {array.shape}"
            )
        self._make_room()
        settings = self._settings()
        work = self._thread.submit(_compress, array.copy(), "rgba8unorm", settings)
        timings = {"submit": time.perf_counter() - began}
        return self._start(self._wait(work, array.shape[1], array.shape[0], settings, began, timings))

    def close(self) -> None:
        """Frees the staging buffers, those of frames in flight as soon as these are done."""
        self._closed = True
        for buffer in self._free:
            buffer.destroy()
        self._free.clear()
        self._end_thread()

    def _end_thread(self) -> None:
        if self._closed and not self._working:
            self._thread.shutdown(wait=False)

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the encoder is closed")

    def _make_room(self) -> None:
        while not self.ready:
            self._in_flight[0].result()

    def _start(self, steps: Generator[Any, None, EncodedFrame]) -> GPUFuture[EncodedFrame]:
        self._working += 1
        future = GPUFuture(self._counted(steps))
        self._in_flight.append(future)
        return future

    def _counted(self, steps: Generator[Any, None, EncodedFrame]) -> Generator[Any, None, EncodedFrame]:
        try:
            return (yield from steps)
        finally:
            self._working -= 1
            self._end_thread()

    def _staging(self, size: int) -> wgpu.GPUBuffer:
        """A free buffer of that size; those of another size are of no more use."""
        assert self._device is not None
        while self._free:
            buffer = self._free.pop()
            if buffer.size == size:
                return buffer
            buffer.destroy()
        usage = wgpu.BufferUsage.COPY_DST | wgpu.BufferUsage.MAP_READ
        return self._device.create_buffer(label="rfb_gpu staging", size=size, usage=usage)

    def _settings(self) -> _Settings:
        if self._codec == "png":
            return _Settings("png", 100, "444", 1, self._has_alpha)
        return _Settings("jpeg", self._quality, self._subsampling, self._scale, self._has_alpha)

    def _download(
        self,
        buffer: wgpu.GPUBuffer,
        texture_format: str,
        size: tuple[int, int],
        stride: int,
        settings: _Settings,
        began: float,
        timings: dict[str, float],
    ) -> Generator[Any, None, EncodedFrame]:
        width, height = size
        try:
            yield (promise := buffer.map_async("READ_NOSYNC"))
            promise.sync_wait()  # raises, should the map have failed
            mapped = buffer.read_mapped(copy=False)
            image = np.frombuffer(mapped, np.uint8).reshape(height, stride // 4, 4)[:, :width]
            # The thread reads the mapped memory: it is given back only when that is over.
            work = self._thread.submit(_compress, image, texture_format, settings)
            return (yield from self._wait(work, width, height, settings, began, timings))
        finally:
            if buffer.map_state == "mapped":
                buffer.unmap()
            if self._closed:
                buffer.destroy()
            else:
                self._free.append(buffer)

    def _wait(
        self, work: Any, width: int, height: int, settings: _Settings, began: float, timings: dict[str, float]
    ) -> Generator[Any, None, EncodedFrame]:
        yield work
        data, alpha_start, seconds = work.result()
        timings |= {"compress": seconds, "ready": time.perf_counter() - began}
        codec, quality, subsampling, scale, _ = settings
        size = -(-width // scale), -(-height // scale)
        return EncodedFrame(data, *size, codec, quality, subsampling, scale, timings, alpha_start)


class _Settings(NamedTuple):
    codec: str
    quality: int
    subsampling: str
    scale: int
    has_alpha: bool


def _compress(image: NDArray[np.uint8], texture_format: str, settings: _Settings) -> tuple[bytes, int, float]:
    """On the thread: a file, where its alpha begins, and the seconds it took."""
    began = time.perf_counter()
    order = texture_format[:4].upper()
    is_png = settings.codec == "png"
    if settings.has_alpha:
        image = with_colour_of_alpha(image, is_linear=texture_format.endswith("-srgb"), straight=is_png)
    if settings.scale > 1:
        image = _shrink(image, settings.scale)
    if is_png:
        colour = image[..., :3] if order == "RGBA" else image[..., 2::-1]
        data = encode_png(np.dstack([colour, image[..., 3]]) if settings.has_alpha else colour)
        return data, 0, time.perf_counter() - began
    data = simplejpeg.encode_jpeg(
        np.ascontiguousarray(image),
        quality=settings.quality,
        colorspace=order,
        colorsubsampling="Gray" if settings.subsampling == "gray" else settings.subsampling,
        fastdct=True,
    )
    alpha_start = 0
    if settings.has_alpha:
        alpha_start = len(data)
        data += simplejpeg.encode_jpeg(
            np.ascontiguousarray(image[..., 3:]),
            quality=max(settings.quality, ALPHA_QUALITY),
            colorspace="GRAY",
            colorsubsampling="Gray",
            fastdct=True,
        )
    return data, alpha_start, time.perf_counter() - began


def _shrink(image: NDArray[np.uint8], scale: int) -> NDArray[np.uint8]:
    """Means of scale x scale pixels; at the right and lower edge, the last ones count again."""
    height, width = image.shape[:2]
    missing = ((0, -height % scale), (0, -width % scale), (0, 0))
    whole = np.pad(image, missing, mode="edge") if any(map(any, missing)) else image
    # Slices in turn: a sum over two axes of four takes several times as long.
    total = np.zeros((whole.shape[0] // scale, whole.shape[1] // scale, 4), np.uint16)
    for y in range(scale):
        for x in range(scale):
            total += whole[y::scale, x::scale]
    return ((total + scale * scale // 2) // (scale * scale)).astype(np.uint8)
