"""A program of jupyter_rfb on ours, in JupyterLab: what a person sees and does."""

from __future__ import annotations

import json

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
