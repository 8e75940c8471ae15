/**
 * A websocket that lives in a worker.
 *
 * A file is garbage of the thread that received it. Sixty files of a megabyte a second make the browser collect garbage about once a
 * second; on the page's own thread it looks through all that a notebook has there, and the next frame is 5 to 10 ms late
 * (docs/page.md). The worker has nothing else to look through. Files are moved to the page and, once decoded, back to it.
 */

/** What is needed of a websocket, wherever it lives. */
export interface PageSocket {
  onopen: ((event: Event) => void) | null;
  onmessage: ((event: MessageEvent) => void) | null;
  onclose: ((event: CloseEvent) => void) | null;
  send(text: string): void;
  close(): void;
  /** Takes a message's buffer back, which nobody reads any more. */
  release?(buffer: ArrayBuffer): void;
}

/** In the worker. It tells of the socket's beginning and end by objects; messages are text or buffers. A buffer from the page is garbage. */
const SCRIPT = `
let socket;
onmessage = ({ data }) => {
  if (typeof data === "string") {
    socket.send(data);
  } else if (data === null) {
    socket.close();
  } else if (data.url) {
    try {
      socket = new WebSocket(data.url);
    } catch (error) {
      postMessage({ code: 1006, reason: error.message });
      return;
    }
    socket.binaryType = "arraybuffer";
    socket.onopen = () => postMessage({ open: true });
    socket.onmessage = ({ data }) => postMessage(data, typeof data === "string" ? [] : [data]);
    socket.onclose = ({ code, reason }) => postMessage({ code, reason });
  }
};
`;

/** A page's policy may forbid workers, which it tells when one is started. Then none is started again. */
let isForbidden = false;

/** Opens a websocket: in a worker, or where there can be none, here. Throws if the page may not open one. */
export function openSocket(url: string): PageSocket {
  if (!isForbidden && globalThis.Worker) {
    try {
      return new WorkerSocket(url);
    } catch {
      isForbidden = true;
    }
  }
  return openHere(url);
}

function openHere(url: string): WebSocket {
  const socket = new WebSocket(url);
  socket.binaryType = "arraybuffer";
  return socket;
}

class WorkerSocket implements PageSocket {
  onopen: ((event: Event) => void) | null = null;
  onmessage: ((event: MessageEvent) => void) | null = null;
  onclose: ((event: CloseEvent) => void) | null = null;
  readonly #worker: Worker;
  /** In the worker's place, where there can be none. */
  #here: WebSocket | null = null;
  #isClosed = false;

  constructor(url: string) {
    const script = URL.createObjectURL(new Blob([SCRIPT], { type: "text/javascript" }));
    try {
      this.#worker = new Worker(script);
    } finally {
      URL.revokeObjectURL(script);
    }
    this.#worker.onmessage = (event) => this.#onMessage(event);
    this.#worker.onerror = () => this.#moveHere(url);
    this.#worker.postMessage({ url });
  }

  send(text: string): void {
    this.#here ? this.#here.send(text) : this.#worker.postMessage(text);
  }

  close(): void {
    this.#isClosed = true;
    this.#here ? this.#here.close() : this.#worker.postMessage(null);
  }

  release(buffer: ArrayBuffer): void {
    if (!this.#here) {
      this.#worker.postMessage(buffer, [buffer]);
    }
  }

  #onMessage(event: MessageEvent): void {
    const { data } = event;
    this.#worker.onerror = null; // there can be one
    if (typeof data === "string" || data instanceof ArrayBuffer) {
      this.onmessage?.(event);
    } else if (data.open) {
      this.onopen?.(new Event("open"));
    } else {
      this.#worker.terminate();
      this.onclose?.(new CloseEvent("close", data));
    }
  }

  #moveHere(url: string): void {
    isForbidden = true;
    this.#worker.terminate();
    if (this.#isClosed) {
      return;
    }
    try {
      this.#here = openHere(url);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.onclose?.(new CloseEvent("close", { code: 1006, reason }));
      return;
    }
    this.#here.onopen = (event) => this.onopen?.(event);
    this.#here.onmessage = (event) => this.onmessage?.(event);
    this.#here.onclose = (event) => this.onclose?.(event);
  }
}
