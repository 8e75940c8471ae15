"""A twin in Python for every stage of the JPEG codec, under the stage's own name.

    pixels -> levels        what encode_segment does first: colour, DCT, quantisation
    encode_segment          levels -> the code of each segment, as text of 0 and 1
    place_segments          where each segment begins, and how many bytes are stuffed before it
    write_stream            the bytes, stuffed, with their markers
    huffman_decode          bytes -> levels
    samples                 levels -> samples, what reconstruct_chroma and reconstruct do first
    reconstruct             levels -> pixels

The format in short (ITU-T T.81). A picture is cut into MCUs, in 4:4:4 one block of 8x8 for each of Y, Cb, Cr, in 4:2:2 two
and in 4:2:0 four of Y and one of each chroma, in gray one of Y. A block becomes 64 levels in zigzag order. Level 0, DC, is
coded as the difference to the block before of the same component; the others as pairs (run of zeros, size) in Huffman code,
each followed by ``size`` bits that tell which level of that size it is. A run over 15 is split by ZRL, which stands for 16
zeros; EOB says that only zeros follow. The bits are packed into bytes; after a byte 0xFF a byte 0 is stuffed, so that only
markers look like markers. After each MCU row here comes a restart marker: the row is filled up with ones, DC starts from 0,
the next row begins on a byte.
"""

from __future__ import annotations

import numpy as np

from rfb_gpu.codecs.jpeg.bitstream import BLOCK_WORK, Layout, parse
from rfb_gpu.codecs.jpeg.tables import STANDARD_HUFFMAN, ZIGZAG, HuffmanTable, quantisation_tables

Levels = np.ndarray
"""(rows, MCUs in a row, blocks in an MCU, 64 in zigzag order)"""

# The orthonormal DCT: row k is the cosine of frequency k.
_N = np.arange(8)
DCT = np.cos((2 * _N[None, :] + 1) * _N[:, None] * np.pi / 16) / 2
DCT[0] /= np.sqrt(2)


def component_of(block: int, layout: Layout) -> int:
    """0, 1, 2 for Y, Cb, Cr."""
    return max(block + 1 - layout.luma_across * layout.luma_down, 0)


def colour(rgb: np.ndarray) -> np.ndarray:
    """Full-range BT.601 minus 128, times 65536 (T.871)."""
    r, g, b = np.moveaxis(rgb.astype(np.int64), -1, 0)
    # The weights to five decimals, as libjpeg has them, times 65536.
    weights = [(19595, 38470, 7471), (-11059, -21709, 32768), (32768, -27439, -5329)]
    y, cb, cr = (w[0] * r + w[1] * g + w[2] * b for w in weights)
    return np.stack([y - (128 << 16), cb, cr], -1)


def pixels_to_coefficients(rgb: np.ndarray, layout: Layout, quality: int) -> np.ndarray:
    """DCT coefficients divided by their quantiser, not yet rounded, in the shape of ``Levels``."""
    rows, columns, across, down = layout.rows, layout.mcus_per_row, layout.luma_across, layout.luma_down
    mcu_height, mcu_width = layout.mcu_height, layout.mcu_width
    height, width = rgb.shape[:2]
    whole = np.pad(rgb, ((0, rows * mcu_height - height), (0, columns * mcu_width - width), (0, 0)), "edge")
    mcus = colour(whole).reshape(rows, mcu_height, columns, mcu_width, 3).swapaxes(1, 2)
    luma = (mcus[..., 0] + 32768) >> 16
    blocks = [luma[:, :, 8 * y : 8 * y + 8, 8 * x : 8 * x + 8] for y in range(down) for x in range(across)]
    if not layout.is_gray:
        pixels = down * across
        sums = mcus.reshape(rows, columns, 8, down, 8, across, 3).sum((3, 5))
        chroma = (sums + pixels * 32768 - 1) // (pixels << 16)
        # Below the picture, chroma repeats its own last row.
        last = -(-height // down) - 1
        chroma[-1, :, last % 8 + 1 :] = chroma[-1, :, last % 8 : last % 8 + 1]
        blocks += [chroma[..., 1], chroma[..., 2]]
    coefficients = DCT @ np.stack(blocks, 2) @ DCT.T
    tables = quantisation_tables(quality).reshape(2, 8, 8).astype(float)
    divisors = np.stack([tables[min(component_of(b, layout), 1)] for b in range(layout.blocks_per_mcu)])
    return (coefficients / divisors).reshape(rows, columns, -1, 64)[..., ZIGZAG]


def is_beyond(row: int, column: int, block: int, layout: Layout) -> bool:
    """A luma block of a subsampled MCU that lies outside of the picture: it has no AC and repeats the DC before it."""
    if component_of(block, layout):
        return False
    x = column * layout.mcu_width + block % layout.luma_across * 8
    y = row * layout.mcu_height + block // layout.luma_across * 8
    return x >= layout.width or y >= layout.height


def pixels_to_levels(rgb: np.ndarray, layout: Layout, quality: int) -> Levels:
    """What a block holds before it is coded."""
    levels = np.rint(pixels_to_coefficients(rgb, layout, quality)).astype(int)
    for row in range(layout.rows):
        for column in range(layout.mcus_per_row):
            for block in range(layout.blocks_per_mcu):
                if is_beyond(row, column, block, layout):
                    levels[row, column, block] = 0
                    levels[row, column, block, 0] = levels[row, column, block - 1, 0]
    return levels


def _bits(value: int, count: int) -> str:
    return f"{value:0{count}b}" if count else ""


def _level_code(table: HuffmanTable, run: int, level: int) -> str:
    size = abs(level).bit_length()
    extra = level if level > 0 else level + (1 << size) - 1
    code, length = table.codes[run << 4 | size]
    return _bits(code, length) + _bits(extra, size)


def encode_segment(levels: np.ndarray, dc_before: list[int], layout: Layout) -> str:
    """The code of some MCUs of a row: ``levels`` of shape (MCUs, blocks, 64). ``dc_before`` (Y, Cb, Cr) is brought up to date."""
    code = []
    for mcu in levels:
        for block, zigzag in enumerate(mcu):
            component = component_of(block, layout)
            kind = "chroma" if component else "luma"
            code.append(_level_code(STANDARD_HUFFMAN[f"dc_{kind}"], 0, int(zigzag[0]) - dc_before[component]))
            dc_before[component] = int(zigzag[0])
            ac = STANDARD_HUFFMAN[f"ac_{kind}"]
            last = 0
            for position in np.flatnonzero(zigzag[1:]) + 1:
                run = int(position) - last - 1
                code += [_bits(*ac.codes[0xF0])] * (run // 16)
                code.append(_level_code(ac, run % 16, int(zigzag[position])))
                last = int(position)
            if last < 63:
                code.append(_bits(*ac.codes[0x00]))
    return "".join(code)


def encode_segments(levels: Levels, layout: Layout) -> list[list[str]]:
    """All segments, row by row."""
    step = layout.mcus_per_segment
    rows = []
    for row in levels:
        dc = [0, 0, 0]
        rows.append([encode_segment(row[i : i + step], dc, layout) for i in range(0, len(row), step)])
    return rows


def _stuffed_bytes(bits: str) -> int:
    """0xFF bytes among the whole bytes of a row that have been finished after ``bits``."""
    return sum(bits[i : i + 8] == "11111111" for i in range(0, len(bits) - 7, 8))


def place_segments(segments: list[list[str]]) -> tuple[np.ndarray, list[int]]:
    """For each segment (bit offset in its row, 0xFF bytes before the byte that it begins in); for each row its bytes with
    the marker."""
    places, lengths = [], []
    for row in segments:
        before = ""
        for code in row:
            places.append((len(before), _stuffed_bytes(before)))
            before += code
        before += "1" * (-len(before) % 8)
        lengths.append(len(before) // 8 + _stuffed_bytes(before) + 2)
    return np.array(places), lengths


def index_entries(segments: list[list[str]], work: int, layout: Layout) -> list[list[bool]]:
    """Which segments begin an entry of the index: a row is cut into stretches of so much work, and the segments whose middle falls
    into the same one are an entry."""
    segment_work = BLOCK_WORK * layout.segment_blocks
    begins = []
    for row in segments:
        before, last, here = 0, -1, []
        for number, code in enumerate(row):
            stretch = (2 * before + len(code) + (2 * number + 1) * segment_work) // (2 * work)
            here.append(number == 0 or stretch != last)
            before, last = before + len(code), stretch
        begins.append(here)
    return begins


def index_of(segments: list[list[str]], work: int, layout: Layout) -> np.ndarray:
    """The index's entries: position in the stream and number of the first segment, shape (entries, 2)."""
    places, lengths = place_segments(segments)
    per_row = len(segments[0])
    starts = np.cumsum([0, *lengths[:-1]]).repeat(per_row)
    positions = (starts + places[:, 0] // 8 + places[:, 1]) * 8 + places[:, 0] % 8
    first = np.flatnonzero(np.ravel(index_entries(segments, work, layout)))
    return np.stack([positions[first], first], 1)


def write_stream(segments: list[list[str]]) -> bytes:
    """The entropy-coded bytes with markers, up to and including EOI."""
    stream = b""
    for i, row in enumerate(segments):
        bits = "".join(row)
        bits += "1" * (-len(bits) % 8)
        stream += int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
        stream += bytes([0xFF, 0xD9 if i == len(segments) - 1 else 0xD0 + i % 8])
    return stream


class Reader:
    """Symbols and levels from a text of 0 and 1."""

    def __init__(self, bits: str) -> None:
        self.bits = bits
        self.at = 0

    def symbol(self, table: HuffmanTable) -> int:
        symbols = {code: symbol for symbol, code in table.codes.items()}
        for length in range(1, 17):
            found = symbols.get((int(self.bits[self.at : self.at + length], 2), length))
            if found is not None:
                self.at += length
                return found
        raise AssertionError(f"no code at bit {self.at}")

    def level(self, size: int) -> int:
        extra = int(self.bits[self.at : self.at + size] or "0", 2)
        self.at += size
        return extra if not size or extra >= 1 << (size - 1) else extra - (1 << size) + 1


def huffman_decode(data: bytes) -> tuple[Levels, Layout]:
    """The levels of a file."""
    file = parse(data)
    layout = file.layout
    levels = np.zeros((layout.rows, layout.mcus_per_row, layout.blocks_per_mcu, 64), int)
    row_starts = file.positions[file.first_segments % layout.segments_per_row == 0]
    starts = [int(position) // 8 for position in row_starts] + [len(file.stream) + 2]
    for row in range(layout.rows):
        stuffed = bytes(file.stream[starts[row] : starts[row + 1] - 2])
        reader = Reader("".join(f"{byte:08b}" for byte in stuffed.replace(b"\xff\0", b"\xff")))
        dc = [0, 0, 0]
        for column in range(layout.mcus_per_row):
            for block in range(layout.blocks_per_mcu):
                component = component_of(block, layout)
                dc_table, ac_table = file.huffman[2:] if component else file.huffman[:2]
                dc[component] += reader.level(reader.symbol(dc_table))
                levels[row, column, block, 0] = dc[component]
                position = 1
                while position < 64:
                    run_size = reader.symbol(ac_table)
                    if run_size == 0:
                        break
                    position += run_size >> 4
                    if run_size & 15:
                        levels[row, column, block, position] = reader.level(run_size & 15)
                    position += 1
        rest = reader.bits[reader.at :]
        assert len(rest) < 8 and "0" not in rest, "a row is filled up with ones"
    return levels, layout


def interpolate(samples: np.ndarray, axis: int) -> np.ndarray:
    """Twice as many samples: 3/4 of the nearest one and 1/4 of the next one, the samples at the ends repeated."""
    samples = np.moveaxis(samples, axis, 0)
    before = np.concatenate([samples[:1], samples[:-1]])
    after = np.concatenate([samples[1:], samples[-1:]])
    twice = np.stack([0.75 * samples + 0.25 * before, 0.75 * samples + 0.25 * after], 1)
    return np.moveaxis(twice.reshape(-1, *samples.shape[1:]), 0, axis)


def upsample(chroma: np.ndarray, layout: Layout) -> np.ndarray:
    """A plane of chroma at the picture's size, by libjpeg's "fancy upsampling"."""
    width, height = -(-layout.width // layout.luma_across), -(-layout.height // layout.luma_down)
    plane = chroma[:height, :width]  # what fills up the last MCU takes no part
    if width <= 2 and layout.luma_across == 2:
        plane = plane.repeat(layout.luma_down, 0).repeat(2, 1)
    else:
        plane = interpolate(plane, 0) if layout.luma_down == 2 else plane
        plane = interpolate(plane, 1) if layout.luma_across == 2 else plane
    return plane[: layout.height, : layout.width]


def samples(levels: Levels, layout: Layout, quality: int) -> list[np.ndarray]:
    """The planes of Y, Cb and Cr as they are coded, minus 128, filled up to whole MCUs; of gray only Y."""
    tables = quantisation_tables(quality)[:, ZIGZAG].astype(int)
    natural = np.zeros((*levels.shape[:-1], 64))
    for block in range(layout.blocks_per_mcu):
        natural[:, :, block, ZIGZAG] = levels[:, :, block] * tables[min(component_of(block, layout), 1)]
    blocks = DCT.T @ natural.reshape(*levels.shape[:-1], 8, 8) @ DCT
    # Halves go up, as in libjpeg; the fraction is larger than all rounding errors.
    blocks = np.clip(np.floor(blocks + 0.5 + 1 / 1024), -128, 127)
    rows, columns, across, down = layout.rows, layout.mcus_per_row, layout.luma_across, layout.luma_down
    luma = blocks[:, :, : across * down].reshape(rows, columns, down, across, 8, 8)
    luma = luma.transpose(0, 2, 4, 1, 3, 5).reshape(rows * layout.mcu_height, columns * layout.mcu_width)
    chroma = blocks[:, :, across * down :].transpose(2, 0, 3, 1, 4).reshape(-1, rows * 8, columns * 8)
    return [luma, *chroma]


def reconstruct(levels: Levels, layout: Layout, quality: int) -> np.ndarray:
    """RGB of shape (height, width, 3)."""
    luma, *chroma = samples(levels, layout, quality)
    y = luma[: layout.height, : layout.width]
    cb, cr = [upsample(plane, layout) for plane in chroma] or [np.zeros_like(y)] * 2
    rgb = np.stack([y + 1.402 * cr, y - 0.344136286 * cb - 0.714136286 * cr, y + 1.772 * cb], -1) + 128
    return np.clip(np.rint(rgb), 0, 255).astype(np.uint8)
