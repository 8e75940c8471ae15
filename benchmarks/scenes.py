"""The five pygfx scenes that the benchmarks draw; the same pictures in every run.

* ``scatter``: 200,000 coloured points of 4 pixels on white.
* ``lines``: 24 lines of 4,000 vertices and 30 text labels, on white.
* ``mesh``: a torus knot with Phong shading on a gradient.
* ``volume``: the maximum intensity projection of a volume of 128^3, in viridis.
* ``image``: a noisy image of 1024^2, in plasma.

``python -m benchmarks.scenes FOLDER`` writes them there as PNG files.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pygfx as gfx
import wgpu
from numpy.typing import NDArray
from rendercanvas.offscreen import OffscreenRenderCanvas

__all__ = ["SCENES", "make_renderer", "make_scene", "render_to_array", "render_to_texture"]

Animate = Callable[[float], None]
Scene = tuple[gfx.Scene, gfx.Camera, Animate]

SEED = 20260101


def make_renderer(canvas: object, is_smooth: bool = False) -> gfx.WgpuRenderer:
    """A renderer that draws each pixel once: no supersampling, no antialiasing pass. Or, smooth, one as pygfx has it by default:
    there are many more colours at edges then.
    """
    return gfx.WgpuRenderer(canvas) if is_smooth else gfx.WgpuRenderer(canvas, pixel_scale=1, ppaa="none")


def make_scene(name: str) -> Scene:
    """The scene, its camera, and a function that moves something a little, by the time in seconds."""
    return _MAKERS[name](np.random.default_rng(SEED))


def render_to_array(
    name: str, width: int, height: int, time: float = 0.0, *, is_smooth: bool = False
) -> NDArray[np.uint8]:
    """The picture of a scene as an RGBA array of shape (height, width, 4)."""
    canvas = OffscreenRenderCanvas(size=(width, height), pixel_ratio=1.0)
    try:
        renderer = make_renderer(canvas, is_smooth)
        scene, camera, animate = make_scene(name)
        animate(time)
        canvas.request_draw(lambda: renderer.render(scene, camera))
        # Some things, text for example, are complete in the second picture.
        canvas.draw()
        return np.ascontiguousarray(canvas.draw())
    finally:
        canvas.close()


def render_to_texture(device: wgpu.GPUDevice, name: str, width: int, height: int) -> wgpu.GPUTexture:
    """The picture of a scene as a texture of any device, in the format that pygfx's canvases have."""
    usage = wgpu.TextureUsage
    texture = device.create_texture(
        label=name,
        size=(width, height, 1),
        format="rgba8unorm-srgb",
        usage=usage.RENDER_ATTACHMENT | usage.TEXTURE_BINDING | usage.COPY_SRC | usage.COPY_DST,
    )
    device.queue.write_texture(
        {"texture": texture},
        render_to_array(name, width, height),
        {"bytes_per_row": 4 * width, "rows_per_image": height},
        (width, height, 1),
    )
    return texture


def _scatter(rng: np.random.Generator) -> Scene:
    count, clusters = 200_000, 12
    centres = rng.uniform((-1.4, -0.75), (1.4, 0.75), (clusters, 2))
    member = rng.integers(clusters, size=count)
    positions = np.zeros((count, 3), np.float32)
    positions[:, :2] = (
        centres[member] + rng.normal(size=(count, 2)) * rng.uniform(0.02, 0.08, clusters)[member, None]
    )
    colours = np.ones((count, 4), np.float32)
    colours[:, :3] = np.clip(
        rng.uniform(0.05, 0.9, (clusters, 3))[member] + rng.normal(0, 0.05, (count, 3)), 0, 1
    )
    points = gfx.Points(
        gfx.Geometry(positions=positions, colors=colours),
        gfx.PointsMaterial(size=4, color_mode="vertex"),
    )
    camera = gfx.OrthographicCamera(3.55, 2)

    def animate(t: float) -> None:
        points.local.rotation = (0, 0, np.sin(t / 2), np.cos(t / 2))

    return _on_white(points), camera, animate


def _lines(rng: np.random.Generator) -> Scene:
    lines, vertices, labels = 24, 4_000, 30
    group = gfx.Group()
    x = np.linspace(-1.7, 1.7, vertices, dtype=np.float32)
    for row, level in enumerate(np.linspace(-0.9, 0.9, lines)):
        y = 0.08 * np.sin(x * rng.uniform(4, 20) + rng.uniform(0, 6)) + np.cumsum(
            rng.normal(0, 0.0006, vertices)
        )
        positions = np.stack([x, level + y, np.zeros_like(x)], 1).astype(np.float32)
        group.add(
            gfx.Line(
                gfx.Geometry(positions=positions),
                gfx.LineMaterial(thickness=2, color=gfx.Color.from_hsv(row / lines, 0.9, 0.7)),
            )
        )
    for number in range(labels):
        label = gfx.Text(
            text=f"label {number}: {rng.normal():+.3f} mV",
            material=gfx.TextMaterial(color="#000", aa=True),
            font_size=18,
            screen_space=True,
        )
        label.local.position = (rng.uniform(-1.5, 1.5), rng.uniform(-0.9, 0.9), 1)
        group.add(label)
    camera = gfx.OrthographicCamera(3.55, 2)

    def animate(t: float) -> None:
        group.local.x = 0.05 * np.sin(t)

    return _on_white(group), camera, animate


def _mesh(rng: np.random.Generator) -> Scene:
    knot = gfx.Mesh(
        gfx.torus_knot_geometry(1, 0.3, 256, 48),
        gfx.MeshPhongMaterial(color="#e07a2f", shininess=60),
    )
    light = gfx.DirectionalLight()
    light.local.position = (1, 2, 3)
    scene = gfx.Scene()
    scene.add(gfx.Background.from_color("#f4f6fa", "#5f7394"), gfx.AmbientLight(), light, knot)
    camera = gfx.PerspectiveCamera(45)
    camera.show_object(knot, view_dir=(-1, -0.6, -1.5), scale=1.2)

    def animate(t: float) -> None:
        knot.local.rotation = (0, np.sin(t / 2), 0, np.cos(t / 2))

    return scene, camera, animate


def _volume(rng: np.random.Generator) -> Scene:
    side, blobs = 128, 40
    axis = np.linspace(-1, 1, side, dtype=np.float32)
    grid = rng.uniform(0, 0.25, (side, side, side)).astype(np.float32)
    for _ in range(blobs):
        width = rng.uniform(0.04, 0.16)
        # The Gaussian of a distance is a product of one for each axis.
        z, y, x = (np.exp(-(((axis - c) / width) ** 2)) for c in rng.uniform(-0.7, 0.7, 3))
        grid += rng.uniform(0.3, 0.9) * z[:, None, None] * y[:, None] * x
    volume = gfx.Volume(
        gfx.Geometry(grid=gfx.Texture(grid, dim=3)),
        gfx.VolumeMipMaterial(clim=(0, 1), map=gfx.cm.viridis),
    )
    volume.local.position = (-(side - 1) / 2,) * 3  # turns about its centre
    turning = gfx.Group()
    turning.add(volume)
    scene = gfx.Scene()
    scene.add(gfx.Background.from_color("#000"), turning)
    camera = gfx.PerspectiveCamera(45)
    camera.show_object((0, 0, 0, 0.87 * side), view_dir=(-1, -0.5, -1), scale=0.75)

    def animate(t: float) -> None:
        turning.local.rotation = (0, np.sin(t / 2), 0, np.cos(t / 2))

    return scene, camera, animate


def _image(rng: np.random.Generator) -> Scene:
    side = 1024
    y, x = np.mgrid[0:side, 0:side].astype(np.float32) / side
    pixels = 0.5 + 0.3 * np.sin(9 * x + 4 * y) * np.cos(7 * y - 2 * x) + rng.normal(0, 0.03, (side, side))
    image = gfx.Image(
        gfx.Geometry(grid=gfx.Texture(pixels.astype(np.float32), dim=2)),
        gfx.ImageBasicMaterial(clim=(0, 1), map=gfx.cm.plasma),
    )
    image.local.position = (-side / 2, -side / 2, 0)
    # Nearly the whole image is seen, and hardly anything but the image.
    camera = gfx.OrthographicCamera(side, side)
    camera.zoom = 1.2

    def animate(t: float) -> None:
        image.local.x = -side / 2 + 20 * np.sin(t)

    scene = gfx.Scene()
    scene.add(gfx.Background.from_color("#111"), image)
    return scene, camera, animate


def _on_white(content: gfx.WorldObject) -> gfx.Scene:
    scene = gfx.Scene()
    scene.add(gfx.Background.from_color("#fff"), content)
    return scene


_MAKERS: dict[str, Callable[[np.random.Generator], Scene]] = {
    "scatter": _scatter,
    "lines": _lines,
    "mesh": _mesh,
    "volume": _volume,
    "image": _image,
}

SCENES: tuple[str, ...] = tuple(_MAKERS)


def main() -> None:
    """Writes the pictures."""
    from PIL import Image

    parser = argparse.ArgumentParser(description="Write the benchmarks' scenes as PNG files.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", default="640x360", help="WIDTHxHEIGHT")
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in SCENES:
        Image.fromarray(render_to_array(name, width, height)).save(options.folder / f"{name}.png")


if __name__ == "__main__":
    main()
