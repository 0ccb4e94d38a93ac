"""Tables: what is marked, how they are escaped, and that no figure is lost on the way to a file."""

import csv
import io
import os
import re
import shutil
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newkinds.benchmark.published import DATASETS, MAIN
from newkinds.benchmark.tables import (
    Column,
    Row,
    Section,
    Table,
    Value,
    to_csv,
    to_latex,
    to_markdown,
    write_table,
)
from newkinds.errors import InputError

PARTS = ("All", "Old", "New")
COLUMNS = [Column(name, part) for name in DATASETS for part in PARTS]
MEASURED = Section(
    "measured here",
    [
        Row("GCD", [Value(50.04, 0.44), *[Value(1.0)] * 17]),
        Row("PIM", [Value(49.96, 0.31), *[Value(2.0)] * 17]),
        Row("none", [None] * 18),
    ],
)
PUBLISHED = Section(
    "published, on other features",
    [Row(method, [Value(x) for cell in cells.values() for x in cell]) for method, cells in MAIN.items()],
)
BIG = Table(
    "main",
    "Accuracy",
    COLUMNS,
    [MEASURED, PUBLISHED],
    ["one | note", "other"],
    {"All": "largest", "New": "smallest"},
)


def small(*rows, columns=(("", "x"), ("", "y")), **options) -> Table:
    return Table("small", "Small", columns, [Section("", rows)], **options)


def cells_of(text: str, label: str) -> list[list[str]]:
    """The rows of a Markdown table that are called `label`, as cells."""
    lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines if line[0].strip() == label]


# Values


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Value(62.68), "62.7"),
        (Value(62.68, 0.52), "62.7 ± 0.5"),
        (Value(227, digits=0), "227"),
        (Value(0.12345, 0.01, digits=3), "0.123 ± 0.010"),
        (Value(-1.25), "−1.2"),
        (Value(-0.01), "0.0"),
        (Value(5.0, float("nan")), "5.0"),
        (Value(float("nan"), 1.0), "–"),
    ],
)
def test_how_a_number_is_shown(value, shown):
    assert str(value) == shown
    assert cells_of(to_markdown(small(Row("a", [value, "text"]))), "a") == [["a", shown, "text"]]


# The best


def test_the_best_of_each_section_is_bold_and_equals_share_it():
    gcd, pim, tim = [Value(51.3), Value(3)], [Value(62.68), Value(1)], [Value(62.72), Value(2)]
    rows = [Row("GCD", gcd), Row("PIM", pim), Row("TIM", tim)]
    table = small(*rows, best={"x": "largest", "y": "smallest"})
    text = to_markdown(table)
    assert cells_of(text, "GCD") == [["GCD", "51.3", "3.0"]]
    assert cells_of(text, "PIM") == [["PIM", "**62.7**", "**1.0**"]]
    assert cells_of(text, "TIM") == [["TIM", "**62.7**", "2.0"]]
    latex = to_latex(table)
    assert "PIM & \\textbf{62.7} & \\textbf{1.0} \\\\" in latex
    assert "TIM & \\textbf{62.7} & 2.0 \\\\" in latex
    assert "**" not in to_markdown(small(*rows))
    assert "textbf" not in to_latex(small(*rows))


def test_sections_are_judged_apart_and_the_standard_deviation_is_not_bold():
    gcd, pim = cells_of(to_markdown(BIG), "GCD"), cells_of(to_markdown(BIG), "PIM")
    assert gcd[0][1] == "**50.0**±0.4 / 1.0 / **1.0**"
    assert pim[0][1] == "**50.0**±0.3 / 2.0 / 2.0"
    assert pim[1][1] == "**62.7** / 75.7 / 56.2"
    assert "\\textbf{50.0}{\\scriptsize\\,$\\pm$\\,0.4} & 1.0 & \\textbf{1.0}" in to_latex(BIG)


def test_a_number_without_a_rival_is_not_marked():
    table = small(Row("a", [Value(1), None]), Row("b", ["many", Value(float("nan"))]), best={"x": "largest"})
    assert "**" not in to_markdown(table)


# Markdown


def test_a_data_set_is_one_column_in_markdown_and_wide_tables_are_set_in_blocks():
    text = to_markdown(BIG)
    assert "Each cell: All / Old / New." in text
    heads = cells_of(text, "method")
    assert [name for head in heads for name in head[1:]] == list(DATASETS)
    assert len(heads) == 2
    assert cells_of(text, "TIM")[0][1] == "53.4 / 51.8 / 54.2"
    assert cells_of(text, "none") == [["none", "–", "–", "–"]] * 2
    assert max(map(len, text.splitlines())) < 150
    assert len(cells_of(text, "*measured here*")) == 2


@pytest.mark.parametrize("written", [to_markdown, to_latex])
def test_a_block_leaves_out_a_section_that_has_nothing_in_it(written):
    """The last data sets stand in a block of their own."""
    lacking = Section("lacking", [Row(f"some {'long' * 15}", [Value(3.0)] * 3 + [None] * 15)])
    empty = Section("empty", [Row("nothing", [None] * 18)])
    text = written(Table("main", "Accuracy", COLUMNS, [MEASURED, lacking, empty]))
    n_blocks = len(re.findall(r"GCD", text))
    assert n_blocks > 1
    assert len(re.findall(r"lacking", text)) == len(re.findall(r"some", text)) == 1
    assert len(re.findall(r"nothing", text)) == n_blocks


def test_lines_of_a_markdown_table_are_of_one_length():
    for block in to_markdown(BIG).split("\n\n"):
        if block.startswith("|"):
            assert len({len(line) for line in block.splitlines()}) == 1


def test_groups_with_different_columns_name_them_in_the_head():
    columns = [("CUB", "K̂"), ("CUB", "error"), ("", "seconds"), ("Cars", "K̂"), ("Cars", "mean")]
    text = to_markdown(small(Row("PIM", [Value(227, digits=0), "14 %", None, "a", "b"]), columns=columns))
    assert cells_of(text, "method") == [["method", "CUB: K̂ / error", "seconds", "Cars: K̂ / mean"]]
    assert cells_of(text, "PIM") == [["PIM", "227 / 14 %", "–", "a / b"]]


def test_markdown_shows_texts_as_they_are():
    row = Row("H(Y|Z) *x* _y_ cub_tinyvit", ["a\\b `c` <d>", "$e$\nf"])
    text = to_markdown(small(row, notes=["K | 1"], corner="a|b"))
    assert r"| H(Y\|Z) \*x\* \_y\_ cub_tinyvit | a\\b \`c\` \<d> | \$e\$ f |" in text
    assert "- K \\| 1" in text
    assert r"| a\|b " in text


def test_the_level_of_the_heading():
    assert to_markdown(BIG).startswith("# Accuracy\n\n")
    assert to_markdown(BIG, level=3).startswith("### Accuracy\n\n")


# LaTeX


def test_latex_has_all_columns_under_their_groups():
    latex = to_latex(BIG)
    assert latex.count("\\begin{tabular}") == latex.count("\\end{tabular}") == latex.count("\\bottomrule")
    for name in DATASETS:
        assert latex.count(f"\\multicolumn{{3}}{{c}}{{{name}}}") == 1
    assert "\\caption{Accuracy}" in latex
    assert "\\label{tab:main}" in latex
    assert "one $|$ note" in latex
    for block in re.findall(r"\\begin\{tabular\}\{(l\w+)\}(.*?)\\end", latex, re.DOTALL):
        columns, body = block
        assert re.search(r"\\cmidrule\(lr\)\{2-4\}", body)
        rows = [line for line in body.splitlines() if line.endswith("\\\\") and "multicolumn" not in line]
        assert {line.count(" & ") + 1 for line in rows} == {len(columns)}


LONG = Table(
    "long",
    "Ten methods on eight sets",
    [Column(f"a_data_set_{s}", part) for s in range(8) for part in PARTS],
    [Section("", [Row(f"Method {m}, head on frozen features", [Value(50 + m, 1.2)] * 24) for m in range(10)])],
    ["a note of many words " * 20],
    {"All": "largest"},
)


def test_a_wide_table_is_one_float_with_its_blocks_below_each_other():
    latex = to_latex(LONG)
    assert latex.count("\\begin{table*}") == latex.count("\\end{table*}") == 1
    assert latex.count("\\caption{Ten methods on eight sets}") == latex.count("\\label{tab:long}") == 1
    blocks = latex.split("\\begin{tabular}")[1:]
    assert len(blocks) > 2
    assert re.findall(r"data\\_set\\_(\d)", latex) == list("01234567")
    for block in blocks:
        assert len(re.findall(r"Method \d, head", block)) == 10
    assert latex.index("a note of many words") > latex.rindex("\\end{tabular}")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_pdflatex_sets_tables_within_the_width_of_the_page(tmp_path):
    characters = small(Row("ê 中 K̂ λ̂ < | _ # % \\ ~ ^ [*", [Value(1, 0.1), "*"]), notes=["[a] {b} $c$"])
    body = [to_latex(table) for table in (BIG, LONG, characters)]
    head = "\\documentclass[twocolumn]{article}\n\\usepackage{booktabs}\n\\begin{document}\n"
    (tmp_path / "page.tex").write_text("\n".join([head, *body, "\\end{document}\n"]))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout
    assert (tmp_path / "page.pdf").exists()
    assert "Overfull" not in said.stdout


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("100 % of a_b & c #1 $5 {x}", r"100 \% of a\_b \& c \#1 \$5 \{x\}"),
        ("λ = 1 ± 0.1", r"$\lambda$ = 1 $\pm$ 0.1"),
        ("K̂ and λ̂", r"$\hat{K}$ and $\hat{\lambda}$"),
        ("−H(Y|Z) – a", r"$-$H(Y$|$Z) \textendash{} a"),
        ("--seeds a---b", "-{}-seeds a-{}-{}-b"),
        ("ê é ü ç Å ž", r"\^{e} \'{e} \"{u} \c{c} \r{A} \v{z}"),
        ("a\\b ~ ^ <x>", r"a\textbackslash{}b \textasciitilde{} \textasciicircum{} $<$x$>$"),
        ("Łódź, Århus & Gießen …", r"\L{}\'{o}d\'{z}, \r{A}rhus \& Gie\ss{}en \ldots{}"),
        ("e\u0302 &\u0302 μ", r"\^{e} \&U+0302 U+03BC"),
        ("two\nlines  and\ttabs", "two lines and tabs"),
        ("中 \u0302", "U+4E2D U+0302"),
    ],
)
def test_latex_escapes(text, latex):
    table = small(Row("a", [text, None]), notes=[text])
    assert f"a & {latex} & \\textendash{{}} \\\\" in to_latex(table)
    assert f"{{\\raggedright {latex}\\par}}" in to_latex(table)


@pytest.mark.parametrize("label", ["[a]", "*a"])
def test_a_row_is_not_taken_for_an_argument_of_the_row_before(label):
    assert f"{{}}{label} & 1.0" in to_latex(small(Row(label, [Value(1), None])))


@settings(max_examples=50)
@given(st.text())
def test_any_text_gives_plain_latex_with_balanced_braces_and_one_line_of_markdown(text):
    table = small(Row(text, [text, None]), notes=[text])
    latex = to_latex(table)
    assert latex.isascii()
    bare = re.sub(r"\\.", "", latex)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    line = to_markdown(table).splitlines()[4]
    assert len(re.split(r"(?<!\\)(?:\\\\)*\|", line)) == 5


# CSV


def test_csv_has_every_cell_with_all_its_digits():
    rows = list(csv.DictReader(io.StringIO(to_csv(BIG), newline="")))
    assert len(rows) == 12 * 18
    assert list(rows[0]) == ["section", "row", "group", "column", "mean", "std", "text"]
    assert rows[0] == {
        **{"section": "measured here", "row": "GCD", "group": "CUB", "column": "All"},
        **{"mean": "50.04", "std": "0.44", "text": ""},
    }
    published = {
        (row["row"], row["group"], row["column"]): float(row["mean"])
        for row in rows
        if row["section"] == "published, on other features"
    }
    assert published == {
        (method, name, part): cell[i]
        for method, cells in MAIN.items()
        for name, cell in cells.items()
        for i, part in enumerate(PARTS)
    }


@given(st.text(), st.floats(allow_nan=False), st.floats(0, 1) | st.none())
def test_csv_comes_back_as_it_was(text, mean, std):
    table = small(Row(text, [Value(mean, std), text]))
    numbers, texts = csv.DictReader(io.StringIO(to_csv(table), newline=""))
    assert numbers["row"] == texts["row"] == texts["text"] == text
    assert float(numbers["mean"]) == mean
    assert numbers["std"] == ("" if std is None else repr(std))
    assert texts["mean"] == texts["std"] == numbers["text"] == ""


def test_csv_is_quoted_and_its_lines_end_as_the_standard_has_it():
    lines = to_csv(small(Row('a "b", c', [None, Value(1)]))).split("\r\n")
    assert lines[1:] == [',"a ""b"", c",,x,,,', ',"a ""b"", c",,y,1.0,,', ""]


# Files


def test_three_files_are_written_as_they_are_and_nothing_else(tmp_path):
    paths = write_table(BIG, tmp_path / "new")
    assert [path.name for path in paths] == ["main.md", "main.csv", "main.tex"]
    assert sorted(os.listdir(tmp_path / "new")) == ["main.csv", "main.md", "main.tex"]
    texts = [path.read_bytes().decode("utf-8") for path in paths]
    assert texts == [to_markdown(BIG), to_csv(BIG), to_latex(BIG)]
    assert write_table(BIG, str(tmp_path / "new")) == paths


# What is refused


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "a/b"}, "called 'a/b' has no file name"),
        ({"name": ""}, "has no file name"),
        ({"columns": []}, "it needs columns"),
        ({"columns": [("", "x"), ("", "x")]}, "each of them once"),
        ({"columns": [("a", "x"), ("b", "x"), ("a", "y")]}, "side by side"),
        ({"best": {"All": "largest"}}, "table t: no column is called All"),
        ({"sections": [Section("", [Row("short", [None])])]}, "row 'short' has 1 cells for 2 columns"),
    ],
)
def test_a_table_that_does_not_fit_together_is_refused(change, message):
    right: dict[str, Any] = {"name": "t", "title": "T", "columns": [("", "x"), ("", "y")], "sections": []}
    assert to_markdown(Table(**right))
    with pytest.raises(InputError, match=message):
        Table(**{**right, **change})
