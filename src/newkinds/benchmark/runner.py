"""Runs jobs, keeps every finished result, and goes on from what is there when it is started again.

A result is kept under a name made of all that it depends on (the samples, the settings, the seed, the device, the
code of the methods, PyTorch's version), so it is taken again only where it would come out the same.
"""

import functools
import hashlib
import json
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch

from newkinds import __version__
from newkinds.benchmark.jobs import Job, Result
from newkinds.data.writing import staged
from newkinds.runtime import listening, report_progress, resolve_device

CELLS = "cells"
CODE = ("engine", "methods", "objective.py", "metrics.py", "labels.py")
"""Of the package, what a result depends on beside the settings that its job names."""


@dataclass
class Results:
    """What jobs found: `of(job)` has a result for each seed."""

    seeds: Sequence[int]
    found: dict[Job, list[Result]] = field(default_factory=dict)

    def of(self, job: Job) -> list[Result]:
        return self.found[job]


def run_jobs(
    jobs: Iterable[Job],
    seeds: Sequence[int],
    folder: Path,
    device: str,
    say: Callable[[str], None] = lambda line: None,
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
    """
    ordered = list(_in_order(jobs))
    results = Results(seeds)
    store = _Store(folder / CELLS, str(resolve_device(device)))
    n_cells, began = len(ordered) * len(seeds), time.perf_counter()
    for number, job in enumerate(ordered):
        report_progress("results", number * len(seeds), n_cells)
        given = [[results.of(need)[i] for need in job.needs] for i in range(len(seeds))]
        keys = [store.key(job, seed, own) for seed, own in zip(seeds, given, strict=True)]
        cells = [store.read(key) for key in keys]
        missing = [i for i, cell in enumerate(cells) if cell is None]
        for some in [missing] * bool(missing) if job.together else [[i] for i in missing]:
            with listening(lambda *_: None):  # what a fit reports is too fine here
                computed = job.compute([seeds[i] for i in some], [given[i] for i in some], device)
            for i, result in zip(some, computed, strict=True):
                store.write(keys[i], job, seeds[i], given[i], result)
                cells[i] = store.read(keys[i])
            done = number * len(seeds) + some[-1] + 1
            report_progress("results", done, n_cells)
            say(f"{done}/{n_cells}  {time.perf_counter() - began:6.0f} s  {job.label}")
        results.found[job] = [cell for cell in cells if cell is not None]
    report_progress("results", n_cells, n_cells)
    return results


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
            "torch": torch.__version__,
        }
