"""Every compute stage of the package is accepted without a warning by the browser's WGSL compiler (Tint in Chromium).

wgpu's compiler, which the other tests use, takes some things that WGSL forbids: barriers in non-uniform control flow, for one.
"""

from __future__ import annotations

import pytest
import wgpu

from rfb_gpu import JpegDecoder, JpegEncoder, PngDecoder, PngEncoder
from rfb_gpu.codecs import stages as stages_module
from rfb_gpu.codecs.png.encoder import CHANNELS
from rfb_gpu.codecs.source import FORMATS
from tests.e2e.test_decoding import ENCODED, SUBSAMPLINGS, our_file, our_png, picture
from tests.e2e.widget_page import DecodingPage, WidgetPage, closing

SPY_ON_MODULES = """
globalThis.modules = []
const { createShaderModule } = GPUDevice.prototype
GPUDevice.prototype.createShaderModule = function (descriptor) {
    const module = createShaderModule.call(this, descriptor)
    modules.push([descriptor.label, module])
    return module
}
"""

MESSAGES = """
async () => {
    const texts = {}
    for (const [number, [label, module]] of modules.entries()) {
        const { messages } = await module.getCompilationInfo()
        texts[`${label} ${number}`] = messages.map(m => `${m.type}, line ${m.lineNum}: ${m.message}`)
    }
    return texts
}
"""


def test_the_bundles_stages_compile_without_a_warning(browsers, device):
    """All that the page's decoder makes for files of all kinds."""
    with closing(WidgetPage(browsers(1.0), "webgpu", before=SPY_ON_MODULES)) as page:
        for subsampling in SUBSAMPLINGS:
            page.show_by_own_decoder(our_file(device, picture(16, 16), subsampling), 16, 16)
        page.show_by_own_decoder(our_png(device, picture(16, 16)), 16, 16, codec="png")
        messages = page.page.evaluate(MESSAGES)
    for stage in ("huffman_decode", "reconstruct", "inflate_rows", "unfilter_rows"):
        assert any(stage in label for label in messages)
    assert not any(messages.values()), messages


@pytest.fixture
def assembled(monkeypatch, device):
    """Every stage that Python assembles for all kinds of textures and files, by name and constants."""
    stages: dict[str, str] = {}

    def spy(stage, constants=None, assemble=stages_module.assemble):
        code = assemble(stage, constants)
        stages[f"{stage} {dict(constants or {})}"] = code
        return code

    monkeypatch.setattr(stages_module, "assemble", spy)
    fresh = device.adapter.request_device_sync()  # for which nothing is compiled yet
    decoder = JpegDecoder(fresh)
    for pixels in FORMATS:
        texture = fresh.create_texture(
            size=(16, 16, 1), format=pixels, usage=wgpu.TextureUsage.TEXTURE_BINDING
        )
        for subsampling in ENCODED:
            JpegEncoder(fresh, subsampling=subsampling).encode(texture).result()
        for channels in CHANNELS:
            file = PngEncoder(fresh, channels).encode(texture).result().data
            PngDecoder(fresh).decode(file)
    for subsampling in SUBSAMPLINGS:
        decoder.decode(our_file(device, picture(16, 16), subsampling))
    return stages


def test_the_python_packages_stages_compile_without_a_warning(browsers, decoding_bundle, assembled):
    assert len({name.split()[0] for name in assembled}) >= 14
    with closing(DecodingPage(browsers(1.0), decoding_bundle, SPY_ON_MODULES)) as page:
        page.page.evaluate(
            """async stages => {
                const { device } = await decoding.acquireGpu(true)
                for (const [label, code] of stages) device.createShaderModule({ label, code })
            }""",
            list(assembled.items()),
        )
        messages = page.page.evaluate(MESSAGES)
    assert len(messages) == len(assembled)
    assert not any(messages.values()), {label: text for label, text in messages.items() if text}


def test_a_faulty_stage_is_noticed(browsers, decoding_bundle):
    faulty = "@compute @workgroup_size(2) fn main(@builtin(local_invocation_index) i: u32) { if (i == 0) { workgroupBarrier(); } }"
    with closing(DecodingPage(browsers(1.0), decoding_bundle, SPY_ON_MODULES)) as page:
        page.page.evaluate(
            "async code => (await decoding.acquireGpu(true)).device.createShaderModule({ label: 'faulty', code })",
            faulty,
        )
        assert "workgroupBarrier" in page.page.evaluate(MESSAGES)["faulty 0"][0]
