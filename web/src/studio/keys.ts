/** Keys that work everywhere on the page. */
import type { Studio } from "./model";

export function listenForKeys(studio: Studio): void {
  addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    const writing = target.closest("input:not([type=checkbox]):not([type=radio]), select, textarea") !== null;
    const { dialog, selection, listing, lasso } = studio.live.get();
    const key = event.key.toLowerCase();
    if (event.ctrlKey || event.metaKey) {
      if (writing || event.altKey || dialog) return;
      const redo = (key === "z" && event.shiftKey) || key === "y";
      if (key !== "z" && !redo) return;
      event.preventDefault();
      void (redo ? studio.redo() : studio.undo());
      return;
    }
    if (writing || event.altKey || event.defaultPrevented || dialog) return;
    const actions: Record<string, (() => void) | undefined> = {
      "/": () => document.getElementById("search")?.focus(),
      "?": () => studio.live.set({ dialog: { name: "keys" } }),
      l: () => studio.live.set({ lasso: !lasso }),
      m: selection.size ? () => studio.live.set({ dialog: { name: "move" } }) : undefined,
      c: selection.size ? () => void studio.confirm(selection) : undefined,
      escape: () => {
        if (selection.size) studio.select([]);
        else if (listing) studio.live.set({ listing: null });
        else if (lasso) studio.live.set({ lasso: false });
      },
    };
    const reviewing = studio.live.get().view === "review";
    const action = reviewing && key !== "?" && key !== "escape" ? undefined : actions[key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
