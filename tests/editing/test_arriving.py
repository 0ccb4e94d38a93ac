"""Samples that come in parts: what is provisional, what is taken back, what is decided for good."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import newkinds
from newkinds import FeatureSet
from newkinds.editing import EditedRun, merge, refit, rename, update
from newkinds.editing.sentences import all_names, sentence, update_sentence
from newkinds.journal import read_journal
from newkinds.methods import updating
from newkinds.run_folder import read_predictions, read_run
from tests.blobs import blobs
from tests.editing.living import KINDS, SIZE, X, arrivals, nothing_agrees


@pytest.fixture
def run(grows: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(grows, tmp_path / "run"))


def test_a_kind_that_comes_in_parts_is_one(run: Path) -> None:
    whole = EditedRun(shutil.copytree(run, run.parent / "whole"))
    features, truth = blobs(3, 30, seed=1, first=KINDS)
    order = np.random.default_rng(0).permutation(len(features))
    update(whole, FeatureSet(features[order], np.full(len(order), -1)))
    born: dict[int, str] = {}
    for part in np.array_split(order, 6):
        done = update(run, FeatureSet(features[part], np.full(len(part), -1)))
        assert "taken_back" not in done.changes
        born |= {c["id"]: c["key"] for c in done.changes.get("born", [])}
    assert born == {KINDS: "new-4", KINDS + 1: "new-5", KINDS + 2: "new-6"}
    at_once, in_parts = (
        read_predictions(place)["category"].to_numpy()[-len(order) :] for place in (whole.folder, run)
    )
    assert adjusted_rand_score(truth[order], in_parts) > 0.95
    assert adjusted_rand_score(at_once, in_parts) > 0.95


def test_a_birth_with_a_name_is_not_taken_back(run: Path) -> None:
    update(run, arrivals(KINDS, 2))
    rename(run, "new-4", "mites")
    with nothing_agrees():
        done = update(run, arrivals(0, 1, 6))
    assert [gone for gone, _ in done.changes["taken_back"]] == [KINDS + 1]
    assert "mites" in {c["name"] for c in read_run(run)["categories"]}


def test_a_birth_that_has_grown_is_not_taken_back(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updating, "GROWN", 20)
    update(run, arrivals(KINDS, 1, 30))
    assert read_run(run)["window"] == {"recent": 30, "born": [KINDS]}
    with nothing_agrees():
        assert "taken_back" not in update(run, arrivals(0, 1, 6)).changes
    update(run, arrivals(0, KINDS, 30, seed=2))  # what was born is no longer recent then
    assert read_run(run)["window"] == {"recent": 6 + KINDS * 30, "born": []}


def test_a_provisional_kind_may_be_taken_back(run: Path) -> None:
    update(run, arrivals(KINDS, 1))
    with nothing_agrees():
        done = update(run, arrivals(0, 1, 6))
    assert done.changes["taken_back"] == [[KINDS, None]]
    assert not {"moved", "held"} & done.changes.keys()
    said = "new-4 was taken back: most of it is held back; 12 of before are held back"
    assert said in update_sentence(done.changes, done.names.__getitem__)
    moved = done.changes | {"taken_back": [[KINDS, 7]]}
    assert "new-4 was taken back: most of it is in new-1" in update_sentence(moved, done.names.__getitem__)
    table = read_predictions(run)
    assert KINDS not in {c["id"] for c in read_run(run)["categories"]}
    assert table["held"].to_numpy()[len(X) : len(X) + 12].all()
    born = update(run, arrivals(KINDS, 1, 12, seed=2), birth_size=20).changes["born"]
    assert [(c["id"], c["key"], c["size"]) for c in born] == [(KINDS + 1, "new-5", 24)]
    journal = list(read_journal(run))
    assert said in sentence(journal[1], all_names(read_run(run, 0), journal))


def test_ordinary_samples_leave_small_births_and_everything_else_as_they_are(run: Path) -> None:
    update(run, arrivals(KINDS, 2))
    before = read_predictions(run)["category"].to_pylist()
    weights = newkinds.load(run).weights_
    ordinary, _ = blobs(KINDS + 2, 1, seed=4)
    n_of_batch = 0
    for sample in ordinary:
        done = update(run, FeatureSet(sample[None], np.array([-1])))
        assert not {"born", "moved", "taken_back"} & done.changes.keys()
        if read_run(run)["window"].get("since") == 0:  # the same batch
            n_of_batch += 1
            assert (newkinds.load(run).weights_ == weights).all()
    assert 0 < n_of_batch < len(ordinary)
    assert read_predictions(run)["category"].to_pylist()[: len(before)] == before
    late = read_predictions(run)["category"].to_pylist()[-2:]
    assert late == [KINDS, KINDS + 1]


def test_odd_samples_are_in_no_small_birth(run: Path) -> None:
    """Also where its model stays as it was."""
    update(run, arrivals(KINDS, 2, 20))
    weights = newkinds.load(run).weights_
    odd = np.random.default_rng(5).normal(size=(40, X.shape[1])).astype(np.float32)
    update(run, FeatureSet(odd, np.full(40, -1)))
    assert (newkinds.load(run).weights_ == weights).all()
    table = read_predictions(run)
    in_birth = np.isin(table["category"].to_numpy()[-40:], [KINDS, KINDS + 1])
    assert in_birth.any()
    assert table["held"].to_numpy()[-40:][in_birth].all()


def test_a_kind_born_smaller_than_others_have_to_be_stays(run: Path) -> None:
    """The least size is of births."""
    few, _ = blobs(1, 5, seed=1, first=KINDS)
    assert len(update(run, FeatureSet(few, np.full(5, -1)), birth_size=4).changes["born"]) == 1
    assert not {"taken_back", "moved"} & update(run, arrivals(0, 1, 6)).changes.keys()


def test_what_a_person_confirmed_is_not_taken_back(run: Path) -> None:
    update(run, arrivals(KINDS, 2))
    EditedRun(run).confirm([len(X)])
    with nothing_agrees():
        done = update(run, arrivals(0, 1, 6))
    assert [gone for gone, _ in done.changes["taken_back"]] == [KINDS + 1]
    assert read_predictions(run)["category"][len(X)].as_py() == KINDS


def test_a_refit_decides_for_good(run: Path) -> None:
    update(run, arrivals(KINDS, 1))
    refit(run)
    assert "window" not in read_run(run)
    with nothing_agrees():
        assert "taken_back" not in update(run, arrivals(0, 1, 6)).changes


def test_what_is_no_longer_kept_is_not_recent(run: Path) -> None:
    update(run, arrivals(0, KINDS, 40), keep=15)
    table = read_predictions(run)
    n_new = sum(name.startswith("0002/") for name in table["id"].to_pylist())
    assert 0 < read_run(run)["window"]["recent"] == n_new < 400


def test_a_model_that_cannot_rehearse_any_more_leaves_births_as_they_are(tmp_path: Path) -> None:
    features, truth = blobs(4, SIZE)
    labels = [f"kind {c}" if c < 2 and row % 2 == 0 else None for row, c in enumerate(truth)]
    discovery = newkinds.discover(features, labels, n_categories=4, lam=0.1, temperature=25.0)
    run = discovery.save(tmp_path / "run", with_map=False)
    [born] = update(run, arrivals(4, 1, 40)).changes["born"]
    merge(run, ["kind 1", "new-1", "new-2"], known=True)
    for seed in (1, 2):
        assert not {"born", "taken_back"} & update(run, arrivals(0, 1, 6, seed=seed)).changes.keys()
    assert newkinds.load(run).learnt_strangers() is None
    assert born["id"] in newkinds.load(run).categories_
