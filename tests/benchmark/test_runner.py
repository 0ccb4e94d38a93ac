"""Jobs run once, results are kept and used again, failures are named, workers help."""

import ast
import multiprocessing
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import newkinds
from newkinds import FeatureSet, InputError, KMeans
from newkinds.benchmark import runner
from newkinds.benchmark.jobs import BY_KEY, COUNTER_BY_KEY, Count, Fit, Job, Method, Result, methods_named
from newkinds.benchmark.runner import CODE, code_fingerprint, run_jobs
from newkinds.benchmark.subjects import Subject

PACKAGE = Path(newkinds.__file__).parent
MAX_ACC = COUNTER_BY_KEY["max-acc-kmeans"]


@dataclass(frozen=True)
class Failing(Job):
    """A job that raises an error that nobody foresaw, or another."""

    error: Exception = field(default_factory=lambda: OSError("too bad"))

    @property
    def label(self) -> str:
        return f"{self.subject.name}: failing"

    def settings(self, needed: Sequence[Result]) -> dict[str, str]:
        return {}

    def compute(self, seeds: Sequence[int], needed: Sequence[Sequence[Result]], device: str) -> list[Result]:
        raise self.error


@dataclass(frozen=True)
class Needing(Failing):
    """A job that needs another."""

    other: Job | None = None

    @property
    def needs(self) -> tuple[Job, ...]:
        return () if self.other is None else (self.other,)


@dataclass(frozen=True)
class Sleeping(Needing):
    """A job that takes longer than any test may."""

    def compute(self, seeds: Sequence[int], needed: Sequence[Sequence[Result]], device: str) -> list[Result]:
        time.sleep(600)
        return [{} for _ in seeds]


def kmeans(subject: Subject) -> Fit:
    return Fit(subject, BY_KEY["kmeans"])


# What is kept


def test_what_is_there_is_not_computed_again(subject: Subject, tmp_path: Path) -> None:
    said: list[str] = []
    every = [Fit(subject, method) for method in methods_named(["kmeans", "sskm"])]
    first = run_jobs(every, [0], tmp_path, "cpu", said.append)
    assert len(said) == 2
    second = run_jobs(every, [0, 1], tmp_path, "cpu", said.append)
    assert len(said) == 4  # of both methods the new seed only
    assert [second.of(job)[0] for job in every] == [first.of(job)[0] for job in every]  # seconds too
    run_jobs(every, [1], tmp_path, "cpu", said.append)
    assert len(said) == 4


def test_a_line_is_said_about_each_result(subject: Subject, tmp_path: Path) -> None:
    said: list[str] = []
    run_jobs([kmeans(subject)], [0, 1], tmp_path, "cpu", said.append)
    assert [line.split(maxsplit=3)[0] for line in said] == ["1/2", "2/2"]
    assert all(line.endswith("s  small: kmeans") for line in said)


def test_jobs_come_after_those_that_they_need_each_once(subject: Subject, tmp_path: Path) -> None:
    said: list[str] = []
    count, fit = Count(subject, MAX_ACC), Fit(subject, BY_KEY["sskm"], MAX_ACC)
    results = run_jobs([fit, count, fit], [0], tmp_path, "cpu", said.append)
    assert list(results.by_job) == [count, fit]
    assert len(said) == 2


def with_other_features(subject: Subject) -> Subject:
    return Subject(subject.name, FeatureSet(2 * subject.collection.features, subject.labels, subject.truth))


def with_other_labels(subject: Subject) -> Subject:
    labels = subject.labels.copy()
    labels[0] = -1
    return Subject(subject.name, FeatureSet(subject.collection.features, labels, subject.truth))


def test_other_samples_labels_or_settings_are_computed_anew(subject: Subject, tmp_path: Path) -> None:
    other_method = Method("kmeans", "k-means", KMeans(n_init=3))
    jobs = [
        kmeans(subject),
        kmeans(with_other_features(subject)),
        kmeans(with_other_labels(subject)),
        Fit(subject, other_method),
    ]
    said: list[str] = []
    for job in jobs:
        run_jobs([job], [0], tmp_path, "cpu", said.append)
    assert len(said) == 4
    assert len(list((tmp_path / "cells").iterdir())) == 4


@pytest.mark.parametrize(
    ("function", "result"),
    [
        ("code_fingerprint", "another"),
        ("device_name", "cuda, another GPU"),
        ("versions", {**runner.versions(), "torch": "0.1"}),
        ("versions", {**runner.versions(), "scikit-learn": "0.1"}),
    ],
)
def test_other_code_devices_and_libraries_compute_anew(
    function: str, result: object, subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    run_jobs([kmeans(subject)], [0], tmp_path, "cpu", said.append)
    with monkeypatch.context() as changed:
        changed.setattr(runner, function, lambda *arguments: result)
        run_jobs([kmeans(subject)], [0], tmp_path, "cpu", said.append)
        assert len(said) == 2
    run_jobs([kmeans(subject)], [0], tmp_path, "cpu", said.append)
    assert len(said) == 2  # the first is still there


@pytest.mark.parametrize("name", ["newkinds", "python"])
def test_a_release_that_computes_the_same_computes_nothing(
    name: str, subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    run_jobs([kmeans(subject)], [0], tmp_path, "cpu", said.append)
    versions = {**runner.versions(), name: "99"}
    monkeypatch.setattr(runner, "versions", lambda: versions)
    run_jobs([kmeans(subject)], [0], tmp_path, "cpu", said.append)
    assert len(said) == 1


def imported_modules(path: Path) -> set[Path]:
    """The package's own files and folders that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    bases = [PACKAGE.joinpath(*name.split(".")[1:]) for name in names if name.startswith("newkinds.")]
    return {path for base in bases for path in (base, base.with_suffix(".py")) if path.exists()}


def test_all_code_that_computes_is_part_of_the_fingerprint() -> None:
    """What it leaves out cannot change a result: the samples have a fingerprint of their own."""
    harmless = (
        "data",
        "errors.py",
        "names.py",
        "progress.py",
        "raw_samples.py",
        "runtime.py",
        "staging.py",
        "wording.py",
        "benchmark/published.py",
        "workers.py",
    )
    parts = [PACKAGE / name for name in CODE]
    files = [file for part in parts for file in (part.rglob("*.py") if part.is_dir() else [part])]
    for file in files:
        for module in imported_modules(file):
            name = module.relative_to(PACKAGE).as_posix()
            assert f"{name}/".startswith(tuple(f"{part}/" for part in (*CODE, *harmless))), f"{file} imports {name}"


def test_the_fingerprint_changes_with_every_part_of_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "newkinds"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(runner, "__file__", str(copy / "benchmark" / "runner.py"))
    compute = code_fingerprint.__wrapped__
    before = compute()
    assert before == code_fingerprint()
    for name in CODE:
        path = copy / name
        file = next(iter(sorted(path.rglob("*.py")))) if path.is_dir() else path
        original = file.read_bytes()
        file.write_bytes(original.replace(b"\n", b"\r\n"))
        assert compute() == before, "the ends of lines do not count"
        file.write_bytes(original + b"\n")
        assert compute() != before, name
        file.write_bytes(original)
    (copy / "benchmark" / "tables.py").write_text("")
    assert compute() == before, "how results are shown does not count"


def test_a_damaged_result_is_computed_again(subject: Subject, tmp_path: Path) -> None:
    job = kmeans(subject)
    expected = run_jobs([job], [0], tmp_path, "cpu").of(job)[0]["score"]
    (cell,) = (tmp_path / "cells").iterdir()
    for content in ("{", "[]", '{"label": "k-means"}', ""):
        cell.write_text(content, "utf-8")
        assert run_jobs([job], [0], tmp_path, "cpu").of(job)[0]["score"] == expected


def test_an_interruption_loses_one_seed_at_most(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    original = Fit.compute

    def compute(self: Fit, seeds: Sequence[int], needed: Sequence[Sequence[Result]], device: str) -> list[Result]:
        seen.extend(seeds)
        if seen == [0, 1]:
            raise KeyboardInterrupt
        return original(self, seeds, needed, device)

    monkeypatch.setattr(Fit, "compute", compute)
    with pytest.raises(KeyboardInterrupt):
        run_jobs([kmeans(subject)], [0, 1, 2], tmp_path, "cpu")
    run_jobs([kmeans(subject)], [0, 1, 2], tmp_path, "cpu")
    assert seen == [0, 1, 1, 2]


# What fails


def test_what_cannot_be_computed_is_told_and_the_rest_goes_on(subject: Subject, tmp_path: Path) -> None:
    """A job fails, and what needs it cannot be computed either; k-means, which comes after, is."""
    impossible = Failing(subject, InputError("too few samples"))
    every = [impossible, Needing(subject, other=impossible), kmeans(subject)]
    said: list[str] = []
    message = (
        r"^these could not be computed; .*\nsmall: failing, seed 7: too few samples"
        r"\nsmall: failing, seed 8: too few samples$"
    )
    with pytest.raises(InputError, match=message):
        run_jobs(every, [7, 8], tmp_path, "cpu", said.append)
    assert [line.startswith("failed: small: failing, seed") for line in said] == [True, True, False, False]
    run_jobs(every[2:], [7, 8], tmp_path, "cpu", said.append)
    assert len(said) == 4


def test_a_method_that_cannot_work_with_a_set_is_named(subject: Subject, tmp_path: Path) -> None:
    count = Count(subject, MAX_ACC)
    fit = Fit(subject, BY_KEY["sskm"], MAX_ACC)
    run_jobs([count], [0], tmp_path, "cpu")
    (cell,) = (tmp_path / "cells").iterdir()
    cell.write_text('{"result": {"k": 1000, "interval": null, "seconds": 1.0}}', "utf-8")
    with pytest.raises(InputError, match="small: sskm at estimated K, seed 0: n_categories=1000 is more than"):
        run_jobs([fit], [0], tmp_path, "cpu")


@pytest.mark.parametrize("error", [OSError("too bad"), ValueError("too bad")])
def test_an_unforeseen_error_ends_everything_and_says_what_was_computed(
    error: Exception, subject: Subject, tmp_path: Path
) -> None:
    said: list[str] = []
    with pytest.raises(type(error), match=r"^too bad\nThis was small: failing, seed 7\.$") as caught:
        run_jobs([Failing(subject, error), kmeans(subject)], [7], tmp_path, "cpu", said.append)
    assert not isinstance(caught.value, InputError)
    assert said == []


# Workers


def test_what_was_finished_beside_an_error_is_kept(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers are done at the same moment, the first of them with an error."""
    in_this_process = runner._computers
    monkeypatch.setattr(runner, "_computers", lambda jobs, workers: in_this_process(jobs, 1))
    with pytest.raises(OSError, match="too bad"):
        run_jobs([Failing(subject), kmeans(subject)], [0], tmp_path, "cpu", workers=2)
    assert len(list((tmp_path / "cells").iterdir())) == 1


def test_no_worker_waits_while_a_kept_result_makes_a_job_possible(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fit needs a count, which is there: it must not wait for the k-means before it."""
    count, fit = Count(subject, MAX_ACC), Fit(subject, BY_KEY["sskm"], MAX_ACC)
    run_jobs([count], [0], tmp_path, "cpu")
    submitted: list[int] = []

    @contextmanager
    def computers(*_: object) -> Iterator[Callable[..., Future[list[Result]]]]:
        def submit(number: int, *task: object) -> Future[list[Result]]:
            submitted.append(number)
            return Future()

        yield submit

    def waits(*_: object, **options: object) -> None:
        raise InterruptedError

    monkeypatch.setattr(runner, "_computers", computers)
    monkeypatch.setattr(runner, "wait", waits)
    with pytest.raises(InterruptedError):
        run_jobs([count, kmeans(subject), fit], [0], tmp_path, "cpu", workers=2)
    assert submitted == [1, 2]


@pytest.mark.slow
def test_workers_find_what_one_process_finds_and_an_unforeseen_error_ends_all_of_them(
    subject: Subject, tmp_path: Path
) -> None:
    fit = Fit(subject, BY_KEY["sskm"], MAX_ACC)
    every = [fit, kmeans(subject)]
    said: list[str] = []
    at_last = [Sleeping(subject, other=fit), Needing(subject, other=fit)]  # one fails while the other sleeps
    began = time.monotonic()
    with pytest.raises(OSError, match="too bad"):
        run_jobs([*every, *at_last], [0], tmp_path / "shared", "cpu", said.append, workers=2)
    assert time.monotonic() - began < 600, "it waited for the other worker"
    assert not multiprocessing.active_children()
    alone = run_jobs(every, [0], tmp_path / "alone", "cpu")
    shared = run_jobs(every, [0], tmp_path / "shared", "cpu", said.append)
    assert len(said) == 3  # the fit, the count that it needs and k-means, all of them by the workers
    for job in alone.by_job:
        assert alone.of(job)[0] | {"seconds": 0} == shared.of(job)[0] | {"seconds": 0}


@pytest.mark.parametrize(("threads", "workers", "share"), [(8, 2, 4), (2, 3, 1)])
def test_workers_share_the_threads(monkeypatch: pytest.MonkeyPatch, threads: int, workers: int, share: int) -> None:
    begun: list[tuple[int, int]] = []

    @contextmanager
    def watch(n: int, begin: Callable[..., None], arguments: tuple[Sequence[Job], int]) -> Iterator[None]:
        begun.append((n, arguments[1]))
        yield

    monkeypatch.setattr(runner, "worker_processes", watch)
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    with runner._computers([], workers):
        pass
    assert begun == [(workers, share)]
