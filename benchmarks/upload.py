"""What feeding a texture costs the thread that draws, and how many bytes a second get through: six tables, for any adapter.

    python -m benchmarks.upload --json upload.json
    python -m benchmarks.upload --size 960x540 --fps 30        # without a GPU

The first four tables: a scene with a picture in it is drawn at ``--fps``, and the picture is fed with whole frames at the same
rate. All ways take turns of ``--frames`` frames, ``--rounds`` times. ``draw`` is the time of one draw on the thread that draws
(median and 95th percentile, in ms); ``longest`` is the median, over the turns, of a turn's longest one, once beside the peer's, and
once as what it is longer than without any upload, beside the same of the peer's. ``put`` is the time in ``put()`` on the thread
that calls it. Where, and what counts as the draw:

* *script*: there is no canvas and no event loop. A draw begins with ``flush(wait=False)``, whose time is the draw's, and the script
  waits for the GPU after each.
* *canvas*: an ``rfb_gpu.RenderCanvas`` asks for draws, as a user has it, encodes them, and a page acknowledges them at once (there
  is no browser). The draw is the user's draw function. ``held`` is for how long, a frame, the canvas's event loop was kept from
  waiting by anything else: by the encoding, which is there without an upload as well, and by the stream. A frame may be recorded
  and another one before the next draw.
* *live canvas*: likewise, on a thread of its own.
* *wgpu*: a script without pygfx, whose draw is one render pass that shows the picture. What feeds it is nearly all of the draw.

The ways:

* ``none``: the picture stays.
* ``set_data``: the peer, pygfx's own: ``texture.set_data(frame)``, which the draw then uploads. Without pygfx the peer is
  ``write_texture``, wgpu's own.
* ``stream``: a thread calls ``TextureStream.put`` with frames that nobody can write to, and the oldest is dropped where no buffer
  is free.
* ``copied``: likewise with frames that may change at once, so that ``put()`` copies them.
* ``4 streams``, ``16 streams``: the frame in so many parts, each a texture with a stream of its own.

The fifth table: uploads one after the other, as fast as they go, until the GPU has the last one. ``ms`` is that of one, median
of the rounds; ``of write_buffer`` is the throughput as a part of what ``queue.write_buffer`` and an empty submission have with the
same bytes. Streams fill two layers by turns, or else they would skip what is overwritten before it is shown. The sixth: from
``put()`` until the upload is recorded, for arrays that lie differently in memory.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pygfx as gfx
import wgpu
from numpy.typing import NDArray
from pygfx.renderers.wgpu import get_shared

from benchmarks.scenes import make_renderer, make_scene
from rfb_gpu import RenderCanvas, TextureStream
from rfb_gpu.flow import PROTOCOL_VERSION

Array = NDArray[np.uint8]
USAGE = wgpu.TextureUsage.COPY_DST | wgpu.TextureUsage.TEXTURE_BINDING


def make_frames(width: int, height: int, count: int = 4) -> list[Array]:
    """Different ones, which nobody can write to."""
    rng = np.random.default_rng(1)
    frames = [rng.integers(0, 256, (height, width, 4), np.uint8) for _ in range(count)]
    for frame in frames:
        frame.flags.writeable = False
    return frames


class Gpu:
    """The device that pygfx draws with, and a way to wait for it."""

    def __init__(self) -> None:
        self.device: wgpu.GPUDevice = get_shared().device
        self._probe = self.device.create_buffer(size=4, usage=wgpu.BufferUsage.COPY_SRC)

    def wait(self) -> None:
        """Until all that was submitted is done."""
        self.device.queue.read_buffer(self._probe)

    def texture(self, width: int, height: int, layers: int = 1) -> wgpu.GPUTexture:
        """Of RGBA."""
        return self.device.create_texture(size=(width, height, layers), format="rgba8unorm", usage=USAGE)


# ----- drawing meanwhile


class Way:
    """One way to feed the picture of the scene: what is done before each draw, and beside it."""

    name = "none"

    def __init__(self, frames: list[Array]) -> None:
        self.frames = frames
        self.forget()
        self.textures = self.make_textures()

    def forget(self) -> None:
        """Begins to measure."""
        self.samples: dict[str, list[float]] = {"draw": [], "held": [], "put": []}
        self.longest: list[float] = []
        self.seconds = 0.0
        self.draws = self.recorded = 0

    def make_textures(self) -> list[gfx.Texture]:
        """Those that the picture is made of, from top to bottom."""
        return [gfx.Texture(self.frames[0], dim=2)]

    def before_draw(self, number: int) -> None:
        """On the thread that draws; its time is the draw's."""

    def put(self, number: int) -> None:
        """On another thread, once a frame."""

    def close(self) -> None:
        """Gives back what it has."""


class SetData(Way):
    """pygfx's own."""

    name = "set_data"

    def before_draw(self, number: int) -> None:
        self.textures[0].set_data(self.frames[number % len(self.frames)])
        self.recorded += 1


def raw_textures(gpu: Gpu, frames: list[Array]) -> list[Any]:
    """What :meth:`Way.make_textures` gives where there is no pygfx."""
    height, width = frames[0].shape[:2]
    return [gpu.texture(width, height)]


class Raw(Way):
    """Of textures without pygfx. As it is, the picture stays."""

    def __init__(self, frames: list[Array], gpu: Gpu) -> None:
        self.gpu = gpu
        super().__init__(frames)

    def make_textures(self) -> list[Any]:
        return raw_textures(self.gpu, self.frames)


class WriteTexture(Raw):
    """wgpu's own."""

    name = "write_texture"

    def before_draw(self, number: int) -> None:
        texture, frame = self.textures[0], self.frames[number % len(self.frames)]
        layout = {"bytes_per_row": 4 * texture.size[0], "rows_per_image": texture.size[1]}
        self.gpu.device.queue.write_texture({"texture": texture}, frame, layout, texture.size)
        self.recorded += 1


class Streamed(Way):
    """Ours; to a texture without pygfx if ``gpu`` is given."""

    def __init__(
        self,
        frames: list[Array],
        canvas: RenderCanvas | None,
        buffers: int = 2,
        *,
        parts: int = 1,
        copied: bool = False,
        gpu: Gpu | None = None,
    ) -> None:
        self.gpu = gpu
        self.name = f"{parts} streams" if parts > 1 else f"stream, buffers={buffers}"
        self.name += ", copied" if copied else ""
        self.parts = parts
        super().__init__(frames)
        self.has_loop = canvas is not None
        self.streams = [
            TextureStream(texture, buffers, canvas=canvas, policy="drop_oldest") for texture in self.textures
        ]
        self.sources = [np.array_split(np.array(frame) if copied else frame, parts) for frame in frames]
        self.futures: list[Any] = []

    def make_textures(self) -> list[Any]:
        if self.gpu is not None:
            return raw_textures(self.gpu, self.frames)
        parts = np.array_split(self.frames[0], self.parts)
        return [gfx.Texture(dim=2, size=(p.shape[1], p.shape[0]), format="4xu1") for p in parts]

    def before_draw(self, number: int) -> None:
        if not self.has_loop:
            for stream in self.streams:
                stream.flush(wait=False)

    def put(self, number: int) -> None:
        source = self.sources[number % len(self.sources)]
        futures = [stream.put(part) for stream, part in zip(self.streams, source, strict=True)]
        futures[-1].add_done_callback(self._count)

    def _count(self, future: Any) -> None:
        self.recorded += not future.cancelled()

    def close(self) -> None:
        for stream in self.streams:
            stream.close()


def make_ways(frames: list[Array], canvas: RenderCanvas | None) -> list[Way]:
    """All of them."""
    return [
        Way(frames),
        SetData(frames),
        *(Streamed(frames, canvas, buffers) for buffers in (2, 3)),
        Streamed(frames, canvas, copied=True),
        *(Streamed(frames, canvas, parts=parts) for parts in (4, 16)),
    ]


class Drawing:
    """A torus knot behind the picture, drawn by a script."""

    def __init__(self, gpu: Gpu, frames: list[Array], target: Any) -> None:
        self.gpu = gpu
        self.ways = make_ways(frames, target if isinstance(target, RenderCanvas) else None)
        self.renderer = make_renderer(target)
        self.scene, self.camera, self.animate = make_scene("mesh")
        self.groups = [self.picture(way.textures) for way in self.ways]
        self.scene.add(*self.groups)

    @staticmethod
    def picture(textures: list[gfx.Texture]) -> gfx.Group:
        """Of a width of two."""
        group, y = gfx.Group(), 0
        for texture in textures:
            image = gfx.Image(gfx.Geometry(grid=texture), gfx.ImageBasicMaterial(clim=(0, 255)))
            image.local.y = y
            y += texture.size[1]
            group.add(image)
        group.local.scale = 2 / textures[0].size[0]
        group.local.position = (-1, -0.5, 0)
        return group

    def turn(self, way: Way, frames: int, fps: float) -> None:
        """Draws so many frames, and feeds the picture meanwhile."""
        self.show(way)
        stop = threading.Event()

        def feed() -> None:
            for number in ticks(fps):
                if stop.is_set():
                    return
                began = time.perf_counter()
                way.put(number)
                way.samples["put"].append(time.perf_counter() - began)

        feeder = threading.Thread(target=feed)
        began = time.perf_counter()
        feeder.start()
        draws = self.draw_all(way, frames, fps)
        stop.set()
        feeder.join()
        way.seconds += time.perf_counter() - began
        way.draws += len(draws)
        way.samples["draw"] += draws
        way.longest.append(max(draws))

    def draw_all(self, way: Way, frames: int, fps: float) -> list[float]:
        """Gives the seconds of each draw."""
        draws = []
        for number in itertools.islice(ticks(fps), frames):
            draws.append(self.draw(way, number, fps))
            self.gpu.wait()
        return draws

    def draw(self, way: Way, number: int, fps: float) -> float:
        """Seconds."""
        began = time.perf_counter()
        way.before_draw(number)
        self.render(number / fps)
        return time.perf_counter() - began

    def show(self, way: Way) -> None:
        """The picture of one way, from now on."""
        for group, other in zip(self.groups, self.ways, strict=True):
            group.visible = other is way

    def render(self, seconds: float) -> None:
        """The scene, so long after its beginning."""
        self.animate(seconds)
        self.renderer.render(self.scene, self.camera)


class WgpuDrawing(Drawing):
    """The picture in one render pass, without pygfx."""

    SHADER = """
        @group(0) @binding(0) var picture: texture_2d<f32>;
        @group(0) @binding(1) var linear: sampler;
        struct Corner { @builtin(position) position: vec4f, @location(0) uv: vec2f }
        @vertex fn corner(@builtin(vertex_index) index: u32) -> Corner {
            let uv = vec2f(f32(index & 1u), f32(index >> 1u)) * 2.0;
            return Corner(vec4f(uv * 2.0 - 1.0, 0.0, 1.0), uv);
        }
        @fragment fn shade(@location(0) uv: vec2f) -> @location(0) vec4f { return textureSample(picture, linear, uv); }
    """

    def __init__(self, gpu: Gpu, frames: list[Array], size: tuple[int, int]) -> None:
        self.gpu, device = gpu, gpu.device
        streamed = [Streamed(frames, None, buffers, gpu=gpu) for buffers in (2, 3)]
        self.ways = [
            Raw(frames, gpu),
            WriteTexture(frames, gpu),
            *streamed,
            Streamed(frames, None, copied=True, gpu=gpu),
        ]
        module = device.create_shader_module(code=self.SHADER)
        self.pipeline = device.create_render_pipeline(
            layout="auto",
            vertex={"module": module, "entry_point": "corner"},
            primitive={"topology": "triangle-list"},
            fragment={"module": module, "entry_point": "shade", "targets": [{"format": "rgba8unorm"}]},
        )
        self.target = device.create_texture(
            size=(*size, 1), format="rgba8unorm", usage=wgpu.TextureUsage.RENDER_ATTACHMENT
        ).create_view()
        sampler, layout = device.create_sampler(min_filter="linear"), self.pipeline.get_bind_group_layout(0)
        self.groups = [
            device.create_bind_group(
                layout=layout,
                entries=[
                    {"binding": 0, "resource": way.textures[0].create_view()},
                    {"binding": 1, "resource": sampler},
                ],
            )
            for way in self.ways
        ]

    def show(self, way: Way) -> None:
        self.group = self.groups[self.ways.index(way)]

    def render(self, seconds: float) -> None:
        commands = self.gpu.device.create_command_encoder()
        attachment = {"view": self.target, "load_op": "clear", "store_op": "store"}
        render = commands.begin_render_pass(color_attachments=[attachment])
        render.set_pipeline(self.pipeline)
        render.set_bind_group(0, self.group)
        render.draw(3)
        render.end()
        self.gpu.device.queue.submit([commands.finish()])


class CanvasDrawing(Drawing):
    """The same, drawn by a canvas when its loop asks for it. Made and used while an event loop runs."""

    def __init__(
        self, gpu: Gpu, frames: list[Array], size: tuple[int, int], fps: float, *, live: bool
    ) -> None:
        self.canvas = RenderCanvas(live=live, update_mode="continuous", max_fps=fps)
        loop: Any = asyncio.get_running_loop() if not live else self.canvas._rfb_live_loop._native
        self.idle = Idle(loop._selector)
        super().__init__(gpu, frames, self.canvas)
        Page(self.canvas).open(*size)

    async def turn_there(self, way: Way, frames: int, fps: float) -> None:
        """:meth:`turn`, while this thread runs its loop."""
        await asyncio.to_thread(self.turn, way, frames, fps)

    def draw_all(self, way: Way, frames: int, fps: float) -> list[float]:
        draws: list[float] = []
        done = threading.Event()
        began, idle = 0.0, 0.0

        def draw() -> None:
            nonlocal began, idle
            if not draws:
                began, idle = time.perf_counter(), self.idle.seconds
            if len(draws) < frames:
                draws.append(self.draw(way, len(draws), fps))
            elif not done.is_set():
                busy = time.perf_counter() - began - (self.idle.seconds - idle)
                way.samples["held"].append((busy - sum(draws)) / frames)
                done.set()

        self.canvas.request_draw(draw)
        done.wait()
        return draws


class Idle:
    """Counts the seconds for which an event loop has nothing to do."""

    def __init__(self, selector: Any) -> None:
        self.seconds = 0.0
        select = selector.select

        def count(timeout: float | None = None) -> Any:
            began = time.perf_counter()
            events = select(timeout)
            self.seconds += time.perf_counter() - began
            return events

        selector.select = count


class Page:
    """Looks at a canvas and acknowledges each frame at once."""

    def __init__(self, canvas: RenderCanvas) -> None:
        self.canvas, self.numbers = canvas, itertools.count()
        send = canvas.send

        def receive(message: dict[str, Any], buffers: Any = None) -> None:
            send(message, buffers)
            if message["type"] == "frame":
                self.say(type="ack", frame=message["id"], received=1, shown=1)

        canvas.send = receive

    def open(self, width: int, height: int) -> None:
        """Begins to look."""
        self.say(type="hello", version=PROTOCOL_VERSION, dpr=1.0, capabilities={})
        size = {"width": width, "height": height, "pwidth": width, "pheight": height, "ratio": 1}
        self.say(type="event", event={"type": "resize", "timestamp": 0.0, **size})
        self.say(type="visibility", visible=True)

    def say(self, **message: Any) -> None:
        """In order."""
        self.canvas._handle_custom_msg({"view": "page", "epoch": 1, "seq": next(self.numbers), **message}, [])


def ticks(fps: float) -> Iterator[int]:
    """Numbers, each when it is time for it; behind time, at once, without catching up."""
    due = time.perf_counter()
    for number in itertools.count():
        time.sleep(max(due - time.perf_counter(), 0))
        yield number
        due = max(due + 1 / fps, time.perf_counter())


def measure_script(gpu: Gpu, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The first table's rows."""
    target = gfx.Texture(dim=2, size=(*options.draw, 1), format="rgba8unorm")
    drawing = Drawing(gpu, make_frames(*options.size), target)
    for way, frames in turns(drawing.ways, options):
        drawing.turn(way, frames, options.fps)
    return drawing_rows(drawing.ways)


def measure_wgpu(gpu: Gpu, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The fourth table's rows."""
    drawing = WgpuDrawing(gpu, make_frames(*options.size), options.draw)
    for way, frames in turns(drawing.ways, options):
        drawing.turn(way, frames, options.fps)
    return drawing_rows(drawing.ways)


async def measure_canvas(gpu: Gpu, options: argparse.Namespace, *, live: bool) -> list[dict[str, Any]]:
    """The second and third table's rows."""
    drawing = CanvasDrawing(gpu, make_frames(*options.size), options.draw, options.fps, live=live)
    for way, frames in turns(drawing.ways, options):
        await drawing.turn_there(way, frames, options.fps)
    rows = drawing_rows(drawing.ways)
    drawing.canvas.close()
    await asyncio.sleep(0.1)  # for what is under way
    return rows


def turns(ways: list[Way], options: argparse.Namespace) -> Iterator[tuple[Way, int]]:
    """All ways by turns, with so many frames."""
    for _ in range(2):  # compiles, and makes what is made once
        yield from ((way, 10) for way in ways)
    for way in ways:
        way.forget()
    for _ in range(options.rounds):
        yield from ((way, options.frames) for way in ways)


def drawing_rows(ways: list[Way]) -> list[dict[str, Any]]:
    """What was measured."""
    rows = []
    for way in ways:
        way.close()
        row: dict[str, Any] = {"way": way.name, "longest": 1000 * statistics.median(way.longest)}
        row |= {
            "recorded_per_second": way.recorded / way.seconds,
            "draws_per_second": way.draws / way.seconds,
        }
        for name, values in way.samples.items():
            if values:
                row[name] = 1000 * statistics.median(values)
                row[f"{name}95"] = 1000 * float(np.percentile(values, 95))
                row[f"{name}_longest"] = 1000 * max(values)
        rows.append(row)
    return rows


# ----- one after the other


class Throughput:
    """Uploads of one size, by everything that uploads."""

    def __init__(self, gpu: Gpu, width: int, height: int, streams: int = 1) -> None:
        self.gpu = gpu
        self.frames = make_frames(width, height, 2)
        self.nbytes = self.frames[0].nbytes
        self.size = width, height
        self.samples: dict[str, list[float]] = {}
        device = gpu.device
        self.buffer = device.create_buffer(size=self.nbytes, usage=wgpu.BufferUsage.COPY_DST)
        self.texture = gpu.texture(width, height)
        self.ways: dict[str, Callable[[int], None]] = {
            "write_buffer": self.write_buffer,
            "write_texture": self.write_texture,
        }
        self.streams: list[TextureStream] = []
        for buffers in (2, 3, -1) if streams == 1 else (2,):
            made = [TextureStream(gpu.texture(width, height, 2), buffers) for _ in range(streams)]
            self.streams += made
            self.ways[f"{streams} stream{'s' * (streams > 1)}, buffers={buffers}"] = self.putter(made)
        if streams == 1:
            self.ways["1 stream, buffers=2, copied"] = self.putter(self.streams[:1], copied=True)

    def write_buffer(self, number: int) -> None:
        queue = self.gpu.device.queue
        queue.write_buffer(self.buffer, 0, self.frames[number % 2])
        queue.submit([])

    def write_texture(self, number: int) -> None:
        queue, (width, height) = self.gpu.device.queue, self.size
        layout = {"bytes_per_row": 4 * width, "rows_per_image": height}
        queue.write_texture({"texture": self.texture}, self.frames[number % 2], layout, (width, height, 1))
        queue.submit([])

    def putter(self, streams: list[TextureStream], *, copied: bool = False) -> Callable[[int], None]:
        """Puts to one stream after the other."""
        frames = [np.array(frame) for frame in self.frames] if copied else self.frames

        def put(number: int) -> None:
            layer = number // len(streams) % 2
            streams[number % len(streams)].put(frames[number % 2], origin=(0, 0, layer))

        return put

    def round(self, count: int) -> None:
        """One sample of everything: seconds for one upload."""
        for name, upload in self.ways.items():
            self.gpu.wait()
            began = time.perf_counter()
            for number in range(count):
                upload(number)
            for stream in self.streams:
                stream.flush()
            self.gpu.wait()
            self.samples.setdefault(name, []).append((time.perf_counter() - began) / count)

    def rows(self) -> list[dict[str, Any]]:
        """Of the fifth table."""
        seconds = {name: statistics.median(values) for name, values in self.samples.items()}
        plain = seconds["write_buffer"]
        return [
            {
                "way": name,
                "bytes": self.nbytes,
                "ms": 1000 * value,
                "gigabytes_per_second": self.nbytes / value / 1e9,
                "of_write_buffer": plain / value,
            }
            for name, value in seconds.items()
        ]

    def close(self) -> None:
        """Gives everything back."""
        for stream in self.streams:
            stream.close()
        self.buffer.destroy()


def measure_throughput(gpu: Gpu, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The fifth table's rows."""
    width, height = options.size
    rows = []
    for part, streams in ((64, 1), (16, 1), (4, 1), (1, 1), (1, 4), (1, 16)):
        case = Throughput(gpu, width, max(height // part, 1), streams)
        count = max(options.uploads, 2 * streams)
        case.round(count)
        case.samples = {}
        for _ in range(options.rounds):
            case.round(count)
        rows += case.rows()
        case.close()
    return rows


def measure_layouts(gpu: Gpu, options: argparse.Namespace) -> list[dict[str, Any]]:
    """How long one upload takes from put() until it is recorded, by how the array lies in memory."""
    width, height = options.size
    rng = np.random.default_rng(1)
    whole = rng.integers(0, 256, (2 * height, width, 4), np.uint8)
    arrays = {
        "contiguous": whole[:height],
        "every second row": whole[::2],
        "mirrored": whole[:height, ::-1],
        "RGB for RGBA": np.ascontiguousarray(whole[:height, :, :3]),
        "planes": np.ascontiguousarray(whole[:height].transpose(2, 0, 1)).transpose(1, 2, 0),
    }
    samples: dict[str, list[float]] = {name: [] for name in arrays}
    with TextureStream(gpu.texture(width, height)) as stream:
        for _ in range(options.rounds + 2):
            for name, array in arrays.items():
                gpu.wait()
                began = time.perf_counter()
                stream.put(array, copy=False).result()
                samples[name].append(time.perf_counter() - began)
    plain = statistics.median(samples["contiguous"][2:])
    return [
        {
            "array": name,
            "ms": 1000 * statistics.median(values[2:]),
            "ratio": statistics.median(values[2:]) / plain,
        }
        for name, values in samples.items()
    ]


# ----- tables


def table(head: list[str], rows: list[list[str]]) -> str:
    """As Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rows])


def drawing_table(rows: list[dict[str, Any]]) -> str:
    """With what counts: how much longer a draw is than without, and the longest one, beside the peer's."""
    none, peer = rows[0], rows[1]
    more_of_peer = peer["longest"] - none["longest"]
    head = [
        "way",
        "draw, ms",
        "more than none",
        "longest",
        f"of {peer['way']}'s",
        "more than none's longest, of its",
        "held, ms",
        "put, ms",
        "recorded/s, draws/s",
    ]
    lines = []
    for row in rows:
        is_ours = row is not none and row is not peer
        lines.append(
            [
                row["way"],
                f"{row['draw']:.2f}, {row['draw95']:.2f}",
                f"{row['draw'] - none['draw']:+.2f}" if row is not none else "",
                f"{row['longest']:.2f}",
                f"{row['longest'] / peer['longest']:.2f}",
                f"{(row['longest'] - none['longest']) / more_of_peer:.2f}" if is_ours else "",
                f"{row['held']:.2f}" if "held" in row else "",
                f"{row['put']:.2f}, {row['put95']:.2f}" if is_ours else "",
                f"{row['recorded_per_second']:.0f}, {row['draws_per_second']:.0f}" if row is not none else "",
            ]
        )
    return table(head, lines)


def throughput_table(rows: list[dict[str, Any]]) -> str:
    """By size and number of streams."""
    head = ["way", "MB", "ms", "GB/s", "of write_buffer"]
    return table(
        head,
        [
            [
                row["way"],
                f"{row['bytes'] / 1e6:.2f}",
                f"{row['ms']:.2f}",
                f"{row['gigabytes_per_second']:.2f}",
                f"{row['of_write_buffer']:.2f}",
            ]
            for row in rows
        ],
    )


def layouts_table(rows: list[dict[str, Any]]) -> str:
    """Beside a contiguous array."""
    lines = [[row["array"], f"{row['ms']:.2f}", f"{row['ratio']:.2f}"] for row in rows]
    return table(["array", "put() until recorded, ms", "of contiguous"], lines)


def parse_size(text: str) -> tuple[int, int]:
    """WIDTHxHEIGHT."""
    width, height = map(int, text.split("x"))
    return width, height


def main() -> None:
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--size", type=parse_size, default=(3840, 2160), help="of the frames; default 3840x2160"
    )
    parser.add_argument(
        "--draw", type=parse_size, default=(1920, 1080), help="of the drawn picture; default 1920x1080"
    )
    parser.add_argument("--fps", type=float, default=60)
    parser.add_argument("--frames", type=int, default=60, help="in a turn")
    parser.add_argument("--uploads", type=int, default=12, help="in a sample of the throughput")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    gpu = Gpu()
    info = gpu.device.adapter.info
    facts = {"adapter": dict(info), "wgpu": wgpu.__version__, "pygfx": gfx.__version__}
    print(f"adapter: {info['device']}, wgpu {wgpu.__version__}, pygfx {gfx.__version__}\n")
    drawing = {
        "script": measure_script(gpu, options),
        "canvas": asyncio.run(measure_canvas(gpu, options, live=False)),
        "live canvas": asyncio.run(measure_canvas(gpu, options, live=True)),
        "wgpu": measure_wgpu(gpu, options),
    }
    for name, rows in drawing.items():
        print(f"{name}:\n\n{drawing_table(rows)}", end="\n\n")
    throughput = measure_throughput(gpu, options)
    print(throughput_table(throughput), end="\n\n")
    layouts = measure_layouts(gpu, options)
    print(layouts_table(layouts))
    if options.json:
        facts |= {"size": options.size, "fps": options.fps}
        facts |= {"drawing": drawing, "throughput": throughput, "layouts": layouts}
        options.json.write_text(json.dumps(facts, indent=1, default=str))


if __name__ == "__main__":
    main()
