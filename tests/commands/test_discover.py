"""`newkinds discover`: what is written, chosen and said."""

import hashlib
import json
import os
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

import newkinds
from tests.commands.command_line import (
    LABELS,
    NAMES,
    SMALL,
    TRUTH,
    WIDTH,
    N,
    X,
    fail,
    printed,
    rows_of,
    write,
)
from tests.report.pages import read_page

RUN_FILES = [
    "features.npy",
    "map.npy",
    "model.safetensors",
    "predictions.csv",
    "predictions.parquet",
    "report.html",
    "run.json",
]


def test_discover_writes_every_file_of_a_run_and_nothing_else(made):
    assert sorted(os.listdir(made)) == RUN_FILES
    assert sorted(os.listdir(made.parent)) == ["birds.npz", "made"]


def test_the_record_of_a_run_holds_what_was_done(made):
    record = json.loads((made / "run.json").read_text("utf-8"))
    assert record["schema_version"] == 1
    assert record["source"] == {
        "name": "birds.npz",
        "samples": N,
        "features": WIDTH,
        "labelled": 20,
        "columns": None,
    }
    assert record["method"] == "pim"
    assert record["parameters"]["max_iter"] == 20
    assert record["parameters"]["random_state"] == 0
    assert record["chosen"]["lam"] == 0.3
    assert record["chosen"]["n_categories"] == 3
    assert [category["kind"] for category in record["categories"]] == ["known", "known", "new"]
    assert [category["size"] for category in record["categories"]] == [20, 20, 20]
    assert [category["labelled"] for category in record["categories"]] == [10, 10, 0]
    assert record["score"] is None
    assert record["warnings"] == []
    assert record["versions"]["newkinds"] == newkinds.__version__
    assert record["seconds"]["fit"] >= 0
    assert {"encoder", "preprocessing", "curves", "created"} <= set(record)


def test_the_features_of_a_run_are_of_unit_length_in_half_precision_and_hashed(made):
    features = np.load(made / "features.npy", allow_pickle=False)
    assert features.dtype == np.float16
    assert np.allclose(features, X / np.linalg.norm(X, axis=1, keepdims=True), atol=1e-3)
    record = json.loads((made / "run.json").read_text("utf-8"))
    assert record["features"]["sha256"] == hashlib.sha256((made / "features.npy").read_bytes()).hexdigest()


def test_the_predictions_of_a_run_say_the_same_in_both_files(made):
    table = pq.read_table(made / "predictions.parquet").to_pylist()
    assert [row["id"] for row in table] == [str(i) for i in range(N)]
    assert [row["category"] for row in table] == TRUTH.tolist()
    assert [row["kind"] for row in table] == [["known", "known", "new"][t] for t in TRUTH]
    assert [row["name"] for row in table] == [["0", "1", "new-1"][t] for t in TRUTH]
    assert [row["given"] for row in table] == (LABELS >= 0).tolist()
    assert all(0.5 < row["confidence"] <= 1 for row in table)
    assert all((row["novelty"] > 0.5) == (row["kind"] == "new") for row in table)
    lines = rows_of((made / "predictions.csv").read_text("utf-8"))
    assert list(lines[0]) == [
        "id",
        "category",
        "name",
        "kind",
        "confidence",
        "novelty",
        "suggestion",
        "given",
        "confirmed",
    ]
    assert [(row["id"], int(row["category"])) for row in lines] == [(row["id"], row["category"]) for row in table]


def test_the_report_is_one_page_that_needs_nothing_from_outside(made):
    page = read_page(made / "report.html")
    assert page.content["title"] == "birds.npz"
    assert page.content["summary"][0] == "60 samples. Two kinds were known; one more was found."
    assert list(page.categories) == ["0", "1", "new-1"]
    assert not re.search(r"(src|href)=|@import|url\(", page.html.split("<script>")[0])


def test_a_run_gives_its_model_back(made):
    model = newkinds.load(made)
    assert model.predict(X).tolist() == TRUTH.tolist()
    assert model.category_names_ == {0: "0", 1: "1", 2: "new-1"}


def test_discover_shows_the_categories_and_where_the_results_are(collection, tmp_path):
    out = tmp_path / "run"
    shown = printed("discover", collection, "--out", out, *SMALL)
    assert "60 samples (20 labelled): 2 known kinds and 1 new one (3 in all, as asked)" in shown
    assert re.search(r"2\s+new-1 new\s+near 0, 1\?\s+20", shown) or re.search(
        r"new-1 new\s+near 1, 0\?\s+20", shown
    )
    assert (out / "report.html").as_uri() in shown.replace("\n", "")


def test_quiet_says_nothing(collection, tmp_path):
    assert printed("discover", collection, "--out", tmp_path / "run", *SMALL, "--quiet") == ""
    assert sorted(os.listdir(tmp_path / "run")) == RUN_FILES


def test_the_same_seed_finds_the_same(collection, tmp_path):
    for name in ("one", "two"):
        printed("discover", collection, "--out", tmp_path / name, *SMALL, "--seed", 5, "-q")
    files = [(tmp_path / name / "predictions.csv").read_bytes() for name in ("one", "two")]
    assert files[0] == files[1]


@pytest.mark.parametrize("method", ["rim", "tim", "sskm", "kmeans"])
def test_every_method_makes_a_run_that_predicts(collection, tmp_path, method):
    out = tmp_path / "run"
    printed("discover", collection, "-o", out, "--method", method, "--n-categories", 3, "--max-iter", 20, "-q")
    assert json.loads((out / "run.json").read_text())["method"] == method
    assert [int(row["category"]) for row in rows_of(printed("predict", out, collection))] == TRUTH.tolist()


def test_text_labels_give_the_categories_their_names(tmp_path):
    source = write(tmp_path / "birds.npz", labels=np.where(LABELS < 0, "", NAMES[LABELS]))
    printed("discover", source, "--out", tmp_path / "run", *SMALL, "-q")
    assert "wren" in printed("show", tmp_path / "run")
    predicted = rows_of(printed("predict", tmp_path / "run", source))
    assert [row["name"] for row in predicted] == [["owl", "wren", "new-1"][t] for t in TRUTH]


def test_labels_come_from_a_file_by_id(tmp_path):
    np.save(tmp_path / "birds.npy", X)
    lines = [f"{i},{NAMES[label]}\n" for i, label in enumerate(LABELS) if label >= 0]
    (tmp_path / "labels.csv").write_text("id,label\n" + "".join(lines))
    arguments = ("discover", tmp_path / "birds.npy", "--labels", tmp_path / "labels.csv", "--out", tmp_path / "run")
    printed(*arguments, *SMALL, "-q")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert [(c["name"], c["size"], c["labelled"]) for c in record["categories"]] == [
        ("owl", 20, 10),
        ("wren", 20, 10),
        ("new-1", 20, 0),
    ]


def test_the_truth_is_used_to_score_and_for_nothing_else(collection, tmp_path):
    wrong = TRUTH.copy()
    wrong[[5, 11]] = 0  # of 20 samples of the new class, two are said to be of class 0
    np.save(tmp_path / "truth.npy", wrong)
    out = tmp_path / "run"
    shown = printed("discover", collection, "--truth", tmp_path / "truth.npy", "--out", out, *SMALL)
    assert "95.0 / 90.9 / 100.0" in shown
    score = json.loads((out / "run.json").read_text())["score"]
    assert score == {"protocol": "v2", "all": 38 / 40, "old": 20 / 22, "new": 1.0}
    assert "95.0 / 90.9 / 100.0" in printed("show", out)
    assert [int(row["category"]) for row in rows_of(printed("predict", out, collection))] == TRUTH.tolist()


def test_markup_in_names_and_texts_is_shown_as_text(tmp_path):
    names = np.array(["<b>owl</b>", "[red]wren[/red]"])
    labels = np.where(LABELS < 0, "", names[LABELS])
    source = write(tmp_path / "birds.npz", labels=labels, texts=np.array([f"<i>{i}" for i in range(N)]))
    out = tmp_path / "run"
    assert "[red]wren[/red]" in printed("discover", source, "--out", out, *SMALL)
    page = read_page(out / "report.html")
    assert list(page.categories) == [*names, "new-1"]
    assert page.texts["texts"][1] == "<i>1"
    assert "<b>owl" not in page.html


def test_the_number_of_categories_and_lam_are_chosen_and_shown(collection, tmp_path):
    out = tmp_path / "run"
    settings = ("--n-categories", "max-acc-kmeans", "--lam", "labelled", "--max-iter", 20, "-q")
    printed("discover", collection, "--out", out, *settings)
    record = json.loads((out / "run.json").read_text())
    assert record["chosen"]["n_categories_rule"] == "max-acc-kmeans"
    assert record["chosen"]["n_categories"] in [k for k, _ in record["curves"]["n_categories"]]
    assert record["chosen"]["lam"] in [lam for lam, _ in record["curves"]["lam"]]
    assert printed("show", out, "--details").count("chosen") == 2
    assert "chosen" not in printed("show", out)


def test_by_default_everything_is_chosen_by_rehearsal_and_shown(collection, tmp_path):
    out = tmp_path / "run"
    printed("discover", collection, "--out", out, "-q")
    record = json.loads((out / "run.json").read_text())
    chosen, low_high = record["chosen"], record["chosen"]["n_categories_interval"]
    assert chosen["n_categories_rule"] == "rehearsal"
    assert low_high[0] <= chosen["n_categories"] <= low_high[1]
    curve = "rehearsal" if chosen["metric"] == "cosine" else "refinement"
    tried = [[temperature, lam] for temperature, lam, _, tries in record["curves"][curve] if tries == 8]
    assert [chosen["temperature"], chosen["lam"]] in tried
    shown = printed("show", out, "--details")
    assert f"({chosen['n_categories']} in all, 90 % sure between {low_high[0]} and {low_high[1]})" in shown
    assert "rehearsed by the cosine" in shown
    heats = [c for c in read_page(out / "report.html").content["how"]["charts"] if c["kind"] == "heat"]
    heat = heats[0 if curve == "rehearsal" else 1]
    assert heat["chosen"] == [chosen["lam"], chosen["temperature"]]


def test_a_lam_at_the_edge_of_its_range_is_warned_of(collection, tmp_path):
    out = tmp_path / "run"
    # With clusters this clear every lam scores the same, and the first of equals is the lowest.
    settings = ("--n-categories", 3, "--lam", "labelled", "--max-iter", 20, "-q")
    printed("discover", collection, "--out", out, *settings)
    assert re.search(r"Warning:.*λ.*edge", printed("show", out))
    advice = read_page(out / "report.html").content["advice"]
    assert any(item["topic"] == "settings" and "edge" in item["title"] for item in advice)


def test_prototypes_in_a_file_are_a_start(collection, tmp_path):
    np.save(tmp_path / "protos.npy", np.eye(WIDTH)[:3])
    arguments = ("--init", tmp_path / "protos.npy", "--lam", 0.3, "--max-iter", 20, "-q")
    printed("discover", collection, "--out", tmp_path / "run", *arguments)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["chosen"]["n_categories"] == 3
    predicted = rows_of(printed("predict", tmp_path / "run", collection))
    assert [int(row["category"]) for row in predicted] == TRUTH.tolist()


def test_an_earlier_run_is_replaced_only_by_force(collection, run):
    (run / "note.txt").write_text("mine")
    before = (run / "run.json").read_bytes()
    fail("discover", collection, "--out", run, *SMALL, says="already holds a run.*--force")
    assert (run / "run.json").read_bytes() == before
    assert (run / "note.txt").exists()
    printed("discover", collection, "--out", run, *SMALL, "--seed", 1, "--force", "-q")
    assert sorted(os.listdir(run)) == sorted([*RUN_FILES, "note.txt"])  # what we did not write stays
    assert (run / "note.txt").read_text() == "mine"
    assert json.loads((run / "run.json").read_text())["parameters"]["random_state"] == 1


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_what_is_no_run_is_never_replaced(collection, tmp_path, force):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("years of work")
    (tmp_path / "file").write_text("kept")
    for name, says in (("thesis", "thesis already exists and is not a run"), ("file", "file is a file")):
        fail("discover", collection, "--out", tmp_path / name, *SMALL, *force, says=says)
    assert (tmp_path / "thesis" / "chapter1.tex").read_text() == "years of work"
    assert (tmp_path / "file").read_text() == "kept"


def test_a_failed_run_leaves_the_earlier_one_as_it_was(collection, run):
    before = {file.name: file.read_bytes() for file in run.iterdir()}
    arguments = ("--n-categories", 1, "--force")
    fail("discover", collection, "--out", run, *arguments, says="n_categories=1 is fewer than the 2")
    assert {file.name: file.read_bytes() for file in run.iterdir()} == before
    assert os.listdir(run.parent) == ["run"]


def test_a_demo_elsewhere_does_not_replace_a_run(made):
    fail("demo", "--out", made, says="already holds a run")
