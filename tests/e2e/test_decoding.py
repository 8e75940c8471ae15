"""What the built front end does with frames, in a real browser but without a notebook: the test is the kernel.

The truth is libjpeg-turbo's decoding of the file (Pillow's); what is compared with it is what the canvas holds.
"""

from __future__ import annotations

import base64

import numpy as np
import pytest
import simplejpeg

from rfb_gpu import JpegEncoder, PngEncoder
from rfb_gpu.codecs.jpeg.bitstream import SUBSAMPLINGS as ENCODED
from tests.e2e import harness
from tests.e2e.widget_page import WidgetPage, as_file, closing, with_pillow
from tests.gpu.helpers import texture_of

DECODERS = ["webgpu", "browser"]
BOTH_DECODERS = pytest.mark.parametrize("decoder", DECODERS)

# How far our decoder's picture may be from libjpeg's, by subsampling: peak signal-to-noise ratio in dB.
SUBSAMPLINGS = {"444": 55.0, "422": 38.0, "420": 38.0, "gray": 55.0}
SIZES = [(1, 1), (7, 5), (333, 777), (4097, 3)]


SPY_ON_SIZES = """
const { set, ...rest } = Object.getOwnPropertyDescriptor(HTMLCanvasElement.prototype, 'width')
globalThis.sizesSet = 0
Object.defineProperty(HTMLCanvasElement.prototype, 'width', { ...rest, set(value) {
    if (this.classList.contains('rfb-gpu-canvas')) sizesSet += 1
    set.call(this, value)
} })
"""
"""Counts how often the canvas is given a size."""


@pytest.fixture(scope="module")
def open_page(browsers):
    """`open_page(decoder)`: a page for many tests, which show their frames one after another."""
    pages: dict[str, WidgetPage] = {}

    def page(decoder: str) -> WidgetPage:
        if decoder not in pages:
            pages[decoder] = WidgetPage(browsers(1.0), decoder, before=SPY_ON_SIZES)
        return pages[decoder]

    yield page
    logged = [line for page in pages.values() for line in page.console]
    for page in pages.values():
        page.close()
    assert logged == []


def picture(width: int, height: int, turn: float = 0.0) -> harness.Picture:
    """Slow waves in all three channels; no two of their pixels can be swapped unseen."""
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / 29 + y / 17 + turn), np.sin(x / 41 - y / 23), np.cos(x / 31 + turn)]
    return np.stack([127 + 120 * wave for wave in waves], -1).astype(np.uint8)


def our_file(device, image: harness.Picture, subsampling: str = "444", quality: int = 90) -> bytes:
    """A file by our own encoder; of what that does not make, one by libjpeg-turbo that our decoder takes."""
    if subsampling not in ENCODED:
        gray = subsampling == "gray"
        options = {} if gray else {"subsampling": f"4:{subsampling[1]}:{subsampling[2]}"}
        return as_file(image[..., 0] if gray else image, quality=quality, restart_marker_rows=1, **options)
    return encoded(device, image, JpegEncoder(device, quality, subsampling))


def our_png(device, image: harness.Picture) -> bytes:
    return encoded(device, image, PngEncoder(device))


def encoded(device, image: harness.Picture, encoder: JpegEncoder | PngEncoder) -> bytes:
    texture = texture_of(device, np.dstack([image, np.full(image.shape[:2], 255, np.uint8)]))
    try:
        return bytes(encoder.encode(texture).result())
    finally:
        encoder.close()
        texture.destroy()


def assert_like_libjpeg(seen: harness.Picture, file: bytes, at_least: float) -> None:
    truth = with_pillow(file)
    assert seen.shape == truth.shape
    assert harness.psnr(seen, truth) >= at_least


# ---- pixels


@BOTH_DECODERS
@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
@pytest.mark.parametrize("width, height", SIZES)
def test_our_files(open_page, device, decoder, subsampling, width, height):
    page = open_page(decoder)
    file = our_file(device, picture(width, height), subsampling)
    if decoder == "webgpu":
        page.show_by_own_decoder(file, width, height)
    else:
        assert page.show(file, width, height), page.badge
    # The browser's is libjpeg-turbo too, but its ways to the screen may round.
    assert_like_libjpeg(page.pixels(), file, SUBSAMPLINGS[subsampling] if decoder == "webgpu" else 48.0)


@BOTH_DECODERS
def test_what_is_read_back_is_what_is_on_the_screen(open_page, device, decoder):
    page = open_page(decoder)
    assert page.show(our_file(device, picture(320, 240)), 320, 240)
    np.testing.assert_array_equal(page.canvas().screenshot(), page.pixels())


FOREIGN_FILES = {
    "progressive": as_file(picture(90, 70), progressive=True, subsampling=0),
    "no restart markers": as_file(picture(90, 70), subsampling=0),
    "4:1:1": simplejpeg.encode_jpeg(picture(90, 70), colorsubsampling="411"),
    "progressive gray": as_file(picture(90, 70)[..., 0], progressive=True),
    "optimised, comment, EXIF": as_file(
        picture(90, 70), optimize=True, comment=b"\xff\xd8", exif=b"Exif\0\0"
    ),
}


@pytest.mark.parametrize("kind", FOREIGN_FILES)
def test_files_that_our_decoder_refuses_are_shown_by_the_browser(open_page, kind):
    page = open_page("webgpu")
    file = FOREIGN_FILES[kind]
    copies = page.page.evaluate("copies")
    assert page.show(file, 90, 70), page.badge
    assert page.page.evaluate("copies") == copies + 1
    assert page.badge == ""
    assert page.canvas().decoder == "webgpu", "the next file is one of ours"
    # Browsers smooth chroma in ways of their own.
    assert_like_libjpeg(page.pixels(), file, 38.0)


@BOTH_DECODERS
def test_png(open_page, decoder):
    page = open_page(decoder)
    image = picture(90, 70)
    assert page.show(as_file(image, "PNG"), 90, 70, codec="png")
    np.testing.assert_array_equal(page.pixels(), image)


@BOTH_DECODERS
def test_our_png_files(open_page, device, decoder):
    """By our own decoder where there is WebGPU: not a number is off, in stripes too, with filters or with a palette."""
    page = open_page(decoder)
    show = page.show_by_own_decoder if decoder == "webgpu" else page.show
    images = picture(150, 130), picture(150, 130) // 64 * 85
    stripes = [(48, 70), (118, 12), (0, 48)]
    for image in images:
        for y, rows in stripes:
            show(our_png(device, image[y : y + rows]), 150, rows, codec="png")  # compiles what is missing
    for image in images:
        show(our_png(device, image), 150, 130, codec="png")
        np.testing.assert_array_equal(page.pixels(), image)
        page.show(our_file(device, picture(150, 130, turn=3)), 150, 130)
        base = page.frame
        for index, (y, rows) in enumerate(stripes):
            part = {"y": y, "rows": rows, "base": base, "index": index}
            copies = page.page.evaluate("copies")
            assert page.show(our_png(device, image[y : y + rows]), 150, 130, codec="png", part=part)
            assert page.page.evaluate("copies") == copies, "not by way of the browser's decoder"
        np.testing.assert_array_equal(page.pixels(), image)
    np.testing.assert_array_equal(page.canvas().screenshot(), image)


@BOTH_DECODERS
def test_a_file_of_another_size_than_its_message_says_is_not_shown(open_page, device, decoder):
    page = open_page(decoder)
    file = our_file(device, picture(64, 48))
    assert page.show(file, 64, 48)
    assert not page.show(file, 65, 48)
    assert "64 x 48 pixels, its message says 65 x 48" in page.badge
    assert page.canvas().size == (64, 48)
    assert page.show(file, 64, 48)
    assert page.badge == ""


# ---- presenting


@BOTH_DECODERS
def test_the_canvas_changes_size_with_the_frame_only(open_page, device, decoder):
    page = open_page(decoder)
    small, large = our_file(device, picture(320, 240)), our_file(device, picture(400, 300))
    assert page.show(large, 400, 300)
    changes = page.page.evaluate("sizesSet")
    for _ in range(3):
        assert page.show(small, 320, 240)
    assert page.page.evaluate("sizesSet") == changes + 1
    # The element grows, as when somebody drags its corner; the frame of the new size is still to come.
    page.set("_css_width", "500px")
    page.page.wait_for_function("() => document.querySelector('.rfb-gpu-view').clientWidth === 500")
    page.page.wait_for_timeout(300)
    assert page.page.evaluate("sizesSet") == changes + 1
    seen = page.canvas().screenshot()
    assert seen.shape == (240, 320, 3), "neither stretched nor cut"
    assert_like_libjpeg(seen, small, 48.0)
    assert page.show(large, 400, 300)
    assert page.page.evaluate("sizesSet") == changes + 2


@BOTH_DECODERS
def test_a_small_picture_fills_the_place_of_a_large_one(open_page, device, decoder):
    """What a thin link gets: fewer pixels, smoothly scaled up to the same size on the screen."""
    page = open_page(decoder)
    whole = picture(320, 240)
    assert page.show(our_file(device, whole), 320, 240)
    assert page.canvas().screenshot().shape == (240, 320, 3)
    half = whole.reshape(120, 2, 160, 2, 3).mean((1, 3)).round().astype(np.uint8)
    assert page.show(our_file(device, half), 160, 120, scale=2)
    assert page.canvas().size == (160, 120)
    seen = page.canvas().screenshot()
    assert seen.shape == (240, 320, 3)
    assert harness.psnr(seen, whole) > 30
    squares = np.repeat(np.repeat(half, 2, 0), 2, 1)
    assert harness.psnr(seen, whole) > harness.psnr(squares, whole), "smoothed, not enlarged pixel by pixel"


@BOTH_DECODERS
def test_stripes_lie_over_the_frame_that_they_build_on(open_page, device, decoder):
    page = open_page(decoder)
    whole = picture(160, 120)
    base = page.frame + 1
    assert page.show(our_file(device, whole), 160, 120)
    for index, (y, rows) in enumerate([(48, 40), (88, 32), (0, 48)]):
        part = {"y": y, "rows": rows, "base": base, "index": index}
        assert page.show(as_file(whole[y : y + rows], "PNG"), 160, 120, codec="png", part=part)
        np.testing.assert_array_equal(page.pixels()[y : y + rows], whole[y : y + rows])
    np.testing.assert_array_equal(page.canvas().screenshot(), whole)
    again = picture(160, 120, turn=3)
    assert page.show(our_file(device, again), 160, 120)
    assert_like_libjpeg(page.canvas().screenshot(), our_file(device, again), 48.0)


@BOTH_DECODERS
@pytest.mark.parametrize("lacks", ["the base", "a part", "the size"])
def test_a_stripe_without_what_it_builds_on_is_refused_in_silence(open_page, device, decoder, lacks):
    page = open_page(decoder)
    whole = picture(160, 120)
    base = page.frame + 1
    assert page.show(our_file(device, whole), 160, 120)
    before = page.pixels()
    part = {"y": 0, "rows": 16, "base": base, "index": 0}
    part |= {"the base": {"base": base + 7}, "a part": {"index": 1}, "the size": {}}[lacks]
    width = 150 if lacks == "the size" else 160
    file = as_file(np.zeros((16, width, 3), np.uint8), "PNG")
    assert not page.show(file, width, 120, codec="png", part=part)
    np.testing.assert_array_equal(page.pixels(), before)
    assert page.badge == ""


@BOTH_DECODERS
def test_acknowledgements_tell_when_frames_and_their_leads_arrived(open_page, device, decoder):
    page = open_page(decoder)
    now = lambda: page.page.evaluate("performance.now()")  # noqa: E731
    page.deliver({"type": "lead", "view": "another", "id": page.frame + 1})
    before = now()
    assert page.show(our_file(device, picture(64, 48)), 64, 48)
    ((first, at, lead),) = page.sent("ack")[-1]["arrivals"]
    assert lead is None
    assert before - 1 <= at <= now()
    page.deliver({"type": "lead", "view": page.view, "id": first + 1})
    between = now()
    assert page.show(our_file(device, picture(64, 48)), 64, 48)
    ((frame, at, lead),) = page.sent("ack")[-1]["arrivals"]
    assert frame == first + 1
    assert lead - 1 <= between <= at + 1


FORGET = """
canvas => {
    if (canvas.dataset.rfbDecoder === 'browser') {
        canvas.getContext('2d').fillRect(0, 0, 9999, 9999)
        return
    }
    const context = canvas.getContext('webgpu')
    const { device } = context.getConfiguration()
    const commands = device.createCommandEncoder()
    const view = context.getCurrentTexture().createView()
    commands.beginRenderPass({ colorAttachments: [{ view, loadOp: 'clear', storeOp: 'store' }] }).end()
    device.queue.submit([commands.finish()])
}
"""
"""Makes a canvas black, as browsers may while nobody sees it."""


@BOTH_DECODERS
def test_a_second_view_and_views_that_come_back_show_the_picture(browsers, device, decoder):
    """With a browser that forgets what was drawn meanwhile, as they may."""
    with closing(WidgetPage(browsers(1.0), decoder)) as page:
        first, second = page.canvas(0), page.canvas(1)
        file = our_file(device, picture(320, 240))
        assert page.show(file, 320, 240)
        page.page.evaluate("() => host.addView()")
        second.wait_frame()
        assert_like_libjpeg(second.screenshot(), file, 48.0)
        page.page.evaluate("""() => {
            const filler = document.createElement('div')
            filler.className = 'filler'
            document.body.append(filler)
        }""")
        page.page.evaluate("() => scrollTo(0, 2500)")
        page.page.wait_for_function("() => host.sent.some(m => m.type === 'visibility' && !m.visible)")
        for canvas in (first, second):
            canvas.locator.evaluate(FORGET)
        page.page.evaluate("() => scrollTo(0, 0)")
        page.page.wait_for_function(
            "() => host.sent.filter(m => m.type === 'visibility').at(-1).visible === true"
        )
        for canvas in (first, second):
            assert_like_libjpeg(canvas.screenshot(), file, 48.0)
        # A frame that comes while they are out of sight is shown when they are back.
        page.page.evaluate("() => scrollTo(0, 2500)")
        page.page.wait_for_function(
            "() => host.sent.filter(m => m.type === 'visibility').at(-1).visible === false"
        )
        newer = our_file(device, picture(320, 240, turn=1.0))
        assert page.show(newer, 320, 240)
        for canvas in (first, second):
            assert_like_libjpeg(canvas.screenshot(), newer, 48.0)


HIDE = """
hidden => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden })
    document.dispatchEvent(new Event('visibilitychange'))
}
"""


@BOTH_DECODERS
def test_a_tab_that_comes_back_shows_the_picture_again(open_page, device, decoder):
    page = open_page(decoder)
    file = our_file(device, picture(320, 240))
    assert page.show(file, 320, 240)
    page.page.evaluate(HIDE, True)
    page.canvas().locator.evaluate(FORGET)
    assert harness.is_blank(page.canvas().screenshot())
    page.page.evaluate(HIDE, False)
    assert [message["visible"] for message in page.sent("visibility")][-2:] == [False, True]
    assert_like_libjpeg(page.canvas().screenshot(), file, 48.0)


LOSE_DEVICE = "canvas => canvas.getContext('webgpu').getConfiguration().device.destroy()"


def test_a_lost_device_is_replaced_once_and_then_the_browser_decodes(browsers, device):
    with closing(WidgetPage(browsers(1.0), "webgpu", views=2)) as page:
        file = our_file(device, picture(320, 240))
        assert page.show(file, 320, 240)
        for loss, decoder in enumerate(["webgpu", "browser"], 1):
            page.canvas().locator.evaluate(LOSE_DEVICE)
            # The page asks for the picture, which went with the device.
            page.page.wait_for_function(
                f"() => host.sent.some(m => m.type === 'hello' && m.epoch === {loss + 1})"
            )
            page.welcome()
            assert page.show(file, 320, 240)
            report = page.sent("decoder")[-1]
            assert report["name"] == decoder
            for index in range(2):
                assert page.canvas(index).decoder == decoder
                assert_like_libjpeg(page.canvas(index).screenshot(), file, 48.0)
        assert "the GPU device was lost" in report["reason"]
        assert page.page.locator("canvas.rfb-gpu-canvas").count() == 2


SLOW_START = """
const { requestAdapter } = GPU.prototype;
const wanted = new Promise((start) => { window.startGpu = start; });
GPU.prototype.requestAdapter = async function (...options) { await wanted; return requestAdapter.apply(this, options); };
"""


def test_a_gpu_that_starts_late_is_used_once_it_is_there(browsers, device):
    with closing(WidgetPage(browsers(1.0), "webgpu", before=SLOW_START)) as page:
        file = our_file(device, picture(320, 240))
        assert page.show(file, 320, 240)
        assert page.canvas().decoder == "browser", "pictures do not wait for it"
        assert "in time" in page.sent("decoder")[-1]["reason"]
        page.page.evaluate("startGpu()")
        page.page.wait_for_function("() => host.sent.some(m => m.type === 'hello' && m.epoch === 2)")
        page.welcome()
        assert page.show(file, 320, 240)
        assert page.canvas().decoder == "webgpu"
        assert_like_libjpeg(page.canvas().screenshot(), file, 48.0)


NO_ADAPTER_AT_FIRST = """
const { requestAdapter } = GPU.prototype;
let asked = 0;
GPU.prototype.requestAdapter = async function (...options) {
  asked += 1;
  return asked <= 4 ? null : requestAdapter.apply(this, options);
};
"""


def test_a_browser_that_first_says_it_has_no_gpu_is_asked_again(browsers, device):
    """Chromium does so while its GPU process starts. Pictures wait a moment for it, and not longer."""
    with closing(WidgetPage(browsers(1.0), "webgpu", before=NO_ADAPTER_AT_FIRST)) as page:
        file = our_file(device, picture(320, 240))
        assert page.show(file, 320, 240)
        assert page.canvas().decoder == "browser"
        assert "no WebGPU adapter" in page.sent("decoder")[0]["reason"]
        page.page.wait_for_function("() => host.sent.some(m => m.type === 'hello' && m.epoch === 2)")
        page.welcome()
        assert page.show(file, 320, 240)
        assert page.canvas().decoder == "webgpu"
        assert_like_libjpeg(page.canvas().screenshot(), file, 48.0)


# ---- the browser's own decoder


def method_after(page: WidgetPage, device, frames: int) -> str:
    """Which way of the browser's was chosen in the end; every frame on the way there was right."""
    for number in range(frames):
        file = our_file(device, picture(200, 150, turn=number))
        assert page.show(file, 200, 150)
        assert_like_libjpeg(page.pixels(), file, 48.0)
    return page.sent("decoder")[-1]["method"]


def test_the_fastest_way_to_the_browsers_decoder_is_chosen(browsers, device):
    with closing(WidgetPage(browsers(1.0), "browser")) as page:
        assert method_after(page, device, 8) == ""
        assert method_after(page, device, 1) in ("createImageBitmap", "ImageDecoder", "img")
        assert len(page.sent("decoder")) == 2
        assert method_after(page, device, 2) == page.sent("decoder")[1]["method"]


@pytest.mark.parametrize(
    "before, frames, chosen",
    [
        ("delete globalThis.ImageDecoder; delete HTMLImageElement.prototype.decode", 3, "createImageBitmap"),
        ("delete globalThis.ImageDecoder; globalThis.createImageBitmap = async () => { throw 1 }", 1, "img"),
        ("delete globalThis.createImageBitmap; delete HTMLImageElement.prototype.decode", 2, "ImageDecoder"),
    ],
)
def test_ways_that_a_browser_lacks_are_skipped(browsers, device, before, frames, chosen):
    with closing(WidgetPage(browsers(1.0), "browser", before=before)) as page:
        assert method_after(page, device, frames) == chosen


# ---- memory

SPY_ON_OBJECTS = """
globalThis.made = {}
globalThis.alive = new Set()
for (const kind of ['Buffer', 'Texture', 'BindGroup', 'ShaderModule', 'ComputePipeline', 'ComputePipelineAsync',
        'RenderPipeline', 'RenderPipelineAsync', 'Sampler', 'QuerySet', 'BindGroupLayout', 'PipelineLayout']) {
    const name = `create${kind}`
    const original = GPUDevice.prototype[name]
    made[kind] = 0
    GPUDevice.prototype[name] = function (...values) {
        const object = original.apply(this, values)
        made[kind] += 1
        if (object.destroy) alive.add(object)
        return object
    }
}
for (const type of [GPUBuffer, GPUTexture, GPUQuerySet]) {
    const { destroy } = type.prototype
    type.prototype.destroy = function () { alive.delete(this); destroy.call(this) }
}
"""


@pytest.mark.timeout(180 + harness.LONG_FRAMES)
def test_frames_of_changing_size_and_quality_make_no_gpu_objects_in_the_long_run(browsers, device):
    frames = [
        (our_file(device, picture(width, height), subsampling, quality), width, height)
        for width, height in [(120, 90), (24, 110), (150, 70)]  # larger ones take 100 ms each without a GPU
        for subsampling in ("444", "420")
        for quality in (30, 95)
    ]
    texts = [(base64.b64encode(file).decode(), width, height) for file, width, height in frames]
    with closing(WidgetPage(browsers(1.0), "webgpu", before=SPY_ON_OBJECTS)) as page:
        page.show_by_own_decoder(*frames[2])  # until 4:2:0 is compiled
        counts = page.page.evaluate(
            """async ([frames, rounds]) => {
                const counts = []
                globalThis.drawn = null
                await host.showAll(frames, rounds, () => counts.push({ ...made, alive: alive.size }))
                return counts
            }""",
            [texts, 3 + harness.LONG_FRAMES // len(frames)],
        )
        # Buffers may grow by half in the second round; the groups that bind them follow the subsampling.
        settled = [{name: n for name, n in count.items() if name != "BindGroup"} for count in counts[2:]]
        assert all(count == settled[0] for count in settled), counts
        groups = np.diff([count["BindGroup"] for count in counts[2:]])
        assert (groups <= 2 * len(frames)).all()
        assert settled[0]["alive"] > 0
        page.page.evaluate("() => { for (const dispose of host.views) dispose(); host.close() }")
        assert page.page.evaluate("() => [...alive].map(object => object.label)") == []
