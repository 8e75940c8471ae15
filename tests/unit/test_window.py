"""The frame window and the rhythm of draws: kernels, links and pages that a test makes up."""

import heapq
import itertools
import json
import math
import random
from pathlib import Path
from statistics import fmean, median

import pytest

from rfb_gpu.flow.window import LEAST, MOST, FrameWindow

REFRESH = 1 / 60
SWITCH_INTERVAL = 0.005  # CPython's default
RECORDED = json.loads((Path(__file__).parent / "data/recorded_links.json").read_text())
"""By link: by how many ms each of 250 frames, one after the other, arrived later than the quickest."""


class Simulation:
    """A kernel that draws whenever it may, and a page that shows the newest frame at each refresh of its display.

    Arguments:
        draw, encode: seconds; draws one after the other, encodings beside them.
        way: seconds to the page and back, in order.
        show: seconds that the page is busy with a frame.
        refresh: of the display; 0: the page shows whenever it is free.
        jitter: all of these are off by up to this share.
        late: what each frame takes longer on its way, in seconds, over and over.
        write: seconds until another thread has written a frame to its socket, which the kernel hears of. A draw that begins
            meanwhile has the interpreter: the thread gets it after ``SWITCH_INTERVAL``, or when the draw is over.
        timer: by so many seconds an event loop's timers are late; asyncio's have whole milliseconds.
    """

    def __init__(
        self,
        *,
        draw=0.003,
        encode=0.003,
        way=0.003,
        show=0.0,
        refresh=REFRESH,
        jitter=0.1,
        late=(0.0,),
        write=0.0,
        timer=0.0,
        window=None,
    ):
        self.draw, self.encode, self.way, self.show, self.refresh = draw, encode, way, show, refresh
        self.jitter, self.random, self.late = jitter, random.Random(1), itertools.cycle(late)
        self.write, self.timer = write, timer
        self.window = window or FrameWindow()
        self.events, self.order, self.now = [], itertools.count(), 0.0
        self.number, self.coming, self.kernel_free = 0, 0, 0.0
        self.began, self.fifo = {}, {}
        self.mailbox, self.page_free, self.is_scheduled = None, 0.0, False
        self.shown = self.dropped = 0
        self.waits, self.turns = [], []
        self.draws, self.log, self.sizes = [], [], []
        self.wakeup = math.inf
        self.at(0.0, self.may_draw)

    def off(self, seconds):
        return seconds * (1 + self.jitter * (2 * self.random.random() - 1))

    def at(self, when, action, *arguments):
        heapq.heappush(self.events, (when, next(self.order), action, arguments))

    def in_order(self, lane, when, action, *arguments):
        self.fifo[lane] = max(self.fifo.get(lane, 0.0), when)
        self.at(self.fifo[lane], action, *arguments)

    def run(self, seconds):
        until = self.now + seconds
        while self.events[0][0] <= until:
            self.now, _, action, arguments = heapq.heappop(self.events)
            action(*arguments)
        self.now = until
        return self

    def wakes_up(self):
        self.wakeup = math.inf
        self.may_draw()

    def may_draw(self):
        if len(self.began) + self.coming >= self.window.size:
            return
        earliest = max(self.kernel_free, self.window.earliest_draw(self.coming))
        if self.now < earliest:
            late = self.off(self.timer) if self.timer and earliest > self.kernel_free else 0.0
            if earliest + late < self.wakeup:
                self.wakeup = earliest + late
                self.at(self.wakeup, self.wakes_up)
            return
        self.window.drawn(self.now)
        self.draws.append(self.now)
        self.coming += 1
        self.kernel_free = self.now + self.off(self.draw)
        self.in_order("encoder", self.kernel_free + self.off(self.encode), self.encodes, self.now)
        self.at(self.kernel_free, self.may_draw)

    def encodes(self, began):
        if (
            self.now < self.kernel_free
        ):  # the thread that would send it draws, and before it draws again it does
            self.at(self.kernel_free - 1e-7, self.encoded, began)
        else:
            self.encoded(began)

    def encoded(self, began):
        self.coming -= 1
        self.number += 1
        self.began[self.number] = began
        self.window.sent(self.number, self.now, began)
        if self.write:
            self.at(self.now + self.off(self.write), self.writes, self.number)
        else:
            self.written(self.number)
        self.may_draw()

    def writes(self, frame):
        if self.now < self.kernel_free:
            self.at(min(self.kernel_free, self.now + SWITCH_INTERVAL), self.written, frame)
        else:
            self.written(frame)

    def written(self, frame):
        if self.write:
            self.at(max(self.now, self.kernel_free), self.hears_of_it, frame)
        there = self.now + self.off(self.way / 2) + next(self.late)
        self.in_order("there", there, self.arrives, frame)

    def hears_of_it(self, frame):
        self.window.written(frame)
        self.may_draw()

    def arrives(self, frame):
        self.dropped += self.mailbox is not None
        self.mailbox = frame, self.now
        self.schedule()

    def schedule(self):
        if not self.is_scheduled and self.mailbox and self.now >= self.page_free:
            self.is_scheduled = True
            self.at(self.next_turn(self.now), self.shows)

    def next_turn(self, when):
        return (math.floor(when / self.refresh + 1e-6) + 1) * self.refresh if self.refresh else when

    def shows(self):
        self.is_scheduled = False
        (frame, arrived), self.mailbox = self.mailbox, None
        self.page_free = self.now + self.off(self.show)
        self.log.append((self.now, self.now - self.began[frame]))
        self.shown, self.newest = self.shown + 1, frame
        self.waits.append(self.now - arrived)
        turn = self.next_turn(self.page_free)
        self.at(turn, self.turned, turn - self.now)
        self.at(self.page_free, self.schedule)
        if 4 * (self.shown + self.dropped) >= self.window.size:
            self.answers()
        else:
            self.at(self.now + 0.025, self.answers)

    def turned(self, seconds):
        self.turns.append(seconds if self.mailbox else None)

    def answers(self):
        if self.shown:
            back = self.now + self.off(self.way / 2)
            self.in_order("back", back, self.answered, self.newest, self.waits, self.turns)
            self.shown = self.dropped = 0
            self.waits, self.turns = [], []

    def answered(self, frame, waits, turns):
        self.window.ack(frame, self.now, waits, turns)
        self.began = {number: began for number, began in self.began.items() if number > frame}
        self.sizes.append(self.window.size)
        self.may_draw()

    # ---- what came of it, in the last seconds

    def frames(self, seconds):
        """Shown and drawn per second."""
        since = self.now - seconds
        return sum(when > since for when, _ in self.log) / seconds, sum(
            when > since for when in self.draws
        ) / seconds

    def age(self, seconds):
        """Median time from the beginning of a draw until it is shown."""
        return median(age for when, age in self.log if when > self.now - seconds)


@pytest.mark.parametrize(
    "draw, encode, way, jitter, least",
    [
        (0.0024, 0.0033, 0.003, 0.1, 59),
        (0.0024, 0.0033, 0.003, 0.5, 59),
        (0.004, 0.007, 0.008, 0.1, 59),
        (0.004, 0.007, 0.008, 0.5, 59),
        (0.004, 0.009, 0.008, 0.1, 59),
        (0.004, 0.009, 0.008, 0.5, 57),
        (0.0074, 0.0085, 0.003, 0.1, 59),
        (0.0074, 0.0085, 0.003, 0.3, 55),
    ],
)
def test_each_refresh_shows_a_frame_and_none_is_drawn_in_vain(draw, encode, way, jitter, least):
    """Wherever the time of a frame lies between one refresh of the display and the next."""
    simulation = Simulation(draw=draw, encode=encode, way=way, jitter=jitter).run(10)
    shown, drawn = simulation.frames(5)
    assert shown >= least
    assert drawn <= 61
    # Just in time, and not as old as a refresh that it missed.
    assert simulation.age(5) <= draw + encode + way / 2 + 0.006 + 0.02 * jitter


@pytest.mark.parametrize(
    "draw, encode, jitter", [(0.0063, 0.007, 0.3), (0.0069, 0.0072, 0.25), (0.0072, 0.0078, 0.15)]
)
def test_a_draw_leaves_the_interpreter_to_who_writes_the_frame_before(draw, encode, jitter):
    """And begins as soon as that is written: the last of these makes frames in 15 of the 16.7 ms that a refresh takes."""
    simulation = Simulation(draw=draw, encode=encode, jitter=jitter, write=0.0006, timer=0.0009).run(10)
    assert simulation.frames(5)[0] >= 59


@pytest.mark.parametrize(
    "link, least, most, oldest",
    list(zip(RECORDED, [59, 46, 52], [60, 66, 60], [0.013, 0.018, 0.025], strict=True)),
    ids=["near", "nagle", "busy"],
)
def test_recorded_links(link, least, most, oldest):
    """One that holds back every third frame by a refresh or more cannot do better than that. A little more or less time for a draw
    changes which frames are late, so what counts is the mean."""
    late = [ms / 1000 for ms in RECORDED[link]]
    runs = [Simulation(late=late, jitter=0.0, draw=0.002 + 0.0006 * i).run(10) for i in range(6)]
    assert fmean(run.frames(5)[0] for run in runs) >= least
    assert fmean(run.frames(5)[1] for run in runs) <= most
    assert fmean(run.age(5) for run in runs) <= oldest


@pytest.mark.parametrize("way, least", [(0.05, 58), (0.2, 45)])
def test_a_page_far_away_shows_as_many(way, least):
    assert Simulation(way=way).run(10).frames(5)[0] >= least


def test_a_display_without_a_refresh_gets_what_the_page_can_show():
    shown, drawn = Simulation(refresh=0, show=0.005).run(6).frames(3)
    assert shown >= 185
    assert drawn <= 1.1 * shown


@pytest.mark.parametrize("jitter", [0.1, 0.5])
@pytest.mark.parametrize("show", [0.05, 0.1, 0.2])
def test_little_more_is_drawn_than_a_slow_page_shows(show, jitter):
    shown, drawn = Simulation(show=show, draw=0.01, jitter=jitter).run(20).frames(15)
    assert shown >= 0.8 / (show + REFRESH)
    assert drawn <= 1.25 * shown


def test_a_page_that_gets_quicker_is_followed():
    simulation = Simulation(show=0.2).run(5)
    simulation.show = 0.01
    simulation.run(6)
    assert simulation.frames(3)[0] >= 55


def test_a_page_that_gets_slower_is_followed():
    simulation = Simulation(show=0.01).run(5)
    simulation.show = 0.2
    shown, drawn = simulation.run(8).frames(4)
    assert drawn <= 1.15 * shown


def test_a_page_farther_away_is_believed_soon():
    simulation = Simulation(way=0.01).run(5)
    assert median(simulation.sizes) <= 4
    simulation.way = 0.2
    assert simulation.run(8).frames(4)[0] >= 45


def test_a_kernel_that_draws_slowly_is_not_held_back():
    shown, _ = Simulation(draw=0.15).run(10).frames(5)
    assert shown >= 0.95 / 0.15


def test_after_a_pause_the_first_draw_is_not_held_back():
    simulation = Simulation(show=0.2).run(4)
    now = simulation.now + 10
    simulation.window.drawn(now)
    assert simulation.window.earliest_draw() <= now


def stream(window, seconds, page_rate, trip):
    """Always fills the window of a page that answers ``page_rate`` frames a second, each after ``trip`` at least; gives the sizes.

    Frames wait in a queue where nothing overtakes them.
    """
    in_flight, sizes, frame, free, now = [], [], 0, 0.0, 0.0
    while now < seconds:
        while len(in_flight) < window.size:
            frame += 1
            window.sent(frame, now)
            free = max(free + 1 / page_rate, now + trip)
            in_flight.append((frame, free))
        number, now = in_flight.pop(0)
        window.ack(number, now, [0.0], [REFRESH])
        sizes.append(window.size)
    return sizes


def test_a_link_that_carries_less_than_the_page_can_show_is_not_filled():
    """The page tells of turns at 60 a second, but what waits in a queue shall not grow the window."""
    assert max(stream(FrameWindow(), 60, 10, 0.02)) <= 5
    assert median(stream(FrameWindow(), 12, 10, 0.3)) <= 1.8 * 10 * 0.3 + 3


def test_the_window_has_bounds():
    window = FrameWindow()
    assert window.size == 3
    for frame in range(100):
        window.sent(frame, 0.02 * frame)
        window.ack(frame, 0.02 * frame + 0.001, [0.0], [REFRESH])
    assert window.size == LEAST
    assert stream(FrameWindow(), 60, 60, 1.0)[-1] == MOST


def test_answers_that_come_in_bunches_are_no_quick_page():
    window = FrameWindow()
    now = 0.0
    for frame in range(1, 200):
        window.sent(frame, now)
        now += 0.05
        if frame % 4 == 0:
            for number in range(frame - 3, frame + 1):
                window.ack(number, now, [0.0], [REFRESH])
    assert window.size <= 20 * 0.2 * 1.5 + 2


def test_a_page_that_tells_nothing_of_turns_gets_a_few():
    window = FrameWindow()
    for frame in range(1, 100):
        window.drawn(0.01 * frame)
        window.sent(frame, 0.01 * frame)
        window.ack(frame, 0.01 * frame + 0.005)
    assert window.size == 3
    assert window.earliest_draw() <= 1.0


@pytest.mark.parametrize("turn", [0.0, 1e-9, 1e9])
def test_impossible_turns_are_survived(turn):
    window = FrameWindow()
    for frame in range(1, 50):
        window.drawn(0.01 * frame)
        window.sent(frame, 0.01 * frame)
        window.ack(frame, 0.01 * frame + 0.005, [turn], [turn])
    assert LEAST <= window.size <= MOST
    assert window.earliest_draw() <= 0.5 + 1.0, (
        "draws that were not held back do not hold back later ones for longer"
    )


def test_an_acknowledgement_out_of_turn_changes_nothing():
    window = FrameWindow()
    window.ack(7, 1.0, [0.01], [0.01])
    window.sent(8, 1.0)
    window.forget()
    window.ack(8, 2.0, [0.01], [0.01])
    assert window.size == 3


def test_a_fixed_window_stays():
    window = FrameWindow(5)
    Simulation(window=window, way=0.5).run(3)
    assert window.size == 5
