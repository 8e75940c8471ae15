"""Two pages of one notebook that show a canvas in different sizes: the one used last decides."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.unit.test_server import make


class Notebook:
    """All pages of a notebook: what is said over the comm reaches each."""

    def __init__(self, canvas):
        self.canvas = canvas
        self.said = []
        self.seqs = {}
        canvas.send = lambda message, buffers=None: self.said.append(message)

    def say(self, view, **fields):
        seq = self.seqs[view] = self.seqs.get(view, -1) + 1
        self.canvas._handle_custom_msg({"view": view, "epoch": 1, "seq": seq, **fields}, [])

    def event(self, view, kind, **fields):
        self.say(view, type="event", event={"type": kind, "timestamp": 0.0, **fields})

    def open(self, view, width, height):
        self.say(view, type="hello", version=1, dpr=1.0, capabilities={})
        self.event(view, "resize", width=width, height=height, pwidth=width, pheight=height, ratio=1)
        self.say(view, type="visibility", visible=True)

    @property
    def in_control(self):
        return [message["view"] for message in self.said if message["type"] == "control"][-1]

    async def until_size(self, *size):
        give_up = time.monotonic() + 20
        while self.canvas.get_physical_size() != size:
            assert time.monotonic() < give_up, self.canvas.get_physical_size()
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.02)  # what was sent with it is handled, too


@pytest.mark.parametrize(
    "use", [{"kind": "pointer_down", "x": 1, "y": 1}, {"kind": "key_down", "key": "a"}, {"kind": "focus_in"}]
)
def test_the_view_used_last_decides_the_size(use):
    async def run():
        canvas = make()
        seen = []
        canvas.add_event_handler(
            lambda event: seen.append(event["event_type"]), "pointer_move", "pointer_down"
        )
        notebook = Notebook(canvas)
        notebook.open("a", 120, 90)
        await notebook.until_size(120, 90)
        assert notebook.in_control == "a"
        notebook.open("b", 60, 60)
        await notebook.until_size(60, 60)
        assert notebook.in_control == "b"
        notebook.event("a", "pointer_move", x=1, y=1)
        notebook.event("a", "resize", width=130, height=90, pwidth=130, pheight=90, ratio=1)
        await asyncio.sleep(0.05)
        assert canvas.get_physical_size() == (60, 60) and seen == []
        notebook.event("a", **use)
        await notebook.until_size(130, 90)
        assert notebook.in_control == "a"
        assert ("pointer_down" in seen) == (use["kind"] == "pointer_down")
        notebook.say("a", type="bye")
        await notebook.until_size(60, 60)
        assert notebook.in_control == "b"
        canvas.close()

    asyncio.run(run())
