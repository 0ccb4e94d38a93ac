"""Runs jobs, keeps every finished result, and goes on from what is there when it is started again.

A result is kept under a name made of all that it depends on (the samples, the settings, the seed, the device, the
code that computes it, the libraries' versions), so it is taken again only where it would come out the same. (With
another number of threads it may be rounded otherwise.)
"""

import functools
import hashlib
import json
import platform
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
import torch

from newkinds import __version__
from newkinds.benchmark.jobs import Job, Result
from newkinds.data.writing import staged
from newkinds.errors import InputError
from newkinds.runtime import listening, report_progress, resolve_device
from newkinds.workers import worker_processes

CELLS = "cells"
CODE = (
    "engine",
    "selection",
    "methods",
    "objective.py",
    "metrics.py",
    "labels.py",
    "benchmark/jobs.py",
    "benchmark/partitions.py",
    "benchmark/subjects.py",
)
"""Of the package, what a result depends on beside the settings that its job names."""
MOST_WORKERS = 8
"""Unless asked for: each has the features in its own memory."""
_served: list[Job] = []
"""In a worker process: the jobs, which work sent to it names by their place."""


@dataclass
class Results:
    """What jobs found: `of(job)` has a result for each seed."""

    seeds: Sequence[int]
    found: dict[Job, list[Result]] = field(default_factory=dict)

    def of(self, job: Job) -> list[Result]:
        return self.found[job]

    def given(self, job: Job, i: int) -> list[Result]:
        """What a job needs of others for the i-th seed."""
        return [self.of(need)[i] for need in job.needs]


def run_jobs(
    jobs: Iterable[Job],
    seeds: Sequence[int],
    folder: Path,
    device: str,
    say: Callable[[str], None] = lambda line: None,
    workers: int = 1,
) -> Results:
    """Run jobs and those that they need, each once; results go to, and come from, `folder`.

    Parameters
    ----------
    jobs : iterable of Job
    seeds : sequence of int
    folder : path
    device : str
    say : callable
        Told a line about each job that was computed.
    workers : int
        Processes that compute at the same time, with an equal share of the threads; 1: this one computes.
    """
    store = _Store(folder / CELLS, device_name(device))
    return _Running(list(_in_order(jobs)), seeds, store, say).run(device, workers)


def default_workers(device: str) -> int:
    """On a CPU one for each thread: small products gain more from a core each than from several cores."""
    return min(MOST_WORKERS, torch.get_num_threads()) if resolve_device(device).type == "cpu" else 1


def device_name(device: str) -> str:
    """With the model of a GPU."""
    found = resolve_device(device)
    return f"{found}, {torch.cuda.get_device_name(found)}" if found.type == "cuda" else str(found)


class _Running:
    """Jobs on their way: those that wait for others, what can be computed, what is being computed."""

    def __init__(
        self, jobs: Sequence[Job], seeds: Sequence[int], store: "_Store", say: Callable[[str], None]
    ) -> None:
        self.jobs, self.seeds, self.store, self.say = jobs, seeds, store, say
        self.waiting = list(jobs)
        self.ready: deque[tuple[Job, list[int]]] = deque()
        self.computing: dict[Future[list[Result]], tuple[Job, list[int]]] = {}
        self.cells: dict[Job, list[Result | None]] = {}
        self.results = Results(seeds)
        self.failures: list[str] = []
        self.began = time.perf_counter()

    def run(self, device: str, workers: int) -> Results:
        self._report()
        with _computers(self.jobs, workers) as submit:
            while True:
                while free := [each for each in self.waiting if self._has_what_it_needs(each)]:
                    for job in free:
                        self._look_up(job)
                while self.ready and len(self.computing) < workers:
                    job, some = self.ready.popleft()
                    given = [self.results.given(job, i) for i in some]
                    number, seeds = self.jobs.index(job), [self.seeds[i] for i in some]
                    self.computing[submit(number, seeds, given, device)] = job, some
                if not self.computing:
                    break
                done = wait(self.computing, return_when=FIRST_COMPLETED).done
                for future in sorted(done, key=lambda each: each.exception() is not None):  # an error comes last
                    job, some = self.computing.pop(future)
                    if (computed := self._computed(job, some, future)) is not None:
                        self._keep(job, some, computed)
        self._report()
        if self.failures:
            told = "these could not be computed; the others are kept, and the same command goes on from there:"
            raise InputError("\n".join([told, *self.failures]))
        self.results.found = {job: self.results.of(job) for job in self.jobs}  # in their order
        return self.results

    def _has_what_it_needs(self, job: Job) -> bool:
        return all(need in self.results.found for need in job.needs)

    def _computed(self, job: Job, some: Sequence[int], future: Future[list[Result]]) -> list[Result] | None:
        """What came of a job; None if it cannot be computed, which the others need not suffer from."""
        name = f"{job.label}, seed {', '.join(str(self.seeds[i]) for i in some)}"
        try:
            return future.result()
        except ValueError as error:
            self.failures.append(f"{name}: {error}")
            self.say(f"failed: {self.failures[-1]}")
            return None
        except Exception as error:
            error.add_note(f"This was {name}.")
            raise

    def _key(self, job: Job, i: int) -> str:
        return self.store.key(job, self.seeds[i], self.results.given(job, i))

    def _look_up(self, job: Job) -> None:
        """What there is of a job already; the rest can be computed."""
        self.waiting.remove(job)
        self.cells[job] = [self.store.read(self._key(job, i)) for i in range(len(self.seeds))]
        missing = [i for i, cell in enumerate(self.cells[job]) if cell is None]
        parts = [missing] * bool(missing) if job.together else [[i] for i in missing]
        self.ready.extend((job, part) for part in parts)
        self._finish(job)

    def _keep(self, job: Job, some: Sequence[int], computed: Sequence[Result]) -> None:
        for i, result in zip(some, computed, strict=True):
            key = self._key(job, i)
            self.store.write(key, job, self.seeds[i], self.results.given(job, i), result)
            self.cells[job][i] = self.store.read(key)
        self._finish(job)
        done, total = self._report()
        self.say(f"{done}/{total}  {time.perf_counter() - self.began:6.0f} s  {job.label}")

    def _finish(self, job: Job) -> None:
        found = [cell for cell in self.cells[job] if cell is not None]
        if len(found) == len(self.seeds):
            self.results.found[job] = found

    def _report(self) -> tuple[int, int]:
        done = sum(cell is not None for cells in self.cells.values() for cell in cells)
        total = len(self.jobs) * len(self.seeds)
        report_progress("results", done, total)
        return done, total


Submit = Callable[[int, Sequence[int], Sequence[Sequence[Result]], str], Future[list[Result]]]
"""Has a job computed: its place among the jobs, and what `Job.compute` takes."""


@contextmanager
def _computers(jobs: Sequence[Job], workers: int) -> Iterator[Submit]:
    """Worker processes, or this one."""
    if workers > 1:
        threads = max(1, torch.get_num_threads() // workers)
        with worker_processes(workers, _begin, (jobs, threads)) as pool:
            yield lambda *task: pool.submit(_compute_served, *task)
        return

    def compute_here(number: int, *task: Any) -> Future[list[Result]]:
        future: Future[list[Result]] = Future()
        try:
            with listening(lambda *_: None):  # what a fit reports is too fine here
                future.set_result(jobs[number].compute(*task))
        except Exception as error:
            future.set_exception(error)
        return future

    yield compute_here


def _begin(jobs: Sequence[Job], threads: int) -> None:
    torch.set_num_threads(threads)
    _served.extend(jobs)


def _compute_served(number: int, *task: Any) -> list[Result]:
    return _served[number].compute(*task)


def _in_order(jobs: Iterable[Job]) -> Iterable[Job]:
    """Each job once, after those that it needs."""
    seen: set[Job] = set()

    def visit(job: Job) -> Iterable[Job]:
        if job in seen:
            return
        for need in job.needs:
            yield from visit(need)
        seen.add(job)
        yield job

    for job in jobs:
        yield from visit(job)


def versions() -> Mapping[str, str]:
    return {
        "newkinds": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


@functools.cache
def code_fingerprint() -> str:
    """Of the code that results depend on."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for name in CODE:
        path = package / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(f"{file.relative_to(package).as_posix()}\n".encode())
            digest.update(file.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()[:16]


class _Store:
    """Finished results, one small file each."""

    def __init__(self, folder: Path, device: str) -> None:
        self._folder, self._device = folder, device
        folder.mkdir(parents=True, exist_ok=True)

    def key(self, job: Job, seed: int, given: Sequence[Result]) -> str:
        return hashlib.sha256(json.dumps(self._facts(job, seed, given), sort_keys=True).encode()).hexdigest()[:24]

    def read(self, key: str) -> Result | None:
        try:
            found: Result = json.loads((self._folder / f"{key}.json").read_text("utf-8"))["result"]
        except (FileNotFoundError, ValueError, KeyError, TypeError):  # a damaged one is computed again
            return None
        return found

    def write(self, key: str, job: Job, seed: int, given: Sequence[Result], result: Result) -> None:
        content = {"label": job.label, **self._facts(job, seed, given), "result": result}
        with staged(self._folder / f"{key}.json") as stage:
            stage.write_text(json.dumps(content, indent=1), "utf-8")

    def _facts(self, job: Job, seed: int, given: Sequence[Result]) -> dict[str, Any]:
        return {
            "samples": job.subject.fingerprint,
            "seed": seed,
            "settings": job.settings(given),
            "device": self._device,
            "code": code_fingerprint(),
            "versions": {name: each for name, each in versions().items() if name not in ("newkinds", "python")},
        }
