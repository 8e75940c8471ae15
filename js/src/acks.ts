/**
 * Counts what became of the frames and tells the kernel in batches. In Jupyter each message from the page costs the
 * kernel and the page about as much as a small frame does, so an acknowledgement for each frame would halve the rate.
 * It never decides what is shown.
 */
import type { AckMessage, Arrival } from "./protocol";

/** A frame waits at most this long for its acknowledgement. */
export const ACK_DELAY_MS = 25;
/** The window until the kernel names one. */
export const DEFAULT_WINDOW = 2;

/** More come only while nothing is acknowledged: a hidden tab, for example. */
const MAX_TIMES = 64;

/** The part of the page's clock that is needed here; tests bring their own. */
export interface Timers {
  set(callback: () => void, ms: number): number;
  clear(timer: number): void;
}

export class AckBatcher {
  window = DEFAULT_WINDOW;
  #frame = -1;
  #received = 0;
  #arrivals: Arrival[] = [];
  #lead: { id: number; ms: number } | null = null;
  #shown = 0;
  #dropped = 0;
  #decodeMs: number[] = [];
  #presentMs: number[] = [];
  #waits: number[] = [];
  #turns: (number | null)[] = [];
  #timer: number | null = null;

  constructor(
    private readonly send: (ack: AckMessage) => void,
    private readonly timers: Timers,
  ) {}

  /** The lead of a frame arrived: the small message ahead of it. */
  lead(id: number, ms: number): void {
    this.#lead = { id, ms };
  }

  /** A frame arrived, at this time on the page's clock; from such times the kernel learns what the link carries. */
  received(id: number, ms: number): void {
    this.#received += 1;
    this.#arrivals.push([id, rounded(ms), this.#lead?.id === id ? rounded(this.#lead.ms) : null]);
    if (this.#arrivals.length > MAX_TIMES) {
      this.#arrivals.shift();
    }
  }

  /**
   * A frame gave way to a newer one. This alone triggers no acknowledgement: it goes with that of the newer frame, or a
   * page that cannot keep up would be sent ever more frames to throw away.
   */
  superseded(id: number): void {
    this.#frame = Math.max(this.#frame, id);
    this.#dropped += 1;
  }

  /** A frame was shown, which had waited so long for its turn and was shown so long after its arrival. */
  shown(id: number, waitMs: number, presentMs: number): void {
    this.#shown += 1;
    this.#waits.push(rounded(waitMs));
    this.#presentMs.push(presentMs);
    this.#settle(id);
  }

  /**
   * So long after the beginning of a turn the next could begin, and a frame was there for it, or not: from this the kernel knows
   * when to draw. A turn without a frame may look shorter than any with one.
   */
  turned(ms: number, hadFrame: boolean): void {
    this.#turns.push(hadFrame ? rounded(ms) : null);
    if (this.#turns.length > MAX_TIMES) {
      this.#turns.shift();
    }
  }

  /** A frame could not be shown. */
  failed(id: number): void {
    this.#dropped += 1;
    this.#settle(id);
  }

  /** A decode took this long. May come after the frame's acknowledgement, and then travels with the next. */
  decoded(ms: number): void {
    this.#decodeMs.push(ms);
  }

  /** A new epoch: what was counted belongs to the old one. */
  reset(): void {
    if (this.#timer !== null) {
      this.timers.clear(this.#timer);
      this.#timer = null;
    }
    this.#frame = -1;
    this.#received = this.#shown = this.#dropped = 0;
    this.#arrivals = [];
    this.#decodeMs = [];
    this.#presentMs = [];
    this.#waits = [];
    this.#turns = [];
  }

  #settle(id: number): void {
    this.#frame = Math.max(this.#frame, id);
    if (4 * (this.#shown + this.#dropped) >= this.window) {
      this.#acknowledge();
    } else {
      this.#timer ??= this.timers.set(() => this.#acknowledge(), ACK_DELAY_MS);
    }
  }

  /** Acknowledges what waits for it: something else is about to be sent, and the two go together. */
  flush(): void {
    if (this.#timer !== null) {
      this.#acknowledge();
    }
  }

  #acknowledge(): void {
    const ack: AckMessage = {
      type: "ack",
      frame: this.#frame,
      received: this.#received,
      shown: this.#shown,
      dropped: this.#dropped,
      arrivals: this.#arrivals,
      waits: this.#waits,
      turns: this.#turns,
      decode_ms: median(this.#decodeMs),
      present_ms: median(this.#presentMs),
    };
    this.reset();
    this.send(ack);
  }
}

function rounded(ms: number): number {
  return Math.round(ms * 100) / 100;
}

function median(values: number[]): number | null {
  if (values.length === 0) {
    return null;
  }
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const value = sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
  return rounded(value);
}
