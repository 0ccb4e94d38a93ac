/** Kinds as cards that can be named, merged, split, dissolved, and that take samples. */
import type { JSX } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Swatch } from "../bits";
import { Content, Heading, useSeen } from "../cards";
import type { Category, Row } from "../data";
import { Order } from "../order";
import { cardId, useReport } from "../state";
import { number, shownName } from "../words";
import { useLive, useStudio } from "./model";
import { DRAGGED, Samples } from "./samples";

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
        {kind === "new" && <Order />}
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
      <StudioHeading category={category} place={place} open={open} />
      {open && drawn && <StudioContent category={category} place={place} />}
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

function StudioHeading({ category, place, open }: { category: Category; place: number; open: boolean }): JSX.Element {
  const naming = useLive((state) => state.naming === category.key);
  return (
    <Heading category={category} place={place} open={open} title={naming ? <Naming category={category} place={place} /> : null}>
      <Pencil category={category} />
    </Heading>
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

function StudioContent({ category, place }: { category: Category; place: number }): JSX.Element {
  const studio = useStudio();
  const name = shownName(category);
  const ask = (dialog: "merge" | "split" | "dissolve"): void => studio.live.set({ dialog: { name: dialog, place } });
  const list = (): void => void studio.list(name, { kind: category.key, order: "doubtful" });
  const samples = (rows: readonly Row[], doubt: boolean): JSX.Element => (
    <Samples rows={rows} label={doubt ? `Doubtful in ${name}` : `Typical of ${name}`} sure={doubt} />
  );
  const actions = (
    <>
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
    </>
  );
  return <Content category={category} samples={samples} actions={actions} />;
}
