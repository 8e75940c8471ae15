"""A program of jupyter_rfb on ours, in JupyterLab: what a person sees and does."""

from __future__ import annotations

import ctypes.util
import json

import numpy as np
import pytest

from tests.e2e import harness
from tests.e2e.test_canvas import EXACT, assert_shows

PROGRAM = """
import ipywidgets
import numpy as np
from rfb_gpu import RemoteFrameBuffer

class Program(RemoteFrameBuffer):
    blue, at = 0, (20, 20)

    def handle_event(self, event):
        if event["type"] == "resize":
            self.size = int(event["height"] * event["ratio"]), int(event["width"] * event["ratio"])
        elif event["type"] == "pointer_down":
            self.at = int(event["y"]), int(event["x"])
            self.request_draw()

    def get_frame(self):
        self.frame = np.zeros((*self.size, 3), np.uint8)
        self.frame[..., 0] = np.linspace(0, 255, self.size[1])
        self.frame[self.at[0] - 10 : self.at[0] + 10, self.at[1] - 10 : self.at[1] + 10] = 255, 255, self.blue
        return self.frame

widget = Program(css_width="200px", css_height="120px")
slider = ipywidgets.IntSlider(max=255)
def change(change):
    widget.blue = change["new"]
    widget.request_draw()
slider.observe(change, names="value")
ipywidgets.HBox([widget, slider])
"""


def test_a_program_of_jupyter_rfb(notebook):
    opened = notebook([PROGRAM, "other = Program(css_width='80px', css_height='60px')\nother.display()"])
    opened.run_cell(0)
    canvas = opened.canvas()
    canvas.wait_final()
    assert_shows(canvas, opened.kernel, "widget.frame", EXACT)

    shown = canvas.frame
    canvas.drag((0.6, 0.6), (0.6, 0.6))
    canvas.wait_final(after=shown)
    assert_shows(canvas, opened.kernel, "widget.frame", EXACT)
    assert opened.kernel.value("widget.at") == [72, 120]

    shown = canvas.frame
    opened.kernel.run("slider.value = 200")
    canvas.wait_final(after=shown)
    seen = canvas.screenshot()
    assert tuple(seen[72, 120]) == (255, 255, 200)
    assert opened.kernel.value("widget.get_stats()['confirmed_frames']") >= 3

    # display() puts the first picture into the notebook's file, where it stays.
    opened.run_cell(1)
    opened.scroll_to_cell(1)
    opened.canvas(1).wait_final()
    opened.save()
    saved = json.loads(opened.file.read_text(encoding="utf-8"))
    html = "".join(
        "".join(output.get("data", {}).get("text/html", "")) for output in saved["cells"][1]["outputs"]
    )
    assert "<img src='data:image/" in html
    assert "width:80" in html


# vispy's backend subclasses what it imports from jupyter_rfb, so its import is changed there, before vispy is imported.
VISPY = """
import os
os.environ["EGL_PLATFORM"] = "surfaceless"
import jupyter_rfb
import rfb_gpu
jupyter_rfb.RemoteFrameBuffer = rfb_gpu.RemoteFrameBuffer

import numpy as np
import vispy
vispy.use("jupyter_rfb", "gl2")
from vispy import scene

def make(width, height, colour):
    canvas = scene.SceneCanvas(size=(width, height), bgcolor="white")
    view = canvas.central_widget.add_view()
    view.camera = scene.PanZoomCamera(rect=(0, -1.2, 10, 2.4))
    x = np.linspace(0, 10, 200)
    scene.Line(np.column_stack([x, np.sin(x)]), color="red", width=3, parent=view.scene)
    markers = scene.Markers(parent=view.scene)
    markers.set_data(np.array([[5, 0]]), face_color=colour, edge_width=0, size=20)
    return canvas, view.camera, markers

canvas, camera, markers = make(320, 240, "blue")
canvas
"""


def middle_of_blue(canvas):
    """Where the blue marker is seen, (x, y) in pixels of the screen."""
    seen = canvas.screenshot().astype(int)
    rows, columns = np.nonzero((seen[..., 2] > 200) & (seen[..., :2].max(axis=-1) < 60))
    assert 200 < len(rows) < 400, "a disc of 20 pixels"
    return columns.mean(), rows.mean()


def test_a_scene_of_vispy(notebook):
    """Its own rendering into memory is the truth."""
    harness.require(ctypes.util.find_library("EGL"), "OpenGL by EGL")
    opened = notebook([VISPY, "other, _, _ = make(160, 120, 'green')\nother"])
    opened.run_cell(0)
    canvas, kernel = opened.canvas(), opened.kernel
    canvas.wait_final()
    assert kernel.value("isinstance(canvas.native, rfb_gpu.RemoteFrameBuffer)")
    assert_shows(canvas, kernel, "canvas.render()[..., :3]", EXACT)
    assert middle_of_blue(canvas) == pytest.approx((160, 120), abs=1)

    # What is dragged stays under the pointer. vispy takes no move within 10 ms of another, so the last one comes later.
    shown, mouse = canvas.frame, opened.page.mouse
    box = canvas.view.bounding_box()
    mouse.move(box["x"] + 160, box["y"] + 120)
    mouse.down()
    mouse.move(box["x"] + 230, box["y"] + 70, steps=5)
    opened.page.wait_for_timeout(300)
    mouse.move(box["x"] + 240, box["y"] + 60)
    mouse.up()
    canvas.wait_rest(after=shown)
    assert middle_of_blue(canvas) == pytest.approx((240, 60), abs=2)
    assert_shows(canvas, kernel, "canvas.render()[..., :3]", EXACT)

    # The pointer is over the marker still, and what is under the pointer stays while the wheel zooms.
    shown = canvas.frame
    mouse.wheel(0, -300)
    canvas.wait_rest(after=shown)
    assert kernel.value("camera.rect.width") < 9
    assert middle_of_blue(canvas) == pytest.approx((240, 60), abs=3)

    canvas.resize_by(40, 30)
    canvas.wait_size(360, 270)
    canvas.wait_rest()
    assert kernel.value("canvas.size") == [360, 270]
    assert_shows(canvas, kernel, "canvas.render()[..., :3]", EXACT)

    # Each scene has an OpenGL context of its own: one drawn after the other, and a timer of vispy's.
    opened.run_cell(1)
    opened.scroll_to_cell(1)
    second = opened.canvas(1)
    second.wait_final()
    assert_shows(second, kernel, "other.render()[..., :3]", EXACT)
    shown = second.frame
    kernel.run(
        "from vispy import app\ngreys = iter(np.linspace(0.9, 0.5, 5))\n"
        "def darken(event):\n    other.bgcolor = (next(greys),) * 3\n"
        "timer = app.Timer(0.1, darken, iterations=5, start=True)"
    )
    kernel.wait_for("not timer.running", timeout=10)
    second.wait_rest(after=shown)
    assert abs(int(second.screenshot()[5, 80, 0]) - 128) <= 1
    assert_shows(second, kernel, "other.render()[..., :3]", EXACT)

    # The widget goes, as jupyter_rfb's does; the other one stays.
    shown = second.frame
    kernel.run("canvas.close()\nother.bgcolor = 'white'")
    opened.page.wait_for_function("() => document.querySelectorAll('canvas.rfb-gpu-canvas').length === 1")
    second = opened.canvas(0)
    second.wait_rest(after=shown)
    assert_shows(second, kernel, "other.render()[..., :3]", EXACT)
