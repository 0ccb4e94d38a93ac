"""The command line from end to end: what is written, what is said, exit codes, streams and signals.

In this process where that is enough; in a process of its own where exit codes, pipes and signals matter.
"""

import contextlib
import csv
import hashlib
import io
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file, save_file
from typer.testing import CliRunner

import newkinds
from newkinds.cli import app

N, WIDTH = 60, 8
TRUTH = np.arange(N) % 3
X = 3 * np.eye(WIDTH)[TRUTH] + 0.2 * np.random.default_rng(0).normal(size=(N, WIDTH))
LABELS = np.where((TRUTH < 2) & (np.arange(N) % 2 == 0), TRUTH, -1)  # 10 zeros and 10 ones of 20 each
NAMES = np.array(["owl", "wren", "ant"])
SMALL = ["--n-categories", "3", "--max-iter", "20", "--lam", "0.3"]
RUN_FILES = [
    "features.npy",
    "model.safetensors",
    "predictions.csv",
    "predictions.parquet",
    "report.html",
    "run.json",
]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
PATIENCE = 120
"""Seconds until a process that does not answer is given up."""

runner = CliRunner(env={"COLUMNS": "200"})


def invoke(*arguments, stdin: bytes | None = None):
    return runner.invoke(app, [str(argument) for argument in arguments], input=stdin)


def succeed(*arguments, stdin: bytes | None = None) -> str:
    """Run a command that should go well; its standard output."""
    result = invoke(*arguments, stdin=stdin)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def fail(*arguments, says: str, stdin: bytes | None = None) -> None:
    """Run a command that should end with exit code 2 and one line that says what was wrong."""
    result = invoke(*arguments, stdin=stdin)
    assert result.exit_code == 2, (result.output, result.exception)
    assert re.fullmatch(rf"Error: .*{says}.*\n", result.stderr), result.stderr


def write(path: Path, **arrays) -> Path:
    np.savez(path, **{"features": X, "labels": LABELS, **arrays})
    return path


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """Three directions, of which two are known and half of their samples labelled."""
    return write(tmp_path_factory.mktemp("collection") / "birds.npz")


@pytest.fixture(scope="module")
def made(collection):
    """A run folder; read it, but do not change it."""
    out = collection.parent / "made"
    succeed("discover", collection, "--out", out, *SMALL)
    return out


@pytest.fixture
def run(made, tmp_path):
    """A run folder of the test's own."""
    copy = tmp_path / "run"
    copy.mkdir()
    for file in made.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


# discover


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
    assert list(lines[0]) == ["id", "category", "name", "kind", "confidence", "novelty", "given"]
    assert [(row["id"], int(row["category"])) for row in lines] == [(row["id"], row["category"]) for row in table]


def test_the_report_is_one_page_that_needs_nothing_from_outside(made):
    page = (made / "report.html").read_text("utf-8")
    assert "birds.npz" in page
    assert "new-1" in page
    assert not re.search(r"(src|href)=[\"']?(https?:|//)|<script|@import|url\(", page)


def test_a_run_gives_its_model_back(made):
    model = newkinds.load(made)
    assert model.predict(X).tolist() == TRUTH.tolist()
    assert model.category_names_ == {0: "0", 1: "1", 2: "new-1"}


def test_discover_shows_the_categories_and_where_the_results_are(collection, tmp_path):
    out = tmp_path / "run"
    shown = succeed("discover", collection, "--out", out, *SMALL)
    assert "60 samples, 20 labelled; 2 known categories, 1 new" in shown
    assert re.search(r"2\s+new-1 new\s+20", shown)
    assert str(out / "report.html") in shown.replace("\n", "")


def test_quiet_says_nothing(collection, tmp_path):
    assert succeed("discover", collection, "--out", tmp_path / "run", *SMALL, "--quiet") == ""
    assert sorted(os.listdir(tmp_path / "run")) == RUN_FILES


def test_the_same_seed_finds_the_same(collection, tmp_path):
    for name in ("one", "two"):
        succeed("discover", collection, "--out", tmp_path / name, *SMALL, "--seed", 5, "-q")
    files = [(tmp_path / name / "predictions.csv").read_bytes() for name in ("one", "two")]
    assert files[0] == files[1]


@pytest.mark.parametrize("method", ["rim", "tim", "sskm", "kmeans"])
def test_every_method_makes_a_run_that_predicts(collection, tmp_path, method):
    out = tmp_path / "run"
    succeed("discover", collection, "-o", out, "--method", method, "--n-categories", 3, "--max-iter", 20, "-q")
    assert json.loads((out / "run.json").read_text())["method"] == method
    assert [int(row["category"]) for row in rows_of(succeed("predict", out, collection))] == TRUTH.tolist()


def test_text_labels_give_the_categories_their_names(tmp_path):
    source = write(tmp_path / "birds.npz", labels=np.where(LABELS < 0, "", NAMES[LABELS]))
    succeed("discover", source, "--out", tmp_path / "run", *SMALL, "-q")
    assert "wren" in succeed("show", tmp_path / "run")
    predicted = rows_of(succeed("predict", tmp_path / "run", source))
    assert [row["name"] for row in predicted] == [["owl", "wren", "new-1"][t] for t in TRUTH]


def test_labels_come_from_a_file_by_id(tmp_path):
    np.save(tmp_path / "birds.npy", X)
    lines = [f"{i},{NAMES[label]}\n" for i, label in enumerate(LABELS) if label >= 0]
    (tmp_path / "labels.csv").write_text("id,label\n" + "".join(lines))
    arguments = ("discover", tmp_path / "birds.npy", "--labels", tmp_path / "labels.csv", "--out", tmp_path / "run")
    succeed(*arguments, *SMALL, "-q")
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
    shown = succeed("discover", collection, "--truth", tmp_path / "truth.npy", "--out", out, *SMALL)
    assert "95.0 / 90.9 / 100.0" in shown
    score = json.loads((out / "run.json").read_text())["score"]
    assert score == {"protocol": "v2", "all": 38 / 40, "old": 20 / 22, "new": 1.0}
    assert "95.0 / 90.9 / 100.0" in succeed("show", out)
    assert [int(row["category"]) for row in rows_of(succeed("predict", out, collection))] == TRUTH.tolist()


def test_markup_in_names_and_texts_is_shown_as_text(tmp_path):
    names = np.array(["<b>owl</b>", "[red]wren[/red]"])
    labels = np.where(LABELS < 0, "", names[LABELS])
    source = write(tmp_path / "birds.npz", labels=labels, texts=np.array([f"<i>{i}" for i in range(N)]))
    out = tmp_path / "run"
    assert "[red]wren[/red]" in succeed("discover", source, "--out", out, *SMALL)
    page = (out / "report.html").read_text("utf-8")
    assert "&lt;b&gt;owl" in page
    assert "<b>owl" not in page
    assert "&lt;i&gt;" in page
    assert "<i>1" not in page


def test_the_number_of_categories_and_lam_are_chosen_and_shown(collection, tmp_path):
    out = tmp_path / "run"
    settings = ("--n-categories", "max-acc-kmeans", "--lam", "labelled", "--max-iter", 20, "-q")
    succeed("discover", collection, "--out", out, *settings)
    record = json.loads((out / "run.json").read_text())
    assert record["chosen"]["n_categories_rule"] == "max-acc-kmeans"
    assert record["chosen"]["n_categories"] in [k for k, _ in record["curves"]["n_categories"]]
    assert record["chosen"]["lam"] in [lam for lam, _ in record["curves"]["lam"]]
    assert succeed("show", out).count("chosen") == 2


def test_by_default_everything_is_chosen_by_rehearsal_and_shown(collection, tmp_path):
    out = tmp_path / "run"
    succeed("discover", collection, "--out", out, "-q")
    record = json.loads((out / "run.json").read_text())
    chosen, low_high = record["chosen"], record["chosen"]["n_categories_interval"]
    assert chosen["n_categories_rule"] == "rehearsal"
    assert low_high[0] <= chosen["n_categories"] <= low_high[1]
    tried = [[temperature, lam] for temperature, lam, _, tries in record["curves"]["rehearsal"] if tries == 8]
    assert [chosen["temperature"], chosen["lam"]] in tried
    shown = succeed("show", out)
    assert f"from {low_high[0]} to {low_high[1]} with a probability of 90 %" in shown
    assert "found again in rehearsals" in shown
    page = (out / "report.html").read_text("utf-8")
    assert page.count('class="chosen" style="--heat') == 1


def test_unsure_samples_are_left_open(collection, tmp_path):
    out = tmp_path / "run"
    succeed("discover", collection, "--out", out, "--n-categories", 3, "--lam", 0.3, "-q")
    rows = rows_of(succeed("predict", out, collection))
    middle = sorted(float(row["confidence"]) for row in rows)[len(rows) // 2]
    open_rows = rows_of(succeed("predict", out, collection, "--reject", middle))
    for row, rejected in zip(rows, open_rows, strict=True):
        if float(row["confidence"]) < middle:
            assert (rejected["category"], rejected["kind"], rejected["name"]) == ("-1", "open", "")
        elif float(row["confidence"]) > middle:
            assert rejected == row
    refused = invoke("predict", out, collection, "--reject", 2)
    assert refused.exit_code == 2
    assert "reject is a probability" in refused.stderr


def test_a_lam_at_the_edge_of_its_range_is_warned_of(collection, tmp_path):
    out = tmp_path / "run"
    # With clusters this clear every lam scores the same, and the first of equals is the lowest.
    settings = ("--n-categories", 3, "--lam", "labelled", "--max-iter", 20, "-q")
    succeed("discover", collection, "--out", out, *settings)
    assert re.search(r"Warning:.*λ.*edge", succeed("show", out))
    assert "edge" in (out / "report.html").read_text("utf-8")


def test_prototypes_in_a_file_are_a_start(collection, tmp_path):
    np.save(tmp_path / "protos.npy", np.eye(WIDTH)[:3])
    arguments = ("--init", tmp_path / "protos.npy", "--lam", 0.3, "--max-iter", 20, "-q")
    succeed("discover", collection, "--out", tmp_path / "run", *arguments)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["chosen"]["n_categories"] == 3
    predicted = rows_of(succeed("predict", tmp_path / "run", collection))
    assert [int(row["category"]) for row in predicted] == TRUTH.tolist()


def test_an_earlier_run_is_replaced_only_by_force(collection, run):
    (run / "note.txt").write_text("mine")
    before = (run / "run.json").read_bytes()
    fail("discover", collection, "--out", run, *SMALL, says="already holds a run.*--force")
    assert (run / "run.json").read_bytes() == before
    assert (run / "note.txt").exists()
    succeed("discover", collection, "--out", run, *SMALL, "--seed", 1, "--force", "-q")
    assert sorted(os.listdir(run)) == RUN_FILES
    assert json.loads((run / "run.json").read_text())["parameters"]["random_state"] == 1


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_what_is_no_run_is_never_replaced(collection, tmp_path, force):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("years of work")
    (tmp_path / "file").write_text("kept")
    for name in ("thesis", "file"):
        says = f"{name} already exists and is not a run"
        fail("discover", collection, "--out", tmp_path / name, *SMALL, *force, says=says)
    assert (tmp_path / "thesis" / "chapter1.tex").read_text() == "years of work"
    assert (tmp_path / "file").read_text() == "kept"


def test_a_failed_run_leaves_the_earlier_one_as_it_was(collection, run):
    before = {file.name: file.read_bytes() for file in run.iterdir()}
    arguments = ("--n-categories", 1, "--force")
    fail("discover", collection, "--out", run, *arguments, says="n_categories=1 is fewer than the 2")
    assert {file.name: file.read_bytes() for file in run.iterdir()} == before
    assert os.listdir(run.parent) == ["run"]


@pytest.mark.parametrize(
    ("arrays", "options", "says"),
    [
        ({"labels": np.full(N, -1)}, [], "no sample is labelled"),
        ({"labels": TRUTH}, [], "every sample is labelled"),
        ({"labels": TRUTH.astype(str)}, [], "every sample is labelled"),
        ({}, ["--n-categories", "1"], "n_categories=1 is fewer than the 2"),
        ({}, ["--n-categories", "61"], "n_categories=61 is more than"),
        ({"features": np.where(np.arange(WIDTH) == 2, np.nan, X)}, [], r"birds\.npz: .*finite; row 0"),
        ({"features": np.where(np.arange(WIDTH) == 2, np.inf, X)}, [], r"birds\.npz: .*finite; row 0"),
        ({"features": X * (np.arange(N) != 7)[:, None]}, [], "row 7 is a zero vector"),
        ({"features": X[0]}, [], "two-dimensional"),
        ({"features": np.array(1.0)}, [], "features"),
        ({"features": X[:0], "labels": LABELS[:0]}, [], "no features"),
        ({"labels": LABELS[:-1]}, [], "60 samples but 59 labels"),
        ({"labels": LABELS + 0.5}, [], "integers or names"),
        ({"labels": LABELS - 5}, [], "at least 0"),
        ({"labels": np.eye(N, dtype=int)}, [], r"birds\.npz.*label"),
        ({"labels": np.array(["9" * 30, *[""] * (N - 1)])}, [], "label"),
        ({"truth": TRUTH[::-1]}, [], "differs from its truth"),
        ({"images": np.zeros((N, 2, 2))}, [], "image"),
    ],
    ids=[
        "none labelled",
        "all labelled",
        "all named",
        "K too small",
        "K too large",
        "NaN",
        "infinity",
        "zero vector",
        "1-d",
        "0-d",
        "empty",
        "lengths",
        "fractions",
        "negative",
        "one-hot",
        "huge label",
        "truth",
        "images",
    ],
)
def test_bad_data_ends_with_one_line_and_nothing_written(tmp_path, arrays, options, says):
    source = write(tmp_path / "birds.npz", **arrays)
    fail("discover", source, "--out", tmp_path / "run", *SMALL, *options, says=says)
    assert os.listdir(tmp_path) == ["birds.npz"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--n-categories", "many"], "n_categories.*'many'"),
        (["--n-categories", "3.5"], r"n_categories.*3\.5"),
        (["--n-categories", "0"], "n_categories.*0"),
        (["--lam", "large"], "lam.*'large'"),
        (["--lam", "-1"], "lam.*-1"),
        (["--lam", "nan"], "lam.*nan"),
        (["--temperature", "0"], "temperature.*0"),
        (["--temperature", "inf"], "temperature.*inf"),
        (["--device", "tpu"], "device.*auto, cpu, cuda, mps.*'tpu'"),
        (["--init", "guess"], "init.*'guess'"),
        (["--init", "nowhere.npy"], r"nowhere\.npy does not exist"),
        (["--max-iter", "0"], "max_iter.*0"),
        (["--n-init", "0"], "n_init.*0"),
        (["--seed", "-1"], "random_state.*-1"),
        (["--method", "kmeans"], "kmeans has no option lam"),
        (["--labels", "nowhere.csv"], r"nowhere\.csv does not exist"),
        (["--labels", "nowhere.doc"], r"nowhere\.doc"),
        (["--truth", "nowhere.csv"], r"nowhere\.csv does not exist"),
    ],
)
def test_options_that_cannot_be_used_end_with_one_line_and_nothing_written(collection, tmp_path, options, says):
    fail("discover", collection, "--out", tmp_path / "run", *SMALL, *options, says=says)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("option", "value", "choices"),
    [
        ("--method", "magic", ["pim", "rim", "tim", "sskm", "kmeans"]),
        ("--recipe", "soup", ["newkinds", "paper", "release"]),
        ("--seed", "x", ["--seed"]),
        ("--consensus", "all", ["--consensus"]),
    ],
)
def test_a_choice_that_is_not_offered_ends_with_those_that_are(collection, tmp_path, option, value, choices):
    result = invoke("discover", collection, "--out", tmp_path / "run", option, value)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert all(choice in result.stderr for choice in choices)
    assert os.listdir(tmp_path) == []


def test_prototypes_of_a_wrong_shape_are_refused(collection, tmp_path):
    np.save(tmp_path / "protos.npy", np.eye(3))
    says = r"init.*\(3, 8\).*\(3, 3\)"
    fail("discover", collection, "--out", tmp_path / "run", *SMALL, "--init", tmp_path / "protos.npy", says=says)


@pytest.mark.parametrize("command", ["discover", "estimate"])
def test_a_missing_source_is_refused(tmp_path, command):
    out = ["--out", tmp_path / "run"] if command == "discover" else []
    fail(command, tmp_path / "nowhere.npz", *out, says=r"nowhere\.npz does not exist")


def test_a_folder_that_cannot_be_made_is_refused(collection, tmp_path):
    (tmp_path / "file").write_text("kept")
    fail("discover", collection, "--out", tmp_path / "file" / "run", *SMALL, says="cannot write to .*file")
    assert (tmp_path / "file").read_text() == "kept"


# show


def test_show_marks_the_new_and_gives_sizes(made):
    shown = succeed("show", made)
    assert "2 known categories, 1 new" in shown
    assert re.search(r"0\s+0\s+20\s+10", shown)
    assert re.search(r"2\s+new-1 new\s+20\s+0", shown)
    assert "λ 0.3" in shown


@pytest.mark.parametrize("name", ["empty", "nowhere", "file"])
@pytest.mark.parametrize("command", ["show", "predict"])
def test_a_folder_that_is_no_run_is_refused(collection, tmp_path, command, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    more = [collection] if command == "predict" else []
    fail(command, tmp_path / name, *more, says=rf"{name} is not a run folder.*run\.json")


def without(text: str, key: str) -> str:
    record = json.loads(text)
    del record[key]
    return json.dumps(record)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "not JSON",
        lambda text: "[]",
        lambda text: "{}",
        lambda text: '{"schema_version": 1}',
        lambda text: text.replace('"schema_version": 1', '"schema_version": 99'),
        lambda text: without(text, "categories"),
        lambda text: without(text, "curves"),
        lambda text: without(text, "chosen"),
    ],
    ids=[
        "empty",
        "cut",
        "text",
        "list",
        "blank",
        "version only",
        "later",
        "no categories",
        "no curves",
        "no chosen",
    ],
)
@pytest.mark.parametrize("command", ["show", "predict"])
def test_a_damaged_record_is_refused_by_its_name(collection, run, command, damage):
    path = run / "run.json"
    path.write_text(damage(path.read_text("utf-8")), "utf-8")
    more = [collection] if command == "predict" else []
    fail(command, run, *more, says=r"run\.json")


@pytest.mark.parametrize(
    ("old", "new"),
    [('"method": "pim"', '"method": "magic"'), ('"parameters": {', '"parameters": {"magic": 1, ')],
)
def test_a_record_that_this_version_cannot_follow_is_refused(collection, run, old, new):
    path = run / "run.json"
    path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")
    fail("predict", run, collection, says=f"{run}.*magic")


# predict


def test_predict_on_standard_output_is_csv(made, collection):
    rows = rows_of(succeed("predict", made, collection))
    assert list(rows[0]) == ["id", "category", "name", "kind", "confidence", "novelty"]
    assert [row["id"] for row in rows] == [str(i) for i in range(N)]
    assert [int(row["category"]) for row in rows] == TRUTH.tolist()
    assert [row["kind"] for row in rows] == [["known", "known", "new"][t] for t in TRUTH]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("said", ["by the ending", "by an option"])
def test_predict_writes_every_format(made, collection, tmp_path, form, said):
    if said == "by the ending":
        out, options = tmp_path / "deep" / f"new.{form}", []
    else:
        out, options = tmp_path / "deep" / "new.txt", ["--format", form]
    assert succeed("predict", made, collection, "--out", out, *options) == ""
    if form == "csv":
        rows = rows_of(out.read_text("utf-8"))
    elif form == "jsonl":
        rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    else:
        rows = pq.read_table(out).to_pylist()
    assert [int(row["category"]) for row in rows] == TRUTH.tolist()
    assert all(0 <= float(row["novelty"]) <= 1 and 0 <= float(row["confidence"]) <= 1 for row in rows)
    assert os.listdir(out.parent) == [out.name]


def test_predict_keeps_the_ids_of_the_samples(made, tmp_path):
    source = write(tmp_path / "new.npz", ids=np.array([f"bird {i}" for i in range(N)]))
    assert rows_of(succeed("predict", made, source))[7]["id"] == "bird 7"


def test_predict_gives_the_same_answers_as_the_model(made, collection):
    model = newkinds.load(made)
    rows = [json.loads(line) for line in succeed("predict", made, collection, "--format", "jsonl").splitlines()]
    assert np.allclose([row["novelty"] for row in rows], model.novelty(X), atol=1e-6)
    assert np.allclose([row["confidence"] for row in rows], model.predict_proba(X).max(axis=1), atol=1e-6)


def test_predict_takes_lines_of_every_form_from_standard_input(made):
    lines = [
        json.dumps({"id": "a", "features": X[0].tolist()}),
        json.dumps(X[1].tolist()),
        ",".join(map(str, X[2])),
    ]
    shown = succeed("predict", made, "-", "--format", "jsonl", stdin="\n".join(lines).encode())
    rows = [json.loads(line) for line in shown.splitlines()]
    assert [(row["id"], row["category"]) for row in rows] == [("a", 0), ("1", 1), ("2", 2)]


def test_predict_from_standard_input_writes_a_file(made, tmp_path):
    out = tmp_path / "new.parquet"
    lines = "".join(json.dumps(row.tolist()) + "\n" for row in X)
    succeed("predict", made, "-", "--out", out, stdin=lines.encode())
    assert pq.read_table(out)["category"].to_pylist() == TRUTH.tolist()


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_predict_from_an_empty_stream_writes_no_broken_file(made, tmp_path, form):
    out = tmp_path / f"new.{form}"
    result = invoke("predict", made, "-", "--out", out, stdin=b"")
    assert result.exit_code in (0, 2)
    assert "Traceback" not in result.output
    if result.exit_code == 2:
        assert not out.exists()
    elif form == "parquet":
        assert pq.read_table(out).num_rows == 0
    else:
        assert len(out.read_text().splitlines()) <= 1


@pytest.mark.parametrize(
    ("stdin", "says"),
    [
        (b"[1, 2]\n", "line 1 has 2 numbers where the model expects 8"),
        (b"[1,2,3,4,5,6,7,8]\nnonsense\n", "line 2"),
        (b"[1,2,3,4,5,6,7,NaN]\n", "finite"),
        (b"[0,0,0,0,0,0,0,0]\n", "zero vector"),
        (b"[1,2,3,4,5,6,7,1" + b"0" * 400 + b"]\n", "line 1"),
        (b"\xff\xfe\n", "line 1 is not UTF-8"),
    ],
)
def test_a_bad_line_ends_with_one_line_and_no_file(made, tmp_path, stdin, says):
    fail("predict", made, "-", "--out", tmp_path / "new.csv", stdin=stdin, says=says)
    assert os.listdir(tmp_path) == []


def test_predict_refuses_features_of_another_width_with_both_numbers(made, tmp_path):
    source = write(tmp_path / "new.npz", features=X[:, :5])
    fail("predict", made, source, "--out", tmp_path / "new.csv", says="5 features.*8 features")
    assert os.listdir(tmp_path) == ["new.npz"]


@pytest.mark.parametrize(
    ("features", "says"),
    [
        (X * (np.arange(N) != 7)[:, None], "row 7 is a zero vector"),
        (np.full((2, WIDTH), np.nan), r"new\.npz.*finite"),
    ],
)
def test_predict_refuses_samples_without_a_direction(made, tmp_path, features, says):
    np.savez(tmp_path / "new.npz", features=features)
    fail("predict", made, tmp_path / "new.npz", "--out", tmp_path / "new.csv", says=says)
    assert os.listdir(tmp_path) == ["new.npz"]


def test_predict_refuses_what_it_cannot_write(made, collection, tmp_path):
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder.csv").mkdir()
    fail("predict", made, collection, "--out", tmp_path / "new.xlsx", says="csv, jsonl, parquet.*'xlsx'")
    fail("predict", made, collection, "--out", tmp_path / "file", says="csv, jsonl, parquet")
    fail("predict", made, collection, "--format", "parquet", says="standard output.*--out")
    fail("predict", made, collection, "--out", tmp_path / "file" / "new.csv", says="cannot write to .*file")
    fail("predict", made, collection, "--out", tmp_path / "folder.csv", says=r"folder\.csv")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder.csv"]
    assert (tmp_path / "file").read_text() == "kept"
    assert os.listdir(tmp_path / "folder.csv") == []


def test_predict_replaces_an_earlier_file_only_when_it_succeeds(made, collection, tmp_path):
    out = tmp_path / "new.csv"
    out.write_text("earlier")
    fail("predict", made, tmp_path / "nowhere.npz", "--out", out, says=r"nowhere\.npz does not exist")
    assert out.read_text() == "earlier"
    succeed("predict", made, collection, "--out", out)
    assert len(rows_of(out.read_text())) == N


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        lambda path: path.write_bytes(b"x" * 300),
        lambda path: save_file({"weights": np.eye(3)}, path),
        lambda path: save_file({**load_file(path), "weights": np.ones(3, np.float32)}, path),
        lambda path: save_file({**load_file(path), "temperature": np.ones(3)}, path),
        lambda path: save_file({**load_file(path), "categories": np.arange(7, 10)}, path),
    ],
    ids=["missing", "empty", "cut", "text", "lacking", "flat weights", "temperatures", "other categories"],
)
def test_a_damaged_model_is_refused_by_its_name(collection, run, damage):
    damage(run / "model.safetensors")
    fail("predict", run, collection, says=r"model\.safetensors")


# estimate


def test_estimate_finds_the_number_and_shows_the_curve(collection):
    shown = succeed("estimate", collection, "--method", "max-acc-kmeans", "--bounds", 2, 8)
    assert "3 categories, 2 known and 1 new (max-acc-kmeans, searched 2 to 8)" in shown
    assert len(re.findall("chosen", shown)) == 1


def test_estimate_as_json(collection):
    found = json.loads(succeed("estimate", collection, "--method", "max-acc-kmeans", "--bounds", 2, 8, "--json"))
    assert found["n_categories"] == 3
    assert found["bounds"] == [2, 8]
    assert found["method"] == "max-acc-kmeans"
    assert found["curve"]["3"] == 1.0
    assert found["curve"]["3"] == max(found["curve"].values())


def test_estimate_by_pim_tries_the_one_number_that_the_bounds_allow(collection):
    found = json.loads(succeed("estimate", collection, "--method", "max-acc-pim", "--bounds", 3, 3, "--json"))
    assert (found["method"], found["n_categories"], found["curve"]) == ("max-acc-pim", 3, {"3": 1.0})


def test_estimate_quietly_is_a_number(collection):
    assert succeed("estimate", collection, "--method", "max-acc-kmeans", "-q") == "3\n"


def test_an_estimate_at_its_bound_is_warned_of(collection):
    shown = succeed("estimate", collection, "--method", "max-acc-kmeans", "--bounds", 5, 6)
    assert re.search(r"Warning:.*bound", shown)


@pytest.mark.parametrize(
    ("labels", "options", "says"),
    [
        (np.full(N, -1), [], "labelled"),
        (TRUTH, [], "every sample is labelled"),
        (LABELS, ["--bounds", "6", "3"], r"bounds.*\(6, 3\)"),
        (LABELS, ["--bounds", "1", "8"], "fewer than the 2"),
        (LABELS, ["--bounds", "3", "999"], "n_categories=999 is more than"),
        (LABELS, ["--device", "tpu"], "device"),
    ],
)
def test_estimate_refuses_what_it_cannot_search(tmp_path, labels, options, says):
    source = write(tmp_path / "birds.npz", labels=labels)
    fail("estimate", source, "--method", "max-acc-kmeans", *options, says=says)


# Processes of their own


def command(*arguments) -> list[str]:
    return [sys.executable, "-m", "newkinds", *map(str, arguments)]


def test_version():
    done = subprocess.run(command("--version"), capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout == f"newkinds {newkinds.__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["discover", "--help"], ["predict", "--help"]])
def test_help_answers_without_waiting_for_pytorch(arguments):
    line = [sys.executable, "-X", "importtime", "-m", "newkinds", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, check=True)
    imported = {entry.rpartition("|")[2].strip() for entry in done.stderr.splitlines()}
    assert "newkinds.cli" in imported
    assert not imported & {"torch", "sklearn", "scipy", "pyarrow", "numpy"}
    assert "Usage:" in done.stdout


def test_without_arguments_the_commands_are_shown():
    done = subprocess.run(command(), capture_output=True, text=True, timeout=PATIENCE, check=False)
    shown = done.stdout + done.stderr
    assert all(name in shown for name in ("demo", "discover", "predict", "estimate", "show"))
    assert "Traceback" not in shown


def test_bad_input_gives_a_process_exit_code_2_and_one_line(tmp_path):
    source = write(tmp_path / "birds.npz", labels=TRUTH)
    line = command("discover", source, "--out", tmp_path / "run")
    done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch("Error: every sample is labelled.*\n", done.stderr)
    assert os.listdir(tmp_path) == ["birds.npz"]


def ask(process: subprocess.Popen, sample: np.ndarray) -> dict:
    """Send a sample to a running `predict -` and wait for the answer, with standard input left open."""
    process.stdin.write(json.dumps(sample.tolist()).encode() + b"\n")
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
    assert ready, "no answer while standard input is open"
    return json.loads(process.stdout.readline())


@pytest.fixture
def answering(made):
    """A running `predict -`."""
    line = command("predict", made, "-", "--format", "jsonl")
    pipe = subprocess.PIPE
    with subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0) as process:
        yield process
        process.kill()


def test_a_sample_is_answered_before_standard_input_is_closed(answering):
    assert ask(answering, X[0])["category"] == 0
    assert ask(answering, X[2]) | {"confidence": 1, "novelty": 1} == {
        "id": "1",
        "category": 2,
        "name": "new-1",
        "kind": "new",
        "confidence": 1,
        "novelty": 1,
    }
    answering.stdin.close()
    assert answering.wait(PATIENCE) == 0
    assert answering.stdout.read() == b""
    assert answering.stderr.read() == b""


def test_a_reader_that_goes_away_ends_the_stream_without_a_traceback(answering):
    ask(answering, X[0])
    answering.stdout.close()
    answering.stdin.write(json.dumps(X[1].tolist()).encode() + b"\n")
    assert answering.wait(PATIENCE) == 0
    assert answering.stderr.read() == b""


@pytest.fixture(scope="module")
def ended(collection, tmp_path_factory):
    """What became of a `discover` that was sent a signal in the midst of a training that takes hours."""
    options = ["--n-categories", "3", "--lam", "0.3", "--solver", "adam", "--max-iter", "5000000", "--quiet"]
    folders = {number: tmp_path_factory.mktemp(number.name) for number in SIGNALS}
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    processes, outcomes = {}, {}
    with contextlib.ExitStack() as stack:
        for number, folder in folders.items():  # all at once, since most of the time goes into the start
            line = command("discover", collection, "--out", folder / "run", *options)
            pipe = subprocess.PIPE
            started = subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True, env=one_thread)
            processes[number] = stack.enter_context(started)
            stack.callback(processes[number].kill)
        deadline = time.monotonic() + PATIENCE
        for number, process in processes.items():
            while not list(folders[number].glob(".*partial-*")):
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.02)
        time.sleep(0.5)  # into the training
        for number, process in processes.items():
            assert process.poll() is None, process.communicate()
            process.send_signal(number)
            output = process.communicate(timeout=PATIENCE)
            outcomes[number] = (folders[number], process.returncode, *output)
    return outcomes


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_an_interrupted_run_clears_up_after_itself(ended, number):
    folder, code, output, errors = ended[number]
    assert code == 130
    assert output == ""
    assert errors == "Interrupted.\n"
    assert os.listdir(folder) == []


def test_a_killed_run_leaves_nothing_that_looks_finished(ended):
    folder, code, _, _ = ended[signal.SIGKILL]
    assert code == -signal.SIGKILL
    assert not (folder / "run").exists()
    assert list(folder.rglob("run.json")) == []
    assert all(name.startswith(".") for name in os.listdir(folder))


def test_a_demo_elsewhere_does_not_replace_a_run(made):
    fail("demo", "--out", made, says="already holds a run")


def test_a_recipe_for_another_method_is_refused(collection, tmp_path):
    options = ["--method", "sskm", "--recipe", "paper"]
    fail("discover", collection, "--out", tmp_path / "run", *options, says="the method sskm has no option recipe")


def test_lines_before_a_bad_one_are_answered(made):
    good = json.dumps(X[0].tolist())
    done = subprocess.run(
        command("predict", made, "-"), input=f"{good}\nbad\n", capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) == 2  # a header and an answer
    assert "line 2 is neither" in done.stderr


def test_named_columns_are_matched_by_name_in_predict(tmp_path):
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(WIDTH)])
    frame.assign(label=LABELS).to_parquet(tmp_path / "train.parquet")
    succeed("discover", tmp_path / "train.parquet", "--out", tmp_path / "run", *SMALL)
    frame[frame.columns[::-1]].to_parquet(tmp_path / "shuffled.parquet")
    succeed("predict", tmp_path / "run", tmp_path / "shuffled.parquet", "--out", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["category"].to_pylist() == TRUTH.tolist()
    frame.rename(columns={"f0": "other"}).to_parquet(tmp_path / "foreign.parquet")
    fail("predict", tmp_path / "run", tmp_path / "foreign.parquet", says="the column 'f0' of the run's features")


def test_an_interrupted_discovery_goes_on_where_it_was(collection, tmp_path):
    """The same command again: the same model as without the interruption, and its saved state is gone."""
    options = ["--n-categories", "3", "--lam", "0.3", "--solver", "adam", "--max-iter", "3000", "--quiet"]
    line = command("discover", collection, "--out", tmp_path / "run", *options, "--checkpoint", "0.01")
    states = tmp_path / ".run.checkpoint"
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + PATIENCE
        while not list(states.glob("*.safetensors")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    assert not (tmp_path / "run").exists()
    subprocess.run(line, check=True)
    assert not states.exists()
    subprocess.run(command("discover", collection, "--out", tmp_path / "plain", *options), check=True)
    models = [load_file(tmp_path / name / "model.safetensors") for name in ("run", "plain")]
    assert all(np.array_equal(models[0][name], models[1][name]) for name in models[1])
