"""The gallery: each notebook runs from top to bottom, and shows something."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from tests.gpu import notebooks
from tests.gpu.test_canvas import picture

# The one that is not at rest has a test of its own, in a real notebook.
NAMES = sorted({file.stem for file in notebooks.NOTEBOOKS.glob("*.ipynb")} - notebooks.MOVING)

UNCHANGED = {"shader", "thin_link"}
"""Their last cells add handlers or print."""


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_from_top_to_bottom(name):
    async def main():
        pages = await notebooks.run(name)
        assert pages
        try:
            for page in pages:
                errors = [message["text"] for message in page.messages if message["type"] == "error"]
                assert not any(errors), errors
                last = picture(page.frames[-1])
                assert last.std() > 3, "a picture, not a blank"
            finals = [frame for frame in pages[0].frames if frame[0]["final"]]
            if name not in UNCHANGED:
                assert not np.array_equal(picture(finals[0]), picture(finals[-1])), (
                    "the later cells change it"
                )
        finally:
            for page in pages:
                page.canvas.close()
            await asyncio.sleep(0.05)

    asyncio.run(main())


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_are_short_and_saved_without_outputs(name):
    cells = notebooks.cells(name)
    assert len(cells) <= 6
    assert cells[0]["source"].startswith("# ")
    assert not any(cell.get("outputs") for cell in cells)
