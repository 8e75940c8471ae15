"""``python -m rfb_gpu doctor`` and ``python -m rfb_gpu serve module:canvas``."""

from __future__ import annotations

import argparse
import importlib
import operator
import sys
from pathlib import Path
from typing import Any

from .diagnostics import doctor


def main() -> None:
    """Runs the command that is named on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m rfb_gpu", description="A remote-framebuffer canvas for notebooks."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="print versions, adapter, encoder, and the cure for what is missing")
    serve = commands.add_parser("serve", help="show a canvas on a web page, until Ctrl-C")
    serve.add_argument("canvas", help="module:canvas or file.py:canvas; names with dots are followed")
    serve.add_argument("--host", default="127.0.0.1", help="the address to listen on (%(default)s)")
    serve.add_argument("--port", type=int, default=8000, help="0: the system chooses one (%(default)s)")
    serve.add_argument("--token", help="what the page's address must name (a new one each time)")
    options = parser.parse_args()
    if options.command == "doctor":
        doctor()
        return
    from .server import serve as serve_canvas

    try:
        canvas = _load(options.canvas)
    except _NotFound as error:
        parser.error(str(error))
    try:
        serve_canvas(canvas, host=options.host, port=options.port, token=options.token)
    except (ImportError, OSError, TypeError, ValueError) as error:
        parser.error(str(error))


class _NotFound(Exception):
    pass


def _load(target: str) -> Any:
    """What ``module:name`` or ``file.py:name`` names."""
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise _NotFound(f"{target!r} names no canvas: say module:canvas or file.py:canvas")
    if place.endswith(".py"):
        file = Path(place)
        if not file.is_file():
            raise _NotFound(f"there is no file {place}")
        sys.path.insert(0, str(file.resolve().parent))
        place = file.stem
    try:
        module = importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name != place:
            raise  # one that it imports
        raise _NotFound(f"there is no module {place}") from None
    try:
        return operator.attrgetter(name)(module)
    except AttributeError as error:
        raise _NotFound(f"{place} has no {name} ({error})") from None


if __name__ == "__main__":
    main()
