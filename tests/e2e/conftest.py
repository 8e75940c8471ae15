"""Fixtures for tests that drive a real JupyterLab in a real Chromium; the objects they give are in harness.py."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, sync_playwright

from tests.e2e import harness, widget_page
from tests.e2e.hosts import HOSTS, Host

RESULTS = pathlib.Path(os.environ.get("RFB_GPU_TEST_RESULTS", harness.REPOSITORY / "test-results"))

OpenNotebook = Callable[..., harness.Notebook]
Show = Callable[..., tuple[harness.Notebook, harness.Canvas]]
page_log = pytest.StashKey[list[str]]()
failed = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="session")
def browsers(playwright: Playwright) -> Iterator[Callable[[float], Browser]]:
    """`browsers(ratio)`: Chromium with WebGPU on a software adapter and `ratio` physical pixels a CSS pixel.

    A browser for each, because the ratio that Playwright emulates is not a screen's: it snaps boxes to CSS pixels.
    """
    launched: dict[float, Browser] = {}

    def browser(ratio: float) -> Browser:
        if ratio not in launched or not launched[ratio].is_connected():
            launched[ratio] = playwright.chromium.launch(
                executable_path=harness.find_chromium(),
                args=[
                    *harness.CHROMIUM_FLAGS,
                    f"--force-device-scale-factor={ratio:g}",
                    "--window-size=1400,900",
                ],
            )
        return launched[ratio]

    yield browser
    for each in launched.values():
        each.close()


@pytest.fixture(scope="session")
def decoding_bundle(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The page's decoders as a module of their own."""
    return widget_page.build_decoding(tmp_path_factory.mktemp("decoding"))


@pytest.fixture
def device_scale_factor() -> float:
    """Physical pixels a CSS pixel; a test that parametrizes this name gets another screen."""
    return 1.0


@pytest.fixture
def page(
    browsers: Callable[[float], Browser], device_scale_factor: float, request: pytest.FixtureRequest
) -> Iterator[Page]:
    """A page in a fresh profile, with everything that it says kept for the report."""
    page, log = _new_page(browsers(device_scale_factor))
    request.node.stash[page_log] = log
    yield page
    page.context.close()


def _new_page(browser: Browser) -> tuple[Page, list[str]]:
    context = browser.new_context(no_viewport=True)
    context.set_default_timeout(harness.ACTION_SECONDS * 1000)
    page = context.new_page()
    log: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            log.append(f"{message.type}: {message.text}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: log.append(f"uncaught: {error}"))
    page.on("crash", lambda _: log.append("the page crashed"))
    return page, log


@pytest.fixture(scope="session")
def jupyterlab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[harness.JupyterServer]:
    """One JupyterLab for all tests; each test has its own notebook and kernel."""
    with harness.running_jupyter(tmp_path_factory.mktemp("jupyterlab")) as server:
        yield server


@pytest.fixture
def notebook(
    page: Page, jupyterlab: harness.JupyterServer, request: pytest.FixtureRequest, tmp_path: pathlib.Path
) -> Iterator[OpenNotebook]:
    """`notebook(cells)` opens a notebook in JupyterLab, its kernel started and no cell run.

    `cells` is a list of code cells or the path of an .ipynb file, of which a copy is opened. `windowing`: see
    `JupyterServer.set_windowing`. One notebook at a time is open in a test's page.
    """
    opened: list[harness.Notebook] = []

    def open_notebook(cells: Sequence[str] | pathlib.Path, windowing: str | None = None) -> harness.Notebook:
        name = f"{_file_name(request.node)}-{len(opened)}.ipynb"
        if isinstance(cells, pathlib.Path):
            shutil.copyfile(cells, jupyterlab.root / name)
        else:
            harness.write_notebook(jupyterlab.root / name, cells)
        jupyterlab.set_windowing(windowing)
        book = harness.Notebook(page, jupyterlab, name, tmp_path)
        opened.append(book)
        book.open()
        return book

    yield open_notebook
    for book in opened:
        book.shutdown()


@dataclasses.dataclass
class _Shared:
    """The notebook of `shared_notebook`, between tests."""

    book: harness.Notebook | None = None
    log: list[str] = dataclasses.field(default_factory=list)

    def close(self) -> None:
        if self.book is not None:
            self.book.shutdown()
            self.book.page.context.close()
        self.book = None


@pytest.fixture(scope="session")
def shared() -> Iterator[_Shared]:
    one = _Shared()
    yield one
    one.close()


@pytest.fixture
def shared_notebook(
    browsers: Callable[[float], Browser],
    jupyterlab: harness.JupyterServer,
    shared: _Shared,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[OpenNotebook]:
    """As `notebook(cells)`, in a kernel and a page that tests share: they start once and compile shaders once.

    After a test its canvases are closed and its cells removed; after one that failed, all is made anew. A test that changes more
    than that opens a `notebook`.
    """

    def open_notebook(cells: Sequence[str]) -> harness.Notebook:
        if shared.book is None:
            page, shared.log = _new_page(browsers(1.0))
            harness.write_notebook(jupyterlab.root / "shared.ipynb", [harness.SCENE])
            jupyterlab.set_windowing(None)
            shared.book = harness.Notebook(
                page, jupyterlab, "shared.ipynb", tmp_path_factory.mktemp("shared")
            )
            shared.book.open()
            shared.book.run_all()
        shared.log.clear()
        request.node.stash[page_log] = shared.log
        request.node.funcargs["page"] = shared.book.page
        shared.book.set_cells(cells)
        return shared.book

    yield open_notebook
    if request.node.stash.get(failed, False):
        shared.close()
    elif shared.book is not None:
        shared.book.kernel.run("from tests.e2e.scene import close_all\nclose_all()")
        shared.book.set_cells([harness.SCENE])


@pytest.fixture
def show(shared_notebook: OpenNotebook) -> Show:
    """`show(*lines)` runs these lines in a cell of the `shared_notebook`; gives it and the canvas that the last line is."""

    def show_canvas(*lines: str) -> tuple[harness.Notebook, harness.Canvas]:
        book = shared_notebook([harness.SCENE, "\n".join(lines)])
        book.run_all()
        canvas = book.canvas()
        canvas.wait_frame()
        return book, canvas

    return show_canvas


@dataclasses.dataclass
class _OpenHost:
    """The document of `host`, between tests."""

    name: str
    document: Host | None = None
    log: list[str] = dataclasses.field(default_factory=list)

    def close(self) -> None:
        if self.document is not None:
            self.document.close()
            self.document.page.context.close()
        self.document = None


@pytest.fixture(scope="session")
def passed_in_hosts() -> dict[tuple[str, str], bool]:
    """Which tests of `host` passed so far, by host and test."""
    return {}


@pytest.fixture(scope="session", params=list(HOSTS))
def open_host(
    request: pytest.FixtureRequest, browsers: Callable[[float], Browser], jupyterlab: harness.JupyterServer
) -> Iterator[_OpenHost]:
    # It ends before the browser and the server do, therefore it names them.
    one = _OpenHost(request.param)
    yield one
    one.close()


@pytest.fixture
def host(
    open_host: _OpenHost,
    passed_in_hosts: dict[tuple[str, str], bool],
    browsers: Callable[[float], Browser],
    jupyterlab: harness.JupyterServer,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Host]:
    """A document that is open in a host, in each host in turn.

    All tests of a host share it; after one that failed, it is made anew.
    """
    if open_host.document is None:
        page, open_host.log = _new_page(browsers(1.0))
        request.node.funcargs["page"] = page
        open_host.document = HOSTS[open_host.name](page, jupyterlab, tmp_path_factory.mktemp("host"))
        request.node.stash[page_log] = open_host.log
        open_host.document.open()
    open_host.log.clear()
    request.node.stash[page_log] = open_host.log
    request.node.funcargs["page"] = open_host.document.page
    yield open_host.document
    ok = not request.node.stash.get(failed, False)
    passed_in_hosts[open_host.name, request.node.originalname] = ok
    if not ok:
        open_host.close()


@pytest.fixture
def visit(
    browsers: Callable[[float], Browser], request: pytest.FixtureRequest
) -> Iterator[Callable[..., tuple[Any, harness.Canvas]]]:
    """`visit(url, size)`: a page in a window of that size, with its canvas."""
    contexts = []

    def open_page(url: str, size: tuple[int, int] = (360, 240)) -> tuple[Any, harness.Canvas]:
        width, height = size
        context = browsers(1.0).new_context(viewport={"width": width, "height": height})
        context.set_default_timeout(harness.ACTION_SECONDS * 1000)
        contexts.append(context)
        page: Any = context.new_page()
        page.log = []
        page.on("console", lambda message: page.log.append(message.text))
        page.on("pageerror", lambda error: page.log.append(f"uncaught: {error}"))
        page.goto(url)
        request.node.funcargs["page"] = page
        return page, harness.Canvas(page, page.locator("canvas.rfb-gpu-canvas"))

    yield open_page
    for context in contexts:
        context.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep, of a test that failed, a picture of what a person would have seen, and what the page said."""
    report = yield
    page: Any = getattr(item, "funcargs", {}).get("page")
    if report.failed and report.when in ("setup", "call"):
        item.stash[failed] = True
        if log := item.stash.get(page_log, []):
            report.sections.append(("page", "\n".join(log[-50:])))
        if page is not None and not page.is_closed():
            RESULTS.mkdir(parents=True, exist_ok=True)
            shot = RESULTS / f"{_file_name(item)}.png"
            try:
                page.screenshot(path=shot, timeout=10_000)
                report.sections.append(("screenshot", str(shot)))
            except Exception as error:  # a page that hangs; the test's own failure is what counts
                report.sections.append(("screenshot", f"failed: {error}"))
    return report


def _file_name(item: pytest.Item) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", item.name).strip("-")
