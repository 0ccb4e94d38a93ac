"""Partly labelled texts, or images, from any kind of table."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from newkinds.data.labelling import USUAL, LabelRules, check_unique, read_labels
from newkinds.data.raw import Item, RawCollection
from newkinds.data.spreadsheets import without_values
from newkinds.data.tables import Table, read_table
from newkinds.errors import InputError
from newkinds.labels import is_missing
from newkinds.names import LABEL_ENDINGS, PANDAS_INDEX, Kind, ending
from newkinds.wording import option

IMAGE_NAMES = ("image", "images", "img", "photo", "picture", "bytes", "content")
"""Columns of bytes that are taken for the files of images."""


def read_texts(
    path: str | Path,
    *,
    text: str | None = None,
    label: str | None = None,
    id: str | None = None,
    labels: str | Path | None = None,
    truth: str | Path | None = None,
    rules: LabelRules = USUAL,
) -> RawCollection:
    """Read partly labelled texts.

    Parameters
    ----------
    path : path
        A table, one of the `newkinds.names.TABLE_ENDINGS` (`.json` holds a list of objects, `.jsonl` an object on
        each line, `.txt` a text), a folder of Parquet files, or one that Hugging Face's `datasets` saved.
    text : str, optional
        The column of texts; by default the one called `text`, else the only column of text there is.
    label : str, optional
        The column of labels; by default the one called `label`, else nothing is labelled. Integers or names;
        blank, missing or -1 = unlabelled.
    id : str, optional
        The column that names each text; by default the one called `id`, else one that is called like it (`ticket`,
        `case_id`: see `newkinds.data.tables.ID_NAMES`) and names every row differently, else the row number,
        from 0.
    labels : path, optional
        File of labels that takes the place of a column; see `read_features`. All rows count, blank ones too.
    truth : str or path, optional
        True classes, for scoring only: a column, or a file of the same form as `labels`.
    rules : LabelRules
        How labels are taken: which names mean that there is none.

    Returns
    -------
    RawCollection
        Rows whose text is blank or missing are left out, with the reason in `skipped`; the others keep their ids.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tickets = Path(folder, "tickets.csv")
    ...     _ = tickets.write_text("text,label\\ncard lost,card\\n,card\\nwhere is my refund?,\\n")
    ...     collection = read_texts(tickets)
    >>> collection.items, collection.ids, collection.labels
    (['card lost', 'where is my refund?'], ('0', '2'), array([ 0, -1]))
    >>> collection.skipped
    (('1', 'the text on line 3 is blank'),)
    """
    table = read_table(Path(path))

    def find_column(taken: set[str | None]) -> str:
        return _text_column(table, text, taken)

    return _collection(
        table, "texts", find_column, _text, label, id, labels, truth, rules, table.find(text or "text")
    )


def read_image_table(
    path: str | Path,
    *,
    label: str | None = None,
    id: str | None = None,
    labels: str | Path | None = None,
    truth: str | Path | None = None,
    rules: LabelRules = USUAL,
) -> RawCollection:
    """Read partly labelled images from a table that holds them, as Hugging Face's do; see `read_texts`.

    Where it holds the path of an image instead, that is one within the table's folder, or absolute. Images that are
    not there are left out, with the reason in `skipped`.
    """
    path = Path(path)
    table = read_table(path)
    read_item = partial(_image, folder=path if path.is_dir() else path.parent)
    column = image_column(table.columns)
    if column is None:
        raise InputError(f"{path} has no column of images; its columns are {table.listed()}")
    return _collection(table, "images", lambda _: column, read_item, label, id, labels, truth, rules)


def image_column(columns: Mapping[str, Any]) -> str | None:
    """The column that holds the files of images: bytes and path as Hugging Face has them, or bytes by such a name.

    Columns are pyarrow's, or fields of its schema.
    """
    for name, cells in columns.items():
        kind = str(getattr(cells, "type", ""))
        is_called_so = name.casefold() in IMAGE_NAMES and kind in ("binary", "large_binary")
        if is_called_so or re.match(r"struct<.*\bbytes: (large_)?(binary|null)\b", kind):  # null: all are paths
            return name
    return None


def _collection(
    table: Table,
    kind: Kind,
    find_column: Callable[[set[str | None]], str],
    read_item: Callable[[Any], Item | None],
    label: str | None,
    id: str | None,
    labels: str | Path | None,
    truth: str | Path | None,
    rules: LabelRules,
    text: str | None = None,
) -> RawCollection:
    """The rows of a table that hold a sample.

    `find_column` gets the columns that hold something else. `read_item` gives the sample in a cell, None if that
    holds something else, or raises an `InputError` that says why the sample is not there.
    """
    path = table.path
    if label is not None and labels is not None:
        raise InputError(f"labels come from the column {label!r} or from the file {labels}; give one of the two")
    label_column = table.column(label, "label")
    truth_column = _truth_column(table, truth)
    id_column = table.column(id, "id")
    notes = []
    if id_column is None:
        id_column = table.guessed_ids({label_column, truth_column, text})
        if id_column is not None:
            another = option("id=COLUMN", "--id COLUMN")
            notes.append(f"samples are named by the column {id_column!r} ({another} for another)")
    item_column = find_column({label_column, id_column, truth_column})
    ids = None if id_column is None else _ids(table, id_column)

    def raw_labels(file: str | Path | None, column: str | None, rules: LabelRules = USUAL) -> list[Any] | None:
        if column is not None:
            return table.values(column)
        return None if file is None else read_labels(file, len(table), ids, rules, id_column)

    all_labels = None if rules.ignored else raw_labels(labels, label_column if labels is None else None, rules)
    all_truth = raw_labels(truth, truth_column)
    items: dict[int, Item] = {}
    skipped: list[tuple[str, str]] = []
    names = [str(row) for row in range(len(table))] if ids is None else ids
    what = kind.removesuffix("s")
    shown_as_id = id_column if id_column is not None and id_column.casefold() == "id" else None
    for row, cell in enumerate(table.values(item_column)):
        try:
            if is_missing(cell):
                raise InputError("is blank" if isinstance(cell, str) else "is missing")
            item = read_item(cell)
        except InputError as problem:
            skipped.append((names[row], f"the {what} on {table.where(row)} {problem}"))
            continue
        if item is None:
            raise InputError(
                f"{path}: {table.where(row)} has a {type(cell).__name__} in the column {item_column!r}, which is "
                f"no {what}"
            )
        items[row] = item
    if not items:
        (_, reason), *others = skipped
        more = f", and so on in all {len(skipped):,} rows" if others else ""
        raise InputError(f"{path} has no {kind} in the column {item_column!r}: {reason}{more}")
    for name, cells in table.uncomputed.items():  # columns that are not needed: others were refused above
        notes.append(f"the column {name!r} is left out: {without_values(cells)}")
    return RawCollection.gathered(
        kind,
        list(items.values()),
        [names[row] for row in items],
        None if all_labels is None else [all_labels[row] for row in items],
        None if all_truth is None else [all_truth[row] for row in items],
        skipped,
        labels_from=path if labels is None else Path(labels),
        truth_from=path if truth is None or truth_column is not None else Path(truth),
        rules=rules,
        others=_others(table, list(items), {item_column if kind == "images" else None, shown_as_id}),
        notes=notes,
    )


def _text(cell: Any) -> str | None:
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return str(cell)
    return cell if isinstance(cell, str) else None


def _image(cell: Any, folder: Path) -> bytes | Path | None:
    content, path = (cell.get("bytes"), cell.get("path")) if isinstance(cell, dict) else (cell, None)
    if isinstance(content, bytes) and content:
        return content
    if not isinstance(cell, dict):
        return None
    if not path:
        raise InputError("is missing")
    file = folder / str(path)
    if not os.path.isfile(file):
        raise InputError(f"is only a path, and there is no file {file}")
    return file


def _others(table: Table, rows: Sequence[int], left_out: set[str | None]) -> dict[str, list[Any]]:
    """The columns that predictions carry along."""
    unusable = {*left_out, *table.uncomputed}
    columns = (name for name in table.columns if name not in unusable and not name.startswith(PANDAS_INDEX))
    cells_of = {name: table.values(name) for name in columns}
    return {name: [cells[row] for row in rows] for name, cells in cells_of.items()}


def _text_column(table: Table, name: str | None, taken: set[str | None]) -> str:
    column = table.column(name, "text")
    if column is not None:
        return column
    free = [column for column in table.columns if column not in taken]
    candidates = [column for column in free if table.is_text(column)]
    candidates = candidates or [column for column in free if column in table.uncomputed]  # which will be said
    if len(candidates) != 1:
        several = f"could be any of {', '.join(candidates)}" if candidates else "is not to be found"
        raise InputError(
            f"{table.path}: the column of texts {several}; say which with {option('text=…', '--text')} (its "
            f"columns are {table.listed()})"
        )
    return candidates[0]


def _truth_column(table: Table, truth: str | Path | None) -> str | None:
    if not isinstance(truth, str):
        return None
    column = table.find(truth)
    if column is None and ending(Path(truth)) not in LABEL_ENDINGS:
        raise InputError(
            f"truth={truth!r} is neither a column of {table.path} ({table.listed()}) nor a file of labels "
            f"({', '.join(LABEL_ENDINGS)})"
        )
    return column


def _ids(table: Table, column: str) -> list[str]:
    cells = table.values(column)
    missing = next((row for row, cell in enumerate(cells) if is_missing(cell)), None)
    if missing is not None:
        raise InputError(f"{table.path}: {table.where(missing)} has no id in the column {column!r}; give it one")
    ids = [str(cell).strip() for cell in cells]
    check_unique(ids, f"{table.path}, column {column!r}")
    return ids
