"""Arrivals that are taken in together until they are a whole batch."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newkinds
from newkinds import FeatureSet
from newkinds.editing import EditedRun, merge, refit, rename, undo, update
from newkinds.journal import read_journal
from newkinds.methods import updating
from newkinds.methods.refitting import refit_model
from newkinds.run_folder import read_predictions, read_run
from tests.blobs import blobs
from tests.editing.living import KINDS, X, arrivals, nothing_agrees

SMALL = 10
"""Samples that are no whole batch beside the run's 240; three times as many are."""


@pytest.fixture
def run(grows: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(grows, tmp_path / "run"))


def in_parts(features: np.ndarray) -> list[FeatureSet]:
    """Samples in a random order, in parts of `SMALL`."""
    order = np.random.default_rng(0).permutation(len(features))
    parts = [order[first : first + SMALL] for first in range(0, len(order), SMALL)]
    return [FeatureSet(features[part], np.full(len(part), -1)) for part in parts]


def since(run: Path) -> int | None:
    return read_run(run)["window"].get("since")


def test_a_batch_in_parts_ends_as_one_that_comes_at_once(run: Path) -> None:
    whole = Path(shutil.copytree(run, run.parent / "whole"))
    features, _ = blobs(2, 15, seed=1, first=KINDS)
    order = np.random.default_rng(0).permutation(30)
    update(whole, FeatureSet(features[order], np.full(30, -1)))
    for part in in_parts(features):
        assert "window" not in read_run(run) or since(run) == 0
        update(run, part)
    assert since(run) is since(whole) is None
    at_once, by_parts = (read_predictions(place)["category"].to_numpy() for place in (whole, run))
    same = by_parts[np.unique(at_once, return_index=True)[1]]  # ids, of which others may have been taken back
    assert (same[at_once] == by_parts).all()
    first, last = newkinds.load(whole), newkinds.load(run)
    weights = last.weights_[np.searchsorted(last.categories_, same)]
    np.testing.assert_allclose(weights, first.weights_, atol=1e-3)  # but for features as stored


def test_ids_stay_while_a_batch_grows(run: Path) -> None:
    features, _ = blobs(2, 14, seed=1, first=KINDS)
    keys: dict[int, str] = {}
    for part in in_parts(features):
        done = update(run, part)
        assert "taken_back" not in done.changes
        born = {c["id"]: c["key"] for c in done.changes.get("born", [])}
        assert not born.keys() & keys.keys()
        keys |= born
    assert keys == {KINDS: "new-4", KINDS + 1: "new-5"}
    assert read_run(run)["last"]["id"] == KINDS + 1


@pytest.mark.parametrize("edit", [lambda run: rename(run, "new-1", "bees"), lambda run: refit(run)])
def test_an_edit_ends_a_batch(run: Path, edit: Callable[[Path], object]) -> None:
    update(run, arrivals(0, 1, SMALL))
    assert EditedRun(run).batch_since == 0
    edit(run)
    assert EditedRun(run).batch_since is None
    update(run, arrivals(0, 1, SMALL, seed=2))
    assert since(run) == 2


def test_what_a_person_said_of_a_batch_is_not_lost(run: Path) -> None:
    """It was worked out from before what they said."""
    update(run, arrivals(KINDS, 2))
    rename(run, "new-4", "mites")
    EditedRun(run).move([len(X) + 1], "kind 3")
    update(run, arrivals(0, 1, 6))
    table = read_predictions(run)
    assert "mites" in {c["name"] for c in read_run(run)["categories"]}
    assert table["category"][len(X) + 1].as_py() == 3


def test_undoing_goes_back_into_the_batch(run: Path) -> None:
    update(run, arrivals(KINDS, 1))
    before = read_predictions(run)
    update(run, arrivals(KINDS + 1, 1, 9))
    undo(run)
    assert read_predictions(run).equals(before)
    assert since(run) == 0
    update(run, arrivals(KINDS + 1, 1, 9))
    assert since(run) == 0
    assert len(read_journal(run)) == 4
    undo(run)
    undo(run)
    update(run, arrivals(0, 1, 6))
    assert since(run) == 6


def test_labels_of_a_batch_count_until_its_end(run: Path) -> None:
    update(run, labelled_arrival("wasp", 9))
    [wasp] = [c for c in read_run(run)["categories"] if c["name"] == "wasp"]
    for seed in (1, 2, 3):
        done = update(run, arrivals(0, 1, SMALL, seed=seed))
        assert not {"born", "taken_back", "moved"} & done.changes.keys()
    assert since(run) != 0
    table = read_predictions(run)
    assert (table["category"].to_numpy()[len(X) : len(X) + 9] == wasp["id"]).all()
    assert EditedRun(run).samples.given[len(X) : len(X) + 3].all()


def labelled_arrival(name: str, n: int = 6, n_labelled: int = 3, kind: int = KINDS, seed: int = 1) -> FeatureSet:
    features, _ = blobs(1, n, seed=seed, first=kind)
    return FeatureSet(features, np.where(np.arange(n) < n_labelled, 0, -1), names=(name,))


@pytest.mark.parametrize(
    ("begin", "first"),
    [
        (lambda run: merge(run, ["new-1", "new-2"]), lambda: arrivals(0, 1, 2)),
        (lambda run: update(run, arrivals(0, KINDS)), lambda: labelled_arrival("wasp")),
    ],
    ids=["after a merge", "after a label"],
)
def test_a_batch_is_trained_once_for_what_is_new(
    run: Path,
    begin: Callable[[Path], object],
    first: Callable[[], FeatureSet],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin(run)
    trained: list[str] = []

    def counted(*args: Any, **more: Any) -> Any:
        trained.append("again")
        return refit_model(*args, **more)

    monkeypatch.setattr(updating, "refit_model", counted)
    update(run, first())
    assert len(trained) == 1
    before = since(run)
    assert before is not None
    for seed in range(2, 6):
        assert not {"born", "taken_back", "moved"} & update(run, arrivals(0, 1, 2, seed=seed)).changes.keys()
    assert since(run) == before
    assert len(trained) == 1
    update(run, labelled_arrival("moth", kind=KINDS + 1))
    assert len(trained) == 2
    update(run, arrivals(0, 5, SMALL, seed=6))
    assert since(run) is None
    assert len(trained) == 3  # as if the batch had come at once


def test_a_model_stays_where_something_of_before_the_batch_was_taken_back(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update(run, arrivals(KINDS, 1, 30))
    with nothing_agrees():
        assert "taken_back" in update(run, arrivals(0, 1, 4)).changes
        monkeypatch.setattr(updating, "refit_model", lambda *_, **__: pytest.fail("trained again"))
        update(run, arrivals(0, 1, 4, seed=2))


def test_a_label_with_the_name_of_a_kind_that_was_taken_back_brings_it_back(run: Path) -> None:
    update(run, arrivals(KINDS, 1, 30))
    with nothing_agrees():
        update(run, arrivals(0, 1, 4))
        done = update(run, labelled_arrival("new-4", seed=3))
    assert [(c["id"], c["key"]) for c in done.changes["born"]] == [(KINDS, "new-4")]
    categories = read_run(run)["categories"]
    assert [c["id"] for c in categories] == list(range(KINDS + 1))
    assert len({c["name"] for c in categories}) == KINDS + 1
    assert EditedRun(run).samples.given[-6:].sum() == 3


def test_a_label_may_name_a_kind_that_was_born_earlier_in_the_batch(run: Path) -> None:
    assert update(run, arrivals(KINDS, 1, 9)).changes["born"]
    done = update(run, labelled_arrival("wasp", n=5, n_labelled=2, seed=2))
    assert done.changes["named"] == [[KINDS, "wasp"]]
    with nothing_agrees():
        assert "taken_back" not in update(run, arrivals(0, 1, 4)).changes
    assert since(run) == 0
    assert read_run(run)["categories"][KINDS]["name"] == "wasp"


def test_samples_of_an_open_batch_are_all_kept(run: Path) -> None:
    update(run, arrivals(0, KINDS, 30), keep=30)
    n_before = read_run(run)["source"]["samples"]
    done = update(run, arrivals(0, 1, SMALL, seed=2), keep=30)
    assert "let_go" not in done.changes
    assert read_run(run)["source"]["samples"] == n_before + SMALL
    done = update(run, arrivals(0, 1, 3 * SMALL, seed=3), keep=30)
    assert done.changes["let_go"] == 4 * SMALL


def test_a_bound_that_is_far_exceeded_ends_a_batch(run: Path) -> None:
    done = update(run, arrivals(0, 1, SMALL), keep=5)
    assert done.changes["let_go"] == len(X) + SMALL - KINDS * 5
    assert since(run) is None


def test_a_batch_ends_where_the_version_before_it_is_gone(run: Path) -> None:
    update(run, arrivals(0, 1, 3 * SMALL))
    update(run, arrivals(KINDS, 1, seed=2))
    assert EditedRun(run).batch_since == 1
    shutil.rmtree(run / "versions" / "0002")
    assert EditedRun(run).batch_since is None
    done = update(run, arrivals(KINDS, 1, SMALL, seed=3))
    assert not {"born", "taken_back"} & done.changes.keys()
    assert since(run) == 2


def test_a_run_of_its_own_begins_a_batch_of_its_own(run: Path) -> None:
    update(run, arrivals(KINDS, 1))
    out = update(run, arrivals(KINDS, 1, SMALL, seed=2), out=run.parent / "out").place
    assert since(out) is None
    assert since(run) == 0  # which goes on
    update(out, arrivals(0, 1, 3))
    assert since(out) == 0


def test_what_was_taken_back_may_be_there_again(run: Path) -> None:
    """A birth of the batch before is taken back in the midst of a batch, which at its end finds it again."""
    update(run, arrivals(KINDS, 1, 30))
    with nothing_agrees():
        assert update(run, arrivals(0, 1, 6)).changes["taken_back"] == [[KINDS, None]]
    done = update(run, arrivals(0, 1, 6, seed=2))
    assert [(c["id"], c["key"]) for c in done.changes["born"]] == [(KINDS, "new-4")]
    assert [c["id"] for c in read_run(run)["categories"]] == list(range(KINDS + 1))
