"""Several pages, each by a road of its own: nobody waits for another, and each gets what its link affords."""

from __future__ import annotations

import asyncio
import itertools

import numpy as np
import pytest

from rfb_gpu import JpegEncoder, PngEncoder
from rfb_gpu.flow.window import FrameWindow
from tests.gpu.test_canvas import Page, Scene, assembled, noise, picture, texture_pixels

THIN = 30e3, 0.03
"""Bytes per second, and seconds each way."""
BEST = 80, "444", 1


class Socket:
    """A websocket as a canvas sees it."""

    def __init__(self, page):
        self._page = page

    def send(self, message):
        self._page.receive(message, None)

    def send_frame(self, message, file, on_written):
        self._page.receive(message, [file])
        on_written()

    def close(self):
        pass


class SocketPage(Page):
    """A page that talks by a websocket; `alone`: one of a server, without a notebook."""

    def __init__(self, canvas, view, alone=True, **options):
        self.socket = Socket(self)
        super().__init__(canvas, view, **options)
        if alone:
            canvas._rfb_roads.join(self.socket)

    def listen(self):
        pass

    def say(self, content):
        self.canvas._rfb_on_socket_message(content, self.socket)

    def break_off(self):
        self.lost = True
        self.canvas._rfb_roads.leave(self.socket)
        self.canvas._rfb_on_socket_lost(self.socket)


def settings(frames):
    return {(message["quality"], message["subsampling"], message["scale"]) for message, _ in frames}


def draw_noise(canvas, source):
    """A program whose frames are large, and each another one; 200 by 150 pixels."""
    if source != "arrays":
        noise(Scene(canvas))
        return
    context, count = canvas.get_context("bitmap"), itertools.count()
    image = np.random.default_rng(1).integers(0, 64, (150, 200, 4), np.uint8)
    canvas.request_draw(lambda: context.set_bitmap(np.roll(image, next(count), 0)))


@pytest.mark.parametrize("source", ["gpu", "cpu", "arrays"])
@pytest.mark.parametrize("slow_is_in_control", [False, True])
def test_nobody_waits_for_a_page_with_a_thin_link(run, source, slow_is_in_control):
    async def test(canvas):
        draw_noise(canvas, source)
        slow, quick = SocketPage(canvas, "slow", link=THIN), SocketPage(canvas, "quick")
        first, second = (slow, quick) if slow_is_in_control else (quick, slow)
        first.open(200, 150)
        await first.wait_frames(1)
        second.open(200, 150)
        await slow.wait_frames(5)
        counts = len(quick.frames), len(slow.frames)
        await slow.wait_frames(len(slow.frames) + 3)
        assert canvas._rfb_pages.control.holder == first.view
        assert len(quick.frames) - counts[0] > 2 * (len(slow.frames) - counts[1])
        for page in slow, quick:
            numbers = [message["id"] for message, _ in page.frames]
            assert numbers == sorted(set(numbers))

    encoder = "auto" if source == "arrays" else source
    run(test, update_mode="continuous", max_fps=60, quality=80, encoder=encoder)


def test_the_next_draw_hears_when_a_frame_is_with_the_system(run, monkeypatch):
    heard = []
    monkeypatch.setattr(FrameWindow, "written", lambda window, frame: heard.append((window, frame)))

    async def test(canvas):
        noise(Scene(canvas))
        pages = [SocketPage(canvas, "a"), SocketPage(canvas, "b"), Page(canvas, "by comm")]
        for page in pages:
            page.open(200, 150)
            await page.wait_final()
        for page in pages[:2]:
            window = canvas._rfb_audiences.of(page.view).views._views[page.view].window
            numbers = [message["id"] for message, _ in page.frames]
            assert [frame for of, frame in heard if of is window] == numbers
        assert len({id(window) for window, _ in heard}) == 2

    run(test)


@pytest.mark.parametrize("source", ["gpu", "arrays"])
def test_each_page_has_the_quality_that_its_link_affords(run, source):
    async def test(canvas):
        draw_noise(canvas, source)
        slow, quick = SocketPage(canvas, "slow", link=THIN), SocketPage(canvas, "quick")
        for page in quick, slow:
            page.open(200, 150)
            await page.wait_frames(1)
        await slow.wait(lambda: settings(slow.frames[-1:]) != {BEST})
        count = len(slow.frames)
        await slow.wait_frames(count + 4)
        assert BEST not in settings(slow.frames[count:])
        assert settings(quick.frames) == {BEST}

    run(test, update_mode="continuous", max_fps=60)


@pytest.mark.parametrize("encoder", ["gpu", "cpu"])
def test_at_rest_each_gets_the_picture_without_loss_as_its_link_affords(run, encoder):
    async def test(canvas):
        scene = Scene(canvas)
        noise(scene)
        pages = quick, slow, other = [
            SocketPage(canvas, "quick"),
            SocketPage(canvas, "slow", link=(40e3, 0.02)),
            Page(canvas, "by comm"),
        ]
        for page in pages:
            page.open(200, 150)
            await page.wait_frames(1)
        canvas.set_update_mode("continuous")
        await slow.wait_frames(len(slow.frames) + 3)
        canvas.set_update_mode("manual")
        await quick.wait_final()
        await other.wait_final()
        draws = scene.draws
        await slow.wait_final_part()
        assert scene.draws == draws
        truth = texture_pixels(canvas)
        np.testing.assert_array_equal(picture(quick.frames[-1]), truth)
        np.testing.assert_array_equal(picture(other.frames[-1]), truth)
        np.testing.assert_array_equal(assembled(slow)[0], truth)
        assert not [message for page in (quick, other) for message, _ in page.frames if "part" in message]

    run(test, encoder=encoder)


def test_pages_that_get_the_same_share_one_encoding(run, monkeypatch):
    calls = []
    for kind in JpegEncoder, PngEncoder:

        def encode(self, *args, _encode=kind.encode, **kwargs):
            calls.append(type(self))
            return _encode(self, *args, **kwargs)

        monkeypatch.setattr(kind, "encode", encode)

    async def test(canvas):
        Scene(canvas)
        pages = [SocketPage(canvas, view) for view in "abc"]
        for page in pages:
            page.open()
            await page.wait_final()
        # Known by now, that is how long frames take: of a lossless one it is not waited for.
        calls.clear()
        seen = [len(page.frames) for page in pages]
        canvas.request_draw()
        for page, count in zip(pages, seen, strict=True):
            await page.wait_frames(count + 2)
            lossy, final = page.frames[count:]
            assert (lossy[0]["codec"], final[0]["codec"]) == ("jpeg", "png")
            assert [bytes(file) for _, file in page.frames[count:]] == [
                bytes(file) for _, file in pages[0].frames[-2:]
            ]
        assert calls == [JpegEncoder, PngEncoder]

    run(test, encoder="gpu")


@pytest.mark.parametrize("how", ["silent", "hidden", "gone"])
def test_a_page_in_control_that_does_not_look_or_answer_stops_nobody(run, how):
    async def test(canvas):
        scene = Scene(canvas)
        first = SocketPage(canvas, "first", ack=how != "silent")
        first.open()
        await first.wait_frames(1)
        watching = SocketPage(canvas, "watching")
        watching.open()
        await watching.wait_frames(1)
        if how == "hidden":
            first.send(type="visibility", visible=False)
        elif how == "gone":
            first.break_off()
        draws, seen = scene.draws, len(first.frames)
        await watching.wait_frames(len(watching.frames) + 20)
        assert scene.draws - draws >= 19
        if how != "silent":
            assert len(first.frames) <= seen + 3, "what was under way, at most"

    run(test, update_mode="continuous", max_fps=60, encoder="gpu")


def test_in_a_notebook_the_page_by_websocket_does_not_wait_for_one_by_comm(run):
    async def test(canvas):
        draw_noise(canvas, "gpu")
        remote, local = Page(canvas, "remote", link=THIN), SocketPage(canvas, "local", alone=False)
        remote.open(200, 150)
        await remote.wait_frames(1)
        local.open(200, 150)
        await remote.wait_frames(5)
        counts = len(local.frames), len(remote.frames)
        await remote.wait_frames(len(remote.frames) + 3)
        assert len(local.frames) - counts[0] > 2 * (len(remote.frames) - counts[1])
        # By the comm it goes on where it is the same page that has changed its road.
        local.break_off()
        again = Page(canvas, "local")
        again.epoch = local.epoch
        again.open(320, 240)
        await again.wait_frames(3)

    run(test, update_mode="continuous", max_fps=60, quality=80, encoder="gpu")


def test_who_comes_while_the_picture_rests_gets_it_without_a_draw(run):
    async def test(canvas):
        scene = Scene(canvas)
        first = SocketPage(canvas, "first")
        first.open()
        await first.wait_final()
        draws = scene.draws
        second = SocketPage(canvas, "second")
        second.open()
        np.testing.assert_array_equal(await second.wait_final(), texture_pixels(canvas))
        await asyncio.sleep(0.5)
        assert scene.draws == draws
        assert len(second.frames) == 1

    run(test, encoder="gpu")


def test_a_picture_that_is_the_same_again_for_one_page_is_a_new_one_for_another(run):
    async def test(canvas):
        scene = Scene(canvas)
        scene.still = True

        def draw(x):
            scene.cube.local.x = x
            canvas.force_draw()

        first, second = SocketPage(canvas, "first"), SocketPage(canvas, "second")
        for page in first, second:
            page.open()
            await page.wait_final()
        first.acks = False  # so it has no room for another one
        draw(0.1)
        await first.wait(lambda: not first.frames[-1][0]["final"])
        views = canvas._rfb_audiences.of("first").views
        first.send(type="visibility", visible=False)
        await first.wait(lambda: not views.is_visible("first"))
        draw(0.2)
        await second.wait_final()
        first.send(type="visibility", visible=True)
        await first.wait(lambda: views.is_visible("first"))
        draw(0.1)
        truth = texture_pixels(canvas)
        await second.wait(
            lambda: second.frames[-1][0]["final"] and (picture(second.frames[-1]) == truth).all()
        )

    run(test, encoder="gpu", max_buffered_frames=1)
