/** Mouse, touch, wheel and keys on the map. */
import type { Scene } from "./scene";

export type Target = { row: number } | { place: number };

export interface Gestures {
  /** The cursor is over a point (null: none), at a pixel of the map. */
  hovered(row: number | null, x: number, y: number): void;
  /** A point or a name was chosen; with a finger one first sees what it is. */
  chosen(target: Target | null, touch: boolean, x: number, y: number, event: PointerEvent): void;
  /** The view has moved. */
  moved(): void;
  /** Where points can be chosen with a lasso. */
  lasso?: {
    /** Whether a drag draws a lasso, without the Shift key too. */
    always(): boolean;
    /** The path so far, in pixels; `done` when the button is let go, `path` is null when it was called off. */
    drawn(path: readonly [number, number][] | null, done: boolean, event: PointerEvent): void;
  };
}

const DRAG = 4;
const REACH = { mouse: 12, touch: 24 };
/** Milliseconds after which the wheel starts anew: a page being scrolled does not get stuck on the map. */
const PAUSE = 250;

/** Listens on an element; the returned function ends it. */
export function listen(element: HTMLElement, scene: Scene, gestures: Gestures): () => void {
  const pointers = new Map<number, { x: number; y: number }>();
  let travelled = 0;
  let path: [number, number][] | null = null;
  let lastElsewhere = 0;
  const { view } = scene;

  const spot = (event: MouseEvent): [number, number] => {
    const box = element.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const moved = (): void => {
    // At home a finger that moves up or down scrolls the page; once zoomed in it moves the map.
    element.style.touchAction = view.zoom > 1.01 || gestures.lasso?.always() ? "none" : "pan-y";
    scene.redraw();
    gestures.moved();
  };
  const leave = (): void => {
    scene.hover(null);
    gestures.hovered(null, 0, 0);
  };

  const gone = (event: PointerEvent): void => {
    if (event.pointerType !== "touch") leave(); // a finger always leaves; what it chose stays
  };

  const down = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    const [x, y] = spot(event);
    pointers.set(event.pointerId, { x, y });
    if (pointers.size === 1) travelled = 0;
    path = gestures.lasso && pointers.size === 1 && (event.shiftKey || gestures.lasso.always()) ? [[x, y]] : null;
    element.setPointerCapture(event.pointerId);
  };
  const move = (event: PointerEvent): void => {
    const [x, y] = spot(event);
    const before = pointers.get(event.pointerId);
    if (!before) {
      if (event.pointerType === "touch") return;
      const row = scene.pointAt(x, y, REACH.mouse);
      const over = row !== null || scene.labelAt(x, y) !== null;
      element.style.cursor = over ? "pointer" : event.shiftKey || gestures.lasso?.always() ? "crosshair" : "grab";
      scene.hover(row);
      gestures.hovered(row, x, y);
      return;
    }
    travelled += Math.hypot(x - before.x, y - before.y);
    pointers.set(event.pointerId, { x, y });
    const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    if (other) {
      travelled = Infinity;
      if (path) gestures.lasso?.drawn((path = null), false, event);
      const stretch = Math.hypot(x - other.x, y - other.y) / Math.max(Math.hypot(before.x - other.x, before.y - other.y), 1);
      view.pan((x - before.x) / 2, (y - before.y) / 2);
      view.zoomAt((x + other.x) / 2, (y + other.y) / 2, stretch);
      moved();
    } else if (travelled > DRAG && path) {
      leave();
      path.push([x, y]);
      gestures.lasso?.drawn(path, false, event);
    } else if (travelled > DRAG) {
      element.style.cursor = "grabbing";
      leave();
      view.pan(x - before.x, y - before.y);
      moved();
    }
  };
  const up = (event: PointerEvent): void => {
    const pressed = pointers.delete(event.pointerId);
    element.style.cursor = gestures.lasso?.always() ? "crosshair" : "grab";
    if (path && travelled > DRAG && travelled < Infinity) {
      gestures.lasso?.drawn(event.type === "pointercancel" ? null : path, true, event);
      path = null;
      return;
    }
    path = null;
    if (event.type === "pointercancel" || !pressed || pointers.size || travelled > DRAG) return;
    const touch = event.pointerType === "touch";
    const [x, y] = spot(event);
    const place = scene.labelAt(x, y);
    const row = scene.pointAt(x, y, touch ? REACH.touch : REACH.mouse);
    // A name wins only where no point is right under the cursor.
    const close = scene.pointAt(x, y, 4);
    if (touch) scene.hover(row);
    gestures.chosen(place !== null && close === null ? { place } : row !== null ? { row } : null, touch, x, y, event);
  };

  const wheel = (event: WheelEvent): void => {
    const scrolling = event.timeStamp - lastElsewhere < PAUSE;
    const delta = event.deltaY * (event.deltaMode === 1 ? 18 : event.deltaMode === 2 ? 200 : 1);
    // Out of the whole map there is only the page: so a page scrolled downwards scrolls on.
    if (!event.ctrlKey && (scrolling || (delta > 0 && view.zoom <= 1))) {
      lastElsewhere = event.timeStamp;
      return;
    }
    event.preventDefault();
    leave();
    view.zoomAt(...spot(event), Math.exp(-delta * (event.ctrlKey ? 0.01 : 0.0016)));
    moved();
  };
  const wheelElsewhere = (event: WheelEvent): void => {
    if (!element.contains(event.target as Node)) lastElsewhere = event.timeStamp;
  };

  const keys: Record<string, () => void> = {
    ArrowLeft: () => view.pan(60, 0),
    ArrowRight: () => view.pan(-60, 0),
    ArrowUp: () => view.pan(0, 60),
    ArrowDown: () => view.pan(0, -60),
    "+": () => view.zoomAt(view.width / 2, view.height / 2, 1.4),
    "=": () => view.zoomAt(view.width / 2, view.height / 2, 1.4),
    "-": () => view.zoomAt(view.width / 2, view.height / 2, 1 / 1.4),
    "0": () => view.reset(),
  };
  const key = (event: KeyboardEvent): void => {
    const action = keys[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    leave();
    action();
    moved();
  };

  const listeners: [string, (event: never) => void][] = [
    ["pointerdown", down],
    ["pointermove", move],
    ["pointerup", up],
    ["pointercancel", up],
    ["pointerleave", gone],
    ["keydown", key],
  ];
  for (const [name, listener] of listeners) element.addEventListener(name, listener as EventListener);
  element.addEventListener("wheel", wheel, { passive: false });
  addEventListener("wheel", wheelElsewhere, { passive: true });
  moved();
  return () => {
    for (const [name, listener] of listeners) element.removeEventListener(name, listener as EventListener);
    element.removeEventListener("wheel", wheel);
    removeEventListener("wheel", wheelElsewhere);
  };
}
