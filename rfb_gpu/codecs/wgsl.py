"""Assembles a compute stage from its .wgsl file: constants first, then the modules that it imports, then the stage itself.

The decoder's files are bundled into the front end, which does the same in ``js/src/decoders/wgsl.ts``, but for ``#unroll``,
which they do not use. Whatever the two hosts' compilers need differently belongs here and there, and nowhere else. Never a
preprocessor: no conditions, no macros; a stage chooses by a ``const`` that the shader compiler folds. The one exception is
``#unroll``, because compilers keep an array in registers only where its indices are written out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import wgpu

__all__ = ["assemble", "shader_module"]

_CODECS = Path(__file__).parent
_IMPORT = re.compile(r"^#import +([a-z0-9_]+) *$", re.MULTILINE)
_UNROLL = re.compile(
    r"^[ \t]*#unroll +([a-z]+) +(\d+)\.\.(\d+)[ \t]*\n((?:(?!^[ \t]*#unroll).*\n)*?)^[ \t]*#end[ \t]*$",
    re.MULTILINE,
)


@cache
def _read(path: str) -> str:
    return (_CODECS / path).read_text(encoding="utf-8")


def _literal(value: bool | int | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value}u" if isinstance(value, int) else repr(value)


def _unroll(text: str) -> str:
    """Writes out ``#unroll i 0..8`` ... ``#end``, inner ones first; ``$i`` is the number as a u32, ``$$i`` its digits."""

    def written_out(match: re.Match[str]) -> str:
        name, first, end, body = match.groups()
        return "".join(
            body.replace(f"$${name}", str(i)).replace(f"${name}", f"{i}u")
            for i in range(int(first), int(end))
        )

    while _UNROLL.search(text):
        text = _UNROLL.sub(written_out, text)
    return text


def assemble(stage: str, constants: Mapping[str, bool | int | float] | None = None) -> str:
    """The complete WGSL of one stage.

    Arguments:
        stage: path of the stage below ``rfb_gpu/codecs``, e.g. ``"jpeg/encode_segment.wgsl"``.
        constants: module-scope constants to put in front; ``bool``, ``int`` (as ``u32``) or ``float`` (as ``f32``).

    A line ``#import name`` stands for ``rfb_gpu/codecs/shaders/name.wgsl``; each module is taken once, in the order of first
    mention, modules may import modules. Lines between ``#unroll i 0..8`` and ``#end`` are repeated with ``0u`` to ``7u`` for
    ``$i`` and 0 to 7, to make names of, for ``$$i``.
    """
    parts: list[str] = [f"const {name} = {_literal(value)};" for name, value in (constants or {}).items()]
    seen: set[str] = set()

    def add(path: str) -> None:
        text = _read(path)
        for name in _IMPORT.findall(text):
            module = f"shaders/{name}.wgsl"
            if module not in seen:
                seen.add(module)
                add(module)
        parts.append(_unroll(_IMPORT.sub("", text)))

    add(stage)
    return "\n".join(parts)


def shader_module(
    device: wgpu.GPUDevice, label: str, code: str, *, trusted: bool = False, loops_end: bool = False
) -> wgpu.GPUShaderModule:
    """Compiles a stage.

    Arguments:
        device: where.
        label: for error messages.
        code: from :func:`assemble`.
        trusted: leave out the checks of array bounds and loops that wgpu adds, which cost an encoder 10 to 15 %. Only for stages
            that read nothing but what our own code wrote; never for one that reads a file. ``RFB_GPU_CHECKED_SHADERS=1`` in
            the environment keeps the checks everywhere.
        loops_end: leave out only the counter that wgpu adds to each loop. For stages whose loops end whatever they read.
    """
    if (trusted or loops_end) and not os.environ.get("RFB_GPU_CHECKED_SHADERS"):
        try:
            return _trusted_module(device, label, code, _NO_CHECKS if trusted else _BOUNDS_CHECKS)
        except Exception:
            pass  # another version of wgpu, whose insides are different: with checks it runs all the same
    return device.create_shader_module(label=label, code=code)


# WGPUShaderRuntimeChecks of wgpu-native.
_NO_CHECKS = 0
_BOUNDS_CHECKS = 1


def _trusted_module(device: wgpu.GPUDevice, label: str, code: str, checks: int) -> wgpu.GPUShaderModule:
    # wgpu-native has this function, wgpu-py does not hand it on yet.
    from wgpu.backends.wgpu_native import _api as api

    source = api.new_struct_p("WGPUShaderSourceWGSL *", code=api.to_c_string_view(code))
    source[0].chain.next = api.ffi.NULL
    source[0].chain.sType = api.lib.WGPUSType_ShaderSourceWGSL
    descriptor = api.new_struct_p(
        "WGPUShaderModuleDescriptor *",
        nextInChain=api.ffi.cast("WGPUChainedStruct *", source),
        label=api.to_c_string_view(label),
    )
    module = api.lib.wgpuDeviceCreateShaderModuleTrusted(device._internal, descriptor, checks)
    if module == api.ffi.NULL:
        raise RuntimeError(f"{label} was refused")
    return api.GPUShaderModule(label, module, device)
