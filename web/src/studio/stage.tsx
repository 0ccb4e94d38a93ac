/** The map of the studio: the report's, with a lasso to select points. */
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { Row } from "../data";
import { Legend } from "../map/legend";
import type { Scene } from "../map/scene";
import { Stage, type Actions } from "../map/stage";
import { useLive, useStudio, type Studio } from "./model";

type Path = readonly [number, number][];

/** Selected points that are marked; more would hide the map. */
const MARKED = 20_000;

export function MapSection(): JSX.Element | null {
  const studio = useStudio();
  const lasso = useLive((state) => state.lasso);
  useLive((state) => state.described); // what the tooltip shows
  const actions = useMemo(() => makeActions(studio), [studio]);
  if (!studio.report.map) return null;
  return (
    <section id="map" aria-labelledby="map-heading">
      <h2 id="map-heading" class="unseen">
        Map
      </h2>
      <div class="map-frame">
        <Stage actions={actions} drawing={lasso} tools={<LassoButton />} />
        <Legend />
      </div>
      <p class="hint dim">
        {lasso ? "Draw around the points to select." : "Hold Shift and draw around points to select them."}
        {" Drag moves the map, the wheel zooms."}
      </p>
    </section>
  );
}

/** A click opens a sample, or selects it with a key held; what is drawn around is selected. */
function makeActions(studio: Studio): Actions {
  let path: Path | null = null;
  return {
    chosen: (target, touch, event) => {
      if (!target) {
        if (studio.live.get().selection.size) studio.select([]);
        else if (studio.store.get().lit.size) studio.light([]);
      } else if ("place" in target) studio.reveal(target.place);
      else if (event.ctrlKey || event.metaKey || event.shiftKey || studio.live.get().lasso) studio.toggle(target.row);
      else if (!touch) studio.live.set({ dialog: { name: "sample", row: target.row } });
    },
    above: (context, scene, frame) => {
      markSelected(context, scene, studio.live.get().selection, frame);
      if (path) drawPath(context, path, frame);
    },
    follow: (redraw) => {
      let { selection } = studio.live.get();
      return studio.live.subscribe(() => {
        if (studio.live.get().selection === selection) return;
        selection = studio.live.get().selection;
        redraw();
      });
    },
    lasso: (scene) => ({
      always: () => studio.live.get().lasso,
      drawn: (drawn, done, event) => {
        path = done ? null : drawn;
        if (done && drawn) selectWithin(studio, scene, drawn, event.ctrlKey || event.metaKey);
        scene.redraw();
      },
    }),
  };
}

function LassoButton(): JSX.Element {
  const studio = useStudio();
  const lasso = useLive((state) => state.lasso);
  return (
    <button
      type="button"
      id="lasso"
      aria-label="Lasso"
      title="Lasso: draw around points to select them (L)"
      aria-pressed={lasso}
      onClick={() => studio.live.set({ lasso: !lasso })}
    >
      <LassoSign />
    </button>
  );
}

function LassoSign(): JSX.Element {
  return (
    <svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.6">
      <ellipse cx="10" cy="7.5" rx="7" ry="4.5" stroke-dasharray="3 2" />
      <path d="M5.5 11c-1.5 1-1.5 3 .2 3.2 1.6.2 2 2 .8 3.3" stroke-linecap="round" />
    </svg>
  );
}

/** Selects the points in a closed path; with lit kinds, only theirs. With `more`, beside those selected before. */
function selectWithin(studio: Studio, scene: Scene, path: Path, more: boolean): void {
  const { points, lit } = studio.store.get();
  if (!points?.x || path.length < 3) return;
  const left = Math.min(...path.map(([x]) => x));
  const right = Math.max(...path.map(([x]) => x));
  const top = Math.min(...path.map(([, y]) => y));
  const bottom = Math.max(...path.map(([, y]) => y));
  const chosen = new Set<Row>(more ? studio.live.get().selection : []);
  for (let row = 0; row < scene.cloud.n; row++) {
    if (lit.size && !lit.has(points.category[row]!)) continue;
    const [x, y] = scene.view.toPixels(...scene.cloud.place(row));
    if (x >= left && x <= right && y >= top && y <= bottom && isWithin(x, y, path)) chosen.add(row);
  }
  studio.live.set({ selection: chosen, lasso: false });
  if (!chosen.size) studio.say("No points are in there");
}

/** Whether a ray from a point to the right crosses the path an odd number of times. */
function isWithin(x: number, y: number, path: Path): boolean {
  let within = false;
  for (let i = 0, j = path.length - 1; i < path.length; j = i++) {
    const [ax, ay] = path[i]!;
    const [bx, by] = path[j]!;
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) within = !within;
  }
  return within;
}

function markSelected(context: CanvasRenderingContext2D, scene: Scene, selection: ReadonlySet<Row>, frame: HTMLElement): void {
  if (!selection.size) return;
  context.strokeStyle = getComputedStyle(frame).color;
  context.lineWidth = selection.size > 2000 ? 1 : 1.75;
  const radius = scene.size / 2 + 1.5;
  context.beginPath();
  let n = 0;
  for (const row of selection) {
    if (n++ > MARKED) break;
    const [x, y] = scene.view.toPixels(...scene.cloud.place(row));
    context.moveTo(x + radius, y);
    context.arc(x, y, radius, 0, 2 * Math.PI);
  }
  context.stroke();
}

function drawPath(context: CanvasRenderingContext2D, path: Path, frame: HTMLElement): void {
  const colour = getComputedStyle(frame).color;
  context.beginPath();
  for (const [x, y] of path) context.lineTo(x, y);
  context.closePath();
  context.globalAlpha = 0.08;
  context.fillStyle = colour;
  context.fill();
  context.globalAlpha = 1;
  context.setLineDash([5, 4]);
  context.lineWidth = 1.5;
  context.strokeStyle = colour;
  context.stroke();
  context.setLineDash([]);
}
