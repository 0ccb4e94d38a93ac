"""Objectives and gradients of many partitioners that share their features.

An evaluation is two passes over the samples: the first gives the marginals, the second the gradient. Each pass goes
lane by lane, in blocks that fit the cache. The blocks' log-probabilities are kept between the passes where they fit
`KEPT_ELEMENTS` and computed again where they do not, so memory stays bounded for any number of samples and runs.
On an NVIDIA GPU `newkinds.engine.fused` does the same with half-precision products and fused kernels.
"""

import functools
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newkinds.engine.partitioner import TEMPERATURE, FloatArray, log_probabilities, scale
from newkinds.engine.samples import Samples, add_product, free_memory, lane_blocks, sum_over_lanes
from newkinds.errors import InputError
from newkinds.labels import IntArray
from newkinds.names import Geometry
from newkinds.objective import Objective, RunWeights, log_marginal, marginal, value_and_gradient
from newkinds.runtime import least_over_processes

GROUP_COLUMNS = {"cpu": 800, "cuda": 1 << 20, "mps": 1 << 14}
"""Runs × categories in one matrix product: wide enough to be efficient, narrow enough for the cache."""
KEPT_ELEMENTS = {"cpu": 1 << 26, "cuda": 1 << 31, "mps": 1 << 28}
"""Log-probabilities kept between the two passes (float32: 256 MiB on a CPU, 8 GiB on a GPU)."""
EXTRA_COLUMNS = 16
"""Columns beside the gradient for other sums: as many as keep its rows aligned."""
PADDING = -1e4
"""Logit of a category that a run lacks: its probability counts for nothing, and no product is NaN."""


@dataclass(frozen=True)
class Run:
    """One partitioner to train.

    Attributes
    ----------
    start : ndarray of shape (categories, features)
    objective : Objective
    temperature : float
    geometry : {"linear", "euclidean"}
    labels : ndarray of shape (samples,), optional
        This run's own labels (columns of `start`, -1 = unlabelled); by default the labels that all runs share.
    shares : ndarray of shape (categories,), optional
        Expected shares of the categories, which the marginal is drawn to; by default even ones.
    """

    start: FloatArray
    objective: Objective
    temperature: float = TEMPERATURE
    geometry: Geometry = "linear"
    labels: IntArray | None = None
    shares: npt.NDArray[np.float64] | None = None

    @property
    def log_shares(self) -> FloatArray:
        """Logarithms of the expected shares relative to even ones: 0 where they are even."""
        if self.shares is None:
            return np.zeros(len(self.start), dtype=np.float32)
        if self.shares.shape != (len(self.start),) or not (self.shares > 0).all():
            raise InputError(f"shares must be {len(self.start)} positive numbers; got {self.shares!r}")
        return np.asarray(np.log(self.shares / self.shares.mean()), dtype=np.float32)


@dataclass(frozen=True)
class Batch:
    """Runs as tensors; runs with fewer categories than others are padded.

    Attributes
    ----------
    start : Tensor of shape (runs, categories, features)
    padding : Tensor of shape (runs, categories)
        Added to the logits: 0, or `PADDING` for a category that a run lacks.
    log_shares : Tensor of shape (runs, categories)
        See `Run.log_shares`.
    temperature, euclidean : Tensor of shape (runs,)
    labels : Tensor of shape (1 or runs, own samples)
        One row where all runs have the same.
    terms : RunWeights
        How much a sample counts in each term of a run's objective.
    """

    start: Tensor
    padding: Tensor
    log_shares: Tensor
    temperature: Tensor
    euclidean: Tensor
    labels: Tensor
    terms: RunWeights

    @classmethod
    def of(cls, samples: Samples, runs: Sequence[Run], labels: IntArray | None) -> "Batch":
        n, width, device = len(samples), samples.width, samples.device
        categories = max(len(run.start) for run in runs)
        start = torch.zeros(len(runs), categories, width)
        padding, log_shares = torch.zeros(2, len(runs), categories)
        for r, run in enumerate(runs):
            if run.start.shape[1] != width:
                raise InputError(f"the start has {run.start.shape[1]} features a category, the samples {width}")
            start[r, : len(run.start)] = torch.from_numpy(run.start)
            padding[r, len(run.start) :] = PADDING
            log_shares[r, : len(run.start)] = torch.from_numpy(run.log_shares)
        shared = np.full(n, -1, dtype=np.int64) if labels is None else labels
        run_labels = [shared if run.labels is None else run.labels for run in runs]
        for run, columns in zip(runs, run_labels, strict=True):
            if len(columns) != n or columns.max(initial=-1) >= len(run.start):
                raise InputError(
                    f"labels must name one of {len(run.start)} categories for each of {n} samples; "
                    f"got {len(columns)} labels up to {columns.max(initial=-1)}"
                )
        distinct = run_labels[:1] if all(run.labels is None for run in runs) else run_labels
        terms = [
            run.objective.weights(int((columns >= 0).sum()), int((columns < 0).sum()))
            for run, columns in zip(runs, run_labels, strict=True)
        ]
        return cls(
            start=start.to(device),
            padding=padding.to(device),
            log_shares=log_shares.to(device),
            temperature=torch.tensor([run.temperature for run in runs], dtype=torch.float32, device=device),
            euclidean=torch.tensor([float(run.geometry == "euclidean") for run in runs], device=device),
            labels=torch.from_numpy(np.stack([columns[samples.own] for columns in distinct])).to(device),
            terms=RunWeights.stack(terms, like=start.to(device)),
        )

    def __len__(self) -> int:
        return len(self.start)

    def select(self, runs: slice | Tensor) -> "Batch":
        """Some of the runs."""
        return replace(
            self,
            start=self.start[runs],
            padding=self.padding[runs],
            log_shares=self.log_shares[runs],
            temperature=self.temperature[runs],
            euclidean=self.euclidean[runs],
            labels=self.labels if len(self.labels) == 1 else self.labels[runs],
            terms=self.terms.select(runs),
        )


class Evaluator(Protocol):
    """Judges one point of weights for each of its runs."""

    rounding: float
    """Relative rounding error of an objective: smaller increases do not count as increases."""

    def __call__(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Objectives (runs,) and gradients (runs, categories, features) at weights of that shape."""

    def select(self, runs: Tensor) -> "Evaluator":
        """The same for some of the runs."""


class _Desk(threading.local):
    """Room that a thread works in, for the largest block."""

    def __init__(self, size: int, device: torch.device) -> None:
        self._size, self._device = size, device

    @functools.cached_property
    def scratch(self) -> Tensor:
        return torch.empty(self._size, device=self._device)

    @functools.cached_property
    def log_p(self) -> Tensor:
        """Where log-probabilities are not kept from one pass to the next."""
        return torch.empty(self._size, device=self._device)


class BlockEvaluator:
    """The two passes in plain tensor operations; correct on every device, written for the CPU's caches."""

    rounding = 1e-7

    def __init__(self, samples: Samples, batch: Batch) -> None:
        self.samples, self.batch = samples, batch
        self.device = samples.device.type
        n_own = samples.own.stop - samples.own.start
        categories = batch.start.shape[1]
        kept = _kept_elements(samples.device)
        # Counted over the samples of all processes: they must do the same, and one process as several.
        most = kept // (len(samples) * categories)  # runs whose probabilities may be kept
        size = min(max(1, GROUP_COLUMNS[self.device] // categories), most or len(batch), len(batch))
        self.keep = size * n_own * categories <= kept
        self.groups = [slice(first, min(first + size, len(batch))) for first in range(0, len(batch), size)]
        self.members = [batch.select(group) for group in self.groups]
        blocks_of_lanes = [lane_blocks(lane, size * categories, self.device) for lane in samples.lanes]
        self.blocks = {
            (lane.start, lane.stop): cut for lane, cut in zip(samples.lanes, blocks_of_lanes, strict=True)
        }
        # Buffers, allocated once: allocating memory in every block would cost as much as some of the arithmetic.
        longest = max((rows.stop - rows.start for blocks in blocks_of_lanes for rows in blocks), default=0)
        self.kept = torch.empty(size * categories * n_own if self.keep else 0, device=samples.device)
        self.desk = _Desk(size * categories * longest, samples.device)

    def select(self, runs: Tensor) -> "BlockEvaluator":
        return BlockEvaluator(self.samples, self.batch.select(runs))

    def __call__(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        results = [
            self._group(members, weights[group]) for group, members in zip(self.groups, self.members, strict=True)
        ]
        values, gradients = zip(*results, strict=True)
        return torch.cat(values), torch.cat(gradients)

    def _group(self, batch: Batch, weights: Tensor) -> tuple[Tensor, Tensor]:
        n_runs, categories, width = weights.shape
        columns = n_runs * categories
        scaled, bias = scale(weights, batch.temperature, batch.euclidean)
        bias = bias + batch.padding
        any_bias = bias if bias.any() else None

        def place(rows: slice, kept: bool) -> Tensor:
            first = self.samples.within(rows).start * columns if kept and self.keep else 0
            size = columns * (rows.stop - rows.start)
            buffer = self.desk.scratch if not kept else self.kept if self.keep else self.desk.log_p
            return buffer[first : first + size].view(n_runs, categories, -1)

        def log_p_of(rows: slice) -> Tensor:
            return log_probabilities(
                self.samples.read(rows),
                scaled,
                any_bias,
                out=place(rows, kept=True),
                scratch=place(rows, kept=False),
            )

        def lane_marginal(lane: slice) -> Tensor:
            pi = torch.zeros_like(bias)
            for rows in self.blocks[lane.start, lane.stop]:
                p = torch.exp(log_p_of(rows), out=place(rows, kept=False))
                pi += marginal(p, batch.labels[:, self.samples.within(rows)], batch.terms)
            return pi

        log_pi = log_marginal(sum_over_lanes(self.samples, lane_marginal)) - batch.log_shares

        def lane_gradient(lane: slice) -> Tensor:
            # One tensor for all sums: gradients, their sums over samples, values.
            sums = torch.zeros(columns, width + EXTRA_COLUMNS, device=weights.device)
            gradient, values = sums[:, :width], sums[:n_runs, width + 1]
            for rows in self.blocks[lane.start, lane.stop]:
                log_p = place(rows, kept=True) if self.keep else log_p_of(rows)
                block_values, logit_gradient = value_and_gradient(
                    log_p,
                    log_pi,
                    batch.labels[:, self.samples.within(rows)],
                    batch.terms,
                    out=log_p,
                    scratch=place(rows, kept=False),
                )
                values += block_values
                add_product(gradient, logit_gradient.view(columns, -1), self.samples.read(rows))
                sums[:, width] += logit_gradient.sum(-1).flatten()
            return sums

        sums = sum_over_lanes(self.samples, lane_gradient)
        return sums[:n_runs, width + 1].clone(), through_logits(weights, batch, sums[:, :width], sums[:, width])


def through_logits(weights: Tensor, batch: Batch, products: Tensor, column_sums: Tensor) -> Tensor:
    """Gradient by the weights from g'Z and the sums of g over samples, g being that by the logits.

    Through the logits T w.z it is T g'z; through T (w.z - |w|^2 / 2) it is T (g'z - w sum_i g_i).
    """
    gradient = products.reshape(weights.shape)
    pull = batch.euclidean[:, None] * column_sums.view(weights.shape[:2])
    return torch.addcmul(gradient, pull[:, :, None], weights, value=-1).mul_(batch.temperature[:, None, None])


def _kept_elements(device: torch.device) -> int:
    """`KEPT_ELEMENTS`, or what takes a quarter of a GPU's free memory if that is less."""
    most = KEPT_ELEMENTS[device.type]
    if device.type == "cuda":
        most = min(most, least_over_processes(free_memory(device)) // 16)
    return most
