"""What a benchmark computes: jobs, of which each gives a result for every seed.

A job may need the results of others (the ablation needs the lam that PIM chose). Results are plain values, so that
they can be kept: see `newkinds.benchmark.runner`.
"""

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from newkinds.benchmark.partitions import partitions
from newkinds.benchmark.subjects import Subject
from newkinds.engine import TEMPERATURE
from newkinds.errors import InputError
from newkinds.labels import IntArray
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
from newkinds.names import INITS, CountRule, Init
from newkinds.objective import ABLATION, PARTITION, Objective
from newkinds.selection.n_categories import estimate_n_categories
from newkinds.selection.recipes import PAPER_GRID

Result = dict[str, Any]
COUNT_RESTARTS = 3
"""Of each k-means in the searches for the number of categories: dozens of them, with up to 1000 clusters."""


@dataclass(frozen=True)
class Method:
    """A row of the tables: what it is called, here and in the paper, and the estimator.

    One that is not `usual` has to be asked for.
    """

    key: str
    label: str
    estimator: CategoryDiscoverer
    published: str | None = None
    usual: bool = True

    @property
    def settings(self) -> dict[str, Any]:
        """Of the estimator, but for those that a job gives it."""
        parameters, own = self.estimator.get_params(), ("n_categories", "device", "random_state")
        return {
            "method": type(self.estimator).__name__,
            **{name: value for name, value in parameters.items() if name not in own},
        }


HEAD = ", head on frozen features"
"""How the names of the methods end that were published with an encoder trained along."""
METHODS: tuple[Method, ...] = (
    Method("kmeans", "k-means", KMeans(), "k-means"),
    Method("rankstats", f"RankStats+{HEAD}", RankStats(), "RankStats+"),
    Method("uno", f"UNO+{HEAD}", UNO(), "UNO+"),
    Method("orca", f"ORCA{HEAD}", ORCA(), "ORCA (ViT-B/16)"),
    Method("simgcd", f"SimGCD{HEAD}", SimGCD()),
    Method("sskm", "GCD (semi-supervised k-means)", SemiSupervisedKMeans(), "GCD"),
    Method("rim", "RIM", RIM(temperature=TEMPERATURE), "RIM (semi-sup.)"),
    Method("tim", "TIM", TIM(temperature=TEMPERATURE), "TIM"),
    Method("pim-paper", "PIM, published rule", PIM(lam="labelled", temperature=TEMPERATURE, consensus=1), "PIM"),
    Method("pim-release", "PIM, released settings", PIM(recipe="release"), "PIM", usual=False),
    Method("pim", "PIM, Newkinds", PIM()),
)
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
    """Whether all seeds are computed at once; otherwise one after the other, so that little is lost."""

    @property
    def needs(self) -> tuple["Job", ...]:
        """Jobs whose results this one takes."""
        return ()

    @property
    @abstractmethod
    def label(self) -> str:
        """What is going on, for whoever waits."""

    @abstractmethod
    def settings(self, given: Sequence[Result]) -> dict[str, Any]:
        """Everything that the result depends on beside the samples and the seed; `given` are the results needed."""

    @abstractmethod
    def compute(self, seeds: Sequence[int], given: Sequence[Sequence[Result]], device: str) -> list[Result]:
        """A result for each seed; `given[i]` are the results needed for the i-th."""


@dataclass(frozen=True)
class Count(Job):
    """Estimate the number of categories."""

    rule: CountRule

    @property
    def label(self) -> str:
        return f"{self.subject.name}: number of categories, {self.rule}"

    def settings(self, given: Sequence[Result]) -> dict[str, Any]:
        return {"count": self.rule, "n_init": COUNT_RESTARTS}

    def compute(self, seeds: Sequence[int], given: Sequence[Sequence[Result]], device: str) -> list[Result]:
        results = []
        for seed in seeds:
            began = time.perf_counter()
            found = estimate_n_categories(
                self.subject.collection.features,
                self.subject.labels,
                self.rule,
                n_init=COUNT_RESTARTS,
                device=device,
                random_state=seed,
            )
            seconds = time.perf_counter() - began
            results.append({"k": found.n_categories, "interval": found.interval, "seconds": seconds})
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

    def _n_categories(self, given: Sequence[Result]) -> int:
        return self.subject.n_categories if self.counted_by is None else int(given[0]["k"])

    def settings(self, given: Sequence[Result]) -> dict[str, Any]:
        return {"fit": self.method.settings | {"n_categories": self._n_categories(given)}}

    def compute(self, seeds: Sequence[int], given: Sequence[Sequence[Result]], device: str) -> list[Result]:
        results = []
        for seed, own in zip(seeds, given, strict=True):
            parameters = self.method.estimator.get_params() | {"n_categories": self._n_categories(own)}
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
    """Trainings of PIM's kind at the lam that PIM chose by the published rule, all seeds at once."""

    together: ClassVar[bool] = True

    @property
    def needs(self) -> tuple[Job, ...]:
        return (Fit(self.subject, BY_KEY["pim-paper"]),)

    @abstractmethod
    def _runs(self, lam: float) -> list[tuple[Init, Objective]]:
        """Start and objective of each training of a seed."""

    def settings(self, given: Sequence[Result]) -> dict[str, Any]:
        runs = [[init, repr(objective)] for init, objective in self._runs(given[0]["lam"])]
        return {"partitions": runs, "n_categories": self.subject.n_categories, "temperature": TEMPERATURE}

    def compute(self, seeds: Sequence[int], given: Sequence[Sequence[Result]], device: str) -> list[Result]:
        of_seeds = [self._runs(own[0]["lam"]) for own in given]
        began = time.perf_counter()
        found: list[IntArray] = partitions(
            self.subject.collection.features,
            self.subject.labels,
            [(seed, *run) for seed, runs in zip(seeds, of_seeds, strict=True) for run in runs],
            self.subject.n_categories,
            temperature=TEMPERATURE,
            device=device,
        )
        seconds = (time.perf_counter() - began) / len(seeds)
        scores = iter([self.subject.score(columns) for columns in found])
        return [
            {
                "runs": [f"{init}, {objective}" for init, objective in runs],
                "scores": [next(scores) for _ in runs],
                "seconds": seconds,
            }
            for runs in of_seeds
        ]


class Ablation(_Partitions):
    """The six rows of the table of loss terms."""

    @property
    def label(self) -> str:
        return f"{self.subject.name}: loss terms"

    def _runs(self, lam: float) -> list[tuple[Init, Objective]]:
        return [("sskm", objective.at(lam)) for objective in ABLATION]


STARTS: tuple[Init, ...] = ("ssrandom", "sskm++", "sskm")
"""In the order of the paper's table."""
assert set(STARTS) == set(INITS)


class Starts(_Partitions):
    """The three rows of the table of starts."""

    @property
    def label(self) -> str:
        return f"{self.subject.name}: starts"

    def _runs(self, lam: float) -> list[tuple[Init, Objective]]:
        return [(init, PARTITION.at(lam)) for init in STARTS]


SHOWN_LAMS = (0.0, 0.01, 0.02, *PAPER_GRID)
"""Of the figure of lambda: the paper's candidates and smaller ones."""


class Lambdas(_Partitions):
    """Accuracy of F over lam."""

    @property
    def label(self) -> str:
        return f"{self.subject.name}: accuracy over lambda"

    def _runs(self, lam: float) -> list[tuple[Init, Objective]]:
        return [("sskm", PARTITION.at(each)) for each in SHOWN_LAMS]

    def settings(self, given: Sequence[Result]) -> dict[str, Any]:
        return super().settings([{"lam": None}])
