/**
 * The canvas in a page without a notebook: a websocket to rfb_gpu's own server takes the place of the widget's model. It carries all
 * that a notebook's channel does, and the widget's traits as messages of type `state`.
 *
 * It opens the websocket again whenever it breaks, and says meanwhile what is the matter.
 */
import { type AnyModel, CanvasModel } from "./model";
import { decodeMessage, knock } from "./road";
import type { PageSocket } from "./socket";

/** Pauses before it is tried again; the last one from then on. */
const PAUSES_MS: readonly number[] = [250, 500, 1000, 2000, 4000, 8000];
/** The server's event loop draws, too, and the first draw may compile for long. */
const PATIENCE_MS = 15_000;
/** Close codes of what does not change by trying again: a token or a page that the server does not take. */
const FINAL_CODES: readonly number[] = [4401, 4403];

/** How the canvas looks in a page that is its own, whatever its traits say of a notebook's cell. */
const LOOKS: Readonly<Record<string, unknown>> = {
  _css_width: "100%",
  _css_height: "100%",
  _resizable: false,
  _has_titlebar: false,
};

// biome-ignore lint/suspicious/noExplicitAny: as in AnyModel
type Handler = (...args: any[]) => void;

class ServerModel implements AnyModel {
  #state: Record<string, unknown> = { _decoder: "auto" };
  readonly #handlers = new Map<string, Set<Handler>>();
  #socket: PageSocket | null = null;

  get(name: string): unknown {
    return LOOKS[name] ?? this.#state[name];
  }

  on(event: string, handler: Handler): void {
    this.#handlers.set(event, (this.#handlers.get(event) ?? new Set()).add(handler));
  }

  off(event: string, handler: Handler): void {
    this.#handlers.get(event)?.delete(handler);
  }

  /** Without a connection it is lost; the hello of the next one tells all again. */
  send(message: unknown): void {
    this.#socket?.send(JSON.stringify(message));
  }

  set socket(socket: PageSocket | null) {
    this.#socket = socket;
  }

  /** `free`: see RoadOwner.onRoadMessage. */
  receive(data: unknown, free: () => void): void {
    const message = decodeMessage(data);
    const content = message?.content as { type?: unknown; state?: unknown } | null | undefined;
    if (content?.type === "state") {
      for (const [name, value] of Object.entries(content.state as object)) {
        if (this.#state[name] !== value) {
          this.#state[name] = value;
          this.#fire(`change:${name}`);
        }
      }
    } else if (message) {
      this.#fire("msg:custom", content, message.file ? [message.file] : [], free);
    }
  }

  #fire(event: string, ...args: unknown[]): void {
    for (const handler of this.#handlers.get(event) ?? []) {
      handler(...args);
    }
  }
}

/**
 * Shows a canvas in an element, which it fills. `base` is where the server's page is, a folder; its query names the token. Gives what to call to
 * be rid of it. A canvas that is the whole page also gives it its title.
 */
export function connect(element: HTMLElement, base: string | URL = location.href): () => void {
  const page = new URL(base, location.href);
  const token = page.searchParams.get("token") ?? "";
  const url = new URL("websocket", page);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";

  element.classList.add("rfb-gpu-page");
  const button = document.createElement("button");
  button.classList.add("rfb-gpu-control");
  button.textContent = "Take control";
  button.title = "Somebody else uses this canvas; you watch";
  button.hidden = true;
  button.onclick = () => canvas.askForControl();

  const model = new ServerModel();
  const canvas = new CanvasModel(model, (inControl) => {
    button.hidden = inControl;
  });
  canvas.addView(element);
  element.append(button);

  let abandon = () => {};
  let failures = 0;
  let ended = false;
  const open = () => {
    abandon = knock(url.href, token, PATIENCE_MS, { onAccepted, onRefused });
  };
  const onAccepted = (socket: PageSocket) => {
    failures = 0;
    model.socket = socket;
    abandon = () => {
      socket.onclose = socket.onmessage = null;
      socket.close();
    };
    socket.onmessage = ({ data }) => model.receive(data, () => socket.release?.(data));
    socket.onclose = ({ code, reason }) => {
      model.socket = null;
      onRefused(reason, code);
    };
    canvas.reconnected();
  };
  const onRefused = (problem: string, code: number) => {
    abandon = () => {};
    button.hidden = true;
    if (ended) {
      return;
    }
    const reason =
      code >= 4400 && code < 4500 ? `The server refuses: ${problem}.` : "No connection to the server.";
    if (FINAL_CODES.includes(code)) {
      canvas.disconnected(reason);
      return;
    }
    canvas.disconnected(`${reason} Trying again…`);
    const pause = PAUSES_MS[Math.min(failures, PAUSES_MS.length - 1)];
    failures += 1;
    const timer = window.setTimeout(open, pause);
    abandon = () => window.clearTimeout(timer);
  };
  model.on("msg:custom", (message: { type?: unknown } | null) => {
    ended ||= message?.type === "closed";
  });
  model.on("change:_title", () => {
    if (element === document.body) {
      document.title = String(model.get("_title") || "rfb_gpu");
    }
  });
  canvas.disconnected("Connecting…");
  open();

  return () => {
    ended = true;
    abandon();
    canvas.close();
    button.remove();
    element.classList.remove("rfb-gpu-page");
  };
}
