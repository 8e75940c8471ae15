"""The hosts that the canvas is at home in, each with the same methods: a document with two canvases, opened as a person does.

A document shows canvas `a`, much space, and canvas `b` of another size and colour. Its kernel knows `a`, `b`, `pixels`, and
`runs`: which cells ran, by name.

VS Code is its own widget manager in a page of ours, vscode/page.html; what that leaves out is in docs/hosts.md.
"""

from __future__ import annotations

import abc
import contextlib
import http.server
import os
import pathlib
import subprocess
import sys
import textwrap
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Frame, Locator, Page

from tests.e2e import harness

CELLS = {
    "start": f"{harness.SCENE}\nfrom tests.e2e.scene import Space\nruns = []",
    "a": "a = make(title='canvas a', decoder='webgpu')\nruns.append('a')\na",
    # Several, because Jupyter gives the output of one cell a height and a scroll bar.
    **{f"space {number}": "Space()" for number in range(8)},
    "b": "b = make(title='canvas b', colour='#2f8fe0', size=(240, 160))\nruns.append('b')\nb",
}
"""The cells of a document by name, in order."""


class Host(abc.ABC):
    """A document that is open in a page; what it started ends with `close`."""

    def __init__(self, page: Page, jupyterlab: harness.JupyterServer, scratch: pathlib.Path) -> None:
        self.page = page
        self._jupyterlab = jupyterlab
        self._scratch = scratch
        self._stack = contextlib.ExitStack()
        self.kernel: harness.Kernel

    @abc.abstractmethod
    def open(self) -> None:
        """Open the document and run its cells."""

    @abc.abstractmethod
    def reload(self) -> None:
        """Load the page anew, as F5 does."""

    def scroll_to(self, name: str) -> None:
        """Bring a canvas into sight, and so the other one out of it."""
        # The view, because there is no canvas in it before its first frame, which comes when it is in sight.
        harness.scroll_to(self._wrapper(name))

    def count_cells(self) -> int:
        """How many cells the page has; 0 where none can be added or deleted."""
        return 0

    def canvas(self, name: str) -> harness.Canvas:
        """Canvas `a` or `b`."""
        return harness.Canvas(self.page, self._wrapper(name).locator("canvas.rfb-gpu-canvas"))

    def close(self) -> None:
        """End all that was started."""
        self._stack.close()

    def _wrapper(self, name: str) -> Locator:
        return self.frame.locator(".renderview-wrapper", has_text=f"canvas {name}")

    @property
    def frame(self) -> Page | Frame:
        """Where the document's elements are."""
        return self.page


class JupyterLab(Host):
    """With its default settings."""

    def open(self) -> None:
        server = self._server()
        harness.write_notebook(server.root / "hosts.ipynb", list(CELLS.values()))
        server.set_windowing(None)
        self.notebook = harness.Notebook(self.page, server, "hosts.ipynb", self._scratch)
        self._stack.callback(self.notebook.shutdown)
        self.notebook.open()
        self.notebook.run_all()
        self.notebook.save()
        self.kernel = self.notebook.kernel

    def reload(self) -> None:
        self.notebook.reload()

    def scroll_to(self, name: str) -> None:
        # Again if need be: heights of cells that were never in sight are guesses.
        for _ in range(20):
            self.notebook.scroll_to_cell(list(CELLS).index(name))
            self.page.wait_for_timeout(100)
            if self._wrapper(name).is_visible():
                break
        super().scroll_to(name)

    def count_cells(self) -> int:
        return self.notebook.count_cells()

    def _server(self) -> harness.JupyterServer:
        return self._jupyterlab


class Notebook7(JupyterLab):
    """Jupyter Notebook, with its default settings."""

    def _server(self) -> harness.JupyterServer:
        return self._stack.enter_context(harness.running_jupyter(self._scratch / "notebook", "notebook"))


class MarimoKernel(harness.Kernel):
    """Reached by a door that the document opens, because marimo's kernels listen to nobody but marimo."""

    def __init__(self, page: Page, port_file: pathlib.Path, scratch: pathlib.Path) -> None:
        super().__init__(page, scratch)
        self._port_file = port_file

    def _execute(self, code: str, timeout: float) -> str:
        url = f"http://127.0.0.1:{self._port_file.read_text()}/"
        try:
            with urllib.request.urlopen(url, code.encode(), timeout) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            raise harness.KernelError(error.read().decode()) from None


class MarimoEdit(Host):
    """`marimo edit`: the kernel is a process of its own, and goes on when the page is loaded anew."""

    mode = "edit"

    def open(self) -> None:
        self._folder = self._scratch / f"marimo-{self.mode}"
        self._folder.mkdir()
        self.port_file = self._folder / "port"
        app = self._folder / "app.py"
        app.write_text(self._app())
        # Cells run when the page opens, as they do for a person who says so in the settings.
        settings = self._folder / "marimo/marimo.toml"
        settings.parent.mkdir()
        settings.write_text("[runtime]\nauto_instantiate = true\n")
        port = harness.free_port()
        command = [
            sys.executable, "-m", "marimo", "-q", "-y", self.mode, str(app),
            "--headless", "--host", "127.0.0.1", "--port", str(port), "--no-token",
        ]  # fmt: skip
        env = {
            "PYTHONPATH": os.pathsep.join(
                [str(harness.REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
            **{name: str(self._folder) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")},
            "MARIMO_SKIP_UPDATE_CHECK": "1",
        }
        url = f"http://127.0.0.1:{port}/"
        self._stack.enter_context(harness.running_server(command, f"{url}health", self._folder / "log", env))
        self.kernel = MarimoKernel(self.page, self.port_file, self._scratch)
        self._stack.callback(self.kernel.close)
        self.page.goto(url)
        self.wait_ran()

    def reload(self) -> None:
        self.page.reload()
        self.wait_ran()

    def count_cells(self) -> int:
        return self.page.locator(".marimo-cell").count()

    def wait_ran(self) -> None:
        """Wait until the document's last cell has run."""
        for _ in range(600):
            if self.port_file.exists():
                return
            self.page.wait_for_timeout(100)
        raise AssertionError("the cells do not run")

    def _app(self) -> str:
        names = {"start": "Space make np pixels runs", "a": "a", "b": "b"}
        needs = {"a": "make runs", "b": "make runs", "door": "a b np pixels runs"}
        needs |= {name: "Space" for name in CELLS if name.startswith("space")}
        door = (
            "from tests.e2e.door import open_door\n"
            f"open_door({str(self.port_file)!r}, dict(a=a, b=b, np=np, pixels=pixels, runs=runs))"
        )
        text = "import marimo\n\napp = marimo.App()\n"
        for name, code in {**CELLS, "door": door}.items():
            arguments = ", ".join(needs.get(name, "").split())
            made = "".join(f"{each}, " for each in names.get(name, "").split())
            text += (
                f"\n\n@app.cell\ndef _({arguments}):\n{textwrap.indent(code, '    ')}\n    return {made}\n"
            )
        return text + "\n\nif __name__ == '__main__':\n    app.run()\n"


class MarimoRun(MarimoEdit):
    """`marimo run`: the kernel is a thread of the server's; a page that is loaded anew has a new one."""

    mode = "run"

    def reload(self) -> None:
        self.port_file.unlink()
        super().reload()


class VSCode(Host):
    """VS Code's widget manager in a frame with a webview's policy, and messages as its Jupyter extension serialises them."""

    # What VS Code sets with notebook.experimental.enableCsp (by default it sets no policy), but without 'unsafe-eval', and
    # with blob:, because anywidget imports every widget's module from there.
    POLICY = (
        "default-src 'none'; script-src 'self' 'unsafe-inline' blob:; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' https: http: data:; font-src 'self' https:; connect-src https:; child-src https: data:"
    )
    FOLDER = pathlib.Path(__file__).parent / "vscode"

    def open(self) -> None:
        packages = self.FOLDER / "node_modules"
        if not packages.is_dir():
            raise RuntimeError("VS Code's widget manager is not installed; `make setup` installs it")
        bundle = self._scratch / "webview.js"
        subprocess.run(
            [packages / ".bin/esbuild", "webview.js", "--bundle", "--format=esm", f"--outfile={bundle}",
             "--define:global=globalThis", "--alias:path=path-browserify", "--log-level=warning"],
            cwd=self.FOLDER, check=True,
        )  # fmt: skip
        files = {
            "page.html": self.FOLDER / "page.html",
            "webview.html": self.FOLDER / "webview.html",
            "webview.js": bundle,
            "require.js": packages / "requirejs/require.js",
            "ipywidgets.js": packages / "@vscode/jupyter-ipywidgets8/dist/ipywidgets.js",
            # VS Code finds it in the folder of the kernel's interpreter, too.
            "anywidget.js": pathlib.Path(sys.prefix) / "share/jupyter/nbextensions/anywidget/index.js",
        }
        self._url = self._stack.enter_context(_serving(files, self.POLICY))
        self._id = self._jupyterlab.request("POST", "api/kernels")["id"]
        self._stack.callback(self._jupyterlab.request, "DELETE", f"api/kernels/{self._id}")
        self.kernel = harness.JupyterKernel(
            self.page, self._jupyterlab.runtime / f"kernel-{self._id}.json", self._scratch
        )
        self._stack.callback(self.kernel.close)
        self._outputs: list[Any] = []
        self._load()
        self._outputs = [self.frame.evaluate("code => run(code)", code) for code in CELLS.values()]

    def reload(self) -> None:
        """Make the webview anew, as VS Code does when an editor comes back: outputs are kept, the kernel goes on."""
        self._load()
        self.frame.evaluate("outputs => restore(outputs)", self._outputs)

    @property
    def frame(self) -> Frame:
        frame = self.page.frame("webview")
        assert frame is not None
        return frame

    def violations(self) -> list[str]:
        """What the policy forbade: directives with what they were about."""
        found: list[str] = self.frame.evaluate("() => violations")
        return found

    def _load(self) -> None:
        query = urllib.parse.urlencode({"server": self._jupyterlab.url, "kernel": self._id})
        self.page.goto(f"{self._url}page.html?{query}")
        self.frame.evaluate("() => ready")


@contextlib.contextmanager
def _serving(files: dict[str, pathlib.Path], policy: str) -> Iterator[str]:
    """Serve these files, webview.html with a Content-Security-Policy; gives the address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = urllib.parse.urlsplit(self.path).path.lstrip("/")
            self.send_response(200 if name in files else 404)
            self.send_header("Content-Type", "text/html" if name.endswith(".html") else "text/javascript")
            if name == "webview.html":
                self.send_header("Content-Security-Policy", policy)
            self.end_headers()
            if name in files:
                self.wfile.write(files[name].read_bytes())

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


HOSTS: dict[str, type[Host]] = {
    "JupyterLab": JupyterLab,
    "Notebook 7": Notebook7,
    "marimo edit": MarimoEdit,
    "marimo run": MarimoRun,
    "VS Code": VSCode,
}
