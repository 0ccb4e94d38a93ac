"""What in a run is worth a look: from labels made wrong, kinds cut in two and copies to the page and the table."""

from pathlib import Path

import numpy as np
import pytest

from newkinds import PIM, FeatureSet, InputError, discover
from newkinds.predictions import suspected_labels
from newkinds.run_folder import read_run
from tests.commands.command_line import fail, rows_of, succeed
from tests.report.pages import Page, read_page

N_KINDS, N_KNOWN, EACH = 12, 8, 40


def collection(n_wrong: int = 0) -> FeatureSet:
    """Twelve clear kinds, eight of them known; the labels of the first few samples are those of another kind."""
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(N_KINDS), EACH)
    features = 3 * np.eye(N_KINDS + 8)[truth] + 0.4 * rng.normal(size=(len(truth), N_KINDS + 8))
    labels = np.where((truth < N_KNOWN) & (np.arange(len(truth)) % 2 == 0), truth, -1)
    for number in range(n_wrong):
        labels[number * EACH] = (number + 3) % N_KNOWN
    names = tuple(f"kind {letter}" for letter in "abcdefgh")
    return FeatureSet(features, labels, names=names, ids=tuple(f"s{i}" for i in range(len(truth))))


def save(folder: Path, made: FeatureSet, n_categories: int = N_KINDS) -> Path:
    model = PIM(n_categories, lam=0.3, temperature=10.0, consensus=1, max_iter=60, random_state=0)
    return discover(made, method=model).save(folder, with_map=False)


def advice(page: Page, topic: str) -> list[dict[str, str]]:
    return [item for item in page.content["advice"] if item["topic"] == topic]


@pytest.fixture(scope="module")
def wrong_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("wrong") / "run", collection(n_wrong=4))


def test_wrong_labels_are_in_the_record_and_on_the_page(wrong_run):
    suspects = read_run(wrong_run)["suspected_labels"]
    assert sorted(row for row, _, _ in suspects) == [number * EACH for number in range(4)]
    assert {row: likely for row, likely, _ in suspects} == {number * EACH: number for number in range(4)}
    page = read_page(wrong_run / "report.html")
    assert [(s["row"], s["likely"]) for s in page.content["suspects"]] == [
        (row, likely) for row, likely, _ in suspects
    ]
    assert all(s["given"] == (s["likely"] + 3) % N_KNOWN for s in page.content["suspects"])
    (item,) = advice(page, "labels")
    assert item["title"] == "4 labels look wrong."
    assert item["command"] == "newkinds export run labels.csv --suspected"
    assert "4 labels look wrong." in page.content["summary"]


def test_right_labels_are_not_doubted(tmp_path):
    run = save(tmp_path / "run", collection())
    assert read_run(run)["suspected_labels"] == []
    assert advice(read_page(run / "report.html"), "labels") == []
    fail("export", run, tmp_path / "labels.csv", "--suspected", says="no label looks wrong")


def test_the_table_of_wrong_labels_can_be_corrected_and_given_back(wrong_run, tmp_path):
    succeed("export", wrong_run, tmp_path / "labels.csv", "--suspected")
    rows = rows_of((tmp_path / "labels.csv").read_text("utf-8"))
    assert {row["id"] for row in rows} == {f"s{number * EACH}" for number in range(4)}
    assert {row["likely"] for row in rows} == {"kind a", "kind b", "kind c", "kind d"}
    assert all(float(row["label_doubt"]) >= 0.6 for row in rows)
    assert all(row["name"] != row["likely"] for row in rows)
    fail("export", wrong_run, tmp_path / "a.csv", "--suspected", "--only-new", says="no other choice of samples")


def test_a_run_whose_labels_were_not_judged_says_so(tmp_path):
    old = Path(__file__).parents[1] / "old_runs" / "pim"
    with pytest.raises(InputError, match="the labels of this run were not judged"):
        suspected_labels(old, read_run(old))


def test_a_record_that_names_samples_that_are_not_there_is_refused(wrong_run):
    record = read_run(wrong_run)
    for suspect in ([10_000, 0, 0.9], [0, 999, 0.9]):
        with pytest.raises(InputError, match="suspected_labels names samples or categories"):
            suspected_labels(wrong_run, {**record, "suspected_labels": [suspect]})


def test_a_kind_that_was_cut_in_two_is_told(tmp_path):
    page = read_page(save(tmp_path / "run", collection(), n_categories=N_KINDS + 2) / "report.html")
    merges = advice(page, "merge")
    assert merges
    assert all("can hardly be told apart" in item["title"] for item in merges)
    assert all(len(item["categories"]) == 2 for item in merges)
    assert f"--n-categories {N_KINDS + 1} " in merges[0]["command"]


def test_copies_are_told(tmp_path):
    made = collection()
    copies = made.features.copy()
    copies[11 * EACH :] = copies[11 * EACH]
    page = read_page(save(tmp_path / "run", FeatureSet(copies, made.labels, names=made.names)) / "report.html")
    (item,) = advice(page, "duplicates")
    assert item["title"].endswith("is mostly duplicates.")
