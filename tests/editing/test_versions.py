"""Versions with samples of their own: what an update brings, and everything that then reads the run."""

import json
import multiprocessing
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import newkinds
from newkinds import InputError
from newkinds.comparing import compare_states
from newkinds.editing import EditedRun, refit
from newkinds.editing.sentences import all_names, sentence
from newkinds.editing.versions import version_record, write_separately, write_version
from newkinds.journal import Entry, read_journal
from newkinds.report.content import View
from newkinds.run_folder import check_if_own, copy_run, read_predictions, read_record, read_run, verify_run
from newkinds.runtime import listening
from tests.arrivals import N_HELD, N_NEW, STRANGE, arrive
from tests.editing.conftest import KINDS, TRUTH, N, X
from tests.run_targets import make

VERSION = Path("versions", "0002")


def states(run: Path) -> tuple[dict[str, Any], pa.Table, npt.NDArray[Any]]:
    opened = EditedRun(run)
    return opened.record, opened.predictions, np.array(opened.features)


def test_the_samples_are_the_versions_own(run: Path) -> None:
    edited = EditedRun(run)
    edited.rename("new-2", "bee")
    edited.confirm(edited.members("bee")[:3])
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.name != "journal.jsonl"}
    entry = arrive(edited)
    assert (entry.by, entry.op, entry.outcome["version"]) == ("update", "update", "0002")
    assert {path.name: path.read_bytes() for path in run.iterdir() if path.name in before} == before
    record = read_run(run)
    assert (record["samples"], record["source"]["samples"]) == ("0002", N + N_NEW)
    assert [c["name"] for c in record["categories"][3:]] == ["new-1", "bee", "new-3", "new-4"]
    table = read_predictions(run, record)
    assert table["id"].to_pylist()[-N_NEW:] == [f"late-{i}" for i in range(N_NEW)]
    assert table["confirmed"].to_numpy().sum() == 3
    assert edited.record == record
    assert edited.features.shape == (N + N_NEW, X.shape[1])
    assert edited.rows(["late-0", "late-3"]).tolist() == [N, N + 3]
    assert edited.predictions.equals(table)
    assert len(newkinds.load(run).labels_) == N + N_NEW
    assert newkinds.open_run(run).collection.features.shape == (N + N_NEW, X.shape[1])
    assert {"features.npy", "predictions.parquet"} <= set(verify_run(run))


@pytest.mark.parametrize("let_go", [0, 7])
def test_edits_after_it_name_its_rows_and_undo_gives_back_the_earlier_samples(run: Path, let_go: int) -> None:
    edited = EditedRun(run)
    edited.move([N - 1], "owl")
    reached = {len(edited.entries): states(run)}
    arrive(edited, let_go)
    reached[2] = states(run)
    edited.move(["late-5", "0" if not let_go else "7"], "wren")
    reached[3] = states(run)
    assert edited.samples.confirmed[N - let_go + 5]
    refit(edited)
    reached[4] = states(run)
    assert edited.samples.confirmed[N - let_go + 5]
    assert edited.samples.categories[N - let_go + 5] == edited.category("wren")["id"]
    assert read_record(run, "0003")["samples"] == "0002"
    assert not (run / "versions" / "0003" / "features.npy").exists()

    def check(n: int) -> None:
        record, table, features = reached[n]
        for one in (EditedRun(run), edited):
            assert {**one.record, "journal": None} == {**record, "journal": None}
            assert one.predictions.equals(table)
            assert np.array_equal(one.features, features)
        verify_run(run)

    for n in (3, 2, 1):
        edited.undo()
        check(n)
    with pytest.raises(InputError, match=f"rows should be from 0 to {N - 1}"):
        edited.rows([N])
    with pytest.raises(InputError, match="no sample 'late-0'"):
        edited.rows(["late-0"])
    for n in (2, 3, 4):
        edited.redo()
        check(n)
    for n, (record, table, _) in reached.items():
        assert read_run(run, as_of=n) == record
        assert read_predictions(run, read_run(run, as_of=n)).equals(table)
        assert len(newkinds.load(run, as_of=n).labels_) == len(table)


def test_ids_of_what_was_born_are_never_used_again(run: Path) -> None:
    edited = EditedRun(run)
    arrive(edited)
    edited.undo()
    edited.create([0])
    born = edited.record["categories"][-1]
    assert (born["id"], born["key"]) == (KINDS + 1, "new-5")
    assert EditedRun(run).last_used == edited.last_used == (KINDS + 1, 5)
    assert arrive(edited).outcome["version"] == "0003"
    assert EditedRun(run).record["categories"][-1]["key"] == "new-6"


def test_samples_are_held_back_until_a_person_says_what_they_are(run: Path) -> None:
    edited = EditedRun(run)
    assert not edited.samples.held.any()
    assert not edited.samples.strangeness.any()
    assert "held" not in read_predictions(run).column_names
    arrive(edited)
    held = np.arange(N + N_NEW - N_HELD, N + N_NEW)
    assert np.flatnonzero(edited.samples.held).tolist() == held.tolist()

    def said() -> tuple[list[bool], list[float]]:
        table = read_predictions(run).take(held)
        assert table.equals(edited.predictions.take(held))
        return table["held"].to_pylist(), table["strangeness"].to_pylist()

    edited.confirm(held[:1])
    assert said() == ([False, True], [0, STRANGE])
    edited.move(held[1:], "owl")
    assert said() == ([False, False], [0, 0])
    edited.undo()
    edited.undo()
    assert said() == ([True, True], [STRANGE, STRANGE])
    edited.redo()
    refit(edited)
    assert said() == ([False, True], [0, STRANGE])


def test_a_refit_after_it_into_a_run_of_its_own_takes_its_samples(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    make(run)  # it has pictures and a map
    arrive(run, let_go=2)
    edited = EditedRun(run)
    edited.confirm([0])
    refit(edited, out=tmp_path / "next")
    record = read_run(tmp_path / "next")
    assert "samples" not in record
    assert record["map"] is None
    verify_run(tmp_path / "next")
    next_table, table = read_predictions(tmp_path / "next"), read_predictions(run)
    assert next_table["id"].equals(table["id"])
    assert next_table["thumbnail"].equals(table["thumbnail"])
    assert np.array_equal(EditedRun(tmp_path / "next").features, edited.features)
    refit(edited)
    refit(edited, out=tmp_path / "another")
    verify_run(tmp_path / "another")
    assert read_predictions(tmp_path / "another")["thumbnail"].equals(table["thumbnail"])


def test_a_map_of_its_own_goes_with_the_samples(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    make(run)
    places = np.random.default_rng(0).random((60 + N_NEW, 2)).astype(np.float32)
    arrive(run, places=places)
    refit(run)
    assert "map.npy" in verify_run(run)
    assert not (run / "versions" / "0003" / "map.npy").exists()
    refit(run, out=tmp_path / "next")
    (tmp_path / "copy").mkdir()
    copy_run(run, tmp_path / "copy")
    for place in (run, tmp_path / "next", tmp_path / "copy"):
        verify_run(place)
        projection = View(place).projection
        assert projection is not None
        assert np.array_equal(projection.places, places)


def test_a_run_of_its_own_may_have_other_samples(run: Path, tmp_path: Path) -> None:
    arrive(run)
    opened = EditedRun(run)
    record, features = (
        version_record(opened, opened.record["categories"], opened.samples),
        np.array(opened.features),
    )
    (tmp_path / "next").mkdir()
    write_separately(tmp_path / "next", record, opened.fitted, opened.predictions, opened, features)
    verify_run(tmp_path / "next")
    assert "samples" not in read_run(tmp_path / "next")
    assert read_predictions(tmp_path / "next").equals(read_predictions(run))
    assert np.array_equal(EditedRun(tmp_path / "next").features, features)
    with pytest.raises(ValueError, match="features should be float16 of 126 samples; got float32"):
        write_version(tmp_path, record, opened.fitted, opened.predictions, opened, features.astype(np.float32))


def test_states_with_other_samples_are_compared_by_their_ids(run: Path) -> None:
    edited = EditedRun(run)
    before = edited.record, edited.predictions
    arrive(edited, let_go=2)
    edited.move(["9"], "new-4")
    comparison = compare_states(before, (edited.record, edited.predictions))
    assert (comparison.n_common, comparison.n_only_before, comparison.n_only_after) == (N - 2, 2, N_NEW)
    assert comparison.moved["id"].to_pylist() == ["9"]


def test_a_copy_has_all_versions_with_their_samples(run: Path, tmp_path: Path) -> None:
    edited = EditedRun(run)
    arrive(edited)
    refit(edited)
    edited.undo()
    edited.undo()
    (tmp_path / "copy").mkdir()
    copy_run(run, tmp_path / "copy")
    copy = EditedRun(tmp_path / "copy")
    for one in (copy, edited):
        one.redo()
        one.redo()
    assert copy.predictions.equals(edited.predictions)
    assert np.array_equal(copy.features, edited.features)
    verify_run(tmp_path / "copy")


def test_a_discovery_in_memory_follows_its_run(run: Path, tmp_path: Path) -> None:
    discovery = newkinds.discover(X, TRUTH // 3 - 1, n_categories=KINDS, lam=0.3, max_iter=10, temperature=10.0)
    folder = discovery.save(tmp_path / "saved", with_map=False)
    arrive(folder)
    discovery.confirm([0])
    assert len(discovery.collection) == len(discovery.predictions) == len(discovery.model.labels_) == N + N_NEW
    discovery.undo()
    discovery.undo()
    assert len(discovery.collection) == len(discovery.predictions) == len(discovery.model.labels_) == N


def test_a_run_that_is_edited_meanwhile_gets_no_version(run: Path) -> None:
    def edit(stage: str, done: int, total: int) -> None:
        if (stage, done) == ("writing the version", 1):
            EditedRun(run).move([0], "owl")

    with pytest.raises(InputError, match="was edited while it was updated; update it again"), listening(edit):
        arrive(run)
    assert read_run(run)["journal"] == {"entries": 1, "version": None}
    arrive(run)
    assert sorted(path.name for path in (run / "versions").iterdir()) == ["0002"]
    assert read_run(run)["journal"] == {"entries": 2, "version": "0002"}


def test_rows_that_meant_other_samples_are_not_edited(run: Path) -> None:
    edited = EditedRun(run)
    arrive(run, let_go=3)
    with pytest.raises(InputError, match=r"samples came to .* or went meanwhile; look at it again"):
        edited.confirm([0])
    assert len(read_journal(run)) == 1
    edited.confirm([0])
    assert read_predictions(run)["id"][0].as_py() == "3"


def arrive_and_die(run: Path) -> None:
    """In a process of its own: die when the version is there and its entry is not."""
    opened = EditedRun(run)
    opened.append = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment,method-assign]  # it dies
    arrive(opened)


def test_a_kill_between_version_and_entry_leaves_the_run_as_it_was(run: Path) -> None:
    before = states(run)
    process = multiprocessing.get_context("fork").Process(target=arrive_and_die, args=(run,))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert (run / VERSION / "features.npy").is_file()
    record, table, features = states(run)
    assert record == before[0]
    assert table.equals(before[1])
    assert np.array_equal(features, before[2])
    verify_run(run)
    arrive(run, let_go=3)
    assert len(read_predictions(run)) == N + N_NEW - 3
    verify_run(run)


@pytest.mark.parametrize(
    ("name", "spoil", "says"),
    [
        ("features.npy", Path.unlink, "features.npy cannot be read: No such file"),
        (
            "features.npy",
            lambda path: path.write_bytes(b"x"),
            "features.npy is not the file that run.json describes",
        ),
        ("run.json", Path.unlink, "run.json is not there: the run does not keep its version 0002 any more"),
        (
            "run.json",
            lambda path: rewrite(path, samples="../.."),
            "samples should be a number such as 0002; got '../..'",
        ),
        ("run.json", lambda path: rewrite(path, samples="0003"), "run.json is not as newkinds wrote it"),
        (
            "run.json",
            lambda path: rewrite(path, checksums=None),
            "its samples should be those of an earlier version",
        ),
    ],
)
def test_a_damaged_version_is_refused_in_a_line_and_can_be_undone(run, name, spoil, says):
    arrive(run)
    shutil.copyfile(run / VERSION / name, run / "kept")
    spoil(run / VERSION / name)
    with pytest.raises(InputError) as caught:
        _ = verify_run(run), EditedRun(run).features
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    if name == "features.npy":
        EditedRun(run).undo()
        verify_run(run)
        assert len(EditedRun(run).features) == N


def rewrite(path: Path, **values: object) -> None:
    record = json.loads(path.read_bytes()) | values
    if "checksums" in values:
        del record["checksums"]
        record["samples"] = "0007"
    path.write_text(json.dumps(record))


def test_a_run_itself_has_no_other_samples(run: Path) -> None:
    record = json.loads((run / "run.json").read_bytes())
    del record["checksums"]
    (run / "run.json").write_text(json.dumps(record | {"samples": "0002"}))
    with pytest.raises(InputError, match="its samples should be those of an earlier version"):
        read_run(run)


def test_files_of_a_version_are_known_as_its_own(run: Path) -> None:
    arrive(run)
    for place in (run, run / VERSION):
        check_if_own(place / "features.npy", run)
        (place / "features.npy").write_bytes(b"x")
        with pytest.raises(InputError, match="it was changed or damaged"):
            check_if_own(place / "features.npy", run)


CALLED = {2: "owl", 4: "new-1", 14: "new-14", 15: "bee"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {
                "arrived": 120,
                "born": [{"id": 14, "key": "new-14", "name": None, "size": 3}] * 2,
                "grown": [[2, 90], [4, 6]],
                "held": 20,
                "moved": 3,
            },
            "120 samples arrived: 2 kinds born (new-14, new-14), 96 joined 2 kinds, 20 held back; 3 others moved",
        ),
        ({"arrived": 1, "moved": 1}, "1 sample arrived; 1 other moved"),
        ({"arrived": 9, "named": [[15, "bee"]]}, "9 samples arrived; bee has its name from labels"),
        (
            {"dormant": [2, 4], "merges": [[4, 14, 0.9]], "splits": [[2, 0.5]]},
            "0 samples arrived; nothing joins owl, new-1 any more; new-1 and new-14 may be one; owl may be several",
        ),
    ],
)
def test_an_update_in_a_sentence(changes: dict[str, Any], says: str) -> None:
    entry = Entry(1, "", "update", "update", {}, {"version": "0002", "changes": changes})
    assert sentence(entry, CALLED) == says


def test_history_says_what_came(run: Path) -> None:
    arrive(run, let_go=1)
    entries = list(read_journal(run))
    text = sentence(entries[0], all_names(read_record(run), entries))
    assert text == "6 samples arrived: 1 kind born (new-4), 2 held back; 1 sample is no longer kept"
