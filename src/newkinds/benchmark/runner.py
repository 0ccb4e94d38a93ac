"""Runs jobs, keeps every finished result, and goes on from what is there when it is started again.

A result is kept under a name made of all that it depends on (the samples, the settings, the seed, the device, the
code that computes it, the libraries' versions), so it is used again only where it would come out the same. (Another
number of threads may round it differently.)
"""

import functools
import hashlib
import json
import platform
import re
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
from newkinds.errors import InputError
from newkinds.runtime import listening, report_progress, resolve_device
from newkinds.staging import accept_existing, staged
from newkinds.workers import worker_processes

CELLS = "cells"
CODE = (
    "engine",
    "selection",
    "methods",
    "objective.py",
    "discriminants.py",
    "past.py",
    "metrics.py",
    "labels.py",
    "benchmark/jobs.py",
    "benchmark/living/jobs.py",
    "benchmark/living/rows.py",
    "benchmark/living/scores.py",
    "benchmark/living/stream.py",
    "benchmark/partitions.py",
    "benchmark/subjects.py",
)
"""Parts of the package that a result depends on beside the settings that its job names."""
MOST_WORKERS = 8
"""Unless more are asked for: each holds a copy of the features in memory."""
_served: list[Job] = []
"""In a worker process: the jobs; what is sent to it names one by its place."""


@dataclass
class Results:
    """The results of finished jobs: `of(job)` has one for each seed."""

    seeds: Sequence[int]
    by_job: dict[Job, list[Result]] = field(default_factory=dict)

    def of(self, job: Job) -> list[Result]:
        return self.by_job[job]

    def needed(self, job: Job, i: int) -> list[Result]:
        """The results of other jobs that a job needs for the i-th seed."""
        return [self.of(need)[i] for need in job.needs]


def run_jobs(
    jobs: Iterable[Job],
    seeds: Sequence[int],
    folder: Path,
    device: str,
    say: Callable[[str], None] = lambda line: None,
    workers: int = 1,
) -> Results:
    """Run jobs and those that they need, each once; results are kept in `folder`, and taken from there.

    A job whose input cannot be used (`InputError`) does not stop the others: the error that names it comes when
    they are done. Any other error is a bug, and ends everything at once.

    Parameters
    ----------
    jobs : iterable of Job
    seeds : sequence of int
    folder : path
    device : str
    say : callable
        Called with a line about each job that was computed.
    workers : int
        Processes that compute at the same time, with an equal share of the threads; 1: this one computes.
    """
    store = _Store(folder / CELLS, device_name(device))
    return _Running(list(_in_order(jobs)), seeds, store, say).run(device, workers)


def expectation(jobs: Iterable[Job], n_seeds: int, device: str, workers: int) -> str:
    """How many results there will be and, on a CPU, how long they take about."""
    every = list(_in_order(jobs))
    said = f"{len(every) * n_seeds} results"
    if not every or resolve_device(device).type != "cpu":
        return said
    cores = torch.get_num_threads() if workers == 1 else min(workers, torch.get_num_threads())
    minutes = n_seeds * sum(job.expected_seconds for job in every) / cores / 60
    return f"{said}; if none is there yet, about {max(1, round(minutes))} min with {cores} cores, by experience"


def check_results_folder(folder: Path) -> None:
    """Refuse a folder of other things: in our own, tables and figures are written again."""
    content = [path.name for path in folder.iterdir()]
    results = [path.name for path in (folder / CELLS).iterdir()] if (folder / CELLS).is_dir() else []
    is_ours = CELLS in content and all(re.fullmatch(r"[0-9a-f]{24}\.json|\..*", name) for name in results)
    if content and not is_ours:
        raise InputError(f"{folder} holds other files; give the results a folder of their own")


def default_workers(device: str) -> int:
    """On a CPU one for each thread: small products run faster on a core each than one by one on all cores."""
    return min(MOST_WORKERS, torch.get_num_threads()) if resolve_device(device).type == "cpu" else 1


def device_name(device: str) -> str:
    """The device that computes; with a GPU's model."""
    resolved = resolve_device(device)
    return f"{resolved}, {torch.cuda.get_device_name(resolved)}" if resolved.type == "cuda" else str(resolved)


class _Running:
    """Jobs in progress: those that wait for others, what can be computed, what is being computed.

    A task is a job and the places of the seeds to compute it for.
    """

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
                while possible := [job for job in self.waiting if self._has_what_it_needs(job)]:
                    for job in possible:
                        self._look_up(job)
                while self.ready and len(self.computing) < workers:
                    job, places = self.ready.popleft()
                    needed = [self.results.needed(job, i) for i in places]
                    number, seeds = self.jobs.index(job), [self.seeds[i] for i in places]
                    self.computing[submit(number, seeds, needed, device)] = job, places
                if not self.computing:
                    break
                done = wait(self.computing, return_when=FIRST_COMPLETED).done
                for future in sorted(done, key=_has_failed):  # errors last: what is finished is kept first
                    job, places = self.computing.pop(future)
                    if (computed := self._computed(job, places, future)) is not None:
                        self._keep(job, places, computed)
        self._report()
        if self.failures:
            headline = "these could not be computed; the others are kept, and the same command goes on from there:"
            raise InputError("\n".join([headline, *self.failures]))
        self.results.by_job = {job: self.results.of(job) for job in self.jobs}  # in their order
        return self.results

    def _has_what_it_needs(self, job: Job) -> bool:
        return all(need in self.results.by_job for need in job.needs)

    def _computed(self, job: Job, places: Sequence[int], future: Future[list[Result]]) -> list[Result] | None:
        """The results of a task; None if its input cannot be used, which does not stop the others."""
        name = f"{job.label}, seed {', '.join(str(self.seeds[i]) for i in places)}"
        try:
            return future.result()
        except InputError as error:
            self.failures.append(f"{name}: {error}")
            self.say(f"failed: {self.failures[-1]}")
            return None
        except Exception as error:
            error.add_note(f"This was {name}.")
            raise

    def _key(self, job: Job, i: int) -> str:
        return self.store.key(job, self.seeds[i], self.results.needed(job, i))

    def _look_up(self, job: Job) -> None:
        """Read what is kept of a job; the rest can be computed."""
        self.waiting.remove(job)
        self.cells[job] = [self.store.read(self._key(job, i)) for i in range(len(self.seeds))]
        missing = [i for i, cell in enumerate(self.cells[job]) if cell is None]
        if missing:
            self.ready.extend((job, places) for places in ([missing] if job.together else [[i] for i in missing]))
        self._finish(job)

    def _keep(self, job: Job, places: Sequence[int], computed: Sequence[Result]) -> None:
        for i, result in zip(places, computed, strict=True):
            key = self._key(job, i)
            self.store.write(key, job, self.seeds[i], self.results.needed(job, i), result)
            self.cells[job][i] = self.store.read(key)
        self._finish(job)
        done, total = self._report()
        self.say(f"{done}/{total}  {time.perf_counter() - self.began:6.0f} s  {job.label}")

    def _finish(self, job: Job) -> None:
        finished = [cell for cell in self.cells[job] if cell is not None]
        if len(finished) == len(self.seeds):
            self.results.by_job[job] = finished

    def _report(self) -> tuple[int, int]:
        done = sum(cell is not None for cells in self.cells.values() for cell in cells)
        total = len(self.jobs) * len(self.seeds)
        report_progress("results", done, total)
        return done, total


def _has_failed(future: Future[list[Result]]) -> bool:
    return future.exception() is not None


Submit = Callable[[int, Sequence[int], Sequence[Sequence[Result]], str], Future[list[Result]]]
"""Starts to compute a job, named by its place among the jobs; the rest is what `Job.compute` takes."""


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
            with listening(lambda *_: None):  # a fit's own progress is too fine here
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
    """A hash of the code that results depend on."""
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

    def key(self, job: Job, seed: int, needed: Sequence[Result]) -> str:
        facts = json.dumps(self._facts(job, seed, needed), sort_keys=True)
        return hashlib.sha256(facts.encode()).hexdigest()[:24]

    def read(self, key: str) -> Result | None:
        try:
            result: Result = json.loads((self._folder / f"{key}.json").read_text("utf-8"))["result"]
        except (FileNotFoundError, ValueError, KeyError, TypeError):  # a damaged one is computed again
            return None
        return result

    def write(self, key: str, job: Job, seed: int, needed: Sequence[Result], result: Result) -> None:
        content = {"label": job.label, **self._facts(job, seed, needed), "result": result}
        with staged(self._folder / f"{key}.json", replace=accept_existing) as stage:
            stage.write_text(json.dumps(content, indent=1), "utf-8")

    def _facts(self, job: Job, seed: int, needed: Sequence[Result]) -> dict[str, Any]:
        libraries = {name: version for name, version in versions().items() if name not in ("newkinds", "python")}
        return {
            "samples": job.subject.fingerprint,
            "seed": seed,
            "settings": job.settings(needed),
            "device": self._device,
            "code": code_fingerprint(),
            "versions": libraries,
        }
