"""Edits that are killed, and edits by several programs at once: what was written stays, the rest never happened."""

import contextlib
import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from newkinds import staging
from newkinds.editing import EditedRun, refit
from newkinds.journal import read_journal
from newkinds.run_folder import read_predictions, read_run, verify_run
from tests.arrivals import N_NEW, arrive

SYSTEM_CALLS = ("fsync", "rename", "replace", "unlink", "open", "close", "mkdir")
MOMENTS = tuple(range(0, 60, 3))
"""Calls at which the program is killed."""
MOMENTS_OF_ARRIVAL = tuple(range(1, 97, 4))
"""The same where samples come; the last ones are after all."""
OPERATIONS = ["move", "merge", "refit", "create", "undo"]


def edit(run: Path) -> None:
    opened = EditedRun(run)
    opened.move([0, 1], "new-1")
    opened.merge(["new-2", "new-3"])
    refit(opened)
    opened.create([5], "bee")
    opened.undo()


def edit_and_die(run: Path, moment: int, edit: Callable[[Path], object] = edit) -> None:
    """In a process of its own: edit, and die at the n-th call."""
    calls = iter(range(10_000))

    def dying(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*positional: Any, **named: Any) -> Any:
            if next(calls) == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*positional, **named)

        return call

    for name in SYSTEM_CALLS:
        setattr(os, name, dying(getattr(os, name)))
    staging._renameat2 = dying(staging._renameat2)
    edit(run)


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_at_any_moment_loses_nothing(made: Path, tmp_path: Path, moment: int) -> None:
    run = Path(shutil.copytree(made, tmp_path / "run"))
    process = multiprocessing.get_context("fork").Process(target=edit_and_die, args=(run, moment))
    process.start()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL)
    done = [entry.op for entry in read_journal(run)]
    assert done == OPERATIONS[: len(done)]
    record = read_run(run)
    verify_run(run)
    assert sum(category["size"] for category in record["categories"]) == len(read_predictions(run, record))
    opened = EditedRun(run)
    opened.move([7], "owl")
    refit(opened)
    assert opened.predictions.equals(read_predictions(run))
    left = [path.name for path in (run / "versions").iterdir() if path.name.startswith(".")]
    assert left == []


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS_OF_ARRIVAL)
def test_a_kill_while_samples_come_loses_nothing(made: Path, tmp_path: Path, moment: int) -> None:
    run = Path(shutil.copytree(made, tmp_path / "run"))
    n_before = len(read_predictions(run))
    process = multiprocessing.get_context("fork").Process(target=edit_and_die, args=(run, moment, arrive))
    process.start()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL)
    n_updates = len(read_journal(run))
    assert n_updates or process.exitcode
    verify_run(run)
    assert len(read_predictions(run)) == len(EditedRun(run).features) == n_before + n_updates * N_NEW
    arrive(run)
    verify_run(run)
    assert len(read_predictions(run)) == n_before + (n_updates + 1) * N_NEW
    assert [path.name for path in (run / "versions").iterdir() if path.name.startswith(".")] == []


def move_often(run: Path, rows: range, barrier: Any) -> None:
    opened = EditedRun(run)
    barrier.wait()
    for row in rows:
        opened.create([row])


def test_two_programs_at_once_lose_nothing(run: Path) -> None:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(2)
    ranges = range(10), range(60, 70)
    programs = [context.Process(target=move_often, args=(run, rows, barrier)) for rows in ranges]
    for program in programs:
        program.start()
    for program in programs:
        program.join(60)
        assert program.exitcode == 0
    entries = read_journal(run)
    assert [entry.n for entry in entries] == list(range(1, 21))
    assert len({entry.outcome["born"][0]["id"] for entry in entries}) == 20
    assert len(read_run(run)["categories"]) == 26


@pytest.mark.parametrize("n_bytes", [1, 7, 40])
def test_an_interrupted_last_line_is_cut_by_the_next_entry(run: Path, n_bytes: int) -> None:
    opened = EditedRun(run)
    opened.move([0], "new-1")
    with (run / "journal.jsonl").open("ab") as file:
        file.write(b'{"n": 2, "time": "2026-11-18T00:00:00Z", "by": "person"'[:n_bytes])
    with contextlib.suppress(KeyError):
        assert opened.refresh() == []
    opened.move([1], "new-1")
    assert [entry.n for entry in read_journal(run)] == [1, 2]
    assert EditedRun(run).record == opened.record
