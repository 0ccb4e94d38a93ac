/** Reads the page's blocks of data: JSON, and gzip in base64 by the browser's own DecompressionStream. */
import type { Comparison, Pictures, Points, Report, Texts } from "./data";

const NO_PICTURES: Pictures = { type: "image/png", pixelated: false, pictures: {} };
/** Only these reach a picture's address: the type comes from the data. */
const PICTURE_TYPES = new Set(["image/png", "image/webp", "image/jpeg", "image/gif", "image/avif"]);

function block(id: string): string {
  return document.getElementById(id)?.textContent?.trim() ?? "";
}

export function readContent(): Report | Comparison {
  return JSON.parse(block("content")) as Report | Comparison;
}

export function readPictures(): Pictures {
  const text = block("pictures");
  const pictures = text ? (JSON.parse(text) as Pictures | null) : null;
  return pictures && PICTURE_TYPES.has(pictures.type) ? pictures : NO_PICTURES;
}

export const canDecompress = (): boolean => "DecompressionStream" in globalThis;

/** The bytes of a gzip + base64 block; null for an empty one. */
async function unpack(id: string): Promise<ArrayBuffer | null> {
  const text = block(id);
  if (!text) return null;
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

export async function readPoints(n: number, hasMap: boolean): Promise<Points | null> {
  const buffer = await unpack("points");
  if (!buffer) return null;
  const width = hasMap ? 9 : 5; // bytes of a sample: three or one of 16 bit, three of 8 bit
  if (buffer.byteLength !== n * width) throw new Error(`points: ${buffer.byteLength} bytes instead of ${n * width}`);
  let at = 0;
  const wide = (): Uint16Array => {
    const values = uint16(buffer, at, n);
    at += 2 * n;
    return values;
  };
  const narrow = (): Uint8Array => {
    const values = new Uint8Array(buffer, at, n);
    at += n;
    return values;
  };
  return {
    category: wide(),
    x: hasMap ? wide() : null,
    y: hasMap ? wide() : null,
    confidence: narrow(),
    novelty: narrow(),
    given: narrow(),
  };
}

/** Little-endian whatever the machine is. */
function uint16(buffer: ArrayBuffer, at: number, n: number): Uint16Array {
  if (new Uint8Array(new Uint16Array([1]).buffer)[0] === 1) return new Uint16Array(buffer, at, n);
  const view = new DataView(buffer, at);
  return Uint16Array.from({ length: n }, (_, i) => view.getUint16(2 * i, true));
}

export async function readTexts(): Promise<Texts | null> {
  const buffer = await unpack("texts");
  return buffer && (JSON.parse(new TextDecoder().decode(buffer)) as Texts);
}
