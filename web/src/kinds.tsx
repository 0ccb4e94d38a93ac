/** The lists of new and of known kinds, with search, order and a list to jump from. */
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Chip } from "./bits";
import { Card } from "./cards";
import { Order } from "./order";
import { useModel, useReport } from "./state";
import { number } from "./words";

function useListed(kind: "new" | "known"): { places: number[]; total: number; query: string } {
  const model = useModel();
  const query = useReport((state) => state.query);
  const sort = useReport((state) => state.sort);
  const texts = useReport((state) => state.texts); // the search looks into them once they are there
  const places = useMemo(() => model.listed(kind, query, sort), [kind, query, sort, query ? texts : null]);
  const total = useMemo(() => model.listed(kind, "", "size").length, [kind]);
  return { places, total, query };
}

export function Kinds({ kind }: { kind: "new" | "known" }): JSX.Element | null {
  const model = useModel();
  const { places, total, query } = useListed(kind);
  const largest = useMemo(() => Math.max(...model.report.categories.map(({ size }) => size), 1), []);
  const stable = useMemo(() => model.report.categories.some((one) => one.kind === kind && one.stability !== null), []);
  if (!total) return null;
  return (
    <section id={kind} aria-labelledby={`${kind}-heading`}>
      <h2 id={`${kind}-heading`}>
        {kind === "new" ? "New kinds" : "Known kinds"} <span class="count">{number(total)}</span>
      </h2>
      <Toolbar kind={kind} places={places} />
      {query && (
        <p class="found dim" role="status">
          {places.length === total ? `All ${number(total)}` : `${number(places.length)} of ${number(total)}`} {kind} kinds
          match
          {kind === "new" && <KnownMatches />}.
        </p>
      )}
      <div class={stable ? `cards ${kind}` : `cards ${kind} plain`}>
        {places.map((place) => (
          <Card key={place} place={place} largest={largest} />
        ))}
      </div>
    </section>
  );
}

/** What the same search finds among the known kinds, further down. */
function KnownMatches(): JSX.Element | null {
  const { places, total } = useListed("known");
  if (!total) return null;
  return (
    <>
      ; of the known kinds, {places.length ? <a href="#known">{number(places.length)}</a> : "none"}
    </>
  );
}

function Toolbar({ kind, places }: { kind: "new" | "known"; places: number[] }): JSX.Element {
  const model = useModel();
  const query = useReport((state) => state.query);
  const [jumping, setJumping] = useState(false);
  const anyOpen = useReport(() => places.some((place) => model.isOpen(place)));
  return (
    <div class="toolbar" role="search" aria-label={kind === "new" ? "Search all kinds" : "Search all kinds again"}>
      <input
        type="search"
        placeholder="Search names and samples"
        aria-label="Search names and samples"
        value={query}
        onInput={(event) => model.store.set({ query: event.currentTarget.value })}
      />
      <Order />
      <button type="button" class="quiet" onClick={() => model.setOpen(places, !anyOpen)}>
        {anyOpen ? "Fold all" : "Unfold all"}
      </button>
      <button type="button" class="quiet" aria-expanded={jumping} onClick={() => setJumping(!jumping)}>
        Jump to
      </button>
      {jumping && (
        <ul class="jump">
          {places.map((place) => (
            <li key={place}>
              <Chip id={model.category(place).id} note={number(model.category(place).size)} />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
