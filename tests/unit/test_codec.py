"""When moving pictures go without loss."""

import pytest

from rfb_gpu.flow import CodecChoice, Settings

FULL = Settings(80, "444")
COARSE = Settings(50, "420", 2)
THIN, WIDE = 1_000_000, 100_000_000  # bytes a second


def rested(png, jpeg, settings=FULL, budget=0.1):
    choice = CodecChoice(budget)
    choice.compared(png, jpeg, settings, FULL)
    return choice


def test_a_plot_on_a_thin_link():
    assert rested(30_000, 100_000).choose(THIN)


def test_a_photograph_on_a_thin_link():
    assert not rested(400_000, 100_000).choose(THIN)


def test_a_link_that_carries_either():
    assert not rested(30_000, 100_000).choose(WIDE)


def test_a_link_that_carries_neither_in_time():
    """A coarse JPEG does better there."""
    assert not rested(30_000, 100_000).choose(THIN / 2)
    assert rested(30_000, 100_000, budget=None).choose(THIN / 2)


def test_what_was_sent_coarse_is_compared_as_if_it_had_been_fine():
    assert rested(30_000, 10_000, COARSE).choose(THIN)
    assert not rested(30_000, 10_000).choose(THIN)


@pytest.mark.parametrize("rate", [None, 0])
def test_a_link_of_which_nothing_is_known(rate):
    assert not rested(30_000, 100_000).choose(rate)


def test_nothing_was_compared_yet():
    choice = CodecChoice(0.1)
    choice.sent(1000)
    assert not choice.choose(THIN)


def test_it_is_not_taken_back_at_once():
    choice = rested(30_000, 100_000)
    assert choice.choose(THIN)
    assert choice.choose(5 * THIN)
    assert choice.choose(THIN / 2)
    assert not choice.choose(THIN / 4)
    assert not choice.choose(THIN), "until it rests again"


def test_another_picture_ends_it_until_both_are_known_again():
    choice = rested(30_000, 100_000)
    assert choice.choose(THIN)
    choice.sent(70_000)
    assert choice.choose(THIN)
    choice.sent(130_000)
    assert not choice.choose(THIN)
    choice.sent(30_000)
    assert not choice.choose(THIN)
    choice.compared(20_000, 100_000, FULL, FULL)
    assert choice.choose(THIN)
