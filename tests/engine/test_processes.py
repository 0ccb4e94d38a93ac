"""Several processes that share the samples find what one finds; one that dies is replaced and the work goes on.

This file is also the program that the processes run: it puts what the engine found into a file.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from newkinds.engine import SEEDINGS, Partitioner, Run, Samples, kmeans, optimise, samples, seed_centroids
from newkinds.engine.clustering import _Lloyd
from newkinds.objective import PARTITION, RIM, SELECTION
from newkinds.runtime import n_processes, processes, rank

PATIENCE = 120
"""Seconds until processes that do not answer are given up."""
N, WIDTH, KNOWN = 3000, 16, 3
Arrays = dict[str, np.ndarray]


def made_features() -> tuple[np.ndarray, np.ndarray]:
    """Clouds around ten directions, of vectors of any length; some samples of the first three are labelled."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 10, N)
    features = rng.normal(size=(10, WIDTH))[truth] + 0.6 * rng.normal(size=(N, WIDTH))
    labels = np.where((truth < KNOWN) & (rng.random(N) < 0.4), truth, -1)
    return (features * rng.uniform(0.5, 20, size=(N, 1))).astype(np.float32), labels


def repeated_features() -> np.ndarray:
    """Thirty directions, a hundred samples of each: of forty centroids drawn at random some are the same."""
    rng = np.random.default_rng(1)
    return rng.normal(size=(30, WIDTH)).astype(np.float32)[rng.permutation(N) % 30]


def mixed_runs(start: np.ndarray, labels: np.ndarray) -> list[Run]:
    hidden = np.where(np.arange(N) % 3 == 0, -1, labels)
    return [
        Run(start, PARTITION.at(0.1)),
        Run(start[:7], PARTITION.at(0.7), temperature=10.0),
        Run(start, SELECTION.at(0.5)),
        Run(start[:5], RIM, geometry="euclidean"),
        Run(start + 0.1, RIM.at(0.2), temperature=5.0, labels=hidden),
    ]


def found_by_the_engine() -> Arrays:
    features, labels = made_features()
    found: Arrays = {}
    for least in (samples.LANE_SAMPLES, 256):
        with patch.object(samples, "LANE_SAMPLES", least):
            for name, values in found_in_lanes(features, labels).items():
                found[f"{name} in lanes of {least}"] = values
    return {**found, "processes": np.array(n_processes())}


def found_in_lanes(features: np.ndarray, labels: np.ndarray) -> Arrays:
    some = Samples(features)
    found: Arrays = {}
    for seeding in SEEDINGS:
        for kind, given in (("labelled", labels), ("plain", None)):
            rng = np.random.RandomState(3)
            seeds = seed_centroids(some, 12, labels=given, seeding=seeding, n_init=3, rng=rng)
            found[f"{seeding} {kind} seeds"] = seeds.numpy()
    lost = 0
    farthest = _Lloyd._farthest

    def counted(self: _Lloyd, distances: torch.Tensor, count: int) -> np.ndarray:
        nonlocal lost
        lost += 1
        return farthest(self, distances, count)

    with patch.object(_Lloyd, "_farthest", counted):
        for name, source, n_categories, given in (
            ("clusters", some, 20, labels),
            ("surplus clusters", Samples(repeated_features()), 40, None),
        ):
            rng = np.random.RandomState(5)
            result = kmeans(source, n_categories, labels=given, seeding="random", n_init=4, rng=rng)
            found[f"{name} centroids"], found[f"{name} columns"] = result.centroids, result.columns
    found["empty categories"] = np.array(lost)
    start = found["greedy labelled seeds"][0]
    for solver in ("adam", "lbfgs"):
        runs = mixed_runs(start, labels)
        trained = optimise(some, runs, labels=labels, solver=solver, max_iter=15, learning_rate=1e-2)
        found[f"{solver} values"] = trained.values
        for r, partitioner in enumerate(trained.partitioners):
            found[f"{solver} weights {r}"] = partitioner.weights
    drawn = np.random.default_rng(2).integers(0, N, 500)
    partitioner = Partitioner(features[:9], 5.0)
    found["taken"] = some.take(drawn).numpy()
    found["assigned"] = some.assign(partitioner)
    found["assigned among"] = some.assign(partitioner, np.arange(N) % 7 < 3)
    found["gathered"] = some.gather(np.arange(N)[some.own] ** 2)
    found["fingerprint"] = some.fingerprint()
    return found


def torchrun(*arguments: Any, n: int, restarts: int = 0) -> subprocess.CompletedProcess[str]:
    launch = ["torch.distributed.run", "--standalone", "--nproc-per-node", n, "--max-restarts", restarts]
    done = python("-m", *launch, *arguments)
    if "terminate called without an active exception" in done.stderr:
        # Seen once in many runs: PyTorch's threads abort a process that has done its work and is leaving.
        done = python("-m", *launch, *arguments)
    return done


def python(*arguments: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


@pytest.fixture(scope="module")
def of_one() -> Arrays:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return found_by_the_engine()
    finally:
        torch.set_num_threads(before)


def found_by(n: int, folder: Path) -> Arrays:
    done = torchrun(__file__, folder / "found.npz", n=n)
    assert done.returncode == 0, done.stderr
    with np.load(folder / "found.npz") as arrays:
        found = dict(arrays)
    assert found.pop("processes") == n
    return found


def test_two_processes_find_what_one_finds_to_the_last_bit(of_one: Arrays, tmp_path: Path) -> None:
    of_two = found_by(2, tmp_path)
    assert of_two.keys() | {"processes"} == of_one.keys()
    different = [name for name, values in of_two.items() if not np.array_equal(values, of_one[name])]
    assert different == []


def test_categories_were_empty_on_the_way(of_one: Arrays) -> None:
    """Of the clusterings that the processes share: else they would show less than they say."""
    assert all(count > 0 for name, count in of_one.items() if name.startswith("empty categories"))


@pytest.mark.slow
def test_three_processes_find_what_one_finds_up_to_rounding(of_one: Arrays, tmp_path: Path) -> None:
    of_three = found_by(3, tmp_path)
    for name, values in of_three.items():
        if name.startswith(("taken", "assigned", "gathered")):
            assert np.array_equal(values, of_one[name]), name
        elif name.startswith(("adam", "random")):
            np.testing.assert_allclose(values, of_one[name], rtol=1e-4, atol=1e-6, err_msg=name)


# The command line.

SETTINGS = ["--n-categories", "8", "--lam", "0.3", "--consensus", "1", "--quiet", "--device", "cpu", "--force"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "collection.npz"
    features, labels = made_features()
    np.savez(path, features=features, labels=labels)
    return path


@pytest.fixture(scope="module")
def plain_run(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("plain") / "run"
    done = python("-m", "newkinds", "discover", source, "--out", run, *SETTINGS)
    assert done.returncode == 0, done.stderr
    return run


def assert_the_same_model(one: Path, other: Path) -> None:
    ours, theirs = load_file(one / "model.safetensors"), load_file(other / "model.safetensors")
    assert ours.keys() == theirs.keys()
    for name, values in ours.items():
        assert np.array_equal(values, theirs[name]), name


def test_the_command_line_under_torchrun_makes_one_run_folder(
    source: Path, plain_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    done = torchrun("-m", "newkinds", "discover", source, "--out", run, *SETTINGS, n=2)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == [run]
    assert {path.name for path in run.iterdir()} == {path.name for path in plain_run.iterdir()}
    assert_the_same_model(run, plain_run)
    for name in ("predictions.csv", "features.npy"):
        assert (run / name).read_bytes() == (plain_run / name).read_bytes()


def test_rehearsal_and_consensus_under_torchrun_are_those_of_one_process(source: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    command = ("-m", "newkinds", "discover", source, "--n-categories", 8, "--quiet", "--device", "cpu", "--out")
    for done in (python(*command, one), torchrun(*command, two, n=2)):
        assert done.returncode == 0, done.stderr
    assert_the_same_model(one, two)
    ours, theirs = (json.loads((run / "run.json").read_text("utf-8")) for run in (one, two))
    assert ours["curves"]["rehearsal"] == theirs["curves"]["rehearsal"]
    assert len(ours["curves"]["rehearsal"]) > 1


@pytest.mark.slow
def test_a_head_trained_under_torchrun_is_that_of_one_process(source: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    command = ("-m", "newkinds", "discover", source, "--method", "uno", "--n-categories", 8, "--max-iter", 3)
    command = (*command, "--quiet", "--device", "cpu", "--out")
    for done in (python(*command, one), torchrun(*command, two, n=2)):
        assert done.returncode == 0, done.stderr
    assert_the_same_model(one, two)


def test_bad_input_under_torchrun_is_said_and_leaves_nothing(source: Path, tmp_path: Path) -> None:
    features, labels = made_features()
    features[N - 2] = np.nan
    np.savez(tmp_path / "bad.npz", features=features, labels=labels)
    done = torchrun("-m", "newkinds", "discover", tmp_path / "bad.npz", "--out", tmp_path / "run", *SETTINGS, n=2)
    assert done.returncode != 0
    assert f"row {N - 2} has NaN or infinity" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bad.npz"]


MORTAL = '''
"""The command line, in which the second process dies once, in the midst of the training."""

import os
import signal
import sys
from pathlib import Path

from newkinds.cli import main
from newkinds.engine.solvers import LBFGS

diary = Path(sys.argv.pop(1))
attempt, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["RANK"]
step, taken = LBFGS.step, 0


def mortal(self, most=1):
    global taken
    if rank == "1" and taken == 8 and not (diary / "died").exists():
        (diary / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    taken += 1
    (diary / f"steps-{attempt}-{rank}").write_text(str(taken))
    return step(self, most)


LBFGS.step = mortal
main()
'''


@pytest.mark.slow
def test_a_process_that_dies_is_replaced_and_the_work_goes_on(
    source: Path, plain_run: Path, tmp_path: Path
) -> None:
    """The killed one is started again by torchrun with all the others, from the last state that was saved."""
    program, diary, runs = tmp_path / "mortal.py", tmp_path / "diary", tmp_path / "runs"
    program.write_text(MORTAL)
    diary.mkdir()
    runs.mkdir()
    run = runs / "run"
    command = [program, diary, "discover", source, "--out", run, *SETTINGS, "--checkpoint", "0.001"]
    done = torchrun(*command, n=2, restarts=1)
    assert done.returncode == 0, done.stderr
    assert (diary / "died").exists()
    assert list(runs.iterdir()) == [run]  # neither states nor parts are left
    assert_the_same_model(run, plain_run)
    first, second = (int((diary / f"steps-{attempt}-1").read_text()) for attempt in (0, 1))
    everything = json.loads((plain_run / "run.json").read_text("utf-8"))["n_iter"]
    assert first == 8
    assert everything - 8 <= second < everything


if __name__ == "__main__":
    with processes("cpu"):
        found = found_by_the_engine()
        if rank() == 0:
            np.savez(sys.argv[1], **found)
