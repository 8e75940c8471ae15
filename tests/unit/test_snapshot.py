"""A snapshot in a notebook that has become a page."""

from __future__ import annotations

import pytest
from bs4 import BeautifulSoup
from nbconvert import HTMLExporter
from nbformat import v4

from rfb_gpu.snapshot import as_output


@pytest.mark.parametrize("template", ["classic", "lab"])
def test_nbconvert_shows_it_with_its_size_and_its_text(template):
    data, metadata = as_output(b"a file", 320.4, 240, 'A <cube> & "more"')
    output = v4.new_output("display_data", data, metadata=metadata)
    page, _ = HTMLExporter(template_name=template).from_notebook_node(
        v4.new_notebook(cells=[v4.new_code_cell("canvas.snapshot()", outputs=[output])])
    )
    (image,) = BeautifulSoup(page, "html.parser").select("img")
    assert image["src"] == "data:image/png;base64,YSBmaWxl"
    assert (image["width"], image["height"]) == ("320", "240")
    if template == "classic":  # that of JupyterLab's looks does not read it
        assert image["alt"] == 'A <cube> & "more"'
