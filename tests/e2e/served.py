"""What the servers of test_server.py show: `canvas`, for `python -m rfb_gpu serve`, and `site`, for uvicorn."""

from __future__ import annotations

import os
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount

from rfb_gpu.server import asgi_app
from tests.e2e.scene import make

canvas = make(title="Cube", decoder=os.environ.get("RFB_GPU_TEST_DECODER", "auto"))


def on_key(event: dict[str, Any]) -> None:
    if event["key"] == "q":
        canvas.close()


canvas.add_event_handler(on_key, "key_down")
site = Starlette(routes=[Mount("/plots/cube", asgi_app(canvas))])
