/** Points without WebGL2: written as pixels, which is many times faster than a canvas's own shapes. */
import type { Colour } from "../colours";
import type { Cloud } from "./cloud";
import { DIMMED, type Paint, type Renderer } from "./paint";
import type { View } from "./view";

const FULL = 65535;

export class CanvasRenderer implements Renderer {
  readonly name = "canvas";
  private readonly context: CanvasRenderingContext2D | null;
  private wide = new Uint16Array(0);
  private narrow = new Uint8Array(0);
  private n = 0;
  private paints: Paint | null = null;
  /** Colours as one number a pixel. Pixels replace each other, so alpha is mixed with the paper beforehand. */
  private palette = new Uint32Array(0);
  private ramp = new Uint32Array(0);
  private shade = 0;
  private image: ImageData | null = null;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    cloud: Cloud,
  ) {
    this.context = canvas.getContext("2d");
    this.load(cloud);
  }

  load(cloud: Cloud): void {
    this.wide = new Uint16Array(cloud.packed);
    this.narrow = new Uint8Array(cloud.packed);
    this.n = cloud.n;
  }

  paint(paint: Paint): void {
    const { colours, alphas, ramp, paper, shade } = paint;
    this.paints = paint;
    this.palette = Uint32Array.from(colours, (colour, place) => pixel(colour, paper, alphas[place]!));
    this.ramp = Uint32Array.from(ramp ?? [], (colour) => pixel(colour, paper, 0.85));
    this.shade = pixel(shade, paper, DIMMED * 1.5);
  }

  draw(view: View, size: number, ratio: number): void {
    const { width, height } = this.canvas;
    if (!this.context || !this.paints) return;
    if (this.image?.width !== width || this.image.height !== height) this.image = this.context.createImageData(width, height);
    const pixels = new Uint32Array(this.image.data.buffer);
    pixels.fill(0);
    const disc = discOffsets(size * ratio);
    const anyDimmed = this.paints.alphas.includes(0);
    for (const dimmed of anyDimmed ? [true, false] : [false]) this.pass(pixels, width, height, view, ratio, disc, dimmed);
    this.context.putImageData(this.image, 0, 0);
  }

  private pass(
    pixels: Uint32Array,
    width: number,
    height: number,
    view: View,
    ratio: number,
    disc: readonly [number, number, number][],
    dimmed: boolean,
  ): void {
    const { wide, narrow, palette, ramp, shade } = this;
    const { alphas, measure, ramp: ramped } = this.paints!;
    const scaleX = (view.scale.x * ratio) / FULL;
    const scaleY = (view.scale.y * ratio) / FULL;
    const shiftX = width / 2 - view.x * view.scale.x * ratio;
    const shiftY = height / 2 + view.y * view.scale.y * ratio;
    const byteOfMeasure = measure === "confidence" ? 6 : 7;
    for (let i = 0; i < this.n; i++) {
      const place = wide[4 * i + 2]!;
      if ((alphas[place] === 0) !== dimmed) continue;
      const x = Math.round(wide[4 * i]! * scaleX + shiftX);
      const y = Math.round(shiftY - wide[4 * i + 1]! * scaleY);
      if (x < -20 || y < -20 || x > width + 20 || y > height + 20) continue;
      const ink = dimmed ? shade : ramped ? ramp[narrow[8 * i + byteOfMeasure]!]! : palette[place]!;
      for (let j = 0; j < disc.length; j++) {
        const [down, left, right] = disc[j]!;
        const line = y + down;
        if (line < 0 || line >= height) continue;
        const from = line * width + Math.max(x + left, 0);
        const to = line * width + Math.min(x + right, width - 1);
        for (let at = from; at <= to; at++) pixels[at] = ink;
      }
    }
  }

  destroy(): void {
    this.image = null;
  }
}

/** A filled circle as lines: offset down, from, to. */
function discOffsets(diameter: number): [number, number, number][] {
  const radius = Math.max(diameter / 2, 0.7);
  const lines: [number, number, number][] = [];
  for (let down = -Math.floor(radius); down <= radius; down++) {
    const half = Math.floor(Math.sqrt(radius * radius - down * down));
    lines.push([down, -half, half]);
  }
  return lines;
}

const LITTLE = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

function pixel(colour: Colour, paper: Colour, alpha: number): number {
  const [r, g, b] = colour.map((v, i) => Math.round(v * alpha + paper[i]! * (1 - alpha))) as [number, number, number];
  return LITTLE ? ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0 : ((r << 24) | (g << 16) | (b << 8) | 255) >>> 0;
}
