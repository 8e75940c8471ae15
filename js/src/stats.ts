/**
 * What a canvas does, over its picture: frames shown per second, the times between them as a plot, and what the kernel
 * says. It costs nothing unless it is shown, and never asks for anything.
 */

/** Of the plot, in CSS pixels: one column for each frame. */
const COLUMNS = 120;
const HEIGHT = 36;
/** Milliseconds that fill the plot's height, and those of a display with 60 Hz, which get a line. */
const MOST_MS = 100;
const DISPLAY_MS = 1000 / 60;
/** Frames further apart do not belong to one movement. */
const PAUSE_MS = 1000;

export class StatsOverlay {
  readonly element = document.createElement("div");
  readonly #shown = document.createElement("div");
  readonly #plot = document.createElement("canvas");
  readonly #kernel = document.createElement("div");
  #intervals: number[] = [];
  #last = Number.NEGATIVE_INFINITY;

  constructor() {
    this.element.classList.add("rfb-gpu-stats");
    this.#plot.width = COLUMNS;
    this.#plot.height = HEIGHT;
    this.element.append(this.#shown, this.#plot, this.#kernel);
    this.#draw();
  }

  /** A new frame is shown, at this time in ms. */
  frame(now: number): void {
    const interval = now - this.#last;
    this.#last = now;
    if (interval < PAUSE_MS) {
      this.#intervals.push(interval);
      this.#intervals.splice(0, this.#intervals.length - COLUMNS);
      this.#draw();
    }
  }

  /** What the kernel says, one line each. */
  setText(text: string): void {
    this.#kernel.textContent = text;
  }

  #draw(): void {
    const intervals = [...this.#intervals].sort((a, b) => a - b);
    const sum = intervals.reduce((a, b) => a + b, 0);
    const at = (share: number) => intervals[Math.floor(share * (intervals.length - 1))] ?? 0;
    this.#shown.textContent = sum
      ? `${((1000 * intervals.length) / sum).toFixed(1)} shown/s, ${at(0.5).toFixed(1)} ms apart (95 %: ${at(0.95).toFixed(1)})`
      : "nothing moved yet";
    const context = this.#plot.getContext("2d");
    if (!context) {
      return;
    }
    context.clearRect(0, 0, COLUMNS, HEIGHT);
    context.fillStyle = "#7fd6a0";
    this.#intervals.forEach((interval, column) => {
      const height = Math.max((Math.min(interval, MOST_MS) / MOST_MS) * HEIGHT, 1);
      context.fillRect(column, HEIGHT - height, 1, height);
    });
    context.fillStyle = "rgb(255 255 255 / 45%)";
    context.fillRect(0, HEIGHT - Math.round((DISPLAY_MS / MOST_MS) * HEIGHT), COLUMNS, 1);
  }
}
