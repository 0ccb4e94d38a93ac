/** Which part of the plane the map shows: data (0…1 on either axis, y upwards) to pixels and back. */

export interface Box {
  left: number;
  right: number;
  bottom: number;
  top: number;
}

const LARGEST_ZOOM = 80;
/** Neither axis means anything, so a map may be stretched to fill its frame, but not so that shapes get lost. */
const LARGEST_STRETCH = 1.4;
/** Pixels kept free around the points. */
const MARGIN = 28;

export class View {
  width = 1;
  height = 1;
  zoom = 1;
  /** The middle of the frame, in data. */
  x: number;
  y: number;

  constructor(readonly bounds: Box) {
    this.x = (bounds.left + bounds.right) / 2;
    this.y = (bounds.bottom + bounds.top) / 2;
  }

  /** Pixels for one unit of data. */
  get scale(): { x: number; y: number } {
    const { left, right, bottom, top } = this.bounds;
    const x = Math.max(this.width - 2 * MARGIN, 1) / Math.max(right - left, 1e-6);
    const y = Math.max(this.height - 2 * MARGIN, 1) / Math.max(top - bottom, 1e-6);
    const least = Math.min(x, y) * LARGEST_STRETCH;
    return { x: Math.min(x, least) * this.zoom, y: Math.min(y, least) * this.zoom };
  }

  toPixels(x: number, y: number): [number, number] {
    const { scale } = this;
    return [this.width / 2 + (x - this.x) * scale.x, this.height / 2 - (y - this.y) * scale.y];
  }

  toData(left: number, top: number): [number, number] {
    const { scale } = this;
    return [this.x + (left - this.width / 2) / scale.x, this.y - (top - this.height / 2) / scale.y];
  }

  resize(width: number, height: number): void {
    this.width = Math.max(width, 1);
    this.height = Math.max(height, 1);
  }

  /** Zooms so that what is under a pixel stays there. */
  zoomAt(left: number, top: number, factor: number): void {
    const [x, y] = this.toData(left, top);
    this.zoom = Math.min(Math.max(this.zoom * factor, 1), LARGEST_ZOOM);
    const [nowX, nowY] = this.toData(left, top);
    this.moveTo(this.x + x - nowX, this.y + y - nowY);
  }

  /** Moves what is shown by so many pixels. */
  pan(right: number, down: number): void {
    const { scale } = this;
    this.moveTo(this.x - right / scale.x, this.y + down / scale.y);
  }

  /** The middle stays among the points, so that they cannot get lost. */
  moveTo(x: number, y: number): void {
    const { left, right, bottom, top } = this.bounds;
    this.x = Math.min(Math.max(x, left), right);
    this.y = Math.min(Math.max(y, bottom), top);
  }

  reset(): void {
    const { left, right, bottom, top } = this.bounds;
    this.zoom = 1;
    this.moveTo((left + right) / 2, (bottom + top) / 2);
  }

  shows(x: number, y: number): boolean {
    const [left, top] = this.toPixels(x, y);
    return left > 0 && left < this.width && top > 0 && top < this.height;
  }
}
