"""Excel's spreadsheets, read with openpyxl (the extra `excel`)."""

import datetime
import logging
import zipfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from newkinds.data.files import load_checked
from newkinds.errors import InputError
from newkinds.runtime import check_memory

logger = logging.getLogger(__name__)

ERRORS = ("#N/A", "#REF!", "#VALUE!", "#NAME?", "#DIV/0!", "#NULL!", "#NUM!")
"""What a spreadsheet shows in place of a value."""
SHOWN_CELLS = 5
"""Cells that a message names."""


@dataclass(frozen=True)
class Sheet:
    """A sheet as it was read.

    Attributes
    ----------
    names : list of str
        Of the columns; "" where there is none.
    rows : list of list
    numbers : list of int
        The number that the spreadsheet shows beside each row.
    uncomputed : mapping of int to list of str
        For a column, the cells (`C7`) with formulas whose values the file does not hold.
    """

    names: list[str]
    rows: list[list[Any]]
    numbers: list[int]
    uncomputed: Mapping[int, list[str]]


def read_spreadsheet(path: Path) -> Sheet:
    """The first sheet, formulas as their last values.

    Its first row that is not blank has the names. Blank rows are passed over; in a single column each is a blank
    cell. Cells that are merged with one above them have its value.
    """
    try:
        import openpyxl
    except ImportError as error:
        raise InputError(
            f'{path} is opened with openpyxl, which is missing: pip install "newkinds[excel]", or save it as .csv'
        ) from error

    def load() -> Sheet:
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
            uncomputed, merged = _formulas_and_merged(path, first._worksheet_path)
        finally:
            book.close()
        top = next((at for at, row in enumerate(rows) if _is_filled(row)), None)
        if uncomputed and not any(map(_is_filled, rows[(top or 0) + 1 :])):
            raise InputError(f"{path}: {without_values(uncomputed)}")
        if top is None:
            raise ValueError("its first sheet is empty")
        while not _is_filled(rows[-1]):
            rows.pop()
        width = max(map(len, rows))
        rows = [row + [None] * (width - len(row)) for row in rows]
        if merged:
            _fill_down(rows, merged, top)
            logger.warning(
                "%s has merged cells (%s): each row takes the value of the top one; columns beside it stay blank",
                path,
                listed_cells(sorted(merged)),
            )
        by_column: dict[int, list[str]] = defaultdict(list)
        for name in uncomputed:
            column, row, *_ = openpyxl.utils.cell.range_boundaries(name)
            if row - 1 == top:
                raise InputError(f"{path}: a column has no name, {without_values([name])}")
            by_column[column - 1].append(name)
        numbers = [at for at in range(top + 1, len(rows)) if width == 1 or _is_filled(rows[at])]
        names = ["" if name is None else str(name) for name in rows[top]]
        return Sheet(names, [rows[at] for at in numbers], [at + 1 for at in numbers], by_column)

    return load_checked(path, "a spreadsheet", load)


def without_values(cells: list[str]) -> str:
    """What is wrong with formulas, and how to mend it."""
    return (
        f"there are formulas without values ({listed_cells(cells)}), as some programs write them; open the file in "
        "a spreadsheet program and save it again"
    )


def listed_cells(cells: list[str]) -> str:
    more = f", … {len(cells):,} in all" if len(cells) > SHOWN_CELLS else ""
    return ", ".join(cells[:SHOWN_CELLS]) + more


def _formulas_and_merged(path: Path, member: str) -> tuple[list[str], list[str]]:
    """Cells (`C7`) with formulas whose values are not there, and ranges (`A2:A5`) of cells that are merged.

    openpyxl tells neither where it does not hold the whole sheet in memory.
    """
    uncomputed, merged = [], []
    with zipfile.ZipFile(path) as archive, archive.open(member) as file:
        for _, element in ElementTree.iterparse(file):
            tag = _tag(element)
            if tag == "c":
                texts = {_tag(child): child.text for child in element}
                # Of a formula that gives an empty text the type is "str".
                is_empty = "v" not in texts or (not texts["v"] and element.get("t") != "str")
                if "f" in texts and is_empty and (name := element.get("r")):
                    uncomputed.append(name)
            elif tag == "mergeCell":
                merged.append(element.get("ref", ""))
            elif tag == "row":
                element.clear()
    return uncomputed, merged


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _fill_down(rows: list[list[Any]], merged: list[str], top: int) -> None:
    """Give cells below the first of a merged range its value: a label beside several rows is meant for all of them.

    Not to the right, where a range is a heading; nor within the names of the columns.
    """
    from openpyxl.utils.cell import range_boundaries

    for name in merged:
        column, first, _, last = range_boundaries(name)
        if first - 1 <= top or column > len(rows[top]):
            continue
        for at in range(first, min(last, len(rows))):
            if rows[at][column - 1] is not None:  # only where ranges overlap
                break
            rows[at][column - 1] = rows[first - 1][column - 1]


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
