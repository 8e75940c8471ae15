"""The compiled stages of a codec, shared by all its instances on a device."""

from __future__ import annotations

import threading
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
        self._pipelines: dict[tuple[str, frozenset[tuple[str, bool | int | float]]], Any] = {}
        self._lock = threading.Lock()
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

    def pipeline(
        self, stage: str, constants: Mapping[str, bool | int | float] | None = None
    ) -> wgpu.GPUComputePipeline:
        """The pipeline of a stage, with these constants in front of its WGSL; compiled once. From any thread."""
        variant = stage, frozenset((constants or {}).items())
        with self._lock:
            if variant not in self._pipelines:
                self._pipelines[variant] = self._compile(stage, constants)
            return self._pipelines[variant]

    def bind_group(self, stage: str, *resources: Any) -> wgpu.GPUBindGroup:
        """What a stage binds, in the order of its bindings; fits all its pipelines."""
        device = self._device()
        assert device is not None
        return device.create_bind_group(
            label=f"rfb_gpu {stage}",
            layout=self.bind_group_layouts[stage],
            entries=[{"binding": i, "resource": resource} for i, resource in enumerate(resources)],
        )

    def _compile(
        self, stage: str, constants: Mapping[str, bool | int | float] | None
    ) -> wgpu.GPUComputePipeline:
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
