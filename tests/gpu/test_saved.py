"""Notebooks that a program executes and saves without a page, as `jupyter nbconvert --execute` does."""

from __future__ import annotations

import base64
import json

import nbformat
import pytest
from nbclient import NotebookClient

CANVAS = """
import numpy as np
from rfb_gpu import RenderCanvas
canvas = RenderCanvas(size=(32, 24), title="T")
context = canvas.get_context("bitmap")
canvas.request_draw(lambda: context.set_bitmap(np.full((24, 32, 4), 77, np.uint8)))
canvas.snapshot()
"""
OTHERS = """
from rfb_gpu import RemoteFrameBuffer
RemoteFrameBuffer(title="U")
"""


@pytest.mark.parametrize("code, title", [(CANVAS, "T"), (OTHERS, "U")])
def test_the_file_holds_no_front_end(code, title):
    saved = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code), nbformat.v4.new_code_cell("")])
    NotebookClient(saved, timeout=60, kernel_name="python3").execute()
    states = [
        model["state"]
        for model in saved.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"].values()
        if "_esm" in model["state"]
    ]
    assert [state["_title"] for state in states] == [title], "nbclient keeps the state"
    assert "Run this cell to see the canvas." in states[0]["_esm"]
    assert len(json.dumps(saved.metadata)) < 5000
    if code == CANVAS:
        (output,) = saved.cells[0].outputs
        assert base64.b64decode(output.data["image/png"]).startswith(b"\x89PNG")
