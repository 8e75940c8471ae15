/**
 * Remembers what was called BaseRenderView on the window before renderview.js puts itself there: another widget of the
 * page may have loaded its own. Must be imported before it. It changes nothing.
 */
export const before: unknown = Reflect.get(window, "BaseRenderView");
