"""Takes the gallery's pictures: runs each notebook, and keeps the last picture that its canvases send.

    .venv/bin/python -m scripts.take_gallery [NAME ...]

They go to docs/pictures/, as the files that the canvas made where these are small, else as JPEG.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import pathlib
import tempfile

from PIL import Image

MOST_BYTES = 100_000
PICTURES = pathlib.Path(__file__).parents[1] / "docs" / "pictures"


def take_picture(name: str) -> None:
    """Run one notebook; canvases beside each other make one picture."""
    from tests.gpu import notebooks

    async def main() -> list[tuple[str, bytes, tuple[int, int]]]:
        pages = await notebooks.run(name)
        for page in pages:
            page.canvas.close()
        last = [(page.frames[-1], page.size) for page in pages]
        return [(message["codec"], bytes(file), size) for (message, file), size in last]

    taken = asyncio.run(main())
    for old in PICTURES.glob(f"{name}.*"):
        old.unlink()
    images = [Image.open(io.BytesIO(file)).convert("RGB") for _, file, _ in taken]
    if len(taken) == 1 and len(taken[0][1]) < MOST_BYTES and images[0].size == taken[0][2]:
        codec, file, _ = taken[0]
        (PICTURES / f"{name}.{codec.replace('jpeg', 'jpg')}").write_bytes(file)
        return
    # As the page does: few pixels are shown large.
    sizes = [size for _, _, size in taken]
    images = [image.resize(size, Image.Resampling.NEAREST) for image, size in zip(images, sizes, strict=True)]
    gap = 8
    width = sum(image.width + gap for image in images) - gap
    whole = Image.new("RGB", (width, max(image.height for image in images)), "white")
    x = 0
    for image in images:
        whole.paste(image, (x, 0))
        x += image.width + gap
    whole.save(PICTURES / f"{name}.jpg", quality=85)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        PICTURES.mkdir(exist_ok=True)
        notebooks_folder = PICTURES.parents[1] / "notebooks"
        for each in parser.parse_args().names or sorted(f.stem for f in notebooks_folder.glob("*.ipynb")):
            take_picture(each)
