"""What a benchmark computes: jobs, each with a result for every seed.

A job may need the results of others (the ablation needs the lam that PIM chose). Results are plain values, so that
they can be kept: see `newkinds.benchmark.runner`.
"""

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

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
from newkinds.names import CountRule, Init, RecipeName
from newkinds.objective import ABLATION, PARTITION, Objective
from newkinds.selection.n_categories import estimate_n_categories
from newkinds.selection.recipes import PAPER_GRID

Result = dict[str, Any]
When = Literal["usual", "exact", "asked"]
"""When a row is computed: always; by the paper's procedure, with `--exact`; or only where it is named."""
COUNT_RESTARTS = 3
"""Restarts of each k-means in a search for the number of categories: it runs dozens, with up to 1000 clusters."""
RULE = "pim-rule"
"""The row whose lam the tables of variants of PIM take."""
GIVEN_BY_JOB = ("n_categories", "device", "random_state")
"""Parameters of an estimator that a job sets."""


@dataclass(frozen=True)
class Method:
    """A row of the tables: its name for the command line, here and in the paper, and the estimator.

    Attributes
    ----------
    key, label : str
    estimator : CategoryDiscoverer
    published : str, optional
        The row of the paper that stands beside.
    when : {"usual", "exact", "asked"}
    counter : str, optional
        Key of the estimate of the number of categories that goes with it.
    note : str
        What one has to know to read it: start, solver, restarts.
    cost : float
        Seconds that a core takes, by experience, for 10⁹ samples times features times categories.
    """

    key: str
    label: str
    estimator: CategoryDiscoverer
    published: str | None = None
    when: When = "usual"
    counter: str | None = None
    note: str = ""
    cost: float = 100.0

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


@dataclass(frozen=True)
class Counter:
    """A row of the table of estimated numbers of categories; see `Method`."""

    key: str
    label: str
    rule: CountRule
    recipe: RecipeName = "newkinds"
    published: str | None = None
    when: When = "usual"
    n_init: int = COUNT_RESTARTS
    note: str = ""
    cost: float = 100.0

    @property
    def settings(self) -> dict[str, Any]:
        return {"count": self.rule, "recipe": self.recipe, "n_init": self.n_init}


COUNTERS = (
    Counter(
        "max-acc-kmeans",
        "Max-ACC, k-means",
        "max-acc-kmeans",
        published="Max-ACC (GCD)",
        note=f"{COUNT_RESTARTS} restarts of greedy k-means++ for every number that is tried.",
        cost=120,
    ),
    Counter(
        "max-acc-gcd",
        "Max-ACC, k-means as published",
        "max-acc-kmeans",
        published="Max-ACC (GCD)",
        when="exact",
        n_init=10,
        note="10 restarts of greedy k-means++, as scikit-learn's has.",
        cost=240,
    ),
    Counter(
        "max-acc-pim",
        "Max-ACC, PIM by our solver and start",
        "max-acc-pim",
        published="Max-ACC (PIM)",
        note=f"G at λ 1, from k-means ({COUNT_RESTARTS} restarts), by L-BFGS.",
        cost=185,
    ),
    Counter(
        "max-acc-paper",
        "Max-ACC, PIM as published",
        "max-acc-pim",
        recipe="paper",
        published="Max-ACC (PIM)",
        when="exact",
        note="G at λ 1, from k-means++ seeds, 500 epochs of Adam.",
        cost=800,
    ),
    Counter("rehearsal", "rehearsal, Newkinds", "rehearsal", cost=230),
)
"""Every row of that table, in its order."""
COUNTER_BY_KEY = {counter.key: counter for counter in COUNTERS}

HEAD = ", head on frozen features"
"""Ends the label of a method that was published with an encoder trained along."""
_AT_ONE = "λ 1, temperature 25, from ssKM (10 restarts), L-BFGS."
_ROWS = (
    Method("kmeans", "k-means", KMeans(), "k-means", note="greedy k-means++, 10 restarts.", cost=16),
    Method("rankstats", f"RankStats+{HEAD}", RankStats(), cost=85),
    Method("uno", f"UNO+{HEAD}", UNO(), cost=125),
    Method("orca", f"ORCA{HEAD}", ORCA(), cost=85),
    Method("simgcd", f"SimGCD{HEAD}", SimGCD(), cost=65),
    Method(
        "sskm",
        "semi-supervised k-means, 10 restarts",
        SemiSupervisedKMeans(seeding="d2", max_iter=200),
        "GCD",
        counter="max-acc-kmeans",
        note="plain k-means++, 200 iterations; GCD has 100 restarts.",
        cost=12,
    ),
    Method(
        "gcd",
        "GCD (semi-supervised k-means)",
        SemiSupervisedKMeans(seeding="d2", n_init=100, max_iter=200),
        "GCD",
        when="exact",
        counter="max-acc-gcd",
        note="GCD's constants: plain k-means++, 100 restarts, 200 iterations.",
        cost=165,
    ),
    Method("rim", "RIM", RIM(temperature=TEMPERATURE), "RIM (semi-sup.)", note=_AT_ONE, cost=20),
    Method("tim", "TIM", TIM(temperature=TEMPERATURE), "TIM", note=_AT_ONE, cost=33),
    Method(
        RULE,
        "PIM, λ by labelled accuracy",
        PIM(lam="labelled", temperature=TEMPERATURE, consensus=1),
        "PIM",
        counter="max-acc-pim",
        note="the paper's rule and temperature (25), our start and solver: G from k-means (3 restarts), F from "
        "ssKM (10 restarts), L-BFGS.",
        cost=72,
    ),
    Method(
        "pim-paper",
        "PIM as published",
        PIM(recipe="paper"),
        "PIM",
        when="exact",
        counter="max-acc-paper",
        note="the paper's procedure: G from k-means++ seeds, F from ssKM (10 restarts; not stated), 1000 epochs of "
        "Adam.",
        cost=1200,
    ),
    Method(
        "pim-release",
        "PIM, released settings",
        PIM(recipe="release"),
        "PIM",
        when="asked",
        note="the authors' code: G from k-means, each λ from the one before; ssKM with 100 restarts; Adam.",
        cost=1500,
    ),
    Method(
        "pim-cosine",
        "PIM, Newkinds, cosine",
        PIM(metric="cosine"),
        counter="rehearsal",
        note="As the next row, but samples are compared by the plain cosine to the end.",
        cost=380,
    ),
    Method(
        "pim",
        "PIM, Newkinds",
        PIM(),
        counter="rehearsal",
        note="Metric, λ and temperature by rehearsal, a consensus of eight starts, L-BFGS.",
        cost=430,
    ),
)
METHODS = with_every_method(_ROWS, ESTIMATORS)
"""Every row of the tables of methods, in their order."""
BY_KEY = {method.key: method for method in METHODS}


def methods_named(keys: Sequence[str] | None, exact: bool = False) -> list[Method]:
    """The methods with these keys, by default the usual ones; and the exact ones if wanted in the tables' order."""
    if keys is None:
        keys = [method.key for method in METHODS if method.when == "usual"]
    if unknown := [key for key in keys if key not in BY_KEY]:
        raise InputError(f"there is no method {', '.join(map(repr, unknown))}; choose from {', '.join(BY_KEY)}")
    return [method for method in METHODS if method.key in keys or (exact and method.when == "exact")]


def counters_for(methods: Sequence[Method], exact: bool = False) -> list[Counter]:
    """The usual estimates of the number of categories, the exact ones too, or as far as methods go with them."""
    needed = {method.counter for method in methods}
    return [
        counter
        for counter in COUNTERS
        if counter.when == "usual" or (exact and counter.when == "exact") or counter.key in needed
    ]


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

    @property
    def cost(self) -> float:
        """See `Method`."""
        return 100.0

    @property
    def expected_seconds(self) -> float:
        """That a core takes for one seed, about."""
        n_values: int = self.subject.collection.features.size
        return self.cost * n_values * self.subject.n_categories / 1e9

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

    counter: Counter

    @property
    def label(self) -> str:
        return f"{self.subject.name}: number of categories, {self.counter.key}"

    @property
    def cost(self) -> float:
        return self.counter.cost

    def settings(self, needed: Sequence[Result]) -> dict[str, Any]:
        return self.counter.settings

    def compute(self, seeds: Sequence[int], needed: Sequence[Sequence[Result]], device: str) -> list[Result]:
        results = []
        for seed in seeds:
            began = time.perf_counter()
            count = estimate_n_categories(
                self.subject.collection.features,
                self.subject.labels,
                self.counter.rule,
                n_init=self.counter.n_init,
                recipe=self.counter.recipe,
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
    counter: Counter | None = None

    @property
    def needs(self) -> tuple[Job, ...]:
        return () if self.counter is None else (Count(self.subject, self.counter),)

    @property
    def label(self) -> str:
        return f"{self.subject.name}: {self.method.key}" + ("" if self.counter is None else " at estimated K")

    @property
    def cost(self) -> float:
        return self.method.cost

    def _n_categories(self, needed: Sequence[Result]) -> int:
        return self.subject.n_categories if self.counter is None else int(needed[0]["k"])

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
    """Variants of PIM at the lam that the labelled accuracy chose, trained for all seeds at once."""

    together: ClassVar[bool] = True

    @property
    def needs(self) -> tuple[Job, ...]:
        return (Fit(self.subject, BY_KEY[RULE]),)

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

    @property
    def cost(self) -> float:
        return 54

    def _runs(self, lam: float) -> list[tuple[Init, Objective]]:
        return [("sskm", objective.at(lam)) for objective in ABLATION]


STARTS: tuple[Init, ...] = ("ssrandom", "sskm++", "sskm")
"""In the order of the paper's table."""


class Starts(_Partitions):
    """The three rows of the table of starts, in its order."""

    @property
    def label(self) -> str:
        return f"{self.subject.name}: starts"

    @property
    def cost(self) -> float:
        return 35

    def _runs(self, lam: float) -> list[tuple[Init, Objective]]:
        return [(init, PARTITION.at(lam)) for init in STARTS]


SHOWN_LAMS = (0.0, 0.01, 0.02, *PAPER_GRID)
"""What the table of lambda tries: the paper's candidates and smaller ones."""


class Lambdas(_Partitions):
    """Accuracy of F over lam."""

    @property
    def label(self) -> str:
        return f"{self.subject.name}: accuracy over lambda"

    @property
    def cost(self) -> float:
        return 180

    def _runs(self, lam: float) -> list[tuple[Init, Objective]]:
        return [("sskm", PARTITION.at(shown)) for shown in SHOWN_LAMS]

    def settings(self, needed: Sequence[Result]) -> dict[str, Any]:
        return super().settings([{"lam": None}])
