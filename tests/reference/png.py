"""A twin in Python for every stage of the PNG encoder, under the stage's own name.

    pack_rows               pixels -> rows of bytes, and which colours there are
    index_rows              rows of RGB -> rows of the numbers of their colours
    choose_filters          rows -> the filter of each
    residuals               rows and filters -> the bytes of the stream, what all later stages begin with
    count_spans             bytes -> how often each token comes
    encode_spans            bytes -> the bits of each span, as text of 0 and 1, first bit first, and sums for Adler-32
    place_spans             where each row begins
    write_stream            all bits, and the sums of each row

The format in short. A row of the stream is its filter's number and its bytes, from which a filter subtracts what it predicts by
their neighbours (PNG specification, section 9). Deflate (RFC 1951) writes literals, and matches, which are copies of what came
before: here from a few places only, the candidates (rows above, bytes to the left, bytes by which a match must be better than
one of a candidate before). Tokens are found in spans of 4096 bytes, and there by pieces of 32 bytes at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

STRIPE_ROWS = 32
PADDING = 3
"""Bytes before a row, so that its pixels begin with whole words: they count where spans and pieces are cut."""
SPAN_BYTES = 4096
PIECE_BYTES = 32
SUB, UP, PAETH = 1, 2, 4
SHORTEST, LONGEST = 3, 258
ROUNDS = 3
SHORTEST_CUT = 1024
TOKENS = 528

Candidates = Sequence[tuple[int, int, int]]
Token = tuple[int, int, int]
"""Where it begins, how many bytes it is, and a match's candidate."""


def pack_rows(rgba: np.ndarray, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of bytes, shape (height, width * channels); and the colours, R lowest, in ascending order."""
    height, width = rgba.shape[:2]
    colours = np.unique(rgba[..., :3].reshape(-1, 3).astype(int) @ [1, 1 << 8, 1 << 16])
    if channels == 1:
        luma = rgba[..., :3].astype(int) @ [19595, 38470, 7471]
        return (luma + 0x8000 >> 16).astype(np.uint8), colours
    return rgba[..., :channels].reshape(height, width * channels), colours


def index_rows(rows: np.ndarray, palette: np.ndarray) -> np.ndarray:
    """``palette``: colours, R lowest, in the order of their numbers."""
    colours = rows.reshape(len(rows), -1, 3).astype(int) @ [1, 1 << 8, 1 << 16]
    return np.argmax(colours[..., None] == palette, -1).astype(np.uint8)


def _predictions(rows: np.ndarray, channels: int) -> dict[int, np.ndarray]:
    """By filter, what each byte is predicted to be; the first row has nothing above."""
    here = rows.astype(int)
    left = np.pad(here, ((0, 0), (channels, 0)))[:, : here.shape[1]]
    up, corner = np.zeros_like(here), np.zeros_like(here)
    up[1:], corner[1:] = here[:-1], left[:-1]
    estimate = left + up - corner
    to_left, to_up, to_corner = (np.abs(estimate - neighbour) for neighbour in (left, up, corner))
    paeth = np.where(to_up <= to_corner, up, corner)
    paeth = np.where((to_left <= to_up) & (to_left <= to_corner), left, paeth)
    return {0: np.zeros_like(here), SUB: left, UP: up, PAETH: paeth}


def choose_filters(rows: np.ndarray, channels: int) -> np.ndarray:
    """The one whose residuals take the fewest bits; Up before Sub before Paeth where they take as many. Zeros that fill up a row's
    last word count as well."""
    words = np.pad(rows, ((0, 0), (0, -rows.shape[1] % 4)))
    bits = {}
    for filter_kind, prediction in _predictions(words, channels).items():
        residual = (words - prediction).astype(np.uint8).view(np.int8).astype(int)
        bits[filter_kind] = np.ceil(np.log2(np.abs(residual) + 1)).sum(1)
    order = np.array([UP, SUB, PAETH])
    best = order[np.argmin([bits[filter_kind] for filter_kind in order], 0)]
    best[::STRIPE_ROWS] = SUB
    return best


def residuals(rows: np.ndarray, channels: int, filters: np.ndarray) -> np.ndarray:
    """The bytes of the stream, shape (height, 1 + width * channels)."""
    predictions = _predictions(rows, channels)
    chosen = np.stack([predictions[filter_kind][y] for y, filter_kind in enumerate(filters)])
    return np.hstack([filters[:, None], rows - chosen]).astype(np.uint8)


def cut_of(row_bytes: int, candidates: Candidates) -> int:
    """The place, counted like a span's, that no match goes across: where a decoder can begin as well. 0: there is none."""
    whole = PADDING + row_bytes
    has_cut = whole >= SHORTEST_CUT and any(above for above, _, _ in candidates)
    return PIECE_BYTES * round(whole / (2 * PIECE_BYTES)) if has_cut else 0


class _Span:
    """Finds the tokens of a span. Places are counted from three bytes before the row."""

    def __init__(self, data: np.ndarray, row: int, first: int, candidates: Candidates) -> None:
        self.row = [0] * PADDING + data[row].tolist()
        self.first, self.end = first, min(first + SPAN_BYTES, len(self.row))
        self.candidates = candidates
        self._same: list[list[int]] = []
        for above, left, _ in candidates:
            source = self.row if not above else [0] * PADDING + data[row - 1].tolist()
            begin, end = max(PADDING, PADDING + left), min(len(self.row), len(self.row) + left)
            if above and row % STRIPE_ROWS == 0:
                end = 0
            cut = cut_of(data.shape[1], candidates)
            at_cut = range(cut, cut + left) if left > 0 else range(cut + min(left, -1), cut)
            run, runs = 0, [0] * (self.end - first)
            for place in reversed(range(first, self.end)):
                is_same = begin <= place < end and source[place - left] == self.row[place]
                run = run + 1 if is_same and place not in at_cut else 0
                runs[place - first] = run
            self._same.append(runs)

    def best_match(self, place: int) -> tuple[int, int]:
        """Its length, 0 for none, and its candidate."""
        best, found = 0, 0
        for i, (above, _, worth) in enumerate(self.candidates):
            if best >= LONGEST:
                break
            length = self._same[i][place - self.first]
            length = min(length, LONGEST) if above else length
            if length >= SHORTEST and length > best + worth:
                best, found = length, i
        return best, found

    def tokens_from(self, place: int, piece_end: int) -> list[Token]:
        """Those that begin before the piece's end, if one begins at ``place``."""
        found = []
        while place < piece_end:
            length, candidate = self.best_match(place)
            found.append((place, max(length, 1), candidate))
            place += max(length, 1)
        return found

    def tokens(self) -> Iterator[Token]:
        """All of the span: each piece takes its own, as if one began with it. Those that are reached from the first one, from where
        the tokens of one end to the next, take them anew where they are reached elsewhere; the others have none."""
        starts = [
            max(start, PADDING) if self.first == 0 else start
            for start in range(self.first, self.end, PIECE_BYTES)
        ]
        ends = [*starts[1:], self.end]
        entries = list(starts)
        found = [self.tokens_from(start, end) for start, end in zip(starts, ends, strict=True)]
        exits: dict[int, int] = {}
        for _ in range(ROUNDS):
            exits, place, moved = {}, starts[0], {}
            while place < self.end:
                piece = (place - self.first) // PIECE_BYTES
                if place != entries[piece]:
                    moved[piece] = place
                place = exits[piece] = sum(found[piece][-1][:2])
            for piece, entry in moved.items():
                entries[piece], found[piece] = entry, self.tokens_from(entry, ends[piece])
        for piece, left in exits.items():
            yield from self._fitted(found[piece], entries[piece], ends[piece], left)

    def _fitted(self, tokens: list[Token], entry: int, piece_end: int, exit: int) -> Iterator[Token]:
        """A piece's tokens, and what is done where they do not end where the next piece begins."""
        if tokens and sum(tokens[-1][:2]) > exit:
            *tokens, (place, _, candidate) = tokens
            if exit - place >= SHORTEST:
                tokens.append((place, exit - place, candidate))
            else:
                tokens += [(literal, 1, 0) for literal in range(place, piece_end)]
        yield from tokens
        place = sum(tokens[-1][:2]) if tokens else entry
        while place < exit:
            length, candidate = self.best_match(place)
            length = min(length, exit - place)
            length = length if length >= SHORTEST else 1
            yield place, length, candidate
            place += length

    def token_numbers(self, before: float = np.inf) -> Iterator[int]:
        """Of tokens that begin before a place: a literal is its byte; a match of 3 to 258 bytes is 253 + its length, and then 512 +
        its candidate."""
        for place, length, candidate in self.tokens():
            if place >= before:
                return
            if length == 1:
                yield self.row[place]
                continue
            while length > 0:
                part = min(length, LONGEST)
                if 0 < length - part < SHORTEST:
                    part = length - SHORTEST
                yield 253 + part
                yield 512 + candidate
                length -= part


def _spans(data: np.ndarray, row: int, candidates: Candidates) -> Iterator[_Span]:
    for first in range(0, PADDING + data.shape[1], SPAN_BYTES):
        yield _Span(data, row, first, candidates)


def count_spans(data: np.ndarray, rows: Iterable[int], candidates: Candidates) -> np.ndarray:
    """How often each token comes in some rows of the stream's bytes."""
    numbers = [n for row in rows for span in _spans(data, row, candidates) for n in span.token_numbers()]
    return np.bincount(numbers, minlength=TOKENS)


def encode_spans(
    data: np.ndarray, candidates: Candidates, codes: np.ndarray
) -> tuple[list[list[str]], np.ndarray]:
    """By row, the bits of each span; and of each span the sum of its bytes, and of these times the bytes from each to its end,
    shape (spans, 2). ``codes``: of each token the bits from bit 5 on, lowest first, and their number below."""
    texts = [f"{int(code) >> 5:032b}"[::-1][: int(code) & 31] for code in codes]
    bits, sums = [], []
    for row in range(len(data)):
        bits.append([])
        for span in _spans(data, row, candidates):
            bits[-1].append("".join(texts[token] for token in span.token_numbers()))
            values = np.array(span.row[span.first : span.end])
            sums.append((values.sum(), values @ np.arange(values.size, 0, -1)))
    return bits, np.array(sums)


def place_spans(bits: list[list[str]], start: int) -> list[int]:
    """The bit where each row begins, and where the last one ends."""
    return [start, *(start + np.cumsum([sum(map(len, row)) for row in bits])).tolist()]


def place_cuts(
    data: np.ndarray, candidates: Candidates, codes: np.ndarray, places: Sequence[int]
) -> list[int]:
    """The bit where the second part of each row begins; ``places``: those of the rows."""
    lengths = np.asarray(codes).astype(int) & 31
    cut = cut_of(data.shape[1], candidates)
    return [
        places[row]
        + int(sum(lengths[list(span.token_numbers(cut))].sum() for span in _spans(data, row, candidates)))
        for row in range(len(data))
    ]


def write_stream(bits: list[list[str]], data: np.ndarray) -> tuple[str, np.ndarray]:
    """All bits; and of each row the sum of its bytes, and of these times the bytes from each to its end, modulo 65521."""
    values = data.astype(int)
    sums = np.stack([values.sum(1), values @ np.arange(values.shape[1], 0, -1)], 1)
    return "".join("".join(row) for row in bits), sums % 65521
