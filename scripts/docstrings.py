"""For the site: docstrings are written with Sphinx's roles, which Markdown does not know."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Roles(griffe.Extension):
    """Shows ``:class:`.codecs.JpegEncoder``` as code, and takes one colon off before a block of code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for each module, class, function and attribute."""
        if obj.docstring is not None:
            text = re.sub(r":\w+:`[~.]*([^`]+)`", r"`\1`", obj.docstring.value)
            obj.docstring.value = re.sub(r"::$", ":", text, flags=re.MULTILINE)
