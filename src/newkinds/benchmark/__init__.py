"""The paper's tables and figures, and every rival in them, on any features: `run_benchmark`."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

from newkinds.benchmark.figures import check_matplotlib
from newkinds.benchmark.jobs import counters_for, methods_named
from newkinds.benchmark.living.jobs import rows_named
from newkinds.benchmark.plan import Plan
from newkinds.benchmark.reports import REPORTS, write_report
from newkinds.benchmark.runner import (
    check_results_folder,
    code_fingerprint,
    default_workers,
    device_name,
    expectation,
    run_jobs,
    versions,
)
from newkinds.benchmark.subjects import read_subjects
from newkinds.benchmark.tables import to_markdown
from newkinds.errors import InputError
from newkinds.names import MIXES, BenchmarkName, Mix
from newkinds.runtime import n_started
from newkinds.staging import accept_existing, check_target, staged

ALL = "all"
REPORT = "report.md"
"""The page that holds all of them."""
NAMES: tuple[str, ...] = get_args(BenchmarkName)
"""What can be asked for: the keys of `REPORTS`, and `ALL`."""

__all__ = ["NAMES", "run_benchmark"]


def run_benchmark(
    name: str,
    sources: Sequence[Path],
    out: Path,
    *,
    n_seeds: int = 5,
    first_seed: int = 0,
    methods: Sequence[str] | None = None,
    exact: bool = False,
    imbalance: float = 50.0,
    mixes: Sequence[Mix] = MIXES,
    parts: int = 1,
    device: str = "auto",
    workers: int | None = 1,
    say: Callable[[str], None] = lambda line: None,
) -> Path:
    """Make one of the paper's tables or figures, all of them, or that of living collections, on your feature sets.

    Results are kept in `out` as they come in, so an interrupted benchmark goes on where it was. Where a method
    cannot work with a set, the error that names it comes after everything else is computed.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    sources : sequence of path
        Feature sets with the truth of every sample, or folders of them.
    out : path
        Folder for tables (Markdown, CSV, LaTeX), figures (PNG, SVG), a record (JSON) and the results.
    n_seeds : int
        How many seeds; tables show mean and standard deviation.
    first_seed : int
        The first of them; the others follow.
    methods : sequence of str, optional
        Rows of the tables of methods; by default all but the exact ones and `pim-release`, which are slow. For
        "living" rows of its own, by default all.
    exact : bool
        Also the rows that are computed as published: `gcd`, `pim-paper`, and Max-ACC in their ways.
    imbalance : float
        Largest class over the smallest in the long-tailed versions of balanced sets, which the figure of lambda
        shows; 0: no such versions.
    mixes : sequence of {"even", "mostly-old"}
        What comes later, for "living".
    parts : int
        In how many parts the samples of a stage come, for "living".
    device : str
    workers : int, optional
        Processes that compute at the same time, each with an equal share of the threads and a copy of the features;
        None: on a CPU one for each thread, up to 8.
    say : callable
        Called with a line about each result.

    Returns
    -------
    Path
        The Markdown to read first.
    """
    if name not in NAMES:
        raise InputError(f"there is no benchmark {name!r}; choose from {', '.join(NAMES)}")
    if n_seeds < 1:
        raise InputError(f"there must be at least one seed; got {n_seeds}")
    if imbalance != 0 and not imbalance > 1:
        raise InputError(f"imbalance must be more than 1, or 0 for no long-tailed versions; got {imbalance}")
    if first_seed < 0:
        raise InputError(f"the first seed must be 0 or more; got {first_seed}")
    if parts < 1:
        raise InputError(f"the samples of a stage come in at least one part; got {parts}")
    if not mixes or set(mixes) - set(MIXES):
        raise InputError(f"mixes must be some of {', '.join(MIXES)}; got {', '.join(mixes) or 'none'}")
    workers = default_workers(device) if workers is None else workers
    if workers < 1:
        raise InputError(f"there must be at least one worker; got {workers}")
    if n_started() > 1:
        raise InputError("a benchmark runs in one process: start it without torchrun")
    check_target(out, folder=True, replace=check_results_folder)
    check_matplotlib()
    wanted = [report for report in REPORTS.values() if name == report.name or (name == ALL and not report.alone)]
    has_own_rows = any(report.alone for report in wanted)
    rows = rows_named(methods) if has_own_rows else []
    chosen = [] if has_own_rows else methods_named(methods, exact)
    keys = {method.key for method in chosen}
    reports = [report for report in wanted if not report.methods or keys & set(report.methods)]
    if not reports:
        raise InputError(f"{name} needs one of the methods {', '.join(wanted[0].methods)}")
    subjects = read_subjects(sources)
    has_tails = imbalance and any(report.name in ("lambda", "datasets") for report in reports)
    balanced = [subject for subject in subjects if subject.deserves_a_tail] if has_tails else []
    tails = [subject.long_tailed(imbalance) for subject in balanced]
    counters = [] if has_own_rows else counters_for(chosen, exact)
    plan = Plan(subjects, tails, chosen, counters, rows, mixes, parts)
    seeds = range(first_seed, first_seed + n_seeds)
    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    jobs = [job for report in reports for job in report.jobs(plan)]
    say(expectation(jobs, n_seeds, device, workers))
    results = run_jobs(jobs, seeds, out, device, say, workers)
    tables = [write_report(report, plan, results, out) for report in reports]
    record = {
        "benchmark": name,
        "seeds": list(seeds),
        "device": device_name(device),
        "workers": workers,
        "imbalance": imbalance,
        "code": code_fingerprint(),
        "versions": dict(versions()),
        "seconds": time.perf_counter() - began,
        "seconds_of_results": sum(result["seconds"] for of_job in results.by_job.values() for result in of_job),
        "sets": {
            subject.name: {
                "fingerprint": subject.fingerprint,
                "samples": len(subject.collection),
                "features": subject.collection.features.shape[1],
                "known": subject.collection.n_known,
                "categories": subject.n_categories,
            }
            for subject in [*plan.subjects, *plan.tails]
        },
        "methods": {method.key: method.settings for method in chosen},
        "counters": {counter.key: counter.settings for counter in plan.counters},
        "results": [
            {"job": job.label, "seed": seed, "settings": job.settings(results.needed(job, i)), **result}
            for job, of_job in results.by_job.items()
            for i, (seed, result) in enumerate(zip(results.seeds, of_job, strict=True))
        ],
    }
    with staged(out / f"{name}.json", replace=accept_existing) as stage:
        stage.write_text(json.dumps(record, indent=1), "utf-8")
    if name != ALL:
        return out / f"{name}.md"
    sections = ["# Benchmark\n"]
    for table in tables:
        sections += [to_markdown(table, level=2), f"![{table.title}]({table.name}.svg)\n"]
    with staged(out / REPORT, replace=accept_existing) as stage:
        stage.write_text("\n".join(sections), "utf-8")
    return out / REPORT
