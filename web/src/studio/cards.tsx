/** Kinds as cards that can be named, merged, split, dissolved, and that take samples. */
import type { JSX } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Chip, Name, Swatch, Term } from "../bits";
import { Sure, useSeen } from "../cards";
import type { Category } from "../data";
import { cardId, useReport, type Sort } from "../state";
import { count, isSuggested, number, shownName } from "../words";
import { useLive, useStudio } from "./model";
import { DRAGGED, Samples } from "./samples";

const SORTS: readonly [Sort, string][] = [
  ["size", "Largest first"],
  ["doubt", "Most doubtful first"],
  ["name", "By name"],
];

export function Kinds({ kind }: { kind: "new" | "known" }): JSX.Element | null {
  const studio = useStudio();
  useLive((state) => state.n);
  const sort = useReport((state) => state.sort);
  const places = useMemo(() => studio.listed(kind, "", sort), [studio.report, kind, sort]);
  const stable = studio.report.categories.some((one) => one.kind === kind && one.stability !== null);
  if (!places.length) return null;
  return (
    <section id={kind} aria-labelledby={`${kind}-heading`}>
      <div class="heading-line">
        <h2 id={`${kind}-heading`}>
          {kind === "new" ? "New kinds" : "Known kinds"} <span class="count">{number(places.length)}</span>
        </h2>
        {kind === "new" && (
          <select
            aria-label="Order"
            value={sort}
            onChange={(event) => studio.store.set({ sort: event.currentTarget.value as Sort })}
          >
            {SORTS.map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
        )}
      </div>
      <div class={stable ? `cards ${kind}` : `cards ${kind} plain`}>
        {places.map((place) => (
          <Card key={studio.category(place).key} place={place} />
        ))}
      </div>
    </section>
  );
}

function Card({ place }: { place: number }): JSX.Element {
  const studio = useStudio();
  const category = studio.category(place);
  const [element, seen] = useSeen();
  const [over, setOver] = useState(false);
  const open = useReport((state) => state.opened.get(place) ?? category.kind === "new");
  const drawn = useReport((state) => state.revealed === place) || seen;
  const lit = useReport((state) => state.lit.has(place));
  const classes = ["card", category.kind, open && "open", open && !drawn && "waiting", lit && "lit", over && "over"];
  const dragged = (event: DragEvent): boolean => event.dataTransfer?.types.includes(DRAGGED) ?? false;
  const drop = (event: DragEvent): void => {
    setOver(false);
    const rows = readRows(event.dataTransfer?.getData(DRAGGED) ?? "");
    if (!rows.length) return;
    event.preventDefault();
    void studio.move(rows, place);
  };
  return (
    <article
      ref={element}
      id={cardId(category)}
      class={classes.filter(Boolean).join(" ")}
      data-kind={category.key}
      tabIndex={-1}
      aria-label={shownName(category)}
      onDragOver={(event) => {
        if (!dragged(event)) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={(event) => !element.current?.contains(event.relatedTarget as Node | null) && setOver(false)}
      onDrop={drop}
    >
      <Heading category={category} place={place} open={open} />
      {open && drawn && <Content category={category} place={place} />}
    </article>
  );
}

function readRows(text: string): number[] {
  try {
    const rows: unknown = JSON.parse(text);
    return Array.isArray(rows) ? rows.filter((row): row is number => Number.isInteger(row)) : [];
  } catch {
    return [];
  }
}

function Heading({ category, place, open }: { category: Category; place: number; open: boolean }): JSX.Element {
  const studio = useStudio();
  const naming = useLive((state) => state.naming === category.key);
  const { key, size, labelled } = category;
  return (
    <header>
      {naming ? (
        <Naming category={category} place={place} />
      ) : (
        <h3>
          <button type="button" class="fold" aria-expanded={open} onClick={() => studio.setOpen([place], !open)}>
            <Swatch place={place} />
            <Name category={category} />
          </button>
          <Pencil category={category} />
          {isSuggested(category) && (
            <span class="tag">
              <Term word="suggestion">suggested</Term>
            </span>
          )}
          {shownName(category) !== key && <code class="key">{key}</code>}
        </h3>
      )}
      <span class="size">
        <span>
          {count(size, studio.report.unit)}
          {labelled > 0 && <span class="dim">, {labelled === size ? "all" : number(labelled)} labelled</span>}
        </span>
      </span>
      <Sure category={category} />
    </header>
  );
}

function Pencil({ category }: { category: Category }): JSX.Element {
  const studio = useStudio();
  return (
    <button
      type="button"
      class="pencil"
      aria-label={`Rename ${shownName(category)}`}
      title="Rename"
      onClick={() => studio.live.set({ naming: category.key })}
    >
      ✎
    </button>
  );
}

/** The name, written in its place: Enter keeps it, Escape does not. An empty one takes the name away. */
function Naming({ category, place }: { category: Category; place: number }): JSX.Element {
  const studio = useStudio();
  const [name, setName] = useState(category.name ?? category.suggestion ?? "");
  const input = useRef<HTMLInputElement>(null);
  const finished = useRef(false);
  useLayoutEffect(() => {
    input.current?.focus();
    input.current?.select();
  }, []);
  const end = (): void => {
    finished.current = true;
    if (studio.live.get().naming === category.key) studio.live.set({ naming: null });
    requestAnimationFrame(() =>
      document.querySelector<HTMLElement>(`article[data-kind="${CSS.escape(category.key)}"] .pencil`)?.focus(),
    );
  };
  const keep = async (): Promise<void> => {
    if (finished.current) return;
    const wanted = name.trim() || category.key;
    if (wanted === (category.name ?? category.key)) return end();
    if (await studio.do("rename", { kind: category.key, name: wanted }, `Renamed to ${wanted}`)) end();
    else input.current?.focus();
  };
  return (
    <form
      class="naming-form"
      onSubmit={(event) => {
        event.preventDefault();
        void keep();
      }}
    >
      <Swatch place={place} />
      <input
        ref={input}
        class="naming-input"
        dir="auto"
        aria-label={`Name of ${category.key}`}
        maxLength={200}
        value={name}
        onInput={(event) => setName(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          event.stopPropagation();
          end();
        }}
      />
      <button type="submit" class="quiet">
        Save
      </button>
      <button type="button" class="quiet" onClick={end}>
        Cancel
      </button>
    </form>
  );
}

function Content({ category, place }: { category: Category; place: number }): JSX.Element {
  const studio = useStudio();
  const { typical, doubtful, nearest, key } = category;
  const name = shownName(category);
  const ask = (dialog: "merge" | "split" | "dissolve"): void => studio.live.set({ dialog: { name: dialog, place } });
  const list = (): void => void studio.list(name, { kind: key, order: "doubtful" });
  return (
    <div class="content">
      <div class={doubtful.length ? "both" : "one"}>
        {typical.length > 0 && (
          <section>
            <h4>
              <Term word="typical">Typical</Term>
            </h4>
            <Samples rows={typical} label={`Typical of ${name}`} />
          </section>
        )}
        {doubtful.length > 0 && (
          <section class="doubtful">
            <h4>
              <Term word="doubtful">Doubtful</Term>
            </h4>
            <Samples rows={doubtful} label={`Doubtful in ${name}`} sure />
          </section>
        )}
      </div>
      <footer>
        {nearest.length > 0 && (
          <p class="nearest">
            <span class="dim">Closest</span>
            {nearest.map(({ id, similarity }) => (
              <Chip key={id} id={id} hint={`similarity ${similarity.toFixed(2)}`} />
            ))}
          </p>
        )}
        <p class="actions">
          <button type="button" class="quiet" onClick={list}>
            All {studio.report.unit[1]}
          </button>
          <button type="button" class="quiet" onClick={() => ask("merge")}>
            Merge …
          </button>
          <button type="button" class="quiet" disabled={category.size < 2} onClick={() => ask("split")}>
            Split …
          </button>
          <button type="button" class="quiet" onClick={() => ask("dissolve")}>
            Dissolve …
          </button>
        </p>
      </footer>
    </div>
  );
}
