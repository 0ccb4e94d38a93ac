"""Small feature sets, and results made up at once in place of computed ones."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newkinds import FeatureSet, write_features
from newkinds.benchmark import reports, run_benchmark
from newkinds.benchmark.jobs import SHOWN_LAMS, Ablation, Count, Fit, Job, Lambdas, Result, Starts
from newkinds.benchmark.subjects import Subject


def overlapping_clusters(n_classes: int = 6, n: int = 60, width: int = 10, seed: int = 0) -> FeatureSet:
    """`n` samples a class; half of the classes are known, half of their samples labelled."""
    generator = np.random.default_rng(seed)
    truth = np.repeat(np.arange(n_classes), n)
    features = generator.normal(size=(n_classes, width))[truth] + 0.9 * generator.normal(size=(len(truth), width))
    labels = np.where((truth < n_classes // 2) & (np.arange(len(truth)) % 2 == 0), truth, -1)
    return FeatureSet(features.astype(np.float32), labels, truth)


@pytest.fixture(scope="session")
def feature_set() -> Callable[..., FeatureSet]:
    return overlapping_clusters


@pytest.fixture(scope="session")
def subject() -> Subject:
    """Six classes of 60 samples, as everywhere here where nothing else is said."""
    return Subject("small", overlapping_clusters())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The same, as a file."""
    path = tmp_path / "sets" / "small.npz"
    write_features(overlapping_clusters(), path)
    return path


@contextmanager
def making_up_results() -> Iterator[None]:
    """In this block jobs compute nothing: results are drawn, different for each job and seed."""

    def compute(job: Job, seeds: Sequence[int], needed: Sequence[Sequence[Result]], device: str) -> list[Result]:
        return [_draw(job, seed, results) for seed, results in zip(seeds, needed, strict=True)]

    with pytest.MonkeyPatch.context() as monkeypatch:
        for kind in (Fit, Count, Ablation, Starts, Lambdas):
            monkeypatch.setattr(kind, "compute", compute)
        yield


@pytest.fixture
def made_up_results(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In this test nothing is computed, nor drawn."""
    for name in ("dot_chart", "lambda_figure"):
        monkeypatch.setattr(reports, name, lambda *arguments, **options: None)
    with making_up_results():
        yield


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `newkinds benchmark all` writes, from results made up for three seeds."""
    folder = tmp_path_factory.mktemp("all")
    write_features(overlapping_clusters(), folder / "small.npz")
    methods = ["kmeans", "sskm", "rim", "pim-rule", "pim"]
    with making_up_results():
        run_benchmark("all", [folder / "small.npz"], folder / "out", n_seeds=3, methods=methods)
    return folder / "out"


def _draw(job: Job, seed: int, needed: Sequence[Result]) -> Result:
    generator = np.random.default_rng([seed, *job.label.encode()])
    result: dict[str, Any] = {"seconds": 0.5}
    if isinstance(job, Count):
        # By rehearsal the true number is at the lower end of an interval, at the upper end of one, and outside one.
        surplus = {"rehearsal": 0, "max-acc-pim": 2, "max-acc-paper": 3, "max-acc-kmeans": 5, "max-acc-gcd": 4}[
            job.counter.key
        ]
        k = job.subject.n_categories + (1, -1, 3)[seed] + surplus
        return result | {"k": k, "interval": [k - 1, k + 1] if job.counter.key == "rehearsal" else None}
    if isinstance(job, Fit):
        curve = [[lam, float(generator.random())] for lam in SHOWN_LAMS[3:]]
        return result | {
            "score": (100 * generator.random(3)).tolist(),
            "k": job.settings(needed)["fit"]["n_categories"],
            "lam": max(curve, key=lambda point: point[1])[0],
            "temperature": 25.0,
            "lam_curve": curve,
        }
    n_runs = len(job.settings(needed)["partitions"])
    return result | {"scores": (100 * generator.random((n_runs, 3))).tolist()}
