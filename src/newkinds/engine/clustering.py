"""k-means and semi-supervised k-means, all restarts in one batch.

One implementation serves both: with labels, known centroids start at their class means and labelled samples
never leave their class; without, it is ordinary k-means. Seeding is k-means++, greedy by default. Distances
come from matrix products, so no (samples, categories, features) array exists.

What happens in the corners: a centroid that loses all its samples moves to the sample farthest from its own
centroid (where several do, each takes another one; where all samples sit on their centroids it stays). A sample
as near to two centroids goes to the first. A restart ends when no assignment changes.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from newkinds.engine.partitioner import FloatArray, blocks
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray
from newkinds.runtime import report_progress

Seeding = Literal["greedy", "d2", "random"]
SEEDINGS: tuple[Seeding, ...] = get_args(Seeding)
Inertia = Literal["squared", "nearest"]

SEEDING_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 28, "mps": 1 << 24}
"""Candidate distances computed at once while seeding."""
ON_CENTROID = 1e-6
"""Squared distance of unit vectors below which float32 cannot tell a sample from its centroid."""


@dataclass(frozen=True)
class Clustering:
    """The best restart of k-means.

    Attributes
    ----------
    centroids : ndarray of shape (categories, features)
    columns : ndarray of shape (samples,)
        Category of each sample.
    inertia : float
        By what the restarts were compared; see `kmeans`.
    n_iter : int
        Iterations until no assignment changed, or the maximum.
    converged : bool
    """

    centroids: FloatArray
    columns: IntArray
    inertia: float
    n_iter: int
    converged: bool


def kmeans(
    features: Tensor,
    n_categories: int,
    *,
    labels: IntArray | None = None,
    seeding: Seeding = "greedy",
    n_init: int = 10,
    max_iter: int = 100,
    inertia: Inertia = "squared",
    rng: np.random.RandomState,
    stage: str = "k-means",
) -> Clustering:
    """Cluster by k-means, or by semi-supervised k-means where labels are given.

    Parameters
    ----------
    features : Tensor of shape (samples, features)
        L2-normalised, float32, on the device to work on.
    n_categories : int
    labels : ndarray of shape (samples,), optional
        0 … n_known - 1 for labelled samples, -1 for the others.
    seeding : {"greedy", "d2", "random"}
        See `seed_centroids`.
    n_init : int
        Restarts; the one with the lowest inertia wins, the first of equals.
    max_iter : int
    inertia : {"squared", "nearest"}
        "squared": squared distances, labelled samples at their own category. "nearest": plain distances, every
        sample at its nearest centroid, as the authors of PIM released it. Only the choice among the restarts
        depends on it.
    rng : RandomState
    stage : str
        What to call this in progress reports.

    Examples
    --------
    >>> features = torch.tensor([[1.0, 0.0], [0.99, 0.14], [0.0, 1.0], [0.14, 0.99]])
    >>> result = kmeans(features, 2, rng=np.random.RandomState(0))
    >>> bool(result.columns[0] == result.columns[1] != result.columns[2] == result.columns[3])
    True
    """
    centroids = seed_centroids(
        features, n_categories, labels=labels, seeding=seeding, n_init=n_init, rng=rng, stage=stage
    )
    lloyd = _Lloyd(features, labels)
    best: Clustering | None = None
    active = centroids  # (restarts still moving, categories, features)
    previous: Tensor | None = None
    for iteration in range(1, max_iter + 1):
        columns, distances = lloyd.assign(active)
        still = lloyd.changed(columns, previous)
        moved, relocated = lloyd.update(active, columns, distances)
        still |= relocated
        last = iteration == max_iter
        for r in range(len(active)):
            if still[r] and not last:
                continue
            result = lloyd.finish(moved[r], inertia, iteration, converged=not bool(still[r]))
            if best is None or result.inertia < best.inertia:
                best = result
        active, previous = moved[still], columns[:, still]
        report_progress(stage, iteration, max_iter)
        if len(active) == 0:
            report_progress(stage, max_iter, max_iter)
            break
    assert best is not None
    return best


class _Lloyd:
    """Lloyd's two half-steps for a batch of centroid sets."""

    def __init__(self, features: Tensor, labels: IntArray | None) -> None:
        self.features = features
        self.squares = features.square().sum(1)
        given = np.full(len(features), UNLABELLED) if labels is None else labels
        self.labels = torch.from_numpy(given).to(features.device)
        self.any_labelled = bool((given != UNLABELLED).any())

    def finish(self, centroids: Tensor, inertia: Inertia, n_iter: int, converged: bool) -> Clustering:
        columns, distances = self.assign(centroids[None])
        if inertia == "nearest":
            distances = self.assign(centroids[None], keep_labels=False)[1].sqrt()
        return Clustering(
            centroids=centroids.cpu().numpy(),
            columns=columns[:, 0].cpu().numpy(),
            inertia=float(distances.cpu().double().sum()),
            n_iter=n_iter,
            converged=converged,
        )

    def assign(self, centroids: Tensor, keep_labels: bool = True) -> tuple[Tensor, Tensor]:
        """Category of each sample and its squared distance, both (samples, restarts)."""
        restarts, categories, width = centroids.shape
        n = len(self.features)
        flat = centroids.reshape(-1, width)
        offset = -0.5 * flat.square().sum(1)
        columns = torch.empty(n, restarts, dtype=torch.int64, device=flat.device)
        affinity = torch.empty(n, restarts, dtype=flat.dtype, device=flat.device)  # z.c - |c|^2 / 2
        for rows in blocks(n, len(flat), flat.device.type):
            products = torch.addmm(offset, self.features[rows], flat.T).view(-1, restarts, categories)
            affinity[rows], columns[rows] = products.max(-1)
            if keep_labels and self.any_labelled:
                own = self.labels[rows, None].expand(-1, restarts)
                at_own = products.gather(-1, own.clamp_min(0).unsqueeze(-1)).squeeze(-1)
                affinity[rows] = torch.where(own == UNLABELLED, affinity[rows], at_own)
                columns[rows] = torch.where(own == UNLABELLED, columns[rows], own)
        return columns, (self.squares[:, None] - 2 * affinity).clamp_min_(0)

    @staticmethod
    def changed(columns: Tensor, previous: Tensor | None) -> Tensor:
        if previous is None:
            return torch.ones(columns.shape[1], dtype=torch.bool, device=columns.device)
        return (columns != previous).any(0)

    def update(self, centroids: Tensor, columns: Tensor, distances: Tensor) -> tuple[Tensor, Tensor]:
        """Means of the assigned samples, and which restarts had to relocate an empty category."""
        sums, counts = category_sums(self.features, columns, centroids.shape[1])
        empty = counts == 0
        moved = torch.where(empty[:, :, None], centroids, sums / counts.clamp_min(1)[:, :, None])
        relocated = torch.zeros(len(centroids), dtype=torch.bool, device=centroids.device)
        for r in torch.nonzero(empty.any(1)).flatten().tolist():
            free = torch.nonzero(empty[r]).flatten()
            far = torch.where(self.labels == UNLABELLED, distances[:, r], -1.0)
            farthest = far.topk(min(len(free), len(far)))
            useful = farthest.values > ON_CENTROID
            moved[r, free[: len(useful)][useful]] = self.features[farthest.indices[useful]]
            relocated[r] = bool(useful.any())
        return moved, relocated


def category_sums(features: Tensor, columns: Tensor, n_categories: int) -> tuple[Tensor, Tensor]:
    """Sum of the features and number of samples of each category.

    Parameters
    ----------
    features : Tensor of shape (samples, features)
    columns : Tensor of shape (samples, restarts)
    n_categories : int

    Returns
    -------
    sums : Tensor of shape (restarts, categories, features)
    counts : Tensor of shape (restarts, categories)
    """
    restarts = columns.shape[1]
    width = features.shape[1]
    first = torch.arange(restarts, device=columns.device) * n_categories
    flat = columns + first  # a column of its own for each category of each restart
    counts = torch.bincount(flat.flatten(), minlength=restarts * n_categories)
    sums = torch.zeros(restarts * n_categories, width, dtype=features.dtype, device=features.device)
    if features.device.type == "cpu":
        _add_by_index(sums, flat, features)
    else:  # index_add_ adds in an order that changes between runs on a GPU; a product does not
        _add_by_product(sums, flat, features)
    return sums.view(restarts, n_categories, width), counts.view(restarts, n_categories)


def _add_by_index(sums: Tensor, columns: Tensor, features: Tensor) -> None:
    """Add each sample to its row of `sums` for each restart: columns of shape (samples, restarts)."""
    for own in columns.T:
        sums.index_add_(0, own, features)


def _add_by_product(sums: Tensor, columns: Tensor, features: Tensor) -> None:
    """The same by a product with the membership matrix, block by block."""
    for rows in blocks(len(features), len(sums), features.device.type):
        members = torch.zeros(rows.stop - rows.start, len(sums), dtype=sums.dtype, device=sums.device)
        members.scatter_(1, columns[rows], 1.0)
        sums.addmm_(members.T, features[rows])


def seed_centroids(
    features: Tensor,
    n_categories: int,
    *,
    labels: IntArray | None = None,
    seeding: Seeding = "greedy",
    n_init: int = 1,
    rng: np.random.RandomState,
    stage: str = "seeding",
) -> Tensor:
    """First centroids of shape (n_init, n_categories, features).

    Known categories start at the means of their labelled samples; the others at unlabelled samples.

    Parameters
    ----------
    features, n_categories, labels, n_init, rng, stage
        As for `kmeans`.
    seeding : {"greedy", "d2", "random"}
        How the unlabelled samples are drawn: "d2" is k-means++ (each drawn with probability proportional to
        its squared distance to the nearest centroid so far), "greedy" draws 2 + floor(ln K) such candidates
        and takes the one that lowers the inertia most, "random" draws uniformly without repetition.
    """
    if seeding not in SEEDINGS:
        raise InputError(f"seeding must be one of {', '.join(SEEDINGS)}; got {seeding!r}")
    given = np.full(len(features), UNLABELLED) if labels is None else labels
    columns = torch.from_numpy(given).to(features.device)
    n_known = int(given.max(initial=UNLABELLED)) + 1
    known_rows = columns != UNLABELLED
    known = features.new_zeros(1, n_known, features.shape[1])
    if n_known:
        sums, counts = category_sums(features[known_rows], columns[known_rows][:, None], n_known)
        known = sums / counts.clamp_min(1)[:, :, None]
    pool = features if n_known == 0 else features[~known_rows]
    n_novel = n_categories - n_known
    if not 0 <= n_novel <= len(pool):
        raise InputError(
            f"{n_categories} categories cannot be started from {n_known} known ones and "
            f"{len(pool)} unlabelled samples"
        )
    # Each restart has a generator of its own: how restarts are grouped does not change them.
    streams = [np.random.RandomState(seed) for seed in rng.randint(2**31 - 1, size=n_init)]
    centroids = known.repeat(n_init, 1, 1)
    if n_novel == 0:
        return centroids
    if seeding == "random":
        drawn = np.stack([stream.permutation(len(pool))[:n_novel] for stream in streams])
        return torch.cat([centroids, pool[torch.from_numpy(drawn).to(pool.device)]], dim=1)
    candidates = 1 if seeding == "d2" else 2 + int(np.log(n_categories))
    group = max(1, SEEDING_ELEMENTS[features.device.type] // (candidates * len(pool)))
    seeded = []
    for first in range(0, n_init, group):
        some = streams[first : first + group]
        seeded.append(_draw_by_distance(pool, known[0], n_novel, candidates, some, f"{stage}: seeding"))
    return torch.cat([centroids, torch.cat(seeded)], dim=1)


def _draw_by_distance(
    pool: Tensor, known: Tensor, n_novel: int, candidates: int, streams: list[np.random.RandomState], stage: str
) -> Tensor:
    """k-means++ for a group of restarts: (restarts, novel, features)."""
    restarts, n = len(streams), len(pool)
    squares = pool.square().sum(1)
    draws = np.stack([stream.random_sample((n_novel, candidates)) for stream in streams], axis=1)
    # Sums over many samples want double precision, which Apple's devices do not have.
    precise = torch.float32 if pool.device.type == "mps" else torch.float64
    uniform = torch.from_numpy(draws).to(precise).to(pool.device)  # (novel, restarts, candidates)
    nearest: Tensor | None = None  # squared distance to the nearest centroid so far: (restarts, n)
    if len(known):
        rows = blocks(n, len(known), pool.device.type)
        nearest = torch.cat([_squared_distances(known, pool[r], squares[r]).amin(0) for r in rows])
        nearest = nearest.repeat(restarts, 1)
    chosen = []
    everyone = torch.arange(restarts, device=pool.device)
    for k in range(n_novel):
        if nearest is None:  # the very first centroid: any sample
            pick = (uniform[k, :, 0] * n).long().clamp_max_(n - 1)
            nearest = _squared_distances(pool[pick], pool, squares)
        else:
            cumulative = nearest.to(precise).cumsum(1)
            total = cumulative[:, -1:]
            drawn = torch.searchsorted(cumulative, uniform[k] * total, right=True)
            # Where every sample sits on a centroid there is nothing to prefer: any sample.
            drawn = torch.where(total > 0, drawn, (uniform[k] * n).long()).clamp_max_(n - 1)
            distances = _squared_distances(pool[drawn.flatten()], pool, squares)
            closer = torch.minimum(distances.view(restarts, candidates, n), nearest[:, None])
            winner = closer.sum(-1).argmin(1)  # lowest inertia
            pick, nearest = drawn[everyone, winner], closer[everyone, winner]
        chosen.append(pool[pick])
        report_progress(stage, k + 1, n_novel)
    return torch.stack(chosen, dim=1)


def _squared_distances(centroids: Tensor, features: Tensor, squares: Tensor) -> Tensor:
    """Squared distances of shape (centroids, samples)."""
    own = centroids.square().sum(1)[:, None]
    return (own + squares - 2 * centroids @ features.T).clamp_min_(0)
