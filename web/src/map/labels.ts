/** Names of categories written on the map, as many as fit without touching each other. */
import type { Category } from "../data";
import { cut } from "../bits";
import { isSuggested, shownName } from "../words";
import type { Cloud } from "./cloud";
import type { View } from "./view";

/** Letters of a name; fewer on a small screen. */
const LONGEST = { wide: 26, narrow: 18 };
const HEIGHT = 16;
/** A category that reaches less far than this many pixels would vanish under its name: the name stands above it. */
const SMALL = 26;

interface Label {
  place: number;
  words: string;
  font: string;
  width: number;
  middle: { x: number; y: number; reach: number };
}

export interface PlacedLabel {
  place: number;
  left: number;
  top: number;
  width: number;
  height: number;
}

export class Labels {
  /** Larger categories come first and so keep their place. */
  private readonly labels: Label[];
  placed: PlacedLabel[] = [];

  constructor(
    cloud: Cloud,
    private readonly categories: readonly Category[],
    private readonly context: CanvasRenderingContext2D,
  ) {
    const longest = context.canvas.clientWidth < 500 ? LONGEST.narrow : LONGEST.wide;
    const family = getComputedStyle(document.documentElement).fontFamily;
    this.labels = categories
      .map((category, place): Label | null => {
        const middle = cloud.middles[place];
        if (!middle) return null;
        const name = shownName(category).replace(/\s+/g, " ");
        const words = name.length > longest ? `${cut(name, longest - 1).trimEnd()}…` : name;
        const font = `${isSuggested(category) ? "italic " : ""}600 12px ${family}`;
        context.font = font;
        return { place, words, font, width: context.measureText(words).width, middle };
      })
      .filter((label) => label !== null)
      .sort((a, b) => this.categories[b.place]!.size - this.categories[a.place]!.size);
  }

  /** Writes the new kinds' names, or those of the lit ones. */
  draw(view: View, lit: ReadonlySet<number>, ink: string, paper: string): void {
    const { context } = this;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.lineJoin = "round";
    context.lineWidth = 3.5;
    context.strokeStyle = paper;
    context.fillStyle = ink;
    this.placed = [];
    for (const { place, words, font, width, middle } of this.labels) {
      if (lit.size ? !lit.has(place) : this.categories[place]!.kind !== "new") continue;
      const [x, y] = view.toPixels(middle.x, middle.y);
      if (x < 0 || x > view.width || y < 0 || y > view.height) continue;
      const left = Math.max(Math.min(x - width / 2, view.width - width - 4), 4);
      const reach = middle.reach * view.scale.y + HEIGHT / 2 + 2;
      const box = (reach < SMALL ? [-reach, reach, 0] : [0, -HEIGHT, HEIGHT])
        .map((offset) => ({ place, left, top: y - HEIGHT / 2 + offset, width, height: HEIGHT }))
        .find((box) => !this.placed.some((other) => touch(box, other)));
      if (!box) continue;
      this.placed.push(box);
      context.font = font;
      context.strokeText(words, left, box.top + HEIGHT / 2);
      context.fillText(words, left, box.top + HEIGHT / 2);
    }
  }

  at(x: number, y: number): number | null {
    const label = this.placed.find((box) => x >= box.left && x <= box.left + box.width && y >= box.top && y <= box.top + box.height);
    return label?.place ?? null;
  }
}

function touch(a: PlacedLabel, b: PlacedLabel): boolean {
  return a.left < b.left + b.width + 8 && b.left < a.left + a.width + 8 && a.top < b.top + b.height && b.top < a.top + a.height;
}
