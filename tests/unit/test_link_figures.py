"""What benchmarks/link.py makes of the times that a page and a kernel report: cases small enough to work out by hand."""

from __future__ import annotations

import math

import pytest

from benchmarks.link import (
    MOVES_PER_SECOND,
    Lattice,
    Phase,
    figures,
    parse_phase,
    times_to_shown,
)
from benchmarks.notebook import parse_quality


@pytest.mark.parametrize("size", [(640, 480), (320, 240), (333, 201)])
def test_a_position_tells_its_move_even_if_it_was_rounded(size):
    lattice = Lattice(*size)
    seen = {}
    for y in range(size[1]):
        for x in range(size[0]):
            if (number := lattice.number(x, y)) is not None:
                seen.setdefault(number, []).append((x, y))
    assert sorted(seen) == list(range(1, len(lattice) + 1))
    for number, places in seen.items():
        # A move goes to the middle of all the positions that are taken for it, as the page computes it.
        row, along = divmod(number - 1, lattice.columns)
        column = along if row % 2 == 0 else lattice.columns - 1 - along
        place = (8 + 4 * column, 8 + 4 * row)
        assert {(place[0] + dx, place[1] + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)} <= set(places)


def test_nothing_beside_the_lattice_is_a_move():
    lattice = Lattice(320, 240)
    assert lattice.number(0, 50) is None
    assert lattice.number(160, 228) is None, "the mark"
    assert lattice.number(-100, 50) is None


def test_each_move_waits_for_the_first_picture_that_knows_of_it():
    moves = [0, 100, 110, 120, 130]
    pictures = [
        {"at": 105, "number": 0},
        {"at": 150, "number": 2},
        {"at": 160, "number": None},
        {"at": 190, "number": 2},
        {"at": 200, "number": 3},
    ]
    shown, ages = times_to_shown(moves, pictures)
    assert shown[1:] == [50, 40, 80, math.inf]
    assert [age for age in ages if not math.isnan(age)] == [40, 80]


def frame(at, quality, side=480, **more):
    return {
        "at": at,
        "bytes": 1000,
        "quality": quality,
        "subsampling": "444",
        "width": 640,
        "height": side,
        **more,
    }


def test_the_rows_of_two_phases():
    moves = [0, *(1000 + 1000 * n / MOVES_PER_SECOND for n in range(240))]  # 4 s
    # A picture each 100 ms, that lags by 200 ms in the first two seconds and by 50 ms after.
    pictures = [
        {
            "at": at,
            "number": sum(moves[n] <= at - (200 if at < 3000 else 50) for n in range(1, 241)),
            "final": False,
        }
        for at in range(1050, 5000, 100)
    ]
    pictures.append({"at": 5700, "number": 240, "final": True})
    in_page = {"moves": moves, "pictures": pictures, "phases": [1000, 3000, 5000]}
    frames = [
        frame(9.5, 90),
        frame(10.1, 30, 240),
        frame(10.5, 50, 240),
        frame(11.5, 50),
        frame(12.3, 70),
        frame(12.9, 90),
        frame(13.5, 90),
        frame(13.7, 0, codec="png", bytes=50_000),
    ]
    phases = [Phase(1e6, 0.1, 2), Phase(8e6, 0.01, 2)]
    thin, wide = figures(phases, in_page, frames, [10, 12, 14], [0, 125_000, 1_125_000])

    assert thin["moves"] == wide["moves"] == 120
    # The lag, and half of the time between two pictures; less for the last moves of the first phase.
    assert thin["shown50"] == pytest.approx(240, abs=15)
    assert wide["shown50"] == pytest.approx(100, abs=10)
    assert thin["max"] <= 300
    assert thin["age50"] == pytest.approx(210, abs=15)
    assert thin["trend"] == pytest.approx(1, abs=0.05)
    assert thin["fps"] == wide["fps"] == 10
    assert (thin["kB"], wide["kB"]) == (1, 1)
    assert (thin["lossless"], wide["lossless"]) == (0, 1)
    assert (thin["link"], wide["link"]) == (0.5, 0.5)
    assert (thin["quality"], wide["quality"]) == ("30–50 →50 444", "70–90 →90 444")
    assert (thin["size"], wide["size"]) == ("0.5–1 →1", "1")
    assert (thin["changes"], wide["changes"]) == (2, 1)
    assert "back" not in thin
    assert wide["back"] == pytest.approx(0.9)
    assert wide["sharp"] == pytest.approx(0.7)


def test_what_grows_has_a_trend():
    moves = [0, *range(0, 3000, 10)]
    pictures = [{"at": 2 * at + 1, "number": at // 10 + 1, "final": False} for at in range(0, 3000, 10)]
    (row,) = figures(
        [Phase(1e6, 0, 3)], {"moves": moves, "pictures": pictures, "phases": [0, 3000]}, [], [0, 3], [0, 0]
    )
    assert row["trend"] > 4
    assert row["sharp"] == "never"


def test_arguments():
    assert parse_phase("2:100:15") == Phase(2e6, 0.1, 15)
    assert parse_quality("80") == 80
    assert parse_quality("35,85") == (35, 85)
    for text in ("2:100", "0:1:1", "1:-1:1", "a:b:c", "1:1:inf"):
        with pytest.raises(ValueError):
            parse_phase(text)
    with pytest.raises(ValueError):
        parse_quality("1,2,3")
