"""Corrections from a table: somebody without the studio has written the right category beside samples."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from newkinds.data.formulas import PREDICTION_COLUMNS
from newkinds.data.labelling import label_column_of
from newkinds.data.tables import read_table
from newkinds.editing.changes import Change
from newkinds.editing.edited_run import EditedRun
from newkinds.editing.naming_rules import checked_name
from newkinds.editing.opened_run import SEVERAL
from newkinds.errors import InputError
from newkinds.journal import Entry
from newkinds.labels import is_missing
from newkinds.run_folder import find_category

SHOWN = 5
"""Lines that an error names."""
COLUMNS = ("category", "kind", "name", "label")
"""What the column of categories may be called, where the table is not one of ours."""


@dataclass(frozen=True)
class Corrections:
    """What a table says: rows of the run's samples, and the name of the category of each."""

    rows: list[int]
    names: list[str]


def apply_corrections(run: str | Path | EditedRun, table: str | Path, *, reason: str = "") -> Entry:
    """Apply a table of corrections: all of it as one entry, or nothing.

    Parameters
    ----------
    run : path or EditedRun
    table : path
        With a column `id` and one of categories (`category`, `kind`, `name` or `label`): names, keys or ids. A
        blank says nothing. The category that a sample has already confirms it; a name that no category has makes a
        new one. In a table that `newkinds export` wrote, names that were not changed say nothing.
    reason : str
        Written down with it.
    """
    opened = run if isinstance(run, EditedRun) else EditedRun(run)
    path = Path(table)

    def make() -> Change:
        corrections = _read(opened, path)
        change = Change(opened.samples)
        ids: dict[str, int] = {}
        for name in dict.fromkeys(corrections.names):
            try:
                ids[name] = int(find_category(opened.record, name)["id"])
            except InputError:
                wanted = checked_name(name, opened.record)
                born = next((i for other, i in ids.items() if other.casefold() == wanted.casefold()), None)
                ids[name] = opened.bear(change, wanted) if born is None else born
        rows = np.array(corrections.rows, dtype=np.int64)
        targets = np.array([ids[name] for name in corrections.names], dtype=np.int64)
        for target in np.unique(targets).tolist():
            change.move(rows[targets == target], target)
        change.confirm(rows)
        if change.is_empty:
            raise InputError(f"{path} says nothing that the run does not say already")
        return change

    return opened.record_change("apply", {"table": path.name}, make, reason)


def _read(run: EditedRun, path: Path) -> Corrections:
    table = read_table(path)
    id_column = table.find("id")
    is_ours = all(name in table.columns for name in PREDICTION_COLUMNS)
    column = label_column_of(table, True) if is_ours else next(filter(None, map(table.find, COLUMNS)), None)
    if id_column is None or column is None:
        raise InputError(f"{path}: columns 'id' and 'category' are needed; found {table.listed()}")
    present = {category["id"]: category["name"] for category in run.record["categories"]}
    places, categories = run.places_of_ids, run.samples.categories
    problems: list[str] = []
    rows: dict[int, tuple[str, str]] = {}
    for line, (name, cell) in enumerate(zip(table.values(id_column), table.values(column), strict=True)):
        if is_missing(cell) or not str(cell).strip():
            continue
        said, where = str(cell).strip(), table.where(line)
        row = places.get(str(name), places.get(str(name).strip()))
        if row is None or row == SEVERAL:
            what = "is not in the run" if row is None else "belongs to several samples"
            problems.append(f"{where}: the id {str(name)!r} {what}")
        elif row in rows and rows[row][0] != said:
            problems.append(f"{where}: {str(name)!r} is {said!r} here and {rows[row][0]!r} in {rows[row][1]}")
        elif not is_ours or said != present[int(categories[row])]:
            problem = _name_problem(run, said)
            problems += [f"{where}: {problem}"] if problem else []
            rows[row] = said, where
    if problems:
        more = f"; and {len(problems) - SHOWN:,} more" if len(problems) > SHOWN else ""
        raise InputError(f"{path} was not applied: {'; '.join(problems[:SHOWN])}{more}")
    if not rows:
        raise InputError(f"{path} says nothing: no line has a category that differs from the run's")
    return Corrections(list(rows), [said for said, _ in rows.values()])


def _name_problem(run: EditedRun, name: str) -> str | None:
    """Why a category cannot be called so, if it is a new one."""
    try:
        find_category(run.record, name)
    except InputError:
        try:
            checked_name(name, run.record)
        except InputError as error:
            return str(error)
    return None
