"""The page's decoders by themselves, in a real browser: the pictures of libjpeg and libpng, no GPU objects in the steady state."""

from __future__ import annotations

import base64
import io
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rfb_gpu import PngEncoder
from rfb_gpu.codecs.png.file import parse as parse_png
from tests.e2e.harness import REPOSITORY
from tests.gpu.helpers import picture, slanted_edges, texture_of
from tests.gpu.jpeg_files import SUBSAMPLINGS, libjpeg_decode, libjpeg_file, reference_file

ORIGIN = "https://decoder.test/"

BUILD = """
import { loadEsbuild, options } from "./build.mjs";
const esbuild = await loadEsbuild();
const contents = `
  export { JpegDecoder } from "./src/decoders/jpeg";
  export { PngDecoder } from "./src/decoders/png";
  export { acquireGpu } from "./src/device";
`;
const built = await esbuild.build({ ...options("0"), stdin: { contents, resolveDir: "." }, write: false });
process.stdout.write(built.outputFiles[0].text);
"""

START = """async () => {
  const { JpegDecoder, PngDecoder, acquireGpu } = await import("/decoder.js");
  const gpu = await acquireGpu(true);
  const { device } = gpu;
  const errors = [];
  device.addEventListener("uncapturederror", (event) => errors.push(event.error.message));
  const jpeg = await JpegDecoder.create(gpu);
  const png = new PngDecoder(gpu);
  await Promise.all([jpeg.prepare(), png.prepare()]);
  const decoder = { decode: (data, ...rest) => (data[0] === 0xff ? jpeg : png).decode(data, ...rest) };
  const bytes = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const texture = (width, height) =>
    device.createTexture({
      size: [width, height],
      format: "rgba8unorm",
      usage: GPUTextureUsage.STORAGE_BINDING | GPUTextureUsage.COPY_SRC,
    });
  const pixels = async (from) => {
    const row = Math.ceil(from.width / 64) * 256;
    const size = row * from.height;
    const buffer = device.createBuffer({ size, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
    const commands = device.createCommandEncoder();
    commands.copyTextureToBuffer({ texture: from }, { buffer, bytesPerRow: row }, [from.width, from.height]);
    device.queue.submit([commands.finish()]);
    await buffer.mapAsync(GPUMapMode.READ);
    const text = Array.from(new Uint8Array(buffer.getMappedRange()), (b) => String.fromCharCode(b)).join("");
    buffer.destroy();
    return btoa(text);
  };
  window.decodeFile = async (base64, width, height, top = 0) => {
    const out = texture(width, height + top);
    // The first file of a kind may come before its stages are compiled.
    for (let attempt = 0; ; attempt++) {
      try {
        decoder.decode(bytes(base64), width, height, () => out, top);
        return await pixels(out);
      } catch (error) {
        if (attempt > 300 || !/compiled/.test(error.message)) throw error;
        await new Promise((done) => setTimeout(done, 100));
      }
    }
  };
  window.decodeInOneGo = (files) => {
    const outs = files.map(([data, width, height]) => {
      const out = texture(width, height);
      decoder.decode(bytes(data), width, height, () => out);
      return out;
    });
    return Promise.all(outs.map(pixels));
  };
  window.mostWrittenAtOnce = async ([data, width, height], turns) => {
    const out = texture(width, height);
    const { writeBuffer } = GPUQueue.prototype;
    let most = 0;
    GPUQueue.prototype.writeBuffer = function (buffer, offset, from, start, size) {
      most = Math.max(most, size ?? from.byteLength);
      return writeBuffer.call(this, buffer, offset, from, start, size);
    };
    for (let turn = 0; turn < turns; turn++) {
      most = 0;
      decoder.decode(bytes(data), width, height, () => out);
      await device.queue.onSubmittedWorkDone();
    }
    GPUQueue.prototype.writeBuffer = writeBuffer;
    return most;
  };
  window.objectsMadeFor = async (files, rounds) => {
    const outs = files.map(([, width, height]) => [texture(width, height), texture(width, height)]);
    const show = (turn) =>
      files.forEach(([data, width, height], i) => decoder.decode(data, width, height, () => outs[i][turn % 2]));
    files = files.map(([data, ...size]) => [bytes(data), ...size]);
    for (let turn = 0; turn < 4; turn++) show(turn);
    const made = [];
    for (const name of Object.getOwnPropertyNames(GPUDevice.prototype)) {
      if (name.startsWith("create") && name !== "createCommandEncoder") {
        const create = GPUDevice.prototype[name];
        GPUDevice.prototype[name] = function (...args) { made.push(name); return create.apply(this, args); };
      }
    }
    for (let turn = 0; turn < rounds; turn++) show(turn);
    await device.queue.onSubmittedWorkDone();
    return made;
  };
  window.survives = async (files, [good, width, height], truth) => {
    const out = texture(width, height);
    const kinds = {};
    for (const file of files) {
      let kind = "decoded";
      try {
        decoder.decode(bytes(file), width, height, () => out);
      } catch (error) {
        kind = error.constructor.name;
      }
      kinds[kind] = (kinds[kind] ?? 0) + 1;
      decoder.decode(bytes(good), width, height, () => out);
      if ((await pixels(out)) !== truth) return "a good file is wrong after " + file;
    }
    return kinds;
  };
  window.gpuErrors = () => errors;
}"""


@pytest.fixture(scope="module")
def bundle() -> str:
    node = shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))
    if node is None or not (REPOSITORY / "js/node_modules/esbuild").exists():
        pytest.skip("the front end's build tools are not installed: npm ci in js/")
    command = [node, "--input-type=module", "-e", BUILD]
    return subprocess.run(
        command, cwd=REPOSITORY / "js", check=True, capture_output=True, text=True, env=os.environ
    ).stdout


@pytest.fixture(scope="module")
def opened(browsers, bundle):
    """One page for all: its stages take ten seconds to compile."""
    page = browsers(1.0).new_page()
    page.route(ORIGIN, lambda route: route.fulfill(body="<!doctype html>", content_type="text/html"))
    page.route(
        ORIGIN + "decoder.js", lambda route: route.fulfill(body=bundle, content_type="text/javascript")
    )
    page.goto(ORIGIN)
    page.evaluate(START)
    yield page
    page.close()


@pytest.fixture
def decoder_page(opened):
    yield opened
    assert opened.evaluate("gpuErrors()") == []


def decode(page, data, width, height, top=0):
    shown = base64.b64decode(
        page.evaluate("(args) => decodeFile(...args)", [base64.b64encode(data).decode(), width, height, top])
    )
    return np.frombuffer(shown, np.uint8).reshape(height + top, -1, 4)[:, :width].astype(int)


def test_pictures_are_those_of_libjpeg(decoder_page):
    for subsampling in SUBSAMPLINGS:
        for width, height in [(1, 1), (7, 5), (333, 77)]:
            image = picture("gradient", width, height)
            for data in (
                libjpeg_file(image, 85, subsampling),
                reference_file(image[..., :3], 95, subsampling),
            ):
                shown = decode(decoder_page, data, width, height)
                difference = np.abs(shown[..., :3] - libjpeg_decode(data))
                assert difference.max() <= 4, (subsampling, width, height)
                assert difference.mean() < 0.6, (subsampling, width, height)
                assert np.all(shown[..., 3] == 255)


def test_files_that_come_before_the_gpu_is_done_with_the_last_one(decoder_page):
    """In one go, no other way than the first one's is free; and each is longer, or shorter, than what was made ready for it."""
    sizes = [(33, 70), (120, 90), (64, 48), (201, 99), (24, 24), (201, 99)]
    files = [libjpeg_file(picture("gradient", *size, seed), 85, "444") for seed, size in enumerate(sizes)]
    arguments = [[base64.b64encode(file).decode(), *size] for file, size in zip(files, sizes, strict=True)]
    for _ in range(2):
        seen = decoder_page.evaluate("(files) => decodeInOneGo(files)", arguments)
        for text, (width, height), file in zip(seen, sizes, files, strict=True):
            shown = np.frombuffer(base64.b64decode(text), np.uint8).reshape(height, -1, 4)[:, :width, :3]
            assert np.abs(shown - libjpeg_decode(file)).max() <= 4, (width, height)


def test_in_the_steady_state_only_the_frames_numbers_are_written_by_the_queue(decoder_page):
    """Files go through mapped memory, which takes the main thread half as long."""
    file = [base64.b64encode(libjpeg_file(picture("noise", 201, 99), 85, "444")).decode(), 201, 99]
    assert decoder_page.evaluate("([file, turns]) => mostWrittenAtOnce(file, turns)", [file, 4]) <= 64


@pytest.fixture(scope="module")
def png_files(device):
    """Of every way to lay rows out: channels, whether filtered, with a palette."""
    files = {}
    for channels in ("rgb", "rgba", "gray"):
        encoder = PngEncoder(device, channels)
        for width, height in [(1, 1), (171, 5), (333, 177)]:
            images = {kind: picture(kind, width, height) for kind in ("gradient", "noise", "text", "flat")}
            for kind, image in (images | {"edges": slanted_edges(width, height)}).items():
                file = encoder.encode(texture_of(device, image)).result().data
                files[channels, kind, width, height] = file
        encoder.close()
    large = PngEncoder(device)
    files["rgb", "many colours", 700, 900] = (
        large.encode(texture_of(device, slanted_edges(700, 900))).result().data
    )
    large.close()
    return files


def by_libpng(file):
    return np.asarray(Image.open(io.BytesIO(file)).convert("RGBA")).astype(int)


def test_png_pictures_are_those_of_libpng(decoder_page, png_files):
    laid_out, were_cut = set(), False
    for (channels, kind, width, height), file in png_files.items():
        read = parse_png(file)
        laid_out.add((read.channels, read.palette is not None, read.reaches_above))
        were_cut |= read.cut > 0
        np.testing.assert_array_equal(
            decode(decoder_page, file, width, height), by_libpng(file), f"{channels} {kind} {width}x{height}"
        )
    assert {
        (3, False, False),
        (3, False, True),
        (1, True, True),
        (4, False, False),
        (1, False, False),
    } <= laid_out and were_cut


def test_a_png_stripe_goes_where_it_belongs(decoder_page, png_files):
    file = png_files["rgb", "gradient", 333, 177]
    shown = decode(decoder_page, file, 333, 177, top=40)
    np.testing.assert_array_equal(shown[40:], by_libpng(file))
    assert not shown[:40].any()


def test_the_page_survives_hostile_png_files(decoder_page, png_files):
    rng = random.Random(5)
    names = [("rgb", "gradient", 333, 177), ("rgb", "edges", 333, 177), ("rgb", "many colours", 700, 900)]
    for name, count in zip(names, [40, 40, 15], strict=True):
        good, (width, height) = png_files[name], name[2:]
        files = []
        for _ in range(count):
            file = bytearray(good)
            for _ in range(rng.choice([1, 1, 3, 30])):
                file[rng.randrange(8, rng.choice([60, 300, 700, len(file)]))] = rng.randrange(256)
            files.append(base64.b64encode(file).decode())
        truth = np.zeros((height, -(-width // 64) * 64, 4), np.uint8)  # rows of a multiple of 256 bytes
        truth[:, :width] = by_libpng(good)
        outcome = decoder_page.evaluate(
            "(args) => survives(...args)",
            [
                files,
                [base64.b64encode(good).decode(), width, height],
                base64.b64encode(truth.tobytes()).decode(),
            ],
        )
        assert isinstance(outcome, dict), outcome
        assert outcome["decoded"] >= count // 8
        assert len(outcome) >= 2, "some are refused"


def test_steady_state_makes_no_gpu_objects(decoder_page, png_files):
    files = [
        [base64.b64encode(libjpeg_file(picture("gradient", *size), quality, subsampling)).decode(), *size]
        for size in [(120, 90), (64, 48)]
        for quality in (40, 90)
        for subsampling in ("444", "420")
    ]
    for name in [("rgb", "edges", 171, 5), ("rgb", "gradient", 333, 177)]:
        files.append([base64.b64encode(png_files[name]).decode(), *name[2:]])
    assert decoder_page.evaluate("([files, rounds]) => objectsMadeFor(files, rounds)", [files, 20]) == []
