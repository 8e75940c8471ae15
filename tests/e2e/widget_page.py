"""The built front end in a page of its own, without a notebook: the test is the kernel.

`WidgetPage` is the widget: it takes messages as a host hands them over, and keeps what the widget says. `DecodingPage` is the
decoders alone, from js/src/decoding.ts. Both get along without a server, because the test answers their requests.
"""

from __future__ import annotations

import base64
import contextlib
import io
import pathlib
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, Route

from tests.e2e import harness

ORIGIN = "http://localhost/"
"""No server listens there. WebGPU needs a secure page, and localhost is one."""

_STATIC = harness.REPOSITORY / "rfb_gpu" / "static"

_HTML = """<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="/widget.css">
<style>body { margin: 0 } .filler { height: 3000px }</style><body></body>"""

_TOOLS = """
globalThis.fromBase64 = text => Uint8Array.from(atob(text), c => c.charCodeAt(0))

/**
 * What was last drawn to each canvas. Copied in the task that drew: the texture of a WebGPU canvas is its own only until the
 * page is composed, and then reads as black. Null: nothing is copied.
 */
globalThis.drawn = new WeakMap()
new MutationObserver(records => {
    const changed = new Set(records.flatMap(({ target, addedNodes }) => [target, ...addedNodes]))
    for (const target of changed) {
        if (!drawn || !target.dataset?.rfbFrame) continue
        const copy = new OffscreenCanvas(target.width, target.height)
        copy.getContext('2d').drawImage(target, 0, 0)
        drawn.set(target, copy)
    }
}).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ['data-rfb-frame'] })

/** The pixels of an OffscreenCanvas as a PNG in base64. */
globalThis.pngOf = async canvas => {
    const bytes = new Uint8Array(await (await canvas.convertToBlob()).arrayBuffer())
    let text = ''
    for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192))
    return btoa(text)
}

/** How many pictures came to a texture from the browser's decoder. */
globalThis.copies = 0
if (globalThis.GPUQueue) {
    const { copyExternalImageToTexture } = GPUQueue.prototype
    GPUQueue.prototype.copyExternalImageToTexture = function (...values) {
        copies += 1
        copyExternalImageToTexture.apply(this, values)
    }
}
"""

_WIDGET = """
async options => {
    const handlers = new Map()
    const traits = { _resizable: true, _cursor: 'default', _css_width: '320px', _css_height: '240px', ...options }
    const sent = []
    const views = []
    let onSent = () => {}
    let id = 1e6
    const model = {
        get: name => traits[name],
        on: (event, handler) => handlers.set(event, [...handlers.get(event) ?? [], handler]),
        off: (event, handler) => handlers.set(event, (handlers.get(event) ?? []).filter(h => h !== handler)),
        send: content => {
            for (const message of [content].flat()) {
                sent.push(structuredClone(message))
                if (message.type === 'ack') onSent(message)
            }
        },
    }
    const widget = (await import('/widget.js')).default()
    const close = widget.initialize({ model })
    globalThis.host = {
        sent,
        views,
        close,
        set(trait, value) {
            traits[trait] = value
            for (const handler of handlers.get(`change:${trait}`) ?? []) handler()
        },
        addView() {
            const el = document.createElement('div')
            document.body.append(el)
            views.push(widget.render({ model, el }))
        },
        /** Shows frames one after another, `rounds` times all of them; calls `after` when a round is over. */
        async showAll(frames, rounds, after) {
            frames = frames.map(([file, width, height]) => ({ buffer: new DataView(fromBase64(file).buffer), width, height }))
            for (let round = 0; round < rounds; round++) {
                for (const { buffer, width, height } of frames) {
                    id += 1
                    const message = { type: 'frame', id, codec: 'jpeg', width, height, fit: 'exact', final: false }
                    const acknowledged = new Promise(resolve => { onSent = resolve })
                    for (const handler of handlers.get('msg:custom')) handler(message, [buffer])
                    const ack = await acknowledged
                    if (ack.shown !== 1) throw new Error(document.body.innerText)
                }
                after()
            }
        },
        deliver(message, file) {
            const buffers = file === null ? [] : [new DataView(fromBase64(file).buffer)]
            for (const handler of handlers.get('msg:custom') ?? []) handler(message, buffers)
        },
    }
}
"""


class LocalPage:
    """A page at `ORIGIN`, which is served from here."""

    def __init__(self, browser: Browser, files: dict[str, pathlib.Path], before: str = "") -> None:
        self._context = browser.new_context(no_viewport=True)
        self._context.set_default_timeout(harness.ACTION_SECONDS * 1000)
        self.page: Page = self._context.new_page()
        self.console: list[str] = []
        self.page.on("console", lambda message: self.console.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.console.append(f"uncaught: {error}"))
        self._files = files
        self.page.route(f"{ORIGIN}**", self._answer)
        self.page.add_init_script(_TOOLS)
        if before:
            self.page.add_init_script(before)
        self.page.goto(ORIGIN)

    def close(self) -> None:
        """Close the page."""
        self._context.close()

    def _answer(self, route: Route) -> None:
        name = route.request.url.removeprefix(ORIGIN)
        if name == "":
            route.fulfill(body=_HTML, content_type="text/html")
        elif name in self._files:
            route.fulfill(path=self._files[name])
        else:
            route.fulfill(status=204)  # the icon, the style sheet: no error of the page's


class WidgetPage(LocalPage):
    """A page with the widget. `before` is a script that runs ahead of everything in it; `frame` is the last number sent."""

    def __init__(self, browser: Browser, decoder: str = "auto", views: int = 1, before: str = "") -> None:
        files = {name: _STATIC / name for name in ("widget.js", "widget.css")}
        super().__init__(browser, files, before)
        self.frame = 0
        self.page.evaluate(_WIDGET, {"_decoder": decoder})
        hello = self.sent("hello")[-1]
        self.view = hello["view"]
        self.welcome()
        for _ in range(views):
            self.page.evaluate("() => host.addView()")
        self.page.wait_for_function("() => host.sent.some(message => message.type === 'decoder')")

    def welcome(self) -> None:
        """Answer the last hello, as the kernel does."""
        hello = self.sent("hello")[-1]
        answer = {
            "type": "welcome",
            "version": 1,
            "view": hello["view"],
            "epoch": hello["epoch"],
            "window": 1,
        }
        self.deliver(answer)

    def sent(self, kind: str) -> list[dict[str, Any]]:
        """Return what the widget has told the kernel, of one type."""
        messages: list[dict[str, Any]] = self.page.evaluate(
            "kind => host.sent.filter(message => message.type === kind)", kind
        )
        return messages

    def deliver(self, message: dict[str, Any], file: bytes | None = None) -> None:
        """Hand a message over, with at most one buffer."""
        text = None if file is None else base64.b64encode(file).decode()
        self.page.evaluate("([message, file]) => host.deliver(message, file)", [message, text])

    def set(self, trait: str, value: Any) -> None:
        """Change a trait, as the kernel does."""
        self.page.evaluate("([trait, value]) => host.set(trait, value)", [trait, value])

    def show(
        self,
        file: bytes,
        width: int,
        height: int,
        codec: str = "jpeg",
        fit: str = "exact",
        scale: int = 1,
        part: dict[str, int] | None = None,
        alpha: int | None = None,
    ) -> bool:
        """Send a frame and wait for its acknowledgement; returns whether it was shown."""
        self.frame += 1
        before = len(self.sent("ack"))
        header = {"type": "frame", "id": self.frame, "codec": codec, "width": width, "height": height}
        if part is not None:
            header["part"] = part
        if alpha is not None:
            header["alpha"] = alpha
        self.deliver({**header, "fit": fit, "scale": scale, "final": True}, file)
        self.page.wait_for_function(
            "count => host.sent.filter(message => message.type === 'ack').length > count", arg=before
        )
        ack = self.sent("ack")[-1]
        assert ack["frame"] == self.frame
        return bool(ack["shown"] == 1)

    def show_by_own_decoder(self, file: bytes, width: int, height: int, **options: Any) -> None:
        """Show a file, again if need be: the stages for some kinds are compiled when the first such file comes."""
        for _ in range(300):
            copies = self.page.evaluate("copies")
            assert self.show(file, width, height, **options), self.badge
            if self.page.evaluate("copies") == copies:
                return
            self.page.wait_for_timeout(100)
        raise AssertionError("the browser's decoder shows it, not our own")

    @property
    def badge(self) -> str:
        """The text over the first view."""
        return self.page.locator(".rfb-gpu-badge").first.inner_text()

    def canvas(self, index: int = 0) -> harness.Canvas:
        """A view's canvas, as a person sees it."""
        return harness.Canvas(self.page, self.page.locator("canvas.rfb-gpu-canvas").nth(index))

    def pixels(self, index: int = 0) -> harness.Picture:
        """Return what was last drawn to a view's canvas: all of it, also what is not on the screen."""
        text = (
            self.page.locator("canvas.rfb-gpu-canvas")
            .nth(index)
            .evaluate("canvas => pngOf(drawn.get(canvas))")
        )
        return harness.to_picture(base64.b64decode(text))


class DecodingPage(LocalPage):
    """A page with the decoders in `globalThis.decoding`."""

    def __init__(self, browser: Browser, bundle: pathlib.Path, before: str = "") -> None:
        super().__init__(browser, {"decoding.js": bundle}, before)
        self.page.evaluate("async () => { globalThis.decoding = await import('/decoding.js') }")


def build_decoding(folder: pathlib.Path) -> pathlib.Path:
    """Bundle js/src/decoding.ts; returns the file."""
    file = folder / "decoding.js"
    node = shutil.which("node")
    assert node, "node is not on PATH"
    subprocess.run([node, "build.mjs", "--decoding", str(file)], cwd=harness.REPOSITORY / "js", check=True)
    return file


@contextlib.contextmanager
def closing(page: LocalPage) -> Iterator[Any]:
    """Close the page when the block ends, and say what it logged if the block failed."""
    try:
        yield page
    except BaseException as error:
        error.args = (*error.args, "the page logged: " + "; ".join(page.console[-10:]))
        raise
    finally:
        page.close()


def with_pillow(file: bytes) -> harness.Picture:
    """Return an image file's pixels by libjpeg-turbo or libpng."""
    return harness.to_picture(file)


def as_file(picture: harness.Picture, codec: str = "JPEG", **options: Any) -> bytes:
    """Return a picture as a file written by Pillow."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, codec, **options)
    return file.getvalue()
