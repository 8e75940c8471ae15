"""What tests of canvases share."""

from __future__ import annotations

import asyncio

import pytest

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
