"""The contexts of our canvas: the wgpu one encodes the texture on the device that drew it, instead of downloading it.

For the program that draws they are rendercanvas' own, the wgpu one with two more formats. They never send anything: what they
make goes to the canvas, as the result of a present. A failure goes there too: an exception would stop rendercanvas' scheduler.
"""

from __future__ import annotations

import logging
from typing import Any

import wgpu
from rendercanvas.contexts.bitmapcontext import BitmapContextToBitmap
from rendercanvas.contexts.wgpucontext import WgpuContextToBitmap

from .codecs import CpuEncoder, EncodedFrame, Encoder, PngEncoder, choose
from .codecs.source import Part, check_source
from .diagnostics import NoAdapterError, find_adapter
from .flow import Settings
from .readback import GPUFuture

__all__ = ["ArrayContext", "EncodingContext", "TextureContext"]

logger = logging.getLogger("rfb_gpu")


class ArrayContext(BitmapContextToBitmap):
    """Made by ``canvas.get_context("bitmap")``."""

    def _rc_present(self, *, force_sync: bool = False) -> dict[str, Any]:
        try:
            return super()._rc_present(force_sync=force_sync)
        except Exception as error:
            return {"method": "failed", "error": error}


class EncodingContext(WgpuContextToBitmap):
    """Made by ``canvas.get_context("wgpu")``; configured by whoever draws, pygfx for example."""

    fit = "exact"
    """How pages lay its pictures out: see docs/protocol.md."""

    def __init__(self, present_info: dict[str, Any]) -> None:
        if find_adapter() is None:
            raise NoAdapterError()
        super().__init__(present_info)
        self._texture: wgpu.GPUTexture | None
        self._texture_is_stale = False
        self._preference: str = present_info["encoder"]
        self._has_alpha: bool = present_info["has_alpha"]
        self.encoding = Settings(*present_info["encoding"])
        """How the next frames are encoded."""
        self._encoder: Encoder | None = None
        self.lossless: bool = present_info["lossless"]
        """The next frames are encoded without loss."""
        self._is_lossless = self.lossless  # all are
        self._lossless: CpuEncoder | PngEncoder | None = None
        self._lossless_on_cpu = False  # after it failed on the GPU
        self.encoder_reason = "no device configured yet"

    @property
    def encoder(self) -> Encoder | PngEncoder | None:
        """The encoder in use; None until the context is configured with a device."""
        if self.lossless and self.device is not None:
            return self._lossless_encoder(self.device)
        return self._encoder

    @property
    def device(self) -> wgpu.GPUDevice | None:
        """The device that the context is configured with."""
        return self._config["device"] if self._config else None

    def is_ready(self, lossless: bool) -> bool:
        """Whether a frame could be encoded now, so or so, without waiting."""
        encoder = self._lossless if lossless else self._encoder
        return encoder is None or encoder.ready

    @property
    def is_quickly_lossless(self) -> bool:
        """Whether the GPU encodes without loss, which is quick enough for pictures that move."""
        return isinstance(self._lossless, PngEncoder)

    def fall_back(self, error: BaseException) -> bool:
        """Goes on with the encoder on the CPU after the one on the GPU failed; False if there is none to go on with."""
        if self.lossless:
            return self.lossless_fall_back(error)
        if self.device is None or self._encoder is None or isinstance(self._encoder, CpuEncoder):
            return False
        self._encoder.close()
        self._encoder = CpuEncoder(self.device, "jpeg", has_alpha=self._has_alpha)
        self.encoder_reason = f"the GPU encoder failed: {error}".splitlines()[0][:200]
        return True

    def encode_lossless(self, rect: Part | None = None) -> GPUFuture[EncodedFrame] | None:
        """What was drawn last, or a part of it, as a PNG, by the GPU where that encodes the other frames too; None if nothing was
        drawn yet.
        """
        if self._texture is None or self.device is None:
            return None
        encoder = self._lossless_encoder(self.device)
        try:
            return encoder.encode(self._texture, rect=rect)
        except Exception as error:
            if self.lossless_fall_back(error):
                return self.encode_lossless(rect)
            raise

    def _lossless_encoder(self, device: wgpu.GPUDevice) -> CpuEncoder | PngEncoder:
        if self._lossless is None:
            on_cpu = self._lossless_on_cpu or isinstance(self._encoder, CpuEncoder)
            slots = 2 if self._is_lossless else 1  # one takes 10 bytes a pixel
            if on_cpu:
                self._lossless = CpuEncoder(device, "png", has_alpha=self._has_alpha)
            else:
                channels = "premultiplied" if self._has_alpha else "rgb"
                self._lossless = PngEncoder(device, channels, slots=slots)
        return self._lossless

    def lossless_fall_back(self, error: BaseException) -> bool:
        """Goes on with PNG from the CPU after the GPU failed; False if there is nothing to go on with."""
        if self._lossless is None or isinstance(self._lossless, CpuEncoder):
            return False
        logger.warning("PNGs are made on the CPU from now on: on the GPU it failed", exc_info=error)
        self._lossless.close()
        self._lossless, self._lossless_on_cpu = None, True
        return True

    def encode_again(self, encoding: Settings) -> GPUFuture[EncodedFrame] | None:
        """What was drawn last, as a JPEG with other settings; None if nothing was drawn yet."""
        if self._texture is None or self._encoder is None:
            return None
        return self._encode(self._encoder, encoding)

    def _encode(self, encoder: Encoder, encoding: Settings) -> GPUFuture[EncodedFrame]:
        assert self._texture is not None
        encoder.quality, encoder.subsampling, encoder.scale = encoding
        return encoder.encode(self._texture)

    def _configure(self, config: dict[str, Any]) -> None:
        super()._configure(config)
        # The texture stays until the next draw, so that what is on the screen can still be sent without loss.
        self._texture_is_stale = True
        if self.device is not config["device"] or self._encoder is None:
            self._drop_texture()
            self._close_encoders()
            self._encoder, self.encoder_reason = choose(
                config["device"], self._preference, has_alpha=self._has_alpha
            )
            lossless = self._lossless_encoder(config["device"])
            if isinstance(lossless, PngEncoder):
                lossless.prepare(config["format"])

    def _get_capabilities(self) -> dict[str, Any]:
        capabilities = super()._get_capabilities()
        if self._present_info["has_alpha"]:
            capabilities["alpha_modes"] = ["opaque", "premultiplied"]
        return capabilities

    def _unconfigure(self) -> None:
        super()._unconfigure()
        self._close_encoders()

    def _get_current_texture(self) -> wgpu.GPUTexture:
        assert self._config is not None
        width, height = self.physical_size
        size = (max(width, 1), max(height, 1), 1)
        if self._texture is None or self._texture.size != size or self._texture_is_stale:
            self._texture_is_stale = False
            # Frames in flight have been encoded in the queue's order; the old texture lives until they are done.
            config, usage = self._config, wgpu.TextureUsage
            self._texture = config["device"].create_texture(
                label="present",
                size=size,
                format=config["format"],
                usage=config["usage"] | usage.TEXTURE_BINDING | usage.COPY_SRC,
            )
        return self._texture

    def _rc_present(self, *, force_sync: bool = False) -> dict[str, Any]:
        if self._texture is None or self._encoder is None:
            return {"method": "skip"}
        try:
            if self.lossless:
                lossless = self.encode_lossless()
                assert lossless is not None
                future = lossless
            else:
                future = self._encode(self._encoder, self.encoding)
            if force_sync:
                future.result()
        except Exception as error:
            if self.fall_back(error):
                return self._rc_present(force_sync=force_sync)
            return {"method": "failed", "error": error}
        # Not "async": the canvas goes on with the next draw while this frame is encoded and read.
        return {"method": "encoded", "future": future}

    def _rc_close(self) -> None:
        super()._rc_close()
        self._close_encoders()

    def _close_encoders(self) -> None:
        for encoder in (self._encoder, self._lossless):
            if encoder is not None:
                encoder.close()
        self._encoder = self._lossless = None


class TextureContext(EncodingContext):
    """Encodes textures that the program has made and drawn itself, of any size and device."""

    fit = "stretch"

    @property
    def physical_size(self) -> tuple[int, int]:
        """Of the texture."""
        return self._texture.size[:2] if self._texture is not None else (0, 0)

    def present(self, texture: wgpu.GPUTexture) -> dict[str, Any]:
        """Encodes what the texture holds; it is read again, until the next one, for the picture without loss.

        Raises:
            ValueError: it cannot be encoded; the message names the cure.
        """
        device = texture._device
        # The first is what the GPU's encoders need, the second what those on the CPU do.
        for usage in ("TEXTURE_BINDING", "COPY_SRC"):
            check_source(texture, device, usage=usage)
        if self.device is not device:
            self.configure(device=device, format=texture.format)
        self._texture = texture
        return self._rc_present()

    def _drop_texture(self) -> None:
        self._texture = None  # not released: it is the program's
