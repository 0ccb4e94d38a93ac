"""k-means++: first centroids, all restarts in one batch."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newkinds.engine.moments import category_sums
from newkinds.engine.samples import Samples, lane_blocks, over_lanes, precise
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray
from newkinds.names import SEEDINGS, Seeding
from newkinds.progress import comparison_work, report_work
from newkinds.runtime import n_processes, rank, report_progress, sum_over_processes

SEEDING_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 28, "mps": 1 << 24}
"""Candidate distances computed at once while seeding."""


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

    Known categories start at the means of their labelled samples; the others at unlabelled samples. Unless they are
    drawn greedily, the first of them are the same whatever the number of categories.

    Parameters
    ----------
    features, n_categories, n_init, rng, stage
        As for `kmeans`.
    labels : ndarray of shape (samples,) or (n_init, samples), optional
        As for `kmeans`; or each start has its own, all with the same number of known categories.
    seeding : {"greedy", "d2", "random"}
        How the unlabelled samples are drawn: "d2" is k-means++ (each drawn with probability proportional to
        its squared distance to the nearest centroid so far), "greedy" draws 2 + floor(ln K) such candidates
        and takes the one that lowers the inertia most, "random" draws uniformly without repetition.
    """
    samples = Samples.of(features)
    all_labels = np.full(len(samples), UNLABELLED) if labels is None else labels
    seeds = rng.randint(2**31 - 1, size=n_init)
    return draw_seeds(samples, n_categories, all_labels, seeding, seeds, stage)


def draw_seeds(
    samples: Samples,
    n_categories: int,
    labels: IntArray,
    seeding: Seeding,
    seeds: IntArray,
    stage: str,
) -> Tensor:
    """`seed_centroids` with a seed of its own for each restart, and labels of all samples."""
    if seeding not in SEEDINGS:
        raise InputError(f"seeding must be one of {', '.join(SEEDINGS)}; got {seeding!r}")
    n_known = int(labels.max(initial=UNLABELLED)) + 1
    label_sets = labels.reshape(-1, len(samples))  # one, or one for each restart
    unlabelled = [np.flatnonzero(one == UNLABELLED) for one in label_sets]
    n_novel, most_novel = n_categories - n_known, min(len(rows) for rows in unlabelled)
    if not 0 <= n_novel <= most_novel:
        raise InputError(
            f"{n_categories} categories cannot be started from {n_known} known ones and "
            f"{most_novel} unlabelled samples"
        )
    streams = [np.random.RandomState(seed) for seed in seeds]
    columns = torch.from_numpy(np.ascontiguousarray(label_sets[:, samples.own])).to(samples.device)
    known = torch.zeros(len(label_sets), 0, samples.width, device=samples.device)
    if n_known:
        sums, counts = category_sums(samples, columns.T, n_known)
        known = sums / counts.clamp_min(1)[:, :, None]
    centroids = known.expand(len(streams), -1, -1)
    if n_novel == 0:
        return centroids.clone()
    if seeding == "random":
        of_restarts = unlabelled * len(streams) if len(unlabelled) == 1 else unlabelled
        drawn = np.concatenate(
            [
                rows[stream.permutation(len(rows))[:n_novel]]
                for rows, stream in zip(of_restarts, streams, strict=True)
            ]
        )
        return torch.cat([centroids, samples.take(drawn).view(len(streams), n_novel, -1)], dim=1)
    candidates = 1 if seeding == "d2" else 2 + int(np.log(n_categories))
    # Counted over the samples of all processes: they must do the same.
    group = max(1, SEEDING_ELEMENTS[samples.device.type] // (candidates * len(samples)))
    seeded = []
    for first in range(0, len(streams), group):
        some = slice(first, first + group)
        own = some if len(label_sets) > 1 else slice(None)
        draw = _Draw(samples, unlabelled[own], columns[own] == UNLABELLED, known[own])
        seeded.append(draw(n_novel, candidates, streams[some], f"seeding for {stage}"))
    return torch.cat([centroids, torch.cat(seeded)], dim=1)


class _Draw:
    """k-means++ for a group of restarts: samples drawn by their squared distance to the nearest centroid so far.

    Parameters
    ----------
    samples : Samples
    unlabelled : list of ndarray
        Rows that may be drawn: in all restarts, or in each.
    free : Tensor of shape (1 or restarts, own samples)
        Whether a sample takes part: the distances of others are set to zero.
    known : Tensor of shape (1 or restarts, known categories, features)
    """

    def __init__(self, samples: Samples, unlabelled: list[IntArray], free: Tensor, known: Tensor) -> None:
        self.samples, self.unlabelled, self.free, self.known = samples, unlabelled, free, known
        self.precise = precise(samples.device)

    def __call__(self, n_novel: int, candidates: int, streams: list[np.random.RandomState], stage: str) -> Tensor:
        """Drawn samples of shape (restarts, novel, features)."""
        restarts = len(streams)
        uniform = np.stack([stream.random_sample((n_novel, candidates)) for stream in streams], axis=1)
        nearest: Tensor | None = None  # (restarts, own samples)
        if self.known.shape[1]:
            nearest = torch.stack([self._nearest(*one) for one in zip(self.known, self.free, strict=True)])
            nearest = nearest.expand(restarts, -1)
        chosen = []
        everyone = torch.arange(restarts, device=self.samples.device)
        for k in range(n_novel):
            if nearest is None:  # the very first centroid: any sample
                picked = self.samples.take(self._any(uniform[k])[:, 0])
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
        """Samples drawn evenly: (restarts, candidates) positions among all samples."""
        of_restarts = self.unlabelled * len(uniform) if len(self.unlabelled) == 1 else self.unlabelled
        return np.stack(
            [rows[(drawn * len(rows)).astype(np.int64)] for rows, drawn in zip(of_restarts, uniform, strict=True)]
        )

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
        """Squared distances (centroids, own samples) of samples that take part, zero for others.

        There are as many centroids for each restart.
        """
        result = torch.empty(len(centroids), self.free.shape[1], device=centroids.device)
        of_restart = len(centroids) // len(self.free)

        def fill(here: slice, block: Tensor) -> None:
            of_restarts = block.view(len(self.free), of_restart, -1)
            result[:, here] = (of_restarts * self.free[:, None, here]).view(block.shape)

        self._in_blocks(centroids, fill)
        return result

    def _nearest(self, centroids: Tensor, free: Tensor) -> Tensor:
        """Squared distance of each of the samples that take part to the nearest centroid, zero for others."""
        result = torch.empty(len(free), device=centroids.device)

        def fill(here: slice, block: Tensor) -> None:
            result[here] = block.amin(0) * free[here]

        self._in_blocks(centroids, fill)
        return result

    def _in_blocks(self, centroids: Tensor, work: Callable[[slice, Tensor], None]) -> None:
        """Do something with blocks of the squared distances, given with the positions of their samples."""
        squares = centroids.square().sum(1)[:, None]

        def in_lane(lane: slice) -> None:
            for rows in lane_blocks(lane, len(centroids), centroids.device.type):
                features, here = self.samples.read(rows), self.samples.within(rows)
                block = torch.addmm(squares, centroids, features.T, alpha=-2)
                block += features.square().sum(1)
                work(here, block.clamp_min_(0))

        over_lanes(self.samples, in_lane)
        report_work(comparison_work(len(self.samples), *centroids.shape))
