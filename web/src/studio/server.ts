/** What the studio's server takes and gives (`newkinds/studio/`): types, and one function a request. */
import type { Category, Row } from "../data";

/** A card of a category. `slot` is its number among the points; it stays the same while the studio runs. */
export interface StudioCategory extends Omit<Category, "id" | "nearest" | "accuracy"> {
  slot: number;
  nearest: { slot: number; similarity: number }[];
}

/** An entry of the journal. */
export interface Step {
  n: number;
  op: string;
  by: string;
}

/** What every change tells, beside what changed. */
export interface Counts {
  undo: Step | null;
  redo: Step | null;
  last: Step | null;
  /** Of the run, after a refit: "0002". */
  version: string | null;
  /** Samples with a label or a person's word; those with a person's word. */
  n_labelled: number;
  n_confirmed: number;
}

export interface State extends Counts {
  /** Which state this is: entries of the journal. */
  n: number;
  title: string;
  run: string;
  unit: [string, string];
  created: string;
  newkinds: string;
  n_samples: number;
  samples: string | null;
  categories: StudioCategory[];
  map: { method: string; explanation: string } | null;
  pictures: boolean;
  pixelated: boolean;
  meanings: Record<string, string>;
}

/** From the state `before` to the state `n`. */
export interface Change extends Partial<Counts> {
  before: number;
  n: number;
  /** Too much has changed: load everything anew. */
  all?: true;
  /** Cards that are new or other than before. */
  categories?: StudioCategory[];
  /** Slots of categories that are gone. */
  gone?: number[];
  /** Samples that changed: how many; base64 of row (Uint32), slot (Uint16), confidence, novelty, given (Uint8). */
  samples?: { n: number; bytes: string };
}

/** Numbers about every sample, as `Points` has them, with slots in place of places. `given`: 1 label, 2 confirmed. */
export interface RawPoints {
  n: number;
  slot: Uint16Array;
  x: Uint16Array | null;
  y: Uint16Array | null;
  confidence: Uint8Array;
  novelty: Uint8Array;
  given: Uint8Array;
}

export interface Described {
  row: Row;
  id: string;
  text: string | null;
}

export interface Page {
  total: number;
  first: number;
  rows: Row[];
  samples: Described[];
  /** Of a search: matches, of which `total` are listed. */
  matches?: number;
  /** Of samples like others: cosines. */
  similarity?: number[];
}

export interface Details extends Described {
  confidence: number;
  novelty: number;
  given: boolean;
  confirmed: boolean;
  slot: number;
  suspect: { slot: number; probability: number } | null;
}

export interface SplitPreview {
  preview: string;
  parts: { size: number; typical: Row[] }[];
  separation: number;
}

export interface MergePreview {
  into: string;
  name: string;
  size: number;
  labelled: number;
  /** Whether a person gave the name, or it is a label. */
  is_named: boolean;
  known: number;
  similarity: number;
  parts: { key: string; typical: Row[] }[];
}

/** Something to ask a person. */
export interface Question {
  id: number;
  /** Does a sample belong to its kind; are two kinds one; is a label right? */
  topic: "sample" | "merge" | "label";
  slot: number;
  /** What is asked about; typical ones of the other kind, where the topic is "merge". */
  rows: Row[];
  /** Of the kind; a yes confirms them too. */
  typical: Row[];
  /** Kinds that may be right instead; the other one, where the topic is "merge". */
  options: number[];
}

export interface Questions {
  n: number;
  questions: Question[];
  answered: number;
  /** In the queue. */
  left: number;
  /** Whether more are being looked for. */
  looking: boolean;
}

/** Rows ascending; [3, 7] stands for all from 3 to 7. */
export type PackedRows = (Row | [Row, Row])[];

/** What the server says is wrong, in words for a person. */
export class Refusal extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

async function checked(response: Response): Promise<Response> {
  if (response.ok) return response;
  const text = await response.text();
  let words = text;
  try {
    words = (JSON.parse(text) as { error: string }).error;
  } catch {
    // plain text
  }
  throw new Refusal(words || `The studio answered ${response.status}.`, response.status);
}

export async function get<Answer>(path: string): Promise<Answer> {
  return (await checked(await fetch(path))).json() as Promise<Answer>;
}

export async function post<Answer>(path: string, content: object): Promise<Answer> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(content) });
  return (await checked(response)).json() as Promise<Answer>;
}

export async function getPoints(): Promise<RawPoints> {
  const buffer = await (await checked(await fetch("/api/points"))).arrayBuffer();
  const head = new DataView(buffer);
  const [n, count, mapped] = [0, 4, 8].map((at) => head.getUint32(at, true)) as [number, number, number];
  let at = 16;
  const wide = (): Uint16Array => {
    const values = new Uint16Array(buffer, at, count);
    at += 2 * count;
    return values;
  };
  const narrow = (): Uint8Array => {
    const values = new Uint8Array(buffer, at, count);
    at += count;
    return values;
  };
  return {
    n,
    slot: wide(),
    x: mapped ? wide() : null,
    y: mapped ? wide() : null,
    confidence: narrow(),
    novelty: narrow(),
    given: narrow(),
  };
}

/** Writes the samples of a change into copies of what they change. */
export function withChange(points: RawPoints, { n, samples }: Change): RawPoints {
  const count = samples?.n ?? 0;
  if (!samples || !count) return { ...points, n };
  const bytes = Uint8Array.from(atob(samples.bytes), (letter) => letter.charCodeAt(0));
  const rows = new Uint32Array(bytes.buffer, 0, count);
  const slots = new Uint16Array(bytes.buffer, 4 * count, count);
  const changed: RawPoints = {
    ...points,
    n,
    slot: points.slot.slice(),
    confidence: points.confidence.slice(),
    novelty: points.novelty.slice(),
    given: points.given.slice(),
  };
  for (let i = 0; i < count; i++) {
    const row = rows[i]!;
    changed.slot[row] = slots[i]!;
    changed.confidence[row] = bytes[6 * count + i]!;
    changed.novelty[row] = bytes[7 * count + i]!;
    changed.given[row] = bytes[8 * count + i]!;
  }
  return changed;
}

export function packRows(rows: Iterable<Row>): PackedRows {
  const ascending = [...new Set(rows)].sort((a, b) => a - b);
  const packed: PackedRows = [];
  for (let i = 0; i < ascending.length; ) {
    const start = i;
    while (ascending[i + 1] === ascending[i]! + 1) i++;
    packed.push(start === i ? ascending[i]! : [ascending[start]!, ascending[i]!]);
    i++;
  }
  return packed;
}
