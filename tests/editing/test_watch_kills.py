"""Watching and updating, killed at any moment: what was answered is in the run once after the next command."""

import multiprocessing
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import newkinds
from newkinds import FeatureSet, staging
from newkinds.answering import Samples
from newkinds.editing import EditedRun, update
from newkinds.editing.waiting import waiting_samples
from newkinds.editing.watching import Watch
from newkinds.run_folder import read_predictions, read_run, verify_run
from tests.blobs import blobs
from tests.editing.living import KINDS, LABELS, X
from tests.editing.test_kills import SYSTEM_CALLS

pytestmark = pytest.mark.slow

BLOCK, EVERY, UNNAMED = 8, 24, 2
"""Samples of a block, samples between two updates, and how many of each block come without an id."""
STREAM = blobs(KINDS + 1, 8, seed=1)[0][np.random.default_rng(0).permutation(8 * (KINDS + 1))]
"""Samples of which some are of a kind that is born on the way."""
NOTHING = pa.table({})
N_WATCHES, N_UPDATES, N_TIMED = 16, 8, 8


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Path:
    discovery = newkinds.discover(X, LABELS, n_categories=KINDS, lam=0.1, temperature=25.0)
    run = discovery.save(tmp_path_factory.mktemp("living") / "run", with_map=False)
    EditedRun(run).rename("new-1", "moth")
    return run


@pytest.fixture
def run(living: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(living, tmp_path / "run"))


def blocks(first: int = 0, last: int = len(STREAM)) -> Iterator[Samples]:
    for start in range(first, last, BLOCK):
        rows = range(start, min(start + BLOCK, last))
        given = [row % BLOCK >= UNNAMED for row in rows]
        yield Samples([f"s{row}" for row in rows], STREAM[rows.start : rows.stop], NOTHING, given=given)


def watch(run: Path, answers: Path, samples: Iterator[Samples], last: int = 0) -> None:
    """Watch a run; the ids of samples are written down when their answers are out. Die after the last answer."""
    with waiting_samples(run) as waiting, answers.open("ab", buffering=0) as file:
        for table in Watch(run, waiting, EVERY, None, lambda _: None).answers(samples):
            file.write("".join(f"{name}\n" for name in table["id"].to_pylist()).encode())
            if (last := last - 1) == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def watch_all(run: Path, answers: Path) -> None:
    watch(run, answers, blocks())


def update_once(run: Path, _: Path) -> None:
    update(run, FeatureSet(STREAM[40:], np.full(len(STREAM) - 40, -1), ids=ids_from(40)))


def ids_from(first: int) -> tuple[str, ...]:
    return tuple(f"s{row}" for row in range(first, len(STREAM)))


def at_call(moment: int, work: Callable[[Path, Path], None], run: Path, answers: Path, n_calls: Any) -> None:
    """In a process of its own: work, and die at the n-th call; `n_calls` is told how many there were."""

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*positional: Any, **named: Any) -> Any:
            n_calls.value += 1
            if n_calls.value == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*positional, **named)

        return call

    for name in SYSTEM_CALLS:
        setattr(os, name, counted(getattr(os, name)))
    staging._renameat2 = counted(staging._renameat2)
    work(run, answers)


def in_another_process(
    work: Callable[[Path, Path], None], run: Path, answers: Path, *, moment: int = 0, seconds: float = 120.0
) -> tuple[int | None, int]:
    """The exit code and the number of calls of work that dies at a call, or is killed after some seconds."""
    context = multiprocessing.get_context("fork")
    n_calls = context.Value("i", 0)
    process = context.Process(target=at_call, args=(moment, work, run, answers, n_calls))
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
    return process.exitcode, n_calls.value


@pytest.fixture(scope="module")
def undisturbed(living: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, int, float]:
    """Calls of a whole watch and of a whole update, and the seconds of the former."""
    folder = tmp_path_factory.mktemp("undisturbed")
    counts = []
    for name, work in (("watch", watch_all), ("update", update_once)):
        run = Path(shutil.copytree(living, folder / name))
        if work is update_once:
            leave_waiting(run)
        began = time.monotonic()
        code, n_calls = in_another_process(work, run, folder / "answers")
        assert code == 0
        counts.append((n_calls, time.monotonic() - began))
    return counts[0][0], counts[1][0], counts[0][1]


def leave_waiting(run: Path) -> None:
    with waiting_samples(run) as waiting:
        for block in blocks(0, 40):
            assert block.given is not None
            ids = [name if is_given else None for name, is_given in zip(block.ids, block.given, strict=True)]
            waiting.append(ids, block.features)


def check_whole(run: Path) -> None:
    verify_run(run)
    record = read_run(run)
    assert sum(category["size"] for category in record["categories"]) == len(read_predictions(run, record))


def check_ids_and_names(before: Path, run: Path) -> None:
    """Kinds that were there are there as they were; those that came have ids and keys of their own."""
    old, new = ([(c["id"], c["key"], c["name"]) for c in read_run(r)["categories"]] for r in (before, run))
    assert new[: len(old)] == old
    keys = [key for _, key, _ in new]
    assert len(set(keys)) == len(keys)
    ids = read_predictions(before)["id"].to_pylist()
    after = read_predictions(run)
    assert after["id"].to_pylist()[: len(ids)] == ids
    assert len(set(after["id"].to_pylist())) == len(after)


def times_there(run: Path) -> npt.NDArray[np.int64]:
    """How often each sample of the stream is in the run, whatever it is called there."""
    features = np.asarray(EditedRun(run).features, dtype=np.float32)[len(X) :]
    alike = features @ STREAM.T
    nearest = alike.argmax(axis=1)[alike.max(axis=1) > 0.99]
    return np.bincount(nearest, minlength=len(STREAM))


def go_on_watching(living: Path, run: Path, answers: Path) -> None:
    """The next command: the stream goes on after the last answer."""
    check_whole(run)
    n_answered = len(answers.read_text().split()) if answers.is_file() else 0
    watch(run, answers, blocks(n_answered))
    check_whole(run)
    check_ids_and_names(living, run)
    times = times_there(run)
    is_named = np.arange(len(STREAM)) % BLOCK >= UNNAMED
    assert (times[is_named] == 1).all()
    assert (times[:n_answered] == 1).all()
    assert (times[n_answered:] >= 1).all()  # what has no name, and no answer went out, came again
    assert not (run / "waiting.samples").exists()
    assert [path.name for path in (run / "versions").iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("seed", range(N_WATCHES))
def test_watching_killed_at_a_call_loses_nothing(
    living: Path, run: Path, undisturbed: tuple[int, int, float], seed: int
) -> None:
    answers = run.parent / "answers"
    moment = random.Random(seed).randint(1, undisturbed[0])
    code, _ = in_another_process(watch_all, run, answers, moment=moment)
    assert code == -signal.SIGKILL
    go_on_watching(living, run, answers)


@pytest.mark.parametrize("last", [1, 2, 3, 8])
def test_watching_killed_right_after_an_answer_loses_nothing(living: Path, run: Path, last: int) -> None:
    answers = run.parent / "answers"

    def watch_a_while(run: Path, answers: Path) -> None:
        watch(run, answers, blocks(), last)

    code, _ = in_another_process(watch_a_while, run, answers)
    assert code == -signal.SIGKILL
    assert len(answers.read_text().split()) == last * BLOCK
    go_on_watching(living, run, answers)


@pytest.mark.parametrize("seed", range(N_TIMED))
def test_watching_killed_at_any_time_loses_nothing(
    living: Path, run: Path, undisturbed: tuple[int, int, float], seed: int
) -> None:
    answers = run.parent / "answers"
    seconds = random.Random(seed).uniform(0, undisturbed[2])
    code, _ = in_another_process(watch_all, run, answers, seconds=seconds)
    assert code in (0, -signal.SIGKILL)
    go_on_watching(living, run, answers)


@pytest.mark.parametrize("seed", range(N_UPDATES))
def test_updating_killed_at_a_call_loses_nothing(
    living: Path, run: Path, undisturbed: tuple[int, int, float], seed: int
) -> None:
    leave_waiting(run)
    moment = random.Random(seed).randint(1, undisturbed[1])
    code, _ = in_another_process(update_once, run, run.parent / "answers", moment=moment)
    assert code == -signal.SIGKILL
    check_whole(run)
    there = set(read_predictions(run)["id"].to_pylist())
    arrived = [name in there for name in ids_from(40)]
    assert all(arrived) or not any(arrived)
    update(run, FeatureSet(blobs(5, 1, seed=9)[0], np.full(5, -1), ids=tuple("vwxyz")))
    check_whole(run)
    check_ids_and_names(living, run)
    assert times_there(run).tolist() == [1] * 40 + [int(all(arrived))] * (len(STREAM) - 40)
    assert not (run / "waiting.samples").exists()
