"""Strangeness: how probable is it that a sample belongs to none of a model's categories?

Confidence does not tell: a model shares each sample out among the categories that it has. Five signs tell more when
they are weighed together: that no category is probable (*doubt*), that all logits are low (*energy*), that the
sample is unlike every part of every category (*facet*), that it is far from every category's mean, given how
categories vary (*distance*), and how much farther than from the middle of everything (*relative distance*).

What the signs mean, rehearsals tell. Some categories are taken out of the collection, samples and all, the model is
trained again without them, its metric too, and then asked about their samples and about samples of other categories
that were kept out as well. A logistic regression with weights that are not negative, so that no sign is ever turned
around, says how much more probable the signs are of a stranger.

Samples that are asked about together say something about each other: the neighbours of a stranger mostly are
strangers (`with_neighbours`). How many there are nobody knows beforehand, so that is estimated from them, too
(`Frequencies.company`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from scipy.special import expit, logit, logsumexp

from newkinds.discriminants import projected, random_projection, within_covariance
from newkinds.engine import Partitioner
from newkinds.engine.partitioner import scale
from newkinds.labels import IntArray

FloatArray = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

FACETS = 8
"""Parts of a category that are looked at; fewer where it has fewer than `FACET_SAMPLES` for each."""
FACET_SAMPLES = 3
FACET_ROUNDS = 5
USUAL_ROWS = 1 << 10
"""Samples by which it is told what signs usually are, at even distances."""
TAKEN_OUT = 0.2
"""Share of the categories that a rehearsal takes out."""
KEPT_OUT = 0.1
"""Share of the other samples that it keeps out, to be asked about. The fewer a model was trained with, the stranger
other samples look to it, and a fit lacks none of them."""
REHEARSALS = 5
LEAST_CATEGORIES = 4
"""With fewer categories of `LEAST_SAMPLES` there is nothing to rehearse with."""
LEAST_SAMPLES = 4
REHEARSED = 6000
"""Samples on which rehearsals are held."""
TELLING = 100
"""Labelled samples of either kind from which on they alone are learnt from."""
RIDGE = 1e-3
NEIGHBOURS = 5
"""Samples asked about together that are most alike. Strangers mostly have strangers as neighbours."""
BESIDE = 0.3
"""How much their log ratios count, the sample's own counting the rest, .."""
BESIDE_OF = 50
"""... and half as much among so many: a few samples have no near neighbours."""
COMPARED = 1 << 12
"""Samples that are compared with one another, at most; of more, those that come together."""
COMPARED_ROWS = 1 << 10
"""Of these, at a time."""
RATIOS = np.linspace(-10.0, 10.0, 81)
"""At which log ratios it is kept how frequent they are; beyond, they count as the last."""
SMOOTH = 0.3
"""How far the frequency of a ratio is smoothed: a standard deviation."""
SHIFTS = 0.25 * np.arange(-4, 5)
"""By how much ratios may be higher or lower than in rehearsals, steps of `RATIOS`, .."""
SHIFTED = 0.3
"""... and by how much they usually are: a standard deviation."""
SHARES = np.linspace(0.005, 0.995, 100)
FEW = 4.0
"""How much rarer many strangers are thought beforehand than few: (1 - share) ** (FEW - 1)."""
COUNTING = 300
"""Samples tell the share as if they were at most so many, since the densities are not quite those of rehearsals."""
SURE = 1e-6
"""Probabilities are kept so far from 0 and 1."""

SIGNS: tuple[str, ...] = ("doubt", "energy", "facet", "distance", "relative distance")
CENTRED = np.array([sign in ("energy", "relative distance") for sign in SIGNS])
"""Signs that are told from what they usually are of the model's own samples: trainings and covariances of more or
fewer samples put all of them higher or lower."""


@dataclass(frozen=True)
class Portrait:
    """What the categories of a model look like; all arrays are float32.

    Attributes
    ----------
    facets : ndarray of shape (facets, features)
        Means of parts of categories, of unit length.
    means : ndarray of shape (categories, directions)
        Of the features that the partitioner takes, scaled so that categories vary alike in all directions.
    scaling : ndarray of shape (directions, directions)
        What scales them so.
    middle : ndarray of shape (directions,)
        The mean of all samples, scaled.
    background : ndarray of shape (directions, directions)
        What makes the covariance of all samples, after the scaling, that of a sphere.
    usual : ndarray of shape (signs,)
        Means of the signs of the samples, 0 where signs are not `CENTRED`.
    """

    facets: npt.NDArray[np.float32]
    means: npt.NDArray[np.float32]
    scaling: npt.NDArray[np.float32]
    middle: npt.NDArray[np.float32]
    background: npt.NDArray[np.float32]
    usual: npt.NDArray[np.float32]

    @classmethod
    def of(
        cls,
        partitioner: Partitioner,
        unit: npt.NDArray[np.floating],
        mapped: npt.NDArray[np.floating],
        columns: IntArray,
    ) -> "Portrait":
        """Of samples: unit features, the same as the partitioner takes them, columns of their categories."""
        present, places = np.unique(columns, return_inverse=True)
        narrow = np.asarray(_narrow(mapped), dtype=np.float64)
        means = _means(narrow, places, len(present))
        mean = narrow.mean(axis=0)
        deviations = narrow - means[places]
        within = deviations.T @ deviations
        between = (means - mean) * np.sqrt(np.bincount(places))[:, None]
        scaling = _inverse_root(within_covariance(within, len(narrow) - len(present)))
        total = scaling.T @ (within + between.T @ between) @ scaling
        background = _inverse_root(within_covariance(total, len(narrow) - 1))
        middle = mean @ scaling
        arrays = (_facets(unit, places), means @ scaling, scaling, middle, background, np.zeros(len(SIGNS)))
        portrait = cls(*(np.ascontiguousarray(array, dtype=np.float32) for array in arrays))
        some = np.linspace(0, len(unit) - 1, min(len(unit), USUAL_ROWS)).astype(np.int64)
        usual = np.where(CENTRED, portrait.signs(partitioner, unit[some], mapped[some]).mean(axis=0), 0)
        return replace(portrait, usual=usual.astype(np.float32))

    def fits(self, unit: npt.NDArray[np.floating], mapped: npt.NDArray[np.floating]) -> bool:
        """Whether samples are as wide as those it is of."""
        widths = unit.shape[1], _narrow(mapped[:1]).shape[1]
        return widths == (self.facets.shape[1], self.scaling.shape[0])

    def scaled(self, mapped: npt.NDArray[np.floating]) -> FloatArray:
        """Samples where categories vary alike in all directions."""
        return np.asarray(np.asarray(_narrow(mapped), dtype=np.float64) @ self.scaling)

    def directions(self, mapped: npt.NDArray[np.floating]) -> FloatArray:
        """The same as directions from the middle of everything, by which samples are grouped."""
        return unit_rows(self.scaled(mapped) - self.middle)

    @property
    def category_directions(self) -> FloatArray:
        return unit_rows(np.asarray(self.means, dtype=np.float64) - self.middle)

    def signs(
        self, partitioner: Partitioner, unit: npt.NDArray[np.floating], mapped: npt.NDArray[np.floating]
    ) -> FloatArray:
        """The five signs of each sample, larger ones stranger: (samples, signs)."""
        weights = torch.from_numpy(np.asarray(partitioner.weights, dtype=np.float64))[None]
        temperature = torch.tensor([partitioner.temperature], dtype=torch.float64)
        scaled_weights, bias = scale(weights, temperature, partitioner.geometry == "euclidean")
        logits = np.asarray(mapped, dtype=np.float64) @ scaled_weights[0].numpy().T + bias[0].numpy()
        energy = logsumexp(logits, axis=1)
        highest = np.clip(np.exp(logits.max(axis=1) - energy), SURE, 1 - SURE)
        scaled = self.scaled(mapped)
        means = np.asarray(self.means, dtype=np.float64)
        squares = (scaled**2).sum(axis=1)[:, None] - 2 * scaled @ means.T + (means**2).sum(axis=1)
        nearest = np.maximum(squares.min(axis=1), 0)
        from_middle = (((scaled - self.middle) @ self.background) ** 2).sum(axis=1)
        facet = -(np.asarray(unit, dtype=np.float32) @ self.facets.T).max(axis=1)
        signs = np.stack([-logit(highest), -energy, facet, np.sqrt(nearest), nearest - from_middle], axis=1)
        return np.asarray(signs - self.usual)


@dataclass(frozen=True)
class Rule:
    """A weighted sum of some figures: the log of how much more probable they are if something holds."""

    weights: FloatArray
    intercept: float

    def apply(self, figures: FloatArray) -> FloatArray:
        return np.asarray(figures @ self.weights + self.intercept)

    @classmethod
    def learnt(cls, figures: FloatArray, holds: Mask, ridge: float = RIDGE) -> "Rule":
        """By logistic regression with weights that are not negative, both cases counting the same."""
        centre, spread = figures.mean(axis=0), figures.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        standard = (figures - centre) / spread
        sign = np.where(holds, 1.0, -1.0)
        counts = np.where(holds, 0.5 / max(holds.mean(), SURE), 0.5 / max(1 - holds.mean(), SURE))
        counts = counts / counts.sum()

        def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
            weights = parameters[:-1]
            margin = sign * (standard @ weights + parameters[-1])
            pull = -counts * sign * expit(-margin)
            value = (counts * np.logaddexp(0, -margin)).sum() + ridge * (weights**2).sum()
            return float(value), np.append(standard.T @ pull + 2 * ridge * weights, pull.sum())

        n = figures.shape[1]
        bounds = [(0.0, None)] * n + [(None, None)]
        found = minimize(loss, np.append(np.full(n, 0.3), 0.0), jac=True, bounds=bounds).x
        weights = found[:-1] / spread
        return cls(weights, float(found[-1] - centre @ weights))


@dataclass(frozen=True)
class Company:
    """What samples that are asked about together are, on the whole.

    Attributes
    ----------
    share : float
        Of strangers among them.
    middle, slope : float
        As `Frequencies` has them, but of these samples: a log ratio counts less where strangers look more ordinary.
    """

    share: float
    middle: float = 0.0
    slope: float = 1.0

    @property
    def prior(self) -> float:
        """Log-odds of a sample to be a stranger, before it is looked at."""
        return float(logit(np.clip(self.share, SURE, 1 - SURE)))

    def probability(self, log_ratios: FloatArray) -> FloatArray:
        """That a sample is a stranger."""
        return np.asarray(expit(self.slope * (log_ratios - self.middle) + self.prior))


@dataclass(frozen=True)
class Frequencies:
    """What log ratios in which those of neighbours count (`with_neighbours`) say of the samples of rehearsals.

    Attributes
    ----------
    ordinary, strange : ndarray of shape (ratios,)
        How frequent each of `RATIOS` is among samples of either kind; sums are 1.
    middle : float
        The log ratio that is as probable of a stranger as of an ordinary sample.
    slope : float
        How much a log ratio counts: with those of its neighbours it varies less, and means more.
    """

    ordinary: FloatArray
    strange: FloatArray
    middle: float
    slope: float

    @classmethod
    def of(cls, log_ratios: FloatArray, is_strange: Mask) -> "Frequencies":
        rule = Rule.learnt(log_ratios[:, None], is_strange)
        slope = max(float(rule.weights[0]), SURE)
        ordinary, strange = (_smoothed(_counted(log_ratios[which])) for which in (~is_strange, is_strange))
        return cls(ordinary, strange, -rule.intercept / slope, slope)

    def company(self, log_ratios: FloatArray) -> Company:
        """What samples with these log ratios are: a mixture of both kinds, each shifted a little.

        All shares and shifts count as they are probable. Shifts matter: strangers that come often look more
        ordinary than those of rehearsals, and taken for these, fewer are seen than there are.
        """
        counts = _counted(log_ratios) * min(1.0, COUNTING / max(len(log_ratios), 1))
        beforehand = (FEW - 1) * np.log1p(-SHARES)
        probable = np.empty((len(SHIFTS), len(SHIFTS), len(SHARES)))
        for i, ordinary in enumerate(SHIFTS):
            for j, strange in enumerate(SHIFTS):
                mixed = np.outer(1 - SHARES, _shifted(self.ordinary, ordinary))
                mixed += np.outer(SHARES, _shifted(self.strange, strange))
                unusual = (ordinary**2 + strange**2) / (2 * SHIFTED**2)
                probable[i, j] = np.log(mixed) @ counts - unusual + beforehand
        probable = np.exp(probable - probable.max())
        probable /= probable.sum()
        ordinary, strange = (float(SHIFTS @ probable.sum(axis=(axis, 2))) for axis in (1, 0))
        gap = float((self.strange - self.ordinary) @ RATIOS)
        apart = max(gap + strange - ordinary, 0.0) / gap if gap > 0 else 1.0
        share = float(SHARES @ probable.sum(axis=(0, 1)))
        return Company(share, self.middle + (ordinary + strange) / 2, self.slope * apart)


def _counted(log_ratios: FloatArray) -> FloatArray:
    """How many there are at each of `RATIOS`."""
    places = np.rint((np.clip(log_ratios, RATIOS[0], RATIOS[-1]) - RATIOS[0]) / (RATIOS[1] - RATIOS[0]))
    return np.bincount(places.astype(np.int64), minlength=len(RATIOS)).astype(np.float64)


def _smoothed(counts: FloatArray) -> FloatArray:
    kernel = np.exp(-(((RATIOS[:, None] - RATIOS) / SMOOTH) ** 2) / 2)
    smooth = kernel / kernel.sum(axis=0) @ counts + 0.1 / len(RATIOS)
    return np.asarray(smooth / smooth.sum())


def _shifted(frequencies: FloatArray, shift: float) -> FloatArray:
    """The same of ratios that are so much higher."""
    return np.asarray(np.interp(RATIOS - shift, RATIOS, frequencies))


@dataclass(frozen=True)
class Rehearsed:
    """A rehearsal: what a model without some categories says of samples that it never saw.

    Attributes
    ----------
    portrait : Portrait
        Of the categories that are left.
    signs : ndarray of shape (samples, signs)
    mapped : ndarray of shape (samples, directions)
        As that model's partitioner takes them.
    is_strange : ndarray of shape (samples,)
        Whether the sample's category was taken out.
    columns : ndarray of shape (samples,)
        The category that it has in the collection.
    labelled : ndarray of shape (samples,)
        Whether a label says so.
    """

    portrait: Portrait
    signs: FloatArray
    mapped: npt.NDArray[np.floating]
    is_strange: Mask
    columns: IntArray
    labelled: Mask


Retrain = Callable[[IntArray, IntArray, int], tuple[Partitioner, npt.NDArray[np.floating], IntArray]]
"""Trains a model again on some samples. Takes their rows, their columns and the number of these; returns its
calibrated partitioner, the features of all samples as that takes them, and the columns that it gives those rows."""


def rehearse_strangers(
    unit: npt.NDArray[np.floating],
    columns: IntArray,
    labelled: Mask,
    retrain: Retrain,
    rng: np.random.Generator,
) -> list[Rehearsed]:
    """Take categories out of a collection and see how their samples look to a model without them.

    None where there are too few categories to do so.
    """
    sizes = np.bincount(columns)
    candidates = np.flatnonzero(sizes >= LEAST_SAMPLES)
    if len(candidates) < LEAST_CATEGORIES:
        return []
    rehearsals = []
    for _ in range(REHEARSALS):
        taken_out = rng.choice(candidates, max(1, round(TAKEN_OUT * len(candidates))), replace=False)
        is_strange = np.isin(columns, taken_out)
        is_asked = is_strange | (rng.random(len(columns)) < KEPT_OUT)
        rows = np.flatnonzero(~is_asked)
        if len(rows) < 2:
            continue
        _, places = np.unique(columns[rows], return_inverse=True)
        partitioner, mapped, found = retrain(rows, places, int(places.max()) + 1)
        portrait = Portrait.of(partitioner, unit[rows], mapped[rows], found)
        signs = portrait.signs(partitioner, unit[is_asked], mapped[is_asked])
        rehearsals.append(
            Rehearsed(
                portrait, signs, mapped[is_asked], is_strange[is_asked], columns[is_asked], labelled[is_asked]
            )
        )
    return rehearsals


def learn_strangeness(rehearsals: Sequence[Rehearsed]) -> tuple[Rule, Frequencies]:
    """How much more probable signs are of a stranger, and how frequent that is among samples of either kind.

    Labelled samples tell, if there are enough: others are in a category because the model put them there, and look
    stranger than they are once it is gone.
    """
    signs, is_strange, labelled = (
        np.concatenate([getattr(rehearsed, name) for rehearsed in rehearsals])
        for name in ("signs", "is_strange", "labelled")
    )
    enough = min((labelled & is_strange).sum(), (labelled & ~is_strange).sum()) >= TELLING
    teaches = labelled if enough else np.ones_like(labelled)
    rule = Rule.learnt(signs[teaches], is_strange[teaches])
    ratios = [
        with_neighbours(rule.apply(rehearsed.signs), rehearsed.portrait.directions(rehearsed.mapped))
        for rehearsed in rehearsals
    ]
    return rule, Frequencies.of(np.concatenate(ratios)[teaches], is_strange[teaches])


def even_blocks(n: int) -> list[slice]:
    """Samples, of so many, that are compared with one another."""
    ends = np.linspace(0, n, -(-n // COMPARED) + 1).astype(np.int64).tolist()
    return [slice(first, end) for first, end in pairwise(ends)]


def with_neighbours(log_ratios: FloatArray, directions: FloatArray) -> FloatArray:
    """Log ratios of samples that are asked about together, in which those of their neighbours count."""
    n = len(log_ratios)
    k = min(NEIGHBOURS, n - 1)
    if k < 1:
        return log_ratios
    weight = BESIDE * n / (n + BESIDE_OF)
    points = torch.from_numpy(np.asarray(directions, dtype=np.float32))
    beside = np.empty(n)
    for first in range(0, n, COMPARED_ROWS):
        alike = points[first : first + COMPARED_ROWS] @ points.T
        alike[torch.arange(len(alike)), torch.arange(first, first + len(alike))] = -torch.inf
        nearest = alike.topk(k, sorted=False).indices.numpy()
        beside[first : first + len(alike)] = log_ratios[nearest].mean(axis=1)
    return np.asarray((1 - weight) * log_ratios + weight * beside)


def unit_rows(rows: FloatArray) -> FloatArray:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float64).tiny))


def _narrow(mapped: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    return projected(mapped, random_projection(mapped.shape[1]))


def _means(features: FloatArray, places: IntArray, n: int) -> FloatArray:
    counts = np.bincount(places, minlength=n)
    starts = np.cumsum(counts) - counts
    return np.asarray(np.add.reduceat(features[np.argsort(places, kind="stable")], starts) / counts[:, None])


def _inverse_root(covariance: FloatArray) -> FloatArray:
    """The matrix after which this covariance is that of a sphere."""
    values, directions = np.linalg.eigh(covariance)
    return np.asarray(directions / np.sqrt(np.maximum(values, np.finfo(np.float64).eps)))


def _facets(unit: npt.NDArray[np.floating], places: IntArray) -> FloatArray:
    """Means of parts of each category, of unit length."""
    order = np.argsort(places, kind="stable")
    ends = np.flatnonzero(np.diff(places[order])) + 1
    return np.concatenate([_parts(np.asarray(unit[rows], dtype=np.float32)) for rows in np.split(order, ends)])


def _parts(members: npt.NDArray[np.float32]) -> FloatArray:
    """Means of parts of these samples, which need not be the best: a few rounds from samples at even distances.

    (The engine's k-means would take ten times as long for groups as small as these.)
    """
    n = max(1, min(FACETS, len(members) // FACET_SAMPLES))
    means = members[np.linspace(0, len(members) - 1, n).astype(np.int64)] if n > 1 else members[:1]
    for _ in range(FACET_ROUNDS):
        nearest = (members @ means.T).argmax(axis=1)
        belongs = (nearest == np.arange(n)[:, None]).astype(np.float32)
        sums = belongs @ members
        means = np.where(belongs.any(axis=1)[:, None], sums, means)
        means = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return np.asarray(means, dtype=np.float64)
