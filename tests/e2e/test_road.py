"""By which road frames come in JupyterLab, and that a person sees the right picture by each, and when it breaks."""

from __future__ import annotations

import pytest

from tests.e2e import harness
from tests.e2e.test_canvas import EXACT, assert_shows

WEBSOCKETS = "sum(len(road._links) for road in (canvas._rfb_roads._road,) if road)"
PORTS = """
import socket, threading
def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
def threads():
    return [thread.name for thread in threading.enumerate() if "websocket" in thread.name]
"""


def wait_road(canvas, road, timeout=harness.ACTION_SECONDS):
    canvas._wait(f"canvas => canvas.dataset.rfbRoad === {road!r}", timeout)


def badge(canvas):
    return canvas.view.locator(".rfb-gpu-badge").inner_text()


@pytest.mark.parametrize("decoder", ["webgpu", "browser"])
def test_frames_come_by_websocket_and_are_the_picture(show, decoder):
    opened, canvas = show(f"canvas = make(encoder='gpu', decoder={decoder!r})", "canvas")
    wait_road(canvas, "websocket")
    shown = canvas.frame
    canvas.drag((0.3, 0.5), (0.7, 0.6))
    canvas.wait_final(after=shown)
    assert canvas.locator.get_attribute("data-rfb-road") == "websocket"
    assert_shows(canvas, opened.kernel, at_least=EXACT)
    assert "frames come by websocket" in opened.kernel.value("canvas.describe()")
    assert badge(canvas) == ""


FILES = """
// The files that workers hand to the page.
globalThis.files = []
globalThis.Worker = class extends Worker {
    constructor(...given) {
        super(...given)
        this.addEventListener('message', ({ data }) => { if (data instanceof ArrayBuffer) files.push(data) })
    }
}
"""


def test_files_that_were_shown_are_no_garbage_of_the_page(page, notebook):
    """Sixty a second are so much that browsers pause the page for it; what is detached is elsewhere."""
    page.add_init_script(FILES)
    cells = [
        f"{name} = make(decoder={decoder!r}, update_mode='continuous', size=(200, 150))\n{name}"
        for name, decoder in (("a", "webgpu"), ("b", "browser"))
    ]
    opened = notebook([harness.SCENE, *cells])
    opened.run_all()
    for canvas in (opened.canvas(0), opened.canvas(1)):
        wait_road(canvas, "websocket")
        canvas.wait_frame(after=canvas.frame + 10)
    opened.kernel.run("for canvas in (a, b): canvas.set_update_mode('ondemand')")
    for index, name in enumerate("ab"):
        opened.canvas(index).wait_final()
        assert_shows(opened.canvas(index), opened.kernel, f"pixels({name})")
    left = opened.page.evaluate("files.map(file => file.byteLength)")
    assert len(left) > 20
    assert not any(left)


def test_a_page_that_may_have_no_worker_gets_frames_by_websocket(page, notebook):
    page.add_init_script("globalThis.Worker = class { constructor() { throw new Error('forbidden') } }")
    opened = notebook([harness.SCENE, "canvas = make(decoder='browser')\ncanvas"])
    opened.run_all()
    canvas = opened.canvas()
    wait_road(canvas, "websocket")
    canvas.wait_final()
    assert_shows(canvas, opened.kernel)


def test_over_the_websocket_no_frame_goes_over_the_comm(show):
    opened, canvas = show("canvas = make(decoder='browser', update_mode='continuous')", "canvas")
    wait_road(canvas, "websocket")
    opened.kernel.run(
        "sent, send = [], canvas.send\n"
        "canvas.send = lambda message, buffers=None: (sent.append(message['type']), send(message, buffers))"
    )
    canvas.wait_frame(after=canvas.frame + 10)
    assert opened.kernel.value("sent") == []


def test_when_the_websocket_breaks_the_picture_goes_on_over_the_comm_and_then_by_websocket_again(
    show,
):
    opened, canvas = show("canvas = make(decoder='browser', update_mode='continuous')", "canvas")
    wait_road(canvas, "websocket")
    canvas.wait_frame(after=canvas.frame + 3)
    # Who knocks again meets a shut door for a while.
    opened.kernel.run(
        "from rfb_gpu import transport\n"
        "rule, transport.origin_is_trusted = transport.origin_is_trusted, lambda *_: False\n"
        "for link in list(canvas._rfb_roads._road._links): link.drop()"
    )
    wait_road(canvas, "comm", timeout=5)
    canvas.wait_frame(after=canvas.frame + 5, timeout=10)
    assert badge(canvas) == ""
    assert "over the comm (the websocket broke)" in opened.kernel.value("canvas.describe()")
    opened.kernel.run("transport.origin_is_trusted = rule")
    wait_road(canvas, "websocket", timeout=20)
    canvas.wait_frame(after=canvas.frame + 3, timeout=10)
    opened.kernel.run("canvas.set_update_mode('ondemand')")
    canvas.wait_final()
    assert_shows(canvas, opened.kernel)
    assert badge(canvas) == ""
    assert [output["output_type"] for output in opened.outputs(1)] == ["execute_result"], (
        "nothing was printed"
    )


def test_a_break_at_rest_loses_no_picture(show):
    """What was drawn while the websocket was gone is there without another draw."""
    opened, canvas = show("canvas = make(decoder='browser')", "canvas")
    wait_road(canvas, "websocket")
    canvas.wait_final()
    before, shown = canvas.screenshot(), canvas.frame
    opened.kernel.run(
        "for link in list(canvas._rfb_roads._road._links): link.drop()\n"
        "canvas.parts[2].local.rotation = (0, 0.6, 0, 0.8)\n"
        "canvas.force_draw()"
    )
    canvas.wait_final(after=shown)
    draws = opened.kernel.value("canvas.draws")
    assert harness.psnr(canvas.screenshot(), before) < 30, "it turned"
    assert_shows(canvas, opened.kernel)
    assert opened.kernel.value("canvas.draws") == draws


def test_comm_opens_no_port(show):
    opened, canvas = show(PORTS, "canvas = make(transport='comm')", "canvas")
    canvas.wait_final()
    # Those of the test before are closing.
    opened.kernel.wait_for("not threads()", timeout=10)
    opened.page.wait_for_timeout(500)
    assert canvas.locator.get_attribute("data-rfb-road") == "comm"
    assert_shows(canvas, opened.kernel)
    assert opened.kernel.value("threads()") == []
    assert "over the comm (asked for)" in opened.kernel.value("canvas.describe()")


def test_the_port_closes_with_the_last_canvas(shared_notebook):
    opened = shared_notebook(
        ["from tests.e2e.scene import RenderCanvas, make", PORTS, "a = make()\na", "b = make()\nb"]
    )
    opened.run_all()
    for index in (0, 1):
        wait_road(opened.canvas(index), "websocket")
    opened.kernel.run("port = a._rfb_roads._road.port\nassert b._rfb_roads._road.port == port")
    opened.kernel.run("a.close()")
    left = opened.canvas(1)
    shown = left.frame
    opened.kernel.run("b.parts[2].local.x += 0.1\nb.request_draw()")
    left.wait_frame(after=shown)
    assert left.locator.get_attribute("data-rfb-road") == "websocket"
    assert opened.kernel.value("is_open(port)")
    opened.kernel.run("b.close()")
    opened.kernel.wait_for("not is_open(port) and not threads()", timeout=10)


def test_a_page_that_cannot_reach_the_kernel_shows_frames_and_says_so_only_if_asked(page, notebook):
    page.add_init_script(
        """
        delete globalThis.Worker
        const Real = WebSocket
        globalThis.WebSocket = class extends Real {
            constructor(url, ...rest) {
                if (/^ws:\\/\\/127\\.0\\.0\\.1:\\d+\\/(proxy\\/\\d+\\/)?$/.test(url)) throw new Error("this page may not")
                super(url, ...rest)
            }
        }
        """
    )
    opened = notebook(
        [
            "from tests.e2e.scene import RenderCanvas, make, np, pixels",
            "auto = make(size=(200, 150))\nauto",
            "asked = make(size=(200, 150), transport='websocket')\nasked",
        ]
    )
    opened.run_all()
    auto, asked = opened.canvas(0), opened.canvas(1)
    asked.view.get_by_text("No websocket to the kernel: this page may not").wait_for()
    for name, canvas in (("auto", auto), ("asked", asked)):
        canvas.wait_final()
        assert canvas.locator.get_attribute("data-rfb-road") == "comm"
        assert not harness.is_blank(canvas.screenshot())
        assert "over the comm (this page may not)" in opened.kernel.value(f"{name}.describe()")
    assert_shows(auto, opened.kernel, "pixels(auto)")  # the badge of the other covers its picture
    assert badge(auto) == ""
    assert "jupyter-server-proxy" in badge(asked)


def test_a_reloaded_page_comes_by_websocket_again_and_the_old_one_is_forgotten(show):
    opened, canvas = show("canvas = make(update_mode='continuous')", "canvas")
    wait_road(canvas, "websocket")
    opened.save()
    opened.reload()
    again = opened.canvas()
    wait_road(again, "websocket")
    again.wait_frame(after=again.frame + 3, timeout=10)
    assert opened.kernel.value(WEBSOCKETS) == 1
    assert opened.kernel.value("len(canvas._rfb_audiences)") == 1


def test_frames_as_text_over_the_comm_are_the_picture(show):
    """As in VS Code, by what its page says of itself."""
    opened, canvas = show("canvas = make(decoder='webgpu', transport='comm')", "canvas")
    opened.kernel.run(
        "sent, send = [], canvas.send\n"
        "def spy(message, buffers=None):\n"
        "    sent.append([message['type'], 'data' in message, buffers])\n"
        "    send(message, buffers)\n"
        "canvas.send = spy\n"
        "for known in canvas._rfb_roads._pages.values(): known.host = 'VS Code'"
    )
    shown = canvas.frame
    canvas.drag((0.3, 0.5), (0.7, 0.6))
    canvas.wait_final(after=shown)
    assert_shows(canvas, opened.kernel)
    frames = [message for message in opened.kernel.value("sent") if message[0] == "frame"]
    assert frames
    assert all(message == ["frame", True, None] for message in frames)
