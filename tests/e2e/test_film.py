"""A film in a scene in JupyterLab: it moves by itself, in step, while nothing else asks for a draw."""

from __future__ import annotations

import re
import time

import numpy as np

from tests.e2e import harness


def test_the_film_notebook_runs_from_top_to_bottom_and_plays(notebook):
    opened = notebook(harness.REPOSITORY / "notebooks" / "film.ipynb")
    opened.run_all()
    frames, late = re.match(r"(\d+) frames, late by ([\d.]+) ms", opened.output_text(7)).groups()
    assert int(frames) > 30, "of 60 in two and a half seconds"
    assert float(late) < 1000 / 24
    opened.scroll_to_cell(3)
    canvas = opened.canvas()
    first = canvas.screenshot().astype(int)
    time.sleep(0.5)
    second = canvas.screenshot().astype(int)
    assert np.ptp(first[..., :3]) > 100, "a picture"
    assert np.abs(first - second).mean() > 2, "it moves"
