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
        pause: the page notices arrivals only at multiples of so many seconds: it is very busy.
        show: seconds that the page takes to show a frame.
        lost: share of the acknowledgements that do not come.
        draws: times when a draw is wanted; None: always.
    """

    STEP = 0.002

    def __init__(
        self, rate, one_way, size=100_000, quality=(30, 90), budget=0.1,
        noise=0.0, pause=0.0, show=0.004, lost=0.0, draws=None, fps=60,
    ):  # fmt: skip
        self.rate, self.one_way, self.size = rate, one_way, size
        self.noise, self.pause, self.show_seconds, self.lost, self.draws = noise, pause, show, lost, draws
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
        self.noticed, self.leads = 0.0, {}
        self.arrivals, self.dealt_with, self.dropped, self.settled = [], 0, 0, 0
        self.waits, self.turns = [], []

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
        frame = next(self.number)
        self.sent += 1
        self.views.drawn(self.now)
        leads = self.views.due_leads(size, self.now)
        if leads:
            self.transmit(60, self.lead_arrives, frame)
        self.views.sent(frame, self.now, size=size, leads=leads)
        self.transmit(size, self.arrives, frame, self.now, settings)

    def transmit(self, size, action, *arguments):
        start = max(self.now, self.link_free)
        self.link_free = start + size / self.rate(start)
        noticed = self.link_free + self.one_way(start) + self.random.random() * self.noise
        if self.pause:
            noticed = math.ceil(noticed / self.pause) * self.pause
        self.at(max(noticed, self.noticed), action, *arguments)
        self.noticed = max(noticed, self.noticed)

    def back(self, action, *arguments):
        if self.random.random() >= self.lost:
            self.at(self.now + self.one_way(self.now), action, *arguments)

    # ---- the page

    def lead_arrives(self, frame):
        self.leads = {frame: self.now + PAGE_CLOCK}

    def arrives(self, frame, drawn, settings):
        self.arrivals.append((frame, self.now + PAGE_CLOCK, self.leads.get(frame)))
        if self.mailbox is not None:
            self.dropped += 1
        self.mailbox, self.arrived = (frame, drawn, settings), self.now
        self.show()

    def show(self):
        if not self.busy and self.mailbox is not None and not self.asleep:
            self.busy = True
            self.waits.append(self.now - self.arrived)
            self.at(self.now + self.show_seconds, self.shown, *self.mailbox)
            self.mailbox = None

    def shown(self, frame, drawn, settings):
        self.log.append((drawn, self.now, settings))
        self.busy = False
        self.turns.append(max(self.show_seconds, self.pause) if self.mailbox else None)
        self.dealt_with = frame
        self.settled += 1
        if 4 * (self.settled + self.dropped) >= self.views.window("page"):
            self.acknowledge(self.settled)
        elif self.settled == 1:
            self.at(self.now + 0.025, self.acknowledge, 1)
        self.show()

    def acknowledge(self, _):
        if self.settled:
            self.back(self.acknowledged, self.dealt_with, self.arrivals, self.waits, self.turns)
            self.arrivals, self.dropped, self.settled = [], 0, 0
            self.waits, self.turns = [], []

    def acknowledged(self, frame, arrivals, waits, turns):
        self.views.heard("page")
        self.views.ack("page", 1, frame, self.now, arrivals=arrivals, waits=waits, turns=turns)

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


class Wire:
    """A link on which one frame after the other is sent, whatever waits."""

    def __init__(self, rate, delay, noise=0.0):
        self.link, self.rate, self.delay, self.noise = Link(), rate, delay, noise
        self.free, self.frame, self.random = 0.0, 0, random.Random(3)

    def send(self, size, now):
        """Gives when it arrived."""
        self.frame += 1
        self.link.sent(self.frame, size, now, lead=True)
        lead = max(self.free, now)
        self.free = lead + size / self.rate
        lead, arrived = (
            when + self.delay + self.random.random() * self.noise + PAGE_CLOCK for when in (lead, self.free)
        )
        arrived = max(arrived, lead)
        self.link.ack(self.frame, self.free + 2 * self.delay, [(self.frame, arrived, lead)])
        return self.free + self.delay


@pytest.mark.parametrize("interval, within", [(0.025, 0.25), (0.05, 0.25), (1.0, 0.5)])
def test_the_rate_is_what_the_link_carries_with_a_queue_and_without(interval, within):
    wire = Wire(1e6, 0.08, noise=0.02)
    for number in range(1, 40):
        wire.send(50_000, number * interval)
    assert wire.link.rate == pytest.approx(1e6, rel=within)


def test_a_page_far_away_is_no_slow_link():
    wire = Wire(1e7, 0.001)
    for number in range(1, 100):
        if number == 20:
            wire.delay = 0.4
        wire.send(20_000, number * 0.1)
        assert wire.link.rate == pytest.approx(1e7, rel=0.05)


def test_one_pause_of_the_page_is_no_slow_link():
    wire = Wire(1e7, 0.01)
    for number in range(1, 30):
        wire.rate = 1e5 if number == 20 else 1e7
        wire.send(20_000, number * 0.1)
        assert wire.link.rate > 5e6


def test_a_slower_link_is_believed_soon():
    wire = Wire(1e6, 0.05)
    for number in range(1, 100):
        now = number * 0.3
        wire.rate = 1e6 if now < 5 else 1e5
        wire.send(10_000, now)
        if now > 6:
            assert wire.link.rate < 1.5e5


def test_a_queue_is_known_that_stood_before():
    wire = Wire(1e6, 0.05)
    wire.send(10_000, 0)
    for number in range(20):  # twice what it carries: 200 ms wait in the end
        arrived = wire.send(20_000, 1 + number * 0.01)
    wire.link.sent(1000, 10_000, 1.2)
    assert wire.link.queue(1.2) == pytest.approx(arrived - 0.05 + 0.01 - 1.2, abs=0.002)


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
    for frame, arrived in enumerate([1.0, -1e9, 1e9, 0.0, 1.0, 1.0]):
        link.sent(frame, 1000, frame)
        lead = arrived + 5 if frame % 2 else -arrived
        link.ack(
            frame, frame + 0.1, [(frame, arrived, lead), (frame, arrived, None), (frame + 1000, 0.0, 0.0)]
        )
        assert link.rate is None or 0 < link.rate < math.inf
        assert 0 <= link.queue(frame) < math.inf


# ---- the whole flow

LINKS = [(2, 0.1), (20, 0.04), (100, 0.005), (8, 0.02), (1, 0.3)]


@pytest.mark.parametrize("noise", [0.0, 0.01])
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
    fast = (1000 * MBIT, 0.002)
    thin = [fast, (2 * MBIT, 0.1), (20 * MBIT, 0.04), (2 * MBIT, 0.1), fast]
    at = lambda t: thin[min(int(t // 15), 4)]  # noqa: E731
    simulation = Simulation(lambda t: at(t)[0], lambda t: at(t)[1], size=60_000, noise=noise).run(75)
    for phase, (_, one_way) in enumerate(thin):
        begin, end = 15 * phase, 15 * phase + 15
        assert simulation.latency(begin + 2, end - 1) <= one_way + 0.15, phase
        assert simulation.changes(begin + 5, end) <= 4, phase
    worst = max(shown - drawn for drawn, shown, _ in simulation.between(45, 59))
    assert worst <= 2.5, "when the link gets ten times slower, little is under way"
    back = next(drawn for drawn, _, s in simulation.between(60, 75) if s == Settings(90, "444", 1))
    assert back <= 62
    better = next(drawn for drawn, _, s in simulation.between(30, 45) if s.quality >= 80 and s.scale == 1)
    assert better <= 32


def test_a_page_that_is_farther_away_from_now_on_soon_gets_as_many_frames():
    simulation = Simulation(
        constant(100 * MBIT), lambda t: 0.005 if t < 5 else 0.1, size=20_000, noise=0.01
    ).run(15)
    assert len(simulation.between(3, 5)) >= 2 * 55
    assert len(simulation.between(8, 15)) >= 7 * 50


def test_lost_acknowledgements_do_not_stop_it():
    simulation = Simulation(constant(20 * MBIT), constant(0.02), lost=0.2, noise=0.005).run(20)
    assert simulation.latency(5, 20) <= 0.02 + 0.15
    assert len(simulation.between(5, 20)) >= 15 * 15


def test_a_page_that_shows_slowly_is_not_sent_more_than_it_shows():
    simulation = Simulation(constant(1000 * MBIT), constant(0.001), show=0.2).run(20)
    assert len(simulation.between(5, 19)) >= 14 * 4.5
    assert simulation.sent <= 20 * 5 * 1.15, "hardly a draw is wasted"
    assert {s.quality for s in simulation.settings(1, 20)} == {90}, "the link is not to blame"
    assert simulation.latency(5, 19) <= 0.45


def test_a_page_that_is_very_busy_is_no_thin_link():
    """It notices what arrives only five times a second: coarser pictures would not help it."""
    simulation = Simulation(constant(1000 * MBIT), constant(0.001), pause=0.2, show=0.1).run(20)
    qualities = [settings.quality for settings in simulation.settings(2, 20)]
    assert sum(quality >= 80 for quality in qualities) > 0.9 * len(qualities)


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
