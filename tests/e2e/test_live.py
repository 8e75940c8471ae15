"""What a person sees while a cell runs: live canvases, and normal ones that the cell flushes. And reloads in mid-stream."""

from __future__ import annotations

import itertools
import json

import pytest

from tests.e2e import harness
from tests.e2e.test_canvas import assert_shows

pytestmark = pytest.mark.flaky(reruns=2)  # frames are counted while a cell runs

SCENE = """
import threading, time
from tests.e2e.scene import make, np, pixels

def watched(**options):
    canvas = make(**options)
    canvas.names = set()
    for kind in ("before_draw", "pointer_move"):
        canvas.add_event_handler(lambda _: canvas.names.add(threading.current_thread().name), kind)
    return canvas

def turn():
    canvas.parts[2].local.rotation = (0, np.sin(time.time()), 0, np.cos(time.time()))
"""


def show_beside(notebook, *lines: str, cell: str):
    """A notebook that shows one canvas, with a cell that is still to be run."""
    opened = notebook([SCENE, "\n".join([*lines, "canvas"]), cell])
    opened.run_cell(0)
    opened.run_cell(1)
    canvas = opened.canvas()
    canvas.wait_final()
    return opened, canvas


def is_running(opened) -> bool:
    return "[*]:" in opened.page.evaluate(
        "() => jupyterapp.shell.currentWidget.content.widgets[2].promptNode.textContent"
    )


def start(opened):
    opened.run_cell(2, wait=False)
    opened.page.wait_for_function(
        "() => jupyterapp.shell.currentWidget.content.widgets[2].promptNode.textContent === '[*]:'"
    )


def test_a_live_canvas_shows_frames_and_reacts_while_a_cell_runs(shared_notebook):
    opened, canvas = show_beside(
        shared_notebook,
        "canvas = watched(decoder='browser', live=True)",
        cell="keys, end = [], time.time() + 60\ncanvas.add_event_handler(keys.append, 'key_down')\nprint('before')\n"
        "while not keys and time.time() < end:\n    time.sleep(0.1)\n"
        "    with canvas.lock:\n        moved = list(canvas.parts[3].local.position)\n"
        "print('after')\nprint(moved)",
    )
    position = opened.kernel.value("list(canvas.parts[3].local.position)")
    before = canvas.screenshot()
    shown = canvas.frame
    start(opened)
    opened.page.wait_for_timeout(500)
    for _ in range(2):  # twice: also after frames were sent
        canvas.drag((0.3, 0.5), (0.7, 0.6))
        canvas.wait_final(after=shown, timeout=4)
        after, shown = canvas.screenshot(), canvas.frame
        assert harness.psnr(after, before) < 30, "it turned"
        before = after
    assert is_running(opened), "all that was while the cell ran"
    opened.page.keyboard.press("q")
    opened.wait_idle()
    assert opened.output_text(2).split("\n")[:2] == ["before", "after"]
    assert opened.output_text(2).split("\n")[2] != str(position), "the cell sees what the drag did"
    assert opened.kernel.value("sorted(canvas.names)") == ["rfb_gpu live"]
    assert_shows(canvas, opened.kernel)


def test_a_cell_changes_the_scene_of_a_live_canvas_and_waits_for_the_picture(shared_notebook):
    opened, canvas = show_beside(
        shared_notebook,
        "canvas = watched(decoder='browser', live=True)",
        cell="sent = 0\nend = time.time() + 4\n"
        "while time.time() < end:\n    with canvas.lock:\n        turn()\n    canvas.request_draw()\n    sent += canvas.flush()\n"
        "    time.sleep(0.05)\nprint('sent', sent)",
    )
    pictures = []
    start(opened)
    while is_running(opened):
        opened.page.wait_for_timeout(500)
        pictures.append(canvas.frame)
    opened.wait_idle()
    steps = [b - a for a, b in itertools.pairwise(pictures)]
    assert len(steps) >= 3
    assert min(steps) > 0, pictures
    assert int(opened.output_text(2).split()[1]) > 20
    assert opened.kernel.value("sorted(canvas.names)") == ["rfb_gpu live"]


def assert_shows_progress(notebook, transport, reacts):
    """Runs a cell for 4 seconds that flushes a normal canvas; `reacts`: whether what the mouse does comes while it runs."""
    opened, canvas = show_beside(
        notebook,
        f"canvas = watched(decoder='browser', transport={transport!r})",
        cell="moves = []\ncanvas.add_event_handler(lambda e: moves.append(e['x']), 'pointer_move')\n"
        "sent, end = 0, time.time() + 4\n"
        "while time.time() < end:\n    turn()\n    canvas.request_draw()\n    sent += canvas.flush()\n    time.sleep(0.02)\n"
        "seen = len(moves)",
    )
    pictures = []
    start(opened)
    while is_running(opened):
        canvas.drag((0.3, 0.5), (0.7, 0.6), button="middle")
        opened.page.wait_for_timeout(400)
        pictures.append(canvas.frame)
    opened.wait_idle()
    steps = [b - a for a, b in itertools.pairwise(pictures)]
    assert len(steps) >= 3
    assert min(steps) > 0, pictures
    sent, seen = opened.kernel.value("[sent, seen]")
    assert sent > 10
    if reacts:
        assert seen > 0
    else:
        assert seen == 0
        assert sent <= 4 / 0.1 + 1, "a bounded rate"
    assert opened.kernel.value("sorted(canvas.names)") == ["MainThread"]
    canvas.wait_final()
    assert_shows(canvas, opened.kernel)


def test_a_normal_canvas_that_a_cell_flushes_shows_progress_and_reacts(shared_notebook):
    """By the comm, because JupyterLab's default is a subshell, a thread of their own for the comm's messages."""
    assert_shows_progress(shared_notebook, "comm", reacts=True)


@pytest.fixture
def without_subshells(jupyterlab):
    """All messages come on the main thread, as in VS Code and marimo."""
    file = jupyterlab.settings / "@jupyterlab/apputils-extension/kernels-settings.jupyterlab-settings"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"commsOverSubshells": "disabled"}))
    yield
    file.unlink()


@pytest.mark.usefixtures("without_subshells")
def test_without_subshells_it_shows_progress_and_reacts_by_websocket_only(notebook):
    opened = notebook([SCENE])

    def with_cells(cells):
        opened.set_cells(cells)
        return opened

    assert_shows_progress(with_cells, "comm", reacts=False)
    assert_shows_progress(with_cells, "websocket", reacts=True)


def test_a_canvas_is_shown_by_the_very_cell_that_flushes_it(shared_notebook):
    # The first widget of a kernel is early: JupyterLab still asks for a subshell.
    opened = shared_notebook(
        [
            SCENE,
            "make(size=(100, 50))",
            "canvas = watched(decoder='browser')\ndisplay(canvas)\n"
            "end = time.time() + 5\n"
            "while time.time() < end:\n    turn()\n    canvas.request_draw()\n    canvas.flush()\n    time.sleep(0.02)",
        ]
    )
    opened.run_cell(0)
    opened.run_cell(1)
    opened.canvas().wait_final()
    start(opened)
    opened.scroll_to_cell(2)
    canvas = opened.canvas(1)
    canvas.wait_frame(after=10, timeout=5)
    assert is_running(opened)
    opened.wait_idle()


@pytest.mark.parametrize("live, times", [(False, 10), (True, 2)])
def test_reloads_in_mid_stream_each_recover_within_a_second(shared_notebook, live, times):
    opened = shared_notebook(
        [SCENE, f"canvas = watched(decoder='browser', update_mode='continuous', live={live})", "canvas"]
    )
    opened.run_all()
    opened.canvas().wait_frame(after=5)
    opened.save()
    for _ in range(times):
        opened.reload()
        opened.page.locator("div.rfb-gpu-view").wait_for()
        canvas = opened.canvas()
        canvas.wait_frame(timeout=1)
        canvas.wait_frame(after=canvas.frame + 3, timeout=2)
    assert opened.kernel.value("sorted(canvas.names)") == ["rfb_gpu live" if live else "MainThread"]
