"""Films, stacks and live data into textures while a scene renders: only the recording of a GPU copy is left to the draw.

:class:`TextureStream` feeds a texture, :func:`configure` bounds what all streams together take of the machine, and :func:`active`
tells what is under way. See ``docs/upload.md``.
"""

from __future__ import annotations

from .future import UploadFuture
from .stream import TextureStream
from .workers import ActiveUpload, active, configure

__all__ = ["ActiveUpload", "TextureStream", "UploadFuture", "active", "configure"]
