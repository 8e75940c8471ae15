"""The browser's own key: Escape leaves full screen. It is pressed on an X server, for it never comes to the page."""

from __future__ import annotations

import os
import shutil
import subprocess

import numpy as np
import pytest

from tests.e2e import harness
from tests.e2e.widget_page import WidgetPage, as_file, closing


@pytest.fixture
def display():
    """The name of an X display with nothing on it."""
    harness.require(shutil.which("Xvfb") and shutil.which("xdotool"), "Xvfb and xdotool")
    read, write = os.pipe()
    command = ["Xvfb", "-displayfd", str(write), "-nolisten", "tcp", "-screen", "0", "1280x800x24"]
    server = subprocess.Popen(command, pass_fds=[write], stderr=subprocess.DEVNULL)
    os.close(write)
    try:
        with os.fdopen(read) as numbers:
            yield f":{numbers.readline().strip()}"
    finally:
        server.terminate()
        server.wait(timeout=10)


def test_escape_leaves_full_screen(playwright, display):
    environment = {**os.environ, "DISPLAY": display}
    browser = playwright.chromium.launch(
        executable_path=harness.find_chromium(),
        args=[*harness.CHROMIUM_FLAGS, "--window-position=0,0", "--window-size=1000,700"],
        env=environment,
        headless=False,
    )
    try:
        with closing(WidgetPage(browser, "browser")) as shown:
            page = shown.page
            assert shown.show(as_file(np.full((240, 320, 3), 90, np.uint8), "PNG"), 320, 240, codec="png")

            def keys():
                return [
                    message["event"]["key"]
                    for message in shown.sent("event")
                    if message["event"]["type"] == "key_down"
                ]

            def wait_width(width):
                page.wait_for_function(
                    "width => host.sent.findLast(({ event }) => event?.type === 'resize')?.event.width === width",
                    arg=width,
                )

            shown.set("_has_titlebar", True)
            for _ in range(2):
                page.locator(".rfb-gpu-full-screen-button").click()
                page.wait_for_function("() => document.fullscreenElement")
                wait_width(page.evaluate("innerWidth"))
                page.keyboard.press("f")
                page.wait_for_timeout(500)  # the window is still on its way to its new state
                subprocess.run(["xdotool", "key", "Escape"], env=environment, check=True)
                page.wait_for_function("() => !document.fullscreenElement")
                wait_width(320)
                page.keyboard.press("g")
            assert keys() == ["f", "g", "f", "g"], "Escape was the browser's"
    finally:
        browser.close()
