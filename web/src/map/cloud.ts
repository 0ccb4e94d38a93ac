/** The points as the map needs them: packed in drawing order, indexed for hovering, with the middles of categories. */
import type { Category, Points } from "../data";
import type { Box, View } from "./view";

/** Cells of the index on either side. */
const CELLS = 256;
/** Bytes of a packed point: x, y, category (16 bit each), confidence, novelty (8 bit each). */
export const POINT_BYTES = 8;
const FULL = 65535;

export class Cloud {
  readonly n: number;
  /** Packed points in drawing order: known kinds below, new ones above. */
  readonly packed: ArrayBuffer;
  readonly bounds: Box;
  /** Where half of a category's points lie to either side, and how far most of them reach upwards from there, by
   * place; null for an empty one. */
  readonly middles: ({ x: number; y: number; reach: number } | null)[];
  private readonly x: Uint16Array;
  private readonly y: Uint16Array;
  private readonly category: Uint16Array;
  /** Rows sorted by cell, and where each cell starts among them. */
  private readonly rows: Uint32Array;
  private readonly starts: Uint32Array;

  constructor({ x, y, category, confidence, novelty }: Points, categories: readonly Category[]) {
    if (!x || !y) throw new Error("points without places");
    this.n = x.length;
    this.x = x;
    this.y = y;
    this.category = category;
    this.packed = new ArrayBuffer(this.n * POINT_BYTES);
    const wide = new Uint16Array(this.packed);
    const narrow = new Uint8Array(this.packed);
    const box = { left: FULL, right: 0, bottom: FULL, top: 0 };
    let at = 0;
    for (const kind of ["known", "new"] as const) {
      for (let row = 0; row < this.n; row++) {
        const place = category[row]!;
        if ((categories[place]?.kind === "new" ? "new" : "known") !== kind) continue;
        const left = x[row]!;
        const bottom = y[row]!;
        wide[4 * at] = left;
        wide[4 * at + 1] = bottom;
        wide[4 * at + 2] = place;
        narrow[8 * at + 6] = confidence[row]!;
        narrow[8 * at + 7] = novelty[row]!;
        at++;
        if (left < box.left) box.left = left;
        if (left > box.right) box.right = left;
        if (bottom < box.bottom) box.bottom = bottom;
        if (bottom > box.top) box.top = bottom;
      }
    }
    this.bounds = { left: box.left / FULL, right: box.right / FULL, bottom: box.bottom / FULL, top: box.top / FULL };
    [this.rows, this.starts] = sortBy(this.n, CELLS * CELLS, (row) => cell(y[row]!) * CELLS + cell(x[row]!));
    this.middles = this.findMiddles(categories.length);
  }

  place(row: number): [number, number] {
    return [this.x[row]! / FULL, this.y[row]! / FULL];
  }

  /** The row whose point is closest to a pixel, at most `reach` pixels away; only of categories that `counts` admits. */
  nearest(view: View, left: number, top: number, reach: number, counts: (place: number) => boolean): number | null {
    const [fromX, toY] = view.toData(left - reach, top - reach);
    const [toX, fromY] = view.toData(left + reach, top + reach);
    let best: number | null = null;
    let least = reach * reach;
    for (let cellY = cell(fromY * FULL); cellY <= cell(toY * FULL); cellY++) {
      const line = cellY * CELLS;
      const end = this.starts[line + cell(toX * FULL) + 1]!;
      for (let i = this.starts[line + cell(fromX * FULL)]!; i < end; i++) {
        const row = this.rows[i]!;
        const [pixelX, pixelY] = view.toPixels(this.x[row]! / FULL, this.y[row]! / FULL);
        const distance = (pixelX - left) ** 2 + (pixelY - top) ** 2;
        if (distance <= least && counts(this.category[row]!)) {
          least = distance;
          best = row;
        }
      }
    }
    return best;
  }

  private findMiddles(n: number): Cloud["middles"] {
    const [rows, starts] = sortBy(this.n, n, (row) => Math.min(this.category[row]!, n - 1));
    return Array.from({ length: n }, (_, place) => {
      const members = rows.subarray(starts[place], starts[place + 1]);
      if (!members.length) return null;
      const sorted = (values: Uint16Array): Uint16Array => Uint16Array.from(members, (row) => values[row]!).sort();
      const at = (values: Uint16Array, share: number): number => values[Math.floor(share * (values.length - 1))]! / FULL;
      const ys = sorted(this.y);
      return { x: at(sorted(this.x), 0.5), y: at(ys, 0.5), reach: at(ys, 0.9) - at(ys, 0.5) };
    });
  }
}

function cell(value: number): number {
  return Math.min(Math.max(Math.floor((value * CELLS) / (FULL + 1)), 0), CELLS - 1);
}

/** Rows sorted by a key from 0 to `keys` - 1, and where each key starts (counting sort). */
function sortBy(n: number, keys: number, keyOf: (row: number) => number): [Uint32Array, Uint32Array] {
  const starts = new Uint32Array(keys + 1);
  for (let row = 0; row < n; row++) starts[keyOf(row) + 1]!++;
  for (let key = 0; key < keys; key++) starts[key + 1]! += starts[key]!;
  const next = starts.slice();
  const rows = new Uint32Array(n);
  for (let row = 0; row < n; row++) rows[next[keyOf(row)]!++] = row;
  return [rows, starts];
}
