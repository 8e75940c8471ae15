"""The canvas on a plain web page: served by `python -m rfb_gpu serve`, and mounted in an application under a prefix."""

from __future__ import annotations

import contextlib
import signal
import sys

import numpy as np
import pytest

from tests.e2e import harness
from tests.e2e.scene import looks_in

TOKEN = "a token"
SIZE = 360, 240


class Served:
    """`python -m rfb_gpu serve`, to be stopped and started at the same address."""

    def __init__(self, folder):
        self.url = f"http://127.0.0.1:{harness.free_port()}/?token=a%20token"
        self._log = folder / "server.log"
        self._running = contextlib.ExitStack()

    def start(self):
        port = self.url.split(":")[2].split("/")[0]
        command = [sys.executable, "-m", "rfb_gpu", "serve", "tests/e2e/served.py:canvas"]
        command += ["--port", port, "--token", TOKEN]
        running = harness.running_server(command, self.url, self._log)
        self.process = self._running.enter_context(running)

    def stop(self):
        self._running.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    server = Served(tmp_path_factory.mktemp("served"))
    server.start()
    yield server
    server.stop()


def whole(page):
    """What is seen of the page."""
    return harness.to_picture(page.screenshot())


def badge(page):
    return page.locator(".rfb-gpu-badge").inner_text()


def button(page):
    return page.get_by_role("button", name="Take control")


def wait_for(page, condition):
    page.wait_for_function(condition, timeout=harness.ACTION_SECONDS * 1000)


DIMMED = "() => document.querySelector('.rfb-gpu-dimmed')"
BRIGHT = "() => !document.querySelector('.rfb-gpu-dimmed')"


@pytest.fixture(scope="module")
def expected():
    """What the scene looks like in a window of `SIZE`."""
    return looks_in(SIZE)


def test_the_canvas_fills_its_page_and_lives_there(served, visit, expected):
    page, canvas = visit(served.url)
    canvas.wait_final()
    np.testing.assert_array_equal(whole(page), expected)
    assert page.title() == "Cube"
    assert badge(page) == "" and not button(page).is_visible()

    shown = canvas.frame
    canvas.drag((0.3, 0.5), (0.7, 0.6))
    canvas.wait_rest(after=shown)
    turned = whole(page)
    assert harness.psnr(turned, expected) < 30

    page.set_viewport_size({"width": 300, "height": 280})
    canvas.wait_size(300, 280)
    page.set_viewport_size(dict(zip(("width", "height"), SIZE, strict=True)))
    canvas.wait_size(*SIZE)
    canvas.wait_final()
    np.testing.assert_array_equal(whole(page), turned)

    page.reload()
    canvas.wait_final()
    np.testing.assert_array_equal(whole(page), turned)
    assert page.log == []


def test_a_second_page_watches_and_takes_control(served, visit):
    first, canvas = visit(served.url)
    canvas.wait_final()
    second, watching = visit(served.url, (240, 320))
    watching.wait_final()
    button(second).wait_for()
    assert (canvas.size, watching.size) == (SIZE, SIZE)
    seen = whole(second)
    # 360x240 in 240x320: 160 rows, with 80 above and below.
    assert (seen[40:79] == 255).all() and (seen[241:] == 255).all(), "not cut, not stretched"
    assert not (seen[82:238] == 255).all(axis=2).any()

    shown = watching.frame
    watching.drag((0.3, 0.5), (0.7, 0.6))
    second.wait_for_timeout(300)
    assert watching.frame == shown, "who watches does not turn the cube"

    button(second).click()
    watching.wait_size(240, 320)
    watching.wait_final()
    assert not (whole(second) == 255).all(axis=2).any()
    button(first).wait_for()
    canvas.wait_size(240, 320)
    assert (whole(first)[:, :88] == 255).all(), "now it is this one's turn to see bars"
    assert not button(second).is_visible()

    second.close()
    canvas.wait_size(*SIZE)
    button(first).wait_for(state="hidden")


def test_the_tab_key_comes_and_leaves_and_is_seen_to(served, visit):
    page, canvas = visit(served.url)
    canvas.wait_final()
    before = whole(page)
    page.keyboard.press("Tab")
    page.wait_for_selector(".rfb-gpu-by-tab")
    ringed = (whole(page) != before).any(axis=2)
    assert all(edge.all() for edge in (ringed[:2], ringed[-2:], ringed[:, :2], ringed[:, -2:]))
    assert not ringed[3:-3, 3:-3].any()
    page.keyboard.press("Tab")
    page.wait_for_function("() => document.activeElement === document.body")
    np.testing.assert_array_equal(whole(page), before)


def test_a_wrong_token_is_refused_in_words(served, visit):
    page, _ = visit(served.url + "x")
    assert "Open the address that the server has printed" in page.inner_text("body")
    # A page that was open when its server was started anew with another token.
    page, canvas = visit(served.url)
    canvas.wait_frame()
    page.evaluate(
        "async () => { document.body.innerHTML = '';"
        " (await import('./widget.js')).connect(document.body, location.href + 'x') }"
    )
    wait_for(page, "() => document.body.innerText.includes('the token is not this server')")
    page.wait_for_function(DIMMED)
    assert "Trying again" not in badge(page)


def test_mounted_under_a_prefix_and_without_webgpu(visit, expected, tmp_path):
    port = harness.free_port()
    command = [sys.executable, "-m", "uvicorn", "tests.e2e.served:site", "--port", str(port)]
    address = f"http://127.0.0.1:{port}/plots/cube"
    environment = {"RFB_GPU_TEST_DECODER": "browser"}
    with harness.running_server(command, address, tmp_path / "site.log", environment) as process:
        page, canvas = visit(address)
        canvas.wait_final()
        assert canvas.decoder == "browser"
        np.testing.assert_array_equal(whole(page), expected)
        assert page.log == []
    assert process.returncode != -signal.SIGKILL, "it ends when it is told to"


def test_a_page_finds_the_server_that_was_started_anew(served, visit, expected):
    page, canvas = visit(served.url)
    canvas.wait_final()
    served.stop()
    wait_for(page, DIMMED)
    assert badge(page) == "No connection to the server. Trying again…"
    assert served.process.returncode == 0
    assert page.locator("canvas.rfb-gpu-canvas").is_visible(), "the last picture stays"
    canvas.locator.evaluate("canvas => { canvas.dataset.rfbFinal = '' }")
    served.start()
    wait_for(page, BRIGHT)
    assert badge(page) == ""
    canvas.wait_final()
    np.testing.assert_array_equal(whole(page), expected)


def test_when_the_canvas_is_closed_the_page_keeps_its_picture_and_the_server_ends(served, visit):
    page, canvas = visit(served.url)
    canvas.wait_final()
    canvas.drag((0.5, 0.5), (0.5, 0.5), steps=1)  # for the focus
    page.wait_for_timeout(300)
    page.keyboard.press("q")
    wait_for(page, DIMMED)
    assert served.process.wait(10) == 0
    page.wait_for_timeout(500)
    assert "Trying again" not in badge(page)
    assert page.locator("canvas.rfb-gpu-canvas").is_visible()
