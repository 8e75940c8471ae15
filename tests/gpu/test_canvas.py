"""The canvas with a page that the test plays: flow, errors, life, and what programs draw with."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import io
import itertools
import logging
import math
import threading
import time
import weakref

import numpy as np
import pygfx as gfx
import pytest
import rendercanvas.anywidget
import simplejpeg
from PIL import Image
from rendercanvas.base import BaseRenderCanvas

import rfb_gpu
from rfb_gpu import EncodedFrame, JpegEncoder, PngEncoder, RenderCanvas
from rfb_gpu.codecs import CpuEncoder, cpu
from rfb_gpu.snapshot import fit_png
from tests.gpu.helpers import psnr


class Page:
    """Plays a page: says hello, keeps frames, acknowledges on request."""

    def __init__(self, canvas, view="a", ack=True, link=None):
        self.canvas, self.view, self.acks = canvas, view, ack
        self.link = link  # bytes per second, and seconds each way; None: at once
        self.link_free = 0.0
        self.leads = {}
        self.shown = []  # when drawn, when here, message
        self.epoch = self.seq = 0
        self.outbox = None
        self.messages, self.frames = [], []
        self.lost = False
        self.refuse = -1  # the frame that is not shown
        self.listen()

    def listen(self):
        send = self.canvas.send

        def receive(message, buffers=None):
            send(message, buffers)
            self.receive(message, buffers)

        self.canvas.send = receive

    def receive(self, message, buffers):
        if self.lost or message.get("view", self.view) != self.view:
            return
        if self.link is not None and message["type"] in ("frame", "lead"):
            self.transmit(message, buffers)
            return
        self.messages.append(message)
        if message["type"] == "frame":
            (data,) = buffers
            assert memoryview(data).readonly, "it must not change: kernels send it later from another thread"
            # Kept as it came: memory that is given to a later frame too early would show here.
            self.frames.append((message, data))
            if self.acks:
                asyncio.get_running_loop().call_soon(self.ack)

    def transmit(self, message, buffers):
        """Over a link that keeps order."""
        rate, delay = self.link
        sent = time.perf_counter()
        size = len(buffers[0]) if buffers else 50
        self.link_free = max(self.link_free, sent) + size / rate

        def arrive():
            at = time.perf_counter()
            self.messages.append(message)
            frame = message["id"]
            if message["type"] == "lead":
                self.leads = {frame: 1000 * at}
                return
            self.frames.append((message, buffers[0]))
            self.shown.append((sent, at, message))
            arrivals = [[frame, 1000 * at, self.leads.get(frame)]]
            counts = {"dropped": 1} if frame == self.refuse else {"shown": 1}
            loop.call_later(delay, lambda: self.send(type="ack", frame=frame, arrivals=arrivals, **counts))

        loop = asyncio.get_running_loop()
        loop.call_later(self.link_free - sent + delay, arrive)

    def send(self, **fields):
        message = {"view": self.view, "epoch": self.epoch, "seq": self.seq, **fields}
        self.seq += 1
        if self.outbox is None:
            self.say(message)
        else:
            self.outbox.append(message)

    def say(self, content):
        self.canvas._handle_custom_msg(content, [])

    @contextlib.contextmanager
    def together(self):
        """What is said within goes as one message of the host, as from one task of a page."""
        self.outbox = []
        yield
        content, self.outbox = self.outbox, None
        self.say(content)

    def hello(self, **fields):
        self.epoch, self.seq = self.epoch + 1, 0
        self.send(**{"type": "hello", "version": 1, "dpr": 1.0, "capabilities": {}, **fields})

    def event(self, **event):
        self.send(type="event", event={"timestamp": 0.0, **event})

    def resize(self, width, height, ratio=1):
        size = {
            "width": width / ratio,
            "height": height / ratio,
            "pwidth": width,
            "pheight": height,
            "ratio": ratio,
        }
        self.event(type="resize", **size)

    def open(self, width=120, height=90):
        self.hello()
        with self.together():
            self.resize(width, height)
            self.send(type="visibility", visible=True)

    def ack(self):
        if self.frames:
            self.send(type="ack", frame=self.frames[-1][0]["id"], received=1, shown=1)

    def reload(self):
        """What the old page had is gone without a word; a new one comes."""
        self.lost = True
        return Page(self.canvas, self.view + "'", self.acks)

    async def wait(self, condition, timeout=30.0):
        give_up = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < give_up, f"got {[m['type'] for m in self.messages]}"
            await asyncio.sleep(0.005)

    async def wait_frames(self, count):
        await self.wait(lambda: len(self.frames) >= count)

    async def wait_final_part(self):
        await self.wait(
            lambda: bool(self.frames) and "part" in self.frames[-1][0] and self.frames[-1][0]["final"]
        )

    async def wait_final(self):
        await self.wait(lambda: bool(self.frames) and self.frames[-1][0]["final"])
        return picture(self.frames[-1])


def picture(frame):
    message, data = frame
    image = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    assert image.shape == (message["height"], message["width"], 3)
    return image


class Scene:
    """A cube on a gradient, which turns with ``angle``."""

    def __init__(self, canvas):
        self.renderer = gfx.WgpuRenderer(canvas, pixel_scale=1, ppaa="none")
        self.scene = gfx.Scene()
        self.cube = gfx.Mesh(gfx.box_geometry(1, 1, 1), gfx.MeshNormalMaterial())
        self.scene.add(gfx.Background.from_color("#eef", "#446"), self.cube)
        self.camera = gfx.PerspectiveCamera(50)
        self.camera.show_object(self.cube, view_dir=(-1, -1, -2))
        self.threads = []
        self.still = False
        self.draws = 0
        self.cost = 0.0
        canvas.request_draw(self.draw)

    def draw(self):
        self.draws += 1
        self.threads.append(threading.get_ident())
        time.sleep(self.cost)
        turns = 1 if self.still else self.draws
        self.cube.local.rotation = [0, math.sin(turns / 10), 0, math.cos(turns / 10)]
        self.renderer.render(self.scene, self.camera)


def texture_pixels(canvas):
    texture = canvas._canvas_context._texture
    width, height = texture.size[:2]
    data = texture._device.queue.read_texture(
        {"texture": texture}, {"bytes_per_row": width * 4}, (width, height, 1)
    )
    return np.frombuffer(data, np.uint8).reshape(height, width, 4)[..., :3]


@pytest.mark.parametrize("encoder", ["gpu", "cpu"])
def test_a_canvas_with_alpha_lets_the_page_show_through(run, encoder):
    async def test(canvas):
        scene = Scene(canvas)
        scene.scene.remove(scene.scene.children[0])  # the background
        page = Page(canvas)
        page.open()
        await page.wait_final()
        lossy, final = page.frames[-2:]
        assert lossy[0]["codec"] == "jpeg"
        assert 0 < lossy[0]["alpha"] < len(lossy[1])
        alpha = simplejpeg.decode_jpeg(bytes(lossy[1])[lossy[0]["alpha"] :], "GRAY")[..., 0]
        picture = np.asarray(Image.open(io.BytesIO(final[1])))
        assert final[0]["alpha"] == 0
        assert picture.shape == (90, 120, 4)
        assert (picture[0, 0, 3], picture[45, 60, 3]) == (0, 255)
        assert (alpha[0, 0], alpha[45, 60]) == (0, 255)
        # Where the cube is, it looks as ever.
        solid = picture[..., 3] == 255
        assert solid.mean() > 0.1
        assert (picture[solid][:, :3] == texture_pixels(canvas)[solid]).all()

    run(test, encoder=encoder, alpha="premultiplied")


def test_an_opaque_canvas_says_nothing_of_alpha(run):
    async def test(canvas):
        Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_final()
        assert not any("alpha" in message for message, _ in page.frames)

    run(test)
    with pytest.raises(ValueError, match="alpha must be one of 'opaque', 'premultiplied', not 'straight'"):
        RenderCanvas(alpha="straight")


@pytest.mark.parametrize("encoder", ["gpu", "cpu"])
def test_a_frame_arrives_and_then_the_same_without_loss(run, encoder):
    async def test(canvas):
        Scene(canvas)
        page = Page(canvas)
        page.open()
        final = await page.wait_final()
        np.testing.assert_array_equal(final, texture_pixels(canvas))
        lossy = page.frames[-2]
        assert lossy[0]["codec"] == "jpeg"
        assert not lossy[0]["final"]
        assert (lossy[0]["quality"], lossy[0]["subsampling"]) == (80, "444")
        assert psnr(picture(lossy), final) > 33
        assert len(np.unique(final)) > 20, "a picture, not a blank"
        await asyncio.sleep(0.5)
        assert len(page.frames) == 2, "an idle canvas sends nothing"

    run(test, encoder=encoder)


@pytest.mark.parametrize("encoder", ["gpu", "cpu"])
@pytest.mark.parametrize("codec", ["jpeg", "png"])
def test_frames_live_only_as_long_as_they_are_needed(run, encoder, codec):
    """Not until the garbage collector comes, and not for ever: a 4K canvas makes a gigabyte in ten seconds."""

    async def test(canvas):
        Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_frames(40)
        alive = [each for each in gc.get_objects() if isinstance(each, EncodedFrame)]
        assert len(alive) <= 6, "the last one, and those under way"

    gc.disable()
    try:
        run(test, encoder=encoder, codec=codec, update_mode="continuous", max_fps=200)
    finally:
        gc.enable()


def test_the_cpu_encodes_where_the_adapter_is_a_cpu(run):
    async def test(canvas):
        Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_frames(1)
        is_cpu = canvas._canvas_context.device.adapter.info["adapter_type"] == "CPU"
        assert canvas._canvas_context.encoder.name == ("simplejpeg" if is_cpu else "GPU JPEG")
        assert "adapter" in canvas.describe()

    run(test)


def test_nothing_is_drawn_or_sent_before_a_page_looks(run):
    async def test(canvas):
        scene = Scene(canvas)
        page = Page(canvas)
        await asyncio.sleep(0.3)
        page.hello()
        page.send(type="visibility", visible=True)
        await asyncio.sleep(0.2)
        assert scene.draws == 0, "no size yet"
        page.send(type="visibility", visible=False)
        page.resize(120, 90)
        await asyncio.sleep(0.3)
        assert scene.draws == 0
        assert not page.frames
        page.send(type="visibility", visible=True)
        await page.wait_frames(1)
        assert page.frames[0][0]["width"] == 120

    run(test)


@pytest.mark.parametrize("encoder", ["gpu", "cpu"])
def test_a_reload_with_frames_unacknowledged_shows_a_picture_at_once_and_goes_on(run, encoder):
    async def test(canvas):
        Scene(canvas)
        old = Page(canvas, ack=False)
        old.open()
        await old.wait_frames(2)
        await asyncio.sleep(0.2)
        assert len(old.frames) <= 3, "no more than the window without an ack"
        new = old.reload()
        new.acks = True
        began = time.monotonic()
        new.open()
        await new.wait_frames(1)
        assert time.monotonic() - began < 1
        assert picture(new.frames[0]).shape == (90, 120, 3)
        await new.wait_frames(4)
        assert time.monotonic() - began < 3, "the old page does not hold it up"

    run(test, update_mode="continuous", encoder=encoder)


def test_lost_acks_slow_a_canvas_down_but_never_stop_it(run):
    async def test(canvas):
        Scene(canvas)
        page = Page(canvas, ack=False)
        page.open()
        await page.wait_frames(3)
        began = time.monotonic()
        await page.wait_frames(4)
        assert time.monotonic() - began < 2

    run(test, update_mode="continuous")


def test_a_page_that_lost_the_last_frame_gets_it_again_without_a_draw(run):
    """As where the notebook's channel broke, and dropped what came meanwhile."""

    async def test(canvas):
        Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_final()
        page.lost, before, last = True, len(page.frames), page.frames[-1][0]["id"]
        canvas.request_draw()
        await page.wait(lambda: canvas._rfb_frame_id == last + 2)
        page.lost, draws = False, canvas._rfb_draws
        await page.wait_frames(before + 1)
        np.testing.assert_array_equal(picture(page.frames[-1]), texture_pixels(canvas))
        assert canvas._rfb_draws == draws
        await asyncio.sleep(2.5)
        assert len(page.frames) == before + 1, "it has answered"

    run(test)


def test_draws_stay_on_one_thread_whatever_thread_messages_come_on(run):
    async def test(canvas):
        scene = Scene(canvas)
        page = Page(canvas, ack=False)
        page.open()
        moves = []
        canvas.add_event_handler(lambda e: moves.append((threading.get_ident(), e["x"])), "pointer_move")
        stop = threading.Event()

        def other_thread():
            x = 0
            while not stop.is_set():
                time.sleep(0.02)
                page.ack()
                page.event(
                    type="pointer_move",
                    x=x,
                    y=1.0,
                    buttons=[],
                    modifiers=[],
                    button=0,
                    ntouches=0,
                    touches={},
                )
                x += 1

        thread = threading.Thread(target=other_thread)
        thread.start()
        await asyncio.sleep(1.5)
        stop.set()
        thread.join()
        await asyncio.sleep(0.2)
        assert scene.draws > 5
        assert set(scene.threads) == {threading.get_ident()}
        assert {ident for ident, _ in moves} == {threading.get_ident()}
        xs = [x for _, x in moves]
        assert xs == sorted(xs)

    run(test, update_mode="continuous")


def test_messages_out_of_order_are_put_in_order(run):
    async def test(canvas):
        page = Page(canvas)
        page.open()
        await asyncio.sleep(0.1)
        seen = []
        canvas.add_event_handler(lambda e: seen.append(e["event_type"]), "pointer_down", "pointer_up")
        common = {
            "x": 1.0,
            "y": 1.0,
            "button": 1,
            "buttons": [1],
            "modifiers": [],
            "ntouches": 0,
            "touches": {},
        }
        seq, page.seq = page.seq, page.seq + 1
        page.event(type="pointer_up", **common)
        page.seq = seq
        page.event(type="pointer_down", **common)
        await asyncio.sleep(0.3)
        assert seen == ["pointer_down", "pointer_up"]

    run(test)


def test_impossible_sizes_never_reach_the_gpu(run):
    async def test(canvas):
        Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_final()
        for width, height, ratio in [
            (0, 90, 1),
            (-5, 90, 1),
            (math.nan, 90, 1),
            (120, math.inf, 1),
            (120, 90, 0),
            (120, 90, math.nan),
            ("120", 90, 1),
            (None, None, None),
        ]:
            event = {"type": "resize", "pwidth": width, "pheight": height, "ratio": ratio, "timestamp": 0}
            page.send(type="event", event=event)
        await asyncio.sleep(0.3)
        assert canvas.get_physical_size() == (120, 90)
        page.resize(1e9, 8)
        await asyncio.sleep(0.1)
        limit = canvas._canvas_context.device.limits["max-texture-dimension-2d"]
        assert canvas.get_physical_size() == (limit, 8)
        page.resize(100, 80)
        await page.wait(lambda: page.frames[-1][0]["width"] == 100)

    run(test)


def test_errors_in_a_draw_function_show_once_and_drawing_goes_on(run, caplog):
    async def test(canvas):
        scene = Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_final()
        shown = len(page.frames)

        def broken():
            raise ZeroDivisionError("no such number")

        canvas.request_draw(broken)
        await page.wait(lambda: page.messages[-1]["type"] == "error")
        assert page.messages[-1] == {
            "type": "error",
            "code": "draw",
            "text": "Draw function failed: ZeroDivisionError: no such number",
        }
        for _ in range(3):
            canvas.request_draw()
            await asyncio.sleep(0.2)
        assert len(page.frames) == shown, "the last good picture stays"
        canvas.request_draw(scene.draw)
        await page.wait(lambda: len(page.frames) > shown)
        assert {"type": "error", "code": "draw", "text": ""} in page.messages
        # A page that comes later hears of errors that are still there, not of old ones.
        late = Page(canvas, "late")
        late.open()
        await late.wait_frames(1)
        assert not [m for m in late.messages if m["type"] == "error"]

    with caplog.at_level(logging.ERROR, logger="rfb_gpu"):
        run(test)
    records = [r for r in caplog.records if r.exc_info]
    assert len(records) == 1
    text = caplog.text
    assert "ZeroDivisionError: no such number" in text
    assert "in broken" in text
    assert "site-packages/rendercanvas" not in text, "the user's own frames, no others"


def test_a_page_of_another_version_is_told_the_cure(run):
    async def test(canvas):
        page = Page(canvas)
        page.hello(version=99, frontend="9.9")
        await asyncio.sleep(0.1)
        (message,) = page.messages
        assert message["code"] == "version"
        assert "restart the kernel and reload the page" in message["text"]

    run(test)


def test_malformed_messages_do_nothing(run):
    async def test(canvas):
        Scene(canvas)
        page = Page(canvas)
        for content in (
            None,
            3,
            "x",
            [],
            {},
            {"type": "hello"},
            {"type": "ack", "view": "a", "epoch": -1, "seq": 0},
        ):
            canvas._handle_custom_msg(content, [])
        page.open()
        await page.wait_final()

    run(test)


def test_last_frame_arrives_by_itself_when_drawing_stops(run):
    """The picture of the last of several draws, without another draw or event."""

    async def test(canvas):
        scene = Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_frames(3)
        canvas.set_update_mode("ondemand")
        await asyncio.sleep(1.0)
        draws = scene.draws
        assert psnr(picture(page.frames[-1]), texture_pixels(canvas)) > 33
        await asyncio.sleep(0.2)
        assert scene.draws == draws

    run(test, update_mode="continuous", lossless_delay=None, encoder="gpu")


def test_input_during_the_delay_puts_the_sharp_frame_off(run):
    async def test(canvas):
        Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_frames(1)
        for _ in range(6):
            canvas.request_draw()
            await asyncio.sleep(0.1)
        assert not any(message["final"] for message, _ in page.frames)
        final = await page.wait_final()
        np.testing.assert_array_equal(final, texture_pixels(canvas))

    run(test, lossless_delay=0.4)


def test_hidden_pages_stop_a_continuous_canvas(run):
    async def test(canvas):
        scene = Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_frames(3)
        page.send(type="visibility", visible=False)
        await asyncio.sleep(0.3)
        draws = scene.draws
        await asyncio.sleep(0.5)
        assert scene.draws == draws
        page.send(type="visibility", visible=True)
        await page.wait(lambda: scene.draws > draws)

    run(test, update_mode="continuous")


@pytest.mark.parametrize("encoder", ["gpu", "cpu"])
def test_a_picture_that_stays_the_same_is_sent_once_and_then_without_loss(run, encoder):
    """Also by a canvas that never stops drawing it."""

    async def test(canvas):
        scene = Scene(canvas)
        scene.still = True
        page = Page(canvas)
        page.open()
        final = await page.wait_final()
        np.testing.assert_array_equal(final, texture_pixels(canvas))
        sent, draws = len(page.messages), scene.draws
        await asyncio.sleep(1.0)
        assert scene.draws > draws + 3
        assert len(page.messages) == sent
        # A page that comes later gets the picture all the same, and a change is seen.
        second = Page(canvas, "b")
        second.open()
        await second.wait_final()
        scene.still = False
        await page.wait(lambda: not page.frames[-1][0]["final"])

    run(test, update_mode="continuous", encoder=encoder)


@pytest.mark.flaky(reruns=2)  # measures time
@pytest.mark.parametrize("encoder", ["gpu", "cpu"])
def test_on_a_thin_link_the_quality_gives_way_and_comes_back(run, encoder):
    async def test(canvas):
        Scene(canvas)
        page = Page(canvas, link=(20e3, 0.05))
        page.open(320, 240)
        await page.wait(lambda: bool(page.shown))
        await asyncio.sleep(3)
        thin = [entry for entry in page.shown if entry[0] > page.shown[0][0] + 1.5]
        assert len(thin) > 8
        assert thin[-1][2]["scale"] > 1
        assert thin[-1][2]["subsampling"] == "420"
        image = picture(page.frames[-1])
        assert image.shape[0] == -(-240 // thin[-1][2]["scale"])
        trips = sorted(shown - sent for sent, shown, _ in thin)
        assert trips[len(trips) // 2] < 0.05 + 0.15
        page.link = (20e6, 0.002)
        await page.wait(lambda: page.frames[-1][0]["quality"] == 80, 3)
        message = page.frames[-1][0]
        assert (message["scale"], message["subsampling"], message["width"]) == (1, "444", 320)

    run(test, update_mode="continuous", encoder=encoder, max_fps=60)


def test_numpy_frames_follow_the_link_too(run):
    async def test(canvas):
        context = canvas.get_context("bitmap")
        noise = np.random.default_rng(1).integers(0, 255, (90, 120, 4), np.uint8)
        canvas.request_draw(lambda: context.set_bitmap(np.roll(noise, len(page.frames), 0)))
        page = Page(canvas, link=(20e3, 0.02))
        page.open()
        await page.wait(lambda: bool(page.frames) and page.frames[-1][0]["scale"] > 1)
        assert picture(page.frames[-1]).shape[1] in (60, 30)

    run(test, update_mode="continuous")


def test_a_fixed_quality_stays(run):
    async def test(canvas):
        Scene(canvas)
        page = Page(canvas, link=(20e3, 0.02))
        page.open()
        await page.wait(lambda: len(page.frames) >= 8)
        settings = {(m["quality"], m["subsampling"], m["scale"]) for m, _ in page.frames}
        assert settings == {(70, "422", 1)}

    run(test, update_mode="continuous", quality=70, subsampling="422")


THIN = 40e3
"""Bytes per second: a lossless picture of these tests takes more than a second."""


def noise(scene):
    """Something that takes long without loss."""
    values = np.random.default_rng(1).integers(0, 64, (150, 200, 3), np.uint8)
    image = gfx.Image(gfx.Geometry(grid=gfx.Texture(values, dim=2)), gfx.ImageBasicMaterial(clim=(0, 255)))
    scene.scene.add(image)
    scene.camera.show_object(image)


def assembled(page):
    """The last full frame with the parts that came after it, which must build on each other; and how many."""
    full = max(i for i, (message, _) in enumerate(page.frames) if "part" not in message)
    image, parts = np.array(picture(page.frames[full])), page.frames[full + 1 :]
    for index, (message, data) in enumerate(parts):
        part = message["part"]
        assert (part["base"], part["index"]) == (page.frames[full][0]["id"], index)
        rows = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        image[part["y"] : part["y"] + part["rows"]] = rows
        assert message["final"] == (message is page.frames[-1][0] and index == len(parts) - 1)
    return image, len(parts)


@pytest.mark.parametrize("encoder", ["gpu", "cpu"])
def test_over_a_thin_link_the_picture_sharpens_in_stripes_behind_a_better_lossy_one(run, encoder):
    async def test(canvas):
        noise(Scene(canvas))
        page = Page(canvas, link=(THIN, 0.02))
        page.open(200, 150)
        page.event(
            type="pointer_move", x=10, y=140, buttons=[], modifiers=[], button=0, ntouches=0, touches={}
        )
        canvas.set_update_mode("continuous")
        await page.wait(lambda: bool(page.frames) and page.frames[-1][0]["scale"] > 1)
        canvas.set_update_mode("ondemand")
        await page.wait_final_part()
        image, count = assembled(page)
        assert count > 3
        base = page.frames[-count - 1][0]
        assert (base["quality"], base["scale"]) == (80, 1)
        first = page.frames[-count][0]["part"]
        assert first["y"] <= 140 < first["y"] + first["rows"], "where the pointer is"
        np.testing.assert_array_equal(image, texture_pixels(canvas))
        assert max(len(data) for _, data in page.frames[-count:]) < 0.4 * THIN

    run(test, encoder=encoder)


@pytest.mark.flaky(reruns=2)  # measures time
def test_input_does_not_wait_for_more_than_a_stripe(run):
    async def test(canvas):
        scene = Scene(canvas)
        noise(scene)
        page = Page(canvas, link=(THIN, 0.02))
        page.open(200, 150)
        await page.wait(lambda: any("part" in message for message, _ in page.frames))
        draws, began = scene.draws, time.perf_counter()
        seen = len(page.frames)
        scene.cube.local.position = (9, 9, 0)
        canvas.request_draw()
        await page.wait(lambda: any("part" not in message for message, _ in page.frames[seen:]))
        waited = time.perf_counter() - began
        newer = next(i for i in range(seen, len(page.frames)) if "part" not in page.frames[i][0])
        assert scene.draws > draws
        # What is under way, the frame itself, and this machine.
        own = (len(page.frames[newer][1]) + sum(len(data) for _, data in page.frames[seen:newer])) / THIN
        assert newer - seen <= 2
        assert waited < own + 0.6
        await page.wait_final_part()
        np.testing.assert_array_equal(assembled(page)[0], texture_pixels(canvas))

    run(test, quality=30)


def bars(scene):
    """A plot: flat colours and edges, of which a PNG is smaller than a JPEG."""
    scene.scene.clear()
    scene.scene.add(gfx.Background.from_color("#fff"))
    for i in range(40):
        bar = gfx.Mesh(
            gfx.plane_geometry(4, 20 + 7 * i % 90), gfx.MeshBasicMaterial(color=(0.1, 0.2, 0.5 + i / 99))
        )
        bar.local.x = 10 * i - 200
        scene.scene.add(bar)
    scene.camera = gfx.OrthographicCamera(400, 300)
    scene.cube = gfx.Group()

    def draw():
        scene.draws += 1
        scene.camera.local.x = 0.0 if scene.still else scene.draws % 50
        scene.renderer.render(scene.scene, scene.camera)

    return draw


@pytest.mark.parametrize("codec, link", [("auto", THIN), ("jpeg", THIN), ("auto", 400 * THIN)])
def test_plots_move_without_loss_where_the_link_is_slow(run, codec, link):
    async def test(canvas):
        scene = Scene(canvas)
        scene.still = True
        canvas.request_draw(bars(scene))
        page = Page(canvas, link=(link, 0.01))
        page.open(400, 300)
        await page.wait_final()
        jpeg, png = page.frames[0], page.frames[-1]
        assert len(png[1]) < 0.8 * len(jpeg[1])
        scene.still = False
        seen = len(page.frames)
        canvas.set_update_mode("continuous")
        await page.wait_frames(seen + 12)
        canvas.set_update_mode("manual")
        codecs = {message["codec"] for message, _ in page.frames[seen + 4 : seen + 12]}
        if codec == "auto" and link == THIN:
            assert codecs == {"png"}
            while canvas._rfb_draw_requested or canvas._rfb_encoding:
                await asyncio.sleep(0.05)
            sent = canvas._rfb_frame_id
            await page.wait(lambda: page.frames[-1][0]["id"] == sent)
            await asyncio.sleep(0.6)
            assert canvas._rfb_frame_id == sent, "it is sharp already"
            assert page.frames[-1][0]["final"]
            np.testing.assert_array_equal(picture(page.frames[-1]), texture_pixels(canvas))
        else:
            assert codecs == {"jpeg"}
            await page.wait_final()

    run(test, codec=codec, encoder="gpu")


@pytest.mark.parametrize("what", ["refused", "another page"])
def test_stripes_begin_again(run, what):
    async def test(canvas):
        noise(Scene(canvas))
        page = Page(canvas, link=(THIN, 0.02))
        page.open(200, 150)
        await page.wait(lambda: sum("part" in message for message, _ in page.frames) == 2)
        if what == "refused":
            page.refuse = page.frames[-1][0]["id"] + 1
        else:
            other = Page(canvas, "b", link=(THIN, 0.02))
            other.open(200, 150)
        count = len(page.frames)
        await page.wait(lambda: any("part" not in message for message, _ in page.frames[count:]))
        await page.wait_final_part()
        for each in [page] if what == "refused" else [page, other]:
            np.testing.assert_array_equal(assembled(each)[0], texture_pixels(canvas))

    run(test)


def test_numpy_frames_sharpen_in_stripes_too(run):
    async def test(canvas):
        context = canvas.get_context("bitmap")
        array = np.random.default_rng(2).integers(0, 64, (150, 200, 4), np.uint8)
        canvas.request_draw(lambda: context.set_bitmap(array))
        page = Page(canvas, link=(THIN, 0.02))
        page.open(200, 150)
        await page.wait_final_part()
        image, count = assembled(page)
        assert count > 3
        np.testing.assert_array_equal(image, array[..., :3])

    run(test)


def test_a_slow_draw_never_makes_pointer_moves_queue_up(run):
    """Many moves while draws take long: the last position is what is seen two draws later."""

    async def test(canvas):
        scene = Scene(canvas)
        scene.cost = 0.1
        page = Page(canvas)
        page.open()
        await page.wait_frames(1)
        seen = []
        canvas.add_event_handler(
            lambda e: (seen.append((scene.draws, e["x"])), canvas.request_draw()), "pointer_move"
        )
        for x in range(200):
            page.event(
                type="pointer_move",
                x=float(x),
                y=1.0,
                buttons=[1],
                modifiers=[],
                button=1,
                ntouches=0,
                touches={},
            )
            await asyncio.sleep(0.002)
        draws = scene.draws
        await page.wait(lambda: seen and seen[-1][1] == 199.0)
        assert seen[-1][0] <= draws + 2
        assert len(seen) < 50, "moves are merged"

    run(test)


def test_draws_have_the_rhythm_of_the_pages_turns(run):
    """A page that tells of turns of 150 ms is not drawn for more often, and what a draw takes belongs to a frame's way."""

    async def test(canvas):
        scene = Scene(canvas)
        scene.cost = 0.03
        page = Page(canvas)

        def ack():
            page.send(type="ack", frame=page.frames[-1][0]["id"], received=1, shown=1, waits=[4], turns=[150])

        page.ack = ack
        page.open()
        await page.wait_frames(8)
        draws, began = scene.draws, time.perf_counter()
        await page.wait_frames(len(page.frames) + 8)
        assert scene.draws - draws <= (time.perf_counter() - began) / 0.15 + 2
        assert canvas._rfb_audiences.of("a").views._views["a"].window._trip[1] >= scene.cost

    run(test, update_mode="continuous", max_fps=1000, vsync=False)


def test_numpy_frames(run):
    """As users of jupyter_rfb have them: the bitmap context, any size, gray or RGBA."""

    async def test(canvas):
        context = canvas.get_context("bitmap")
        page = Page(canvas)
        rng = np.random.default_rng(1)
        image = np.kron(rng.integers(0, 256, (6, 8, 4), np.uint8), np.ones((10, 10, 1), np.uint8))
        image[..., 3] = 255
        canvas.request_draw(lambda: context.set_bitmap(image))
        page.open()
        final = await page.wait_final()
        np.testing.assert_array_equal(final, image[..., :3])
        assert page.frames[-1][0]["fit"] == "stretch"
        gray = np.arange(64, dtype=np.uint8).reshape(8, 8)
        canvas.request_draw(lambda: context.set_bitmap(gray))
        await page.wait(lambda: page.frames[-1][0]["width"] == 8 and page.frames[-1][0]["final"])
        np.testing.assert_array_equal(picture(page.frames[-1])[..., 0], gray)

    run(test)


def test_an_array_that_is_reused_does_not_change_what_was_sent(run):
    async def test(canvas):
        context = canvas.get_context("bitmap")
        page = Page(canvas)
        image = np.full((60, 80, 4), 10, np.uint8)
        canvas.request_draw(lambda: context.set_bitmap(image))
        page.open()
        await page.wait_frames(1)
        image[:] = 200
        final = await page.wait_final()
        assert np.all(final == 10)

    run(test)


def test_plain_wgpu(run, device):
    async def test(canvas):
        context = canvas.get_context("wgpu")
        assert canvas.get_wgpu_context() is context
        preferred = context.get_preferred_format(device.adapter)
        assert preferred == "rgba8unorm-srgb", "pygfx bends colours itself with any other"
        context.configure(device=device, format=preferred)

        def draw():
            encoder = device.create_command_encoder()
            view = context.get_current_texture().create_view()
            attachment = {
                "view": view,
                "clear_value": (1.0, 0.5, 0, 1),
                "load_op": "clear",
                "store_op": "store",
            }
            encoder.begin_render_pass(color_attachments=[attachment]).end()
            device.queue.submit([encoder.finish()])

        canvas.request_draw(draw)
        page = Page(canvas)
        page.open()
        final = await page.wait_final()
        assert np.all(final == [255, 188, 0]), "0.5 linear is 188 in sRGB"

    run(test, encoder="gpu")


def test_fastplotlib(monkeypatch):
    # It looks for a window system when it is imported outside of a notebook.
    monkeypatch.setenv("RENDERCANVAS_FORCE_OFFSCREEN", "1")
    import fastplotlib as fpl

    async def main():
        canvas = RenderCanvas(size=(300, 200))
        figure = fpl.Figure(canvas=canvas, size=(300, 200))
        figure[0, 0].add_line(
            np.column_stack([np.arange(50), np.sin(np.arange(50) / 5)]), colors="red", thickness=3
        )
        assert figure.show() is canvas
        page = Page(canvas)
        page.open(300, 200)
        await page.wait(lambda: page.frames and picture(page.frames[-1]).max() > 150, timeout=60)
        image = picture(page.frames[-1])
        red = (image[..., 0] > 150) & (image[..., 1] < 100)
        assert red.sum() > 50, "the line is there"
        canvas.close()
        await asyncio.sleep(0.05)

    asyncio.run(main())


def test_force_draw_sends_without_the_loop(run):
    async def test(canvas):
        scene = Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_final()
        shown, draws = len(page.frames), scene.draws
        canvas.force_draw()  # no await until here
        assert scene.draws == draws + 1
        assert len(page.frames) == shown + 1
        assert psnr(picture(page.frames[-1]), texture_pixels(canvas)) > 33

    run(test, encoder="gpu")


def test_snapshot_leaves_the_size_of_a_live_canvas_alone(run, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, **options: shown.append((data, options)))

    async def test(canvas):
        Scene(canvas)
        canvas.set_title("a <cube>")
        canvas.snapshot(pixel_ratio=2)
        assert canvas.get_physical_size() == (240, 180)
        page = Page(canvas)
        page.open(200, 100)
        await page.wait_final()
        canvas.snapshot()
        assert canvas.get_physical_size() == (200, 100)

    run(test)
    for (data, options), size in zip(shown, [(240, 180), (200, 100)], strict=True):
        assert Image.open(io.BytesIO(base64.b64decode(data["image/png"]))).size == size
        assert options["raw"] is True
    assert shown[0][0]["text/plain"] == "a <cube>"
    assert shown[0][1]["metadata"]["image/png"] == {"width": 120, "height": 90, "alt": "a <cube>"}


def test_a_snapshot_larger_than_asked_for_has_fewer_pixels_of_the_same_picture():
    noise = np.random.default_rng(0).integers(0, 255, (60, 90, 3), np.uint8)
    picture = np.kron(noise, np.ones((5, 5, 1), np.uint8))
    picture[::2, ::2, 0] ^= 1  # or it would compress well
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG")
    png = file.getvalue()
    assert fit_png(png, len(png)) is png
    small = fit_png(png, 8000)
    assert 4000 < len(small) <= 8000
    image = Image.open(io.BytesIO(small))
    assert image.width / image.height == pytest.approx(1.5, abs=0.03)
    assert psnr(np.asarray(image.resize((450, 300))), picture) > 9, "noise of its own would have 7.7"


def test_events_reach_the_program_as_rendercanvas_has_them(run):
    async def test(canvas):
        page = Page(canvas)
        page.open()
        await asyncio.sleep(0.1)
        seen = []
        canvas.add_event_handler(seen.append, "*")
        page.event(type="key_down", key="a", modifiers=["Shift"])
        page.event(type="no_such_event", x=1)
        page.event(type="before_draw")
        page.resize(150, 75, 1.5)
        await asyncio.sleep(0.3)
        kinds = [e["event_type"] for e in seen]
        assert kinds == ["key_down", "resize"] or kinds == ["resize", "key_down"]
        key = next(e for e in seen if e["event_type"] == "key_down")
        assert key["modifiers"] == ("Shift",)
        assert "time_stamp" in key
        assert canvas.get_logical_size() == (100, 50)
        assert canvas.get_pixel_ratio() == 1.5

    run(test)


def test_the_close_button_closes(run):
    async def test(canvas):
        scene = Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_frames(1)
        page.event(type="close")
        await page.wait(canvas.get_closed)
        assert page.messages[-1] == {"type": "closed"}
        draws = scene.draws
        page.ack()
        page.resize(50, 50)
        await asyncio.sleep(0.3)
        assert scene.draws == draws
        canvas.close()

    run(test)


def test_a_closed_canvas_gives_its_gpu_memory_back(device):
    import wgpu

    def buffers():
        gc.collect()
        return wgpu.diagnostics.object_counts.get_dict()["Buffer"]["count"]

    async def one():
        canvas = RenderCanvas(size=(120, 90), encoder="gpu")
        scene = Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_final()
        canvas.close()
        del canvas, scene, page
        await asyncio.sleep(0.1)

    asyncio.run(one())
    before = buffers()
    for _ in range(4):
        asyncio.run(one())
    assert buffers() <= before


def test_stats_have_rendercanvas_names(run):
    async def test(canvas):
        Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_frames(8)
        stats = canvas.get_stats()
        assert set(stats) == {
            "sent_frames",
            "confirmed_frames",
            "roundtrip",
            "delivery",
            "img_encoding",
            "fps",
        }
        assert stats["sent_frames"] >= 8
        assert stats["confirmed_frames"] > 0
        assert 0 < stats["roundtrip"] < 5
        assert 0 <= stats["delivery"] <= stats["roundtrip"]
        assert stats["fps"] > 0
        canvas.reset_stats()
        assert canvas.get_stats()["sent_frames"] == 0

    run(test, update_mode="continuous")


def public(cls):
    return {name for name in dir(cls) if not name.startswith("_")}


def test_stats_tell_where_the_time_goes(run):
    async def test(canvas):
        empty = canvas.stats
        assert (empty.fps, empty.sent, empty.round_trip.count) == (0, 0, 0)
        assert "no page yet" in str(empty)
        scene = Scene(canvas)
        scene.cost = 0.02
        page = Page(canvas, link=(1e6, 0.02))
        page.open()
        canvas.show_stats = True
        await page.wait_frames(20)
        stats = canvas.stats
        assert stats.sent >= 19
        assert 5 < stats.fps < 60
        assert 20 <= stats.draw.median <= stats.draw.p95 <= stats.draw.largest
        assert stats.held.median < stats.draw.median, "the user's own draw is not in it"
        assert 40 <= stats.round_trip.median < 200
        assert 0 < stats.encode.median < 1000
        assert stats.kilobytes == pytest.approx(np.mean([len(d) for m, d in page.frames]) / 1000, rel=0.2)
        assert (stats.quality, stats.subsampling, stats.scale) == (80, "444", 1)
        assert stats.encoder == "GPU JPEG"
        lines = next(m["text"] for m in reversed(page.messages) if m["type"] == "stats")
        assert "q80 444" in lines
        scene.still = True
        await asyncio.sleep(1.0)
        assert canvas.stats.unchanged > 3
        canvas.reset_stats()
        assert canvas.stats.sent == 0

    run(test, update_mode="continuous", encoder="gpu", lossless_delay=None)


def test_drop_in_for_rendercanvas_anywidget():
    assert public(rendercanvas.anywidget.RenderCanvas) <= public(RenderCanvas)
    assert issubclass(RenderCanvas, BaseRenderCanvas)
    assert rfb_gpu.RenderCanvas is RenderCanvas
    assert rfb_gpu.loop is rendercanvas.anywidget.loop


def test_every_argument_of_the_base_class(run):
    async def test(canvas):
        canvas.set_title("$backend at $fps")
        canvas.set_cursor("pointer")
        canvas.set_css_width("50%")
        canvas.set_css_height("10em")
        canvas.set_resizable(False)
        canvas.set_minimizable(True)
        canvas.set_closable(True)
        canvas.set_logical_size(300, 200)
        canvas.set_update_mode("continuous", max_fps=10)
        state = canvas.get_state()
        assert state["_title"].startswith("RenderCanvas at")
        assert state["_css_width"] == "300.0px"
        assert state["_cursor"] == "pointer"
        assert not state["_resizable"]

    run(test, title="t", update_mode="manual", min_fps=1, max_fps=60, vsync=False, present_method="bitmap")


@pytest.mark.parametrize(
    "arguments, error, match",
    [
        ({"quality": 0}, ValueError, "from 1 to 100"),
        ({"subsampling": "411"}, ValueError, "'444', '422', '420', 'gray'"),
        ({"encoder": "fast"}, ValueError, "'auto', 'gpu', 'cpu'"),
        ({"decoder": "fast"}, ValueError, "'auto', 'webgpu', 'browser'"),
        ({"lossless_delay": -1}, ValueError, "lossless_delay"),
        ({"lossless_delay": "0.3"}, ValueError, "lossless_delay"),
        ({"max_buffered_frames": 0}, ValueError, "max_buffered_frames must be 1 or more"),
        ({"quality": (90, 30)}, ValueError, "least, best"),
        ({"quality": (30, 60, 90)}, ValueError, "least, best"),
        ({"quality": (0, 90)}, ValueError, "from 1 to 100"),
        ({"latency_budget": 0}, ValueError, "latency_budget"),
        ({"latency_budget": "fast"}, ValueError, "latency_budget"),
        ({"max_buffered_frames": 1.5}, TypeError, "whole number"),
        ({"present_method": "screen"}, RuntimeError, "'screen' is not available"),
        ({"codec": "webp"}, ValueError, "codec must be one of 'auto', 'jpeg', 'png', not 'webp'"),
        ({"qualty": 50}, TypeError, "no argument 'qualty'"),
    ],
)
def test_bad_arguments(arguments, error, match):
    async def main():
        RenderCanvas(**arguments).get_context("wgpu")

    with pytest.raises(error, match=match):
        asyncio.run(main())


def test_jpeg_frames_of_the_gpu_are_files_of_their_own(run):
    async def test(canvas):
        Scene(canvas)
        page = Page(canvas)
        page.open(333, 111)
        await page.wait(lambda: bool(page.frames) and page.frames[-1][0]["width"] == 333)
        _, data = page.frames[-1]
        assert simplejpeg.decode_jpeg(data, strict=True).shape == (111, 333, 3)

    run(test, encoder="gpu", subsampling="420", quality=70, lossless_delay=None)


@pytest.mark.parametrize("encoder", ["gpu", "cpu"])
@pytest.mark.parametrize("options", [{"codec": "png"}, {"quality": 100}], ids=["codec", "quality"])
def test_all_frames_without_loss(run, options, encoder):
    async def test(canvas):
        scene = Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_frames(1)
        for _ in range(3):
            count = len(page.frames)
            canvas.request_draw()
            await page.wait_frames(count + 1)
            np.testing.assert_array_equal(picture(page.frames[-1]), texture_pixels(canvas))
        assert len({data for _, data in page.frames}) == len(page.frames) == scene.draws
        assert {(message["codec"], message["final"]) for message, _ in page.frames} == {("png", True)}
        assert canvas._canvas_context.encoder.name == ("GPU PNG" if encoder == "gpu" else "CPU PNG")
        await asyncio.sleep(0.3)
        assert len(page.frames) == scene.draws, "nothing is left to sharpen"

    run(test, encoder=encoder, lossless_delay=0.05, **options)


def test_arrays_without_loss(run):
    async def test(canvas):
        context = canvas.get_context("bitmap")
        array = np.random.default_rng(2).integers(0, 256, (90, 120, 4), np.uint8)
        canvas.request_draw(lambda: context.set_bitmap(array))
        page = Page(canvas)
        page.open()
        await page.wait_frames(1)
        np.testing.assert_array_equal(picture(page.frames[0]), array[..., :3])

    run(test, codec="png")


def test_jpeg_in_the_best_quality_if_asked_for(run):
    async def test(canvas):
        Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_final()
        first, last = page.frames[0][0], page.frames[-1][0]
        assert (first["codec"], first["quality"], first["final"]) == ("jpeg", 100, False)
        assert last["codec"] == "png"

    run(test, codec="jpeg", quality=100)


def no_memory(self, texture, *, rect=None):
    """In place of an encoder's ``encode``."""
    raise RuntimeError("no memory left")


def test_lossless_frames_go_on_when_the_gpu_fails(run, monkeypatch, caplog):
    monkeypatch.setattr(PngEncoder, "encode", no_memory)

    async def test(canvas):
        Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_frames(1)
        np.testing.assert_array_equal(picture(page.frames[-1]), texture_pixels(canvas))
        assert canvas._canvas_context.encoder.name == "CPU PNG"

    run(test, codec="png", encoder="gpu")


def test_a_failing_gpu_encoder_gives_way_to_the_cpu(run, monkeypatch, caplog):
    """Out of memory, a frame too large for the device: the picture still comes, and the canvas says how."""

    monkeypatch.setattr(JpegEncoder, "encode", no_memory)

    async def test(canvas):
        Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_final()
        assert canvas._canvas_context.encoder.name == "simplejpeg"
        assert "the GPU encoder failed: no memory left" in canvas.describe()

    run(test, encoder="gpu")


@pytest.mark.parametrize("when", ["at once", "later"])
def test_encoding_that_fails_for_good_is_a_badge_and_drawing_goes_on(run, monkeypatch, when):
    works = CpuEncoder.encode
    broken = True

    def fail(self, texture, *, rect=None):
        if broken and self._codec == "jpeg":
            if when == "at once":
                raise RuntimeError("out of order")
            future = works(self, texture)
            future._error, future._value = RuntimeError("out of order"), None
            return future
        return works(self, texture)

    monkeypatch.setattr(CpuEncoder, "encode", fail)

    async def test(canvas):
        nonlocal broken
        scene = Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait(lambda: any(m["type"] == "error" for m in page.messages))
        await asyncio.sleep(0.3)
        assert scene.draws == 2, "tried once more by itself, not for ever"
        assert page.messages[-1]["text"] == "Encoding failed: out of order"
        broken = False
        canvas.request_draw()
        await page.wait_final()
        assert {"type": "error", "code": "encode", "text": ""} in page.messages

    run(test, encoder="cpu")


def test_an_array_that_cannot_be_shown_does_not_stop_the_canvas(run, caplog):
    async def test(canvas):
        context = canvas.get_context("bitmap")
        page = Page(canvas)
        page.open()
        canvas.request_draw(lambda: context.set_bitmap(np.zeros((5, 6, 1), np.uint8)))
        await asyncio.sleep(0.3)
        image = np.full((5, 6, 4), 77, np.uint8)
        canvas.request_draw(lambda: context.set_bitmap(image))
        assert np.all(await page.wait_final() == 77)

    run(test)


def test_a_forgotten_page_is_asked_to_say_hello_and_comes_back(run):
    async def test(canvas):
        scene = Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_final()
        canvas._rfb_audiences.bye(page.view)
        page.event(type="resize", pwidth=50, pheight=50, ratio=1)
        page.ack()
        await asyncio.sleep(0.1)
        assert page.messages.count({"type": "again", "view": "a"}) == 1, "once a second at most"
        assert canvas.get_physical_size() == (120, 90), "what it says does not count before its hello"
        shown, draws = len(page.frames), scene.draws
        page.open()
        await page.wait_frames(shown + 1)
        canvas.request_draw()
        await page.wait(lambda: scene.draws > draws)

    run(test)


def test_many_pages_do_not_push_out_the_one_that_lives(run):
    async def test(canvas):
        Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_final()
        for i in range(300):
            Page(canvas, f"dead {i}", ack=False).hello()
            if i % 20 == 0:
                page.event(type="pointer_move", x=1.0, y=1.0)
                await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        shown = len(page.frames)
        canvas.request_draw()
        await page.wait_frames(shown + 1)

    run(test)


def test_many_hellos_bring_one_picture(run):
    async def test(canvas):
        Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_final()
        shown = len(page.frames)
        for _ in range(50):
            page.hello()
        await asyncio.sleep(0.2)
        assert 1 <= len(page.frames) - shown <= 3

    run(test)


def test_who_asks_for_a_sign_of_life_gets_one_and_of_a_closed_canvas_its_end(run):
    async def test(canvas):
        page = Page(canvas)
        page.open()
        page.send(type="ping")
        await asyncio.sleep(0.05)
        assert {"type": "pong", "view": "a"} in page.messages
        canvas.close()
        page.messages.clear()
        page.hello()
        await asyncio.sleep(0.05)
        assert page.messages == [{"type": "closed"}]

    run(test)


@pytest.mark.parametrize("is_closed", [True, False])
def test_canvases_that_no_page_shows_are_collected_with_their_threads(is_closed):
    async def one(encoder):
        canvas = RenderCanvas(size=(60, 40), encoder=encoder)
        Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_final()
        if is_closed:
            canvas.close()
            assert canvas.comm is not None, "the page still shows the last picture"
        page.send(type="bye", unseen=True)
        await asyncio.sleep(0.01)
        return weakref.ref(canvas)

    def encoding_threads():
        return sum(thread.name.startswith("rfb_gpu encode") for thread in threading.enumerate())

    gc.collect()
    before = encoding_threads()
    for encoder in ("gpu", "cpu"):
        gone = [asyncio.run(one(encoder)) for _ in range(3)]
        give_up = time.monotonic() + 5
        while time.monotonic() < give_up and (
            any(ref() is not None for ref in gone) or encoding_threads() > before
        ):
            gc.collect()
            time.sleep(0.05)
        assert [ref() for ref in gone] == [None] * 3
        assert encoding_threads() <= before


def test_force_draw_is_not_overtaken_by_older_frames(run):
    async def test(canvas):
        scene = Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_final()
        for _ in range(3):
            canvas.request_draw()
            await asyncio.sleep(0.04)
            canvas.force_draw()
            drawn = scene.draws
        await asyncio.sleep(0.3)
        assert scene.draws == drawn
        assert psnr(picture(page.frames[-1]), texture_pixels(canvas)) > 33
        final = await page.wait_final()
        np.testing.assert_array_equal(final, texture_pixels(canvas))

    run(test, encoder="gpu")


@pytest.mark.parametrize("when", ["at once", "later"])
def test_the_sharp_frame_comes_from_the_cpu_when_the_gpu_fails(run, monkeypatch, when, caplog):
    def fail(*_, **__):
        raise RuntimeError("no such luck")

    def fail_later(*_):
        yield from ()
        raise RuntimeError("no such luck")

    if when == "at once":
        monkeypatch.setattr(PngEncoder, "encode", fail)
    else:
        monkeypatch.setattr(PngEncoder, "_code_and_collect", fail_later)

    async def test(canvas):
        Scene(canvas)
        page = Page(canvas)
        page.open()
        np.testing.assert_array_equal(await page.wait_final(), texture_pixels(canvas))
        assert "no such luck" in caplog.text

    run(test, encoder="gpu", lossless_delay=0.05)


def test_one_lossless_encoding_at_a_time_never_holds_the_loop(run, monkeypatch):
    slow = cpu._compress

    def slower(image, order, settings):
        if settings.codec == "png":
            time.sleep(0.5)
        return slow(image, order, settings)

    monkeypatch.setattr(cpu, "_compress", slower)

    async def test(canvas):
        Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_frames(1)
        late = 0.0
        for _ in range(8):
            canvas.request_draw()
            for _ in range(15):
                began = time.monotonic()
                await asyncio.sleep(0.01)
                late = max(late, time.monotonic() - began - 0.01)
        assert late < 0.3, "the loop never waited for a lossless frame"
        began = time.monotonic()
        final = await page.wait_final()
        assert time.monotonic() - began < 2
        np.testing.assert_array_equal(final, texture_pixels(canvas))

    run(test, lossless_delay=0.1)


def test_sending_never_holds_the_loop_for_long(run, monkeypatch):
    """At 1080p, lossless frames included. By the thread's CPU time, so that a busy machine does not count."""
    held: list[tuple[float, str]] = []
    run_handle = asyncio.Handle._run

    def timed(handle):
        began = time.thread_time()
        run_handle(handle)
        held.append((time.thread_time() - began, repr(handle)))

    async def test(canvas):
        Scene(canvas)
        page = Page(canvas)
        page.open(1920, 1080)
        await page.wait_final()
        draw = canvas._draw_and_present

        def draw_untimed(**options):
            try:
                return draw(**options)
            finally:
                held.append((-math.inf, "the draw"))  # its handle comes next

        monkeypatch.setattr(canvas, "_draw_and_present", draw_untimed)
        monkeypatch.setattr(asyncio.Handle, "_run", timed)
        count = len(page.frames)
        canvas.request_draw()
        await page.wait_frames(count + 2)
        monkeypatch.undo()
        assert [message["codec"] for message, _ in page.frames[count:]] == ["jpeg", "png"]
        without_draws = [
            after for before, after in itertools.pairwise([(0.0, ""), *held]) if before[0] != -math.inf
        ]
        assert len(without_draws) > 20
        assert max(without_draws)[0] < 0.02, max(without_draws)

    run(test, encoder="cpu")


def test_the_sharp_frame_comes_though_an_ack_was_lost(run):
    async def test(canvas):
        Scene(canvas)
        page = Page(canvas, ack=False)
        page.open()
        await page.wait_final()
        assert len(page.frames) == 2

    run(test, max_buffered_frames=1)


def test_a_failed_draw_does_not_take_the_sharp_frame_of_the_good_one(run):
    async def test(canvas):
        Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_frames(1)
        truth = texture_pixels(canvas)
        canvas.request_draw(lambda: 1 / 0)
        np.testing.assert_array_equal(await page.wait_final(), truth)

    run(test)


def test_a_version_error_is_for_the_page_that_has_it(run):
    async def test(canvas):
        good, other = Page(canvas, "good"), Page(canvas, "other")
        good.open()
        other.hello(version=99)
        other.resize(60, 50)
        await asyncio.sleep(0.2)
        assert not [m for m in good.messages if m["type"] == "error"]
        assert [m for m in other.messages if m["type"] == "error"]
        assert canvas.get_physical_size() == (120, 90)

    run(test)


def test_stats_count_a_frame_once_whoever_shows_it(run):
    async def test(canvas):
        Scene(canvas)
        a, b = Page(canvas, "a"), Page(canvas, "b")
        a.open()
        b.open()
        await a.wait_final()
        await b.wait_final()
        await asyncio.sleep(0.1)
        stats = canvas.get_stats()
        assert stats["sent_frames"] == stats["confirmed_frames"]

    run(test)


def test_events_without_what_programs_need_are_dropped_and_the_next_is_handled(run):
    async def test(canvas):
        page = Page(canvas)
        page.open()
        seen = []
        canvas.add_event_handler(lambda e: seen.append(e["event_type"]), "*")
        page.event(type="wheel", x=1.0, y=1.0)
        page.event(type="pointer_down", x=None, y=1.0)
        with page.together():
            page.event(type="key_down")
            page.event(type="pointer_up", x=1.0, y=10**400)
            page.event(type="pointer_up", x=1.0, y=2.0, button=1)
        await asyncio.sleep(0.2)
        assert [kind for kind in seen if kind != "resize"] == ["pointer_up"]

    run(test)
