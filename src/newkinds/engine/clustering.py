"""k-means and semi-supervised k-means, all restarts in one batch.

One implementation serves both: with labels, known centroids start at their class means and labelled samples
never leave their class; without, it is ordinary k-means. Seeding is k-means++, greedy by default. Distances
come from matrix products, so no (samples, categories, features) array exists.

Special cases: a centroid that loses all its samples moves to the sample that is farthest from its own centroid (if
several lose theirs, each takes another sample; if all samples sit on their centroids, it stays). A sample that is
equally near to two centroids goes to the first. A restart ends when no assignment changes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newkinds.engine.checkpoints import Arrays, Checkpoint
from newkinds.engine.memory import check_fits, clustering_bytes
from newkinds.engine.moments import category_sums
from newkinds.engine.partitioner import FloatArray
from newkinds.engine.samples import Samples, lane_blocks, over_lanes, precise
from newkinds.engine.seeding import draw_seeds
from newkinds.labels import UNLABELLED, IntArray
from newkinds.names import Inertia, Seeding
from newkinds.progress import comparison_work, report_work
from newkinds.runtime import n_processes, rank, report_progress, sum_over_processes

EACH_BYTES = 256 << 20
"""What `cluster_each` may hold at a time; starts that need more are clustered one group after the other."""
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
        active = draw_seeds(samples, n_categories, all_labels, seeding, seeds, stage)
        before, best, first = None, None, 1
    else:
        active, before = (torch.from_numpy(saved[name]).to(samples.device) for name in ("active", "before"))
        best = _restored(saved, "best_") if "best_centroids" in saved else None
        first = int(saved["iteration"]) + 1
    for step in lloyd.iterations(active, before, range(first, max_iter + 1), tolerance):
        for restart, centroids in step.ended.items():
            result = lloyd.finish(restart, centroids, inertia, step.number, converged=restart in step.settled)
            if best is None or result.inertia < best.inertia:
                best = result
        report_progress(stage, step.number, max_iter)
        if checkpoint.due and len(step.active):
            state = {"active": step.active.cpu().numpy(), "before": step.before.cpu().numpy()}
            so_far = {} if best is None else _arrays(best, "best_")
            checkpoint.save({**state, **so_far, "iteration": np.array(step.number)})
    report_progress(stage, max_iter, max_iter)
    assert best is not None
    result = best
    checkpoint.finish(lambda: _arrays(result))
    return result


def cluster_each(
    features: Samples | Tensor,
    starts: Tensor,
    labels: IntArray,
    *,
    max_iter: int = 100,
    tolerance: float = 0.0,
    stage: str = "k-means",
) -> npt.NDArray[np.float32]:
    """Lloyd's iterations from several starts, each with labels of its own; the centroids of each.

    This is for excerpts, on which it takes seconds: nothing is saved to go on from.

    Parameters
    ----------
    features, max_iter, tolerance, stage
        As for `kmeans`.
    starts : Tensor of shape (starts, categories, features)
    labels : ndarray of shape (starts, samples), or (samples,) where all have the same
    """
    samples, n_categories = Samples.of(features), starts.shape[1]
    at_once = max(1, EACH_BYTES // clustering_bytes(samples, n_categories, restarts=1))
    check_fits(clustering_bytes(samples, n_categories, min(at_once, len(starts))), samples, n_categories, "k-means")
    clustered = np.empty(starts.shape, dtype=np.float32)
    for first in range(0, len(starts), at_once):
        group = slice(first, first + at_once)
        lloyd = _Lloyd(samples, labels if labels.ndim == 1 else labels[group])
        for step in lloyd.iterations(starts[group], None, range(1, max_iter + 1), tolerance):
            for start, centroids in step.ended.items():
                clustered[first + start] = centroids.cpu().numpy()
            report_progress(stage, step.number, max_iter)
    report_progress(stage, max_iter, max_iter)
    return clustered


def _arrays(clustering: Clustering, prefix: str = "") -> Arrays:
    return {f"{prefix}{name}": np.asarray(value) for name, value in vars(clustering).items()}


def _restored(arrays: Arrays, prefix: str = "") -> Clustering:
    inertia, n_iter, converged = (arrays[f"{prefix}{name}"].item() for name in ("inertia", "n_iter", "converged"))
    return Clustering(arrays[f"{prefix}centroids"], arrays[f"{prefix}columns"], inertia, n_iter, converged)


@dataclass(frozen=True)
class _Iteration:
    """What one iteration has left.

    Attributes
    ----------
    number : int
    ended : dict of int to Tensor
        Centroids of the restarts that ended in it, by the number of the restart.
    settled : set of int
        Those of them that no longer moved.
    before, active : Tensor of shape (restarts, categories, features)
        Centroids of the restarts that go on, before the iteration and after it.
    """

    number: int
    ended: dict[int, Tensor]
    settled: set[int]
    before: Tensor
    active: Tensor


class _Lloyd:
    """Lloyd's two half-steps for a batch of centroid sets, lane by lane.

    `labels` are of shape (samples,), or (restarts, samples) where each restart has labels of its own.
    """

    def __init__(self, samples: Samples, labels: IntArray) -> None:
        self.samples = samples
        label_sets = labels.reshape(-1, labels.shape[-1])[:, samples.own]
        # Of shape (own samples, 1 or restarts).
        self.labels = torch.from_numpy(np.ascontiguousarray(label_sets.T)).to(samples.device)
        self.any_labelled = bool((labels != UNLABELLED).any())

    def iterations(
        self,
        active: Tensor,
        before: Tensor | None,
        numbers: range,
        tolerance: float,
    ) -> Iterator[_Iteration]:
        """Iterate until all restarts have settled, or to the last number.

        `active` are centroids of shape (restarts, categories, features); `before` is what they came from, if they
        are not the first.
        """
        running = np.arange(len(active))
        previous = None if before is None else self.assign(before, running)[0]
        for number in numbers:
            columns, distances = self.assign(active, running)
            still = self.changed(columns, previous, tolerance)
            moved, relocated = self.update(active, columns, distances, running)
            still |= relocated
            is_ending = ~still | (number == numbers[-1])
            ended = {int(running[r]): moved[r] for r in torch.nonzero(is_ending).flatten().tolist()}
            settled = {int(running[r]) for r in torch.nonzero(~still).flatten().tolist()}
            stay = ~is_ending
            before, active, previous = active[stay], moved[stay], columns[:, stay]
            running = running[stay.cpu().numpy()]
            yield _Iteration(number, ended, settled, before, active)
            if not len(running):
                return

    def _labels(self, here: slice, restarts: IntArray) -> Tensor:
        """Labels of some samples in some restarts: (samples, restarts)."""
        labels = self.labels[here]
        return labels.expand(-1, len(restarts)) if labels.shape[1] == 1 else labels[:, torch.from_numpy(restarts)]

    def finish(
        self, restart: int, centroids: Tensor, inertia: Inertia, n_iter: int, *, converged: bool
    ) -> Clustering:
        number = np.array([restart])
        columns, distances = self.assign(centroids[None], number)
        if inertia == "nearest":
            distances = self.assign(centroids[None], number, keep_labels=False)[1].sqrt()
        return Clustering(
            centroids=centroids.cpu().numpy(),
            columns=self.samples.gather(columns[:, 0].cpu().numpy().astype(np.int64)),
            inertia=float(sum_over_processes(distances.sum(dtype=precise(distances.device))[None])[0]),
            n_iter=n_iter,
            converged=converged,
        )

    def assign(self, centroids: Tensor, numbers: IntArray, keep_labels: bool = True) -> tuple[Tensor, Tensor]:
        """Category of each of this process's samples and its squared distance, both (samples, restarts).

        `numbers` are those of the restarts that the centroids are of.
        """
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
                    label = self._labels(here, numbers)
                    at_label = products.gather(-1, label.clamp_min(0).unsqueeze(-1)).squeeze(-1)
                    affinity = torch.where(label == UNLABELLED, affinity, at_label)
                    column = torch.where(label == UNLABELLED, column, label)
                columns[here] = column.int()
                distances[here] = (features.square().sum(1)[:, None] - 2 * affinity).clamp_min_(0)

        over_lanes(self.samples, in_lane)
        report_work(comparison_work(len(self.samples), len(flat), width))
        return columns, distances

    def changed(self, columns: Tensor, previous: Tensor | None, tolerance: float) -> Tensor:
        """Which restarts have changed more than this share of the samples."""
        if previous is None:
            return torch.ones(columns.shape[1], dtype=torch.bool, device=columns.device)
        return sum_over_processes((columns != previous).sum(0)) > tolerance * len(self.samples)

    def update(
        self, centroids: Tensor, columns: Tensor, distances: Tensor, numbers: IntArray
    ) -> tuple[Tensor, Tensor]:
        """Means of the assigned samples, and which restarts had to relocate an empty category."""
        sums, counts = category_sums(self.samples, columns, centroids.shape[1])
        empty = counts == 0
        moved = torch.where(empty[:, :, None], centroids, sums / counts.clamp_min(1)[:, :, None])
        relocated = torch.zeros(len(centroids), dtype=torch.bool, device=centroids.device)
        for r in torch.nonzero(empty.any(1)).flatten().tolist():
            free = torch.nonzero(empty[r]).flatten()
            labels = self._labels(slice(None), numbers[r : r + 1])[:, 0]
            farthest = self._farthest(torch.where(labels == UNLABELLED, distances[:, r], -1.0), len(free))
            moved[r, free[: len(farthest)]] = self.samples.take(farthest)
            relocated[r] = len(farthest) > 0
        return moved, relocated

    def _farthest(self, far: Tensor, count: int) -> IntArray:
        """At most `count` samples over all processes, farthest from their centroids first."""
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
