"""Work that was interrupted goes on where it was, to the same answer; other work takes nothing over."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from newkinds.engine import Clustering, Run, Trained, checkpointing, checkpoints, kmeans, optimise, training
from newkinds.engine.clustering import _Lloyd
from newkinds.engine.evaluation import BlockEvaluator
from newkinds.engine.solvers import LBFGS, Adam
from newkinds.objective import PARTITION, RIM, SELECTION
from newkinds.runtime import listening

N, WIDTH = 400, 9
RNG = np.random.default_rng(0)
TRUTH = RNG.integers(0, 4, N)
CENTRES = RNG.normal(size=(4, WIDTH))
RAW = CENTRES[TRUTH] + 0.7 * RNG.normal(size=(N, WIDTH))
FEATURES = torch.nn.functional.normalize(torch.from_numpy(RAW).float(), dim=1)
LABELS = np.where((TRUTH < 2) & (np.arange(N) % 3 == 0), TRUTH, -1)
START = FEATURES[:4].numpy().copy()
RUNS = [
    Run(START, PARTITION.at(0.1)),
    Run(START[:3], PARTITION.at(0.7), temperature=10.0),
    Run(START, SELECTION.at(0.5)),
    Run(START[:2], RIM, geometry="euclidean"),
    Run(START, RIM.at(0.2), temperature=5.0, labels=np.where(np.arange(N) % 2 == 0, -1, LABELS)),
]


class Interruption(Exception):
    """What ends the work of these tests."""


class Count:
    """Counts calls, and interrupts all those beyond a number."""

    def __init__(self) -> None:
        self.calls, self.most = 0, 10**9

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            if self.calls >= self.most:
                raise Interruption
            self.calls += 1
            return function(*args, **kwargs)

        return counted

    def after(self, calls: int | None) -> None:
        """Count from zero, and interrupt after so many."""
        self.calls, self.most = 0, 10**9 if calls is None else calls


@pytest.fixture(autouse=True, scope="module")
def runs_in_one_batch() -> Iterator[None]:
    """As on a GPU: runs of different sizes are not trained, and remembered, apart."""
    batches = training._batches
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "_batches", lambda runs, at_once, _device: batches(runs, at_once, "cuda"))
        yield


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Count:
    """Steps of the solvers."""
    count = Count()
    for solver in (Adam, LBFGS):
        monkeypatch.setattr(solver, "step", count.wrap(solver.step))
    return count


@pytest.fixture
def updates(monkeypatch: pytest.MonkeyPatch) -> Count:
    """Iterations of k-means."""
    count = Count()
    monkeypatch.setattr(_Lloyd, "update", count.wrap(_Lloyd.update))
    return count


def train(solver: str = "lbfgs", **changes: Any) -> Trained:
    settings: dict[str, Any] = {
        "features": FEATURES,
        "runs": RUNS,
        "labels": LABELS,
        "max_iter": 40,
        "learning_rate": 1e-2,
    }
    return optimise(**{**settings, "solver": solver, "tolerance": 1e-3, **changes})


def cluster(seed: int = 0, **changes: Any) -> Clustering:
    settings: dict[str, Any] = {
        "features": FEATURES,
        "n_categories": 12,
        "labels": LABELS,
        "n_init": 4,
        "seeding": "random",
    }
    return kmeans(**{**settings, **changes}, rng=np.random.RandomState(seed))


def same(one: Trained | Clustering, other: Trained | Clustering) -> bool:
    """The same to the last bit."""
    if isinstance(one, Clustering):
        assert isinstance(other, Clustering)
        return all(np.array_equal(a, b) for a, b in zip(vars(one).values(), vars(other).values(), strict=True))
    assert isinstance(other, Trained)
    weights = zip(one.partitioners, other.partitioners, strict=True)
    return (
        all(np.array_equal(a.weights, b.weights) for a, b in weights)
        and np.array_equal(one.values, other.values, equal_nan=True)
        and np.array_equal(one.converged, other.converged)
    )


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
@pytest.mark.parametrize("before", [1, 2, 15, 30])
def test_an_interrupted_training_goes_on(tmp_path: Path, steps: Count, solver: str, before: int) -> None:
    expected = train(solver)
    everything = steps.calls
    steps.after(before)
    with checkpointing(tmp_path, seconds=0), pytest.raises(Interruption):
        train(solver)
    steps.after(None)
    with checkpointing(tmp_path, seconds=0):
        assert same(train(solver), expected)
    assert steps.calls == everything - before


def test_some_runs_of_the_interrupted_training_had_left() -> None:
    """Of the case above: else it would show less than it says."""
    lengths = [len(train("lbfgs").curve(r)) for r in range(len(RUNS))]
    assert min(lengths) < 30 < max(lengths)


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_a_training_interrupted_again_and_again_ends(tmp_path: Path, steps: Count, solver: str) -> None:
    expected = train(solver)
    everything = steps.calls
    used = 0
    with checkpointing(tmp_path, seconds=0):
        while used < everything:
            steps.after(7)
            with suppress(Interruption):
                found = train(solver)
            used += steps.calls
    assert used == everything
    assert same(found, expected)


def test_a_training_interrupted_by_a_listener_goes_on(tmp_path: Path, steps: Count) -> None:
    def listener(stage: str, done: int, total: int) -> None:
        if stage == "training" and done >= total // 2:
            raise Interruption

    expected = train("adam")
    everything = steps.calls
    steps.after(None)
    with checkpointing(tmp_path, seconds=0), listening(listener), pytest.raises(Interruption):
        train("adam")
    first = steps.calls
    with checkpointing(tmp_path, seconds=0):
        assert same(train("adam"), expected)
    assert 0 < first < everything
    assert steps.calls == everything + 1  # the one that was done when the listener spoke up


def test_parts_that_are_trained_are_not_trained_again(
    tmp_path: Path, steps: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(training.STATE_BYTES, "cpu", 1)  # one run after the other
    expected = train()
    everything = steps.calls
    assert everything > 60
    steps.after(60)
    with checkpointing(tmp_path, seconds=0), pytest.raises(Interruption):
        train()
    steps.after(None)
    with checkpointing(tmp_path, seconds=0):
        assert same(train(), expected)
    assert steps.calls == everything - 60


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_a_training_that_ended_is_not_done_again(tmp_path: Path, steps: Count, solver: str) -> None:
    with checkpointing(tmp_path, seconds=0):
        expected = train(solver)
        steps.after(0)
        assert same(train(solver), expected)
    assert steps.calls == 0


def test_a_training_that_has_converged_is_not_done_again(tmp_path: Path, steps: Count) -> None:
    with checkpointing(tmp_path, seconds=0):
        expected = train(max_iter=500, tolerance=1e-2)
        assert expected.converged.all()
        steps.after(0)
        assert same(train(max_iter=500, tolerance=1e-2), expected)


@pytest.mark.parametrize("inertia", ["squared", "nearest"])
@pytest.mark.parametrize("before", [1, 2, 5, 9])
def test_an_interrupted_clustering_goes_on(tmp_path: Path, updates: Count, inertia: str, before: int) -> None:
    expected = cluster(inertia=inertia)
    everything = updates.calls
    assert everything > 9
    updates.after(before)
    with checkpointing(tmp_path, seconds=0), pytest.raises(Interruption):
        cluster(inertia=inertia)
    updates.after(None)
    with checkpointing(tmp_path, seconds=0):
        assert same(cluster(inertia=inertia), expected)
    assert updates.calls == everything - before


def test_an_interrupted_clustering_goes_on_at_every_iteration(tmp_path: Path, updates: Count) -> None:
    """Also where some restarts have ended, and where the best of them is known already."""
    expected = cluster()
    everything = updates.calls
    with checkpointing(tmp_path, seconds=0):
        for _ in range(everything - 1):
            updates.after(1)
            with pytest.raises(Interruption):
                cluster()
        updates.after(1)
        assert same(cluster(), expected)


def test_a_clustering_interrupted_by_a_listener_goes_on(tmp_path: Path, updates: Count) -> None:
    def listener(stage: str, done: int, total: int) -> None:
        if stage == "k-means" and done == 5:
            raise Interruption

    expected = cluster()
    everything = updates.calls
    updates.after(None)
    with checkpointing(tmp_path, seconds=0), listening(listener), pytest.raises(Interruption):
        cluster()
    assert updates.calls == 5
    with checkpointing(tmp_path, seconds=0):
        assert same(cluster(), expected)
    assert updates.calls == everything + 1


def test_a_clustering_that_ended_is_not_done_again(tmp_path: Path, updates: Count) -> None:
    with checkpointing(tmp_path, seconds=0):
        expected = cluster(max_iter=3), cluster()
        updates.after(0)
        assert same(cluster(max_iter=3), expected[0])
        assert same(cluster(), expected[1])


def test_the_random_numbers_that_follow_are_the_same(tmp_path: Path) -> None:
    """A clustering that is taken up again uses the generator as one that is not."""
    after = []
    for _ in range(2):
        rng = np.random.RandomState(5)
        with checkpointing(tmp_path, seconds=0):
            kmeans(FEATURES, 5, n_init=2, rng=rng)
        after.append(rng.randint(2**31 - 1))
    assert after[0] == after[1]


TURNED = FEATURES.flip(1).contiguous()
ONE_OTHER = FEATURES.clone()
ONE_OTHER[1] = FEATURES[1].flip(0)
FEWER_LABELS = np.where(np.arange(N) == np.flatnonzero(LABELS >= 0)[3], -1, LABELS)

OTHER_TRAININGS: dict[str, dict[str, Any]] = {
    "other samples": {"features": TURNED},
    "one other sample": {"features": ONE_OTHER},
    "fewer samples": {"features": FEATURES[:-1], "labels": LABELS[:-1], "runs": RUNS[:4]},
    "one label less": {"labels": FEWER_LABELS},
    "no labels": {"labels": None, "runs": RUNS[:4]},
    "another lam": {"runs": [replace(RUNS[0], objective=PARTITION.at(0.11)), *RUNS[1:]]},
    "another temperature": {"runs": [replace(RUNS[0], temperature=24.0), *RUNS[1:]]},
    "another geometry": {"runs": [replace(RUNS[0], geometry="euclidean"), *RUNS[1:]]},
    "another start": {"runs": [replace(RUNS[0], start=START + np.float32(1e-3)), *RUNS[1:]]},
    "own labels": {"runs": [replace(RUNS[0], labels=FEWER_LABELS), *RUNS[1:]]},
    "another order of runs": {"runs": [RUNS[2], RUNS[1], RUNS[0], *RUNS[3:]]},
    "fewer runs": {"runs": RUNS[:2]},
    "another solver": {"solver": "adam"},
    "fewer evaluations": {"max_iter": 15},
    "more evaluations": {"max_iter": 25},
    "another decay": {"weight_decay": 0.02},
    "another tolerance": {"tolerance": 1e-4},
}


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the states of a training and of a clustering."""
    folder = tmp_path_factory.mktemp("states")
    with checkpointing(folder, seconds=0):
        train(max_iter=20)
        cluster()
    return folder


@pytest.mark.parametrize("what", OTHER_TRAININGS)
def test_another_training_takes_nothing_over(states: Path, tmp_path: Path, steps: Count, what: str) -> None:
    changes = {"max_iter": 20, **OTHER_TRAININGS[what]}
    expected = train(**changes)
    everything = steps.calls
    steps.after(None)
    with checkpointing(shutil.copytree(states, tmp_path / "states"), seconds=0):
        assert same(train(**changes), expected)
        assert steps.calls == everything
        train(max_iter=20)
    assert steps.calls == everything  # the first training is still remembered


def test_another_learning_rate_of_adam_takes_nothing_over(tmp_path: Path, steps: Count) -> None:
    expected = train("adam", max_iter=5, learning_rate=0.02)
    with checkpointing(tmp_path, seconds=0):
        train("adam", max_iter=5, learning_rate=0.01)
        assert same(train("adam", max_iter=5, learning_rate=0.02), expected)
    assert steps.calls == 15


def test_another_version_takes_nothing_over(
    tmp_path: Path, steps: Count, updates: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    with checkpointing(tmp_path, seconds=0):
        train(max_iter=5)
        cluster()
        before = steps.calls, updates.calls
        monkeypatch.setattr(checkpoints, "__version__", "another")
        train(max_iter=5)
        cluster()
    assert (steps.calls, updates.calls) == (2 * before[0], 2 * before[1])


def test_between_two_states_there_is_some_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step takes a second by this clock, a state is due every seven."""
    now, saved = 0.0, list[float]()
    step, save = Adam.step, checkpoints.Checkpoint.save

    def slow_step(self: Adam, most: int = 1) -> torch.Tensor:
        nonlocal now
        now += 1
        return step(self, most)

    def noted_save(self: checkpoints.Checkpoint, arrays: checkpoints.Arrays) -> None:
        saved.append(now)
        save(self, arrays)

    monkeypatch.setattr("newkinds.engine.checkpoints.time.monotonic", lambda: now)
    monkeypatch.setattr(Adam, "step", slow_step)
    monkeypatch.setattr(checkpoints.Checkpoint, "save", noted_save)
    with checkpointing(tmp_path, seconds=7):
        train("adam", max_iter=24)
    assert saved == [7, 14, 21, 24]  # the last is the result


OTHER_CLUSTERINGS: dict[str, dict[str, Any]] = {
    "other samples": {"features": TURNED},
    "one other sample": {"features": ONE_OTHER},
    "one label less": {"labels": FEWER_LABELS},
    "no labels": {"labels": None},
    "another seed": {"seed": 1},
    "another number of categories": {"n_categories": 11},
    "another seeding": {"seeding": "d2"},
    "more restarts": {"n_init": 5},
    "fewer iterations": {"max_iter": 4},
    "another inertia": {"inertia": "nearest"},
    "another tolerance": {"tolerance": 0.02},
}


@pytest.mark.parametrize("what", OTHER_CLUSTERINGS)
def test_another_clustering_takes_nothing_over(states: Path, tmp_path: Path, updates: Count, what: str) -> None:
    changes = OTHER_CLUSTERINGS[what]
    expected = cluster(**changes)
    everything = updates.calls
    updates.after(None)
    with checkpointing(shutil.copytree(states, tmp_path / "states"), seconds=0):
        assert same(cluster(**changes), expected)
    assert updates.calls == everything


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_a_state_that_was_written_by_half_is_ignored(
    tmp_path: Path, steps: Count, updates: Count, share: float
) -> None:
    def both() -> list[Trained | Clustering]:
        return [train(), cluster()]

    with checkpointing(tmp_path, seconds=0):
        expected = both()
        n_steps, n_updates = steps.calls, updates.calls
        states = sorted(tmp_path.iterdir())
        assert len(states) == 2
        for path in states:
            content = path.read_bytes()
            path.write_bytes(content[: int(share * len(content))])
        steps.after(None)
        updates.after(None)
        with pytest.warns(UserWarning, match="damaged.*begins anew"):
            found = both()
    assert (steps.calls, updates.calls) == (n_steps, n_updates)
    assert all(same(one, other) for one, other in zip(found, expected, strict=True))


def test_the_folder_is_made_and_holds_only_whole_states(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    with checkpointing(folder, seconds=0):
        train(max_iter=3)
        cluster()
    assert len(list(folder.iterdir())) == 2
    assert {path.suffix for path in folder.iterdir()} == {".safetensors"}


def test_nothing_is_written_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "states"
    train(max_iter=3)
    with checkpointing(folder, seconds=0):
        pass
    cluster()
    assert list(tmp_path.iterdir()) == []


def test_short_work_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "states"
    expected: list[Trained | Clustering] = [train(), cluster()]
    with checkpointing(folder, seconds=1000):
        found: list[Trained | Clustering] = [train(), cluster()]
    assert not folder.exists()
    assert all(same(one, other) for one, other in zip(found, expected, strict=True))


def test_an_inner_folder_counts_and_then_the_outer_one_again(tmp_path: Path) -> None:
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    with checkpointing(outer, seconds=0):
        with checkpointing(inner, seconds=0):
            train(max_iter=3)
        assert not outer.exists()
        train(max_iter=4)
    assert len(list(inner.iterdir())) == len(list(outer.iterdir())) == 1


def test_states_do_not_cost_evaluations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = Count()
    monkeypatch.setattr(BlockEvaluator, "__call__", count.wrap(BlockEvaluator.__call__))
    train(max_iter=20)
    plain = count.calls
    count.after(None)
    with checkpointing(tmp_path, seconds=0):
        train(max_iter=20)
    assert count.calls == plain
