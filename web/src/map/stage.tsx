/** The map itself, of a report and of the studio: the scene, its buttons, the tooltip. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { cut, ExtraKey, Name, Swatch } from "../bits";
import { Picture } from "../samples";
import { useModel, useReport, type Model } from "../state";
import { number, percent } from "../words";
import { listen, type Gestures, type Target } from "./gestures";
import { Scene, type Look } from "./scene";

/** What a page does with its map. */
export interface Actions {
  /** A point or a name was chosen, or neither. A finger that touches a point only sees what it is. */
  chosen(target: Target | null, touch: boolean, event: PointerEvent): void;
  /** Draws more above the names. */
  above?(context: CanvasRenderingContext2D, scene: Scene, frame: HTMLElement): void;
  /** Calls `redraw` when that has changed, until the returned function is called. */
  follow?(redraw: () => void): () => void;
  lasso?(scene: Scene): NonNullable<Gestures["lasso"]>;
}

interface Tip {
  row: number;
  x: number;
  y: number;
  /** By a finger: then the tip has a button, because a tap shows and does not open. */
  touch: boolean;
}

const look = (model: Model): Look => {
  const { theme, colours, colourBy, lit } = model.store.get();
  return { theme, colours, colourBy, lit };
};

interface Props {
  /** The same object as long as the map is there. */
  actions: Actions;
  /** Buttons before those that zoom. */
  tools?: ComponentChildren;
  /** Whether a finger draws, and does not scroll the page. */
  drawing?: boolean;
}

export function Stage({ actions, tools, drawing: fingerDraws = false }: Props): JSX.Element {
  const model = useModel();
  const points = useReport((state) => state.points);
  const [wanted, setWanted] = useState(wantedRenderer);
  const [tip, setTip] = useState<Tip | null>(null);
  const [zoomed, setZoomed] = useState(false);
  const canvas = useRef<HTMLCanvasElement>(null);
  const overlay = useRef<HTMLCanvasElement>(null);
  const stage = useRef<HTMLDivElement>(null);
  const placed = !!points?.x;

  useEffect(() => {
    const first = model.store.get().points;
    if (!first?.x || !canvas.current || !overlay.current || !stage.current) return;
    const frame = stage.current;
    const drawing = new Scene(canvas.current, overlay.current, first, model.report.categories, look(model), {
      wanted,
      lost: () => setWanted("canvas"),
      above: (context, scene) => actions.above?.(context, scene, frame),
    });
    frame.dataset.renderer = drawing.renderer.name;
    drawing.resize(frame.clientWidth, frame.clientHeight);
    const observer = new ResizeObserver(() => drawing.resize(frame.clientWidth, frame.clientHeight));
    observer.observe(frame);

    let shown = look(model);
    let drawn = first;
    const follow = (): void => {
      const next = look(model);
      const { points } = model.store.get();
      if (points && points !== drawn) {
        drawn = points;
        shown = next;
        setTip(null);
        drawing.hover(null);
        drawing.update(points, model.report.categories, next);
        return;
      }
      if (Object.keys(next).every((key) => next[key as keyof Look] === shown[key as keyof Look])) return;
      if (next.lit !== shown.lit && ![...next.lit].some((place) => isShown(drawing, place))) drawing.view.reset();
      shown = next;
      drawing.show(next);
    };
    const lasso = actions.lasso?.(drawing);
    const stops = [
      model.store.subscribe(follow),
      actions.follow?.(() => drawing.redraw()),
      listen(overlay.current, drawing, {
        hovered: (row, x, y) =>
          setTip((tip) => (row === null ? null : tip?.row === row ? tip : { row, x, y, touch: false })),
        chosen: (target, touch, x, y, event) => {
          if (touch) setTip(target && "row" in target ? { row: target.row, x, y, touch } : null);
          actions.chosen(target, touch, event);
        },
        moved: () => {
          setTip(null);
          setZoomed(drawing.view.zoom > 1);
        },
        ...(lasso ? { lasso } : {}),
      }),
    ];
    return () => {
      for (const stop of stops) stop?.();
      observer.disconnect();
      drawing.destroy();
    };
  }, [model, actions, wanted, placed]);

  useEffect(() => {
    if (overlay.current) overlay.current.style.touchAction = fingerDraws || zoomed ? "none" : "pan-y";
  }, [fingerDraws, zoomed]);

  const press = (key: string): void => {
    overlay.current?.dispatchEvent(new KeyboardEvent("keydown", { key }));
  };
  const { n_points, unit } = model.report;
  const words = `Map of ${number(n_points)} ${unit[1]}. Arrow keys move it, plus and minus zoom, 0 shows all.`;
  return (
    <div class="stage" ref={stage}>
      <canvas key={wanted} ref={canvas} class="points" aria-hidden="true" />
      <canvas ref={overlay} class="overlay" id="map-canvas" tabIndex={0} role="application" aria-label={words} />
      {!points && <p class="waiting-map dim">Unpacking the map …</p>}
      <div class="zoom" role="group" aria-label="Map">
        {tools}
        <button type="button" aria-label="Zoom in" onClick={() => press("+")}>
          +
        </button>
        <button type="button" aria-label="Zoom out" disabled={!zoomed} onClick={() => press("-")}>
          −
        </button>
        <button type="button" aria-label="Show all" title="Show all" onClick={() => press("0")}>
          ⤢
        </button>
      </div>
      {tip && points && <Tooltip tip={tip} place={points.category[tip.row]!} frame={stage.current} />}
    </div>
  );
}

/** For tests: an address that ends in ?map=webgl2 or ?map=canvas says what draws. */
function wantedRenderer(): "webgl2" | "canvas" | null {
  const wanted = new URLSearchParams(location.search).get("map");
  return wanted === "webgl2" || wanted === "canvas" ? wanted : null;
}

function isShown(scene: Scene, place: number): boolean {
  const middle = scene.cloud.middles[place];
  return !!middle && scene.view.shows(middle.x, middle.y);
}

/** Room a tooltip takes, to keep it inside the map. */
const TIP = { width: 272, height: 190 };

function Tooltip({ tip, place, frame }: { tip: Tip; place: number; frame: HTMLElement | null }): JSX.Element {
  const model = useModel();
  const points = useReport((state) => state.points);
  const category = model.category(place);
  const sample = model.sample(tip.row);
  const width = frame?.clientWidth ?? 0;
  const right = tip.x + TIP.width + 16 > width;
  const below = tip.y < TIP.height;
  const left = right ? Math.max(tip.x - 14 - TIP.width, Math.min(8, width - TIP.width)) : tip.x + 14;
  const style = {
    left: `${left}px`,
    maxWidth: `${TIP.width}px`,
    ...(below ? { top: `${tip.y + 14}px` } : { bottom: `${(frame?.clientHeight ?? 0) - tip.y + 14}px` }),
    // Beside the cursor on the left, a narrow tip would float away from it.
    ...(right ? { width: `${TIP.width}px` } : {}),
  };
  const sure = points?.confidence[tip.row];
  const novelty = points?.novelty[tip.row];
  return (
    <div class={tip.touch ? "tip touch" : "tip"} role="tooltip" id="map-tip" style={style}>
      {sample.picture && <Picture sample={sample} />}
      <div>
        {sample.text !== null && (
          <p class="text" dir="auto">
            {sample.text.length > 220 ? `${cut(sample.text, 200)}…` : sample.text}
          </p>
        )}
        <p class="tip-kind">
          <Swatch place={place} />
          <Name category={category} />
          <ExtraKey place={place} />
        </p>
        <p class="dim">
          {sure !== undefined && `${percent(sure / 255)} sure`}
          {novelty !== undefined && `, ${percent(novelty / 255)} new`}
          {points?.given[tip.row] === 1 && ", labelled"}
        </p>
        <p class="dim id">
          <bdi>{sample.id ?? `row ${tip.row}`}</bdi>
        </p>
        {tip.touch && (
          <button type="button" class="quiet" onClick={() => model.reveal(place)}>
            Open its card
          </button>
        )}
      </div>
    </div>
  );
}
