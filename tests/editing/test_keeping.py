"""Runs that keep a bounded number of samples: which ones stay, and what is known of the others."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import newkinds
from newkinds import FeatureSet, InputError
from newkinds.editing import EditedRun, merge, refit, undo, update
from newkinds.editing.keeping import HELD_ROOM, hashes, kept_rows
from newkinds.editing.versions import forget_versions
from newkinds.journal import read_journal
from newkinds.run_folder import read_predictions, read_record, read_run, verify_run
from newkinds.standing import SampleState
from tests.blobs import blobs
from tests.editing.living import KINDS, LABELS, TRUTH, arrivals
from tests.editing.living import X as FITTED

ALL, KEEP = KINDS * 24, 10


def discover(folder: Path) -> Path:
    discovery = newkinds.discover(FITTED, LABELS, n_categories=KINDS, lam=0.1, temperature=25.0)
    return discovery.save(folder / "run", with_map=False)


@pytest.fixture(scope="session")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was updated twice and keeps ten samples of a kind."""
    run = discover(tmp_path_factory.mktemp("kept"))
    for seed in (1, 2):
        update(run, arrivals(0, KINDS, 30, seed=seed), keep=KEEP)
    return run


@pytest.fixture
def run(grown: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(grown, tmp_path / "run"))


def state(n: int, **parts: list[int]) -> SampleState:
    """Samples of one category, but for what is said: rows."""
    flags = {name: np.isin(np.arange(n), parts.get(name, [])) for name in ("given", "confirmed", "held")}
    zeros = np.zeros(n, dtype=np.float32)
    return SampleState(
        np.zeros(n, np.int64), flags["given"], flags["confirmed"], zeros, zeros, zeros, flags["held"]
    )


def test_a_persons_word_stays_first() -> None:
    ids = [str(row) for row in range(100)]
    samples = state(100, given=list(range(40, 60)), confirmed=[90, 91], held=[0, 1])
    kept = set(kept_rows(samples, ids, 10).tolist())
    assert {0, 1, 90, 91} <= kept
    assert len(kept) == 12
    assert len(kept & set(range(40, 60))) == 8
    assert {90, 91} | set(range(40, 60)) <= set(kept_rows(samples, ids, 30).tolist())


def test_held_samples_stay_while_there_is_room_the_last_ones_longest() -> None:
    samples = state(100, held=list(range(50)))
    kept = kept_rows(samples, [str(row) for row in range(100)], 2)
    assert kept[: 2 * HELD_ROOM].tolist() == list(range(50 - 2 * HELD_ROOM, 50))
    assert len(kept) == 2 * HELD_ROOM + 2


def test_early_and_late_samples_stay_alike_however_they_come() -> None:
    """What is kept of a stream in parts is what would be kept of it at once, and no part of it is favoured."""
    n, keep = 4000, 400
    ids = [f"sample {row}" for row in range(n)]
    at_once = kept_rows(state(n), ids, keep)
    kept: list[str] = []
    for part in np.array_split(np.arange(n), 13):
        kept += [ids[row] for row in part]
        kept = [kept[row] for row in kept_rows(state(len(kept)), kept, keep)]
    assert kept == [ids[row] for row in at_once]
    quarters = np.bincount(4 * at_once // n, minlength=4)
    assert (np.abs(quarters - keep / 4) < 4 * np.sqrt(keep / 4)).all()
    assert len(set(hashes(ids).tolist())) == n


def test_no_more_are_kept_and_the_others_are_counted(run: Path) -> None:
    record = read_run(run)
    table = read_predictions(run)
    free = table.filter(~np.array(table["held"].to_numpy()))
    sizes = np.unique(free["category"].to_numpy(), return_counts=True)[1]
    assert sizes.max() == KEEP
    ever = {c["id"]: c["size"] + c.get("let_go", 0) for c in record["categories"]}
    assert sum(ever.values()) == ALL + 2 * 30 * KINDS
    past = EditedRun(run).past
    assert past is not None
    assert {c["id"]: c.get("let_go", 0) for c in record["categories"]} == {
        c["id"]: past.count_of(c["id"]) for c in record["categories"]
    }
    assert "past.safetensors" in verify_run(run)


def test_sums_and_samples_together_are_all_that_ever_came(run: Path) -> None:
    opened = EditedRun(run)
    assert opened.past is not None
    everything = np.concatenate([FITTED, *(blobs(KINDS, 30, seed=seed)[0] for seed in (1, 2))])
    everything = everything / np.linalg.norm(everything, axis=1, keepdims=True)
    kept = np.asarray(opened.features, dtype=np.float64)
    assert np.allclose(opened.past.sums.sum(axis=0) + kept.sum(axis=0), everything.sum(axis=0), atol=0.05)
    assert TRUTH.shape == (ALL,)


def test_the_past_follows_edits_refits_and_copies(run: Path, tmp_path: Path) -> None:
    before = {c["name"]: c.get("let_go", 0) for c in read_run(run)["categories"]}
    merge(run, ["new-1", "new-2"])
    both = before["new-1"] + before["new-2"]

    def check(folder: Path) -> None:
        after = {c["name"]: c.get("let_go", 0) for c in read_run(folder)["categories"]}
        past = EditedRun(folder).past
        assert past is not None
        kept = next(c for c in read_run(folder)["categories"] if c["name"] in ("new-1", "new-2"))
        assert after[kept["name"]] == past.count_of(kept["id"]) == both

    check(run)
    refit(run)
    check(run)
    verify_run(run)
    refit(run, out=tmp_path / "other")
    check(tmp_path / "other")
    update(run, arrivals(0, 1, 5, seed=4))
    check(run)
    update(run, arrivals(0, 1, 5, seed=5), out=tmp_path / "third")
    check(tmp_path / "third")
    newkinds.open_run(run).save(tmp_path / "copy")
    check(tmp_path / "copy")
    for _ in range(3):
        undo(run)
    assert {c["name"]: c.get("let_go", 0) for c in read_run(run)["categories"]} == before


def test_a_damaged_past_is_refused(run: Path) -> None:
    path = run / "versions" / read_run(run)["journal"]["version"] / "past.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(InputError, match=r"past.safetensors is not the file that run.json describes"):
        _ = EditedRun(run).past


def test_a_run_that_keeps_all_has_no_past(tmp_path: Path) -> None:
    run = discover(tmp_path)
    update(run, arrivals(0, KINDS))
    assert EditedRun(run).past is None
    assert not list(run.rglob("past.safetensors"))
    assert all("let_go" not in c for c in read_record(run, "0002")["categories"])


def test_kinds_are_dormant_by_all_that_ever_came(run: Path) -> None:
    """Two kinds of which as many are kept; of one a hundred times as many came."""
    features, _ = blobs(1, 1500, seed=3)
    update(run, FeatureSet(features, np.full(1500, -1)), keep=KEEP)
    done = update(run, arrivals(1, KINDS - 1, 5, seed=4), keep=KEEP)
    name = {c["id"]: c["name"] for c in read_run(run)["categories"]}
    assert [name[i] for i in done.changes["dormant"]] == ["kind 0"]
    assert len(read_journal(run)) == 4


def test_no_more_versions_are_kept_than_asked(run: Path) -> None:
    refit(run)  # version 4, with the samples of 3
    for seed in (5, 6):
        update(run, arrivals(0, 1, 50, seed=seed), keep=KEEP, keep_versions=2)
    assert sorted(path.name for path in (run / "versions").iterdir()) == ["0005", "0006"]
    assert read_journal(run)[-1].arguments["keep_versions"] == 2
    undo(run)
    with pytest.raises(InputError, match="entry 4 cannot be undone: version 0004 is no longer kept"):
        undo(run)
    with pytest.raises(InputError, match="the run does not keep its version 0002 any more"):
        read_run(run, as_of=1)
    assert read_run(run, as_of=0)["journal"]["version"] is None
    assert EditedRun(run).version == "0005"
    verify_run(run)
    newkinds.open_run(run).save(run.parent / "copy")
    done = update(run, arrivals(0, 1, 50, seed=7), keep_versions=1)
    assert done.entry is not None
    assert [path.name for path in (run / "versions").iterdir()] == [done.entry.version]


def test_the_version_before_a_batch_is_kept_until_its_end(run: Path) -> None:
    before = read_run(run)["journal"]["version"]
    for seed in (5, 6):
        last = update(run, arrivals(0, 1, 5, seed=seed), keep_versions=1).entry
        assert last is not None
        assert {path.name for path in (run / "versions").iterdir()} == {before, last.version}
        assert EditedRun(run).before_batch.version == before
    update(run, arrivals(0, 1, 50, seed=7), keep_versions=1)
    assert len(list((run / "versions").iterdir())) == 1


def test_samples_of_a_version_that_is_kept_stay(run: Path) -> None:
    update(run, arrivals(0, 1, 5, seed=5), keep_versions=2)
    refit(run)
    refit(run)
    forget_versions(EditedRun(run), 1)
    assert sorted(path.name for path in (run / "versions").iterdir()) == ["0004", "0006"]
    assert len(EditedRun(run).features) == len(read_predictions(run))
    assert refit(run).entry is not None


def test_bounds_are_numbers(run: Path) -> None:
    with pytest.raises(InputError, match="keep_versions should be at least 1; got 0"):
        update(run, arrivals(0, 1, 5), keep_versions=0)
    with pytest.raises(InputError, match="keep should be at least 1; got -3"):
        update(run, arrivals(0, 1, 5), keep=-3)
