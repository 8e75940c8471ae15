"""Other JPEG encoders, for benchmarks/encode.py: found where they are installed, asked for the same size, quality and subsampling.

simplejpeg
    libjpeg-turbo on one core, from an array in memory.
nvJPEG
    NVIDIA's library, called by itself, from planes on the GPU. CUDA events around nvjpegEncodeImage, which leaves the file in parts
    on the GPU. Needs torch, for memory and events.
GPUJPEG
    CESNET's gpujpegtool, if on the PATH (or named by GPUJPEGTOOL): what it calls in-GPU processing. Its stream formatter, on the
    CPU, comes on top.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg
from numpy.typing import NDArray

__all__ = ["GpuJpeg", "NvJpeg", "time_simplejpeg"]

Image = NDArray[np.uint8]


def time_simplejpeg(image: Image, quality: int, subsampling: str) -> float:
    """Seconds of one encoding."""
    began = time.perf_counter()
    simplejpeg.encode_jpeg(
        image,
        quality=quality,
        colorspace="RGBA",
        colorsubsampling="Gray" if subsampling == "gray" else subsampling,
    )
    return time.perf_counter() - began


class _NvImage(ctypes.Structure):
    _fields_ = (("channel", ctypes.c_void_p * 4), ("pitch", ctypes.c_size_t * 4))


class NvJpeg:
    """nvJPEG by its C interface, because torchvision's has one subsampling only.

    Raises:
        ImportError, OSError: it is not here.
    """

    _SUBSAMPLINGS = {"444": 0, "422": 1, "420": 2, "gray": 6}  # noqa: RUF012
    _RGB_PLANES = 3

    def __init__(self) -> None:
        import torch

        if not torch.cuda.is_available():
            raise OSError("no CUDA device")
        torch.cuda.init()
        self._torch = torch
        self._lib = ctypes.CDLL(self._find())
        self._handle, self._state = ctypes.c_void_p(), ctypes.c_void_p()
        self._check(self._lib.nvjpegCreateSimple(ctypes.byref(self._handle)))
        self._check(self._lib.nvjpegEncoderStateCreate(self._handle, ctypes.byref(self._state), None))

    @staticmethod
    def _find() -> str:
        folders = [Path(folder) for folder in sys.path if folder] + [Path("/usr/local/cuda")]
        for folder in folders:
            for pattern in (
                "nvidia/*/lib/libnvjpeg.so*",
                "lib64/libnvjpeg.so*",
                "targets/*/lib/libnvjpeg.so*",
            ):
                for found in sorted(folder.glob(pattern)):
                    return str(found)
        return "libnvjpeg.so"

    @staticmethod
    def _check(status: int) -> None:
        if status:
            raise OSError(f"nvJPEG answered {status}")

    def prepare(self, image: Image, quality: int, subsampling: str) -> Callable[[], float]:
        """A function that encodes the image once and gives the seconds."""
        torch, lib = self._torch, self._lib
        planes = torch.from_numpy(np.ascontiguousarray(image[..., :3].transpose(2, 0, 1))).cuda()
        height, width = image.shape[:2]
        source = _NvImage()
        for k in range(3):
            source.channel[k] = planes[k].data_ptr()
            source.pitch[k] = width
        parameters = ctypes.c_void_p()
        self._check(lib.nvjpegEncoderParamsCreate(self._handle, ctypes.byref(parameters), None))
        self._check(lib.nvjpegEncoderParamsSetQuality(parameters, quality, None))
        self._check(
            lib.nvjpegEncoderParamsSetSamplingFactors(parameters, self._SUBSAMPLINGS[subsampling], None)
        )

        def encode() -> float:
            torch.cuda.synchronize()
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            self._check(
                lib.nvjpegEncodeImage(
                    self._handle,
                    self._state,
                    parameters,
                    ctypes.byref(source),
                    self._RGB_PLANES,
                    width,
                    height,
                    stream,
                )
            )
            end.record()
            end.synchronize()
            assert planes is not None  # its memory is in use
            return float(start.elapsed_time(end)) / 1000

        return encode

    def encode(self, image: Image, quality: int, subsampling: str) -> bytes:
        """The file, to look at."""
        self.prepare(image, quality, subsampling)()
        length = ctypes.c_size_t()
        retrieve = self._lib.nvjpegEncodeRetrieveBitstream
        self._check(retrieve(self._handle, self._state, None, ctypes.byref(length), None))
        data = ctypes.create_string_buffer(length.value)
        self._check(retrieve(self._handle, self._state, data, ctypes.byref(length), None))
        self._torch.cuda.synchronize()
        return data.raw[: length.value]


class GpuJpeg:
    """GPUJPEG by its command.

    Raises:
        OSError: it is not here.
    """

    _SUBSAMPLINGS = {"444": "4:4:4", "422": "4:2:2", "420": "4:2:0"}  # noqa: RUF012
    _ITERATIONS = 200

    def __init__(self) -> None:
        tool = os.environ.get("GPUJPEGTOOL") or shutil.which("gpujpegtool")
        if tool is None:
            raise OSError("gpujpegtool is not on the PATH")
        self._tool = tool

    def time(self, image: Image, quality: int, subsampling: str) -> float | None:
        """Seconds of one encoding within the GPU: the median of the second half of many."""
        if subsampling not in self._SUBSAMPLINGS:
            return None
        height, width = image.shape[:2]
        with tempfile.TemporaryDirectory() as folder:
            raw, jpeg = Path(folder, "frame.rgb"), Path(folder, "frame.jpg")
            raw.write_bytes(np.ascontiguousarray(image[..., :3]).tobytes())
            sampling = f"--subsampled={self._SUBSAMPLINGS[subsampling]}"
            shape = [
                "-s",
                f"{width}x{height}",
                "-f",
                "444-u8-p012",
                "-c",
                "rgb",
                "-q",
                str(quality),
                sampling,
            ]
            command: list[Any] = [
                self._tool,
                "-e",
                "-v",
                "-v",
                "-n",
                str(self._ITERATIONS),
                *shape,
                raw,
                jpeg,
            ]
            run = subprocess.run(command, capture_output=True, text=True, check=True)
        found = re.findall(r"Encode Image GPU:\s*([0-9.]+) ms", run.stdout + run.stderr)
        if not found:
            raise OSError(f"gpujpegtool gave no times: {run.stdout[-300:]}{run.stderr[-300:]}")
        return statistics.median(map(float, found[len(found) // 2 :])) / 1000
