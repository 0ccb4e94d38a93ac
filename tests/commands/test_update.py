"""`newkinds update` and `newkinds watch`: runs that grow."""

import json
import re

import numpy as np
import pytest

import newkinds
from newkinds.journal import read_journal
from newkinds.run_folder import read_predictions, read_run
from tests.blobs import blobs
from tests.commands.command_line import fail, invoke, printed, rows_of, succeed
from tests.editing.living import KINDS, LABELS, X


@pytest.fixture(scope="module")
def living(tmp_path_factory):
    discovery = newkinds.discover(X, LABELS, n_categories=KINDS, lam=0.1, temperature=25.0)
    return discovery.save(tmp_path_factory.mktemp("living") / "run", with_map=False)


@pytest.fixture
def run(living, tmp_path):
    newkinds.open_run(living).save(tmp_path / "run")
    return tmp_path / "run"


def test_new_samples_join_and_kinds_are_born(run, tmp_path):
    np.save(tmp_path / "new.npy", blobs(KINDS + 1, 12, seed=1)[0])
    said = printed("update", run, tmp_path / "new.npy")
    assert said.startswith("132 samples arrived: 1 kind born (new-4), ")
    assert "newkinds undo" in said
    assert read_journal(run)[0].arguments == {"source": "new.npy"}
    rows = rows_of(printed("predict", run, tmp_path / "new.npy"))
    assert {row["name"] for row in rows[-12:]} == {"new-4"}
    succeed("report", run)
    succeed("undo", run)
    assert len(read_run(run)["categories"]) == KINDS


def test_labels_come_with_new_samples(run, tmp_path):
    np.save(tmp_path / "new.npy", blobs(2, 10, seed=1, first=KINDS - 1)[0])
    (tmp_path / "labels.csv").write_text("label\n" + "\n".join([""] * 10 + ["moth"] * 5 + [""] * 5) + "\n")
    said = printed("update", run, tmp_path / "new.npy", "--labels", tmp_path / "labels.csv")
    assert "1 kind born (moth)" in said
    assert read_predictions(run)["name"].to_pylist()[-10:] == ["moth"] * 10


def test_what_cannot_be_taken_in_is_said_in_a_line(run, tmp_path):
    np.save(tmp_path / "narrow.npy", np.eye(3))
    fail("update", run, tmp_path / "narrow.npy", says="the run has 24 features, the new samples 3")
    fail("update", run, tmp_path / "nothing.npy", says="does not exist")
    fail("update", tmp_path, tmp_path / "narrow.npy", says="run.json")
    assert read_journal(run) == ()


def test_strange_samples_are_left_open_if_asked(run, tmp_path):
    np.save(tmp_path / "new.npy", blobs(KINDS + 2, 12, seed=1)[0])
    rows = rows_of(printed("predict", run, tmp_path / "new.npy", "--reject-strange", "0.5"))
    assert sum(row["kind"] == "open" for row in rows[-24:]) > 20
    assert sum(row["kind"] == "open" for row in rows[:-24]) < 12
    result = invoke("predict", run, tmp_path / "new.npy", "--out", tmp_path / "a.csv")
    assert "of these samples are like nothing that the model has seen" in result.output
    fail("predict", run, tmp_path / "new.npy", "--reject-strange", "2", says="reject_strange is a probability")


def test_a_batch_like_the_collection_is_not_called_strange(run, tmp_path):
    np.save(tmp_path / "new.npy", blobs(KINDS, 12, seed=1)[0])
    result = invoke("predict", run, tmp_path / "new.npy", "--out", tmp_path / "a.csv")
    assert "like nothing" not in result.output
    assert "shifted" not in result.output
    np.save(tmp_path / "one.npy", blobs(1, 80, seed=1)[0])
    result = invoke("predict", run, tmp_path / "one.npy", "--out", tmp_path / "b.csv")
    assert re.search("Sizes have shifted: kind 0 has (100|99|98)% of these samples and 10% before", result.output)


def test_a_watched_run_answers_every_line_and_grows(run):
    lines = [json.dumps(sample.tolist()) for sample in blobs(KINDS + 1, 12, seed=1)[0]]
    order = np.random.default_rng(0).permutation(len(lines))
    result = invoke("watch", run, "-", "--every", "60", stdin="\n".join(lines[i] for i in order).encode())
    assert result.exit_code == 0
    assert len(rows_of(result.stdout)) == len(lines)
    entries = read_journal(run)
    assert sum(entry.outcome["changes"]["arrived"] for entry in entries) == len(lines)
    born = [c for entry in entries for c in entry.outcome["changes"].get("born", ())]
    assert len(born) == 1
    fail("watch", run, "lines.txt", says=r"only lines on standard input \(-\) can be watched")


def test_what_is_no_longer_kept_is_counted(run, tmp_path):
    np.save(tmp_path / "one.npy", np.concatenate([blobs(1, 300, seed=1)[0], blobs(KINDS, 3, seed=2)[0]]))
    succeed("update", run, tmp_path / "one.npy", "--keep", "20")
    total = 24 * KINDS + 300 + 3 * KINDS
    said = printed("show", run)
    assert f"; {total:,} came in all): " in said
    assert re.search(r"kind 0 +20 of 32[0-9] +12 ", said)
    assert re.search(r"20 samples, 12 of them labelled \(32[0-9] came in all\)", printed("show", run, "kind 0"))
    np.save(tmp_path / "next.npy", np.concatenate([blobs(1, 55, seed=3)[0], blobs(KINDS, 5, seed=4)[0]]))
    result = invoke("predict", run, tmp_path / "next.npy", "--out", tmp_path / "a.csv")
    assert "shifted" not in result.output  # more than half of all that came was of kind 0


def test_kinds_that_may_be_one_are_told_with_the_command(run, tmp_path, monkeypatch):
    changes = {"merges": [[7, 8, 0.9]], "splits": [[9, 0.8]]}
    monkeypatch.setattr("newkinds.editing.updating.proposals", lambda *_: changes)
    np.save(tmp_path / "new.npy", blobs(KINDS, 3, seed=1)[0])
    said = printed("update", run, tmp_path / "new.npy")
    assert "new-1 and new-2 may be one; new-3 may be several." in said
    assert re.search(r"newkinds merge \S+/run new-1 new-2 makes one of them", said)
    assert re.search(r"newkinds split \S+/run new-3 --dry-run shows its parts", said)
    assert "new-1 and new-2 may be one" in printed("history", run)
