"""Programs of jupyter_rfb on our RemoteFrameBuffer, with a page that the test plays.

The programs are of the kinds that jupyter_rfb has as examples, in our own words: each draws with NumPy and knows nothing of us
but the import.
"""

from __future__ import annotations

import asyncio
import gc
import io
import weakref
from pathlib import Path

import ipywidgets
import jupyter_rfb
import numpy as np
import pytest
import wgpu
from ipywidgets.widgets.widget import _instances
from PIL import Image
from traitlets import TraitError

from rfb_gpu import RemoteFrameBuffer
from rfb_gpu.codecs import CpuEncoder
from rfb_gpu.diagnostics import BUNDLE, report
from tests.gpu.helpers import image_of, psnr, texture_of
from tests.gpu.helpers import picture as make_picture
from tests.gpu.test_alpha import premultiplied
from tests.gpu.test_alpha import scene as translucent
from tests.gpu.test_canvas import Page, picture

DOWN = {"type": "pointer_down", "button": 1, "buttons": [1], "modifiers": ["Shift"], "ntouches": 0}


class Gradient(RemoteFrameBuffer):
    """As large as the element: waits for the first resize."""

    def handle_event(self, event):
        if event["type"] == "resize":
            self.size = event

    def get_frame(self):
        width, height = (int(self.size[side] * self.size["ratio"]) for side in ("width", "height"))
        return np.linspace(0, 255, height * width).astype(np.uint8).reshape(height, width)


class Dragging(RemoteFrameBuffer):
    """A square that follows the pointer while it is held."""

    def __init__(self):
        super().__init__()
        self.held, self.at = False, (10, 10)

    def handle_event(self, event):
        kind = event["type"]
        if kind.startswith("pointer_"):
            self.held = kind == "pointer_down" or (kind == "pointer_move" and self.held)
            if self.held:
                self.at = int(event["x"]), int(event["y"])
            self.request_draw()

    def get_frame(self):
        array = np.zeros((90, 120, 3), np.uint8)
        x, y = self.at
        array[y : y + 8, x : x + 8] = [0, 255, 0]
        return array


class Drawing(RemoteFrameBuffer):
    """Few pixels, drawn large; each click sets one. Always the same array."""

    def __init__(self):
        super().__init__(css_width="120px", css_height="80px", resizable=False)
        self.array = np.full((10, 15, 4), 5, np.uint8)

    def handle_event(self, event):
        if event["type"] == "pointer_down":
            self.array[int(event["y"] / 8), int(event["x"] / 8)] = 255
            self.request_draw()

    def get_frame(self):
        return self.array


class Progress(RemoteFrameBuffer):
    """Each frame asks for the next, and the last one gives None."""

    done, total = 0, 0

    def run(self, total):
        self.done, self.total = 0, total
        self.request_draw()

    def get_frame(self):
        if self.done >= self.total:
            return None
        self.done += 1
        self.request_draw()
        array = np.zeros((8, 100), np.uint8)
        array[:, : 100 * self.done // self.total] = 255
        return array


class Slider(RemoteFrameBuffer):
    green = 200

    def get_frame(self):
        array = np.zeros((50, 50, 3), np.uint8)
        array[10:-10, 10:-10, 1] = self.green
        return array


class Frames(RemoteFrameBuffer):
    """Shows what the test gives, and keeps the events."""

    frame = None

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.events, self.got = [], 0

    def handle_event(self, event):
        self.events.append(event)

    def get_frame(self):
        self.got += 1
        return self.frame


def show(make, test, size=(120, 90), ack=True):
    """Makes a widget, opens a page that shows it, runs the test, and closes it."""

    async def main():
        widget = make()
        try:
            page = Page(widget, ack=ack)
            page.open(*size)
            await test(widget, page)
        finally:
            widget.close()
            await asyncio.sleep(0.02)

    asyncio.run(main())


async def shows(page, array):
    """Waits until the page has this picture without loss."""
    rgb = array[..., :3] if array.ndim == 3 else np.repeat(array[..., None], 3, -1)

    def is_there():
        return (
            bool(page.frames)
            and page.frames[-1][0]["final"]
            and np.array_equal(picture(page.frames[-1]), rgb)
        )

    await page.wait(is_there)


def badge(page):
    """What the page shows on the canvas."""
    return ([""] + [message["text"] for message in page.messages if message["type"] == "error"])[-1]


def test_it_is_a_widget_of_jupyter_rfb_with_our_page():
    async def test(widget, _page):
        assert isinstance(widget, jupyter_rfb.RemoteFrameBuffer)
        assert isinstance(widget, ipywidgets.DOMWidget)
        state = widget.get_state()
        assert state["_esm"] == BUNDLE.read_text(encoding="utf-8")

        looks = [
            state[f"_{name}"] for name in ("css_width", "css_height", "title", "has_titlebar", "resizable")
        ]
        assert looks == ["80%", "300px", "T", True, True]
        widget.css_height, widget.cursor, widget.resizable = "10em", "grab", False
        state = widget.get_state()
        assert (state["_css_height"], state["_cursor"], state["_resizable"]) == ("10em", "grab", False)
        assert widget.get_frame() is None

    show(lambda: RemoteFrameBuffer(css_width="80%", title="T", has_titlebar=True), test)


@pytest.mark.parametrize("channels", [0, 1, 3, 4])
def test_arrays_arrive_and_then_without_loss(channels):
    array = (
        make_picture("gradient", 120, 90)[..., :channels]
        if channels
        else make_picture("gradient", 120, 90)[..., 0]
    )

    def make():
        widget = Frames()
        widget.frame = array
        return widget

    async def test(widget, page):
        await page.wait_frames(1)
        message, _ = page.frames[0]
        assert (message["codec"], message["quality"], message["width"]) == ("jpeg", 80, 120)
        rgb = array if channels in (3, 4) else np.repeat(array.reshape(90, 120, 1), 3, -1)
        assert psnr(picture(page.frames[0]), rgb[..., :3]) > 33
        await shows(page, rgb)

    show(make, test)


@pytest.mark.parametrize("format", ["rgba8unorm", "bgra8unorm-srgb"])
def test_a_texture_never_leaves_the_gpu(device, monkeypatch, format):
    def forbidden(*_args, **_kwargs):
        raise AssertionError("pixels were downloaded")

    image = make_picture("text", 64, 48)

    async def test(widget, page):
        with monkeypatch.context() as patch:
            patch.setattr(CpuEncoder, "encode", forbidden)
            patch.setattr(CpuEncoder, "encode_array", forbidden)
            widget.frame = texture_of(device, image, format)
            widget.request_draw()
            await page.wait_frames(1)
            assert page.frames[0][0]["codec"] == "jpeg"
            assert psnr(picture(page.frames[0]), image[..., :3]) > 25
            await shows(page, image)
        # One kind of frame after the other.
        widget.frame = image[:10, :10]
        widget.request_draw()
        await shows(page, image[:10, :10])
        widget.frame = texture_of(device, image[::-1], format)
        widget.request_draw()
        await shows(page, image[::-1])
        np.testing.assert_array_equal(widget.snapshot().data[..., :3], image[::-1, :, :3])
        assert image_of(device, widget.frame).any(), "the texture stays the program's"

    show(lambda: Frames(encoder="gpu"), test)


@pytest.mark.parametrize("kind", ["array", "texture"])
def test_frames_with_alpha(device, kind):
    image = translucent(120, 90)

    def make():
        widget = Frames(alpha="premultiplied", encoder="gpu")
        widget.frame = image if kind == "array" else texture_of(device, image)
        return widget

    async def test(_widget, page):
        await page.wait(lambda: bool(page.frames) and page.frames[-1][0]["final"])
        (lossy, file), (final, png) = page.frames[0], page.frames[-1]
        assert 0 < lossy["alpha"] < len(file)
        assert final["alpha"] == 0
        shown = np.asarray(Image.open(io.BytesIO(bytes(png))))
        assert (premultiplied(shown) == image).all()

    show(make, test)


def test_what_cannot_be_shown_is_told_on_the_canvas_and_to_who_pushes_it(device):
    texture = device.create_texture(
        size=(8, 8, 1), format="rgba8unorm", usage=wgpu.TextureUsage.TEXTURE_BINDING
    )

    async def test(widget, page):
        for frame, words in (
            (np.zeros((4, 4)), "uint8 array of shape"),
            (np.zeros((4, 4, 2), np.uint8), "not uint8 of (4, 4, 2)"),
            (texture, "COPY_SRC"),
        ):
            with pytest.raises(ValueError, match=words.replace("(", r"\(").replace(")", r"\)")):
                widget.send_frame(frame)
            widget.frame = frame
            widget.request_draw()
            await page.wait(
                lambda words=words: words in [m for m in page.messages if m["type"] == "error"][-1:].__str__()
            )
        widget.frame = np.zeros((4, 4), np.uint8)
        widget.request_draw()
        await page.wait_frames(1)
        assert badge(page) == ""

    show(Frames, test)


def test_none_and_empty_arrays_send_nothing():
    async def test(widget, page):
        await page.wait(lambda: widget.got == 1)
        widget.frame = np.zeros((0, 5), np.uint8)
        widget.request_draw()
        await page.wait(lambda: widget.got == 2)
        await asyncio.sleep(0.05)
        assert not page.frames

    show(Frames, test)


@pytest.mark.parametrize(("compatibility", "has"), [(None, "both"), (1, "old"), (2, "new"), (3, "both")])
def test_events_come_in_both_vocabularies(compatibility, has):
    class Program(Frames):
        _event_compatibility = compatibility

    async def test(widget, page):
        page.resize(120, 90, 2)
        page.event(**DOWN, x=3.5, y=4.5)
        page.event(type="key_down", key="a", modifiers=[])
        page.event(type="pointer_move", x=float("nan"), y=1)
        await page.wait(lambda: len(widget.events) == 4)
        _, size, down, key = widget.events
        assert (size["width"], size["height"], size["pwidth"], size["pheight"]) == (60, 45, 120, 90)
        assert (down["x"], down["y"], down["button"]) == (3.5, 4.5, 1)
        assert (down["buttons"], down["modifiers"]) == ((1,), ("Shift",)), "tuples, as ever"
        assert key["key"] == "a"
        old, new = has in ("old", "both"), has in ("new", "both")
        for event, kind in ((size, "resize"), (down, "pointer_down"), (key, "key_down")):
            assert [event.get("event_type"), event.get("type")] == [kind * old or None, kind * new or None]
            assert ["time_stamp" in event, "timestamp" in event] == [old, new]
        assert [size.get("pixel_ratio"), size.get("ratio")] == [2 * old or None, 2 * new or None]

    show(Program, test)


def test_rendercanvas_own_subclass_of_jupyter_rfb_runs_on_ours(monkeypatch):
    """As an example of a program that has more base classes than the widget."""
    import rendercanvas.base
    import rendercanvas.jupyter

    source = Path(rendercanvas.jupyter.__file__).read_text(encoding="utf-8")
    ours = source.replace("from jupyter_rfb import", "from rfb_gpu import")
    assert ours != source
    module = type(rendercanvas)("rendercanvas.jupyter_on_ours")
    module.__package__ = "rendercanvas"
    exec(compile(ours, "jupyter_on_ours.py", "exec"), module.__dict__)
    events = []

    def make():
        canvas = module.RenderCanvas(title="T")
        assert isinstance(canvas, RemoteFrameBuffer)
        context = canvas.get_context("bitmap")
        canvas.request_draw(lambda: context.set_bitmap(np.full((9, 12, 4), 77, np.uint8)))
        canvas.add_event_handler(events.append, "pointer_down")
        return canvas

    async def test(canvas, page):
        page.event(**DOWN, x=1, y=2)
        await shows(page, np.full((9, 12, 4), 77, np.uint8))
        await page.wait(lambda: bool(events))
        assert (events[0]["event_type"], events[0]["x"]) == ("pointer_down", 1)
        assert canvas.get_physical_size() == (120, 90)

    show(make, test)


def test_draws_wait_for_the_page_and_many_requests_are_one():
    async def test(widget, page):
        widget.max_buffered_frames = 1
        for value in range(3):
            widget.frame = np.full((9, 12), 80 * value, np.uint8)
            for _ in range(5):
                widget.request_draw()
            await asyncio.sleep(0.05)
        # The first was drawn for the page that came, and one more may have been on its way.
        assert widget.got == 1
        await page.wait_frames(1)
        page.ack()
        await page.wait_frames(2)
        assert picture(page.frames[1]).max() == 160, "the newest"
        await asyncio.sleep(0.05)
        assert widget.got == 2
        page.send(type="visibility", visible=False)
        page.ack()
        widget.request_draw()
        await asyncio.sleep(0.05)
        assert widget.got == 2, "nobody looks"
        page.send(type="visibility", visible=True)
        await page.wait(lambda: widget.got == 3)

    def make():
        widget = Frames(max_buffered_frames=1, lossless_delay=None)
        widget.frame = np.full((9, 12), 7, np.uint8)
        return widget

    show(make, test, ack=False)


def test_a_full_size_frame_for_the_first_resize():
    async def test(widget, page):
        await shows(page, np.linspace(0, 255, 90 * 120).astype(np.uint8).reshape(90, 120))
        page.resize(60, 40)
        await shows(page, np.linspace(0, 255, 40 * 60).astype(np.uint8).reshape(40, 60))

    show(Gradient, test)


def test_a_drag():
    async def test(widget, page):
        await page.wait_final()
        page.event(**DOWN, x=20, y=20)
        for x in range(20, 60, 5):
            page.event(**{**DOWN, "type": "pointer_move"}, x=x, y=40)
        page.event(**{**DOWN, "type": "pointer_up"}, x=60, y=40)
        await page.wait(
            lambda: page.frames[-1][0]["final"] and picture(page.frames[-1])[44, 58, 1] == 255, timeout=5
        )
        widget.handle_event({"type": "pointer_down", "x": 100, "y": 70})  # a program's own
        await page.wait(lambda: page.frames[-1][0]["final"] and picture(page.frames[-1])[73, 103, 1] == 255)

    show(Dragging, test)


def test_one_array_that_the_program_changes():
    async def test(widget, page):
        await shows(page, np.full((10, 15, 3), 5, np.uint8))
        page.event(**DOWN, x=44, y=20)
        page.event(**DOWN, x=0, y=79)
        expected = np.full((10, 15, 3), 5, np.uint8)
        expected[2, 5] = expected[9, 0] = 255
        await shows(page, expected)
        assert page.frames[-1][0]["fit"] == "stretch"

    show(Drawing, test)


def test_frames_that_ask_for_the_next_and_their_statistics():
    async def test(widget, page):
        await page.wait(lambda: "frame" not in widget.get_stats())
        widget.reset_stats()
        assert set(widget.get_stats()) == set(jupyter_rfb.RemoteFrameBuffer().get_stats())
        assert widget.get_stats()["sent_frames"] == 0
        widget.run(20)
        await page.wait(lambda: widget.get_stats()["confirmed_frames"] == 20)
        stats = widget.get_stats()
        assert stats["sent_frames"] == 20
        assert stats["fps"] > 1
        assert 0 < stats["img_encoding"] < 1
        assert 0 <= stats["delivery"] <= stats["roundtrip"] < 1
        assert widget.done == 20

    show(Progress, test)


def test_a_slider_beside_it():
    def make():
        slider, widget = ipywidgets.IntSlider(min=50, max=255, value=200), Slider()

        def change(change):
            widget.green = change["new"]
            widget.request_draw()

        slider.observe(change, names="value")
        widget.slider, widget.box = slider, ipywidgets.HBox([widget, slider])
        return widget

    async def test(widget, page):
        await page.wait_final()
        widget.slider.value = 60
        await shows(page, widget.get_frame())
        assert widget.get_frame()[20, 20, 1] == 60

    show(make, test)


def test_frames_can_be_pushed():
    async def test(widget, page):
        arrays = [np.full((20, 20), value, np.uint8) for value in range(0, 200, 10)]
        for array in arrays:
            widget.send_frame(array)
        await shows(page, arrays[-1])
        assert len(page.frames) < len(arrays), "what was overtaken before it was encoded is left out"

    show(RemoteFrameBuffer, test)


def test_quality_and_codec():
    image = make_picture("noise", 120, 90)

    def make():
        widget = Frames(quality=20, lossless_delay=None)
        widget.frame = image
        return widget

    async def test(widget, page):
        await page.wait_frames(1)
        assert page.frames[0][0]["quality"] == 20
        widget.quality = 90
        widget.request_draw()
        await page.wait_frames(2)
        assert page.frames[1][0]["quality"] == 90
        assert len(page.frames[1][1]) > len(page.frames[0][1])
        widget.quality = 100
        widget.request_draw()
        await page.wait_frames(3)
        message, _ = page.frames[2]
        assert (message["codec"], message["final"]) == ("png", True)
        np.testing.assert_array_equal(picture(page.frames[2]), image[..., :3])

        with pytest.raises(TraitError, match="100"):
            Frames(quality=101)
        with pytest.raises(ValueError, match="codec must be one of"):
            Frames(codec="gif")

    show(make, test)


def test_snapshot_is_the_frame_as_the_program_gave_it():
    array = make_picture("flat", 30, 20)[..., :3]

    async def test(widget, page):
        assert widget.snapshot().data.shape == (1, 1, 3), "nothing to show yet"
        widget.frame = array
        widget.request_draw()
        await page.wait_frames(1)
        snapshot = widget.snapshot()
        np.testing.assert_array_equal(snapshot.data, array)
        assert (snapshot.width, snapshot.height) == (120, 90), "the element's size"
        assert "<img src='data:image/" in snapshot._repr_html_()

    show(Frames, test)


def test_print_and_errors_go_to_the_output_beside_it():
    class Program(Frames):
        def handle_event(self, event):
            if event["type"] == "pointer_down":
                return 1 / 0

    async def test(widget, page):
        out, err = [], []
        widget._output_context.append_stdout, widget._output_context.append_stderr = out.append, err.append
        widget.print("a", 1, sep="-")
        assert out == ["a-1\n"]
        page.event(**DOWN, x=1, y=2)
        await page.wait(lambda: bool(err))
        assert "ZeroDivisionError" in err[0]
        widget.get_frame = lambda: 1 / 0
        widget.request_draw()
        await page.wait(lambda: "ZeroDivisionError" in badge(page))

    show(Program, test)


@pytest.mark.parametrize("by", ["program", "page"])
def test_close(by):
    async def test(widget, page):
        widget.frame = np.zeros((9, 9), np.uint8)
        widget.request_draw()
        await page.wait_frames(1)
        if by == "program":
            widget.close()
        else:
            page.event(type="close")
        await page.wait(lambda: page.messages[-1]["type"] == "closed")
        assert [event["type"] for event in widget.events] == ["resize", "close"]
        assert widget.comm is None
        widget.request_draw()
        widget.send_frame(np.zeros((9, 9), np.uint8))
        await asyncio.sleep(0.05)
        assert widget.got <= 2
        assert widget.snapshot().data.shape == (1, 1, 3), "the frame was let go"

    show(Frames, test)


def test_doctor_knows_it_and_nothing_is_left_of_a_closed_one(device):
    async def main():
        widget = Frames(encoder="gpu")
        page = Page(widget)
        page.open(40, 30)
        widget.frame = texture_of(device, make_picture("flat", 40, 30))
        widget.request_draw()
        await page.wait_final()
        assert "40x30, GPU JPEG" in "".join(report()["canvases"])
        widget.close()
        left = weakref.ref(widget), weakref.ref(widget._rfb_canvas), weakref.ref(widget.frame)
        del widget, page
        await asyncio.sleep(0.3)  # the loop looks for closed canvases
        gc.collect()
        assert [reference() for reference in left] == [None, None, None]

    asyncio.run(main())


def test_one_that_no_page_shows_and_nobody_has_is_gone_with_its_widgets(device):
    async def one():
        widget = Frames(encoder="gpu")
        page = Page(widget)
        page.open(40, 30)
        widget.frame = texture_of(device, make_picture("flat", 40, 30))
        widget.request_draw()
        await page.wait_final()
        assert len(_instances) > before, "this would keep it"
        page.send(type="bye", unseen=True)
        await asyncio.sleep(0.01)
        return [weakref.ref(each) for each in (widget, widget._rfb_canvas, widget.frame)]

    gc.collect()
    before = len(_instances)
    left = asyncio.run(one())
    gc.collect()
    assert [reference() for reference in left] == [None, None, None]
    assert len(_instances) == before


def test_one_in_a_variable_can_be_shown_again(device):
    async def test(widget, page):
        await shows(page, widget.frame)
        page.send(type="bye", unseen=True)
        await asyncio.sleep(0.01)
        again = Page(widget, "b")
        again.open()
        await shows(again, widget.frame)

    def make():
        widget = Frames()
        widget.frame = make_picture("gradient", 120, 90)
        return widget

    show(make, test)
