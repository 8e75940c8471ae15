/**
 * Room for the newest frame, and for the parts that came after it. It never holds two whole frames, so a page that is slow skips
 * frames instead of falling behind; parts never take each other's place, because each has other pixels.
 */
export class Mailbox<F extends { readonly id: number; readonly part: object | null }> {
  #waiting: F[] = [];
  #newest = -1;

  /** Takes a frame in. Gives back those that will therefore never be shown. */
  put(frame: F): F[] {
    if (frame.id <= this.#newest) {
      return [frame]; // it came late, or twice
    }
    this.#newest = frame.id;
    if (frame.part) {
      this.#waiting.push(frame);
      return [];
    }
    const older = this.#waiting;
    this.#waiting = [frame];
    return older;
  }

  take(): F | null {
    return this.#waiting.shift() ?? null;
  }

  /** A new epoch: the kernel may send again what was taken before. What waits stays, until its like or newer comes. */
  reset(): void {
    const last = this.#waiting.at(-1);
    this.#newest = last ? last.id - 1 : -1;
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }
}
