"""Rehearsal: choose settings by discovering again what is known already.

The published rule scores an unsupervised model on the labelled samples, so it says nothing about new categories. A
rehearsal is the real task in small: some known categories lose all their labels, the others lose some, the
supervised objective is trained on what is left, and what was hidden is the truth to score against. The hidden
categories stand for the new ones. That is the one assumption: known categories are like those nobody has named.

A search goes through several rehearsals. The first tries every candidate, the next ones fewer and fewer of the
best. A single rehearsal's scores are noisy, and the good settings lie on a ridge on which a higher temperature goes
with a lower lam, so neighbours along that ridge are averaged.

The score is the accuracy on what was hidden, with a correction. The truth is known for labelled samples only, so a
hidden category that is merged with a really new one looks as if it had been found. But then its column holds too
many unlabelled samples; each category therefore counts by how much of its column it can account for.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from newkinds.engine import Partitioner, Run
from newkinds.labels import UNLABELLED, IntArray
from newkinds.objective import Objective
from newkinds.selection.problem import Problem
from newkinds.selection.training import Start, Training

ROUNDS = ((1, 1.0), (1, 0.4), (2, 0.2), (4, 0.15))
"""Rehearsals that are held at the same time, and the share of the candidates that take part."""
REHEARSALS = sum(n for n, _ in ROUNDS)
"""Of one search for lam and the temperature."""
HIDDEN_CATEGORIES = HIDDEN_SAMPLES = 1 / 3
"""Shares of the known categories, and of the labelled samples of one that keeps its labels."""
STAGE = f"rehearsing ({{}} of {len(ROUNDS)})"
FIRST_STAGE = STAGE.format(1)
LEAST_SURVIVORS = 3
REHEARSED = 1 << 15
"""Samples on which rehearsals are held: a larger collection gives an excerpt."""
REHEARSAL_START = Start(n_init=1, max_iter=10)
REHEARSAL_TRAINING = Training("lbfgs", max_iter=250, tolerance=3e-4)
"""What is only compared need not converge to the last digit, but settings that converge slowly, those with a high
temperature, must not be judged before they have."""
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

    def recovery(self, columns: IntArray, unlabelled: npt.NDArray[np.bool_]) -> "Recovery":
        """What became of the categories, given every sample's column and which have no label in the problem."""
        n_columns = int(columns.max()) + 1
        categories, rows = np.unique(self.truth, return_inverse=True)
        table = np.zeros((len(categories), n_columns), dtype=np.int64)
        np.add.at(table, (rows, columns[self.hidden]), 1)
        matched_rows, matched_columns = linear_sum_assignment(table, maximize=True)
        column = np.full(len(categories), -1)
        column[matched_rows] = matched_columns
        matched = column >= 0
        recovered, hidden_in_column, unlabelled_in_column = np.zeros((3, len(categories)), dtype=np.int64)
        recovered[matched] = table[matched, column[matched]]
        hidden_in_column[matched] = table.sum(axis=0)[column[matched]]
        unlabelled_in_column[matched] = np.bincount(columns[unlabelled], minlength=n_columns)[column[matched]]
        sizes = table.sum(axis=1)
        kept = np.bincount(self.labels[self.labels != UNLABELLED], minlength=categories.max() + 1)[categories]
        return Recovery(
            sizes, sizes + kept, recovered, hidden_in_column, unlabelled_in_column, categories >= self.n_kept
        )


@dataclass(frozen=True)
class Recovery:
    """What became of the categories in a rehearsal; one number for each category that has hidden samples.

    Attributes
    ----------
    sizes : ndarray
        Hidden samples.
    labelled : ndarray
        Labelled samples of the real problem.
    recovered : ndarray
        Hidden samples of the category in the column that was matched to it.
    hidden_in_column : ndarray
        Hidden samples of any category in that column.
    unlabelled_in_column : ndarray
        Samples in that column that have no label in the real problem.
    is_hidden : ndarray of bool
        Whether the category had lost all its labels.
    """

    sizes: IntArray
    labelled: IntArray
    recovered: IntArray
    hidden_in_column: IntArray
    unlabelled_in_column: IntArray
    is_hidden: npt.NDArray[np.bool_]

    @property
    def shares(self) -> FloatArray:
        """The share of each category's hidden samples that was recovered."""
        return np.asarray(self.recovered / self.sizes)

    @property
    def accuracy(self) -> float:
        return float(self.recovered.sum() / self.sizes.sum())

    @property
    def unlabelled_ratio(self) -> float:
        """Unlabelled samples for each labelled one in the columns of hidden categories that were recovered."""
        clear = self.is_hidden & (2 * self.recovered >= self.sizes) & (self.recovered > 0)
        if not clear.any():
            return float("inf")
        return float(np.median(self.unlabelled_in_column[clear] / self.hidden_in_column[clear]))

    def scores(self, ratio: float) -> FloatArray:
        """`shares`, each times the root of the part of its column that the category can account for.

        `ratio` is the number of unlabelled samples of a known category for each labelled one.
        """
        if not np.isfinite(ratio):
            return self.shares
        accounted_for = self.recovered + ratio * self.labelled * self.shares
        in_column = np.maximum(self.hidden_in_column + self.unlabelled_in_column, 1)
        return np.asarray(self.shares * np.sqrt(np.minimum(accounted_for / in_column, 1.0)))

    def score(self, ratio: float, by_category: bool = False) -> float:
        """Mean of `scores` over the hidden samples, or over the categories."""
        scores = self.scores(ratio)
        return float(scores.mean() if by_category else (scores * self.sizes).sum() / self.sizes.sum())


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


def nearest(settings: Sequence[Setting], wanted: Setting) -> int:
    """Which of some settings is most like another."""

    def distance(setting: Setting) -> float:
        lam = np.log(max(setting.lam, LAMS[0] / 10) / wanted.lam)
        return float(abs(lam) + abs(np.log(setting.temperature / wanted.temperature)))

    return int(np.argmin([distance(setting) for setting in settings]))


@dataclass(frozen=True)
class Rehearsed:
    """How settings did in rehearsals.

    Attributes
    ----------
    chosen : Setting
    settings : tuple of Setting
    scores : ndarray of shape (rehearsals, settings)
        See `Recovery.score`; NaN where a setting had dropped out.
    estimates : ndarray of shape (settings,)
        Mean scores, put on a common level and averaged with those of neighbours; the best one is chosen.
    spread : float
        Standard error of the chosen setting's estimate, over rehearsals.
    """

    chosen: Setting
    settings: tuple[Setting, ...]
    scores: FloatArray
    estimates: FloatArray
    spread: float


def try_settings(
    problem: Problem,
    rehearsals: Sequence[Rehearsal],
    n_categories: int,
    settings: Sequence[Setting],
    *,
    objective: Objective,
    weight_decay: float,
    shares: FloatArray | None = None,
    stage: str = FIRST_STAGE,
) -> tuple[Partitioner, ...]:
    """Train some settings in each of some rehearsals; those of the first rehearsal come first.

    `shares` are those that the marginal is drawn to, by default even ones.
    """
    starts = [REHEARSAL_START.prototypes(problem, n_categories, rehearsal.labels) for rehearsal in rehearsals]
    runs = [
        Run(start, objective.at(setting.lam), setting.temperature, labels=rehearsal.labels, shares=shares)
        for rehearsal, start in zip(rehearsals, starts, strict=True)
        for setting in settings
    ]
    return replace(REHEARSAL_TRAINING, weight_decay=weight_decay).train(problem, runs, stage).partitioners


def rehearse(
    problem: Problem,
    rehearsals: Sequence[Rehearsal],
    n_categories: int,
    settings: Sequence[Setting],
    *,
    objective: Objective,
    weight_decay: float,
    shares: FloatArray | None = None,
    by_category: bool = False,
    tried: tuple[Partitioner, ...] | None = None,
) -> tuple[Rehearsed, tuple[Partitioner, ...]]:
    """Find the best of some settings, and the partitioner it gave in each of the `REHEARSALS`.

    Parameters
    ----------
    problem, rehearsals, n_categories, settings, objective, weight_decay, shares
        As for `try_settings`.
    by_category : bool
        Whether every category counts the same, as it should where the hidden ones are larger than those they stand
        for: otherwise the settings that find the large ones would win.
    tried : tuple of Partitioner, optional
        All settings in the first rehearsal, where they were trained already.
    """
    scores = np.full((len(rehearsals), len(settings)), np.nan)
    alive, estimates = np.arange(len(settings)), np.zeros(len(settings))
    ratio = np.inf
    partitioners: list[dict[int, Partitioner]] = []  # of each rehearsal, by setting
    for round_number, (n_rehearsals, share) in enumerate(ROUNDS):
        n_alive = max(LEAST_SURVIVORS, round(len(settings) * share))
        alive = alive[np.sort(np.argsort(-estimates[alive], kind="stable")[:n_alive])]
        first = len(partitioners)
        current = rehearsals[first : first + n_rehearsals]
        trained = tried if round_number == 0 else None
        if trained is None:
            trained = try_settings(
                problem,
                current,
                n_categories,
                [settings[s] for s in alive.tolist()],
                objective=objective,
                weight_decay=weight_decay,
                shares=shares,
                stage=STAGE.format(round_number + 1),
            )
        for i, rehearsal in enumerate(current):
            of_rehearsal = trained[i * len(alive) : (i + 1) * len(alive)]
            recoveries = [
                rehearsal.recovery(problem.samples.assign(partitioner), ~problem.labelled)
                for partitioner in of_rehearsal
            ]
            if round_number == 0:
                ratio = unlabelled_ratio(recoveries)
            scores[first + i, alive] = [recovery.score(ratio, by_category) for recovery in recoveries]
            partitioners.append(dict(zip(alive.tolist(), of_rehearsal, strict=True)))
        estimates = _smoothed(settings, _levelled(scores[: len(partitioners)], alive))
    best = int(alive[np.argmax(estimates[alive])])
    deviations = scores[:, best] - scores[:, alive].mean(axis=1)
    spread = float(deviations.std(ddof=1) / np.sqrt(len(deviations))) if len(deviations) > 1 else float("nan")
    rehearsed = Rehearsed(settings[best], tuple(settings), scores, estimates, spread)
    return rehearsed, tuple(of_rehearsal[best] for of_rehearsal in partitioners)


def _levelled(scores: FloatArray, alive: IntArray) -> FloatArray:
    """Mean score of each setting.

    Not every setting was in every rehearsal, and rehearsals differ in difficulty: each is taken relative to the
    mean of the settings that are alive.
    """
    level = scores[:, alive].mean(axis=1, keepdims=True)
    return np.asarray(np.nanmean(scores - level, axis=0) + level.mean())


def unlabelled_ratio(recoveries: Sequence[Recovery]) -> float:
    """How many unlabelled samples known categories have for each labelled one.

    Splitting a category does not change the ratio in its columns, merging it with others raises it: so this is the
    least of what the better half of the settings show.
    """
    better = sorted(recoveries, key=lambda recovery: -recovery.accuracy)[: max(1, len(recoveries) // 2)]
    return min(recovery.unlabelled_ratio for recovery in better)


def _smoothed(settings: Sequence[Setting], estimates: FloatArray) -> FloatArray:
    """Average each setting's estimate with those of its neighbours along the ridge, its own counting twice."""
    lams, temperatures = (
        sorted({getattr(setting, name) for setting in settings}) for name in ("lam", "temperature")
    )
    places = np.array([(temperatures.index(setting.temperature), lams.index(setting.lam)) for setting in settings])
    steps = places[:, None] - places
    are_neighbours = (steps.sum(axis=2) == 0) & (np.abs(steps[:, :, 0]) == 1)
    weights = 2.0 * np.eye(len(settings)) + are_neighbours
    return np.asarray(weights @ estimates / weights.sum(axis=1))
