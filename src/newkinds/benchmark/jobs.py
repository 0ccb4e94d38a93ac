"""What a benchmark computes: jobs, each with a result for every seed.

A job may need the results of others (the ablation needs the lam that PIM chose). Results are plain values, so that
they can be kept: see `newkinds.benchmark.runner`.
"""

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from newkinds.benchmark.partitions import partitions
from newkinds.benchmark.subjects import Subject
from newkinds.engine import TEMPERATURE
from newkinds.errors import InputError
from newkinds.labels import IntArray
from newkinds.methods import METHODS as ESTIMATORS
from newkinds.methods.base import CategoryDiscoverer
from newkinds.methods.kmeans import KMeans
from newkinds.methods.orca import ORCA
from newkinds.methods.pim import PIM
from newkinds.methods.rankstats import RankStats
from newkinds.methods.rim import RIM
from newkinds.methods.simgcd import SimGCD
from newkinds.methods.sskm import SemiSupervisedKMeans
from newkinds.methods.tim import TIM
from newkinds.methods.uno import UNO
from newkinds.names import CountRule, Init
from newkinds.objective import ABLATION, PARTITION, Objective
from newkinds.selection.n_categories import estimate_n_categories
from newkinds.selection.recipes import PAPER_GRID

Result = dict[str, Any]
COUNT_RESTARTS = 3
"""Restarts of each k-means in a search for the number of categories: it runs dozens, with up to 1000 clusters."""
GIVEN_BY_JOB = ("n_categories", "device", "random_state")
"""Parameters of an estimator that a job sets."""


@dataclass(frozen=True)
class Method:
    """A row of the tables: its name for the command line, here and in the paper, and the estimator.

    A method that is not `usual` has to be asked for.
    """

    key: str
    label: str
    estimator: CategoryDiscoverer
    published: str | None = None
    usual: bool = True

    @property
    def settings(self) -> dict[str, Any]:
        """The estimator's parameters, without those that a job sets."""
        parameters = self.estimator.get_params()
        return {
            "method": type(self.estimator).__name__,
            **{name: value for name, value in parameters.items() if name not in GIVEN_BY_JOB},
        }


def with_every_method(
    rows: tuple[Method, ...], estimators: Mapping[str, type[CategoryDiscoverer]]
) -> tuple[Method, ...]:
    """The rows, and after them one for each estimator whose key has none: called by its class, as it comes."""
    keys = {row.key for row in rows}
    further = (Method(key, kind.__name__, kind()) for key, kind in estimators.items() if key not in keys)
    return (*rows, *further)


HEAD = ", head on frozen features"
"""Ends the label of a method that was published with an encoder trained along."""
_ROWS = (
    Method("kmeans", "k-means", KMeans(), "k-means"),
    Method("rankstats", f"RankStats+{HEAD}", RankStats()),
    Method("uno", f"UNO+{HEAD}", UNO()),
    Method("orca", f"ORCA{HEAD}", ORCA()),
    Method("simgcd", f"SimGCD{HEAD}", SimGCD()),
    Method("sskm", "GCD (semi-supervised k-means)", SemiSupervisedKMeans(), "GCD"),
    Method("rim", "RIM", RIM(temperature=TEMPERATURE), "RIM (semi-sup.)"),
    Method("tim", "TIM", TIM(temperature=TEMPERATURE), "TIM"),
    Method("pim-paper", "PIM, published rule", PIM(lam="labelled", temperature=TEMPERATURE, consensus=1), "PIM"),
    Method("pim-release", "PIM, released settings", PIM(recipe="release"), "PIM", usual=False),
    Method("pim", "PIM, Newkinds", PIM()),
)
METHODS = with_every_method(_ROWS, ESTIMATORS)
"""Every row of the tables of methods, in their order."""
BY_KEY = {method.key: method for method in METHODS}


def methods_named(keys: Sequence[str] | None) -> list[Method]:
    """The methods with these keys, in the order of the tables; the usual ones by default."""
    if keys is None:
        return [method for method in METHODS if method.usual]
    if unknown := [key for key in keys if key not in BY_KEY]:
        raise InputError(f"there is no method {', '.join(map(repr, unknown))}; choose from {', '.join(BY_KEY)}")
    return [method for method in METHODS if method.key in keys]


@dataclass(frozen=True)
class Job:
    """Something to compute on a feature set, for every seed."""

    subject: Subject
    together: ClassVar[bool] = False
    """Whether all seeds are computed at once; otherwise one by one, so that an interruption loses little."""

    @property
    def needs(self) -> tuple["Job", ...]:
        """Jobs whose results this one needs."""
        return ()

    @property
    @abstractmethod
    def label(self) -> str:
        """What is being computed, for whoever waits."""

    @abstractmethod
    def settings(self, needed: Sequence[Result]) -> dict[str, Any]:
        """Everything that the result depends on beside the samples and the seed.

        `needed` has a result of each of the jobs in `needs`.
        """

    @abstractmethod
    def compute(self, seeds: Sequence[int], needed: Sequence[Sequence[Result]], device: str) -> list[Result]:
        """A result for each seed; `needed[i]` has the results needed for the i-th."""


@dataclass(frozen=True)
class Count(Job):
    """Estimate the number of categories."""

    rule: CountRule

    @property
    def label(self) -> str:
        return f"{self.subject.name}: number of categories, {self.rule}"

    def settings(self, needed: Sequence[Result]) -> dict[str, Any]:
        return {"count": self.rule, "n_init": COUNT_RESTARTS}

    def compute(self, seeds: Sequence[int], needed: Sequence[Sequence[Result]], device: str) -> list[Result]:
        results = []
        for seed in seeds:
            began = time.perf_counter()
            count = estimate_n_categories(
                self.subject.collection.features,
                self.subject.labels,
                self.rule,
                n_init=COUNT_RESTARTS,
                device=device,
                random_state=seed,
            )
            seconds = time.perf_counter() - began
            results.append({"k": count.n_categories, "interval": count.interval, "seconds": seconds})
        return results


@dataclass(frozen=True)
class Fit(Job):
    """Fit a method, with the true number of categories or an estimated one."""

    method: Method
    counted_by: CountRule | None = None

    @property
    def needs(self) -> tuple[Job, ...]:
        return () if self.counted_by is None else (Count(self.subject, self.counted_by),)

    @property
    def label(self) -> str:
        return f"{self.subject.name}: {self.method.key}" + ("" if self.counted_by is None else " at estimated K")

    def _n_categories(self, needed: Sequence[Result]) -> int:
        return self.subject.n_categories if self.counted_by is None else int(needed[0]["k"])

    def settings(self, needed: Sequence[Result]) -> dict[str, Any]:
        return {"fit": self.method.settings | {"n_categories": self._n_categories(needed)}}

    def compute(self, seeds: Sequence[int], needed: Sequence[Sequence[Result]], device: str) -> list[Result]:
        results = []
        for seed, results_needed in zip(seeds, needed, strict=True):
            n_categories = self._n_categories(results_needed)
            parameters = self.method.estimator.get_params() | {"n_categories": n_categories}
            model = type(self.method.estimator)(**parameters | {"device": device, "random_state": seed})
            began = time.perf_counter()
            model.fit(self.subject.collection.features, self.subject.labels)
            seconds = time.perf_counter() - began
            curve = getattr(model, "lam_curve_", None)
            results.append(
                {
                    "score": self.subject.score(model.labels_),
                    "k": model.n_categories_,
                    "lam": getattr(model, "lam_", None),
                    "temperature": model.temperature_,
                    "lam_curve": None if curve is None else list(curve.items()),
                    "seconds": seconds,
                }
            )
        return results


@dataclass(frozen=True)
class _Partitions(Job):
    """Variants of PIM at the lam that PIM chose by the published rule, trained for all seeds at once."""

    together: ClassVar[bool] = True

    @property
    def needs(self) -> tuple[Job, ...]:
        return (Fit(self.subject, BY_KEY["pim-paper"]),)

    @abstractmethod
    def _runs(self, lam: float) -> list[tuple[Init, Objective]]:
        """Start and objective of every training for one seed."""

    def settings(self, needed: Sequence[Result]) -> dict[str, Any]:
        runs = [[init, repr(objective)] for init, objective in self._runs(needed[0]["lam"])]
        return {"partitions": runs, "n_categories": self.subject.n_categories, "temperature": TEMPERATURE}

    def compute(self, seeds: Sequence[int], needed: Sequence[Sequence[Result]], device: str) -> list[Result]:
        runs_of_seeds = [self._runs(results[0]["lam"]) for results in needed]
        began = time.perf_counter()
        assignments: list[IntArray] = partitions(
            self.subject.collection.features,
            self.subject.labels,
            [(seed, *run) for seed, runs in zip(seeds, runs_of_seeds, strict=True) for run in runs],
            self.subject.n_categories,
            temperature=TEMPERATURE,
            device=device,
        )
        seconds = (time.perf_counter() - began) / len(seeds)
        scores = iter([self.subject.score(columns) for columns in assignments])
        return [
            {
                "runs": [f"{init}, {objective}" for init, objective in runs],
                "scores": [next(scores) for _ in runs],
                "seconds": seconds,
            }
            for runs in runs_of_seeds
        ]


class Ablation(_Partitions):
    """The six rows of the table of loss terms, in its order."""

    @property
    def label(self) -> str:
        return f"{self.subject.name}: loss terms"

    def _runs(self, lam: float) -> list[tuple[Init, Objective]]:
        return [("sskm", objective.at(lam)) for objective in ABLATION]


STARTS: tuple[Init, ...] = ("ssrandom", "sskm++", "sskm")
"""In the order of the paper's table."""


class Starts(_Partitions):
    """The three rows of the table of starts, in its order."""

    @property
    def label(self) -> str:
        return f"{self.subject.name}: starts"

    def _runs(self, lam: float) -> list[tuple[Init, Objective]]:
        return [(init, PARTITION.at(lam)) for init in STARTS]


SHOWN_LAMS = (0.0, 0.01, 0.02, *PAPER_GRID)
"""What the table of lambda tries: the paper's candidates and smaller ones."""


class Lambdas(_Partitions):
    """Accuracy of F over lam."""

    @property
    def label(self) -> str:
        return f"{self.subject.name}: accuracy over lambda"

    def _runs(self, lam: float) -> list[tuple[Init, Objective]]:
        return [("sskm", PARTITION.at(shown)) for shown in SHOWN_LAMS]

    def settings(self, needed: Sequence[Result]) -> dict[str, Any]:
        return super().settings([{"lam": None}])
