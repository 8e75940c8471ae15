"""What is here and what runs: adapters, versions, encoders, and the cure for what is missing.

:func:`doctor` prints it all; the canvas uses parts of it. Changes nothing, but for an environment variable that graphics drivers on
Linux ask for.
"""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ._version import __version__

__all__ = ["NoAdapterError", "doctor", "find_adapter", "find_bundle", "report"]

_PACKAGES = (
    "wgpu",
    "rendercanvas",
    "pygfx",
    "fastplotlib",
    "anywidget",
    "ipywidgets",
    "ipykernel",
    "simplejpeg",
    "numpy",
)
_FRONT_ENDS = ("jupyterlab", "notebook", "marimo")

# Features that make the encoder or its measurements better where they are there; none is needed.
_FEATURES = {
    "subgroup": "subgroups",
    "timestamp-query": "GPU timings",
    "mappable-primary-buffers": "reading without a copy",
}

# What kernels find in their environment, and what that tells. A terminal of VS Code hands its variables to a Jupyter server too.
_UNDER = (
    (("VSCODE_PID", "VSCODE_CWD"), "VS Code"),
    (("JUPYTERHUB_USER", "JUPYTERHUB_SERVICE_PREFIX"), "JupyterHub"),
    (("SSH_CONNECTION",), "SSH"),
    (("CODESPACES",), "GitHub Codespaces"),
)

BUNDLE = Path(__file__).parent / "static" / "widget.js"
STYLE = BUNDLE.with_suffix(".css")

CURE = {
    "linux": "install a Vulkan driver, e.g. on Debian or Ubuntu without a GPU: sudo apt-get install mesa-vulkan-drivers",
    "darwin": "wgpu needs a Mac with Metal",
    "win32": "update the graphics driver; wgpu needs DirectX 12 or Vulkan",
}


class NoAdapterError(RuntimeError):
    """wgpu finds nothing that it could draw with."""

    def __init__(self) -> None:
        cure = CURE.get(sys.platform, "install a driver for Vulkan, Metal or DirectX 12")
        super().__init__(
            f"no graphics adapter was found: {cure}. Then restart the kernel; python -m rfb_gpu doctor tells more."
        )


@cache
def _request_adapter() -> Any:
    import wgpu

    try:
        return wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    except RuntimeError:
        return None


def find_adapter() -> Any | None:
    """The adapter that wgpu gives by default, or None; asked for once per process."""
    if sys.platform == "linux":
        # Without it the driver's loader prints an error, into a cell's output in a notebook.
        os.environ.setdefault("XDG_RUNTIME_DIR", "/tmp")
    return _request_adapter()


def find_bundle() -> Path | None:
    """The built front end, or None in a checkout where it was not built yet."""
    return BUNDLE if BUNDLE.is_file() and STYLE.is_file() else None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def front_end_host() -> str:
    """What kind of program this Python runs in, as far as one can tell from inside."""
    if "marimo" in sys.modules:
        import marimo

        if marimo.running_in_notebook():
            return "marimo"
    if "google.colab" in sys.modules:
        return "Colab"
    if "IPython" in sys.modules:
        from IPython import get_ipython

        shell = get_ipython()
        if shell is not None and shell.__class__.__name__ == "ZMQInteractiveShell":
            under = [name for variables, name in _UNDER if any(each in os.environ for each in variables)]
            where = f" under {' and '.join(under)}" if under else ""
            return f"Jupyter kernel{where} (the page tells which front end when a canvas is shown)"
        if shell is not None:
            return "IPython in a terminal"
    return "plain Python, no notebook"


def _roads() -> str:
    """By which roads frames can come to a page on another machine than the kernel's."""
    proxy = _version("jupyter-server-proxy")
    if proxy is None:
        return "the notebook's own channel; a websocket only to pages on this machine (no jupyter-server-proxy here)"
    return f"the notebook's own channel, or a websocket through jupyter-server-proxy {proxy} if the server has it too"


def report() -> dict[str, Any]:
    """The facts that :func:`doctor` prints: ``system``, ``host``, ``roads``, ``packages``, ``adapter``, ``features``, ``encoder``,
    ``front_end``, ``problems`` (each with its cure), ``canvases`` (what the pages of live canvases told).
    """
    facts: dict[str, Any] = {
        "system": f"{platform.platform()}, Python {platform.python_version()}",
        "host": front_end_host(),
        "roads": _roads(),
        "packages": {"rfb_gpu": __version__}
        | {name: found for name in (*_PACKAGES, *_FRONT_ENDS) if (found := _version(name))},
        "adapter": None,
        "features": {},
        "encoder": None,
        "front_end": None,
        "problems": [],
        "canvases": [],
    }
    adapter = find_adapter()
    if adapter is None:
        facts["problems"].append(str(NoAdapterError()))
    else:
        info = adapter.info
        is_cpu = info["adapter_type"].upper() == "CPU"
        facts["adapter"] = (
            f"{info['device']} ({info['adapter_type']}, {info['backend_type']}; {info['description']})"
        )
        facts["features"] = {what: name in adapter.features for name, what in _FEATURES.items()}
        facts["encoder"] = (
            "simplejpeg on the CPU, because the adapter is a CPU (encoder='gpu' forces the shaders)"
            if is_cpu
            else "JPEG on the GPU"
        )
        if is_cpu:
            facts["problems"].append(
                "rendering runs on the CPU, which is slow: if this machine has a GPU, its Vulkan driver is missing"
            )
    bundle = find_bundle()
    facts["front_end"] = f"{bundle} ({bundle.stat().st_size} bytes)" if bundle else None
    if bundle is None:
        facts["problems"].append(
            "the front end is not built: run `make setup` in the checkout, or install the wheel"
        )
    if (canvas_module := sys.modules.get("rfb_gpu.canvas")) is not None:
        for canvas in canvas_module.loop.get_canvases():
            if isinstance(canvas, canvas_module.StreamingCanvas):
                facts["canvases"].append(canvas.describe())
    return facts


def doctor() -> None:
    """Prints what runs here and why, and the cure for what is missing; made to be pasted into a bug report."""
    facts = report()
    print(f"system:    {facts['system']}")
    print(f"host:      {facts['host']}")
    print(f"roads:     {facts['roads']}")
    print(f"packages:  {', '.join(f'{name} {v}' for name, v in facts['packages'].items())}")
    print(f"adapter:   {facts['adapter'] or 'none'}")
    for what, there in facts["features"].items():
        print(f"           {'with' if there else 'without'} {what}")
    print(f"encoder:   {facts['encoder'] or 'none'}")
    print(f"front end: {facts['front_end'] or 'not built'}")
    for line in facts["canvases"]:
        print(f"canvas:    {line}")
    for problem in facts["problems"]:
        print(f"problem:   {problem}")
    if not facts["problems"]:
        print("All is well.")
