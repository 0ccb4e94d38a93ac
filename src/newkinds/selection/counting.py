"""How many categories are there? Two answers from the same rehearsals, put together.

*The peak.* With too few categories some are merged, with too many some are split: the share of a hidden category
that is recovered, see `newkinds.selection.rehearsal.Recovery`, is highest near the true number. All samples take
part in a rehearsal, so the number looked for is the same as in the real problem.

*The sizes.* In a rehearsal, an unlabelled sample belongs to a category that kept labels or to another. Hidden
samples tell how often one of either sort ends in a kept category, and clearly so; how many unlabelled ones did then
tells how many belong there. (Were all counted that end there, the many that might as well have ended elsewhere
would decide.) Labelled samples being drawn alike from all known categories, that is the share of the known ones
too, and new categories being as large on average as known ones, the rest says how many of them there are. This
works for long tails too, where the peak is noise, because no clustering finds the smallest categories.

Both have a spread, seen by drawing the categories again with replacement; that of the sizes is larger where the
known categories differ in size, because their mean is then less sure. What either says is made a density over the
logarithm of the number, in part uniform: the sizes may mislead (rare kinds are named last), and so may the peak.
Their product has the number found as its median, and its outer quantiles are the interval, which is wide where the
two disagree.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.stats import norm as normal

from newkinds.engine import Partitioner, Run
from newkinds.labels import IntArray
from newkinds.objective import PARTITION
from newkinds.runtime import report_progress
from newkinds.selection.problem import Problem
from newkinds.selection.rehearsal import (
    REHEARSAL_START,
    REHEARSAL_TRAINING,
    FloatArray,
    Recovery,
    Rehearsal,
    Setting,
    draw_rehearsals,
    unlabelled_ratio,
)

COUNTING_REHEARSALS = 4
"""Every number is tried in all of them."""
COUNTING_SETTING = Setting(lam=0.03, temperature=40.0)
"""With which numbers of categories are compared. At a large lam superfluous categories die out, and every number
looks the same."""
RATIO = 1.2
"""Between neighbouring numbers that are tried."""
REACH = 2
"""Numbers tried on either side of the first guess; more if the best is at the end."""
SMOOTHING = 0.08
"""Width, in logarithms, over which scores of neighbouring numbers are averaged."""
CLEAR = 1 / 3
"""Share of the hidden samples of kept categories that count as ending there clearly."""
LEAST_SIZE_DEVIATION, LEAST_PEAK_DEVIATION = 0.03, 0.05
"""Of either estimate, in logarithms: rehearsals cannot tell more. The peak lies too high by about 0.03."""
BOOTSTRAPS = 200
MISLEADING_SIZES, MISLEADING_PEAK = 0.1, 0.25
"""Chance that an answer says nothing."""
RESOLUTION = 4001
"""Points at which densities are evaluated."""
LEAST_DIFFERENCE = 0.05
"""Between the shares that stayed and that strayed: what is divided by."""


@dataclass(frozen=True)
class Count:
    """The number found, its 90 % interval, the curve it was found by, and both estimates on their own."""

    n_categories: int
    interval: tuple[int, int]
    curve: dict[int, float]
    by_peak: float
    by_size: float


@dataclass(frozen=True)
class _Observation:
    """What one rehearsal showed for one number of categories.

    Attributes
    ----------
    recovery : Recovery
    stayed, strayed : ndarray of shape (kept categories, 2), (hidden categories, 2)
        Of each category, how many hidden samples it has, and how many of them clearly ended in a kept category.
    in_kept : float
        Share of the unlabelled samples of the real problem that did.
    """

    recovery: Recovery
    stayed: IntArray
    strayed: IntArray
    in_kept: float

    @classmethod
    def of(cls, problem: Problem, rehearsal: Rehearsal, partitioner: Partitioner) -> "_Observation":
        unlabelled = ~problem.labelled
        kept = rehearsal.truth < rehearsal.n_kept
        margins = problem.samples.margins(partitioner, rehearsal.n_kept)
        of_hidden = margins[rehearsal.hidden]
        least = np.quantile(of_hidden[kept], 1 - CLEAR) if kept.any() else 0.0
        return cls(
            rehearsal.recovery(problem.samples.assign(partitioner), unlabelled),
            _counted(rehearsal.truth[kept], of_hidden[kept] >= least),
            _counted(rehearsal.truth[~kept], of_hidden[~kept] >= least),
            float((margins[unlabelled] >= least).mean()),
        )

    def hidden_scores(self, ratio: float) -> FloatArray:
        """Score of each hidden category, see `Recovery.scores`."""
        return self.recovery.scores(ratio)[self.recovery.is_hidden]


def count_categories(problem: Problem, lower: int, upper: int, weight_decay: float = 0.01) -> Count:
    """Estimate the number of categories, which is looked for between two bounds."""
    search = _Search(problem, draw_rehearsals(problem, COUNTING_REHEARSALS), weight_decay)
    search.visit([min(max(2 * problem.n_known, lower), upper)])
    guess = search.estimates()[1]
    reach = [round(guess * RATIO**i) for i in range(-REACH, REACH + 1)]
    while untried := search.untried(min(max(k, lower), upper) for k in reach):
        search.visit(untried)
        numbers, peak = sorted(search.observations), search.estimates()[0]
        reach = []
        if peak <= numbers[1]:
            reach += [round(numbers[0] / RATIO**i) for i in (1, 2)]
        if peak >= numbers[-2]:
            reach += [round(numbers[-1] * RATIO**i) for i in (1, 2)]
    return search.conclude(lower, upper)


class _Search:
    """Rehearsals at every number of categories that was tried."""

    def __init__(self, problem: Problem, rehearsals: Sequence[Rehearsal], weight_decay: float) -> None:
        self.problem, self.rehearsals = problem, rehearsals
        self.training = replace(REHEARSAL_TRAINING, weight_decay=weight_decay)
        self.observations: dict[int, list[_Observation]] = {}
        self.ratio = np.inf  # of unlabelled to labelled samples in known categories
        # Of the labelled samples, those in categories that keep labels.
        in_kept = [problem.labelled.sum() - (rehearsal.truth >= rehearsal.n_kept).sum() for rehearsal in rehearsals]
        self.kept_share = float(np.mean(in_kept) / problem.labelled.sum())

    def untried(self, numbers: Iterable[int]) -> list[int]:
        """Numbers that are not almost the same as one tried already, ascending."""
        chosen: list[int] = []
        for k in sorted(set(numbers)):
            if all(abs(np.log(k / other)) > np.log(RATIO) / 4 for other in (*self.observations, *chosen)):
                chosen.append(k)
        return chosen

    def visit(self, numbers: Sequence[int]) -> None:
        for i, k in enumerate(numbers):
            self._visit(k)
            report_progress("estimating the number of categories", i + 1, len(numbers))
        recoveries = [observation.recovery for of_number in self.observations.values() for observation in of_number]
        self.ratio = unlabelled_ratio(recoveries)

    def _visit(self, n_categories: int) -> None:
        problem, setting = self.problem, COUNTING_SETTING
        runs = [
            Run(
                REHEARSAL_START.prototypes(problem, n_categories, rehearsal.labels),
                PARTITION.at(setting.lam),
                setting.temperature,
                labels=rehearsal.labels,
            )
            for rehearsal in self.rehearsals
        ]
        trained = self.training.train(problem, runs, f"trying {n_categories} categories")
        self.observations[n_categories] = [
            _Observation.of(problem, rehearsal, partitioner)
            for rehearsal, partitioner in zip(self.rehearsals, trained.partitioners, strict=True)
        ]

    def estimates(self, generator: np.random.Generator | None = None) -> tuple[float, float]:
        """The number by the peak and that by the sizes; with a generator, of categories that are drawn again."""
        numbers = np.array(sorted(self.observations))
        drawn = [self._categories(i, generator) for i in range(len(self.rehearsals))]
        scores = [
            np.mean(
                [
                    observation.hidden_scores(self.ratio)[hidden].mean()
                    for observation, (_, hidden) in zip(self.observations[k], drawn, strict=True)
                ]
            )
            for k in numbers
        ]
        # The more categories, the fewer samples of new ones have none but a known one to go to.
        sizes = [self._by_size(self.observations[k], drawn) for k in numbers[len(numbers) // 2 :]]
        return _peak(numbers, np.array(scores)), float(np.exp(np.mean(np.log(sizes))))

    def _categories(self, rehearsal: int, generator: np.random.Generator | None) -> tuple[IntArray, IntArray]:
        """The kept and the hidden categories of a rehearsal, or as many drawn from them with replacement."""
        observation = next(iter(self.observations.values()))[rehearsal]
        n_kept, n_hidden = len(observation.stayed), len(observation.strayed)
        if generator is None:
            return np.arange(n_kept), np.arange(n_hidden)
        return generator.integers(n_kept, size=n_kept), generator.integers(n_hidden, size=n_hidden)

    def _by_size(self, observations: Sequence[_Observation], drawn: Sequence[tuple[IntArray, IntArray]]) -> float:
        """The number that the sizes speak for in all rehearsals with one number."""

        def share(counts: IntArray, otherwise: float) -> float:
            total, ended = counts.sum(axis=0)
            return float(ended / total) if total else otherwise

        pairs = list(zip(observations, drawn, strict=True))
        stayed = share(np.concatenate([observation.stayed[kept] for observation, (kept, _) in pairs]), 1.0)
        strayed = share(np.concatenate([observation.strayed[hidden] for observation, (_, hidden) in pairs]), 0.0)
        in_kept = np.mean([observation.in_kept for observation in observations])
        belong = (in_kept - strayed) / max(stayed - strayed, LEAST_DIFFERENCE)
        known = np.clip(belong / self.kept_share, 0, 1)
        n_unlabelled = int((~self.problem.labelled).sum())
        known_size = (len(self.problem.columns) - (1 - known) * n_unlabelled) / self.problem.n_known
        return float(self.problem.n_known + (1 - known) * n_unlabelled / known_size)

    def _size_variance(self, number: float) -> float:
        """Of the logarithm of the number by sizes, because the known categories are but a sample of all."""
        counts = np.bincount(self.problem.columns[self.problem.labelled])
        variation = counts.var(ddof=1) / counts.mean() ** 2 - 1 / counts.mean()  # less what chance alone makes
        n_new = max(number - self.problem.n_known, 1.0)
        return float(max(variation, 0.0) * (1 / self.problem.n_known + 1 / n_new) * (n_new / number) ** 2)

    def conclude(self, lower: int, upper: int) -> Count:
        generator = np.random.default_rng(self.problem.rng.randint(2**31 - 1))
        peak, size = self.estimates()
        peaks, sizes = np.log([self.estimates(generator) for _ in range(BOOTSTRAPS)]).T
        of_size = np.sqrt(sizes.var() + LEAST_SIZE_DEVIATION**2 + self._size_variance(size))
        low, middle, high = _quantiles(np.log(size), of_size, peaks, lower, upper)
        curve = {
            k: float(np.mean([observation.hidden_scores(self.ratio).mean() for observation in observations]))
            for k, observations in sorted(self.observations.items())
        }
        return Count(round(middle), (math.floor(low), math.ceil(high)), curve, peak, size)


def _quantiles(size: float, deviation: float, peaks: FloatArray, lower: int, upper: int) -> FloatArray:
    """5 %, 50 % and 95 % of the number, from logarithms: of that by sizes with its deviation, of drawn peaks."""
    # Half a category beyond either bound, so that a bound itself can be the answer.
    at = np.linspace(np.log(lower - 0.5), np.log(upper + 0.5), RESOLUTION)
    anything = 1 / (at[-1] - at[0])
    by_size = normal.pdf(at, size, deviation)
    by_peak = normal.pdf(at[:, None], peaks, LEAST_PEAK_DEVIATION).mean(axis=1)
    density = _mix(by_size, anything, MISLEADING_SIZES) * _mix(by_peak, anything, MISLEADING_PEAK)
    quantiles = np.interp((0.05, 0.5, 0.95), np.cumsum(density) / density.sum(), at)
    return np.clip(np.exp(quantiles), lower, upper)


def _mix(one: FloatArray, other: float, chance: float) -> FloatArray:
    return (1 - chance) * one + chance * other


def _counted(truth: IntArray, ended: npt.NDArray[np.bool_]) -> IntArray:
    """Samples of each category that has any, and those of them that are marked: (categories, 2)."""
    categories, rows = np.unique(truth, return_inverse=True)
    marked = np.bincount(rows[ended], minlength=len(categories))
    return np.stack([np.bincount(rows, minlength=len(categories)), marked], axis=1)


def _peak(numbers: IntArray, scores: FloatArray) -> float:
    """Where a curve over numbers of categories, smoothed in logarithms, is highest."""
    if len(numbers) == 1:
        return float(numbers[0])
    fine = np.linspace(np.log(numbers[0]), np.log(numbers[-1]), 201)
    near = np.exp(-0.5 * ((fine[:, None] - fine) / SMOOTHING) ** 2)
    smooth = near @ np.interp(fine, np.log(numbers), scores) / near.sum(1)
    return float(np.exp(fine[np.argmax(smooth)]))
