"""What threads leave for each other, without a canvas."""

import asyncio
import sys
import threading

from rfb_gpu.threads import Mail, Pulse


def test_a_pulse_may_be_answered_at_any_moment():
    """The loop answers on its thread while another one asks."""
    started, stop, errors = threading.Event(), threading.Event(), []
    made = []

    async def turn():
        made.append(Pulse())
        started.set()
        while not stop.is_set():
            await asyncio.sleep(0)

    loop = threading.Thread(target=lambda: asyncio.run(turn()))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    loop.start()
    started.wait()
    try:
        for number in range(200_000):
            try:
                assert not made[0].has_stopped(number * 1e-7)
            except TypeError as error:
                errors.append(error)
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        loop.join()
    assert not errors


def test_a_loop_that_does_not_turn_is_taken_as_stopped():
    async def main():
        pulse = Pulse()
        assert not pulse.has_stopped(0.0)
        assert not pulse.has_stopped(0.2)
        assert pulse.has_stopped(1.0)
        await asyncio.sleep(0)
        assert not pulse.has_stopped(1.1)

    asyncio.run(main())


def test_mail_arrives_in_order_and_once_whoever_writes():
    read, woken = [], []
    mail = Mail(lambda: woken.append(1))
    writers = [
        threading.Thread(target=lambda name=name: [mail.put((name, number)) for number in range(2000)])
        for name in range(3)
    ]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        read += mail.take()
    read += mail.take()
    assert len(read) == 6000
    for name in range(3):
        assert [number for writer, number in read if writer == name] == list(range(2000))
    assert woken
