"""The estimate of the link and the quality that follows it, on links that a test makes up: no clock but the simulation's."""

import heapq
import itertools
import math
import random
from itertools import pairwise

import pytest

from rfb_gpu.flow.acks import Views
from rfb_gpu.flow.link import Link
from rfb_gpu.flow.quality import QualityPolicy, Settings

MBIT = 1e6 / 8
PAGE_CLOCK = -1234.5


class Simulation:
    """A canvas that draws as often as it may, a link that keeps order, a page that shows the newest and answers in batches.

    Arguments:
        rate, one_way: of the link, bytes per second and seconds, as functions of the time.
        size: bytes of a frame at quality 80.
        noise: seconds by which the page may notice an arrival late, at most; its main thread does other things too.
        show: seconds that the page takes to show a frame.
        lost: share of the acknowledgements that do not come.
        draws: times when a draw is wanted; None: always.
    """

    STEP = 0.002

    def __init__(
        self, rate, one_way, size=100_000, quality=(30, 90), budget=0.1, noise=0.0, show=0.004, lost=0.0, draws=None, fps=60
    ):  # fmt: skip
        self.rate, self.one_way, self.size = rate, one_way, size
        self.noise, self.show_seconds, self.lost, self.draws = noise, show, lost, draws
        self.frame_seconds = 1 / fps
        self.random = random.Random(7)
        self.views = Views(latency_budget=budget)
        self.views.hello("page", 1)
        self.views.set_visible("page", True)
        self.policy = QualityPolicy(*quality, "444", budget)
        self.now, self.link_free, self.next_draw = 0.0, 0.0, 0.0
        self.number = itertools.count(1)
        self.events, self.order = [], itertools.count()
        self.last = (0, self.policy.best)
        self.log = []  # drawn, shown, settings
        self.sent = 0
        self.asleep = False
        # The page:
        self.mailbox, self.busy, self.first_unacknowledged = None, False, None
        self.arrivals, self.dealt_with, self.dropped, self.settled = [], 0, 0, 0

    def at(self, when, action, *arguments):
        heapq.heappush(self.events, (when, next(self.order), action, arguments))

    def run(self, until):
        while self.now < until:
            while self.events and self.events[0][0] <= self.now:
                _, _, action, arguments = heapq.heappop(self.events)
                action(*arguments)
            wanted = self.draws is None or any(a <= self.now < b for a, b in self.draws)
            if wanted and self.now >= self.next_draw and self.views.may_send(self.now):
                self.draw()
            self.now += self.STEP
        return self

    def draw(self):
        self.next_draw = max(self.next_draw + self.frame_seconds, self.now)
        settings = self.policy.choose(self.now, self.views.rate, *self.last)
        size = int(self.size * settings.share)
        self.last = (size, settings)
        for view in self.views.due_pings(number := next(self.number), self.now):
            self.transmit(50, self.ping_arrives, view, number)
        frame = next(self.number)
        self.sent += 1
        self.views.sent(frame, self.now, size=size)
        self.transmit(size, self.arrives, frame, self.now, settings)

    def transmit(self, size, action, *arguments):
        start = max(self.now, self.link_free)
        self.link_free = start + size / self.rate(start)
        late = self.random.random() * self.noise
        self.at(self.link_free + self.one_way(start) + late, action, *arguments)

    def back(self, action, *arguments):
        if self.random.random() >= self.lost:
            self.at(self.now + self.one_way(self.now), action, *arguments)

    def ping_arrives(self, view, number):
        self.back(lambda at: self.views.pong(view, 1, number, at, self.now), self.now + PAGE_CLOCK)

    # ---- the page

    def arrives(self, frame, drawn, settings):
        self.arrivals.append((frame, self.now + PAGE_CLOCK))
        if self.mailbox is not None:
            self.dropped += 1
        self.mailbox = (frame, drawn, settings)
        self.show()

    def show(self):
        if not self.busy and self.mailbox is not None and not self.asleep:
            self.busy = True
            self.at(self.now + self.show_seconds, self.shown, *self.mailbox)
            self.mailbox = None

    def shown(self, frame, drawn, settings):
        self.log.append((drawn, self.now, settings))
        self.busy = False
        self.dealt_with = frame
        self.settled += 1
        if 2 * (self.settled + self.dropped) >= self.views.window("page"):
            self.acknowledge(self.settled)
        elif self.settled == 1:
            self.at(self.now + 0.025, self.acknowledge, 1)
        self.show()

    def acknowledge(self, _):
        if self.settled:
            self.back(self.acknowledged, self.dealt_with, self.dropped, self.arrivals)
            self.arrivals, self.dropped, self.settled = [], 0, 0

    def acknowledged(self, frame, dropped, arrivals):
        self.views.heard("page")
        self.views.ack("page", 1, frame, self.now, dropped=dropped, arrivals=arrivals)

    # ---- what came of it

    def between(self, start, end):
        return [entry for entry in self.log if start <= entry[0] < end]

    def latency(self, start, end, share=0.5):
        trips = sorted(shown - drawn for drawn, shown, _ in self.between(start, end))
        return trips[int(len(trips) * share)]

    def age(self, start, end):
        """Median over time of how old the picture on the screen is: what the hand feels, pauses included."""
        ages, entries = [], sorted((shown, drawn) for drawn, shown, _ in self.log)
        for tick in range(int((end - start) * 100)):
            now = start + tick / 100
            ages.append(now - max(drawn for shown, drawn in entries if shown <= now))
        return sorted(ages)[len(ages) // 2]

    def settings(self, start, end):
        return [settings for _, _, settings in self.between(start, end)]

    def changes(self, start, end):
        return sum(a != b for a, b in pairwise(self.settings(start, end)))


def constant(value):
    return lambda t: value


# ---- the estimate


def test_the_rate_is_what_the_link_carries_however_late_the_page_notices():
    rng = random.Random(3)
    link, free = Link(), 0.0
    link.pong(0.0, 0.08 + PAGE_CLOCK, 0.16)
    for frame in range(1, 40):  # 50 kB each 25 ms on a link of 1 MB/s with 80 ms of delay
        now = frame * 0.025
        link.sent(frame, 50_000, now)
        free = max(free, now) + 0.05
        link.ack(frame, free + 0.2, [(frame, free + 0.08 + rng.random() * 0.02 + PAGE_CLOCK)])
    assert link.rate == pytest.approx(1e6, rel=0.1)


def test_arrivals_noticed_in_one_go_are_no_fast_link():
    link, free = Link(), 0.0
    link.pong(0.0, 0.08 + PAGE_CLOCK, 0.16)
    for batch in range(10):
        frames = []
        for k in range(4):
            now = batch * 0.4 + k * 0.02
            frame = 4 * batch + k + 1
            link.sent(frame, 100_000, now)
            free = max(free, now) + 0.1
            frames.append((frame, batch * 0.4 + 0.5 + PAGE_CLOCK))  # after a pause of the page
        link.ack(frames[-1][0], batch * 0.4 + 0.6, frames)
    assert link.rate <= 1.1e6


def test_one_frame_at_a_time_shows_the_rate_beside_a_ping():
    link = Link()
    link.pong(0.0, 0.05 + PAGE_CLOCK, 0.1)
    for frame in range(1, 10):  # 200 kB/s and a delay of 50 ms
        link.sent(frame, 20_000, frame * 1.0)
        link.ack(frame, frame + 0.2, [(frame, frame + 0.15 + PAGE_CLOCK)])
    assert link.rate == pytest.approx(2e5, rel=0.01)
    assert link.delay == pytest.approx(0.1)


def test_a_slower_link_is_believed_soon():
    link, free = Link(), 0.0
    link.pong(0.0, 0.05 + PAGE_CLOCK, 0.1)
    for frame in range(1, 100):
        now = frame * 0.1
        rate = 1e6 if now < 5 else 1e5
        link.sent(frame, 10_000, now)
        free = max(free, now) + 10_000 / rate
        link.ack(frame, free + 0.1, [(frame, free + 0.05 + PAGE_CLOCK)])
        if now > 6:
            assert link.rate < 1.5e5


def test_an_answer_to_a_late_frame_answers_those_before():
    link = Link()
    for frame in range(5):
        link.sent(frame, 1000, 0.1 * frame)
    link.ack(3, 1)
    assert link.bytes_in_flight == 1000
    link.ack(2, 2)
    assert link.bytes_in_flight == 1000


def test_impossible_arrivals_are_survived():
    link = Link()
    link.pong(0.0, 1.0, 0.1)
    for frame, arrived in enumerate([1.0, -1e9, 1e9, 0.0, 1.0, 1.0]):
        link.sent(frame, 1000, frame)
        link.ack(frame, frame + 0.1, [(frame, arrived), (frame, arrived), (frame + 1000, 0.0)])
        assert link.rate is None or 0 < link.rate < math.inf
        assert 0 <= link.queue(frame) < math.inf


# ---- the whole flow

LINKS = [(2, 0.1), (20, 0.04), (100, 0.005), (8, 0.02), (1, 0.3)]


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("mbit, one_way", LINKS)
def test_the_picture_is_no_older_than_the_links_delay_and_a_little(mbit, one_way, noise):
    simulation = Simulation(constant(mbit * MBIT), constant(one_way), noise=noise).run(30)
    for start in (5, 15, 25):
        # Half of the round trip is the input's way to here, which the simulation leaves out.
        assert simulation.latency(start, start + 5) <= one_way + 0.15, start
        assert simulation.age(start, start + 5) <= one_way + 0.15, start
    # Never growing: the last seconds are no slower than those at the beginning.
    assert simulation.latency(25, 30) <= simulation.latency(5, 10) * 1.2 + 0.01
    assert simulation.changes(15, 30) <= 6


@pytest.mark.parametrize("mbit, one_way, least", [(20, 0.04, 30), (100, 0.005, 80), (2, 0.1, 30)])
def test_the_link_is_used(mbit, one_way, least):
    """Quality is no lower than need be: the frames of a second come to a good part of what the link carries."""
    simulation = Simulation(constant(mbit * MBIT), constant(one_way), noise=0.004).run(20)
    entries = simulation.between(10, 20)
    used = sum(simulation.size * settings.share for _, _, settings in entries) / 10
    assert used >= 0.5 * mbit * MBIT or min(s.quality for s in simulation.settings(10, 20)) == 90
    assert min(s.quality for s in simulation.settings(10, 20)) >= least


def test_a_fast_link_gets_full_quality_at_full_speed():
    for one_way in (0.0005, 0.01, 0.08):
        simulation = Simulation(constant(1000 * MBIT), constant(one_way), noise=0.005).run(8)
        assert {s.quality for s in simulation.settings(1, 8)} == {90}
        assert len(simulation.between(5, 8)) >= 3 * 55, one_way


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_quality_follows_the_link_down_and_up_without_swinging(noise):
    thin = [(2 * MBIT, 0.1), (20 * MBIT, 0.04), (2 * MBIT, 0.1), (1000 * MBIT, 0.002)]
    at = lambda t: thin[min(int(t // 15), 3)]  # noqa: E731
    simulation = Simulation(lambda t: at(t)[0], lambda t: at(t)[1], size=60_000, noise=noise).run(60)
    for phase, (_, one_way) in enumerate(thin):
        begin, end = 15 * phase, 15 * phase + 15
        assert simulation.latency(begin + 2, end - 1) <= one_way + 0.15, phase
        assert simulation.changes(begin + 5, end) <= 4, phase
    worst = max(shown - drawn for drawn, shown, _ in simulation.between(30, 44))
    assert worst <= 2.5, "when the link gets ten times slower, little is under way"
    back = next(drawn for drawn, _, s in simulation.between(45, 60) if s == Settings(90, "444", 1))
    assert back <= 47
    better = next(drawn for drawn, _, s in simulation.between(15, 30) if s.quality >= 80 and s.scale == 1)
    assert better <= 17


def test_lost_acknowledgements_do_not_stop_it():
    simulation = Simulation(constant(20 * MBIT), constant(0.02), lost=0.2, noise=0.005).run(20)
    assert simulation.latency(5, 20) <= 0.02 + 0.15
    assert len(simulation.between(5, 20)) >= 15 * 15


def test_a_page_that_shows_slowly_is_not_sent_more_than_it_shows():
    simulation = Simulation(constant(1000 * MBIT), constant(0.001), show=0.2).run(20)
    assert len(simulation.between(5, 19)) >= 14 * 4.5
    assert simulation.sent <= 20 * 5 * 1.1, "hardly a draw is wasted"
    assert {s.quality for s in simulation.settings(1, 20)} == {90}, "the link is not to blame"
    assert simulation.latency(5, 19) <= 0.45


def test_a_page_that_sleeps_is_found_again():
    simulation = Simulation(constant(20 * MBIT), constant(0.02)).run(5)
    simulation.asleep = True
    before = simulation.sent
    simulation.run(12)
    assert simulation.sent - before <= 10, "it is not flooded meanwhile"
    simulation.asleep = False
    simulation.show()
    simulation.run(20)
    assert simulation.latency(15, 20) <= 0.02 + 0.15
    assert len(simulation.between(15, 20)) > 5 * 15


def test_drags_with_pauses_begin_where_the_last_one_ended():
    simulation = Simulation(
        constant(4 * MBIT), constant(0.03), draws=[(0, 4), (20, 24), (40, 44)], noise=0.005
    ).run(50)
    for start in (20, 40):
        assert simulation.latency(start, start + 4, share=0.95) <= 0.03 + 0.25


def test_slow_draws_on_a_thin_link_lower_the_quality_too():
    """One frame at a time is under way, and yet the link is known."""
    simulation = Simulation(constant(4 * MBIT), constant(0.03), fps=2).run(20)
    assert simulation.latency(10, 20) <= 0.03 + 0.15


# ---- the choice


def test_the_floor_and_the_ceiling_hold():
    policy = QualityPolicy(40, 75)
    assert policy.choose(0, None, 0, policy.best) == (75, "444", 1)
    for now in range(20):
        chosen = policy.choose(now, 1000, 10**6, policy.settings)
        assert 40 <= chosen.quality <= 75
    assert chosen == (40, "420", 4)
    for now in range(20, 60):
        chosen = policy.choose(now, 1e9, 1000, policy.settings)
    assert chosen == (75, "444", 1)


@pytest.mark.parametrize("subsampling", ["444", "422", "420", "gray"])
def test_a_fixed_quality_fixes_everything(subsampling):
    policy = QualityPolicy(80, 80, subsampling)
    for now in range(20):
        assert policy.choose(now, 1000, 10**6, policy.settings) == (80, subsampling, 1)


@pytest.mark.parametrize("subsampling", ["444", "422", "420", "gray"])
@pytest.mark.parametrize("floor, ceiling", [(30, 90), (1, 100), (60, 70), (94, 95)])
def test_each_step_down_takes_fewer_bytes(floor, ceiling, subsampling):
    policy = QualityPolicy(floor, ceiling, subsampling)
    seen = [policy.best]
    for now in range(400):
        size = 1000 * policy.settings.share
        seen.append(policy.choose(now, size * 20 / 1.2, size, policy.settings))
    steps = list(dict.fromkeys(seen))
    assert [s.share for s in steps] == sorted({s.share for s in steps}, reverse=True)
    assert steps[-1].scale == 4
    assert all(floor <= s.quality <= ceiling for s in steps)
    assert all((s.subsampling == "gray") == (subsampling == "gray") for s in steps)


def test_a_step_up_that_fails_is_tried_ever_more_rarely():
    """A scene whose coarse picture is smaller than the table thinks: it must not swing between two settings."""
    policy, now, changes, last = QualityPolicy(30, 90), 0.0, [], QualityPolicy(30, 90).best
    while now < 60:
        size = 100_000 * last.share * (0.5 if last.scale > 1 else 1.5)
        chosen = policy.choose(now, 800_000, int(size), last)
        if chosen != last:
            changes.append(now)
        last = chosen
        now += 1 / 30
    assert sum(when > 30 for when in changes) <= 14


@pytest.mark.parametrize(
    "arguments", [(0, 50), (60, 50), (50, 101), (30, 90, "444", 0), (30, 90, "444", math.nan), (30, 90, "444", -1)]
)  # fmt: skip
def test_bad_arguments(arguments):
    with pytest.raises(ValueError, match="must be"):
        QualityPolicy(*arguments)
