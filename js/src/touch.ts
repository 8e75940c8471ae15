/**
 * Two fingers on a view: a pinch becomes the wheel, and fingers that move together a drag with the right button. One finger alone
 * is the left button, which the renderview base class sees to. It takes the events of two fingers away from that.
 */
import type { RenderviewEvent } from "./protocol";

/** Two fingers mean nothing before they have moved so far, in CSS pixels. */
const SLACK = 10;
/** Of the wheel for twice the distance: a notch is 100, and pygfx zooms by two for ten of them. */
const WHEEL_PER_DOUBLING = 1000;
const RIGHT_BUTTON = 2;

export interface Point {
  x: number;
  y: number;
}

/** What two fingers do, as renderview events without their time. Points are in CSS pixels of the view. */
export class TwoFingers {
  readonly #emit: (event: Omit<RenderviewEvent, "timestamp">) => void;
  #meaning: "nothing yet" | "pinch" | "drag" = "nothing yet";
  #began: readonly [Point, Point];
  #distance: number;

  constructor(fingers: readonly [Point, Point], emit: (event: Omit<RenderviewEvent, "timestamp">) => void) {
    this.#began = fingers;
    this.#distance = distanceOf(fingers);
    this.#emit = emit;
  }

  move(fingers: readonly [Point, Point]): void {
    const middle = middleOf(fingers);
    const distance = distanceOf(fingers);
    if (this.#meaning === "nothing yet") {
      const begin = middleOf(this.#began);
      if (Math.abs(distance - this.#distance) > SLACK) {
        this.#meaning = "pinch";
      } else if (Math.hypot(middle.x - begin.x, middle.y - begin.y) > SLACK) {
        this.#meaning = "drag";
        this.#pointer("pointer_down", begin, [RIGHT_BUTTON]);
      }
    }
    if (this.#meaning === "drag") {
      this.#pointer("pointer_move", middle, [RIGHT_BUTTON]);
    } else if (this.#meaning === "pinch") {
      const dy = -WHEEL_PER_DOUBLING * Math.log2(distance / this.#distance);
      this.#distance = distance;
      this.#emit({ type: "wheel", ...middle, dx: 0, dy, buttons: [], modifiers: [] });
    }
    this.#began = this.#meaning === "nothing yet" ? this.#began : fingers;
  }

  end(): void {
    if (this.#meaning === "drag") {
      this.#pointer("pointer_up", middleOf(this.#began), []);
    }
    this.#meaning = "nothing yet";
  }

  #pointer(type: string, at: Point, buttons: number[]): void {
    this.#emit({ type, ...at, button: RIGHT_BUTTON, buttons, modifiers: [], ntouches: 2, touches: {} });
  }
}

/** Watches an element for two fingers. */
export function watchFingers(
  element: HTMLElement,
  emit: (event: Omit<RenderviewEvent, "timestamp">) => void,
): void {
  const fingers = new Map<number, Point>();
  /** Fingers that the base class shall hear no more of. */
  const taken = new Set<number>();
  let gesture: TwoFingers | null = null;
  const pair = () => [...fingers.values()].slice(0, 2) as [Point, Point];

  const onFinger = (event: PointerEvent) => {
    if (event.pointerType !== "touch") {
      return;
    }
    if (event.type === "lostpointercapture") {
      if (event.isTrusted && taken.delete(event.pointerId)) {
        event.stopImmediatePropagation();
      }
      return;
    }
    const box = element.getBoundingClientRect();
    const at = { x: event.clientX - box.left, y: event.clientY - box.top };
    switch (event.type) {
      case "pointerdown":
        for (const [pointerId] of gesture ? [] : fingers) {
          // The first finger's drag is over: this is how the base class learns of an end.
          const { clientX, clientY } = event;
          element.dispatchEvent(new PointerEvent("lostpointercapture", { pointerId, clientX, clientY }));
          taken.add(pointerId);
        }
        fingers.set(event.pointerId, at);
        if (fingers.size >= 2) {
          taken.add(event.pointerId);
        }
        if (fingers.size === 2) {
          gesture = new TwoFingers(pair(), emit);
        }
        break;
      case "pointermove":
        if (fingers.has(event.pointerId)) {
          fingers.set(event.pointerId, at);
          if (fingers.size >= 2) {
            gesture?.move(pair());
          }
        }
        break;
      default:
        fingers.delete(event.pointerId);
        if (fingers.size < 2) {
          gesture?.end();
        }
    }
    if (gesture) {
      event.stopImmediatePropagation();
      gesture = fingers.size > 0 ? gesture : null; // a finger that is left does nothing more
    }
  };
  const types = ["pointerdown", "pointermove", "pointerup", "pointercancel", "lostpointercapture"] as const;
  for (const type of types) {
    element.addEventListener(type, onFinger, { capture: true });
  }
}

function middleOf([a, b]: readonly [Point, Point]): Point {
  return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
}

/** At least 1: fingers that meet have no ratio. */
function distanceOf([a, b]: readonly [Point, Point]): number {
  return Math.max(Math.hypot(a.x - b.x, a.y - b.y), 1);
}
