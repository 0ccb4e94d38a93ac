"""Refitting a run after it was edited: a new version of it, or a run of its own.

A version is written beside the others and put in its place whole; the entry in the journal that names it comes
last. So a refit that is killed at any moment has not happened: a version that no entry names is ignored, and the
next refit takes its place. Undoing a refit is an ordinary undo.
"""

import shutil
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from newkinds import __version__
from newkinds.comparing import Comparison, compare_states
from newkinds.editing.opened_run import OpenedRun
from newkinds.editing.supervision import supervision
from newkinds.errors import InputError
from newkinds.journal import VERSION_DIGITS, Entry
from newkinds.labels import UNLABELLED, IntArray
from newkinds.metrics import accuracy
from newkinds.predictions import table_writer
from newkinds.run_folder import (
    FEATURES_FILE,
    MAP_FILE,
    MODEL_FILE,
    PICTURES,
    PREDICTIONS_TABLE,
    PREDICTIONS_TEXT,
    RUN_FILE,
    RUN_FILES,
    VERSIONS,
    as_standing,
    expected_checksum,
    file_checksum,
    read_table,
)
from newkinds.run_record import format_record
from newkinds.runtime import report_progress
from newkinds.staging import give_usual_mode, refuse_existing, staged
from newkinds.standing import SampleState, lineage

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
    table = as_standing(before[1], samples, _called(record["categories"]))
    comparison = compare_states(before, ({**record, "categories": _called(record["categories"])}, table))
    if out is not None:
        place = Path(out)
        with staged(place, folder=True, replace=refuse_existing, ours=RUN_FILES) as stage:
            _write(stage, record, model, _with_pictures(opened, table), opened)
            for name in (FEATURES_FILE, MAP_FILE):
                if (opened.folder / name).is_file():
                    shutil.copyfile(opened.folder / name, stage / name)
        return Refit(place, None, comparison, time.perf_counter() - began)
    entry = _add_version(opened, record, model, table, n_entries, reason)
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
    wanted = Wanted(
        ids,
        known,
        samples.categories,
        taught.labels,
        lineage(run.fitted.categories_.tolist(), run.done_since_refit),
        taught.changed,
        taught.held if lam is None and temperature is None else None,  # other settings may move anything
    )
    model = refit_model(
        run.fitted,
        features,
        wanted,
        lam=float(chosen["lam"] if lam is None else lam),
        temperature=temperature,
        size_ratio=chosen.get("size_ratio") or 1.0,
    )
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
    )


def _new_record(
    run: OpenedRun, model: "CategoryDiscoverer", samples: SampleState, seconds: float
) -> dict[str, Any]:
    """`run.json` of the version."""
    earlier = run.record
    categories = []
    for category in earlier["categories"]:
        members = samples.categories == category["id"]
        categories.append(
            {
                "id": category["id"],
                "name": category["key"],
                "called": category["name"] if category["named"] else None,
                "kind": category["kind"],
                "size": int(members.sum()),
                "labelled": int((members & samples.labelled).sum()),
                "suggestion": category.get("suggestion"),
                "stability": None,
            }
        )
    n = len(model.objective_curve_)
    curve = [[e + 1, float(model.objective_curve_[e])] for e in range(n)]
    record = {key: value for key, value in earlier.items() if key not in ("checksums", "journal")}
    chosen = {**earlier["chosen"], "lam": model.lam_, "temperature": model.temperature_}
    return record | {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "parameters": {**earlier["parameters"], "n_categories": len(categories)},
        "chosen": {**chosen, "n_categories": len(categories)},
        "curves": {**earlier["curves"], "objective": curve},
        "categories": categories,
        "score": _score(run, samples.categories),
        "stopped": model.stopped_,
        "n_iter": model.n_iter_,
        "seconds": {**earlier["seconds"], "refit": round(seconds, 3)},
        "versions": {**earlier["versions"], "newkinds": __version__},
        "parent": {"run": run.folder.name, "entry": len(run.entries)},
        "last": dict(zip(("id", "key"), run.last_used, strict=True)),
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


def _called(categories: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Categories of a record as `newkinds.standing` has them."""
    return [
        {**c, "key": c["name"], "name": c["called"] or c["name"], "named": c["called"] is not None}
        for c in categories
    ]


def _with_pictures(run: OpenedRun, table: pa.Table) -> pa.Table:
    first = read_table(run.folder, run.first_record, None, pictures=True)
    return table.append_column(PICTURES, first[PICTURES]) if PICTURES in first.column_names else table


def _add_version(
    run: OpenedRun,
    record: dict[str, Any],
    model: "CategoryDiscoverer",
    table: pa.Table,
    n_entries: int,
    reason: str,
) -> Entry:
    version = _next_version(run)

    def check(place: Path) -> None:
        """A version that no entry names is what a killed refit left."""
        run.refresh()
        if any(entry.op == "refit" and entry.outcome["version"] == place.name for entry in run.entries):
            raise InputError(f"{run.folder} was refitted by another command meanwhile; see `newkinds history`")

    def check_unedited() -> None:
        run.refresh()
        if len(run.entries) != n_entries:
            raise InputError(f"{run.folder} was edited while it was refitted; refit it again")

    with run.held():  # from the version to its entry: another refit may not put its own in between
        check_unedited()
        with staged(run.folder / VERSIONS / version, folder=True, replace=check) as stage:
            _write(stage, record, model, table, run)
        check_unedited()  # whoever listens to the progress may edit
        return run.append("refit", {}, {"version": version}, by="refit", reason=reason)


def _next_version(run: OpenedRun) -> str:
    numbers = [int(entry.outcome["version"]) for entry in run.entries if entry.op == "refit"]
    return f"{max(numbers, default=1) + 1:0{VERSION_DIGITS}d}"


def _write(
    folder: Path, record: dict[str, Any], model: "CategoryDiscoverer", table: pa.Table, run: OpenedRun
) -> None:
    """The files of a version; the features, and the map, are those of the run."""
    from safetensors.numpy import save_file

    report_progress("writing the version", 0, 1)
    without = [name for name in table.column_names if name != PICTURES]
    with table_writer(folder / PREDICTIONS_TEXT, "csv") as write:
        write(table.select(without))
    with table_writer(folder / PREDICTIONS_TABLE, "parquet") as write:
        write(table)
    save_file({name: np.ascontiguousarray(a) for name, a in model.fitted_arrays().items()}, folder / MODEL_FILE)
    give_usual_mode(folder / MODEL_FILE)
    checksums = {name: file_checksum(folder / name) for name in (MODEL_FILE, PREDICTIONS_TABLE)}
    for name in (FEATURES_FILE, MAP_FILE):
        checksum = expected_checksum(run.first_record, name)
        if checksum is None and name == FEATURES_FILE:  # a run of before there were checksums
            checksum = file_checksum(run.folder / name)
        if checksum is not None:
            checksums[name] = checksum
    (folder / RUN_FILE).write_text(format_record(record, checksums), "utf-8")
    report_progress("writing the version", 1, 1)
