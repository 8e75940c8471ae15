"""The frame window: pages and links that a test makes up."""

from statistics import median

import pytest

from rfb_gpu.flow.window import LEAST, MOST, FrameWindow


def stream(window, seconds, page_rate, trip, start=0.0, first=0):
    """A kernel that always fills the window, a page that shows ``page_rate`` a second; gives last frame, time, sizes.

    Frames are answered one by one, ``trip`` seconds after they left, or when the page is done with those before.
    """
    in_flight, sizes, frame, free, now = [], [], first, start, start
    while now < start + seconds:
        while len(in_flight) < window.size:
            frame += 1
            window.sent(frame, now)
            free = max(free + 1 / page_rate, now + trip)
            in_flight.append((frame, free))
        number, now = in_flight.pop(0)
        window.ack(number, now)
        sizes.append(window.size)
    for number, when in in_flight:
        window.ack(number, when)
        now = when
    return frame, now, sizes


@pytest.mark.parametrize("rate, trip", [(60, 0.02), (60, 0.1), (60, 0.25), (30, 0.2), (10, 0.3)])
def test_it_is_what_the_page_shows_in_a_round_trip_and_a_few(rate, trip):
    window = FrameWindow()
    *_, sizes = stream(window, 12, rate, trip)
    assert rate * trip < median(sizes[len(sizes) // 2 :]) <= 1.8 * rate * trip + 3


def test_a_page_that_is_quick_and_near_needs_few():
    window = FrameWindow()
    *_, sizes = stream(window, 3, 60, 0.004)
    assert max(sizes) <= 4


def test_it_has_bounds():
    window = FrameWindow()
    assert window.size == 3
    stream(window, 10, 1, 0.001)
    assert window.size >= LEAST
    stream(window, 60, 500, 1.0, start=100, first=100_000)
    assert window.size == MOST


def test_a_page_farther_away_is_believed_soon():
    window = FrameWindow()
    frame, now, near = stream(window, 5, 60, 0.01)
    *_, far = stream(window, 8, 60, 0.2, start=now, first=frame)
    assert median(near) <= 4
    assert median(far[len(far) // 2 :]) >= 12


def test_frames_that_wait_at_the_page_are_no_longer_way():
    """A browser that handles messages late lets them queue where nothing overtakes: the window must not grow with the queue."""
    window = FrameWindow()
    *_, sizes = stream(window, 120, 10, 0.02)
    assert max(sizes) <= 4


def test_answers_that_come_in_bunches_are_no_quick_page():
    window = FrameWindow()
    now = 0.0
    for frame in range(1, 200):
        window.sent(frame, now)
        now += 0.05
        if frame % 4 == 0:
            for number in range(frame - 3, frame + 1):
                window.ack(number, now)
    assert window.size <= 20 * 0.2 * 1.5 + 2


def test_overtaken_frames_are_not_shown():
    window = FrameWindow()
    now = 0.0
    for frame in range(1, 200, 4):
        for number in range(frame, frame + 4):
            window.sent(number, now)
        now += 0.1
        window.ack(frame + 3, now, dropped=3)
    assert window.size == LEAST


def show_newest(window, seconds, interval, start=0.0, first=0, draws_per_second=60):
    """A page that shows the newest frame every ``interval``; gives how many were drawn and shown, the last frame and the time."""
    now, frame, drawn, shown, at_page = start, first, 0, 0, []
    next_show = start + interval
    while now < start + seconds:
        if now >= window.next_draw and len(at_page) < window.size:
            frame += 1
            drawn += 1
            window.drawn(now)
            window.sent(frame, now)
            at_page.append(frame)
        if now >= next_show:
            next_show += interval
            if at_page:
                shown += 1
                window.ack(at_page[-1], now, dropped=len(at_page) - 1)
                at_page = []
        now += 1 / draws_per_second
    return drawn, shown, frame, now


@pytest.mark.parametrize("interval", [0.05, 0.1, 0.2])
def test_little_more_is_drawn_than_a_slow_page_shows(interval):
    window = FrameWindow()
    _, _, frame, now = show_newest(window, 4, interval)
    drawn, shown, _, _ = show_newest(window, 10, interval, now, frame)
    assert shown >= 0.85 * 10 / interval
    assert drawn <= 1.45 * shown


def test_a_page_that_gets_quicker_is_followed():
    window = FrameWindow()
    _, _, frame, now = show_newest(window, 5, 0.2)
    _, _, frame, now = show_newest(window, 4, 0.04, now, frame)
    _, shown, _, _ = show_newest(window, 4, 0.04, now, frame)
    assert shown >= 0.85 * 4 / 0.04


def test_after_a_pause_the_first_draw_is_not_held_back():
    window = FrameWindow()
    *_, now = show_newest(window, 4, 0.2)
    assert window.next_draw <= now + 10
    window.drawn(now + 10)
    assert window.next_draw <= now + 10


def test_an_acknowledgement_out_of_turn_changes_nothing():
    window = FrameWindow()
    window.ack(7, 1.0)
    window.sent(8, 1.0)
    window.forget()
    window.ack(8, 2.0)
    assert window.size == 3


def test_a_fixed_window_stays():
    window = FrameWindow(5)
    stream(window, 3, 60, 0.5)
    assert window.size == 5
