/** Moves and turns of the wheel come faster than anybody can draw: those within an interval become one. */

import type { RenderviewEvent } from "./protocol";

export const INTERVAL_MS = 20;
/** After so long without one, a move begins a gesture. */
export const PAUSE_MS = 100;

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
 * Sends events in the order in which they happened. The first move of a gesture goes at once; others wait for an interval, and those
 * that come meanwhile take their place. (Of 60 moves a second, 30 go. With 50, the statuses with which Jupyter answers each message
 * took a tenth more of a thin link.) The base class has a throttle too, but there what comes after a move does not wait for it: the
 * last move of a drag would come after the button is released, when nobody takes it for a part of the drag.
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
    if (this.clock.now() - this.#sent < PAUSE_MS) {
      this.#timer = this.clock.set(() => this.#release(), INTERVAL_MS);
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
