/** Small parts that every section uses: names, chips, bars, commands to copy. */
import type { ComponentChildren, JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { css } from "./colours";
import type { Category } from "./data";
import { usePrinting } from "./printing";
import { cardId, useModel, useReport } from "./state";
import { isSuggested, number, percent, shownName } from "./words";

/** What a category is called, isolated so that right-to-left marks in it do not reach its neighbours. */
export function Name({ category }: { category: Pick<Category, "key" | "name" | "suggestion"> }): JSX.Element {
  return <bdi class={isSuggested(category) ? "name suggested" : "name"}>{shownName(category)}</bdi>;
}

export function Swatch({ place }: { place: number }): JSX.Element {
  const colour = useReport((state) => state.colours[place]);
  return <span class="swatch" aria-hidden="true" style={{ background: colour && css(colour) }} />;
}

/** A category's name that leads to its card. */
export function Chip({ id, note, hint }: { id: number; note?: string; hint?: string }): JSX.Element | null {
  const model = useModel();
  const place = model.place(id);
  if (place === undefined) return null;
  const category = model.category(place);
  const go = (event: Event): void => {
    event.preventDefault();
    model.reveal(place);
  };
  return (
    <a class="chip" href={`#${cardId(category)}`} title={hint ? `${title(category)}; ${hint}` : title(category)} onClick={go}>
      <Swatch place={place} />
      <Name category={category} />
      {note && <span class="dim">{note}</span>}
    </a>
  );
}

function title(category: Category): string {
  const kind = category.kind === "new" ? "new kind" : "known kind";
  return isSuggested(category) ? `${category.key}, ${kind}; the name is a suggestion` : `${category.key}, ${kind}`;
}

/** A share as a short bar. What it says stands beside it in words. */
export function Bar({ share, tone }: { share: number; tone?: "amount" }): JSX.Element {
  const width = `${Math.min(Math.max(share, 0), 1) * 100}%`;
  return (
    <span class={tone ? `bar ${tone}` : "bar"} aria-hidden="true">
      <span style={{ width }} />
    </span>
  );
}

export function ShareBar({ share }: { share: number }): JSX.Element {
  return (
    <span class="share">
      <Bar share={share} />
      <span>{percent(share)}</span>
    </span>
  );
}

/** A word with its meaning on hover; all meanings stand at the end of the page. */
export function Term({ word, children }: { word: string; children: ComponentChildren }): JSX.Element {
  const meaning = useModel().report.meanings[word];
  return meaning ? (
    <span class="term" title={meaning}>
      {children}
    </span>
  ) : (
    <>{children}</>
  );
}

/** A command in full, with a button that copies it, or selects it where the page may not use the clipboard. */
export function Command({ text }: { text: string }): JSX.Element {
  const code = useRef<HTMLElement>(null);
  const [said, setSaid] = useState("");
  const copy = async (): Promise<void> => {
    const copied = await copyText(text, code.current);
    setSaid(copied ? "Copied" : "Selected: press Ctrl+C");
    setTimeout(() => setSaid(""), 2500);
  };
  return (
    <span class="command">
      <code ref={code} dir="ltr">
        {text}
      </code>
      <button type="button" onClick={copy} aria-label={`Copy the command: ${text}`}>
        {said || "Copy"}
      </button>
      <span class="unseen" role="status">
        {said}
      </span>
    </span>
  );
}

async function copyText(text: string, shown: HTMLElement | null): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // A page from disk may have no clipboard: what is selected can be copied by hand.
    if (shown) getSelection()?.selectAllChildren(shown);
    try {
      return document.execCommand("copy");
    } catch {
      return false;
    }
  }
}

/** Text of any length: a long one is cut until a person asks for the rest. */
export function LongText({ text, limit = 280 }: { text: string; limit?: number }): JSX.Element {
  const [whole, setWhole] = useState(false);
  const long = text.length > limit * 1.2;
  return (
    <>
      <span class="text" dir="auto">
        {long && !whole ? `${cut(text, limit)}…` : text || <span class="dim">(empty)</span>}
      </span>
      {long && (
        <button type="button" class="more" aria-expanded={whole} onClick={() => setWhole(!whole)}>
          {whole ? "less" : "more"}
        </button>
      )}
    </>
  );
}

/** The first letters, without half of a surrogate pair. */
export function cut(text: string, length: number): string {
  return text.slice(0, length).replace(/[\ud800-\udbff]$/, "");
}

/** Shows the first ones of a list, and the rest when asked. */
export function useFirst<Item>(items: readonly Item[], first: number): [readonly Item[], JSX.Element | null] {
  const [all, setAll] = useState(false);
  const printing = usePrinting();
  if (all || printing || items.length <= first) return [items, null];
  const button = (
    <button type="button" class="quiet show-all" onClick={() => setAll(true)}>
      Show all {number(items.length)}
    </button>
  );
  return [items.slice(0, first), button];
}
