"""Which categories look like one, which like two, and which are mostly copies? Advice from features alone.

Two categories are apart as far as their samples are surrounded by their own. So the measure is the *crossing*: of
the nearest neighbours of a sample, in the two categories together, the share that are in the other one, divided by
what it would be if the two were mixed at random: near 0 for clear categories, near 1 for mixed ones. It does not
mind the shape of a category, and hardly that a partition cuts it with a clean edge, which makes any two parts look
well apart by their means.

What a crossing means, the run itself tells. Known categories are cut into halves (2-means): two new categories that
cross as much as such halves may be one. Pairs of neighbouring known categories are apart: a category whose halves
cross no more than those may be two. With few known categories there is no advice.

Samples are compared in the metric of a linear discriminant: directions in which known categories vary count little,
those in which categories differ count much. NumPy only, so that it can be read without PyTorch.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from newkinds.discriminants import projected, random_projection, within_covariance
from newkinds.encoders.duplicates import NEAR
from newkinds.labels import IntArray

LEAST_KNOWN = 6
"""Known categories that are needed to say what is usual."""
LEAST_SAMPLES = 10
"""Of a category that anything is said of."""
COMPARED = 100
"""Samples of a category that are looked at, at even distances."""
NEIGHBOURS = 10
"""Of a sample, which are looked at; fewer where there are hardly more samples."""
NEAREST = 5
"""Categories that each one is compared with."""
RESTARTS, ITERATIONS = 4, 20
"""Of 2-means."""
SMALLEST_HALF = 0.25
"""Share of a category's samples that its smaller half must have, or it is no half but some odd samples."""
ALIKE = 0.8
"""Share of the halves of known categories that must be better apart than two categories which may be one."""
APART = 0.5
"""Share of the pairs of neighbouring known categories that must be worse apart than halves which may be two."""
MOST = 10
"""Pieces of advice of a kind."""
MOSTLY = 0.5
"""Share of copies from which a category is mostly copies."""
UNUSUAL = 0.3
"""By so much its share must exceed that of the middle category: where texts are short, many are alike anyway."""
SEARCHED = 1 << 11
"""Samples of a category among which copies are looked for, at even distances."""
SEARCHED_ROWS = 1 << 10
"""Of those, so many at a time."""

FloatArray = npt.NDArray[np.float64]
Features = npt.NDArray[np.floating]


class PossibleMerge(NamedTuple):
    """Two categories that may be one; the closer `strength` is to 1, the more they look like halves of one."""

    first: int
    second: int
    strength: float


class PossibleSplit(NamedTuple):
    """A category that may be two; the closer `strength` is to 1, the better its halves are apart."""

    category: int
    strength: float


class MostlyCopies(NamedTuple):
    """A category most of whose samples are nearly the same as another of its samples, and the share of these."""

    category: int
    share: float


@dataclass(frozen=True)
class Separation:
    """How well the categories of a run are apart.

    Attributes
    ----------
    features : ndarray of shape (samples, features)
        Of unit length; may be a memory map, of which a part is read.
    columns : ndarray of shape (samples,)
        The category of each sample: 0, 1, …
    is_new : ndarray of shape (categories,)
        Which categories had no label.
    """

    features: Features
    columns: IntArray
    is_new: npt.NDArray[np.bool_]

    def merges(
        self, *, with_known: bool = False, asked: npt.NDArray[np.bool_] | None = None
    ) -> list[PossibleMerge]:
        """Pairs of new categories that may be one, the likeliest first; a category is in one pair at most.

        `with_known` also looks at pairs of a new and a known one; of `asked` categories one must be in each pair.
        """
        usual = self._known_halves
        if len(usual) < LEAST_KNOWN:
            return []
        among = np.ones_like(self.is_new) if with_known else self.is_new
        crossings = {
            (first, second): self._crossing(first, second)
            for first, second in self._neighbours(among)
            if (self.is_new[first] or self.is_new[second]) and (asked is None or asked[first] or asked[second])
        }
        merges = []
        taken: set[int] = set()
        for (first, second), crossing in sorted(crossings.items(), key=lambda item: (-item[1], item[0])):
            strength = _rank(crossing, usual)
            if strength >= ALIKE and not {first, second} & taken:
                taken |= {first, second}
                merges.append(PossibleMerge(first, second, strength))
        return merges[:MOST]

    def splits(self) -> list[PossibleSplit]:
        """New categories that may be two, the likeliest first."""
        pairs = list(self._neighbours(~self.is_new))
        if len(self._known_halves) < LEAST_KNOWN:
            return []
        usual = np.array([self._crossing(*pair) for pair in pairs])
        new = [category for category in self._judged if self.is_new[category]]
        splits = [
            PossibleSplit(category, 1 - _rank(crossing, usual))
            for category in new
            if np.isfinite(crossing := self._halves_crossing(category))
        ]
        splits.sort(key=lambda split: (-split.strength, split.category))
        return [split for split in splits if split.strength >= APART][:MOST]

    def halves(self, category: int) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """Some samples of a category (rows), and which of them are in its second half."""
        return self._rows[category], _halves(self._members[category])

    @cached_property
    def _rows(self) -> list[IntArray]:
        """The samples of each category that are looked at."""
        return [_spread(rows, COMPARED) for rows in _by_category(self.columns, len(self.is_new))]

    @cached_property
    def _members(self) -> list[FloatArray]:
        """Those samples in the metric of the discriminant, of unit length."""
        sizes = [len(rows) for rows in self._rows]
        own = np.repeat(np.arange(len(sizes)), sizes)
        projection = random_projection(self.features.shape[1])
        features = np.concatenate(
            [projected(self.features[rows].astype(np.float64), projection) for rows in self._rows]
        )
        return np.split(_discriminant(features, own, self.is_new), np.cumsum(sizes)[:-1])

    @cached_property
    def _judged(self) -> list[int]:
        """Categories with enough samples."""
        return [category for category, members in enumerate(self._members) if len(members) >= LEAST_SAMPLES]

    @cached_property
    def _known_halves(self) -> FloatArray:
        """The crossings of the halves of known categories."""
        known = [category for category in self._judged if not self.is_new[category]]
        crossings = np.array([self._halves_crossing(category) for category in known])
        return np.asarray(crossings[np.isfinite(crossings)])

    def _neighbours(self, among: npt.NDArray[np.bool_]) -> Iterable[tuple[int, int]]:
        """Pairs of categories of which one is among the nearest of the other."""
        judged = np.array([category for category in self._judged if among[category]], dtype=np.int64)
        if len(judged) < 2:
            return []
        means = np.array([self._members[category].mean(axis=0) for category in judged])
        distances = _squared_distances(means, means)
        np.fill_diagonal(distances, np.inf)
        nearest = np.argsort(distances, axis=1, kind="stable")[:, : min(NEAREST, len(judged) - 1)]
        pairs = {
            (int(min(one, judged[other])), int(max(one, judged[other])))
            for one, others in zip(judged, nearest, strict=True)
            for other in others
        }
        return sorted(pairs)

    def _crossing(self, first: int, second: int) -> float:
        return crossing([members[::2] for members in (self._members[first], self._members[second])])

    def _halves_crossing(self, category: int) -> float:
        """NaN where there are no two halves."""
        members = self._members[category]
        is_second = _halves(members)
        smaller = min(int(is_second.sum()), int((~is_second).sum()))
        if smaller < SMALLEST_HALF * len(members):
            return float("nan")
        return crossing([members[~is_second], members[is_second]])


def mostly_copies(features: Features, columns: IntArray, n_categories: int) -> list[MostlyCopies]:
    """Categories that are mostly copies, unlike the others of the run, the worst first.

    Parameters
    ----------
    features : ndarray of shape (samples, features)
        Of unit length, but for rounding; may be a memory map.
    columns : ndarray of shape (samples,)
        The category of each sample: 0, 1, …
    n_categories : int
    """
    members = _by_category(columns, n_categories)
    shares = {
        category: _share_of_copies(features, _spread(rows, SEARCHED))
        for category, rows in enumerate(members)
        if len(rows) >= 2
    }
    usual = float(np.median(list(shares.values()))) if len(shares) > 1 else 0.0
    found = [
        MostlyCopies(category, share)
        for category, share in shares.items()
        if share >= max(MOSTLY, usual + UNUSUAL) and len(members[category]) >= LEAST_SAMPLES
    ]
    return sorted(found, key=lambda copies: (-copies.share, copies.category))[:MOST]


def _share_of_copies(features: Features, rows: IntArray) -> float:
    unit = np.asarray(features[rows], dtype=np.float32)
    unit /= np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    n_copies = 0
    for first in range(0, len(unit), SEARCHED_ROWS):
        cosines = unit[first : first + SEARCHED_ROWS] @ unit.T
        own = np.arange(len(cosines))
        cosines[own, first + own] = -1.0
        n_copies += int((cosines.max(axis=1) >= NEAR).sum())
    return n_copies / len(unit)


def crossing(groups: Sequence[FloatArray]) -> float:
    """Share of the nearest neighbours of the samples of two groups in the other group, relative to chance.

    Examples
    --------
    >>> apart = [np.array([[0.0], [0.1], [0.2]]), np.array([[5.0], [5.1], [5.2]])]
    >>> crossing(apart) < 0.5
    True
    """
    samples = np.concatenate(groups)
    is_second = np.repeat([False, True], [len(group) for group in groups])
    distances = _squared_distances(samples, samples)
    np.fill_diagonal(distances, np.inf)
    n_neighbours = max(1, min(NEIGHBOURS, len(samples) // 3))
    nearest = np.argpartition(distances, n_neighbours - 1, axis=1)[:, :n_neighbours]
    share = float(is_second.mean())
    return float((is_second[nearest] != is_second[:, None]).mean() / (2 * share * (1 - share)))


def _rank(value: float, usual: FloatArray) -> float:
    """The share of the usual values that are below a value; equal ones count half."""
    return float(((usual < value).mean() + (usual <= value).mean()) / 2)


def _by_category(columns: IntArray, n_categories: int) -> list[IntArray]:
    """The rows of each category, ascending."""
    order = np.argsort(columns, kind="stable")
    return np.split(order, np.searchsorted(columns[order], np.arange(1, n_categories)))


def _spread(rows: IntArray, most: int) -> IntArray:
    """All of them, or so many at even distances."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]


def _squared_distances(left: FloatArray, right: FloatArray) -> FloatArray:
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1)
    return np.asarray(np.maximum(squares - 2 * left @ right.T, 0.0))


def _discriminant(features: FloatArray, own: IntArray, is_new: npt.NDArray[np.bool_]) -> FloatArray:
    """Features in a metric in which categories are round, and directions count by how much categories differ.

    The covariance within categories is that of the known ones, if there are enough.
    """
    width, n_categories = features.shape[1], len(is_new)
    counts = np.bincount(own, minlength=n_categories)
    means = np.zeros((n_categories, width))
    np.add.at(means, own, features)
    means /= np.maximum(counts, 1)[:, None]
    teaches = ~is_new[own] if (~is_new).sum() >= LEAST_KNOWN else np.ones(len(own), dtype=bool)
    around = features[teaches] - means[own[teaches]]
    degrees = max(int(teaches.sum()) - len(np.unique(own[teaches])), 1)
    root = np.linalg.cholesky(within_covariance(around.T @ around, degrees))
    inverse = np.linalg.inv(root).T
    there = counts > 0
    centre = means[there].mean(axis=0)
    centred = (means[there] - centre) @ inverse
    between, directions = np.linalg.eigh(centred.T @ centred / max(int(there.sum()) - 1, 1))
    signal = np.maximum(between - (1 / counts[there]).mean(), 0.0)  # what remains without the noise of the means
    keeps = signal > 0
    if not keeps.any():
        return features
    weights = (signal / (signal + 1))[keeps]
    mapped = (features - centre) @ (inverse @ directions[:, keeps] * weights)
    lengths = np.linalg.norm(mapped, axis=1, keepdims=True)
    return np.asarray(mapped / np.where(lengths > 0, lengths, 1.0))


def _halves(samples: FloatArray) -> npt.NDArray[np.bool_]:
    """Which samples are in the second half, by 2-means; always the same."""
    generator = np.random.default_rng(len(samples))
    best, chosen = -np.inf, np.zeros(len(samples), dtype=bool)
    for _ in range(RESTARTS):
        centres = samples[generator.choice(len(samples), 2, replace=False)]
        is_second = np.zeros(len(samples), dtype=bool)
        for _ in range(ITERATIONS):
            distances = _squared_distances(samples, centres)
            before, is_second = is_second, distances[:, 1] < distances[:, 0]
            if is_second.all() or not is_second.any() or (is_second == before).all():
                break
            centres = np.stack([samples[~is_second].mean(axis=0), samples[is_second].mean(axis=0)])
        if is_second.all() or not is_second.any():
            continue
        gap = samples[~is_second].mean(axis=0) - samples[is_second].mean(axis=0)
        explained = float(is_second.mean() * (~is_second).mean() * (gap @ gap))
        if explained > best:
            best, chosen = explained, is_second
    return chosen
