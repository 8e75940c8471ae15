"""A scene on a plain web page, without a notebook.

    python examples/serve_scene.py

Open the address that it prints. A second page with the same address watches, and may take control.
"""

from __future__ import annotations

import argparse

import pygfx as gfx

import rfb_gpu

canvas = rfb_gpu.RenderCanvas(title="A torus knot")
renderer = gfx.WgpuRenderer(canvas)
scene = gfx.Scene()
knot = gfx.Mesh(gfx.torus_knot_geometry(1, 0.3, 128, 32), gfx.MeshPhongMaterial(color="#e07a2f"))
scene.add(gfx.Background.from_color("#f4f6fa", "#5f7394"), gfx.AmbientLight(), gfx.DirectionalLight(), knot)
camera = gfx.PerspectiveCamera(45)
camera.show_object(knot)
controller = gfx.OrbitController(camera, register_events=renderer)
canvas.request_draw(lambda: renderer.render(scene, camera))

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=8000)
    rfb_gpu.serve(canvas, port=parser.parse_args().port)
