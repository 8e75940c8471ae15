"""The application of one canvas, with pages that the test plays: who may come in, what they are told, and who is in control."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
import simplejpeg
import websockets.sync.client
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

import rfb_gpu
from rfb_gpu import RenderCanvas
from rfb_gpu.server import app as server
from rfb_gpu.server import asgi_app
from tests.conftest import HERE

TOKEN = "s3cret"
SECONDS = 20


class Page:
    """A page's websocket: what it is told is in `messages` and `frames`, and `code` once it is closed."""

    def __init__(self, app, path="/websocket", origin="http://localhost:8000", headers=()):
        named = [("host", "localhost:8000"), *headers] + ([("origin", origin)] if origin else [])
        self.scope = {
            "type": "websocket",
            "path": path,
            "root_path": "",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in named],
            "subprotocols": [],
        }
        self.messages, self.frames = [], []
        self.code = self.reason = None
        self.stalled = asyncio.Event()
        self.stalled.set()
        self.epoch = self.seq = 0
        self.view = f"view-{id(self)}"
        self._events = asyncio.Queue()
        self._events.put_nowait({"type": "websocket.connect"})
        self.task = asyncio.create_task(app(self.scope, self._events.get, self._take))

    async def _take(self, event):
        await self.stalled.wait()
        kind = event["type"]
        if kind == "websocket.close":
            self.code, self.reason = event["code"], event["reason"]
            self._events.put_nowait({"type": "websocket.disconnect", "code": self.code})
        elif "text" in event:
            self.messages.append(json.loads(event["text"]))
        elif "bytes" in event:
            (length,) = struct.unpack_from("<I", event["bytes"])
            header = json.loads(event["bytes"][4 : 4 + length])
            self.messages.append(header)
            self.frames.append((header, event["bytes"][4 + length :]))
            self.say(type="ack", frame=header["id"], received=1, shown=1)

    def write(self, text):
        self._events.put_nowait({"type": "websocket.receive", "text": text})

    def say(self, **fields):
        self.write(json.dumps({"view": self.view, "epoch": self.epoch, "seq": self.seq, **fields}))
        self.seq += 1

    async def knock(self, token=TOKEN):
        self.write(json.dumps({"type": "token", "token": token}))
        await self.until(lambda: self.messages or self.code)
        return self

    async def show(self, width=120, height=90, **facts):
        """Opens the page, as a browser's window of that size."""
        await self.knock()
        self.epoch, self.seq = self.epoch + 1, 0
        self.say(type="hello", **{"version": 1, "dpr": 1.0, "capabilities": {}, **facts})
        self.resize(width, height)
        self.say(type="visibility", visible=True)
        return self

    def event(self, kind, **fields):
        self.say(type="event", event={"type": kind, "timestamp": 0.0, **fields})

    def resize(self, width, height):
        sides = {"width": width, "height": height, "pwidth": width, "pheight": height}
        self.event("resize", ratio=1, **sides)

    def leave(self):
        self._events.put_nowait({"type": "websocket.disconnect", "code": 1001})

    def heard(self, kind):
        return [message for message in self.messages if message["type"] == kind]

    @property
    def in_control(self):
        return self.heard("control")[-1]["view"] == self.view

    async def until(self, condition):
        give_up = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < give_up, [m["type"] for m in self.messages]
            await asyncio.sleep(0.005)


def make(**options):
    """A canvas of NumPy frames, which needs no GPU; `canvas.draws` counts."""
    canvas = RenderCanvas(encoder="cpu", lossless_delay=None, **options)
    context = canvas.get_context("bitmap")
    canvas.draws = 0

    def draw():
        canvas.draws += 1
        width, height = canvas.get_physical_size()
        context.set_bitmap(np.full((height, width, 4), canvas.draws % 250, np.uint8))

    canvas.request_draw(draw)
    return canvas


def scenario(function):
    """Runs a test with a canvas and its application in an event loop."""

    def test():
        async def run():
            canvas = make()
            try:
                await function(canvas, asgi_app(canvas, token=TOKEN))
            finally:
                canvas.close()

        asyncio.run(run())

    test.__name__ = function.__name__
    return test


def client(app):
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost:8000")


# ----- the page's files


@scenario
async def test_the_page_and_its_files(canvas, app):
    canvas.set_title("<Würfel>")
    async with client(app) as web:
        page = await web.get("/", params={"token": TOKEN})
        assert page.status_code == 200 and "<title>&lt;Würfel&gt;</title>" in page.text
        names = re.findall(r'(?:src|href)="([^":,]+)"', page.text)
        assert set(names) == {"widget.css", "page.css", "page.js"}, "relative, so that a prefix does no harm"
        for name in [*names, "widget.js"]:
            file = await web.get(f"/{name}")
            assert file.status_code == 200 and file.headers["content-type"].startswith(
                "text/css" if name.endswith("css") else "text/javascript"
            )
        policy = page.headers["content-security-policy"]
        assert "script-src 'self'" in policy and "unsafe" not in policy
        assert not re.search(r"<script[^>]*>[^<]|<style| style=| on\w+=", page.text), "nothing inline"
        assert page.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in page.headers
        assert (await web.head("/", params={"token": TOKEN})).content == b""
        assert (await web.post("/")).status_code == 405
        assert (await web.get("/../app.py")).status_code == 404


@scenario
async def test_without_its_token_the_page_is_refused_in_words(canvas, app):
    async with client(app) as web:
        for query, status, words in (("", 401, "no token"), ("?token=x", 403, "of another server")):
            refusal = await web.get(f"/{query}")
            assert refusal.status_code == status
            assert words in refusal.text and "Open the address that the server has printed" in refusal.text
            assert TOKEN not in refusal.text


# ----- who may come in


@scenario
async def test_only_the_token_lets_in(canvas, app):
    page = await Page(app).knock()
    assert page.heard("accepted")
    for token in ("", "x", TOKEN + "x", "\ud800", 7, None, {}):
        page = await Page(app).knock(token)
        assert (page.code, page.messages) == (4401, []) and "printed" in page.reason, token
    page = Page(app)
    page.write("{")
    await page.until(lambda: page.code)
    assert page.code == 4401


def test_who_says_nothing_is_sent_away(monkeypatch):
    monkeypatch.setattr(server, "TOKEN_SECONDS", 0.05)

    @scenario
    async def test(canvas, app):
        page = Page(app)
        await page.until(lambda: page.code)
        assert page.code == 4401

    test()


@scenario
async def test_pages_of_other_hosts_are_refused_in_words(canvas, app):
    for origin in ("https://evil.example", None, "null"):
        page = await Page(app, origin=origin).knock()
        assert (page.code, page.messages) == (4403, []) and "X-Forwarded-Host" in page.reason
        assert len(page.reason.encode()) <= 123, "no more fits into a close frame"
    proxy = [("x-forwarded-host", "lab.example.org")]
    assert (await Page(app, origin="https://lab.example.org", headers=proxy).knock()).heard("accepted")
    assert (await Page(app, path="/elsewhere").knock()).code == 4403


@scenario
async def test_messages_are_bounded(canvas, app):
    page = await Page(app).show()
    await page.until(lambda: page.heard("welcome"))
    page.write(json.dumps({"type": "hello", "view": "large", "text": "x" * 2**20}))
    page.write("[" * 100_000)
    page.write("no JSON")
    page._events.put_nowait({"type": "websocket.receive", "bytes": b"binary"})
    page.event("pointer_move", x=1, y=1)
    await page.until(page._events.empty)
    assert page.code is None, "what makes no sense is ignored"
    for _ in range(2 * server.MESSAGES_PER_SECOND_MAX + 2):  # so that one second has too many
        page.write("{}")
    await page.until(lambda: page.code)
    assert page.code == 4429 and "too many messages" in page.reason
    assert not canvas._rfb_roads._alone, "and it is forgotten"


@scenario
async def test_so_many_pages_and_no_more(canvas, app):
    pages = [await Page(app).knock() for _ in range(server.CONNECTIONS_MAX)]
    refused = await Page(app).knock()
    assert refused.code == 4429 and "close one" in refused.reason
    pages[0].leave()
    await pages[0].task
    assert (await Page(app).knock()).heard("accepted")


@pytest.mark.parametrize("wrong", [{"canvas": "canvas"}, {"token": 7}, {"token": ""}])
def test_bad_arguments_say_what_is_wrong(wrong):
    canvas = wrong.get("canvas") or make(live=True)
    with pytest.raises((TypeError, ValueError), match=r"RenderCanvas|token"):
        asgi_app(canvas, token=wrong.get("token"))


# ----- the conversation


@scenario
async def test_a_page_gets_the_traits_the_picture_and_what_is_for_all(canvas, app):
    page = await Page(app).show(120, 90)
    await page.until(lambda: page.frames)
    state = page.heard("state")[0]["state"]
    assert state["_title"] == "" and state["_cursor"] == "default"
    assert not {"_esm", "_css", "layout"} & set(state), "the page has its files"
    header, file = page.frames[0]
    assert simplejpeg.decode_jpeg(file).shape == (90, 120, 3)
    assert header["type"] == "frame" and not page.heard("welcome")[0].get("road")
    canvas.set_cursor("crosshair")
    await page.until(lambda: len(page.heard("state")) > 1)
    assert page.heard("state")[1]["state"] == {"_cursor": "crosshair"}
    canvas._rfb_pages.set_badge("draw", "it failed")
    await page.until(lambda: page.heard("error"))
    canvas.show_stats = True
    canvas.request_draw()
    await page.until(lambda: page.heard("stats"))
    page.say(type="decoder", name="browser")
    await page.until(lambda: "by websocket" in canvas.describe())
    canvas.close()
    await page.until(lambda: page.code)
    assert page.code == 1000 and page.messages[-1] == {"type": "closed"}
    assert canvas.comm is None, "no page needs the widget any more"
    late = await Page(app).knock()
    await late.until(lambda: late.code)
    assert late.code == 1000 and late.heard("closed")


@scenario
async def test_a_page_of_another_version_and_one_that_was_forgotten_are_told(canvas, app):
    other = await Page(app).show(version=99)
    await other.until(lambda: other.heard("error"))
    assert other.heard("error")[0]["code"] == "version" and not other.heard("welcome")
    page = await Page(app).show()
    await page.until(lambda: page.frames)
    canvas._rfb_pages.forget(page.view)
    page.say(type="visibility", visible=True)
    await page.until(lambda: page.heard("again"))


@scenario
async def test_nothing_is_drawn_while_nobody_looks(canvas, app):
    await asyncio.sleep(0.1)
    page = await Page(app).show()
    await page.until(lambda: page.frames)
    draws = canvas.draws
    page.leave()
    await page.task
    canvas.request_draw()
    await asyncio.sleep(0.2)
    assert canvas.draws == draws > 0
    again = await Page(app).show()
    await again.until(lambda: len(again.frames) >= 2)
    assert canvas.draws == draws + 1


@scenario
async def test_of_frames_that_wait_for_a_slow_page_it_gets_the_newest(canvas, app):
    page = await Page(app).show()
    await page.until(lambda: page.frames)
    page.stalled.clear()
    count, draws = len(page.frames), canvas.draws
    for _ in range(4):
        canvas.force_draw()  # whether the page has room or not
        await page.until(lambda: canvas._rfb_encoding == 0)
    await asyncio.sleep(0.05)
    page.stalled.set()
    await page.until(lambda: page.frames and page.frames[-1][0]["id"] == canvas._rfb_frame_id)
    assert canvas.draws >= draws + 4
    assert len(page.frames) - count <= 2, "one may have begun, and the newest"


@scenario
async def test_one_page_is_in_control_and_the_others_watch(canvas, app):
    seen = []
    canvas.add_event_handler(seen.append, "pointer_down", "resize")
    first = await Page(app).show(120, 90)
    await first.until(lambda: first.frames)
    watcher = await Page(app).show(60, 60)
    await watcher.until(lambda: watcher.frames and watcher.heard("control"))
    assert first.in_control and not watcher.in_control
    watcher.event("pointer_down", x=1, y=1, button=1, buttons=[1])
    watcher.event("close")
    await watcher.until(watcher._events.empty)
    await asyncio.sleep(0.1)
    assert canvas.get_physical_size() == (120, 90) and not canvas.get_closed()
    assert simplejpeg.decode_jpeg(watcher.frames[-1][1]).shape == (90, 120, 3)
    assert not [event for event in seen if event["event_type"] == "pointer_down"]

    watcher.say(type="control")
    await first.until(lambda: not first.in_control)
    assert watcher.in_control
    await watcher.until(lambda: watcher.frames[-1][0]["width"] == 60)
    watcher.event("pointer_down", x=1, y=1, button=1, buttons=[1])
    await watcher.until(lambda: any(event["event_type"] == "pointer_down" for event in seen))

    watcher.leave()
    await first.until(lambda: first.in_control)
    await first.until(lambda: first.frames[-1][0]["width"] == 120)


@scenario
async def test_who_comes_again_by_another_websocket_gets_the_picture(canvas, app):
    page = await Page(app).show()
    await page.until(lambda: page.frames)
    page.leave()
    await page.task
    again = Page(app)
    again.view, again.epoch = page.view, page.epoch
    await again.show()
    await again.until(lambda: again.frames)
    assert again.heard("welcome")[0]["epoch"] == 2
    assert len(canvas._rfb_audiences) == 1


@scenario
async def test_mounted_under_a_prefix(canvas, app):
    fast = FastAPI()
    fast.mount("/plots/cube", app)
    for site in Starlette(routes=[Mount("/plots/cube", app)]), fast:
        async with client(site) as web:
            moved = await web.get("/plots/cube", params={"token": TOKEN})
            assert moved.status_code == 307 and moved.next_request.url.path == "/plots/cube/"
            assert (await web.get(moved.next_request.url)).status_code == 200
            assert (await web.get("/plots/cube/widget.js")).status_code == 200
            assert (await web.get("/plots/cube/nothing")).status_code == 404
        page = await Page(site, path="/plots/cube/websocket").show()
        await page.until(lambda page=page: page.frames)


@scenario
async def test_behind_a_proxy_that_leaves_its_prefix(canvas, app):
    async with client(app) as web:
        assert (await web.get("/lab/cube/", params={"token": TOKEN})).status_code == 200
        assert (await web.get("/lab/cube/page.js")).status_code == 200
    assert (await Page(app, path="/lab/cube/websocket").knock()).heard("accepted")


@scenario
async def test_on_its_own_under_a_prefix(canvas, app):
    """As with uvicorn's --root-path, where nobody else adds the slash."""
    transport = httpx.ASGITransport(app, root_path="/plots/cube")
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as web:
        moved = await web.get("/plots/cube?token=a%26b")
        assert str(moved.next_request.url) == "http://localhost/plots/cube/?token=a%26b"
        assert (await web.get("/plots/cube/page.js")).status_code == 200


def test_a_live_canvas_is_served_from_another_thread():
    async def run():
        canvas = make(live=True)
        page = await Page(asgi_app(canvas, token=TOKEN)).show()
        await page.until(lambda: len(page.frames) >= 1)
        canvas.close()
        await page.until(lambda: page.code == 1000)

    asyncio.run(run())


# ----- serve()


def test_serve_says_what_is_wrong():
    canvas = make(live=True)  # others would wait for the first loop to run, for good
    with pytest.raises(ValueError, match="port must be"):
        rfb_gpu.serve(canvas, port=70000)
    with pytest.raises(OSError, match=r"nothing can listen on 192\.0\.2\.1, port 0"):
        rfb_gpu.serve(canvas, host="192.0.2.1", port=0)


def test_serve_needs_uvicorn_and_says_so(monkeypatch):
    monkeypatch.delitem(sys.modules, "rfb_gpu.server.run", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ImportError, match=r"pip install 'rfb_gpu\[server\]'"):
        rfb_gpu.serve(make(live=True))


@pytest.mark.parametrize("live", [False, True])
def test_where_an_event_loop_runs_serve_returns_and_goes_on_until_the_canvas_is_closed(live, capsys):
    """As in a notebook. The canvas draws where it did; a live one also while the loop stands still."""

    def visit(url):
        socket = url.replace("http", "ws").replace("/?", "/websocket?")
        with websockets.sync.client.connect(socket, origin=url.split("/?")[0]) as page:
            said = {"view": "a", "epoch": 1}
            size = {"width": 120, "height": 90, "pwidth": 120, "pheight": 90, "ratio": 1}
            resize = {"type": "resize", "timestamp": 0.0, **size}
            page.send(json.dumps({"token": url.split("token=")[1]}))
            for seq, message in enumerate(
                [
                    {"type": "hello", "version": 1, "dpr": 1.0, "capabilities": {}},
                    {"type": "event", "event": resize},
                    {"type": "visibility", "visible": True},
                ]
            ):
                page.send(json.dumps({**said, "seq": seq, **message}))
            while isinstance(page.recv(SECONDS), str):
                pass  # until the first frame

    async def run():
        canvas = make(live=live)
        threads = set()
        canvas.add_event_handler(lambda event: threads.add(threading.current_thread()), "before_draw")
        rfb_gpu.serve(canvas, port=0)
        url = re.search(r"http\S+", capsys.readouterr().out).group()
        if live:
            with ThreadPoolExecutor(1) as thread:
                thread.submit(visit, url).result()  # as while a cell runs
        else:
            await asyncio.to_thread(visit, url)
        assert threads == {canvas._rfb_thread}
        canvas.close()
        for _ in range(100):
            if all(thread.name != "rfb_gpu server" for thread in threading.enumerate()):
                return
            await asyncio.sleep(0.1)
        raise AssertionError("the server goes on")

    asyncio.run(run())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_serve_and_the_program_goes_on(number):
    program = (
        "import signal, rfb_gpu\n"
        "canvas = rfb_gpu.RenderCanvas()\n"
        "before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]\n"
        "rfb_gpu.serve(canvas, port=0)\n"
        "assert before == [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]\n"
        "print('on it goes')\n"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", program], cwd=HERE.parent, **pipes) as process:
        process.stdout.readline()
        time.sleep(0.7)
        process.send_signal(number)
        assert process.communicate(timeout=10) == ("on it goes\n", "")
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("canvas", "say module:canvas or file.py:canvas"),
        ("nowhere.py:canvas", "there is no file nowhere.py"),
        ("no_such_module:canvas", "there is no module no_such_module"),
        ("tests.conftest:canvas", "tests.conftest has no canvas"),
        ("tests.conftest:HERE.name", "a RenderCanvas can be served, not 'tests'"),
    ],
)
def test_the_command_line_says_what_is_wrong(monkeypatch, capsys, target, says):
    from rfb_gpu.__main__ import main

    monkeypatch.setattr(sys, "argv", ["rfb_gpu", "serve", target])
    with pytest.raises(SystemExit):
        main()
    assert says in capsys.readouterr().err


def test_to_other_machines_with_a_warning_and_until_the_canvas_is_closed(tmp_path):
    (tmp_path / "plot.py").write_text(
        "import asyncio, rfb_gpu\n"
        "from rendercanvas.asyncio import loop\n"
        "canvas = rfb_gpu.RenderCanvas()\n"
        "async def later():\n    await asyncio.sleep(0.5)\n    canvas.close()\n"
        "loop.add_task(later)\n"
    )
    command = [sys.executable, "-m", "rfb_gpu", "serve", str(tmp_path / "plot.py") + ":canvas"]
    done = subprocess.run(
        [*command, "--host", "0.0.0.0", "--port", "0", "--token", "a&b"],
        capture_output=True,
        text=True,
        cwd=HERE.parent,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"The canvas is at http://[\w.-]+:\d+/\?token=a%26b until Ctrl-C\.\n", done.stdout)
    assert done.stderr.count("\n") == 1 and "0.0.0.0 lets other machines in" in done.stderr
