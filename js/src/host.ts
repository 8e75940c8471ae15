/**
 * What differs between the front ends. Only Jupyter's tell a widget of the kernel's life; elsewhere all of this does nothing.
 */
import type { AnyModel } from "./model";

/** The parts of Jupyter's widget manager that are used here. */
interface Manager {
  readonly isDisposed?: boolean;
  readonly kernel?: { readonly disposed?: Signal };
  get_state_sync?: unknown;
}

interface Signal {
  connect(slot: () => void): void;
  disconnect(slot: () => void): void;
}

/** What a notebook that was opened without its kernel runs in place of the bundle. */
const SAVED_MODULE = `export default { render: ({ el }) => { el.textContent = "Run this cell to see the canvas." } }`;

/**
 * Calls back, with a line for the user, when the kernel that the model belongs to is restarted, dies or is shut down. Gives what
 * to call to be rid of it.
 */
export function whenKernelIsGone(model: AnyModel, callback: (reason: string) => void): () => void {
  const disposed = managerOf(model)?.kernel?.disposed;
  const onRestart = () => callback("The kernel was restarted: run the cell again.");
  const onShutdown = () => callback("The kernel was shut down: start one and run the cell again.");
  model.on("comm_live_update", onRestart);
  disposed?.connect(onShutdown);
  return () => {
    model.off("comm_live_update", onRestart);
    disposed?.disconnect(onShutdown);
  };
}

/** Whether the notebook was closed in a page that goes on. */
export function isHostGone(model: AnyModel): boolean {
  return managerOf(model)?.isDisposed === true;
}

/**
 * Jupyter can save the state of widgets in the notebook, and would save this front end with each canvas. The module is loaded, so
 * nothing looks at its text again; set in silence, nobody is told of the change either.
 */
export function keepBundleOutOfSavedState(model: AnyModel): void {
  if (managerOf(model)?.get_state_sync) {
    model.set?.("_esm", SAVED_MODULE, { silent: true });
    model.set?.("_css", "", { silent: true });
  }
}

function managerOf(model: AnyModel): Manager | undefined {
  return model.widget_manager as Manager | undefined;
}

/** Guesses which front end the page is, for reports only: nothing may depend on it. */
export function guessHost(): string {
  try {
    if (/^vscode-/.test(location.protocol) || document.body.dataset.vscodeThemeKind !== undefined) {
      return "VS Code";
    }
    if (document.querySelector("marimo-filename, marimo-mode, marimo-island")) {
      return "marimo";
    }
    const jupyter = document.getElementById("jupyter-config-data")?.textContent;
    if (jupyter) {
      const name = (JSON.parse(jupyter) as { appName?: unknown }).appName;
      return typeof name === "string" ? name : "Jupyter";
    }
    if (document.querySelector(".rfb-gpu-page")) {
      return "a web page";
    }
    if (location.hostname.endsWith("googleusercontent.com")) {
      return "Colab";
    }
  } catch {
    // a guess that fails is an unknown host
  }
  return "unknown";
}
