"""PNG: how fast the GPU's encoder is, and how large its files are, beside rendercanvas' and zlib's; one table, for any adapter.

    python -m benchmarks.encode --codec png --size 3840x2160 --json png.json

Times are medians over ``--repeats`` frames in ms, taken in rounds over all scenes. ``gpu`` is all stages by the GPU's own
timestamps; the stages' own times are those of another encoder, which has each in a pass of its own. ``ready`` is from the call of
``encode`` until the file is there, ``held`` what of that this thread was busy with. ``rendercanvas`` is its encoder's time for the
pixels alone, without what it takes to get them off the GPU. ``kB`` is compared with rendercanvas' file, and with zlib's level 6 for
rows filtered by the least sum of magnitudes, which is libpng's usual way. Every file is decoded by libpng and compared with the
picture.
"""

from __future__ import annotations

import argparse
import io
import statistics
import time
import zlib
from typing import Any

import numpy as np
import wgpu
from numpy.typing import NDArray
from PIL import Image
from rendercanvas.core.encoders import encode_png

from benchmarks.encode import Load, make_device, report, upload
from benchmarks.scenes import render_to_array
from rfb_gpu import PngEncoder

Array = NDArray[np.uint8]
STAGES = (
    "pack_rows",
    "index_rows",
    "choose_filters",
    "count_spans",
    "encode_spans",
    "place_spans",
    "write_stream",
)


def zlib_bytes(image: Array) -> int:
    """What zlib makes of the picture's rows, each after that of PNG's filters whose residuals have the least sum of magnitudes."""
    here = image.astype(np.int16)
    left, above, corner = np.zeros_like(here), np.zeros_like(here), np.zeros_like(here)
    left[:, 1:], above[1:], corner[1:, 1:] = here[:, :-1], here[:-1], here[:-1, :-1]
    guess = left + above - corner
    to_left, to_above, to_corner = (abs(guess - place) for place in (left, above, corner))
    nearest = np.where(to_above <= to_corner, above, corner)
    paeth = np.where((to_left <= to_above) & (to_left <= to_corner), left, nearest)
    predictions = (0, left, above, (left + above) // 2, paeth)
    filtered = np.stack([(here - p).astype(np.uint8).reshape(len(here), -1) for p in predictions])
    best = abs(filtered.astype(np.int8).astype(np.int32)).sum(2).argmin(0)
    rows = filtered[best, np.arange(len(here))]
    return len(zlib.compress(np.concatenate([best[:, None].astype(np.uint8), rows], 1).tobytes(), 6))


class Case:
    """One scene in one size, with what was measured so far."""

    def __init__(self, device: wgpu.GPUDevice, scene: str, image: Array) -> None:
        self.scene, self.rgb = scene, np.ascontiguousarray(image[..., :3])
        self.texture = upload(device, image)
        can_profile = "timestamp-query" in device.features
        self.plain = PngEncoder(device)
        self.whole = PngEncoder(device, profile=can_profile)
        self.apart = PngEncoder(device, profile=can_profile and "stages")
        self.samples: dict[str, list[float]] = {}
        ours = bytes(self.plain.encode(self.texture).result())
        if not np.array_equal(np.asarray(Image.open(io.BytesIO(ours)).convert("RGB")), self.rgb):
            raise AssertionError("the file is not the picture")
        began = time.perf_counter()
        theirs = len(encode_png(self.rgb))
        seconds = time.perf_counter() - began
        self.facts = {
            "bytes": len(ours),
            "bytes_rendercanvas": theirs,
            "bytes_zlib": zlib_bytes(self.rgb),
            "rendercanvas": 1000 * seconds,
        }

    def round(self, load: Load) -> None:
        """One sample of everything."""
        load()
        future = self.plain.encode(self.texture)
        timings = dict(future.result().timings)
        timings["held"] = timings["submit"] + future.busy_seconds
        load()
        if "gpu" in (whole := self.whole.encode(self.texture).result().timings):
            timings["gpu"] = whole["gpu"]
            load()
            apart = self.apart.encode(self.texture).result().timings
            timings |= {name: apart[name] for name in STAGES if name in apart}
        for name, seconds in timings.items():
            self.samples.setdefault(name, []).append(1000 * seconds)

    def result(self) -> dict[str, Any]:
        """Medians in ms, and the facts."""
        medians = {name: statistics.median(values) for name, values in self.samples.items()}
        size = f"{self.rgb.shape[1]}x{self.rgb.shape[0]}"
        return {"scene": self.scene, "size": size, **self.facts, **medians}

    def close(self) -> None:
        """Frees everything."""
        for encoder in (self.plain, self.whole, self.apart):
            encoder.close()
        self.texture.destroy()


def table(results: list[dict[str, Any]]) -> str:
    """The results as a Markdown table; times in ms."""
    times = [
        name for name in ("gpu", *STAGES, "ready", "held", "rendercanvas") if any(name in r for r in results)
    ]
    header = ["scene", "size", *times, "kB", "of rendercanvas'", "of zlib's"]
    lines = [header, ["---"] * len(header)]
    for r in results:
        lines.append(
            [
                r["scene"],
                r["size"],
                *(f"{r[name]:.2f}" if name in r else "" for name in times),
                f"{r['bytes'] / 1000:.0f}",
                f"{r['bytes'] / r['bytes_rendercanvas']:.2f}",
                f"{r['bytes'] / r['bytes_zlib']:.2f}",
            ]
        )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def measure(options: argparse.Namespace) -> None:
    """Measures what the command line of benchmarks/encode.py asks for."""
    device = make_device()
    load = Load(device)
    results = []
    for size in options.size:
        width, height = map(int, size.split("x"))
        cases = [
            Case(device, scene, render_to_array(scene, width, height, is_smooth=options.smooth))
            for scene in options.scene
        ]
        for number in range(options.warm_up + options.repeats):
            for case in cases:
                if number == options.warm_up:
                    case.samples.clear()
                case.round(load)
        results += [case.result() for case in cases]
        for case in cases:
            case.close()
    report(device, options.json, results, table(results))
