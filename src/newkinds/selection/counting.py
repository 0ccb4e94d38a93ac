"""How many categories are there? Three witnesses from the same rehearsals, put together.

*The peak.* With too few categories some are merged, with too many some are split: the share of a hidden category
that is recovered, see `newkinds.selection.rehearsal.Recovery`, is highest near the true number. All samples take
part in a rehearsal, so the number looked for is the same as in the real problem.

*The sizes.* How many unlabelled samples belong to known categories is told by rehearsal, see
`newkinds.selection.sizes`; so many samples are left for new ones. If those are as large as known ones on average,
that says how many there are. This works for long tails too, where the peak is noise, because no clustering finds
the smallest categories.

*The pairs.* Both lean on new categories being as large as known ones: the sizes openly, the peak because PIM's
marginal is even. How frequent similar pairs are among the samples that are taken for new, see
`newkinds.selection.pairs`, tells the size of new categories by itself, but less exactly.

What each says is made a density over the logarithm of the number. If sizes are even, it is that of the sizes times
that of the peak, each in part uniform because it may mislead. The spreads are seen by drawing the categories again
with replacement; that of the sizes is larger where the known categories differ in size. If sizes are uneven, it is
that of the pairs. How probable it is that they are even, the pairs say as well: a ratio near 1 speaks for it, and
so does one that is uncertain. The mixture of both has the number found as its median, and its outer quantiles are
the interval, which is wide where the witnesses disagree.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm as normal

from newkinds.engine import Partitioner
from newkinds.labels import IntArray
from newkinds.selection.efforts import NORMAL, Effort
from newkinds.selection.pairs import SizeRatio, size_ratio_by_pairs
from newkinds.selection.problem import Problem
from newkinds.selection.rehearsal import FloatArray, Recovery, Rehearsal, draw_rehearsals, unlabelled_ratio
from newkinds.selection.sizes import Endings, Stays, ratio_variance, settled_ratio, size_ratio, train_rehearsals

STAGE = "estimating the number of categories"
RATIO = 1.2
"""Between neighbouring numbers that are tried."""
SMOOTHING = 0.08
"""Width, in logarithms, over which scores of neighbouring numbers are averaged."""
LEAST_SIZE_DEVIATION, LEAST_PEAK_DEVIATION = 0.03, 0.05
"""Of either estimate, in logarithms: rehearsals cannot tell more. The peak lies too high by about 0.03."""
BOOTSTRAPS = 200
MISLEADING_SIZES, MISLEADING_PEAK = 0.1, 0.25
"""Chance that an answer says nothing."""
RESOLUTION = 4001
"""Points at which densities are evaluated."""
EVEN = 0.3
"""How probable it is, before anything was seen, that new categories are about as large as known ones."""
EVEN_DEVIATION, UNEVEN_DEVIATION = 0.1, 1.2
"""Of the logarithm of the ratio of sizes, in collections that are even and that are not."""
LEAST_EVENNESS = 0.05
"""The peak is not looked for where even sizes are less probable."""
LEAST_NEW = 0.1
"""New categories, in a logarithm."""
SHARE_DEVIATION = 0.03
"""Of the share of the unlabelled samples that belong to known categories, besides what drawing again shows."""


@dataclass(frozen=True)
class Count:
    """The number found, its 90 % interval, the curve it was found by, and what the witnesses say on their own.

    Attributes
    ----------
    n_categories : int
    interval : tuple of int
    curve : dict of int to float
    by_peak, by_size : float
        The number, if new categories are as large as known ones.
    by_pairs : SizeRatio
    evenness : float
        How probable it is that they are.
    known_share : float
        Of the unlabelled samples, those that belong to known categories.
    """

    n_categories: int
    interval: tuple[int, int]
    curve: dict[int, float]
    by_peak: float
    by_size: float
    by_pairs: SizeRatio
    evenness: float
    known_share: float


@dataclass(frozen=True)
class _Observation:
    """What one rehearsal showed for one number of categories."""

    recovery: Recovery
    endings: Endings
    columns: IntArray

    @classmethod
    def of(cls, problem: Problem, rehearsal: Rehearsal, partitioner: Partitioner) -> "_Observation":
        columns = problem.samples.assign(partitioner)
        recovery = rehearsal.recovery(columns, ~problem.labelled)
        return cls(recovery, Endings.of(problem, rehearsal, partitioner), columns)

    def hidden_scores(self, ratio: float) -> FloatArray:
        """Score of each hidden category, see `Recovery.scores`."""
        return self.recovery.scores(ratio)[self.recovery.is_hidden]


def count_categories(
    problem: Problem, lower: int, upper: int, weight_decay: float = 0.01, effort: Effort = NORMAL
) -> Count:
    """Estimate the number of categories, which is looked for between two bounds.

    Numbers are compared in few directions, see `Problem.narrowed`.
    """
    problem = problem.narrowed(2 * problem.n_known)
    search = _Search(problem, draw_rehearsals(problem, effort.counting_rehearsals), weight_decay)
    search.look_around(min(max(2 * problem.n_known, lower), upper))
    if search.evenness < LEAST_EVENNESS:
        return search.conclude(lower, upper)
    guess = search.estimates()[1]
    reach = [round(guess * RATIO**i) for i in range(-effort.counting_reach, effort.counting_reach + 1)]
    while untried := search.untried(min(max(k, lower), upper) for k in reach):
        search.visit(untried)
        numbers, peak = sorted(search.observations), search.estimates()[0]
        reach = []
        if not effort.counts_on:
            break
        if peak <= numbers[1]:
            reach += [round(numbers[0] / RATIO**i) for i in (1, 2)]
        if peak >= numbers[-2]:
            reach += [round(numbers[-1] * RATIO**i) for i in (1, 2)]
    return search.conclude(lower, upper)


class _Search:
    """Rehearsals at every number of categories that was tried."""

    def __init__(self, problem: Problem, rehearsals: Sequence[Rehearsal], weight_decay: float) -> None:
        self.problem, self.rehearsals, self.weight_decay = problem, rehearsals, weight_decay
        self.observations: dict[int, list[_Observation]] = {}
        self.stays: dict[int, Stays] = {}
        self.measured: Stays | None = None  # with uneven shares
        self.pairs = SizeRatio(0.0, 100.0)  # anything
        self.ratio = np.inf  # of unlabelled to labelled samples in known categories

    def look_around(self, n_categories: int) -> None:
        """Visit a first number, and see how large known and new categories are."""
        self.visit([n_categories])
        seen, known_share = self.observations[n_categories], self.stays[n_categories].known_share()
        if settled_ratio(self.problem, known_share, n_categories) != 1.0:
            seen = self._observe([n_categories], known_share)[n_categories]
            self.measured = self._stays(seen)
            known_share = self.measured.known_share()
        n_labelled = int(self.problem.labelled.sum())
        ratio = known_share * (len(self.problem.columns) - n_labelled) / n_labelled
        self.pairs = size_ratio_by_pairs(self.problem, self.rehearsals, [each.columns for each in seen], ratio)

    @property
    def evenness(self) -> float:
        """How probable it is, by the pairs, that new categories are as large as known ones."""
        even, uneven = (
            normal.pdf(self.pairs.log, 0.0, np.hypot(self.pairs.deviation, deviation))
            for deviation in (EVEN_DEVIATION, UNEVEN_DEVIATION)
        )
        return float(EVEN * even / (EVEN * even + (1 - EVEN) * uneven))

    def known_share(self, generator: np.random.Generator | None = None) -> float:
        """Of the unlabelled samples, those that belong to known categories."""
        if self.measured is not None:
            return self.measured.known_share(generator)
        # The more categories, the fewer samples of new ones have none but a known one to go to.
        numbers = sorted(self.stays)
        return float(np.mean([self.stays[k].known_share(generator) for k in numbers[len(numbers) // 2 :]]))

    def untried(self, numbers: Iterable[int]) -> list[int]:
        """Numbers that are not almost the same as one tried already, ascending."""
        chosen: list[int] = []
        for k in sorted(set(numbers)):
            if all(abs(np.log(k / other)) > np.log(RATIO) / 4 for other in (*self.observations, *chosen)):
                chosen.append(k)
        return chosen

    def visit(self, numbers: Sequence[int]) -> None:
        self.observations |= self._observe(numbers)
        self.stays |= {number: self._stays(self.observations[number]) for number in numbers}
        recoveries = [observation.recovery for of_number in self.observations.values() for observation in of_number]
        self.ratio = unlabelled_ratio(recoveries)

    def _observe(self, numbers: Sequence[int], known_share: float | None = None) -> dict[int, list[_Observation]]:
        trained = train_rehearsals(
            self.problem,
            self.rehearsals,
            numbers,
            known_share=known_share,
            weight_decay=self.weight_decay,
            stage=STAGE,
        )
        return {
            number: [
                _Observation.of(self.problem, rehearsal, partitioner)
                for rehearsal, partitioner in zip(self.rehearsals, of_number, strict=True)
            ]
            for number, of_number in zip(numbers, trained, strict=True)
        }

    def _stays(self, observations: Sequence[_Observation]) -> Stays:
        return Stays.of(self.problem, [observation.endings for observation in observations])

    def estimates(self, generator: np.random.Generator | None = None) -> tuple[float, float]:
        """The number by the peak and that by the sizes; with a generator, of categories that are drawn again."""
        numbers = np.array(sorted(self.observations))
        drawn = [self._hidden(i, generator) for i in range(len(self.rehearsals))]
        scores = [
            np.mean(
                [
                    observation.hidden_scores(self.ratio)[hidden].mean()
                    for observation, hidden in zip(self.observations[k], drawn, strict=True)
                ]
            )
            for k in numbers
        ]
        return _peak(numbers, np.array(scores)), self._by_size(self.known_share(generator))

    def _hidden(self, rehearsal: int, generator: np.random.Generator | None) -> IntArray:
        """The hidden categories of a rehearsal, or as many drawn from them with replacement."""
        n_hidden = len(next(iter(self.observations.values()))[rehearsal].endings.strayed)
        return np.arange(n_hidden) if generator is None else generator.integers(n_hidden, size=n_hidden)

    def _by_size(self, known_share: float) -> float:
        """The number if new categories are as large as known ones."""
        # With one new category more than known ones, the ratio of sizes is how many there would have to be.
        n_known = self.problem.n_known
        return n_known + size_ratio(self.problem, known_share, n_known + 1)

    def _size_variance(self, number: float) -> float:
        """Of the logarithm of the number by sizes, because the known categories are but a sample of all."""
        n_new = max(number - self.problem.n_known, 1.0)
        return ratio_variance(self.problem, n_new) * (n_new / number) ** 2

    def conclude(self, lower: int, upper: int) -> Count:
        generator = np.random.default_rng(self.problem.rng.randint(2**31 - 1))
        peak, size = self.estimates()
        peaks, sizes = np.log([self.estimates(generator) for _ in range(BOOTSTRAPS)]).T
        of_size = np.sqrt(sizes.var() + LEAST_SIZE_DEVIATION**2 + self._size_variance(size))
        # Half a category beyond either bound, so that a bound itself can be the answer.
        at = np.linspace(np.log(lower - 0.5), np.log(upper + 0.5), RESOLUTION)
        even = _even_density(at, np.log(size), of_size, peaks)
        n_known, known_share = self.problem.n_known, self.known_share()
        of_new = np.log(np.maximum(np.exp(sizes) - n_known, LEAST_NEW)).std()
        ratio = replace(
            self.pairs, deviation=math.hypot(self.pairs.deviation, of_new, SHARE_DEVIATION / (1 - known_share))
        )
        uneven = _uneven_density(at, ratio, size - n_known, n_known)
        low, middle, high = np.clip(_quantiles(at, _mix(even, uneven, 1 - self.evenness)), lower, upper)
        curve = {
            k: float(np.mean([observation.hidden_scores(self.ratio).mean() for observation in observations]))
            for k, observations in sorted(self.observations.items())
        }
        interval = (math.floor(low), math.ceil(high))
        return Count(round(middle), interval, curve, peak, size, self.pairs, self.evenness, known_share)


def _even_density(at: FloatArray, size: float, deviation: float, peaks: FloatArray) -> FloatArray:
    """Of the logarithm of the number, from logarithms: of that by sizes with its deviation, of drawn peaks."""
    anything = np.full(len(at), 1 / (at[-1] - at[0]))
    by_size = normal.pdf(at, size, deviation)
    by_peak = normal.pdf(at[:, None], peaks, LEAST_PEAK_DEVIATION).mean(axis=1)
    return _normalised(_mix(by_size, anything, MISLEADING_SIZES) * _mix(by_peak, anything, MISLEADING_PEAK))


def _uneven_density(at: FloatArray, pairs: SizeRatio, n_even: float, n_known: int) -> FloatArray:
    """Of the logarithm of the number, by the ratio of sizes; `n_even` new categories would be as large as known."""
    number = np.exp(at)
    n_new = np.maximum(number - n_known, LEAST_NEW)
    ratio = np.log(n_even / n_new)  # that goes with each number
    by_pairs = normal.pdf(ratio, pairs.log, pairs.deviation)
    return _normalised(by_pairs * normal.pdf(ratio, 0.0, UNEVEN_DEVIATION) * number / n_new)


def _normalised(density: FloatArray) -> FloatArray:
    total = density.sum()
    return density / total if total > 0 else np.full(len(density), 1 / len(density))


def _quantiles(at: FloatArray, density: FloatArray) -> FloatArray:
    """5 %, 50 % and 95 % of the number."""
    return np.exp(np.interp((0.05, 0.5, 0.95), np.cumsum(density) / density.sum(), at))


def _mix(one: FloatArray, other: FloatArray, chance: float) -> FloatArray:
    return (1 - chance) * one + chance * other


def _peak(numbers: IntArray, scores: FloatArray) -> float:
    """Where a curve over numbers of categories, smoothed in logarithms, is highest."""
    if len(numbers) == 1:
        return float(numbers[0])
    fine = np.linspace(np.log(numbers[0]), np.log(numbers[-1]), 201)
    near = np.exp(-0.5 * ((fine[:, None] - fine) / SMOOTHING) ** 2)
    smooth = near @ np.interp(fine, np.log(numbers), scores) / near.sum(1)
    return float(np.exp(fine[np.argmax(smooth)]))
