/** What the report page knows: the report itself, which only a studio replaces, and the state that a person changes. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { categoryColours, type Colour, type Theme } from "./colours";
import type { Category, Pictures, Points, Report, Row, Texts } from "./data";
import { createStore, useStore, type Store } from "./store";
import { currentTheme } from "./theme";
import { shownName } from "./words";

export type Sort = "size" | "doubt" | "name";
export type ColourBy = "kind" | "confidence" | "novelty";

export interface State {
  /** Blocks that are unpacked after the first drawing. */
  points: Points | null;
  texts: Texts | null;
  /** "missing": this browser cannot unpack; "broken": the data could not be read. */
  unpacking: "busy" | "done" | "missing" | "broken";
  theme: Theme;
  /** By place in `report.categories`, as everything below. */
  colours: Colour[];
  query: string;
  sort: Sort;
  /** Cards that a person folded or unfolded; new kinds start unfolded, known ones folded. */
  opened: ReadonlyMap<number, boolean>;
  /** The card last gone to; drawn at once, wherever it is. */
  revealed: number | null;
  /** Categories lit on the map; none: all look the same. */
  lit: ReadonlySet<number>;
  colourBy: ColourBy;
  /** Whether every card is drawn, not just those in view: for the browser's own search. */
  drawAll: boolean;
}

export interface Sample {
  row: Row;
  /** Null until the texts are unpacked. */
  id: string | null;
  text: string | null;
  /** A data address. */
  picture: string | null;
}

export class Model {
  readonly store: Store<State>;
  private placeById: Map<number, number> = new Map();
  /** Names that several categories show, as suggestions may: they need their key beside them. */
  private shared: ReadonlySet<string> = new Set();
  private haystacks: { texts: Texts | null; words: Map<number, string> } = { texts: null, words: new Map() };

  constructor(
    public report: Report,
    readonly pictures: Pictures,
  ) {
    this.indexCategories();
    const theme = currentTheme();
    this.store = createStore<State>({
      points: null,
      texts: null,
      unpacking: "busy",
      theme,
      colours: categoryColours(report.categories, theme),
      query: "",
      sort: "size",
      opened: new Map(),
      revealed: null,
      lit: new Set(),
      colourBy: "kind",
      drawAll: false,
    });
  }

  /** To be called when the report was replaced. */
  protected indexCategories(): void {
    const { categories } = this.report;
    this.placeById = new Map(categories.map((category, place) => [category.id, place]));
    const names = categories.map(shownName);
    this.shared = new Set(names.filter((name, place) => names.indexOf(name) !== place));
    this.haystacks = { texts: null, words: new Map() };
  }

  /** Where a category stands in `report.categories`; undefined for an id that is not there. */
  place(id: number): number | undefined {
    return this.placeById.get(id);
  }

  category(place: number): Category {
    const category = this.report.categories[place];
    if (!category) throw new RangeError(`no category at ${place}`);
    return category;
  }

  /** The key, where the shown name alone does not say which category it is; otherwise null. */
  extraKey(place: number): string | null {
    const category = this.category(place);
    const name = shownName(category);
    return name !== category.key && this.shared.has(name) ? category.key : null;
  }

  sample(row: Row): Sample {
    const { texts } = this.store.get();
    const shown = this.report.samples?.[row];
    const picture = this.pictures.pictures[row];
    return {
      row,
      id: shown?.[0] ?? texts?.ids[row] ?? null,
      text: shown?.[1] ?? texts?.texts?.[row] ?? null,
      picture: picture ? `data:${this.pictures.type};base64,${picture}` : null,
    };
  }

  isOpen(place: number): boolean {
    return this.store.get().opened.get(place) ?? this.category(place).kind === "new";
  }

  setOpen(places: readonly number[], open: boolean): void {
    const opened = new Map(this.store.get().opened);
    for (const place of places) opened.set(place, open);
    this.store.set({ opened });
  }

  light(places: Iterable<number>): void {
    this.store.set({ lit: new Set(places) });
  }

  toggleLight(place: number): void {
    const lit = new Set(this.store.get().lit);
    if (!lit.delete(place)) lit.add(place);
    this.store.set({ lit });
  }

  /** Goes to a category's card: unfolds it, lights it on the map, scrolls to it and gives it the focus. */
  reveal(place: number): void {
    const { query } = this.store.get();
    if (query && !this.matches(place, query)) this.store.set({ query: "" });
    this.setOpen([place], true);
    this.store.set({ revealed: place, lit: new Set([place]) });
    const show = (): void => {
      const card = document.getElementById(cardId(this.category(place)));
      card?.scrollIntoView({ block: "start" });
      card?.focus({ preventScroll: true });
    };
    // Cards around it are drawn as they come into view, which moves it: so it is shown once more when that is over.
    requestAnimationFrame(() => requestAnimationFrame(() => (show(), setTimeout(show, 120))));
  }

  /** Whether all words of the query are in a category's names, key or the texts shown on its card. */
  matches(place: number, query: string): boolean {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return true;
    const haystack = this.haystack(place);
    return words.every((word) => haystack.includes(word));
  }

  private haystack(place: number): string {
    const { texts } = this.store.get();
    if (this.haystacks.texts !== texts) this.haystacks = { texts, words: new Map() };
    const known = this.haystacks.words.get(place);
    if (known !== undefined) return known;
    const category = this.category(place);
    const samples = [...category.typical, ...category.doubtful].map((row) => this.sample(row));
    const words = [category.name, category.suggestion, category.key, ...samples.flatMap(({ id, text }) => [id, text])];
    const haystack = words.filter(Boolean).join("\n").toLowerCase();
    this.haystacks.words.set(place, haystack);
    return haystack;
  }

  /** Places of one kind that match the query, in the chosen order. */
  listed(kind: "new" | "known", query: string, sort: Sort): number[] {
    const places = this.report.categories
      .map((_, place) => place)
      .filter((place) => this.category(place).kind === kind && this.matches(place, query));
    const bySize = (a: number, b: number): number => this.category(b).size - this.category(a).size;
    const doubt = (place: number): number => this.category(place).clear ?? this.category(place).confidence ?? 2;
    const name = (place: number): string => shownName(this.category(place));
    const orders: Record<Sort, (a: number, b: number) => number> = {
      size: bySize,
      doubt: (a, b) => doubt(a) - doubt(b) || bySize(a, b),
      name: (a, b) => name(a).localeCompare(name(b), "en", { numeric: true }),
    };
    return places.sort(orders[sort]);
  }
}

export const cardId = (category: Pick<Category, "id">): string => `kind-${category.id}`;

const ModelContext = createContext<Model | null>(null);
export const ModelProvider = ModelContext.Provider;

export function useModel(): Model {
  const model = useContext(ModelContext);
  if (!model) throw new Error("no model around this component");
  return model;
}

export function useReport<Value>(pick: (state: State) => Value): Value {
  return useStore(useModel().store, pick);
}
