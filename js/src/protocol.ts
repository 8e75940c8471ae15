/**
 * The messages between page and kernel, version 1, as types and as checks (docs/protocol.md is the contract).
 * It never sends anything and keeps no state.
 */

export const PROTOCOL_VERSION = 1;

/** No side of a frame may be longer: JPEG's own limit. What a GPU can hold is checked where the GPU is known. */
const MAX_SIDE = 65535;
const MAX_SCALE = 16;
/** More frames in flight than this is no window, but a mistake. */
const MAX_WINDOW = 64;
const MAX_PORT = 65535;

export type DecoderName = "webgpu" | "browser";
export type Codec = "jpeg" | "png";
export type Fit = "exact" | "stretch";
/** The ways that messages take: the notebook's own channel, or the page's own connection to the kernel's process. */
export type RoadName = "comm" | "websocket";

// ----- page to kernel

export type PageMessage =
  | {
      type: "hello";
      version: number;
      dpr: number;
      capabilities: { webgpu: boolean; secureContext: boolean };
      host: string;
      frontend: string;
    }
  | { type: "visibility"; visible: boolean }
  | AckMessage
  | { type: "decoder"; name: DecoderName; method: string; reason: string; adapter: string }
  | { type: "road"; reason: string }
  | { type: "event"; event: RenderviewEvent }
  | { type: "control" }
  | { type: "ping" }
  /** `unseen`: the page goes on, but shows the canvas nowhere any more. */
  | { type: "bye"; unseen: boolean };

export type Arrival = [id: number, ms: number, leadMs: number | null];

export interface AckMessage {
  type: "ack";
  /** The highest frame id dealt with. */
  frame: number;
  received: number;
  shown: number;
  dropped: number;
  /** Of the frames since the last one: number, when it arrived, and when its lead did; ms on the page's clock. */
  arrivals: Arrival[];
  waits: number[];
  turns: (number | null)[];
  decode_ms: number | null;
  present_ms: number | null;
}

/** An event of the renderview specification; only what this front end itself reads is named. */
export interface RenderviewEvent {
  type: string;
  timestamp: number;
  width?: number;
  height?: number;
  [field: string]: unknown;
}

/** What every message to the kernel carries besides its own fields. */
export interface Envelope {
  view: string;
  epoch: number;
  seq: number;
}

// ----- kernel to page

export interface FrameHeader {
  type: "frame";
  id: number;
  codec: Codec;
  width: number;
  height: number;
  fit: Fit;
  /** Each pixel stands for so many by so many of the screen's. */
  scale: number;
  final: boolean;
  window: number | null;
  view: string | null;
  /** Null: the file is the whole picture. */
  part: Part | null;
  /**
   * Null: the picture is opaque. Else its colour is multiplied with alpha, which a PNG has in it and a JPEG as a second one, from this
   * byte on.
   */
  alpha: number | null;
}

/** Rows of a picture, over its whole width. They build on a full frame and on the parts of it that came before. */
export interface Part {
  readonly y: number;
  readonly rows: number;
  /** The full frame's id. */
  readonly base: number;
  /** How many parts came before. */
  readonly index: number;
}

export type KernelMessage =
  | {
      type: "welcome";
      version: number;
      view: string;
      epoch: number;
      window: number | null;
      road: RoadOffer | null;
    }
  | FrameHeader
  | { type: "lead"; view: string; id: number }
  | { type: "stats"; text: string }
  | { type: "error"; code: string; text: string; view: string | null }
  | { type: "control"; view: string }
  | { type: "again"; view: string }
  | { type: "pong"; view: string }
  | { type: "closed" };

/** What a page needs to know to come by websocket. `proxy`: jupyter-server-proxy may lead to the port. */
export interface RoadOffer {
  port: number;
  token: string;
  proxy: boolean;
}

/** A frame: its header, its file, and the road that it came by. `arrived` is on the clock of performance.now(). */
export interface Frame extends FrameHeader {
  road: RoadName;
  bytes: Uint8Array<ArrayBuffer>;
  /** The file is not read any more. */
  free: () => void;
  arrived: number;
}

/**
 * Checks a message from the kernel. Gives null for what is no message of this version: unknown types are ignored by
 * contract, and so is a message with impossible fields, because nothing sensible can be done with it.
 */
export function parseKernelMessage(content: unknown): KernelMessage | null {
  if (typeof content !== "object" || content === null) {
    return null;
  }
  const m = content as Record<string, unknown>;
  switch (m.type) {
    case "welcome":
      if (!isCount(m.version) || typeof m.view !== "string" || !isCount(m.epoch)) {
        return null;
      }
      return {
        type: "welcome",
        version: m.version,
        view: m.view,
        epoch: m.epoch,
        window: asWindow(m.window),
        road: asRoadOffer(m.road),
      };
    case "frame":
      if (
        !isCount(m.id) ||
        !isSide(m.width) ||
        !isSide(m.height) ||
        !(m.codec === "jpeg" || m.codec === "png") ||
        !(m.part === undefined || isPart(m.part, m.height)) ||
        !(m.alpha === undefined || isCount(m.alpha))
      ) {
        return null;
      }
      return {
        type: "frame",
        id: m.id,
        codec: m.codec,
        width: m.width,
        height: m.height,
        fit: m.fit === "stretch" ? "stretch" : "exact",
        scale: isCount(m.scale) && m.scale >= 1 ? Math.min(m.scale, MAX_SCALE) : 1,
        final: m.final === true,
        window: asWindow(m.window),
        view: typeof m.view === "string" ? m.view : null,
        part: m.part ?? null,
        alpha: m.alpha ?? null,
      };
    case "lead":
      return typeof m.view === "string" && isCount(m.id) ? { type: "lead", view: m.view, id: m.id } : null;
    case "stats":
      return { type: "stats", text: String(m.text ?? "") };
    case "error":
      return {
        type: "error",
        code: String(m.code ?? "error"),
        text: String(m.text ?? ""),
        view: typeof m.view === "string" ? m.view : null,
      };
    case "control":
    case "again":
    case "pong":
      return typeof m.view === "string" ? { type: m.type, view: m.view } : null;
    case "closed":
      return { type: "closed" };
    default:
      return null;
  }
}

/** The bytes of a message's buffer, whichever kind of view the host hands over. No copy is made. */
export function bufferBytes(buffer: unknown): Uint8Array<ArrayBuffer> | null {
  if (buffer instanceof ArrayBuffer) {
    return new Uint8Array(buffer);
  }
  if (ArrayBuffer.isView(buffer)) {
    // A host may hand over a window into a larger buffer: only that window is ours.
    return new Uint8Array(buffer.buffer as ArrayBuffer, buffer.byteOffset, buffer.byteLength);
  }
  return null;
}

/**
 * A frame's file, as it comes over the comm: a buffer, or base64 text in the message, which is faster in hosts that take
 * buffers apart. Null if it is not there.
 */
export function frameFile(content: unknown, buffers: unknown): Uint8Array<ArrayBuffer> | null {
  const data = (content as { data?: unknown } | null)?.data;
  if (typeof data === "string") {
    try {
      return fromBase64(data);
    } catch {
      return null;
    }
  }
  return Array.isArray(buffers) ? bufferBytes(buffers[0]) : null;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  // Younger than the types: Chromium 140, Firefox 133, Safari 18.2.
  const builtIn = (Uint8Array as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (builtIn) {
    return builtIn.call(Uint8Array, text);
  }
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) {
    bytes[i] = binary.charCodeAt(i);
  }
  return bytes;
}

function asRoadOffer(value: unknown): RoadOffer | null {
  const offer = value as Record<string, unknown> | null | undefined;
  if (!isCount(offer?.port) || offer.port < 1 || offer.port > MAX_PORT || typeof offer.token !== "string") {
    return null;
  }
  return { port: offer.port, token: offer.token, proxy: offer.proxy === true };
}

function isPart(value: unknown, height: number): value is Part {
  const part = value as Partial<Part> | null;
  return (
    isCount(part?.y) &&
    isSide(part.rows) &&
    part.y + part.rows <= height &&
    isCount(part.base) &&
    isCount(part.index)
  );
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isSide(value: unknown): value is number {
  return isCount(value) && value >= 1 && value <= MAX_SIDE;
}

function asWindow(value: unknown): number | null {
  return isCount(value) && value >= 1 ? Math.min(value, MAX_WINDOW) : null;
}
