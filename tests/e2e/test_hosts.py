"""The same checks in each host that the canvas is at home in. What they are is in hosts.py.

    RFB_GPU_WRITE_HOSTS=1 python -m pytest tests/e2e/test_hosts.py    writes the table of docs/hosts.md

The checks of a host share a document, in this order, so the whole suite takes little more than starting the hosts does.
"""

from __future__ import annotations

import contextlib
import os
import textwrap

import nbformat
import pytest

from tests.e2e import harness
from tests.e2e.hosts import HOSTS, MarimoEdit
from tests.e2e.test_canvas import EXACT, assert_knot_is_blue, assert_shows

QUICKSTART = harness.REPOSITORY / "notebooks" / "quickstart.ipynb"
TABLE = harness.REPOSITORY / "docs" / "hosts.md"
BEGIN, END = "<!-- made by tests/e2e/test_hosts.py -->", "<!-- end -->"


@pytest.fixture(scope="session", autouse=True)
def table(passed_in_hosts):
    """Writes what passed where to the docs in the end, if asked for."""
    yield
    if not os.environ.get("RFB_GPU_WRITE_HOSTS"):
        return
    marks = {True: "passed", False: "failed", None: "not run"}
    rows = [["", *HOSTS], ["---"] * (len(HOSTS) + 1)]
    for check in CHECKS:
        row = [marks[passed_in_hosts.get((host, check.__name__))] for host in HOSTS]
        rows.append([words(check), *row])
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    before, rest = TABLE.read_text().split(BEGIN)
    TABLE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END, 1)[1]}")


def words(check):
    """A check's name in the table."""
    return check.__name__.removeprefix("test_").replace("_", " ")


SOCKETS = """
// The host's websockets, for a test to cut. The canvas's own is refused, so that all goes by the host's.
delete globalThis.Worker
const Real = WebSocket
globalThis.sockets = []
globalThis.isCut = false
globalThis.WebSocket = class extends Real {
    constructor(url, ...rest) {
        if (/^ws:\\/\\/127\\.0\\.0\\.1:\\d+\\/(proxy\\/\\d+\\/)?$/.test(url)) throw new Error("this page may not")
        super(isCut ? "ws://127.0.0.1:1/" : url, ...rest)
        sockets.push(this)
    }
}
"""


def test_first_frame(host):
    canvas = host.canvas("a")
    host.scroll_to("a")
    canvas.wait_decoder("webgpu")
    canvas.wait_final()
    assert_shows(canvas, host.kernel, "pixels(a)", EXACT)


def test_drag(host):
    """The picture changes, and the camera in the kernel with it."""
    canvas = host.canvas("a")
    position = "list(map(float, a.parts[3].local.position))"
    before, camera, shown = canvas.screenshot(), host.kernel.value(position), canvas.frame
    canvas.drag((0.3, 0.5), (0.7, 0.6))
    canvas.wait_final(after=shown)
    assert harness.psnr(canvas.screenshot(), before) < 30, "it turned"
    assert host.kernel.value(position) != camera
    assert_shows(canvas, host.kernel, "pixels(a)")


def test_keys_go_to_the_canvas_only(host):
    """Not to the notebook, where they add and delete cells."""
    canvas, cells = host.canvas("a"), host.count_cells()
    host.kernel.run("keys = []\na.add_event_handler(lambda event: keys.append(event['key']), 'key_down')")
    canvas.view.click(position={"x": 5, "y": 5})
    host.frame.locator(".renderview-wrapper.has-focus").wait_for()
    for key in "abdd":
        host.page.keyboard.press(key)
    host.kernel.wait_for("len(keys) == 4", timeout=10)
    assert host.kernel.value("keys") == ["a", "b", "d", "d"]
    host.page.wait_for_timeout(300)
    assert host.count_cells() == cells


@pytest.mark.parametrize("open_host", [name for name in HOSTS if name != "VS Code"], indirect=True)
def test_full_screen(host):
    canvas, page = host.canvas("a"), host.page
    size = canvas.size
    host.kernel.run("full = []\na.add_event_handler(lambda event: full.append(event['key']), 'key_down')")
    canvas.wrapper.locator(".rfb-gpu-full-screen-button").click()
    page.wait_for_function("() => document.fullscreenElement")
    canvas.wait_size(*page.evaluate("[innerWidth, innerHeight]"))
    canvas.wait_final()
    assert_shows(canvas, host.kernel, "pixels(a)")
    page.keyboard.press("f")
    host.kernel.wait_for("full == ['f']", timeout=10)
    page.evaluate("() => document.exitFullscreen()")  # as Escape does, which is the browser's own key
    canvas.wait_size(*size)
    canvas.wait_final()
    assert_shows(canvas, host.kernel, "pixels(a)")


def test_resize(host):
    canvas = host.canvas("a")
    canvas.wait_final()
    width, height = canvas.size
    canvas.resize_by(40, 31)
    canvas.wait_size(width + 40, height + 31)
    canvas.wait_final()
    assert host.kernel.value("a.get_physical_size()") == [width + 40, height + 31]
    assert_shows(canvas, host.kernel, "pixels(a)")


def test_two_canvases(host):
    first, second = host.canvas("a"), host.canvas("b")
    host.scroll_to("b")
    second.wait_final()
    assert_shows(second, host.kernel, "pixels(b)")
    shown = second.frame
    host.scroll_to("a")
    moving = first.frame
    first.drag((0.7, 0.5), (0.4, 0.5))
    first.wait_final(after=moving)
    assert_shows(first, host.kernel, "pixels(a)")
    host.scroll_to("b")
    second.wait_final()
    assert second.frame == shown, "the other one did not move"
    assert_shows(second, host.kernel, "pixels(b)")


def test_scroll_away_and_back(host):
    """Out of sight nothing is drawn, and back in sight the picture is there without a draw."""
    canvas = host.canvas("a")
    host.scroll_to("a")
    canvas.wait_final()
    host.scroll_to("b")
    host.canvas("b").wait_final()
    host.page.wait_for_timeout(300)
    draws = host.kernel.value("a.draws")
    host.kernel.run("a.request_draw()")
    host.page.wait_for_timeout(500)
    assert host.kernel.value("a.draws") == draws, "nobody looks"
    host.scroll_to("a")
    canvas.wait_frame()
    assert_shows(canvas, host.kernel, "pixels(a)")
    assert host.kernel.value("a.draws") <= draws + 1


def test_reload(host):
    host.reload()
    host.scroll_to("a")
    canvas = host.canvas("a")
    canvas.wait_decoder("webgpu")
    canvas.wait_final()
    assert_shows(canvas, host.kernel, "pixels(a)")


def test_without_webgpu(host):
    """The browser's own decoder shows the same picture, after a reload."""
    host.page.add_init_script("delete Navigator.prototype.gpu")
    host.page.add_init_script(SOCKETS)
    host.reload()
    host.scroll_to("a")
    canvas = host.canvas("a")
    canvas.wait_final()
    assert canvas.decoder == "browser"
    shown = canvas.frame
    canvas.drag((0.3, 0.5), (0.7, 0.6))
    canvas.wait_final(after=shown)
    assert_shows(canvas, host.kernel, "pixels(a)")
    assert "this browser has no WebGPU" in host.kernel.value("a.describe()")


@pytest.mark.parametrize("open_host", [name for name in HOSTS if name != "VS Code"], indirect=True)
def test_connection_lost_and_back(host):
    """What was drawn meanwhile is seen by itself, and the canvas is live again."""
    if not host.page.evaluate("'sockets' in globalThis"):  # a document that is new, after a test that failed
        host.page.add_init_script(SOCKETS)
        host.reload()
        host.scroll_to("a")
    canvas = host.canvas("a")
    canvas.wait_final()
    assert canvas.locator.get_attribute("data-rfb-road") == "comm"
    shown = canvas.frame
    host.page.evaluate("() => { isCut = true; for (const socket of sockets) socket.close() }")
    host.kernel.run("a.parts[2].local.rotation = (0, 0.6, 0, 0.8)\na.request_draw()")
    host.page.wait_for_timeout(1000)
    draws = host.kernel.value("a.draws")
    assert canvas.frame == shown
    host.page.evaluate("() => { isCut = false }")
    canvas.wait_final(after=shown)
    assert_shows(canvas, host.kernel, "pixels(a)")
    assert host.kernel.value("a.draws") == draws
    shown = canvas.frame
    canvas.drag((0.3, 0.5), (0.7, 0.6))
    canvas.wait_final(after=shown)
    assert_shows(canvas, host.kernel, "pixels(a)")


def test_close(host):
    """By its button: the kernel knows, and the other canvas goes on."""
    host.kernel.run("a.set_closable(True)")
    host.canvas("a").wrapper.locator(".renderview-close-button").click()
    host.kernel.wait_for("a.get_closed()", timeout=10)
    host.scroll_to("b")
    second = host.canvas("b")
    second.wait_final()
    shown = second.frame
    second.drag((0.3, 0.5), (0.6, 0.5))
    second.wait_final(after=shown)
    assert_shows(second, host.kernel, "pixels(b)")


CHECKS = [value for name, value in list(globals().items()) if name.startswith("test_")]
"""What the table has a row for. What follows is no check of a host's."""


def test_frames_never_ran_a_cell_again(host):
    assert host.kernel.value("runs") == ["a", "b"]


@pytest.mark.parametrize("open_host", ["VS Code"], indirect=True)
def test_vscodes_policy_forbids_nothing_that_we_need(host):
    assert "over the comm" in host.kernel.value("b.describe()")
    forbidden = {what.split()[0] for what in host.violations()}
    # The websocket; one of the three ways to the browser's decoder, which race; the icons of other widgets.
    assert forbidden <= {"connect-src", "img-src", "font-src", "worker-src"}


def test_the_table_names_every_host_and_check():
    text = TABLE.read_text().split(BEGIN)[1].split(END)[0]
    for name in [*HOSTS, *map(words, CHECKS)]:
        assert f"| {name} |" in text, (
            "RFB_GPU_WRITE_HOSTS=1 python -m pytest tests/e2e/test_hosts.py writes it anew"
        )


class Quickstart(MarimoEdit):
    """The quickstart's twin, in marimo."""

    def _app(self):
        return QUICKSTART.with_name("quickstart_marimo.py").read_text()

    def wait_ran(self):
        pass


def test_the_marimo_quickstart_is_the_quickstarts_twin_and_runs(page, jupyterlab, tmp_path):
    notebook = nbformat.read(QUICKSTART, as_version=4)
    quickstart = Quickstart(page, jupyterlab, tmp_path)
    twin = quickstart._app()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert textwrap.indent(cell.source, "    ") in twin
        else:
            assert " ".join(cell.source.split()) in " ".join(twin.split())
    with contextlib.closing(quickstart):
        quickstart.open()
        harness.scroll_to(page.locator(".renderview-wrapper"))
        canvas = harness.Canvas(page, page.locator("canvas.rfb-gpu-canvas"))
        canvas.wait_final()
        assert_knot_is_blue(canvas)
        page.get_by_text("host:      marimo").wait_for()
