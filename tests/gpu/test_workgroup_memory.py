"""No stage takes workgroup memory for zeros. WGSL promises these, but wgpu's own library leaves there what others left.

So each stage is also run with other values there at first, not the same in all workgroups, which might agree on what is wrong.
"""

import re

import numpy as np
import pytest

from rfb_gpu import JpegDecoder, JpegEncoder, PngDecoder, PngEncoder
from rfb_gpu.codecs import stages
from tests.gpu.helpers import image_of, picture, slanted_edges, texture_of

PICTURES = {
    "edges": slanted_edges(700, 900),  # rows as they are
    "slanted": np.repeat(slanted_edges(700, 200)[..., :1], 4, -1),  # a palette
    "gradient": picture("gradient", 331, 130),
    "noise": picture("noise", 64, 40),
}
VARIABLE = re.compile(r"^var<workgroup> (\w+): (?:array<)?(atomic<)?(\w+)>?(?:, (.+)>)?;", re.MULTILINE)
ENTRY_POINT = re.compile(r"@compute @workgroup_size\(.*?\)\s*fn \w+\((.*?)\) \{\n", re.DOTALL)


def with_memory_filled(code, is_dirty):
    """A stage that begins by filling its workgroup memory: with zeros, but for the groups where the WGSL ``is_dirty`` is true."""
    entry_point = ENTRY_POINT.search(code)
    assert "local_invocation_index) thread" in entry_point[1]
    if "workgroup_id) group" not in entry_point[1]:
        is_dirty = "true"
    lines = ["    if (thread == 0u) {"]
    variables = list(VARIABLE.finditer(code))
    assert len(variables) == code.count("var<workgroup>")
    for name, atomic, kind, count in (variable.groups() for variable in variables):
        zero, other = ("0", "0x5eadbeef") if "i" in kind else ("0u", "0xdeadbeefu")
        value = f"{kind}(select({zero}, {other}, {is_dirty}))"
        place = f"{name}[i]" if count else name
        store = f"atomicStore(&{place}, {value});" if atomic else f"{place} = {value};"
        lines.append(f"        for (var i = 0u; i < u32({count or 1}); i++) {{ {store} }}")
    lines.append("    }\n    workgroupBarrier();\n")
    return code[: entry_point.end()] + "\n".join(lines) + code[entry_point.end() :]


@pytest.mark.parametrize("is_dirty", ["true", "((group.x + group.y) & 1u) == 1u", "group.y == 1u"])
def test_what_workgroup_memory_holds_at_first_does_not_matter(device, monkeypatch, is_dirty):
    def run(device):
        """Files, and what the decoders make of them."""
        encoders, decoders = (
            [JpegEncoder(device), PngEncoder(device)],
            [JpegDecoder(device), PngDecoder(device)],
        )
        files, images = [], []
        for image in PICTURES.values():
            for encoder, decoder in zip(encoders, decoders, strict=True):
                files.append(bytes(encoder.encode(texture_of(device, image)).result().data))
                images.append(image_of(device, decoder.decode(files[-1])))
        for coder in encoders + decoders:
            coder.close()
        return files, images

    files, images = run(device)
    assemble, changed = stages.assemble, []

    def assemble_filled(stage, constants):
        code = assemble(stage, constants)
        changed.append(stage)
        return with_memory_filled(code, is_dirty) if "var<workgroup>" in code else code

    monkeypatch.setattr(stages, "assemble", assemble_filled)
    # Another device has no stages yet.
    other_files, other_images = run(device.adapter.request_device_sync())
    assert {"jpeg/encode_span.wgsl", "jpeg/huffman_decode.wgsl", "png/unfilter_rows.wgsl"} < set(changed)
    assert other_files == files
    for image, expected in zip(other_images, images, strict=True):
        np.testing.assert_array_equal(image, expected)
