"""The canvas as a widget of notebooks: what the page gets of it, and the notebook's own channel to it."""

from __future__ import annotations

import anywidget
from traitlets import Bool, Float, Unicode

from . import lifetime
from .canvas import StreamingCanvas
from .diagnostics import BUNDLE, STYLE, find_bundle
from .threads import receive_directly

__all__ = ["PageWidget", "RenderCanvas"]

if find_bundle() is None:
    raise ImportError(
        "rfb_gpu's front end is not built: run `make setup` in the checkout (or `python hatch_build.py`), or install the wheel"
    )


# As in js/src/host.ts, which does this for files that a page saves.
SAVED_MODULE = (
    'export default { render: ({ el }) => { el.textContent = "Run this cell to see the canvas." } }'
)


class PageWidget(anywidget.AnyWidget):
    """A widget that our page code shows."""

    # As texts: anywidget watches files, and what watches holds every canvas for ever.
    _esm = BUNDLE.read_text(encoding="utf-8")
    _css = STYLE.read_text(encoding="utf-8")

    # Kernel -> page only. The page never writes a trait.
    _css_width = Unicode("500px").tag(sync=True)
    _css_height = Unicode("300px").tag(sync=True)
    _resizable = Bool(True).tag(sync=True)
    _is_minimizable = Bool(False).tag(sync=True)
    _is_closable = Bool(False).tag(sync=True)
    _has_titlebar = Bool(False).tag(sync=True)
    _title = Unicode("").tag(sync=True)
    _cursor = Unicode("default").tag(sync=True)
    _decoder = Unicode("auto").tag(sync=True)
    _show_stats = Bool(False).tag(sync=True)
    _capture_wheel = Bool(False).tag(sync=True)
    _max_pixel_ratio = Float(0.0).tag(sync=True)  # 0: none

    def open(self) -> None:
        """See ``ipywidgets.Widget.open``. Keeps the front end out of notebooks that a program without a page executes and saves."""
        is_new = self.comm is None
        super().open()
        if is_new and type(self.comm).__module__.startswith("ipykernel."):
            # nbclient takes the state in any message for the widget's. Pages take that of updates alone, and know no message of
            # this type: to them this is nothing.
            state = {"_esm": SAVED_MODULE, "_css": ""}
            self.comm.send({"method": "custom", "content": {"type": "saved"}, "state": state})


class RenderCanvas(StreamingCanvas, PageWidget):
    """A canvas to use in notebooks; a drop-in for ``rendercanvas.anywidget.RenderCanvas``.

    It takes the arguments of ``rendercanvas.BaseRenderCanvas`` as well: size, title, update_mode, min_fps, max_fps, vsync and
    present_method.

    Arguments:
        quality: of JPEG frames, 1 to 100: ``(least, best)``, within which it follows what the link carries; or one number.
        codec: ``"auto"``: JPEG, and PNG at rest; while the link is slow also in motion, where the GPU makes PNGs and these are
            smaller, as of many plots; for ``quality=100`` always PNG. ``"jpeg"``: JPEG at any quality, and PNG at rest;
            ``"png"``: always PNG, every frame without loss. Quality and subsampling are those of JPEG.
        subsampling: ``"444"``, or ``"422"`` or ``"420"`` for fewer bytes and softer colours, or ``"gray"``. On a thin link, a
            range of qualities also lets it fall to ``"420"`` and the picture to half or a quarter of its size; one number does not.
        latency_budget: seconds that a frame may take beyond the link's delay; quality and rate give way for it. None: neither
            does.
        encoder: ``"auto"``: the GPU, unless the adapter is a CPU; or ``"gpu"`` or ``"cpu"``.
        decoder: in the page. ``"auto"``: WebGPU where there is a GPU, else the browser's own; or ``"webgpu"`` or ``"browser"``.
        alpha: ``"opaque"``, or ``"premultiplied"``: where alpha is below 1, what lies behind the canvas in the page shows through.
            Colours are multiplied with alpha, as those of a pygfx scene without a background are.
        lossless_delay: seconds without a draw after which the last frame is sent without loss; None: never.
        max_buffered_frames: how many frames a page may have unacknowledged; None: as many as it turns out to need.
        live: draws and handles events on a thread of its own, so also while a cell runs. What a program must mind then
            is in ``docs/threads.md``, first of all :attr:`lock`.
        transport: of frames. ``"auto"``: a websocket from the page to this process where it can be had (on this machine, or by
            jupyter-server-proxy), else the notebook's own channel; ``"comm"``: that channel alone, and no port is opened;
            ``"websocket"``: as auto, and pages that cannot have one say so. The port is of 127.0.0.1 only, and takes a secret.
        capture_wheel: whether the wheel is always the canvas's. Else it scrolls the page until the canvas is clicked.
        max_pixel_ratio: pixels per CSS pixel at most, for a display that has more: each is then shown larger. 2 has 44 % of the
            pixels of a display with 3. None: as many as the display has.

    Raises:
        NoAdapterError: pygfx is loaded, and there is no adapter that it could draw with. Without pygfx,
            ``get_context("wgpu")`` raises it.
        ValueError, TypeError: an argument is out of its range.
    """

    _rfb_receives_directly = False

    @property
    def _rfb_widget(self) -> RenderCanvas:
        return self

    def _rfb_listen(self) -> None:
        self.on_msg(self._rfb_on_message)
        self.comm.on_msg(lifetime.weakly(self._handle_msg))

    def _rfb_receive_directly(self) -> None:
        if not self._rfb_receives_directly:
            self._rfb_receives_directly = True
            receive_directly(self.comm, lifetime.weakly(self._handle_msg))

    def _rfb_is_trait(self, name: str) -> bool:
        return bool(self.has_trait(name))

    def set_css_width(self, css_width: str) -> None:
        """Sets the width as a CSS text, e.g. ``"100%"``."""
        self._css_width = css_width

    def set_css_height(self, css_height: str) -> None:
        """Sets the height as a CSS text, e.g. ``"50vh"``."""
        self._css_height = css_height

    def set_resizable(self, resizable: bool) -> None:
        """Whether the user can resize the canvas by its corner."""
        self._resizable = bool(resizable)

    def set_minimizable(self, minimizable: bool) -> None:
        """Whether the title bar has a button that folds the canvas away; nothing is drawn while no page shows it."""
        self._is_minimizable = bool(minimizable)

    def set_closable(self, closable: bool) -> None:
        """Whether the title bar has a button that closes the canvas."""
        self._is_closable = bool(closable)

    def _rc_set_logical_size(self, width: float, height: float) -> None:
        super()._rc_set_logical_size(width, height)
        self._css_width = f"{width}px"
        self._css_height = f"{height}px"

    def _rc_set_title(self, title: str) -> None:
        self._title = str(title)
        self._has_titlebar = bool(title)

    def _rc_set_cursor(self, cursor: str) -> None:
        self._cursor = cursor

    def _rc_close(self) -> None:
        if not self._is_closed:
            super()._rc_close()
            # Hosts take the last picture away with the widget.
            if not self._rfb_pages.hosts:
                lifetime.close(self)
