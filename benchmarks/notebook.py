"""The whole way: a real kernel, JupyterLab, and a real browser that shows the frames; one table for all backends.

    python -m benchmarks.notebook --backend rfb_gpu --backend rendercanvas --scene mesh --size 640x480 --json notebook.json

A canvas draws as fast as its page takes frames. Each case is a notebook with a kernel of its own, warms up, and is then measured
for ``--seconds``. ``--repeat`` goes round all cases of a size again, so that a change of the GPU's clock meets all of them.

* ``fps``: pictures shown per second, counted in the page: new frames on our canvas, new sources of the peers' ``<img>``.
* ``gap95``: 95th percentile of the time between two of them, ms.
* ``trip``, ``encode``: means of ``canvas.get_stats()``: round trip and encoding, ms. ``trip50``, ``trip95``: percentiles of the
  time from sending a frame until the kernel hears that it was shown, ms; ours only, and only while both go over the comm.
* ``shown50``, ``shown95``: percentiles of the time from the beginning of a draw until the page gives its picture to the screen, ms,
  by the one clock of a machine that runs kernel and page. Of the peers ``shown50`` is a sum of means: draw, encoding, and the
  ``delivery`` of their ``get_stats()``, which compares the same two clocks.
* ``held50``, ``held95``: how late a task comes that wants to run every 5 ms on the kernel's event loop, ms. Where a backend draws
  on several threads, that is the loop that is held most.
* ``draw``: median time in the draw function, ms. ``cpu``: the kernel process's CPU time per second.
* ``kB``: bytes of a frame as sent.
* ``rest``: with ``--rest``, from the last picture in motion until the lossless one, both shown in the page, ms. 300 of them all
  backends wait on purpose.
* ``off``: with ``--check-pixels``, the largest difference between the page's picture and the kernel's, over the means of 16x9
  blocks, in 1/255. JPEG's own loss is in it: 0.7 for mesh, 1 to 2 for most, up to 6 for lines in a small size. The page's
  picture is read from the canvas' own texture, since a screenshot can lack it, and for that the texture is made readable.

Needs JupyterLab, pygfx, aiohttp (which the package itself does not), the peers (jupyter_rfb is one) and a Chromium; the flags are
for one without a GPU unless ``--gpu`` is given. On a host without the internet, ``--site`` names a folder made by
``pip install --target``, and ``--chromium``, ``--browser-env`` a browser that was brought along.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import itertools
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.cdp import Page

REPOSITORY = Path(__file__).resolve().parents[1]

BACKENDS = {
    "rfb_gpu": "rfb_gpu",
    "rendercanvas": "rendercanvas.anywidget",
    "jupyter_rfb": "rendercanvas.jupyter",
}
"""The module of each backend's RenderCanvas."""
OWN_OPTIONS = ("encoder", "decoder", "codec", "quality", "subsampling", "max_buffered_frames", "transport")
"""What only our canvas has; the peers run with their defaults, quality 80."""

HEARTBEAT = 0.005
REST_SECONDS = 3
"""Until the lossless picture is there, with the slowest peer."""
GRID = (16, 9)
ROOM = 500
"""Pixels of a window beside and below the canvas, for JupyterLab."""
MARK = "measured: "
FIRST_FRAMES_TIMEOUT = 120


# ---- in the kernel


class Probe:
    """A canvas with a scene, and what the kernel can tell of it; the notebook's only cell makes one."""

    def __init__(self, backend: str, scene: str, width: int, height: int, options: Mapping[str, Any]) -> None:
        import importlib

        from benchmarks.scenes import make_renderer, make_scene

        canvas_class = importlib.import_module(BACKENDS[backend]).RenderCanvas
        self.canvas = canvas_class(
            size=(width, height), title="", update_mode="continuous", max_fps=1000, vsync=False, **options
        )
        self._scene = scene
        self._size = width, height
        self._renderer = make_renderer(self.canvas)
        self._world, self._camera, self._animate = make_scene(scene)
        self._is_frozen = False
        self._draws: list[float] = []
        self._late: dict[str, list[float]] = {}  # by thread
        self._heartbeats: list[asyncio.Future[None]] = []
        self._sent: list[float] = []
        self._in_flight: dict[int, float] = {}
        self._trips: list[float] = []
        self._draw_began: dict[int, float] = {}  # of our frames, by number; ms since 1970
        self._began = self._cpu_began = 0.0
        self._count_bytes()
        self._watch_loop()
        self.canvas.request_draw(self._draw)

    def start(self) -> None:
        """Begins to measure."""
        self.canvas.reset_stats()
        for samples in (self._draws, self._sent, self._trips, self._draw_began, *self._late.values()):
            samples.clear()
        self._began, self._cpu_began = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        """Prints what was measured since :meth:`start`."""
        seconds = time.perf_counter() - self._began
        cpu = time.process_time() - self._cpu_began
        stats = self.canvas.get_stats()
        late = max(self._late.values(), key=lambda samples: percentile(samples, 95))
        self._report(
            kernel_seconds=seconds,
            kernel_cpu=cpu / seconds,
            stats=stats,
            trip=1000 * stats["roundtrip"],
            encode=1000 * stats["img_encoding"],
            **{f"trip{p}": 1000 * percentile(self._trips, p) for p in (50, 95) if self._trips},
            held50=1000 * percentile(late, 50),
            held95=1000 * percentile(late, 95),
            held_max=1000 * max(late, default=0.0),
            draw=1000 * percentile(self._draws, 50),
            draw95=1000 * percentile(self._draws, 95),
            draws=len(self._draws),
            loops=sorted(self._late),
            kB=statistics.fmean(self._sent) / 1000 if self._sent else 0.0,
            physical_size=list(self.canvas.get_physical_size()),
            kernel_adapter=self._adapter(),
            canvas=getattr(self.canvas, "describe", lambda: "")(),
            stations=self._stations(),
            draw_began=self._draw_began,
        )

    def fit(self) -> None:
        """Makes up for what a border takes of the size, and prints whether it had to."""
        lost = [
            asked - drawn for asked, drawn in zip(self._size, self.canvas.get_physical_size(), strict=True)
        ]
        if any(lost):
            self.canvas.set_logical_size(*(side + less for side, less in zip(self._size, lost, strict=True)))
        self._report(resized=any(lost))

    def rest(self) -> None:
        """Draws no more."""
        self.canvas.set_update_mode("manual")

    def freeze(self) -> None:
        """Draws the same picture from now on."""
        self._is_frozen = True

    def picture(self) -> None:
        """Prints the block means of the picture that :meth:`freeze` draws, from an offscreen canvas."""
        from benchmarks.scenes import render_to_array

        self._report(blocks=block_means(render_to_array(self._scene, *self._size)))

    def _draw(self) -> None:
        began = time.perf_counter()
        self._watch_loop()
        self._animate(0.0 if self._is_frozen else began)
        self._renderer.render(self._world, self._camera)
        self._draws.append(time.perf_counter() - began)

    def _count_bytes(self) -> None:
        if hasattr(self.canvas, "_rfb_audiences"):  # ours, by whichever road
            from rfb_gpu.audience import Audience

            send_ours = Audience._send

            def counting(
                audience: Any, sent: Any, *rest: Any, began: float | None = None, **named: Any
            ) -> None:
                self._sent.append(len(sent.frame))
                if began is not None:
                    since = time.perf_counter() - began
                    self._draw_began[sent.number] = 1000 * (time.time() - since)
                send_ours(audience, sent, *rest, began=began, **named)

            setattr(Audience, "_send", counting)  # noqa: B010 (mypy: a method is not assigned to)
            return
        send = self.canvas.send

        def counting_send(content: Any, buffers: Any = None) -> None:
            if buffers:
                self._sent.append(sum(memoryview(b).nbytes for b in buffers))
                if content.get("type") == "frame":
                    self._in_flight[content["id"]] = time.perf_counter()
            send(content, buffers)

        def on_message(_widget: object, content: Any, _buffers: object) -> None:
            if isinstance(content, dict) and content.get("type") == "ack":
                now = time.perf_counter()
                # Whatever came before is done with as well, shown or dropped.
                for frame in [frame for frame in list(self._in_flight) if frame <= content["frame"]]:
                    self._trips.append(now - self._in_flight.pop(frame))

        self.canvas.send = counting_send
        self.canvas.on_msg(on_message)

    def _watch_loop(self) -> None:
        """Puts a heartbeat on this thread's event loop, where none is yet: some backends draw on several threads."""
        thread = threading.current_thread().name
        if thread not in self._late:
            late = self._late[thread] = []
            self._heartbeats.append(asyncio.ensure_future(self._beat(late)))

    async def _beat(self, late: list[float]) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(HEARTBEAT)
            late.append(time.perf_counter() - began - HEARTBEAT)

    def _adapter(self) -> str:
        info = self._renderer.device.adapter.info
        return f"{info['device']} ({info['adapter_type']}, {info['backend_type']})"

    def _stations(self) -> dict[str, Any] | None:
        """Our canvas's own figures, whose times are of the stations of a frame's way."""
        stats = getattr(self.canvas, "stats", None)
        return None if stats is None else dataclasses.asdict(stats)

    @staticmethod
    def _report(**values: Any) -> None:
        print(MARK + json.dumps(values))


def percentile(samples: Sequence[float], percent: float) -> float:
    """The nearest sample; 0 of none."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else 0.0


def block_means(picture: Any) -> list[list[float]]:
    """Mean red, green and blue of each block, by rows; the page computes the same."""
    columns, rows = GRID
    height, width = picture.shape[:2]
    return [
        picture[
            height * row // rows : height * (row + 1) // rows,
            width * column // columns : width * (column + 1) // columns,
            :3,
        ]
        .mean((0, 1))
        .tolist()
        for row in range(rows)
        for column in range(columns)
    ]


# ---- in the page

SHOWN = "canvas.rfb-gpu-canvas, .renderview-wrapper img"

PAGE_SCRIPT = """
globalThis.benchmark = (() => {
  const SHOWN = '%(shown)s';
  let times = [];
  let ours = [];  // number of each of our frames, and when it was shown, ms since 1970
  let waiting = null;
  new MutationObserver(records => {
    for (const { target } of records) {
      if (target.matches(SHOWN)) {
        const now = performance.now();
        times.push(now);
        if (target.dataset.rfbFrame) ours.push([target.dataset.rfbFrame, performance.timeOrigin + now]);
        // Still in the task that drew: the texture of a WebGPU canvas is its own until the page is composed.
        waiting?.(target);
        waiting = null;
      }
    }
  }).observe(document, { subtree: true, attributes: true, attributeFilter: ['data-rfb-frame', 'src'] });

  function shown() {
    const found = [...document.querySelectorAll(SHOWN)];
    return found.length === 1 ? found[0] : null;
  }

  /** The pixels of a canvas from the row `top` down. */
  function readTexture(canvas, top = 0) {
    const context = canvas.getContext('webgpu');
    const { device, format } = context.getConfiguration();
    const width = canvas.width;
    const height = canvas.height - top;
    const bytesPerRow = Math.ceil(width * 4 / 256) * 256;
    const buffer = device.createBuffer({
      size: bytesPerRow * height, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    const encoder = device.createCommandEncoder();
    encoder.copyTextureToBuffer(
      { texture: context.getCurrentTexture(), origin: [0, top] }, { buffer, bytesPerRow }, [width, height]);
    device.queue.submit([encoder.finish()]);
    return buffer.mapAsync(GPUMapMode.READ).then(() => {
      const data = new Uint8Array(buffer.getMappedRange()).slice();
      buffer.destroy();
      return { data, width, height, bytesPerRow, order: format.startsWith('bgra') ? [2, 1, 0] : [0, 1, 2] };
    });
  }

  async function readImage(source, width, height) {
    await source.decode?.();
    const context = new OffscreenCanvas(width, height).getContext('2d');
    context.drawImage(source, 0, 0);
    const { data } = context.getImageData(0, 0, width, height);
    return { data, width, height, bytesPerRow: width * 4, order: [0, 1, 2] };
  }

  function read(element) {
    if (element instanceof HTMLImageElement) {
      return readImage(element, element.naturalWidth, element.naturalHeight);
    }
    return element.dataset.rfbDecoder === 'webgpu'
      ? readTexture(element) : readImage(element, element.width, element.height);
  }

  function blockMeans({ data, width, height, bytesPerRow, order }, columns, rows) {
    const means = [];
    for (let row = 0; row < rows; row++) {
      const [top, bottom] = [row, row + 1].map(r => Math.floor(height * r / rows));
      for (let column = 0; column < columns; column++) {
        const [left, right] = [column, column + 1].map(c => Math.floor(width * c / columns));
        const sum = [0, 0, 0];
        for (let y = top; y < bottom; y++) {
          for (let at = y * bytesPerRow + left * 4; at < y * bytesPerRow + right * 4; at += 4) {
            for (let c = 0; c < 3; c++) sum[c] += data[at + order[c]];
          }
        }
        means.push(sum.map(s => s / ((bottom - top) * (right - left))));
      }
    }
    return means;
  }

  return {
    readTexture,
    shown,
    count: () => times.length,
    start() {
      times = [];
      ours = [];
      this.began = performance.now();
    },
    stop() {
      const element = shown();
      return {
        page_seconds: (performance.now() - this.began) / 1000,
        times,
        ours,
        decoder: element?.dataset.rfbDecoder ?? element?.localName ?? 'none',
        shown_size: element ? [element.naturalWidth ?? element.width, element.naturalHeight ?? element.height] : null,
      };
    },
    async picture(columns, rows) {
      const element = await new Promise(resolve => { waiting = target => resolve(read(target)); });
      return blockMeans(element, columns, rows);
    },
    async adapter() {
      const adapter = await navigator.gpu?.requestAdapter();
      const { vendor, architecture, device, description } = adapter?.info ?? {};
      return [...new Set([vendor, architecture, device, description])].filter(Boolean).join(' ') || 'none';
    },
    async execute(code) {
      const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel;
      const future = kernel.requestExecute({ code, store_history: false, allow_stdin: false });
      const output = [];
      future.onIOPub = ({ header, content }) => {
        if (header.msg_type === 'stream') output.push(content.text);
      };
      const { content } = await future.done;
      return { output: output.join(''), error: content.status === 'ok' ? null : `${content.ename}: ${content.evalue}` };
    },
  };
})();
""" % {"shown": SHOWN}  # noqa: UP031 - braces abound

READABLE_CANVAS = """
if (globalThis.GPUCanvasContext) {
  const { configure } = GPUCanvasContext.prototype;
  GPUCanvasContext.prototype.configure = function (options) {
    const usage = (options.usage ?? GPUTextureUsage.RENDER_ATTACHMENT) | GPUTextureUsage.COPY_SRC;
    return configure.call(this, { ...options, usage });
  };
}
"""

NOTEBOOK_READY = """(() => {
  const panel = globalThis.jupyterapp?.shell?.currentWidget;
  return Boolean(globalThis.benchmark) && panel?.context?.isReady && panel.sessionContext?.isReady
    && panel.sessionContext.session?.kernel?.status === 'idle';
})()"""


# ---- the driver


class Lab:
    """A running JupyterLab with all its files in a folder of its own."""

    def __init__(self, url: str, notebooks: Path) -> None:
        self.url = url
        self._notebooks = notebooks
        self._count = 0

    def add_notebook(self, source: str) -> str:
        """Writes a notebook of one cell, whose code is hidden; gives its name."""
        self._count += 1
        name = f"case{self._count}.ipynb"
        cell: dict[str, Any] = {
            "cell_type": "code",
            "id": "probe",
            "execution_count": None,
            "metadata": {"jupyter": {"source_hidden": True}},
            "outputs": [],
            "source": source,
        }
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        content = {"cells": [cell], "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
        (self._notebooks / name).write_text(json.dumps(content))
        return name

    def end_kernels(self) -> None:
        """Ends all kernels, so that none draws beside the next case."""
        for session in json.loads(self._request("GET", "api/sessions")):
            self._request("DELETE", f"api/sessions/{session['id']}")

    def _request(self, method: str, path: str) -> bytes:
        request = urllib.request.Request(self.url + path, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            body: bytes = answer.read()
        return body


@contextlib.contextmanager
def running_lab(site: Path | None) -> Iterator[Lab]:
    """Runs JupyterLab until the block ends; of `site`, if that is given."""
    from benchmarks.cdp import end_group

    with contextlib.ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="notebooks-", ignore_cleanup_errors=True))
        )
        for name in ("notebooks", "config/labconfig", "run"):
            (folder / name).mkdir(parents=True, mode=0o700)
        disabled = {"@jupyterlab/apputils-extension:announcements": True}
        (folder / "config/labconfig/page_config.json").write_text(
            json.dumps({"disabledExtensions": disabled})
        )
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        lab = Lab(f"http://127.0.0.1:{port}/", folder / "notebooks")
        python_path = [str(site)] if site else []
        python_path += [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(python_path),
            "IPYTHONDIR": str(folder / "ipython"),
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(folder / "run"),
            "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        }
        # Without it, the Vulkan loader complains into a cell's output.
        env.setdefault("XDG_RUNTIME_DIR", str(folder / "run"))
        command = [
            sys.executable, "-m", "jupyterlab", "--allow-root", "--no-browser",
            "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0",
            f"--ServerApp.root_dir={lab._notebooks}", "--ServerApp.terminals_enabled=False",
            "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True", "--LabApp.expose_app_in_browser=True",
        ]  # fmt: skip
        if site:
            env["JUPYTER_PATH"] = str(site / "share/jupyter")
            command.append(f"--LabApp.app_dir={site / 'share/jupyter/lab'}")
        log = folder / "jupyterlab.log"
        file = stack.enter_context(log.open("wb"))
        process = subprocess.Popen(
            command, env=env, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        stack.callback(end_group, process)
        give_up = time.monotonic() + 90
        while True:
            try:
                urllib.request.urlopen(f"{lab.url}api", timeout=2).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > give_up:
                    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-3000:]}") from None
                time.sleep(0.1)
        yield lab


async def measure(
    page: Page, lab: Lab, backend: str, scene: str, size: tuple[int, int], options: argparse.Namespace
) -> dict[str, Any]:
    """One case, from opening its notebook to ending its kernel."""
    own = {
        name: value
        for name in OWN_OPTIONS
        if backend == "rfb_gpu" and (value := getattr(options, name)) is not None
    }
    source = (
        "from benchmarks.notebook import Probe\n"
        f"probe = Probe({backend!r}, {scene!r}, {size[0]}, {size[1]}, {own!r})\n"
        "probe.canvas"
    )
    result: dict[str, Any] = {
        "backend": backend,
        "scene": scene,
        "size": f"{size[0]}x{size[1]}",
        "options": own,
    }
    page.console.clear()
    try:
        # JupyterLab's view of one document; `reset` forgets what was open.
        await page.goto(f"{lab.url}doc/tree/{lab.add_notebook(source)}?reset")
        await page.wait_for(NOTEBOOK_READY)
        began = time.perf_counter()
        await page.evaluate("void jupyterapp.commands.execute('notebook:run-all-cells')")
        await wait_for_frames(page, 3)
        result["first_frames"] = time.perf_counter() - began
        if (await execute(page, "probe.fit()"))["resized"]:
            await page.evaluate("benchmark.start()")
            await wait_for_frames(page, 8)
        await page.evaluate(f"document.querySelector({SHOWN!r}).scrollIntoView({{ block: 'center' }})")
        await asyncio.sleep(options.warm_up)

        await execute(page, "probe.start()")
        await page.evaluate("benchmark.start()")
        await asyncio.sleep(options.seconds)
        in_page = await page.evaluate("benchmark.stop()")
        result |= await execute(page, "probe.stop()")
        times = in_page.pop("times")
        draw_began = result.pop("draw_began")
        shown = [at - draw_began[frame] for frame, at in in_page.pop("ours") if frame in draw_began]
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        result |= in_page
        result |= {
            "frames": len(times),
            "fps": len(times) / in_page["page_seconds"],
            "gap50": percentile(gaps, 50),
            "gap95": percentile(gaps, 95),
            **(
                {f"shown{p}": percentile(shown, p) for p in (50, 95)}
                if shown
                else {"shown50": result["draw"] + result["encode"] + 1000 * result["stats"]["delivery"]}
            ),
            "page_adapter": await page.evaluate("benchmark.adapter()"),
        }
        if result["physical_size"] != list(size) or result["shown_size"] != list(size):
            result["error"] = f"drawn {result['physical_size']}, shown {result['shown_size']}"
        if options.check_pixels:
            result["off"] = await compare_pictures(page)
        if options.rest:
            result["rest"] = await time_to_lossless(page)
        if options.screenshots:
            options.screenshots.mkdir(parents=True, exist_ok=True)
            await page.screenshot(options.screenshots / f"{backend}-{scene}-{result['size']}.png")
    except Exception as error:  # the other cases shall run all the same
        result["error"] = f"{type(error).__name__}: {error}"
        with contextlib.suppress(Exception):
            result["cell"] = await page.evaluate(
                "JSON.stringify(jupyterapp.shell.currentWidget.content.widgets[0].model.outputs.toJSON()).slice(0, 3000)"
            )
    finally:
        result["console"] = [
            line for line in page.console if not line.startswith(("log:", "debug:", "info:"))
        ][-8:]
        await asyncio.to_thread(lab.end_kernels)
    return result


async def compare_pictures(page: Page) -> float:
    """The largest difference of a block's mean between what the page shows and what the kernel draws offscreen."""
    await execute(page, "probe.freeze()")
    await page.evaluate("benchmark.start()")
    # More than may be on their way.
    await wait_for_frames(page, 8)
    seen = await page.evaluate(f"benchmark.picture({GRID[0]}, {GRID[1]})")
    drawn = (await execute(page, "probe.picture()"))["blocks"]
    differences = (abs(a - b) for s, d in zip(seen, drawn, strict=True) for a, b in zip(s, d, strict=True))
    return float(max(differences))


async def time_to_lossless(page: Page) -> float:
    """From the last picture in motion to the one after it, which comes once drawing has stopped."""
    await page.evaluate("benchmark.start()")
    await execute(page, "probe.rest()")
    await asyncio.sleep(REST_SECONDS)
    *_, moving, lossless = (await page.evaluate("benchmark.stop()"))["times"]
    return float(lossless - moving)


async def wait_for_frames(page: Page, count: int) -> None:
    """Waits until the page has shown so many since its script began to count."""
    await page.wait_for(f"benchmark.count() >= {count}", FIRST_FRAMES_TIMEOUT)


async def execute(page: Page, code: str) -> dict[str, Any]:
    """Runs code in the kernel, through the page's own connection; gives what a probe reported."""
    answer = await page.evaluate("code => benchmark.execute(code)", code)
    if answer["error"]:
        raise RuntimeError(f"{code}: {answer['error']}")
    reports = [line for line in answer["output"].splitlines() if line.startswith(MARK)]
    return json.loads(reports[-1].removeprefix(MARK)) if reports else {}


async def run(options: argparse.Namespace, lab: Lab, report: Callable[[dict[str, Any]], None]) -> None:
    """Measures all cases; a browser for each size, whose window is no larger than it must be."""
    from benchmarks.cdp import GPU_FLAGS, SOFTWARE_FLAGS, Browser

    for size in options.size:
        flags = [
            *(GPU_FLAGS if options.gpu else SOFTWARE_FLAGS),
            f"--window-size={size[0] + ROOM},{size[1] + ROOM}",
            *options.browser_flag,
        ]
        async with Browser(options.chromium, flags, dict(options.browser_env)) as browser:
            page = await browser.page()
            if options.check_pixels:
                await page.call("Page.addScriptToEvaluateOnNewDocument", source=READABLE_CANVAS)
            await page.call("Page.addScriptToEvaluateOnNewDocument", source=PAGE_SCRIPT)
            for _ in range(options.repeat):
                for scene in options.scene:
                    for backend in options.backend:
                        report(await measure(page, lab, backend, scene, size, options))


COLUMNS = {
    "backend": "", "scene": "", "size": "", "fps": ".1f", "gap95": ".1f", "trip": ".1f", "trip50": ".1f", "trip95": ".1f",
    "shown50": ".1f", "shown95": ".1f", "encode": ".2f", "held50": ".2f", "held95": ".1f", "draw": ".1f", "kernel_cpu": ".2f",
    "kB": ".0f", "rest": ".0f", "decoder": "", "off": ".2f",
}  # fmt: skip


def row(result: Mapping[str, Any]) -> str:
    """A result as a line of a Markdown table."""
    cells = [format(result[name], form) if name in result else "" for name, form in COLUMNS.items()]
    if "error" in result:
        cells[-1] += f" {result['error']}".splitlines()[0]
    return f"| {' | '.join(cells)} |"


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """All results as a Markdown table; times in ms."""
    head = " | ".join("cpu" if name == "kernel_cpu" else name for name in COLUMNS)
    return "\n".join([f"| {head} |", "|" + "---|" * len(COLUMNS), *map(row, results)])


def versions() -> dict[str, str]:
    """Of all that takes part."""
    names = (
        "rendercanvas",
        "jupyter_rfb",
        "jupyterlab",
        "ipykernel",
        "anywidget",
        "wgpu",
        "pygfx",
        "simplejpeg",
        "numpy",
    )
    found = {"python": platform.python_version()}
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def parse_size(text: str) -> tuple[int, int]:
    """WIDTHxHEIGHT."""
    width, height = map(int, text.split("x"))
    return width, height


def parse_variable(text: str) -> tuple[str, str]:
    """NAME=VALUE."""
    name, separator, value = text.partition("=")
    if not separator:
        raise ValueError
    return name, value


def parse_quality(text: str) -> int | tuple[int, int]:
    """A number, or LOW,HIGH."""
    numbers = tuple(map(int, text.split(",")))
    if len(numbers) > 2:
        raise ValueError
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])


def add_browser_arguments(group: argparse._ArgumentGroup) -> None:
    """What all benchmarks with a page ask of the browser."""
    several = "several times"
    group.add_argument("--gpu", action="store_true", help="the browser shall use the GPU")
    group.add_argument(
        "--chromium", default=shutil.which("chromium") or "chromium", help="path of the browser"
    )
    group.add_argument(
        "--browser-env", action="append", type=parse_variable, default=[], metavar="NAME=VALUE",
        help=f"for the browser alone, e.g. LD_LIBRARY_PATH and FONTCONFIG_FILE; {several}",
    )  # fmt: skip
    group.add_argument(
        "--browser-flag", action="append", default=[], help=f"as --browser-flag=--NAME; {several}"
    )


def add_shared_arguments(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """What all benchmarks with a notebook ask of our canvas, and of the host. Gives the canvas's group, for more."""
    own = parser.add_argument_group("rfb_gpu's canvas")
    own.add_argument("--encoder", choices=("auto", "gpu", "cpu"))
    own.add_argument("--decoder", choices=("auto", "webgpu", "browser"))
    own.add_argument("--codec", choices=("auto", "jpeg", "png"))
    own.add_argument("--quality", type=parse_quality, help="a number, or LOW,HIGH")
    own.add_argument("--subsampling")
    own.add_argument("--max-buffered-frames", type=int)
    host = parser.add_argument_group("the host")
    add_browser_arguments(host)
    host.add_argument("--site", type=Path, help="JupyterLab and the packages are in this folder")
    return own


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    several = "several times"
    # scenes.py has the names, but needs pygfx; the kernel says what is wrong with one.
    parser.add_argument("--scene", action="append", help=f"{several}; default mesh")
    parser.add_argument("--backend", action="append", choices=BACKENDS, help=f"{several}; default all")
    parser.add_argument(
        "--size", action="append", type=parse_size, help=f"WIDTHxHEIGHT, {several}; default 640x480"
    )
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--warm-up", type=float, default=2, help="seconds before it")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--json", type=Path, help="written after each case")
    parser.add_argument(
        "--check-pixels", action="store_true", help="compare the page's picture with the kernel's"
    )
    parser.add_argument("--rest", action="store_true", help="then stop, and time the lossless picture")
    parser.add_argument("--screenshots", type=Path, help="a folder for one of each case")
    own = add_shared_arguments(parser)
    own.add_argument("--transport", choices=("auto", "comm", "websocket"))
    options = parser.parse_args()
    options.scene = options.scene or ["mesh"]
    options.backend = options.backend or list(BACKENDS)
    options.size = options.size or [(640, 480)]
    return options


def main() -> None:
    """Measures what the command line asks for."""
    options = parse_arguments()
    results: list[dict[str, Any]] = []

    def report(result: dict[str, Any]) -> None:
        results.append(result)
        print(row(result), flush=True)
        if options.json:
            facts = {
                "versions": versions(),
                "gpu_flags": options.gpu,
                "browser_flags": options.browser_flag,
                "seconds": options.seconds,
                "results": results,
            }
            options.json.write_text(json.dumps(facts, indent=1))

    with running_lab(options.site and options.site.resolve()) as lab:
        asyncio.run(run(options, lab, report))
    print(f"\n{table(results)}\n")
    for name in ("kernel_adapter", "page_adapter"):
        print(f"{name}: {'; '.join(sorted({r[name] for r in results if name in r}))}")
    for result in results:
        threads = ", ".join(result.get("loops", []))
        print(
            f"{result['backend']}, {result['scene']}, {result['size']}, loops of {threads}: {result.get('canvas', '')}"
        )
        for key in ("error", "cell", "console"):
            if "error" in result and result.get(key):
                print(f"  {key}: {result[key]}")
    sys.exit(any("error" in result for result in results))


if __name__ == "__main__":
    main()
