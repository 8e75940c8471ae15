"""The compiled stages of a codec, shared by all its instances on a device."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import wgpu

from .wgsl import assemble, shader_module

__all__ = ["Stages"]

S = TypeVar("S", bound="Stages")

_OTHER_KINDS: dict[str, dict[str, Any]] = {
    "texture": {"texture": {}},
    "picture": {"storage_texture": {"access": "write-only", "format": "rgba8unorm"}},
}


class Stages:
    """Bind group layouts, and pipelines on demand; a subclass names the stages."""

    FOLDER: ClassVar[str]
    """Below ``rfb_gpu/codecs``, where a stage's ``.wgsl`` file lies."""
    BINDINGS: ClassVar[dict[str, str]]
    """By stage: the kinds of its bindings in their order, ``texture``, ``picture`` (one to write to) or a type of buffer."""
    TRUSTED: ClassVar[bool] = True
    """The stages read nothing but what our own code wrote, so they are compiled without checks of bounds. Never for a file's."""
    _of_device: ClassVar[weakref.WeakKeyDictionary[wgpu.GPUDevice, Any]]

    def __init_subclass__(cls) -> None:
        cls._of_device = weakref.WeakKeyDictionary()

    @classmethod
    def of(cls: type[S], device: wgpu.GPUDevice) -> S:
        """Those of a device."""
        if device not in cls._of_device:
            cls._of_device[device] = cls(device)
        stages: S = cls._of_device[device]
        return stages

    def __init__(self, device: wgpu.GPUDevice) -> None:
        self._device = weakref.ref(device)
        self.bind_group_layouts = {
            stage: device.create_bind_group_layout(
                label=f"rfb_gpu {stage}",
                entries=[
                    {"binding": i, "visibility": wgpu.ShaderStage.COMPUTE}
                    | _OTHER_KINDS.get(kind, {"buffer": {"type": kind}})
                    for i, kind in enumerate(kinds.split())
                ],
            )
            for stage, kinds in self.BINDINGS.items()
        }

    def compile(self, stage: str, constants: Mapping[str, bool | int | float]) -> wgpu.GPUComputePipeline:
        """The pipeline of a stage, with these constants in front of its WGSL."""
        device = self._device()
        assert device is not None
        label = f"rfb_gpu {stage}"
        code = assemble(f"{self.FOLDER}/{stage}.wgsl", constants)
        module = shader_module(device, label, code, trusted=self.TRUSTED, loops_end=True)
        return device.create_compute_pipeline(
            label=label,
            layout=device.create_pipeline_layout(bind_group_layouts=[self.bind_group_layouts[stage]]),
            compute={"module": module, "entry_point": stage},
        )
