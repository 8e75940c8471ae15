"""rfb_gpu without jupyter_rfb, which it needs for one class only."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
sys.modules["jupyter_rfb"] = None  # as if it were not installed
import rfb_gpu
rfb_gpu.RenderCanvas
try:
    rfb_gpu.RemoteFrameBuffer
except ImportError as error:
    print("said:", error)
"""


def test_without_jupyter_rfb_the_error_names_the_cure():
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("said: ")
    assert "pip install 'rfb_gpu[jupyter_rfb]'" in done.stdout
