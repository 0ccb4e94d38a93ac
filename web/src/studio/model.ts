/** What a studio's page knows: the report's model, kept in step with the server, and what a person does here. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { categoryColours, type Colour, type Theme } from "../colours";
import type { Category, Points, Report, Row } from "../data";
import { createStore, useStore, type Store } from "../store";
import { Model, type Sample } from "../state";
import { get, getPoints, packRows, post, Refusal, withChange } from "./server";
import type { Change, Described, PackedRows, Page, RawPoints, State, Step, StudioCategory } from "./server";
import type { Job } from "./refit";

/** A list of samples beside the map. */
export interface Listing {
  title: string;
  /** Whose samples: a kind's key, words of a search, or rows that others are like. */
  of: { kind: string; order: "doubtful" | "typical" } | { words: string } | { like: readonly Row[] };
  rows: readonly Row[];
  total: number;
  note: string;
  busy: boolean;
}

export type Dialog =
  | { name: "merge"; place: number; other?: number }
  | { name: "split"; place: number }
  | { name: "dissolve"; place: number }
  | { name: "create" }
  | { name: "move"; choose?: (place: number | "new") => void }
  | { name: "sample"; row: Row }
  | { name: "keys" };

export interface LiveState {
  n: number;
  undo: Step | null;
  redo: Step | null;
  version: string | null;
  nLabelled: number;
  nConfirmed: number;
  /** "lost": trying again; "closed": this page's cookie is no longer good. */
  connection: "on" | "lost" | "closed";
  /** Said for a moment; `wrong` until it is closed. */
  message: { text: string; wrong: boolean } | null;
  selection: ReadonlySet<Row>;
  listing: Listing | null;
  dialog: Dialog | null;
  view: "kinds" | "review";
  lasso: boolean;
  /** The kind whose name is being written. */
  naming: string | null;
  job: Job | null;
  /** Counts up when the server has found new questions. */
  reviewed: number;
  /** Counts up when samples have been described that were asked for. */
  described: number;
}

const MESSAGE = 4000;

export class Studio extends Model {
  readonly live: Store<LiveState>;
  private raw: RawPoints;
  private cards: Map<number, StudioCategory>;
  private readonly known = new Map<Row, Described>();
  private wanted = new Set<Row>();
  private timer = 0;
  private loading: Promise<void> | null = null;

  constructor(
    private server: State,
    raw: RawPoints,
  ) {
    super(makeReport(server), { type: "image/webp", pixelated: server.pixelated, pictures: {} });
    this.raw = raw;
    this.cards = new Map(server.categories.map((category) => [category.slot, category]));
    this.live = createStore<LiveState>({
      ...counts(server),
      connection: "on",
      message: null,
      selection: new Set(),
      listing: null,
      dialog: null,
      view: "kinds",
      lasso: false,
      naming: null,
      job: null,
      reviewed: 0,
      described: 0,
    });
    this.setTheme(this.store.get().theme);
    this.store.set({ points: this.placed(), unpacking: "done" });
  }

  setTheme(theme: Theme): void {
    this.store.set({ theme, colours: stableColours(this.report.categories, theme) });
  }

  // Samples

  override sample(row: Row): Sample {
    const known = this.known.get(row);
    if (!known) this.want(row);
    return {
      row,
      id: known?.id ?? null,
      text: known?.text ?? null,
      picture: this.server.pictures ? `/picture/${row}` : null,
    };
  }

  learn(samples: readonly Described[]): void {
    for (const sample of samples) this.known.set(sample.row, sample);
  }

  /** Samples that are drawn are asked for together. */
  private want(row: Row): void {
    this.wanted.add(row);
    this.timer ||= window.setTimeout(() => {
      const rows = [...this.wanted];
      this.wanted = new Set();
      this.timer = 0;
      for (let first = 0; first < rows.length; first += 200) void this.describe(rows.slice(first, first + 200));
    }, 15);
  }

  private async describe(rows: Row[]): Promise<void> {
    try {
      this.learn(await get<Described[]>(`/api/samples?rows=${rows.join(",")}`));
      this.live.set({ described: this.live.get().described + 1 });
    } catch (error) {
      this.fail(error);
    }
  }

  /** The place of the kind that a sample is in. */
  placeOf(row: Row): number {
    return this.store.get().points?.category[row] ?? 0;
  }

  placeOfKey(key: string): number | undefined {
    const place = this.report.categories.findIndex((category) => category.key === key);
    return place < 0 ? undefined : place;
  }

  placeOfSlot(slot: number): number | undefined {
    const key = this.cards.get(slot)?.key;
    return key === undefined ? undefined : this.placeOfKey(key);
  }

  // In step with the server

  /** Loads everything anew. */
  reload(): Promise<void> {
    this.loading ??= load()
      .then(([server, raw]) => {
        if (server.samples !== this.server.samples) this.known.clear(); // rows mean other samples now
        this.server = server;
        this.raw = raw;
        this.cards = new Map(server.categories.map((category) => [category.slot, category]));
        this.rebuild(counts(server));
      })
      .catch((error: unknown) => this.fail(error))
      .finally(() => (this.loading = null));
    return this.loading;
  }

  /** Takes over a change; one that is known already is passed over. */
  async take(change: Change): Promise<void> {
    const { n } = this.live.get();
    if (change.n <= n) return;
    if (change.all || change.before !== n) return this.reload();
    for (const slot of change.gone ?? []) this.cards.delete(slot);
    for (const category of change.categories ?? []) this.cards.set(category.slot, category);
    this.raw = withChange(this.raw, change);
    this.server = { ...this.server, ...pickCounts(change), n: change.n };
    this.rebuild(counts(this.server));
  }

  private rebuild(patch: Partial<LiveState>): void {
    const before = this.report.categories;
    const order = [...this.cards.values()].sort(byBirth);
    this.server = { ...this.server, categories: order };
    this.report = makeReport(this.server);
    this.indexCategories();
    const placeOf = new Map(this.report.categories.map(({ key }, place) => [key, place]));
    const moved = (place: number): number | undefined => placeOf.get(before[place]?.key ?? "");
    const { opened, lit, revealed, theme, points } = this.store.get();
    const now = this.placed();
    const stays = (row: Row): boolean => moved(points?.category[row] ?? -1) === now.category[row];
    const entries = [...opened].map(([place, open]) => [moved(place), open] as const);
    this.store.set({
      opened: new Map(entries.filter((entry): entry is [number, boolean] => entry[0] !== undefined)),
      lit: new Set([...lit].map(moved).filter((place) => place !== undefined)),
      revealed: revealed === null ? null : (moved(revealed) ?? null),
      colours: stableColours(this.report.categories, theme),
      points: now,
    });
    // What was selected in one kind is not meant once it is in another.
    const { selection } = this.live.get();
    const kept = [...selection].filter(stays);
    this.live.set(kept.length < selection.size ? { ...patch, selection: new Set(kept) } : patch);
  }

  /** The points with places in the present list of categories. */
  private placed(): Points {
    const places = new Uint16Array(65536);
    this.report.categories.forEach(({ key }, place) => {
      for (const [slot, card] of this.cards) if (card.key === key) places[slot] = place;
    });
    const { slot, x, y, confidence, novelty, given } = this.raw;
    return { category: slot.map((value) => places[value]!), x, y, confidence, novelty, given };
  }

  // What a person does

  /** Asks the server to do something; what is wrong with it is said. Returns whether it was done. */
  async do(name: string, content: object, said = ""): Promise<boolean> {
    try {
      await this.take(await post<Change>(`/api/do/${name}`, content));
      if (said) this.say(said);
      return true;
    } catch (error) {
      this.fail(error);
      if (error instanceof Refusal && error.status === 409) await this.reload();
      return false;
    }
  }

  /** Samples by the kind that this page shows them in, so that the server can tell if they have moved. */
  seen(rows: Iterable<Row>): Record<string, PackedRows> {
    const byPlace = new Map<number, Row[]>();
    for (const row of rows) {
      const place = this.placeOf(row);
      const others = byPlace.get(place);
      if (others) others.push(row);
      else byPlace.set(place, [row]);
    }
    return Object.fromEntries([...byPlace].map(([place, rows]) => [this.category(place).key, packRows(rows)]));
  }

  undo(): Promise<boolean> {
    const { undo } = this.live.get();
    return undo ? this.do("undo", { entry: undo.n }, `Undone: ${stepWords(undo)}`) : Promise.resolve(false);
  }

  redo(): Promise<boolean> {
    const { redo } = this.live.get();
    return redo ? this.do("redo", { entry: redo.n }, `Done again: ${stepWords(redo)}`) : Promise.resolve(false);
  }

  async move(rows: Iterable<Row>, place: number): Promise<void> {
    const list = [...rows];
    const { key } = this.category(place);
    const done = await this.do("move", { seen: this.seen(list), kind: key }, `${this.counted(list.length)} moved`);
    if (done) this.select([]);
  }

  async confirm(rows: Iterable<Row>): Promise<void> {
    const list = [...rows];
    if (await this.do("confirm", { seen: this.seen(list) }, `${this.counted(list.length)} confirmed`)) this.select([]);
  }

  counted(n: number): string {
    return `${n.toLocaleString("en")} ${this.report.unit[n === 1 ? 0 : 1]}`;
  }

  select(rows: Iterable<Row>): void {
    this.live.set({ selection: new Set(rows) });
  }

  toggle(row: Row): void {
    const selection = new Set(this.live.get().selection);
    if (!selection.delete(row)) selection.add(row);
    this.live.set({ selection });
  }

  say(text: string): void {
    const message = { text, wrong: false };
    this.live.set({ message });
    setTimeout(() => this.live.get().message === message && this.live.set({ message: null }), MESSAGE);
  }

  fail(error: unknown): void {
    if (error instanceof Refusal && error.status === 403) this.live.set({ connection: "closed" });
    else if (error instanceof Refusal) this.live.set({ message: { text: error.message, wrong: true } });
    else {
      console.warn(error);
      this.live.set({ message: { text: "The studio cannot be reached; nothing was done.", wrong: true } });
    }
  }

  // Lists of samples

  async list(title: string, of: Listing["of"]): Promise<void> {
    this.live.set({ listing: { title, of, rows: [], total: 0, note: "", busy: true } });
    await this.listMore();
  }

  async listMore(): Promise<void> {
    const { listing } = this.live.get();
    if (!listing) return;
    this.live.set({ listing: { ...listing, busy: true } });
    try {
      const page = await this.page(listing.of, listing.rows.length);
      this.learn(page.samples);
      if (this.live.get().listing?.of !== listing.of) return;
      const note = page.matches !== undefined && page.matches > page.total ? `of ${page.matches.toLocaleString("en")}` : "";
      const rows = [...listing.rows, ...page.rows];
      this.live.set({ listing: { ...listing, rows, total: page.total, note, busy: false } });
    } catch (error) {
      this.live.set({ listing: null });
      this.fail(error);
    }
  }

  private page(of: Listing["of"], first: number): Promise<Page> {
    if ("like" in of) return post<Page>("/api/like", { rows: packRows(of.like), first });
    const asked =
      "words" in of
        ? new URLSearchParams({ words: of.words, first: String(first) })
        : new URLSearchParams({ kind: of.kind, order: of.order, first: String(first) });
    return get<Page>(`/api/${"words" in of ? "search" : "kinds/samples"}?${asked}`);
  }
}

/** State and points of one moment. */
export async function load(): Promise<[State, RawPoints]> {
  for (;;) {
    const [state, points] = await Promise.all([get<State>("/api/state"), getPoints()]);
    if (state.n === points.n) return [state, points];
  }
}

export function stepWords({ op }: Step): string {
  return op === "apply" ? "corrections" : op;
}

/** Known kinds first, then new ones in the order of their birth, which is that of their slots. */
function byBirth(a: StudioCategory, b: StudioCategory): number {
  return Number(a.kind === "new") - Number(b.kind === "new") || a.slot - b.slot;
}

function makeReport(state: State): Report {
  const order = [...state.categories].sort(byBirth);
  const placeOf = new Map(order.map(({ slot }, place) => [slot, place]));
  const categories: Category[] = order.map(({ slot: _, nearest, ...card }, place) => ({
    ...card,
    id: place,
    accuracy: null,
    nearest: nearest.flatMap(({ slot, similarity }) => {
      const id = placeOf.get(slot);
      return id === undefined ? [] : [{ id, similarity }];
    }),
  }));
  return {
    page: "report",
    title: state.title,
    run: state.run,
    unit: state.unit,
    newkinds: state.newkinds,
    created: state.created,
    summary: [],
    n_samples: state.n_samples,
    n_points: state.n_samples,
    n_labelled: state.n_labelled,
    categories,
    advice: [],
    suspects: [],
    n_suspects: 0,
    truth: null,
    how: { facts: [], charts: [], versions: [] },
    map: state.map,
    meanings: state.meanings,
  };
}

function counts({ n, undo, redo, version, n_labelled, n_confirmed }: State): Pick<
  LiveState,
  "n" | "undo" | "redo" | "version" | "nLabelled" | "nConfirmed"
> {
  return { n, undo, redo, version, nLabelled: n_labelled, nConfirmed: n_confirmed };
}

function pickCounts({ undo, redo, last, version, n_labelled, n_confirmed }: Change): Partial<State> {
  const given = Object.entries({ undo, redo, last, version, n_labelled, n_confirmed });
  return Object.fromEntries(given.filter(([, value]) => value !== undefined));
}

/** Colours that stay with a kind whatever becomes of others: by the number of its key. */
function stableColours(categories: readonly Category[], theme: Theme): Colour[] {
  const numbers = categories.map(({ kind, key }) => (kind === "new" ? Number(/^new-(\d{1,6})$/.exec(key)?.[1] ?? 1) : 0));
  const strong = categoryColours(Array.from({ length: Math.max(...numbers, 0) % 5000 }, () => ({ kind: "new" })), theme);
  const grey = categoryColours(categories, theme);
  return numbers.map((number, place) => (number ? strong[(number - 1) % strong.length] : undefined) ?? grey[place]!);
}

const StudioContext = createContext<Studio | null>(null);
export const StudioProvider = StudioContext.Provider;

export function useStudio(): Studio {
  const studio = useContext(StudioContext);
  if (!studio) throw new Error("no studio around this component");
  return studio;
}

export function useLive<Value>(pick: (state: LiveState) => Value): Value {
  return useStore(useStudio().live, pick);
}
