"""What is fed: a raw texture, or one of pygfx, of which the GPU's one is made when something first needs it."""

from __future__ import annotations

import sys
from typing import Any

import wgpu

from .staging import ROW_ALIGNMENT

__all__ = ["Target", "target_of"]


class Target:
    """A raw texture."""

    def __init__(self, texture: wgpu.GPUTexture) -> None:
        _check_usage(texture.usage)
        self._texture = texture
        self.device: wgpu.GPUDevice = texture._device
        self.size: tuple[int, int, int] = texture.size
        self.format: str = texture.format

    def check(self) -> None:
        """Raises RuntimeError if the texture was destroyed: wgpu ends the process when a copy to it is submitted."""
        try:
            # Writing nothing to it tells before.
            layout = {"bytes_per_row": ROW_ALIGNMENT, "rows_per_image": 1}
            self.device.queue.write_texture({"texture": self._texture}, b"nothing", layout, (0, 0, 0))
        except wgpu.GPUError as error:
            raise RuntimeError("the texture has been destroyed: make another, and a stream for it") from error

    def begin(self) -> wgpu.GPUTexture:
        """The GPU's texture, for a copy that is recorded next; raises like :meth:`check`."""
        self.check()
        return self._texture

    def end(self) -> None:
        """After a copy was submitted."""


class _PygfxTarget(Target):
    """A texture of pygfx, which makes the GPU's one when something first needs it, on the thread that draws."""

    def __init__(self, texture: Any) -> None:
        from pygfx.renderers.wgpu import get_shared
        from pygfx.renderers.wgpu.engine.update import ALTTEXFORMAT
        from pygfx.renderers.wgpu.engine.utils import to_texture_format

        usage = wgpu.TextureUsage
        if texture._wgpu_object is None:
            texture._wgpu_usage |= usage.COPY_DST | usage.TEXTURE_BINDING
        _check_usage(texture._wgpu_usage)
        self._texture = texture
        self.device = get_shared().device
        self.size = texture.size
        name = to_texture_format(texture.format)
        self.format = ALTTEXFORMAT.get(name, (name,))[0]  # three channels are four on the GPU

    def check(self) -> None:
        """Nothing in pygfx destroys a texture, and asking costs as much as recording a copy."""

    def begin(self) -> wgpu.GPUTexture:
        from pygfx.renderers.wgpu.engine.update import ensure_wgpu_object, update_resource

        texture = ensure_wgpu_object(self._texture)
        update_resource(self._texture)  # its own data, which would come later and overwrite what we bring
        return texture

    def end(self) -> None:
        from pygfx.renderers.wgpu.engine.mipmapsutil import generate_texture_mipmaps

        if self._texture.generate_mipmaps:
            generate_texture_mipmaps(self._texture)


def target_of(texture: Any) -> Target:
    """Raises TypeError for what is no texture, ValueError for one that cannot be copied to."""
    if isinstance(texture, wgpu.GPUTexture):
        return Target(texture)
    pygfx = sys.modules.get("pygfx")
    if pygfx is not None and isinstance(texture, pygfx.Texture):
        return _PygfxTarget(texture)
    raise TypeError(f"texture must be a gfx.Texture or a wgpu.GPUTexture, not {texture!r}")


def _check_usage(usage: int) -> None:
    if not usage & wgpu.TextureUsage.COPY_DST:
        raise ValueError(
            "the texture cannot be copied to: make it with usage=wgpu.TextureUsage.COPY_DST | wgpu.TextureUsage.TEXTURE_BINDING, "
            "or, if it is of pygfx, make the stream before it is first drawn"
        )
