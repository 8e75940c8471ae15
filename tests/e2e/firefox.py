"""Firefox, driven over WebDriver BiDi (https://w3c.github.io/webdriver-bidi/), which it speaks without a program between.

Playwright drives a Firefox of its own only, which Debian does not have.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import pathlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from tests.e2e import harness

PREFERENCES = {
    "remote.active-protocols": 1,
    # WebGPU on any adapter: here that is Mesa's, which computes on the CPU.
    "dom.webgpu.enabled": True,
    "gfx.webgpu.ignore-blocklist": True,
    "gfx.webrender.software": True,
    # Nothing is fetched from elsewhere.
    "app.update.enabled": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "browser.shell.checkDefaultBrowser": False,
}


def find_firefox() -> str | None:
    """The path of a Firefox; None without one."""
    return shutil.which("firefox-esr") or shutil.which("firefox")


class Firefox:
    """One window."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)
        self.log: list[str] = []
        """What pages wrote to the console as an error, or threw."""
        capabilities = self._call("session.new", capabilities={})["capabilities"]
        self.version = capabilities["browserVersion"]
        self._call("session.subscribe", events=["log.entryAdded"])
        self._context = self._call("browsingContext.getTree")["contexts"][0]["context"]

    def _call(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        self._connection.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._connection.recv(harness.ACTION_SECONDS))
            if message.get("method") == "log.entryAdded" and message["params"]["level"] == "error":
                self.log.append(message["params"]["text"])
            elif message.get("id") == number:
                if message["type"] == "error":
                    raise RuntimeError(f"{method}: {message['error']}: {message['message']}")
                return message["result"]

    def goto(self, url: str) -> None:
        """Opens a page."""
        self._call("browsingContext.navigate", context=self._context, url=url, wait="complete")

    def set_size(self, width: int, height: int) -> None:
        """Of the page, in CSS pixels, which are as many physical ones."""
        viewport = {"width": width, "height": height}
        self._call(
            "browsingContext.setViewport", context=self._context, viewport=viewport, devicePixelRatio=1
        )

    def value(self, expression: str) -> Any:
        """The value of an expression of the page, awaited, that JSON can carry."""
        code = f"(async () => JSON.stringify(await ({expression})))()"
        answer = self._call(
            "script.evaluate", expression=code, target={"context": self._context}, awaitPromise=True
        )
        if answer["type"] == "exception":
            raise RuntimeError(answer["exceptionDetails"]["text"])
        return json.loads(answer["result"].get("value", "null"))

    def wait_for(self, expression: str) -> None:
        """Waits until an expression is true."""
        give_up = time.monotonic() + harness.ACTION_SECONDS
        while not self.value(expression):
            assert time.monotonic() < give_up, f"not true: {expression}"
            time.sleep(0.1)

    def screenshot(self) -> harness.Picture:
        """What is seen of the page."""
        shot = self._call("browsingContext.captureScreenshot", context=self._context)
        return harness.to_picture(base64.b64decode(shot["data"]))

    def drag(self, start: tuple[float, float], end: tuple[float, float], steps: int = 8) -> None:
        """With the left button, in CSS pixels of the page."""
        moves = [
            {
                "type": "pointerMove",
                "x": round(start[0] + (end[0] - start[0]) * step / steps),
                "y": round(start[1] + (end[1] - start[1]) * step / steps),
                "duration": 20,
            }
            for step in range(steps + 1)
        ]
        press, release = ({"type": kind, "button": 0} for kind in ("pointerDown", "pointerUp"))
        actions = [moves[0], press, *moves[1:], release]
        pointer = {"type": "pointer", "id": "mouse", "actions": actions}
        self._call("input.performActions", context=self._context, actions=[pointer])

    def close(self) -> None:
        """Ends it."""
        with contextlib.suppress(WebSocketException, TimeoutError):
            self._call("browser.close")


@contextlib.contextmanager
def running_firefox(folder: pathlib.Path) -> Iterator[Firefox]:
    """Firefox with a fresh profile in `folder`, without a window on the screen."""
    path = find_firefox()
    assert path is not None
    profile = folder / "profile"
    profile.mkdir()
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFERENCES.items()]
    (profile / "user.js").write_text("\n".join(lines))
    port = harness.free_port()
    command = [path, "--headless", "--no-remote", "--profile", str(profile)]
    command += ["--remote-debugging-port", str(port)]
    with (folder / "firefox.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        with _connected(f"ws://127.0.0.1:{port}/session") as connection:
            firefox = Firefox(connection)
            yield firefox
            firefox.close()
    finally:
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait(20)


def _connected(address: str) -> ClientConnection:
    give_up = time.monotonic() + harness.ACTION_SECONDS
    while True:
        try:
            return connect(address, max_size=None)
        except (OSError, WebSocketException):
            if time.monotonic() > give_up:
                raise
            time.sleep(0.2)
