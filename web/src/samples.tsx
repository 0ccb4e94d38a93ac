/** Samples as a person sees them: a picture, a text, or at least an id. */
import type { JSX } from "preact";
import { LongText } from "./bits";
import type { Row } from "./data";
import { useModel, useReport, type Sample } from "./state";
import { percent } from "./words";

/** A sample's picture at a size one can see. */
export function Picture({ sample, small }: { sample: Sample; small?: boolean }): JSX.Element {
  const { pixelated } = useModel().pictures;
  const classes = ["picture", pixelated && "pixelated", small && "small"].filter(Boolean).join(" ");
  const id = sample.id ?? `row ${sample.row}`;
  return sample.picture ? (
    <img class={classes} src={sample.picture} alt={id} title={id} decoding="async" />
  ) : (
    <span class={`${classes} none`} title={id}>
      <bdi>{id}</bdi>
    </span>
  );
}

/** Samples of a category: tiles where there are pictures, else lines of text, else ids. */
export function Samples({ rows, doubt }: { rows: readonly Row[]; doubt?: boolean }): JSX.Element {
  const model = useModel();
  useReport((state) => state.texts); // samples change once their texts are there
  const points = useReport((state) => state.points);
  const busy = useReport((state) => state.unpacking === "busy"); // room is kept for what comes
  const samples = rows.map((row) => model.sample(row));
  const sure = (row: Row): JSX.Element | null => {
    const confidence = points?.confidence[row];
    if (!doubt || (confidence === undefined && !busy)) return null;
    return <span class={busy ? "sure pending" : "sure"}>{percent((confidence ?? 0) / 255)}</span>;
  };
  if (samples.some(({ picture }) => picture)) {
    return (
      <ul class="tiles">
        {samples.map((sample) => (
          <li key={sample.row}>
            <Picture sample={sample} />
            {sure(sample.row)}
          </li>
        ))}
      </ul>
    );
  }
  const texts = samples.some(({ text }) => text !== null);
  return (
    <ul class={texts ? "lines" : "ids"}>
      {samples.map((sample) => (
        <li key={sample.row} title={texts ? (sample.id ?? undefined) : undefined}>
          {sample.text !== null ? <LongText text={sample.text} /> : <bdi>{sample.id ?? `row ${sample.row}`}</bdi>}
          {sure(sample.row)}
        </li>
      ))}
    </ul>
  );
}

/** A sample in a list: its small picture or its text, with its id. */
export function SampleLine({ row }: { row: Row }): JSX.Element {
  const model = useModel();
  useReport((state) => state.texts);
  const sample = model.sample(row);
  return (
    <div class="sample-line">
      {sample.picture && <Picture sample={sample} small />}
      <div>
        {sample.text !== null && <LongText text={sample.text} limit={200} />}
        <bdi class={sample.text === null ? "id" : "id dim"}>{sample.id ?? `row ${row}`}</bdi>
      </div>
    </div>
  );
}
