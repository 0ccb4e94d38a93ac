"""`newkinds predict`, from files and from standard input."""

import json
import os
import select
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import newkinds
from tests.commands.command_line import (
    LABELS,
    PATIENCE,
    SMALL,
    TRUTH,
    WIDTH,
    N,
    X,
    command,
    fail,
    invoke,
    printed,
    rows_of,
    succeed,
    write,
)

COLUMNS = ["id", "category", "name", "kind", "confidence", "novelty", "strangeness", "suggestion"]


def test_predict_on_standard_output_is_csv(made, collection):
    rows = rows_of(printed("predict", made, collection))
    assert list(rows[0]) == COLUMNS
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
    assert printed("predict", made, collection, "--out", out, *options) == ""
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
    assert rows_of(printed("predict", made, source))[7]["id"] == "bird 7"


def test_predict_gives_the_same_answers_as_the_model(made, collection):
    model = newkinds.load(made)
    rows = [json.loads(line) for line in printed("predict", made, collection, "--format", "jsonl").splitlines()]
    assert np.allclose([row["novelty"] for row in rows], model.novelty(X), atol=1e-6)
    assert np.allclose([row["confidence"] for row in rows], model.predict_proba(X).max(axis=1), atol=1e-6)


def test_predict_takes_lines_of_every_form_from_standard_input(made):
    lines = [
        json.dumps({"id": "a", "features": X[0].tolist()}),
        json.dumps(X[1].tolist()),
        ",".join(map(str, X[2])),
    ]
    shown = printed("predict", made, "-", "--format", "jsonl", stdin="\n".join(lines).encode())
    rows = [json.loads(line) for line in shown.splitlines()]
    assert [(row["id"], row["category"]) for row in rows] == [("a", 0), ("1", 1), ("2", 2)]


def test_predict_from_standard_input_writes_a_file(made, tmp_path):
    out = tmp_path / "new.parquet"
    lines = "".join(json.dumps(row.tolist()) + "\n" for row in X)
    printed("predict", made, "-", "--out", out, stdin=lines.encode())
    assert pq.read_table(out)["category"].to_pylist() == TRUTH.tolist()


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_an_empty_stream_is_an_error_and_leaves_no_file(made, tmp_path, form):
    out = tmp_path / f"new.{form}"
    fail("predict", made, "-", "--out", out, says="no samples.*empty", stdin=b"\n\n")
    assert not out.exists()


@pytest.mark.parametrize("ids", [None, np.array([f"bird {i}" for i in range(N)])], ids=["numbers", "names"])
def test_every_block_of_samples_has_its_own_ids(made, tmp_path, monkeypatch, ids):
    """Large collections are answered in blocks."""
    monkeypatch.setattr("newkinds.answering.BLOCK_ROWS", 7)
    source = write(tmp_path / "new.npz", **({} if ids is None else {"ids": ids}))
    rows = rows_of(printed("predict", made, source))
    assert [row["id"] for row in rows] == [str(i) for i in (range(N) if ids is None else ids)]
    assert [int(row["category"]) for row in rows] == TRUTH.tolist()


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
    fail("predict", made, collection, "--out", tmp_path / "new.xls", says="csv, jsonl, parquet, xlsx; got .xls")
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
    fail("predict", made, collection, "--out", out, says=r"new\.csv already exists.*--force")
    fail("predict", made, tmp_path / "nowhere.npz", "--out", out, "--force", says=r"nowhere\.npz does not exist")
    assert out.read_text() == "earlier"
    printed("predict", made, collection, "--out", out, "--force")
    assert len(rows_of(out.read_text())) == N


def test_unsure_samples_are_left_open(collection, tmp_path):
    out = tmp_path / "run"
    printed("discover", collection, "--out", out, "--n-categories", 3, "--lam", 0.3, "-q")
    rows = rows_of(printed("predict", out, collection))
    middle = sorted(float(row["confidence"]) for row in rows)[len(rows) // 2]
    open_rows = rows_of(printed("predict", out, collection, "--reject", middle))
    for row, rejected in zip(rows, open_rows, strict=True):
        if float(row["confidence"]) < middle:
            assert (rejected["category"], rejected["kind"], rejected["name"]) == ("-1", "open", "")
        elif float(row["confidence"]) > middle:
            assert rejected == row
    refused = invoke("predict", out, collection, "--reject", 2)
    assert refused.exit_code == 2
    assert "reject is a probability" in refused.stderr


def test_named_columns_are_matched_by_name_in_predict(tmp_path):
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(WIDTH)])
    frame.assign(label=LABELS).to_parquet(tmp_path / "train.parquet")
    printed("discover", tmp_path / "train.parquet", "--out", tmp_path / "run", *SMALL)
    frame[frame.columns[::-1]].to_parquet(tmp_path / "shuffled.parquet")
    printed("predict", tmp_path / "run", tmp_path / "shuffled.parquet", "--out", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["category"].to_pylist() == TRUTH.tolist()
    frame.rename(columns={"f0": "other"}).to_parquet(tmp_path / "foreign.parquet")
    fail("predict", tmp_path / "run", tmp_path / "foreign.parquet", says="the column 'f0' of the run's features")


@pytest.mark.slow
def test_lines_before_a_bad_one_are_answered(made):
    good = json.dumps(X[0].tolist())
    done = subprocess.run(
        command("predict", made, "-"), input=f"{good}\nbad\n", capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) == 2  # a header and an answer
    assert "line 2 is neither" in done.stderr


def ask(process: subprocess.Popen, sample: np.ndarray) -> dict:
    """Send a sample to a running `predict -` and wait for the answer, with standard input left open."""
    assert process.stdin is not None
    assert process.stdout is not None
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


@pytest.mark.slow
def test_a_sample_is_answered_before_standard_input_is_closed(answering):
    assert ask(answering, X[0])["category"] == 0
    assert ask(answering, X[2]) | {"confidence": 1, "novelty": 1, "strangeness": 0} == {
        "id": "1",
        "category": 2,
        "name": "new-1",
        "kind": "new",
        "confidence": 1,
        "novelty": 1,
        "strangeness": 0,
        "suggestion": "near 0, 1",
    }
    answering.stdin.close()
    assert answering.wait(PATIENCE) == 0
    assert answering.stdout.read() == b""
    assert answering.stderr.read().startswith(b"2 samples: 1 of known kinds, 1 of new kinds; 0 are unsure")


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_the_stream_without_a_traceback(answering):
    ask(answering, X[0])
    answering.stdout.close()
    answering.stdin.write(json.dumps(X[1].tolist()).encode() + b"\n")
    assert answering.wait(PATIENCE) == 0
    assert answering.stderr.read() == b""


def test_predict_refuses_the_runs_own_features_if_they_were_changed(made, tmp_path):
    run = Path(shutil.copytree(made, tmp_path / "run"))
    features = run / "features.npy"
    assert len(rows_of(printed("predict", run, features))) > 0
    content = bytearray(features.read_bytes())
    content[-2] ^= 4
    features.write_bytes(content)
    fail("predict", run, features, says="features.npy is not the file that run.json describes")
    fail("predict", run, run / ".." / "run" / "features.npy", says="it was changed or damaged")
    features.rename(tmp_path / "features.npy")
    succeed("predict", run, tmp_path / "features.npy")
