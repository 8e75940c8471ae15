"""The messages between kernel and page (``docs/protocol.md``): what a page sends, checked; what we send, made.

A page is not trusted. :func:`parse_message` gives a message whose fields have the right types and sane values, or raises
:class:`ProtocolError`. Unknown message types give None: a newer page may know more than we do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .stripes import Part

__all__ = [
    "PROTOCOL_VERSION",
    "Ack",
    "Bye",
    "ControlRequest",
    "DecoderReport",
    "Event",
    "Hello",
    "Message",
    "Ping",
    "ProtocolError",
    "RoadReport",
    "Size",
    "Visibility",
    "again_message",
    "clean_event",
    "clean_size",
    "control_message",
    "error_message",
    "frame_message",
    "lead_message",
    "parse_message",
    "pong_message",
    "stats_message",
    "welcome_message",
]

PROTOCOL_VERSION = 1

_TEXT_MAX = 200
_ARRIVALS_MAX = 256
_NUMBER_MAX = 2**53
"""Beyond it a page's numbers are no longer whole."""


class ProtocolError(ValueError):
    """A message that no page of ours sends."""


@dataclass(frozen=True)
class Message:
    """What every message has."""

    view: str
    epoch: int
    seq: int


@dataclass(frozen=True)
class Hello(Message):
    """The first message of a conversation."""

    version: int
    dpr: float
    webgpu: bool
    secure_context: bool
    host: str
    frontend: str


@dataclass(frozen=True)
class Visibility(Message):
    """Whether the page shows the canvas."""

    visible: bool


@dataclass(frozen=True)
class Ack(Message):
    """All frames up to ``frame`` have been dealt with."""

    frame: int
    received: int
    shown: int
    dropped: int
    decode_ms: float | None
    present_ms: float | None
    arrivals: tuple[tuple[int, float, float | None], ...] = ()
    """Of the frames since the last one: number, when it arrived and when its lead did; seconds on the page's clock."""
    waits: tuple[float, ...] = ()
    """Seconds that each frame shown since the last one had waited in the page for its turn."""
    turns: tuple[float | None, ...] = ()
    """Seconds from the beginning of a turn until the next could begin; None where no frame was there for it then."""


@dataclass(frozen=True)
class DecoderReport(Message):
    """Which decoder runs in the page, and why."""

    name: str
    method: str
    reason: str
    adapter: str


@dataclass(frozen=True)
class RoadReport(Message):
    """Why the page goes by the comm although a websocket was offered."""

    reason: str


@dataclass(frozen=True)
class Event(Message):
    """A renderview event, numbers checked, otherwise as it came."""

    event: dict[str, Any]


@dataclass(frozen=True)
class ControlRequest(Message):
    """The page asks to be in control."""


@dataclass(frozen=True)
class Ping(Message):
    """Somebody acts in the page, and has heard nothing for a while."""


@dataclass(frozen=True)
class Bye(Message):
    """The page goes away; or, ``unseen``, it goes on but shows the canvas nowhere any more."""

    unseen: bool


def _text(content: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = content.get(key, default)
    if not isinstance(value, str):
        raise ProtocolError(f"{key!r} must be a text, not {value!r}")
    return value[:_TEXT_MAX]


def _whole(content: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = content.get(key, default)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _NUMBER_MAX:
        raise ProtocolError(f"{key!r} must be a whole number from 0, not {value!r}")
    return value


def _is_number(value: object) -> bool:
    # JSON has whole numbers of any length; nothing that a page means is that large.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _NUMBER_MAX


def _number_or_none(content: Mapping[str, Any], key: str) -> float | None:
    value = content.get(key)
    if value is not None and not (_is_number(value) and value >= 0):
        raise ProtocolError(f"{key!r} must be a number from 0 or null, not {value!r}")
    return value


def _arrivals(content: Mapping[str, Any]) -> tuple[tuple[int, float, float | None], ...]:
    value = content.get("arrivals", ())
    if not isinstance(value, (list, tuple)) or len(value) > _ARRIVALS_MAX:
        raise ProtocolError(f"'arrivals' must be a list of at most {_ARRIVALS_MAX}")
    found: list[tuple[int, float, float | None]] = []
    for arrival in value:
        if not isinstance(arrival, (list, tuple)) or len(arrival) != 3:
            raise ProtocolError(f"an arrival must be a frame's number and two times, not {arrival!r}")
        number, when, lead = arrival
        if not (_is_number(number) and _is_number(when) and (lead is None or _is_number(lead))):
            raise ProtocolError(f"an arrival must be a frame's number and two times, not {arrival!r}")
        found.append((int(number), when / 1000, None if lead is None else lead / 1000))
    return tuple(found)


def _seconds(content: Mapping[str, Any], key: str) -> tuple[float | None, ...]:
    value = content.get(key, ())
    if not isinstance(value, (list, tuple)) or len(value) > _ARRIVALS_MAX:
        raise ProtocolError(f"{key!r} must be a list of at most {_ARRIVALS_MAX}")
    if not all(ms is None or (_is_number(ms) and ms >= 0) for ms in value):
        raise ProtocolError(f"{key!r} must be numbers from 0 or null, not {value!r}")
    return tuple(None if ms is None else ms / 1000 for ms in value)


def _truth(content: Mapping[str, Any], key: str, default: bool | None = None) -> bool:
    value = content.get(key, default)
    if not isinstance(value, bool):
        raise ProtocolError(f"{key!r} must be true or false, not {value!r}")
    return value


def _all_finite(value: object) -> bool:
    if isinstance(value, (int, float)):
        return abs(value) <= _NUMBER_MAX  # which not-a-number is not
    if isinstance(value, dict):
        return all(_all_finite(v) for v in value.values())
    if isinstance(value, (list, tuple)):
        return all(_all_finite(v) for v in value)
    return True


def parse_message(content: object) -> Message | None:
    """The message in ``content``; None if its type is unknown.

    Raises:
        ProtocolError: a field is missing, of the wrong type, or out of range.
    """
    if not isinstance(content, Mapping):
        raise ProtocolError("a message must be an object")
    kind = _text(content, "type")
    if kind not in ("hello", "visibility", "ack", "decoder", "road", "event", "control", "ping", "bye"):
        return None
    base = (_text(content, "view"), _whole(content, "epoch"), _whole(content, "seq"))
    if kind == "hello":
        dpr = content.get("dpr", 1)
        if not (_is_number(dpr) and dpr > 0):
            raise ProtocolError(f"'dpr' must be a number above 0, not {dpr!r}")
        capabilities = content.get("capabilities")
        if not isinstance(capabilities, Mapping):
            capabilities = {}
        return Hello(
            *base,
            version=_whole(content, "version"),
            dpr=dpr,
            webgpu=_truth(capabilities, "webgpu", False),
            secure_context=_truth(capabilities, "secureContext", False),
            host=_text(content, "host", ""),
            frontend=_text(content, "frontend", ""),
        )
    if kind == "visibility":
        return Visibility(*base, visible=_truth(content, "visible"))
    if kind == "ack":
        return Ack(
            *base,
            frame=_whole(content, "frame"),
            received=_whole(content, "received", 0),
            shown=_whole(content, "shown", 0),
            dropped=_whole(content, "dropped", 0),
            decode_ms=_number_or_none(content, "decode_ms"),
            present_ms=_number_or_none(content, "present_ms"),
            arrivals=_arrivals(content),
            waits=tuple(wait for wait in _seconds(content, "waits") if wait is not None),
            turns=_seconds(content, "turns"),
        )
    if kind == "decoder":
        return DecoderReport(
            *base,
            name=_text(content, "name"),
            method=_text(content, "method", ""),
            reason=_text(content, "reason", ""),
            adapter=_text(content, "adapter", ""),
        )
    if kind == "road":
        return RoadReport(*base, reason=_text(content, "reason", ""))
    if kind == "event":
        event = content.get("event")
        if not isinstance(event, dict) or not isinstance(event.get("type"), str) or not _all_finite(event):
            raise ProtocolError("'event' must be a renderview event with finite numbers")
        return Event(*base, event=event)
    if kind == "control":
        return ControlRequest(*base)
    if kind == "ping":
        return Ping(*base)
    return Bye(*base, unseen=_truth(content, "unseen", False))


_EVENT_FIELDS: dict[str, tuple[str, ...]] = {
    "pointer_": ("x", "y"),
    "double_click": ("x", "y"),
    "wheel": ("x", "y", "dx", "dy"),
}
"""By the beginning of an event's type: the numbers that programs rely on."""


def clean_event(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """A renderview event in rendercanvas' words, if it has what programs rely on; None otherwise."""
    kind = event["type"]
    for beginning, fields in _EVENT_FIELDS.items():
        if kind.startswith(beginning) and not all(_is_number(event.get(name)) for name in fields):
            return None
    if kind.startswith("key_") and not isinstance(event.get("key"), str):
        return None
    cleaned = {name: value for name, value in event.items() if name not in ("type", "timestamp")}
    for name in ("buttons", "modifiers"):
        if name in cleaned or kind.startswith(("pointer_", "double_click", "wheel")):
            values = cleaned.get(name, ())
            cleaned[name] = tuple(values) if isinstance(values, (list, tuple)) else ()
    return {**cleaned, "event_type": kind}


@dataclass(frozen=True)
class Size:
    """A size that can be rendered: pixels, and pixels per logical pixel."""

    width: int
    height: int
    ratio: float


RATIO_MIN, RATIO_MAX = 0.1, 10.0


def clean_size(event: Mapping[str, Any], max_side: int, max_pixels: int) -> Size | None:
    """The size that a ``resize`` event asks for, as far as it can be rendered; None if it makes no sense.

    Zero, negative and missing numbers make no sense. Larger than ``max_side`` a side is cut, more than ``max_pixels`` is scaled
    down with its proportions.
    """
    values = (event.get("pwidth"), event.get("pheight"), event.get("ratio"))
    if not all(_is_number(value) for value in values):
        return None
    width, height, ratio = (float(value) for value in values)  # type: ignore[arg-type]
    if width < 1 or height < 1 or not RATIO_MIN <= ratio <= RATIO_MAX:
        return None
    width, height = min(width, max_side), min(height, max_side)
    if width * height > max_pixels:
        shrink = math.sqrt(max_pixels / (width * height))
        width, height = max(width * shrink, 1), max(height * shrink, 1)
    return Size(int(width), int(height), ratio)


def welcome_message(
    view: str, epoch: int, release: str, window: int, road: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The answer to a hello; with what the page needs to come by websocket, if it can."""
    message = {
        "type": "welcome",
        "version": PROTOCOL_VERSION,
        "view": view,
        "epoch": epoch,
        "release": release,
        "window": window,
    }
    return message if road is None else {**message, "road": dict(road)}


def stats_message(text: str) -> dict[str, Any]:
    """What the overlay says, one line each."""
    return {"type": "stats", "text": text}


def lead_message(frame_id: int, view: str) -> dict[str, Any]:
    """Goes ahead of a frame; what lies between their arrivals is the frame's time on the link."""
    return {"type": "lead", "view": view, "id": frame_id}


def error_message(code: str, text: str, view: str | None = None) -> dict[str, Any]:
    """A line for the badge on the canvas, of all views or of one; an empty text takes it away."""
    message = {"type": "error", "code": code, "text": text}
    return message if view is None else {**message, "view": view}


def control_message(view: str) -> dict[str, Any]:
    """Tells all pages which one is in control."""
    return {"type": "control", "view": view}


def again_message(view: str) -> dict[str, Any]:
    """Asks a page that is not known (any more) to say hello."""
    return {"type": "again", "view": view}


def pong_message(view: str) -> dict[str, Any]:
    """The answer to a ping: the kernel handles messages."""
    return {"type": "pong", "view": view}


def frame_message(
    frame_id: int,
    *,
    codec: str,
    width: int,
    height: int,
    fit: str,
    final: bool,
    quality: int,
    subsampling: str,
    scale: int,
    window: int,
    view: str | None = None,
    part: Part | None = None,
    alpha: int | None = None,
) -> dict[str, Any]:
    """What goes with the bytes of a frame. Width and height are the whole picture's, also of a part."""
    message = {
        "type": "frame",
        "id": frame_id,
        "codec": codec,
        "width": width,
        "height": height,
        "fit": fit,
        "final": final,
        "quality": quality,
        "subsampling": subsampling,
        "scale": scale,
        "window": window,
    }
    if view is not None:
        message["view"] = view
    if part is not None:
        message["part"] = {"y": part.y, "rows": part.rows, "base": part.base, "index": part.index}
    if alpha is not None:
        message["alpha"] = alpha
    return message
