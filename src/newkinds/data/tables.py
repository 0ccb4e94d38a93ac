"""Tables as spreadsheets and databases write them; `READERS` has one entry for each format.

They are taken as they come (byte-order marks, other encodings, semicolons). What would make a cell silently wrong
(rows of uneven length, unmatched quotes) is refused with its line. In predictions that Newkinds wrote as CSV, the
apostrophes that keep a spreadsheet from running texts as formulas are taken away again (`newkinds.data.formulas`).
"""

import codecs
import csv
import io
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from newkinds.data.files import checked, load_checked, unpacked
from newkinds.data.formulas import NUMBERS, is_defused, restore
from newkinds.data.spreadsheets import read_spreadsheet, without_values
from newkinds.errors import InputError
from newkinds.labels import is_missing
from newkinds.names import PACKED_ENDINGS, PANDAS_INDEX, TABLE_ENDINGS, ending, listed

logger = logging.getLogger(__name__)

DELIMITERS = (",", ";", "\t", "|")
LISTED_COLUMNS = 50
"""An error names so many columns."""
ID_NAMES = ("id", "ids", "uid", "uuid", "guid", "key", "case", "ticket", "ref", "reference", "number", "nr", "sku")
"""Columns that may name the rows, if no name occurs twice; so may any that ends in `_id`, `ID` or " id"."""
MOST_GAPS = 1 << 24
"""Missing cells of JSON lines, which take memory although the file is small, where most cells are missing."""
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
    """A table as it was read: each column is a list or, from Parquet, an array of pyarrow's.

    Attributes
    ----------
    path : Path
    columns : mapping of str
    lines : list of int, optional
        The line, from 1, on which each row begins; None where the file has no lines.
    line : str
        What a line is called: in a spreadsheet it is a row.
    uncomputed : mapping of str to list of str
        Columns of a spreadsheet that cannot be used, and their cells (`C7`) with formulas that have no value.
    """

    path: Path
    columns: Mapping[str, Any]
    lines: Sequence[int] | None = None
    line: str = "line"
    uncomputed: Mapping[str, list[str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def where(self, row: int) -> str:
        """The name of a row in an error."""
        return f"row {row}" if self.lines is None else f"{self.line} {self.lines[row]}"

    def find(self, name: str) -> str | None:
        """The column of that name, or else one that differs in capitals only."""
        if name in self.columns:
            return name
        return next((column for column in self.columns if column.casefold() == name.strip().casefold()), None)

    def column(self, name: str | None, usual: str) -> str | None:
        """The column that was asked for, which must be there; if none was, the usual one, which may be missing."""
        column = self.find(usual if name is None else name)
        if column is None and name is not None:
            raise InputError(f"{self.path} has no column {name!r}; its columns are {self.listed()}")
        return column

    def values(self, name: str) -> list[Any]:
        """The cells of a column."""
        if name in self.uncomputed:
            raise InputError(f"{self.path}: in the column {name!r} {without_values(self.uncomputed[name])}")
        cells = self.columns[name]
        if isinstance(cells, list):
            return cells
        return checked(str(self.path), f"a table (column {name!r})", lambda: list(cells.to_pylist()))

    def guessed_ids(self, taken: Container[str | None] = ()) -> str | None:
        """The column that names the rows, by what it is called and because no name occurs twice."""
        columns = (name for name in self.columns if name not in taken and name not in self.uncomputed)
        candidates = [name for name in columns if id_rank(name) is not None]
        for name in sorted(candidates, key=lambda name: id_rank(name) or 0):
            cells = self.values(name)
            if not any(is_missing(cell) for cell in cells) and len({str(cell) for cell in cells}) == len(cells):
                return name
        return None

    def is_text(self, name: str) -> bool:
        """Whether a column holds words, not only numbers or nothing."""
        cells = self.columns[name]
        if name.startswith(PANDAS_INDEX):
            return False
        if not isinstance(cells, list):
            return str(cells.type).startswith(STRING_TYPES)
        return any(isinstance(cell, str) and cell.strip() and not is_number(cell) for cell in cells)

    def listed(self) -> str:
        """The names of the columns, for an error."""
        names = list(self.columns)
        more = f", … ({len(names):,} in all)" if len(names) > LISTED_COLUMNS else ""
        return (", ".join(names[:LISTED_COLUMNS]) or "none") + more


def id_rank(name: str) -> int | None:
    """How well a column is called like one that names the rows: 0 is best, None not at all.

    Examples
    --------
    >>> id_rank("ID"), id_rank("TicketID"), id_rank("Ticket"), id_rank("humid")
    (0, 13, 7, None)
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[\s_.-]+", " ", name).strip().casefold()
    if words in ID_NAMES:
        return ID_NAMES.index(words)
    return len(ID_NAMES) if words.endswith(" id") else None


def read_table(path: Path) -> Table:
    """A table from a file of one of the `newkinds.names.TABLE_ENDINGS`, or from a folder of Parquet files or one
    that Hugging Face's `datasets` saved."""
    if not path.exists():
        raise InputError(f"{path} does not exist")
    if path.is_dir():
        table = _read_parquet(path)
    elif (reader := READERS.get(ending(path))) is not None:
        table = reader(path)
    else:
        raise InputError(
            f"{path} cannot be read as a table; give a {listed(TABLE_ENDINGS)} file (plain text may be packed: "
            f"{listed(PACKED_ENDINGS)})"
        )
    if not len(table):
        raise InputError(f"{path} has no rows; its columns are {table.listed()}")
    return table


def _read_parquet(path: Path) -> Table:
    from newkinds.data.parquet import ParquetFiles  # here, not above: other files are read without waiting for it

    table = ParquetFiles.open(path).table()
    return Table(path, dict(zip(table.column_names, table.columns, strict=True)))


def _read_xlsx(path: Path) -> Table:
    sheet = read_spreadsheet(path)
    named = _named(path, sheet.names)
    columns = {name: [row[at] for row in sheet.rows] for at, name in named}
    uncomputed = {name: sheet.uncomputed[at] for at, name in named if at in sheet.uncomputed}
    return Table(path, columns, sheet.numbers, "row", uncomputed)


def is_number(cell: str) -> bool:
    """Whether a cell of text reads as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_text(path: Path) -> str:
    """The content of a text file in any encoding; a guess is logged."""
    content = load_checked(path, "text", lambda: unpacked(path))
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


def _read_lines(path: Path) -> Table:
    """A single column, `text`."""
    lines = _lines(_read_text(path))
    return Table(path, {"text": lines}, range(1, len(lines) + 1))


def _read_json_lines(path: Path) -> Table:
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    for number, line in enumerate(_lines(_read_text(path)), start=1):
        if line.strip():
            rows.append(_json_row(path, f"line {number}", line))
            numbers.append(number)
    return Table(path, _json_columns(path, rows), numbers)


def _json_row(path: Path, where: str, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: {where} is not JSON ({error}); each line must be an object") from error
    if not isinstance(row, dict):
        kind = type(row).__name__
        raise InputError(f'{path}: {where} is a {kind}; each line must be an object, {{"text": …}}')
    return _repaired(row) if "\\u" in line else row


def _read_json(path: Path) -> Table:
    """A list of objects, or JSON lines under another name."""
    text = _read_text(path)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.lstrip().startswith("{") and len(_lines(text.strip())) > 1:
            return _read_json_lines(path)
        raise InputError(f'{path} is not JSON ({error}); give a list of objects, [{{"text": …}}]') from error
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        what = "an object" if isinstance(content, dict) else "a list of other things"
        raise InputError(f'{path} holds {what}; a table is a list of objects: [{{"text": …}}, …]')
    rows = [_repaired(row) for row in content] if "\\u" in text else content
    return Table(path, _json_columns(path, rows), range(1, len(rows) + 1), "object")


def _json_columns(path: Path, rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for row in rows for name in row)
    n_cells = sum(map(len, rows))
    if len(names) * len(rows) > max(MOST_GAPS, 10 * n_cells):
        raise InputError(
            f"{path}: its {len(rows):,} lines have {len(names):,} different keys, few of them in common; give all "
            "lines the same keys"
        )
    return {name: [row.get(name) for row in rows] for name in names}


def _repaired(row: dict[str, Any]) -> dict[str, Any]:
    return {repair_surrogates(key): repair_surrogates(cell) for key, cell in row.items()}


def repair_surrogates(cell: Any) -> Any:
    """A cell of JSON in which half a surrogate pair (an emoji cut in two), which cannot be written, is U+FFFD."""
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
    named = _named(path, header)
    for line, fields in body:
        if len(fields) != len(header):
            raise InputError(
                f"{path}: line {line} has {len(fields)} fields where the header has {len(header)} (delimiter "
                f"{delimiter!r}); put a field that holds the delimiter in quotes"
            )
    columns = {name: [fields[at] for _, fields in body] for at, name in named}
    if is_defused(text, columns):
        columns = {name: cells if name in NUMBERS else restore(cells) for name, cells in columns.items()}
    return Table(path, columns, [line for line, _ in body])


def _named(path: Path, header: Sequence[str]) -> list[tuple[int, str]]:
    """Place and name of each column that has a name."""
    names = [name.strip() for name in header]
    occurrences = Counter(names)
    if repeated := next((name for name in names if name and occurrences[name] > 1), None):
        raise InputError(f"{path}: there are several columns called {repeated!r}; rename all but one")
    return [(at, name) for at, name in enumerate(names) if name]


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
    """The end of a row cannot be found."""


def _records(text: str, delimiter: str, quoting: Any = csv.QUOTE_MINIMAL) -> Iterator[tuple[int, list[str]]]:
    """Each record with the line on which it begins.

    In a single column a blank line is a blank field; otherwise it is passed over.
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


READERS: dict[str, Callable[[Path], Table]] = {
    ".csv": partial(_read_delimited, usual=","),
    ".tsv": partial(_read_delimited, usual="\t"),
    ".json": _read_json,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".parquet": _read_parquet,
    ".txt": _read_lines,
    ".xlsx": _read_xlsx,
}
"""A reader for each of the `TABLE_ENDINGS`."""
