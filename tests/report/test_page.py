"""The report's page, as a person sees it, from records made by hand."""

import html
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from newkinds.report import write_report
from newkinds.report.page import TYPICAL, render

PICTURE = b"\x89PNG\r\n\x1a\n picture "


def record(**changes: Any) -> dict[str, Any]:
    """A run with two known categories and three new ones."""
    categories = [
        {"id": 0, "name": "owl", "kind": "known", "size": 20, "labelled": 4},
        {"id": 3, "name": "wren", "kind": "known", "size": 1000, "labelled": 500},
        {"id": 4, "name": "new-1", "kind": "new", "size": 250, "labelled": 0},
        {"id": 5, "name": "new-2", "kind": "new", "size": 1, "labelled": 0},
        {"id": 6, "name": "new-3", "kind": "new", "size": 0, "labelled": 0},
    ]
    return {
        "schema_version": 1,
        "source": {"name": "birds", "samples": 1271, "labelled": 504},
        "method": "pim",
        "parameters": {},
        "chosen": {"lam": 0.2, "temperature": 25.0, "n_categories": 5, "n_categories_rule": None},
        "curves": {"lam": None, "n_categories": None, "rehearsal": None, "objective": None},
        "categories": categories,
        "score": None,
        "stopped": "converged",
        "n_iter": 10,
        "warnings": [],
        "seconds": {"fit": 1.25},
        "versions": {"newkinds": "1.2.3"},
        "created": "2026-11-16T08:09:10+00:00",
        **changes,
    }


def predictions(*samples: tuple[str, int, float], **columns: list[Any]) -> pa.Table:
    """Samples as (id, category, confidence)."""
    ids, categories, confidence = zip(*samples, strict=True)
    novelty = [0.25] * len(samples)
    return pa.table({"id": ids, "category": categories, "confidence": confidence, "novelty": novelty, **columns})


ONE_EACH = predictions(("a", 0, 0.9), ("b", 3, 0.9), ("c", 4, 0.9), ("d", 5, 0.9))


def facts(page: str) -> dict[str, str]:
    """The boxes at the top: what each counts → its number."""
    return {label: value for value, label in re.findall(r'class="fact"><b>(.*?)</b><span>(.*?)</span>', page)}


def rows(page: str) -> list[list[str]]:
    """The table of categories, as text."""
    table = page.split("<h2>Categories</h2>")[1].split("</table>")[0]
    cells = [re.findall(r"<td.*?>(.*?)</td>", line) for line in table.split("<tr")]
    return [[html.unescape(re.sub(r"<.*?>", "", cell)).strip() for cell in line] for line in cells if line]


def samples(page: str, category: int) -> list[str]:
    """What is shown of a category's samples."""
    section = page.split(f'id="c{category}">')[1].split("</section>")[0]
    return [html.unescape(re.sub(r"<.*?>", "", item)) for item in re.findall(r"<li.*?>(.*?)</li>", section)]


def test_the_page_counts_samples_labels_known_and_new_categories() -> None:
    page = render(record(), ONE_EACH)
    assert facts(page) == {
        "samples": "1,271",
        "labelled": "504",
        "known categories": "2",
        "new categories": "3",
        "λ": "0.2",
        "temperature": "25",
    }
    assert "PIM · newkinds 1.2.3 · 2026-11-16 08:09 UTC · fitted in 1.2 s" in page
    assert "<title>birds: categories found by newkinds</title>" in page
    assert "<h1>birds</h1>" in page


def test_a_method_without_lam_shows_none() -> None:
    chosen = {**record()["chosen"], "lam": None}
    assert "λ" not in facts(render(record(chosen=chosen), ONE_EACH))


def test_the_interval_of_the_number_of_categories_is_shown_where_there_is_one() -> None:
    chosen = {**record()["chosen"], "n_categories_interval": [4, 9]}
    shown = facts(render(record(chosen=chosen), ONE_EACH))
    assert shown["categories in all, with a probability of 90 %"] == "4–9"


def test_the_score_is_shown_as_all_old_and_new() -> None:
    score = {"all": 0.5, "old": 0.75, "new": None, "protocol": "v2"}
    shown = facts(render(record(score=score), ONE_EACH))
    assert shown["accuracy All / Old / New (v2)"] == "50.0 / 75.0 / –"
    assert not any("accuracy" in label for label in facts(render(record(), ONE_EACH)))


def test_categories_stand_in_their_order_with_kind_size_and_labels() -> None:
    page = render(record(), ONE_EACH)
    assert rows(page) == [
        ["owl known", "", "20", "4"],
        ["wren known", "", "1,000", "500"],
        ["new-1 new", "", "250", "0"],
        ["new-2 new", "", "1", "0"],
        ["new-3 new", "", "0", "0"],
    ]
    bars = re.findall(r'<tr class="(\w+)">.*?style="width:(.*?)%', page)
    assert bars == [("known", "2.0"), ("known", "100.0"), ("new", "25.0"), ("new", "0.1"), ("new", "0.0")]
    titles = re.findall(r"<h3>(\S+) <span.*?>(\w+)</span> <span.*?>(.*?)</span>", page)
    assert titles[2] == ("new-1", "new", "250 samples")
    assert [name for name, _, _ in titles] == ["owl", "wren", "new-1", "new-2", "new-3"]
    for category in (0, 3, 4, 5, 6):
        assert f'href="#c{category}"' in page


def test_typical_samples_are_the_most_confident_ones_of_their_own_category() -> None:
    table = predictions(
        ("doubtful", 0, 0.3), ("sure", 0, 0.95), ("likely", 0, 0.7), ("elsewhere", 3, 0.99), ("also likely", 0, 0.7)
    )
    page = render(record(), table)
    assert samples(page, 0) == ["sure", "likely", "also likely", "doubtful"]
    assert samples(page, 3) == ["elsewhere"]
    assert samples(page, 6) == ["no sample"]
    assert 'title="sure: confidence 0.95, novelty 0.25"' in page


def test_of_a_large_category_only_the_most_typical_are_shown() -> None:
    page = render(record(), predictions(*((f"sample {i}", 0, i / 100) for i in range(50))))
    assert samples(page, 0) == [f"sample {i}" for i in range(49, 49 - TYPICAL, -1)]


def test_pictures_come_before_texts_and_texts_before_ids() -> None:
    table = predictions(("a", 0, 0.9), text=["a long-eared owl"])
    assert samples(render(record(), table), 0) == ["a long-eared owl"]
    page = render(record(), table.append_column("thumbnail", pa.array([PICTURE])))
    assert '<img src="data:image/png;base64,iVBORw0KGgog' in page
    assert 'alt="a">' in page
    assert "a long-eared owl" not in page


def test_long_texts_are_cut() -> None:
    page = render(record(), predictions(("a", 0, 0.9), ("b", 0, 0.8), text=["x" * 161, "y" * 160]))
    assert samples(page, 0) == ["x" * 159 + "…", "y" * 160]


def test_nothing_from_the_data_is_taken_for_html() -> None:
    attack = "<script>alert('x')</script> & \"quoted\""
    made = record(source={**record()["source"], "name": attack}, warnings=[attack])
    made["categories"][0]["name"] = attack
    chosen = {**made["chosen"], "n_categories_rule": attack}
    curves = {**made["curves"], "n_categories": [[4, 0.5], [5, 0.6]]}
    table = predictions((attack, 0, 0.9), text=[attack])
    for shown in (table, table.drop_columns("text"), table.append_column("thumbnail", pa.array([PICTURE]))):
        page = render({**made, "chosen": chosen, "curves": curves}, shown)
        assert "<script" not in page
        assert 'title="<' not in page
        assert re.search(r'="[^"]*<', page) is None  # no attribute was left open or closed early
        assert page.count(html.escape(attack)) >= 6  # title, heading, warning, table, section, sample


def test_warnings_are_listed_and_without_any_there_is_no_list() -> None:
    page = render(record(warnings=["one is empty", "two are alike"]), ONE_EACH)
    assert '<ul class="warnings"><li>one is empty</li><li>two are alike</li></ul>' in page
    assert 'class="warnings"' not in render(record(), ONE_EACH)


def test_without_curves_there_is_no_chart() -> None:
    page = render(record(), ONE_EACH)
    assert "<svg" not in page
    assert '<div class="charts">' not in page


def test_the_kinds_come_first_and_how_they_were_found_is_folded_away_at_the_end() -> None:
    curves = {**record()["curves"], "lam": [[0.1, 0.5], [0.2, 0.75]]}
    page = render(record(curves=curves), ONE_EACH)
    before, folded = page.split("<details><summary>How it was found</summary>")
    assert "Typical samples" in before
    assert "<svg" not in before
    assert facts(folded) == {"λ": "0.2", "temperature": "25"}
    assert facts(before).keys() == {"samples", "labelled", "known categories", "new categories"}


def test_confidence_and_novelty_are_explained() -> None:
    page = render(record(), ONE_EACH)
    assert "confidence: how probable it is that a sample belongs to its kind" in page
    assert "novelty: how probable it is that a sample belongs to a kind without any label" in page


def test_the_curve_of_lam_marks_the_chosen_one() -> None:
    curves = {**record()["curves"], "lam": [[0.1, 0.5], [0.2, 0.75], [0.3, 0.625]]}
    page = render(record(curves=curves), ONE_EACH)
    assert re.findall(r"<title>(λ .*?)</title>", page) == ["λ 0.1: 50 %", "λ 0.2: 75 % (chosen)", "λ 0.3: 62.5 %"]
    assert "How λ was chosen" in page


@pytest.mark.parametrize(
    ("rule", "axis", "shown"),
    [
        ("silhouette", "silhouette", "categories 5: 0.25 (chosen)"),
        ("rehearsal", "hidden categories recovered (%)", "categories 5: 25 % (chosen)"),
        ("max-acc-pim", "labelled accuracy (%)", "categories 5: 25 % (chosen)"),
    ],
)
def test_the_curve_of_the_number_of_categories_says_what_was_measured(rule: str, axis: str, shown: str) -> None:
    curves = {**record()["curves"], "n_categories": [[4, 0.125], [5, 0.25]]}
    chosen = {**record()["chosen"], "n_categories_rule": rule}
    page = render(record(curves=curves, chosen=chosen), ONE_EACH)
    assert f"<title>{shown}</title>" in page
    assert f'aria-label="{axis} over categories"' in page
    assert f"How the number of categories was estimated ({rule})" in page


def test_the_table_of_rehearsals_marks_the_chosen_setting() -> None:
    rehearsal = [[25.0, 0.2, 0.5, 8], [25.0, 0.1, 0.75, 8], [10.0, 0.2, 0.25, 8]]
    curves = {**record()["curves"], "rehearsal": rehearsal, "objective": [[1, 0.5], [2, 0.25]]}
    page = render(record(curves=curves), ONE_EACH)
    table = page.split('<table class="heat">')[1].split("</table>")[0]
    assert re.findall(r"<th>(.*?)</th>", table) == ["T \\ λ", "0.1", "0.2", "10", "25"]
    cells = re.findall(r"<td(.*?)>(.*?)</td>", table)
    assert [text for _, text in cells] == ["", "25.0", "75.0", "50.0"]
    assert [text for attributes, text in cells if "chosen" in attributes] == ["50.0"]
    assert re.findall(r"--heat:(.*?)\"", table) == ["0.00", "1.00", "0.50"]
    assert "The objective during training" in page


def test_the_report_is_written_from_what_the_folder_holds(tmp_path: Path) -> None:
    made = record(source={**record()["source"], "samples": 4, "labelled": 2})
    for category, size, labelled in zip(made["categories"], (1, 1, 1, 1, 0), (1, 1, 0, 0, 0), strict=True):
        category.update(size=size, labelled=labelled)
    (tmp_path / "run.json").write_text(json.dumps(made), "utf-8")
    pq.write_table(ONE_EACH, tmp_path / "predictions.parquet")
    written = write_report(tmp_path)
    assert written == tmp_path / "report.html"
    assert written.read_text("utf-8") == render(made, ONE_EACH)
