/** The review: what is most worth a person's look, one question at a time, one keystroke each. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Name, Swatch } from "../bits";
import { count, number, percent, shownName } from "../words";
import { useLive, useStudio } from "./model";
import { Preview } from "./samples";
import { get, post, type Question, type Questions } from "./server";

/** Typical samples of a kind that are shown for comparison. */
const COMPARED = 6;

export function Review(): JSX.Element {
  const studio = useStudio();
  const [questions, setQuestions] = useState<readonly Question[]>([]);
  const [left, setLeft] = useState<number | null>(null);
  const [answered, setAnswered] = useState(0);
  const [busy, setBusy] = useState(true);
  const section = useRef<HTMLElement>(null);
  const n = useLive((state) => state.n);
  const seen = useRef(new Set<number>());

  const fetchMore = async (): Promise<void> => {
    try {
      const more = await get<Questions>("/api/review");
      studio.learn(more.samples);
      setLeft(more.left);
      setQuestions((now) => {
        const waiting = new Set(now.map(({ row }) => row));
        return [...now, ...more.questions.filter(({ row }) => !waiting.has(row) && !seen.current.has(row))];
      });
    } catch (error) {
      studio.fail(error);
    } finally {
      setBusy(false);
    }
  };
  useEffect(() => {
    void fetchMore();
    section.current?.focus({ preventScroll: true });
  }, []);
  // What was undone is asked again.
  useEffect(() => {
    const given = studio.store.get().points?.given;
    if (given) for (const row of [...seen.current]) if (given[row] !== 2) seen.current.delete(row);
    setQuestions((now) => now.filter(({ row }) => given?.[row] !== 2));
  }, [n]);

  const question = questions[0];
  const answer = async (act: (row: number) => Promise<boolean>): Promise<void> => {
    if (!question || busy) return;
    setBusy(true);
    if (await act(question.row)) {
      seen.current.add(question.row);
      setAnswered((now) => now + 1);
      setLeft((now) => (now === null ? null : Math.max(now - 1, 0)));
      setQuestions((now) => now.filter(({ row }) => row !== question.row));
    }
    setBusy(false);
    if (questions.length < 4) void fetchMore();
  };
  const yes = (): Promise<void> => answer((row) => studio.do("confirm", { rows: [row] }));
  const skip = (): Promise<void> =>
    answer(async (row) => {
      try {
        await post("/api/review/skip", { row });
        return true;
      } catch (error) {
        studio.fail(error);
        return false;
      }
    });
  const choose = (slot: number): Promise<void> =>
    answer((row) => {
      const place = studio.placeOfSlot(slot);
      return place === undefined ? Promise.resolve(false) : studio.do("move", { rows: [row], kind: studio.category(place).key });
    });
  const other = (): void => {
    if (!question) return;
    studio.select([question.row]);
    studio.live.set({ dialog: { name: "move" } });
  };
  const keys = useRef<(key: string) => (() => unknown) | undefined>(() => undefined);
  keys.current = (key) => {
    const option = question?.options[Number(key) - 1];
    if (option) return () => choose(option.slot);
    return { y: yes, n: skip, s: skip, o: other }[key];
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

  return (
    <section id="review" ref={section} tabIndex={-1} aria-labelledby="review-heading">
      <div class="heading-line">
        <h2 id="review-heading">Review</h2>
        <span class="dim" id="review-progress" role="status">
          {number(answered)} answered{left !== null && `, ${number(left)} left that are worth a look`}
        </span>
      </div>
      {left !== null && (
        <progress class="review-bar" aria-label="Progress of the review" max={Math.max(answered + left, 1)} value={answered} />
      )}
      {question ? (
        <Ask key={question.row} question={question} yes={yes} skip={skip} choose={choose} other={other} />
      ) : (
        <p class="dim">{busy ? "Looking …" : "Nothing is left that is worth a look. Refit the run to let it learn from your answers."}</p>
      )}
    </section>
  );
}

interface AskProps {
  question: Question;
  yes: () => Promise<void>;
  skip: () => Promise<void>;
  choose: (slot: number) => Promise<void>;
  other: () => void;
}

function Ask({ question, yes, skip, choose, other }: AskProps): JSX.Element | null {
  const studio = useStudio();
  useLive((state) => state.described);
  const place = studio.placeOfSlot(question.slot);
  if (place === undefined) return null;
  const category = studio.category(place);
  const sample = studio.sample(question.row);
  const points = studio.store.get().points;
  const options = question.options.flatMap((option) => {
    const at = studio.placeOfSlot(option.slot);
    return at === undefined ? [] : [{ ...option, category: studio.category(at), place: at }];
  });
  return (
    <div class="ask" data-row={question.row}>
      <div class="asked">
        {sample.picture && <img class={studio.pictures.pixelated ? "picture pixelated" : "photo"} src={`/photo/${question.row}`} alt={sample.id ?? ""} />}
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
          {question.topic === "member" && points && (
            <span class="dim">{percent((points.confidence[question.row] ?? 0) / 255)} sure</span>
          )}
        </p>
        <div class="compared">
          <Preview rows={category.typical.slice(0, COMPARED)} />
        </div>
        <p class="answer-buttons">
          <button type="button" class="strong" id="answer-yes" aria-keyshortcuts="y" onClick={() => void yes()}>
            Yes <kbd>Y</kbd>
          </button>
          <button type="button" class="quiet" id="answer-skip" aria-keyshortcuts="s n" onClick={() => void skip()}>
            No, or skip <kbd>N</kbd> <kbd>S</kbd>
          </button>
        </p>
        <h3>Or is it</h3>
        <ol class="options">
          {options.map(({ slot, share, category, place }, i) => (
            <li key={slot}>
              <button type="button" class="quiet option" aria-keyshortcuts={String(i + 1)} onClick={() => void choose(slot)}>
                <kbd>{i + 1}</kbd>
                <Swatch place={place} />
                <Name category={category} />
                <span class="dim">{percent(share)}</span>
              </button>
              <div class="compared small" aria-label={`Typical of ${shownName(category)}`}>
                <Preview rows={category.typical.slice(0, 4)} />
              </div>
            </li>
          ))}
          <li>
            <button type="button" class="quiet option" aria-keyshortcuts="o" onClick={other}>
              <kbd>O</kbd> Another of the {count(studio.report.categories.length, ["kind", "kinds"])} …
            </button>
          </li>
        </ol>
      </div>
    </div>
  );
}
