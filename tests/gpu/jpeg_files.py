"""JPEG files to decode: of the reference, of libjpeg-turbo, and broken ones."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
from PIL import Image

from rfb_gpu.codecs.jpeg.bitstream import Layout, entry_work, file_head, index_markers
from rfb_gpu.codecs.jpeg.tables import quantisation_tables
from tests.reference import jpeg as reference

SUBSAMPLINGS = ("444", "422", "420", "gray")


def reference_file(rgb: np.ndarray, quality: int, subsampling: str, with_index: bool = True) -> bytes:
    """A file as our encoder makes them, by its twins. Slow: for small pictures."""
    layout = Layout(rgb.shape[1], rgb.shape[0], subsampling)
    levels = reference.pixels_to_levels(rgb, layout, quality)
    segments = reference.encode_segments(levels, layout)
    stream = reference.write_stream(segments)
    index = b""
    if with_index:
        work = entry_work(layout, len(stream), len(segments) * len(segments[0]))
        entries = reference.index_of(segments, work, layout)
        index = index_markers(layout, entries, len(stream))
    first, rest = file_head(layout, quantisation_tables(quality))
    return first + index + rest + stream


def libjpeg_file(rgb: np.ndarray, quality: int, subsampling: str, **options: object) -> bytes:
    """A file of libjpeg-turbo, with a restart marker per MCU row unless ``options`` say otherwise."""
    image = Image.fromarray(np.ascontiguousarray(rgb[..., :3]))
    if subsampling == "gray":
        image = image.convert("L")
    else:
        options["subsampling"] = ("444", "422", "420").index(subsampling)
    file = io.BytesIO()
    image.save(file, "JPEG", **{"quality": quality, "restart_marker_rows": 1, **options})
    return file.getvalue()


def libjpeg_decode(data: bytes) -> np.ndarray:
    """RGB as Pillow, and with it every browser, shows it; shape (height, width, 3), int."""
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)


def mutants(good: bytes, count: int, rng: np.random.Generator) -> Iterator[bytes]:
    """Broken copies: bits flipped, bytes overwritten, parts cut out, doubled or exchanged for those of elsewhere, ends cut off; and
    indexes that are wrong but believed.

    Half of the changes go to the head, which is small but where the lengths, sizes and tables are.
    """
    head = good.index(b"\xff\xda") + 14
    for _ in range(count):
        data = bytearray(good)
        for _ in range(rng.integers(1, 5)):
            at = int(rng.integers(len(data) if rng.random() < 0.5 else min(head, len(data))))
            length = int(rng.integers(1, 20))
            match rng.integers(7):
                case 0:
                    data[at] ^= 1 << int(rng.integers(8))
                case 1:
                    data[at] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFE, 0xFF, rng.integers(256)]))
                case 2:
                    data[at : at + length] = b""
                case 3:
                    data[at:at] = data[at : at + length]
                case 4:
                    source = int(rng.integers(len(data)))
                    data[at : at + length] = data[source : source + length]
                case 5:
                    data[at : at + 2] = bytes(
                        [0xFF, int(rng.choice([0xD0, 0xD7, 0xD8, 0xD9, 0xDA, 0xFF, 0x00]))]
                    )
                case 6:
                    move_in_index(data, rng)
            if not data:
                break
        if rng.random() < 0.2:
            del data[int(rng.integers(len(data) + 1)) :]
        yield bytes(data)


def move_in_index(data: bytearray, rng: np.random.Generator) -> None:
    """Lets entries of the index begin in the middle of a code, or with another segment. What one loses another gets, and rows begin
    with bytes, so decoders believe it."""
    name = data.find(b"RFBG\0\4")
    if name < 0:
        return
    first, end = name + 11, name - 2 + int.from_bytes(data[name - 2 : name], "big")
    entries = data[first:end]
    words = np.frombuffer(entries[: len(entries) & ~1], "<u2")
    if len(words) < 2:
        return
    if rng.integers(2):
        a, b = rng.integers(len(words), size=2)
        unit = 8 << (data[name + 6] & 15)  # whole bytes; the bits below are how many segments
    else:
        a, b = rng.permutation(2) + rng.integers(len(words) - 1)
        unit = 1
    moved = words.astype(np.int64)
    lost = unit * rng.integers(0, min(moved[a], 65535 - moved[b]) // unit + 1)
    moved[a] -= lost
    moved[b] += lost
    data[first : first + 2 * len(words)] = moved.astype("<u2").tobytes()
