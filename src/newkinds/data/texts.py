"""Partly labelled texts, from any kind of table."""

from pathlib import Path
from typing import Any

from newkinds.data.labelling import read_labels
from newkinds.data.raw import RawCollection
from newkinds.data.tables import Table, read_table
from newkinds.errors import InputError
from newkinds.labels import is_missing
from newkinds.names import LABEL_ENDINGS


def read_texts(
    path: str | Path,
    *,
    text: str | None = None,
    label: str | None = None,
    id: str | None = None,
    labels: str | Path | None = None,
    truth: str | Path | None = None,
) -> RawCollection:
    """Read partly labelled texts.

    Parameters
    ----------
    path : path
        A table, one of the `newkinds.names.TABLE_ENDINGS`: `.jsonl` holds an object on each line, `.txt` a text.
    text : str, optional
        The column of texts; by default the one called `text`, else the only column of text there is.
    label : str, optional
        The column of labels; by default the one called `label`, else nothing is labelled. Integers or names;
        blank, missing or -1 = unlabelled.
    id : str, optional
        The column that names each text; by default the one called `id`, else the row number, from 0.
    labels : path, optional
        File of labels that takes the place of a column; see `read_features`. All rows count, blank ones too.
    truth : str or path, optional
        True classes, for scoring only: a column, or a file of the same form as `labels`.

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
    (('1', 'the text is blank'),)
    """
    path = Path(path)
    if label is not None and labels is not None:
        raise InputError(f"labels come from the column {label!r} or from the file {labels}; give one of the two")
    table = read_table(path)
    label_column = table.column(label, "label")
    id_column = table.column(id, "id")
    truth_column = _truth_column(table, truth)
    text_column = _text_column(table, text, {label_column, id_column, truth_column})
    ids = None if id_column is None else _ids(table, id_column)

    def raw_labels(file: str | Path | None, column: str | None) -> list[Any] | None:
        if column is not None:
            return table.values(column)
        return None if file is None else read_labels(file, len(table), ids)

    all_labels = raw_labels(labels, label_column if labels is None else None)
    all_truth = raw_labels(truth, truth_column)
    texts: dict[int, str] = {}
    skipped: list[tuple[str, str]] = []
    names = [str(row) for row in range(len(table))] if ids is None else ids
    for row, cell in enumerate(table.values(text_column)):
        if isinstance(cell, str) and cell.strip():
            texts[row] = cell
        elif is_missing(cell):
            skipped.append((names[row], "the text is blank" if isinstance(cell, str) else "there is no text"))
        elif isinstance(cell, int | float) and not isinstance(cell, bool):
            texts[row] = str(cell)
        else:
            kind = type(cell).__name__
            raise InputError(f"{path}: {table.where(row)} has a {kind} in the column {text_column!r}; give a text")
    if not texts:
        raise InputError(f"{path} has no texts: the column {text_column!r} is blank in all {len(table)} rows")
    return RawCollection.gathered(
        "texts",
        list(texts.values()),
        [names[row] for row in texts],
        None if all_labels is None else [all_labels[row] for row in texts],
        None if all_truth is None else [all_truth[row] for row in texts],
        skipped,
        labels_from=path if labels is None else Path(labels),
        truth_from=path if truth is None or truth_column is not None else Path(truth),
    )


def _text_column(table: Table, name: str | None, taken: set[str | None]) -> str:
    column = table.column(name, "text")
    if column is not None:
        return column
    candidates = [column for column in table.columns if column not in taken and table.is_text(column)]
    if len(candidates) != 1:
        several = f"could be any of {', '.join(candidates)}" if candidates else "is not to be found"
        raise InputError(
            f"{table.path}: the column of texts {several}; say which with text=… (its columns are {table.listed()})"
        )
    return candidates[0]


def _truth_column(table: Table, truth: str | Path | None) -> str | None:
    if not isinstance(truth, str):
        return None
    column = table.find(truth)
    if column is None and Path(truth).suffix.lower() not in LABEL_ENDINGS:
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
    return [str(cell).strip() for cell in cells]
