"""Takes a picture of the canvas in each host for docs/hosts.md.

    .venv/bin/python -m scripts.take_host_pictures docs

Needs what the end-to-end tests need: `make setup`.
"""

from __future__ import annotations

import argparse
import io
import os
import pathlib
import tempfile

from PIL import Image
from playwright.sync_api import sync_playwright

from tests.e2e import harness
from tests.e2e.hosts import HOSTS

COLOURS = 256
"""Of the pictures, which are of text, flat colours and one gradient: they stay small."""

HIDE_TEXT = """text => {
    for (const element of document.querySelectorAll('*')) {
        const own = element.value ?? (element.children.length ? '' : element.textContent)
        if (String(own).includes(text)) element.style.visibility = 'hidden'
    }
}"""
"""marimo names a document by its whole path."""


def take_pictures(folder: pathlib.Path) -> None:
    """Open each host's document, turn the scene as a person would, and keep what the screen shows."""
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        os.environ.setdefault("XDG_RUNTIME_DIR", scratch)
        root = pathlib.Path(scratch)
        browser = playwright.chromium.launch(
            executable_path=harness.find_chromium(), args=[*harness.CHROMIUM_FLAGS, "--window-size=1000,760"]
        )
        with harness.running_jupyter(root / "jupyterlab") as jupyterlab:
            for name, host_class in HOSTS.items():
                page = browser.new_context(no_viewport=True).new_page()
                (root / name).mkdir()
                host = host_class(page, jupyterlab, root / name)
                host.open()
                host.scroll_to("a")
                canvas = host.canvas("a")
                canvas.wait_final()
                canvas.drag((0.4, 0.5), (0.52, 0.45))
                canvas.wait_final(after=canvas.frame)
                page.evaluate(HIDE_TEXT, str(root))
                canvas.screenshot()  # waits until what was submitted is on the screen
                picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(COLOURS)
                picture.save(folder / f"host-{name.lower().replace(' ', '-')}.png", optimize=True)
                host.close()
                page.context.close()
        browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    take_pictures(parser.parse_args().folder)
