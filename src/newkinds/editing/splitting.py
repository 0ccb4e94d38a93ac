"""Splitting one category: its samples are clustered anew, in the metric of the run."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray

if TYPE_CHECKING:
    from newkinds.methods import CategoryDiscoverer

MOST_PARTS = 8
"""Into how many parts a category is split at most, where nobody says how many."""
MOST_ASKED = 100
"""The same where somebody does."""
LOOKED_AT = 1000
"""Samples of a category that are clustered, at even distances; the others go to the nearest part."""
COMPARED = 500
"""Of these, samples by which numbers of parts are compared."""
RESTARTS, ITERATIONS, SETTLED = 2, 30, 0.005
"""Of k-means; the last few samples need not settle."""


@dataclass(frozen=True)
class Split:
    """How a category falls into parts.

    Attributes
    ----------
    parts : list of ndarray
        Rows, the largest part first.
    separation : float
        Mean silhouette of the parts, from -1 to 1: how much nearer samples are to their own part than to the next.
    """

    parts: list[IntArray]
    separation: float


def split_rows(
    model: "CategoryDiscoverer", features: npt.NDArray[Any], rows: IntArray, k: int | None = None
) -> Split:
    """Split samples into `k` parts, or into as many as are best apart; always the same.

    Parameters
    ----------
    model : fitted method
        Its metric is used.
    features : ndarray of shape (samples, features)
        Of all samples of the run.
    rows : ndarray of int
        The samples to split.
    k : int, optional
    """
    import torch

    from newkinds.engine import cluster_each, seed_centroids

    n = len(rows)
    if n < 2:
        raise InputError(f"a category of {n} samples cannot be split; it needs at least 2")
    most = min(n, MOST_ASKED)
    if k is not None and not 2 <= k <= most:
        raise InputError(f"a category of {n} samples can be split into 2 to {most} parts; got {k}")
    unit = np.asarray(model._unit(np.asarray(features[rows], dtype=np.float32)), dtype=np.float32)
    places = np.arange(n) if n <= LOOKED_AT else np.linspace(0, n - 1, LOOKED_AT).astype(np.int64)
    places = places if k is None or k <= len(places) else np.arange(n)
    tensor = torch.from_numpy(np.ascontiguousarray(unit[places]))
    numbers = range(2, min(MOST_PARTS, n) + 1) if k is None else (k,)
    rng, nobody = np.random.RandomState(0), np.full(len(tensor), UNLABELLED)
    seeds = seed_centroids(tensor, max(numbers), n_init=RESTARTS, rng=rng, stage="splitting")
    compared = unit[places[:: max(1, len(places) // COMPARED)]]
    distances = _distances(compared)
    found = [
        (_silhouette(distances, _nearest(compared, centroids)), centroids)
        for number in numbers
        for centroids in cluster_each(
            tensor, seeds[:, :number], nobody, max_iter=ITERATIONS, tolerance=SETTLED, stage="splitting"
        )
    ]
    score, centroids = max(found, key=lambda one: one[0])
    nearest = _nearest(unit, centroids)
    parts = [rows[nearest == part] for part in range(len(centroids))]
    parts = sorted((part for part in parts if len(part)), key=lambda part: (-len(part), int(part[0])))
    if len(parts) < 2 or (k is not None and len(parts) < k):
        raise InputError(
            f"these {n} samples fall into {len(parts)} parts only: the others are copies of each other"
        )
    return Split(parts, round(score, 4))


def _nearest(unit: npt.NDArray[np.float32], centroids: npt.NDArray[np.float32]) -> IntArray:
    """The nearest centroid of each sample."""
    return np.asarray(np.argmin((centroids**2).sum(axis=1) - 2 * unit @ centroids.T, axis=1), dtype=np.int64)


def _distances(unit: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Of all pairs of samples."""
    squares = (unit**2).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(squares[:, None] + squares - 2 * unit @ unit.T, 0)))


def _silhouette(distances: npt.NDArray[np.float32], columns: IntArray) -> float:
    """The mean silhouette of samples among themselves, from their distances and the part that each is in."""
    used, sizes = np.unique(columns, return_counts=True)
    if len(used) < 2:
        return -1.0
    means = np.stack([distances[:, columns == part].mean(axis=1) for part in used], axis=1)
    is_own = used == columns[:, None]
    own_size = sizes[np.searchsorted(used, columns)]
    within = means[is_own] * own_size / np.maximum(own_size - 1, 1)  # without itself
    between = np.where(is_own, np.inf, means).min(axis=1)
    widest = np.maximum(np.maximum(within, between), np.finfo(np.float32).tiny)
    score = np.where(own_size < 2, 0.0, (between - within) / widest)
    return float(score.mean())
