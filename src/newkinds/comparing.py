"""Two runs on the same samples: what became of the categories.

Categories are the same if they share their samples: known ones by their label, the others matched so that most
samples stay where they are (Hungarian method). Ids and keys of new categories may differ from run to run.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.optimize import linear_sum_assignment

from newkinds.errors import InputError
from newkinds.labels import IntArray
from newkinds.run_folder import read_predictions, read_run, shown_name

PART = 0.25
"""Share of a category from which on a flow is a part of it, not a few samples."""
MOST = 0.5
"""Share of a category that has to stay together for it to live on."""
GROWN = 1.25
"""Factor between the sizes of a category from which on it has grown or shrunk."""


@dataclass(frozen=True)
class Change:
    """Something that happened to categories.

    Attributes
    ----------
    topic : {"born", "gone", "split", "merged", "renamed", "grown", "shrunk"}
    text : str
        One sentence.
    before, after : tuple of int
        Places of the categories in the runs' lists.
    """

    topic: str
    text: str
    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True)
class Comparison:
    """What changed from one run to another.

    Attributes
    ----------
    before, after : dict
        The runs' records, as they stand.
    n_common, n_only_before, n_only_after : int
        Samples, by their ids.
    flows : ndarray of shape (categories before, categories after)
        Common samples.
    matched : dict of int to int
        Place before → place after, of categories that live on.
    changes : tuple of Change
    moved : pyarrow.Table
        Common samples that are elsewhere now: id, before, after (places), confidence, and text where there is any;
        the surest first.
    """

    before: dict[str, Any]
    after: dict[str, Any]
    n_common: int
    n_only_before: int
    n_only_after: int
    flows: IntArray
    matched: dict[int, int]
    changes: tuple[Change, ...]
    moved: pa.Table

    @property
    def n_moved(self) -> int:
        return len(self.moved)


def compare_runs(before: str | Path, after: str | Path) -> Comparison:
    """Compare two run folders whose samples have ids in common."""
    records = [read_run(run) for run in (before, after)]
    tables = [
        read_predictions(run, record, pictures=False) for run, record in zip((before, after), records, strict=True)
    ]
    rows = _common_rows(tables[0], tables[1])
    if not len(rows[0]):
        raise InputError(f"{before} and {after} have no sample in common: their ids differ")
    return _comparison(records, tables, rows)


def compare_states(before: tuple[dict[str, Any], pa.Table], after: tuple[dict[str, Any], pa.Table]) -> Comparison:
    """Compare two states of one run, as `read_run` and `read_predictions` give them: ids mean the same.

    Samples are the same row by row, or, where some have come or gone between, by their ids.
    """
    everything = np.arange(len(before[1]))
    is_same = before[1]["id"].equals(after[1]["id"])
    rows = (everything, everything) if is_same else _common_rows(before[1], after[1])
    ids = [
        {category["id"]: place for place, category in enumerate(record["categories"])}
        for record, _ in (before, after)
    ]
    matched = {place: ids[1][i] for i, place in ids[0].items() if i in ids[1]}
    return _comparison([before[0], after[0]], [before[1], after[1]], rows, matched)


def _comparison(
    records: list[dict[str, Any]],
    tables: list[pa.Table],
    rows: tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]],
    matched: dict[int, int] | None = None,
) -> Comparison:
    columns = [
        np.searchsorted([c["id"] for c in record["categories"]], table["category"].to_numpy())[chosen]
        for record, table, chosen in zip(records, tables, rows, strict=True)
    ]
    categories = [record["categories"] for record in records]
    shape = (len(categories[0]), len(categories[1]))
    flows = np.bincount(columns[0] * shape[1] + columns[1], minlength=shape[0] * shape[1]).reshape(shape)
    matched = _matched(flows, *categories) if matched is None else matched
    expected = np.array([matched.get(place, -1) for place in range(shape[0])], dtype=np.int64)
    is_elsewhere = expected[columns[0]] != columns[1]
    return Comparison(
        before=records[0],
        after=records[1],
        n_common=len(rows[0]),
        n_only_before=len(tables[0]) - len(rows[0]),
        n_only_after=len(tables[1]) - len(rows[1]),
        flows=flows,
        matched=matched,
        changes=tuple(_changes(flows, matched, *categories)),
        moved=_moved(tables[1], rows[1], columns, is_elsewhere),
    )


def _common_rows(before: pa.Table, after: pa.Table) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Rows of the samples that both have, in the order of the first; an id that is there twice counts once."""
    places = {name: row for row, name in reversed(list(enumerate(after["id"].to_pylist())))}
    first = {name: row for row, name in reversed(list(enumerate(before["id"].to_pylist())))}
    pairs = sorted((row, places[name]) for name, row in first.items() if name in places)
    rows = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def _matched(flows: IntArray, before: list[dict[str, Any]], after: list[dict[str, Any]]) -> dict[int, int]:
    """Which category lives on as which."""
    labels = {category["key"]: place for place, category in enumerate(after) if category["kind"] == "known"}
    matched = {
        place: labels[category["key"]]
        for place, category in enumerate(before)
        if category["kind"] == "known" and category["key"] in labels
    }
    rows = [place for place in range(len(before)) if place not in matched]
    columns = [place for place in range(len(after)) if place not in matched.values()]
    part = flows[np.ix_(rows, columns)]
    for row, column in zip(*linear_sum_assignment(part, maximize=True), strict=True):
        shared, before_size = part[row, column], flows[rows[row]].sum()
        # It lives on if most of it went there, or a part of it and most of what is there came from it.
        is_most_there = shared >= MOST * flows[:, columns[column]].sum() and shared >= PART * before_size
        if shared and (shared >= MOST * before_size or is_most_there):
            matched[rows[row]] = columns[column]
    return matched


def _changes(
    flows: IntArray, matched: dict[int, int], before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> list[Change]:
    changes = []
    sizes, new_sizes = flows.sum(axis=1), flows.sum(axis=0)
    old = [shown_name(category) for category in before]
    new = [shown_name(category) for category in after]
    for place, column in ((p, c) for p in range(len(before)) for c in [matched.get(p)]):
        if column is None:
            if sizes[place]:
                target = int(flows[place].argmax())
                share = flows[place, target] / sizes[place]
                text = f"{old[place]} is gone; the largest part of it ({share:.0%}) is in {new[target]}"
                changes.append(Change("gone", text, (place,), (target,)))
            continue
        is_named = before[place]["named"] or after[column]["named"]  # keys of new ones differ from run to run
        if is_named and before[place]["name"] != after[column]["name"]:
            changes.append(Change("renamed", f"{old[place]} is now {new[column]}", (place,), (column,)))
        parts = np.flatnonzero(flows[place] >= PART * max(sizes[place], 1))
        if len(parts) > 1:
            names = " and ".join(new[part] for part in parts)
            changes.append(Change("split", f"{old[place]} was split into {names}", (place,), _places(parts)))
        n_before, n_after = sizes[place], new_sizes[column]
        if n_after >= GROWN * n_before > 0:
            text = f"{new[column]} grew from {n_before:,} to {n_after:,}"
            changes.append(Change("grown", text, (place,), (column,)))
        elif n_before >= GROWN * n_after:
            text = f"{new[column]} shrank from {n_before:,} to {n_after:,}"
            changes.append(Change("shrunk", text, (place,), (column,)))
    for column in range(len(after)):
        sources = np.flatnonzero(flows[:, column] >= MOST * np.maximum(sizes, 1))
        if len(sources) > 1:
            names = " and ".join(old[source] for source in sources)
            changes.append(Change("merged", f"{names} became {new[column]}", _places(sources), (column,)))
        if column not in matched.values() and new_sizes[column]:
            source = int(flows[:, column].argmax())
            share = flows[source, column] / new_sizes[column]
            text = f"{new[column]} is new; the largest part of it ({share:.0%}) was in {old[source]}"
            changes.append(Change("born", text, (source,), (column,)))
    return changes


def _places(places: npt.NDArray[Any]) -> tuple[int, ...]:
    return tuple(int(place) for place in places)


def _moved(
    table: pa.Table, rows: npt.NDArray[np.intp], columns: list[IntArray], is_elsewhere: npt.NDArray[np.bool_]
) -> pa.Table:
    chosen = np.flatnonzero(is_elsewhere)
    confidence = table["confidence"].to_numpy()[rows[chosen]]
    chosen = chosen[np.argsort(-confidence, kind="stable")]
    part = table.select([name for name in ("id", "confidence", "text") if name in table.column_names])
    part = part.take(pa.array(rows[chosen]))
    for name, places in zip(("before", "after"), columns, strict=True):
        part = part.append_column(name, pa.array(places[chosen]))
    return part
