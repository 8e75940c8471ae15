"""How a canvas does: counts and times of its last seconds, as a dataclass that prints as a small table.

:class:`Meter` is told what happens, and computes only when asked. It never decides anything, and knows no clock but the ``now``
(seconds) that it is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Meter", "Spread", "Stats"]

WINDOW_SECONDS = 5.0
"""What is older no longer counts."""
MAX_SAMPLES = 2000


@dataclass(frozen=True)
class Spread:
    """Times in milliseconds: how many there were, the median, the 95th percentile, the largest."""

    count: int = 0
    median: float = 0.0
    p95: float = 0.0
    largest: float = 0.0

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Spread:
        """Of times in seconds."""
        ordered = sorted(1000 * value for value in seconds)
        if not ordered:
            return cls()
        return cls(
            len(ordered),
            _nearest(ordered, 0.5),
            _nearest(ordered, 0.95),
            ordered[-1],
        )

    def __str__(self) -> str:
        if not self.count:
            return "-"
        return f"{self.median:.1f} ms (95 %: {self.p95:.1f}, most {self.largest:.1f})"


def _nearest(ordered: list[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


@dataclass(frozen=True)
class Stats:
    """What a canvas did in its last seconds. All counts and times are of these; frames without loss count for the bytes alone.

    Frames are those to the page in control, or to whichever page they were drawn for.
    """

    seconds: float
    """Over which all this was measured: 5, or since the first frame."""
    fps: float
    """Frames per second that a page has acknowledged."""
    sent: int
    """Frames sent, not counting those without loss."""
    unchanged: int
    """Frames that were drawn, but were the same as the one before, and so not sent."""
    dropped: int
    """Frames that a page received but did not show, because a newer one was there."""
    megabits_per_second: float
    """Of all frames, those without loss as well."""
    kilobytes: float
    """Mean size of a frame (1000 bytes), not counting those without loss."""
    draw: Spread
    """In the user's draw function."""
    encode: Spread
    """From the end of a draw until the bytes are there: encoding, copying, mapping."""
    send: Spread
    """Handing a frame over to the kernel's messages."""
    held: Spread
    """For how long a frame held the event loop in all, without the user's own draw."""
    round_trip: Spread
    """From sending a frame to the page's acknowledgement."""
    decode: Spread
    """In the page: from the decoder's call until its GPU has finished. Medians of a few frames each."""
    present: Spread
    """In the page: from a frame's arrival until it is shown. Medians of a few frames each."""
    link_megabits_per_second: float | None
    """What the link of the page in control carries at least; None while nothing is known."""
    quality: int
    """Of the next frame, as are the next two."""
    subsampling: str
    scale: int
    encoder: str
    decoders: tuple[str, ...]
    """Of each page."""
    adapter: str
    """On which the canvas draws."""

    def __str__(self) -> str:
        link = self.link_megabits_per_second
        size = "" if self.scale == 1 else f", 1/{self.scale} of the size"
        return "\n".join(
            [
                f"{self.fps:.1f} frames/s, {self.megabits_per_second:.1f} Mbit/s, {self.kilobytes:.0f} kB a frame "
                f"(the link carries {'an unknown rate' if link is None else f'{link:.0f} Mbit/s or more'})",
                f"quality {self.quality}, {self.subsampling}{size}; "
                f"{self.sent} sent, {self.unchanged} unchanged, {self.dropped} dropped in {self.seconds:.1f} s",
                f"draw       {self.draw}",
                f"encode     {self.encode}",
                f"send       {self.send}",
                f"held       {self.held}",
                f"round trip {self.round_trip}",
                f"decode     {self.decode}",
                f"present    {self.present}",
                f"encoder {self.encoder} on {self.adapter}; decoders: {', '.join(self.decoders) or 'no page yet'}",
            ]
        )

    def overlay(self) -> str:
        """The few lines that lie over the picture."""
        size = "" if self.scale == 1 else f" 1/{self.scale}"
        return "\n".join(
            [
                f"{self.megabits_per_second:.1f} Mbit/s, {self.kilobytes:.0f} kB a frame, q{self.quality} {self.subsampling}{size}",
                f"draw {self.draw.median:.1f} encode {self.encode.median:.1f} round trip {self.round_trip.median:.1f} ms",
                f"decode {self.decode.median:.1f} present {self.present.median:.1f} ms, dropped {self.dropped}",
                f"{self.encoder}; {', '.join(self.decoders)}",
            ]
        )


class Meter:
    """Keeps what happened lately, and the sums of ``rendercanvas``' own statistics."""

    def __init__(self) -> None:
        self._samples: dict[str, deque[tuple[float, float]]] = {}
        self.reset()

    def reset(self) -> None:
        """Forgets everything."""
        self._samples.clear()
        self.start: float | None = None
        self.last = 0.0
        self.sent_frames = self.confirmed_frames = 0
        self.round_trips = self.deliveries = self.encodings = 0.0

    def add(self, what: str, now: float, value: float) -> None:
        """Something took ``value`` seconds, or was so large, or came so often."""
        samples = self._samples.setdefault(what, deque(maxlen=MAX_SAMPLES))
        samples.append((now, value))
        while samples[0][0] < now - WINDOW_SECONDS:
            samples.popleft()

    def encoded(self, now: float, seconds: float) -> None:
        """A frame's bytes are there, so long after its draw."""
        self.encodings += seconds
        self.add("encode", now, seconds)

    def sent(self, now: float, size: int, *, is_final: bool) -> None:
        """A frame goes out."""
        self.add("bytes", now, size)
        if not is_final:
            self.add("size", now, size)
            self.sent_frames += 1
            self.start = now if self.start is None else self.start

    def confirmed(self, now: float, round_trips: list[float], in_page: float) -> None:
        """A page has answered for frames that were waited for; ``in_page`` seconds of the round trips were spent there."""
        if not round_trips or self.start is None:
            return
        self.confirmed_frames += len(round_trips)
        self.round_trips += sum(round_trips)
        self.deliveries += sum(max(trip - in_page, 0.0) for trip in round_trips)
        self.last = now
        for trip in round_trips:
            self.add("round_trip", now, trip)

    def values(self, what: str, now: float) -> list[float]:
        """The values of the last seconds."""
        return [value for when, value in list(self._samples.get(what, ())) if when >= now - WINDOW_SECONDS]

    def spread(self, what: str, now: float) -> Spread:
        """The spread of the times of the last seconds."""
        return Spread.of(self.values(what, now))

    def seconds(self, now: float) -> float:
        """How long has been measured, up to the window."""
        return min(WINDOW_SECONDS, now - self.start) if self.start is not None else 0.0

    def rendercanvas_stats(self) -> dict[str, float]:
        """Means since the last reset, with rendercanvas' names."""
        seconds = self.last - (self.start or 0.0)
        return {
            "sent_frames": self.sent_frames,
            "confirmed_frames": self.confirmed_frames,
            "roundtrip": self.round_trips / (self.confirmed_frames or 1),
            "delivery": self.deliveries / (self.confirmed_frames or 1),
            "img_encoding": self.encodings / (self.sent_frames or 1),
            "fps": self.confirmed_frames / seconds if seconds > 0 else 0.0,
        }
