"""Renders off screen to a film, without a single raw pixel leaving the GPU.

    python examples/record_mjpeg.py waves.mjpeg --frames 120

The film is a file of JPEGs, one after the other ("motion JPEG"): ffmpeg and most players take it as it is, for example
``ffplay -framerate 30 waves.mjpeg``. A target that ends in ``.jpg`` gets a file per frame, ``waves.0000.jpg`` and so on.
While a frame is drawn, the one before is encoded and the one before that is read.
"""

from __future__ import annotations

import argparse
import struct
from collections import deque
from pathlib import Path

import wgpu

from rfb_gpu import EncodedFrame, JpegEncoder

WAVES = """
@group(0) @binding(0) var<uniform> time: f32;

@vertex
fn corner(@builtin(vertex_index) i: u32) -> @builtin(position) vec4f {
    return vec4f(f32(i & 1u) * 4.0 - 1.0, f32(i >> 1u) * 4.0 - 1.0, 0.0, 1.0);
}

@fragment
fn waves(@builtin(position) at: vec4f) -> @location(0) vec4f {
    let a = sin(distance(at.xy, vec2f(200.0, 150.0)) * 0.05 - time);
    let b = sin(distance(at.xy, vec2f(900.0, 500.0)) * 0.03 + time * 0.7);
    return vec4f(0.5 + 0.5 * a, 0.5 + 0.25 * (a + b), 0.5 + 0.5 * b, 1.0);
}
"""


def record(target: Path, frames: int, width: int, height: int, quality: int) -> None:
    """Writes ``frames`` pictures of moving waves."""
    device = wgpu.utils.get_default_device()
    # What an encoder needs of a texture: that a shader may read it.
    texture = device.create_texture(
        size=(width, height, 1),
        format="rgba8unorm-srgb",
        usage=wgpu.TextureUsage.RENDER_ATTACHMENT | wgpu.TextureUsage.TEXTURE_BINDING,
    )
    module = device.create_shader_module(code=WAVES)
    pipeline = device.create_render_pipeline(
        layout="auto",
        vertex={"module": module, "entry_point": "corner"},
        fragment={"module": module, "entry_point": "waves", "targets": [{"format": texture.format}]},
    )
    time = device.create_buffer(size=16, usage=wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_DST)
    group = device.create_bind_group(
        layout=pipeline.get_bind_group_layout(0), entries=[{"binding": 0, "resource": time}]
    )
    view = texture.create_view()

    encoder = JpegEncoder(device, quality=quality)
    in_flight = deque()
    written = 0

    def write(frame: EncodedFrame) -> None:
        nonlocal written
        if target.suffix == ".jpg":
            target.with_suffix(f".{written:04}.jpg").write_bytes(bytes(frame))
        else:
            with target.open("ab" if written else "wb") as film:
                film.write(bytes(frame))
        written += 1

    for i in range(frames):
        device.queue.write_buffer(time, 0, struct.pack("4f", i / 10, 0, 0, 0))
        commands = device.create_command_encoder()
        draw = commands.begin_render_pass(
            color_attachments=[{"view": view, "load_op": "clear", "store_op": "store"}]
        )
        draw.set_pipeline(pipeline)
        draw.set_bind_group(0, group)
        draw.draw(3)
        draw.end()
        device.queue.submit([commands.finish()])
        # Returns at once: the texture may be drawn to again, the encoder reads it in the queue's order.
        in_flight.append(encoder.encode(texture))
        if len(in_flight) == 3:
            write(in_flight.popleft().result())
    while in_flight:
        write(in_flight.popleft().result())
    encoder.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", type=Path)
    parser.add_argument("--frames", type=int, default=120)
    parser.add_argument("--size", default="1280x720", help="WIDTHxHEIGHT")
    parser.add_argument("--quality", type=int, default=85)
    options = parser.parse_args()
    record(options.target, options.frames, *map(int, options.size.split("x")), options.quality)
