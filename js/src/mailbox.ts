/**
 * Room for one frame: the newest. It never holds two, so a page that is slow skips frames instead of falling behind.
 */
export class Mailbox<F extends { readonly id: number }> {
  #waiting: F | null = null;
  #newest = -1;

  /** Takes a frame in. Gives back the frame that will therefore never be shown: the older of two, or null. */
  put(frame: F): F | null {
    if (frame.id <= this.#newest) {
      return frame; // it came late, or twice
    }
    this.#newest = frame.id;
    const older = this.#waiting;
    this.#waiting = frame;
    return older;
  }

  take(): F | null {
    const frame = this.#waiting;
    this.#waiting = null;
    return frame;
  }

  /** A new epoch: the kernel may send again what was taken before. What waits stays, until its like or newer comes. */
  reset(): void {
    this.#newest = this.#waiting ? this.#waiting.id - 1 : -1;
  }

  get isEmpty(): boolean {
    return this.#waiting === null;
  }
}
