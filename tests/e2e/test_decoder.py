"""The page's decoder by itself, in a real browser: the same pictures as libjpeg's, no GPU objects in the steady state."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.harness import REPOSITORY
from tests.gpu.helpers import picture
from tests.gpu.jpeg_files import SUBSAMPLINGS, libjpeg_decode, libjpeg_file, reference_file

ORIGIN = "https://decoder.test/"

BUILD = """
import { loadEsbuild, options } from "./build.mjs";
const esbuild = await loadEsbuild();
const contents = `export { JpegDecoder } from "./src/decoders/jpeg"; export { acquireGpu } from "./src/device";`;
const built = await esbuild.build({ ...options("0"), stdin: { contents, resolveDir: "." }, write: false });
process.stdout.write(built.outputFiles[0].text);
"""

START = """async () => {
  const { JpegDecoder, acquireGpu } = await import("/decoder.js");
  const gpu = await acquireGpu(true);
  const { device } = gpu;
  const errors = [];
  device.addEventListener("uncapturederror", (event) => errors.push(event.error.message));
  const decoder = await JpegDecoder.create(gpu);
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
  window.decodeFile = async (base64, width, height) => {
    const out = texture(width, height);
    // The first file of a kind may come before its stages are compiled.
    for (let attempt = 0; ; attempt++) {
      try {
        decoder.decode(bytes(base64), width, height, () => out);
        return await pixels(out);
      } catch (error) {
        if (attempt > 300 || !/compiled/.test(error.message)) throw error;
        await new Promise((done) => setTimeout(done, 100));
      }
    }
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


@pytest.fixture
def decoder_page(page, bundle):
    page.route(ORIGIN, lambda route: route.fulfill(body="<!doctype html>", content_type="text/html"))
    page.route(
        ORIGIN + "decoder.js", lambda route: route.fulfill(body=bundle, content_type="text/javascript")
    )
    page.goto(ORIGIN)
    page.evaluate(START)
    yield page
    assert page.evaluate("gpuErrors()") == []


def decode(page, data, width, height):
    shown = base64.b64decode(
        page.evaluate("(args) => decodeFile(...args)", [base64.b64encode(data).decode(), width, height])
    )
    return np.frombuffer(shown, np.uint8).reshape(height, -1, 4)[:, :width].astype(int)


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


def test_steady_state_makes_no_gpu_objects(decoder_page):
    files = [
        [base64.b64encode(libjpeg_file(picture("gradient", *size), quality, subsampling)).decode(), *size]
        for size in [(120, 90), (64, 48)]
        for quality in (40, 90)
        for subsampling in ("444", "420")
    ]
    assert decoder_page.evaluate("([files, rounds]) => objectsMadeFor(files, rounds)", [files, 20]) == []
