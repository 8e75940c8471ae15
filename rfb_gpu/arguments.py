"""Checks of what users pass in. Errors name the argument, what it may be, and what it was."""

from __future__ import annotations

import math

from .codecs.jpeg.tables import check_quality

__all__ = ["check_choice", "check_count", "check_flag", "check_quality_range", "check_quantity"]


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """One of some words."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")


def check_flag(name: str, value: object) -> None:
    """True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")


def check_count(name: str, value: object) -> None:
    """A whole number from 1, or None."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number or None, not {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be 1 or more, not {value}")


def check_quantity(name: str, value: object, what: str = "positive number", *, zero: bool = False) -> None:
    """A finite number above 0, or from 0 with ``zero``, or None; ``what`` says so."""
    if value is not None and not (
        isinstance(value, (int, float)) and (value > 0 or (zero and value == 0)) and value < math.inf
    ):
        raise ValueError(f"{name} must be a {what} or None, not {value!r}")


def check_quality_range(quality: object) -> tuple[int, int]:
    """The least and the best quality."""
    if isinstance(quality, (tuple, list)):
        if len(quality) != 2:
            raise ValueError(f"quality must be a number or (least, best), not {quality!r}")
        floor, ceiling = (check_quality(value) for value in quality)
        if floor > ceiling:
            raise ValueError(f"quality must be (least, best), not {quality!r}")
        return floor, ceiling
    fixed = check_quality(quality)  # type: ignore[arg-type]
    return fixed, fixed
