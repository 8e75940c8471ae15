"""What is said where something is missing: the cure, not a driver's traceback."""

import os
import subprocess
import sys

import pytest

import rfb_gpu
from rfb_gpu import diagnostics


def run(code, **env):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr


# A loader that finds no driver, and no second chance through OpenGL.
NO_ADAPTER = {
    "VK_DRIVER_FILES": "/nonexistent",
    "VK_ICD_FILENAMES": "/nonexistent",
    "WGPU_BACKEND_TYPE": "Vulkan",
}


def test_doctor_prints_what_runs_here(capsys):
    rfb_gpu.doctor()
    text = capsys.readouterr().out
    for line in ("system:", "host:", "roads:", "packages:", "adapter:", "encoder:", "front end:"):
        assert line in text
    assert f"rfb_gpu {rfb_gpu.__version__}" in text
    assert "widget.js" in text


@pytest.mark.parametrize(
    "variables, host",
    [
        ({}, "Jupyter kernel (the page"),
        ({"VSCODE_PID": "1"}, "Jupyter kernel under VS Code (the page"),
        ({"VSCODE_CWD": "/", "SSH_CONNECTION": "a 1 b 2"}, "Jupyter kernel under VS Code and SSH (the page"),
        ({"JUPYTERHUB_USER": "me"}, "Jupyter kernel under JupyterHub (the page"),
        ({"CODESPACES": "true"}, "Jupyter kernel under GitHub Codespaces (the page"),
    ],
)
def test_doctor_tells_the_host_from_the_kernels_environment(monkeypatch, variables, host):
    for names, _ in diagnostics._UNDER:
        for name in names:
            monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    assert diagnostics.report()["host"].startswith(host)


def test_doctor_tells_colab_and_marimo(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", object())
    assert diagnostics.front_end_host() == "Colab"
    marimo = type(sys)("marimo")
    marimo.running_in_notebook = lambda: True
    monkeypatch.setitem(sys.modules, "marimo", marimo)
    assert diagnostics.front_end_host() == "marimo"


@pytest.mark.parametrize(
    "proxy, road", [(None, "no jupyter-server-proxy here"), ("4.4.0", "jupyter-server-proxy 4.4.0")]
)
def test_doctor_tells_the_roads(monkeypatch, proxy, road):
    monkeypatch.setattr(diagnostics, "_version", lambda name: proxy)
    assert road in diagnostics.report()["roads"]


def test_doctor_as_a_command():
    text = run(
        "import runpy, sys; sys.argv = ['rfb_gpu', 'doctor']; runpy.run_module('rfb_gpu', run_name='__main__')"
    )
    assert "adapter:" in text
    assert "Traceback" not in text


def test_doctor_names_the_cure_without_an_adapter():
    text = run("import rfb_gpu; rfb_gpu.doctor()", **NO_ADAPTER)
    assert "adapter:   none" in text
    assert "sudo apt-get install mesa-vulkan-drivers" in text
    assert "Traceback" not in text


PYGFX = """
import pygfx
from rfb_gpu import NoAdapterError, RenderCanvas
try:
    RenderCanvas()
except NoAdapterError as error:
    print("said:", error)
"""

WGPU = """
from rfb_gpu import NoAdapterError, RenderCanvas
canvas = RenderCanvas()
canvas.get_context("bitmap")
print("bitmap: fine")
canvas = RenderCanvas()
try:
    canvas.get_context("wgpu")
except NoAdapterError as error:
    print("said:", error)
"""


@pytest.mark.parametrize("code", [PYGFX, WGPU])
def test_canvases_name_the_cure_without_an_adapter(code):
    text = run(code, **NO_ADAPTER)
    assert "said: no graphics adapter was found: install a Vulkan driver" in text
    assert "mesa-vulkan-drivers" in text
    if code is WGPU:
        assert "bitmap: fine" in text, "NumPy frames need no adapter"


def test_an_unbuilt_front_end_names_the_cure(monkeypatch, tmp_path):
    monkeypatch.setattr(diagnostics, "BUNDLE", tmp_path / "widget.js")
    assert diagnostics.find_bundle() is None
    assert any("make setup" in problem for problem in diagnostics.report()["problems"])


def test_codecs_need_neither_front_end_nor_notebook():
    text = run(
        "import sys, rfb_gpu\nrfb_gpu.JpegEncoder\n"
        "print('anywidget' in sys.modules, 'ipywidgets' in sys.modules)\n"
    )
    assert text.strip() == "False False"
