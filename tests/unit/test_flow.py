"""Views, acknowledgements, order: with a clock that the test moves."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rfb_gpu.flow import Inbox, ProtocolError, Views, parse_message
from rfb_gpu.flow.acks import FORGET_SECONDS
from rfb_gpu.flow.inbox import GAP_SECONDS
from rfb_gpu.flow.protocol import Ack, Event, Hello, clean_size


def visible_view(views, name="a", epoch=1):
    views.hello(name, epoch)
    views.set_visible(name, True)


def test_nothing_is_sent_before_somebody_looks():
    views = Views()
    assert not views.may_send(0)
    views.hello("a", 1)
    assert not views.may_send(0)
    views.set_visible("a", True)
    assert views.may_send(0)
    views.set_visible("a", False)
    assert not views.may_send(0)


def test_the_window_bounds_frames_in_flight():
    views = Views(window=2)
    visible_view(views)
    for frame in (1, 2):
        assert views.may_send(0)
        views.sent(frame, 0)
    assert not views.may_send(0.1)
    assert views.ack("a", 1, 1, 0.2) == [(1, pytest.approx(0.2))]
    assert views.may_send(0.2)


def test_one_ack_answers_all_frames_up_to_it():
    views = Views(window=3)
    visible_view(views)
    for frame in (1, 2, 3):
        views.sent(frame, frame / 10)
    assert len(views.ack("a", 1, 3, 0.5)) == 3
    assert views.may_send(0.5)


def test_a_reloaded_page_is_not_held_up_by_the_old_one():
    views = Views(window=2)
    visible_view(views, "old")
    views.sent(1, 0)
    views.sent(2, 0)
    visible_view(views, "new")
    assert views.may_send(1.01), "within a second the old page's silence stops counting"
    views.sent(3, 1.01)
    views.ack("new", 1, 3, 1.05)
    assert views.may_send(1.06)


def test_a_new_epoch_of_the_same_page_forgets_what_was_in_flight():
    views = Views(window=1)
    visible_view(views)
    views.sent(1, 0)
    assert not views.may_send(0.1)
    assert views.hello("a", 2)
    assert views.may_send(0.1)
    assert views.ack("a", 1, 1, 0.2) == [], "acks of the old epoch do not count"
    assert not views.hello("a", 1), "an old hello that comes late changes nothing"


def test_acks_that_stay_away_time_out_and_are_tried_again_ever_more_rarely():
    views = Views(window=2)
    visible_view(views)
    sent, now = [], 0.0
    while now < 30:
        if views.may_send(now):
            views.sent(len(sent) + 1, now)
            sent.append(now)
        now += 0.05
    assert 4 <= len(sent) <= 9
    gaps = [b - a for a, b in pairwise(sent[2:])]
    assert gaps == sorted(gaps)
    assert all(gap < 8.2 for gap in gaps)


def test_a_silent_view_that_is_heard_again_counts_again():
    views = Views(window=1)
    visible_view(views, "a")
    visible_view(views, "b")
    views.sent(1, 0)
    views.ack("a", 1, 1, 0.1)
    assert not views.may_send(0.5), "b has not answered yet"
    assert views.may_send(1.1), "b is silent"
    views.sent(2, 1.1)
    views.heard("b")
    views.ack("a", 1, 2, 1.2)
    assert not views.may_send(1.3), "b lives, and has frame 2 to answer"


def test_slow_links_get_longer_time_outs():
    views = Views(window=1)
    visible_view(views)
    for frame in range(1, 30):
        views.sent(frame, frame * 2.0)
        views.ack("a", 1, frame, frame * 2.0 + 0.9)
    views.sent(30, 100)
    assert not views.may_send(102.5), "0.9 s round trips: 2.5 s are no sign of death"
    assert views.may_send(104)


def test_pages_that_are_gone_are_forgotten():
    views = Views()
    visible_view(views)
    views.sent(1, 0)
    now = 0.0
    while now < FORGET_SECONDS + 5:
        views.may_send(now)
        now += 1
    assert len(views) == 0
    visible_view(views, "b")
    views.bye("b")
    assert len(views) == 0


def test_next_deadline_is_when_silence_would_be_noticed():
    views = Views(window=1)
    assert views.next_deadline(0) is None
    visible_view(views)
    views.sent(1, 5.0)
    deadline = views.next_deadline(5.0)
    assert deadline is not None
    assert not views.may_send(deadline - 0.01)
    assert views.may_send(deadline)


def test_a_view_that_looks_and_does_not_answer_for_its_last_frame_has_lost_it():
    views = Views(window=2)
    visible_view(views)
    assert views.next_loss() is None
    views.sent(1, 0)
    views.sent(2, 0.1)
    views.ack("a", 1, 1, 0.2)
    when = views.next_loss()
    assert when is not None
    assert views.take_lost(when - 0.01) == []
    views.set_visible("a", False)
    assert views.take_lost(when) == [], "nobody looks"
    views.set_visible("a", True)
    assert views.take_lost(when) == ["a"]
    assert views.take_lost(when) == [], "it is told once"
    views.sent(2, when)
    views.ack("a", 1, 2, when + 0.1)
    assert views.next_loss() is None
    assert views.take_lost(when + 60) == []


def message(seq, epoch=1, **fields):
    return parse_message({"type": "bye", "view": "a", "epoch": epoch, "seq": seq, **fields})


def seqs(messages):
    return [m.seq for m in messages]


@given(st.permutations(range(12)))
def test_any_order_of_arrival_comes_out_in_order(order):
    inbox = Inbox()
    out = [m for seq in order for m in inbox.push(message(seq), 0.0)]
    assert seqs(out) == list(range(12))
    assert inbox.deadline is None


def test_a_gap_is_given_up_after_a_while():
    inbox = Inbox()
    assert seqs(inbox.push(message(0), 0)) == [0]
    assert inbox.push(message(2), 1.0) == []
    assert inbox.push(message(3), 1.01) == []
    assert inbox.expire(1.0 + GAP_SECONDS / 2) == []
    assert seqs(inbox.expire(1.0 + GAP_SECONDS)) == [2, 3]
    assert inbox.push(message(1), 1.2) == [], "too late"


def event(seq, kind, epoch=1):
    return message(seq, epoch, type="event", event={"type": kind, "x": 1, "y": 1})


def test_what_the_user_did_is_never_too_late():
    """A button whose release got lost would stay pressed: after a gap that was given up, and after a change of road."""
    inbox = Inbox()
    inbox.push(message(0), 0)
    inbox.push(event(2, "pointer_move"), 1.0)
    assert seqs(inbox.expire(1.0 + GAP_SECONDS)) == [2]
    assert seqs(inbox.push(event(1, "pointer_up"), 1.2)) == [1]
    assert inbox.push(event(5, "pointer_down"), 2.0) == []
    assert inbox.push(event(6, "resize"), 2.0) == []
    assert [(m.epoch, m.seq) for m in inbox.push(message(0, epoch=2), 2.01)] == [(1, 5), (2, 0)]
    assert seqs(inbox.push(event(7, "pointer_up"), 2.02)) == [7]
    assert inbox.push(event(8, "resize"), 2.02) == [], "the page has told its size anew"
    assert seqs(inbox.push(message(1, epoch=2), 2.03)) == [1]


def test_a_second_gap_has_a_deadline_of_its_own():
    inbox = Inbox()
    inbox.push(message(0), 0)
    inbox.push(message(2), 1.0)
    inbox.push(message(5), 1.03)
    assert seqs(inbox.expire(1.0 + GAP_SECONDS)) == [2]
    assert inbox.deadline == pytest.approx(1.03 + GAP_SECONDS)
    assert seqs(inbox.expire(1.03 + GAP_SECONDS)) == [5]


def test_the_expected_message_is_taken_even_by_a_full_inbox():
    inbox = Inbox()
    for seq in range(1, 3000):
        inbox.push(message(seq), 0)
    assert seqs(inbox.push(message(0), 0))[:3] == [0, 1, 2]


def test_a_new_epoch_starts_counting_anew():
    inbox = Inbox()
    inbox.push(message(0), 0)
    inbox.push(message(5), 0)
    assert seqs(inbox.push(message(0, epoch=2), 0)) == [0]
    assert inbox.push(message(1, epoch=1), 0) == []


def test_repeated_messages_come_out_once():
    inbox = Inbox()
    assert seqs(inbox.push(message(0), 0)) == [0]
    assert inbox.push(message(0), 0) == []


HELLO = {
    "type": "hello",
    "view": "a",
    "epoch": 1,
    "seq": 0,
    "version": 1,
    "dpr": 1.5,
    "capabilities": {"webgpu": True, "secureContext": True},
    "host": "JupyterLab",
    "frontend": "0.1.0",
}


def test_messages_are_read():
    assert parse_message(HELLO) == Hello("a", 1, 0, 1, 1.5, True, True, "JupyterLab", "0.1.0")
    ack = parse_message({"type": "ack", "view": "a", "epoch": 1, "seq": 3, "frame": 7.0, "decode_ms": 1.5})
    assert ack == Ack("a", 1, 3, 7, 0, 0, 0, 1.5, None)
    event = parse_message(
        {"type": "event", "view": "a", "epoch": 1, "seq": 4, "event": {"type": "wheel", "dx": 1.0}}
    )
    assert event == Event("a", 1, 4, {"type": "wheel", "dx": 1.0})


def test_unknown_types_are_for_newer_pages():
    assert parse_message({"type": "dance"}) is None


@pytest.mark.parametrize(
    "change",
    [
        {"view": 3},
        {"epoch": -1},
        {"epoch": 1.5},
        {"seq": None},
        {"seq": True},
        {"version": "1"},
        {"dpr": 0},
        {"dpr": math.nan},
        {"dpr": math.inf},
        {"dpr": 10**400},
        {"epoch": 10**400},
        {"capabilities": {"webgpu": "yes"}},
    ],
)
def test_broken_hellos_are_refused(change):
    with pytest.raises(ProtocolError):
        parse_message({**HELLO, **change})


FIELDS = st.sampled_from(["type", "view", "epoch", "seq", "event", "frame"])
LEAVES = st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.integers()


@given(
    st.recursive(
        LEAVES, lambda c: st.lists(c, max_size=3) | st.dictionaries(FIELDS, c, max_size=6), max_leaves=12
    )
)
def test_no_message_can_do_more_than_be_refused(content):
    try:
        parse_message(content)
    except ProtocolError:
        pass


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_events_with_numbers_that_are_none_are_refused(bad):
    with pytest.raises(ProtocolError):
        parse_message(
            {"type": "event", "view": "a", "epoch": 1, "seq": 0, "event": {"type": "pointer_move", "x": bad}}
        )


def resize(width, height, ratio=1):
    return {"pwidth": width, "pheight": height, "ratio": ratio}


def test_sane_sizes_are_taken_as_they_are():
    size = clean_size(resize(641, 480, 1.5), 8192, 2**26)
    assert (size.width, size.height, size.ratio) == (641, 480, 1.5)


@pytest.mark.parametrize(
    "width, height, ratio",
    [
        (0, 480, 1),
        (640, 0, 1),
        (-640, 480, 1),
        (math.nan, 480, 1),
        (640, math.inf, 1),
        (None, 480, 1),
        ("640", 480, 1),
        (True, 480, 1),
        (640, 480, 0),
        (640, 480, math.nan),
        (640, 480, -1),
        (640, 480, 1e9),
    ],
)
def test_impossible_sizes_are_refused(width, height, ratio):
    assert clean_size(resize(width, height, ratio), 8192, 2**26) is None


def test_gigantic_sizes_are_cut():
    size = clean_size(resize(1e9, 100), 8192, 2**26)
    assert (size.width, size.height) == (8192, 100)
    size = clean_size(resize(1e9, 1e9), 16384, 2**26)
    assert size.width * size.height <= 2**26
    assert size.width == size.height


@given(st.floats(), st.floats(), st.floats())
def test_whatever_a_page_asks_for_can_be_rendered(width, height, ratio):
    size = clean_size(resize(width, height, ratio), 8192, 2**26)
    if size is not None:
        assert 1 <= size.width <= 8192
        assert 1 <= size.height <= 8192
        assert size.width * size.height <= 2**26
