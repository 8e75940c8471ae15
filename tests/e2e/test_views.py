"""Two views of one canvas in a page, of different sizes: the one used last decides, both show the whole picture undistorted."""

from __future__ import annotations

import contextlib
import math
import re

import numpy as np
from PIL import Image

from tests.e2e import harness
from tests.e2e.harness import to_picture
from tests.e2e.test_canvas import assert_shows
from tests.e2e.widget_page import WidgetPage, as_file, closing

RED, BLUE = (255, 0, 0), (0, 0, 255)


def flag(width, height):
    """Red left of blue."""
    picture = np.full((height, width, 3), BLUE, np.uint8)
    picture[:, : width // 2] = RED
    return as_file(picture, "PNG")


def seen(page, index):
    """Where the flag stands in a view: the first column and row, the width of its red half, and its height."""
    view = page.page.locator(".rfb-gpu-view").nth(index)
    page.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    picture = to_picture(view.screenshot()).astype(int)
    red = (abs(picture - RED) < 60).all(axis=2)
    rows, columns = np.flatnonzero(red.any(axis=1)), np.flatnonzero(red.any(axis=0))
    return columns[0], rows[0], len(columns), len(rows)


def test_the_view_used_last_decides_the_size_and_both_show_the_whole_picture(browsers):
    with closing(WidgetPage(browsers(1.0), "browser", views=2)) as page:
        tab = page.page
        tab.wait_for_function("() => host.sent.some(({ event }) => event?.type === 'resize')")
        tab.evaluate("() => { document.querySelectorAll('.renderview-wrapper')[1].style.width = '160px' }")
        tab.wait_for_timeout(200)

        def sizes():
            events = [message["event"] for message in page.sent("event")]
            return [(event["pwidth"], event["pheight"]) for event in events if event["type"] == "resize"]

        assert sizes() == [(320, 240)], "the second view was not used yet"
        page.show(flag(320, 240), 320, 240, codec="png")
        assert seen(page, 0) == (0, 0, 160, 240)
        assert seen(page, 1) == (0, 60, 80, 120), "all of it, in the middle"

        tab.locator(".rfb-gpu-view").nth(1).hover()
        tab.wait_for_timeout(100)
        assert [message["event"]["type"] for message in page.sent("event")] == ["resize"]
        tab.mouse.down()
        tab.mouse.up()
        tab.wait_for_timeout(100)
        kinds = [message["event"]["type"] for message in page.sent("event")]
        assert kinds[1:3] == ["resize", "pointer_down"] and sizes()[-1] == (160, 240)
        assert seen(page, 1) == (0, 0, 160, 240), (
            "the frame of the old size keeps it, as while a view is resized"
        )
        page.show(flag(160, 240), 160, 240, codec="png")
        assert seen(page, 0) == (80, 0, 80, 240)
        assert seen(page, 1) == (0, 0, 80, 240)

        page.deliver({"type": "control", "view": "of another page"})
        page.show(flag(320, 240), 320, 240, codec="png")
        assert seen(page, 0) == (0, 0, 160, 240)
        assert seen(page, 1) == (0, 60, 80, 120), "nor does this page decide now"
        page.deliver({"type": "control", "view": page.view})
        assert seen(page, 1) == (0, 0, 160, 240)

        tab.evaluate("() => host.views[1]()")
        assert sizes()[-1] == (320, 240), "the view that is left decides"

        tab.evaluate("() => document.querySelector('.renderview-wrapper').parentElement.remove()")
        page.set("_css_width", "200px")
        tab.evaluate("() => host.addView()")
        tab.wait_for_function("() => host.sent.some(({ event }) => event?.pwidth === 200)")


def assert_shows_whole(watching, picture):
    """All of the picture, undistorted, in the middle of a view of another size. Looks coarsely: it stands between pixels."""
    (height, width, _), (rows, columns, _) = (seen := watching.screenshot()).shape, picture.shape
    factor = min(width / columns, height / rows)
    left, top = (width - columns * factor) / 2, (height - rows * factor) / 2
    small = round(columns / 3), round(rows / 3)
    inside = Image.fromarray(seen).resize(small, box=(left, top, width - left, height - top))
    assert harness.psnr(np.asarray(inside), np.asarray(Image.fromarray(picture).resize(small))) > 28
    outside = np.ones((height, width), bool)
    outside[math.floor(top) : math.ceil(height - top), math.floor(left) : math.ceil(width - left)] = False
    assert (seen[outside] > 250).all()


def test_two_views_and_a_second_tab_in_jupyterlab(show):
    opened, first = show("canvas = make(title='cube')", "canvas")
    page = opened.page
    page.evaluate("() => { jupyterapp.shell.currentWidget.content.activeCellIndex = 1 }")
    page.evaluate("() => jupyterapp.commands.execute('notebook:create-output-view')")
    second = opened.canvas(1)
    second.wait_final()
    second.resize_by(60, -90)
    second.wait_size(380, 150)
    second.wait_final()
    assert_shows(second, opened.kernel)
    assert_shows_whole(first, second.screenshot())

    first.drag((0.3, 0.5), (0.7, 0.6))
    first.wait_size(320, 240)
    first.wait_rest()
    assert_shows(first, opened.kernel)
    assert_shows_whole(second, first.screenshot())

    opened.save()
    with contextlib.closing(page.context.new_page()) as tab:
        tab.goto(opened.server.page(opened.name))
        third = harness.Canvas(tab, tab.locator("canvas.rfb-gpu-canvas"))
        third.wait_final()
        third.resize_by(-120, 40)
        third.wait_size(200, 280)
        third.wait_final()
        assert_shows(third, opened.kernel)
        picture = third.screenshot()
        page.bring_to_front()
        first.wait_size(200, 280)
        for watching in first, second:
            assert_shows_whole(watching, picture)
    first.wait_size(320, 240)
    page.evaluate("() => [...jupyterapp.shell.widgets('main')].at(-1).close()")


def test_a_canvas_of_a_notebook_in_a_tab_of_its_own(show, visit):
    opened, canvas = show("import rfb_gpu", "canvas = make()", "canvas")
    url = re.search(r"http\S+", opened.kernel.run("rfb_gpu.serve(canvas, port=0)")).group()
    page, tab = visit(url, (300, 200))
    tab.wait_final()
    button = page.locator("button", has_text="Take control")
    button.wait_for()
    button.evaluate("button => { button.style.visibility = 'hidden' }")  # it covers a corner
    assert_shows_whole(tab, canvas.screenshot())
    button.evaluate("button => { button.style.visibility = ''; button.click() }")
    tab.wait_size(300, 200)
    tab.wait_final()
    assert_shows(tab, opened.kernel)
    canvas.wait_size(300, 200)
    assert_shows_whole(canvas, tab.screenshot())

    canvas.drag((0.3, 0.5), (0.7, 0.6))
    canvas.wait_size(320, 240)
    canvas.wait_rest()
    tab.wait_size(320, 240)
    button.wait_for()
    assert_shows(canvas, opened.kernel)
    opened.kernel.run("canvas.close()")
    page.get_by_text("This canvas is closed").wait_for()
