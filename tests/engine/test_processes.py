"""Several processes that share the samples find what one finds; one that dies is replaced and the work goes on.

This file is also the program that the processes run, see `main`. Starting them takes longer than their work, so one
session of two processes does everything that two can do.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it has no types

from newkinds.cli import app
from newkinds.engine import Partitioner, Run, Samples, kmeans, optimise, samples, seed_centroids
from newkinds.engine.clustering import _Lloyd
from newkinds.engine.solvers import LBFGS
from newkinds.names import SEEDINGS, SOLVERS
from newkinds.objective import PARTITION, RIM, SELECTION
from newkinds.runtime import n_processes, processes, rank

pytestmark = pytest.mark.slow

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
        Run(start + np.float32(0.1), RIM.at(0.2), temperature=5.0, labels=hidden),
        Run(start[:3], PARTITION.at(0.3), shares=np.array([0.1, 0.6, 0.3])),
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
        for kind, known in (("labelled", labels), ("plain", None)):
            rng = np.random.RandomState(3)
            seeds = seed_centroids(some, 12, labels=known, seeding=seeding, n_init=3, rng=rng)
            found[f"{seeding} {kind} seeds"] = seeds.numpy()
    lost = 0
    farthest = _Lloyd._farthest

    def counted(self: _Lloyd, distances: torch.Tensor, count: int) -> np.ndarray:
        nonlocal lost
        lost += 1
        return farthest(self, distances, count)

    with patch.object(_Lloyd, "_farthest", counted):
        for name, source, n_categories, known in (
            ("clusters", some, 20, labels),
            ("surplus clusters", Samples(repeated_features()), 40, None),
        ):
            rng = np.random.RandomState(5)
            result = kmeans(source, n_categories, labels=known, seeding="random", n_init=4, rng=rng)
            found[f"{name} centroids"], found[f"{name} columns"] = result.centroids, result.columns
    found["empty categories"] = np.array(lost)
    start = found["greedy labelled seeds"][0]
    for solver in SOLVERS:
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


# The program that processes run.

QUIET = ["--quiet", "--device", "cpu"]
COMMANDS = {
    "plain": ["all.npz", "--n-categories", "8", "--lam", "0.3", "--consensus", "1", *QUIET],
    "rehearsal": ["some.npz", "--n-categories", "8", *QUIET],
    "head": ["some.npz", "--method", "uno", "--n-categories", "8", "--max-iter", "3", *QUIET],
}
N_SOME = 400
"""Samples of `some.npz`, for what takes longer."""


def write_sources(folder: Path) -> None:
    features, labels = made_features()
    np.savez(folder / "all.npz", features=features, labels=labels)
    np.savez(folder / "some.npz", features=features[:N_SOME], labels=labels[:N_SOME])
    features[N - 2] = np.nan
    np.savez(folder / "bad.npz", features=features, labels=labels)


def discover(folder: Path, out: Path, source: str, *options: str) -> int:
    """The command line in this process: its exit code."""
    try:
        app(["discover", str(folder / source), "--out", str(out), *options])
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def main(task: str, folder: Path) -> int:
    if task == "mortal":
        make_mortal(folder)
        return discover(folder, folder / "runs" / "mortal", *COMMANDS["plain"], "--checkpoint", "0.001")
    with processes("cpu"):
        found = found_by_the_engine()
        if rank() == 0:
            np.savez(folder / "found.npz", **found)  # type: ignore[arg-type]  # the names are no options of savez
    if task == "engine":
        return 0
    for name, (source, *options) in COMMANDS.items():
        if code := discover(folder, folder / "runs" / name, source, *options):
            return code
    return discover(folder, folder / "runs" / "bad", "bad.npz", *COMMANDS["plain"][1:])


def make_mortal(diary: Path) -> None:
    """Let the second process die once, in the midst of the training, and count the steps of both."""
    attempt, number = os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["RANK"]
    step, taken = LBFGS.step, 0

    def mortal(self: LBFGS, most: int = 1) -> torch.Tensor:
        nonlocal taken
        if number == "1" and taken == 8 and not (diary / "died").exists():
            (diary / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        taken += 1
        (diary / f"steps-{attempt}-{number}").write_text(str(taken))
        return step(self, most)

    LBFGS.step = mortal  # type: ignore[method-assign]  # in this process only


# The tests.


@dataclass(frozen=True)
class Session:
    """What processes that ran together left."""

    done: subprocess.CompletedProcess[str]
    folder: Path

    @property
    def found(self) -> Arrays:
        with np.load(self.folder / "found.npz") as arrays:
            return dict(arrays)

    def record(self, name: str) -> dict[str, Any]:
        return json.loads((self.folder / "runs" / name / "run.json").read_text("utf-8"))


def torchrun(task: str, folder: Path, *, n: int, restarts: int = 0) -> Session:
    write_sources(folder)
    (folder / "runs").mkdir()
    launch = ["torch.distributed.run", "--standalone", "--nproc-per-node", n, "--max-restarts", restarts]
    arguments = [sys.executable, "-m", *launch, __file__, task, folder]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        list(map(str, arguments)), env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    return Session(done, folder)


def assert_ended_well(session: Session) -> None:
    # Seen once in many runs: PyTorch's threads abort a process that has done its work and is leaving.
    if "terminate called without an active exception" not in session.done.stderr:
        assert session.done.returncode == 0, session.done.stderr


@pytest.fixture(scope="module")
def of_one(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """What this process finds alone, with one thread, as each of several has."""
    folder = tmp_path_factory.mktemp("one")
    write_sources(folder)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            np.savez(folder / "found.npz", **found_by_the_engine())  # type: ignore[arg-type]  # as above
            for name, (source, *options) in COMMANDS.items():
                assert discover(folder, folder / "runs" / name, source, *options) == 0
    finally:
        torch.set_num_threads(before)
    return Session(subprocess.CompletedProcess([], 0, "", ""), folder)


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return torchrun("everything", tmp_path_factory.mktemp("two"), n=2)


def assert_the_same_model(name: str, one: Session, other: Session, other_name: str | None = None) -> None:
    ours, theirs = (
        # Of strangers a model learns when one process alone has it.
        {key: array for key, array in load_file(path / "model.safetensors").items() if "strange" not in key}
        for path in (one.folder / "runs" / name, other.folder / "runs" / (other_name or name))
    )
    assert ours.keys() == theirs.keys()
    for key, values in ours.items():
        assert np.array_equal(values, theirs[key]), key


def test_two_processes_find_what_one_finds_to_the_last_bit(of_one: Session, of_two: Session) -> None:
    ours, theirs = of_one.found, of_two.found
    assert ours.pop("processes") == 1
    assert theirs.pop("processes") == 2
    assert theirs.keys() == ours.keys()
    assert [name for name, values in theirs.items() if not np.array_equal(values, ours[name])] == []


def test_categories_were_empty_on_the_way(of_one: Session) -> None:
    """Of the clusterings that the processes share: else they would show less than they say."""
    assert all(count > 0 for name, count in of_one.found.items() if name.startswith("empty categories"))


def test_the_command_line_under_torchrun_makes_one_run_folder(of_one: Session, of_two: Session) -> None:
    assert of_two.done.stdout == ""
    ours, theirs = (session.folder / "runs" / "plain" for session in (of_one, of_two))
    assert {path.name for path in theirs.iterdir()} == {path.name for path in ours.iterdir()}
    assert_the_same_model("plain", of_one, of_two)
    for name in ("predictions.csv", "features.npy"):
        assert (theirs / name).read_bytes() == (ours / name).read_bytes()


def test_rehearsal_and_consensus_under_torchrun_are_those_of_one_process(of_one: Session, of_two: Session) -> None:
    assert_the_same_model("rehearsal", of_one, of_two)
    ours, theirs = of_one.record("rehearsal"), of_two.record("rehearsal")
    assert ours["curves"]["rehearsal"] == theirs["curves"]["rehearsal"]
    assert len(ours["curves"]["rehearsal"]) > 1


def test_a_head_trained_under_torchrun_is_that_of_one_process(of_one: Session, of_two: Session) -> None:
    assert_the_same_model("head", of_one, of_two)


def test_bad_input_under_torchrun_is_said_and_leaves_nothing(of_two: Session) -> None:
    """The last that the two processes do. Only one of them has the bad row; the other does not wait for ever."""
    assert of_two.done.returncode != 0
    assert f"row {N - 2} has NaN or infinity" in of_two.done.stderr
    assert sorted(path.name for path in (of_two.folder / "runs").iterdir()) == sorted(COMMANDS)


def test_three_processes_find_what_one_finds_up_to_rounding(of_one: Session, tmp_path: Path) -> None:
    of_three = torchrun("engine", tmp_path, n=3)
    assert_ended_well(of_three)
    ours, theirs = of_one.found, of_three.found
    assert theirs["processes"] == 3
    for name, values in theirs.items():
        if name.startswith(("taken", "assigned", "gathered")):
            assert np.array_equal(values, ours[name]), name
        elif name.startswith(("adam", "random")):
            np.testing.assert_allclose(values, ours[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_a_process_that_dies_is_replaced_and_the_work_goes_on(of_one: Session, tmp_path: Path) -> None:
    """The killed one is started again by torchrun with all the others, from the last state that was saved."""
    session = torchrun("mortal", tmp_path, n=2, restarts=1)
    assert_ended_well(session)
    assert (tmp_path / "died").exists()
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["mortal"]  # neither states nor parts are left
    assert_the_same_model("plain", of_one, session, "mortal")
    first, second = (int((tmp_path / f"steps-{attempt}-1").read_text()) for attempt in (0, 1))
    everything = of_one.record("plain")["n_iter"]
    assert first == 8
    assert everything - 8 <= second < everything


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
