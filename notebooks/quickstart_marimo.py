# Open with: marimo edit notebooks/quickstart_marimo.py

import marimo

app = marimo.App()


@app.cell
def _():
    import marimo as mo

    mo.md("""
    # rfb_gpu in two minutes

    The canvas below is drawn by the GPU of the machine that runs this kernel. Each frame is encoded there, sent through the
    notebook's own channel, and decoded by the GPU of the machine that you look at. Drag to turn the knot, scroll to come closer
    (click the canvas first), pull its lower right corner to resize it. When it rests, the picture is replaced by a lossless one.
    """)
    return (mo,)


@app.cell
def _():
    import pygfx as gfx

    from rfb_gpu import RenderCanvas

    canvas = RenderCanvas(size=(640, 480), title="Torus knot", update_mode="ondemand")
    # No supersampling, no antialiasing pass: this notebook shall also run where there is no GPU.
    renderer = gfx.WgpuRenderer(canvas, pixel_scale=1, ppaa="none")

    scene = gfx.Scene()
    scene.add(gfx.Background.from_color("#f4f6fa", "#8fa3c4"))
    light = gfx.DirectionalLight()
    light.local.position = (1, 2, 3)
    scene.add(gfx.AmbientLight(), light)
    knot = gfx.Mesh(
        gfx.torus_knot_geometry(1, 0.3, 128, 32), gfx.MeshPhongMaterial(color="#e07a2f", shininess=60)
    )
    scene.add(knot)

    camera = gfx.PerspectiveCamera(45)
    camera.show_object(knot, view_dir=(-1, -0.6, -1.5), scale=1.2)
    controller = gfx.OrbitController(camera, register_events=renderer)

    canvas.request_draw(lambda: renderer.render(scene, camera))
    canvas
    return canvas, controller, knot


@app.cell
def _(mo):
    mo.md("""Change something and ask for a draw: the canvas above follows, whichever cell does it.""")
    return


@app.cell
def _(canvas, knot):
    knot.material.color = "#2f8fe0"
    canvas.request_draw()
    return


@app.cell
def _(mo):
    mo.md("""What runs here, and why. Paste this into a bug report.""")
    return


@app.cell
def _():
    import rfb_gpu

    rfb_gpu.doctor()
    return


if __name__ == "__main__":
    app.run()
