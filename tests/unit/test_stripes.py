"""Stripes of a picture: which ones, in which order."""

import itertools
from collections import deque

import pytest

from rfb_gpu.flow.stripes import LEAST_ROWS, MOST_STRIPES, Part, Stripes, outward


@pytest.mark.parametrize("height", [1, 15, 16, 17, 480, 1081, 8192])
@pytest.mark.parametrize("count", [0.3, 1, 2, 7.5, 1000])
def test_stripes_are_the_picture(height, count):
    stripes = outward(height, count, 100)
    covered = [row for y, rows in stripes for row in range(y, y + rows)]
    assert sorted(covered) == list(range(height))
    assert len(stripes) <= MOST_STRIPES
    assert all(rows >= LEAST_ROWS for _, rows in sorted(stripes)[:-1])


def test_the_first_is_at_the_pointer_and_the_others_go_outward():
    stripes = outward(480, 24, 130)
    y, rows = stripes[0]
    assert y <= 130 < y + rows
    distances = [abs(y + rows / 2 - 130) for y, rows in stripes]
    assert distances == sorted(distances)
    # A few that are next to each other at any time: what is sharp is one piece.
    for count in range(1, len(stripes)):
        tops = sorted(stripes[:count])
        assert all(y + rows == below for (y, rows), (below, _) in itertools.pairwise(tops))


def test_each_builds_on_those_before():
    stripes = Stripes(7, deque([(20, 10), (0, 20)]))
    assert stripes.next == Part(20, 10, 7, 0)
    assert not stripes.done()
    assert stripes.next == Part(0, 20, 7, 1)
    assert stripes.done()
