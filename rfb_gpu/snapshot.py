"""A picture as a cell's output: what notebooks show once they are saved and have no kernel, on GitHub or made into a page.

It is of the type image/png, which all of them show, with a text in its metadata. Of HTML each lets through what it likes.
"""

from __future__ import annotations

import base64
import io
import logging
from typing import Any

__all__ = ["as_output", "fit_png"]

logger = logging.getLogger("rfb_gpu")

_MARGIN = 0.95
"""Files shrink a little less than their pixels."""


def as_output(png: bytes, width: float, height: float, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Data and metadata for ``IPython.display.display(..., raw=True)``. ``width`` and ``height`` are CSS pixels."""
    data = {"image/png": base64.b64encode(png).decode("ascii"), "text/plain": text}
    # "alt" as IPython.display.Image has it.
    return data, {"image/png": {"width": round(width), "height": round(height), "alt": text}}


def fit_png(png: bytes, max_bytes: int) -> bytes:
    """The file, or one of fewer pixels that has at most ``max_bytes``. That takes Pillow; without it, a warning is logged."""
    if len(png) <= max_bytes:
        return png
    try:
        from PIL import Image
    except ImportError:
        logger.warning(
            "the snapshot has %d kB: to have it scaled down to %d kB, run python -m pip install pillow",
            len(png) // 1000,
            max_bytes // 1000,
        )
        return png
    image = Image.open(io.BytesIO(png))
    whole = image.convert("RGBA" if image.has_transparency_data else "RGB")
    factor = 1.0
    while len(png) > max_bytes and factor * min(whole.size) > 2:
        factor *= _MARGIN * (max_bytes / len(png)) ** 0.5
        size = max(round(whole.width * factor), 1), max(round(whole.height * factor), 1)
        file = io.BytesIO()
        whole.resize(size, Image.Resampling.LANCZOS).save(file, "PNG", optimize=True)
        png = file.getvalue()
    return png
