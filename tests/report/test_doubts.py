"""What in a run is worth a look: from labels made wrong, kinds cut in two and copies to the page and the table."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest

from newkinds import PIM, FeatureSet, InputError, discover
from newkinds.editing import rename
from newkinds.predictions import labelled_samples
from newkinds.report import write_report
from newkinds.run_folder import read_run
from tests.commands.command_line import fail, record_of, rows_of, succeed, write_record
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
    assert item["command"] == "newkinds export run labels.csv --labelled"
    assert "4 labels look wrong." in page.content["summary"]


def test_right_labels_are_not_doubted(tmp_path):
    run = save(tmp_path / "run", collection())
    assert read_run(run)["suspected_labels"] == []
    assert advice(read_page(run / "report.html"), "labels") == []


def test_the_table_of_labels_can_be_corrected_and_given_back_whole(wrong_run, tmp_path):
    table = tmp_path / "labels.csv"
    succeed("export", wrong_run, table, "--labelled")
    rows = rows_of(table.read_text("utf-8"))
    assert len(rows) == N_KNOWN * EACH // 2
    assert {row["id"] for row in rows[:4]} == {f"s{number * EACH}" for number in range(4)}
    assert {row["likely"] for row in rows[:4]} == {"kind a", "kind b", "kind c", "kind d"}
    assert all(float(row["label_doubt"]) >= 0.6 and row["name"] != row["likely"] for row in rows[:4])
    assert {(row["likely"], row["label_doubt"]) for row in rows[4:]} == {("", "")}
    corrected = [{**row, "name": row["likely"] or row["name"]} for row in rows]
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(corrected)
    made = collection()
    np.savez(tmp_path / "all.npz", features=made.features, ids=np.array(made.ids))
    options = ("--n-categories", N_KINDS, "--lam", 0.3, "--max-iter", 20, "--no-map", "-q")
    succeed("discover", tmp_path / "all.npz", "--labels", table, "--out", tmp_path / "again", *options)
    record = read_run(tmp_path / "again")
    assert record["source"]["labelled"] == len(rows)
    assert sum(category["kind"] == "known" for category in record["categories"]) == N_KNOWN
    assert record["suspected_labels"] == []
    fail("export", wrong_run, tmp_path / "a.csv", "--labelled", "--only-new", says="no other choice of samples")


def test_the_labels_of_an_old_run_come_without_a_verdict():
    old = Path(__file__).parents[1] / "old_runs" / "pim"
    table = labelled_samples(old, read_run(old))
    assert len(table) == 20
    assert "likely" not in table.column_names


def test_a_record_that_names_samples_that_are_not_there_is_refused(wrong_run, tmp_path):
    run = Path(shutil.copytree(wrong_run, tmp_path / "run"))
    for suspect in ([10_000, 0, 0.9], [0, 999, 0.9]):
        record = record_of(run)
        record["suspected_labels"] = [suspect]
        write_record(run, record)
        with pytest.raises(InputError, match="suspected_labels should name samples and categories that there are"):
            read_run(run)


def test_a_kind_that_was_cut_in_two_is_told(tmp_path):
    page = read_page(save(tmp_path / "run", collection(), n_categories=N_KINDS + 2) / "report.html")
    merges = advice(page, "merge")
    assert merges
    assert all("can hardly be told apart" in item["title"] for item in merges)
    assert all(len(item["categories"]) == 2 for item in merges)
    assert f"--n-categories {N_KINDS + 1}." in merges[0]["text"]


def test_copies_are_told(tmp_path):
    made = collection()
    copies = made.features.copy()
    copies[11 * EACH :] = copies[11 * EACH]
    run = save(tmp_path / "run", FeatureSet(copies, made.labels, names=made.names))
    (item,) = advice(read_page(run / "report.html"), "duplicates")
    assert item["title"].endswith("is mostly duplicates.")
    key = item["command"].split("--kind ")[1]
    rename(run, key, "RUNNING copies")
    (item,) = advice(read_page(write_report(run)), "duplicates")
    assert item["title"] == "RUNNING copies is mostly duplicates."
    assert item["command"] == f"newkinds export run copies.csv --kind {key}"
