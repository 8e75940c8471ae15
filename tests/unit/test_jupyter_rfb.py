"""rfb_gpu without the jupyter_rfb that one of its classes needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys, types
sys.modules["jupyter_rfb"] = {module}
import rfb_gpu
rfb_gpu.RenderCanvas
try:
    rfb_gpu.RemoteFrameBuffer
except ImportError as error:
    print("said:", error)
"""

MISSING = "None"
OLD = "types.SimpleNamespace(version_info=(0, 5, 1), __version__='0.5.1')"


@pytest.mark.parametrize(
    ("module", "words"), [(MISSING, "is not installed"), (OLD, "and 0.5.1 is installed")]
)
def test_the_error_names_the_cure(module, words):
    command = [sys.executable, "-c", CODE.format(module=module)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("said: ")
    assert words in done.stdout
    assert "pip install 'rfb_gpu[jupyter_rfb]'" in done.stdout
