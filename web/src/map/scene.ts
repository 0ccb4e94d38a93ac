/** The map as a thing that draws itself: points, names, the ring around the point under the cursor. No framework. */
import { css, mix, ramp, type Colour, type Theme } from "../colours";
import type { Category, Points } from "../data";
import type { ColourBy } from "../state";
import { Cloud } from "./cloud";
import { Labels } from "./labels";
import type { Renderer } from "./paint";
import { createRenderer } from "./renderer";
import { View } from "./view";
import { WebGLRenderer } from "./webgl";

/** Numbers that tests and benchmarks read as `window.newkinds`; see web/README.md. */
export const counters = { drawn: 0, frames: 0 };

const PAPER: Record<Theme, Colour> = { light: [255, 255, 255], dark: [28, 31, 35] };
const INK: Record<Theme, Colour> = { light: [29, 32, 37], dark: [242, 243, 245] };
const SHADE: Record<Theme, Colour> = { light: [150, 152, 156], dark: [120, 124, 130] };
/** Screens with more device pixels than this gain nothing that an eye would see. */
const LARGEST_RATIO = 2;

export interface Look {
  theme: Theme;
  colours: readonly Colour[];
  colourBy: ColourBy;
  lit: ReadonlySet<number>;
}

/** Milliseconds of a frame, at 30 frames a second with time left for the rest of the page. */
const SLOWEST = 20;

export interface SceneOptions {
  /** What should draw; null: what is faster here. */
  wanted: "webgl2" | "canvas" | null;
  /** WebGL2 is gone or too slow: start again on a fresh canvas, with "canvas" wanted. */
  lost: () => void;
  /** Draws more above the names, in pixels of the page. */
  above?: (context: CanvasRenderingContext2D, scene: Scene) => void;
}

export class Scene {
  cloud: Cloud;
  readonly view: View;
  readonly renderer: Renderer;
  private labels: Labels;
  private readonly overlay: CanvasRenderingContext2D;
  private look: Look;
  private hovered: number | null = null;
  private frame = 0;
  private measured = false;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly overlayCanvas: HTMLCanvasElement,
    points: Points,
    private categories: readonly Category[],
    look: Look,
    private readonly options: SceneOptions,
  ) {
    const overlay = overlayCanvas.getContext("2d");
    if (!overlay) throw new Error("this browser has no canvas");
    this.overlay = overlay;
    this.cloud = new Cloud(points, categories);
    this.view = new View(this.cloud.bounds);
    this.renderer = createRenderer(canvas, this.cloud, options);
    this.labels = new Labels(this.cloud, categories, overlay);
    this.look = look;
    this.show(look);
  }

  /** Takes over points and categories that have changed; the view stays. */
  update(points: Points, categories: readonly Category[], look: Look): void {
    this.categories = categories;
    this.cloud = new Cloud(points, categories);
    this.renderer.load(this.cloud);
    this.labels = new Labels(this.cloud, categories, this.overlay);
    this.show(look);
  }

  /** Takes over colours and what is lit. */
  show(look: Look): void {
    this.look = look;
    const { theme, colours, colourBy, lit } = look;
    const alphas = Float32Array.from(this.categories, ({ kind }, place) =>
      lit.size && !lit.has(place) ? 0 : kind === "new" || lit.has(place) || colourBy !== "kind" ? 0.85 : 0.55,
    );
    this.renderer.paint({
      // Known kinds are grey; one that is lit must stand out all the same.
      colours: colours.map((colour, place) => (lit.has(place) && this.categories[place]?.kind === "known" ? mix(colour, INK[theme]) : colour)),
      alphas,
      ramp: colourBy === "kind" ? null : ramp(colourBy, theme),
      measure: colourBy === "novelty" ? "novelty" : "confidence",
      paper: PAPER[theme],
      shade: SHADE[theme],
    });
    this.redraw();
  }

  resize(width: number, height: number): void {
    // Without a graphics card every device pixel costs the processor.
    const ratio = Math.min(devicePixelRatio || 1, this.renderer.name === "canvas" ? 1 : LARGEST_RATIO);
    this.view.resize(width, height);
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const fine = Math.min(devicePixelRatio || 1, LARGEST_RATIO);
    this.overlayCanvas.width = Math.round(width * fine);
    this.overlayCanvas.height = Math.round(height * fine);
    if (!this.measured) this.leaveSlowWebGL();
    this.draw(); // at once: a canvas that was resized is empty
  }

  /** Where WebGL2 would not be fluid, pixels written by the processor are: 100,000 points take it some 10 ms. */
  private leaveSlowWebGL(): void {
    this.measured = true;
    const { renderer, canvas, view, options } = this;
    if (!(renderer instanceof WebGLRenderer) || options.wanted === "webgl2") return;
    if (renderer.measure(view, this.size, canvas.width / view.width) > SLOWEST) queueMicrotask(options.lost);
  }

  hover(row: number | null): void {
    if (row === this.hovered) return;
    this.hovered = row;
    this.redraw();
  }

  /** The point under a pixel; with lit categories, only theirs. */
  pointAt(x: number, y: number, reach: number): number | null {
    const { lit } = this.look;
    return this.cloud.nearest(this.view, x, y, reach, (place) => !lit.size || lit.has(place));
  }

  labelAt(x: number, y: number): number | null {
    return this.labels.at(x, y);
  }

  /** Draws in the next frame; nothing is drawn while nothing changes. */
  redraw(): void {
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  /** A point's width: fewer points are larger, and they grow a little with the zoom. */
  get size(): number {
    const { width, height, zoom } = this.view;
    const room = Math.sqrt((width * height) / Math.max(this.cloud.n, 1));
    return Math.min(Math.min(Math.max(room * 0.5, 2.2), 6.5) * zoom ** 0.3, 14);
  }

  private draw(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const { theme, lit } = this.look;
    this.renderer.draw(this.view, this.size, this.canvas.width / this.view.width);
    const fine = this.overlayCanvas.width / this.view.width;
    this.overlay.setTransform(fine, 0, 0, fine, 0, 0);
    this.overlay.clearRect(0, 0, this.view.width, this.view.height);
    this.labels.draw(this.view, lit, css(INK[theme]), css(PAPER[theme]));
    this.options.above?.(this.overlay, this);
    if (this.hovered !== null) this.ring(this.hovered, css(INK[theme]));
    counters.drawn = this.cloud.n;
    counters.frames++;
  }

  private ring(row: number, ink: string): void {
    const [x, y] = this.view.toPixels(...this.cloud.place(row));
    this.overlay.beginPath();
    this.overlay.arc(x, y, this.size / 2 + 3, 0, 2 * Math.PI);
    this.overlay.strokeStyle = ink;
    this.overlay.lineWidth = 2;
    this.overlay.stroke();
  }

  destroy(): void {
    cancelAnimationFrame(this.frame);
    this.renderer.destroy();
  }
}
