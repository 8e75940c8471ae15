"""The canvas over a thin link: a real page that drags, and the shaping proxy between it and the server."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import urllib.parse

import pytest

from benchmarks.link import PAGE_SCRIPTS, Lattice, times_to_shown
from benchmarks.notebook import percentile
from benchmarks.shaper import running_shaper
from tests.e2e import harness
from tests.e2e.test_canvas import EXACT, assert_shows

SIZE = 320, 240

pytestmark = pytest.mark.flaky(reruns=2)  # measures time


@contextlib.contextmanager
def through_a_link(page, jupyterlab, scratch, name, cells):
    """A link that can be shaped, and a notebook that runs over it, until the block ends."""
    harness.write_notebook(jupyterlab.root / name, cells)
    address = urllib.parse.urlsplit(jupyterlab.url)
    with running_shaper(address.hostname, address.port) as shaper:
        server = dataclasses.replace(jupyterlab, url=f"http://127.0.0.1:{shaper.port}/")
        opened = harness.Notebook(page, server, name, scratch)
        try:
            opened.open()
            opened.run_all()
            yield shaper, opened
        finally:
            shaper.shape()  # or the end would take long, too
            opened.shutdown()


def test_every_move_is_seen_over_a_thin_link(page, jupyterlab, tmp_path):
    """Loosely: nothing of the link's quality is asked here, only that input and pictures keep going both ways."""
    probe = f"Probe('rfb_gpu', 'image', {SIZE[0]}, {SIZE[1]}, {{'transport': 'comm'}})"
    cell = f"from benchmarks.link import Probe\nprobe = {probe}\nprobe.canvas"
    for script in PAGE_SCRIPTS:
        page.add_init_script(script)
    with through_a_link(page, jupyterlab, tmp_path, "thin-link.ipynb", [cell]) as (shaper, opened):
        canvas = opened.canvas()
        canvas.wait_final()
        page.mouse.move(*page.evaluate("drag.middle()"))
        page.mouse.down()
        page.wait_for_function("drag.captured()")

        shaper.shape(4e6, 0.03)
        carried = shaper.down.carried
        page.evaluate(f"drag.start({Lattice(*SIZE).columns})")
        page.wait_for_timeout(3000)
        page.evaluate("drag.stop()")
        page.mouse.up()
        page.wait_for_function("drag.isSharp()", timeout=20_000)
        carried = shaper.down.carried - carried
        result = page.evaluate("drag.result()")

    moves, pictures = result["moves"], result["pictures"]
    assert result["errors"] == []
    assert len(moves) > 60
    assert [picture for picture in pictures if picture["number"] is None] == []
    known = [picture["number"] for picture in pictures]
    assert known == sorted(known), "a picture was shown after a newer one"
    assert len(set(known)) >= 5, "it moved"
    waits = times_to_shown(moves, pictures)[0][1:]
    assert max(waits) < math.inf
    assert min(waits) >= 60, "faster than the link: the frames went past it"
    assert percentile(waits, 50) < 3000
    assert carried > 20_000


@pytest.mark.parametrize("decoder, encoder", [("webgpu", "gpu"), ("browser", "cpu")])
def test_after_an_animation_and_input_the_picture_is_exact_over_100_ms(
    page, jupyterlab, tmp_path, decoder, encoder
):
    """The input comes when the lossless picture of the animation's end is being made or is on its way."""
    made = (
        f"canvas = make(decoder={decoder!r}, encoder={encoder!r}, update_mode='continuous', transport='comm')"
    )
    name, cells = f"sharp-{decoder}.ipynb", [harness.SCENE, made + "\ncanvas"]
    with through_a_link(page, jupyterlab, tmp_path, name, cells) as (shaper, opened):
        canvas = opened.canvas()
        canvas.wait_decoder(decoder)
        shaper.shape(delay=0.05)
        canvas.wait_frame(after=canvas.frame + 8)
        opened.kernel.run("canvas.set_update_mode('ondemand')")
        draws = opened.kernel.value("canvas.draws")
        page.wait_for_timeout(330)
        canvas.drag((0.3, 0.5), (0.7, 0.6))
        opened.kernel.wait_for(f"canvas.draws > {draws} + 2")
        canvas.wait_final(after=canvas.frame)
        assert_shows(canvas, opened.kernel, at_least=EXACT)
