"""How large are the known categories, and what is left for the new ones?

PIM draws its marginal to even shares, which is right where all categories are about equally large. Where new kinds
are rarer than known ones, or larger, the columns of the large are split and the small are merged. So the shares are
estimated: columns of known categories are expected to be as large as those are, the other columns to share evenly
what is left.

Who belongs to a known category is told by rehearsal. Hidden samples of categories that kept labels show how often
one ends clearly in such a column, hidden samples of those that lost all labels how often one strays there; what the
unlabelled samples do then says how many belong. (Were all counted that end there, the many that might as well have
ended elsewhere would decide.) Labels may come unevenly, and a category with few of them attracts fewer of its
samples: the categories are looked at one by one.

Where the shares turn out uneven they are estimated once more, from rehearsals with the shares that were found: even
ones let columns of small known categories fill up with samples of large new ones.
"""

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from sklearn.linear_model import LogisticRegression

from newkinds.engine import Partitioner, Run
from newkinds.labels import UNLABELLED, IntArray
from newkinds.objective import PARTITION
from newkinds.selection.problem import Problem
from newkinds.selection.rehearsal import (
    REHEARSAL_START,
    REHEARSAL_TRAINING,
    FloatArray,
    Rehearsal,
    draw_rehearsals,
    try_settings,
)
from newkinds.selection.settings import Setting

SIZES_SETTING = Setting(lam=0.03, temperature=40.0)
"""With which sizes are looked at and numbers of categories compared. At a large lam superfluous categories die out,
and every number looks the same."""
CLEAR = (1 / 3, 0.7)
"""Least and most of the hidden samples of kept categories that count as ending there clearly."""
STRAYING = 0.005
"""Between these, as many count as leave so few samples of hidden categories clear: the more, the less noise."""
TELLING = 50
"""Samples of hidden categories from which on they tell that; with fewer, the least count as clear."""
ALIKE = 4.0
"""Hidden samples that the general experience with categories of so many labels counts for, in the share of one
category's samples that stay."""
PRIOR = 0.2
"""How much it counts for one category that others have so many unlabelled samples for a labelled one."""
SMALLER, LARGER = 1.6, 1.25
"""Factors by which new categories may be smaller or larger than known ones and are still taken to be as large. What
an even marginal costs grows faster with larger ones."""
BY_CHANCE = 2.0
"""The same once more: deviations of the ratio that comes about because sizes differ within either kind."""
GENEROUS = 1.25
"""Shares of new categories are taken so much larger than estimated: too small ones cost more than too large."""
LEAST_SHARE = 0.02
"""Of the unlabelled samples, in known and in new categories."""


def size_ratio(problem: Problem, known_share: float, n_categories: int) -> float:
    """Of the size of a new category to that of a known one.

    `known_share` is that of the unlabelled samples that belong to known categories.
    """
    n_new = n_categories - problem.n_known
    if n_new == 0:
        return 1.0
    n_labelled = int(problem.labelled.sum())
    n_unlabelled = len(problem.columns) - n_labelled
    known_size = (n_labelled + known_share * n_unlabelled) / problem.n_known
    return (1 - known_share) * n_unlabelled / n_new / known_size


def settled_ratio(problem: Problem, known_share: float, n_categories: int) -> float:
    """The same, to train with: 1 where it is not clearly another."""
    ratio = size_ratio(problem, known_share, n_categories)
    chance = math.exp(BY_CHANCE * math.sqrt(ratio_variance(problem, n_categories - problem.n_known)))
    return 1.0 if 1 / (SMALLER * chance) <= ratio <= LARGER * chance else GENEROUS * ratio


def ratio_variance(problem: Problem, n_new: float) -> float:
    """Of the logarithm of the ratio between the mean sizes of known and of `n_new` other categories like them."""
    counts = np.bincount(problem.columns[problem.labelled])
    if len(counts) < 2:
        return 0.0
    variation = counts.var(ddof=1) / counts.mean() ** 2 - 1 / counts.mean()  # less what chance alone makes
    return float(max(variation, 0.0) * (1 / problem.n_known + 1 / max(n_new, 1.0)))


def expected_shares(ratio: float, n_known: int, n_categories: int, n_kept: int | None = None) -> FloatArray | None:
    """Relative shares of the columns, where new categories are `ratio` times as large as known ones; None if even.

    In a rehearsal only the first `n_kept` columns are of categories with labels: the others share evenly what the
    hidden and the new ones have.
    """
    if ratio == 1.0:
        return None
    n_kept = n_known if n_kept is None else n_kept
    rest = (n_known - n_kept + ratio * (n_categories - n_known)) / (n_categories - n_kept)
    return np.concatenate([np.ones(n_kept), np.full(n_categories - n_kept, rest)])


@dataclass(frozen=True)
class Endings:
    """Which samples of a rehearsal ended clearly in the column of a category that kept labels.

    Attributes
    ----------
    categories : ndarray of shape (kept,)
        Columns, in the problem, of the categories that kept labels.
    held_out, stayed, arrived : ndarray of shape (kept,)
        Hidden samples of each of them, how many ended clearly in any of their columns, and how many unlabelled
        samples ended clearly in its own.
    strayed : ndarray of shape (hidden categories, 2)
        Samples of each category that lost all labels, and how many ended clearly in a kept one.
    """

    categories: IntArray
    held_out: IntArray
    stayed: IntArray
    arrived: IntArray
    strayed: IntArray

    @classmethod
    def of(cls, problem: Problem, rehearsal: Rehearsal, partitioner: Partitioner) -> "Endings":
        n_kept = rehearsal.n_kept
        margins = problem.samples.margins(partitioner, n_kept)
        columns = problem.samples.assign(partitioner)
        of_kept = rehearsal.truth < n_kept
        of_hidden = margins[rehearsal.hidden]
        least = _least_margin(of_hidden[of_kept], of_hidden[~of_kept])
        clear = of_hidden >= least
        arrived = columns[(margins >= least) & ~problem.labelled & (columns < n_kept)]
        kept = rehearsal.labels != UNLABELLED
        categories = np.empty(n_kept, dtype=np.int64)
        categories[rehearsal.labels[kept]] = problem.columns[kept]
        return cls(
            categories,
            np.bincount(rehearsal.truth[of_kept], minlength=n_kept),
            np.bincount(rehearsal.truth[of_kept & clear], minlength=n_kept),
            np.bincount(arrived, minlength=n_kept),
            _counted(rehearsal.truth[~of_kept], clear[~of_kept]),
        )


@dataclass(frozen=True)
class Stays:
    """The endings of several rehearsals, put together for each known category.

    Attributes
    ----------
    labelled : ndarray of shape (known,)
    stay : ndarray of shape (known,)
        Share of the category's samples that end clearly in a kept column.
    arrived : ndarray of shape (known,)
        Unlabelled samples that end clearly in its column, in a rehearsal in which it keeps labels.
    strayed : ndarray of shape (hidden, 2)
        As in `Endings`, of all rehearsals.
    n_unlabelled : int
    kept_share : float
        Of the known categories, those that keep labels in a rehearsal.
    """

    labelled: FloatArray
    stay: FloatArray
    arrived: FloatArray
    strayed: IntArray
    n_unlabelled: int
    kept_share: float

    @classmethod
    def of(cls, problem: Problem, endings: Sequence[Endings]) -> "Stays":
        n_known = problem.n_known
        times, held_out, stayed, arrived = np.zeros((4, n_known))
        for ending in endings:
            times[ending.categories] += 1
            held_out[ending.categories] += ending.held_out
            stayed[ending.categories] += ending.stayed
            arrived[ending.categories] += ending.arrived
        labelled = np.bincount(problem.columns[problem.labelled], minlength=n_known).astype(np.float64)
        stay = (stayed + ALIKE * _by_labels(labelled, held_out, stayed)) / (held_out + ALIKE)
        seen = times > 0
        arrived[seen] /= times[seen]
        # Of a category that never kept labels nothing was seen: as many arrive as at the others.
        arrived[~seen] = (arrived[seen] / labelled[seen]).mean() * labelled[~seen]
        return cls(
            labelled,
            stay,
            arrived,
            np.concatenate([ending.strayed for ending in endings]),
            int((~problem.labelled).sum()),
            float(np.mean([len(ending.categories) for ending in endings]) / n_known),
        )

    def known_share(self, generator: np.random.Generator | None = None) -> float:
        """Share of the unlabelled samples that belong to known categories; with a generator, of categories that are
        drawn again.

        As many as belong there, so many are expected to end there: that is one equation for the number.
        """
        known, hidden = np.arange(len(self.labelled)), np.arange(len(self.strayed))
        if generator is not None:
            known, hidden = (generator.integers(len(rows), size=len(rows)) for rows in (known, hidden))
        labelled, stay, arrived = self.labelled[known], self.stay[known], self.arrived[known]
        n_hidden, n_strayed = self.strayed[hidden].sum(axis=0)
        strays = n_strayed / n_hidden if n_hidden else 0.0

        def excess(share: float) -> float:
            """Of the samples that belong by where they ended, over those that were assumed to."""
            number = share * self.n_unlabelled
            n_elsewhere = self.n_unlabelled - self.kept_share * number
            own = arrived - strays * n_elsewhere / (self.kept_share * len(known))
            ratio = (own + PRIOR) / (labelled * stay + PRIOR * labelled.sum() / number)
            return float((labelled * ratio).sum() - number)

        least, most = LEAST_SHARE, 1 - LEAST_SHARE
        if excess(least) <= 0:
            return least
        return most if excess(most) >= 0 else float(brentq(excess, least, most))


def _by_labels(labelled: FloatArray, held_out: FloatArray, stayed: FloatArray) -> FloatArray:
    """The share of samples that stay, as it goes with the number of labels of a category."""
    left = held_out - stayed
    if not stayed.any() or not left.any():
        return np.full(len(labelled), 1.0 if stayed.any() or not left.any() else 0.0)
    logs = np.log(labelled)[:, None]
    weights = np.concatenate([stayed, left])
    model = LogisticRegression()
    model.fit(np.concatenate([logs, logs]), np.repeat([1, 0], len(labelled)), sample_weight=weights)
    return np.asarray(model.predict_proba(logs)[:, 1])


def _least_margin(of_kept: FloatArray, of_hidden: FloatArray) -> float:
    """From which margin on a sample ends clearly in a kept category, by those of kept and of hidden categories.

    Never a negative one, with which a sample ends elsewhere.
    """
    if not len(of_kept):
        return 0.0
    highest, lowest = np.quantile(of_kept, [1 - share for share in CLEAR])
    least = np.clip(np.quantile(of_hidden, 1 - STRAYING), lowest, highest) if len(of_hidden) >= TELLING else highest
    return float(max(least, 0.0))


def _counted(truth: IntArray, marked: npt.NDArray[np.bool_]) -> IntArray:
    """Samples of each category that has any, and those of them that are marked: (categories, 2)."""
    categories, rows = np.unique(truth, return_inverse=True)
    n_marked = np.bincount(rows[marked], minlength=len(categories))
    return np.stack([np.bincount(rows, minlength=len(categories)), n_marked], axis=1)


def train_rehearsals(
    problem: Problem,
    rehearsals: Sequence[Rehearsal],
    numbers: Sequence[int],
    *,
    known_share: float | None = None,
    weight_decay: float,
    stage: str,
) -> list[tuple[Partitioner, ...]]:
    """Train each rehearsal with each number of categories and `SIZES_SETTING`: one tuple for each number.

    The marginal is drawn to even shares, or to those that follow from `known_share`.
    """
    ratios = [1.0 if known_share is None else size_ratio(problem, known_share, number) for number in numbers]
    shares = [
        expected_shares(ratio, problem.n_known, number, rehearsals[0].n_kept)
        for ratio, number in zip(ratios, numbers, strict=True)
    ]
    return try_settings(
        problem,
        rehearsals,
        numbers,
        [SIZES_SETTING],
        objective=PARTITION,
        weight_decay=weight_decay,
        shares=shares,
        stage=stage,
    )


def measure_known_share(
    problem: Problem, rehearsal: Rehearsal, partitioner: Partitioner, n_categories: int, weight_decay: float
) -> float:
    """The share of the unlabelled samples that belong to known categories.

    It is read off one rehearsal and, where the sizes turn out uneven, measured in four. The problem's own random
    numbers are left as they are.
    """
    known_share = Stays.of(problem, [Endings.of(problem, rehearsal, partitioner)]).known_share()
    if settled_ratio(problem, known_share, n_categories) == 1.0:
        return known_share
    aside = replace(problem, rng=deepcopy(problem.rng))
    rehearsals = draw_rehearsals(aside, 4)
    (trained,) = train_rehearsals(
        aside,
        rehearsals,
        [n_categories],
        known_share=known_share,
        weight_decay=weight_decay,
        stage="measuring sizes",
    )
    pairs = zip(rehearsals, trained, strict=True)
    return Stays.of(aside, [Endings.of(aside, *pair) for pair in pairs]).known_share()


def evened(problem: Problem, n_categories: int, known_share: float, weight_decay: float) -> IntArray:
    """The samples of a problem without so many of new categories as they have more than known ones.

    In a rehearsal hidden categories stand for the new ones. Where those are much larger, what finds the small
    hidden ones best is not what finds the new ones. Samples are left out at random of every column that a first
    training makes for new categories.
    """
    ratio = size_ratio(problem, known_share, n_categories)
    aside = replace(problem, rng=deepcopy(problem.rng))
    run = Run(
        REHEARSAL_START.prototypes(aside, n_categories, aside.columns),
        PARTITION.at(SIZES_SETTING.lam),
        SIZES_SETTING.temperature,
        shares=expected_shares(ratio, problem.n_known, n_categories),
    )
    training = replace(REHEARSAL_TRAINING, weight_decay=weight_decay)
    columns = problem.samples.assign(training.train(aside, [run], "measuring sizes").partitioners[0])
    stays = np.ones(len(columns), dtype=bool)
    for column in range(problem.n_known, n_categories):
        members = np.flatnonzero((columns == column) & ~problem.labelled)
        n_leaving = len(members) - math.ceil(len(members) / ratio)
        stays[aside.rng.choice(members, n_leaving, replace=False)] = False
    return np.flatnonzero(stays)
