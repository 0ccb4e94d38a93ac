/** What a page shows, as Python writes it (`newkinds/report/content.py`, `newkinds/report/comparison.py`).
 *
 * A page holds four blocks of data, each a script element that no browser runs:
 *
 * - `content`: JSON, a `Report` or a `Comparison`;
 * - `points`: gzip and base64 of numbers about every sample, see `Points`;
 * - `texts`: gzip and base64 of JSON, see `Texts`;
 * - `pictures`: JSON, see `Pictures`.
 *
 * A comparison has `content` only. Every text may hold anything a user's file holds: it is shown, never interpreted.
 */

/** A sample, by its place among those that the page holds. */
export type Row = number;

export interface Report {
  page: "report";
  /** What the collection is called. */
  title: string;
  /** The run folder's name, for commands. */
  run: string;
  /** What samples are called, singular and plural: ["photo", "photos"], ["text", "texts"], ["sample", "samples"]. */
  unit: [string, string];
  newkinds: string;
  /** ISO 8601, UTC. */
  created: string;
  /** The result in words; the first sentence is the most important. */
  summary: string[];
  n_samples: number;
  /** Samples that the page holds, in the order of the run: all, or of a very large run some. Rows count these. */
  n_points: number;
  n_labelled: number;
  /** Known ones first, then new ones, largest first. */
  categories: Category[];
  advice: Advice[];
  suspects: Suspect[];
  /** How many labels look wrong; `suspects` holds the first of them. */
  n_suspects: number;
  truth: Truth | null;
  how: How;
  /** Whether `points` holds a place in the plane for every sample, and how the places were found. */
  map: { method: string; explanation: string } | null;
  /** Id and text (null: none) of the samples that cards and suspects show, by row: the page shows them at once, and
   * also where a browser cannot unpack `texts`. Without it they wait for `texts`. */
  samples?: Record<string, [string, string | null]>;
  /** What words mean: confidence, novelty, stability, clear, typical, doubtful, suggestion. */
  meanings: Record<string, string>;
}

export interface Category {
  /** Its place in `Report.categories`. (The run's ids may be larger than what a number here can hold.) */
  id: number;
  /** Stable: the label of a known category, `new-3` of a discovered one. */
  key: string;
  /** Given by a person, or null. */
  name: string | null;
  /** By Newkinds, or null; to be marked as a suggestion wherever it is shown. */
  suggestion: string | null;
  kind: "known" | "new";
  size: number;
  labelled: number;
  /** Mean over its samples; null without any. */
  confidence: number | null;
  /** Share of its unlabelled samples that are sure; null without any. */
  clear: number | null;
  /** Mean overlap with the trainings of the consensus, 0 to 1; null where it was not measured. */
  stability: number | null;
  typical: Row[];
  doubtful: Row[];
  /** Categories most like it, with the cosine of their middles; the most similar first. */
  nearest: { id: number; similarity: number }[];
  /** Share of its samples whose truth is the class matched to it, where the truth is known. */
  accuracy: number | null;
}

/** Something to look at, with what to do about it. */
export interface Advice {
  /** "merge", "split", "duplicates", "labels", "count", "settings", "sizes", "note". */
  topic: string;
  /** One short sentence. */
  title: string;
  /** One or two more, or "". */
  text: string;
  /** A command to copy, or null. */
  command: string | null;
  /** Ids of the categories it is about. */
  categories: number[];
}

/** A labelled sample whose label looks wrong. */
export interface Suspect {
  row: Row;
  /** Id of the category it was labelled as. */
  given: number;
  /** Id of the category it looks like. */
  likely: number;
  /** How probable it is that the label is wrong. */
  probability: number;
}

export interface Truth {
  protocol: string;
  /** Shares, null where there is no such sample. */
  all: number | null;
  old: number | null;
  new: number | null;
  /** Most frequent first. `truth` is the true class's name, `category` the id of what it was taken for. */
  confusions: { truth: string; category: number; n: number; share: number }[];
  /** Mean confidence and accuracy of samples by confidence, ascending; bins without samples are left out. */
  reliability: { confidence: number; accuracy: number; n: number }[];
  calibration_error: number | null;
}

export interface How {
  /** Facts in words: ["λ", "0.3", "how much …"]: name, value, one sentence. */
  facts: [string, string, string][];
  charts: Chart[];
  /** ["newkinds", "0.3.0"], … */
  versions: [string, string][];
}

export type Chart = Curve | Heat;

export interface Curve {
  kind: "curve";
  title: string;
  /** One sentence. */
  text: string;
  x_label: string;
  y_label: string;
  /** Ascending x. */
  points: [number, number][];
  /** The x that was chosen, or null. */
  chosen: number | null;
  /** Whether y is a share, to be shown in percent. */
  percent: boolean;
}

export interface Heat {
  kind: "heat";
  title: string;
  text: string;
  x_label: string;
  y_label: string;
  xs: number[];
  ys: number[];
  /** A row for each y, shares; null where nothing was tried. */
  shares: (number | null)[][];
  /** [x, y]. */
  chosen: [number, number];
}

/** Numbers about every sample of the page, one array after the other, little-endian, n_points long each:
 *
 * category (Uint16: place in `Report.categories`), and where there is a map x (Uint16), y (Uint16); then confidence
 * (Uint8, 255 = 1), novelty (Uint8, 255 = 1), given (Uint8: 1 for a labelled sample).
 *
 * x grows to the right, y upwards; both fill 0 … 65535 (the larger side at least).
 */
export interface Points {
  category: Uint16Array;
  x: Uint16Array | null;
  y: Uint16Array | null;
  confidence: Uint8Array;
  novelty: Uint8Array;
  given: Uint8Array;
}

/** Of every sample: its id; its text, perhaps cut (…), where the collection is of texts. */
export interface Texts {
  ids: string[];
  texts: string[] | null;
}

/** Small pictures of some samples, as many as fit: base64 by row. All of one kind, such as "image/webp". */
export interface Pictures {
  type: string;
  /** Whether they are so small that pixels should stay sharp when they are enlarged. */
  pixelated: boolean;
  pictures: Record<string, string>;
}

/** Two runs on (partly) the same samples. */
export interface Comparison {
  page: "comparison";
  title: string;
  newkinds: string;
  summary: string[];
  unit: [string, string];
  before: Side;
  after: Side;
  n_common: number;
  n_only_before: number;
  n_only_after: number;
  /** Common samples that changed category (categories are matched by the samples they share). */
  n_moved: number;
  /** Places in `before.categories` and `after.categories`, and how many common samples went from one to the other. */
  flows: [number, number, number][];
  /** Which category before is which after: places, each at most once. Without it the page pairs by the largest flows. */
  matches?: [number, number][];
  changes: Change[];
  /** Some samples that moved, those most sure of their new category first. */
  moved: { id: string; text: string | null; before: number; after: number; confidence: number }[];
}

export interface Side {
  run: string;
  created: string;
  n_samples: number;
  categories: { id: number; key: string; name: string | null; suggestion: string | null; kind: "known" | "new"; size: number }[];
}

export interface Change {
  /** "born", "gone", "renamed", "split", "merged", "grown", "shrunk". */
  topic: string;
  text: string;
  /** Places in `before.categories`. */
  before: number[];
  /** Places in `after.categories`. */
  after: number[];
}
