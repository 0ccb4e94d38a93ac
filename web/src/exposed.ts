/** `window.newkinds`, read-only, for tests and benchmarks; see web/README.md. */
import { counters } from "./map/scene";

/** Exposes points in the map's last frame, frames so far, and `more`. */
export function expose(more: Record<string, () => unknown> = {}): void {
  const numbers = Object.entries({ drawn: () => counters.drawn, frames: () => counters.frames, ...more });
  const value = Object.defineProperties({}, Object.fromEntries(numbers.map(([name, get]) => [name, { get }])));
  Object.defineProperty(window, "newkinds", { value: Object.freeze(value) });
}
