"""What tests of canvases share, and what tests of stages do."""

from __future__ import annotations

import asyncio

import pytest
import wgpu

from rfb_gpu import RenderCanvas


@pytest.fixture
def run():
    """Runs a test's coroutine with canvases that are closed afterwards."""

    def run(test, **options):
        async def main():
            canvas = RenderCanvas(size=(120, 90), **options)
            try:
                return await test(canvas)
            finally:
                canvas.close()
                await asyncio.sleep(0.05)

        return asyncio.run(main())

    return run


@pytest.fixture
def readable_buffers(device, monkeypatch):
    """Lets a test read the buffers between the stages."""
    create = type(device).create_buffer

    def create_readable(self, *, usage, **rest):
        if not usage & wgpu.BufferUsage.MAP_READ:
            usage |= wgpu.BufferUsage.COPY_SRC
        return create(self, usage=usage, **rest)

    monkeypatch.setattr(type(device), "create_buffer", create_readable)
