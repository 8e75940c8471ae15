"""A twin in Python for every stage of the JPEG codec, under the stage's own name.

    pixels -> levels        what encode_segment does first: colour, DCT, quantisation
    encode_segment          levels -> the code of each segment, as text of 0 and 1
    place_segments          where each segment begins, and how many bytes are stuffed before it
    write_stream            the bytes, stuffed, with their markers
    huffman_decode          bytes -> levels
    reconstruct             levels -> pixels

The format in short (ITU-T T.81). A picture is cut into MCUs, in 4:4:4 one block of 8x8 for each of Y, Cb, Cr, in 4:2:0 four
of Y and one of each chroma. A block becomes 64 levels in zigzag order. Level 0, DC, is coded as the difference to the block
before of the same component; the others as pairs (run of zeros, size) in Huffman code, each followed by ``size`` bits that
tell which level of that size it is. A run over 15 is split by ZRL, which stands for 16 zeros; EOB says that only zeros
follow. The bits are packed into bytes; after a byte 0xFF a byte 0 is stuffed, so that only markers look like markers. After
each MCU row here comes a restart marker: the row is filled up with ones, DC starts from 0, the next row begins on a byte.
"""

from __future__ import annotations

import numpy as np

from rfb_gpu.codecs.jpeg.bitstream import Layout, parse
from rfb_gpu.codecs.jpeg.tables import STANDARD_HUFFMAN, ZIGZAG, HuffmanTable, quantisation_tables

Levels = np.ndarray
"""(rows, MCUs in a row, blocks in an MCU, 64 in zigzag order)"""

# The orthonormal DCT: row k is the cosine of frequency k.
_N = np.arange(8)
DCT = np.cos((2 * _N[None, :] + 1) * _N[:, None] * np.pi / 16) / 2
DCT[0] /= np.sqrt(2)


def component_of(block: int, layout: Layout) -> int:
    """0, 1, 2 for Y, Cb, Cr."""
    return max(block - (layout.blocks_per_mcu - 3), 0)


def colour(rgb: np.ndarray) -> np.ndarray:
    """Full-range BT.601 minus 128, times 65536 (T.871)."""
    r, g, b = np.moveaxis(rgb.astype(np.int64), -1, 0)
    # The weights to five decimals, as libjpeg has them, times 65536.
    weights = [(19595, 38470, 7471), (-11059, -21709, 32768), (32768, -27439, -5329)]
    y, cb, cr = (w[0] * r + w[1] * g + w[2] * b for w in weights)
    return np.stack([y - (128 << 16), cb, cr], -1)


def pixels_to_coefficients(rgb: np.ndarray, layout: Layout, quality: int) -> np.ndarray:
    """DCT coefficients divided by their quantiser, not yet rounded, in the shape of ``Levels``."""
    size, rows, columns = layout.mcu_size, layout.rows, layout.mcus_per_row
    height, width = rgb.shape[:2]
    whole = np.pad(rgb, ((0, rows * size - height), (0, columns * size - width), (0, 0)), "edge")
    mcus = colour(whole).reshape(rows, size, columns, size, 3).swapaxes(1, 2)
    y = (mcus[..., 0] + 32768) >> 16
    if layout.is_subsampled:
        luma = [y[:, :, top : top + 8, left : left + 8] for top in (0, 8) for left in (0, 8)]
        chroma = (mcus.reshape(rows, columns, 8, 2, 8, 2, 3).sum((3, 5)) + 4 * 32768 - 1) >> 18
        # Below the picture, chroma repeats its own last row.
        last = (height + 1) // 2 - 1
        chroma[-1, :, last % 8 + 1 :] = chroma[-1, :, last % 8 : last % 8 + 1]
        blocks = [*luma, chroma[..., 1], chroma[..., 2]]
    else:
        blocks = [y, (mcus[..., 1] + 32767) >> 16, (mcus[..., 2] + 32767) >> 16]
    coefficients = DCT @ np.stack(blocks, 2) @ DCT.T
    tables = quantisation_tables(quality).reshape(2, 8, 8).astype(float)
    divisors = np.stack([tables[min(component_of(b, layout), 1)] for b in range(layout.blocks_per_mcu)])
    return (coefficients / divisors).reshape(rows, columns, -1, 64)[..., ZIGZAG]


def is_beyond(row: int, column: int, block: int, layout: Layout) -> bool:
    """A luma block of 4:2:0 that lies outside of the picture: it has no AC and repeats the DC before it."""
    if not layout.is_subsampled or block > 3:
        return False
    return column * 16 + block % 2 * 8 >= layout.width or row * 16 + block // 2 * 8 >= layout.height


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
    code, length = table.codes()[run << 4 | size]
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
                code += [_bits(*ac.codes()[0xF0])] * (run // 16)
                code.append(_level_code(ac, run % 16, int(zigzag[position])))
                last = int(position)
            if last < 63:
                code.append(_bits(*ac.codes()[0x00]))
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
        symbols = {code: symbol for symbol, code in table.codes().items()}
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
    starts = [int(p) // 8 for p in file.positions[:, 0]] + [len(file.stream) + 2]
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


def reconstruct(levels: Levels, layout: Layout, quality: int) -> np.ndarray:
    """RGB of shape (height, width, 3)."""
    tables = quantisation_tables(quality)[:, ZIGZAG].astype(int)
    natural = np.zeros((*levels.shape[:-1], 64))
    for block in range(layout.blocks_per_mcu):
        natural[:, :, block, ZIGZAG] = levels[:, :, block] * tables[min(component_of(block, layout), 1)]
    blocks = DCT.T @ natural.reshape(*levels.shape[:-1], 8, 8) @ DCT
    blocks = np.clip(np.rint(blocks), -128, 127)
    rows, columns, size = layout.rows, layout.mcus_per_row, layout.mcu_size
    ycc = np.zeros((rows, size, columns, size, 3))
    for component in range(3):
        if layout.is_subsampled and component:
            plane = blocks[:, :, 3 + component].repeat(2, -1).repeat(2, -2)
        elif layout.is_subsampled:
            plane = np.block([[blocks[:, :, 0], blocks[:, :, 1]], [blocks[:, :, 2], blocks[:, :, 3]]])
        else:
            plane = blocks[:, :, component]
        ycc[..., component] = plane.swapaxes(1, 2)
    y, cb, cr = np.moveaxis(ycc.reshape(rows * size, columns * size, 3), -1, 0)
    rgb = np.stack([y + 1.402 * cr, y - 0.344136286 * cb - 0.714136286 * cr, y + 1.772 * cb], -1) + 128
    return np.clip(np.rint(rgb), 0, 255).astype(np.uint8)[: layout.height, : layout.width]
