/**
 * One element in the page: the renderview base class handles its events, size and title bar; this adds the canvas that
 * shows frames, and the badge. It never talks to the kernel: everything goes through its owner.
 */
import type { Picture, Presenter } from "./presenter";
import type { RenderviewEvent } from "./protocol";
import { BaseRenderView } from "./renderview";
import { StatsOverlay } from "./stats";
import { Throttle } from "./throttle";
import { watchFingers } from "./touch";

/** The side of the model that a view sees. */
export interface ViewOwner {
  /** The user begins to resize it. */
  onViewGrabbed(view: CanvasView): void;
  onViewEvent(view: CanvasView, event: RenderviewEvent): void;
  onViewShown(view: CanvasView): void;
  onViewHidden(view: CanvasView): void;
  onViewClosed(view: CanvasView, byUser: boolean): void;
}

/** How a view looks, by the trait of the widget that says so. Each is set alone: a new cursor must not undo the size that
 * the user dragged. */
export const LOOKS: Readonly<Record<string, (view: CanvasView, value: unknown) => void>> = {
  _css_width: (view, value) => view.setCssWidth(String(value ?? "")),
  _css_height: (view, value) => view.setCssHeight(String(value ?? "")),
  _resizable: (view, value) => view.setResizable(Boolean(value)),
  _is_minimizable: (view, value) => view.setMinimizable(Boolean(value)),
  _is_closable: (view, value) => view.setClosable(Boolean(value)),
  _has_titlebar: (view, value) => view.showTitlebar(Boolean(value)),
  _title: (view, value) => view.setTitle(String(value ?? "")),
  _cursor: (view, value) => view.setCursor(String(value ?? "")),
  _show_stats: (view, value) => view.showStats(Boolean(value)),
  _capture_wheel: (view, value) => view.setCaptureWheel(Boolean(value)),
  _max_pixel_ratio: (view, value) => view.setMaxPixelRatio(Number(value)),
};

/** The title bar's buttons by their classes, and how they are called. */
const BUTTONS: Readonly<Record<string, string>> = {
  "rfb-gpu-full-screen-button": "Full screen",
  "renderview-minimize-button": "Minimize",
  "renderview-close-button": "Close",
};

export class CanvasView extends BaseRenderView {
  /** On screen and with a size, as far as this element goes. */
  isVisible = false;
  /** The last event that told a size. */
  resize: RenderviewEvent | null = null;
  /** The canvas has the size of this view; else pictures are scaled to fit. */
  #leads = true;
  readonly #owner: ViewOwner;
  /** The host's element, which the view is put into. */
  readonly #container: HTMLElement;
  readonly #screen: HTMLElement;
  readonly #badge = document.createElement("div");
  #stats: StatsOverlay | null = null;
  #canvas: HTMLCanvasElement | null = null;
  #drawnBy: Presenter | null = null;
  #picture: Picture | null = null;
  #closedBy: "nobody" | "user" | "owner" = "nobody";
  readonly #throttle = new Throttle((event) => {
    // The last may be due shortly after the view was closed.
    if (this.#closedBy === "nobody") {
      this.#owner.onViewEvent(this, event);
    }
  });
  /** Takes off the listeners that are not on elements of its own. */
  readonly #closed = new AbortController();
  #ratioQuery: MediaQueryList | null = null;
  /** What screen readers say of it. */
  #title = "canvas";
  #capturesWheel = false;
  #maxRatio = Number.POSITIVE_INFINITY;
  /** What stands in for the canvas on paper. */
  #print: HTMLCanvasElement | null = null;

  constructor(owner: ViewOwner, container: HTMLElement) {
    const wrapper = document.createElement("div");
    wrapper.classList.add("rfb-gpu-wrapper");
    container.appendChild(wrapper);
    const screen = document.createElement("div");
    screen.classList.add("rfb-gpu-view");
    super(screen, wrapper);
    this.setThrottle(0);

    this.#owner = owner;
    this.#container = container;
    this.#screen = screen;
    this.#badge.classList.add("rfb-gpu-badge");
    this.#badge.setAttribute("role", "status");
    screen.appendChild(this.#badge);
    const corner = wrapper.querySelector(".renderview-resizer");
    corner?.addEventListener("pointerdown", () => owner.onViewGrabbed(this));
    this.#addFullScreen(wrapper);
    this.#nameButtons(wrapper);
    this.#watchTab(wrapper);
    watchFingers(screen, (event) =>
      this.onEvent({ ...event, timestamp: performance.now() / 1000 } as RenderviewEvent),
    );
    screen.addEventListener("wheel", this.#onWheel, { capture: true, passive: false });
    for (const type of ["pointerdown", "pointermove"] as const) {
      screen.addEventListener(type, this.#onPointer, { capture: true });
    }
    window.addEventListener("beforeprint", this.#onBeforePrint, { signal: this.#closed.signal });
    window.addEventListener("afterprint", this.#onAfterPrint, { signal: this.#closed.signal });
    this.#watchRatio();
  }

  /** Shows the picture that the presenter keeps. */
  show(presenter: Presenter, picture: Picture): void {
    let canvas = this.#canvas;
    if (canvas === null || this.#drawnBy !== presenter) {
      // A canvas has one kind of context for life, and that of a lost device stays dead. The old canvas stays in place
      // until the new one has its picture.
      canvas = document.createElement("canvas");
      canvas.classList.add("rfb-gpu-canvas");
      canvas.setAttribute("role", "img");
      canvas.ariaLabel = this.#title;
    }
    if (canvas.width !== picture.width || canvas.height !== picture.height) {
      canvas.width = picture.width;
      canvas.height = picture.height;
    }
    presenter.draw(canvas);
    this.#picture = picture;
    this.#layOut(canvas, picture);
    canvas.dataset.rfbFrame = String(picture.id);
    canvas.dataset.rfbDecoder = presenter.name;
    canvas.dataset.rfbFinal = String(picture.final);
    canvas.dataset.rfbScale = String(picture.scale);
    canvas.dataset.rfbRoad = picture.road;
    canvas.dataset.rfbSize = `${picture.width}x${picture.height}`;
    if (canvas !== this.#canvas) {
      this.#canvas?.remove();
      this.#screen.prepend(canvas);
      this.#canvas = canvas;
      this.#drawnBy = presenter;
    }
  }

  get isInPage(): boolean {
    return this.#screen.isConnected;
  }

  showStats(shown: boolean): void {
    if (!shown) {
      this.#stats?.element.remove();
      this.#stats = null;
    } else if (!this.#stats) {
      this.#stats = new StatsOverlay();
      this.#screen.appendChild(this.#stats.element);
    }
  }

  /** Null unless they are shown. */
  get stats(): StatsOverlay | null {
    return this.#stats;
  }

  /** `isDimmed`: nothing moves the picture any more. */
  setBadge(lines: readonly string[], isDimmed: boolean): void {
    this.#badge.textContent = lines.join("\n");
    this.#screen.classList.toggle("rfb-gpu-dimmed", isDimmed);
  }

  set leads(leads: boolean) {
    if (this.#leads !== leads) {
      this.#leads = leads;
      this.#layOutAgain();
    }
  }

  override setTitle(title: string): void {
    super.setTitle(title);
    this.#title = title || "canvas";
    for (const element of [this.#canvas, this.#screen, this._focusElement]) {
      if (element) {
        element.ariaLabel = this.#title;
      }
    }
  }

  /** Whether the wheel is the canvas's although the canvas has no focus; else it then scrolls the page. */
  setCaptureWheel(captures: boolean): void {
    this.#capturesWheel = captures;
  }

  /** Pixels per CSS pixel, at most; a display that has more shows each larger. 0: as many as it has. */
  setMaxPixelRatio(ratio: number): void {
    this.#maxRatio = ratio > 0 ? ratio : Number.POSITIVE_INFINITY;
    this.#askSize();
  }

  /** Takes the view out of the page. Not the user's doing: see close(). */
  dispose(): void {
    if (this.#closedBy === "nobody") {
      this.#closedBy = "owner";
      this.close();
    }
  }

  /** The base class calls this when the user presses the × of the title bar. */
  override close(): void {
    if (this.#closedBy === "nobody") {
      this.#closedBy = "user";
    }
    this.#closed.abort();
    if (this.#container.matches(":fullscreen")) {
      this.#toggleFullScreen();
    }
    const wrapper = this.wrapperElement;
    super.close();
    wrapper?.remove();
  }

  override onEvent(event: RenderviewEvent): void {
    switch (event.type) {
      case "show":
        this.isVisible = true;
        this.#owner.onViewShown(this);
        break;
      case "hide":
        this.isVisible = false;
        this.#owner.onViewHidden(this);
        break;
      case "close":
        this.isVisible = false;
        this.#owner.onViewClosed(this, this.#closedBy === "user");
        break;
      case "resize":
        this.resize = this.#capped(event);
        if (!this.#leads) {
          this.#layOutAgain();
        }
        this.#owner.onViewEvent(this, this.resize);
        break;
      default:
        this.#throttle.take(event);
    }
  }

  /**
   * One image pixel per device pixel, or per a few on a thin link, which the browser smooths: an older frame keeps its own size while
   * the element is resized. The picture of another view's size is shown whole and undistorted.
   */
  #layOut(canvas: HTMLCanvasElement, picture: Picture): void {
    const stretch = picture.fit === "stretch";
    const contain = !this.#leads && !this.#hasSizeOf(picture);
    canvas.classList.toggle("rfb-gpu-stretch", stretch);
    canvas.classList.toggle("rfb-gpu-contain", contain);
    canvas.classList.toggle(
      "rfb-gpu-smooth",
      picture.scale > 1 || (contain && !stretch) || this.#ratio < window.devicePixelRatio,
    );
    const pixel = picture.scale / this.#ratio;
    canvas.style.width = stretch || contain ? "" : `${picture.width * pixel}px`;
    canvas.style.height = stretch || contain ? "" : `${picture.height * pixel}px`;
  }

  #layOutAgain(): void {
    if (this.#canvas && this.#picture) {
      this.#layOut(this.#canvas, this.#picture);
    }
  }

  #hasSizeOf({ width, height, scale }: Picture): boolean {
    return (
      Math.ceil(Number(this.resize?.pwidth) / scale) === width &&
      Math.ceil(Number(this.resize?.pheight) / scale) === height
    );
  }

  /** The pixel ratio changes without a change of CSS size on another monitor, which the base class does not notice. */
  #watchRatio(): void {
    this.#ratioQuery = window.matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`);
    this.#ratioQuery.addEventListener("change", this.#onRatio, { once: true, signal: this.#closed.signal });
  }

  readonly #onRatio = (): void => {
    this.#watchRatio();
    this.#layOutAgain();
    this.#askSize();
  };

  get #ratio(): number {
    return Math.min(window.devicePixelRatio, this.#maxRatio);
  }

  #capped(event: RenderviewEvent): RenderviewEvent {
    const ratio = this.#ratio;
    if (ratio === window.devicePixelRatio) {
      return event;
    }
    const pixels = (side = 0) => Math.max(Math.round(side * ratio), 1);
    return { ...event, pwidth: pixels(event.width), pheight: pixels(event.height), ratio };
  }

  #askSize(): void {
    // To observe anew is to be told the size anew.
    this._resizeObserver?.unobserve(this.#screen);
    this._resizeObserver?.observe(this.#screen);
  }

  /** With Shift, the right button opens the browser's own menu, which can save and copy the picture. */
  readonly #onPointer = (event: PointerEvent): void => {
    this.#screen.classList.toggle("rfb-gpu-menu", event.shiftKey && event.button === 2);
  };

  // ----- the wheel without focus

  readonly #onWheel = (event: WheelEvent): void => {
    if (!this.#capturesWheel || event.altKey || document.activeElement === this._focusElement) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    const scale = [1 / window.devicePixelRatio, 16, 600][event.deltaMode] ?? 1; // as in the base class
    const modifiers = Object.entries({
      Alt: event.altKey,
      Control: event.ctrlKey,
      Meta: event.metaKey,
      Shift: event.shiftKey,
    });
    this.onEvent({
      type: "wheel",
      x: event.offsetX,
      y: event.offsetY,
      dx: event.deltaX * scale,
      dy: event.deltaY * scale,
      buttons: [],
      modifiers: modifiers.filter(([, isDown]) => isDown).map(([name]) => name),
      timestamp: performance.now() / 1000,
    });
  };

  // ----- the keyboard

  /**
   * The Tab key comes to the canvas, which then has all keys but that one, and with it leaves. Escape, which the program hears, gives the keys
   * back to the page. What has the focus in place of the canvas is elsewhere in the page; Tab is to go on from here.
   */
  #watchTab(wrapper: HTMLElement): void {
    const [screen, focus] = [this.#screen, this._focusElement];
    let isLeaving = false;
    const leave = () => {
      isLeaving = true;
      screen.focus({ preventScroll: true });
      isLeaving = false;
    };
    screen.tabIndex = 0;
    screen.role = "application";
    screen.addEventListener("focus", () => {
      if (!isLeaving) {
        wrapper.classList.add("rfb-gpu-by-tab");
        focus?.focus({ preventScroll: true });
      }
    });
    focus?.addEventListener("blur", () => wrapper.classList.remove("rfb-gpu-by-tab"));
    for (const type of ["keydown", "keyup"] as const) {
      const onTab = (event: KeyboardEvent) => {
        if (event.key === "Tab") {
          event.stopImmediatePropagation();
          if (type === "keydown") {
            leave();
          }
        }
      };
      focus?.addEventListener(type, onTab, { capture: true });
    }
    focus?.addEventListener("keyup", (event) => {
      if (event.key === "Escape") {
        leave();
      }
    });
  }

  /** The title bar's buttons, which are no buttons to the browser. */
  #nameButtons(wrapper: HTMLElement): void {
    for (const [kind, name] of Object.entries(BUTTONS)) {
      for (const button of wrapper.querySelectorAll<HTMLElement>(`.${kind}`)) {
        button.role = "button";
        button.ariaLabel = name;
        button.tabIndex = 0;
        button.dataset.lmSuppressShortcuts = "true"; // JupyterLab takes Enter
        button.addEventListener("keydown", (event) => {
          if (event.key === "Enter" || event.key === " ") {
            event.preventDefault();
            button.click();
          }
        });
      }
    }
  }

  // ----- full screen

  #addFullScreen(wrapper: HTMLElement): void {
    const button = document.createElement("span");
    button.classList.add("renderview-button", "rfb-gpu-full-screen-button");
    button.title = "Full screen (Alt+Enter)";
    button.addEventListener("click", () => this.#toggleFullScreen());
    wrapper.querySelector(".renderview-minimize-button")?.before(button);
    const focus = this._focusElement;
    const home = focus?.parentElement;
    focus?.addEventListener("keydown", (event) => {
      if (event.altKey && event.key === "Enter" && !event.repeat) {
        event.preventDefault();
        this.#toggleFullScreen();
      }
    });
    const onChange = () => {
      // What is not in the full screen has no keys there.
      if (focus) {
        (this.#container.matches(":fullscreen") ? wrapper : home)?.append(focus);
        focus.focus({ preventScroll: true });
      }
    };
    this.#container.addEventListener("fullscreenchange", onChange, { signal: this.#closed.signal });
  }

  #toggleFullScreen(): void {
    const container = this.#container;
    const isFull = container.matches(":fullscreen");
    // A host may forbid it in its frames; then nothing happens.
    (isFull ? document.exitFullscreen() : container.requestFullscreen()).catch(() => {});
  }

  // ----- paper, on which browsers leave a canvas of WebGPU white

  readonly #onBeforePrint = (): void => {
    const canvas = this.#canvas;
    if (canvas) {
      this.#drawnBy?.draw(canvas);
      const copy = canvas.cloneNode() as HTMLCanvasElement;
      copy.getContext("2d")?.drawImage(canvas, 0, 0);
      canvas.after(copy);
      this.#print = copy;
    }
  };

  readonly #onAfterPrint = (): void => {
    this.#print?.remove();
    this.#print = null;
  };
}
