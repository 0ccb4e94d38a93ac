"""Tables as spreadsheets and databases write them: .csv, .tsv, .jsonl, .parquet and plain lines of text.

They are taken as they come (byte-order marks, other encodings, semicolons); what would make a cell silently wrong
(rows of uneven length, unmatched quotes) is refused by its line.
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

from newkinds.data.files import guard
from newkinds.errors import InputError

logger = logging.getLogger(__name__)

SOURCES = "a .csv, .tsv, .jsonl, .ndjson, .parquet or .txt file"
PANDAS_INDEX = "__index_level_"
"""How the names begin of columns in which pandas keeps the names of rows."""
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
        raise InputError(f"{path} does not exist")
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


def _parquet_columns(path: Path) -> dict[str, Any]:
    import pyarrow.parquet as pq  # here, not above: other files are read without waiting for it

    table = guard(path, "a Parquet file", lambda: pq.read_table(path))
    return dict(zip(table.column_names, table.columns, strict=True))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_text(path: Path) -> str:
    """The content of a file in whatever encoding it is; which one was guessed is logged."""
    content: bytes = guard(path, "text", path.read_bytes)
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
