"""Runs a notebook's cells in this process, with a page that looks at its canvases."""

from __future__ import annotations

import ast
import asyncio
import json
import os
from pathlib import Path
from typing import Any

from rfb_gpu.widget import PageWidget
from tests.gpu.test_canvas import Page

MOVING = {"film"}
"""Never at rest, so there is no picture without loss to wait for."""

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def cells(name: str) -> list[dict[str, Any]]:
    """All cells of a notebook, with their source as text."""
    notebook = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    return [{**cell, "source": "".join(cell["source"])} for cell in notebook["cells"]]


async def run(name: str) -> list[Page]:
    """Runs all code cells, from top to bottom. Each canvas is opened in a page after the cell that made it, at one pixel per
    logical pixel, and has a picture at rest before the next cell begins.

    Returns:
        The pages, each with the frames that it got.
    """
    # fastplotlib looks for a window system when it is imported outside of a notebook.
    os.environ.setdefault("RENDERCANVAS_FORCE_OFFSCREEN", "1")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    pages: dict[PageWidget, Page] = {}
    for cell in cells(name):
        if cell["cell_type"] == "code":
            counts = {page: len(page.frames) for page in pages.values()}
            code = compile(cell["source"], f"{name}.ipynb", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            running = eval(code, namespace)
            if running is not None:
                await running
            for widget in _widgets(namespace):
                if widget not in pages:
                    pages[widget] = page = Page(widget)
                    page.size = tuple(
                        int(float(side[:-2])) for side in (widget._css_width, widget._css_height)
                    )
                    page.open(*page.size)
            for page in pages.values():
                if name in MOVING:
                    await page.wait_frames(1)
                else:
                    await _rest(page, counts.get(page, 0))
    return list(pages.values())


async def _rest(page: Page, before: int) -> None:
    """Waits for the picture without loss of what the cell has changed, if anything."""
    canvas = getattr(page.canvas, "_rfb_canvas", page.canvas)
    if before:
        await asyncio.sleep(0.1)  # events are handled by and by
        for _ in range(100):
            if not canvas._rfb_draw_wanted and not canvas._rfb_encoding:
                break
            await asyncio.sleep(0.02)  # some programs want the next draw always
    await page.wait(lambda: bool(page.frames) and page.frames[-1][0]["final"])


def _widgets(namespace: dict[str, Any]) -> list[PageWidget]:
    """The canvases among the variables, and in lists of them."""
    found = []
    for value in namespace.values():
        found += [
            each for each in (value if isinstance(value, list) else [value]) if isinstance(each, PageWidget)
        ]
    return list(dict.fromkeys(found))
