/** Refitting: progress, cancel, and what changed. */

/** A refit at work or ended. */
export interface Job {
  state: "running" | "done" | "failed" | "cancelled";
  stage: string;
  done: number;
  total: number;
  error: string | null;
}
