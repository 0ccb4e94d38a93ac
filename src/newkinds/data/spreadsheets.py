"""Excel's spreadsheets, read with openpyxl (the extra `excel`)."""

import datetime
import logging
import zipfile
from pathlib import Path
from typing import Any

from newkinds.data.files import load_checked
from newkinds.errors import InputError
from newkinds.runtime import check_memory

logger = logging.getLogger(__name__)

ERRORS = ("#N/A", "#REF!", "#VALUE!", "#NAME?", "#DIV/0!", "#NULL!", "#NUM!")
"""What a spreadsheet shows in place of a value."""
Rows = tuple[list[str], list[list[Any]], list[int]]


def read_spreadsheet(path: Path) -> Rows:
    """Names of the columns, the rows, and the number that the spreadsheet shows beside each of these.

    The first sheet is read, formulas as their last values. Its first row that is not blank has the names. Blank
    rows are passed over; in a single column each is a blank cell.
    """
    try:
        import openpyxl
    except ImportError as error:
        raise InputError(
            f'{path} is opened with openpyxl, which is missing: pip install "newkinds[excel]", or save it as .csv'
        ) from error

    def load() -> Rows:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is no .xlsx file; save it as Excel workbook (.xlsx) or .csv")
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        check_memory(2 * size, f"{path}: unpacking it", "save it as .csv")
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            visible = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
            first, *others = visible or book.worksheets
            if others:
                logger.warning("%s has %d sheets; only the first, %r, is read", path, len(others) + 1, first.title)
            first.reset_dimensions()  # some programs write a wrong size of the sheet
            rows = [[_cell(value) for value in row] for row in first.iter_rows(values_only=True)]
        finally:
            book.close()
        top = next((at for at, row in enumerate(rows) if _is_filled(row)), None)
        if top is None:
            raise ValueError("its first sheet is empty")
        while not _is_filled(rows[-1]):
            rows.pop()
        width = max(map(len, rows))
        numbers = [at for at in range(top + 1, len(rows)) if width == 1 or _is_filled(rows[at])]
        names, *padded = (rows[at] + [None] * (width - len(rows[at])) for at in (top, *numbers))
        return ["" if name is None else str(name) for name in names], padded, [at + 1 for at in numbers]

    return load_checked(path, "a spreadsheet", load)


def _is_filled(row: list[Any]) -> bool:
    return any(value is not None and value != "" for value in row)


def _cell(value: Any) -> Any:
    """A cell as text or number: dates as they are written, whole numbers without a fraction."""
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value in ERRORS:
        return None
    return value
