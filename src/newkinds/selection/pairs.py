"""How much larger or smaller than known categories are new ones? An answer that does not lean on any sizes.

Two samples of one category are similar more often than two of different ones; how often, known categories tell.
Among the samples that a rehearsal takes for new, similar pairs are the more frequent the larger their categories
are: with n_j samples in category j, of m, about `a sum n_j (n_j - 1) + b m^2` ordered pairs are similar, where
`a + b` is the chance for two samples of one category and b that for two of different ones. Hidden categories, which
are among those samples, show a and b; the rest says `sum n_j^2 / m`, the size of the category of a typical new
sample. Divided by the same of the hidden categories it is the ratio that is looked for.

Some of those samples belong to known categories. Hidden samples stand in for them: every one is subtracted as often
as there are unlabelled samples for a labelled one. And b is better told by all known categories than by the few
that a rehearsal hides, see `_Across`. Where new samples are similar to labelled ones of kept categories more often
than hidden ones are, or less often, they are taken to be so among themselves too.

Samples are compared in the metric that the kept labels teach, see `newkinds.selection.metric`. What counts as
similar is a threshold on the cosine. A low one is more even between categories, a high one hardly mistakes two
categories for one; several are tried, and each counts by how little it varies when the hidden categories are drawn
again. Its answer is the median of those draws.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import norm as normal
from torch import Tensor

from newkinds.engine import Samples
from newkinds.labels import UNLABELLED, IntArray
from newkinds.selection.metric import within_metric
from newkinds.selection.problem import Problem
from newkinds.selection.rehearsal import HIDDEN_CATEGORIES, FloatArray, Rehearsal

THRESHOLDS = (0.4, 0.5, 0.6, 0.7, 0.8)
"""Share of the pairs of a hidden category that are less similar than a threshold."""
STRENGTH = 0.2
"""Of the metric, see `within_metric`."""
PAIRED = 6000
"""Samples of a rehearsal that are compared with each other."""
SAMPLED = 30
"""Samples of a category whose pairs say what is similar, or how similar different categories are."""
BLOCK = 1024
"""Rows of similarities at a time."""
SET_ASIDE = 24
"""Times that known categories are set aside to see how similar different ones are."""
DRAWS = 200
LEAST_DEVIATION = 0.1
"""Of the logarithm of the ratio at one threshold."""
FEW_CATEGORIES = 1.0
"""Deviation that a single known category would leave, since it may not be like the new ones; with n, the n-th part
of its square."""
SHORT = 1.15
"""By so much negative logarithms fall short: more samples of small categories stray to known ones, which makes
those that are left fewer, and their categories seem larger."""
EXTREME = 50.0
"""Ratios beyond this, or its inverse, are taken for it, and for hardly more than a guess: where no sample belongs
to a new category, fewer pairs may be similar than by chance."""
LEAST_NEW = 0.05
"""Of the samples that were taken for new, those that are at least."""
MOST_LIKENESS = 2.0
"""So many times as often as hidden samples, or so many times less, new ones may be similar to other categories."""


@dataclass(frozen=True)
class SizeRatio:
    """Logarithm of the ratio of sizes, new to known, and its standard deviation."""

    log: float
    deviation: float


@dataclass(frozen=True)
class _Similar:
    """Similar pairs among the samples that one rehearsal takes for new.

    Groups of samples: each hidden category, then hidden samples of kept ones, last those without a label.

    Attributes
    ----------
    sizes : ndarray of shape (groups,)
    pairs : ndarray of shape (thresholds, groups, groups)
        Ordered pairs of different samples that are similar.
    to_kept : ndarray of shape (thresholds, groups)
        Share of the labelled samples of kept categories that a sample is similar to, summed over each group.
    stand_in : float
        Labelled samples of kept categories for each hidden one.
    """

    sizes: FloatArray
    pairs: FloatArray
    to_kept: FloatArray
    stand_in: float

    @property
    def n_hidden(self) -> int:
        return len(self.sizes) - 2

    def weights(self, unlabelled_ratio: float) -> FloatArray:
        """Unlabelled samples that a hidden one stands for, in each group that has any."""
        return unlabelled_ratio * np.append(np.ones(self.n_hidden), self.stand_in)

    def n_new(self, unlabelled_ratio: float) -> float:
        """Samples of new categories among those taken for new."""
        return float(max(self._unbounded_n_new(unlabelled_ratio), LEAST_NEW * self.sizes[-1], 1.0))

    def hardly_any_new(self, unlabelled_ratio: float) -> bool:
        """Whether so few are that nothing can be told of them."""
        return self._unbounded_n_new(unlabelled_ratio) < self.n_new(unlabelled_ratio)

    def _unbounded_n_new(self, unlabelled_ratio: float) -> float:
        return float(self.sizes[-1] - self.weights(unlabelled_ratio) @ self.sizes[:-1])


@dataclass(frozen=True)
class _Across:
    """Pairs of labelled samples of different known categories, in metrics that neither of the two has taught.

    The few categories that one rehearsal hides make few pairs of categories, and a single pair that is hard to tell
    apart would decide; so categories are set aside many more times, for which nothing needs to be trained.

    Attributes
    ----------
    similar : ndarray of shape (thresholds, known, known)
    total : ndarray of shape (known, known)
    """

    similar: FloatArray
    total: FloatArray

    @classmethod
    def of(cls, problem: Problem, generator: np.random.Generator) -> "_Across":
        n_known = problem.n_known
        n_aside = max(2, int(n_known * HIDDEN_CATEGORIES))
        similar, total = np.zeros((len(THRESHOLDS), n_known, n_known)), np.zeros((n_known, n_known))
        if n_aside >= n_known:
            return cls(similar, total)
        rows = _some_of_each(problem.columns, n_known, generator)
        features, columns = problem.samples.take(rows), problem.columns[rows]
        for _ in range(SET_ASIDE):
            aside = np.sort(generator.choice(n_known, n_aside, replace=False))
            of_aside = np.isin(columns, aside)
            metric = within_metric(Samples(features[torch.from_numpy(~of_aside)]), columns[~of_aside], STRENGTH)
            mapped = metric.apply(features[torch.from_numpy(of_aside)])
            group = np.searchsorted(aside, columns[of_aside])
            thresholds = _thresholds(mapped, group, n_aside, generator)
            where = np.ix_(aside, aside)
            for i, counts in enumerate(_count_pairs(mapped, group, n_aside, thresholds)):
                similar[i][where] += counts
            sizes = np.bincount(group, minlength=n_aside)
            total[where] += np.outer(sizes, sizes)
        different = 1 - np.eye(n_known)
        return cls(similar * different, total * different)

    def chance(self, categories: IntArray) -> FloatArray:
        """That two samples of different categories are similar, at each threshold, from some of the categories."""
        times = np.bincount(categories, minlength=len(self.total)).astype(np.float64)
        return np.asarray(self.similar @ times @ times / max(float(times @ self.total @ times), 1.0))


def size_ratio_by_pairs(
    problem: Problem, rehearsals: Sequence[Rehearsal], columns: Sequence[IntArray], unlabelled_ratio: float
) -> SizeRatio:
    """The ratio, from rehearsals and the columns that every sample ended in.

    `unlabelled_ratio` is the number of unlabelled samples of a known category for each labelled one.
    """
    generator = np.random.default_rng(problem.rng.randint(2**31 - 1))
    similar = [
        _similar_pairs(problem, rehearsal, ended, generator)
        for rehearsal, ended in zip(rehearsals, columns, strict=True)
    ]
    across = _Across.of(problem, generator)

    def draw(n: int) -> IntArray:
        return generator.integers(n, size=n)

    drawn = np.array(
        [
            _log_ratios(
                similar,
                [draw(each.n_hidden) for each in similar],
                across.chance(draw(problem.n_known)),
                unlabelled_ratio,
            )
            for _ in range(DRAWS)
        ]
    )
    found = np.median(drawn, axis=0)
    unclear = LEAST_DEVIATION**2 + (np.abs(found) >= np.log(EXTREME)) * np.log(EXTREME) ** 2
    weights = 1 / (_deviation(drawn) ** 2 + unclear)
    weights /= weights.sum()
    combined = float(found @ weights)
    variance = (
        _deviation(drawn @ weights) ** 2
        + ((found - combined) ** 2 + unclear) @ weights
        + FEW_CATEGORIES**2 / problem.n_known
    )
    return SizeRatio(combined if combined > 0 else SHORT * combined, float(np.sqrt(variance)))


def _deviation(drawn: FloatArray) -> FloatArray:
    """Of what was drawn, by its middle two thirds: some draws have hardly a similar pair and end at the extreme."""
    low, high = np.quantile(drawn, (normal.cdf(-1), normal.cdf(1)), axis=0)
    return np.asarray((high - low) / 2)


def _similar_pairs(
    problem: Problem, rehearsal: Rehearsal, columns: IntArray, generator: np.random.Generator
) -> _Similar:
    truth = np.full(len(columns), UNLABELLED)
    truth[rehearsal.hidden] = rehearsal.truth
    rows = _some(np.flatnonzero((columns >= rehearsal.n_kept) & (rehearsal.labels == UNLABELLED)), generator)
    own = truth[rows]
    hidden = np.unique(own[own >= rehearsal.n_kept])
    group = np.searchsorted(hidden, own)
    group[(own >= 0) & (own < rehearsal.n_kept)] = len(hidden)
    group[own == UNLABELLED] = len(hidden) + 1
    n_groups = len(hidden) + 2
    features = problem.samples.take(rows)
    kept = _some(np.flatnonzero(rehearsal.labels != UNLABELLED), generator)
    metric = within_metric(Samples(problem.samples.take(kept)), rehearsal.labels[kept], STRENGTH)
    features = metric.apply(features)
    thresholds = _thresholds(features, group, len(hidden), generator)
    pairs = _count_pairs(features, group, n_groups, thresholds)
    few = _some_of_each(rehearsal.labels, rehearsal.n_kept, generator)
    to_kept = _shares(features, group, n_groups, metric.apply(problem.samples.take(few)), thresholds)
    n_held_out = int((rehearsal.truth < rehearsal.n_kept).sum())
    n_kept_labels = int((rehearsal.labels != UNLABELLED).sum()) + n_held_out
    sizes = np.bincount(group, minlength=n_groups).astype(np.float64)
    return _Similar(sizes, pairs, to_kept, n_kept_labels / max(n_held_out, 1))


def _some(rows: IntArray, generator: np.random.Generator) -> IntArray:
    return rows if len(rows) <= PAIRED else np.sort(generator.choice(rows, PAIRED, replace=False))


def _some_of_each(categories: IntArray, n_categories: int, generator: np.random.Generator) -> IntArray:
    of_each = [
        generator.permutation(np.flatnonzero(categories == category))[:SAMPLED] for category in range(n_categories)
    ]
    return _some(np.sort(np.concatenate(of_each)), generator)


def _count_pairs(features: Tensor, group: IntArray, n_groups: int, thresholds: FloatArray) -> FloatArray:
    """Ordered pairs of samples that are more similar than each threshold: (thresholds, groups, groups)."""
    members = torch.nn.functional.one_hot(torch.from_numpy(group), n_groups).to(features)
    pairs = np.zeros((len(thresholds), n_groups, n_groups))
    for first in range(0, len(features), BLOCK):
        block = slice(first, first + BLOCK)
        similarity = features[block] @ features.T
        similarity.diagonal(first).fill_(-1.0)
        for i, threshold in enumerate(thresholds.tolist()):
            counts = members[block].T @ ((similarity > threshold).to(features) @ members)
            pairs[i] += counts.double().cpu().numpy()
    return pairs


def _shares(features: Tensor, group: IntArray, n_groups: int, others: Tensor, thresholds: FloatArray) -> FloatArray:
    """Share of the others that a sample is more similar to than each threshold, summed over its group."""
    shares = np.zeros((len(thresholds), n_groups))
    for first in range(0, len(features), BLOCK):
        block = slice(first, first + BLOCK)
        similarity = features[block] @ others.T
        for i, threshold in enumerate(thresholds.tolist()):
            share = (similarity > threshold).double().mean(dim=1).cpu().numpy()
            shares[i] += np.bincount(group[block], weights=share, minlength=n_groups)
    return shares


def _thresholds(features: Tensor, group: IntArray, n_hidden: int, generator: np.random.Generator) -> FloatArray:
    similarities = []
    for category in range(n_hidden):
        members = generator.permutation(np.flatnonzero(group == category))[:SAMPLED]
        own = features[torch.from_numpy(members)]
        similarities.append((own @ own.T).cpu().numpy()[np.triu_indices(len(members), 1)])
    together = np.concatenate([np.empty(0), *similarities])
    return np.quantile(together, THRESHOLDS) if len(together) else np.array(THRESHOLDS)


def _log_ratios(
    similar: Sequence[_Similar], drawn: Sequence[IntArray], chance: FloatArray, unlabelled_ratio: float
) -> FloatArray:
    """The logarithm of the ratio at each threshold, from the hidden categories that were drawn.

    `chance` is that for two samples of different categories to be similar.
    """
    new, n_new, hidden, n_hidden, alike = np.zeros((5, len(THRESHOLDS)))
    chance_of_new = chance * _likeness(similar, drawn, unlabelled_ratio)
    for each, own in zip(similar, drawn, strict=True):
        count, energy = each.n_new(unlabelled_ratio), _similar_new(each, unlabelled_ratio)
        new += energy - count * (count - 1) * chance_of_new
        n_new += count
        sizes = each.sizes[own]
        several = sizes > 1
        within = np.diagonal(each.pairs, axis1=1, axis2=2)[:, own[several]] / (sizes * (sizes - 1))[several]
        whole = sizes[several] * (1 + unlabelled_ratio)
        hidden += (whole**2 * (within - chance[:, None])).sum(axis=1)
        alike += (whole * (within - chance[:, None])).sum(axis=1)
        n_hidden += whole.sum()
    n_hidden = np.maximum(n_hidden, 1.0)
    # A sample of a category of n makes n - 1 pairs in it; one more, and it is as large as the pairs say.
    ratio = (new / n_new + alike / n_hidden) / np.where(hidden > 0, hidden / n_hidden, np.nan)
    return np.log(np.clip(np.nan_to_num(ratio, nan=1 / EXTREME), 1 / EXTREME, EXTREME))


def _similar_new(similar: _Similar, unlabelled_ratio: float) -> FloatArray:
    """Similar pairs of samples of new categories, at each threshold.

    A hidden category of n has unlabelled samples too, as many as its hidden ones stand for, say u. Between them are
    u (u - 1) pairs, of which twice u^2 are taken away, as often as they are paired with hidden ones, and u (u + 1)
    must be given back; the n (n - 1) pairs of hidden ones, weighted, are (u / n) u (n - 1).
    """
    n, sizes, pairs = similar.n_hidden, similar.sizes, similar.pairs
    weights = similar.weights(unlabelled_ratio)
    within = np.diagonal(pairs, axis1=1, axis2=2)[:, :n]
    more = (within / np.maximum(sizes[:n] - 1, 1)).sum(axis=1) * (unlabelled_ratio**2 + unlabelled_ratio)
    known = np.einsum("i,tij,j->t", weights, pairs[:, :-1, :-1], weights) + more
    return np.asarray(pairs[:, -1, -1] - 2 * pairs[:, -1, :-1] @ weights + known)


def _likeness(similar: Sequence[_Similar], drawn: Sequence[IntArray], unlabelled_ratio: float) -> FloatArray:
    """How many times as often as hidden samples new ones are similar to labelled samples of other categories."""
    new, hidden = np.zeros((2, len(THRESHOLDS)))
    n_new = n_hidden = 0.0
    for each, own in zip(similar, drawn, strict=True):
        if each.hardly_any_new(unlabelled_ratio):
            continue
        new += each.to_kept[:, -1] - each.to_kept[:, :-1] @ each.weights(unlabelled_ratio)
        n_new += each.n_new(unlabelled_ratio)
        hidden += each.to_kept[:, own].sum(axis=1)
        n_hidden += each.sizes[own].sum()
    n_new, n_hidden = max(n_new, 1.0), max(n_hidden, 1.0)
    likeness = np.divide(new / n_new, hidden / n_hidden, out=np.ones(len(THRESHOLDS)), where=hidden > 0)
    return np.clip(likeness, 1 / MOST_LIKENESS, MOST_LIKENESS)
