/**
 * The fast road: a websocket straight to the kernel's process, beside the notebook's own channel (the comm).
 *
 * The kernel offers it with its welcome; this tries to open it, tells its owner when it is there and when it breaks, and
 * then tries again a few times. It never starts an epoch and never reads a message: that is the owner's.
 */
import { messageOf } from "./device";
import type { RoadName, RoadOffer } from "./protocol";
import { openSocket, type PageSocket } from "./socket";

export const OPEN_TIMEOUT_MS = 1500;
/** Pauses before it is tried again after a break. They are counted anew once a websocket has lived for STEADY_MS. */
export const RETRY_MS: readonly number[] = [1000, 2000, 4000, 8000, 16000];
const STEADY_MS = 30_000;

const LOOPBACK_NAMES = ["localhost", "127.0.0.1", "[::1]"];
const HEADER_LENGTH_BYTES = 4;

/** The part of `location` that is needed here. */
export interface Place {
  protocol: string;
  hostname: string;
  host: string;
}

/**
 * The addresses to try, in order; none if the kernel cannot be reached. `jupyterConfig` is the text of Jupyter's element
 * #jupyter-config-data, null on other pages.
 *
 * A page of this machine tries this machine first, where the kernel is, unless it is at the end of a tunnel: then there may
 * be a proxy. A page of another host never tries this machine: browsers ask their user about it, and it would be wrong.
 */
export function roadUrls(offer: RoadOffer, place: Place, jupyterConfig: string | null): string[] {
  const urls: string[] = [];
  if (LOOPBACK_NAMES.includes(place.hostname) || place.protocol === "vscode-webview:") {
    urls.push(`ws://127.0.0.1:${offer.port}/`);
  }
  const base = jupyterConfig === null ? null : baseUrlOf(jupyterConfig);
  if (offer.proxy && base !== null && /^https?:$/.test(place.protocol)) {
    const scheme = place.protocol === "https:" ? "wss" : "ws";
    urls.push(`${scheme}://${place.host}${base}proxy/${offer.port}/`);
  }
  return urls;
}

function baseUrlOf(jupyterConfig: string): string | null {
  try {
    const base = (JSON.parse(jupyterConfig) as { baseUrl?: unknown } | null)?.baseUrl;
    return typeof base === "string" && /^\/(?!\/)/.test(base) ? base.replace(/\/*$/, "/") : null;
  } catch {
    return null;
  }
}

/** A message of the websocket: JSON text; or a length (4 bytes, little-endian), so much JSON, and a file. Null: neither. */
export function decodeMessage(
  data: unknown,
): { content: unknown; file: Uint8Array<ArrayBuffer> | null } | null {
  try {
    if (typeof data === "string") {
      return { content: JSON.parse(data), file: null };
    }
    if (!(data instanceof ArrayBuffer)) {
      return null;
    }
    const length = new DataView(data).getUint32(0, true);
    const header = new Uint8Array(data, HEADER_LENGTH_BYTES, length);
    const content: unknown = JSON.parse(new TextDecoder().decode(header));
    return { content, file: new Uint8Array(data, HEADER_LENGTH_BYTES + length) };
  } catch {
    return null; // no JSON, or a length beyond the end
  }
}

/** Who opens a websocket. One of the two is called, later than knock() returns, unless it is abandoned before. */
export interface Knocker {
  /** The socket is the owner's from now on, its handlers included. */
  onAccepted(socket: PageSocket): void;
  /** `code`: of the frame that closed the websocket; with one of ours, `problem` is the reason in it. Else 0. */
  onRefused(problem: string, code: number): void;
}

/** Opens a websocket and says the token. Gives what abandons the attempt. Throws if the page may not open one. */
export function knock(url: string, token: string, patienceMs: number, knocker: Knocker): () => void {
  const socket = openSocket(url);
  const leave = () => {
    window.clearTimeout(timer);
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  };
  const fail = (problem: string, code = 0) => {
    leave();
    knocker.onRefused(problem, code);
  };
  const timer = window.setTimeout(() => fail(`${url} did not answer`), patienceMs);
  socket.onopen = () => socket.send(JSON.stringify({ type: "token", token }));
  socket.onclose = ({ code, reason }) => fail(reason || `${url} refused`, code);
  socket.onmessage = (event) => {
    // Whatever else answers at this address, it is not our kernel.
    const content = decodeMessage(event.data)?.content as { type?: unknown } | null | undefined;
    if (content?.type === "accepted") {
      window.clearTimeout(timer);
      knocker.onAccepted(socket);
    } else {
      fail(`${url} is not the kernel`);
    }
  };
  return leave;
}

export interface RoadOwner {
  /** From now on send() goes by the websocket. */
  onRoadOpen(): void;
  /** `free` is to be called once nobody reads the file any more. */
  onRoadMessage(content: unknown, file: Uint8Array<ArrayBuffer> | null, free: () => void): void;
  /** The websocket broke; send() takes nothing until it is open again. */
  onRoadLost(): void;
  /** It cannot be opened, and will not be tried again for this offer. */
  onRoadRefused(reason: string): void;
}

export class Road {
  readonly #owner: RoadOwner;
  readonly #urls: (offer: RoadOffer) => string[];
  /** What is tried or used, and so not tried a second time when it is offered again. */
  #offer: RoadOffer | null = null;
  /** Open and accepted. */
  #socket: PageSocket | null = null;
  /** Gives up what is under way: an attempt, a pause or an open websocket. */
  #abandon: () => void = () => {};
  #retries = 0;

  constructor(owner: RoadOwner, urls: (offer: RoadOffer) => string[] = urlsOfPage) {
    this.#owner = owner;
    this.#urls = urls;
  }

  get name(): RoadName {
    return this.#socket ? "websocket" : "comm";
  }

  /** The kernel says where a websocket may be opened. */
  offer(offer: RoadOffer): void {
    if (offer.port !== this.#offer?.port || offer.token !== this.#offer.token) {
      this.close();
      this.#offer = offer;
      this.#try(offer, this.#urls(offer), "the page is not on the kernel's machine and has no proxy to it");
    }
  }

  /** Whether the message was taken; false: it must go over the comm. */
  send(message: unknown): boolean {
    this.#socket?.send(JSON.stringify(message));
    return this.#socket !== null;
  }

  /** Forgets all; a later offer is a new one. The owner is told nothing. */
  close(): void {
    this.#abandon();
    this.#abandon = () => {};
    this.#socket = null;
    this.#offer = null;
    this.#retries = 0;
  }

  #try(offer: RoadOffer, urls: readonly string[], problem: string): void {
    const [url, ...others] = urls;
    if (url === undefined) {
      this.#onFailed(offer, problem);
      return;
    }
    try {
      this.#abandon = knock(url, offer.token, OPEN_TIMEOUT_MS, {
        onAccepted: (socket) => this.#onAccepted(offer, socket),
        onRefused: (reason) => this.#try(offer, others, reason),
      });
    } catch (error) {
      // A page's security policy may forbid it.
      this.#try(offer, others, messageOf(error));
    }
  }

  #onAccepted(offer: RoadOffer, socket: PageSocket): void {
    const steady = window.setTimeout(() => {
      this.#retries = 0;
    }, STEADY_MS);
    this.#abandon = () => {
      window.clearTimeout(steady);
      socket.onmessage = socket.onclose = null;
      socket.close();
    };
    socket.onmessage = ({ data }) => {
      const message = decodeMessage(data);
      if (message) {
        this.#owner.onRoadMessage(message.content, message.file, () => socket.release?.(data));
      }
    };
    socket.onclose = () => {
      window.clearTimeout(steady);
      this.#socket = null;
      this.#pause(offer);
      this.#owner.onRoadLost();
    };
    this.#socket = socket;
    this.#owner.onRoadOpen();
  }

  #onFailed(offer: RoadOffer, problem: string): void {
    this.#abandon = () => {};
    // What never opened will not: only what once worked is worth another try.
    if (this.#retries === 0 || !this.#pause(offer)) {
      this.#owner.onRoadRefused(problem);
    }
  }

  /** Tries again later; false if it was tried often enough. */
  #pause(offer: RoadOffer): boolean {
    const pause = RETRY_MS[this.#retries];
    this.#abandon = () => {};
    if (pause === undefined) {
      return false;
    }
    this.#retries += 1;
    const timer = window.setTimeout(() => this.#try(offer, this.#urls(offer), ""), pause);
    this.#abandon = () => window.clearTimeout(timer);
    return true;
  }
}

function urlsOfPage(offer: RoadOffer): string[] {
  const config = document.getElementById("jupyter-config-data")?.textContent ?? null;
  return roadUrls(offer, location, config);
}
