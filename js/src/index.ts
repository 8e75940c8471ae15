/**
 * The anywidget module of rfb_gpu: hands the widget's model and elements to CanvasModel. The host calls the factory once
 * per widget, `initialize` once per page, and `render` once per output that shows the widget. `connect` is for pages without
 * a notebook.
 */
import { type AnyModel, CanvasModel } from "./model";

export { connect } from "./server";

export default () => {
  let canvas: CanvasModel | null = null;

  return {
    // Not async, and nothing in it waits: see CanvasModel.
    initialize({ model }: { model: AnyModel }): () => void {
      const mine = new CanvasModel(model);
      canvas = mine;
      return () => {
        mine.close();
        canvas = null;
      };
    },

    render({ model, el }: { model: AnyModel; el: HTMLElement }): () => void {
      canvas ??= new CanvasModel(model);
      const view = canvas.addView(el);
      return () => view.dispose();
    },
  };
};
