/** The review: what is most worth a person's answer, one question at a time, one keystroke each. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { cut, Name, Swatch } from "../bits";
import type { Row } from "../data";
import { Picture } from "../samples";
import { number, percent, shownName } from "../words";
import { useLive, useStudio } from "./model";
import { Preview } from "./samples";
import { get, post, type Change, type Question, type Questions } from "./server";

type Answer = { answer: "yes" | "no" | "new" } | { answer: "kind"; kind: string };

export function Review(): JSX.Element {
  const studio = useStudio();
  const [review, setReview] = useState<Questions | null>(null);
  const [odd, setOdd] = useState<ReadonlySet<Row>>(new Set());
  const [busy, setBusy] = useState(false);
  const section = useRef<HTMLElement>(null);
  const n = useLive((state) => state.n);
  const reviewed = useLive((state) => state.reviewed);

  useEffect(() => {
    let current = true;
    get<Questions>("/api/review").then(
      (next) => current && setReview(next),
      (error: unknown) => studio.fail(error),
    );
    return () => {
      current = false;
    };
  }, [n, reviewed, busy]);
  useEffect(() => section.current?.focus({ preventScroll: true }), []);

  const question = review?.questions[0];
  useEffect(() => setOdd(new Set()), [question?.id]);
  const tell = async (path: string, content: object): Promise<void> => {
    if (busy) return;
    setBusy(true);
    try {
      const change = await post<Change>(path, content);
      if (change.n !== undefined) await studio.take(change);
    } catch (error) {
      studio.fail(error);
    }
    setBusy(false);
  };
  const answer = (given: Answer): Promise<void> =>
    question ? tell("/api/review/answer", { question: question.id, odd: [...odd], ...given }) : Promise.resolve();
  const skip = (): Promise<void> => (question ? tell("/api/review/skip", { question: question.id }) : Promise.resolve());
  const choose = (slot: number): void => {
    const place = studio.placeOfSlot(slot);
    if (place !== undefined) void answer({ answer: "kind", kind: studio.category(place).key });
  };
  const other = (): void => {
    const answered = (place: number | "new"): void =>
      void answer(place === "new" ? { answer: "new" } : { answer: "kind", kind: studio.category(place).key });
    studio.live.set({ dialog: { name: "move", choose: answered } });
  };
  const no = (): void => (question?.topic === "merge" ? void answer({ answer: "no" }) : other());
  const toggleOdd = (row: Row): void => {
    const next = new Set(odd);
    if (!next.delete(row)) next.add(row);
    setOdd(next);
  };
  const keys = useRef<(key: string) => (() => unknown) | undefined>(() => undefined);
  keys.current = (key) => {
    if (!question) return undefined;
    const slot = question.topic === "merge" ? undefined : question.options[Number(key) - 1];
    if (slot !== undefined) return () => choose(slot);
    return { y: () => answer({ answer: "yes" }), n: no, s: skip }[key];
  };
  useEffect(() => {
    const listen = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, select, textarea, dialog")) return;
      const action = keys.current(event.key.toLowerCase());
      if (!action) return;
      event.preventDefault();
      action();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);

  const waiting = !review || review.looking;
  const buttons = question && (
    <p class="answer-buttons">
      <button type="button" class="strong" id="answer-yes" aria-keyshortcuts="y" onClick={() => void answer({ answer: "yes" })}>
        Yes <kbd>Y</kbd>
      </button>
      <button type="button" class="quiet" id="answer-no" aria-keyshortcuts="n" onClick={no}>
        {question.topic === "merge" ? "No" : "No …"} <kbd>N</kbd>
      </button>
      <button type="button" class="quiet" id="answer-skip" aria-keyshortcuts="s" onClick={() => void skip()}>
        Skip <kbd>S</kbd>
      </button>
    </p>
  );
  return (
    <section id="review" ref={section} tabIndex={-1} aria-labelledby="review-heading">
      <div class="heading-line">
        <h2 id="review-heading">Review</h2>
        <span class="dim" id="review-progress" role="status">
          {review && `${number(review.answered)} answered, ${number(review.left)} waiting, the most useful first`}
        </span>
      </div>
      {review && (
        <progress
          class="review-bar"
          aria-label="Progress of the review"
          max={Math.max(review.answered + review.left, 1)}
          value={review.answered}
        />
      )}
      {question ? (
        <div class="ask" data-question={question.id} data-topic={question.topic} aria-busy={busy}>
          {question.topic === "merge" ? (
            <AskMerge question={question} odd={odd} toggleOdd={toggleOdd} buttons={buttons} />
          ) : (
            <AskSample question={question} odd={odd} toggleOdd={toggleOdd} buttons={buttons} choose={choose} />
          )}
        </div>
      ) : (
        <p class="dim">
          {waiting ? "Looking for questions …" : "No question is left. Refit the run to let it learn from your answers."}
        </p>
      )}
    </section>
  );
}

interface AskProps {
  question: Question;
  odd: ReadonlySet<Row>;
  toggleOdd: (row: Row) => void;
  buttons: ComponentChildren;
}

function AskSample({ question, odd, toggleOdd, buttons, choose }: AskProps & { choose: (slot: number) => void }): JSX.Element | null {
  const studio = useStudio();
  useLive((state) => state.described);
  const place = studio.placeOfSlot(question.slot);
  const row = question.rows[0];
  if (place === undefined || row === undefined) return null;
  const category = studio.category(place);
  const sample = studio.sample(row);
  const confidence = studio.store.get().points?.confidence[row] ?? 0;
  return (
    <>
      <div class="asked">
        {sample.picture && (
          <img class={studio.pictures.pixelated ? "picture pixelated" : "photo"} src={`/photo/${row}`} alt={sample.id ?? ""} />
        )}
        {sample.text !== null && (
          <p class="whole-text" dir="auto">
            {sample.text || "(empty)"}
          </p>
        )}
        <p class="dim id">
          <bdi>{sample.id ?? "…"}</bdi>
        </p>
      </div>
      <div class="answers">
        <p class="question">
          {question.topic === "label" ? "Its label looks wrong. Is this really " : "Is this "}
          <Swatch place={place} /> <Name category={category} />?{" "}
          {question.topic === "sample" && <span class="dim">{percent(confidence / 255)} sure</span>}
        </p>
        <Shown rows={question.typical} odd={odd} toggleOdd={toggleOdd} name={shownName(category)} hint="Yes also confirms these; click on one that does not belong." />
        {buttons}
        {question.options.length > 0 && <h3>Or is it</h3>}
        <ol class="options">
          {question.options.map((slot, i) => (
            <Option key={slot} slot={slot} number={i + 1} choose={choose} />
          ))}
        </ol>
      </div>
    </>
  );
}

function Option({ slot, number, choose }: { slot: number; number: number; choose: (slot: number) => void }): JSX.Element | null {
  const studio = useStudio();
  const place = studio.placeOfSlot(slot);
  if (place === undefined) return null;
  const category = studio.category(place);
  return (
    <li>
      <button type="button" class="quiet option" aria-keyshortcuts={String(number)} onClick={() => choose(slot)}>
        <kbd>{number}</kbd>
        <Swatch place={place} />
        <Name category={category} />
      </button>
      <div class="compared small">
        <Preview rows={category.typical.slice(0, 4)} />
      </div>
    </li>
  );
}

function AskMerge({ question, odd, toggleOdd, buttons }: AskProps): JSX.Element | null {
  const studio = useStudio();
  const places = [question.slot, question.options[0] ?? -1].map((slot) => studio.placeOfSlot(slot));
  const [one, other] = places;
  if (one === undefined || other === undefined) return null;
  const sides = [
    { place: one, rows: question.typical },
    { place: other, rows: question.rows },
  ];
  return (
    <div class="both-sides">
      <p class="question">Are these two one kind?</p>
      {sides.map(({ place, rows }) => (
        <div key={place} class="side">
          <h3>
            <Swatch place={place} /> <Name category={studio.category(place)} />{" "}
            <span class="dim">{studio.counted(studio.category(place).size)}</span>
          </h3>
          <Shown rows={rows} odd={odd} toggleOdd={toggleOdd} name={shownName(studio.category(place))} hint="No confirms that these belong here; click on one that does not." />
        </div>
      ))}
      {buttons}
    </div>
  );
}

/** Samples that an answer confirms too, unless they are marked as odd. */
function Shown({ rows, odd, toggleOdd, name, hint }: { rows: readonly Row[]; name: string; hint: string } & Pick<AskProps, "odd" | "toggleOdd">): JSX.Element {
  const studio = useStudio();
  useLive((state) => state.described);
  const samples = rows.map((row) => studio.sample(row));
  const pictures = samples.some(({ picture }) => picture);
  return (
    <>
      <p class="dim shown-hint">{hint}</p>
      <ul class={pictures ? "tiles shown" : "lines shown"}>
        {samples.map((sample) => (
          <li key={sample.row}>
            <button
              type="button"
              aria-pressed={odd.has(sample.row)}
              aria-label={`${sample.id ?? sample.row} does not belong to ${name}`}
              onClick={() => toggleOdd(sample.row)}
            >
              {pictures ? <Picture sample={sample} /> : <span dir="auto">{cut(sample.text ?? sample.id ?? "…", 220)}</span>}
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}
