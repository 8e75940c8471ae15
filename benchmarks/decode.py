"""How fast the decoder is, in Python and in a page, beside what else decodes there: one table.

    python -m benchmarks.decode --size 3840x2160 --gpu --json decode.json
    python -m benchmarks.decode --codec png --size 3840x2160 --gpu

The files are our encoders', of the five scenes. All times are medians in ms. Cases and peers take turns, so that a change of the
GPU's clock meets all of them, and each decoder's picture is compared with libjpeg-turbo's or libpng's before it is timed.

Columns of both parts:

* ``gpu``: GPU time of a decode by timestamps, all stages in one pass; then each stage, in a pass of its own. In Python the GPU is
  kept busy before each, so that its clock is up.
* ``call``: time in the call of ``decode``. In the page it has ``parse`` in it; ``main`` is all JavaScript of a frame on the page's
  main thread, from the bytes to the submitted blit: ``call`` and ``draw``.
* ``ready``: from the call until the GPU is done, one frame at a time.
* ``loop``: time of a decode of many in a row, with one wait at the end; ``loop_shown``, in the page: with putting it on the
  canvas.
* ``psnr``: against libjpeg-turbo's picture of the same file, in dB; 99 where they are equal, as all of a PNG must be. Chroma is
  smoothed in different ways.

In Python, the peers are simplejpeg (libjpeg-turbo on one core) or Pillow (libpng), the same with the upload to a texture, and
nvJPEG through torchvision (from bytes on the CPU to a tensor on the GPU). Waiting for the GPU is reading four bytes back, which
adds to ``ready``.

In the page, ``gpu`` is that of many frames in a row that are put on the canvas, which does not keep a GPU busy; ``busy`` is as
in Python, each decode right after some arithmetic, and so are the stages. ``blit`` is the GPU time of drawing the picture to
the canvas, where it cannot be copied; ``direct`` and ``direct_main`` are ``gpu`` and ``main`` of a decoder that writes to a
canvas's own texture, without a picture of its own. The peers are the browser's own ways: ``bitmap`` (``createImageBitmap``),
``ImageDecoder`` and ``img``, each drawn to a 2d canvas of which a pixel is then read, because drawing alone may put the work
off; and ``bitmap2gpu``: ``createImageBitmap`` and ``copyExternalImageToTexture`` until the GPU is done.

The page part needs aiohttp (which the package itself does not), a Chromium, and the decoders as a module, which node makes; without
node, ``node build.mjs --decoding ../build/decoding.js`` in js/ makes it elsewhere. Without ``--gpu``, the page runs on a CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg
import wgpu
from numpy.typing import NDArray
from PIL import Image

from benchmarks.encode import Load, make_device, psnr, upload
from benchmarks.notebook import add_browser_arguments, parse_size
from benchmarks.scenes import SCENES, render_to_array
from rfb_gpu import EncodedFrame, JpegDecoder, JpegEncoder, PngDecoder, PngEncoder
from rfb_gpu.codecs.jpeg.bitstream import SUBSAMPLINGS

Array = NDArray[np.uint8]
REPOSITORY = Path(__file__).resolve().parents[1]
BUNDLE = REPOSITORY / "build" / "decoding.js"

SETTLED = 10
"""Frames until an encoder's files are what they stay, for a picture that rests."""
LEAST_PSNR = 28.0
"""Below this a picture is wrong, and not only smoothed differently: the noisiest scene in 4:2:0 has 33."""


# ---- files


class Case:
    """One file, and what was measured of its decoding, by part."""

    def __init__(self, scene: str, frame: EncodedFrame) -> None:
        self.scene, self.width, self.height = scene, frame.width, frame.height
        self.codec, self.subsampling, self.quality = frame.codec, frame.subsampling, frame.quality
        self.file = frame.data
        self.samples: dict[str, dict[str, list[float]]] = {"python": {}, "page": {}}
        self.facts: dict[str, dict[str, Any]] = {"python": {}, "page": {}}

    def truth(self) -> Array:
        """The picture by libjpeg-turbo or libpng, RGBA."""
        if self.codec == "png":
            return by_pillow(self.file)
        return simplejpeg.decode_jpeg(self.file, "RGBA", fastdct=False, strict=True)

    def add(self, part: str, **milliseconds: float) -> None:
        """Keeps one sample of each."""
        for name, value in milliseconds.items():
            self.samples[part].setdefault(name, []).append(value)

    def result(self, part: str) -> dict[str, Any]:
        """Medians, and the facts."""
        samples = self.samples[part]
        return {
            "part": part,
            "scene": self.scene,
            "size": f"{self.width}x{self.height}",
            "codec": self.codec,
            "subsampling": self.subsampling,
            "quality": self.quality,
            "bytes": len(self.file),
            **self.facts[part],
            **{name: statistics.median(values) for name, values in samples.items()},
            **{f"{name}_min": min(values) for name, values in samples.items()},
            **{f"{name}_samples": len(values) for name, values in samples.items()},
        }


def make_cases(device: wgpu.GPUDevice, options: argparse.Namespace) -> list[Case]:
    """The files."""
    cases = []
    for width, height in options.size:
        for scene in options.scene:
            texture = upload(device, render_to_array(scene, width, height))
            encoders: list[JpegEncoder | PngEncoder] = []
            if "jpeg" in options.codec:
                encoders += [JpegEncoder(device, q, s) for s in options.subsampling for q in options.quality]
            if "png" in options.codec:
                encoders.append(PngEncoder(device))
            for encoder in encoders:
                # As in the midst of a stream, when tables and index have settled.
                for _ in range(SETTLED):
                    frame = encoder.encode(texture).result()
                encoder.close()
                cases.append(Case(scene, frame))
            texture.destroy()
    return cases


def check(case: Case, part: str, decibel: float) -> None:
    """Raises if a decoder's picture is not the file's."""
    if decibel < (99 if case.codec == "png" else LEAST_PSNR):
        raise RuntimeError(
            f"{part}, {case.scene}, {case.width}x{case.height}, {case.codec} {case.subsampling}: the picture is wrong, "
            f"{decibel:.1f} dB from what others decode"
        )
    case.facts[part]["psnr"] = decibel


# ---- in Python


class PythonPart:
    """Our decoder on a device, and the peers there are."""

    LOOP = 20

    def __init__(self, device: wgpu.GPUDevice) -> None:
        self._device = device
        self._load = Load(device)
        self._mark = device.create_buffer(size=4, usage=wgpu.BufferUsage.COPY_SRC)
        kinds: dict[str, type[JpegDecoder | PngDecoder]] = {"jpeg": JpegDecoder, "png": PngDecoder}
        self._plain = {codec: kind(device) for codec, kind in kinds.items()}
        can_profile = "timestamp-query" in device.features
        # As a whole last, so that its ``gpu`` is the one that counts.
        self._profiled = {
            codec: [kind(device, profile=profile) for profile in ("stages", True) if can_profile]
            for codec, kind in kinds.items()
        }
        self._out: wgpu.GPUTexture | None = None
        self.peers: dict[str, dict[str, Callable[[Case], None]]] = {
            "jpeg": {
                "simplejpeg": lambda case: simplejpeg.decode_jpeg(case.file, "RGBA"),
                "simplejpeg+upload": lambda case: self._upload(
                    case, simplejpeg.decode_jpeg(case.file, "RGBA")
                ),
                **nvjpeg(),
            },
            "png": {
                "pillow": lambda case: by_pillow(case.file),
                "pillow+upload": lambda case: self._upload(case, by_pillow(case.file)),
            },
        }

    def measure(self, cases: Sequence[Case], options: argparse.Namespace) -> None:
        """All cases, in rounds."""
        for case in cases:
            texture = self._plain[case.codec].decode(case.file)
            pixels = self._device.queue.read_texture(
                {"texture": texture}, {"bytes_per_row": case.width * 4}, (case.width, case.height, 1)
            )
            texture.destroy()
            seen = np.frombuffer(pixels, np.uint8).reshape(case.height, case.width, 4)
            check(case, "python", psnr(seen[..., :3], case.truth()[..., :3]))
        for number in range(options.warm_up + options.repeats):
            for case in cases:
                samples = self._round(case)
                if number >= options.warm_up:
                    case.add("python", **samples)
            progress("python", number + 1, options.warm_up + options.repeats)

    def close(self) -> None:
        """Frees what was made."""
        for codec, decoder in self._plain.items():
            for each in (decoder, *self._profiled[codec]):
                each.close()

    def _round(self, case: Case) -> dict[str, float]:
        out = self._texture(case)
        plain = self._plain[case.codec]
        samples: dict[str, float] = {}
        for decoder in self._profiled[case.codec]:
            self._load()
            decoder.decode(case.file, out=out)
            samples |= {name: 1000 * seconds for name, seconds in decoder.timings().items()}
        self._load.wait()
        began = time.perf_counter()
        plain.decode(case.file, out=out)
        samples["call"] = since(began)
        self._wait()
        samples["ready"] = since(began)
        began = time.perf_counter()
        for _ in range(self.LOOP):
            plain.decode(case.file, out=out)
        self._wait()
        samples["loop"] = since(began) / self.LOOP
        for name, decode in self.peers[case.codec].items():
            self._load.wait()  # a peer has a GPU context of its own, which must not share the time with ours
            began = time.perf_counter()
            decode(case)
            samples[name] = since(began)
        return samples

    def _wait(self) -> None:
        """Until all that was submitted is done. wgpu 0.32's own way to wait raises a TypeError."""
        self._device.queue.read_buffer(self._mark)

    def _texture(self, case: Case) -> wgpu.GPUTexture:
        size = (case.width, case.height, 1)
        if self._out is None or tuple(self._out.size) != size:
            if self._out is not None:
                self._out.destroy()
            usage = wgpu.TextureUsage.STORAGE_BINDING | wgpu.TextureUsage.COPY_DST
            self._out = self._device.create_texture(size=size, format="rgba8unorm", usage=usage)
        return self._out

    def _upload(self, case: Case, pixels: Array) -> None:
        self._device.queue.write_texture(
            {"texture": self._texture(case)},
            pixels,
            {"bytes_per_row": case.width * 4},
            (case.width, case.height, 1),
        )
        self._wait()


def by_pillow(file: bytes) -> Array:
    """A PNG's picture by libpng, RGBA."""
    return np.asarray(Image.open(io.BytesIO(file)).convert("RGBA"))


def nvjpeg() -> dict[str, Callable[[Case], None]]:
    """nvJPEG, if torchvision has it."""
    try:
        import torch
        from torchvision.io import decode_jpeg
    except ImportError:
        return {}
    if not torch.cuda.is_available():
        return {}

    def decode(case: Case) -> None:
        decode_jpeg(torch.frombuffer(bytearray(case.file), dtype=torch.uint8), device="cuda")
        torch.cuda.synchronize()

    return {"nvjpeg": decode}


def since(began: float) -> float:
    """Milliseconds."""
    return 1000 * (time.perf_counter() - began)


# ---- in the page

PAGE = "<!doctype html><meta charset='utf-8'><title>decoding</title><body></body>"

# Timestamps are put around every pass, or every stage, from outside; the canvas is made readable.
BEFORE = """
const { requestDevice } = GPUAdapter.prototype
GPUAdapter.prototype.requestDevice = function (descriptor = {}) {
    const wanted = this.features.has('timestamp-query') ? ['timestamp-query'] : []
    return requestDevice.call(this, { ...descriptor, requiredFeatures: [...descriptor.requiredFeatures ?? [], ...wanted] })
}
const { configure } = GPUCanvasContext.prototype
GPUCanvasContext.prototype.configure = function (options) {
    const usage = (options.usage ?? GPUTextureUsage.RENDER_ATTACHMENT) | GPUTextureUsage.COPY_SRC
    return configure.call(this, { ...options, usage })
}
globalThis.timestamps = null
const { beginComputePass, beginRenderPass } = GPUCommandEncoder.prototype
const timed = (descriptor, kind) => {
    const writes = timestamps?.next(kind)
    return writes ? { ...descriptor, timestampWrites: writes } : descriptor
}
GPUCommandEncoder.prototype.beginRenderPass = function (descriptor) {
    return beginRenderPass.call(this, timed(descriptor, 'blit'))
}
GPUCommandEncoder.prototype.beginComputePass = function (descriptor) {
    if (timestamps?.apart) return new PassPerStage(this)
    // The decoders' commands have labels.
    return beginComputePass.call(this, timed(descriptor, this.label ? 'gpu' : 'load'))
}
class PassPerStage {
    constructor(commands) { this.commands = commands }
    setPipeline(pipeline) { this.pipeline = pipeline }
    setBindGroup(index, group) { this.group = group }
    dispatchWorkgroups(...size) {
        const stage = this.pipeline.label.replace('rfb_gpu ', '') || 'load'
        const pass = beginComputePass.call(this.commands, timed({}, stage))
        pass.setPipeline(this.pipeline)
        pass.setBindGroup(0, this.group)
        pass.dispatchWorkgroups(...size)
        pass.end()
    }
    end() {}
}
"""

SCRIPT = (
    f"const LOAD = `{Load.WGSL}`, LOAD_MS = {1000 * Load.SECONDS};"
    + """
globalThis.benchmark = (() => {
  const median = values => [...values].sort((a, b) => a - b)[values.length >> 1]

  /** Times of passes, by kind; all of them are resolved at once, when the GPU has nothing else to do. */
  class Timestamps {
    constructor(device, passes, apart) {
      this.device = device
      this.apart = apart
      this.kinds = []
      this.passes = passes
      this.querySet = device.createQuerySet({ type: 'timestamp', count: 2 * passes })
      this.resolved = device.createBuffer({ size: 16 * passes, usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC })
      this.staging = device.createBuffer({ size: 16 * passes, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ })
    }
    next(kind) {
      if (this.kinds.length === this.passes) return undefined
      const first = 2 * this.kinds.push(kind) - 2
      return { querySet: this.querySet, beginningOfPassWriteIndex: first, endOfPassWriteIndex: first + 1 }
    }
    /** Milliseconds of all passes of a kind. */
    async read() {
      const commands = this.device.createCommandEncoder()
      commands.resolveQuerySet(this.querySet, 0, 2 * this.kinds.length, this.resolved, 0)
      commands.copyBufferToBuffer(this.resolved, 0, this.staging, 0, 16 * this.kinds.length)
      this.device.queue.submit([commands.finish()])
      await this.staging.mapAsync(GPUMapMode.READ)
      const times = new BigUint64Array(this.staging.getMappedRange().slice(0))
      const sums = {}
      this.kinds.forEach((kind, i) => {
        // The beginning may be told while the pass before still runs.
        const before = i ? times[2 * i - 1] : 0n
        const began = times[2 * i] > before ? times[2 * i] : before
        sums[kind] = (sums[kind] ?? 0) + Number(times[2 * i + 1] - began) / 1e6
      })
      for (const each of [this.querySet, this.resolved, this.staging]) each.destroy()
      return sums
    }
  }

  let gpu, presenter, canvas, direct, load
  const files = new Map()

  async function fetchFile(number) {
    if (!files.has(number)) {
      files.clear()
      const answer = await fetch(`/file/${number}`)
      files.set(number, new Uint8Array(await answer.arrayBuffer()))
    }
    return files.get(number)
  }

  async function frameOf({ number, codec, width, height }) {
    const bytes = await fetchFile(number)
    if (canvas?.width !== width || canvas.height !== height) {
      canvas?.remove()
      canvas = document.createElement('canvas')
      canvas.width = width
      canvas.height = height
      document.body.append(canvas)
    }
    return { type: 'frame', id: number, codec, width, height, bytes, fit: 'exact', final: false, alpha: null }
  }

  /** The canvas's own texture, still in the task that drew to it, as tightly packed RGB. */
  async function readCanvas() {
    const { device } = gpu
    const { format } = canvas.getContext('webgpu').getConfiguration()
    const { width, height } = canvas
    const bytesPerRow = Math.ceil(width * 4 / 256) * 256
    const buffer = device.createBuffer({
      size: bytesPerRow * height, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST })
    const commands = device.createCommandEncoder()
    const texture = canvas.getContext('webgpu').getCurrentTexture()
    commands.copyTextureToBuffer({ texture }, { buffer, bytesPerRow }, [width, height])
    device.queue.submit([commands.finish()])
    await buffer.mapAsync(GPUMapMode.READ)
    const rows = new Uint8Array(buffer.getMappedRange())
    const order = format.startsWith('bgra') ? [2, 1, 0] : [0, 1, 2]
    return { rows, bytesPerRow, order, release: () => buffer.destroy() }
  }

  /** Some milliseconds of arithmetic, which keep the GPU's clock up: see Load in encode.py. */
  async function startLoad() {
    const { device } = gpu
    const module = device.createShaderModule({ code: LOAD })
    const pipeline = await device.createComputePipelineAsync({ layout: 'auto', compute: { module, entryPoint: 'burn' } })
    const buffer = device.createBuffer({ size: 16, usage: GPUBufferUsage.STORAGE })
    const layout = pipeline.getBindGroupLayout(0)
    const group = device.createBindGroup({ layout, entries: [{ binding: 0, resource: { buffer } }] })
    let workgroups = 1
    const burn = () => {
      const commands = device.createCommandEncoder()
      const pass = commands.beginComputePass()
      pass.setPipeline(pipeline)
      pass.setBindGroup(0, group)
      pass.dispatchWorkgroups(workgroups)
      pass.end()
      device.queue.submit([commands.finish()])
      return device.queue.onSubmittedWorkDone()
    }
    const time = async () => {
      const began = performance.now()
      await burn()
      return performance.now() - began
    }
    await burn()
    const delay = await time() // of the news that it is done
    while (workgroups < 30000 && await time() < delay + LOAD_MS) workgroups *= 2
    return burn
  }

  /** Decodes to the texture of a canvas that allows it. */
  async function startDirect() {
    const jpeg = await decoding.JpegDecoder.create(gpu)
    await jpeg.prepare()
    const png = new decoding.PngDecoder(gpu)
    await png.prepare()
    const context = document.createElement('canvas').getContext('webgpu')
    const usage = GPUTextureUsage.STORAGE_BINDING | GPUTextureUsage.RENDER_ATTACHMENT
    context.configure({ device: gpu.device, format: 'rgba8unorm', usage, alphaMode: 'opaque' })
    return ({ codec, bytes, width, height }) => {
      if (context.canvas.width !== width || context.canvas.height !== height) {
        context.canvas.width = width
        context.canvas.height = height
      }
      const decoder = codec === 'png' ? png : jpeg
      decoder.decode(bytes, width, height, () => context.getCurrentTexture())
    }
  }

  const ways = {
    bitmap: ({ bytes, codec }) => createImageBitmap(new Blob([bytes], { type: `image/${codec}` }),
      { colorSpaceConversion: 'none', premultiplyAlpha: 'none' }),
    async ImageDecoder({ bytes, codec }) {
      const decoder = new ImageDecoder({ data: bytes, type: `image/${codec}`, colorSpaceConversion: 'none' })
      const { image } = await decoder.decode()
      decoder.close()
      return image
    },
    async img({ bytes, codec }) {
      const image = new Image()
      const url = URL.createObjectURL(new Blob([bytes], { type: `image/${codec}` }))
      image.src = url
      await image.decode()
      image.close = () => URL.revokeObjectURL(url)
      return image
    },
  }

  /** Until a pixel of the picture can be read from a 2d canvas. */
  async function drawn(decode, frame) {
    const { width, height } = frame
    const canvas2d = document.createElement('canvas')
    canvas2d.width = width
    canvas2d.height = height
    const context = canvas2d.getContext('2d', { alpha: false })
    const began = performance.now()
    const source = await decode(frame)
    context.drawImage(source, 0, 0)
    context.getImageData(0, 0, 1, 1)
    const ended = performance.now()
    source.close()
    return ended - began
  }

  async function bitmapToTexture(frame) {
    const { width, height } = frame
    const usage = GPUTextureUsage.COPY_DST | GPUTextureUsage.RENDER_ATTACHMENT | GPUTextureUsage.TEXTURE_BINDING
    const texture = gpu.device.createTexture({ size: [width, height], format: 'rgba8unorm', usage })
    await gpu.device.queue.onSubmittedWorkDone()
    const began = performance.now()
    const source = await ways.bitmap(frame)
    gpu.device.queue.copyExternalImageToTexture({ source }, { texture }, [width, height])
    await gpu.device.queue.onSubmittedWorkDone()
    const ended = performance.now()
    source.close()
    texture.destroy()
    return ended - began
  }

  return {
    async start() {
      // A browser that has just started may be late with its GPU.
      gpu = await decoding.acquireGpu(true).catch(error => error.started ?? Promise.reject(error))
      presenter = await decoding.GpuPresenter.create(gpu)
      await presenter.prepare()
      direct = await startDirect()
      load = await startLoad()
      gpu.device.addEventListener('uncapturederror', event => console.error(event.error.message))
      return {
        adapter: gpu.adapter, timestamps: gpu.device.features.has('timestamp-query'), isolated: crossOriginIsolated,
      }
    },

    /** dB between what the canvas shows and the picture that the server has. */
    async psnr(job) {
      const frame = await frameOf(job)
      const truth = new Uint8Array(await (await fetch(`/truth/${job.number}`)).arrayBuffer())
      await presenter.decode(frame)
      presenter.draw(canvas)
      const { rows, bytesPerRow, order, release } = await readCanvas()
      let sum = 0
      for (let y = 0; y < job.height; y++) {
        for (let x = 0; x < job.width; x++) {
          for (let c = 0; c < 3; c++) {
            const difference = rows[y * bytesPerRow + x * 4 + order[c]] - truth[(y * job.width + x) * 4 + c]
            sum += difference * difference
          }
        }
      }
      release()
      return sum === 0 ? 99 : 10 * Math.log10(255 * 255 * 3 * job.width * job.height / sum)
    },

    async round(job) {
      const frame = await frameOf(job)
      const { bytes } = frame
      const { loop, peers } = job
      const samples = {}

      // A lone frame at a time. `decode` of the presenter has done all that it does itself when it returns its promise.
      const lone = { parse: [], call: [], draw: [], main: [], ready: [] }
      for (let i = 0; i < loop; i++) {
        await load()
        const began = performance.now()
        if (job.codec === 'png') decoding.parsePng(bytes)
        else decoding.parse(bytes)
        const parsed = performance.now()
        const promise = presenter.decode(frame)
        const called = performance.now()
        presenter.draw(canvas)
        const submitted = performance.now()
        await promise
        await presenter.done()
        lone.ready.push(performance.now() - parsed)
        lone.parse.push(parsed - began)
        lone.call.push(called - parsed)
        lone.draw.push(submitted - called)
        lone.main.push(submitted - parsed)
      }
      for (const [name, values] of Object.entries(lone)) samples[name] = median(values)

      const directMain = []
      for (let i = 0; i < loop; i++) {
        const began = performance.now()
        direct(frame)
        directMain.push(performance.now() - began)
        await presenter.done()
      }
      samples.direct_main = median(directMain)

      // Many in a row; then again with timestamps, which take some time themselves.
      const inRow = async show => {
        await load()
        const began = performance.now()
        for (let i = 0; i < loop; i++) show()
        await presenter.done()
        return (performance.now() - began) / loop
      }
      samples.loop = await inRow(() => presenter.decode(frame))
      samples.loop_shown = await inRow(() => { presenter.decode(frame); presenter.draw(canvas) })
      if (gpu.device.features.has('timestamp-query')) {
        const record = async (show, apart = false) => {
          timestamps = new Timestamps(gpu.device, 8 * loop, apart)
          await inRow(show)
          const recording = timestamps
          timestamps = null
          return recording.read()
        }
        const shown = await record(() => { presenter.decode(frame); presenter.draw(canvas) })
        samples.gpu = shown.gpu / loop
        if (shown.blit) samples.blit = shown.blit / loop
        samples.direct = (await record(() => direct(frame))).gpu / loop
        const keptBusy = () => { load(); presenter.decode(frame) }
        samples.busy = (await record(keptBusy)).gpu / loop
        const { load: _, ...stages } = await record(keptBusy, true)
        for (const [stage, time] of Object.entries(stages)) samples[stage] = time / loop
      }

      if (peers) {
        for (const [name, decode] of Object.entries(ways)) samples[name] = await drawn(decode, frame)
        samples.bitmap2gpu = await bitmapToTexture(frame)
      }
      return samples
    },
  }
})()
"""
)


class PagePart:
    """The bundle of our decoders in a Chromium, and the browser's own."""

    def __init__(self, bundle: Path, options: argparse.Namespace) -> None:
        self._bundle = bundle
        self._options = options
        self.facts: dict[str, Any] = {}

    async def measure(self, cases: Sequence[Case]) -> None:
        """All cases, in rounds."""
        from benchmarks.cdp import GPU_FLAGS, SOFTWARE_FLAGS, Browser

        options = self._options
        flags = [
            *(GPU_FLAGS if options.gpu else SOFTWARE_FLAGS),
            "--enable-webgpu-developer-features",  # else timestamps come in steps of 0.1 ms
            *options.browser_flag,
        ]
        async with (
            self._server(cases) as url,
            Browser(options.chromium, flags, dict(options.browser_env)) as browser,
        ):
            page = await browser.page()
            await page.goto(url)
            await page.wait_for("document.title === 'decoding'")
            await page.evaluate(f"(() => {{ {BEFORE} }})()")
            await page.evaluate("import('/decoding.js').then(module => { globalThis.decoding = module })")
            await page.evaluate(SCRIPT + "; undefined")
            try:
                self.facts = await page.evaluate("benchmark.start()")
                await self._rounds(page, cases)
            finally:
                self.facts["console"] = page.console[-8:]

    async def _rounds(self, page: Any, cases: Sequence[Case]) -> None:
        options = self._options
        jobs = [
            {
                "number": number,
                "codec": case.codec,
                "width": case.width,
                "height": case.height,
                "loop": options.loop,
                "peers": True,
            }
            for number, case in enumerate(cases)
        ]
        for case, job in zip(cases, jobs, strict=True):
            check(case, "page", await page.evaluate("job => benchmark.psnr(job)", job))
        for number in range(options.warm_up + options.repeats):
            for case, job in zip(cases, jobs, strict=True):
                samples = await page.evaluate("job => benchmark.round(job)", job)
                if number >= options.warm_up:
                    case.add("page", **samples)
            progress("page", number + 1, options.warm_up + options.repeats)

    def _server(self, cases: Sequence[Case]) -> Any:
        """Serves the page; an async context manager that gives its address."""
        import contextlib

        from aiohttp import web

        # Isolated from other origins, a page has a clock of 5 µs instead of 100.
        headers = {
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Embedder-Policy": "require-corp",
        }

        def answer(body: bytes, kind: str) -> web.Response:
            return web.Response(body=body, content_type=kind, headers=headers)

        async def file(request: web.Request) -> web.Response:
            case = cases[int(request.match_info["number"])]
            return answer(case.file, f"image/{case.codec}")

        async def truth(request: web.Request) -> web.Response:
            return answer(
                cases[int(request.match_info["number"])].truth().tobytes(), "application/octet-stream"
            )

        async def index(_request: web.Request) -> web.Response:
            return answer(PAGE.encode(), "text/html")

        async def bundle(_request: web.Request) -> web.Response:
            return answer(self._bundle.read_bytes(), "text/javascript")

        @contextlib.asynccontextmanager
        async def running() -> Any:
            app = web.Application()
            app.add_routes(
                [
                    web.get("/", index),
                    web.get("/decoding.js", bundle),
                    web.get("/file/{number}", file),
                    web.get("/truth/{number}", truth),
                ]
            )
            runner = web.AppRunner(app)
            await runner.setup()
            try:
                site = web.TCPSite(runner, "127.0.0.1", 0)
                await site.start()
                host, port = runner.addresses[0][:2]
                yield f"http://{host}:{port}/"
            finally:
                await runner.cleanup()

        return running()


def find_bundle(named: Path | None) -> Path:
    """The decoders as a module: the one named, or a new one, or without node the last one."""
    if named:
        return named
    node = shutil.which("node")
    if node and (REPOSITORY / "js/node_modules").exists():
        command = [node, "build.mjs", "--decoding", str(BUNDLE)]
        subprocess.run(command, cwd=REPOSITORY / "js", check=True)
    if not BUNDLE.exists():
        sys.exit(f"{BUNDLE} is missing; `node build.mjs --decoding ../build/decoding.js` in js/ makes it")
    return BUNDLE


# ---- the table

FIRST = (
    "gpu",
    "busy",
    "huffman_decode",
    "reconstruct_chroma",
    "reconstruct",
    "inflate_rows",
    "unfilter_rows",
    "blit",
    "direct",
    "parse",
    "call",
    "draw",
    "main",
    "direct_main",
    "ready",
    "loop",
    "loop_shown",
)
NOT_TIMES = ("part", "scene", "size", "codec", "subsampling", "quality", "bytes", "psnr")


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """The results as a Markdown table; times in ms."""
    names = {name: None for result in results for name in result if not name.endswith(("_min", "_samples"))}
    others = [name for name in names if name not in FIRST and name not in NOT_TIMES]
    times = [*(name for name in FIRST if name in names), *others]
    lines = [["part", "scene", "size", "codec", "q", "kB", *times, "psnr"]]
    lines.append(["---"] * len(lines[0]))
    for r in results:
        lines.append(
            [
                r["part"],
                r["scene"],
                r["size"],
                r["codec"] if r["codec"] == "png" else f"{r['codec']} {r['subsampling']}",
                str(r["quality"]),
                f"{r['bytes'] / 1000:.1f}",
                *(f"{r[name]:.3f}" if name in r else "" for name in times),
                f"{r['psnr']:.1f}",
            ]
        )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def progress(part: str, done: int, of: int) -> None:
    """Tells those who wait that it goes on."""
    print(f"\r{part}: round {done} of {of}", end="\n" if done == of else "", file=sys.stderr, flush=True)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    several = "several times"
    parser.add_argument(
        "--part", action="append", choices=("python", "page"), help=f"{several}; default both"
    )
    parser.add_argument("--scene", action="append", choices=SCENES, help=f"{several}; default all")
    parser.add_argument(
        "--size",
        action="append",
        type=parse_size,
        help=f"WIDTHxHEIGHT, {several}; default 1920x1080, 3840x2160",
    )
    parser.add_argument("--codec", action="append", choices=("jpeg", "png"), help=f"{several}; default jpeg")
    parser.add_argument(
        "--subsampling", action="append", choices=SUBSAMPLINGS, help=f"{several}; default 444 and 420"
    )
    parser.add_argument("--quality", action="append", type=int, help=f"{several}; default 80")
    parser.add_argument("--repeats", type=int, default=15, help="rounds over all cases")
    parser.add_argument("--warm-up", type=int, default=3, help="rounds before them")
    parser.add_argument("--loop", type=int, default=30, help="decodes in a row, in the page")
    parser.add_argument("--json", type=Path)
    page = parser.add_argument_group("the page")
    add_browser_arguments(page)
    page.add_argument("--bundle", type=Path, help="the decoders as a module, made before")
    options = parser.parse_args()
    options.part = options.part or ["python", "page"]
    options.scene = options.scene or list(SCENES)
    options.size = options.size or [(1920, 1080), (3840, 2160)]
    options.codec = options.codec or ["jpeg"]
    options.subsampling = options.subsampling or ["444", "420"]
    options.quality = options.quality or [80]
    return options


def main() -> None:
    """Measures what the command line asks for."""
    options = parse_arguments()
    bundle = find_bundle(options.bundle) if "page" in options.part else None
    device = make_device()
    cases = make_cases(device, options)
    facts: dict[str, Any] = {"adapter": dict(device.adapter.info), "wgpu": wgpu.__version__}
    print(f"adapter: {device.adapter.info['device']}, wgpu {wgpu.__version__}")
    if "python" in options.part:
        python = PythonPart(device)
        print(f"peers: {', '.join(name for codec in options.codec for name in python.peers[codec])}")
        python.measure(cases, options)
        python.close()
    if bundle:
        page = PagePart(bundle, options)
        try:
            asyncio.run(page.measure(cases))
        finally:
            facts["page"] = page.facts
            print(f"page: {page.facts}")
    results = [case.result(part) for part in ("python", "page") if part in options.part for case in cases]
    print(f"\n{table(results)}")
    if options.json:
        options.json.write_text(json.dumps({**facts, "results": results}, indent=1, default=str))


if __name__ == "__main__":
    main()
