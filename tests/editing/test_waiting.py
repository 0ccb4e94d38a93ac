"""Samples that wait in a run's folder: what was written is read again, what was interrupted never happened."""

import contextvars
from pathlib import Path

import numpy as np
import pytest

from newkinds import FeatureSet, InputError
from newkinds.editing import update
from newkinds.editing.edited_run import EditedRun
from newkinds.editing.updating import take_waiting
from newkinds.editing.waiting import Waiting, taken_tokens, waiting_samples
from newkinds.engine import normalised
from newkinds.journal import read_journal
from newkinds.run_folder import check_replaceable, copy_run, read_predictions, verify_run
from tests.editing.conftest import X as FITTED

X = FITTED[:6] + 0.1
UNLABELLED = np.array([-1])


def waiting(run: Path) -> Waiting:
    return Waiting(run, ())


def ids_of(run: Path) -> list[str | None]:
    return [name for block in waiting(run).read() for name in block.ids]


def fill(run: Path) -> Waiting:
    held = waiting(run)
    held.append(["a", "b"], X[:2], ["one", None])
    held.append(["c", " ", None], X[2:5])
    return held


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    held = fill(tmp_path)
    again = waiting(tmp_path)
    assert again.token == held.token
    assert again.n_samples == 5
    blocks = again.read()
    assert [block.ids for block in blocks] == [["a", "b"], ["c", None, None]]
    assert [block.texts for block in blocks] == [["one", ""], None]
    assert np.allclose(np.concatenate([block.features for block in blocks]), normalised(X[:5]), atol=1e-6)
    again.append(["d"], X[5:])
    assert ids_of(tmp_path) == ["a", "b", "c", None, None, "d"]


def test_many_samples_and_large_numbers_are_no_matter(tmp_path: Path) -> None:
    held = waiting(tmp_path)
    ids = [str(row) for row in range(5000)]
    held.append(ids, 1e300 * np.random.default_rng(0).normal(size=(5000, 3)))
    assert ids_of(tmp_path) == ids
    assert np.isfinite(np.concatenate([block.features for block in waiting(tmp_path).read()])).all()


def test_an_interrupted_record_never_happened(tmp_path: Path) -> None:
    fill(tmp_path)
    path = tmp_path / "waiting.samples"
    content = path.read_bytes()
    counts = set()
    for n_bytes in range(len(content)):
        path.write_bytes(content[:n_bytes])
        counts.add(waiting(tmp_path).n_samples)
    assert counts == {0, 2}
    path.write_bytes(content[:-1] + b"?")  # its length came onto the disk before its last bytes
    held = waiting(tmp_path)
    assert held.n_samples == 2
    held.append(["z"], X[:1])
    assert ids_of(tmp_path) == ["a", "b", "z"]


def test_what_is_damaged_is_said(tmp_path: Path) -> None:
    fill(tmp_path)
    path = tmp_path / "waiting.samples"
    content = bytearray(path.read_bytes())
    content[80] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"waiting.samples is damaged at byte \d+: the samples from there on"):
        waiting(tmp_path)
    path.write_bytes(b"something else " * 10)
    with pytest.raises(InputError, match="is not a file of newkinds; move it away to go on"):
        waiting(tmp_path)


def test_one_program_watches_a_run(run: Path) -> None:
    def hold() -> None:
        with waiting_samples(run):
            pass

    with waiting_samples(run):
        another_program = contextvars.Context()  # which has claimed nothing
        with pytest.raises(InputError, match=r"another program watches .*run; end that one first"):
            another_program.run(hold)
    another_program.run(hold)


def test_an_update_takes_in_what_waits_first(run: Path) -> None:
    n_before = len(read_predictions(run))
    fill(run)
    done = update(run, FeatureSet(X[5:], UNLABELLED, ids=("d",)), source="d.npy")
    assert done.first is not None
    assert (done.first.n_samples, done.first.n_again) == (5, 0)
    assert [entry.arguments["source"] for entry in read_journal(run)] == ["watch", "d.npy"]
    ids = read_predictions(run)["id"].to_pylist()[n_before:]
    assert ids == ["a", "b", "c", "0002/3", "0002/4", "d"]
    assert not (run / "waiting.samples").exists()
    verify_run(run)


def test_a_result_of_its_own_leaves_them_waiting(run: Path, tmp_path: Path) -> None:
    fill(run)
    done = update(run, FeatureSet(X[5:], UNLABELLED), out=tmp_path / "other")
    assert done.first is None
    assert waiting(run).n_samples == 5
    assert len(read_predictions(tmp_path / "other")) == len(read_predictions(run)) + 1
    update(tmp_path / "other", FeatureSet(X[:1], UNLABELLED))
    ids = read_predictions(tmp_path / "other")["id"].to_pylist()
    assert len(set(ids)) == len(ids)  # though both updates were a second version


def test_a_file_that_the_journal_names_is_not_taken_twice(run: Path) -> None:
    """As if killed between the entry and the removal of the file."""
    token = fill(run).token
    content = (run / "waiting.samples").read_bytes()
    assert take_waiting(EditedRun(run)) is not None
    (run / "waiting.samples").write_bytes(content)
    assert taken_tokens(read_journal(run)) == {token}
    with waiting_samples(run) as held:
        assert held.n_samples == 0
    assert not (run / "waiting.samples").exists()
    EditedRun(run).undo()  # nor after that update was undone
    (run / "waiting.samples").write_bytes(content)
    assert take_waiting(EditedRun(run)) is None


def test_ids_that_are_there_already_are_passed_over(run: Path) -> None:
    first = read_predictions(run)["id"][0].as_py()
    waiting(run).append([first, "a", "a", None], X[:4])
    taken = take_waiting(EditedRun(run))
    assert taken is not None
    assert (taken.n_samples, taken.n_again) == (4, 2)
    waiting(run).append(["a"], X[:1])
    taken = take_waiting(EditedRun(run))
    assert taken is not None
    assert taken.update is None
    assert not (run / "waiting.samples").exists()
    assert len(read_journal(run)) == 1


def test_other_commands_do_not_mind_the_file(run: Path, tmp_path: Path) -> None:
    fill(run)
    verify_run(run)
    (tmp_path / "copy").mkdir()
    copy_run(run, tmp_path / "copy")
    assert not (tmp_path / "copy" / "waiting.samples").exists()
    EditedRun(run).rename("new-1", "moth")
    assert waiting(run).n_samples == 5


def test_a_run_with_samples_that_wait_is_not_replaced(run: Path) -> None:
    check_replaceable(run, force=True)
    fill(run)
    with pytest.raises(InputError, match=r"holds samples that wait for its next update \(waiting.samples\): it is"):
        check_replaceable(run, force=True)
