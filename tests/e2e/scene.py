"""What the kernels of the end-to-end tests draw: imported there, not by the tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pygfx as gfx
import wgpu

from rfb_gpu import RenderCanvas
from rfb_gpu.codecs import EncodedFrame
from rfb_gpu.threads import live_group


def make(size: tuple[int, int] = (320, 240), colour: str = "#e07a2f", **options: Any) -> RenderCanvas:
    """A canvas with a lit cube on a gradient that follows the mouse; ``canvas.draws`` counts its draws.

    With ``update_mode="continuous"`` the cube turns by itself: what stays the same is not sent.
    """
    canvas = RenderCanvas(size=size, **options)
    renderer = gfx.WgpuRenderer(canvas, pixel_scale=1, ppaa="none")
    scene = gfx.Scene()
    light = gfx.DirectionalLight()
    light.local.position = (1, 2, 3)
    cube = gfx.Mesh(gfx.box_geometry(1, 1, 1), gfx.MeshPhongMaterial(color=colour))
    scene.add(gfx.Background.from_color("#f4f6fa", "#5f7394"), gfx.AmbientLight(), light, cube)
    camera = gfx.PerspectiveCamera(45)
    camera.show_object(cube, view_dir=(-1, -0.7, -1.6), scale=1.3)
    controller = gfx.OrbitController(camera, register_events=renderer)
    canvas.draws = 0

    def draw() -> None:
        canvas.draws += 1
        if options.get("update_mode") == "continuous":
            cube.local.rotation = (0, np.sin(canvas.draws / 40), 0, np.cos(canvas.draws / 40))
        renderer.render(scene, camera)

    canvas.request_draw(draw)
    canvas.parts = renderer, scene, cube, camera, controller
    return canvas


def make_frames() -> Any:
    """A widget of jupyter_rfb's kind that shows a texture with noise, a new one for each frame."""
    from rfb_gpu import RemoteFrameBuffer

    class Frames(RemoteFrameBuffer):
        def get_frame(self) -> wgpu.GPUTexture:
            device = gfx.renderers.wgpu.get_shared().device
            usage = (
                wgpu.TextureUsage.TEXTURE_BINDING | wgpu.TextureUsage.COPY_SRC | wgpu.TextureUsage.COPY_DST
            )
            texture = device.create_texture(size=(64, 48, 1), format="rgba8unorm", usage=usage)
            noise = np.random.default_rng(0).integers(0, 256, (48, 64, 4), np.uint8)
            layout = {"bytes_per_row": 4 * 64, "rows_per_image": 48}
            device.queue.write_texture({"texture": texture}, noise, layout, (64, 48, 1))
            return texture

    return Frames(css_width="64px", css_height="48px", encoder="gpu")


class Space:
    """An output of some height, which puts others out of sight."""

    def _repr_html_(self) -> str:
        return "<div style='height: 500px'></div>"


def close_all() -> None:
    """Closes every canvas of the kernel."""
    for group in (RenderCanvas._rc_canvas_group, live_group()):
        for canvas in group.get_canvases():
            canvas.close()


def pixels(canvas: RenderCanvas) -> np.ndarray:
    """What the kernel rendered last, RGB, read back from the canvas's texture."""
    texture = canvas._canvas_context._texture
    width, height = texture.size[:2]
    data = texture._device.queue.read_texture(
        {"texture": texture}, {"bytes_per_row": width * 4}, (width, height, 1)
    )
    return np.frombuffer(data, np.uint8).reshape(height, width, 4)[..., :3]


def looks_in(size: tuple[int, int]) -> np.ndarray:
    """What the scene looks like in a window of that size, before anybody has turned it."""
    canvas = make()
    canvas._size_info.set_physical_size(*size, 1)
    canvas.force_draw()
    picture = pixels(canvas).copy()
    canvas.close()
    return picture


def send_file(canvas: RenderCanvas, file: bytes, width: int, height: int) -> None:
    """Send a JPEG file from elsewhere to all pages, as the canvas sends its own frames."""
    frame = EncodedFrame(file, width, height, "jpeg", quality=95, subsampling="444")
    for audience in canvas._rfb_audiences:
        audience.last_lossy = frame  # or the canvas would think that pages still have its own
        audience.deliver(frame, final=False)
