"""A thin link on one machine: a TCP proxy with a bit rate and a one-way delay for each direction, which can change while it runs.

    with running_shaper("127.0.0.1", 8888) as shaper:
        shaper.shape(2e6, 0.1)
        ...  # connect to 127.0.0.1:shaper.port

All connections share the link's rate. What waits for the link stands in one queue for each direction, in the order in which it
came; when the queue is full, the proxy stops reading, so that the sender is held up by its own TCP, as behind a router. The proxy's
own sockets hold little besides; what the sender's kernel keeps in its send buffer (Linux: up to 4 MB) it keeps before any link.

It never loses, reorders or looks at a byte. TCP ends at the proxy: what TCP itself does over a long way (slow start,
retransmission, Nagle's wait for an acknowledgement) is not in it. Times are those of an event loop, right within a few ms.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator

__all__ = ["Direction", "Shaper", "running_shaper"]

BUFFER_BYTES = 256_000
SEGMENT_BYTES = 1448
"""What Ethernet carries; loopback's segments of 64 kB would let a sender have many of them on the way."""
RECEIVE_BYTES = 16_384
CHUNK_SECONDS = 0.002
MAX_CHUNK_BYTES = 65_536

_Item = tuple[float, bytes, Callable[[bytes], None]]
"""When it came, or when it is due; what; and how to hand it over, of which no bytes are the end."""


class Direction:
    """One direction of the link.

    Arguments:
        buffer: bytes that may wait for the link; more wait at the sender.

    Attributes:
        rate: bits per second; ``math.inf``: as fast as the machine.
        delay: seconds that each byte is on its way after the link took it.
        carried: bytes that have passed since the start.
        waiting: bytes that wait for the link now.
    """

    def __init__(self, buffer: int = BUFFER_BYTES) -> None:
        self.buffer = buffer
        self.rate = math.inf
        self.delay = 0.0
        self.carried = self.waiting = 0
        self._queue: asyncio.Queue[_Item] = asyncio.Queue()
        self._on_the_way: asyncio.Queue[_Item] = asyncio.Queue()
        self._stopped: deque[tuple[int, asyncio.Future[None]]] = deque()  # bytes that want to enter

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Takes what a connection sends, until its end has arrived on the other side."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def hand_over(data: bytes) -> None:
            if data and not writer.is_closing():
                writer.write(data)
            elif not data and not ended.done():
                if writer.can_write_eof() and not writer.is_closing():
                    writer.write_eof()
                ended.set_result(None)

        data = b"-"
        while data:
            data = await reader.read(self._chunk_size())
            await self._take_place(len(data))
            self._queue.put_nowait((loop.time(), data, hand_over))
            await writer.drain()  # a receiver that does not read holds up its own sender only
        await ended

    async def transmit(self) -> None:
        """Puts one chunk after the other on the link, at its rate."""
        free_at = 0.0
        while True:
            came_at, data, hand_over = await self._queue.get()
            # Not from now: a timer that was late must not make the link slower.
            free_at = max(free_at, came_at) + 8 * len(data) / self.rate
            await _sleep_until(free_at)
            self.waiting -= len(data)
            self.carried += len(data)
            self._on_the_way.put_nowait((free_at + self.delay, data, hand_over))
            self._admit()

    async def deliver(self) -> None:
        """Hands over what arrives, in order: what is sent after the delay became shorter overtakes nothing."""
        while True:
            due, data, hand_over = await self._on_the_way.get()
            await _sleep_until(due)
            with contextlib.suppress(OSError):  # the connection is gone
                hand_over(data)

    async def _take_place(self, size: int) -> None:
        """Waits for room in the queue, behind all who wait already."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stopped.append((size, turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.waiting -= size  # it was let in, and does not come
                self._admit()
            raise

    def _admit(self) -> None:
        while self._stopped and self.waiting < self.buffer:
            size, turn = self._stopped.popleft()
            if not turn.done():
                # Counted here, or one who comes between would go first.
                self.waiting += size
                turn.set_result(None)

    def _chunk_size(self) -> int:
        """Small enough to be on the link for a short time, so that connections take turns."""
        size = self.rate / 8 * CHUNK_SECONDS
        return int(min(max(size, SEGMENT_BYTES), MAX_CHUNK_BYTES))


class Shaper:
    """The proxy; it runs between :meth:`start` and :meth:`close`, on the running event loop.

    Arguments:
        host, port: where to connect to for each connection that comes in.
        buffer: see :class:`Direction`.

    Attributes:
        up: from those who connect to ``host``.
        down: the other way.
        port: of 127.0.0.1, where the proxy listens.
    """

    def __init__(self, host: str, port: int, buffer: int = BUFFER_BYTES) -> None:
        self.up, self.down = Direction(buffer), Direction(buffer)
        self.port = 0
        self._target = host, port
        self._tasks: set[asyncio.Task[None]] = set()

    def shape(self, rate: float = math.inf, delay: float = 0.0) -> None:
        """Sets both directions, from now on. May be called from any thread.

        Arguments:
            rate: bits per second.
            delay: seconds each way.

        Raises:
            ValueError: no link can be like that.
        """
        if not rate > 0:
            raise ValueError(f"rate must be more than 0 bits per second, not {rate!r}")
        if not 0 <= delay < math.inf:
            raise ValueError(f"delay must be a number of seconds from 0, not {delay!r}")
        for direction in (self.up, self.down):
            direction.rate, direction.delay = rate, delay

    async def start(self) -> None:
        """Begins to listen."""
        listening = _small_socket()
        listening.bind(("127.0.0.1", 0))
        self._server = await asyncio.start_server(self._connect, sock=listening, limit=RECEIVE_BYTES)
        self.port = listening.getsockname()[1]
        for direction in (self.up, self.down):
            for work in (direction.transmit(), direction.deliver()):
                self._tasks.add(asyncio.create_task(work))

    async def close(self) -> None:
        """Ends all connections; what is on its way is lost."""
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        writers = [writer]
        try:
            outgoing = _small_socket()
            outgoing.setblocking(False)
            await asyncio.get_running_loop().sock_connect(outgoing, self._target)
            far_reader, far_writer = await asyncio.open_connection(sock=outgoing, limit=RECEIVE_BYTES)
            writers.append(far_writer)
            ways = [
                asyncio.ensure_future(self.up.carry(reader, far_writer)),
                asyncio.ensure_future(self.down.carry(far_reader, writer)),
            ]
            try:
                await asyncio.gather(*ways)
            finally:
                for way in ways:
                    way.cancel()
        except (OSError, asyncio.CancelledError):
            pass  # one side is gone, or the proxy ends: the other shall see it
        finally:
            self._tasks.discard(task)
            for each in writers:
                each.close()


@contextlib.contextmanager
def running_shaper(host: str, port: int, buffer: int = BUFFER_BYTES) -> Iterator[Shaper]:
    """A shaper in a thread of its own, so that its times are right whatever the caller does."""
    shaper = Shaper(host, port, buffer)
    started: threading.Event = threading.Event()
    failure: list[BaseException] = []
    ended: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def run() -> None:
        end = asyncio.Event()
        await shaper.start()
        ended.append((asyncio.get_running_loop(), end))
        started.set()
        await end.wait()
        await shaper.close()

    def work() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            failure.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=work, name="shaper", daemon=True)
    thread.start()
    started.wait()
    try:
        if failure:
            raise failure[0]
        yield shaper
    finally:
        for loop, end in ended:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(end.set)
        thread.join(10)
    if failure:
        raise failure[0]


def _small_socket() -> socket.socket:
    small = socket.socket()
    small.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    small.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
    return small


async def _sleep_until(when: float) -> None:
    loop = asyncio.get_running_loop()
    while (seconds := when - loop.time()) > 0:
        await asyncio.sleep(seconds)
