"""Tables as workbooks of Excel (.xlsx), row by row, with openpyxl (the extra `excel`)."""

import logging
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO

from newkinds.errors import InputError
from newkinds.names import MEANINGS
from newkinds.runtime import report_progress

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

MOST_ROWS = 1_048_576
"""Rows of a sheet, the header among them."""
LONGEST_TEXT = 32_767
"""Characters of a cell, as UTF-16 counts them."""
MARKED = tuple("=+-@\t\r'#")
"""Beginnings of texts that might be taken for a formula or an error."""
IMPOSSIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""Characters that the format cannot hold."""
WIDTHS = {"id": 36, "name": 24, "truth": 24, "text": 80}
USUAL_WIDTH = 12
LARGEST_WHOLE = 10**15
"""Excel keeps fifteen digits of a number."""
FIRST_YEAR = 1900
"""Excel's calendar begins here."""
WRITTEN_ROWS = 1 << 12
"""Rows written at a time."""
DECIMALS = 6
"""Of numbers in single precision; more would be noise."""


class Sheet:
    """A workbook in the making: a sheet of rows under a header that stays in sight and explains itself.

    Parameters
    ----------
    title : str
        Name of the sheet.
    """

    def __init__(self, title: str) -> None:
        try:
            from openpyxl import Workbook
            from openpyxl.cell import WriteOnlyCell
        except ImportError as error:
            raise InputError(
                'an .xlsx file is written with openpyxl, which is missing: pip install "newkinds[excel]"; '
                "or write a .csv file"
            ) from error
        self._book, self._make_cell = Workbook(write_only=True), WriteOnlyCell
        self._sheet = self._book.create_sheet(title)
        self._columns: list[str] = []
        self._n_rows = self._n_cut = self._n_replaced = 0

    def begin(self, columns: Sequence[str]) -> None:
        """The header."""
        from openpyxl.comments import Comment
        from openpyxl.styles import Font
        from openpyxl.utils import get_column_letter

        self._columns = list(columns)
        self._sheet.freeze_panes = "A2"
        for number, name in enumerate(columns, start=1):
            self._sheet.column_dimensions[get_column_letter(number)].width = WIDTHS.get(name, USUAL_WIDTH)
        header = []
        for name in columns:
            cell = self._text_cell(self._text(name))
            cell.font = Font(bold=True)
            if name in MEANINGS:
                cell.comment = Comment(f"{name}: {MEANINGS[name]}", "newkinds")
            header.append(cell)
        self._sheet.append(header)
        self._n_rows = 1

    def add(self, table: "pa.Table") -> None:
        """Rows of the columns that the header names."""
        if self._n_rows + len(table) > MOST_ROWS:
            raise InputError(
                f"a sheet of Excel holds {MOST_ROWS - 1:,} samples, these are {self._n_rows - 1 + len(table):,}; "
                "write a .csv or .parquet file"
            )
        for first in range(0, len(table), WRITTEN_ROWS):
            rows = table.slice(first, WRITTEN_ROWS)
            for row in zip(*map(_values, rows.columns), strict=True):
                self._sheet.append([self._content(value) for value in row])
            report_progress("writing the workbook", first + len(rows), len(table))
        self._n_rows += len(table)

    def save(self, file: BinaryIO) -> None:
        """Write the workbook, and say what its cells could not hold."""
        from openpyxl.utils import get_column_letter

        if self._columns:
            self._sheet.auto_filter.ref = f"A1:{get_column_letter(len(self._columns))}{self._n_rows}"
        self._book.save(file)
        if self._n_cut:
            logger.warning(
                "texts that were cut, because a cell of Excel holds %s characters: %s",
                f"{LONGEST_TEXT:,}",
                self._n_cut,
            )
        if self._n_replaced:
            logger.warning(
                "texts with control characters, which Excel cannot hold, were changed: %s", self._n_replaced
            )

    def close(self) -> None:
        """Give up what was not saved."""
        if not self._sheet.closed:
            with suppress(Exception):  # whatever openpyxl thinks of half a sheet
                self._sheet.close()

    def _content(self, value: Any) -> Any:
        """A value as a cell takes it: texts stay texts, whatever they begin with; what no cell can be is text."""
        if isinstance(value, float) and math.isfinite(value):
            return value
        if value is None or _fits(value):
            return value
        text = self._text(str(value))
        return self._text_cell(text) if text.startswith(MARKED) else text

    def _text(self, value: str) -> str:
        """A text that a cell can hold."""
        if IMPOSSIBLE.search(value):
            value = IMPOSSIBLE.sub("\N{REPLACEMENT CHARACTER}", value)
            self._n_replaced += 1
        if 2 * len(value) > LONGEST_TEXT and _n_units(value) > LONGEST_TEXT:
            value = _cut(value)
            self._n_cut += 1
        return value

    def _text_cell(self, text: str) -> Any:
        """A cell that is text, whatever it begins with."""
        cell = self._make_cell(self._sheet, text)
        cell.data_type, cell.quotePrefix = "s", text.startswith(MARKED)
        return cell


def _values(column: "pa.ChunkedArray") -> list[Any]:
    """The values of a column; those in single precision without the noise that double precision shows."""
    import pyarrow as pa

    values: list[Any] = column.to_pylist()
    if not pa.types.is_float32(column.type):
        return values
    return [value if value is None else round(value, DECIMALS) for value in values]


def _fits(value: Any) -> bool:
    """Whether a cell holds a value that is no text, without a loss."""
    if isinstance(value, datetime):
        return value.tzinfo is None and value.year >= FIRST_YEAR
    return abs(value) <= LARGEST_WHOLE if isinstance(value, int) else False


def _n_units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _cut(text: str) -> str:
    """The beginning of a text, as long as a cell can be, with a mark at its end."""
    units = text.encode("utf-16-le")[: 2 * (LONGEST_TEXT - 1)]
    return units.decode("utf-16-le", "ignore") + "…"
