"""What arrives at a run: ids and features of new samples, what their labels stand for, their rows of the table."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from newkinds.data import FeatureSet
from newkinds.data.pictures import png
from newkinds.data.thumbnails import packed_pictures
from newkinds.editing.naming_rules import checked_name, next_number
from newkinds.editing.opened_run import OpenedRun
from newkinds.editing.versions import next_version, pictures_of
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray
from newkinds.naming import suggest_names
from newkinds.run_folder import PICTURES
from newkinds.run_record import VERSION_DIGITS

SHOWN = 3
"""Ids that an error names."""


@dataclass
class ArrivingCategories:
    """The categories of a run while an update is worked out: those that there are, and those that come.

    `gone` were there before the batch of arrivals and were taken back in it; they may be there again.
    """

    present: list[dict[str, Any]]
    last: tuple[int, int]
    gone: list[dict[str, Any]] = field(default_factory=list)
    born: list[dict[str, Any]] = field(default_factory=list)
    named: list[list[Any]] = field(default_factory=list)

    def bear(self, name: str | None = None) -> int:
        """A new category: an id and a key that nobody has ever had."""
        taken = {c[part].casefold() for c in [*self.all, *self.gone] for part in ("key", "name")}
        number = next_number(self.last[1], taken)
        self.last = (self.last[0] + 1, number)
        category = {"id": self.last[0], "key": f"new-{number}", "name": name or f"new-{number}", "kind": "new"}
        self.born.append({**category, "named": name is not None, "suggestion": None, "size": 0, "labelled": 0})
        return self.last[0]

    def call(self, category: int, name: str) -> None:
        """Give a category of the run a name."""
        place = next(i for i, c in enumerate(self.present) if c["id"] == category)
        self.present[place] = {**self.present[place], "name": name, "named": True}
        self.named.append([category, name])

    def suggest(self, features: npt.NDArray[Any], categories: IntArray, texts: list[str] | None) -> None:
        """Suggest names for those that came."""
        if not self.born:
            return
        ids = [c["id"] for c in self.all]
        n_known = sum(c["kind"] == "known" for c in self.all)
        columns = np.searchsorted(ids, categories)
        suggestions = suggest_names(features, columns, [c["name"] for c in self.all], n_known, texts)
        self.born = [
            {**category, "suggestion": suggestions.get(ids.index(category["id"]))} for category in self.born
        ]

    def end_with(self, ids: IntArray) -> None:
        """Leave those that there are in the end."""
        there = set(ids.tolist())
        self.born = [c for c in [*self.gone, *self.born] if c["id"] in there]
        self.present = [c for c in self.present if c["id"] in there]

    @property
    def all(self) -> list[dict[str, Any]]:
        """In the order of their ids."""
        return sorted([*self.present, *self.born], key=lambda category: int(category["id"]))


def checked_ids(run: OpenedRun, arrivals: FeatureSet) -> list[str]:
    """Names of the new samples."""
    if arrivals.ids is None:
        return ids_of_arrival(run, [None] * len(arrivals))
    ids = list(arrivals.ids)
    places = run.places_of_ids
    if again := [name for name in ids if name in places]:
        shown = ", ".join(repr(name) for name in again[:SHOWN]) + (", …" if len(again) > SHOWN else "")
        raise InputError(
            f"{len(again)} of {len(ids)} samples are in the run already ({shown}); an update takes new samples: "
            "leave those out, or give others ids of their own"
        )
    return ids


def ids_of_arrival(run: OpenedRun, ids: Sequence[str | None]) -> list[str]:
    """Ids for samples that came without: the number of the arrival, and theirs in it."""
    places, arrival = run.places_of_ids, next_version(run)
    while True:
        numbered = [f"{arrival}/{row}" if name is None else name for row, name in enumerate(ids)]
        # a run that an update wrote as one of its own counts its versions from the first again
        is_free = not any(new in places for new, name in zip(numbered, ids, strict=True) if name is None)
        if is_free and len(set(numbered)) == len(numbered):
            return numbered
        arrival = f"{int(arrival) + 1:0{VERSION_DIGITS}d}"


def joined_features(run: OpenedRun, arrivals: FeatureSet) -> npt.NDArray[np.float32]:
    """All features, of unit length, the new ones last."""
    from newkinds.engine import normalised

    old = np.asarray(run.features, dtype=np.float32)
    new = arrivals.arranged(run.record["source"].get("columns"))
    if new.shape[1] != old.shape[1]:
        raise InputError(f"the run has {old.shape[1]} features, the new samples {new.shape[1]}")
    return np.concatenate([normalised(old), normalised(np.asarray(new))]).astype(np.float32)


def take_labels(run: OpenedRun, arrivals: FeatureSet, categories: ArrivingCategories) -> IntArray:
    """Ids that labels of new samples stand for, -1 for those without; names are given and categories made."""
    settled = np.full(len(arrivals), UNLABELLED)
    unknown: list[tuple[str, IntArray]] = []
    for label in np.unique(arrivals.labels[arrivals.labels != UNLABELLED]).tolist():
        rows, name = np.flatnonzero(arrivals.labels == label), arrivals.name_of(int(label))
        category = _called([*categories.present, *categories.gone], name)
        if category is None:
            unknown.append((name, rows))
        else:
            settled[rows] = category
    if not unknown:
        return settled
    guesses = _guesses(run, arrivals)
    for name, rows in sorted(unknown, key=lambda pair: -len(pair[1])):  # the most samples choose first
        wanted = checked_name(name, {"categories": [*categories.all, *categories.gone]})
        found, counts = np.unique(guesses[rows], return_counts=True)
        best = int(found[counts.argmax()])
        free = {c["id"] for c in categories.present if c["kind"] == "new" and not c["named"]}
        if best in free and 2 * int(counts.max()) > len(rows):
            categories.call(best, wanted)
            settled[rows] = best
        else:
            settled[rows] = categories.bear(wanted)
    return settled


def _called(categories: Sequence[dict[str, Any]], name: str) -> int | None:
    """The category with this name or key; None if there is none."""
    wanted = name.strip().casefold()
    for part in ("name", "key"):
        for category in categories:
            if category[part].casefold() == wanted:
                return int(category["id"])
    return None


def _guesses(run: OpenedRun, arrivals: FeatureSet) -> IntArray:
    """The category of each new sample as the run stands; -1 for strangers."""
    model, features = run.model, arrivals.arranged(run.record["source"].get("columns"))
    categories: IntArray = model.predict(features).astype(np.int64)
    return np.where(run.fitted.strangeness(features) > 0.5, UNLABELLED, categories)


def joined_table(run: OpenedRun, arrivals: FeatureSet, ids: list[str]) -> pa.Table:
    """Predictions of all samples; what `as_standing` says anew is as in the first row."""
    table, pictures = run.predictions, pictures_of(run)
    if pictures is not None:
        table = table.append_column(PICTURES, pictures)
    for name, zeros in (("strangeness", np.zeros(len(table), np.float32)), ("held", np.zeros(len(table), bool))):
        if name not in table.column_names:
            table = table.append_column(name, pa.array(zeros))
    n = len(arrivals)
    new = table.take(pa.array(np.zeros(n, dtype=np.int64)))
    cells: dict[str, pa.Array] = {"id": pa.array(ids, pa.string())}
    if "text" in table.column_names:
        cells["text"] = pa.array(arrivals.texts or [""] * n, pa.string())
    if "truth" in table.column_names:
        cells["truth"] = pa.nulls(n, pa.string())
    if pictures is not None:
        cells[PICTURES] = _new_pictures(arrivals)
    for name, column in cells.items():
        new = new.set_column(new.column_names.index(name), table.schema.field(name), column)
    return pa.concat_tables([table, new])


def _new_pictures(arrivals: FeatureSet) -> pa.Array:
    """Thumbnails of new samples; where they come without, as features, a blank one."""
    n, blank = len(arrivals), np.full((1, 1), 255, dtype=np.uint8)
    pictures = [png(blank)] * n if arrivals.images is None else packed_pictures(arrivals.images, slice(0, n))
    return pa.array(pictures, type=pa.binary())
