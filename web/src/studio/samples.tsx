/** Samples that can be selected, dragged and opened: tiles where there are pictures, else lines. */
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { cut, Name, Swatch } from "../bits";
import type { Row } from "../data";
import { Picture } from "../samples";
import { percent, shownName } from "../words";
import { useLive, useStudio } from "./model";

/** What a drag carries: rows. */
export const DRAGGED = "application/x-newkinds-rows";
const LINE = 220;

interface Props {
  rows: readonly Row[];
  label: string;
  /** Whether to say how sure each is. */
  sure?: boolean;
  /** Whether to say of which kind each is. */
  kinds?: boolean;
}

export function Samples({ rows, label, sure, kinds }: Props): JSX.Element {
  const studio = useStudio();
  useLive((state) => state.described);
  const selection = useLive((state) => state.selection);
  const [current, setCurrent] = useState(0);
  const anchor = useRef(0);
  const list = useRef<HTMLUListElement>(null);
  const samples = rows.map((row) => studio.sample(row));
  const pictures = samples.some(({ picture }) => picture);
  const stop = Math.min(current, rows.length - 1);
  const points = studio.store.get().points;

  const choose = (index: number, range: boolean): void => {
    const row = rows[index];
    if (row === undefined) return;
    if (!range) {
      anchor.current = index;
      studio.toggle(row);
    } else {
      const [from, to] = [Math.min(anchor.current, index), Math.max(anchor.current, index)];
      studio.select([...selection, ...rows.slice(from, to + 1)]);
    }
    setCurrent(index);
  };
  const goTo = (index: number, range: boolean): void => {
    const next = Math.min(Math.max(index, 0), rows.length - 1);
    setCurrent(next);
    if (range) choose(next, true);
    list.current?.querySelectorAll<HTMLElement>("[role=option]")[next]?.focus();
  };
  const key = (event: KeyboardEvent): void => {
    const steps: Record<string, number> = {
      ArrowRight: stop + 1,
      ArrowDown: stop + 1,
      ArrowLeft: stop - 1,
      ArrowUp: stop - 1,
      Home: 0,
      End: rows.length - 1,
    };
    const next = steps[event.key];
    if (next !== undefined) goTo(next, event.shiftKey);
    else if (event.key === " ") choose(stop, event.shiftKey);
    else if (event.key === "Enter") open(stop);
    else if (event.key.toLowerCase() === "a" && (event.ctrlKey || event.metaKey)) studio.select([...selection, ...rows]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const open = (index: number): void => {
    const row = rows[index];
    if (row !== undefined) studio.live.set({ dialog: { name: "sample", row } });
  };
  const drag = (event: DragEvent, row: Row): void => {
    const dragged = selection.has(row) ? [...selection] : [row];
    event.dataTransfer?.setData(DRAGGED, JSON.stringify(dragged));
    if (event.dataTransfer) event.dataTransfer.effectAllowed = "move";
  };
  return (
    <ul
      ref={list}
      class={pictures ? "tiles chosen" : "lines chosen"}
      role="listbox"
      aria-multiselectable="true"
      aria-label={label}
      onKeyDown={key}
    >
      {samples.map((sample, index) => {
        const { row } = sample;
        const given = points?.given[row] ?? 0;
        return (
          <li
            key={row}
            role="option"
            aria-selected={selection.has(row)}
            data-row={row}
            tabIndex={index === stop ? 0 : -1}
            draggable
            title={sample.id ?? undefined}
            onDragStart={(event) => drag(event, row)}
            onClick={(event) => choose(index, event.shiftKey)}
            onDblClick={() => open(index)}
          >
            {pictures ? (
              <Picture sample={sample} />
            ) : sample.text !== null ? (
              <span class="text" dir="auto">
                {sample.text.length > LINE ? `${cut(sample.text, LINE)}…` : sample.text || "(empty)"}
              </span>
            ) : (
              <bdi>{sample.id ?? `row ${row}`}</bdi>
            )}
            {kinds && <KindMark place={studio.placeOf(row)} words={!pictures} />}
            {(sure || given === 2) && (
              <span class="sure">{given === 2 ? "confirmed" : given ? "labelled" : percent((points?.confidence[row] ?? 0) / 255)}</span>
            )}
          </li>
        );
      })}
    </ul>
  );
}

function KindMark({ place, words }: { place: number; words: boolean }): JSX.Element {
  const category = useStudio().category(place);
  return (
    <span class="kind-mark" title={shownName(category)}>
      <Swatch place={place} />
      {words && <Name category={category} />}
    </span>
  );
}

/** Samples in a preview: to look at only. */
export function Preview({ rows }: { rows: readonly Row[] }): JSX.Element {
  const studio = useStudio();
  useLive((state) => state.described);
  const samples = rows.map((row) => studio.sample(row));
  const pictures = samples.some(({ picture }) => picture);
  return (
    <ul class={pictures ? "tiles" : "lines"}>
      {samples.map((sample) => (
        <li key={sample.row}>
          {pictures ? (
            <Picture sample={sample} />
          ) : (
            <span class="text" dir="auto">
              {sample.text !== null ? cut(sample.text, LINE) : (sample.id ?? "…")}
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}
