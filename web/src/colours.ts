/** Colours of categories and ramps, made in OKLCH so that hundreds stay apart and equally strong on either paper. */
import type { Category } from "./data";

export type Colour = readonly [number, number, number];

export type Theme = "light" | "dark";

/** OKLCH (lightness 0…1, chroma, hue in degrees) to sRGB bytes; see Ottosson 2020. Chroma gives way to the gamut. */
export function oklch(lightness: number, chroma: number, hue: number): Colour {
  for (let c = chroma; ; c -= 0.01) {
    const colour = convert(lightness, Math.max(c, 0), (hue * Math.PI) / 180);
    if (c <= 0 || colour.every((v) => v >= -0.002 && v <= 1.002)) {
      const [r, g, b] = colour.map(encode) as [number, number, number];
      return [r, g, b];
    }
  }
}

function convert(lightness: number, chroma: number, angle: number): [number, number, number] {
  const a = chroma * Math.cos(angle);
  const b = chroma * Math.sin(angle);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
}

function encode(linear: number): number {
  const v = Math.min(Math.max(linear, 0), 1);
  return Math.round(255 * (v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055));
}

/** The golden angle: however many there are, neighbours in the list get hues far apart. */
const TURN = 137.508;
/** A second property that tells hues apart which come close after many turns. */
const LIGHTNESS: Record<Theme, readonly number[]> = { light: [0.6, 0.5, 0.68], dark: [0.74, 0.64, 0.84] };

/** A colour for each category: new ones strong, known ones greyed. */
export function categoryColours(categories: readonly Pick<Category, "kind">[], theme: Theme): Colour[] {
  let strong = 0;
  let grey = 0;
  return categories.map((category) => {
    if (category.kind === "known") {
      const hue = 250 + TURN * grey++;
      return oklch((theme === "light" ? 0.76 : 0.48) + 0.03 * ((grey % 3) - 1), 0.022, hue);
    }
    const lightness = LIGHTNESS[theme][Math.floor(strong / 5) % 3] ?? 0.6;
    return oklch(lightness, 0.19, 28 + TURN * strong++);
  });
}

/** 256 colours from 0 to 1: doubtful in orange to sure in blue; known in grey to new in magenta. */
export function ramp(of: "confidence" | "novelty", theme: Theme): Colour[] {
  const dark = theme === "dark";
  const middle = dark ? 0.5 : 0.8;
  return Array.from({ length: 256 }, (_, i) => {
    const t = i / 255;
    if (of === "novelty") return oklch(middle + t * ((dark ? 0.76 : 0.55) - middle), 0.01 + 0.22 * t, 345);
    const end = dark ? 0.75 : 0.58;
    const away = Math.abs(2 * t - 1);
    return oklch(middle + away * (end - middle), 0.01 + 0.17 * away, t < 0.5 ? 45 : 255);
  });
}

/** Halfway between two colours. */
export const mix = (a: Colour, b: Colour): Colour => [(a[0] + b[0]) >> 1, (a[1] + b[1]) >> 1, (a[2] + b[2]) >> 1];

export const css = ([r, g, b]: Colour): string => `rgb(${r} ${g} ${b})`;
