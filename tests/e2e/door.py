"""A door into a kernel that has no sockets for a test to use, such as marimo's: code comes by HTTP and runs on its loop."""

from __future__ import annotations

import asyncio
import builtins
import http.server
import io
import os
import threading
import traceback
from typing import Any


def open_door(file: str, names: dict[str, Any]) -> None:
    """Runs code from now on that is posted to the port which this writes to `file`.

    The answer is what the code printed, or status 500 and the traceback. The code sees `names`, and those that it made itself.
    """
    loop = asyncio.get_running_loop()
    names = dict(names)

    async def run(code: str) -> str:
        out = io.StringIO()
        names["print"] = lambda *values: builtins.print(*values, file=out)
        exec(code, names)
        return out.getvalue()

    class Door(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            code = self.rfile.read(int(self.headers["Content-Length"])).decode()
            try:
                status, text = 200, asyncio.run_coroutine_threadsafe(run(code), loop).result()
            except Exception:
                status, text = 500, traceback.format_exc()
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True, name="door").start()
    with open(f"{file}.new", "w") as new:
        new.write(str(server.server_port))
    os.replace(f"{file}.new", file)
