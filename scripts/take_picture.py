"""Takes the README's picture: the quickstart notebook in a real JupyterLab and Chromium.

    .venv/bin/python -m scripts.take_picture docs/quickstart.png

Needs what the end-to-end tests need: `make setup`.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import tempfile

from playwright.sync_api import sync_playwright

from tests.e2e import harness


def take_picture(target: pathlib.Path) -> None:
    """Run the notebook, turn the scene a little as a person would, and keep what the screen shows."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        root = pathlib.Path(folder)
        with harness.running_jupyter(root / "jupyter") as server:
            shutil.copy(harness.REPOSITORY / "notebooks/quickstart.ipynb", server.root)
            browser = playwright.chromium.launch(
                executable_path=harness.find_chromium(),
                args=[*harness.CHROMIUM_FLAGS, "--window-size=1100,1180"],
            )
            page = browser.new_context(no_viewport=True).new_page()
            notebook = harness.Notebook(page, server, "quickstart.ipynb", root)
            notebook.open()
            page.keyboard.press("Control+b")  # away with the file list
            notebook.run_cell(1)
            canvas = notebook.canvas()
            canvas.wait_final()
            notebook.scroll_to_cell(1)
            canvas.drag((0.4, 0.5), (0.52, 0.45))
            canvas.wait_final(after=canvas.frame)
            canvas.screenshot()  # waits until what was submitted is on the screen
            page.screenshot(path=target)
            notebook.shutdown()
            browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=pathlib.Path)
    take_picture(parser.parse_args().target)
