"""Rehearsal: choose settings by discovering again what is known already.

The published rule scores an unsupervised model on the labelled samples, and so says nothing of new categories. A
rehearsal poses the real task in small: some known categories lose all their labels, the others some of theirs, the
supervised objective is trained on what is left, and what was hidden is the truth to score against. The hidden
categories stand for the new ones. That is the one assumption: known categories are like those nobody has named.

A search goes through several rehearsals: the first tries every candidate, the next ones fewer and fewer of the
best. A single rehearsal's scores are noisy, and the good settings lie on a ridge on which a higher temperature goes
with a lower lam, so neighbours along that ridge are averaged.

The score is the accuracy on what was hidden, but not that alone. Truth is known of the labelled samples only, so a
hidden category that is merged with a really new one looks as if it had been found. It does have too many unlabelled
samples in its column, though; each category therefore counts by how much of its column it can account for.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from newkinds.engine import Partitioner, Run, kmeans, optimise
from newkinds.labels import UNLABELLED, IntArray
from newkinds.methods.problem import Problem
from newkinds.objective import Objective

ROUNDS = ((1, 1.0), (1, 0.4), (2, 0.2), (4, 0.15))
"""Rehearsals that are held at the same time, and the share of the candidates that take part."""
REHEARSALS = sum(n for n, _ in ROUNDS)
HIDDEN_CATEGORIES = HIDDEN_SAMPLES = 1 / 3
"""Shares of the known categories, and of the labelled samples of one that keeps its labels."""
LEAST_SURVIVORS = 3
REHEARSED = 1 << 15
"""Samples on which rehearsals are held; of a larger collection an excerpt."""
START_ITERATIONS = 10
"""Of k-means, where only a comparison follows."""
EVALUATIONS = 250
TOLERANCE = 3e-4
"""Of L-BFGS: what is only compared need not converge to the last digit, but settings that converge slowly, those
with a high temperature, must not be judged before they have."""
TEMPERATURES = (10.0, 15.0, 25.0, 40.0, 60.0, 100.0)
LAMS = (0.01, 0.03, 0.1, 0.3, 1.0)
PRODUCTS = (0.4, 15.0)
"""Of lam and temperature, in which candidates lie: below, nothing makes the assignments definite; above, the start
is hardly moved. No set wanted anything outside (docs/notes/rehearsal.md)."""

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rehearsal:
    """A problem of which a part of the labels was hidden.

    Attributes
    ----------
    labels : ndarray of shape (samples,)
        The labels that stay, as columns 0 … n_kept - 1; -1 elsewhere.
    hidden : ndarray of shape (samples,)
        Which samples lost their label.
    truth : ndarray of shape (hidden samples,)
        Their columns: first the categories that keep some labels, then those that lost all.
    n_kept : int
        Categories that keep some labels.
    """

    labels: IntArray
    hidden: npt.NDArray[np.bool_]
    truth: IntArray
    n_kept: int

    def look(self, columns: IntArray, unlabelled: npt.NDArray[np.bool_]) -> "Sighting":
        """What became of the categories, given every sample's column and which have no label in the problem."""
        n_columns = int(columns.max()) + 1
        categories, rows = np.unique(self.truth, return_inverse=True)
        table = np.zeros((len(categories), n_columns), dtype=np.int64)
        np.add.at(table, (rows, columns[self.hidden]), 1)
        those, matched = linear_sum_assignment(table, maximize=True)
        column = np.full(len(categories), -1)
        column[those] = matched
        matching = column >= 0
        found, hidden, others = (np.zeros(len(categories), dtype=np.int64) for _ in range(3))
        found[matching] = table[matching, column[matching]]
        hidden[matching] = table.sum(axis=0)[column[matching]]
        others[matching] = np.bincount(columns[unlabelled], minlength=n_columns)[column[matching]]
        still = np.bincount(self.labels[self.labels != UNLABELLED], minlength=categories.max() + 1)[categories]
        sizes = table.sum(axis=1)
        return Sighting(sizes, sizes + still, found, hidden, others, categories >= self.n_kept)


@dataclass(frozen=True)
class Sighting:
    """What became of the categories in a rehearsal; one number for each that has hidden samples.

    Attributes
    ----------
    sizes : ndarray
        Hidden samples.
    labelled : ndarray
        Labelled samples of the real problem.
    found : ndarray
        Hidden samples of the category in the column that was matched to it.
    in_column : ndarray
        Hidden samples of any category in that column.
    others : ndarray
        Samples in that column that have no label in the real problem.
    is_hidden : ndarray of bool
        Whether the category had lost all its labels.
    """

    sizes: IntArray
    labelled: IntArray
    found: IntArray
    in_column: IntArray
    others: IntArray
    is_hidden: npt.NDArray[np.bool_]

    @property
    def shares(self) -> FloatArray:
        """Of each category, the share of its hidden samples that was found."""
        return np.asarray(self.found / self.sizes)

    @property
    def accuracy(self) -> float:
        return float(self.found.sum() / self.sizes.sum())

    @property
    def unlabelled_ratio(self) -> float:
        """Unlabelled samples for each labelled one in the columns of hidden categories that were found."""
        clear = self.is_hidden & (2 * self.found >= self.sizes) & (self.found > 0)
        if not clear.any():
            return float("inf")
        return float(np.median(self.others[clear] / self.in_column[clear]))

    def scores(self, ratio: float) -> FloatArray:
        """`shares`, each times the root of the part of its column that the category can account for.

        `ratio` is the number of unlabelled samples of a known category for each labelled one.
        """
        if not np.isfinite(ratio):
            return self.shares
        own = self.found + ratio * self.labelled * self.shares
        return np.asarray(self.shares * np.sqrt(np.minimum(own / np.maximum(self.in_column + self.others, 1), 1.0)))

    def score(self, ratio: float) -> float:
        """Mean of `scores` over the hidden samples."""
        return float((self.scores(ratio) * self.sizes).sum() / self.sizes.sum())


def draw_rehearsals(problem: Problem, n_rehearsals: int) -> list[Rehearsal]:
    """Rehearsals in pairs, which hide different categories.

    At least one category is hidden and at least one keeps labels, and in it at least one sample: two known
    categories are needed.
    """
    n_known = problem.n_known
    if n_known < 2:
        raise ValueError("a rehearsal needs two known categories")
    generator = np.random.default_rng(problem.rng.randint(2**31 - 1))
    n_hidden = max(1, int(n_known * HIDDEN_CATEGORIES))
    rehearsals, order = [], np.arange(n_known)
    for i in range(n_rehearsals):
        # The second of a pair takes the other end of the same order.
        order = generator.permutation(n_known) if i % 2 == 0 else order[::-1]
        number = np.empty(n_known, dtype=np.int64)  # of a known category in this rehearsal: hidden ones last
        number[order] = np.arange(n_known)
        n_kept = n_known - n_hidden
        renumbered = np.where(problem.labelled, number[problem.columns], UNLABELLED)
        labels = np.where(renumbered < n_kept, renumbered, UNLABELLED)
        for category in range(n_kept):
            members = np.flatnonzero(labels == category)
            n_lost = min(len(members) - 1, round(len(members) * HIDDEN_SAMPLES))
            labels[generator.choice(members, n_lost, replace=False)] = UNLABELLED
        hidden = problem.labelled & (labels == UNLABELLED)
        rehearsals.append(Rehearsal(labels, hidden, renumbered[hidden], n_kept))
    return rehearsals


@dataclass(frozen=True)
class Setting:
    """What a search chooses."""

    lam: float
    temperature: float


def candidates(lams: Sequence[float] | None = None, temperatures: Sequence[float] | None = None) -> list[Setting]:
    """All pairs of lams and temperatures; where neither is given, those pairs of our own that are sensible."""
    pairs = itertools.product(temperatures or TEMPERATURES, lams or LAMS)
    least, most = PRODUCTS if lams is None and temperatures is None else (0.0, np.inf)
    return [Setting(lam, temperature) for temperature, lam in pairs if least <= lam * temperature <= most]


@dataclass(frozen=True)
class Rehearsed:
    """How settings did in rehearsals.

    Attributes
    ----------
    chosen : Setting
    settings : tuple of Setting
    scores : ndarray of shape (rehearsals, settings)
        See `Sighting.score`; NaN where a setting had dropped out.
    estimates : ndarray of shape (settings,)
        Mean scores, put on a common level and averaged with those of neighbours: what was chosen by.
    spread : float
        Standard error of the chosen setting's estimate, over rehearsals.
    """

    chosen: Setting
    settings: tuple[Setting, ...]
    scores: FloatArray
    estimates: FloatArray
    spread: float


def rehearse(
    problem: Problem,
    rehearsals: Sequence[Rehearsal],
    n_categories: int,
    settings: Sequence[Setting],
    *,
    objective: Objective,
    weight_decay: float,
    stage: str = "rehearsing",
) -> tuple[Rehearsed, tuple[Partitioner, ...]]:
    """Find the best of some settings, and what it gave in each of the `REHEARSALS`."""
    scores = np.full((len(rehearsals), len(settings)), np.nan)
    alive, estimates = np.arange(len(settings)), np.zeros(len(settings))
    ratio = np.inf
    found: list[dict[int, Partitioner]] = []
    for round_number, (n_rehearsals, share) in enumerate(ROUNDS):
        n_alive = max(LEAST_SURVIVORS, round(len(settings) * share))
        alive = alive[np.sort(np.argsort(-estimates[alive], kind="stable")[:n_alive])]
        first = len(found)
        held = rehearsals[first : first + n_rehearsals]
        starts = [semi_supervised_start(problem, rehearsal.labels, n_categories) for rehearsal in held]
        runs = [
            Run(start, objective.at(settings[s].lam), settings[s].temperature, labels=rehearsal.labels)
            for rehearsal, start in zip(held, starts, strict=True)
            for s in alive.tolist()
        ]
        part = f"{stage} ({round_number + 1} of {len(ROUNDS)})"
        trained = train(problem, runs, weight_decay=weight_decay, stage=part)
        for i, rehearsal in enumerate(held):
            own = trained[i * len(alive) : (i + 1) * len(alive)]
            seen = [rehearsal.look(problem.samples.assign(each), ~problem.labelled) for each in own]
            if round_number == 0:
                ratio = unlabelled_ratio(seen)
            scores[first + i, alive] = [each.score(ratio) for each in seen]
            found.append(dict(zip(alive.tolist(), own, strict=True)))
        estimates = _smoothed(settings, _levelled(scores[: len(found)], alive))
    best = int(alive[np.argmax(estimates[alive])])
    deviations = scores[:, best] - scores[:, alive].mean(axis=1)
    spread = float(deviations.std(ddof=1) / np.sqrt(len(deviations))) if len(deviations) > 1 else float("nan")
    rehearsed = Rehearsed(settings[best], tuple(settings), scores, estimates, spread)
    return rehearsed, tuple(each[best] for each in found)


def semi_supervised_start(
    problem: Problem, labels: IntArray, n_categories: int, n_init: int = 1
) -> npt.NDArray[np.float32]:
    """Prototypes by semi-supervised k-means."""
    return kmeans(
        problem.samples,
        n_categories,
        labels=labels,
        seeding="d2",
        n_init=n_init,
        max_iter=START_ITERATIONS,
        rng=problem.rng,
    ).centroids


def train(problem: Problem, runs: list[Run], *, weight_decay: float, stage: str) -> tuple[Partitioner, ...]:
    """Train runs that only serve a comparison."""
    return optimise(
        problem.samples,
        runs,
        labels=problem.columns,
        solver="lbfgs",
        max_iter=EVALUATIONS,
        weight_decay=weight_decay,
        tolerance=TOLERANCE,
        stage=stage,
    ).partitioners


def _levelled(scores: FloatArray, alive: IntArray) -> FloatArray:
    """Mean score of each setting.

    Not every setting was in every rehearsal, and rehearsals differ in difficulty: each is taken relative to the
    mean of the settings that are alive.
    """
    level = scores[:, alive].mean(axis=1, keepdims=True)
    return np.asarray(np.nanmean(scores - level, axis=0) + level.mean())


def unlabelled_ratio(seen: Sequence[Sighting]) -> float:
    """How many unlabelled samples known categories have for each labelled one.

    Splitting a category does not change what is found in its columns, merging it with others adds to it: the least
    of what the better settings show.
    """
    best = sorted(seen, key=lambda each: -each.accuracy)[: max(1, len(seen) // 2)]
    return min(each.unlabelled_ratio for each in best)


def _smoothed(settings: Sequence[Setting], estimates: FloatArray) -> FloatArray:
    """Average each setting's estimate with those of its neighbours along the ridge, its own counting twice."""
    lams, temperatures = (
        sorted({getattr(setting, name) for setting in settings}) for name in ("lam", "temperature")
    )
    places = np.array([(temperatures.index(each.temperature), lams.index(each.lam)) for each in settings])
    apart = places[:, None] - places
    along = (apart.sum(axis=2) == 0) & (np.abs(apart[:, :, 0]) == 1)
    weights = 2.0 * np.eye(len(settings)) + along
    return np.asarray(weights @ estimates / weights.sum(axis=1))
