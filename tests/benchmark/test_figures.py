"""The figures: both files are there, the same each time, with everything named; and nothing global is touched."""

import importlib.util
import os
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newkinds.benchmark import figures
from newkinds.benchmark.figures import LambdaPanel, dot_chart, lambda_figure
from newkinds.benchmark.published import DATASETS, MAIN, MAIN_STD
from newkinds.errors import InputError

Groups = Mapping[str, Mapping[str, tuple[float, float | None]]]
GROUPS: Groups = {
    name: {
        method: (cells[name].all, MAIN_STD[method][name].all if method in MAIN_STD else None)
        for method, cells in MAIN.items()
    }
    for name in DATASETS
}
PANEL = LambdaPanel(
    title="CUB",
    lams=[0.05, 0.1, 0.5, 1.0],
    labelled_accuracy=[60.0, 70.0, 65.0, 50.0],
    lam_chosen=0.1,
    all_accuracy=[55.0, 62.0, 61.0, 40.0],
    lam_best=0.5,
    frequencies=[3, 9, 5, 1],
    is_known=[True, True, False, False],
    all_std=[1.0, 0.5, 0.5, 2.0],
)


ONE: Groups = {"CUB": {"PIM": (62.7, 0.5)}}


def draw_dots(path: Path | str, groups: Groups = GROUPS, title: str = "Accuracy") -> tuple[Path, Path]:
    return dot_chart(title, groups, x_label="All accuracy (%)", path=path)


DRAWINGS = {"dots": lambda path: draw_dots(path, ONE), "lambda": lambda path: lambda_figure([PANEL], path)}


def texts(svg: Path) -> str:
    """matplotlib writes every text into a comment beside its outlines."""
    text = svg.read_text("utf-8")
    assert ET.fromstring(text).tag.endswith("svg")
    return text


def top_of(svg: Path, colour: str) -> float:
    """The highest point of the classes' sizes that have a colour."""
    paths = re.findall(rf'<path d="([^"]*)"[^>]*style="fill: {colour}', svg.read_text("utf-8"), re.DOTALL)
    outline = max(paths, key=len)  # the others are patches of the legend
    return min(float(y) for _, y in re.findall(r"[ML] (\S+) (\S+)", outline))


def png_size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


@pytest.mark.parametrize("name", ["figure", "figure.png"])
def test_both_files_are_written_and_nothing_else(tmp_path, name):
    assert draw_dots(tmp_path / "new" / name, ONE) == (tmp_path / "new/figure.png", tmp_path / "new/figure.svg")
    assert sorted(os.listdir(tmp_path / "new")) == ["figure.png", "figure.svg"]


def test_a_point_in_the_name_is_kept(tmp_path):
    png, svg = draw_dots(str(tmp_path / "dots.v2"), ONE)
    assert (png.name, svg.name) == ("dots.v2.png", "dots.v2.svg")


@pytest.mark.slow
def test_the_dot_chart_names_every_data_set_and_method_with_its_number(tmp_path):
    png, svg = draw_dots(tmp_path / "dots")
    drawn = texts(svg)
    for text in (*DATASETS, *MAIN, "Accuracy", "All accuracy (%)", "62.7 ± 0.5", "51.3"):
        assert f"<!-- {text} -->" in drawn
    width, height = png_size(png)
    assert 1000 < width < 1600
    assert 500 < height < 1200


def test_a_method_keeps_its_colour_where_others_are_missing(tmp_path):
    both = {"a": (1.0, 0.1), "b": (2.0, 0.1)}
    _, svg = draw_dots(tmp_path / "both", {"one": both, "two": both})
    _, lone = draw_dots(tmp_path / "lone", {"one": both, "two": {"b": (2.0, 0.1), "a": (float("nan"), None)}})
    first, second = "#332288", "#cc6677"
    # A bar with its dot, in each panel.
    assert texts(svg).count(f"stroke: {second}") == texts(lone).count(f"stroke: {second}")
    assert texts(svg).count(f"stroke: {first}") == 2 * texts(lone).count(f"stroke: {first}")
    assert "nan" not in texts(lone)


def test_long_and_odd_names_are_drawn_as_they_are(tmp_path):
    groups: Groups = {"cost_$x$ and $y": {"a_$1$": (1.0, None)}, "n" * 200: {"b": (1.0, float("nan"))}}
    _, svg = draw_dots(tmp_path / "dots", groups, title="What $ costs: " + "a long title " * 20)
    drawn = texts(svg)
    assert "<!-- cost_$x$ and $y -->" in drawn
    assert "<!-- a_$1$ -->" in drawn
    assert "n" * 200 not in drawn
    assert "nn… -->" in drawn


def test_a_long_name_has_a_line_for_each_part(tmp_path):
    _, svg = draw_dots(tmp_path / "dots", {"a_set_of_twenty_thousand, long-tailed 50": {"a": (1.0, None)}})
    assert "<!-- a_set_of_twenty_thousand, -->" in texts(svg)
    assert "<!-- long-tailed 50 -->" in texts(svg)


@pytest.mark.parametrize("n", [2, 7])
def test_any_number_of_data_sets(tmp_path, n):
    _, svg = draw_dots(tmp_path / "dots", {f"set {i}": {"PIM": (50.0 + i, 1.0)} for i in range(n)})
    for i in range(n):
        assert f"<!-- set {i} -->" in texts(svg)


def test_the_figure_of_lambda_names_what_was_chosen_and_what_is_best(tmp_path):
    png, svg = lambda_figure([PANEL, replace(PANEL, title="Cars", lam_chosen=1.0)], tmp_path / "lam")
    drawn = texts(svg)
    for text in ("CUB", "Cars", "known class", "novel class", "± std over seeds", "samples", "class, by size"):
        assert f"<!-- {text} -->" in drawn
    assert "<!-- $\\hat{\\lambda}$ = 0.1 -->" in drawn
    assert "<!-- $\\hat{\\lambda}$ = 1 -->" in drawn
    assert drawn.count("<!-- $\\lambda_{\\mathrm{GT}}$ = 0.5 -->") == 2
    width, height = png_size(png)
    assert width >= 540
    assert height == 810
    assert top_of(svg, "#6699cc") < top_of(svg, "#eecc66")  # the largest class is known; counted from above


def test_without_seeds_there_is_no_word_of_them(tmp_path):
    _, svg = lambda_figure([replace(PANEL, all_std=None)], tmp_path / "lam")
    assert "std" not in texts(svg).split("</metadata>")[1]


@pytest.mark.slow
def test_the_order_of_lams_and_classes_does_not_matter(tmp_path):
    order, classes = [2, 0, 3, 1], [3, 1, 0, 2]
    shuffled: dict[str, Any] = {
        name: np.array(getattr(PANEL, name))[places]
        for places, names in (
            (order, ("lams", "labelled_accuracy", "all_accuracy", "all_std")),
            (classes, ("frequencies", "is_known")),
        )
        for name in names
    }
    one = lambda_figure([PANEL], tmp_path / "one")[1]
    other = lambda_figure([replace(PANEL, **shuffled)], tmp_path / "other")[1]
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("name", DRAWINGS)
def test_the_same_numbers_give_the_same_svg_whatever_the_users_style(tmp_path, name):
    import matplotlib

    first = DRAWINGS[name](tmp_path / "first")[1].read_bytes()
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "black", "svg.hashsalt": None}):
        before = dict(matplotlib.rcParams)
        assert DRAWINGS[name](tmp_path / "second")[1].read_bytes() == first
        assert dict(matplotlib.rcParams) == before
    assert b"<dc:date>" not in first


@pytest.mark.parametrize("name", DRAWINGS)
def test_pyplot_is_never_needed(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # to import it is an error now
    assert DRAWINGS[name](tmp_path / "figure")[0].exists()


def test_matplotlib_is_only_needed_to_draw(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    spec = importlib.util.spec_from_file_location("figures_again", figures.__file__)
    assert spec is not None
    assert spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, again)
    spec.loader.exec_module(again)
    assert again.LambdaPanel


@pytest.mark.parametrize("name", DRAWINGS)
def test_without_matplotlib_the_error_says_what_to_install(tmp_path, monkeypatch, name):
    for module in [module for module in sys.modules if module.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r'matplotlib.*pip install "newkinds\[benchmark\]"'):
        DRAWINGS[name](tmp_path / "figure")
    assert os.listdir(tmp_path) == []


def test_nothing_to_draw_is_said(tmp_path):
    empty: list[Groups] = [{}, {"CUB": {}}]
    for groups in empty:
        with pytest.raises(InputError, match="nothing to draw in the chart 'Accuracy'"):
            draw_dots(tmp_path / "dots", groups)
    with pytest.raises(InputError, match="needs a data set"):
        lambda_figure([], tmp_path / "lam")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"all_accuracy": [1.0]}, "CUB: all_accuracy has 1 values for 4 lams"),
        ({"labelled_std": [1.0, 2.0]}, "CUB: labelled_std has 2 values for 4 lams"),
        ({"is_known": [True]}, "CUB: 4 frequencies, but 1 in is_known"),
    ],
)
def test_a_panel_whose_parts_differ_in_length_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        replace(PANEL, **change)
