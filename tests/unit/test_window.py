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
