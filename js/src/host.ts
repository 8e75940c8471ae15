/**
 * Guesses which front end the page is, for reports only: nothing may depend on it.
 */
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
