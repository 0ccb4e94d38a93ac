"""How many categories are there? Two answers from the same rehearsals, put together.

*The peak.* With too few categories some are merged, with too many some are split: what a hidden category gets back,
see `newkinds.methods.rehearsal.Sighting`, is highest near the true number. All samples take part in a rehearsal, so
the number looked for is the same as in the real problem.

*The sizes.* The unlabelled samples belong to known categories or to new ones. Rehearsals tell how often a sample of
either kind ends in a known category, so from how many did follows how many belong there. New categories being as
large on average as known ones, the rest says how many of them there are. This works for long tails too, where the
peak is too low, because no clustering finds the smallest categories.

Both have a spread, seen by drawing the hidden categories again with replacement; that of the sizes is larger where
the known categories differ in size, because their mean is then less sure. The answers are weighted by it (in
logarithms). The interval follows from what remains and from how far they disagree.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from newkinds.engine import Run
from newkinds.labels import IntArray
from newkinds.methods.problem import Problem
from newkinds.methods.rehearsal import (
    FloatArray,
    Rehearsal,
    Sighting,
    semi_supervised_start,
    train,
    unlabelled_ratio,
)
from newkinds.objective import PARTITION
from newkinds.runtime import report_progress

SEARCH_LAM, SEARCH_TEMPERATURE = 0.03, 40.0
"""With which numbers of categories are compared. At a large lam superfluous categories die out, and every number
looks the same."""
RATIO = 1.2
"""Between neighbouring numbers that are tried."""
REACH = 2
"""Numbers tried on either side of the first guess; more if the best is at the end."""
SMOOTHING = 0.08
"""Width, in logarithms, over which scores of neighbouring numbers are averaged."""
LEAST_DEVIATION = 0.03
"""Of either estimate, in logarithms: rehearsals cannot tell more."""
BOOTSTRAPS = 200
NORMAL_90 = 1.645
MOST_STRAYED, LEAST_DAMPING = 0.9, 0.25
"""Bounds of what is divided by."""


@dataclass(frozen=True)
class Count:
    """The number found, its 90 % interval, the curve it was found by, and both estimates on their own."""

    n_categories: int
    interval: tuple[int, int]
    curve: dict[int, float]
    by_peak: float
    by_size: float


@dataclass(frozen=True)
class _Shown:
    """What one rehearsal showed for one number of categories, category by category.

    Attributes
    ----------
    sighting : Sighting
    stayed, strayed : ndarray of shape (kept categories, 2), (hidden categories, 2)
        How many hidden samples it has, and how many of them ended in some kept category.
    """

    sighting: Sighting
    stayed: IntArray
    strayed: IntArray

    @classmethod
    def of(cls, rehearsal: Rehearsal, columns: IntArray, unlabelled: npt.NDArray[np.bool_]) -> "_Shown":
        kept = rehearsal.truth < rehearsal.n_kept
        known = columns[rehearsal.hidden] < rehearsal.n_kept
        return cls(
            rehearsal.look(columns, unlabelled),
            _counted(rehearsal.truth[kept], known[kept]),
            _counted(rehearsal.truth[~kept], known[~kept]),
        )

    def recovered(self, ratio: float) -> FloatArray:
        """Of each hidden category."""
        return self.sighting.scores(ratio)[self.sighting.is_hidden]


def count_categories(
    problem: Problem, rehearsals: Sequence[Rehearsal], lower: int, upper: int, weight_decay: float = 0.01
) -> Count:
    """Estimate the number of categories, which is looked for between two bounds."""
    search = _Search(problem, rehearsals, weight_decay)
    search.visit([min(max(2 * problem.n_known, lower), upper)])
    guess = search.estimates()[1]
    reach = [round(guess * RATIO**i) for i in range(-REACH, REACH + 1)]
    while new := search.unlike_those_tried(min(max(k, lower), upper) for k in reach):
        search.visit(new)
        numbers, peak = sorted(search.shown), search.estimates()[0]
        reach = []
        if peak <= numbers[1]:
            reach += [round(numbers[0] / RATIO**i) for i in (1, 2)]
        if peak >= numbers[-2]:
            reach += [round(numbers[-1] * RATIO**i) for i in (1, 2)]
    return search.conclude(lower, upper)


class _Search:
    """Rehearsals, and the real problem, at every number of categories that was tried."""

    def __init__(self, problem: Problem, rehearsals: Sequence[Rehearsal], weight_decay: float) -> None:
        self.problem, self.rehearsals, self.weight_decay = problem, rehearsals, weight_decay
        self.shown: dict[int, list[_Shown]] = {}
        self.in_known: dict[int, float] = {}  # share of the unlabelled samples, in the real problem
        self.ratio = np.inf  # of unlabelled to labelled samples in known categories

    def unlike_those_tried(self, numbers: Iterable[int]) -> list[int]:
        """Numbers that are not almost the same as one tried already, ascending."""
        chosen: list[int] = []
        for k in sorted(set(numbers)):
            if all(abs(np.log(k / other)) > np.log(RATIO) / 4 for other in (*self.shown, *chosen)):
                chosen.append(k)
        return chosen

    def visit(self, numbers: Sequence[int]) -> None:
        for i, k in enumerate(numbers):
            self._visit(k)
            report_progress("estimating the number of categories", i + 1, len(numbers))
        seen = [shown.sighting for at_number in self.shown.values() for shown in at_number]
        self.ratio = unlabelled_ratio(seen)

    def _visit(self, n_categories: int) -> None:
        problem = self.problem
        runs = [
            Run(
                semi_supervised_start(problem, labels, n_categories),
                PARTITION.at(SEARCH_LAM),
                SEARCH_TEMPERATURE,
                labels=labels,
            )
            for labels in (*(rehearsal.labels for rehearsal in self.rehearsals), problem.columns)
        ]
        stage = f"trying {n_categories} categories"
        *rehearsed, real = train(problem, runs, weight_decay=self.weight_decay, stage=stage)
        self.shown[n_categories] = [
            _Shown.of(rehearsal, problem.samples.assign(partitioner), ~problem.labelled)
            for rehearsal, partitioner in zip(self.rehearsals, rehearsed, strict=True)
        ]
        found = problem.samples.assign(real, ~problem.labelled)
        self.in_known[n_categories] = float((found < problem.n_known).mean())

    def estimates(
        self, at: float | None = None, generator: np.random.Generator | None = None
    ) -> tuple[float, float]:
        """The number by the peak, and that by the sizes when looked at with the number `at`, by default the peak.

        With a generator the categories are drawn again.
        """
        numbers = np.array(sorted(self.shown))
        kept, hidden = zip(*(self._categories(i, generator) for i in range(len(self.rehearsals))), strict=True)

        def share(name: str, categories: Sequence[IntArray], otherwise: float) -> FloatArray:
            """Of all samples of some categories, those that stayed or strayed, at each number."""
            counts = np.array(
                [
                    sum(
                        getattr(shown, name)[own].sum(0)
                        for shown, own in zip(self.shown[k], categories, strict=True)
                    )
                    for k in numbers
                ]
            )
            return np.where(counts[:, 0] > 0, counts[:, 1] / np.maximum(counts[:, 0], 1), otherwise)

        recovered = [
            np.mean(
                [shown.recovered(self.ratio)[own].mean() for shown, own in zip(self.shown[k], hidden, strict=True)]
            )
            for k in numbers
        ]
        peak = _peak(numbers, np.array(recovered))
        in_known = np.array([self.in_known[k] for k in numbers])
        sizes = self._by_size(numbers, share("stayed", kept, 1.0), share("strayed", hidden, 0.0), in_known)
        return peak, float(np.exp(np.interp(np.log(at or peak), np.log(numbers), np.log(sizes))))

    def _categories(self, rehearsal: int, generator: np.random.Generator | None) -> tuple[IntArray, IntArray]:
        """The kept and the hidden categories of a rehearsal, or as many drawn from them with replacement."""
        shown = next(iter(self.shown.values()))[rehearsal]
        n_kept, n_hidden = len(shown.stayed), len(shown.strayed)
        if generator is None:
            return np.arange(n_kept), np.arange(n_hidden)
        return generator.integers(n_kept, size=n_kept), generator.integers(n_hidden, size=n_hidden)

    def _by_size(
        self, numbers: IntArray, stayed: FloatArray, strayed: FloatArray, in_known: FloatArray
    ) -> FloatArray:
        """The number that the sizes speak for, looked at with each of the numbers that were tried."""
        n_known, n_kept = self.problem.n_known, self.rehearsals[0].n_kept
        n_unlabelled = int((~self.problem.labelled).sum())
        n_labelled = len(self.problem.columns) - n_unlabelled
        # A rehearsal has fewer known categories to stray into, and more others to be lost to.
        lost = (1 - stayed) * np.maximum(numbers - n_known, 0) / np.maximum(numbers - n_kept, 1)
        strayed = np.minimum(strayed * n_known / n_kept, MOST_STRAYED)
        share = np.clip((in_known - strayed) / np.maximum(1 - lost - strayed, 0.05), 0, 1)
        known_size = (n_labelled + share * n_unlabelled) / n_known
        return np.asarray(n_known + (1 - share) * n_unlabelled / known_size)

    def _size_variance(self, number: float) -> float:
        """Of the logarithm of the number by sizes, because the known categories are but a sample of all."""
        counts = np.bincount(self.problem.columns[self.problem.labelled])
        variation = counts.var(ddof=1) / counts.mean() ** 2 - 1 / counts.mean()  # less what chance alone makes
        n_new = max(number - self.problem.n_known, 1.0)
        return float(max(variation, 0.0) * (1 / self.problem.n_known + 1 / n_new) * (n_new / number) ** 2)

    def conclude(self, lower: int, upper: int) -> Count:
        generator = np.random.default_rng(self.problem.rng.randint(2**31 - 1))
        peak, size = self.estimates()
        number = peak
        drawn = np.log([self.estimates(number, generator) for _ in range(BOOTSTRAPS)])
        of_peak, of_size = drawn.var(axis=0) + LEAST_DEVIATION**2
        for _ in range(10):  # the sizes depend, weakly, on the number they are looked at with
            size = self.estimates(number)[1]
            size_variance = of_size + self._size_variance(size)
            weight = size_variance / (of_peak + size_variance)
            number = float(np.exp(weight * np.log(peak) + (1 - weight) * np.log(size)))
        # An error of the number moves what the sizes say when looked at with it, which moves the number.
        step = np.log(RATIO) / 2
        slope = np.log(self.estimates(number * np.exp(step))[1] / self.estimates(number / np.exp(step))[1]) / (
            2 * step
        )
        feedback = 1 / max(1 - (1 - weight) * slope, LEAST_DAMPING)
        variance = of_peak * size_variance / (of_peak + size_variance)
        variance = feedback**2 * variance + weight * (1 - weight) * np.log(peak / size) ** 2
        margin = np.exp(NORMAL_90 * np.sqrt(variance))
        interval = np.clip([np.floor(number / margin), np.ceil(number * margin)], lower, upper).astype(int).tolist()
        curve = {
            k: float(np.mean([shown.recovered(self.ratio).mean() for shown in self.shown[k]]))
            for k in sorted(self.shown)
        }
        return Count(round(min(max(number, lower), upper)), (interval[0], interval[1]), curve, peak, size)


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
