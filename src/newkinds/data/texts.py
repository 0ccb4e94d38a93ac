"""Texts from tables (.csv, .tsv, .jsonl, .parquet) and plain files, and the reading of such tables.

What spreadsheets and databases write is taken as it comes (byte-order marks, other encodings, semicolons); what
would make a text or a label silently wrong (rows of uneven length, unmatched quotes) is refused by its line.
"""

import codecs
import csv
import io
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from newkinds.data.raw import Item, Kind, RawCollection
from newkinds.data.reading import PANDAS_INDEX, _encode, _guard, _parquet_columns, read_labels
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, is_missing

logger = logging.getLogger(__name__)

SOURCES = "a .csv, .tsv, .jsonl, .ndjson, .parquet or .txt file"
LABEL_FILES = (".csv", ".tsv", ".parquet", ".npy", ".txt")
DELIMITERS = (",", ";", "\t", "|")
LARGEST_FIELD = 2**31 - 1
"""What csv takes on every platform; its own limit of 128 KiB is less than a long document."""
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
STRING_TYPES = ("string", "large_string", "string_view", "dictionary<values=string")
"""How pyarrow writes the types of columns of text; categories of pandas are dictionaries."""


def read_texts(
    path: str | Path,
    *,
    text: str | None = None,
    label: str | None = None,
    id: str | None = None,
    labels: str | Path | None = None,
    truth: str | Path | None = None,
) -> RawCollection:
    """Read texts of which a part is labelled.

    Parameters
    ----------
    path : path
        `.csv`, `.tsv`, `.jsonl`, `.ndjson` (an object a line) or `.parquet`; `.txt` holds one text a line.
    text : str, optional
        The column of texts; by default the one called `text`, else the only column of text there is.
    label : str, optional
        The column of labels; by default the one called `label`, else nothing is labelled. Integers or names;
        blank, missing or -1 = unlabelled.
    id : str, optional
        The column that says what to call each text; by default the one called `id`, else its row number from 0.
    labels : path, optional
        File of labels that takes the place of a column; see `read_features`. It counts all rows, blank ones too.
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

    own_labels = raw_labels(labels, label_column if labels is None else None)
    own_truth = raw_labels(truth, truth_column)
    texts: dict[int, str] = {}
    skipped: list[tuple[str, str]] = []
    called = [str(row) for row in range(len(table))] if ids is None else ids
    for row, cell in enumerate(table.values(text_column)):
        if isinstance(cell, str) and cell.strip():
            texts[row] = cell
        elif is_missing(cell):
            skipped.append((called[row], "the text is blank" if isinstance(cell, str) else "there is no text"))
        elif isinstance(cell, int | float) and not isinstance(cell, bool):
            texts[row] = str(cell)
        else:
            kind = type(cell).__name__
            raise InputError(f"{path}: {table.where(row)} has a {kind} in the column {text_column!r}; give a text")
    if not texts:
        raise InputError(f"{path} has no texts: the column {text_column!r} is blank in all {len(table)} rows")
    return gathered(
        "texts",
        list(texts.values()),
        [called[row] for row in texts],
        None if own_labels is None else [own_labels[row] for row in texts],
        None if own_truth is None else [own_truth[row] for row in texts],
        skipped,
        labels_from=path if labels is None else Path(labels),
        truth_from=path if truth is None or truth_column is not None else Path(truth),
    )


def gathered(
    kind: Kind,
    items: Sequence[Item],
    ids: Sequence[str],
    labels: Sequence[Any] | None,
    truth: Sequence[Any] | None,
    skipped: Sequence[tuple[str, str]],
    *,
    labels_from: Path,
    truth_from: Path,
) -> RawCollection:
    """A collection of samples with labels and truth as they were read, encoded so that the two agree."""
    raw = {"features": items, "labels": labels, "truth": truth}  # of the features, only their number counts
    encoded, names, encoded_truth = _encode(raw, labels_from, truth_from)
    if encoded_truth is not None:
        apart = np.flatnonzero((encoded != UNLABELLED) & (encoded != encoded_truth))
        if apart.size and labels is not None and truth is not None:
            first = int(apart[0])
            raise InputError(
                f"{ids[first]!r} is labelled {labels[first]!r} in {labels_from} but its truth is {truth[first]!r} "
                f"in {truth_from} (and {apart.size - 1} more such); are both of the same data?"
            )
    return RawCollection(kind, items, tuple(ids), encoded, encoded_truth, names, tuple(skipped))


# Tables


@dataclass(frozen=True, eq=False)
class Table:
    """A table as it was read: of each column a list, or of a Parquet file what pyarrow read.

    Attributes
    ----------
    path : Path
    columns : mapping of str
    lines : list of int, optional
        The line, from 1, on which each row begins; None where the file has no lines.
    """

    path: Path
    columns: Mapping[str, Any]
    lines: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def where(self, row: int) -> str:
        """How to call a row in an error."""
        return f"row {row}" if self.lines is None else f"line {self.lines[row]}"

    def find(self, name: str) -> str | None:
        """The column of that name; where there is none, one that differs in capitals only."""
        if name in self.columns:
            return name
        return next((column for column in self.columns if column.casefold() == name.strip().casefold()), None)

    def column(self, name: str | None, usual: str) -> str | None:
        """The column that was asked for, which must be there; if none was, the usual one if it is there."""
        found = self.find(usual if name is None else name)
        if found is None and name is not None:
            raise InputError(f"{self.path} has no column {name!r}; its columns are {self.listed()}")
        return found

    def values(self, name: str) -> list[Any]:
        """The cells of a column."""
        cells = self.columns[name]
        return cells if isinstance(cells, list) else list(cells.to_pylist())

    def is_text(self, name: str) -> bool:
        """Whether a column holds words, not only numbers or nothing."""
        cells = self.columns[name]
        if name.startswith(PANDAS_INDEX):
            return False
        if not isinstance(cells, list):
            return str(cells.type).startswith(STRING_TYPES)
        return any(isinstance(cell, str) and cell.strip() and not _is_number(cell) for cell in cells)

    def listed(self) -> str:
        """The names of the columns, for an error."""
        return ", ".join(self.columns) or "none"


def read_table(path: Path) -> Table:
    """A table from a .csv, .tsv, .jsonl, .ndjson, .parquet or .txt file (one column, `text`)."""
    suffix = path.suffix.lower()
    if not path.exists():
        raise InputError(f"{path} does not exist; give {SOURCES}")
    if suffix == ".parquet":
        table = Table(path, _parquet_columns(path))
    elif suffix in {".csv", ".tsv"}:
        table = _read_delimited(path, "\t" if suffix == ".tsv" else ",")
    elif suffix in {".jsonl", ".ndjson"}:
        table = _read_json_lines(path)
    elif suffix == ".txt":
        lines = _lines(_read_text(path))
        table = Table(path, {"text": lines}, range(1, len(lines) + 1))
    else:
        raise InputError(f"{path} cannot be read; give {SOURCES}")
    if not len(table):
        raise InputError(f"{path} has no rows; its columns are {table.listed()}")
    return table


def _text_column(table: Table, name: str | None, taken: set[str | None]) -> str:
    found = table.column(name, "text")
    if found is not None:
        return found
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
    found = table.find(truth)
    if found is None and Path(truth).suffix.lower() not in LABEL_FILES:
        raise InputError(
            f"truth={truth!r} is neither a column of {table.path} ({table.listed()}) nor a file of labels "
            f"({', '.join(LABEL_FILES)})"
        )
    return found


def _ids(table: Table, column: str) -> list[str]:
    cells = table.values(column)
    missing = next((row for row, cell in enumerate(cells) if is_missing(cell)), None)
    if missing is not None:
        raise InputError(f"{table.path}: {table.where(missing)} has no id in the column {column!r}; give it one")
    return [str(cell).strip() for cell in cells]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


# Files of text


def _read_text(path: Path) -> str:
    """The content of a file in whatever encoding it is; which one was guessed is logged."""
    content: bytes = _guard(path, "text", path.read_bytes)
    encoding = next((name for mark, name in BYTE_ORDER_MARKS if content.startswith(mark)), "utf-8")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != "utf-8":
            raise InputError(f"{path} begins like {encoding} but is not: {error}; save it as UTF-8") from error
        text = _decode_western(path, content)
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(
            f"{path}: line {line} holds a NUL character, so this is not plain text, or UTF-16 without its mark; "
            "export it as UTF-8"
        )
    return text


def _decode_western(path: Path, content: bytes) -> str:
    for encoding in ("cp1252", "latin-1"):  # the second has a letter for every byte, the first lacks five
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        logger.warning("%s is not UTF-8; read as %s. If letters look wrong, save it as UTF-8", path, encoding)
        return text
    raise AssertionError("latin-1 decodes every byte")


def _lines(text: str) -> list[str]:
    """Lines as editors see them; `str.splitlines` would also split at rarer characters that occur within texts."""
    return [line.removesuffix("\n") for line in io.StringIO(text, newline=None)]


def _read_json_lines(path: Path) -> Table:
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    for number, line in enumerate(_lines(_read_text(path)), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: line {number} is not JSON ({error}); each line must be an object") from error
        if not isinstance(row, dict):
            kind = type(row).__name__
            raise InputError(f'{path}: line {number} is a {kind}; each line must be an object, {{"text": …}}')
        rows.append({_paired(key): _paired(cell) for key, cell in row.items()} if "\\u" in line else row)
        numbers.append(number)
    names = dict.fromkeys(name for row in rows for name in row)
    return Table(path, {name: [row.get(name) for row in rows] for name in names}, numbers)


def _paired(cell: Any) -> Any:
    """JSON may hold half a surrogate pair (an emoji cut in two), which no encoder takes: it becomes U+FFFD."""
    return cell.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(cell, str) else cell


def _read_delimited(path: Path, usual: str) -> Table:
    text = _read_text(path)
    with _fields_of_any_size():
        delimiter = _delimiter(text, usual)
        try:
            records = list(_records(text, delimiter))
        except _UnmatchedQuotes as error:
            if delimiter != "\t":
                raise InputError(f"{path}: {error}; inside quotes, a quote is written twice") from error
            logger.warning("%s: %s; read as a file without quoting", path, error)
            records = list(_records(text, delimiter, quoting=csv.QUOTE_NONE))
    if not records:
        raise InputError(f"{path} is empty")
    (_, header), body = records[0], records[1:]
    names = [name.strip() for name in header]
    if double := next((name for name in names if name and names.count(name) > 1), None):
        raise InputError(f"{path}: there are several columns called {double!r}; rename all but one")
    for line, fields in body:
        if len(fields) != len(names):
            raise InputError(
                f"{path}: line {line} has {len(fields)} fields where the header has {len(names)} (delimiter "
                f"{delimiter!r}); put a field that holds the delimiter in quotes"
            )
    columns = {name: [fields[i] for _, fields in body] for i, name in enumerate(names) if name}
    return Table(path, columns, [line for line, _ in body])


def _delimiter(text: str, usual: str) -> str:
    """The usual delimiter, unless the header has a single field by it and another one splits most rows alike."""

    def width(delimiter: str) -> int:
        try:
            return len(next(_records(text, delimiter), (0, []))[1])
        except _UnmatchedQuotes:
            return 1

    if width(usual) > 1:
        return usual
    for other in DELIMITERS:
        if (expected := width(other)) > 1:
            try:
                widths = [len(fields) for _, fields in _records(text, other)][1:]
            except _UnmatchedQuotes:
                continue
            if 2 * widths.count(expected) >= len(widths):
                return other
    return usual


class _UnmatchedQuotes(Exception):
    """A row cannot be told from the next."""


def _records(text: str, delimiter: str, quoting: Any = csv.QUOTE_MINIMAL) -> Iterator[tuple[int, list[str]]]:
    """Each record with the line on which it begins.

    A blank line is a blank field where there is a single column, and is otherwise passed over.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting, strict=True)
    line, width = 1, 0
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise _UnmatchedQuotes(f"the quotes of the row at line {line} do not match ({error})") from error
        if fields is None:
            return
        if fields or width == 1:
            width = width or len(fields)
            yield line, fields or [""]
        line = reader.line_num + 1


@contextmanager
def _fields_of_any_size() -> Iterator[None]:
    before = csv.field_size_limit(LARGEST_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)
