"""A small DevTools client, for measurements that a test driver would distort.

It never enables the Network domain, with which Chromium copies every websocket frame to the driver.

    async with Browser("chromium", flags=SOFTWARE_FLAGS) as browser:
        page = await browser.page()
        await page.goto("http://127.0.0.1:8000/")
        print(await page.evaluate("document.title"))
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp

__all__ = ["GPU_FLAGS", "SOFTWARE_FLAGS", "Browser", "Page", "PageError"]

BASE_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-breakpad",
    "--force-device-scale-factor=1",
    "--enable-unsafe-webgpu",
)
SOFTWARE_FLAGS = ("--enable-features=Vulkan", "--use-vulkan=swiftshader", "--use-angle=swiftshader")
"""WebGPU without a GPU: the compositor and WebGPU must share a backend, or the first present loses the device."""
GPU_FLAGS = (
    "--enable-features=Vulkan,WebGPU",
    "--use-vulkan=native",
    "--use-angle=vulkan",
    "--disable-vulkan-surface",
    "--ignore-gpu-blocklist",
)
"""WebGPU on the GPU of a Linux host without a display. There a screenshot shows a WebGPU canvas white."""


class PageError(RuntimeError):
    """JavaScript raised, or the browser refused a command."""


class Browser:
    """Runs a Chromium with a profile of its own until the block ends.

    Arguments:
        executable: a path, or a name on PATH.
        flags: besides those that every run has.
        env: variables besides this process's.
        timeout: seconds that the start may take.
    """

    def __init__(
        self,
        executable: str,
        flags: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> None:
        self._executable = executable
        self._flags = flags
        self._env = env or {}
        self._timeout = timeout
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Browser:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def page(self) -> Page:
        """The page that the browser opened at its start."""
        deadline = asyncio.get_running_loop().time() + self._timeout
        while True:
            async with self._http.get(f"{self._url}/json") as reply:
                pages = [t for t in await reply.json(content_type=None) if t["type"] == "page"]
            if pages:
                break
            if asyncio.get_running_loop().time() > deadline:
                raise PageError("the browser opened no page")
            await asyncio.sleep(0.1)
        socket = await self._http.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0)
        page = Page(socket)
        self._stack.push_async_callback(page.close)
        for domain in ("Runtime", "Page"):
            await page.call(f"{domain}.enable")
        # Without focus JupyterLab has no current widget, and animation frames are rare.
        await page.call("Emulation.setFocusEmulationEnabled", enabled=True)
        await page.call("Page.bringToFront")
        return page

    async def _start(self) -> None:
        profile = Path(
            self._stack.enter_context(
                tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
            )
        )
        log = self._stack.enter_context((profile / "output.log").open("wb"))
        process = subprocess.Popen(
            [
                self._executable,
                *BASE_FLAGS,
                *self._flags,
                "--remote-debugging-port=0",
                f"--user-data-dir={profile}",
                "about:blank",
            ],
            env={**os.environ, "HOME": str(profile), **self._env},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._stack.callback(end_group, process)
        port_file = profile / "DevToolsActivePort"
        deadline = asyncio.get_running_loop().time() + self._timeout
        while not (port_file.exists() and len(lines := port_file.read_text().splitlines()) > 1):
            if process.poll() is not None or asyncio.get_running_loop().time() > deadline:
                output = (profile / "output.log").read_text(errors="replace")[-2000:]
                raise PageError(f"{self._executable} did not start (exit status {process.poll()}):\n{output}")
            await asyncio.sleep(0.1)
        self._url = f"http://127.0.0.1:{int(lines[0])}"
        self._http = await self._stack.enter_async_context(aiohttp.ClientSession())


class Page:
    """A page of the browser. ``console`` holds what it logged and the exceptions that nobody caught."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse[Any]) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reader = asyncio.create_task(self._read())
        self.console: list[str] = []

    async def close(self) -> None:
        """Ends the connection; the page goes on."""
        self._reader.cancel()
        await self._socket.close()

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends a command of the DevTools protocol and waits for its answer."""
        number = next(self._ids)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        message = await answer
        if "error" in message:
            raise PageError(f"{method}: {message['error'].get('message')}")
        result: dict[str, Any] = message["result"]
        return result

    async def goto(self, url: str) -> None:
        """Goes to an address; does not wait for the page."""
        result = await self.call("Page.navigate", url=url)
        if "errorText" in result:
            raise PageError(f"{url}: {result['errorText']}")

    async def evaluate(self, expression: str, *arguments: Any) -> Any:
        """The value of an expression, awaited if it is a promise. With arguments, it is a function and they are its own."""
        if arguments:
            expression = f"({expression})({', '.join(map(json.dumps, arguments))})"
        answer = await self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise PageError(_describe(answer["exceptionDetails"]))
        return answer["result"].get("value")

    async def wait_for(self, expression: str, timeout: float = 60, interval: float = 0.1) -> Any:
        """Evaluates an expression until it is true; what raises meanwhile counts as false."""
        deadline = asyncio.get_running_loop().time() + timeout
        problem = "it stayed false"
        while True:
            try:
                if value := await self.evaluate(expression):
                    return value
            except PageError as error:
                problem = str(error)
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(f"after {timeout:.0f} s: {problem}: {expression}")
            await asyncio.sleep(interval)

    async def screenshot(self, path: Path) -> None:
        """Writes a PNG file."""
        result = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(result["data"]))

    async def _read(self) -> None:
        try:
            async for frame in self._socket:
                message = json.loads(frame.data)
                waiting = self._waiting.pop(message.get("id", 0), None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
                elif message.get("method") == "Runtime.consoleAPICalled":
                    words = (a.get("value", a.get("description", "")) for a in message["params"]["args"])
                    self.console.append(f"{message['params']['type']}: {' '.join(map(str, words))}")
                elif message.get("method") == "Runtime.exceptionThrown":
                    self.console.append(f"exception: {_describe(message['params']['exceptionDetails'])}")
        finally:
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(PageError("the browser closed the connection"))


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends a process that leads a group of its own, and that group."""
    for number, seconds in ((signal.SIGTERM, 8), (signal.SIGKILL, 5)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return


def _describe(details: dict[str, Any]) -> str:
    exception = details.get("exception", {})
    return str(exception.get("description") or exception.get("value") or details.get("text"))
