"""Cells of CSV that a spreadsheet would run as formulas: how they are written, and how our own files are read back.

The rule: a text that begins with `=`, `+`, `-`, `@`, a tab or a carriage return gets an apostrophe before it. So
does one that begins with an apostrophe followed by one of these or by another apostrophe, so that the rule can be
undone exactly. A text that is a number, such as -5.20, stays as it is.
"""

import re
from collections.abc import Sequence

PREDICTION_COLUMNS = ("id", "category", "name", "kind", "confidence", "novelty")
"""The first columns of every table of predictions."""
NUMBERS = ("category", "confidence", "novelty")
"""Those that hold numbers, which stay as they are."""
DEFUSED_HEADER = ",".join(PREDICTION_COLUMNS)
"""How a file of defused predictions begins, to the letter. Files of `predict --raw` have these names in quotes."""
FORMULA = r"^([=+\-@\t\r]|'['=+\-@\t\r])"
"""Beginnings that get an apostrophe, as a regular expression that Python and pyarrow understand alike."""

NUMBER = r"^[+-]?[0-9]+([.,][0-9]+)*([eE][+-]?[0-9]+)?$"
"""Texts that are numbers: no spreadsheet runs them, so they stay as they are."""

_is_number = re.compile(NUMBER).fullmatch
_begins_like_a_formula = re.compile(r"[=+\-@\t\r]").match
_begins_defused = re.compile(r"'['=+\-@\t\r]").match


def restore(cells: Sequence[str]) -> list[str]:
    """The texts behind defused cells.

    Examples
    --------
    >>> restore(["'=1+1", "''=1+1", "'tis", "owl"])
    ['=1+1', "'=1+1", "'tis", 'owl']
    """
    return [cell[1:] if _begins_defused(cell) else cell for cell in cells]


def is_defused(text: str, columns: dict[str, list[str]]) -> bool:
    """Whether a CSV file is one of predictions that we defused: its header is ours, and no text is a formula.

    Parameters
    ----------
    text : str
        The file.
    columns : dict of str to list of str
        Its columns.
    """
    after = text[len(DEFUSED_HEADER) : len(DEFUSED_HEADER) + 1]
    if not text.startswith(DEFUSED_HEADER) or after not in ("", ",", "\n", "\r"):
        return False
    return not any(
        _begins_like_a_formula(cell) and not _is_number(cell)
        for name, cells in columns.items()
        if name not in NUMBERS
        for cell in cells
    )
