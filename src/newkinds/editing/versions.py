"""Versions of a run: what a refit or an update writes, and the entry that makes it count.

A version is written beside the others and put in its place whole; the entry in the journal that names it comes
last. So whatever is killed at any moment has not happened: a version that no entry names is ignored, and the next
one takes its place. Undoing is an ordinary undo.
"""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from newkinds import __version__
from newkinds.editing.opened_run import OpenedRun
from newkinds.errors import InputError
from newkinds.journal import OUTCOMES, Entry
from newkinds.past import Past
from newkinds.predictions import table_writer
from newkinds.run_folder import (
    FEATURES_FILE,
    MAP_FILE,
    MODEL_FILE,
    OF_SAMPLES,
    PAST_FILE,
    PICTURES,
    PREDICTIONS_TABLE,
    PREDICTIONS_TEXT,
    RUN_FILE,
    VERSIONS,
    expected_checksum,
    file_checksum,
    has_version,
    read_record,
    read_table,
    run_file,
)
from newkinds.run_record import VERSION_DIGITS, format_record, parse_record
from newkinds.runtime import report_progress
from newkinds.staging import discard, give_usual_mode, staged
from newkinds.standing import SampleState

if TYPE_CHECKING:
    from newkinds.methods import CategoryDiscoverer

Features = npt.NDArray[np.float16]
Outcome = dict[str, Any]
DONE = {"refit": "refitted", "update": "updated"}
"""What was done to a run, for errors."""


class EditedMeanwhile(InputError):
    """Somebody edited a run while its next version was worked out."""


def next_version(run: OpenedRun) -> str:
    """The name of the next version: one that no entry of the journal has, undone ones neither."""
    numbers = [int(entry.version) for entry in run.entries if entry.version is not None]
    return f"{max(numbers, default=1) + 1:0{VERSION_DIGITS}d}"


def version_record(
    run: OpenedRun, categories: list[dict[str, Any]], samples: SampleState, past: Past | None = None
) -> dict[str, Any]:
    """`run.json` of a version, as far as its categories and samples say; the rest is as the run has it.

    That holds for `score` and `suspected_labels` too, which are about samples as they were: say them anew. `window`
    is of an update; whatever else makes a version decides for good.

    Parameters
    ----------
    run : OpenedRun
    categories : list of dict
        As `run.record` has them, in the order of their ids; those that are born with it too.
    samples : SampleState
        What the version says of its samples.
    past : Past, optional
        What is no longer kept; by default as the run has it.
    """
    earlier = run.record
    past = run.past if past is None else past
    described = []
    for category in categories:
        members = samples.categories == category["id"]
        described.append(
            {
                "id": category["id"],
                "name": category["key"],
                "called": category["name"] if category["named"] else None,
                "kind": category["kind"],
                "size": int(members.sum()),
                "labelled": int((members & samples.labelled).sum()),
                "suggestion": category.get("suggestion"),
                "stability": None,
                **({"let_go": n_gone} if past is not None and (n_gone := past.count_of(category["id"])) else {}),
            }
        )
    counts = {"samples": len(samples.categories), "labelled": int(samples.labelled.sum())}
    record = {key: value for key, value in earlier.items() if key not in ("checksums", "journal", "window")}
    return record | {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "source": {**earlier["source"], **counts},
        "parameters": {**earlier["parameters"], "n_categories": len(described)},
        "chosen": {**earlier["chosen"], "n_categories": len(described)},
        "categories": described,
        "versions": {**earlier["versions"], "newkinds": __version__},
        "parent": {"run": run.folder.name, "entry": len(run.entries)},
        "last": dict(zip(("id", "key"), run.last_used, strict=True)),
    }


def pictures_of(run: OpenedRun) -> pa.ChunkedArray | None:
    """The pictures of a run's samples as they stand; None where there are none."""
    version = run.record.get("samples")
    table = read_table(run.folder, read_record(run.folder, version), version, pictures=True)
    return table[PICTURES] if PICTURES in table.column_names else None


def write_version(
    stage: Path,
    record: dict[str, Any],
    model: "CategoryDiscoverer",
    table: pa.Table,
    run: OpenedRun,
    features: Features | None = None,
    places: npt.NDArray[np.float32] | None = None,
    past: Past | None = None,
) -> None:
    """Write the files of a version into an existing, empty folder; `run.json` comes last.

    Parameters
    ----------
    stage : Path
    record : dict
        `run.json` without checksums; see `version_record`.
    model : CategoryDiscoverer
        Its `labels_` are those of all samples.
    table : pyarrow.Table
        Predictions; with pictures only where the samples are its own and have any.
    run : OpenedRun
        The run, as it stood when the version was worked out.
    features : ndarray of float16 of shape (samples, features), optional
        Of unit length, of samples of its own. Without, the samples, and their map, are those of the run.
    places : ndarray of shape (samples, 2), optional
        The map of samples of its own; `map` of the record says how it was made. Without, they have none.
    past : Past, optional
        What is no longer kept; by default as the run has it.
    """
    from safetensors.numpy import save_file

    from newkinds.runs import WRITTEN_ROWS

    report_progress("writing the version", 0, 1)
    without = [name for name in table.column_names if name != PICTURES]
    with (
        table_writer(stage / PREDICTIONS_TEXT, "csv") as write_text,
        table_writer(stage / PREDICTIONS_TABLE, "parquet") as write_table,
    ):
        for first in range(0, len(table), WRITTEN_ROWS):
            part = table.slice(first, WRITTEN_ROWS)
            write_text(part.select(without))
            write_table(part)
    save_file({name: np.ascontiguousarray(a) for name, a in model.fitted_arrays().items()}, stage / MODEL_FILE)
    give_usual_mode(stage / MODEL_FILE)
    past = run.past if past is None else past
    if past is not None and past.n_samples:
        save_file(past.arrays(), stage / PAST_FILE)
        give_usual_mode(stage / PAST_FILE)
    own = [name for name in (MODEL_FILE, PREDICTIONS_TABLE, PAST_FILE) if (stage / name).is_file()]
    checksums = {name: file_checksum(stage / name) for name in own}
    if features is None:
        checksums |= _checksums_of_samples(run)
    else:
        record = _write_samples(stage, record, features, places)
        checksums |= {name: file_checksum(stage / name) for name in OF_SAMPLES if (stage / name).is_file()}
    path = stage / RUN_FILE
    path.write_text(format_record(record, checksums), "utf-8")
    parse_record(path.read_bytes(), path)  # one that could not be read again should be known of now
    report_progress("writing the version", 1, 1)


def write_separately(
    stage: Path,
    record: dict[str, Any],
    model: "CategoryDiscoverer",
    table: pa.Table,
    run: OpenedRun,
    features: Features | None = None,
    places: npt.NDArray[np.float32] | None = None,
    past: Past | None = None,
) -> None:
    """Write a run folder of its own in place of a version, see `write_version`: all of its files are there."""
    record = {key: value for key, value in record.items() if key != "samples"}
    if features is None:
        pictures = pictures_of(run)
        table = table if pictures is None else table.append_column(PICTURES, pictures)
        for name in OF_SAMPLES:
            path = run_file(run.folder, run.record, name)
            if path.is_file():
                shutil.copyfile(path, stage / name)
    write_version(stage, record, model, table, run, features, places, past)


def add_version(
    run: OpenedRun,
    op: str,
    record: dict[str, Any],
    model: "CategoryDiscoverer",
    table: pa.Table,
    *,
    features: Features | None = None,
    places: npt.NDArray[np.float32] | None = None,
    past: Past | None = None,
    arguments: dict[str, Any] | None = None,
    outcome: Outcome | Callable[[], Outcome] | None = None,
    n_entries: int,
    reason: str = "",
) -> Entry:
    """Make a version of a run: whole or not at all.

    Parameters
    ----------
    run, record, model, table, features, places, past
        See `write_version`. A version with features of its own is named as the one that its samples are of.
    op : {"refit", "update"}
    arguments : dict, optional
        What was asked for, for the journal.
    outcome : dict or callable, optional
        What came of it, for the journal; the name of the version is added. A callable is called when the run is
        held.
    n_entries : int
        Entries of the journal when the version was worked out. If there are more now, it is refused.
    reason : str
    """
    again = EditedMeanwhile(f"{run.folder} was edited while it was {DONE[op]}; {op} it again")

    def check(place: Path) -> None:
        """A version that no entry names is what a killed command left."""
        run.refresh()
        for entry in run.entries:
            if entry.version == place.name:
                raise EditedMeanwhile(
                    f"{run.folder} was {DONE[entry.op]} by another command meanwhile; see `newkinds history`"
                )

    def check_unedited() -> None:
        run.refresh()
        if len(run.entries) != n_entries:
            raise again

    with run.held():  # from the version to its entry: another one may not come in between
        check_unedited()
        version = next_version(run)
        result = {"version": version, **(outcome() if callable(outcome) else outcome or {})}
        OUTCOMES[op].check("outcome", result)
        if features is not None:
            record = {**record, "samples": version}
        with staged(run.folder / VERSIONS / version, folder=True, replace=check) as stage:
            write_version(stage, record, model, table, run, features, places, past)
        check_unedited()  # whoever listens to the progress may edit
        return run.append(op, arguments or {}, result, by=op, reason=reason)


def forget_versions(run: OpenedRun, keep_versions: int) -> None:
    """Remove all but the last versions of a run: one can go back no further.

    Those stay, too, whose samples they use, and that before the batch that goes on.
    """
    with run.held():
        there = [
            version for entry in run.entries if (version := entry.version) and has_version(run.folder, version)
        ]
        needed = [run.version, None if run.batch_since is None else run.version_after(run.batch_since)]
        stays = {*sorted(there, key=int)[-keep_versions:], *filter(None, needed)}
        stays |= {samples for version in stays if (samples := read_record(run.folder, version).get("samples"))}
        for version in there:
            if version not in stays:
                folder = run.folder / VERSIONS / version
                (folder / RUN_FILE).unlink()  # first: without it there is no version, whenever this is killed
                discard(folder)


def _write_samples(
    stage: Path, record: dict[str, Any], features: Features, places: npt.NDArray[np.float32] | None
) -> dict[str, Any]:
    """Write what is about samples alone, and return what the record says then."""
    n_samples = record["source"]["samples"]
    if features.ndim != 2 or len(features) != n_samples or features.dtype != np.float16:
        raise ValueError(
            f"features should be float16 of {n_samples} samples; got {features.dtype} {features.shape}"
        )
    np.save(stage / FEATURES_FILE, features)
    if places is not None:
        if places.shape != (n_samples, 2):
            raise ValueError(f"the map should have a place for each of {n_samples} samples; got {places.shape}")
        np.save(stage / MAP_FILE, places)
    described = {**record.get("features", {}), "sha256": file_checksum(stage / FEATURES_FILE)}
    return {**record, "features": described, "map": None if places is None else record["map"]}


def _checksums_of_samples(run: OpenedRun) -> dict[str, str]:
    """Checksums of the features and the map that a version shares with the run."""
    record = run.record
    checksums = {name: expected_checksum(record, name) for name in OF_SAMPLES}
    if checksums[FEATURES_FILE] is None:  # a run of before there were checksums
        checksums[FEATURES_FILE] = file_checksum(run_file(run.folder, record, FEATURES_FILE))
    return {name: checksum for name, checksum in checksums.items() if checksum is not None}
