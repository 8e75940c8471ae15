"""``python -m rfb_gpu doctor``."""

from __future__ import annotations

import argparse

from .diagnostics import doctor


def main() -> None:
    """Runs the command that is named on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m rfb_gpu", description="A remote-framebuffer canvas for notebooks."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="print versions, adapter, encoder, and the cure for what is missing")
    parser.parse_args()
    doctor()


if __name__ == "__main__":
    main()
