"""What a record shows by itself."""

from typing import Any

from newkinds.advice import record_advice


def record(**changes: Any) -> dict[str, Any]:
    categories = [
        {"id": i, "name": f"k{i}", "kind": "known" if i < 6 else "new", "size": 10, "labelled": 0} for i in range(8)
    ]
    made: dict[str, Any] = {
        "source": {"labelled": 30},
        "categories": categories,
        "chosen": {"lam": 0.3, "n_categories": 8},
        "curves": {"lam": None, "rehearsal": None},
    }
    for name, value in changes.items():
        made[name] = {**made[name], **value} if isinstance(value, dict) else value
    return made


def titles(**changes: Any) -> list[str]:
    return [advice.title for advice in record_advice(record(**changes))]


def test_a_plain_run_needs_no_advice() -> None:
    assert titles() == []


def test_no_labels() -> None:
    (advice,) = record_advice(record(source={"labelled": 0}))
    assert advice.title.startswith("no sample is labelled")


def test_few_known_kinds_where_they_were_rehearsed_with() -> None:
    few = record()["categories"][3:]
    assert titles(categories=few) == []
    (title,) = titles(categories=few, curves={"rehearsal": [[10, 0.3, 0.5, 1]]})
    assert title.startswith("only 3 kinds are known")


def test_lam_at_the_edge() -> None:
    curve = [[0.1, 0.5], [0.2, 0.6], [0.3, 0.7]]
    assert titles(curves={"lam": curve}, chosen={"lam": 0.2}) == []
    (title,) = titles(curves={"lam": curve}, chosen={"lam": 0.3})
    assert title == "λ = 0.3 is at the edge of the range that was tried (0.1 to 0.3): the best value may lie beyond"


def test_a_number_at_its_bound() -> None:
    assert titles(chosen={"n_categories_bounds": [6, 40]}) == []
    assert titles(chosen={"n_categories_bounds": [8, 8]}) == []
    (title,) = titles(chosen={"n_categories_bounds": [6, 8]})
    assert title.startswith("the estimated number of categories, 8, is at the bound of its search (6 to 8)")


def test_a_wide_interval_and_uneven_sizes() -> None:
    assert titles(chosen={"n_categories_interval": [6, 9], "size_ratio": 1.0}) == []
    interval, sizes = titles(chosen={"n_categories_interval": [6, 10], "size_ratio": 0.25})
    assert interval.startswith("there may be between 6 and 10 categories")
    assert sizes.startswith("new categories seem to be 0.25 times as large")


def test_empty_and_single_categories_are_named() -> None:
    categories = record()["categories"]
    for category, size in zip(categories, (0, 1, 1), strict=False):
        category["size"] = size
    empty, single = record_advice(record(categories=categories))
    assert (empty.title, empty.categories) == ("1 category is empty: k0", (0,))
    assert (single.title, single.categories) == ("2 categories are of a single sample: k1, k2", (1, 2))
