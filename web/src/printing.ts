/** Paper shows everything: what is folded, cut to its first lines or not yet drawn. */
import { options } from "preact";
import { createStore, useStore } from "./store";

const paper = createStore({ printing: false });

/** Whether the page is on its way to a printer. */
export const usePrinting = (): boolean => useStore(paper, (state) => state.printing);

export function watchPrinting(): void {
  const print = (printing: boolean): void => {
    // Paper does not wait for the next frame, as drawing usually does.
    const usual = options.debounceRendering;
    options.debounceRendering = (redraw) => redraw();
    paper.set({ printing });
    if (usual) options.debounceRendering = usual;
    else delete options.debounceRendering;
  };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  matchMedia("print").addEventListener("change", (event) => print(event.matches));
}
