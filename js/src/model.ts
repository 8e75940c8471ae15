/**
 * The page's copy of one canvas: receives frames, has them decoded and shown on each of its views, and tells the kernel
 * what became of them. One per widget and page; docs/protocol.md is the contract that it keeps.
 *
 * It never writes a trait (in marimo that re-runs cells, in Jupyter it costs an echo), and never waits for a GPU before
 * it listens: anywidget drops the messages of a widget that takes more than two seconds to initialize.
 */
import { AckBatcher } from "./acks";
import { Conversation, type Hello } from "./conversation";
import { acquireGpu, type Gpu, messageOf, SlowStart } from "./device";
import { guessHost, isHostGone, keepBundleOutOfSavedState, whenKernelIsGone } from "./host";
import { Mailbox } from "./mailbox";
import { BrowserPresenter, GpuPresenter, type Picture, type Presenter } from "./presenter";
import {
  type Frame,
  type FrameHeader,
  frameFile,
  type Part,
  PROTOCOL_VERSION,
  parseKernelMessage,
  type RenderviewEvent,
  type RoadName,
} from "./protocol";
import { Road, type RoadOwner } from "./road";
import { CanvasView, LOOKS, type ViewOwner } from "./view";

/** The part of an anywidget model that is used here. */
export interface AnyModel {
  get(name: string): unknown;
  // biome-ignore lint/suspicious/noExplicitAny: the hosts pass what they like, and the callbacks check it
  on(event: string, callback: (...args: any[]) => void): void;
  // biome-ignore lint/suspicious/noExplicitAny: as above
  off(event: string, callback: (...args: any[]) => void): void;
  send(content: unknown): unknown;
  /** Of Jupyter's hosts only. */
  set?(name: string, value: unknown, options?: { silent: boolean }): void;
  readonly widget_manager?: unknown;
}

/** By these a person turns to a view. */
const USE = ["pointer_down", "key_down", "focus_in"];
/** Browsers stop animation frames in hidden tabs and in frames scrolled out of sight; pictures then come by this timer. */
const FRAME_TIMEOUT_MS = 200;
/** A GPU that has this many pictures still to finish gets no more: the mailbox then drops what it cannot do. */
const MAX_UNFINISHED = 3;
/** After so long without a welcome the page says so, and says hello again: then twice as long, and so on. */
const WELCOME_TIMEOUT_MS = 5000;
const MAX_HELLOS = 5;
/** Who acts while the kernel has been silent for a second learns two seconds later that it stays so. */
const SILENCE_MS = 1000;
const PATIENCE_MS = 2000;
/** Hosts take an output away to put it anew: only a canvas that nothing shows for longer is out of the page. */
const UNSEEN_MS = 500;

const NO_ANSWER = "No answer from the kernel: it is busy, or gone (then run the cell again).";

/** Whether a part continues what is shown. */
function fits({ base, index }: Part, { width, height }: Frame, shown: Picture | null): boolean {
  return (
    shown !== null &&
    shown.base === base &&
    shown.parts === index &&
    shown.width === width &&
    shown.height === height
  );
}

/** What is known of a picture once this frame is part of it. */
function pictureOf(frame: Frame): Picture {
  const { id, width, height, fit, scale, final, road, part } = frame;
  const of = part ? { base: part.base, parts: part.index + 1 } : { base: id, parts: 0 };
  return { id, width, height, fit, scale, final, road, ...of };
}

export class CanvasModel implements ViewOwner, RoadOwner {
  readonly #any: AnyModel;
  readonly #conversation: Conversation;
  readonly #road = new Road(this);
  /** Why there is no websocket although one was offered. */
  #roadReason = "";
  readonly #acks: AckBatcher;
  readonly #mailbox = new Mailbox<Frame>();
  readonly #errors = new Map<string, string>();
  /** What to call to be rid of all listeners. */
  readonly #undo: (() => void)[] = [];
  #views: CanvasView[] = [];
  /** Of the views in this page, the one whose events count and whose size the kernel is told: the one that was used last. */
  #leader: CanvasView | null = null;
  /** This page is in control, as far as is known. */
  #inControl = true;

  #presenter: Presenter | null = null;
  #picture: Picture | null = null;
  /** Counts the choices of a decoder: one that takes long must not replace a later one. */
  #choice = 0;
  #decoder: { name: Presenter["name"]; method: string; reason: string; adapter: string } | null = null;

  #scheduled: { frame: number; timer: number } | null = null;
  #decoding = false;
  #unfinished = 0;
  /** When the last turn began; null once it is known when the next could have. */
  #turn: number | null = null;

  #visible = false;
  /** Nothing more is to be said. */
  #ended = false;
  #welcomeTimer = 0;
  #hellosInVain = 0;
  /** When the kernel was last heard, and until when it has time to answer. */
  #heard = 0;
  #patienceTimer = 0;
  #unseenTimer = 0;

  /** `onControl` is told whether this page is in control, each time that the kernel says so. */
  constructor(
    any: AnyModel,
    private readonly onControl: (inControl: boolean) => void = () => {},
  ) {
    this.#any = any;
    // Some hosts send synchronously, others give a promise; either may fail once the comm is closed.
    this.#conversation = new Conversation((message) => {
      if (!this.#road.send(message)) {
        Promise.resolve(any.send(message)).catch(() => {});
      }
    });
    this.#acks = new AckBatcher((ack) => this.#conversation.send(ack), {
      set: (callback, ms) => window.setTimeout(callback, ms),
      clear: (timer) => window.clearTimeout(timer),
    });

    this.#onModel("msg:custom", (content: unknown, buffers: unknown, free?: () => void) => {
      // A notebook's channel may have shown its buffers to others.
      this.#onMessage(content, () => frameFile(content, buffers), free ?? (() => {}), "comm");
    });
    for (const [trait, apply] of Object.entries(LOOKS)) {
      this.#onModel(`change:${trait}`, () => {
        for (const view of this.#views) {
          apply(view, any.get(trait));
        }
      });
    }
    this.#onModel("change:_decoder", () => void this.#chooseDecoder());
    this.#undo.push(whenKernelIsGone(any, (reason) => this.#end(reason)));
    keepBundleOutOfSavedState(any);
    this.#onPage(document, "visibilitychange", () => this.#onTabVisibility());
    this.#onPage(window, "pagehide", () => {
      this.#conversation.bye(false);
      this.#road.close();
    });
    this.#onPage(window, "pageshow", () => {
      // Back from the browser's cache of pages: everything is here, only the kernel was told goodbye.
      if (this.#views.length > 0) {
        this.#wake();
      }
    });

    this.#hello();
    void this.#chooseDecoder();
  }

  addView(container: HTMLElement): CanvasView {
    const view = new CanvasView(this, container);
    this.#views.push(view);
    for (const [trait, apply] of Object.entries(LOOKS)) {
      apply(view, this.#any.get(trait));
    }
    this.#leader ??= view;
    view.leads = this.#inControl && view === this.#leader;
    this.#tell(view);
    window.clearTimeout(this.#unseenTimer);
    this.#wake();
    this.#showOn(view);
    return view;
  }

  /** Asks the kernel to be in control. In a notebook it is enough to use a view. */
  askForControl(): void {
    this.#conversation.send({ type: "control" });
  }

  /** The only connection broke, and is not there until reconnected(). Notebooks' own channels never say so. */
  disconnected(reason: string): void {
    window.clearTimeout(this.#welcomeTimer);
    window.clearTimeout(this.#patienceTimer);
    this.#setError("kernel", "");
    this.#setError("connection", reason);
  }

  reconnected(): void {
    this.#setError("connection", "Waiting for a picture…");
    this.#hello();
  }

  /** The widget's model goes away in this page: the comm was closed, or the module is replaced. */
  close(): void {
    this.#ended = true;
    for (const undo of this.#undo) {
      undo();
    }
    for (const view of [...this.#views]) {
      view.dispose();
    }
    this.#sleep(false);
  }

  // ----- what views report

  onViewEvent(view: CanvasView, event: RenderviewEvent): void {
    if (USE.includes(event.type)) {
      this.#lead(view);
    }
    const hasSize = event.type !== "resize" || (event.width ?? 0) * (event.height ?? 0) > 0;
    if (view === this.#leader && hasSize && !this.#ended) {
      this.#acks.flush();
      this.#conversation.send({ type: "event", event });
      if (event.type !== "resize") {
        this.#expectAnswer();
      }
    }
  }

  /** Who gives a view another size wants the canvas to have it. */
  onViewGrabbed(view: CanvasView): void {
    this.#lead(view);
    if (!this.#inControl) {
      this.askForControl();
    }
  }

  onViewShown(view: CanvasView): void {
    this.#updateVisibility();
    // Hosts take elements out of the page that they do not need, and may forget to close them.
    if (!this.#leader?.isInPage) {
      this.#lead(view);
    }
    // Browsers may forget what a canvas out of sight, or out of the document, showed.
    this.#showOn(view);
  }

  onViewHidden(): void {
    this.#updateVisibility();
  }

  onViewClosed(view: CanvasView, byUser: boolean): void {
    if (byUser) {
      // × closes the canvas, not only this element: the kernel answers with `closed`.
      this.#lead(view);
      this.onViewEvent(view, { type: "close", timestamp: performance.now() / 1000 });
    }
    this.#views = this.#views.filter((other) => other !== view);
    if (view === this.#leader) {
      this.#lead(this.#views[0] ?? null);
    }
    this.#updateVisibility();
    if (this.#views.length === 0) {
      window.clearTimeout(this.#unseenTimer);
      this.#unseenTimer = window.setTimeout(() => this.#sleep(!isHostGone(this.#any)), UNSEEN_MS);
    }
  }

  // ----- seen or not

  /** Nothing in this page shows the canvas any more: lets go of all that pictures need, and of the kernel. */
  #sleep(isUnseen: boolean): void {
    this.#conversation.bye(isUnseen);
    this.#road.close();
    this.#acks.reset();
    this.#unschedule();
    for (const timer of [this.#welcomeTimer, this.#patienceTimer, this.#unseenTimer]) {
      window.clearTimeout(timer);
    }
    this.#choice += 1;
    this.#presenter?.close();
    this.#presenter = this.#picture = null;
  }

  #wake(): void {
    if (this.#conversation.ended && !this.#ended) {
      this.#hello();
      if (!this.#presenter) {
        void this.#chooseDecoder();
      }
    }
  }

  /** Nothing more will come. Views keep the last picture for as long as the host keeps them. */
  #end(reason: string): void {
    this.#ended = true;
    this.#road.close();
    window.clearTimeout(this.#welcomeTimer);
    window.clearTimeout(this.#patienceTimer);
    this.#setError("connection", "");
    this.#setError("kernel", reason);
  }

  /** Another view of this page has the canvas's size from now on. */
  #lead(view: CanvasView | null): void {
    if (view === this.#leader) {
      return;
    }
    this.#leader = view;
    this.#updateLeads();
    if (view?.resize) {
      this.onViewEvent(view, view.resize);
    }
  }

  #updateLeads(): void {
    for (const view of this.#views) {
      view.leads = this.#inControl && view === this.#leader;
    }
  }

  // ----- talking to the kernel

  /** Starts an epoch, and tells again what the kernel knew of the last: it keeps its state per view and epoch. */
  #hello(): void {
    const facts: Hello = {
      dpr: window.devicePixelRatio,
      capabilities: { webgpu: Boolean(navigator.gpu), secureContext: window.isSecureContext },
      host: guessHost(),
      frontend: __RFB_GPU_VERSION__,
    };
    this.#acks.reset();
    this.#mailbox.reset();
    this.#conversation.hello(facts);
    if (this.#decoder) {
      this.#conversation.send({ type: "decoder", ...this.#decoder });
    }
    if (this.#roadReason) {
      this.#conversation.send({ type: "road", reason: this.#roadReason });
    }
    if (this.#leader?.resize) {
      this.onViewEvent(this.#leader, this.#leader.resize);
    }
    if (this.#visible) {
      this.#conversation.send({ type: "visibility", visible: true });
    }
    window.clearTimeout(this.#welcomeTimer);
    const patience = WELCOME_TIMEOUT_MS * 2 ** this.#hellosInVain;
    this.#welcomeTimer = window.setTimeout(() => this.#onSilence(), patience);
  }

  /** Frames may have been lost as well, so a hello asks for an answer. */
  #onSilence(): void {
    this.#setError("kernel", NO_ANSWER);
    this.#hellosInVain += 1;
    if (this.#hellosInVain < MAX_HELLOS) {
      this.#hello();
    } else {
      this.#hellosInVain = 0; // whoever acts begins anew
    }
  }

  #onMessage(
    content: unknown,
    file: () => Uint8Array<ArrayBuffer> | null,
    free: () => void,
    road: RoadName,
  ): void {
    const message = parseKernelMessage(content);
    if (message && !this.#ended) {
      this.#onHeard();
    }
    switch (message?.type) {
      case "welcome":
        if (this.#onWelcome(message.version, message.view, message.epoch, message.window) && message.road) {
          this.#road.offer(message.road);
        }
        break;
      case "frame":
        // The other road's are of an epoch that is over, or for pages that have no websocket.
        if (road === this.#road.name) {
          this.#onFrame(message, file(), free, road);
        }
        break;
      case "lead":
        if (message.view === this.#conversation.view) {
          this.#acks.lead(message.id, performance.now());
        }
        break;
      case "stats":
        for (const view of this.#views) {
          view.stats?.setText(message.text);
        }
        break;
      case "error":
        if (message.view === null || message.view === this.#conversation.view) {
          this.#onAnswer();
          this.#setError(message.code, message.text);
        }
        break;
      case "control":
        this.#inControl = message.view === this.#conversation.view;
        this.#updateLeads();
        this.onControl(this.#inControl);
        break;
      case "again":
        // The kernel has forgotten this page: it was silent for long, or many others came.
        if (message.view === this.#conversation.view && !this.#ended) {
          this.#hello();
        }
        break;
      case "closed":
        this.#end("This canvas is closed: run its cell or program again for a new one.");
        break;
    }
  }

  /** Whether it is the answer to the hello of this epoch. */
  #onWelcome(version: number, view: string, epoch: number, frames: number | null): boolean {
    if (view !== this.#conversation.view || epoch !== this.#conversation.epoch) {
      return false; // another page's, or an answer to a hello that was taken back
    }
    this.#onAnswer();
    this.#acks.window = frames ?? this.#acks.window;
    const text = `This page speaks version ${PROTOCOL_VERSION}, the kernel version ${version}: reload the page.`;
    this.#setError("version", version === PROTOCOL_VERSION ? "" : text);
    return true;
  }

  #onAnswer(): void {
    window.clearTimeout(this.#welcomeTimer);
    this.#hellosInVain = 0;
  }

  /** The kernel lives. */
  #onHeard(): void {
    this.#heard = performance.now();
    window.clearTimeout(this.#patienceTimer);
    this.#patienceTimer = 0;
    this.#setError("kernel", "");
  }

  /** Something was done, and a picture that stands still must say why: asks a silent kernel for a sign of life. */
  #expectAnswer(): void {
    if (
      this.#patienceTimer === 0 &&
      this.#hellosInVain === 0 &&
      !this.#errors.has("connection") &&
      performance.now() - this.#heard > SILENCE_MS
    ) {
      this.#conversation.send({ type: "ping" });
      this.#patienceTimer = window.setTimeout(() => {
        this.#patienceTimer = 0;
        this.#onSilence();
      }, PATIENCE_MS);
    }
  }

  #setError(code: string, text: string): void {
    if ((this.#errors.get(code) ?? "") === text) {
      return;
    }
    if (text === "") {
      this.#errors.delete(code);
    } else {
      this.#errors.set(code, text);
    }
    for (const view of this.#views) {
      this.#tell(view);
    }
  }

  /** What is wrong, if anything. Without a kernel, or a connection to it, the picture is no longer live, and looks so. */
  #tell(view: CanvasView): void {
    const isDimmed = this.#errors.has("kernel") || this.#errors.has("connection");
    view.setBadge([...this.#errors.values()], isDimmed);
  }

  // ----- the websocket: an epoch of its own, and so each time it comes or goes

  onRoadOpen(): void {
    this.#roadReason = "";
    this.#hello();
  }

  onRoadMessage(content: unknown, file: Uint8Array<ArrayBuffer> | null, free: () => void): void {
    this.#onMessage(content, () => file, free, "websocket");
  }

  onRoadLost(): void {
    this.#roadReason = "the websocket broke";
    this.#hello();
  }

  onRoadRefused(reason: string): void {
    this.#roadReason = reason;
    this.#conversation.send({ type: "road", reason });
  }

  // ----- frames

  #onFrame(
    header: FrameHeader,
    bytes: Uint8Array<ArrayBuffer> | null,
    free: () => void,
    road: RoadName,
  ): void {
    if (this.#conversation.ended || this.#ended) {
      return;
    }
    if (header.view !== null && header.view !== this.#conversation.view) {
      return;
    }
    this.#acks.window = header.window ?? this.#acks.window;
    const arrived = performance.now();
    this.#acks.received(header.id, arrived);
    if (bytes === null) {
      this.#acks.failed(header.id);
      this.#setError("decode", `Frame ${header.id} came without its file.`);
      return;
    }
    for (const older of this.#mailbox.put({ ...header, road, bytes, free, arrived })) {
      this.#acks.superseded(older.id);
      older.free();
    }
    this.#schedule();
  }

  /**
   * Has the newest frame shown with the next animation frame, if the decoder is ready for it. After a turn that is done without
   * one as well, to learn when the next could begin.
   */
  #schedule(): void {
    if (
      this.#scheduled ||
      this.#decoding ||
      (this.#mailbox.isEmpty && this.#turn === null) ||
      !this.#presenter ||
      this.#unfinished >= MAX_UNFINISHED
    ) {
      return;
    }
    const run = (isTurn: boolean) => {
      this.#unschedule();
      if (isTurn && this.#turn !== null) {
        this.#acks.turned(performance.now() - this.#turn, !this.#mailbox.isEmpty);
      }
      this.#turn = null;
      void this.#showNewest();
    };
    this.#scheduled = {
      frame: window.requestAnimationFrame(() => run(true)),
      timer: window.setTimeout(run, FRAME_TIMEOUT_MS, false),
    };
  }

  #unschedule(): void {
    if (this.#scheduled) {
      window.cancelAnimationFrame(this.#scheduled.frame);
      window.clearTimeout(this.#scheduled.timer);
      this.#scheduled = null;
    }
  }

  async #showNewest(): Promise<void> {
    const presenter = this.#presenter;
    const frame = presenter && this.#mailbox.take();
    if (!presenter || !frame) {
      return;
    }
    if (frame.part && !fits(frame.part, frame, this.#picture)) {
      // The kernel begins again with a whole picture.
      this.#acks.failed(frame.id);
      frame.free();
      this.#schedule();
      return;
    }
    this.#decoding = true;
    const started = performance.now();
    this.#turn = started;
    try {
      await presenter.decode(frame);
      if (presenter !== this.#presenter) {
        // Another presenter took over meanwhile; it said hello, and gets a frame of its own.
        this.#acks.failed(frame.id);
        return;
      }
      this.#picture = pictureOf(frame);
      for (const view of this.#views) {
        if (view.isVisible) {
          this.#showOn(view);
          view.stats?.frame(performance.now());
        }
      }
      this.#setError("connection", "");
      this.#acks.shown(frame.id, started - frame.arrived, performance.now() - frame.arrived);
      this.#setError("decode", "");
      this.#reportMethod(presenter.method);
      this.#untilDone(presenter, started);
    } catch (error) {
      // No hello for a new frame: if the next fails like this one, that would never end.
      this.#acks.failed(frame.id);
      this.#setError("decode", `Frame ${frame.id} could not be shown: ${messageOf(error)}.`);
    } finally {
      frame.free();
      this.#decoding = false;
      this.#schedule();
    }
  }

  /** Counts the picture as unfinished until the GPU has drawn it. */
  #untilDone(presenter: Presenter, started: number): void {
    this.#unfinished += 1;
    const finished = () => {
      if (presenter === this.#presenter) {
        this.#unfinished -= 1;
        this.#acks.decoded(performance.now() - started);
        this.#schedule();
      }
    };
    presenter.done().then(finished, finished);
  }

  /** Shows the last picture, again if need be. */
  #showOn(view: CanvasView): void {
    if (this.#presenter && this.#picture) {
      view.show(this.#presenter, this.#picture);
    }
  }

  // ----- the decoder

  async #chooseDecoder(): Promise<void> {
    this.#choice += 1;
    const choice = this.#choice;
    const wanted = String(this.#any.get("_decoder") ?? "auto");
    let reason = "asked for";
    let gpu: Gpu | null = null;
    let presenter: Presenter | null = null;
    if (wanted !== "browser") {
      try {
        gpu = await acquireGpu(wanted === "webgpu");
        presenter = await GpuPresenter.create(gpu);
        reason = wanted === "webgpu" ? reason : "WebGPU is there";
      } catch (error) {
        reason = messageOf(error);
        if (error instanceof SlowStart) {
          // Pictures do not wait for it, but it is used once it is there.
          error.started.then(
            () => choice === this.#choice && void this.#chooseDecoder(),
            () => {},
          );
        }
      }
    }
    presenter ??= new BrowserPresenter();
    if (choice !== this.#choice) {
      presenter.close();
      return;
    }
    if (presenter instanceof GpuPresenter && gpu) {
      void this.#watchGpu(gpu, choice);
    }
    this.#use(presenter, reason, gpu?.adapter ?? "");
  }

  #use(presenter: Presenter, reason: string, adapter: string): void {
    const hadPicture = this.#picture !== null;
    this.#presenter?.close();
    this.#presenter = presenter;
    this.#unfinished = 0;
    this.#picture = null; // it went with the presenter; the canvases still show it
    this.#decoder = { name: presenter.name, method: presenter.method, reason, adapter };
    if (hadPicture) {
      this.#hello();
    } else {
      this.#conversation.send({ type: "decoder", ...this.#decoder });
    }
    this.#schedule();
  }

  /** A presenter may find out only from its first frames how it decodes best. */
  #reportMethod(method: string): void {
    if (this.#decoder && this.#decoder.method !== method) {
      this.#decoder = { ...this.#decoder, method };
      this.#conversation.send({ type: "decoder", ...this.#decoder });
    }
  }

  async #watchGpu(gpu: Gpu, choice: number): Promise<void> {
    const failure = await gpu.failed;
    if (choice === this.#choice) {
      console.warn(`rfb_gpu: ${failure.reason}`);
      // Frames wait meanwhile: a dead device takes them without a word.
      this.#presenter?.close();
      this.#presenter = null;
      await this.#chooseDecoder();
    }
  }

  // ----- visibility

  #updateVisibility(): void {
    const visible = !document.hidden && this.#views.some((view) => view.isVisible);
    if (visible !== this.#visible) {
      this.#visible = visible;
      if (!this.#ended) {
        this.#conversation.send({ type: "visibility", visible });
      }
    }
  }

  #onTabVisibility(): void {
    this.#updateVisibility();
    if (!document.hidden) {
      for (const view of this.#views) {
        this.#showOn(view);
      }
    }
  }

  // ----- listeners

  // biome-ignore lint/suspicious/noExplicitAny: the hosts pass what they like, and the callbacks check it
  #onModel(event: string, callback: (...args: any[]) => void): void {
    this.#any.on(event, callback);
    this.#undo.push(() => this.#any.off(event, callback));
  }

  #onPage(target: EventTarget, event: string, callback: () => void): void {
    target.addEventListener(event, callback);
    this.#undo.push(() => target.removeEventListener(event, callback));
  }
}
