"""k-means and semi-supervised k-means, all restarts in one batch.

One implementation serves both: with labels, known centroids start at their class means and labelled samples
never leave their class; without, it is ordinary k-means. Seeding is k-means++, greedy by default. Distances
come from matrix products, so no (samples, categories, features) array exists.

Special cases: a centroid that loses all its samples moves to the sample that is farthest from its own centroid (if
several lose theirs, each takes another sample; if all samples sit on their centroids, it stays). A sample that is
equally near to two centroids goes to the first. A restart ends when no assignment changes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newkinds.engine.checkpoints import Arrays, Checkpoint
from newkinds.engine.memory import check_fits, clustering_bytes
from newkinds.engine.partitioner import FloatArray
from newkinds.engine.samples import Samples, lane_blocks, over_lanes, precise, sum_over_lanes
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray
from newkinds.names import SEEDINGS, Inertia, Seeding
from newkinds.runtime import n_processes, rank, report_progress, sum_over_processes

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
        Category of each sample, over all processes.
    inertia : float
        What the restarts were compared by; see `kmeans`.
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
    features: Samples | Tensor,
    n_categories: int,
    *,
    labels: IntArray | None = None,
    seeding: Seeding = "greedy",
    n_init: int = 10,
    max_iter: int = 100,
    tolerance: float = 0.0,
    inertia: Inertia = "squared",
    rng: np.random.RandomState,
    stage: str = "k-means",
) -> Clustering:
    """Cluster by k-means, or by semi-supervised k-means where labels are given.

    Parameters
    ----------
    features : Samples, or Tensor of shape (samples, features)
        A tensor must be L2-normalised, float32, on the device to work on.
    n_categories : int
    labels : ndarray of shape (samples,), optional
        0 … n_known - 1 for labelled samples, -1 for the others.
    seeding : {"greedy", "d2", "random"}
        See `seed_centroids`.
    n_init : int
        Restarts; the one with the lowest inertia wins, the first of equals.
    max_iter : int
    tolerance : float
        A restart has settled when no larger share of the samples than this changed category.
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
    samples = Samples.of(features)
    check_fits(clustering_bytes(samples, n_categories, n_init), samples, n_categories, "k-means")
    all_labels = np.full(len(samples), UNLABELLED) if labels is None else labels
    # Each restart has a generator of its own: how restarts are grouped does not change them.
    seeds = rng.randint(2**31 - 1, size=n_init)
    checkpoint = Checkpoint(
        samples.fingerprint, all_labels, n_categories, seeding, max_iter, tolerance, inertia, seeds
    )
    saved = checkpoint.load()
    if saved is not None and "centroids" in saved:
        report_progress(stage, max_iter, max_iter)
        return _restored(saved)
    lloyd = _Lloyd(samples, all_labels)
    if saved is None:
        active = _seed(samples, n_categories, all_labels, seeding, seeds, stage)
        before, best, first = None, None, 1
    else:
        active, before = (torch.from_numpy(saved[name]).to(samples.device) for name in ("active", "before"))
        best = _restored(saved, "best_") if "best_centroids" in saved else None
        first = int(saved["iteration"]) + 1
    previous = None if before is None else lloyd.assign(before)[0]
    for iteration in range(first, max_iter + 1):
        columns, distances = lloyd.assign(active)  # active: (restarts still moving, categories, features)
        still = lloyd.changed(columns, previous, tolerance)
        moved, relocated = lloyd.update(active, columns, distances)
        still |= relocated
        last = iteration == max_iter
        for r in range(len(active)):
            if still[r] and not last:
                continue
            result = lloyd.finish(moved[r], inertia, iteration, converged=not bool(still[r]))
            if best is None or result.inertia < best.inertia:
                best = result
        before, active, previous = active[still], moved[still], columns[:, still]
        report_progress(stage, iteration, max_iter)
        if len(active) == 0:
            report_progress(stage, max_iter, max_iter)
            break
        if checkpoint.due and not last:
            state = {"active": active.cpu().numpy(), "before": before.cpu().numpy()}
            so_far = {} if best is None else _arrays(best, "best_")
            checkpoint.save({**state, **so_far, "iteration": np.array(iteration)})
    assert best is not None
    result = best
    checkpoint.finish(lambda: _arrays(result))
    return result


def _arrays(clustering: Clustering, prefix: str = "") -> Arrays:
    return {f"{prefix}{name}": np.asarray(value) for name, value in vars(clustering).items()}


def _restored(arrays: Arrays, prefix: str = "") -> Clustering:
    inertia, n_iter, converged = (arrays[f"{prefix}{name}"].item() for name in ("inertia", "n_iter", "converged"))
    return Clustering(arrays[f"{prefix}centroids"], arrays[f"{prefix}columns"], inertia, n_iter, converged)


class _Lloyd:
    """Lloyd's two half-steps for a batch of centroid sets, lane by lane."""

    def __init__(self, samples: Samples, labels: IntArray) -> None:
        self.samples = samples
        self.labels = torch.from_numpy(labels[samples.own]).to(samples.device)
        self.any_labelled = bool((labels != UNLABELLED).any())

    def finish(self, centroids: Tensor, inertia: Inertia, n_iter: int, converged: bool) -> Clustering:
        columns, distances = self.assign(centroids[None])
        if inertia == "nearest":
            distances = self.assign(centroids[None], keep_labels=False)[1].sqrt()
        return Clustering(
            centroids=centroids.cpu().numpy(),
            columns=self.samples.gather(columns[:, 0].cpu().numpy().astype(np.int64)),
            inertia=float(sum_over_processes(distances.sum(dtype=precise(distances.device))[None])[0]),
            n_iter=n_iter,
            converged=converged,
        )

    def assign(self, centroids: Tensor, keep_labels: bool = True) -> tuple[Tensor, Tensor]:
        """Category of each of this process's samples and its squared distance, both (samples, restarts)."""
        restarts, categories, width = centroids.shape
        flat = centroids.reshape(-1, width)
        offset = -0.5 * flat.square().sum(1)
        columns = torch.empty(len(self.labels), restarts, dtype=torch.int32, device=flat.device)
        distances = torch.empty(len(self.labels), restarts, dtype=flat.dtype, device=flat.device)

        def in_lane(lane: slice) -> None:
            for rows in lane_blocks(lane, len(flat), flat.device.type):
                features, here = self.samples.read(rows), self.samples.within(rows)
                products = torch.addmm(offset, features, flat.T).view(-1, restarts, categories)
                affinity, column = products.max(-1)  # z.c - |c|^2 / 2
                if keep_labels and self.any_labelled:
                    label = self.labels[here, None].expand(-1, restarts)
                    at_label = products.gather(-1, label.clamp_min(0).unsqueeze(-1)).squeeze(-1)
                    affinity = torch.where(label == UNLABELLED, affinity, at_label)
                    column = torch.where(label == UNLABELLED, column, label)
                columns[here] = column.int()
                distances[here] = (features.square().sum(1)[:, None] - 2 * affinity).clamp_min_(0)

        over_lanes(self.samples, in_lane)
        return columns, distances

    def changed(self, columns: Tensor, previous: Tensor | None, tolerance: float) -> Tensor:
        """Which restarts have changed more than this share of the samples."""
        if previous is None:
            return torch.ones(columns.shape[1], dtype=torch.bool, device=columns.device)
        return sum_over_processes((columns != previous).sum(0)) > tolerance * len(self.samples)

    def update(self, centroids: Tensor, columns: Tensor, distances: Tensor) -> tuple[Tensor, Tensor]:
        """Means of the assigned samples, and which restarts had to relocate an empty category."""
        sums, counts = category_sums(self.samples, columns, centroids.shape[1])
        empty = counts == 0
        moved = torch.where(empty[:, :, None], centroids, sums / counts.clamp_min(1)[:, :, None])
        relocated = torch.zeros(len(centroids), dtype=torch.bool, device=centroids.device)
        for r in torch.nonzero(empty.any(1)).flatten().tolist():
            free = torch.nonzero(empty[r]).flatten()
            farthest = self._farthest(distances[:, r], len(free))
            moved[r, free[: len(farthest)]] = self.samples.take(farthest)
            relocated[r] = len(farthest) > 0
        return moved, relocated

    def _farthest(self, distances: Tensor, count: int) -> IntArray:
        """At most `count` unlabelled samples over all processes, farthest from their centroids first."""
        far = torch.where(self.labels == UNLABELLED, distances, -1.0)
        top = far.topk(min(count, len(far)))
        distance = torch.zeros(n_processes(), count, device=far.device)
        index = torch.zeros(n_processes(), count, dtype=torch.int64, device=far.device)
        distance[rank(), : len(top.values)] = top.values
        index[rank(), : len(top.values)] = top.indices + self.samples.own.start
        values, indices = (
            sum_over_processes(distance).cpu().numpy().ravel(),
            sum_over_processes(index).cpu().numpy().ravel(),
        )
        order = np.lexsort((indices, -values))[:count]
        chosen: IntArray = indices[order][values[order] > ON_CENTROID]
        return chosen


def category_sums(samples: Samples, columns: Tensor, n_categories: int) -> tuple[Tensor, Tensor]:
    """Sum of the features and number of samples of each category, over all processes.

    Parameters
    ----------
    samples : Samples
    columns : Tensor of shape (own samples, restarts)
        Category of each of this process's samples, -1 = none.
    n_categories : int

    Returns
    -------
    sums : Tensor of shape (restarts, categories, features)
    counts : Tensor of shape (restarts, categories)
    """
    restarts, device = columns.shape[1], samples.device
    first = torch.arange(restarts, device=device) * n_categories
    nowhere = restarts * n_categories  # one extra row takes the samples that belong to no category

    def lane_sums(lane: slice) -> Tensor:
        sums = torch.zeros(nowhere + 1, samples.width + 1, device=device)
        for rows in lane_blocks(lane, max(len(sums), samples.width), device.type):
            targets = columns[samples.within(rows)].long()
            targets = torch.where(targets == UNLABELLED, nowhere, targets + first)
            features = torch.nn.functional.pad(samples.read(rows), (0, 1), value=1.0)  # the ones count
            if device.type == "cpu":
                _sum_by_index(sums, targets, features)
            else:  # index_add_ adds in an order that changes between runs on a GPU; a product does not
                _sum_by_product(sums, targets, features)
        return sums

    sums = sum_over_lanes(samples, lane_sums)[:nowhere].view(restarts, n_categories, -1)
    return sums[:, :, :-1], sums[:, :, -1]


def category_means(
    samples: Samples, columns: IntArray, otherwise: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Mean feature of each category, given the column of every sample; `otherwise` where a category has none."""
    own_columns = torch.from_numpy(columns[samples.own]).to(samples.device)
    sums, counts = category_sums(samples, own_columns[:, None], len(otherwise))
    means = sums[0] / counts[0, :, None].clamp_min(1)
    empty = (counts[0] == 0)[:, None].cpu().numpy()
    return np.where(empty, otherwise, means.cpu().numpy())


def _sum_by_index(sums: Tensor, columns: Tensor, features: Tensor) -> None:
    """Add each sample to its row of `sums` for each restart: columns of shape (samples, restarts)."""
    for targets in columns.T:
        sums.index_add_(0, targets, features)


def _sum_by_product(sums: Tensor, columns: Tensor, features: Tensor) -> None:
    """The same by a product with the membership matrix."""
    members = torch.zeros(len(columns), len(sums), dtype=sums.dtype, device=sums.device)
    sums.addmm_(members.scatter_(1, columns, 1.0).T, features)


def seed_centroids(
    features: Samples | Tensor,
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
    samples = Samples.of(features)
    all_labels = np.full(len(samples), UNLABELLED) if labels is None else labels
    seeds = rng.randint(2**31 - 1, size=n_init)
    return _seed(samples, n_categories, all_labels, seeding, seeds, stage)


def _seed(
    samples: Samples,
    n_categories: int,
    labels: IntArray,
    seeding: Seeding,
    seeds: IntArray,
    stage: str,
) -> Tensor:
    if seeding not in SEEDINGS:
        raise InputError(f"seeding must be one of {', '.join(SEEDINGS)}; got {seeding!r}")
    n_known = int(labels.max(initial=UNLABELLED)) + 1
    unlabelled = np.flatnonzero(labels == UNLABELLED)
    n_novel = n_categories - n_known
    if not 0 <= n_novel <= len(unlabelled):
        raise InputError(
            f"{n_categories} categories cannot be started from {n_known} known ones and "
            f"{len(unlabelled)} unlabelled samples"
        )
    streams = [np.random.RandomState(seed) for seed in seeds]
    columns = torch.from_numpy(labels[samples.own]).to(samples.device)
    known = torch.zeros(1, 0, samples.width, device=samples.device)
    if n_known:
        sums, counts = category_sums(samples, columns[:, None], n_known)
        known = sums / counts.clamp_min(1)[:, :, None]
    centroids = known.repeat(len(streams), 1, 1)
    if n_novel == 0:
        return centroids
    if seeding == "random":
        drawn = np.concatenate([unlabelled[stream.permutation(len(unlabelled))[:n_novel]] for stream in streams])
        return torch.cat([centroids, samples.take(drawn).view(len(streams), n_novel, -1)], dim=1)
    candidates = 1 if seeding == "d2" else 2 + int(np.log(n_categories))
    group = max(1, SEEDING_ELEMENTS[samples.device.type] // (candidates * max(1, len(columns))))
    seeded = []
    for first in range(0, len(streams), group):
        draw = _Draw(samples, unlabelled, columns == UNLABELLED, known[0])
        seeded.append(draw(n_novel, candidates, streams[first : first + group], f"{stage}: seeding"))
    return torch.cat([centroids, torch.cat(seeded)], dim=1)


class _Draw:
    """k-means++ for a group of restarts: samples drawn by their squared distance to the nearest centroid so far."""

    def __init__(self, samples: Samples, unlabelled: IntArray, free: Tensor, known: Tensor) -> None:
        self.samples, self.unlabelled, self.known = samples, unlabelled, known
        self.free = free  # labelled samples take no part: their distances are set to zero
        self.precise = precise(samples.device)

    def __call__(self, n_novel: int, candidates: int, streams: list[np.random.RandomState], stage: str) -> Tensor:
        """Drawn samples of shape (restarts, novel, features)."""
        restarts = len(streams)
        uniform = np.stack([stream.random_sample((n_novel, candidates)) for stream in streams], axis=1)
        nearest: Tensor | None = None  # (restarts, own samples)
        if len(self.known):
            nearest = self._nearest(self.known).repeat(restarts, 1)
        chosen = []
        everyone = torch.arange(restarts, device=self.samples.device)
        for k in range(n_novel):
            if nearest is None:  # the very first centroid: any sample
                picked = self.samples.take(self._any(uniform[k, :, 0]))
                nearest = self._distances(picked)
            else:
                drawn = self.samples.take(self._draw(nearest, uniform[k]).flatten())
                closer = self._distances(drawn).view(restarts, candidates, -1)
                torch.minimum(closer, nearest[:, None], out=closer)
                if candidates == 1:
                    picked, nearest = drawn, closer[:, 0]
                else:
                    winner = sum_over_processes(closer.sum(-1, dtype=self.precise)).argmin(1)  # lowest inertia
                    picked = drawn.view(restarts, candidates, -1)[everyone, winner]
                    nearest = closer[everyone, winner]
            chosen.append(picked)
            report_progress(stage, k + 1, n_novel)
        return torch.stack(chosen, dim=1)

    def _any(self, uniform: npt.NDArray[np.float64]) -> IntArray:
        picked: IntArray = self.unlabelled[(uniform * len(self.unlabelled)).astype(np.int64)]
        return picked

    def _draw(self, nearest: Tensor, uniform: npt.NDArray[np.float64]) -> IntArray:
        """Samples drawn in proportion to `nearest`: (restarts, candidates) positions among all samples."""
        cumulative = nearest.to(self.precise).cumsum(1)
        masses = torch.zeros(n_processes(), len(nearest), dtype=self.precise, device=nearest.device)
        masses[rank()] = cumulative[:, -1]
        ends = sum_over_processes(masses).cumsum(0)  # (processes, restarts)
        whole = ends[-1][:, None]
        wanted = torch.from_numpy(uniform).to(whole) * whole  # (restarts, candidates)
        owner = (wanted[None] >= ends[:, :, None]).sum(0).clamp_max_(n_processes() - 1)
        start = torch.cat([torch.zeros_like(ends[:1]), ends[:-1]])[rank()][:, None]
        position = torch.searchsorted(cumulative, (wanted - start).contiguous(), right=True)
        position = position.clamp_max_(nearest.shape[1] - 1) + self.samples.own.start
        drawn: IntArray = sum_over_processes(torch.where(owner == rank(), position, 0)).cpu().numpy()
        # If every sample sits on a centroid, none is preferable: take any.
        return np.where(whole.cpu().numpy() > 0, drawn, self._any(uniform))

    def _distances(self, centroids: Tensor) -> Tensor:
        """Squared distances (centroids, own samples) of the unlabelled samples, zero for the others."""
        result = torch.empty(len(centroids), len(self.free), device=centroids.device)

        def fill(here: slice, block: Tensor) -> None:
            result[:, here] = block

        self._in_blocks(centroids, fill)
        return result

    def _nearest(self, centroids: Tensor) -> Tensor:
        """The smallest of each column of `_distances`, without a matrix of centroids × samples."""
        result = torch.empty(len(self.free), device=centroids.device)

        def fill(here: slice, block: Tensor) -> None:
            result[here] = block.amin(0)

        self._in_blocks(centroids, fill)
        return result

    def _in_blocks(self, centroids: Tensor, work: Callable[[slice, Tensor], None]) -> None:
        """Do something with blocks of the distances, given with the positions of their samples."""
        squares = centroids.square().sum(1)[:, None]

        def in_lane(lane: slice) -> None:
            for rows in lane_blocks(lane, len(centroids), centroids.device.type):
                features, here = self.samples.read(rows), self.samples.within(rows)
                block = torch.addmm(squares, centroids, features.T, alpha=-2)
                block += features.square().sum(1)
                work(here, block.clamp_min_(0) * self.free[here])

        over_lanes(self.samples, in_lane)
