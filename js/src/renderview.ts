/**
 * The renderview base class, typed, without the global name that it leaves behind. renderview.js itself is never changed:
 * it is the event code that rendercanvas's other backends in a browser share.
 */
import { before } from "./window-before";
import "./vendor/renderview.js";
import type { RenderviewEvent } from "./protocol";

export interface RenderView {
  viewElement: HTMLElement;
  wrapperElement: HTMLElement | null;
  /** Internal to renderview, null once closed. Used to ask for the size again when only the pixel ratio changed. */
  readonly _resizeObserver: ResizeObserver | null;
  /** Internal too: what has the focus in place of the view. */
  readonly _focusElement: HTMLInputElement | null;
  close(): void;
  setCssWidth(cssWidth: string): void;
  setCssHeight(cssHeight: string): void;
  setResizable(resizable: boolean): void;
  setMinimizable(minimizable: boolean): void;
  setClosable(closable: boolean): void;
  showTitlebar(titlebar: boolean): void;
  setTitle(title: string): void;
  setCursor(cursor: string): void;
  onEvent(event: RenderviewEvent): void;
  /** Milliseconds that moves and turns of the wheel wait for more of them; 0: none. */
  setThrottle(throttle: number): void;
}

export const BaseRenderView = Reflect.get(window, "BaseRenderView") as new (
  viewElement: HTMLElement,
  wrapperElement: HTMLElement | null,
) => RenderView;

if (before === undefined) {
  Reflect.deleteProperty(window, "BaseRenderView");
} else {
  Reflect.set(window, "BaseRenderView", before);
}
