/** The map section: the scene, its buttons, the tooltip, the legend. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { cut, ExtraKey, Name, Swatch } from "../bits";
import { Picture } from "../samples";
import { useModel, useReport, type Model } from "../state";
import { isSuggested, number, percent } from "../words";
import { listen, type Target } from "./gestures";
import { Legend } from "./legend";
import { Scene, type Look } from "./scene";

export interface Tip {
  row: number;
  x: number;
  y: number;
  /** By a finger: then the tip has a button, because a tap shows and does not open. */
  touch: boolean;
}

export const look = (model: Model): Look => {
  const { theme, colours, colourBy, lit } = model.store.get();
  return { theme, colours, colourBy, lit };
};

export function MapSection(): JSX.Element | null {
  const { report } = useModel();
  const unpacking = useReport((state) => state.unpacking);
  if (!report.map || unpacking === "missing" || unpacking === "broken") return null;
  return (
    <section id="map" aria-labelledby="map-heading">
      <h2 id="map-heading">Map</h2>
      <p class="intro dim">
        {report.map.explanation}
        {report.categories.some(isSuggested) && " Names in italics are suggestions."}
      </p>
      <div class="map-frame">
        <Stage />
        <Legend />
      </div>
    </section>
  );
}

function Stage(): JSX.Element {
  const model = useModel();
  const points = useReport((state) => state.points);
  const [wanted, setWanted] = useState(wantedRenderer);
  const [tip, setTip] = useState<Tip | null>(null);
  const [zoomed, setZoomed] = useState(false);
  const canvas = useRef<HTMLCanvasElement>(null);
  const overlay = useRef<HTMLCanvasElement>(null);
  const stage = useRef<HTMLDivElement>(null);
  const scene = useRef<Scene | null>(null);

  useEffect(() => {
    if (!points?.x || !canvas.current || !overlay.current || !stage.current) return;
    const frame = stage.current;
    const drawing = new Scene(canvas.current, overlay.current, points, model.report.categories, look(model), {
      wanted,
      lost: () => setWanted("canvas"),
    });
    scene.current = drawing;
    frame.dataset.renderer = drawing.renderer.name;
    drawing.resize(frame.clientWidth, frame.clientHeight);
    const observer = new ResizeObserver(() => drawing.resize(frame.clientWidth, frame.clientHeight));
    observer.observe(frame);

    let shown = look(model);
    const unsubscribe = model.store.subscribe(() => {
      const next = look(model);
      if (Object.keys(next).every((key) => next[key as keyof Look] === shown[key as keyof Look])) return;
      if (next.lit !== shown.lit && ![...next.lit].some((place) => isShown(drawing, place))) drawing.view.reset();
      shown = next;
      drawing.show(next);
    });
    const placeOf = (target: Target): number =>
      "row" in target ? points.category[target.row]! : target.place;
    const stop = listen(overlay.current, drawing, {
      hovered: (row, x, y) =>
        setTip((tip) => (row === null ? null : tip?.row === row ? tip : { row, x, y, touch: false })),
      chosen: (target, touch, x, y) => {
        if (touch) setTip(target && "row" in target ? { row: target.row, x, y, touch } : null);
        if (!target && model.store.get().lit.size) model.light([]);
        if (target && (!touch || "place" in target)) model.reveal(placeOf(target));
      },
      moved: () => {
        setTip(null);
        setZoomed(drawing.view.zoom > 1);
      },
    });
    return () => {
      scene.current = null;
      stop();
      unsubscribe();
      observer.disconnect();
      drawing.destroy();
    };
  }, [points, wanted]);

  const press = (key: string): void => {
    overlay.current?.dispatchEvent(new KeyboardEvent("keydown", { key }));
  };
  const words = `Map of ${number(model.report.n_points)} ${model.report.unit[1]}. Arrow keys move it, plus and minus zoom, 0 shows all.`;
  return (
    <div class="stage" ref={stage}>
      <canvas key={wanted} ref={canvas} class="points" aria-hidden="true" />
      <canvas ref={overlay} class="overlay" id="map-canvas" tabIndex={0} role="application" aria-label={words} />
      {!points && <p class="waiting-map dim">Unpacking the map …</p>}
      <div class="zoom" role="group" aria-label="Zoom">
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
export function wantedRenderer(): "webgl2" | "canvas" | null {
  const wanted = new URLSearchParams(location.search).get("map");
  return wanted === "webgl2" || wanted === "canvas" ? wanted : null;
}

export function isShown(scene: Scene, place: number): boolean {
  const middle = scene.cloud.middles[place];
  return !!middle && scene.view.shows(middle.x, middle.y);
}

/** Room a tooltip takes, to keep it inside the map. */
const TIP = { width: 272, height: 190 };

export function Tooltip({ tip, place, frame }: { tip: Tip; place: number; frame: HTMLElement | null }): JSX.Element {
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
