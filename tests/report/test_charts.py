"""The line charts of the report."""

import xml.etree.ElementTree as ET

import pytest

from newkinds.report.charts import HEIGHT, WIDTH, _ticks, line_chart


def test_a_chart_is_well_formed_and_marks_the_chosen_point() -> None:
    chart = line_chart([(0.1, 0.5), (0.2, 0.7), (0.3, 0.6)], x_label="λ", y_label="a & b", marked=0.2, percent=True)
    root = ET.fromstring(chart)
    circles = root.findall("circle")
    assert [circle.get("class") for circle in circles] == ["point", "chosen", "point"]
    assert circles[1].find("title").text == "λ 0.2: 70 % (chosen)"
    for circle in circles:
        assert 0 < float(circle.get("cx")) < WIDTH
        assert 0 < float(circle.get("cy")) < HEIGHT


@pytest.mark.parametrize("points", [[(1, 0.5)], [(1, 0.5), (2, 0.5)], [(x, x**2) for x in range(200)]])
def test_flat_single_and_long_curves_are_drawn(points: list[tuple[float, float]]) -> None:
    root = ET.fromstring(line_chart(points, x_label="x", y_label="y"))
    assert len(root.find("polyline").get("points").split()) == len(points)


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (0.05, 1.0), (-2.3, -1.1), (5, 1000), (86.2, 86.7), (1e-4, 2e-4)]
)
def test_ticks_are_few_and_inside(low: float, high: float) -> None:
    ticks = _ticks(low, high)
    assert 2 <= len(ticks) <= 9
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in ticks)
