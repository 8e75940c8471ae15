"""What all three rings of tests share: the order they run in, a wgpu device, and hypothesis' settings."""

from __future__ import annotations

import os
import pathlib
import tempfile
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    import wgpu

HERE = pathlib.Path(__file__).parent

# Vulkan loaders look for this folder, and wgpu prints an error line for each adapter if it is unset. Must come before
# anything imports wgpu.
if "XDG_RUNTIME_DIR" not in os.environ:
    _runtime_dir = tempfile.TemporaryDirectory(prefix="rfb_gpu-tests-")
    os.environ["XDG_RUNTIME_DIR"] = _runtime_dir.name

# On software adapters the first example compiles pipelines for seconds, so there is no deadline.
# The same examples each time, so that a run tells of the change and not of luck; the long profile looks for new ones.
hypothesis.settings.register_profile("default", deadline=None, max_examples=50, derandomize=True)
hypothesis.settings.register_profile("long", deadline=None, max_examples=2000)
# By name, because hypothesis picks a profile of its own where CI is set. `--hypothesis-profile=long` wins over this.
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their folder, and run the cheap rings first.

    The end-to-end ring must be the last: while Playwright's browser is open, an event loop runs in the main thread, and
    tests that call `asyncio.run` would fail. Where two processes run tests, each has browsers of its own. Tests that measure time
    are marked as flaky: where others have made them late, they get two more trials. Any other end-to-end test gets one, for a
    browser, a server and a kernel on two cores are late in more ways than a test can foresee; the report tells how often that was
    needed.
    """
    rings = ("unit", "gpu", "e2e")

    def ring(item: pytest.Item) -> str:
        folder = item.path.relative_to(HERE).parts[0] if item.path.is_relative_to(HERE) else ""
        return folder if folder in rings else "unit"

    for item in items:
        if ring(item) != "unit":
            item.add_marker(ring(item))
        if ring(item) == "e2e" and item.get_closest_marker("flaky") is None:
            item.add_marker(pytest.mark.flaky(reruns=1))
    items.sort(key=lambda item: rings.index(ring(item)))


@pytest.fixture(scope="session")
def device() -> wgpu.GPUDevice:
    """The device that wgpu and pygfx share by default."""
    import wgpu.utils

    try:
        return wgpu.utils.get_default_device()
    except Exception as error:
        pytest.fail(f"no wgpu adapter; on Debian/Ubuntu: apt-get install mesa-vulkan-drivers ({error})")
