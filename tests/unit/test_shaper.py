"""The shaping proxy of the benchmarks, with plain sockets and this machine's clock."""

from __future__ import annotations

import contextlib
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from benchmarks.shaper import running_shaper

pytestmark = pytest.mark.flaky(reruns=2)  # measures time


@contextlib.contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of a server that calls `answer` for each connection, in a thread, and then closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                answer(connection)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    threading.Thread(target=serve, args=[connection], daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def echo(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := connection.recv(65536):
        connection.sendall(data)


def read_all(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65536), b""))


def round_trip(connection: socket.socket) -> float:
    began = time.perf_counter()
    connection.sendall(b"x")
    assert connection.recv(1) == b"x"
    return time.perf_counter() - began


def test_a_round_trip_takes_both_delays():
    with (
        server(echo) as port,
        running_shaper("127.0.0.1", port) as shaper,
        connect(shaper.port) as connection,
    ):
        assert statistics.median(round_trip(connection) for _ in range(5)) < 0.01
        shaper.shape(20e6, 0.04)
        trips = [round_trip(connection) for _ in range(9)]
        assert min(trips) >= 0.08
        assert statistics.median(trips) < 0.088
        shaper.shape()
        assert statistics.median(round_trip(connection) for _ in range(5)) < 0.01


@pytest.mark.parametrize("rate", [2e6, 20e6])
def test_bytes_come_at_the_rate_and_unchanged(rate):
    sent = bytes(i * i % 251 for i in range(251)) * int(rate / 8 * 0.6 / 251)
    with server(lambda c: c.sendall(sent)) as port, running_shaper("127.0.0.1", port) as shaper:
        shaper.shape(rate)
        began = time.perf_counter()
        with connect(shaper.port) as connection:
            received = read_all(connection)
        seconds = time.perf_counter() - began
        assert received == sent
        assert seconds == pytest.approx(0.6, abs=0.04)
        assert shaper.down.carried == len(sent)


def test_connections_share_the_rate():
    sent = bytes(100_000)
    # A short queue, or one connection's bytes could all stand in it before the other's.
    with server(lambda c: c.sendall(sent)) as port, running_shaper("127.0.0.1", port, 10_000) as shaper:
        shaper.shape(4e6)
        began = time.perf_counter()
        ends: list[float] = []

        def fetch() -> None:
            with connect(shaper.port) as connection:
                assert len(read_all(connection)) == len(sent)
            ends.append(time.perf_counter() - began)

        threads = [threading.Thread(target=fetch) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        # Alone, either would be there after 0.2 s.
        assert len(ends) == 2
        assert [end for end in ends if not 0.3 < end < 0.45] == []
        assert max(ends) == pytest.approx(0.4, abs=0.04)


def test_a_full_queue_holds_up_the_sender():
    taken = 0

    def flood(connection: socket.socket) -> None:
        nonlocal taken
        while True:
            taken += connection.send(bytes(10_000))

    with server(flood) as port, running_shaper("127.0.0.1", port, buffer=100_000) as shaper:
        shaper.shape(80e3)  # 10 kB/s
        with connect(shaper.port):
            time.sleep(0.6)
            held_at = taken
            assert held_at > 100_000
            time.sleep(1)
            assert taken - held_at <= 20_000
            assert 100_000 <= shaper.down.waiting <= 102_000


def test_a_link_that_improves_does_so_at_once_and_in_order():
    sent = b"".join(number.to_bytes(4, "big") for number in range(25_000))
    with server(lambda c: c.sendall(sent)) as port, running_shaper("127.0.0.1", port) as shaper:
        shaper.shape(800e3, 0.3)  # a second for all of it
        began = time.perf_counter()
        with connect(shaper.port) as connection:
            time.sleep(0.4)
            shaper.shape(80e6, 0.01)
            assert read_all(connection) == sent
        assert 0.5 < time.perf_counter() - began < 0.85


def test_it_serves_on_after_a_connection_broke_off():
    with server(echo) as port, running_shaper("127.0.0.1", port) as shaper:
        shaper.shape(8e6, 0.02)
        broken = connect(shaper.port)
        broken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        broken.sendall(bytes(200_000))
        broken.close()  # a reset, with bytes on both ways
        with connect(shaper.port) as connection:
            connection.sendall(b"y" * 1000)
            connection.shutdown(socket.SHUT_WR)
            assert read_all(connection) == b"y" * 1000


def test_impossible_links_are_refused():
    with server(echo) as port, running_shaper("127.0.0.1", port) as shaper:
        for rate, delay in ((0, 0), (-1, 0), (float("nan"), 0), (1e6, -0.1), (1e6, float("inf"))):
            with pytest.raises(ValueError, match="must be"):
                shaper.shape(rate, delay)
