"""Two runs on the same samples."""

from pathlib import Path

import numpy as np
import pytest

from newkinds import FeatureSet, InputError, SemiSupervisedKMeans, discover
from newkinds.comparing import Comparison, compare_runs
from newkinds.discovery import Discovery
from newkinds.editing import rename
from tests.commands.command_line import fail, printed, record_of, succeed, write_record
from tests.report.pages import read_page

NAMES = ("owl", "wren")


def save(folder: Path, groups: str, ids: list[str] | None = None, texts: bool = False) -> Path:
    """A run in which samples have the categories that letters say: o and w are known, others are new."""
    letters = sorted(set(groups), key=lambda letter: (letter not in "ow", letter))
    columns = np.array([letters.index(letter) for letter in groups])
    features = np.eye(8)[columns] + 0.01 * np.random.default_rng(0).normal(size=(len(groups), 8))
    labels = np.where(np.isin(list(groups), ["o", "w"]), columns, -1)
    collection = FeatureSet(
        features,
        labels,
        names=NAMES,
        ids=tuple(ids or [f"s{i}" for i in range(len(groups))]),
        texts=tuple(f"text {letter}" for letter in groups) if texts else None,
    )
    model = SemiSupervisedKMeans(len(letters), random_state=0)
    discovery: Discovery = discover(collection, method=model)
    found = [discovery.model.labels_[i] for i in range(len(groups))]
    assert len(set(zip(found, groups, strict=True))) == len(letters)
    return discovery.save(folder, with_map=False)


@pytest.fixture
def compared(tmp_path: Path):
    def compare(before: str, after: str, **options: object) -> Comparison:
        return compare_runs(save(tmp_path / "before", before), save(tmp_path / "after", after))

    return compare


def topics(comparison: Comparison) -> list[str]:
    return [change.topic for change in comparison.changes]


def test_nothing_changed(compared):
    comparison = compared("ooowwwaaabbbb", "ooowwwaaabbbb")
    assert (comparison.n_common, comparison.n_moved, comparison.changes) == (13, 0, ())


def test_keys_that_were_numbered_anew_are_no_moves(compared):
    comparison = compared("ooowwwaaaabbb", "ooowwwaaabbbb")
    # b is larger now, so what was new-1 is new-2
    assert comparison.n_moved == 1
    assert "renamed" not in topics(comparison)


def test_a_category_that_went_into_a_known_one_is_gone(compared):
    comparison = compared("ooowww" + "a" * 10 + "b" * 8, "ooowww" + "o" * 8 + "cc" + "b" * 8)
    gone = [change for change in comparison.changes if change.topic == "gone"]
    assert len(gone) == 1
    assert "is in owl" in gone[0].text


def test_a_category_that_was_split(compared):
    comparison = compared("ooowww" + "a" * 10, "ooowww" + "a" * 6 + "b" * 4)
    assert [change.topic for change in comparison.changes if change.topic in ("split", "born")] == ["split", "born"]
    assert comparison.n_moved == 4
    born = next(change for change in comparison.changes if change.topic == "born")
    assert "100%" in born.text


def test_categories_that_became_one(compared):
    comparison = compared("ooowww" + "a" * 6 + "b" * 4, "ooowww" + "a" * 10)
    assert {"gone", "merged"} <= set(topics(comparison))
    assert comparison.n_moved == 4


def test_another_suggestion_is_no_other_name(tmp_path):
    before, after = (save(tmp_path / name, "ooowwwaaa", texts=True) for name in ("before", "after"))
    record = record_of(after)
    record["categories"][2]["suggestion"] = "something else"
    write_record(after, record)
    assert compare_runs(before, after).changes == ()


def test_samples_that_moved_are_listed_with_their_categories(compared):
    comparison = compared("ooowww" + "a" * 6 + "b" * 6, "ooowww" + "a" * 5 + "b" * 7)
    (row,) = comparison.moved.to_pylist()
    assert row["id"] == "s11"
    before = comparison.before["categories"][row["before"]]["key"]
    after = comparison.after["categories"][row["after"]]["key"]
    assert (before, after) == ("new-1", "new-1")  # the larger one comes first, and that is another now
    assert comparison.flows.sum() == comparison.n_common


def test_a_name_that_a_person_gave_is_a_change(tmp_path):
    before, after = (save(tmp_path / name, "ooowwwaaa") for name in ("before", "after"))
    rename(after, "new-1", "ant")
    (change,) = compare_runs(before, after).changes
    assert change.topic == "renamed"
    assert change.text.endswith("is now ant")


def test_samples_of_one_run_only_are_counted(tmp_path):
    before = save(tmp_path / "before", "ooowwwaaa")
    after = save(tmp_path / "after", "ooowwwaaaa", ids=[f"s{i}" for i in range(2, 12)])
    comparison = compare_runs(before, after)
    assert (comparison.n_common, comparison.n_only_before, comparison.n_only_after) == (7, 2, 3)


def test_runs_without_a_common_sample_are_refused(tmp_path):
    before = save(tmp_path / "before", "ooowwwaaa")
    after = save(tmp_path / "after", "ooowwwaaa", ids=[f"other{i}" for i in range(9)])
    with pytest.raises(InputError, match="have no sample in common: their ids differ"):
        compare_runs(before, after)


# The command


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    before = save(tmp_path / "before", "ooowww" + "a" * 10, texts=True)
    return before, save(tmp_path / "after", "ooowww" + "a" * 6 + "b" * 4, texts=True)


def test_what_changed_is_printed(pair):
    said = printed("compare", *pair)
    assert said.startswith("4 samples of 16 changed their kind.")
    assert "One kind is new." in said
    assert "text b" in said


def test_what_changed_is_a_page(pair, tmp_path):
    page = tmp_path / "page.html"
    assert page.as_uri() in printed("compare", *pair, "--out", page)
    content = read_page(page).content
    assert content["page"] == "comparison"
    assert content["n_moved"] == 4
    assert {change["topic"] for change in content["changes"]} >= {"born", "split"}
    assert all(change["text"].endswith(".") for change in content["changes"])
    assert sum(n for _, _, n in content["flows"]) == 16
    fail("compare", *pair, "--out", page, says="already exists")
    succeed("compare", *pair, "--out", page, "--force", "-q")
    fail("compare", *pair, "--out", pair[0] / "report.html", says="belongs to the run")
    fail("compare", *pair, "--open", says="name it with --out")
    fail("compare", pair[0], tmp_path, says="is not a run folder")
