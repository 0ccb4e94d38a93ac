"""The line charts of the report."""

import xml.etree.ElementTree as ET

import pytest

from newkinds.report.charts import HEIGHT, WIDTH, _ticks, line_chart


def test_a_chart_is_well_formed_and_marks_the_chosen_point() -> None:
    chart = line_chart([(0.1, 0.5), (0.2, 0.7), (0.3, 0.6)], x_label="λ", y_label="a & b", marked=0.2, percent=True)
    root = ET.fromstring(chart)
    circles = root.findall("circle")
    assert [circle.get("class") for circle in circles] == ["point", "chosen", "point"]
    assert [circle.findtext("title") for circle in circles] == [
        "λ 0.1: 50 %",
        "λ 0.2: 70 % (chosen)",
        "λ 0.3: 60 %",
    ]
    across, down = ([float(circle.attrib[name]) for circle in circles] for name in ("cx", "cy"))
    assert 0 < across[0] < across[1] < across[2] < WIDTH
    assert 0 < down[1] < down[2] < down[0] < HEIGHT  # the best is highest


@pytest.mark.parametrize("points", [[(1, 0.5)], [(1, 0.5), (2, 0.5)], [(x, x**2) for x in range(200)]])
def test_flat_single_and_long_curves_are_drawn(points: list[tuple[float, float]]) -> None:
    root = ET.fromstring(line_chart(points, x_label="x", y_label="y"))
    (curve,) = root.findall("polyline")
    assert len(curve.attrib["points"].split()) == len(points)
    assert len(root.findall("circle")) == (len(points) if len(points) <= 60 else 0)


def test_a_small_change_in_percent_looks_small() -> None:
    def height(percent: bool) -> float:
        chart = line_chart([(0, 0.500), (1, 0.501)], x_label="x", y_label="y", percent=percent)
        first, second = (float(circle.attrib["cy"]) for circle in ET.fromstring(chart).findall("circle"))
        return first - second

    assert 0 < height(percent=True) < 0.05 * HEIGHT
    assert height(percent=False) > 0.5 * HEIGHT


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (0.05, 1.0), (-2.3, -1.1), (5, 1000), (86.2, 86.7), (1e-4, 2e-4)]
)
def test_ticks_are_few_and_inside(low: float, high: float) -> None:
    ticks = _ticks(low, high)
    assert 2 <= len(ticks) <= 9
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in ticks)


@pytest.mark.parametrize(
    "values", [(1e99, 1e99), (0.0, 5e-324), (-5e-324, 5e-324), (1.0, 1.0 + 2e-16), (-1e99, 1e99)]
)
def test_values_that_are_odd_are_drawn_too(values: tuple[float, float]) -> None:
    """A run folder may hold any finite numbers."""
    for percent in (False, True):
        chart = line_chart(list(zip(values, values, strict=True)), x_label="x", y_label="y", percent=percent)
        assert chart.count("<circle") == 2
        assert "nan" not in chart
        assert "inf" not in chart
