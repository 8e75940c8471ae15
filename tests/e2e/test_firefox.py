"""In Firefox, whose WebGPU is another one than Chromium's: our decoders, the browser's, and what a person does."""

from __future__ import annotations

import contextlib
import math
import sys
import time

import numpy as np
import pytest

from tests.e2e import harness
from tests.e2e.firefox import find_firefox, running_firefox
from tests.e2e.scene import looks_in

SIZE = 360, 240
CANVAS = "document.querySelector('canvas.rfb-gpu-canvas')"
NOTEBOOK = "[...jupyterapp.shell.widgets('main')][0]"


@pytest.fixture(scope="module")
def firefox(tmp_path_factory):
    harness.require(find_firefox(), "Firefox, and one that can be driven")
    with running_firefox(tmp_path_factory.mktemp("firefox")) as running:
        yield running


@pytest.fixture(scope="module")
def expected():
    """What the scene looks like in a window of `SIZE`."""
    return looks_in(SIZE)


@contextlib.contextmanager
def served(folder, options):
    """The address of the scene, served by a canvas with these options."""
    script = folder / "scene.py"
    script.write_text(f"from tests.e2e.scene import make\ncanvas = make({options})\n")
    port = harness.free_port()
    command = [sys.executable, "-m", "rfb_gpu", "serve", f"{script}:canvas", "--port", str(port)]
    url = f"http://127.0.0.1:{port}/?token=t"
    with harness.running_server([*command, "--token", "t"], url, folder / "server.log"):
        yield url


def state(firefox):
    """What the front end says of itself."""
    return firefox.value(f"({{ ...{CANVAS}?.dataset }})")


def wait_rest(firefox, after=-1, final="true"):
    """Waits until a picture that is newer than frame `after` has been the last one for half a second."""
    condition = (
        f"Number({CANVAS}?.dataset.rfbFrame ?? -1) > {after} && {CANVAS}.dataset.rfbFinal === '{final}'"
    )
    while True:
        firefox.wait_for(condition)
        before = state(firefox)
        time.sleep(0.5)
        if state(firefox) == before:
            return int(before["rfbFrame"])


@pytest.mark.parametrize(
    "decoder, options, at_least",
    [
        ("webgpu", "encoder='gpu', decoder='webgpu', lossless_delay=None", 38),
        ("webgpu", "encoder='gpu', decoder='webgpu'", math.inf),
        ("browser", "encoder='cpu', decoder='browser'", math.inf),
    ],
)
def test_pictures_are_right_and_a_drag_turns_them(firefox, expected, tmp_path, decoder, options, at_least):
    final = "true" if at_least == math.inf else "false"
    with served(tmp_path, options) as url:
        firefox.log.clear()
        firefox.set_size(*SIZE)
        firefox.goto(url)
        shown = wait_rest(firefox, final=final)
        assert state(firefox)["rfbDecoder"] == decoder
        assert harness.psnr(firefox.screenshot(), expected) >= at_least
        firefox.drag((0.3 * SIZE[0], 0.5 * SIZE[1]), (0.7 * SIZE[0], 0.6 * SIZE[1]))
        wait_rest(firefox, after=shown, final=final)
        turned = firefox.screenshot()
        assert harness.psnr(turned, expected) < 30
        firefox.goto(url + "&again")
        wait_rest(firefox, final=final)
        assert harness.psnr(firefox.screenshot(), turned) >= at_least, "another page gets the same"
        firefox.goto("about:blank")
        assert firefox.log == []


def test_in_jupyterlab(firefox, jupyterlab):
    name = "firefox.ipynb"
    harness.write_notebook(jupyterlab.root / name, [harness.SCENE, "canvas = make()\ncanvas"])
    firefox.set_size(1000, 700)
    firefox.goto(jupyterlab.page(name))
    # A page without a person has no current notebook until something in it is clicked.
    firefox.wait_for(
        "globalThis.jupyterapp !== undefined && document.querySelector('.jp-Cell .cm-content') !== null"
    )
    firefox.wait_for(f"{NOTEBOOK}.sessionContext.session?.kernel !== undefined")
    x, y = firefox.value(
        "(() => { const box = document.querySelector('.jp-Cell .cm-content').getBoundingClientRect();"
        " return [box.x + 20, box.y + 10] })()"
    )
    firefox.drag((x, y), (x, y), steps=1)
    firefox.value("jupyterapp.commands.execute('notebook:run-all-cells').then(() => true)")
    shown = wait_rest(firefox)
    assert state(firefox)["rfbRoad"] == "websocket"
    x, y, width, height = firefox.value(
        f"(() => {{ const box = {CANVAS}.getBoundingClientRect(); return [box.x, box.y, box.width, box.height] }})()"
    )
    assert (width, height) == (320, 240)
    before = firefox.screenshot()
    firefox.drag((x + 0.3 * width, y + 0.5 * height), (x + 0.7 * width, y + 0.6 * height))
    wait_rest(firefox, after=shown)
    region = np.s_[int(y) + 2 : int(y + height) - 2, int(x) + 2 : int(x + width) - 2]
    assert harness.psnr(firefox.screenshot()[region], before[region]) < 30, "it turned"
    firefox.goto("about:blank")
    session = jupyterlab.session(name)
    jupyterlab.request("DELETE", f"api/sessions/{session['id']}")
