/** Refitting: progress and cancel; then what changed, to keep or to go back from. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Name, Swatch } from "../bits";
import type { Row } from "../data";
import { number } from "../words";
import { useLive, useStudio } from "./model";
import { Samples } from "./samples";
import { post } from "./server";

/** A refit at work or ended. */
export interface Job {
  state: "running" | "done" | "failed" | "cancelled";
  stage: string;
  done: number;
  total: number;
  error: string | null;
  result: Result | null;
}

interface Result {
  /** What changed, in sentences; and what became of kinds. */
  summary: string[];
  changes: string[];
  seconds: number;
  n_moved?: number;
  /** From slot, to slot, how many. */
  flows?: [number, number, number][];
  /** Samples that moved, the surest first, each with the slot it was in. */
  moved?: [Row, number][];
}

const SHOWN = 24;

function useAsk(): (what: "start" | "cancel" | "close") => Promise<void> {
  const studio = useStudio();
  return async (what) => {
    try {
      studio.live.set({ job: (await post<{ job: Job | null }>(`/api/refit/${what}`, {})).job });
    } catch (error) {
      studio.fail(error);
    }
  };
}

export function RefitButton(): JSX.Element {
  const running = useLive((state) => state.job?.state === "running");
  const ask = useAsk();
  const title = "Fit the run again with what you have said so far; you can go back";
  return (
    <button type="button" id="refit" class="quiet" disabled={running} title={title} onClick={() => void ask("start")}>
      Refit
    </button>
  );
}

export function Refit(): JSX.Element | null {
  const job = useLive((state) => state.job);
  const ask = useAsk();
  if (!job) return null;
  if (job.state === "running") {
    return (
      <section class="job" id="job" aria-label="Refit">
        <p>
          <strong>Refitting</strong> <span class="dim">{job.stage}</span>
        </p>
        <progress aria-label="Progress of the refit" max={job.total || undefined} value={job.total ? job.done : undefined} />
        <button type="button" class="quiet" onClick={() => void ask("cancel")}>
          Cancel
        </button>
      </section>
    );
  }
  if (job.state === "done" && job.result) return <Changed result={job.result} />;
  return (
    <section class="job" id="job" role="status">
      <p class={job.state === "failed" ? "wrong" : undefined}>
        {job.state === "failed" ? job.error : "The refit was cancelled. Nothing has changed."}
      </p>
      <button type="button" class="quiet" onClick={() => void ask("close")}>
        Close
      </button>
    </section>
  );
}

function Changed({ result }: { result: Result }): JSX.Element {
  const studio = useStudio();
  const undo = useLive((state) => state.undo);
  const ask = useAsk();
  const [busy, setBusy] = useState(false);
  const canGoBack = undo?.op === "refit";
  const back = async (): Promise<void> => {
    setBusy(true);
    if (await studio.undo()) await ask("close");
    setBusy(false);
  };
  const moved = (result.moved ?? []).slice(0, SHOWN).map(([row]) => row);
  return (
    <section class="job done" id="job" aria-labelledby="job-heading">
      <h2 id="job-heading">What the refit changed</h2>
      <p>{result.summary.join(" ")}</p>
      {result.changes.length > 0 && (
        <ul class="plain-list">
          {result.changes.map((text) => (
            <li key={text} dir="auto">
              {text}.
            </li>
          ))}
        </ul>
      )}
      {(result.flows ?? []).length > 0 && (
        <ul class="flow-list">
          {result.flows!.slice(0, 12).map(([from, to, n]) => (
            <li key={`${from}-${to}`}>
              {number(n)} from <Kind slot={from} /> to <Kind slot={to} />
            </li>
          ))}
        </ul>
      )}
      {moved.length > 0 && (
        <details>
          <summary>Samples that moved, the surest first</summary>
          <Samples rows={moved} label="Samples that moved" sure kinds />
        </details>
      )}
      <p class="dialog-buttons">
        <button type="button" class="quiet" id="go-back" disabled={!canGoBack || busy} onClick={() => void back()}>
          Go back
        </button>
        <button type="button" class="strong" id="accept" disabled={busy} onClick={() => void ask("close")}>
          Keep it
        </button>
      </p>
    </section>
  );
}

function Kind({ slot }: { slot: number }): JSX.Element {
  const studio = useStudio();
  const place = studio.placeOfSlot(slot);
  if (place === undefined) return <span class="dim">a kind that is gone</span>;
  return (
    <span class="kind-mark">
      <Swatch place={place} /> <Name category={studio.category(place)} />
    </span>
  );
}
