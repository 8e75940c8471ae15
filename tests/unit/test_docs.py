"""The site of docs/: it builds without a warning, needs nothing from elsewhere, and shows the whole gallery."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from tests.conftest import HERE

REPOSITORY = HERE.parent
PUBLIC = ("RenderCanvas", "RemoteFrameBuffer", "JpegEncoder", "JpegDecoder", "PngEncoder", "PngDecoder")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


def text_of(site, page):
    return (site / page / "index.html").read_text(encoding="utf-8")


def test_the_api_is_there_with_its_arguments(site):
    api = text_of(site, "api")
    for name in PUBLIC:
        assert f'id="rfb_gpu.{name}"' in api
    assert 'id="rfb_gpu.RenderCanvas.flush"' in api, "methods of the class below"
    assert "<code>lossless_delay</code>" in api
    plain = re.sub(r"<[^>]+>", "", api)
    assert not re.search(r":(class|meth|attr|func|mod):", plain), "Sphinx's roles are shown as code"


def test_pages_load_nothing_from_elsewhere(site):
    for file in site.rglob("*.html"):
        html = file.read_text(encoding="utf-8")
        loaded = re.findall(
            r'<(?:script|img|link rel="(?:stylesheet|preconnect)")[^>]*(?:src|href)="(https?:[^"]+)"', html
        )
        assert not loaded, file


def test_the_gallery_has_every_notebook_with_a_small_picture(site):
    gallery = text_of(site, "gallery")
    for notebook in (REPOSITORY / "notebooks").glob("*.ipynb"):
        assert f"notebooks/{notebook.name}" in gallery
        title = "".join(json.loads(notebook.read_text(encoding="utf-8"))["cells"][0]["source"]).splitlines()[
            0
        ]
        assert title.removeprefix("# ") in gallery
        (picture,) = re.findall(rf'src="\.\./(pictures/{notebook.stem}\.(?:png|jpg))"', gallery)
        assert 1000 < (site / picture).stat().st_size < 100_000
