/** Moves and turns of the wheel come faster than anybody can draw: those within an interval become one. */

import type { RenderviewEvent } from "./protocol";

export const INTERVAL_MS = 20;

/** The parts of the page's clock that are needed here; tests bring their own. */
export interface Clock {
  now(): number;
  set(callback: () => void, ms: number): number;
  clear(timer: number): void;
}

const PAGE_CLOCK: Clock = {
  now: () => performance.now(),
  set: (callback, ms) => window.setTimeout(callback, ms),
  clear: (timer) => window.clearTimeout(timer),
};

/**
 * Sends events in the order in which they happened. The first move goes at once, and more of them as one, an interval after the one
 * before. The base class has a throttle too, but there each move waits for the whole interval, and what comes after it does not:
 * the last move of a drag would come after the button is released, when nobody takes it for a part of the drag.
 */
export class Throttle {
  #held: RenderviewEvent | null = null;
  #timer = 0;
  #sent = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly send: (event: RenderviewEvent) => void,
    private readonly clock: Clock = PAGE_CLOCK,
  ) {}

  take(event: RenderviewEvent): void {
    const held = this.#held;
    if (held && isSameGesture(held, event)) {
      const isWheel = event.type === "wheel";
      this.#held = isWheel ? { ...event, dx: sum(held.dx, event.dx), dy: sum(held.dy, event.dy) } : event;
      return;
    }
    this.#release();
    if (event.type !== "pointer_move" && event.type !== "wheel") {
      this.send(event);
      return;
    }
    this.#held = event;
    const wait = this.#sent + INTERVAL_MS - this.clock.now();
    if (wait > 0) {
      this.#timer = this.clock.set(() => this.#release(), wait);
    } else {
      this.#release();
    }
  }

  #release(): void {
    const held = this.#held;
    if (held) {
      this.clock.clear(this.#timer);
      this.#held = null;
      this.#sent = this.clock.now();
      this.send(held);
    }
  }
}

function isSameGesture(a: RenderviewEvent, b: RenderviewEvent): boolean {
  const kind = ({ type, buttons, modifiers }: RenderviewEvent) => JSON.stringify([type, buttons, modifiers]);
  return kind(a) === kind(b);
}

function sum(a: unknown, b: unknown): number {
  return Number(a) + Number(b);
}
