"""How fast an encoder is, how large its files are, and how good: one table, for any adapter.

    python -m benchmarks.encode --size 3840x2160 --subsampling 444 --subsampling 420 --peers --json encode.json
    python -m benchmarks.encode --codec png

What follows is of JPEG; of PNG see benchmarks/encode_png.py.

Times are medians over ``--repeats`` frames in ms, taken in rounds over all cases so that a change of the GPU's clock meets all of
them. ``gpu`` is the whole file on the GPU, all stages in one pass, by the GPU's own timestamps; the stages' own times are those of
another encoder, which has each in a pass of its own. ``submit`` is the time in the call of ``encode`` and ``ready`` the time
from that call until the bytes are there, both on an encoder without timestamps. ``collect`` is from the call's return until the
bytes are there, on a GPU that has nothing else to do: what of it is more than ``gpu`` is the host's. All with the standard Huffman
tables, as the peers have them, but for ``gpu_fitted`` and ``fitted``: time and bytes with tables that follow the scene. ``kB`` and
``PSNR`` are compared with libjpeg-turbo's (Pillow's) at the same quality and subsampling.

``--peers`` adds what is there of benchmarks/peers.py, in the same run.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg
import wgpu
from numpy.typing import NDArray
from PIL import Image

from benchmarks.peers import GpuJpeg, NvJpeg, time_simplejpeg
from benchmarks.scenes import SCENES, render_to_array
from rfb_gpu import JpegEncoder
from rfb_gpu.codecs.jpeg.bitstream import SUBSAMPLINGS

Array = NDArray[np.uint8]
STAGES = ("encode_span", "place_spans", "write_stream")
PEERS = ("simplejpeg", "nvjpeg", "gpujpeg")


def make_device() -> wgpu.GPUDevice:
    """A device with timestamps and the adapter's limits, so that 8K fits."""
    adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    wanted = {"timestamp-query", "timestamp-query-inside-encoders", "subgroup"}
    names = ("max-storage-buffer-binding-size", "max-buffer-size", "max-texture-dimension-2d")
    return adapter.request_device_sync(
        required_features=sorted(wanted & adapter.features),
        required_limits={name: adapter.limits[name] for name in names},
    )


def upload(device: wgpu.GPUDevice, image: Array) -> wgpu.GPUTexture:
    """The image in a texture as pygfx's canvases have it."""
    height, width = image.shape[:2]
    usage = wgpu.TextureUsage.TEXTURE_BINDING | wgpu.TextureUsage.COPY_DST
    texture = device.create_texture(size=(width, height, 1), format="rgba8unorm-srgb", usage=usage)
    device.queue.write_texture(
        {"texture": texture}, np.ascontiguousarray(image), {"bytes_per_row": width * 4}, (width, height, 1)
    )
    return texture


def psnr(a: Array, b: Array) -> float:
    """In dB, over all channels."""
    error = float(np.mean((a.astype(np.float32) - b.astype(np.float32)) ** 2))
    return 99.0 if error == 0 else float(10 * np.log10(255**2 / error))


def libjpeg(image: Array, quality: int, subsampling: str) -> bytes:
    """libjpeg-turbo's file, with its accurate DCT and the standard Huffman tables."""
    file = io.BytesIO()
    codes = {"444": 0, "422": 1, "420": 2, "gray": 0}
    picture = Image.fromarray(np.ascontiguousarray(image[..., :3]))
    if subsampling == "gray":
        picture = picture.convert("L")
    picture.save(file, "JPEG", quality=quality, subsampling=codes[subsampling])
    return file.getvalue()


def decoded(data: bytes) -> Array:
    """By libjpeg-turbo; raises at the least irregularity."""
    return simplejpeg.decode_jpeg(data, fastdct=False, strict=True)


class Load:
    """Keeps the GPU's clock up, as a program that renders does: a GPU that idles between measurements is timed half asleep."""

    WGSL = """
        @group(0) @binding(0) var<storage, read_write> sink: array<f32>;
        @compute @workgroup_size(256)
        fn burn(@builtin(global_invocation_id) id: vec3u) {
            var x = f32(id.x);
            for (var i = 0u; i < 65536u; i++) { x = fma(x, 0.999, 0.5); }
            if (x == 0.123) { sink[0] = x; }
        }
    """
    SECONDS = 0.012

    def __init__(self, device: wgpu.GPUDevice) -> None:
        self._device = device
        module = device.create_shader_module(code=self.WGSL)
        self._pipeline = device.create_compute_pipeline(
            layout="auto", compute={"module": module, "entry_point": "burn"}
        )
        self._sink = device.create_buffer(size=16, usage=wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC)
        self._group = device.create_bind_group(
            layout=self._pipeline.get_bind_group_layout(0), entries=[{"binding": 0, "resource": self._sink}]
        )
        self._workgroups = 1
        began = time.perf_counter()
        while time.perf_counter() - began < self.SECONDS and self._workgroups < 30_000:
            began = time.perf_counter()
            self._workgroups *= 2
            self.wait()

    def __call__(self) -> None:
        """Submits some milliseconds of arithmetic; what is submitted next runs right after."""
        commands = self._device.create_command_encoder()
        compute = commands.begin_compute_pass()
        compute.set_pipeline(self._pipeline)
        compute.set_bind_group(0, self._group)
        compute.dispatch_workgroups(self._workgroups)
        compute.end()
        self._device.queue.submit([commands.finish()])

    def wait(self) -> None:
        """Likewise, but returns when it is over."""
        self()
        self._device.queue.read_buffer(self._sink)


class Case:
    """One scene in one size and subsampling, with what was measured so far."""

    def __init__(
        self, device: wgpu.GPUDevice, scene: str, image: Array, subsampling: str, quality: int
    ) -> None:
        self.scene, self.image, self.subsampling, self.quality = scene, image, subsampling, quality
        self.texture = upload(device, image)
        can_profile = "timestamp-query" in device.features
        self.plain = JpegEncoder(device, quality, subsampling, huffman="standard")
        self.whole = JpegEncoder(device, quality, subsampling, huffman="standard", profile=can_profile)
        self.apart = JpegEncoder(
            device, quality, subsampling, huffman="standard", profile=can_profile and "stages"
        )
        self.fitted = JpegEncoder(device, quality, subsampling, profile=can_profile)
        self.samples: dict[str, list[float]] = {}
        self.facts: dict[str, Any] = {}

    @property
    def encoders(self) -> list[JpegEncoder]:
        """All that it uses."""
        return [self.plain, self.whole, self.apart, self.fitted]

    def check(self) -> None:
        """The file is right: it decodes strictly, and is as good and as small as libjpeg-turbo's."""
        ours = bytes(self.plain.encode(self.texture).result())
        theirs = libjpeg(self.image, self.quality, self.subsampling)
        fitted = [bytes(self.fitted.encode(self.texture).result()) for _ in range(3)][-1]
        target = self.image[..., :3]
        if self.subsampling == "gray":
            target = np.asarray(Image.fromarray(np.ascontiguousarray(target)).convert("L").convert("RGB"))
        if not np.array_equal(decoded(fitted), decoded(ours)):
            raise AssertionError("another Huffman table has made another picture")
        self.facts = {
            "bytes": len(ours),
            "bytes_fitted": len(fitted),
            "bytes_libjpeg": len(theirs),
            "psnr": psnr(decoded(ours), target),
            "psnr_libjpeg": psnr(decoded(theirs), target),
        }

    def add(self, **seconds: float) -> None:
        """Keeps one sample of each."""
        for name, value in seconds.items():
            self.samples.setdefault(name, []).append(value * 1000)

    def round(self, load: Load, peers: Peers) -> None:
        """One sample of everything."""
        load()
        timings = self.whole.encode(self.texture).result().timings
        if "gpu" in timings:
            self.add(gpu=timings["gpu"])
            load()
            self.add(gpu_fitted=self.fitted.encode(self.texture).result().timings["gpu"])
            load()
            timings = self.apart.encode(self.texture).result().timings
            self.add(**{name: timings[name] for name in STAGES})
        load()
        timings = self.plain.encode(self.texture).result().timings
        self.add(submit=timings["submit"], ready=timings["ready"])
        load.wait()
        future = self.plain.encode(self.texture)
        began = time.perf_counter()
        future.result()
        self.add(collect=time.perf_counter() - began)
        self.add(**peers.samples(self, load))

    def result(self) -> dict[str, Any]:
        """Medians in ms, and the facts."""
        height, width = self.image.shape[:2]
        medians = {name: statistics.median(values) for name, values in self.samples.items()}
        lowest = {f"{name}_min": min(values) for name, values in self.samples.items()}
        case = {
            "scene": self.scene,
            "size": f"{width}x{height}",
            "subsampling": self.subsampling,
            "quality": self.quality,
        }
        return {**case, **self.facts, **medians, **lowest}


class Peers:
    """The other encoders that are here."""

    def __init__(self, wanted: bool) -> None:
        self.names: list[str] = []
        self._nvjpeg: NvJpeg | None = None
        self._gpujpeg: GpuJpeg | None = None
        self._prepared: dict[int, Callable[[], float]] = {}
        if wanted:
            self.names.append("simplejpeg")
            for name, make in (("nvjpeg", NvJpeg), ("gpujpeg", GpuJpeg)):
                try:
                    setattr(self, f"_{name}", make())
                    self.names.append(name)
                except (ImportError, OSError) as why:
                    print(f"without {name}: {why}")

    def once(self, case: Case) -> None:
        """What takes one run of its own: GPUJPEG's tool repeats by itself."""
        if self._gpujpeg:
            seconds = self._gpujpeg.time(case.image, case.quality, case.subsampling)
            if seconds is not None:
                case.add(gpujpeg=seconds)

    def samples(self, case: Case, load: Load) -> dict[str, float]:
        """Seconds of one encoding by each."""
        if not self.names:
            return {}
        found = {"simplejpeg": time_simplejpeg(case.image, case.quality, case.subsampling)}
        if self._nvjpeg:
            if id(case) not in self._prepared:
                prepare = self._nvjpeg.prepare
                self._prepared[id(case)] = prepare(case.image, case.quality, case.subsampling)
            load.wait()  # a peer has a GPU context of its own, which must not share the time with ours
            found["nvjpeg"] = self._prepared[id(case)]()
        return found

    def forget(self) -> None:
        """Frees what was prepared."""
        self._prepared.clear()


def table(results: list[dict[str, Any]]) -> str:
    """The results as a Markdown table; times in ms."""
    columns = ("gpu", *STAGES, "gpu_fitted", "submit", "ready", "collect", *PEERS)
    times = [name for name in columns if any(name in r for r in results)]
    header = ["scene", "size", "sub", "q", *times, "kB", "vs libjpeg", "fitted", "PSNR", "vs libjpeg"]
    lines = [header, ["---"] * len(header)]
    for r in results:
        lines.append(
            [
                r["scene"],
                r["size"],
                r["subsampling"],
                str(r["quality"]),
                *(f"{r[name]:.3f}" if name in r else "" for name in times),
                f"{r['bytes'] / 1000:.1f}",
                f"{r['bytes'] / r['bytes_libjpeg'] - 1:+.1%}",
                f"{r['bytes_fitted'] / r['bytes'] - 1:+.1%}",
                f"{r['psnr']:.2f}",
                f"{r['psnr'] - r['psnr_libjpeg']:+.3f}",
            ]
        )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def summary(results: list[dict[str, Any]]) -> str:
    """By size, subsampling and quality: the median of the scenes, and the median of their ratios to the peers."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for r in results:
        if "gpu" in r:
            groups.setdefault((r["size"], r["subsampling"], r["quality"]), []).append(r)
    lines = []
    for (size, subsampling, quality), cases in groups.items():
        line = f"{size} {subsampling} q{quality}: gpu {statistics.median(r['gpu'] for r in cases):.4f} ms"
        for peer in PEERS:
            if all(peer in r for r in cases):
                line += f", {statistics.median(r['gpu'] / r[peer] for r in cases):.3f} of {peer}"
        lines.append(line + f", encode() {statistics.median(r['submit'] for r in cases):.3f} ms")
    return "\n".join(lines)


def report(
    device: wgpu.GPUDevice, file: Path | None, results: list[dict[str, Any]], text: str, peers: str = ""
) -> None:
    """Prints the results, and writes them to a file."""
    print(f"adapter: {device.adapter.info['device']}, wgpu {wgpu.__version__}{peers}\n\n{text}")
    if file:
        facts = {"adapter": dict(device.adapter.info), "wgpu": wgpu.__version__, "results": results}
        file.write_text(json.dumps(facts, indent=1, default=str))


def main() -> None:
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--codec", choices=("jpeg", "png"), default="jpeg")
    parser.add_argument(
        "--size", action="append", help="WIDTHxHEIGHT, several times; default 1920x1080 and 3840x2160"
    )
    parser.add_argument("--scene", action="append", choices=SCENES, help="several times; default all")
    parser.add_argument(
        "--subsampling", action="append", choices=SUBSAMPLINGS, help="several times; default 444 and 420"
    )
    parser.add_argument("--quality", action="append", type=int, help="several times; default 80")
    parser.add_argument(
        "--smooth", action="store_true", help="pictures as pygfx draws them by default, supersampled"
    )
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.size = options.size or ["1920x1080", "3840x2160"]
    options.scene = options.scene or list(SCENES)
    if options.codec == "png":
        from benchmarks import encode_png  # which builds on this module

        encode_png.measure(options)
    else:
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """The same for JPEG."""
    device = make_device()
    load = Load(device)
    peers = Peers(options.peers)
    results = []
    for size in options.size:
        width, height = map(int, size.split("x"))
        images = {
            scene: render_to_array(scene, width, height, is_smooth=options.smooth) for scene in options.scene
        }
        for subsampling in options.subsampling or ["444", "420"]:
            for quality in options.quality or [80]:
                cases = [Case(device, scene, image, subsampling, quality) for scene, image in images.items()]
                for case in cases:
                    case.check()
                    peers.once(case)
                for _ in range(options.warm_up):
                    for case in cases:
                        for encoder in case.encoders:
                            load()
                            encoder.encode(case.texture).result()
                for _ in range(options.repeats):
                    for case in cases:
                        case.round(load, peers)
                results += [case.result() for case in cases]
                for case in cases:
                    for encoder in case.encoders:
                        encoder.close()
                    case.texture.destroy()
                peers.forget()
    names = f", peers: {', '.join(peers.names) or 'none'}"
    report(device, options.json, results, f"{table(results)}\n\n{summary(results)}", names)


if __name__ == "__main__":
    main()
