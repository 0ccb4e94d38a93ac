"""Refitting a run: versions, what stays, what is learnt, and what a kill leaves."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newkinds
from newkinds import InputError
from newkinds.editing import EditedRun, refit, refitting
from newkinds.editing.supervision import SURE
from newkinds.run_folder import read_predictions, read_run, verify_run
from newkinds.runtime import listening
from tests.editing.conftest import X


def test_a_refit_is_a_version_of_the_run(run: Path) -> None:
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    edited = EditedRun(run)
    edited.rename("new-2", "bee")
    edited.merge(["new-1", "new-3"])
    edited.confirm(edited.members("bee")[:3])
    done = refit(run)
    assert done.entry is not None
    assert (done.entry.by, done.entry.outcome) == ("refit", {"version": "0002"})
    assert {path.name: path.read_bytes() for path in run.iterdir() if path.name in before} == before
    record = read_run(run)
    assert [(c["key"], c["name"]) for c in record["categories"][3:]] == [("new-1", "new-1"), ("new-2", "bee")]
    assert record["journal"] == {"entries": 4, "version": "0002"}
    assert sum(category["size"] for category in record["categories"]) == 120
    assert read_predictions(run)["confirmed"].to_numpy().sum() == 3
    assert len(newkinds.load(run).categories_) == 5
    assert newkinds.load(run).weights_.shape[0] == 5
    assert "features.npy" in verify_run(run)
    assert edited.refresh()[0].op == "refit"
    assert edited.record == record
    assert edited.predictions.equals(read_predictions(run))


def test_undo_goes_back_across_a_refit(run: Path) -> None:
    edited = EditedRun(run)
    edited.merge(["new-1", "new-3"])
    before = edited.record["categories"], edited.predictions
    refit(edited)
    after = edited.record["categories"], edited.predictions
    edited.undo()
    assert (edited.record["categories"], edited.predictions.equals(before[1])) == (before[0], True)
    assert edited.version is None
    edited.redo()
    assert (edited.record["categories"], edited.predictions.equals(after[1])) == (after[0], True)
    edited.move([0], "new-2")
    edited.undo()
    edited.undo()
    edited.create([0])
    refit(edited)
    assert edited.version == "0003"
    assert read_run(run)["journal"]["version"] == "0003"
    assert edited.predictions.equals(read_predictions(run))


def test_samples_that_a_person_spoke_for_never_move(run: Path) -> None:
    edited = EditedRun(run)
    rows = edited.members("new-1")[:2]
    edited.move(rows, "owl")
    edited.create([1], "bee")
    refit(edited)
    assert [edited.category(int(i))["name"] for i in edited.samples.categories[[*rows, 1]]] == ["owl", "owl", "bee"]
    assert edited.samples.confirmed[[*rows, 1]].all()


@pytest.mark.parametrize("row", [0, 3, 60])
def test_sure_samples_of_categories_that_nobody_touched_stay(row: int, run: Path) -> None:
    """A category made of one sample grows: into the one that it came from, and into doubtful samples."""
    edited = EditedRun(run)
    before = edited.samples.categories.copy()
    source = edited.category(int(before[row]))["id"]
    sure = (edited.samples.confidence >= SURE) & (before != source)
    assert sure.sum() > 60
    edited.create([row], "bee")
    refit(edited)
    assert np.array_equal(edited.samples.categories[sure], before[sure])
    assert edited.category("bee")["size"] > 1
    unlabelled = ~edited.samples.labelled
    assert np.array_equal(edited.model.predict(X)[unlabelled], edited.samples.categories[unlabelled])


def test_other_settings_may_move_anything(run: Path) -> None:
    edited = EditedRun(run)
    before = edited.samples.categories.copy()
    edited.create([0], "bee")
    refit(edited, lam=0.3)
    moved = edited.samples.categories != before
    assert (moved & (before != before[0])).any()


def test_a_category_that_was_split_off_lives_on(run: Path) -> None:
    edited = EditedRun(run)
    edited.merge(["new-1", "new-2"])
    refit(edited)
    edited.split("new-1", 2)
    refit(edited)
    model = newkinds.load(run)
    counts = dict(zip(*np.unique(model.predict(X), return_counts=True), strict=True))
    assert min(counts.values()) >= 15
    assert len(counts) == 6


def test_ids_go_on_after_a_refit_into_a_run_of_its_own(run: Path, tmp_path: Path) -> None:
    edited = EditedRun(run)
    edited.rename("new-2", "bee")
    edited.create([0])
    edited.undo()
    done = refit(edited, out=tmp_path / "next")
    assert done.entry is None
    record = read_run(tmp_path / "next")
    assert record["parent"] == {"run": "run", "entry": 3}
    assert [category["name"] for category in record["categories"]][4] == "bee"
    assert not (tmp_path / "next" / "journal.jsonl").exists()
    verify_run(tmp_path / "next")
    following = EditedRun(tmp_path / "next")
    following.create([0])
    assert (following.record["categories"][-1]["id"], following.record["categories"][-1]["key"]) == (7, "new-5")
    assert edited.version is None


def test_a_refit_that_was_killed_before_its_entry_has_not_happened(run: Path) -> None:
    edited = EditedRun(run)
    edited.move([0], "owl")
    refit(run)
    lines = (run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (run / "journal.jsonl").write_bytes(lines[0])
    assert read_run(run)["journal"]["version"] is None
    assert refit(run).entry is not None
    assert read_run(run)["journal"]["version"] == "0002"
    assert sorted(path.name for path in (run / "versions").iterdir()) == ["0002"]


def test_a_refit_can_be_cancelled(run: Path) -> None:
    class Cancelled(Exception):
        pass

    def cancel(stage: str, done: int, total: int) -> None:
        if stage == "writing the version":
            raise Cancelled

    EditedRun(run).move([0], "owl")
    before = read_predictions(run)
    with pytest.raises(Cancelled), listening(cancel):
        refit(run)
    assert read_predictions(run).equals(before)
    assert list((run / "versions").iterdir()) == []


def test_a_run_that_is_edited_meanwhile_is_not_refitted(run: Path) -> None:
    def edit(stage: str, done: int, total: int) -> None:
        if (stage, done) == ("writing the version", 1):
            EditedRun(run).move([0], "owl")

    with pytest.raises(InputError, match="was edited while it was refitted"), listening(edit):
        refit(run)
    assert read_run(run)["journal"] == {"entries": 1, "version": None}


def test_a_run_of_k_means_is_not_refitted(tmp_path: Path) -> None:
    folder = newkinds.discover(X, method="kmeans", n_categories=3).save(tmp_path / "run", with_map=False)
    with pytest.raises(InputError, match="cannot be refitted; discover again"):
        refit(folder)


def test_a_refit_that_comes_too_late_leaves_the_version_of_another_alone(run: Path) -> None:
    late, early = EditedRun(run), EditedRun(run)
    fit_again = refitting._fitted_again

    def with_another_meanwhile(*arguments: Any) -> Any:
        result = fit_again(*arguments)
        if arguments[0] is late:
            early.move(list(range(10)), "new-1")
            refitting.refit(early)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refitting, "_fitted_again", with_another_meanwhile)
        with pytest.raises(InputError, match="refit"):
            refitting.refit(late)
    assert EditedRun(run).samples.confirmed[:10].all()
    assert EditedRun(run).version == "0002"
