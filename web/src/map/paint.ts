/** What a renderer of points takes and does. */
import type { Colour } from "../colours";
import type { Cloud } from "./cloud";
import type { View } from "./view";

/** How opaque dimmed points are. */
export const DIMMED = 0.16;

export interface Paint {
  /** By place. */
  colours: readonly Colour[];
  /** How opaque a category is, 0…1, by place; 0: dimmed. */
  alphas: Float32Array;
  /** 256 colours, where points are coloured by a measure. */
  ramp: readonly Colour[] | null;
  measure: "confidence" | "novelty";
  paper: Colour;
  /** Of dimmed points. */
  shade: Colour;
}

export interface Renderer {
  readonly name: "webgl2" | "canvas";
  /** Takes over points that have changed, as many as before. */
  load(cloud: Cloud): void;
  /** Takes over new colours; the next frame shows them. */
  paint(paint: Paint): void;
  /** Draws all points; `size` is a point's width in pixels of the page, `ratio` device pixels for each of those. */
  draw(view: View, size: number, ratio: number): void;
  destroy(): void;
}
