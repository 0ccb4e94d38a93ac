/** What can be done with the selected samples. */
import type { JSX } from "preact";
import { useLive, useStudio } from "./model";

export function SelectionBar(): JSX.Element | null {
  const studio = useStudio();
  const selection = useLive((state) => state.selection);
  if (!selection.size) return null;
  const { unit } = studio.report;
  return (
    <div class="selection" role="region" aria-label={`Selected ${unit[1]}`} id="selection">
      <strong aria-live="polite">{studio.counted(selection.size)} selected</strong>
      <span class="buttons">
        <button type="button" class="quiet" title="Move to another kind (M)" onClick={() => studio.live.set({ dialog: { name: "move" } })}>
          Move to …
        </button>
        <button type="button" class="quiet" onClick={() => studio.live.set({ dialog: { name: "create" } })}>
          New kind …
        </button>
        <button type="button" class="quiet" title="They belong where they are (C)" onClick={() => void studio.confirm(selection)}>
          Confirm
        </button>
        <button
          type="button"
          class="quiet"
          onClick={() => void studio.list(`Like ${studio.counted(selection.size)}`, { like: [...selection] })}
        >
          More like this
        </button>
        <button type="button" class="quiet" title="Escape" onClick={() => studio.select([])}>
          Clear
        </button>
      </span>
    </div>
  );
}
