/** The map section of a report: the map and its legend. */
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { useModel, useReport } from "../state";
import { isSuggested } from "../words";
import { Legend } from "./legend";
import { Stage, type Actions } from "./stage";

export function MapSection(): JSX.Element | null {
  const model = useModel();
  const { report } = model;
  const unpacking = useReport((state) => state.unpacking);
  const actions = useMemo<Actions>(
    () => ({
      chosen: (target, touch) => {
        if (!target && model.store.get().lit.size) model.light([]);
        if (!target || (touch && "row" in target)) return;
        model.reveal("row" in target ? model.store.get().points!.category[target.row]! : target.place);
      },
    }),
    [model],
  );
  if (!report.map || unpacking === "missing" || unpacking === "broken") return null;
  return (
    <section id="map" aria-labelledby="map-heading">
      <h2 id="map-heading">Map</h2>
      <p class="intro dim">
        {report.map.explanation}
        {report.categories.some(isSuggested) && " Names in italics are suggestions."}
      </p>
      <div class="map-frame">
        <Stage actions={actions} />
        <Legend />
      </div>
    </section>
  );
}
