"""The examples do what they say."""

import re
import runpy
import signal
import subprocess
import sys
import urllib.request
from itertools import pairwise

import numpy as np
import pytest
import simplejpeg

from tests.conftest import HERE


@pytest.mark.parametrize("name", ["film.mjpeg", "film.jpg"])
def test_record_mjpeg(tmp_path, monkeypatch, name):
    example = HERE.parent / "examples" / "record_mjpeg.py"
    arguments = [str(example), str(tmp_path / name), "--frames", "5", "--size", "160x120"]
    monkeypatch.setattr(sys, "argv", arguments)
    runpy.run_path(str(example), run_name="__main__")
    if name.endswith("mjpeg"):
        parts = (tmp_path / name).read_bytes().split(b"\xff\xd8\xff\xe0")[1:]
        files = [b"\xff\xd8\xff\xe0" + part for part in parts]
    else:
        files = [file.read_bytes() for file in sorted(tmp_path.glob("film.*.jpg"))]
    pictures = [simplejpeg.decode_jpeg(file, strict=True).astype(int) for file in files]
    assert [p.shape for p in pictures] == [(120, 160, 3)] * 5
    assert pictures[0].std() > 20, "waves, not a blank"
    assert all(np.abs(a - b).mean() > 0.5 for a, b in pairwise(pictures)), "they move"


def test_serve_scene():
    example = HERE.parent / "examples" / "serve_scene.py"
    with subprocess.Popen(
        [sys.executable, str(example), "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        address = re.search(r"http\S+", process.stdout.readline())[0]
        assert "<title>A torus knot</title>" in urllib.request.urlopen(address).read().decode()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
