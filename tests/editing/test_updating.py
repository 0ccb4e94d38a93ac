"""Updating a run: who joins, who is held back, which kinds are born, what labels do, what stays."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import newkinds
from newkinds import FeatureSet, InputError
from newkinds.data.pictures import png
from newkinds.editing import EditedRun, merge, refit, rename, undo, update
from newkinds.editing.sentences import all_names, sentence
from newkinds.journal import read_journal
from newkinds.run_folder import read_predictions, read_run, verify_run
from tests.blobs import blobs
from tests.editing.living import KINDS, KNOWN, LABELS, SIZE, TRUTH, X, arrivals, nothing_agrees


@pytest.fixture
def run(grows: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(grows, tmp_path / "run"))


def test_what_fits_joins_and_nothing_else_changes(run: Path) -> None:
    before = read_predictions(run)
    done = update(run, arrivals(0, KINDS))
    assert done.entry is not None
    assert (done.entry.by, done.entry.op, done.entry.version) == ("update", "update", "0002")
    changes = done.changes
    assert changes["arrived"] == KINDS * 12
    assert "born" not in changes
    assert "moved" not in changes
    assert sum(n for _, n in changes["grown"]) + changes.get("held", 0) == KINDS * 12
    after = read_predictions(run)
    assert len(after) == len(before) + KINDS * 12
    assert after["category"].to_pylist()[: len(before)] == before["category"].to_pylist()
    assert after["id"].to_pylist()[-1] == f"0002/{KINDS * 12 - 1}"
    right = np.repeat(after["category"].to_numpy()[::SIZE][:KINDS], 12)
    assert (after["category"].to_numpy()[len(before) :] == right).mean() > 0.97
    assert after["held"].to_numpy()[: len(before)].sum() == 0
    assert "features.npy" in verify_run(run)


def test_kinds_that_come_are_born_and_found_again(run: Path) -> None:
    done = update(run, arrivals(0, KINDS + 2))
    born = done.changes["born"]
    assert [(c["id"], c["key"], c["name"]) for c in born] == [(KINDS, "new-4", None), (KINDS + 1, "new-5", None)]
    assert all(12 <= c["size"] <= 16 for c in born)
    again, _ = blobs(2, 10, seed=5, first=KINDS)
    model = newkinds.load(run)
    found = model.predict(again)
    assert len(np.unique(found[:10])) == len(np.unique(found[10:])) == 1
    assert set(found) == {KINDS, KINDS + 1}
    assert model.strangeness(again).mean() < 0.3
    journal = list(read_journal(run))
    assert "2 kinds born (new-4, new-5)" in sentence(journal[0], all_names(read_run(run, 0), journal))


def test_strangers_wait_until_enough_of_them_agree(run: Path) -> None:
    few = update(run, arrivals(KINDS, 1, 5))
    assert "born" not in few.changes
    assert few.changes["held"] == 5
    table = read_predictions(run)
    assert table["held"].to_numpy()[-5:].all()
    assert (table["strangeness"].to_numpy()[-5:] > 0.5).all()
    more = update(run, arrivals(KINDS, 1, 7, seed=2))
    assert [c["size"] for c in more.changes["born"]] == [12]
    assert more.changes.get("held", 0) == 0
    assert len(np.unique(read_predictions(run)["category"].to_numpy()[-12:])) == 1


def test_the_least_size_of_a_kind_can_be_given(run: Path) -> None:
    assert "born" not in update(run, arrivals(KINDS, 1, 12), birth_size=13).changes


def test_labels_of_arrivals_join_name_and_make_kinds(run: Path) -> None:
    features = np.concatenate([blobs(1, 6, seed=1, first=c)[0] for c in (0, KNOWN, KINDS)])
    names = ("kind 0", "wasps", "beetles")
    labels = np.repeat(np.arange(3), 6)
    done = update(run, FeatureSet(features, labels, names=names))
    record = read_run(run)
    by_name = {c["name"]: c for c in record["categories"]}
    assert done.changes["labelled"] == 18
    assert [name for _, name in done.changes["named"]] == ["wasps"]
    assert [(c["name"], c["size"]) for c in done.changes["born"]] == [("beetles", 6)]
    assert by_name["wasps"]["key"].startswith("new-")
    assert by_name["wasps"]["id"] < KINDS
    assert by_name["kind 0"]["size"] == SIZE + 6
    assert by_name["beetles"]["key"] == "new-4"
    table = read_predictions(run)
    assert table["name"].to_pylist()[-18:] == [*["kind 0"] * 6, *["wasps"] * 6, *["beetles"] * 6]
    assert table["given"].to_numpy()[-18:].all()
    assert not table["held"].to_numpy().any()
    again = update(run, arrivals(KINDS, 1, 4, seed=9, ids=("a", "b", "c", "d")))
    assert by_name["beetles"]["id"] in dict(again.changes["grown"])


def test_a_persons_word_stays(run: Path) -> None:
    edited = EditedRun(run)
    edited.rename("new-1", "ants")
    edited.move([3], "ants")
    edited.confirm([1])
    update(edited, arrivals(0, KINDS + 3))
    table = read_predictions(run)
    assert table["name"][3].as_py() == "ants"
    assert table["confirmed"].to_pylist()[:4] == [False, True, False, True]
    assert table["confidence"][3].as_py() == 1
    refit(run)
    assert read_predictions(run)["name"][3].as_py() == "ants"


def test_undo_takes_the_samples_away_again(run: Path) -> None:
    before = read_run(run)["categories"], read_predictions(run)
    update(run, arrivals(KINDS, 2))
    undo(run)
    assert read_run(run)["categories"] == before[0]
    assert read_predictions(run).equals(before[1])
    done = update(run, arrivals(KINDS, 1))
    assert done.changes["born"][0]["id"] == KINDS + 2  # ids of what was undone are not used again
    assert done.entry is not None
    assert done.entry.version == "0003"


def test_what_was_merged_stays_one(run: Path) -> None:
    merge(run, ["new-1", "new-2"])
    rename(run, "new-1", "both")
    n_before = read_predictions(run)["name"].to_pylist().count("both")
    update(run, arrivals(0, KNOWN))
    names = read_predictions(run)["name"].to_pylist()
    assert names.count("both") >= n_before // 2  # the half that is most typical teaches
    assert "new-2" not in {c["key"] for c in read_run(run)["categories"]}


def test_no_more_samples_are_kept_than_asked(run: Path) -> None:
    done = update(run, arrivals(0, KINDS, 40), keep=15)
    table = read_predictions(run)
    unlabelled = table.filter(~np.array(table["given"].to_numpy()) & ~np.array(table["held"].to_numpy()))
    assert max(np.unique(unlabelled["category"].to_numpy(), return_counts=True)[1]) <= 15
    assert done.changes["let_go"] == KINDS * (SIZE + 40) - len(table)
    assert table["given"].to_numpy().sum() == sum(label is not None for label in LABELS)
    update(run, arrivals(0, KINDS, 10, seed=3), keep=15)
    assert newkinds.load(run).predict(X[:5]).shape == (5,)


def test_samples_that_are_there_already_are_refused(run: Path) -> None:
    samples = arrivals(0, 1, 3, ids=("a", "b", "c"))
    update(run, samples)
    with pytest.raises(
        InputError, match=r"3 of 3 samples are in the run already \('a', 'b', 'c'\); an update takes"
    ):
        update(run, samples)
    with pytest.raises(InputError, match="the run has 24 features, the new samples 3"):
        update(run, FeatureSet(np.eye(3), np.full(3, -1)))


def test_a_result_of_its_own_leaves_the_run_alone(run: Path, tmp_path: Path) -> None:
    before = sorted(path.name for path in run.iterdir())
    done = update(run, arrivals(KINDS, 1), out=tmp_path / "other")
    assert done.entry is None
    assert sorted(path.name for path in run.iterdir()) == before
    assert len(read_run(tmp_path / "other")["categories"]) == KINDS + 1
    assert len(newkinds.open_run(tmp_path / "other").predictions) == len(X) + 12


def test_a_discovery_updates_its_run(run: Path) -> None:
    discovery = newkinds.open_run(run)
    features, _ = blobs(2, 12, seed=1, first=KINDS - 1)
    done = discovery.update(features, ["mites" if row in (20, 21) else None for row in range(24)])
    assert [c["name"] for c in done.changes["born"]] == ["mites"]
    assert len(discovery.predictions) == len(X) + 24
    assert discovery.predict(features[12:])["name"].to_pylist() == ["mites"] * 12


def test_a_run_of_another_method_cannot_be_updated(tmp_path: Path) -> None:
    made = newkinds.discover(X, LABELS, method="sskm", n_categories=KINDS).save(tmp_path / "run", with_map=False)
    with pytest.raises(InputError, match="a run by sskm cannot be updated; discover again with all samples"):
        update(made, arrivals(0, 1))


def test_pictures_come_along(tmp_path: Path) -> None:
    images = (255 * np.random.default_rng(0).random((len(X) + 24, 6, 6))).astype(np.uint8)
    features = np.concatenate([X, blobs(2, 12, seed=1)[0]])
    labels = np.where((TRUTH < KNOWN) & (np.arange(len(X)) % 2 == 0), TRUTH, -1)
    pictured = FeatureSet(X, labels, images=images[: len(X)])
    discovery = newkinds.discover(pictured, n_categories=KINDS, lam=0.1, temperature=25.0)
    run = discovery.save(tmp_path / "run", with_map=False)
    unlabelled = np.full(12, -1)
    update(run, FeatureSet(features[-24:-12], unlabelled, images=images[-24:-12]))
    update(run, FeatureSet(features[-12:], unlabelled))
    pictures = read_predictions(run)["thumbnail"].to_pylist()
    assert [picture == png(image) for picture, image in zip(pictures[:-12], images, strict=False)] == [True] * 252
    assert len(set(pictures[-12:])) == 1


def test_kinds_that_are_born_get_a_place_on_the_map_and_a_suggestion(tmp_path: Path) -> None:
    run = newkinds.discover(X, LABELS, n_categories=KINDS, lam=0.1, temperature=25.0).save(tmp_path / "run")
    update(run, arrivals(KINDS, 1))
    record = read_run(run)
    assert record["map"] is not None
    assert np.load(run / "versions" / "0002" / "map.npy").shape == (len(X) + 12, 2)
    assert record["categories"][-1]["suggestion"]
    assert read_predictions(run)["suggestion"][len(X)].as_py() == record["categories"][-1]["suggestion"]


def test_a_run_that_knows_no_strangers_learns_of_them(run: Path) -> None:
    """As of an earlier version. Samples that are held do not teach it."""
    assert update(run, arrivals(KINDS, 1, 5)).changes["held"] == 5
    version = run / "versions" / "0002"
    arrays = {n: a for n, a in load_file(version / "model.safetensors").items() if not n.startswith("strange_")}
    save_file(arrays, version / "model.safetensors")
    record = json.loads((version / "run.json").read_text())
    earlier = {name: part for name, part in record.items() if name not in ("checksums", "window")}
    (version / "run.json").write_text(json.dumps(earlier))
    assert newkinds.load(run).learnt_strangers() is None
    born = update(run, arrivals(KINDS, 1, 7, seed=2)).changes["born"]
    assert [(c["key"], c["size"]) for c in born] == [("new-4", 12)]


def test_labels_that_say_something_else_teach(run: Path) -> None:
    """Samples between two kinds are of the second, as labels say."""
    first, second = (blobs(1, 12, seed=4, first=c)[0] for c in (0, 1))
    between = 0.55 * first + 0.45 * second
    before = newkinds.load(run).predict(between)
    labels = np.where(np.arange(12) < 8, 0, -1)
    update(run, FeatureSet(between, labels, names=("kind 1",)))
    after = newkinds.load(run).predict(between)
    kind_1 = next(c["id"] for c in read_run(run)["categories"] if c["name"] == "kind 1")
    assert read_predictions(run)["name"].to_pylist()[-12:-4] == ["kind 1"] * 8
    assert (after == kind_1).sum() > (before == kind_1).sum()


def test_ids_as_large_as_they_come(tmp_path: Path) -> None:
    labels = np.where((TRUTH < KNOWN) & (np.arange(len(X)) % 2 == 0), TRUTH + 2**53, -1)
    run = newkinds.discover(X, labels, n_categories=KINDS, lam=0.1, temperature=25.0).save(tmp_path / "run")
    features, _ = blobs(1, 12, seed=1, first=KINDS)
    done = update(run, FeatureSet(features, np.where(np.arange(12) < 3, 0, -1), names=("moth",)))
    assert [(c["name"], c["size"]) for c in done.changes["born"]] == [("moth", 12)]
    [ant] = update(run, arrivals(KINDS + 1, 1)).changes["born"]
    with nothing_agrees():
        assert update(run, arrivals(0, 1, 6)).changes["taken_back"] == [[ant["id"], None]]


@pytest.fixture(scope="session")
def in_metric(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as people make them: settings by rehearsal, a learnt metric."""
    features, truth = blobs(KINDS, 40, noise=0.2)
    labels = [f"kind {c}" if c < KNOWN and row % 2 == 0 else None for row, c in enumerate(truth)]
    discovery = newkinds.discover(features, labels, n_categories=KINDS)
    return discovery.save(tmp_path_factory.mktemp("metric") / "run", with_map=False)


@pytest.fixture
def metric_run(in_metric: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(in_metric, tmp_path / "run"))


def test_in_a_metric_kinds_are_born_and_it_is_learnt_anew(metric_run: Path) -> None:
    before = newkinds.load(metric_run)
    assert before.metric_map_ is not None
    features, _ = blobs(2, 30, noise=0.2, seed=1, first=KINDS)
    done = update(metric_run, FeatureSet(features, np.full(60, -1)))
    assert [c["size"] >= 20 for c in done.changes["born"]] == [True, True]
    after = newkinds.load(metric_run)
    assert (after.temperature_, read_run(metric_run)["chosen"]["lam"]) == (25.0, 0.3)
    assert after.metric_map_ is not None
    assert not np.allclose(after.metric_map_.matrix, before.metric_map_.matrix)
    old, _ = blobs(KINDS, 10, noise=0.2, seed=3)
    assert (after.predict(old) == before.predict(old)).mean() > 0.9
    confidence = [model.assess(old).confidence.mean() for model in (before, after)]
    assert confidence[0] == pytest.approx(confidence[1], abs=0.1)


def test_a_large_arrival_of_kinds_that_there_are_bears_nothing(metric_run: Path) -> None:
    features, _ = blobs(KINDS, 1500, noise=0.2, seed=1)
    done = update(metric_run, FeatureSet(features, np.full(len(features), -1)))
    assert "born" not in done.changes


def test_a_birth_has_as_many_samples_as_asked_for_when_it_is_over(metric_run: Path) -> None:
    features, _ = blobs(KINDS + 6, 9, noise=0.3, seed=2)
    done = update(metric_run, FeatureSet(features, np.full(len(features), -1)), birth_size=6)
    assert all(c["size"] >= 6 for c in done.changes.get("born", []))
    sizes = {c["id"]: c["size"] for c in read_run(metric_run)["categories"]}
    assert set(newkinds.load(metric_run).categories_.tolist()) == set(sizes)


def test_a_refit_leaves_held_samples_held_and_strange(run: Path) -> None:
    few, _ = blobs(1, 5, seed=1, first=KINDS)
    assert update(run, FeatureSet(few, np.full(5, -1))).changes["held"] == 5
    rename(run, "kind 0", "first")
    refit(run)
    assert newkinds.load(run).strangeness(few).mean() > 0.5
    more, _ = blobs(1, 7, seed=2, first=KINDS)
    assert [c["size"] for c in update(run, FeatureSet(more, np.full(7, -1))).changes["born"]] == [12]


def test_what_was_held_before_makes_nothing_else_strange(run: Path) -> None:
    ordinary = arrivals(0, KINDS, size=3, seed=4)
    alone = EditedRun(shutil.copytree(run, run.parent / "alone"))
    update(alone, ordinary)
    odd = np.random.default_rng(3).normal(size=(60, X.shape[1])).astype(np.float32)
    update(run, FeatureSet(odd, np.full(60, -1)))
    update(run, ordinary)
    n = len(ordinary)
    strangeness = [read_predictions(place)["strangeness"].to_numpy()[-n:] for place in (alone.folder, run)]
    assert strangeness[1].mean() < strangeness[0].mean() + 0.05


def test_a_kind_that_a_person_made_is_not_born_again(run: Path) -> None:
    merge(run, ["new-2", "new-3"])
    update(run, arrivals(0, 2, 6, seed=2))
    EditedRun(run).create(np.flatnonzero(TRUTH == 8).tolist(), "mites")
    done = update(run, arrivals(8, 1, 14, seed=3))
    assert "born" not in done.changes
    assert dict(done.changes["grown"]).keys() == {KINDS}


@pytest.mark.parametrize("times", [4, 8])
def test_a_kind_larger_than_the_others_is_born_whole(metric_run: Path, times: int) -> None:
    features, _ = blobs(1, 40 * times, noise=0.2, seed=1, first=KINDS)
    [born] = update(metric_run, FeatureSet(features, np.full(len(features), -1))).changes["born"]
    assert born["size"] > 0.95 * len(features)
    ordinary, _ = blobs(KINDS, 3, noise=0.2, seed=9)
    assert not {"born", "moved"} & update(metric_run, FeatureSet(ordinary, np.full(30, -1))).changes.keys()


@pytest.mark.parametrize("metric", ["cosine", "learnt"])
def test_where_every_sample_has_a_label_kinds_are_born_and_made(metric: str, tmp_path: Path) -> None:
    features, truth = blobs(KINDS, SIZE, noise=0.2)
    labels = [f"kind {c}" for c in truth]
    if metric == "cosine":
        discovery = newkinds.discover(features, labels, n_categories=KINDS, lam=0.1, temperature=25.0)
    else:
        discovery = newkinds.discover(features, labels, n_categories=KINDS)
    run = discovery.save(tmp_path / "run", with_map=False)
    more, _ = blobs(1, 24, noise=0.2, seed=1, first=KINDS)
    assert len(update(run, FeatureSet(more, np.full(24, -1))).changes["born"]) == 1
    others, _ = blobs(1, 24, noise=0.2, seed=1, first=KINDS + 1)
    [made] = update(run, FeatureSet(others, np.zeros(24, np.int64), names=("moth",))).changes["born"]
    assert (made["name"], made["size"]) == ("moth", 24)


def test_small_kinds_are_born_however_many_samples_were_let_go(run: Path) -> None:
    """Those that are kept are trained with, and say which kinds are small."""
    update(run, arrivals(0, KINDS, 300, seed=2), keep=30)
    update(run, arrivals(0, KINDS, 300, seed=3), keep=30)
    [born] = update(run, arrivals(KINDS, 1, 16), keep=30).changes["born"]
    assert born["size"] == 16
