/** Moves and turns of the wheel come faster than anybody can draw: those within an interval become one. */

import type { RenderviewEvent } from "./protocol";

const INTERVAL_MS = 20;

/**
 * Sends events in the order in which they happened. The base class has a throttle too, but there a move waits while what comes after it
 * does not: the last move of a drag would come after the button is released, when nobody takes it for a part of the drag.
 */
export class Throttle {
  readonly #send: (event: RenderviewEvent) => void;
  #held: RenderviewEvent | null = null;

  constructor(send: (event: RenderviewEvent) => void) {
    this.#send = send;
  }

  take(event: RenderviewEvent): void {
    const held = this.#held;
    if (held && isSameGesture(held, event)) {
      const isWheel = event.type === "wheel";
      this.#held = isWheel ? { ...event, dx: sum(held.dx, event.dx), dy: sum(held.dy, event.dy) } : event;
      return;
    }
    this.#release();
    if (event.type === "pointer_move" || event.type === "wheel") {
      this.#held = event;
      setTimeout(() => this.#release(), INTERVAL_MS);
    } else {
      this.#send(event);
    }
  }

  #release(): void {
    const held = this.#held;
    this.#held = null;
    if (held) {
      this.#send(held);
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
