"""Tables of results, as Markdown to read, CSV to compute with and LaTeX to print.

A table has two levels of columns (a data set, and All, Old, New below it) and rows in sections (measured here,
published). Six data sets are too wide for a page: Markdown shows the columns of a data set in one cell,
"62.7 / 75.7 / 56.2", and both Markdown and LaTeX set what is still too wide in several blocks below one another.
"""

import csv
import io
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

from newkinds.errors import InputError
from newkinds.staging import accept_existing, staged

MARKDOWN_WIDTH = 125
"""Characters that GitHub shows side by side without breaking the lines of cells."""
LATEX_WIDTH = 96
"""Characters, at \\footnotesize, across the two columns of LaTeX's article."""
NOTHING = "–"


@dataclass(frozen=True)
class Value:
    """A number in a table.

    Parameters
    ----------
    mean : float
        NaN is shown as an empty cell is.
    std : float, optional
        Its standard deviation over seeds.
    digits : int
        Places after the point that are shown, of both; CSV has them all.

    Examples
    --------
    >>> str(Value(62.68, 0.52)), str(Value(227, digits=0))
    ('62.7 ± 0.5', '227')
    """

    mean: float
    std: float | None = None
    digits: int = 1

    def __str__(self) -> str:
        return " ± ".join(filter(None, _shown(self)))


Cell = Value | str | None
"""A number, a text, or nothing (shown as –)."""


class Column(NamedTuple):
    """A column: the group it belongs to ("" for none), such as the data set, and its name there."""

    group: str
    name: str


@dataclass(frozen=True)
class Row:
    """The name of a row and one cell a column."""

    label: str
    cells: Sequence[Cell]


@dataclass(frozen=True)
class Section:
    """Rows that may be compared with each other; a title "" is not shown."""

    title: str
    rows: Sequence[Row]


@dataclass(frozen=True)
class Table:
    """Rows in sections, columns in groups.

    Parameters
    ----------
    name : str
        The name of its files, without an ending.
    title : str
    columns : sequence of Column or (group, name)
        Those of a group adjoin each other.
    sections : sequence of Section
    notes : sequence of str
        Lines below the table.
    best : mapping from a column's name to "largest" or "smallest"
        In these columns the best number of each section is bold; numbers that look the same are bold together.
    corner : str
        What the rows are.

    Examples
    --------
    >>> rows = [Row("GCD", [Value(51.3), Value(56.6)]), Row("PIM", [Value(62.7), Value(75.7)])]
    >>> columns = [Column("CUB", "All"), Column("CUB", "Old")]
    >>> table = Table("main", "Accuracy", columns, [Section("published", rows)], best={"All": "largest"})
    >>> print(to_markdown(table))
    # Accuracy
    <BLANKLINE>
    Each cell: All / Old.
    <BLANKLINE>
    | method      |             CUB |
    |:------------|----------------:|
    | *published* |                 |
    | GCD         |     51.3 / 56.6 |
    | PIM         | **62.7** / 75.7 |
    <BLANKLINE>
    """

    name: str
    title: str
    columns: Sequence[Column]
    sections: Sequence[Section]
    notes: Sequence[str] = ()
    best: Mapping[str, Literal["largest", "smallest"]] = field(default_factory=dict)
    corner: str = "method"

    def __post_init__(self) -> None:
        columns = tuple(Column(*column) for column in self.columns)
        object.__setattr__(self, "columns", columns)
        if not re.fullmatch(r"\w[\w.-]*", self.name, re.ASCII):
            raise InputError(f"a table called {self.name!r} has no file name: use letters, digits, - and _")
        if not columns or len(set(columns)) < len(columns):
            raise InputError(f"table {self.name}: it needs columns, each of them once; found {columns}")
        groups = [
            group for i, (group, _) in enumerate(columns) if group and (i == 0 or columns[i - 1].group != group)
        ]
        if len(set(groups)) < len(groups):
            raise InputError(f"table {self.name}: put the columns of a group side by side; found {columns}")
        if unknown := set(self.best) - {column.name for column in columns}:
            raise InputError(f"table {self.name}: no column is called {', '.join(sorted(unknown))}")
        for row in (row for section in self.sections for row in section.rows):
            if len(row.cells) != len(columns):
                raise InputError(
                    f"table {self.name}: row {row.label!r} has {len(row.cells)} cells for {len(columns)} columns"
                )


def write_table(table: Table, folder: str | Path) -> tuple[Path, ...]:
    """Write NAME.md, NAME.csv and NAME.tex into `folder`, each of them whole or not at all.

    Returns
    -------
    tuple of Path
        The three files.
    """
    written = []
    for ending, text in (("md", to_markdown(table)), ("csv", to_csv(table)), ("tex", to_latex(table))):
        path = Path(folder) / f"{table.name}.{ending}"
        with staged(path, replace=accept_existing) as stage:
            stage.write_bytes(text.encode("utf-8"))
        written.append(path)
    return tuple(written)


def to_csv(table: Table) -> str:
    """The table as CSV (RFC 4180), a line for each cell, with all digits.

    A cell has a mean and perhaps a std, or a text, or nothing.
    """
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(["section", "row", "group", "column", "mean", "std", "text"])
    for section in table.sections:
        for row in section.rows:
            for (group, name), cell in zip(table.columns, row.cells, strict=True):
                mean, std = (cell.mean, cell.std) if isinstance(cell, Value) else (None, None)
                numbers = ["" if x is None or math.isnan(x) else repr(float(x)) for x in (mean, std)]
                text = cell if isinstance(cell, str) else ""
                writer.writerow([section.title, row.label, group, name, *numbers, text])
    return file.getvalue()


def to_markdown(table: Table, *, level: int = 1) -> str:
    """The table in GitHub's Markdown, one cell for each group of columns.

    Parameters
    ----------
    table : Table
    level : int
        Level of the heading: 1 for a page of its own.
    """
    groups = _groups(table)
    several = {tuple(table.columns[i].name for i in group) for group in groups if len(group) > 1}
    # Where all groups have the same columns, these are named once, above; otherwise in the head of each group.
    head = [_markdown_head(table, group, named=len(several) > 1) for group in groups]
    best = _best(table)
    lines = ["#" * level + " " + _markdown_text(table.title), ""]
    if len(several) == 1:
        lines += [f"Each cell: {' / '.join(map(_markdown_text, *several))}.", ""]

    grid = [[_markdown_text(table.corner), *head]]
    section_of: list[Section | None] = [None]
    for s, section in enumerate(table.sections):
        if section.title:
            grid.append([f"*{_markdown_text(section.title)}*", *[""] * len(groups)])
        for r, row in enumerate(section.rows):
            cells = [_markdown_cell(row, group, best[s][r]) for group in groups]
            grid.append([_markdown_text(row.label), *cells])
        section_of += [section] * (len(grid) - len(section_of))

    widths = [max(len(line[i]) for line in grid) for i in range(len(groups) + 1)]
    # The marks of bold take no room on the page; three characters are the margins of a cell.
    seen = [3 + max(len(line[i].replace("**", "")) for line in grid) for i in range(1, len(groups) + 1)]
    for block in _blocks(seen, MARKDOWN_WIDTH - _label_width(table) - 3):
        columns = [0, *(i + 1 for i in block)]
        shown = [i for number in block for i in groups[number]]
        for n, (line, of_section) in enumerate(zip(grid, section_of, strict=True)):
            if of_section is not None and _is_blank(of_section, shown):
                continue
            padded = [line[0].ljust(widths[0]), *(line[i].rjust(widths[i]) for i in columns[1:])]
            lines.append(f"| {' | '.join(padded)} |")
            if n == 0:
                rules = [f":{'-' * (widths[0] + 1)}", *(f"{'-' * (widths[i] + 1)}:" for i in columns[1:])]
                lines.append(f"|{'|'.join(rules)}|")
        lines.append("")
    if table.notes:
        lines += [*(f"- {_markdown_text(note)}" for note in table.notes), ""]
    return "\n".join(lines)


def to_latex(table: Table) -> str:
    """The table in LaTeX, in plain ASCII, for any document that uses booktabs: one `table*`, however long it is."""
    groups = _groups(table)
    best = _best(table)
    widths = []
    for group in groups:
        cells = [max(len(text) for text in _column_texts(table, i)) + 2 for i in group]
        widths.append(max(sum(cells), len(table.columns[group[0]].group) + 2))
    lines = [
        "% needs \\usepackage{booktabs}",
        "\\begin{table*}",
        "\\centering\\footnotesize\\setlength{\\tabcolsep}{4pt}",
        f"\\caption{{{_latex_text(table.title)}}}",
        f"\\label{{tab:{table.name}}}",
    ]
    for block in _blocks(widths, LATEX_WIDTH - _label_width(table)):
        lines += [*_latex_block(table, [groups[i] for i in block], best), "", "\\medskip"]
    for note in table.notes:
        lines += [f"{{\\raggedright {_latex_text(note)}\\par}}"]
    return "\n".join([*lines, "\\end{table*}", ""])


# What is shown, whatever the format


def _shown(cell: Cell) -> tuple[str, str]:
    """The text of a cell and that of its standard deviation, which may be empty."""
    if isinstance(cell, str):
        return cell, ""
    mean = "" if cell is None else _number(cell.mean, cell.digits)
    return (mean, _number(cell.std, cell.digits)) if cell and mean else (NOTHING, "")


def _number(value: float | None, digits: int) -> str:
    if value is None or math.isnan(value):
        return ""
    # Adding 0 makes -0.0 a plain 0.
    return f"{round(float(value), digits) + 0.0:.{digits}f}".replace("-", "−")


def _groups(table: Table) -> list[list[int]]:
    """Positions of the columns of each group; a column without a group stands alone."""
    groups: list[list[int]] = []
    for i, column in enumerate(table.columns):
        if i and column.group and table.columns[i - 1].group == column.group:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def _best(table: Table) -> list[list[set[int]]]:
    """The columns in which each row of each section is the best. A number without a rival is not."""
    marks: list[list[set[int]]] = [[set() for _ in section.rows] for section in table.sections]
    for section, marked in zip(table.sections, marks, strict=True):
        for i, column in enumerate(table.columns):
            if column.name not in table.best:
                continue
            cells = [row.cells[i] for row in section.rows]
            numbers = {
                r: round(float(cell.mean), cell.digits)
                for r, cell in enumerate(cells)
                if isinstance(cell, Value) and not math.isnan(cell.mean)
            }
            if len(numbers) > 1:
                best = max(numbers.values()) if table.best[column.name] == "largest" else min(numbers.values())
                for r in (r for r, number in numbers.items() if number == best):
                    marked[r].add(i)
    return marks


def _is_blank(section: Section, columns: Sequence[int]) -> bool:
    """Whether it has something, but not in these columns: a block of them leaves it out."""
    in_columns = any(row.cells[i] is not None for row in section.rows for i in columns)
    return not in_columns and any(cell is not None for row in section.rows for cell in row.cells)


def _label_width(table: Table) -> int:
    return max(len(table.corner), *(len(row.label) for section in table.sections for row in section.rows), 0)


def _column_texts(table: Table, i: int) -> list[str]:
    cells = [row.cells[i] for section in table.sections for row in section.rows]
    return [table.columns[i].name, *("±".join(filter(None, _shown(cell))) for cell in cells)]


def _blocks(widths: Sequence[int], budget: int) -> list[range]:
    """Split columns into as few blocks as fit the budget, and make the widest block as narrow as possible.

    A column that is wider than the budget gets a block of its own.

    Examples
    --------
    >>> _blocks([20] * 6, 90)
    [range(0, 3), range(3, 6)]
    >>> _blocks([20, 20, 20, 70], 90)
    [range(0, 3), range(3, 4)]
    """
    widest = _filled(widths, budget)
    narrower = (_filled(widths, limit) for limit in range(budget))
    return next((blocks for blocks in narrower if len(blocks) == len(widest)), widest)


def _filled(widths: Sequence[int], limit: int) -> list[range]:
    """Blocks of neighbours, each filled up to the limit before the next begins."""
    starts, width = [0], 0
    for i, column_width in enumerate(widths):
        if i > starts[-1] and width + column_width > limit:
            starts.append(i)
            width = 0
        width += column_width
    return [range(start, stop) for start, stop in pairwise([*starts, len(widths)])]


# Markdown


def _markdown_head(table: Table, group: Sequence[int], *, named: bool) -> str:
    first = table.columns[group[0]]
    title = _markdown_text(first.group)
    if len(group) == 1:
        return " ".join(filter(None, (title, _markdown_text(first.name))))
    names = " / ".join(_markdown_text(table.columns[i].name) for i in group)
    return f"{title}: {names}" if named else title


def _markdown_cell(row: Row, group: Sequence[int], best: set[int]) -> str:
    if all(row.cells[i] is None for i in group):
        return NOTHING
    parts = []
    for i in group:
        text, std = _shown(row.cells[i])
        text = f"**{text}**" if i in best else _markdown_text(text)
        parts.append(text + ((f"±{std}" if len(group) > 1 else f" ± {std}") if std else ""))
    return " / ".join(parts)


def _markdown_text(text: str) -> str:
    """Text that Markdown shows as it is, in a cell too. An underscore inside a word needs no escape."""
    escaped = re.sub(r"([\\`*<|\[\]~$]|&(?=#?\w+;)|(?<!\w)_|_(?!\w))", r"\\\1", text)
    return " ".join(escaped.split())


# LaTeX

LATEX_CHARACTERS = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{character: f"${character}$" for character in "<>|"},
    **{"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}"},
    **{"λ": "$\\lambda$", "λ\u0302": "$\\hat{\\lambda}$", "K\u0302": "$\\hat{K}$"},
    **{"−": "$-$", "±": "$\\pm$", "–": "\\textendash{}", "…": "\\ldots{}"},
    **{"ß": "\\ss{}", "ø": "\\o{}", "Ø": "\\O{}", "æ": "\\ae{}", "Æ": "\\AE{}", "ł": "\\l{}", "Ł": "\\L{}"},
}
ACCENTS = {
    **{"\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u"},
    **{"\u0307": ".", "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c"},
}
"""Combining character → LaTeX's command."""


def _latex_text(text: str) -> str:
    """Text for pdflatex, whatever is in it; a character without a name there is shown by its number, as U+4E2D."""
    composed = " ".join(unicodedata.normalize("NFC", text).split())
    escaped = "".join(map(_latex_letter, re.findall(r".[\u0300-\u036f]*", composed)))
    return re.sub("-(?=-)", "-{}", escaped)  # the two hyphens of a command's option would become a dash


def _latex_letter(letter: str) -> str:
    """A character, with its combining marks if there are any."""
    if letter in LATEX_CHARACTERS:
        return LATEX_CHARACTERS[letter]
    decomposed = unicodedata.normalize("NFD", letter)
    base, marks = decomposed[0], decomposed[1:]
    if base.isascii() and base.isalpha() and marks in ACCENTS:
        return f"\\{ACCENTS[marks]}{{{base}}}"
    if len(letter) > 1:
        return "".join(map(_latex_letter, letter))
    return letter if letter.isascii() and letter.isprintable() else f"U+{ord(letter):04X}"


def _latex_cell(cell: Cell, best: bool) -> str:
    text, std = _shown(cell)
    shown = _latex_text(text)
    if best:
        shown = f"\\textbf{{{shown}}}"
    return f"{shown}{{\\scriptsize\\,$\\pm$\\,{_latex_text(std)}}}" if std else shown


def _latex_block(table: Table, groups: Sequence[Sequence[int]], best: list[list[set[int]]]) -> list[str]:
    """One tabular: the columns of some groups."""
    columns = [i for group in groups for i in group]
    head, rules, at = [], [], 2  # LaTeX counts columns from 1; the first holds the rows' names
    for group in groups:
        title = table.columns[group[0]].group
        head.append(f"\\multicolumn{{{len(group)}}}{{c}}{{{_latex_text(title)}}}")
        if title:
            rules.append(f"\\cmidrule(lr){{{at}-{at + len(group) - 1}}}")
        at += len(group)
    lines = [f"\\begin{{tabular}}{{l{'r' * len(columns)}}}", "\\toprule"]
    if rules:
        lines += [f" & {' & '.join(head)} \\\\", "".join(rules)]
    names = [_latex_text(table.columns[i].name) for i in columns]
    lines += [f"{_latex_text(table.corner)} & {' & '.join(names)} \\\\"]
    for s, section in enumerate(table.sections):
        if _is_blank(section, columns):
            continue
        lines.append("\\midrule")
        if section.title:
            lines.append(f"\\multicolumn{{{len(columns) + 1}}}{{l}}{{\\emph{{{_latex_text(section.title)}}}}} \\\\")
        for r, row in enumerate(section.rows):
            cells = [_latex_cell(row.cells[i], i in best[s][r]) for i in columns]
            label = _latex_text(row.label)
            # After the end of a row, LaTeX takes a bracket or a star for an argument of the end.
            lines.append(f"{'{}' if label[:1] in ('[', '*') else ''}{label} & {' & '.join(cells)} \\\\")
    return [*lines, "\\bottomrule", "\\end{tabular}"]
