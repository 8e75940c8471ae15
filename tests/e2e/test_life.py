"""From a canvas's first picture to its last: what a person sees when the kernel, the page or the output goes, and what is left."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import types

import numpy as np
import pytest
from PIL import Image

from tests.e2e import harness
from tests.e2e.harness import SCENE
from tests.e2e.test_canvas import assert_shows
from tests.e2e.widget_page import WidgetPage, as_file

ROUNDS = int(os.environ.get("RFB_GPU_RERUNS", 3))
"""How often a cell is run again; 50 take a minute."""

PANEL = "window.jupyterapp.shell.currentWidget"
LOST = "No answer from the kernel: it is busy, or gone (then run the cell again)."


def badge(canvas):
    return canvas.view.locator(".rfb-gpu-badge")


def wait_stopped(canvas, reason, timeout=20):
    """The last picture is there, dimmed, and says why."""
    badge(canvas).get_by_text(reason).wait_for(timeout=timeout * 1000)
    assert canvas.locator.evaluate("canvas => getComputedStyle(canvas).opacity") == "0.45"
    # Canvas.screenshot() looks for a colour, which is dimmed with the rest.
    picture = harness.to_picture(canvas.page.screenshot(clip=canvas.locator.bounding_box()))
    assert not harness.is_blank(picture[: len(picture) // 2])


def wait_live(canvas):
    badge(canvas).filter(has_not_text="the").wait_for(state="hidden")
    canvas._wait("canvas => getComputedStyle(canvas).opacity === '1'", 20)


# ---- in JupyterLab, in the page that tests share


def test_a_canvas_in_a_variable_comes_back(show):
    """Its output was cleared, and nothing but a variable keeps it."""
    opened, canvas = show("canvas = make()", "canvas")
    canvas.wait_final()
    draws = opened.kernel.value("canvas.draws")
    opened.set_cells(["canvas"])
    canvas.locator.wait_for(state="detached")
    opened.kernel.wait_for("not canvas._rfb_pages.hosts", 10)
    assert not opened.kernel.value("any(value is canvas for value in Out.values())")
    opened.run_cell(0)
    again = opened.canvas()
    again.wait_final()
    assert_shows(again, opened.kernel)
    assert opened.kernel.value("canvas.draws") <= draws + 1


def test_after_close_the_last_picture_stays_until_the_output_goes(show):
    opened, canvas = show("canvas = make()", "canvas")
    canvas.wait_final()
    opened.kernel.run("canvas.close()")
    wait_stopped(canvas, "This canvas is closed: run its cell or program again for a new one.")
    assert opened.kernel.value("canvas.comm is not None")
    opened.page.evaluate(f"() => {{ {PANEL}.content.widgets[1].model.sharedModel.setOutputs([]) }}")
    opened.kernel.wait_for("canvas.comm is None", 10)


def test_a_silent_kernel_is_told_as_soon_as_somebody_acts(show):
    opened, canvas = show("canvas = make()", "canvas")
    canvas.wait_final()
    opened.page.wait_for_timeout(1100)
    code = {"code": "import time; time.sleep(4)"}
    opened.page.evaluate(f"code => {{ {PANEL}.sessionContext.session.kernel.requestExecute(code) }}", code)
    canvas.drag((0.3, 0.5), (0.7, 0.6))
    wait_stopped(canvas, LOST, timeout=4)
    wait_live(canvas)
    canvas.wait_final()
    assert_shows(canvas, opened.kernel)


# ---- in a notebook of its own


def test_a_long_day(notebook, jupyterlab):
    settings = jupyterlab.settings / "@jupyter-widgets/jupyterlab-manager/plugin.jupyterlab-settings"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text('{"saveState": true}')
    opened = notebook(
        [
            SCENE,
            "canvas = make(title='A <cube>')\ncanvas",
            "canvas.snapshot()",
            "while True:\n    canvas.request_draw()\n    canvas.flush()",
        ]
    )
    settings.unlink()
    page = opened.page
    for cell in range(2):
        opened.run_cell(cell)
    opened.canvas().wait_final()
    opened.run_cell(2)

    # A view of the output in a panel of its own, and away with it.
    page.evaluate(f"() => {{ {PANEL}.content.activeCellIndex = 1 }}")
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:create-output-view')")
    page.wait_for_function("() => document.querySelectorAll('canvas.rfb-gpu-canvas').length === 2")
    assert_shows(opened.canvas(0), opened.kernel)
    assert_shows(opened.canvas(1), opened.kernel)
    page.evaluate(f"() => {PANEL}.close()")
    page.wait_for_function("() => document.querySelectorAll('canvas.rfb-gpu-canvas').length === 1")

    # What is saved: the picture for those without a kernel, and no program.
    page.evaluate(
        "() => { const { shell } = jupyterapp; shell.activateById([...shell.widgets('main')][0].id) }"
    )
    opened.save()
    page.wait_for_timeout(300)
    saved = json.loads(opened.file.read_text())
    state = json.dumps(saved["metadata"]["widgets"])
    assert "anywidget" in state
    assert len(state) < 4000
    (output,) = saved["cells"][2]["outputs"]
    assert output["metadata"]["image/png"] == {"width": 320, "height": 240, "alt": "A <cube>"}
    assert output["data"]["text/plain"] == ["A <cube>"]
    seen = np.asarray(Image.open(io.BytesIO(base64.b64decode(output["data"]["image/png"]))))
    np.testing.assert_array_equal(seen, opened.kernel.array("pixels(canvas)"))
    html = as_page(opened.file)
    assert f'src="data:image/png;base64,{output["data"]["image/png"].strip()}"' in html.replace("\n", "")

    # The notebook is closed and opened again; its kernel goes on.
    page.evaluate("() => window.jupyterapp.commands.execute('application:close-all')")
    page.wait_for_function("() => !document.querySelector('.rfb-gpu-view')")
    opened.kernel.wait_for("not canvas._rfb_pages.hosts", 10)
    page.evaluate(f"() => window.jupyterapp.commands.execute('docmanager:open', {{ path: '{opened.name}' }})")
    opened.canvas().wait_final()
    assert_shows(opened.canvas(), opened.kernel)
    opened.wait_idle()

    opened.run_cell(3, wait=False)
    page.wait_for_timeout(700)
    page.evaluate(f"() => {{ {PANEL}.sessionContext.session.kernel.interrupt() }}")
    opened.wait_idle()
    assert "KeyboardInterrupt" in opened.output_text(3)
    page.evaluate(f"() => {{ {PANEL}.content.widgets[3].model.sharedModel.setOutputs([]) }}")
    shown = opened.canvas().frame
    opened.scroll_to_cell(1)
    opened.canvas().drag((0.3, 0.5), (0.7, 0.6))
    opened.canvas().wait_final(after=shown)
    assert_shows(opened.canvas(), opened.kernel)

    page.evaluate(f"() => {{ {PANEL}.sessionContext.restartKernel() }}")
    wait_stopped(opened.canvas(), "The kernel was restarted: run the cell again.")
    opened.wait_idle()
    opened.kernel.close()
    opened._kernel = None
    for cell in range(2):
        opened.run_cell(cell)
    opened.canvas().wait_final()
    wait_live(opened.canvas())
    assert_shows(opened.canvas(), opened.kernel)

    page.evaluate(f"() => {{ {PANEL}.sessionContext.shutdown() }}")
    wait_stopped(opened.canvas(), "The kernel was shut down: start one and run the cell again.")


def as_page(file):
    """A notebook as nbconvert makes it into HTML."""
    from nbconvert import HTMLExporter

    return HTMLExporter().from_filename(str(file))[0]


# ---- in a page without a notebook


PICTURE = np.dstack(np.broadcast_arrays(*np.ogrid[:240, :320], 90)).astype(np.uint8)


@pytest.fixture(scope="module")
def widget(browsers):
    """A page with one view of 320 x 240 that shows a picture, for many tests."""
    page = WidgetPage(browsers(1.0), "webgpu")
    yield page
    page.close()


@pytest.fixture
def shown(widget):
    assert widget.show(as_file(PICTURE, "PNG"), 320, 240, codec="png"), widget.badge
    return widget


def events(page, *kinds):
    """What the page reported, since the last call, of these kinds of events."""
    page.page.wait_for_timeout(60)  # moves are throttled
    seen = [message["event"] for message in page.sent("event")]
    page.page.evaluate("() => { host.sent.length = 0 }")
    return [event for event in seen if event["type"] in kinds]


def wait_event(page, condition):
    """Waits for an event of which an expression in `event` is true, and gives the last such."""
    found = f"() => host.sent.map(({{ event }}) => event).findLast(event => event && {condition})"
    return page.page.wait_for_function(found).json_value()


def test_who_cannot_see_it_hears_the_title(shown):
    shown.set("_title", "Temperature, 3 May")
    for role in ("img", "application"):
        shown.page.get_by_role(role, name="Temperature, 3 May").wait_for()
    shown.set("_title", "")
    shown.page.get_by_role("img", name="canvas").wait_for()


def test_the_browsers_own_menu_saves_and_copies_the_picture(shown):
    """With Shift, as the right button is the program's. What the menu is for, and that the canvas then gives its picture."""
    canvas = shown.canvas()
    box = canvas.locator.bounding_box()
    canvas.locator.evaluate("() => { addEventListener('contextmenu', e => { window.menu = e }) }")
    for key in ([], ["Shift"]):
        canvas.view.click(button="right", modifiers=key, position={"x": 50, "y": 40})
        prevented = shown.page.evaluate("() => window.menu?.defaultPrevented ?? true")
        assert prevented is not bool(key)
    hit = "([x, y]) => document.elementFromPoint(x, y).toDataURL('image/png').split(',')[1]"
    png = shown.page.evaluate(hit, [box["x"] + 50, box["y"] + 40])
    np.testing.assert_array_equal(harness.to_picture(base64.b64decode(png)), PICTURE)


def test_it_is_printed(shown):
    shown.page.emulate_media(media="print")
    printed = shown.page.pdf()
    shown.page.emulate_media(media="screen")
    assert len(printed) > 10_000, "of a white page it has 1096 bytes"
    assert shown.page.locator("canvas").count() == 1


def test_a_drag_has_its_last_move_before_its_end(shown):
    box, mouse = shown.canvas().locator.bounding_box(), shown.page.mouse
    mouse.move(box["x"] + 50, box["y"] + 50)
    shown.page.wait_for_timeout(60)
    events(shown)
    mouse.down()
    mouse.move(box["x"] + 70, box["y"] + 60)
    shown.page.wait_for_timeout(60)
    mouse.move(box["x"] + 90, box["y"] + 70)
    mouse.up()  # at once, as when something is thrown
    seen = events(shown, "pointer_down", "pointer_move", "pointer_up")
    assert [seen[0]["type"], seen[-1]["type"]] == ["pointer_down", "pointer_up"]
    assert {event["type"] for event in seen[1:-1]} == {"pointer_move"}
    assert (seen[-2]["x"], seen[-2]["y"], seen[-2]["buttons"]) == (90, 70, [1])


def test_two_fingers_turn_the_wheel(shown):
    canvas = shown.canvas()
    box = canvas.locator.bounding_box()
    cdp = shown.page.context.new_cdp_session(shown.page)

    def touch(kind, *points):
        positions = [
            {"x": box["x"] + x, "y": box["y"] + y, "id": number} for number, (x, y) in enumerate(points)
        ]
        cdp.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": positions})

    events(shown)
    touch("touchStart", (100, 100))
    touch("touchStart", (100, 100), (140, 100))
    for apart in (50, 60, 70, 80):
        touch("touchMove", (120 - apart / 2, 100), (120 + apart / 2, 100))
    touch("touchEnd")
    seen = events(shown, "wheel", "pointer_down", "pointer_up", "pointer_move")
    buttons = [(event["type"], event["button"]) for event in seen if event["type"] != "wheel"]
    assert buttons == [("pointer_down", 1), ("pointer_up", 1)], "the first finger alone"
    assert sum(event["dy"] for event in seen if event["type"] == "wheel") == pytest.approx(-1000)
    touch("touchStart", (100, 100))
    touch("touchMove", (130, 110))
    shown.page.wait_for_timeout(60)
    touch("touchEnd")
    seen = events(shown, "wheel", "pointer_down", "pointer_up", "pointer_move")
    assert [(event["type"], event["button"]) for event in seen] == [
        ("pointer_down", 1),
        ("pointer_move", 1),
        ("pointer_up", 1),
    ]


def test_the_wheel_scrolls_the_page_until_the_canvas_has_focus_or_captures_it(shown):
    page = shown.page
    page.wait_for_timeout(300)  # after a press, the view takes the focus so late
    page.evaluate("() => { document.body.style.height = '3000px'; document.activeElement.blur() }")

    def turn():
        page.evaluate("() => scrollTo(0, 0)")
        events(shown)
        shown.canvas().view.hover(position={"x": 30, "y": 20})
        page.mouse.wheel(0, 100)
        page.wait_for_timeout(200)
        return page.evaluate("scrollY") > 0, [(e["dy"], e["x"], e["y"]) for e in events(shown, "wheel")]

    assert turn() == (True, [])
    shown.set("_capture_wheel", True)
    assert turn() == (False, [(100, 30, 20)])
    shown.set("_capture_wheel", False)
    shown.canvas().view.click(position={"x": 30, "y": 20})
    page.wait_for_timeout(300)
    assert turn() == (False, [(100, 30, 20)])
    page.evaluate("() => { document.body.style.height = ''; document.activeElement.blur(); scrollTo(0, 0) }")


def test_full_screen_and_back(shown):
    page = shown.page
    shown.canvas().view.click(position={"x": 30, "y": 20})
    page.wait_for_timeout(300)
    events(shown)
    page.keyboard.press("Alt+Enter")
    page.wait_for_function("() => document.fullscreenElement?.querySelector('.rfb-gpu-wrapper')")
    page.wait_for_timeout(200)
    (resize, *_) = events(shown, "resize")[-1:]
    assert [resize["width"], resize["height"]] == page.evaluate("[innerWidth, innerHeight]")
    page.keyboard.press("a")
    assert [event["key"] for event in events(shown, "key_down")] == ["a"], "keys come to it there as well"
    page.keyboard.press("Alt+Enter")
    page.wait_for_function("() => !document.fullscreenElement")
    page.wait_for_timeout(200)
    assert (events(shown, "resize")[-1]["width"], 320) == (320, 320)
    shown.set("_has_titlebar", True)
    page.locator(".rfb-gpu-full-screen-button").click()
    page.wait_for_function("() => document.fullscreenElement")
    page.evaluate("() => document.exitFullscreen()")
    shown.set("_has_titlebar", False)


def test_the_tab_key_comes_and_leaves(shown):
    page = shown.page
    shown.set("_has_titlebar", True)
    page.evaluate(
        """() => {
            for (const name of ['before', 'after']) {
                const button = document.createElement('button')
                button.id = name
                const element = document.querySelector('.renderview-wrapper').parentElement
                name === 'before' ? element.before(button) : element.after(button)
            }
        }"""
    )

    def press(*keys):
        events(shown)
        for key in keys:
            page.keyboard.press(key)
        return [(event["type"], event["key"]) for event in events(shown, "key_down", "key_up")]

    def has_focus(name):
        return page.evaluate("id => document.activeElement.id === id", name)

    page.focus("#before")
    assert press("Tab", "a") == [("key_down", "a"), ("key_up", "a")]
    page.wait_for_selector(".rfb-gpu-by-tab")
    assert press("Tab", "b") == [] and not has_focus("after"), "the title bar has a button"
    assert press("Tab") == [] and has_focus("after")
    assert press("Shift+Tab", "Shift+Tab", "c")[-2:] == [("key_down", "c"), ("key_up", "c")]
    assert press("Escape", "d") == [("key_down", "Escape"), ("key_up", "Escape")], "d is the page's"
    press("Shift+Tab")
    assert has_focus("before")
    page.get_by_role("button", name="Full screen").press("Enter")
    page.wait_for_function("() => document.fullscreenElement")
    page.evaluate("() => document.exitFullscreen()")
    page.evaluate("() => { for (const id of ['before', 'after']) document.getElementById(id).remove() }")
    shown.set("_has_titlebar", False)


def test_one_more_widget_costs_the_page_no_program(shown):
    """As anywidget does: it imports the text anew for each."""
    cdp = shown.page.context.new_cdp_session(shown.page)

    def import_copies(count):
        alike = shown.page.evaluate(
            """async count => {
                const { default: first } = await import('/widget.js')
                const text = await (await fetch('/widget.js')).text()
                for (let n = 0; n < count; n++) {
                    const url = URL.createObjectURL(new Blob([text], { type: 'text/javascript' }))
                    if ((await import(url)).default !== first) return false
                    URL.revokeObjectURL(url)
                }
                return true
            }""",
            count,
        )
        assert alike
        cdp.send("HeapProfiler.collectGarbage")
        return cdp.send("Runtime.getHeapUsage")["usedSize"]

    before = import_copies(1)
    assert import_copies(50) - before < 1e6, "of one copy, the bundle takes 0.3 MB"


def test_a_page_without_views_says_so_and_has_the_picture_when_there_is_one_again(browsers):
    page = WidgetPage(browsers(1.0), "browser")
    try:
        page.show(as_file(PICTURE, "PNG"), 320, 240, codec="png")
        page.page.evaluate("() => { host.views.pop()() ; host.addView() }")
        page.page.wait_for_timeout(800)
        assert page.sent("bye") == [], "the host only moved it"
        page.page.evaluate("() => host.views.pop()()")
        page.page.wait_for_function("() => host.sent.some(message => message.type === 'bye')")
        assert page.sent("bye")[0]["unseen"] is True
        hellos = len(page.sent("hello"))
        page.page.evaluate("() => host.addView()")
        page.page.locator(".rfb-gpu-view").wait_for()
        assert len(page.sent("hello")) == hellos + 1
        page.welcome()
        page.page.wait_for_timeout(1100)
        style = "view => { const style = getComputedStyle(view, '::before'); return [style.content, style.visibility] }"
        text, visibility = page.page.locator(".rfb-gpu-view").evaluate(style)
        assert "Waiting for the first picture" in text
        assert visibility == "visible"
        assert page.show(as_file(PICTURE, "PNG"), 320, 240, codec="png")
        np.testing.assert_array_equal(page.canvas().screenshot(), PICTURE)
    finally:
        page.close()


def test_who_gets_no_answer_asks_for_a_picture_until_there_is_one(browsers):
    """As where the way from the kernel broke, and took the answer and frames with it."""
    page = WidgetPage(browsers(1.0), "browser")
    with contextlib.closing(page):
        assert page.show(as_file(PICTURE, "PNG"), 320, 240, codec="png")
        page.page.wait_for_timeout(1100)
        view = page.canvas().view
        view.click(position={"x": 30, "y": 20})
        page.page.get_by_text(LOST).wait_for()
        assert [hello["epoch"] for hello in page.sent("hello")] == [1, 2]
        view.click(position={"x": 30, "y": 20})
        page.page.wait_for_timeout(2500)
        assert len(page.sent("hello")) == 2, "an answer is waited for"
        page.page.wait_for_function(
            "() => host.sent.findLast(message => message.type === 'hello').epoch === 3"
        )
        page.welcome()
        assert page.badge == ""
        page.page.wait_for_timeout(1100)
        view.click(position={"x": 30, "y": 20})
        assert page.sent("ping")[-1]["epoch"] == 3


@pytest.mark.parametrize(
    "message, line",
    [
        (
            {"type": "welcome", "version": 2},
            "This page speaks version 1, the kernel version 2: reload the page.",
        ),
        (
            {"type": "error", "code": "version", "text": "restart the kernel and reload the page"},
            "restart the kernel and reload the page",
        ),
        ({"type": "error", "code": "draw", "text": "Draw function failed: X"}, "Draw function failed: X"),
    ],
)
def test_errors_are_one_line_on_the_canvas(shown, message, line):
    shown.deliver({"view": shown.view, "epoch": shown.sent("ack")[-1]["epoch"], **message})
    assert shown.badge == line
    shown.deliver({"type": "error", "code": message.get("code", "version"), "text": ""})
    assert shown.badge == ""


def test_zoomed_while_it_is_open(playwright, tmp_path):
    """The browser's zoom changes the device pixels of a CSS pixel, as another monitor does; what CDP emulates does not."""
    extension = tmp_path / "extension"
    extension.mkdir()
    manifest = {
        "manifest_version": 3,
        "name": "zoom",
        "version": "1",
        "background": {"service_worker": "none.js"},
    }
    (extension / "manifest.json").write_text(json.dumps(manifest))
    (extension / "none.js").touch()
    browser = playwright.chromium.launch_persistent_context(
        tmp_path / "profile",
        executable_path=harness.find_chromium(),
        no_viewport=True,
        ignore_default_args=["--disable-extensions"],
        args=[*harness.CHROMIUM_FLAGS, "--window-size=1400,900", f"--load-extension={extension}"],
    )
    with contextlib.closing(browser):
        page = WidgetPage(types.SimpleNamespace(new_context=lambda **_: browser), "browser")
        (worker,) = browser.service_workers or [browser.wait_for_event("serviceworker")]
        page.page.bring_to_front()
        # Playwright's screenshots end where the page would without zoom.
        width, height = 120, 80
        page.set("_css_width", f"{width}px")
        page.set("_css_height", f"{height}px")
        for ratio in (1.25, 1.5, 2, 3):
            worker.evaluate("ratio => chrome.tabs.setZoom(ratio)", ratio)
            resize = wait_event(page, f"event.type === 'resize' && event.ratio === {ratio}")
            size = [resize[key] for key in ("width", "height", "pwidth", "pheight")]
            assert size == [width, height, width * ratio, height * ratio]
            noise = np.random.default_rng(0).integers(0, 256, (size[3], size[2], 3), np.uint8)
            assert page.show(as_file(noise, "PNG"), size[2], size[3], codec="png")
            np.testing.assert_array_equal(page.canvas().screenshot(), noise)
            box = page.canvas().locator.bounding_box()
            for x, y in [(0.6, 0.6), (118.7, 40.2)]:
                events(page)
                page.page.mouse.move(box["x"] + x, box["y"] + y)
                move = wait_event(page, "event.type === 'pointer_move'")
                assert (move["x"], move["y"]) == pytest.approx((x, y), abs=0.5)


def test_a_display_with_many_pixels_gets_no_more_than_it_may(browsers):
    page = WidgetPage(browsers(2.0), "browser")
    try:
        whole = wait_event(page, "event.type === 'resize'")
        assert [whole[key] for key in ("pwidth", "pheight", "ratio")] == [640, 480, 2]
        page.set("_max_pixel_ratio", 1.5)
        capped = wait_event(page, "event.ratio === 1.5")
        assert [capped[key] for key in ("width", "pwidth", "pheight")] == [320, 480, 360]
        picture = np.array(Image.fromarray(PICTURE).resize((480, 360)))
        assert page.show(as_file(picture, "PNG"), 480, 360, codec="png")
        seen = page.canvas().screenshot()
        assert seen.shape == (480, 640, 3), "it fills its place"
        assert harness.psnr(seen, np.array(Image.fromarray(PICTURE).resize((640, 480)))) > 30
    finally:
        page.close()


# ---- and in the page that tests share again, last: it may take long


@pytest.mark.parametrize("kind", ["make", "make_frames"])
def test_running_again_and_again_leaves_nothing(show, kind):
    arguments = {"make": "decoder='webgpu'"}.get(kind, "")
    opened, _ = show(f"from tests.e2e.scene import {kind}", f"canvas = {kind}({arguments})", "canvas")
    page, kernel = opened.page, opened.kernel
    # Of bind groups, pygfx keeps the newest 128 in a cache of its own.
    kernel.run(
        "import wgpu\n"
        "from ipywidgets.widgets.widget import _instances\n"
        "def resident():\n    return int(open('/proc/self/statm').read().split()[1]) * 4096 / 1e6\n"
        "def objects():\n"
        "    counts = wgpu.diagnostics.object_counts.get_dict()\n"
        "    return {k: counts[k]['count'] for k in ('Buffer', 'Texture', 'Sampler')} | {'widgets': len(_instances)}"
    )
    cdp = page.context.new_cdp_session(page)

    def left():
        # The canvas of before goes half a second after its output.
        kernel.wait_for(
            "sum(hasattr(widget, '_show_stats') for widget in list(_instances.values())) == 1", 10
        )
        cdp.send("HeapProfiler.collectGarbage")
        heap = cdp.send("Runtime.getHeapUsage")["usedSize"] / 1e6
        views = page.evaluate(
            "document.querySelectorAll('#rendercanvas-focus-element-container input').length"
        )
        return kernel.value("objects()") | {"views": views}, kernel.value("resident()"), heap

    history = []
    for _ in range(ROUNDS + 1):
        opened.run_cell(1)
        opened.canvas().wait_final()
        history.append(left())
    for number, (_, resident, heap) in enumerate(history):
        if number % 10 == 0 or number == ROUNDS:
            print(f"after {number} rounds: RSS {resident:.1f} MB, heap {heap:.2f} MB")
    (before, *_), (after, *_) = history[0], history[-1]
    # A ring's second slot has its staging buffer once two frames overlap: a canvas may have one more than another.
    assert after.pop("Buffer") <= before.pop("Buffer") + 1
    # Not equal: what other tests left may be in the first.
    assert all(after[name] <= before[name] for name in after), (before, after)
    # Later: code is compiled in the first rounds. Of any widget, JupyterLab leaves some 40 kB a round.
    (_, *sizes_before), (_, *sizes_after) = history[len(history) // 3], history[-1]
    assert sizes_after[0] - sizes_before[0] < 8 + 0.05 * ROUNDS
    assert sizes_after[1] - sizes_before[1] < 1 + 0.08 * ROUNDS
