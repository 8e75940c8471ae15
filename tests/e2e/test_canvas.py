"""What a person sees and does with the canvas in JupyterLab, in a real browser.

The truth is the texture that the kernel rendered, read back there; what is compared with it is a screenshot.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.e2e import harness
from tests.e2e.harness import SCENE


def show_apart(notebook, *lines: str):
    """As `show` does, in a notebook of its own."""
    opened = notebook([SCENE, "\n".join(lines)])
    opened.run_all()
    canvas = opened.canvas()
    canvas.wait_frame()
    return opened, canvas


EXACT = math.inf


def assert_shows(canvas, kernel, picture="pixels(canvas)", at_least=48.0):
    """The screen shows what the kernel rendered last, soon, and that is a picture; `at_least` in dB or `EXACT`."""
    for _ in range(20):
        truth = kernel.array(picture)
        seen = canvas.screenshot()
        if seen.shape == truth.shape and harness.psnr(seen, truth) >= at_least:
            break
        # On a slow machine a drag may have paused long enough for a sharp picture in its middle.
        canvas.page.wait_for_timeout(200)
    assert not harness.is_blank(truth)
    assert seen.shape == truth.shape
    assert harness.psnr(seen, truth) >= at_least


def assert_knot_is_blue(canvas):
    """The quickstart's knot, in its second colour."""
    seen = canvas.screenshot().reshape(-1, 3).astype(int)
    assert np.sum((seen[:, 2] > 150) & (seen[:, 0] < 100)) > 2000


@pytest.mark.parametrize("encoder, decoder", [("gpu", "webgpu"), ("cpu", "browser")])
def test_first_picture_is_right_and_then_sharp(show, encoder, decoder):
    opened, canvas = show(f"canvas = make(encoder={encoder!r}, decoder={decoder!r})", "canvas")
    canvas.wait_decoder(decoder)
    canvas.wait_final()
    assert canvas.size == (320, 240)
    assert_shows(canvas, opened.kernel, at_least=EXACT)
    assert len(np.unique(canvas.screenshot().reshape(-1, 3), axis=0)) > 100


@pytest.mark.parametrize("decoder, subsampling, at_least", [("webgpu", "444", 33), ("browser", "420", 30)])
def test_lossy_frames_are_the_picture_too(show, decoder, subsampling, at_least):
    """The JPEG alone, never followed by a lossless frame: from the GPU's encoder to our decoder and to the browser's."""
    opened, canvas = show(
        f"canvas = make(encoder='gpu', decoder={decoder!r}, subsampling={subsampling!r}, lossless_delay=None)",
        "canvas",
    )
    canvas.wait_decoder(decoder)
    canvas.wait_size(320, 240)
    opened.page.wait_for_timeout(500)
    assert not canvas.final
    assert_shows(canvas, opened.kernel, at_least=at_least)


def test_every_frame_without_loss_if_asked_for(show):
    opened, canvas = show("canvas = make(decoder='webgpu', codec='png')", "canvas")
    canvas.wait_frame()
    for start, end in [((0.3, 0.5), (0.7, 0.6)), ((0.7, 0.5), (0.4, 0.5))]:
        assert canvas.final
        shown = canvas.frame
        canvas.drag(start, end)
        canvas.wait_frame(after=shown)
    assert_shows(canvas, opened.kernel, at_least=EXACT)


def test_a_drag_turns_the_scene(show):
    opened, canvas = show("canvas = make(decoder='webgpu')", "canvas")
    canvas.wait_final()
    before = canvas.screenshot()
    shown = canvas.frame
    canvas.drag((0.3, 0.5), (0.7, 0.6))
    canvas.wait_final(after=shown)
    assert harness.psnr(canvas.screenshot(), before) < 30, "it turned"
    assert_shows(canvas, opened.kernel)


@pytest.mark.parametrize("decoder", ["webgpu", "browser"])
def test_dragging_the_corner_changes_the_rendered_size(show, decoder):
    opened, canvas = show(f"canvas = make(decoder={decoder!r})", "canvas")
    canvas.wait_final()
    canvas.resize_by(90, 61)
    canvas.wait_size(410, 301)
    canvas.wait_final()
    assert opened.kernel.value("canvas.get_physical_size()") == [410, 301]
    assert_shows(canvas, opened.kernel)


def test_a_reloaded_page_shows_the_picture(show):
    """With frames in flight that the old page will never acknowledge. How soon: see test_live.py."""
    opened, canvas = show("canvas = make(decoder='webgpu', update_mode='continuous')", "canvas")
    canvas.wait_frame(after=5)
    opened.save()
    opened.reload()
    again = opened.canvas()
    again.wait_frame(timeout=30)  # a software adapter compiles shaders for seconds
    last = again.frame
    again.wait_frame(after=last + 3, timeout=10)
    opened.kernel.run("canvas.set_update_mode('ondemand')")
    again.wait_final()
    assert_shows(again, opened.kernel)
    assert opened.kernel.value("canvas.draws") > 5


def test_two_outputs_of_one_canvas_show_the_same(shared_notebook):
    opened = shared_notebook([SCENE, "canvas = make(decoder='webgpu')\ncanvas", "canvas"])
    opened.run_all()
    first, second = opened.canvas(0), opened.canvas(1)
    first.wait_final()
    second.wait_final()
    assert_shows(first, opened.kernel)
    assert_shows(second, opened.kernel)


AWAY = ["print('\\n' * 60)"] * 8
"""Cells whose output puts others out of sight."""


def test_out_of_sight_but_in_the_page_a_canvas_rests_and_then_shows_the_picture(notebook):
    opened = notebook(
        [SCENE, "canvas = make(decoder='browser', update_mode='continuous')\ncanvas", *AWAY],
        windowing="defer",
    )
    opened.run_all()
    opened.scroll_to_cell(1)
    canvas = opened.canvas()
    canvas.wait_frame(after=3)
    opened.scroll_to_cell(9)
    opened.page.wait_for_timeout(700)
    draws = opened.kernel.value("canvas.draws")
    opened.page.wait_for_timeout(1000)
    assert opened.kernel.value("canvas.draws") == draws
    opened.kernel.run("canvas.set_update_mode('ondemand')")
    opened.scroll_to_cell(1)
    canvas.wait_final()
    assert_shows(canvas, opened.kernel)
    assert opened.kernel.value("canvas.draws") <= draws + 1


def test_stats_lie_over_the_picture_and_go_away(show):
    opened, canvas = show("canvas = make(update_mode='continuous')", "canvas")
    opened.kernel.run("canvas.show_stats = True")
    overlay = canvas.view.locator(".rfb-gpu-stats")
    overlay.get_by_text("shown/s").wait_for()
    overlay.get_by_text("round trip").wait_for()
    box, view = overlay.bounding_box(), canvas.view.bounding_box()
    assert view["x"] <= box["x"] and box["x"] + box["width"] <= view["x"] + view["width"]
    opened.kernel.run("canvas.show_stats = False")
    overlay.wait_for(state="detached")


def test_an_error_in_the_draw_function_shows_once_and_as_a_badge(show):
    opened, canvas = show("canvas = make()", "canvas")
    canvas.wait_final()
    before = canvas.screenshot()
    opened.kernel.run(
        "good = canvas._rfb_user_draw\ndef broken():\n    return 1 / 0\ncanvas.request_draw(broken)"
    )
    badge = canvas.view.locator(".rfb-gpu-badge")
    badge.get_by_text("ZeroDivisionError: division by zero").wait_for()
    for _ in range(3):
        opened.kernel.run("canvas.request_draw()")
        opened.page.wait_for_timeout(150)
    text = opened.output_text(1)
    assert text.count("ZeroDivisionError: division by zero") == 1, text
    assert "in broken" in text
    opened.kernel.run("canvas.request_draw(good)")
    badge.get_by_text("ZeroDivisionError").wait_for(state="detached")
    # The picture is the same, but it may come once more, in another quality, and then without loss.
    opened.page.wait_for_timeout(700)
    canvas.wait_final()
    np.testing.assert_array_equal(canvas.screenshot(), before)


def test_without_webgpu_the_browser_decodes(page, notebook):
    page.add_init_script("delete Navigator.prototype.gpu")
    opened, canvas = show_apart(notebook, "canvas = make(encoder='gpu', decoder='webgpu')", "canvas")
    canvas.wait_final()
    assert canvas.decoder == "browser"
    assert_shows(canvas, opened.kernel)
    assert "this browser has no WebGPU" in opened.kernel.value("canvas.describe()")


def test_a_software_adapter_in_the_page_leaves_decoding_to_the_browser(show):
    opened, canvas = show("canvas = make()", "canvas")
    canvas.wait_final()
    assert canvas.decoder == "browser"
    assert_shows(canvas, opened.kernel)


@pytest.mark.parametrize("decoder, device_scale_factor", [("webgpu", 1.5), ("browser", 2.0)])
def test_one_image_pixel_per_physical_pixel(notebook, decoder, device_scale_factor):
    opened, canvas = show_apart(notebook, f"canvas = make(size=(160, 120), decoder={decoder!r})", "canvas")
    width, height = int(160 * device_scale_factor), int(120 * device_scale_factor)
    canvas.wait_size(width, height)
    canvas.wait_final()
    assert opened.kernel.value("canvas.get_physical_size()") == [width, height]
    assert_shows(canvas, opened.kernel)


def test_a_file_that_our_decoder_refuses_is_shown_by_the_browsers(show):
    """A progressive JPEG, sent by a real kernel; the next frame of our own is decoded by our own decoder again."""
    opened, canvas = show("canvas = make(decoder='webgpu')", "canvas")
    canvas.wait_final()
    shown = canvas.frame
    opened.kernel.run(
        "import io\n"
        "from PIL import Image\n"
        "from tests.e2e.scene import send_file\n"
        "file = io.BytesIO()\n"
        "Image.fromarray(pixels(canvas)[:, ::-1]).save(file, 'JPEG', quality=95, subsampling=0, progressive=True)\n"
        "send_file(canvas, file.getvalue(), 320, 240)"
    )
    canvas.wait_frame(after=shown)
    mirrored = opened.kernel.array("pixels(canvas)[:, ::-1]")
    assert harness.psnr(canvas.screenshot(), mirrored) >= 35
    assert canvas.decoder == "webgpu"
    opened.kernel.run("canvas.request_draw()")
    canvas.wait_final(after=shown + 1)
    assert_shows(canvas, opened.kernel)


def test_a_lost_gpu_device_is_replaced_without_a_draw(notebook):
    opened, canvas = show_apart(notebook, "canvas = make(decoder='webgpu')", "canvas")
    canvas.wait_decoder("webgpu")  # on a busy machine the browser's decoder may show the first picture
    canvas.wait_final()
    draws = opened.kernel.value("canvas.draws")
    canvas.locator.evaluate(
        "canvas => { canvas.id = 'lost'; canvas.getContext('webgpu').getConfiguration().device.destroy() }"
    )
    opened.page.wait_for_function("() => !document.querySelector('#lost')")
    canvas.wait_final()
    assert canvas.decoder == "webgpu"
    assert_shows(canvas, opened.kernel)
    assert opened.kernel.value("canvas.draws") <= draws + 1


def test_numpy_frames_are_stretched_to_the_canvas_without_smoothing(show):
    opened, canvas = show(
        "canvas = RenderCanvas(size=(320, 240))",
        "context = canvas.get_context('bitmap')",
        "image = np.random.default_rng(0).integers(0, 256, (6, 8, 4), np.uint8)",
        "canvas.request_draw(lambda: context.set_bitmap(image))",
        "canvas",
    )
    canvas.wait_final()
    image = opened.kernel.array("image")
    np.testing.assert_array_equal(
        canvas.screenshot(), np.kron(image[..., :3], np.ones((40, 40, 1), np.uint8))
    )


def test_title_bar_and_close_button(show):
    opened, canvas = show("canvas = make(title='My scene')", "canvas.set_closable(True)", "canvas")
    canvas.wait_final()
    canvas.wrapper.get_by_text("My scene").wait_for()
    canvas.wrapper.locator(".renderview-close-button").click()
    opened.kernel.wait_for("canvas.get_closed()")


def test_fastplotlib(show):
    opened, canvas = show(
        "import fastplotlib as fpl",
        "canvas = RenderCanvas(size=(320, 240), decoder='webgpu')",
        "figure = fpl.Figure(canvas=canvas, size=(320, 240))",
        "figure[0, 0].add_line(np.column_stack([np.arange(50.0), np.sin(np.arange(50) / 5)]), colors='red')",
        "figure.show()",
    )
    # Figures draw all the time, but always the same.
    canvas.wait_final()
    assert_shows(canvas, opened.kernel)


def test_the_quickstart_notebook_runs_from_top_to_bottom(notebook):
    opened = notebook(harness.REPOSITORY / "notebooks" / "quickstart.ipynb")
    opened.run_all()
    opened.scroll_to_cell(1)
    canvas = opened.canvas()
    canvas.wait_final()
    assert_knot_is_blue(canvas)
    assert "adapter:" in opened.output_text(5)
