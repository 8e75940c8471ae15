"""Which thread does what: one draws, whatever thread messages and callers are on; live canvases; flush() in a loop."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest

from rfb_gpu import RenderCanvas
from rfb_gpu.canvas import UNHEARD_SECONDS
from rfb_gpu.threads import Mail, receive_directly
from tests.gpu.helpers import psnr
from tests.gpu.test_canvas import Page, Scene, picture, texture_pixels

MOVE = {"buttons": [1], "modifiers": [], "button": 1, "ntouches": 0, "touches": {}}


def here():
    return threading.current_thread().name


class Posts:
    """A page whose messages come on a thread of their own, as on a subshell; acks ``delay`` seconds late."""

    def __init__(self, delay=0.0):
        self.delay = delay
        self.jobs = []
        self.open = True
        self.thread = threading.Thread(target=self._run, name="subshell", daemon=True)
        self.thread.start()

    def page(self, canvas):
        page = Page(canvas, ack=False)
        receive = page.receive

        def received(message, buffers):
            receive(message, buffers)
            if message["type"] == "frame":
                fields = {"type": "ack", "frame": message["id"], "received": 1, "shown": 1}
                self.post(page.send, self.delay, **fields)

        page.receive = received
        return page

    def post(self, function, delay=0.0, *args, **fields):
        self.jobs.append((time.monotonic() + delay, function, args, fields))

    def _run(self):
        while self.open:
            time.sleep(0.002)
            now = time.monotonic()
            due = [job for job in self.jobs if job[0] <= now]
            for job in due:
                job[1](*job[2], **job[3])
                self.jobs.remove(job)

    def close(self):
        self.open = False
        self.thread.join()


@pytest.fixture
def posts():
    with contextlib.closing(Posts()) as posts:
        yield posts


class ThreadScene(Scene):
    """Notes the thread of each draw by name."""

    def draw(self):
        self.names = getattr(self, "names", [])
        self.names.append(here())
        super().draw()


def wait(condition, seconds=20.0):
    """Waits as a cell does: the event loop of this thread stands still."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.005)


# ----- one thread


@pytest.mark.parametrize("encoder", ["gpu", "cpu"])
def test_acks_that_come_late_on_another_thread_give_draws_on_one(run, posts, encoder):
    posts.delay = 0.15

    async def test(canvas):
        scene = ThreadScene(canvas)
        handlers = set()
        canvas.add_event_handler(lambda _: handlers.add(here()), "before_draw", "pointer_move")
        page = posts.page(canvas)
        posts.post(page.open)
        await page.wait_frames(8)
        page.event(type="pointer_move", x=1.0, y=2.0, **MOVE)
        await page.wait_frames(12)
        assert set(scene.names) == handlers == {"MainThread"}

    run(test, update_mode="continuous", encoder=encoder)


def test_late_acks_pace_frames_by_the_window_and_lose_none(run, posts):
    posts.delay = 0.15

    async def test(canvas):
        Scene(canvas)
        page = posts.page(canvas)
        posts.post(page.open)
        await page.wait_frames(2)
        begin = len(page.frames)
        await asyncio.sleep(1.5)
        count = len(page.frames) - begin
        assert count <= 1.5 / 0.15 * 2 + 3, "two frames a round trip, and a window at the end"
        assert count >= 10, "the window is used"
        canvas.set_update_mode("ondemand")
        await page.wait_final()
        await asyncio.sleep(0.4)
        stats = canvas.get_stats()
        assert stats["sent_frames"] == stats["confirmed_frames"]
        assert stats["roundtrip"] >= 0.15

    run(test, update_mode="continuous", max_buffered_frames=2)


@pytest.mark.parametrize("live", [False, True])
def test_a_flood_of_moves_ends_on_the_last_within_two_draws(run, live):
    async def test(canvas):
        scene = Scene(canvas)
        page = Page(canvas)
        position = [None]
        drawn = []

        def on_move(event):
            position[0] = event["x"]
            moves.append(event["x"])
            canvas.request_draw()

        def draw():
            drawn.append(position[0])
            scene.draw()

        moves = []
        canvas.add_event_handler(on_move, "pointer_move")
        canvas.request_draw(draw)
        if live:
            page.acks = False
            receive = page.receive

            def received(message, buffers):
                receive(message, buffers)
                if message["type"] == "frame":
                    page.ack()

            page.receive = received
        page.open()
        await page.wait_frames(2)
        scene.cost = 0.1

        def flood():
            for x in range(500):
                page.event(type="pointer_move", x=float(x), y=1.0, **MOVE)
                time.sleep(0.002)

        drawing = len(drawn)
        await asyncio.to_thread(flood)
        done = len(drawn)
        await page.wait(lambda: drawn[-1] == 499.0, 3)
        assert drawn.index(499.0) - done < 3, "one draw under way, and at most two more"
        assert moves[-1] == 499.0
        assert len(moves) < 3 * (len(drawn) - drawing) + 3, "what waits for a draw is one event"
        assert moves == sorted(moves)

    run(test, live=live)


def test_a_draw_that_waited_for_room_shows_the_moves_that_came_with_the_ack(run):
    async def test(canvas):
        scene = Scene(canvas)
        page = Page(canvas, ack=False)
        position, drawn = [0.0], []
        canvas.add_event_handler(lambda e: position.append(e["x"]), "pointer_move")
        canvas.request_draw(lambda: (drawn.append(position[-1]), scene.draw()))
        page.open()
        await page.wait_frames(1)
        await asyncio.sleep(0.2)
        draws, shown = len(drawn), len(page.frames)
        page.ack()
        for x in range(1, 50):
            page.event(type="pointer_move", x=float(x), y=1.0, **MOVE)
        await page.wait_frames(shown + 1)
        assert drawn[draws] == 49.0

    run(test, max_buffered_frames=1, update_mode="continuous", lossless_delay=None)


def test_moves_and_wheels_are_merged_but_never_across_a_press_a_release_or_a_key(run):
    async def test(canvas):
        page = Page(canvas)
        page.open()
        await asyncio.sleep(0.2)
        seen = []
        kinds = ("pointer_move", "pointer_down", "pointer_up", "wheel", "key_down")
        canvas.add_event_handler(lambda e: seen.append(e), *kinds)
        wheel = {"type": "wheel", "x": 1.0, "y": 1.0, "buttons": [], "modifiers": []}
        time.sleep(0.1)  # the loop stands still: what follows arrives at once
        for x in (1.0, 2.0):
            page.event(type="pointer_move", x=x, y=0.0, **MOVE)
        page.event(type="pointer_down", x=2.0, y=0.0, **MOVE)
        for x in (3.0, 4.0):
            page.event(type="pointer_move", x=x, y=0.0, **MOVE)
        page.event(type="key_down", key="a", modifiers=[])
        page.event(type="pointer_move", x=5.0, y=0.0, **MOVE)
        page.event(type="pointer_up", x=5.0, y=0.0, **MOVE)
        for _ in range(3):
            page.event(dx=1.0, dy=10.0, **wheel)
        page.event(type="key_down", key="b", modifiers=[])
        page.event(dx=0.5, dy=-1.0, **wheel)
        await asyncio.sleep(0.3)
        short = [
            (e["event_type"], e.get("x"), e.get("dy")) if e["event_type"] != "key_down" else e["key"]
            for e in seen
        ]
        assert short == [
            ("pointer_move", 2.0, None),
            ("pointer_down", 2.0, None),
            ("pointer_move", 4.0, None),
            "a",
            ("pointer_move", 5.0, None),
            ("pointer_up", 5.0, None),
            ("wheel", 1.0, 30.0),
            "b",
            ("wheel", 1.0, -1.0),
        ]

    run(test)


def test_mail_comes_in_order_and_once_from_many_threads():
    letters, wakes = [], []
    mail = Mail(lambda: wakes.append(0))
    writers = [threading.Thread(target=lambda n=n: [mail.put((n, i)) for i in range(5000)]) for n in range(4)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        letters += mail.take()
    before = len(wakes)
    letters += mail.take()
    mail.put("last")
    assert len(wakes) == before + 1, "what comes after a reading wakes"
    assert mail.take() == ["last"]
    assert mail.take() == []
    assert len(letters) == 4 * 5000
    for n in range(4):
        assert [i for m, i in letters if m == n] == list(range(5000))


# ----- live


@pytest.fixture
def live(posts):
    """A live canvas, its scene and its page; made and used as a cell does, with this thread's loop at a standstill."""
    made = []

    def make(**options):
        canvas = RenderCanvas(size=(120, 90), live=True, **options)
        made.append(canvas)
        scene = ThreadScene(canvas)
        page = posts.page(canvas)
        posts.post(page.open)
        return canvas, scene, page

    yield make
    for canvas in made:
        canvas.close()


@pytest.mark.parametrize("encoder", ["gpu", "cpu"])
def test_a_live_canvas_draws_and_reacts_while_a_cell_runs_on_its_thread_only(live, encoder):
    canvas, scene, page = live(encoder=encoder)
    wait(lambda: page.frames and page.frames[-1][0]["final"])
    handlers = []
    canvas.add_event_handler(lambda e: handlers.append((here(), e["x"])), "pointer_move")
    canvas.set_update_mode("continuous")
    page.event(type="pointer_move", x=7.0, y=2.0, **MOVE)
    shown = len(page.frames)
    wait(lambda: len(page.frames) > shown + 5)
    assert handlers == [("rfb_gpu live", 7.0)]
    canvas.set_update_mode("ondemand")
    wait(lambda: page.frames[-1][0]["final"])
    np.testing.assert_array_equal(picture(page.frames[-1]), texture_pixels(canvas))
    assert set(scene.names) == {"rfb_gpu live"}


def on_each_frame(page, action):
    """Calls ``action(message)`` on the thread that a frame comes on."""
    receive = page.receive

    def received(message, buffers):
        receive(message, buffers)
        if message["type"] == "frame":
            action(message)

    page.receive = received


@pytest.mark.parametrize("encoder", ["gpu", "cpu"])
def test_a_live_canvas_goes_on_at_a_bounded_rate_where_a_cell_keeps_all_acks(run, encoder):
    """Messages come on the main thread only, as in VS Code."""

    async def test(canvas):
        Scene(canvas)
        page = Page(canvas, ack=False)
        loop = asyncio.get_running_loop()
        on_each_frame(page, lambda message: loop.call_soon_threadsafe(page.ack))
        page.open()
        await page.wait_frames(10)
        shown = len(page.frames)
        time.sleep(2)  # the cell
        count = len(page.frames) - shown
        assert 5 <= count <= 2 / UNHEARD_SECONDS + 5
        await page.wait_frames(shown + count + 10)

    run(test, live=True, encoder=encoder, update_mode="continuous")


def test_a_live_canvas_does_not_flood_a_page_that_is_slow_to_acknowledge(run):
    """Acks come on the main thread, half a second late, and no cell runs."""

    async def test(canvas):
        Scene(canvas)
        page = Page(canvas, ack=False)
        loop = asyncio.get_running_loop()

        def acknowledge_late(message):
            fields = {"type": "ack", "frame": message["id"], "received": 1, "shown": 1}
            loop.call_soon_threadsafe(loop.call_later, 0.5, lambda: page.send(**fields))

        on_each_frame(page, acknowledge_late)
        page.open()
        await page.wait_frames(3)
        await asyncio.sleep(0.5)
        shown = len(page.frames)
        await asyncio.sleep(2)
        assert 4 <= len(page.frames) - shown <= 2 / 0.5 * 3 + 3

    run(test, live=True, update_mode="continuous", max_buffered_frames=3)


def test_live_canvases_share_a_thread_and_others_stay_on_theirs(live):
    async def main():
        canvases = [live(update_mode="continuous") for _ in range(2)]
        normal = RenderCanvas(size=(60, 40), update_mode="continuous")
        scene, page = ThreadScene(normal), Page(normal)
        page.open(60, 40)
        await page.wait_frames(5)
        assert set(scene.names) == {"MainThread"}
        for _, live_scene, live_page in canvases:
            await live_page.wait_frames(5)
            assert set(live_scene.names) == {"rfb_gpu live"}
        normal.close()

    asyncio.run(main())
    assert [thread.name for thread in threading.enumerate()].count("rfb_gpu live") == 1


def test_the_lock_keeps_draws_and_handlers_out(live):
    canvas, scene, page = live(update_mode="continuous")
    wait(lambda: len(page.frames) > 3)
    handled = []
    canvas.add_event_handler(handled.append, "pointer_down")
    with canvas.lock, canvas.lock:
        draws = scene.draws
        page.event(type="pointer_down", x=1.0, y=1.0, **MOVE)
        time.sleep(0.4)
        assert scene.draws == draws
        assert not handled
    wait(lambda: scene.draws > draws and handled)


def test_what_a_program_calls_on_a_live_canvas_from_its_own_thread(live, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, **_: shown.append(data))
    canvas, scene, page = live()
    wait(lambda: page.frames)
    # Also under the lock, which the thread needs for all this.
    for lock in (contextlib.nullcontext(), canvas.lock):
        with lock:
            draws = scene.draws
            canvas.force_draw()
            assert scene.draws > draws
            canvas.snapshot()
            canvas.set_logical_size(200, 100)
            canvas.set_title("$fps a title")
            canvas.set_cursor("pointer")
            seen = []
            canvas.add_event_handler(seen.append, "key_down")
            canvas.submit_event({"event_type": "key_down", "key": "a", "modifiers": ()})
            with pytest.raises(ValueError, match="invalid event_type"):
                canvas.submit_event({"event_type": "nonsense"})
            canvas.request_draw()
            assert canvas.flush(5)
        wait(lambda seen=seen: seen)
        canvas.remove_event_handler(seen.append, "key_down")
    assert len(shown) == 2
    assert all(data["image/png"] for data in shown)
    state = canvas.get_state()
    assert (state["_css_width"], state["_cursor"]) == ("200.0px", "pointer")
    assert canvas.get_stats()["sent_frames"] > 0
    assert "simplejpeg" in canvas.describe() or "GPU JPEG" in canvas.describe()
    assert set(scene.names) == {"rfb_gpu live"}
    canvas.close()
    assert canvas.get_closed()
    assert page.messages[-1] == {"type": "closed"}
    canvas.close()


def test_an_error_in_a_live_draw_function_is_a_badge_and_drawing_goes_on(live, caplog):
    canvas, scene, page = live()
    wait(lambda: page.frames)
    canvas.request_draw(lambda: 1 / 0)
    wait(lambda: any(m["type"] == "error" and m["text"] for m in page.messages))
    assert caplog.text.count("ZeroDivisionError") == 1
    shown = len(page.frames)
    canvas.request_draw(scene.draw)
    wait(lambda: len(page.frames) > shown)


def test_flush_of_a_live_canvas_waits_for_the_newest_draw(live):
    canvas, scene, page = live()
    wait(lambda: page.frames and page.frames[-1][0]["final"])
    scene.cost = 0.2
    for _ in range(3):
        draws, shown = scene.draws, len(page.frames)
        canvas.request_draw()
        assert canvas.flush(5)
        assert scene.draws == draws + 1
        assert len(page.frames) > shown
        assert psnr(picture(page.frames[-1]), texture_pixels(canvas)) > 33
        began = time.monotonic()
        assert canvas.flush(5)
        assert time.monotonic() - began < 0.1, "nothing is wanted"
    canvas.set_update_mode("continuous")
    draws = scene.draws
    assert canvas.flush(5)
    assert scene.draws > draws
    page.send(type="visibility", visible=False)
    time.sleep(0.5)
    began = time.monotonic()
    assert not canvas.flush(0.3), "nobody looks"
    assert 0.2 < time.monotonic() - began < 1


def test_flush_of_a_live_canvas_on_its_thread_is_an_error(live):
    canvas, _, _page = live()
    errors = []

    def draw():
        try:
            canvas.flush()
        except RuntimeError as error:
            errors.append(str(error))

    canvas.request_draw(draw)
    wait(lambda: errors)
    assert "would wait for itself" in errors[0]


def test_a_script_with_a_live_canvas_ends():
    """Not closed, in continuous mode, and with a page that looks."""
    script = (
        "from tests.gpu.test_threads import *\n"
        "posts = Posts()\n"
        "canvas = RenderCanvas(size=(60, 40), live=True, update_mode='continuous')\n"
        "scene = ThreadScene(canvas)\n"
        "page = posts.page(canvas)\n"
        "posts.post(page.open)\n"
        "wait(lambda: len(page.frames) > 5)\n"
        "print(set(scene.names))\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "{'rfb_gpu live'}\n")
    assert "Traceback" not in ended.stderr, ended.stderr
    assert "destroyed" not in ended.stderr, ended.stderr


@pytest.mark.parametrize("last_words", ["", "canvas.close()\n"])
def test_a_script_ends_without_complaints_of_asyncios(last_words):
    script = "import time\nfrom rfb_gpu import RenderCanvas\ncanvas = RenderCanvas(live=True)\n" + last_words
    script += "time.sleep(0.3)\n"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


# ----- flush


def test_flush_in_a_loop_shows_each_step_while_acks_arrive(run, posts):
    async def test(canvas):
        scene = ThreadScene(canvas)
        page = posts.page(canvas)
        posts.post(page.open)
        await page.wait_final()
        moves = []
        canvas.add_event_handler(lambda e: moves.append(e["x"]), "pointer_move")
        # A cell: from here on this thread's loop stands still.
        for step in range(10):
            shown = len(page.frames)
            posts.post(page.event, type="pointer_move", x=float(step), y=1.0, **MOVE)
            wait(lambda: not posts.jobs)
            time.sleep(0.03)
            canvas.request_draw()
            assert canvas.flush()
            assert len(page.frames) == shown + 1
            assert psnr(picture(page.frames[-1]), texture_pixels(canvas)) > 33
            assert moves[-1] == step
        assert moves == sorted(moves)
        assert canvas.flush(), "nothing is wanted"
        assert len(page.frames) == shown + 1
        assert set(scene.names) == {"MainThread"}
        assert len(asyncio.all_tasks()) < 10, "no timer for each frame is left behind"
        await page.wait_final()
        np.testing.assert_array_equal(picture(page.frames[-1]), texture_pixels(canvas))

    run(test, update_mode="ondemand")


@pytest.mark.parametrize("encoder", ["gpu", "cpu"])
def test_flush_where_no_ack_can_arrive_shows_progress_at_a_bounded_rate(run, encoder):
    async def test(canvas):
        Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_final()
        shown, began, last, longest = len(page.frames), time.monotonic(), time.monotonic(), 0.0
        page.acks = False
        while (now := time.monotonic()) - began < 2:
            canvas.request_draw()
            if canvas.flush():
                longest, last = max(longest, now - last), now
        count = len(page.frames) - shown
        assert 10 <= count <= 2 / UNHEARD_SECONDS + 2
        assert longest < 1.5
        page.acks = True
        page.ack()
        await page.wait_final()

    run(test, encoder=encoder)


def test_flush_does_not_flood_a_page_that_is_slow_to_acknowledge(run, posts):
    posts.delay = 0.5

    async def test(canvas):
        Scene(canvas)
        page = posts.page(canvas)
        posts.post(page.open)
        await page.wait_final()
        await asyncio.sleep(0.6)
        shown, began = len(page.frames), time.monotonic()
        while time.monotonic() - began < 2:
            canvas.request_draw()
            canvas.flush()
        assert 4 <= len(page.frames) - shown <= 2 / 0.5 * 3 + 3, "no more than the window each round trip"

    run(test, max_buffered_frames=3)


def test_flush_handles_each_message_once_and_in_order_with_the_loop(run, posts):
    async def test(canvas):
        Scene(canvas)
        page = posts.page(canvas)
        posts.post(page.open)
        await page.wait_final()
        keys = []
        canvas.add_event_handler(lambda e: keys.append(e["key"]), "key_down")
        for i in range(300):
            posts.post(page.event, i / 400, type="key_down", key=str(i), modifiers=[])
        while len(keys) < 300:
            canvas.flush()
            await asyncio.sleep(0.003)
            time.sleep(0.005)
        await asyncio.sleep(0.2)
        assert keys == [str(i) for i in range(300)]

    run(test)


def test_flush_before_anybody_looks_draws_nothing_and_returns(run):
    async def test(canvas):
        scene = Scene(canvas)
        began = time.monotonic()
        assert not canvas.flush()
        assert time.monotonic() - began < 0.5
        assert scene.draws == 0
        canvas.close()
        assert not canvas.flush()

    run(test)


def test_flush_is_bounded_when_the_encoder_is_slow_and_the_frame_comes_later(run, posts, monkeypatch):
    from rfb_gpu.codecs import cpu

    compress = cpu._compress

    def slow(image, order, settings):
        time.sleep(1 if settings.codec == "jpeg" else 0)
        return compress(image, order, settings)

    async def test(canvas):
        Scene(canvas)
        page = posts.page(canvas)
        posts.post(page.open)
        await page.wait_final()
        monkeypatch.setattr(cpu, "_compress", slow)
        shown, began = len(page.frames), time.monotonic()
        canvas.request_draw()
        assert not canvas.flush(0.2)
        assert time.monotonic() - began < 0.8
        await page.wait_frames(shown + 1)

    run(test, encoder="cpu")


def test_flush_where_it_cannot_work_says_what_to_do(run):
    async def test(canvas):
        scene = Scene(canvas)
        page = Page(canvas)
        page.open()
        await page.wait_final()
        errors = []

        def flush(*_):
            try:
                canvas.flush()
            except RuntimeError as error:
                errors.append(str(error))

        canvas.add_event_handler(flush, "key_down")
        page.event(type="key_down", key="a", modifiers=[])
        await page.wait(lambda: len(errors) == 1)
        canvas.request_draw(lambda: (flush(), scene.draw()))
        await page.wait(lambda: len(errors) == 2)
        assert all("call request_draw() there" in error for error in errors)
        await asyncio.to_thread(flush)
        assert "live=True" in errors[2]
        for timeout in (-1, float("inf"), float("nan"), "1"):
            with pytest.raises(ValueError, match="seconds from 0"):
                canvas.flush(timeout)

    run(test)


def test_live_is_true_or_false():
    with pytest.raises(TypeError, match="live must be True or False"):
        RenderCanvas(live="cell")


def test_messages_go_to_the_shell_that_the_page_chose_and_past_the_hooks_of_cells():
    from ipykernel.comm.comm import BaseComm

    comm = BaseComm(primary=False)
    comm._reply_subshell_id = None  # sent last by the main shell
    received = []
    comm.on_msg(lambda _: pytest.fail("runs IPython's hooks"))
    receive_directly(comm, received.append)
    comm.handle_msg("message")
    assert received == ["message"]
    assert comm._reply_subshell_for({}, "subshell") == "subshell"
    other = types.SimpleNamespace()
    receive_directly(other, received.append)
    assert vars(other) == {}, "hosts other than ipykernel are left alone"
