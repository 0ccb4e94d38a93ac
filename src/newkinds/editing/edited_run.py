"""A run opened for editing: its state in memory, operations on it, its journal on the disk.

An operation works out its outcome, writes one entry into the journal, then applies that outcome to what is in
memory, as a later reader will. Before it begins it reads what others have written since. So the command line, Python
and a studio may edit a run side by side.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from newkinds.editing.changes import Change
from newkinds.editing.naming_rules import checked_name
from newkinds.editing.splitting import Split, split_rows
from newkinds.errors import InputError
from newkinds.journal import Entry, Journal, effective_entries, since_version
from newkinds.kinds import read_run_features
from newkinds.labels import IntArray
from newkinds.run_folder import as_standing, find_category, read_record, read_table, sample_state
from newkinds.staging import PlaceTaken, claimed
from newkinds.standing import SampleState, Standing, last_used, lineage, packed_rows
from newkinds.wording import option

if TYPE_CHECKING:
    from newkinds.methods import CategoryDiscoverer

Category = str | int
"""A category by its name or key, or by its id where it is an int."""
Samples = Sequence[str] | Sequence[int] | npt.NDArray[Any]
"""Samples by their ids, by their rows, or by a mask of all."""
PATIENCE, PAUSE = 5.0, 0.02
"""Seconds that an operation waits for another command to finish, and between two looks."""


class EditedRun:
    """A run that is being edited.

    Parameters
    ----------
    run : path
        A run folder.

    Attributes
    ----------
    folder : Path
    record : dict
        As `newkinds.run_folder.read_run` gives it, after all that was done.
    entries : list of Entry
        The whole journal.
    """

    def __init__(self, run: str | Path) -> None:
        self.folder = Path(run).resolve()
        self._first_record = read_record(self.folder)
        self._journal = Journal(self.folder)
        self._last = last_used(self._first_record, self._journal.entries)
        self._replay()

    # What there is

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
    def undoable(self) -> Entry | None:
        """What `undo` would take back."""
        return self._done[-1] if self._done else None

    @property
    def redoable(self) -> Entry | None:
        """What `redo` would do again."""
        return self._undone[-1] if self._undone else None

    @property
    def samples(self) -> SampleState:
        """Category, label, confirmation, confidence and novelty of each sample, as they stand. Do not change it."""
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
        return read_run_features(self.folder, self._first_record)

    @cached_property
    def _table(self) -> pa.Table:
        """The predictions of the present version as they were written."""
        return read_table(self.folder, self._base, self._version)

    @cached_property
    def _fitted(self) -> "CategoryDiscoverer":
        """The model of the present version as it was fitted."""
        from newkinds.runs import load_fitted

        return load_fitted(self.folder, self._version)

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
        n_samples = self._first_record["source"]["samples"]
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

    # Operations

    def rename(self, category: Category, name: str, *, reason: str = "") -> Entry:
        """Give a category a name, for good. Its key (new-3, or its label) takes the name away again."""

        def outcome() -> dict[str, Any]:
            chosen = self.category(category)
            wanted = checked_name(name, self._standing.record, but=chosen["id"])
            return {"id": chosen["id"], "name": None if wanted == chosen["key"] else wanted}

        return self._do("rename", {"category": category, "name": name}, outcome, reason)

    def merge(
        self,
        categories: Sequence[Category],
        *,
        into: Category | None = None,
        known: bool = False,
        reason: str = "",
    ) -> Entry:
        """Make one category of several.

        Parameters
        ----------
        categories : sequence of str or int
            Two or more.
        into : str or int, optional
            The one that stays; by default a known one, or else the largest. The ids of the others are retired.
        known : bool
            Whether two known categories may be merged.

        The name of the one that stays is kept; a new one that nobody has named takes the name that a person gave to
        another.
        """

        def outcome() -> dict[str, Any]:
            merged = {c["id"]: c for c in map(self.category, categories)}
            heir = None if into is None else self.category(into)
            if heir is not None:
                merged.setdefault(heir["id"], heir)
            if len(merged) < 2:
                raise InputError("merging takes two different categories; name another one")
            if sum(c["kind"] == "known" for c in merged.values()) > 1 and not known:
                both = " and ".join(repr(c["name"]) for c in merged.values() if c["kind"] == "known")
                asking = option("known=True", "--known")
                raise InputError(f"{both} are known: their labels say that they differ; to merge them give {asking}")
            order = sorted(merged.values(), key=lambda c: (c["kind"] != "known", -c["size"], c["id"]))
            kept = heir or order[0]
            if kept["kind"] == "new" and order[0]["kind"] == "known":
                raise InputError(f"{order[0]['name']!r} is known, so it is the one that stays; merge into it")
            gone = [c for c in order if c["id"] != kept["id"]]
            change = Change(self.samples)
            for category in gone:
                change.move(np.flatnonzero(self.samples.categories == category["id"]), kept["id"])
                change.retire(category["id"], kept["id"])
            names = [c["name"] for c in gone if c["named"]]
            if names and not kept["named"] and kept["kind"] == "new":
                change.name(kept["id"], names[0])
            self._judge(change, np.flatnonzero(np.isin(self.samples.categories, list(merged))))
            return change.outcome()

        arguments = {"categories": list(categories), "into": into, "known": known}
        return self._do("merge", arguments, outcome, reason)

    def preview_split(self, category: Category, k: int | None = None) -> Split:
        """How a category would be split: nothing is written."""
        return split_rows(self._fitted, self.features, self.members(category), k)

    def split(
        self,
        category: Category,
        k: int | None = None,
        *,
        parts: Sequence[Samples] | None = None,
        reason: str = "",
    ) -> Entry:
        """Make several categories of one; the largest part keeps its id and name.

        Parameters
        ----------
        category : str or int
        k : int, optional
            Into how many; by default as many as are best apart.
        parts : sequence of samples, optional
            The parts, such as those of a preview. Together they are all of the category.
        """

        def outcome() -> dict[str, Any]:
            chosen, members = self.category(category), self.members(category)
            rows = self.preview_split(category, k).parts if parts is None else [self.rows(part) for part in parts]
            together = np.sort(np.concatenate(rows))
            if len(rows) < 2 or not np.array_equal(together, members):
                raise InputError(
                    f"the parts of a split should be two or more and hold each of the {len(members)} samples of "
                    f"{chosen['name']!r} once"
                )
            change = Change(self.samples)
            for part in sorted(rows, key=lambda part: (-len(part), part[0]))[1:]:
                change.move(part, self._bear(change))
            return change.outcome()

        return self._do("split", {"category": category, "k": k}, outcome, reason)

    def move(self, samples: Samples, category: Category, *, reason: str = "") -> Entry:
        """Put samples into a category, by a person's word: whatever they were labelled, they belong there."""

        def outcome() -> dict[str, Any]:
            rows, target = self.rows(samples), self.category(category)
            change = Change(self.samples)
            change.move(rows, target["id"])
            change.confirm(rows)
            return self._checked(change, f"these samples are confirmed in {target['name']!r} already")

        return self._do("move", {"samples": self._packed(samples), "category": category}, outcome, reason)

    def confirm(self, samples: Samples, *, reason: str = "") -> Entry:
        """Say that samples belong to the categories they are in: that is as good as a label."""

        def outcome() -> dict[str, Any]:
            change = Change(self.samples)
            change.confirm(self.rows(samples))
            return self._checked(change, "these samples are confirmed already")

        return self._do("confirm", {"samples": self._packed(samples)}, outcome, reason)

    def create(self, samples: Samples, name: str | None = None, *, reason: str = "") -> Entry:
        """Make a new category of samples; they are confirmed in it."""

        def outcome() -> dict[str, Any]:
            rows = self.rows(samples)
            wanted = None if name is None else checked_name(name, self._standing.record)
            change = Change(self.samples)
            change.move(rows, self._bear(change, wanted))
            change.confirm(rows)
            return change.outcome()

        return self._do("create", {"samples": self._packed(samples), "name": name}, outcome, reason)

    def dissolve(self, category: Category, *, known: bool = False, reason: str = "") -> Entry:
        """Say that a category is none: each of its samples goes to its next most probable one.

        Labels and confirmations of its samples no longer count. A known category is dissolved only with `known`.
        """

        def outcome() -> dict[str, Any]:
            chosen, members = self.category(category), self.members(category)
            if chosen["kind"] == "known" and not known:
                asking = option("known=True", "--known")
                raise InputError(f"{chosen['name']!r} is known, by its labels; to dissolve it give {asking}")
            if len(self._standing.record["categories"]) < 2:
                raise InputError("the last category of a run cannot be dissolved")
            change = Change(self.samples)
            change.retire(chosen["id"], None)
            change.withdraw(members)
            if len(members):
                model = self._model_after(change)
                result = model.assess(self._features_of(members))
                for target in np.unique(result.categories).tolist():
                    change.move(members[result.categories == target], target)
                change.judge(members, result.confidence, result.novelty)
            return change.outcome()

        return self._do("dissolve", {"category": category, "known": known}, outcome, reason)

    def undo(self, *, reason: str = "") -> Entry:
        """Take back the last thing that was done."""
        return self._do("undo", {}, lambda: {"entry": self._next(self.undoable, "undo").n}, reason)

    def redo(self, *, reason: str = "") -> Entry:
        """Do again what was undone last."""
        return self._do("redo", {}, lambda: {"entry": self._next(self.redoable, "redo").n}, reason)

    def record_change(self, op: str, arguments: dict[str, Any], make: Callable[[], Change], reason: str = "") -> Entry:
        """Write one entry of a change that `make` works out, once the run is held and up to date."""
        return self._do(op, arguments, lambda: make().outcome(), reason)

    def refresh(self) -> list[Entry]:
        """Read what others have done since, and return it."""
        added = self._journal.refresh()
        for entry in added:
            self._take(entry)
        return added

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the run, up to date; another command that is writing is waited for a little."""
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

    # How it is done

    def _do(self, op: str, arguments: dict[str, Any], outcome: Callable[[], dict[str, Any]], reason: str) -> Entry:
        with self.held():
            return self.append(op, arguments, outcome(), reason=reason)

    def _take(self, entry: Entry) -> None:
        """Apply an entry that is in the journal."""
        self._last = last_used({"categories": [], "last": dict(zip(("id", "key"), self._last, strict=True))}, [entry])
        last = self._done[-1] if entry.op == "undo" else entry
        self._done, self._undone = effective_entries(self._journal.entries)
        again = self._done[-1] if entry.op == "redo" else entry
        if "refit" in (entry.op, last.op, again.op):
            self._replay(with_samples=self._standing.samples is not None)
        elif entry.op == "undo":
            self._standing.revert()
        else:
            self._standing.apply(again)

    def _replay(self, with_samples: bool = False) -> None:
        """Read the present version, and apply what was done since."""
        self._done, self._undone = effective_entries(self._journal.entries)
        self._version, later = since_version(self._done)
        self._base = self._first_record if self._version is None else read_record(self.folder, self._version)
        if not with_samples:
            self.__dict__.pop("_table", None)
            self.__dict__.pop("_fitted", None)
        elif self.__dict__.get("_table_version", self) != self._version:
            self.__dict__.pop("_table", None)
            self.__dict__.pop("_fitted", None)
        self._table_version = self._version
        self._standing = Standing(self._base, sample_state(self._table) if with_samples else None)
        for entry in later:
            self._standing.apply(entry)

    def _next(self, entry: Entry | None, what: str) -> Entry:
        if entry is None:
            raise InputError(f"there is nothing to {what}")
        return entry

    def _bear(self, change: Change, name: str | None = None) -> int:
        """A new category: an id and a key that nobody has ever had."""
        keys = {category["key"] for category in self._standing.record["categories"]}
        number = self._last[1] + change.n_born + 1
        while f"new-{number}" in keys:  # a label may be called so
            number += 1
        return change.bear(self._last[0] + change.n_born + 1, f"new-{number}", name)

    def _checked(self, change: Change, otherwise: str) -> dict[str, Any]:
        if change.is_empty:
            raise InputError(otherwise)
        return change.outcome()

    def _packed(self, samples: Samples) -> list[Any]:
        return packed_rows(self.rows(samples))

    def _rows_of_ids(self, ids: Sequence[str]) -> IntArray:
        places = self._places_of_ids
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
    def _places_of_ids(self) -> dict[str, int]:
        """The row of each id; -1 for one that several samples have."""
        places: dict[str, int] = {}
        for row, name in enumerate(self._table["id"].to_pylist()):
            places[name] = SEVERAL if name in places else row
        return places

    def _features_of(self, rows: IntArray) -> npt.NDArray[np.float32]:
        return np.asarray(self.features[rows], dtype=np.float32)

    def _model_after(self, change: Change) -> "CategoryDiscoverer":
        """The model with the categories that there are after a change."""
        retired = dict(change.retired)
        remaining = [c for c in self._standing.record["categories"] if c["id"] not in retired]
        return self._model_with(remaining, retired)

    def _model_with(self, categories: list[dict[str, Any]], retired: dict[int, int | None]) -> "CategoryDiscoverer":
        from copy import copy

        fitted = copy(self._fitted)
        _, later = since_version(self._done)
        became = lineage(fitted.categories_.tolist(), later)
        became = {i: now if now is None else retired.get(now, now) for i, now in became.items()}
        ids = np.array([c["id"] for c in categories], dtype=np.int64)
        known = np.array([c["id"] for c in categories if c["kind"] == "known"], dtype=np.int64)
        return fitted.regroup(ids, known, self.samples.categories, became)

    def _judge(self, change: Change, rows: IntArray) -> None:
        """Confidence and novelty of samples after a change, where the model has a say."""
        categories = change.categories_after[rows]
        judged = rows[~self.samples.confirmed[rows]]
        if not len(judged):
            return
        result = self._model_after(change).assess(
            self._features_of(judged), categories[~self.samples.confirmed[rows]]
        )
        change.judge(judged, result.confidence, result.novelty)


SEVERAL = -1
"""In place of the row of an id that several samples have."""
