/** A category's card: who is in it, how sure that is, what is close to it. */
import { memo } from "./memo";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Bar, Chip, Command, Name, Swatch, Term } from "./bits";
import type { Category, Row } from "./data";
import { usePrinting } from "./printing";
import { Samples } from "./samples";
import { cardId, useModel, useReport, type Model } from "./state";
import { count, isSuggested, number, percent, renameCommand, shownName, stabilityWord } from "./words";

/** True from the moment an element is about to come into view: hundreds of cards are drawn as they are needed. */
export function useSeen(): [{ current: HTMLElement | null }, boolean] {
  const element = useRef<HTMLElement | null>(null);
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    if (!element.current || seen) return;
    const observer = new IntersectionObserver(
      (entries) => entries.some((entry) => entry.isIntersecting) && setSeen(true),
      { rootMargin: "900px 0px" },
    );
    observer.observe(element.current);
    return () => observer.disconnect();
  }, [seen]);
  return [element, seen];
}

const narrow = matchMedia("(max-width: 899px)");

/** About how high a card will be once it is drawn, in rem, so that the page hardly moves when it is. */
function expectedHeight({ typical, doubtful }: Category, model: Model): number {
  const rows = [...typical, ...doubtful];
  const stacked = narrow.matches;
  const frame = !stacked ? 9.6 : innerWidth < 600 ? 22.5 : 15; // heading, space, last lines
  if (rows.some((row) => model.pictures.pictures[row])) {
    if (stacked) return frame + 7 * (Math.ceil(typical.length / 3) + Math.ceil(doubtful.length / 3));
    return frame + 7.6 * Math.max(Math.ceil(typical.length / 6), Math.ceil(doubtful.length / 3));
  }
  if (rows.some((row) => model.sample(row).text !== null)) {
    const width = Math.min(innerWidth - 66, 1106);
    const lines = (rows: readonly Row[], share: number): number => {
      const letters = (width * share) / 7.7; // on a line
      const count = (row: Row): number => Math.ceil(Math.min(model.sample(row).text?.length ?? 1, 280) / letters) || 1;
      return rows.reduce((sum, row) => sum + 0.75 + 1.36 * count(row), 0);
    };
    if (stacked) return frame + lines(typical, 1) + lines(doubtful, 1);
    return frame - 0.5 + Math.max(lines(typical, 0.64), lines(doubtful, 0.3));
  }
  return frame + 3.5;
}

export const Card = memo(function Card({ place, largest }: { place: number; largest: number }): JSX.Element {
  const model = useModel();
  const category = model.category(place);
  const [element, seen] = useSeen();
  const printing = usePrinting();
  const open = useReport((state) => state.opened.get(place) ?? category.kind === "new") || printing;
  const drawn = useReport((state) => state.drawAll || state.revealed === place) || seen || printing;
  // Samples that came without their texts wait for them: a card does not change once it is there.
  const ready = useReport((state) => state.unpacking !== "busy") || !!model.report.samples;
  const waiting = open && !(drawn && ready);
  const lit = useReport((state) => state.lit.has(place));
  const classes = ["card", category.kind, open && "open", waiting && "waiting", lit && "lit"];
  return (
    <article
      ref={element}
      id={cardId(category)}
      class={classes.filter(Boolean).join(" ")}
      data-kind={category.key}
      style={{ minHeight: waiting ? `${expectedHeight(category, model)}rem` : "" }}
      tabIndex={-1}
      aria-label={shownName(category)}
    >
      <Heading category={category} place={place} open={open} largest={largest} />
      {open && !waiting && <ReportContent category={category} place={place} />}
    </article>
  );
});

interface HeadingProps {
  category: Category;
  place: number;
  open: boolean;
  /** Size of the largest kind; then a bar shows how large this one is. */
  largest?: number;
  /** In place of the name. */
  title?: ComponentChildren;
  /** Behind the name. */
  children?: ComponentChildren;
}

export function Heading({ category, place, open, largest, title, children }: HeadingProps): JSX.Element {
  const model = useModel();
  const { unit } = model.report;
  const { key, size, labelled } = category;
  return (
    <header>
      {title ?? (
        <h3>
          <button type="button" class="fold" aria-expanded={open} onClick={() => model.setOpen([place], !open)}>
            <Swatch place={place} />
            <Name category={category} />
          </button>
          {children}
          {isSuggested(category) && (
            <span class="tag">
              <Term word="suggestion">suggested</Term>
            </span>
          )}
          {shownName(category) !== key && <code class="key">{key}</code>}
        </h3>
      )}
      <span class="size">
        {largest !== undefined && category.kind === "known" && <Bar tone="amount" share={size / Math.max(largest, 1)} />}
        <span>
          {count(size, unit)}
          {labelled > 0 && <span class="dim">, {labelled === size ? "all" : number(labelled)} labelled</span>}
        </span>
      </span>
      <Sure category={category} />
    </header>
  );
}

/** "92 % clear · stable". */
function Sure({ category }: { category: Category }): JSX.Element {
  const { clear, stability } = category;
  return (
    <span class="sureness">
      {clear !== null && <Bar share={clear} />}
      <span>
        {clear !== null && <Term word="clear">{percent(clear)} clear</Term>}
        {clear !== null && stability !== null && " · "}
        {stability !== null && <Term word="stability">{stabilityWord(stability)}</Term>}
      </span>
    </span>
  );
}

function ReportContent({ category, place }: { category: Category; place: number }): JSX.Element {
  const model = useModel();
  const [naming, setNaming] = useState(false);
  const showOnMap = (): void => {
    model.light([place]);
    document.getElementById("map")?.scrollIntoView({ block: "start" });
  };
  const actions = (
    <>
      {model.report.map && (
        <button type="button" class="quiet" onClick={showOnMap}>
          Show on the map
        </button>
      )}
      <button type="button" class="quiet" aria-expanded={naming} onClick={() => setNaming(!naming)}>
        {category.name ? "Rename" : "Name it"}
      </button>
    </>
  );
  return (
    <Content category={category} samples={(rows, doubt) => <Samples rows={rows} doubt={doubt} />} actions={actions}>
      {naming && <Naming category={category} />}
    </Content>
  );
}

interface ContentProps {
  category: Category;
  /** How samples are shown: typical ones, or doubtful ones. */
  samples: (rows: readonly Row[], doubt: boolean) => JSX.Element;
  /** Buttons. */
  actions: ComponentChildren;
  /** Below them. */
  children?: ComponentChildren;
}

/** What an open card shows: who is in it, what is close to it, what can be done. */
export function Content({ category, samples, actions, children }: ContentProps): JSX.Element {
  const { typical, doubtful, nearest } = category;
  return (
    <div class="content">
      <div class={doubtful.length ? "both" : "one"}>
        {typical.length > 0 && (
          <section>
            <h4>
              <Term word="typical">Typical</Term>
            </h4>
            {samples(typical, false)}
          </section>
        )}
        {doubtful.length > 0 && (
          <section class="doubtful">
            <h4>
              <Term word="doubtful">Doubtful</Term>
            </h4>
            {samples(doubtful, true)}
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
        <p class="actions">{actions}</p>
        {children}
      </footer>
    </div>
  );
}

/** A page cannot write into the run, so it words the command that does. */
function Naming({ category }: { category: Category }): JSX.Element {
  const { run } = useModel().report;
  const [name, setName] = useState(category.name ?? category.suggestion ?? "");
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.select(), []);
  return (
    <div class="naming">
      <label>
        Name
        <input ref={input} dir="auto" value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <Command text={renameCommand(run, category.key, name)} />
    </div>
  );
}
