"""Refitting a run after it was edited: a new version of it (`newkinds.editing.versions`), or a run of its own."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from newkinds.comparing import Comparison, compare_states
from newkinds.editing.opened_run import OpenedRun
from newkinds.editing.supervision import supervision
from newkinds.editing.versions import add_version, version_record, write_separately
from newkinds.errors import InputError
from newkinds.journal import Entry
from newkinds.labels import UNLABELLED, IntArray
from newkinds.metrics import accuracy
from newkinds.run_folder import RUN_FILES, as_standing
from newkinds.runtime import report_progress
from newkinds.staging import refuse_existing, staged
from newkinds.standing import SampleState, lineage, standing

if TYPE_CHECKING:
    from newkinds.methods import CategoryDiscoverer


@dataclass(frozen=True)
class Refit:
    """A refit that was done.

    Attributes
    ----------
    place : Path
        The run folder that holds the result.
    entry : Entry or None
        Of the journal; None where the result is a run of its own.
    comparison : Comparison
        What changed, from what the run was like just before.
    seconds : float
    """

    place: Path
    entry: Entry | None
    comparison: Comparison
    seconds: float


def refit(
    run: str | Path | OpenedRun,
    *,
    out: str | Path | None = None,
    lam: float | None = None,
    temperature: float | None = None,
    reason: str = "",
) -> Refit:
    """Fit a run again, with what a person said of it since.

    Labels as corrected, confirmed samples, and categories that were merged, split or created teach it, see
    `newkinds.editing.supervision`. It starts from the present weights, so that whatever nobody touched stays
    where it is. Ids, keys and names stay; samples with a label or a confirmation never move.

    Progress goes to whoever listens (`newkinds.runtime.listening`). An exception raised there cancels the refit;
    then, as when it is killed, nothing has changed.

    Parameters
    ----------
    run : path or OpenedRun
    out : path, optional
        Write a run folder of its own there; by default the result is a new version inside the run.
    lam, temperature : float, optional
        By default as they were chosen.
    reason : str
        Written down with it.
    """
    opened = run if isinstance(run, OpenedRun) else OpenedRun(run)
    opened.refresh()
    began = time.perf_counter()
    before = opened.record, opened.predictions
    n_entries = len(opened.entries)
    model, samples = _fitted_again(opened, lam, temperature)
    record = _new_record(opened, model, samples, time.perf_counter() - began)
    after = standing(record, ())
    table = as_standing(before[1], samples, after["categories"])
    comparison = compare_states(before, (after, table))
    if out is not None:
        place = Path(out)
        with staged(place, folder=True, replace=refuse_existing, ours=RUN_FILES) as stage:
            write_separately(stage, record, model, table, opened)
        return Refit(place, None, comparison, time.perf_counter() - began)
    entry = add_version(opened, "refit", record, model, table, n_entries=n_entries, reason=reason)
    return Refit(opened.folder, entry, comparison, time.perf_counter() - began)


def _fitted_again(
    run: OpenedRun, lam: float | None, temperature: float | None
) -> tuple["CategoryDiscoverer", SampleState]:
    from newkinds.methods.refitting import Wanted, refit_model

    chosen, samples = run.record["chosen"], run.samples
    if lam is None and chosen["lam"] is None:
        raise InputError(
            f"a run by {run.record['method']} cannot be refitted; discover again with corrected labels"
        )
    ids = np.array([c["id"] for c in run.record["categories"]], dtype=np.int64)
    known = np.array([c["id"] for c in run.record["categories"] if c["kind"] == "known"], dtype=np.int64)
    features = np.asarray(run.features, dtype=np.float32)
    report_progress("what your edits teach", 0, 1)
    taught = supervision(run, np.asarray(run.fitted._unit(features), dtype=np.float32))
    teaches = ~samples.held | (taught.labels != UNLABELLED)  # what is held back takes no part
    steady = taught.steady if lam is None and temperature is None else None  # other settings may move anything
    wanted = Wanted(
        ids,
        known,
        samples.categories[teaches],
        taught.labels[teaches],
        lineage(run.fitted.categories_.tolist(), run.done_since_refit),
        taught.changed,
        None if steady is None else steady[teaches],
    )
    model = refit_model(
        run.fitted,
        features[teaches],
        wanted,
        lam=float(chosen["lam"] if lam is None else lam),
        temperature=temperature,
        size_ratio=chosen.get("size_ratio") or 1.0,
    )
    labels = np.empty(len(features), dtype=np.int64)
    labels[teaches] = model.labels_
    if not teaches.all():
        labels[~teaches] = model.predict(features[~teaches])
    model.labels_ = labels
    is_settled = taught.settled != UNLABELLED
    for_this_fit = (taught.labels != UNLABELLED) & ~is_settled
    if for_this_fit.any():
        model.labels_[for_this_fit] = model.predict(features[for_this_fit])
    result = model.assess(features, model.labels_)
    confirmed = samples.confirmed
    is_new = ~np.isin(model.labels_, known)
    return model, SampleState(
        model.labels_.astype(np.int64),
        samples.given.copy(),
        confirmed.copy(),
        np.where(confirmed, 1, result.confidence).astype(np.float32),
        np.where(confirmed, is_new, result.novelty).astype(np.float32),
        samples.strangeness.copy(),
        samples.held.copy(),
    )


def _new_record(
    run: OpenedRun, model: "CategoryDiscoverer", samples: SampleState, seconds: float
) -> dict[str, Any]:
    """`run.json` of the version."""
    record = version_record(run, run.record["categories"], samples)
    n = len(model.objective_curve_)
    curve = [[e + 1, float(model.objective_curve_[e])] for e in range(n)]
    return record | {
        "chosen": {**record["chosen"], "lam": model.lam_, "temperature": model.temperature_},
        "curves": {**record["curves"], "objective": curve},
        "score": _score(run, samples.categories),
        "stopped": model.stopped_,
        "n_iter": model.n_iter_,
        "seconds": {**record["seconds"], "refit": round(seconds, 3)},
    }


def _score(run: OpenedRun, categories: IntArray) -> dict[str, Any] | None:
    """Accuracy of the samples that came without a label and that nobody has confirmed, where the truth is known."""
    table = run.predictions
    if "truth" not in table.column_names:
        return None
    truth = np.array([name or "" for name in table["truth"].to_pylist()], dtype=object)
    scored = ~run.samples.labelled & (truth != "")
    if not scored.any():
        return None
    classes, columns = np.unique(truth[scored].astype(str), return_inverse=True)
    keys = {category["key"] for category in run.record["categories"] if category["kind"] == "known"}
    known = np.array([place for place, name in enumerate(classes) if name in keys], dtype=np.int64)
    result = accuracy(columns.astype(np.int64), categories[scored], known)
    parts = {name: float(getattr(result, name)) for name in ("all", "old", "new")}
    return {"protocol": "v2", **{name: None if np.isnan(value) else value for name, value in parts.items()}}
