/** Which colour is which kind: a list to search, new kinds first; a click lights a kind on the map. */
import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { ExtraKey, Name, Swatch } from "../bits";
import { css, ramp } from "../colours";
import { useModel, useReport, type ColourBy } from "../state";
import { number, shownName } from "../words";

const COLOURS: readonly [ColourBy, string][] = [
  ["kind", "Kind"],
  ["confidence", "Confidence"],
  ["novelty", "Novelty"],
];
const ENDS: Record<"confidence" | "novelty", [string, string]> = {
  confidence: ["doubtful", "sure"],
  novelty: ["known", "new"],
};

export function Legend(): JSX.Element {
  const model = useModel();
  const lit = useReport((state) => state.lit);
  const [query, setQuery] = useState("");
  const places = useMemo(
    () => [...model.listed("new", "", "size"), ...model.listed("known", "", "size")],
    [model.report],
  );
  const words = query.toLowerCase().trim();
  const shown = places.filter((place) => {
    const category = model.category(place);
    return `${shownName(category)}\n${category.key}`.toLowerCase().includes(words);
  });
  // Two hundred kinds are one stop of the Tab key; arrows go through them.
  const [current, setCurrent] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const walk = (event: KeyboardEvent): void => {
    const steps: Record<string, number> = { ArrowDown: current + 1, ArrowUp: current - 1, Home: 0, End: shown.length - 1 };
    const next = steps[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const index = Math.min(Math.max(next, 0), shown.length - 1);
    setCurrent(index);
    list.current?.querySelectorAll("button")[index]?.focus();
  };
  const stop = Math.min(current, shown.length - 1);
  return (
    <aside class="legend" aria-label="Legend">
      <ColourChoice />
      <div class="legend-search">
        <input
          type="search"
          placeholder={`Find among ${number(places.length)} kinds`}
          aria-label="Find a kind in the legend"
          value={query}
          onInput={(event) => setQuery(event.currentTarget.value)}
        />
        <button type="button" class="quiet" disabled={!lit.size} onClick={() => model.light([])}>
          All
        </button>
      </div>
      <ul ref={list} onKeyDown={walk}>
        {shown.map((place, i) => (
          <Entry key={place} place={place} stop={i === stop} />
        ))}
      </ul>
    </aside>
  );
}

function Entry({ place, stop }: { place: number; stop: boolean }): JSX.Element {
  const model = useModel();
  const category = model.category(place);
  const lit = useReport((state) => state.lit.has(place));
  return (
    <li>
      <button
        type="button"
        class={category.kind}
        aria-pressed={lit}
        tabIndex={stop ? 0 : -1}
        data-legend={category.key}
        title={category.key}
        onClick={() => model.toggleLight(place)}
      >
        <Swatch place={place} />
        <Name category={category} />
        <ExtraKey place={place} />
        <span class="dim">{number(category.size)}</span>
      </button>
    </li>
  );
}

function ColourChoice(): JSX.Element {
  const { store, report } = useModel();
  const colourBy = useReport((state) => state.colourBy);
  const theme = useReport((state) => state.theme);
  const gradient = useMemo(() => {
    if (colourBy === "kind") return "";
    const stops = ramp(colourBy, theme).filter((_, i) => i % 15 === 0);
    return `linear-gradient(to right, ${stops.map(css).join(", ")})`;
  }, [colourBy, theme]);
  return (
    <fieldset class="colour-by">
      <legend>Colour by</legend>
      <div>
        {COLOURS.map(([value, words]) => (
          <label key={value} title={report.meanings[value]}>
            <input
              type="radio"
              name="colour-by"
              value={value}
              checked={value === colourBy}
              onChange={() => store.set({ colourBy: value })}
            />
            <span>{words}</span>
          </label>
        ))}
      </div>
      <p class="ramp">
        {colourBy === "kind" ? (
          <span class="dim">New kinds strong, known ones grey</span>
        ) : (
          <>
            <span class="dim">{ENDS[colourBy][0]}</span>
            <span class="gradient" style={{ background: gradient }} />
            <span class="dim">{ENDS[colourBy][1]}</span>
          </>
        )}
      </p>
    </fieldset>
  );
}
