"""Rehearsal: choose settings by discovering again what is known already.

The published rule scores an unsupervised model on the labelled samples, so it says nothing about new categories. A
rehearsal is the real task in small: some known categories lose all their labels, the others lose some, the
supervised objective is trained on what is left, and what was hidden is the truth to score against. The hidden
categories stand for the new ones. That is the one assumption: known categories are like those nobody has named.

A search goes through several rehearsals. The first tries every candidate, the next ones those that are not clearly
behind. How noisy a rehearsal is depends on how many categories it hides: where few are known there are more
rehearsals. The good settings lie on a ridge on which a higher temperature goes with a lower lam; neighbours along
it are averaged.

The candidates are trained by the plain cosine, in few directions. What the best of them finds is then refined: in
each rehearsal, in the metric that its kept labels and the samples it is sure of teach, never by what it hides (see
`newkinds.selection.metric`). Some settings of that second training, and to leave it out, are compared likewise.

The score is the accuracy on what was hidden, with a correction. The truth is known for labelled samples only, so a
hidden category that is merged with a really new one looks as if it had been found. But then its column holds too
many unlabelled samples; each category therefore counts by how much of its column it can account for.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from newkinds.engine import Partitioner, Run
from newkinds.labels import UNLABELLED, IntArray
from newkinds.objective import Objective
from newkinds.selection.efforts import NORMAL, Effort
from newkinds.selection.problem import Problem
from newkinds.selection.refinement import refine
from newkinds.selection.settings import Setting
from newkinds.selection.training import Start, Training

HIDDEN_CATEGORIES = HIDDEN_SAMPLES = 1 / 3
"""Shares of the known categories, and of the labelled samples of one that keeps its labels."""
NOISE = 0.12
"""Standard deviation of the difference between two settings' scores, if one category is hidden; of n, the root of n
times less. It is about the same everywhere: 0.08 to 0.18 on 24 collections (docs/notes/metric.md)."""
ENOUGH = 4
"""Rehearsals after which a search ends if a single setting is left."""
CLEARLY = 2.0
"""Standard errors by which a setting must be behind the best to drop out."""
REFINEMENT_NOISE = 0.05
"""As `NOISE`, of settings in a metric: they start from the same partition, and end in similar ones."""
BETTER = 2.0
"""Standard errors by which another refinement must be better than the usual one."""
STAGE = "rehearsing ({} of {})"
REFINING_STAGE = "rehearsing the refinement ({} of {})"
REHEARSED = 1 << 14
"""Samples on which rehearsals are held: a larger collection gives an excerpt."""
REHEARSAL_START = Start(n_init=1, max_iter=10)
REHEARSAL_TRAINING = Training("lbfgs", max_iter=250, tolerance=3e-4)
"""What is only compared need not converge to the last digit, but settings that converge slowly, those with a high
temperature, must not be judged before they have."""
REFINING_TRAINING = Training("lbfgs", max_iter=100, tolerance=1e-3)
"""Of a refinement, which begins near its end."""

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
    n_hidden = n_hidden_categories(n_known)
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
class Rehearsed:
    """How settings did in rehearsals.

    Attributes
    ----------
    chosen : Setting
    firsts : tuple of Setting
        The best by the cosine and those that are not clearly behind it, best first.
    settings : tuple of Setting
        Those by the cosine come first.
    scores : ndarray of shape (rehearsals, settings)
        See `Recovery.score`; NaN where a setting did not take part.
    estimates : ndarray of shape (settings,)
        Mean scores, put on a common level; those by the cosine are averaged with those of neighbours.
    spread : float
        Standard error of the chosen setting's estimate, over rehearsals.
    """

    chosen: Setting
    firsts: tuple[Setting, ...]
    settings: tuple[Setting, ...]
    scores: FloatArray
    estimates: FloatArray
    spread: float


@dataclass(frozen=True)
class Trial:
    """A rehearsal, and the partitioner that a setting gave in it.

    The problem holds the samples as the partitioner takes them: in few directions, or in the rehearsal's metric.
    """

    rehearsal: Rehearsal
    problem: Problem
    partitioner: Partitioner

    @property
    def columns(self) -> IntArray:
        return self.problem.samples.assign(self.partitioner)

    @property
    def recovery(self) -> Recovery:
        return self.rehearsal.recovery(self.columns, ~self.problem.labelled)


def n_rehearsals(n_known: int, effort: Effort = NORMAL) -> int:
    """How many rehearsals make differences between settings as precise as they should be.

    Examples
    --------
    >>> n_rehearsals(100), n_rehearsals(38), n_rehearsals(5)
    (2, 6, 8)
    """
    least, most = effort.rehearsals
    return min(max(math.ceil((NOISE / effort.precision) ** 2 / n_hidden_categories(n_known)), least), most)


def n_hidden_categories(n_known: int) -> int:
    """Categories that lose all labels in a rehearsal."""
    return max(1, int(n_known * HIDDEN_CATEGORIES))


def try_settings(
    problem: Problem,
    rehearsals: Sequence[Rehearsal],
    numbers: Sequence[int],
    settings: Sequence[Setting],
    *,
    objective: Objective,
    weight_decay: float,
    shares: Sequence[FloatArray | None] | None = None,
    stage: str,
) -> list[tuple[Partitioner, ...]]:
    """Train some settings in each of some rehearsals, with each of some numbers of categories, all in one batch.

    `shares` are those that the marginal is drawn to, for each number; by default even ones.

    Returns
    -------
    list of tuple of Partitioner
        One for each number; those of the first rehearsal come first.
    """
    labels = np.stack([rehearsal.labels for rehearsal in rehearsals])
    starts = REHEARSAL_START.of_each(problem, numbers, labels, len(rehearsals))
    runs = [
        Run(start, objective.at(setting.lam), setting.temperature, labels=rehearsal.labels, shares=drawn_to)
        for of_rehearsals, drawn_to in zip(starts, shares or [None] * len(numbers), strict=True)
        for rehearsal, start in zip(rehearsals, of_rehearsals, strict=True)
        for setting in settings
    ]
    trained = replace(REHEARSAL_TRAINING, weight_decay=weight_decay).train(problem, runs, stage).partitioners
    of_number = len(rehearsals) * len(settings)
    return [trained[first : first + of_number] for first in range(0, len(trained), of_number)]


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
) -> tuple[Rehearsed, list[Trial], float]:
    """Find the best of some settings by the cosine.

    Parameters
    ----------
    problem, rehearsals, n_categories, settings, objective, weight_decay, shares
        As for `try_settings`. Not all rehearsals are held if the best is clear before.
    by_category : bool
        Whether every category counts the same, as it should where the hidden ones are larger than those they stand
        for: otherwise the settings that find the large ones would win.
    tried : tuple of Partitioner, optional
        All settings in the first rehearsal, where they were trained already.

    Returns
    -------
    rehearsed : Rehearsed
    trials : list of Trial
        What the setting chosen gave.
    ratio : float
        Unlabelled samples of known categories for each labelled one, which scores were computed with.
    """
    scores = np.full((len(rehearsals), len(settings)), np.nan)
    alive, estimates = np.arange(len(settings)), np.zeros(len(settings))
    ratio = np.inf
    trials: list[dict[int, Trial]] = []  # of each rehearsal, by setting
    for i, rehearsal in enumerate(rehearsals):
        partitioners = tried if i == 0 else None
        if partitioners is None:
            (partitioners,) = try_settings(
                problem,
                [rehearsal],
                [n_categories],
                [settings[s] for s in alive.tolist()],
                objective=objective,
                weight_decay=weight_decay,
                shares=[shares],
                stage=STAGE.format(i + 1, len(rehearsals)),
            )
        trials.append({s: Trial(rehearsal, problem, p) for s, p in zip(alive.tolist(), partitioners, strict=True)})
        recoveries = [trial.recovery for trial in trials[-1].values()]
        if i == 0:
            ratio = unlabelled_ratio(recoveries)
        scores[i, alive] = [recovery.score(ratio, by_category) for recovery in recoveries]
        estimates = _smoothed(settings, _levelled(scores[: i + 1], alive))
        error = NOISE / math.sqrt(n_hidden_categories(problem.n_known) * (i + 1))
        alive = alive[estimates[alive] >= estimates[alive].max() - CLEARLY * error]
        if len(alive) == 1 and i + 1 >= ENOUGH:
            break
    scores = scores[: len(trials)]
    alive = alive[np.argsort(-estimates[alive], kind="stable")]
    best = int(alive[0])
    firsts = tuple(settings[s] for s in alive.tolist())
    spread = _spread(scores[:, best] - scores[:, alive].mean(axis=1))
    rehearsed = Rehearsed(settings[best], firsts, tuple(settings), scores, estimates, spread)
    return rehearsed, [of_rehearsal[best] for of_rehearsal in trials], ratio


def rehearse_refinements(
    problem: Problem,
    rehearsed: Rehearsed,
    trials: Sequence[Trial],
    settings: Sequence[Setting],
    *,
    ratio: float,
    objective: Objective,
    weight_decay: float,
    shares: FloatArray | None = None,
    by_category: bool = False,
    may_be_left_out: bool = True,
) -> tuple[Rehearsed, list[Trial]]:
    """Find the best setting of the training in a metric that follows on the one by the cosine.

    Parameters
    ----------
    problem : Problem
        The one that was rehearsed, with samples as wide as they are.
    rehearsed, trials, ratio
        From `rehearse`.
    settings : sequence of Setting
        All in the same metric, the usual one first.
    objective, weight_decay, shares, by_category
        As for `rehearse`.
    may_be_left_out : bool
        Whether the setting by the cosine can stay the one chosen.
    """
    training = replace(REFINING_TRAINING, weight_decay=weight_decay)
    scores = np.empty((len(trials), len(settings)))
    refined_trials: list[list[Trial]] = []
    for i, trial in enumerate(trials):
        labels = trial.rehearsal.labels
        refined = refine(problem, labels, trial.problem.samples, trial.partitioner, settings[0].metric)
        runs = [
            Run(refined.start, objective.at(setting.lam), setting.temperature, labels=labels, shares=shares)
            for setting in settings
        ]
        trained = training.train(refined.problem, runs, REFINING_STAGE.format(i + 1, len(trials)))
        refined_trials.append([Trial(trial.rehearsal, refined.problem, one) for one in trained.partitioners])
        scores[i] = [each.recovery.score(ratio, by_category) for each in refined_trials[-1]]
    means = scores.mean(axis=0)
    error = REFINEMENT_NOISE / math.sqrt(n_hidden_categories(problem.n_known) * len(trials))
    best = int(np.argmax(means))
    best = best if means[best] > means[0] + BETTER * error else 0
    before = rehearsed.scores[:, rehearsed.settings.index(rehearsed.chosen)]
    together = replace(
        rehearsed,
        settings=(*rehearsed.settings, *settings),
        scores=np.concatenate([rehearsed.scores, scores], axis=1),
        estimates=np.concatenate([rehearsed.estimates, means]),
    )
    if may_be_left_out and before.mean() >= means[best]:
        return together, list(trials)
    spread = _spread(scores[:, best] - scores.mean(axis=1))
    return replace(together, chosen=settings[best], spread=spread), [each[best] for each in refined_trials]


def _spread(deviations: FloatArray) -> float:
    """Standard error of their mean."""
    return float(deviations.std(ddof=1) / np.sqrt(len(deviations))) if len(deviations) > 1 else float("nan")


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
