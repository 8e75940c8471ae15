"""Drives JupyterLab in Chromium the way a person does, and looks at the kernel behind it.

Three objects: `Notebook`, a page with an open notebook; `Kernel`, the notebook's own kernel, reached beside the page;
`Canvas`, one canvas of ours in the page. Pictures are NumPy arrays of shape (height, width, 3), uint8, in physical
pixels.

Waiting goes through Playwright (`page.wait_for_...`), never `time.sleep`: its event loop must turn while a page works.

What kernels draw comes slowly on a software adapter: keep canvases at or below 640x480, and give pygfx
``pixel_ratio=1, ppaa="none"`` (40 ms a frame rather than 2.5 s).
"""

from __future__ import annotations

import abc
import concurrent.futures
import contextlib
import dataclasses
import io
import json
import math
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import nbformat
import numpy as np
import numpy.typing as npt
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from PIL import Image
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Locator, Page

Picture = npt.NDArray[np.uint8]
Point = tuple[float, float]
Button = Literal["left", "middle", "right"]

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

# WebGPU without a GPU: the compositor and Dawn must both run on SwiftShader, or the first present loses the device.
CHROMIUM_FLAGS = [
    "--no-sandbox",  # Chromium refuses root with one
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--enable-unsafe-webgpu",
    "--enable-features=Vulkan",
    "--use-vulkan=swiftshader",
    "--use-angle=swiftshader",
    # A host that pages do not take for their own machine.
    "--host-resolver-rules=MAP *.example 127.0.0.1",
]

MARKER = (255, 0, 255)
"""A colour that nothing in JupyterLab has."""

ACTION_SECONDS = 60.0
"""How long to wait for anything; the first frame on a software adapter compiles shaders for up to 10 s."""

SCENE = "from tests.e2e.scene import RenderCanvas, make, np, pixels"
"""The first cell of most notebooks here."""

LONG_FRAMES = int(os.environ.get("RFB_GPU_LONG_FRAMES", 80))
"""How many frames the tests show that look for leaks; 10,000 take minutes."""


def find_chromium() -> str:
    """Return the path of a Chromium: $CHROMIUM, or the first on PATH."""
    named = os.environ.get("CHROMIUM")
    for name in [named] if named else ["chromium", "chromium-browser", "google-chrome"]:
        if path := shutil.which(name):
            return path
    raise RuntimeError("no Chromium was found; `make setup` installs it, or set CHROMIUM to its path")


def require(found: object, what: str) -> None:
    """Skip the test where a program that not every system has was not `found`. In CI, which must have all, it fails without."""
    if not found and "CI" not in os.environ:
        pytest.skip(f"this system lacks {what}; `make setup` installs it, and CI must have it")


# ---- servers


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextlib.contextmanager
def running_server(
    command: Sequence[str], url: str, log: pathlib.Path, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the block ends; the block begins once `url` answers."""
    with log.open("w") as file:
        # A process group of its own: its kernels end with it.
        process = subprocess.Popen(
            command,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
    try:
        give_up = time.monotonic() + 90
        while True:
            if process.poll() is not None:
                raise RuntimeError(
                    f"{command[0]} ended with {process.returncode}:\n{log.read_text()[-3000:]}"
                )
            try:
                urllib.request.urlopen(url, timeout=2).close()
                break
            except OSError:
                if time.monotonic() > give_up:
                    raise RuntimeError(f"{url} does not answer:\n{log.read_text()[-3000:]}") from None
                time.sleep(0.1)  # no page is waiting yet
        yield process
    finally:
        for number, seconds in ((signal.SIGTERM, 8), (signal.SIGKILL, 5)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
                break


@dataclasses.dataclass
class JupyterServer:
    """A running JupyterLab or Notebook 7 with settings, kernels and notebooks of its own."""

    url: str
    pages: str  # where it opens notebooks, below `url`
    root: pathlib.Path
    runtime: pathlib.Path
    settings: pathlib.Path
    log: pathlib.Path

    def request(self, method: str, path: str) -> Any:
        """Call Jupyter's REST API; returns the decoded JSON, or None for an empty answer."""
        with urllib.request.urlopen(
            urllib.request.Request(f"{self.url}{path}", method=method), timeout=20
        ) as answer:
            body = answer.read()
        return json.loads(body) if body else None

    def page(self, notebook: str) -> str:
        """Return the address of the page that opens a notebook."""
        # Without `reset`, JupyterLab would bring back the tabs of the test before.
        return f"{self.url}{self.pages}/{notebook}?reset"

    def session(self, notebook: str) -> Any:
        """Return the session (a notebook with its kernel) of a notebook's path, or None."""
        return next((s for s in self.request("GET", "api/sessions") if s["path"] == notebook), None)

    def set_windowing(self, mode: str | None) -> None:
        """Choose how pages that are opened from now on treat cells out of sight; None: JupyterLab's default.

        "full" takes them out of the document, "contentVisibility" hides them, "defer" and "none" keep them.
        """
        file = self.settings / "@jupyterlab/notebook-extension/tracker.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({} if mode is None else {"windowingMode": mode}))


JUPYTER = {
    "jupyterlab": ("lab/tree", "LabApp"),
    "notebook": ("notebooks", "JupyterNotebookApp"),
}
"""Where each opens notebooks, and what its command line calls it."""


def jupyter_files(folder: pathlib.Path, url: str, module: str = "jupyterlab") -> JupyterServer:
    """Make the folders of a server that will have all its files in `folder`, and say where they are."""
    server = JupyterServer(
        url=url,
        pages=JUPYTER[module][0],
        root=folder / "notebooks",
        runtime=folder / "runtime",
        settings=folder / "settings",
        log=folder / f"{module}.log",
    )
    server.root.mkdir(parents=True)
    server.runtime.mkdir(mode=0o700)
    page_config = folder / "config/labconfig/page_config.json"
    page_config.parent.mkdir(parents=True)
    # Its question about news covers a corner of the page.
    page_config.write_text('{"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": true}}')
    return server


def jupyter_options(server: JupyterServer, module: str = "jupyterlab") -> list[str]:
    """Return what the command line of every Jupyter server here says, whoever starts it."""
    return [
        "--allow-root", "--ServerApp.terminals_enabled=False", f"--ServerApp.root_dir={server.root}",
        f"--{JUPYTER[module][1]}.expose_app_in_browser=True",
    ]  # fmt: skip


def jupyter_environment(server: JupyterServer) -> dict[str, str]:
    """Return the variables that keep a Jupyter server's files in its folder."""
    folder = server.root.parent
    return {
        "IPYTHONDIR": str(folder / "ipython"),
        "JUPYTERLAB_SETTINGS_DIR": str(server.settings),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(server.runtime),
        # Kernels must find this checkout's package and the tests' own modules from any folder.
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }


@contextlib.contextmanager
def running_jupyter(folder: pathlib.Path, module: str = "jupyterlab") -> Iterator[JupyterServer]:
    """Run JupyterLab, or Notebook 7 (`module` "notebook"), with all its files in `folder`."""
    server = jupyter_files(folder, f"http://127.0.0.1:{(port := free_port())}/", module)
    command = [
        sys.executable, "-m", module, *jupyter_options(server, module),
        "--no-browser", "--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0",
        "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True",
        r"--ServerApp.allow_origin_pat=http://127\.0\.0\.1:\d+",
    ]  # fmt: skip
    env = jupyter_environment(server)
    with running_server(command, f"{server.url}api", server.log, env):
        yield server


# ---- the kernel


class KernelError(AssertionError):
    """Code that a test ran in the kernel raised; the message is the kernel's traceback."""


class Kernel(abc.ABC):
    """The kernel behind a page, reached beside the page.

    The code runs in the notebook's namespace and on its main thread, after whatever runs there. While it runs, the
    kernel's event loop stands still, and with it every frame: keep it short, and wait in the test instead.
    """

    def __init__(self, page: Page, scratch: pathlib.Path) -> None:
        self._page = page
        self._scratch = scratch
        # Who asks waits; Playwright must go on meanwhile. One thread, because zmq's sockets want one.
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "kernel-client")

    def run(self, code: str, timeout: float = ACTION_SECONDS) -> str:
        """Run `code`; returns what it printed and its last value's repr. Raises `KernelError`."""
        return self._in_thread(lambda: self._execute(code, timeout))

    def value(self, expression: str, timeout: float = ACTION_SECONDS) -> Any:
        """Return the value of an expression that JSON can carry."""
        return json.loads(self.run(f"print(__import__('json').dumps({expression}))", timeout))

    def array(self, expression: str, timeout: float = ACTION_SECONDS) -> npt.NDArray[Any]:
        """Return an array; it travels as an .npy file in a temporary folder."""
        file = self._scratch / "array.npy"
        self.run(f"__import__('numpy').save({str(file)!r}, {expression})", timeout)
        return np.load(file)

    def wait_for(self, expression: str, timeout: float = ACTION_SECONDS) -> Any:
        """Evaluate an expression that JSON can carry until it is true; returns its value."""
        give_up = time.monotonic() + timeout
        while not (value := self.value(expression)):
            if time.monotonic() > give_up:
                raise KernelError(f"still {value!r} after {timeout:.0f} s: {expression}")
            self._page.wait_for_timeout(100)
        return value

    def close(self) -> None:
        """Let go of the kernel, which goes on."""
        self._thread.shutdown()

    def _in_thread(self, work: Any) -> Any:
        future = self._thread.submit(work)
        while not future.done():
            self._page.wait_for_timeout(10)
        return future.result()

    @abc.abstractmethod
    def _execute(self, code: str, timeout: float) -> str: ...


class JupyterKernel(Kernel):
    """Reached over its own sockets: works whatever the page does."""

    def __init__(self, page: Page, connection_file: pathlib.Path, scratch: pathlib.Path) -> None:
        super().__init__(page, scratch)
        self._client = BlockingKernelClient(connection_file=str(connection_file))
        self._in_thread(self._connect)

    def close(self) -> None:
        """Let go of the kernel, which goes on."""
        self._thread.submit(self._client.stop_channels).result(20)
        super().close()

    def _connect(self) -> None:
        self._client.load_connection_file()
        self._client.start_channels()
        # Not wait_for_ready: it waits until the kernel sends nothing for a while, which a kernel that streams frames never does.
        asked = self._client.kernel_info()
        while self._client.get_shell_msg(timeout=ACTION_SECONDS)["parent_header"].get("msg_id") != asked:
            pass

    def _execute(self, code: str, timeout: float) -> str:
        text: list[str] = []

        def on_output(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                text.append(content["text"])
            elif message["msg_type"] in ("execute_result", "display_data"):
                text.append(content["data"].get("text/plain", ""))

        # Not silent, which would hide the last value; not in the history, which would shift the cells' numbers.
        reply = self._client.execute_interactive(
            code, store_history=False, timeout=timeout, output_hook=on_output, allow_stdin=False
        )["content"]
        if reply["status"] != "ok":
            raise KernelError(plain("\n".join(reply.get("traceback", [])) or str(reply)))
        return "".join(text)


# ---- the page


_PANEL = "window.jupyterapp?.shell?.currentWidget"


class Notebook:
    """A notebook that is open in JupyterLab."""

    def __init__(self, page: Page, server: JupyterServer, name: str, scratch: pathlib.Path) -> None:
        self.page = page
        self.server = server
        self.name = name
        self._scratch = scratch
        self._kernel: Kernel | None = None

    @property
    def file(self) -> pathlib.Path:
        """The notebook's file, as last saved."""
        return self.server.root / self.name

    @property
    def kernel(self) -> Kernel:
        """The kernel behind the page."""
        if self._kernel is None:
            kernel_id = self.server.session(self.name)["kernel"]["id"]
            self._kernel = JupyterKernel(
                self.page, self.server.runtime / f"kernel-{kernel_id}.json", self._scratch
            )
        return self._kernel

    def open(self) -> None:
        """Go to the notebook and wait for its kernel; a kernel that is there already is used again."""
        self.page.goto(self.server.page(self.name))
        self.wait_idle()

    def reload(self) -> None:
        """Load the page anew, as F5 does; the kernel goes on."""
        self.page.reload()
        self.wait_idle()

    def wait_idle(self) -> None:
        """Wait until no cell runs and none waits to run."""
        self.page.wait_for_function(
            f"""() => {{
                const panel = {_PANEL};
                return panel?.sessionContext?.session?.kernel?.status === 'idle'
                    && panel.content.widgets.every(cell => cell.promptNode?.textContent !== '[*]:')
            }}""",
            timeout=90_000,
        )

    def run_all(self, wait: bool = True) -> None:
        """Run all cells from top to bottom; with `wait`, until they are done, and fail if one raised."""
        self._run("notebook:run-all-cells", wait)

    def run_cell(self, index: int, wait: bool = True) -> None:
        """Run one cell, counted from 0."""
        self.page.evaluate(
            f"index => {{ const panel = {_PANEL}; panel.content.activeCellIndex = index }}", index
        )
        self._run("notebook:run-cell", wait)

    def set_cells(self, cells: Sequence[str]) -> None:
        """Put these code cells in place of all that the notebook has."""
        self.page.evaluate(
            f"""sources => {{
                const {{ content }} = {_PANEL}
                const model = content.model.sharedModel
                const cells = sources.map(source => ({{ cell_type: 'code', source, metadata: {{}}, outputs: [] }}))
                const old = model.cells.length
                model.insertCells(0, cells) // first, because a notebook without a cell gets an empty one
                model.deleteCellRange(cells.length, cells.length + old)
                content.activeCellIndex = 0
            }}""",
            list(cells),
        )

    def count_cells(self) -> int:
        """Return how many cells the notebook has."""
        count: int = self.page.evaluate(f"() => {_PANEL}.content.widgets.length")
        return count

    def save(self) -> None:
        """Write the notebook to its file."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")

    def scroll_to_cell(self, index: int) -> None:
        """Bring a cell, counted from 0, into sight, and so others out of it."""
        self.page.evaluate(f"async index => {{ await {_PANEL}.content.scrollToItem(index, 'start') }}", index)

    def outputs(self, index: int) -> list[dict[str, Any]]:
        """Return a code cell's outputs in the notebook format. Reads the model: the cell may be out of sight."""
        outputs: list[dict[str, Any]] = self.page.evaluate(
            f"index => {_PANEL}.content.widgets[index].model.outputs?.toJSON() ?? []", index
        )
        return outputs

    def output_text(self, index: int) -> str:
        """Return the text of a code cell's outputs, tracebacks included."""
        return "".join(_output_text(output) for output in self.outputs(index))

    def canvas(self, index: int = 0) -> Canvas:
        """Return the page's canvas number `index`, counted from 0 from the top."""
        return Canvas(self.page, self.page.locator("canvas.rfb-gpu-canvas").nth(index))

    def shutdown(self) -> None:
        """End the kernel, which would go on drawing while other tests run."""
        if self._kernel is not None:
            self._kernel.close()
        if session := self.server.session(self.name):
            self.server.request("DELETE", f"api/sessions/{session['id']}")

    def _run(self, command: str, wait: bool) -> None:
        self.page.evaluate(
            """command => {
                window.ranWell = null
                window.jupyterapp.commands.execute(command).then(ok => { window.ranWell = ok !== false })
            }""",
            command,
        )
        if not wait:
            return
        self.page.wait_for_function("() => window.ranWell !== null", timeout=ACTION_SECONDS * 1000)
        self.wait_idle()
        failed = [
            _output_text(output)
            for index in range(self.count_cells())
            for output in self.outputs(index)
            if output["output_type"] == "error"
        ]
        assert not failed, "a cell raised:\n" + "\n".join(failed)


class Canvas:
    """One of our canvases in a page, as a person sees and handles it."""

    def __init__(self, page: Page, locator: Locator) -> None:
        self.page = page
        self.locator = locator
        self.view = locator.locator("xpath=ancestor::div[contains(@class, 'rfb-gpu-view')][1]")
        self.wrapper = locator.locator("xpath=ancestor::div[contains(@class, 'renderview-wrapper')][1]")

    # What the front end says of itself.

    @property
    def frame(self) -> int:
        """The id of the frame that is shown; -1 before the first."""
        return int(self.locator.get_attribute("data-rfb-frame") or -1)

    @property
    def decoder(self) -> str | None:
        """What decodes the frames: "webgpu" or "browser"."""
        return self.locator.get_attribute("data-rfb-decoder")

    @property
    def final(self) -> bool:
        """Whether the frame that is shown is a sharp one that no better one will follow."""
        return self.locator.get_attribute("data-rfb-final") == "true"

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the picture, in physical pixels."""
        width, height = self.locator.evaluate("canvas => [canvas.width, canvas.height]")
        return width, height

    # Waiting.

    def wait_frame(self, after: int = -1, timeout: float = ACTION_SECONDS) -> int:
        """Wait until a frame newer than `after` is shown; returns its id."""
        self._wait(f"canvas => Number(canvas.dataset.rfbFrame || -1) > {after}", timeout)
        return self.frame

    def wait_final(self, after: int = -1, timeout: float = ACTION_SECONDS) -> int:
        """Wait until a final frame newer than `after` is shown; returns its id."""
        self._wait(
            f"canvas => Number(canvas.dataset.rfbFrame || -1) > {after} && canvas.dataset.rfbFinal === 'true'",
            timeout,
        )
        return self.frame

    def wait_rest(self, after: int = -1, timeout: float = ACTION_SECONDS) -> int:
        """Wait until a final frame newer than `after` has stayed for half a second; returns its id.

        For what comes after a drag: on a slow machine one may pause long enough for a sharp picture in its middle.
        """
        deadline = time.monotonic() + timeout
        while True:
            frame = self.wait_final(after, deadline - time.monotonic())
            self.page.wait_for_timeout(500)
            if self.final and self.frame == frame:
                return frame

    def wait_decoder(self, name: str, timeout: float = ACTION_SECONDS) -> None:
        """Wait until frames are decoded by "webgpu" or by "browser"; a GPU that starts late is used only then."""
        self._wait(f"canvas => canvas.dataset.rfbDecoder === '{name}'", timeout)

    def wait_size(self, width: int, height: int, timeout: float = ACTION_SECONDS) -> None:
        """Wait until the picture has a size in physical pixels."""
        self._wait(f"canvas => canvas.width === {width} && canvas.height === {height}", timeout)

    # Looking.

    def screenshot(self) -> Picture:
        """Return the canvas as it stands on the screen, one array element a physical pixel."""
        scroll_to(self.locator)
        # Two animation frames later, whatever was submitted before is on the screen.
        self.locator.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        picture = to_picture(self.page.screenshot(scale="device"))
        # Which pixels are the canvas's is measured: where boxes begin between two pixels, each of JupyterLab's nested
        # panels may round, and getBoundingClientRect() tells nothing of it. So paint the box, and look where it is.
        self.locator.evaluate(
            f"canvas => {{ canvas.style.background = 'rgb{MARKER}'; canvas.style.objectPosition = '-9999px' }}"
        )
        marked = to_picture(self.page.screenshot(scale="device"))
        self.locator.evaluate("canvas => { canvas.style.background = ''; canvas.style.objectPosition = '' }")
        box = (marked == MARKER).all(axis=2)
        rows, columns = np.flatnonzero(box.any(axis=1)), np.flatnonzero(box.any(axis=0))
        height, width = self.locator.evaluate(
            "canvas => { const box = canvas.getBoundingClientRect(); return [box.height, box.width] }"
        )
        ratio = self.page.evaluate("devicePixelRatio")
        if abs(len(rows) - height * ratio) > 1 or abs(len(columns) - width * ratio) > 1:
            raise AssertionError(
                f"of a canvas of {width * ratio:.1f} x {height * ratio:.1f} pixels, "
                f"{len(columns)} x {len(rows)} are in sight"
            )
        return picture[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]

    # Handling.

    def drag(self, start: Point, end: Point, steps: int = 8, button: Button = "left") -> None:
        """Drag over the canvas; points are fractions of its width and height, (0, 0) at the top left."""
        scroll_to(self.locator)
        left, top, width, height = _box(self.locator)
        (x0, y0), (x1, y1) = start, end
        self._drag(
            (left + x0 * width, top + y0 * height),
            (left + x1 * width, top + y1 * height),
            steps=steps,
            button=button,
        )

    def resize_by(self, dx: float, dy: float, steps: int = 4) -> None:
        """Drag the corner that resizes, by CSS pixels."""
        handle = self.wrapper.locator("div.renderview-resizer")
        scroll_to(handle)
        x, y, width, height = _box(handle)
        x, y = x + width / 2, y + height / 2
        self._drag((x, y), (x + dx, y + dy), steps=steps, button="left")

    def _drag(self, start: Point, end: Point, *, steps: int, button: Button) -> None:
        mouse = self.page.mouse
        mouse.move(*start)
        mouse.down(button=button)
        mouse.move(*end, steps=steps)
        mouse.up(button=button)

    def _wait(self, condition: str, timeout: float) -> None:
        # The canvas may be replaced meanwhile (a reload, a cell that scrolls back), so it is looked up each time.
        give_up = time.monotonic() + timeout
        while True:
            with contextlib.suppress(PlaywrightError):
                if self.locator.evaluate(condition, timeout=1000):
                    return
            if time.monotonic() > give_up:
                state = self.locator.evaluate_all("list => list.map(canvas => canvas.outerHTML)")
                raise AssertionError(
                    f"not within {timeout:.0f} s: {condition}; the canvas is {state or 'not there'}"
                )
            self.page.wait_for_timeout(30)


# ---- pictures and text


def to_picture(png: bytes) -> Picture:
    """Return an image file's pixels."""
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


def psnr(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> float:
    """Return the peak signal-to-noise ratio of two 8-bit pictures, in dB; infinite where they are equal."""
    if a.shape != b.shape:
        raise ValueError(f"pictures of different shapes: {a.shape} and {b.shape}")
    error = float(np.mean((a.astype(np.float64) - b.astype(np.float64)) ** 2))
    return math.inf if error == 0 else 10 * math.log10(255**2 / error)


def is_blank(picture: Picture) -> bool:
    """Tell whether a picture has one colour only."""
    return bool((picture == picture[0, 0]).all())


def plain(text: str) -> str:
    """Return text without a terminal's colour codes."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def _output_text(output: Mapping[str, Any]) -> str:
    kind = output["output_type"]
    if kind == "stream":
        text = output["text"]
    elif kind == "error":
        text = plain("\n".join(output["traceback"])) + "\n"
    else:
        text = output["data"].get("text/plain", "")
    return text if isinstance(text, str) else "".join(text)


def scroll_to(locator: Locator) -> None:
    """Bring an element into sight; a notebook that renders what is in sight may put it into the page anew meanwhile."""
    for _ in range(4):
        try:
            return locator.scroll_into_view_if_needed()
        except PlaywrightError as error:
            if "not attached" not in str(error):
                raise
    return locator.scroll_into_view_if_needed()


def _box(locator: Locator) -> tuple[float, float, float, float]:
    box = locator.bounding_box()
    assert box is not None, "the element is not in sight"
    return box["x"], box["y"], box["width"], box["height"]


def write_notebook(file: pathlib.Path, cells: Sequence[str]) -> None:
    """Write a notebook with these code cells."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, file)
