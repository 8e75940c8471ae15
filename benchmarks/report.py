"""The README's performance section and its plot, from what the benchmarks wrote.

    python -m benchmarks.report            # the section, in place
    python -m benchmarks.report --plot     # the plot as well; needs matplotlib

``docs/measured/`` holds the results: ``*-notebook.json`` of :mod:`benchmarks.notebook` and ``*-link.json`` of
:mod:`benchmarks.link`, without what is of no use later (console output, each frame's time). A test holds the section to them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
MEASURED = REPOSITORY / "docs" / "measured"
README = REPOSITORY / "README.md"
PLOT = REPOSITORY / "docs" / "performance.svg"
BEGIN, END = "<!-- made by python -m benchmarks.report -->\n", "<!-- end -->\n"

NAMES = {
    "rfb_gpu": "rfb_gpu",
    "rendercanvas": "rendercanvas.anywidget",
    "jupyter_rfb": "jupyter_rfb",
}
SIZES = {"3840x2160": "4K", "1920x1080": "1080p"}


def load(name: str) -> dict[str, Any]:
    """A file of docs/measured."""
    content: dict[str, Any] = json.loads((MEASURED / f"{name}.json").read_text())
    return content


def cases(results: Sequence[Mapping[str, Any]]) -> list[tuple[str, dict[str, Mapping[str, Any]]]]:
    """Results by case, in the order in which they were measured; of each case by backend."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for result in results:
        case = f"{SIZES.get(result['size'], result['size'])} {result['scene']}"
        found.setdefault(case, {})[result["backend"]] = result
    return list(found.items())


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """As Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def notebook_table(results: Sequence[Mapping[str, Any]]) -> str:
    """Frames per second, time from a draw until its picture is shown, and how long the event loop is held."""
    rows = []
    for case, of in cases(results):
        ours, peer = of["rfb_gpu"], of["rendercanvas"]
        three = [of[backend] for backend in NAMES]
        rows.append(
            [
                case,
                *(f"{result['fps']:.1f}" for result in three),
                f"{ours['fps'] / peer['fps']:.1f}",
                ", ".join(f"{result['shown50']:.0f}" for result in three),
                ", ".join(f"{result['held95']:.1f}" for result in three),
            ]
        )
    head = [
        "JupyterLab",
        *(f"{name}, frames/s" for name in NAMES.values()),
        "ratio to the second",
        "draw to shown, ms",
        "event loop held, 95 %, ms",
    ]
    return table(head, rows)


def link_table(results: Sequence[Mapping[str, Any]]) -> str:
    """A thin link: from an input to the picture that shows it."""
    of = {result["backend"]: result["rows"] for result in results}
    rows = [
        [
            ours["phase"],
            f"{ours['shown50']:.0f}",
            f"{peer['shown50']:.0f}",
            f"{ours['fps']:.0f}",
            f"{peer['fps']:.0f}",
        ]
        for ours, peer in zip(of["rfb_gpu"], of["rendercanvas"], strict=True)
    ]
    names = [NAMES[backend] for backend in ("rfb_gpu", "rendercanvas")]
    head = [
        "link, each way",
        *(f"{name}, ms" for name in names),
        *(f"{name}, frames/s" for name in names),
    ]
    return table(head, rows)


def section() -> str:
    """The section's text."""
    notebook, link = load("h200-notebook"), load("h200-link")
    adapter = notebook["results"][0]["kernel_adapter"].split(" (")[0]
    return f"""JupyterLab and Chromium on one {adapter}, a 60 Hz display, continuous drawing, quality 80, all in one run:

{notebook_table(notebook["results"])}

Shown, and held, are of the three in their order. Shown: from the beginning of a draw until the page gives the picture to the
screen; ours is the median, the other two's a mean, without the download of the pixels, which they do not count. Held: how late a
task comes on the kernel's event loop, the draw itself (3 to 8 ms) and all other work there included.

![Frames per second, and input to picture on a thin link](docs/performance.svg)

A drag on a canvas of {link["results"][0]["size"]} over a thin link, median time from a move until a picture shows it:

{link_table(link["results"])}
"""


def with_section(readme: str) -> str:
    """The README with the section renewed."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{section()}\n{END}{after}"


def plot() -> None:
    """Draws the plot."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "rfb_gpu"
    from matplotlib import pyplot

    colours = {"rfb_gpu": "#1769aa", "rendercanvas": "#b0b7bf", "jupyter_rfb": "#d9dde1"}
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.2), width_ratios=(3, 2))
    notebook = cases(load("h200-notebook")["results"])
    for i, backend in enumerate(NAMES):
        bars = left.bar(
            [case + 0.27 * (i - 1) for case in range(len(notebook))],
            [of[backend]["fps"] for _, of in notebook],
            0.25,
            label=NAMES[backend],
            color=colours[backend],
        )
        left.bar_label(bars, fmt="%.0f", fontsize=8)
    left.set_xticks(range(len(notebook)), [case for case, _ in notebook])
    left.set_title("frames per second", fontsize=10)
    left.set_ylim(0, 78)
    left.legend(fontsize=8, ncols=3, frameon=False, loc="upper center")
    link = {result["backend"]: result["rows"] for result in load("h200-link")["results"]}
    for i, (backend, rows) in enumerate(link.items()):
        bars = right.bar(
            [phase + 0.37 * (i - 0.5) for phase in range(len(rows))],
            [row["shown50"] for row in rows],
            0.35,
            color=colours[backend],
        )
        right.bar_label(bars, fmt="%.0f", fontsize=8)
    phases = [row["phase"].rsplit(",", 1)[0].replace(", ", "\n") for row in link["rfb_gpu"]]
    right.set_xticks(range(len(phases)), phases)
    right.set_title("input to picture on a thin link, ms", fontsize=10)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=9)
    figure.tight_layout()
    figure.savefig(PLOT, metadata={"Date": None})


def main() -> None:
    """Renews the README."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plot", action="store_true", help="draw the plot as well")
    if parser.parse_args().plot:
        plot()
    README.write_text(with_section(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
