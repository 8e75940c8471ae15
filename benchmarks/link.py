"""A thin link: how long after an input a person sees what it did, while the link between browser and kernel changes.

    python -m benchmarks.link --backend rfb_gpu --backend rendercanvas --json link.json
    python -m benchmarks.link --phase 2:100:15 --phase 20:40:10 --phase 2:100:10

JupyterLab and the browser run as in :mod:`benchmarks.notebook`, with :mod:`benchmarks.shaper` between them. The page is loaded over
an unshaped link; then the mouse is pressed on the canvas and moved 60 times a second, through all phases, and let go.

Each move has a number, which its position tells (see :class:`Lattice`). The picture that the kernel draws shows the number of the
last move that it knows, as a row of black and white cells along its bottom edge. The page reads the number back from what it shows,
so all of it is measured with the page's clock, and for all backends alike. The moves reach the page's elements as DOM events; what
the browser takes to deliver a real one is not in the figures, nor is what it takes to bring a picture to the screen.

One row for each phase; times in ms:

* ``shown50``, ``shown95``, ``max``: from a move until a picture is shown that knows of it. Every move counts, whether or not a
  picture was drawn for it.
* ``trend``: median of the moves in the phase's last third over that in its first: far above 1, it grows and grows.
* ``age50``: median age, when it is shown, of the newest move that a picture knows. Without the wait for the next picture, that is.
* ``fps``: pictures shown per second. ``kB``: mean bytes of a lossy frame as sent. ``lossless``: how many of the others were sent;
  while the mouse moves, each is a waste. ``link``: the part of the rate that was used, from server to page.
* ``quality``: of lossy frames, lowest to highest, and the last; with their subsamplings. ``size``: smaller side over the largest
  that was seen, likewise. ``changes``: of any of these between two frames in turn. Peers do not tell.
* ``back``: seconds from the link's improvement until a lossy frame is sent with the best quality and size that the unshaped link
  had.
* ``sharp``: seconds from the end of the drag until a final, lossless picture of the last move is shown, over the last phase's link.

Needs what :mod:`benchmarks.notebook` needs. The table ends with how many marks could not be read; a run with more than a few is no
measurement, and says so.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import inspect
import itertools
import json
import math
import signal
import statistics
import sys
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks import notebook
from benchmarks.notebook import (
    BACKENDS,
    MARK,
    ROOM,
    Lab,
    add_shared_arguments,
    execute,
    parse_size,
    percentile,
)
from benchmarks.shaper import BUFFER_BYTES, Shaper, running_shaper

if TYPE_CHECKING:
    from benchmarks.cdp import Page

MOVES_PER_SECOND = 60
MARK_BITS = 16
MARK_HEIGHT = 0.1
"""Of the picture's height: two rows of cells, the number above and its complement below."""
MAX_UNREADABLE = 0.05
SHARP_TIMEOUT = 30
ANSWER_TIMEOUT = 60

OWN_OPTIONS = (
    "encoder", "decoder", "codec", "quality", "subsampling", "max_buffered_frames", "latency_budget", "transport",
)  # fmt: skip


class Phase(NamedTuple):
    """A link for a while: bits per second, seconds each way, seconds."""

    rate: float
    delay: float
    seconds: float

    def __str__(self) -> str:
        return f"{self.rate / 1e6:g} Mbit/s, {1000 * self.delay:g} ms, {self.seconds:g} s"


DEFAULT_PHASES = (Phase(2e6, 0.1, 15), Phase(20e6, 0.04, 10), Phase(2e6, 0.1, 10))


class Lattice:
    """Where the moves of a drag go: to and fro in rows, each a step below the last, so that a position tells a move's number.

    Arguments:
        width, height: of the canvas in CSS pixels.
    """

    STEP = 4
    MARGIN = 8

    def __init__(self, width: int, height: int) -> None:
        self.columns = (width - 2 * self.MARGIN) // self.STEP
        # The mark stays free: the press of the button, which is no move, goes there.
        self.rows = (int(height * (1 - MARK_HEIGHT)) - 2 * self.MARGIN) // self.STEP

    def __len__(self) -> int:
        return min(self.columns * self.rows, (1 << MARK_BITS) - 1)

    def number(self, x: float, y: float) -> int | None:
        """The number of the move to a position, from 1; None if no move goes there."""
        column, row = (round((side - self.MARGIN) / self.STEP) for side in (x, y))
        if not (0 <= column < self.columns and 0 <= row < self.rows):
            return None
        number = row * self.columns + (column if row % 2 == 0 else self.columns - 1 - column) + 1
        return number if number <= len(self) else None


# ---- in the kernel


class Probe:
    """A canvas whose picture follows the drag and shows its mark; the notebook's only cell makes one."""

    def __init__(self, backend: str, scene: str, width: int, height: int, options: Mapping[str, Any]) -> None:
        import importlib

        import numpy as np
        import pygfx as gfx

        from benchmarks.scenes import make_renderer, make_scene

        canvas_class = importlib.import_module(BACKENDS[backend]).RenderCanvas
        self.canvas = canvas_class(size=(width, height), title="", max_fps=60, vsync=False, **options)
        self._lattice = Lattice(width, height)
        self._number = 0
        self._sent: list[dict[str, Any]] = []
        self._renderer = make_renderer(self.canvas)
        self._world, self._camera, self._animate = make_scene(scene)
        self._cells = gfx.Texture(np.zeros((2, MARK_BITS), np.uint8), dim=2)
        self._mark = gfx.Image(
            gfx.Geometry(grid=self._cells),
            gfx.ImageBasicMaterial(
                clim=(0, 255), interpolation="nearest", depth_test=False, depth_write=False
            ),
        )
        self._mark_camera = gfx.ScreenCoordsCamera()
        self._watch_frames()
        self.canvas.add_event_handler(self._on_move, "pointer_move")
        self.canvas.request_draw(self._draw)

    def report(self) -> None:
        """Prints all frames that were sent so far, with the wall clock's time."""
        print(
            MARK
            + json.dumps({"frames": self._sent, "canvas": getattr(self.canvas, "describe", lambda: "")()})
        )

    def _on_move(self, event: Mapping[str, Any]) -> None:
        number = self._lattice.number(event["x"], event["y"]) if event["buttons"] else None
        if number is not None and number > self._number:
            self._number = number
            self.canvas.request_draw()

    def _draw(self) -> None:
        self._animate(self._number / MOVES_PER_SECOND)
        self._renderer.render(self._world, self._camera, flush=False)
        bits = [255 * (self._number >> bit & 1) for bit in range(MARK_BITS)]
        # The image's first row is the lower.
        self._cells.data[0] = [255 - bit for bit in bits]
        self._cells.data[1] = bits
        self._cells.update_full()
        width, height = self._renderer.logical_size
        cell_width, cell_height = width / MARK_BITS, height * MARK_HEIGHT / 2
        self._mark.local.scale = (cell_width, cell_height, 1)
        self._mark.local.position = (cell_width / 2, cell_height / 2, 0)
        self._renderer.render(self._mark, self._mark_camera)

    def _watch_frames(self) -> None:
        send = self.canvas.send

        def watching_send(content: Any, buffers: Any = None) -> None:
            if buffers:
                facts = ("quality", "subsampling", "width", "height", "codec", "final", "mimetype")
                self._sent.append(
                    {
                        "at": time.time(),
                        "bytes": sum(memoryview(b).nbytes for b in buffers),
                        **{name: content[name] for name in facts if name in content},
                    }
                )
            send(content, buffers)

        self.canvas.send = watching_send


# ---- in the page

_DRAG = """({ SHOWN, BITS, MARK_HEIGHT, STEP, MARGIN, MOVES }) => {
  const SMALLEST = 16;  // the peers begin with an image of one pixel

  const moves = [0];  // when each move was made; number 0 is none
  const pictures = [];
  const unread = new Set();
  const phases = [];
  let view = null;
  let pointerId = 0;
  let began = 0;
  let columns = 0;
  let ended = 0;
  const strip = new OffscreenCanvas(1, 1);
  const context = strip.getContext('2d', { willReadFrequently: true });

  document.addEventListener('gotpointercapture', event => { ({ target: view, pointerId } = event); }, true);

  function readImage(element, width, height, top) {
    strip.width = width;
    strip.height = height - top;
    context.drawImage(element, 0, -top);
    return { data: context.getImageData(0, 0, width, height - top).data, width, height: height - top, bytesPerRow: 4 * width };
  }

  /** The number that the cells show; null if they cannot be told apart. */
  function decode({ data, width, height, bytesPerRow }) {
    function mean(bit, row) {
      // The middle of a cell: its edges are mixed with its neighbours.
      const [left, right] = [0.3, 0.7].map(part => (bit + part) * width / BITS);
      const [upper, lower] = [0.3, 0.7].map(part => (row + part) * height / 2);
      let sum = 0, count = 0;
      for (let y = Math.floor(upper); y < Math.max(lower, upper + 1); y++) {
        for (let x = Math.floor(left); x < Math.max(right, left + 1); x++) {
          sum += data[y * bytesPerRow + 4 * x] + data[y * bytesPerRow + 4 * x + 1] + data[y * bytesPerRow + 4 * x + 2];
          count += 3;
        }
      }
      return sum / count;
    }
    let number = 0;
    for (let bit = 0; bit < BITS; bit++) {
      const difference = mean(bit, 0) - mean(bit, 1);
      if (Math.abs(difference) < 64) return null;
      if (difference > 0) number += 2 ** bit;
    }
    return number < moves.length ? number : null;
  }

  function see(element, isFinal) {
    const [width, height] = [element.naturalWidth ?? element.width, element.naturalHeight ?? element.height];
    if (Math.min(width, height) < SMALLEST) return;
    const picture = { at: performance.now(), number: null, final: isFinal, width, height };
    pictures.push(picture);
    const top = Math.round(height * (1 - MARK_HEIGHT));
    // Still in the task that drew: the texture of a WebGPU canvas is its own until the page is composed.
    const pixels = element.dataset.rfbDecoder === 'webgpu'
      ? benchmark.readTexture(element, top) : readImage(element, width, height, top);
    const reading = Promise.resolve(pixels).then(found => { picture.number = decode(found); })
      .catch(error => { picture.error = String(error); }).finally(() => unread.delete(reading));
    unread.add(reading);
    return picture;
  }

  new MutationObserver(records => {
    // A canvas has its first picture before it comes into the document.
    for (const element of new Set(records.flatMap(({ target, addedNodes }) => [target, ...addedNodes]))) {
      if (element instanceof HTMLCanvasElement && element.matches(SHOWN) && element.dataset.rfbFrame) {
        see(element, element.dataset.rfbFinal === 'true');
      }
    }
  }).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ['data-rfb-frame'] });

  // A new source is no picture yet; the event does not bubble.
  document.addEventListener('load', ({ target }) => {
    if (!(target instanceof HTMLImageElement && target.matches(SHOWN))) return;
    const picture = see(target, false);
    if (picture && ended) {
      // Peers do not say which picture is lossless, but its type does.
      fetch(target.src).then(answer => answer.blob()).then(blob => { picture.final = blob.type === 'image/png'; }, () => {});
    }
  }, true);

  function move() {
    if (ended) return;
    const number = moves.length;
    const row = Math.floor((number - 1) / columns);
    const along = (number - 1) % columns;
    const x = MARGIN + STEP * (row % 2 === 0 ? along : columns - 1 - along);
    const y = MARGIN + STEP * row;
    const { left, top } = view.getBoundingClientRect();
    moves.push(performance.now());
    view.dispatchEvent(new PointerEvent('pointermove', {
      clientX: left + view.clientLeft + x, clientY: top + view.clientTop + y,
      pointerId, pointerType: 'mouse', isPrimary: true, button: -1, buttons: 1, bubbles: true, cancelable: true,
    }));
    // By the schedule, so that a late move delays no other; a page that cannot keep up makes fewer.
    const now = performance.now();
    const due = began + 1000 / MOVES * Math.floor((now - began) / (1000 / MOVES) + 1);
    setTimeout(move, due - now);
  }

  return {
    count: () => pictures.length,
    captured: () => view !== null,
    middle() {
      // Of the mark, where no move goes.
      const { left, top, width, height } = benchmark.shown().getBoundingClientRect();
      return [left + width / 2, top + height * (1 - MARK_HEIGHT / 2)];
    },
    start(columnsOfLattice) {
      columns = columnsOfLattice;
      began = performance.now();
      move();
    },
    phase() { phases.push(performance.now()); },
    stop() {
      ended = performance.now();
      phases.push(ended);
    },
    isSharp() {
      const last = pictures.at(-1);
      return Boolean(last?.final && last.number === moves.length - 1);
    },
    async result() {
      await Promise.all(unread);
      return {
        moves, pictures, phases, decoder: benchmark.shown()?.dataset.rfbDecoder ?? benchmark.shown()?.localName ?? 'none',
        errors: [...new Set(pictures.map(picture => picture.error).filter(Boolean))],
      };
    },
  };
}"""
_DRAG_CONSTANTS = {
    "SHOWN": notebook.SHOWN,
    "BITS": MARK_BITS,
    "MARK_HEIGHT": MARK_HEIGHT,
    "STEP": Lattice.STEP,
    "MARGIN": Lattice.MARGIN,
    "MOVES": MOVES_PER_SECOND,
}

PAGE_SCRIPTS = (
    notebook.READABLE_CANVAS,
    notebook.PAGE_SCRIPT,
    f"globalThis.drag = ({_DRAG})({json.dumps(_DRAG_CONSTANTS)});",
)
"""What a page needs before it loads."""

CELL_STATE = """(() => {
  const outputs = jupyterapp.shell.currentWidget.content.widgets[0].model.outputs.toJSON();
  const error = outputs.find(output => output.output_type === 'error');
  return error ? `${error.ename}: ${error.evalue}` : drag.count() > 0;
})()"""


# ---- the figures


def times_to_shown(
    moves: Sequence[float], pictures: Sequence[Mapping[str, Any]]
) -> tuple[list[float], list[float]]:
    """Of each move, how long until a picture knew of it (infinite if none did); of each picture with a new number, its move's age.

    Arguments:
        moves: when each move was made; the first is number 0 and stands for none.
        pictures: in the order in which they were shown, each with ``at`` and ``number`` (None: unreadable).
    """
    shown = [math.inf] * len(moves)
    ages: list[float] = []
    newest = 0
    for picture in pictures:
        number = picture["number"]
        if number is not None and number > newest:
            for known in range(newest + 1, number + 1):
                shown[known] = picture["at"] - moves[known]
            newest = number
            ages.append(shown[number])
        else:
            ages.append(math.nan)
    return shown, ages


def figures(
    phases: Sequence[Phase],
    in_page: Mapping[str, Any],
    frames: Sequence[Mapping[str, Any]],
    boundaries: Sequence[float],
    carried: Sequence[int],
) -> list[dict[str, Any]]:
    """The rows of the table.

    Arguments:
        in_page: what ``drag.result()`` gave.
        frames: what the probe reported.
        boundaries: the wall clock's time at the start of each phase and at the end of the last.
        carried: bytes that the link had brought to the page by then.
    """
    moves, pictures = in_page["moves"], in_page["pictures"]
    shown, ages = times_to_shown(moves, pictures)
    lossy = [frame for frame in frames if "quality" in frame and not _is_lossless(frame)]
    before = [frame for frame in lossy if frame["at"] < boundaries[0]]
    best = max((_worth(frame) for frame in before), default=None)
    largest = max((min(frame["width"], frame["height"]) for frame in lossy), default=1)
    rows = []
    for index, phase in enumerate(phases):
        begin, end = in_page["phases"][index : index + 2]
        wall_begin, wall_end = boundaries[index : index + 2]
        waits = [shown[n] for n in range(1, len(moves)) if begin <= moves[n] < end]
        third = len(waits) // 3
        first, last = percentile(waits[:third], 50), percentile(waits[-third:] if third else [], 50)
        seen = [k for k, picture in enumerate(pictures) if begin <= picture["at"] < end]
        sent = [frame for frame in frames if wall_begin <= frame["at"] < wall_end]
        sizes = [frame["bytes"] for frame in sent if not _is_lossless(frame)]
        lossy_sent = [frame for frame in lossy if wall_begin <= frame["at"] < wall_end]
        row: dict[str, Any] = {
            "phase": str(phase),
            "moves": len(waits),
            "shown50": percentile(waits, 50),
            "shown95": percentile(waits, 95),
            "max": max(waits, default=0.0),
            "trend": last / first if first else math.nan,
            "age50": percentile([ages[k] for k in seen if not math.isnan(ages[k])], 50),
            "fps": 1000 * len(seen) / (end - begin),
            "kB": statistics.fmean(sizes) / 1000 if sizes else 0.0,
            "lossless": len(sent) - len(sizes),
            "link": 8 * (carried[index + 1] - carried[index]) / (wall_end - wall_begin) / phase.rate,
        }
        if lossy_sent:
            qualities = [frame["quality"] for frame in lossy_sent]
            sides = [min(frame["width"], frame["height"]) / largest for frame in lossy_sent]
            samplings = sorted({frame["subsampling"] for frame in lossy_sent}, reverse=True)
            row["quality"] = f"{_range(qualities)} {'/'.join(samplings)}"
            row["size"] = _range([round(side, 2) for side in sides])
            row["changes"] = sum(_look(a) != _look(b) for a, b in itertools.pairwise(lossy_sent))
            improved = index > 0 and phase.rate > phases[index - 1].rate
            if improved and best is not None:
                at = [frame["at"] for frame in lossy_sent if _worth(frame) >= best]
                row["back"] = at[0] - wall_begin if at else "never"
        rows.append(row)
    final = [
        picture["at"] for picture in pictures if picture["final"] and picture["number"] == len(moves) - 1
    ]
    ended = in_page["phases"][len(phases)]
    rows[-1]["sharp"] = (
        next(((at - ended) / 1000 for at in final if at >= ended), "never") if pictures else "never"
    )
    return rows


def _is_lossless(frame: Mapping[str, Any]) -> bool:
    return str(frame.get("codec") or frame.get("mimetype")).endswith("png")


def _look(frame: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(frame[name] for name in ("quality", "subsampling", "width", "height"))


def _worth(frame: Mapping[str, Any]) -> tuple[int, int]:
    """What orders frames by how good they are: size before quality."""
    return frame["width"] * frame["height"], frame["quality"]


def _range(values: Sequence[float]) -> str:
    low, high, last = min(values), max(values), values[-1]
    return f"{low:g}" if low == high else f"{low:g}–{high:g} →{last:g}"


# ---- the driver


async def measure(
    page: Page, lab: Lab, shaper: Shaper, backend: str, options: argparse.Namespace
) -> dict[str, Any]:
    """One backend, from opening its notebook to ending its kernel."""
    own = own_options(options) if backend == "rfb_gpu" else {}
    width, height = options.size
    result: dict[str, Any] = {"backend": backend, "size": f"{width}x{height}", "options": own}
    source = (
        "from benchmarks.link import Probe\n"
        f"probe = Probe({backend!r}, {options.scene!r}, {width}, {height}, {own!r})\n"
        "probe.canvas"
    )
    page.console.clear()
    shaper.shape()
    try:
        work = _measure(page, lab, shaper, source, result, options)
        limit = sum(phase.seconds for phase in options.phase) + options.warm_up + 300
        await asyncio.wait_for(work, limit)
    except Exception as error:  # the other backends shall run all the same
        result["error"] = f"{type(error).__name__}: {error}"
    finally:
        shaper.shape()
        result["console"] = [
            line for line in page.console if not line.startswith(("log:", "debug:", "info:"))
        ][-8:]
        await asyncio.to_thread(lab.end_kernels)
    return result


async def _measure(
    page: Page, lab: Lab, shaper: Shaper, source: str, result: dict[str, Any], options: argparse.Namespace
) -> None:
    lattice = Lattice(*options.size)
    address = f"http://127.0.0.1:{shaper.port}/doc/tree/{lab.add_notebook(source)}?reset"
    await asyncio.wait_for(page.goto(address), ANSWER_TIMEOUT)
    await page.wait_for(notebook.NOTEBOOK_READY)
    await page.evaluate("void jupyterapp.commands.execute('notebook:run-all-cells')")
    try:
        state = await page.wait_for(CELL_STATE, notebook.FIRST_FRAMES_TIMEOUT)
    except TimeoutError:
        raise RuntimeError(f"no picture within {notebook.FIRST_FRAMES_TIMEOUT} s") from None
    if state is not True:
        raise RuntimeError(f"the cell raised {state}")
    await page.evaluate("benchmark.shown().scrollIntoView({ block: 'center' })")
    await asyncio.sleep(1)

    x, y = await page.evaluate("drag.middle()")
    mouse = {"x": x, "y": y, "button": "left", "clickCount": 1}
    await page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    await page.call("Input.dispatchMouseEvent", type="mousePressed", buttons=1, **mouse)
    await page.wait_for("drag.captured()", ANSWER_TIMEOUT)
    await page.evaluate(f"drag.start({lattice.columns})")
    await asyncio.sleep(options.warm_up)
    await _screenshot(page, options, result, "moving")

    boundaries: list[float] = []
    carried: list[int] = []
    for phase in options.phase:
        shaper.shape(phase.rate, phase.delay)
        boundaries.append(time.time())
        carried.append(shaper.down.carried)
        await page.evaluate("drag.phase()")
        await asyncio.sleep(phase.seconds - (time.time() - boundaries[-1]))
    boundaries.append(time.time())
    carried.append(shaper.down.carried)
    await page.evaluate("drag.stop()")
    await page.call("Input.dispatchMouseEvent", type="mouseReleased", **mouse)
    with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
        await page.wait_for("drag.isSharp()", SHARP_TIMEOUT)
    by_link = shaper.down.carried - carried[0]
    await _screenshot(page, options, result, "sharp")
    shaper.shape()
    in_page = await asyncio.wait_for(page.evaluate("drag.result()"), ANSWER_TIMEOUT)
    in_kernel = await asyncio.wait_for(execute(page, "probe.report()"), ANSWER_TIMEOUT)

    frames = in_kernel["frames"]
    result["canvas"] = in_kernel["canvas"]
    result["decoder"] = in_page["decoder"]
    result["rows"] = figures(options.phase, in_page, frames, boundaries, carried)
    result["unreadable"] = sum(picture["number"] is None for picture in in_page["pictures"])
    result["moves"] = [at - in_page["phases"][0] for at in in_page["moves"][1:]]
    result["pictures"] = [
        {**picture, "at": picture["at"] - in_page["phases"][0]} for picture in in_page["pictures"]
    ]
    result["frames"] = [{**frame, "at": frame["at"] - boundaries[0]} for frame in frames]
    if in_page["errors"]:
        raise RuntimeError(f"pictures could not be read: {in_page['errors'][0]}")
    if result["unreadable"] > MAX_UNREADABLE * len(in_page["pictures"]):
        raise RuntimeError(f"{result['unreadable']} of {len(in_page['pictures'])} marks are unreadable")
    if by_link < 0.5 * sum(
        frame["bytes"] for frame in frames if boundaries[0] <= frame["at"] < boundaries[-1]
    ):
        raise RuntimeError(
            "most frames went past the link: choose a --transport that goes through Jupyter's server"
        )


async def _screenshot(page: Page, options: argparse.Namespace, result: Mapping[str, Any], when: str) -> None:
    if options.screenshots:
        options.screenshots.mkdir(parents=True, exist_ok=True)
        await page.screenshot(options.screenshots / f"link-{result['backend']}-{when}.png")


async def run(options: argparse.Namespace, lab: Lab, report: Callable[[dict[str, Any]], None]) -> None:
    """Measures all backends; a browser for each, because a page that was clicked asks before it lets itself be replaced."""
    from benchmarks.cdp import GPU_FLAGS, SOFTWARE_FLAGS, Browser

    width, height = options.size
    flags = [
        *(GPU_FLAGS if options.gpu else SOFTWARE_FLAGS),
        f"--window-size={width + ROOM},{height + ROOM}",
        *options.browser_flag,
    ]
    address = urllib.parse.urlsplit(lab.url)
    assert address.hostname and address.port
    with running_shaper(address.hostname, address.port, options.buffer) as shaper:
        for backend in options.backend:
            async with Browser(options.chromium, flags, dict(options.browser_env)) as browser:
                page = await browser.page()
                for script in PAGE_SCRIPTS:
                    await page.call("Page.addScriptToEvaluateOnNewDocument", source=script)
                report(await measure(page, lab, shaper, backend, options))


COLUMNS = {
    "backend": "", "phase": "", "shown50": ".0f", "shown95": ".0f", "max": ".0f", "trend": ".2f", "age50": ".0f", "fps": ".1f",
    "kB": ".1f", "lossless": "d", "link": ".0%", "quality": "", "size": "", "changes": "", "back": ".2f", "sharp": ".2f",
}  # fmt: skip


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """All rows as a Markdown table."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    for result in results:
        for row in result.get("rows", ()):
            facts = {"backend": result["backend"], **row}
            cells = [
                format(value, "" if isinstance(value, str) else form)
                for name, form in COLUMNS.items()
                for value in [facts.get(name, "")]
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def own_options(options: argparse.Namespace) -> dict[str, Any]:
    """What the command line gives for our canvas.

    Raises:
        SystemExit: this version of our canvas has no such argument.
    """
    own = {name: value for name in OWN_OPTIONS if (value := getattr(options, name)) is not None}
    if own:
        from rfb_gpu import RenderCanvas

        unknown = own.keys() - inspect.signature(RenderCanvas.__init__).parameters
        if unknown:
            names = ", ".join("--" + name.replace("_", "-") for name in sorted(unknown))
            raise SystemExit(f"this version of rfb_gpu's canvas takes no {names}: leave it out")
    return own


def parse_phase(text: str) -> Phase:
    """RATE:DELAY_MS:SECONDS."""
    rate, delay, seconds = map(float, text.split(":"))
    if not (rate > 0 and 0 <= delay < math.inf and 0 < seconds < math.inf):
        raise ValueError
    return Phase(rate * 1e6, delay / 1000, seconds)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    several = "several times"
    parser.add_argument(
        "--backend", action="append", choices=BACKENDS, help=f"{several}; default rfb_gpu and rendercanvas"
    )
    # Cheap to draw and heavy to send, so that the link is the limit and not the machine.
    parser.add_argument("--scene", default="image", help="of benchmarks/scenes.py; default image")
    parser.add_argument("--size", type=parse_size, default=(640, 480), help="WIDTHxHEIGHT; default 640x480")
    parser.add_argument(
        "--phase", action="append", type=parse_phase, metavar="RATE:DELAY:SECONDS",
        help=f"Mbit/s, ms each way, seconds; {several}; default 2:100:15, 20:40:10, 2:100:10",
    )  # fmt: skip
    parser.add_argument("--warm-up", type=float, default=3, help="seconds of dragging over the unshaped link")
    parser.add_argument("--buffer", type=int, default=BUFFER_BYTES, help="of the link, in bytes")
    parser.add_argument("--json", type=Path, help="written after each backend, with each picture and frame")
    parser.add_argument("--screenshots", type=Path, help="a folder for two of each backend")
    own = add_shared_arguments(parser)
    own.add_argument("--latency-budget", type=float, metavar="SECONDS")
    own.add_argument(
        "--transport",
        default="comm",
        help="the road of the frames, which must go through the link as JupyterLab's own messages do; default comm",
    )
    options = parser.parse_args()
    options.backend = options.backend or ["rfb_gpu", "rendercanvas"]
    options.phase = options.phase or list(DEFAULT_PHASES)
    room = len(Lattice(*options.size)) / MOVES_PER_SECOND
    seconds = options.warm_up + 5 + sum(phase.seconds for phase in options.phase)
    if seconds > room:
        parser.error(f"a canvas of this size has room for {room:.0f} s of dragging; take a larger --size")
    own_options(options)
    return options


def main() -> None:
    """Measures what the command line asks for."""
    options = parse_arguments()
    results: list[dict[str, Any]] = []

    def report(result: dict[str, Any]) -> None:
        results.append(result)
        print(f"{result['backend']}: {result.get('error', 'done')}", flush=True)
        if options.json:
            facts = {
                "versions": notebook.versions(),
                "gpu_flags": options.gpu,
                "scene": options.scene,
                "phases": [phase._asdict() for phase in options.phase],
                "buffer": options.buffer,
                "results": results,
            }
            options.json.write_text(json.dumps(facts, indent=1))

    # As an exception, so that server and browser end with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with notebook.running_lab(options.site and options.site.resolve()) as lab:
        asyncio.run(run(options, lab, report))
    print(f"\n{table(results)}\n")
    for result in results:
        if "rows" in result:
            print(
                f"{result['backend']}, {options.scene}, {result['size']}: decoder {result['decoder']}, "
                f"{result['unreadable']} of {len(result['pictures'])} marks unreadable. {result['canvas']}"
            )
        for key in ("error", "console"):
            if "error" in result and result.get(key):
                print(f"  {key}: {result[key]}")
    sys.exit(any("error" in result for result in results))


if __name__ == "__main__":
    main()
