"""What the two roads of frames carry: the notebook's own channel (the comm) and a websocket, in one run.

    python -m benchmarks.roads --kilobytes 500 --kilobytes 1000 --seconds 5

In a real JupyterLab and a real browser, driven without DevTools' Network domain, which would copy every frame to the driver. A
canvas sends random bytes as frames, as many as its page takes in the window of three; the page's decoder is replaced by one that
does nothing, so what is measured is the road, with its acknowledgements. Prints frames and megabytes per second by road, and the
ratio. Each case has a kernel of its own; ``--repeat`` goes round them again.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
from typing import Any

from benchmarks.notebook import NOTEBOOK_READY, PAGE_SCRIPT, Lab, execute, running_lab

ROADS = ("comm", "websocket")


class Sender:
    """A canvas, and frames of random bytes for it; the notebook's only cell makes one."""

    def __init__(self, kilobytes: int, road: str) -> None:
        import os

        from rfb_gpu import RenderCanvas
        from rfb_gpu.codecs import EncodedFrame

        self.canvas = RenderCanvas(size=(64, 64), transport=road, lossless_delay=None, decoder="browser")
        self._frame = EncodedFrame(
            os.urandom(kilobytes * 1000), 64, 64, "jpeg", quality=80, subsampling="444"
        )
        self._task = asyncio.ensure_future(self._send())

    async def _send(self) -> None:
        import time

        canvas = self.canvas
        while True:
            audience = canvas._rfb_leading
            while audience.has_room(time.perf_counter()):
                audience.deliver(self._frame, final=False)
            await asyncio.sleep(0)

    def start(self) -> None:
        """Begins to measure."""
        self.canvas.reset_stats()

    def stop(self) -> None:
        """Prints what was measured since."""
        import json

        print("measured: " + json.dumps({**self.canvas.get_stats(), "describe": self.canvas.describe()}))


# Frames are no pictures: what the page makes of them is the same small black one.
NO_DECODER = """
const real = createImageBitmap;
globalThis.createImageBitmap = () => real(new ImageData(64, 64));
delete globalThis.ImageDecoder;
"""


async def measure(page: Any, lab: Lab, kilobytes: int, road: str, seconds: float) -> dict[str, Any]:
    """One case, from opening its notebook to ending its kernel."""
    source = f"from benchmarks.roads import Sender\nsender = Sender({kilobytes}, {road!r})\nsender.canvas"
    try:
        await page.goto(f"{lab.url}doc/tree/{lab.add_notebook(source)}?reset")
        await page.wait_for(NOTEBOOK_READY)
        await page.evaluate("void jupyterapp.commands.execute('notebook:run-all-cells')")
        await page.wait_for(
            f"document.querySelector('canvas.rfb-gpu-canvas')?.dataset.rfbRoad === {road!r}", 20
        )
        await asyncio.sleep(2)
        await execute(page, "sender.start()")
        await asyncio.sleep(seconds)
        return await execute(page, "sender.stop()")
    finally:
        await asyncio.to_thread(lab.end_kernels)


async def run(options: argparse.Namespace, lab: Lab) -> None:
    """Measures all cases and prints them."""
    from benchmarks.cdp import SOFTWARE_FLAGS, Browser

    async with Browser(options.chromium, [*SOFTWARE_FLAGS, "--window-size=900,700"]) as browser:
        page = await browser.page()
        for script in (PAGE_SCRIPT, NO_DECODER):
            await page.call("Page.addScriptToEvaluateOnNewDocument", source=script)
        for kilobytes in options.kilobytes:
            rates: dict[str, list[float]] = {road: [] for road in ROADS}
            for _ in range(options.repeat):
                for road in ROADS:
                    result = await measure(page, lab, kilobytes, road, options.seconds)
                    rates[road].append(result["fps"])
                    print(
                        f"{kilobytes} kB, {road}: {result['fps']:.1f} frames/s, {result['fps'] * kilobytes / 1000:.0f} MB/s, "
                        f"round trip {1000 * result['roundtrip']:.1f} ms",
                        flush=True,
                    )
            comm, websocket = (statistics.median(rates[road]) for road in ROADS)
            print(f"{kilobytes} kB: the websocket carries {websocket / comm:.1f} times as much", flush=True)


def main() -> None:
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kilobytes", action="append", type=int, help="of a frame, several times")
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--chromium", default=shutil.which("chromium") or "chromium")
    options = parser.parse_args()
    options.kilobytes = options.kilobytes or [500, 1000]
    with running_lab(None) as lab:
        asyncio.run(run(options, lab))


if __name__ == "__main__":
    main()
