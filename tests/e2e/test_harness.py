"""The harness itself: a stand-in canvas, painted by WebGPU, shows that the tests see and do what a person would.

If these fail, so does every other end-to-end test, and the reason is the machine or the harness, not the package.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.e2e import harness

# The same elements and attributes as the real canvas: green from WebGPU, with a blue corner at the top left.
STAND_IN = '''
import anywidget, traitlets

class StandIn(anywidget.AnyWidget):
    _esm = """
    async function paint(canvas, frame) {
        const adapter = await navigator.gpu?.requestAdapter()
        if (!adapter) { canvas.dataset.state = 'no adapter'; return }
        const device = await adapter.requestDevice()
        const context = canvas.getContext('webgpu')
        context.configure({ device, format: 'rgba8unorm', alphaMode: 'opaque', usage: 0x12 })
        const encoder = device.createCommandEncoder()
        const texture = context.getCurrentTexture()
        encoder.beginRenderPass({ colorAttachments: [{ view: texture.createView(),
            clearValue: [0, 1, 0, 1], loadOp: 'clear', storeOp: 'store' }] }).end()
        const corner = device.createTexture({ size: [16, 16], format: 'rgba8unorm', usage: 0x3 })
        device.queue.writeTexture({ texture: corner }, new Uint8Array(1024).map((_, i) => i % 4 < 2 ? 0 : 255),
            { bytesPerRow: 64 }, [16, 16])
        encoder.copyTextureToTexture({ texture: corner }, { texture }, [16, 16])
        device.queue.submit([encoder.finish()])
        await device.queue.onSubmittedWorkDone()
        canvas.dataset.rfbDecoder = 'webgpu'
        canvas.dataset.rfbFrame = frame
        canvas.dataset.rfbFinal = 'true'
    }
    export default { render({ model, el }) {
        el.innerHTML = `<div class="renderview-wrapper"
                style="position: relative; display: inline-block; margin-left: 7.3px">
            <div class="rfb-gpu-view"><canvas class="rfb-gpu-canvas" style="display: block"></canvas></div>
            <div class="renderview-resizer"
                style="position: absolute; right: 0; bottom: 0; width: 12px; height: 12px"></div></div>`
        const canvas = el.querySelector('canvas'), resizer = el.querySelector('.renderview-resizer')
        const size = (w, h) => {
            canvas.width = w * devicePixelRatio; canvas.height = h * devicePixelRatio
            canvas.style.width = w + 'px'; canvas.style.height = h + 'px'
        }
        size(160, 120)
        paint(canvas, 0)
        let from = null
        resizer.onpointerdown = e => { from = e; resizer.setPointerCapture(e.pointerId) }
        resizer.onlostpointercapture = e => {
            size(160 + e.clientX - from.clientX, 120 + e.clientY - from.clientY); paint(canvas, 1)
        }
        for (const kind of ['pointerdown', 'pointermove', 'pointerup'])
            canvas.addEventListener(kind, e => model.send({ kind, x: e.offsetX, y: e.offsetY, buttons: e.buttons }))
    } }
    """

    def __init__(self):
        super().__init__()
        self.events = []
        self.on_msg(lambda widget, content, buffers: self.events.append(content))

stand_in = StandIn()
'''

GREEN = (0, 255, 0)
BLUE = (0, 0, 255)


def assert_painted(picture: harness.Picture) -> None:
    assert not harness.is_blank(picture)
    expected = np.empty_like(picture)
    expected[:] = GREEN
    expected[:16, :16] = BLUE
    np.testing.assert_array_equal(picture, expected)


@pytest.mark.parametrize("device_scale_factor", [1.5])
def test_screenshot_is_what_webgpu_painted(notebook, device_scale_factor):
    book = notebook([STAND_IN, "stand_in"])
    book.run_all()
    canvas = book.canvas()
    assert canvas.wait_final() == 0
    assert canvas.decoder == "webgpu"
    width, height = int(160 * device_scale_factor), int(120 * device_scale_factor)
    assert canvas.size == (width, height)
    picture = canvas.screenshot()
    assert picture.shape == (height, width, 3)
    assert_painted(picture)


def test_mouse_kernel_and_reload(notebook):
    book = notebook([STAND_IN, "stand_in", "print('printed', 6 * 7)"])
    book.run_all()
    canvas = book.canvas()
    canvas.wait_final()
    assert book.output_text(2) == "printed 42\n"

    canvas.drag((0.25, 0.5), (0.75, 0.5), steps=4)
    book.kernel.wait_for("any(e['kind'] == 'pointerup' for e in stand_in.events)")
    events = book.kernel.value("stand_in.events")
    down = next(e for e in events if e["kind"] == "pointerdown")
    up = next(e for e in events if e["kind"] == "pointerup")
    assert (down["x"], down["y"]) == pytest.approx((40, 60), abs=1)
    assert (up["x"], up["y"]) == pytest.approx((120, 60), abs=1)
    assert sum(e["kind"] == "pointermove" and e["buttons"] == 1 for e in events) >= 3

    canvas.resize_by(40, 20)
    canvas.wait_size(200, 140)
    assert canvas.wait_frame(after=0) == 1
    assert_painted(canvas.screenshot())

    assert book.kernel.run("1 + 1") == "2"
    np.testing.assert_array_equal(book.kernel.array("__import__('numpy').arange(3)"), [0, 1, 2])
    with pytest.raises(harness.KernelError, match="ZeroDivisionError"):
        book.kernel.run("1 / 0")

    book.save()
    assert "printed 42" in book.file.read_text()
    book.reload()
    assert canvas.wait_final() == 0
    assert_painted(canvas.screenshot())
    assert book.kernel.value("len(stand_in.events)") >= len(events)


def test_a_cell_that_raises_fails_the_test(shared_notebook):
    book = shared_notebook(["1 / 0"])
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        book.run_all()


def test_psnr():
    black = np.zeros((4, 4, 3), np.uint8)
    assert harness.psnr(black, black) == math.inf
    assert harness.psnr(black, black + 1) == pytest.approx(48.13, abs=0.01)
    with pytest.raises(ValueError, match="shapes"):
        harness.psnr(black, black[:2])
