"""A run opened: its state in memory, its journal on the disk.

An operation works out its outcome, writes one entry into the journal, then applies that outcome to what is in
memory, as a later reader will. Before it begins it reads what others have written since. So the command line,
Python and a studio may edit a run side by side.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from newkinds.errors import InputError
from newkinds.journal import Entry, Journal, effective_entries, since_version
from newkinds.kinds import read_run_features
from newkinds.labels import IntArray
from newkinds.past import Past
from newkinds.run_folder import (
    PAST_FILE,
    as_standing,
    check_file,
    expected_checksum,
    find_category,
    has_version,
    read_record,
    read_table,
    run_file,
    sample_state,
)
from newkinds.staging import PlaceTaken, claimed
from newkinds.standing import SampleState, Standing, last_used, lineage

if TYPE_CHECKING:
    from newkinds.methods import CategoryDiscoverer

Category = str | int
"""A category by its name or key, or by its id where it is an int."""
Samples = Sequence[str] | Sequence[int] | npt.NDArray[Any]
"""Samples by their ids, by their rows, or by a mask of all."""
PATIENCE, PAUSE = 5.0, 0.02
"""Seconds that an operation waits for another command to finish, and between two looks."""
SEVERAL = -1
"""In place of the row of an id that several samples have."""


class OpenedRun:
    """A run as it stands, kept up to date with its journal.

    Parameters
    ----------
    run : path
        A run folder.
    as_of : int, optional
        The run as it stood after that entry of the journal, to be read only.

    Attributes
    ----------
    folder : Path
    record : dict
        As `newkinds.run_folder.read_run` gives it, after all that was done.
    entries : list of Entry
        The whole journal.
    """

    def __init__(self, run: str | Path, as_of: int | None = None) -> None:
        self.folder = Path(run).resolve()
        self.first_record = read_record(self.folder)
        self._journal = Journal(self.folder, as_of)
        self._last = last_used(self.first_record, self._journal.entries)
        self._done: list[Entry] = []
        self._undone: list[Entry] = []
        self._version: str | None = None
        self._base = self.first_record
        self._standing = Standing(self.first_record)
        self._replay()

    @property
    def record(self) -> dict[str, Any]:
        state = {"entries": len(self._journal.entries), "version": self.version}
        return {**self._standing.record, "journal": state}

    @property
    def entries(self) -> list[Entry]:
        return self._journal.entries

    @property
    def version(self) -> str | None:
        """The version that the run is at; None for its first."""
        return self._version

    @property
    def done(self) -> list[Entry]:
        """What was done and not undone."""
        return self._done

    @property
    def done_since_refit(self) -> list[Entry]:
        """The same since the present version was made."""
        return since_version(self._done)[1]

    @property
    def batch_since(self) -> int | None:
        """The entry of the journal after which the batch of arrivals began that goes on.

        None if none does: not either where somebody has edited the run since, or where what it was is not kept.
        """
        since = self._base.get("window", {}).get("since")
        if since is None:
            return None
        before, _ = effective_entries(self.entries[:since])
        goes_on = self._done[: len(before)] == before
        goes_on &= all(entry.op == "update" for entry in self._done[len(before) :])
        return since if goes_on and has_version(self.folder, self.version_after(since)) else None

    def version_after(self, n: int) -> str | None:
        """The version that the run was at after so many entries; None for its first."""
        return since_version(effective_entries(self.entries[:n])[0])[0]

    @property
    def before_batch(self) -> "OpenedRun":
        """The run as it was before the batch of arrivals that goes on; if none does, as it is."""
        since = self.batch_since
        return self if since is None else OpenedRun(self.folder, since)

    @property
    def undoable(self) -> Entry | None:
        """What `undo` would take back."""
        return self._done[-1] if self._done else None

    @property
    def redoable(self) -> Entry | None:
        """What `redo` would do again."""
        return self._undone[-1] if self._undone else None

    @property
    def samples(self) -> SampleState:
        """What is known of each sample, as it stands. Do not change it."""
        if self._standing.samples is None:
            self._replay(with_samples=True)
        assert self._standing.samples is not None
        return self._standing.samples

    @property
    def predictions(self) -> pa.Table:
        """The samples as they stand, as `newkinds.run_folder.read_predictions` gives them, without pictures."""
        return as_standing(self._table, self.samples, self._standing.record["categories"])

    @cached_property
    def features(self) -> npt.NDArray[Any]:
        """Of unit length, but for rounding; a memory map."""
        return read_run_features(self.folder, self._base)

    @cached_property
    def _table(self) -> pa.Table:
        """The predictions of the present version as they were written."""
        return read_table(self.folder, self._base, self._version)

    @cached_property
    def fitted(self) -> "CategoryDiscoverer":
        """The model of the present version as it was fitted."""
        from newkinds.runs import load_fitted

        return load_fitted(self.folder, self._version)

    @cached_property
    def _stored_past(self) -> Past | None:
        """What is no longer kept, as the present version was written."""
        return _read_past(self.folder, {**self._base, "journal": {"version": self._version}})

    @property
    def past(self) -> Past | None:
        """What is no longer kept of the samples, with the categories as they stand; None if all are kept."""
        past = self._stored_past
        if past is None:
            return None
        return past.after(lineage(past.categories.tolist(), self.done_since_refit))

    @property
    def last_used(self) -> tuple[int, int]:
        """The largest id and the largest number of a key that the run ever used."""
        return self._last

    @property
    def model(self) -> "CategoryDiscoverer":
        """The fitted model with the categories as they stand."""
        return self._model_with(self._standing.record["categories"], {})

    def category(self, category: Category) -> dict[str, Any]:
        """A category of the record by its name, key or id."""
        if isinstance(category, str):
            return find_category(self._standing.record, category)
        for known in self._standing.record["categories"]:
            if known["id"] == category:
                return dict(known)
        raise InputError(f"the run has no category with the id {category}")

    def members(self, category: Category) -> IntArray:
        """The rows of a category's samples."""
        return np.flatnonzero(self.samples.categories == self.category(category)["id"])

    def rows(self, samples: Samples) -> IntArray:
        """Rows of samples, ascending; InputError names those that the run does not have."""
        n_samples = self._base["source"]["samples"]
        chosen = np.asarray(samples)
        if chosen.dtype == bool:
            if chosen.shape != (n_samples,):
                raise InputError(f"a mask of samples should have the shape ({n_samples},); got {chosen.shape}")
            chosen = np.flatnonzero(chosen)
        elif chosen.dtype.kind in "OU" and chosen.size:
            chosen = self._rows_of_ids([str(name) for name in chosen.tolist()])
        if not chosen.size:
            raise InputError("no samples were given; name at least one")
        if chosen.dtype.kind not in "iu" or chosen.ndim != 1:
            raise InputError("samples should be given by their ids, their rows or a mask of all samples")
        if chosen.min() < 0 or chosen.max() >= n_samples:
            raise InputError(f"rows should be from 0 to {n_samples - 1}; got {chosen.min()} to {chosen.max()}")
        return np.unique(chosen.astype(np.int64))

    def refresh(self) -> list[Entry]:
        """Read what others have done since, and return it."""
        added = self._journal.refresh()
        if len(added) == 1:
            self._take(added[0])
        elif added:  # what is done and undone is known of the whole journal only
            self._count(added)
            self._replay(with_samples=self._standing.samples is not None)
        return added

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the run, up to date; another command that is writing is waited for a little.

        Operations hold it themselves. Whoever looks first, then does something, holds it around both.
        """
        waits_until = time.monotonic() + PATIENCE
        while True:
            claim = claimed(self.folder)
            try:
                claim.__enter__()
                break
            except PlaceTaken:
                if time.monotonic() > waits_until:
                    raise
                time.sleep(PAUSE)
        try:
            self.refresh()
            yield
        finally:
            claim.__exit__(None, None, None)

    def append(
        self, op: str, arguments: dict[str, Any], outcome: dict[str, Any], *, by: str = "person", reason: str = ""
    ) -> Entry:
        """Write an entry and apply it. The caller holds the run."""
        entry = self._journal.append(op, arguments, outcome, by=by, reason=reason)
        self._take(entry)
        return entry

    def _do(self, op: str, arguments: dict[str, Any], outcome: Callable[[], dict[str, Any]], reason: str) -> Entry:
        samples = self._base.get("samples")
        with self.held():
            if self._base.get("samples") != samples:  # whoever asked may have meant others by these rows
                raise InputError(f"samples came to {self.folder} or went meanwhile; look at it again")
            return self.append(op, arguments, outcome(), reason=reason)

    def _take(self, entry: Entry) -> None:
        """Apply an entry that is in the journal."""
        self._count([entry])
        last = self._done[-1] if entry.op == "undo" else entry
        self._done, self._undone = effective_entries(self._journal.entries)
        again = self._done[-1] if entry.op == "redo" else entry
        if any(one.version is not None for one in (entry, last, again)):
            self._replay(with_samples=self._standing.samples is not None)
        elif entry.op == "undo":
            self._standing.revert()
        else:
            self._standing.apply(again)

    def _count(self, entries: Sequence[Entry]) -> None:
        """Remember the ids and keys that entries used."""
        last = dict(zip(("id", "key"), self._last, strict=True))
        self._last = last_used({"categories": [], "last": last}, entries)

    def _replay(self, with_samples: bool = False) -> None:
        """Read the present version, and apply what was done since."""
        before, samples_before = self._version, self._base.get("samples")
        self._done, self._undone = effective_entries(self._journal.entries)
        self._version, later = since_version(self._done)
        self._base = self.first_record if self._version is None else read_record(self.folder, self._version)
        if self._version != before:
            for name in ("_table", "fitted", "_stored_past"):
                self.__dict__.pop(name, None)
        if self._base.get("samples") != samples_before:
            for name in ("features", "places_of_ids"):
                self.__dict__.pop(name, None)
        self._standing = Standing(self._base, sample_state(self._table) if with_samples else None)
        for entry in later:
            self._standing.apply(entry)

    def _rows_of_ids(self, ids: Sequence[str]) -> IntArray:
        places = self.places_of_ids
        rows = [places.get(name) for name in ids]
        missing = [name for name, row in zip(ids, rows, strict=True) if row is None]
        if missing:
            more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            raise InputError(f"the run has no sample {missing[0]!r}{more}")
        several = [name for name, row in zip(ids, rows, strict=True) if row == SEVERAL]
        if several:
            raise InputError(f"several samples of the run are called {several[0]!r}; name samples by their rows")
        return np.array(rows, dtype=np.int64)

    @cached_property
    def places_of_ids(self) -> dict[str, int]:
        """The row of each id; -1 for one that several samples have."""
        places: dict[str, int] = {}
        for row, name in enumerate(self._table["id"].to_pylist()):
            places[name] = SEVERAL if name in places else row
        return places

    def _features_of(self, rows: IntArray) -> npt.NDArray[np.float32]:
        return np.asarray(self.features[rows], dtype=np.float32)

    def _model_with(
        self, categories: list[dict[str, Any]], retired: Mapping[int, int | None]
    ) -> "CategoryDiscoverer":
        fitted = copy(self.fitted)
        _, later = since_version(self._done)
        became = lineage(fitted.categories_.tolist(), later)
        became = {i: now if now is None else retired.get(now, now) for i, now in became.items()}
        ids = np.array([c["id"] for c in categories], dtype=np.int64)
        known = np.array([c["id"] for c in categories if c["kind"] == "known"], dtype=np.int64)
        return fitted.regroup(ids, known, self.samples.categories, became)


def _read_past(folder: str | Path, record: dict[str, Any]) -> Past | None:
    """The past of a run, or of the version that its record is at, as it was written; None if nothing went.

    `record` is that of the version, with `journal` as `newkinds.run_folder.read_run` gives it.
    """
    if expected_checksum(record, PAST_FILE) is None:
        return None
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    path = run_file(folder, record, PAST_FILE)
    check_file(path, record)
    try:
        arrays = load_file(path)
        return Past.restored(arrays, arrays["scatter"].shape[0] if "scatter" in arrays else 0)
    except InputError as error:
        raise InputError(f"{path} is damaged: {error}") from error
    except (OSError, SafetensorError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error  # the last four: types that NumPy lacks
