"""PNG files to textures on the GPU: compute passes over the bytes of the file, from the shaders that the page runs too.

``js/src/decoders/png.ts`` is the same in TypeScript. On the GPU it takes the files of our encoder, which have an index
(:mod:`.file`). Other files go through Pillow, on the CPU. Never trusts the bytes.
"""

from __future__ import annotations

import io
from typing import Any, ClassVar

import numpy as np
import wgpu

from ..passes import Stage, submit
from ..texture_decoder import DecoderStages, TextureDecoder
from .deflate import distance_table, literal_table
from .file import STRIPE_ROWS, CorruptPngError, ForeignPngError, PngFile, parse

__all__ = ["PngDecoder"]

# Mirrors inflate_rows.wgsl and shaders/png_rows.wgsl.
_ROW_PADDING = 3
_DISTANCES = 128
_STEP_BYTES, _LAG = 32, 2
"""A row keeps so many steps behind the one above it: matches reach ``REACH`` bytes to the right there, and words read there reach
up to 6 bytes beyond, while up to 3 of that row wait for their word to be full."""


class _Stages(DecoderStages):
    FOLDER = "png"
    BOUND: ClassVar[dict[str, str]] = {
        "inflate_rows": "frame stream part_bits tables +rows",
        "unfilter_rows": "frame rows palette +picture",
    }


class PngDecoder(TextureDecoder):
    """Decodes PNG files into textures of a device.

    Arguments:
        device: its default limits suffice for up to 30 megapixels, no optional feature is needed.
        profile: time the work on the GPU, for :meth:`timings`: True as a whole, ``"stages"`` each stage in a pass of its own; needs
            the device feature ``timestamp-query``.

    Files of :class:`PngEncoder` are decoded on the GPU: they tell where each row or half of one begins, and rows depend on each
    other only within stripes of 32. All others are decoded by Pillow on the CPU, if that is installed, and uploaded. Textures hold
    the file's own numbers; gray files have R = G = B, those without alpha 255 for it. Once the decoder has seen the sizes that are
    to come, it makes no more GPU objects.

    :meth:`decode` raises :class:`CorruptPngError` for bytes that are no PNG file or a broken one, and :class:`ForeignPngError` for
    one that is not ours where Pillow is not installed.
    """

    _STAGES = _Stages

    def _decode(self, data: bytes | bytearray | memoryview, out: wgpu.GPUTexture | None) -> wgpu.GPUTexture:
        try:
            file = parse(data)
        except ForeignPngError as why:
            return self._decode_on_cpu(data, out, why)
        out = self._texture(file.width, file.height, out, "STORAGE_BINDING")
        self._upload(file)
        workgroups = -(-file.height // STRIPE_ROWS), file.part_bits.shape[1]
        # The first stage is the same for all.
        has_palette = file.palette is not None
        constants = {"CHANNELS": file.channels, "HAS_PALETTE": has_palette, "PREMULTIPLIED": False}
        inflate = self._stages.pipeline("inflate_rows")
        unfilter = self._stages.pipeline("unfilter_rows", constants)
        submit(
            self._device,
            [
                Stage("inflate_rows", inflate, self._bind_group("inflate_rows", out), workgroups),
                Stage("unfilter_rows", unfilter, self._bind_group("unfilter_rows", out), workgroups),
            ],
            profiler=self._profiler,
        )
        return out

    def _decode_on_cpu(
        self, data: bytes | bytearray | memoryview, out: wgpu.GPUTexture | None, why: ForeignPngError
    ) -> wgpu.GPUTexture:
        try:
            from PIL import Image, UnidentifiedImageError
        except ImportError:
            raise ForeignPngError(f"{why}; other files need Pillow: python -m pip install pillow") from None
        try:
            with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
                # Before the pixels: nobody claims a size, and the memory for it, for nothing.
                width, height = image.size
                out = self._texture(width, height, out, "COPY_DST")
                if image.mode.startswith("I;16"):
                    gray = (np.asarray(image) >> 8).astype(np.uint8)  # as libpng does; Pillow would clip
                    rgba = np.dstack([gray, gray, gray, np.full_like(gray, 255)])
                else:
                    rgba = np.asarray(image.convert("RGBA"))
        except (OSError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError) as error:
            raise CorruptPngError(f"the PNG file is broken: {error}") from None
        return self._upload_pixels(out, np.ascontiguousarray(rgba))

    def _upload(self, file: PngFile) -> None:
        row_words = -(-(_ROW_PADDING + file.row_bytes) // 4)
        literals, distances = literal_table(file.block), distance_table(file.block)
        tables = np.zeros(_DISTANCES + literals.size, np.uint32)
        tables[: distances.size] = distances
        tables[_DISTANCES:] = literals
        longest = max(file.cut, file.row_bytes - file.cut)
        step_bytes, lag = (_STEP_BYTES, _LAG) if file.reaches_above else (longest, 0)
        steps = -(-longest // step_bytes) + lag * (STRIPE_ROWS - 1)
        frame = np.array(
            [
                file.width,
                file.height,
                file.row_bytes,
                row_words,
                -(-len(file.stream) // 4),
                int(literals.size).bit_length() - 1,
                int(distances.size).bit_length() - 1,
                steps,
                step_bytes,
                lag,
                0,
                _ROW_PADDING + (file.cut or file.row_bytes),
            ],
            np.uint32,
        )
        palette = np.zeros(256, np.uint32) if file.palette is None else file.palette
        # All buffers before the first write: a file that does not fit leaves everything as it was.
        self._reserve("frame", frame.nbytes)
        self._reserve("stream", len(file.stream))
        self._reserve("part_bits", file.part_bits.nbytes)
        self._reserve("tables", 4 * (_DISTANCES + (1 << 15)))
        self._reserve("rows", 4 * (file.height * row_words + 8))  # some words are read from beyond
        self._reserve("palette", palette.nbytes)
        write: Any = self._device.queue.write_buffer
        write(self._buffers["frame"], 0, frame)
        self._write_bytes("stream", file.stream)
        write(self._buffers["part_bits"], 0, file.part_bits)
        write(self._buffers["tables"], 0, tables)
        if file.palette is not None:
            write(self._buffers["palette"], 0, palette)
