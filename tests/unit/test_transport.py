"""The websocket server, asked by a client that is not ours: who may come in, what arrives, and what a stalled page costs."""

from __future__ import annotations

import builtins
import contextlib
import json
import queue
import socket
import struct
import threading
import time
from functools import partial

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from rfb_gpu import transport
from rfb_gpu.roads import Roads
from rfb_gpu.transport import TransportError, frame_pieces, open_road, origin_is_trusted

HERE = "http://localhost:8888"
SECONDS = 10
RIGHT = object()

clients = contextlib.ExitStack()


@pytest.fixture(autouse=True)
def _end_clients():
    yield
    clients.close()


class Canvas:
    """What a canvas has of the server, with queues for what it is told."""

    def __init__(self):
        self.messages, self.lost = queue.Queue(), queue.Queue()
        self.road = open_road(lambda *said: self.messages.put(said), self.lost.put)

    def dial(self, token=RIGHT, origin=HERE, headers=None, **options):
        """A page's websocket that has said a token, without it the right one."""
        client = self.knock(origin=origin, additional_headers=headers, max_size=None, **options)
        client.send(json.dumps({"type": "token", "token": self.road.token if token is RIGHT else token}))
        return client

    def knock(self, origin=HERE, **options):
        """A websocket that has said nothing."""
        url = f"ws://127.0.0.1:{self.road.port}/"
        return clients.enter_context(connect(url, origin=origin, close_timeout=1, **options))

    def page(self, **options):
        """A page that was let in, and the link to it."""
        client = self.dial(**options)
        assert json.loads(client.recv(SECONDS)) == {"type": "accepted"}
        client.send('{"type": "hello"}')
        content, link = self.messages.get(timeout=SECONDS)
        assert content == {"type": "hello"}
        return client, link


@pytest.fixture
def canvas():
    made = Canvas()
    yield made
    made.road.close()
    wait_until(lambda: not listens(made.road.port))


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(condition):
    give_up = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def server_threads():
    return [thread for thread in threading.enumerate() if thread.name == "rfb_gpu websocket"]


def close_code(client):
    with pytest.raises(ConnectionClosed) as closed:
        client.recv(SECONDS)
    return closed.value.rcvd.code


# ----- who may come in


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost",
        "https://localhost:8888",
        "http://127.0.0.1:2718",
        "http://[::1]:8888",
        "HTTP://LOCALHOST",
        "vscode-webview://1a2b3c4d",
        "https://hub.example.org",
        "https://inner.example.org:8000",
    ],
)
def test_pages_of_this_machine_and_of_the_notebooks_host_may_knock(origin):
    assert origin_is_trusted(origin, ["Hub.Example.org, proxy.example.org", "inner.example.org:8000"])


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "",
        "null",
        "https://evil.example",
        "https://localhost.evil.example",
        "https://proxy.example.org",
        "https://hub.example.org.evil.example",
        "file:///home/ada/page.html",
        "ftp://localhost",
        "http://",
        "http://[",
        "localhost",
    ],
)
def test_other_pages_may_not(origin):
    assert not origin_is_trusted(origin, ["hub.example.org, proxy.example.org", "[", ""])


def test_the_server_looks_at_the_headers(canvas):
    for origin, headers in [("https://evil.example", None), (None, None), (HERE, {"Origin": HERE})]:
        with pytest.raises(InvalidStatus, match="403"):
            canvas.dial(origin=origin, headers=headers)
    behind_a_proxy = {"X-Forwarded-Host": "hub.example.org"}
    client, _ = canvas.page(origin="https://hub.example.org", headers=behind_a_proxy)
    client.close()


def test_only_a_known_token_lets_in(canvas):
    assert len(canvas.road.token) * 6 >= 128, "bits"
    for token in (
        "",
        "x" * len(canvas.road.token),
        canvas.road.token + "x",
        "\ud800ü",
        7,
        None,
        [],
        {},
    ):
        client = canvas.dial(token=token)
        assert close_code(client) == 4401
    for first in ("{", "[]", "null", "7", b"bytes", '{"type": "hello"}', "[" * 100_000):
        client = canvas.knock()
        client.send(first)
        assert close_code(client) == 4401
    assert canvas.messages.empty()
    assert canvas.lost.empty()
    client, _ = canvas.page()
    client.close()


def test_a_stranger_who_says_nothing_is_shown_out(canvas, monkeypatch):
    monkeypatch.setattr(transport, "TOKEN_SECONDS", 0.2)
    client = canvas.knock()
    assert close_code(client) == 4401


def test_each_canvas_has_a_token_of_its_own_and_its_own_pages(canvas):
    other = Canvas()
    assert other.road.port == canvas.road.port, "one server"
    assert other.road.token != canvas.road.token
    assert len(server_threads()) == 1
    theirs, _ = other.page()
    ours, link = canvas.page()
    link.send({"type": "closed"})
    assert json.loads(ours.recv(SECONDS)) == {"type": "closed"}
    other.road.close()
    assert close_code(theirs) == 1000
    client = canvas.dial(token=other.road.token)
    assert close_code(client) == 4401, "the token went with its canvas"
    assert listens(canvas.road.port), "one canvas is left"
    ours.send('{"type": "ack"}')
    assert canvas.messages.get(timeout=SECONDS)[0] == {"type": "ack"}


# ----- what goes over it


def test_messages_arrive_in_order_on_another_thread_and_nonsense_does_not(canvas):
    client, _ = canvas.page()
    for text in ("{", b'{"type": "ack"}', "[" * 100_000, *(json.dumps({"seq": seq}) for seq in range(200))):
        client.send(text)
    assert [canvas.messages.get(timeout=SECONDS)[0] for _ in range(200)] == [{"seq": s} for s in range(200)]
    client.send("x" * (transport.MESSAGE_MAX_BYTES + 1))
    assert close_code(client) == 1009
    canvas.lost.get(timeout=SECONDS)
    assert canvas.messages.empty()


@pytest.mark.parametrize("size", [0, 1, transport.PIECE_BYTES, 2 * transport.PIECE_BYTES + 7])
def test_a_frame_is_one_message_of_a_header_and_its_file(canvas, size):
    client, link = canvas.page()
    file = bytes(index * 7 % 251 for index in range(size))
    link.send_frame({"type": "frame", "id": 3, "title": "Würfel"}, file)
    data = client.recv(SECONDS)
    (length,) = struct.unpack_from("<I", data)
    assert json.loads(data[4 : 4 + length]) == {"type": "frame", "id": 3, "title": "Würfel"}
    assert data[4 + length :] == file
    client.close()


def test_a_frames_end_waits_for_nothing(canvas):
    """Nagle's algorithm holds it back until the page's system acknowledges what went before, 40 ms later on Linux."""
    client, link = canvas.page()
    delays = []
    for number in range(40):
        began = time.perf_counter()
        link.send_frame({"type": "frame", "id": number}, bytes(60_000))
        client.recv(SECONDS)
        delays.append(time.perf_counter() - began)
        time.sleep(0.01)
    assert sorted(delays)[len(delays) * 3 // 4] < 0.02
    sock = link._socket._connection.transport.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    client.close()


def test_the_file_is_not_copied():
    file = bytes(3 * transport.PIECE_BYTES)
    pieces = frame_pieces({"type": "frame"}, file)[1:]
    assert [type(piece) for piece in pieces] == [memoryview] * 3
    assert all(piece.obj is file for piece in pieces)


def read_frames(client):
    """The ids of what comes, up to a frame of id -1."""
    ids = []
    while not ids or ids[-1] != -1:
        data = client.recv(SECONDS)
        (length,) = struct.unpack_from("<I", data)
        ids.append(json.loads(data[4 : 4 + length])["id"])
    return ids


def test_a_stalled_page_holds_one_frame_that_has_begun_and_the_newest(canvas):
    client, link = canvas.page(max_queue=1)
    file = bytes(32 * 2**20)  # more than the sockets of both ends hold
    began = time.monotonic()
    for number in range(50):
        link.send_frame({"id": number}, file)
        if number == 0:
            wait_until(link._socket._connection.transport.get_write_buffer_size)  # it has begun
    assert time.monotonic() - began < 2, "the sender was never held up"
    link.send({"type": "error"})
    wait_until(lambda: len(link._outbox) == 2)
    assert [isinstance(item, str) for item in link._outbox] == [False, True]
    data = client.recv(SECONDS)
    assert b'"id":0}' in data[:40]
    assert b'"id":49}' in client.recv(SECONDS)[:40], "the newest, none between"
    assert json.loads(client.recv(SECONDS)) == {"type": "error"}
    link.send_frame({"id": -1}, b"")
    assert read_frames(client) == [-1]


def test_who_sends_a_frame_hears_when_the_system_has_it(canvas):
    """All of it, however much the library would keep back; of a frame that was never sent, nothing."""
    client, link = canvas.page(max_queue=1)
    stream, written = link._socket._connection.transport, queue.Queue()
    for number in range(4):
        link.send_frame({"id": number}, bytes(32 * 2**20), partial(written.put, number))
        if number == 0:
            wait_until(stream.get_write_buffer_size)  # it has begun
    time.sleep(0.1)
    assert written.empty(), "the page has read nothing, and the sockets hold less"
    for _ in range(2):
        client.recv(SECONDS)
    assert [written.get(timeout=SECONDS) for _ in range(2)] == [0, 3]
    assert stream.get_write_buffer_limits() == (0, 0), "writers wait while a byte is left"
    client.close()
    canvas.lost.get(timeout=SECONDS)
    assert written.empty()


def test_a_stalled_page_that_is_told_too_much_is_given_up(canvas):
    client, link = canvas.page(max_queue=1)
    link.send_frame({"id": 0}, bytes(32 * 2**20))
    for _ in range(2 * transport.WAITING_MAX):
        link.send({"type": "error"})
    assert canvas.lost.get(timeout=SECONDS) is link
    client.close()


# ----- how it ends


def test_a_page_that_goes_is_lost_once(canvas):
    client, link = canvas.page()
    client.close()
    assert canvas.lost.get(timeout=SECONDS) is link
    client, link = canvas.page()
    link.drop()
    assert canvas.lost.get(timeout=SECONDS) is link
    link.send({"type": "closed"})  # to nobody, without an error
    link.drop()
    with pytest.raises(ConnectionClosed):
        client.recv(SECONDS)
    assert canvas.lost.empty()


def test_the_last_words_arrive_and_then_nothing_listens():
    canvas = Canvas()
    client, link = canvas.page()
    link.send_frame({"id": 1}, bytes(2**20))
    link.send({"type": "closed"})
    canvas.road.close()
    canvas.road.close()
    assert len(client.recv(SECONDS)) > 2**20
    assert json.loads(client.recv(SECONDS)) == {"type": "closed"}
    assert close_code(client) == 1000
    wait_until(lambda: not listens(canvas.road.port) and not server_threads())
    again = Canvas()
    client, _ = again.page()
    again.road.close()
    assert close_code(client) == 1000
    wait_until(lambda: not server_threads())


def test_a_stalled_page_does_not_hold_up_the_end():
    canvas = Canvas()
    client, link = canvas.page(max_queue=1)
    link.send_frame({"id": 1}, bytes(32 * 2**20))
    canvas.knock()
    began = time.monotonic()
    canvas.road.close()
    wait_until(lambda: not server_threads())
    assert time.monotonic() - began < 5
    client.close()


def test_it_listens_on_one_loopback_address_only(canvas):
    addresses = [
        "127.0.0.2"
    ]  # of this machine too, on Linux: a server that listens on all addresses would answer there
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # sends nothing; tells this machine's own address, if it has one
        addresses.append(probe.getsockname()[0])
    assert listens(canvas.road.port)
    for address in addresses:
        with socket.socket() as knock:
            knock.settimeout(2)
            assert knock.connect_ex((address, canvas.road.port)) != 0, address


# ----- one canvas's roads


class Listener:
    def __init__(self):
        self.written = []

    def on_message(self, content, link):
        pass

    def on_lost(self, link):
        pass

    def on_written(self, frame, link):
        self.written.append((frame, link))


def make_roads(transport="auto"):
    listener = Listener()
    return Roads(transport, listener.on_message, listener.on_lost, listener.on_written), listener


class FakeLink:
    def __init__(self):
        self.frames, self.messages = [], []

    def send_frame(self, message, file, on_written):
        self.frames.append((message, file))
        on_written()

    def send(self, message):
        self.messages.append(message)


def test_a_frame_goes_by_a_websocket_or_once_over_the_comm():
    roads, listener = make_roads()
    comm, link = [], FakeLink()
    roads.begin("a", None, "JupyterLab")
    roads.begin("b", None, "JupyterLab")
    roads.begin("c", link, "JupyterLab")
    message, file = {"type": "frame", "id": 7}, b"file"
    roads.send(message, file, None, lambda *sent: comm.append(sent))
    assert comm == [(message, [file])]
    assert link.frames == []
    roads.send(message, file, link, lambda *sent: comm.append(sent))
    assert (len(comm), link.frames, listener.written) == (1, [(message, file)], [(7, link)])
    assert roads.views_of(link) == ["c"]


def test_vs_code_gets_text_over_the_comm():
    roads, _ = make_roads()
    comm = []
    roads.begin("a", None, "VS Code")
    roads.send({"type": "frame"}, b"\xff\xd8\xff", None, lambda *sent: comm.append(sent))
    assert comm == [({"type": "frame", "data": "/9j/"},)]


def test_comm_opens_nothing():
    roads, _ = make_roads("comm")
    roads.begin("a", None, "")
    assert roads.offer() is None
    assert not server_threads()
    assert roads.describe("a") == "over the comm (asked for)"
    assert roads.complaint("a") is None


@pytest.mark.parametrize("choice", ["auto", "websocket"])
def test_a_missing_library_leaves_the_comm_and_says_so(monkeypatch, choice):
    real_import = builtins.__import__

    def without(name, *args):
        if name.startswith("websockets"):
            raise ImportError(f"No module named {name!r}")
        return real_import(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    roads, _ = make_roads(choice)
    roads.begin("a", None, "")
    assert roads.offer() is None
    assert "pip install 'websockets" in roads.describe("a")
    complaint = roads.complaint("a")
    assert complaint is None if choice == "auto" else "pip install 'websockets" in complaint
    roads.close()


def test_no_loopback_leaves_the_comm_and_says_so(monkeypatch):
    def refuse(address):
        raise OSError(f"cannot bind {address}")

    monkeypatch.setattr(socket, "create_server", refuse)
    with pytest.raises(TransportError, match=r"127\.0\.0\.1"):
        Canvas()
    roads, _ = make_roads()
    roads.begin("a", None, "")
    assert roads.offer() is None
    assert "nothing can listen on 127.0.0.1" in roads.describe("a")


def test_a_page_that_stays_with_the_comm_says_why_and_complains_only_if_asked():
    for choice, complains in (("auto", False), ("websocket", True)):
        roads, _ = make_roads(choice)
        roads.begin("a", None, "")
        assert not roads.complaint("a"), "nothing is known yet"
        roads.explain("a", "ws://127.0.0.1:1/ refused")
        assert roads.describe("a") == "over the comm (ws://127.0.0.1:1/ refused)"
        complaint = roads.complaint("a")
        assert bool(complaint) == complains
        if complains:
            assert "ws://127.0.0.1:1/ refused" in complaint and "jupyter-server-proxy" in complaint
        roads.begin("a", FakeLink(), "")
        assert roads.describe("a") == "by websocket"
        assert not roads.complaint("a")


def test_roads_do_not_keep_their_canvas_and_close_with_it():
    roads, listener = make_roads()
    offer = roads.offer()
    assert roads.offer() == offer
    assert set(offer) == {"port", "token", "proxy"}
    link = FakeLink()
    roads.begin("a", link, "")
    client = clients.enter_context(connect(f"ws://127.0.0.1:{offer['port']}/", origin=HERE))
    client.send(json.dumps({"token": offer["token"]}))
    client.recv(SECONDS)
    del listener
    client.send('{"type": "hello"}')  # to nobody, without an error
    roads.close()
    assert link.messages == [{"type": "closed"}]
    assert close_code(client) == 1000
    assert roads.offer() is None
    wait_until(lambda: not server_threads())
