"""Broken and hostile files in the page, on real WebGPU: an error or a wrong picture, but never a hang, a lost device or an error
that nobody catches; and the next good file is decoded right.

RFB_GPU_HOSTILE_FILES=20000 python -m pytest tests/e2e/test_hostile_files.py    takes two minutes without a GPU

File number N is the same in every run: `hostile_file(N, ...)`.
"""

from __future__ import annotations

import base64
import os

import numpy as np
import pytest

from tests.e2e import harness
from tests.e2e.test_decoding import SUBSAMPLINGS, our_file, picture
from tests.e2e.widget_page import DecodingPage, WidgetPage, closing, with_pillow
from tests.gpu.jpeg_files import move_in_index

FILES = int(os.environ.get("RFB_GPU_HOSTILE_FILES", 150))
BATCH = 50

SOF0, DHT, SOS, DQT, DRI, APP9 = 0xC0, 0xC4, 0xDA, 0xDB, 0xDD, 0xE9


# ---- making them


def markers(file: bytes) -> dict[int, list[int]]:
    """Where the marker segments of a well-formed file begin, by the second byte of the marker."""
    found: dict[int, list[int]] = {}
    at = 2
    while True:
        code = file[at + 1]
        found.setdefault(code, []).append(at)
        at += 2 + int.from_bytes(file[at + 2 : at + 4], "big")
        if code == SOS:
            found[-1] = [at]  # the entropy-coded bytes
            return found


def cut_off(rng, file):
    return file[: rng.integers(0, len(file))]


def flip_bits(rng, file):
    out = bytearray(file)
    for _ in range(rng.integers(1, 9)):
        out[rng.integers(len(out))] ^= 1 << rng.integers(8)
    return out


def flip_bits_of_the_head(rng, file):
    out = bytearray(file)
    for _ in range(rng.integers(1, 4)):
        out[rng.integers(markers(file)[-1][0])] ^= 1 << rng.integers(8)
    return out


def move_bytes(rng, file):
    """Deletes some, inserts some, or repeats some."""
    at, length = rng.integers(len(file)), rng.integers(1, 64)
    chosen = rng.integers(3)
    if chosen == 0:
        return file[:at] + file[at + length :]
    if chosen == 1:
        return file[:at] + rng.bytes(length) + file[at:]
    return file[: at + length] + file[at:]


def wrong_marker_length(rng, file):
    found = markers(file)
    at = rng.choice([at for code, places in found.items() if code >= 0 for at in places])
    return file[: at + 2] + rng.bytes(2) + file[at + 4 :]


def wrong_size(rng, file):
    at = markers(file)[SOF0][0] + 5
    sides = [0, 1, 8, 63, 255, 4096, 8192, 16384, 65535]
    height, width = (int(side).to_bytes(2, "big") for side in rng.choice(sides, 2))
    return file[:at] + height + width + file[at + 4 :]


def wrong_restart_interval(rng, file):
    places = markers(file).get(DRI)
    if not places:
        return cut_off(rng, file)
    at = places[0] + 4
    return file[:at] + rng.bytes(2) + file[at + 2 :]


def wrong_index(rng, file):
    """Entries that point into the middle of a code, and a head that counts wrong."""
    places = markers(file).get(APP9)
    if not places:
        return flip_bits(rng, file)
    out = bytearray(file)
    if rng.integers(3):
        move_in_index(out, rng)
    else:
        out[places[0] + 10 : places[0] + 17] = rng.bytes(7)
    return out


def hostile_huffman_table(rng, file):
    """Tables whose codes never end a block, are all 16 bits long, or do not exist."""
    at = rng.choice(markers(file)[DHT]) + 4
    out = bytearray(file)
    counts = np.frombuffer(file[at + 1 : at + 17], np.uint8)
    total = int(counts.sum())
    chosen = rng.integers(4)
    if chosen == 0:
        out[at + 17 : at + 17 + total] = bytes([rng.choice([0xF0, 0xFF, 0x0F, 0x01, 0x00])]) * total
    elif chosen == 1:
        out[at + 17 : at + 17 + total] = rng.bytes(total)
    elif chosen == 2:
        out[at + 1 : at + 17] = bytes(15) + bytes([total])
    else:
        out[at + 1 : at + 17] = bytes(rng.permutation(counts))
    return out


def hostile_quantisers(rng, file):
    at = rng.choice(markers(file)[DQT]) + 5
    return file[:at] + bytes([rng.choice([0, 1, 255])]) * 64 + file[at + 64 :]


def hostile_stream(rng, file):
    """Image data of one byte all over, of noise, or with markers in it."""
    start = markers(file)[-1][0]
    length = len(file) - start
    chosen = rng.integers(3)
    if chosen == 0:
        return file[:start] + bytes([rng.choice([0x00, 0xFF, 0x55, 0xFE])]) * length
    if chosen == 1:
        return file[:start] + rng.bytes(length)
    out = bytearray(file)
    for _ in range(rng.integers(1, 6)):
        at = rng.integers(start, len(file) - 1)
        out[at : at + 2] = bytes([0xFF, rng.choice([0x00, 0xD0, 0xD3, 0xD9, 0xC0, 0xFF])])
    return out


MUTATIONS = [
    cut_off, flip_bits, flip_bits_of_the_head, move_bytes, wrong_marker_length, wrong_size, wrong_restart_interval,
    wrong_index, hostile_huffman_table, hostile_quantisers, hostile_stream,
]  # fmt: skip


def hostile_file(number: int, good: list[bytes]) -> bytes:
    """The same for the same number; one in four is mutated twice, where it still has the form that the second needs."""
    rng = np.random.default_rng(number)
    file = bytes(MUTATIONS[number % len(MUTATIONS)](rng, good[rng.integers(len(good))]))
    if rng.integers(4) == 0:
        try:
            file = bytes(MUTATIONS[rng.integers(len(MUTATIONS))](rng, file))
        except (IndexError, KeyError, ValueError):
            pass
    return file


@pytest.fixture(scope="module")
def good_files(device):
    """Small files with and without an index, one and several MCU rows, in every subsampling."""
    noise = np.repeat(np.random.default_rng(0).integers(0, 256, (40, 208, 1), np.uint8), 3, axis=2)
    images = [(picture(72, 56), 80), (picture(130, 8), 60), (noise, 95)]
    files = [
        our_file(device, image, subsampling, quality)
        for subsampling in SUBSAMPLINGS
        for image, quality in images
    ]
    assert sum(APP9 in markers(file) for file in files) in range(1, len(files))
    return files


# ---- decoding them

DECODE = """
globalThis.attack = {
    async start(good) {
        this.gpu = await decoding.acquireGpu(true)
        const { device } = this.gpu
        this.problems = []
        device.addEventListener('uncapturederror', event => this.problems.push(`uncaptured: ${event.error.message}`))
        device.lost.then(info => this.problems.push(`lost: ${info.message}`))
        this.decoder = await decoding.JpegDecoder.create(this.gpu)
        await this.decoder.prepare()
        this.good = good.map(fromBase64)
        this.truth = []
        for (const file of this.good) {
            // The stages for some kinds are compiled when the first such file comes.
            for (let attempt = 0; this.decode(file) !== 'decoded' && attempt < 100; attempt++) {
                await new Promise(resolve => setTimeout(resolve, 100))
            }
            this.truth.push(await this.pixels(file))
        }
        return this.truth.map(({ width, height, data }) => [width, height, [...data]])
    },

    texture(width, height) {
        return this.gpu.device.createTexture({ size: [width, height], format: 'rgba8unorm',
            usage: GPUTextureUsage.STORAGE_BINDING | GPUTextureUsage.COPY_SRC })
    },

    /** Decodes a good file, and reads it back. */
    async pixels(file) {
        const { device } = this.gpu
        const { width, height } = decoding.parse(file).layout
        const texture = this.texture(width, height)
        this.decoder.decode(file, width, height, () => texture)
        const bytesPerRow = Math.ceil(width * 4 / 256) * 256
        const usage = GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ
        const buffer = device.createBuffer({ size: bytesPerRow * height, usage })
        const commands = device.createCommandEncoder()
        commands.copyTextureToBuffer({ texture }, { buffer, bytesPerRow }, [width, height])
        device.queue.submit([commands.finish()])
        await buffer.mapAsync(GPUMapMode.READ)
        const rows = new Uint8Array(buffer.getMappedRange())
        const data = new Uint8Array(width * height * 4)
        for (let y = 0; y < height; y++) data.set(rows.subarray(y * bytesPerRow, y * bytesPerRow + width * 4), y * width * 4)
        buffer.destroy()
        texture.destroy()
        return { width, height, data }
    },

    /** Tells what became of a file: 'decoded', 'refused', 'too large', or an error that should not be. */
    decode(file) {
        const textures = []
        try {
            const { width, height } = decoding.parse(file).layout
            // The widget refuses what no texture can hold before it looks at the file.
            if (width * height > 2 ** 20 || Math.max(width, height) > 8192) return 'too large'
            this.decoder.decode(file, width, height, () => {
                textures.push(this.texture(width, height))
                return textures[0]
            })
            return 'decoded'
        } catch (error) {
            return error instanceof decoding.JpegError || error instanceof RangeError ? 'refused' : String(error)
        } finally {
            for (const texture of textures) texture.destroy()
        }
    },

    async batch(files) {
        const outcomes = files.map(file => this.decode(fromBase64(file)))
        const seen = await this.pixels(this.good[0])
        if (seen.data.some((value, i) => value !== this.truth[0].data[i])) this.problems.push('a good file is wrong after it')
        return { outcomes, problems: this.problems }
    },
}
"""


@pytest.mark.timeout(180 + FILES)
def test_the_decoder_survives_hostile_files(browsers, decoding_bundle, good_files):
    with closing(DecodingPage(browsers(1.0), decoding_bundle)) as page:
        page.page.evaluate(DECODE)
        # A hang would show here, as a time-out of the page or of the whole test.
        decoded = page.page.evaluate("files => attack.start(files)", [in_base64(file) for file in good_files])
        for (width, height, data), file in zip(decoded, good_files, strict=True):
            seen = np.array(data, np.uint8).reshape(height, width, 4)
            assert harness.psnr(seen[..., :3], with_pillow(file)) > 37
        counts: dict[str, int] = {}
        for first in range(0, FILES, BATCH):
            batch = [hostile_file(number, good_files) for number in range(first, min(first + BATCH, FILES))]
            result = page.page.evaluate("files => attack.batch(files)", [in_base64(file) for file in batch])
            assert not result["problems"], (first, result)
            for outcome in result["outcomes"]:
                counts[outcome] = counts.get(outcome, 0) + 1
        assert set(counts) <= {"decoded", "refused", "too large"}, counts
        if FILES >= 100:
            assert counts["decoded"] > FILES // 5, counts
            assert counts["refused"] > FILES // 10, counts
        assert [line for line in page.console if "error" in line.lower()] == []


def test_the_widget_survives_hostile_files(browsers, good_files):
    """Each is acknowledged, whether shown or not, and a good file is shown right after it."""
    good = good_files[0]
    height, width = with_pillow(good).shape[:2]
    with closing(WidgetPage(browsers(1.0), "webgpu")) as page:
        assert page.show(good, width, height)
        truth = page.pixels()
        shown = 0
        for number in range(2 * len(MUTATIONS)):
            shown += page.show(hostile_file(number, [good]), width, height)
            if number % len(MUTATIONS) == 0:
                assert page.show(good, width, height), page.badge
                np.testing.assert_array_equal(page.pixels(), truth)
                assert page.badge == ""
        assert 0 < shown < 2 * len(MUTATIONS)
        assert page.canvas().decoder == "webgpu"
        assert len(page.sent("hello")) == 1


def in_base64(file: bytes) -> str:
    return base64.b64encode(file).decode()
