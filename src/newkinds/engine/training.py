"""Training of many partitioners that share their features, in one batch, full batch, without autograd.

Each run has its own start, objective (so its own lam), temperature, geometry, labels and number of categories.
An evaluation is two passes over the features in blocks of samples: the first gives the marginals, the second
the gradient. The blocks' log-probabilities are kept between the passes where they fit `KEPT_ELEMENTS` and
computed again where they do not, so memory stays bounded for any number of samples and runs.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newkinds.engine.partitioner import FloatArray, Geometry, Partitioner, blocks, log_probabilities, scale
from newkinds.errors import InputError
from newkinds.labels import IntArray
from newkinds.objective import Objective, RunWeights, log_marginal, marginal, value_and_gradient
from newkinds.runtime import report_progress

GROUP_COLUMNS = {"cpu": 512, "cuda": 1 << 20, "mps": 1 << 14}
"""Runs × categories in one matrix product: wide enough to be efficient, narrow enough for the cache."""
KEPT_ELEMENTS = {"cpu": 1 << 26, "cuda": 1 << 31, "mps": 1 << 28}
"""Log-probabilities kept between the two passes (float32: 256 MiB on a CPU, 8 GiB on a GPU)."""
PADDING = -1e4
"""Logit of a category a run does not have: its probability counts nothing, and no product is NaN."""
REPORTS = 100
"""Progress reports in one training."""


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
        This run's own labels (columns of `start`, -1 = unlabelled); by default those all runs share.
    """

    start: FloatArray
    objective: Objective
    temperature: float = 25.0
    geometry: Geometry = "linear"
    labels: IntArray | None = None


@dataclass(frozen=True)
class Trained:
    """The partitioners in the order of their runs, and the objective of each run in each epoch."""

    partitioners: tuple[Partitioner, ...]
    values: npt.NDArray[np.float32]  # (epochs, runs)


def optimise(
    features: Tensor,
    runs: Sequence[Run],
    *,
    labels: IntArray | None = None,
    max_iter: int = 1000,
    learning_rate: float = 1e-3,
    weight_decay: float = 0.01,
    stage: str = "training",
) -> Trained:
    """Train a batch of partitioners by full-batch Adam with coupled weight decay.

    Parameters
    ----------
    features : Tensor of shape (samples, features)
        L2-normalised, float32, on the device to work on; they are read there and never copied.
    runs : sequence of Run
    labels : ndarray of shape (samples,), optional
        Column of each sample's known category, -1 = unlabelled, for the runs that have none of their own.
    max_iter : int
        Epochs; one epoch is one step.
    learning_rate, weight_decay : float
        Of Adam; the decay is added to the gradient, as in the paper (not decoupled as in AdamW).
    stage : str
        What to call this training in progress reports.

    Examples
    --------
    >>> features = torch.nn.functional.normalize(torch.tensor([[1.0, 0.1], [1.0, 0.0], [0.0, 1.0]]), dim=1)
    >>> run = Run(start=np.eye(2, dtype=np.float32), objective=Objective(lam=0.5))
    >>> trained = optimise(features, [run], labels=np.array([0, -1, -1]), max_iter=5)
    >>> trained.partitioners[0].log_probabilities(features.numpy()).argmax(axis=1)
    array([0, 0, 1])
    """
    stop = threading.Event()

    def train(share: Sequence[Run], report: bool, workers: int = 1) -> Trained:
        batch = _Batch(features, share, labels, workers)
        weights = batch.start
        optimiser = torch.optim.Adam([weights], lr=learning_rate, weight_decay=weight_decay, fused=True)
        values = torch.empty(max_iter, len(share), device=features.device)
        every = max(1, max_iter // REPORTS)
        for epoch in range(max_iter):
            if stop.is_set():
                break
            values[epoch], weights.grad = batch.value_and_gradient(weights)
            optimiser.step()
            if report and ((epoch + 1) % every == 0 or epoch + 1 == max_iter):
                report_progress(stage, epoch + 1, max_iter)
        trained = weights.cpu().numpy()
        if not np.isfinite(trained).all():
            raise InputError(f"the training diverged at learning_rate={learning_rate:g}; choose a smaller one")
        partitioners = tuple(
            Partitioner(trained[r, : len(run.start)], run.temperature, run.geometry) for r, run in enumerate(share)
        )
        return Trained(partitioners, values.cpu().numpy())

    threads = torch.get_num_threads() if features.device.type == "cpu" else 1
    if threads == 1 or len(runs) < threads:
        return train(runs, True)
    # Runs do not depend on each other: a thread for each share of them, with nothing to wait for, uses the cores
    # better than sharing out every single operation does.
    shares = [runs[i::threads] for i in range(threads)]
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            futures = [
                pool.submit(copy_context().run, train, share, report=i == 0, workers=threads)
                for i, share in enumerate(shares)
            ]
            try:
                results = [future.result() for future in futures]
            except BaseException:  # above all an interruption: the other threads must end too
                stop.set()
                raise
    finally:
        torch.set_num_threads(threads)  # what the workers set is also the default of every thread yet to come
    partitioners = {i + threads * j: p for i, part in enumerate(results) for j, p in enumerate(part.partitioners)}
    values = np.empty((max_iter, len(runs)), dtype=np.float32)
    for i, part in enumerate(results):
        values[:, i::threads] = part.values
    return Trained(tuple(partitioners[r] for r in range(len(runs))), values)


def _kept_elements(device: torch.device) -> int:
    """`KEPT_ELEMENTS`, or what takes a quarter of a GPU's free memory if that is less."""
    most = KEPT_ELEMENTS[device.type]
    if device.type == "cuda":
        most = min(most, torch.cuda.mem_get_info(device)[0] // 16)
    return most


class _Batch:
    """The runs as tensors, and their objectives' common evaluation."""

    def __init__(self, features: Tensor, runs: Sequence[Run], labels: IntArray | None, workers: int = 1) -> None:
        n, width = features.shape
        categories = max(len(run.start) for run in runs)
        self.features = features
        self.device = features.device.type
        self.kept_elements = _kept_elements(features.device) // workers
        start = torch.zeros(len(runs), categories, width)
        padding = torch.zeros(len(runs), categories)
        for r, run in enumerate(runs):
            if run.start.shape[1] != width:
                raise InputError(f"the start has {run.start.shape[1]} features a category, the samples {width}")
            start[r, : len(run.start)] = torch.from_numpy(run.start)
            padding[r, len(run.start) :] = PADDING
        self.start = start.to(features)
        self.padding = padding.to(features)
        self.temperature = torch.tensor([run.temperature for run in runs]).to(features)
        self.euclidean = torch.tensor([float(run.geometry == "euclidean") for run in runs]).to(features)
        self.any_euclidean = any(run.geometry == "euclidean" for run in runs)

        shared = np.full(n, -1, dtype=np.int64) if labels is None else labels
        own = [shared if run.labels is None else run.labels for run in runs]
        for run, given in zip(runs, own, strict=True):
            if len(given) != n or given.max(initial=-1) >= len(run.start):
                raise InputError(
                    f"labels must name one of {len(run.start)} categories for each of {n} samples; "
                    f"got {len(given)} labels up to {given.max(initial=-1)}"
                )
        one_for_all = all(run.labels is None for run in runs)
        stacked = np.stack(own[:1] if one_for_all else own)  # (1 or runs, samples)
        self.labels = torch.from_numpy(stacked).to(features.device)
        self.weights = RunWeights.stack(
            [
                run.objective.weights(int((given >= 0).sum()), int((given < 0).sum()))
                for run, given in zip(runs, own, strict=True)
            ],
            like=features,
        )
        self.groups = self._groups(len(runs), categories, n)

    def _groups(self, n_runs: int, categories: int, n: int) -> list[slice]:
        """Runs evaluated together: few enough for one efficient product and, where possible, to be kept."""
        size = min(GROUP_COLUMNS[self.device] // categories, self.kept_elements // (n * categories))
        size = max(1, min(size, n_runs))
        return [slice(first, min(first + size, n_runs)) for first in range(0, n_runs, size)]

    def value_and_gradient(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Objectives (runs,) and their gradients (runs, categories, features) with respect to the weights."""
        values, gradients = zip(*(self._evaluate(group, weights[group]) for group in self.groups), strict=True)
        return torch.cat(values), torch.cat(gradients)

    def _evaluate(self, group: slice, weights: Tensor) -> tuple[Tensor, Tensor]:
        n_runs, categories, width = weights.shape
        columns = n_runs * categories
        temperature, euclidean = self.temperature[group], self.euclidean[group]
        scaled, bias = scale(weights, temperature, euclidean)
        bias = bias + self.padding[group]
        term_weights = self.weights.select(group)
        labels = self.labels if len(self.labels) == 1 else self.labels[group]
        parts = blocks(len(self.features), columns, self.device)
        keep = len(self.features) * columns <= self.kept_elements
        kept: list[Tensor] = []

        pi = torch.zeros_like(bias)
        for rows in parts:
            log_p = log_probabilities(self.features[rows], scaled, bias)
            pi += marginal(log_p.exp(), labels[:, rows], term_weights)
            if keep:
                kept.append(log_p)
        log_pi = log_marginal(pi)

        value = torch.zeros_like(temperature)
        gradient = torch.zeros(columns, width, dtype=weights.dtype, device=weights.device)
        column_sums = torch.zeros_like(bias)
        for i, rows in enumerate(parts):
            log_p = kept[i] if keep else log_probabilities(self.features[rows], scaled, bias)
            block_value, logit_gradient = value_and_gradient(log_p, log_pi, labels[:, rows], term_weights)
            value += block_value
            gradient.addmm_(logit_gradient.view(columns, -1), self.features[rows])
            if self.any_euclidean:
                column_sums += logit_gradient.sum(-1)
        # Through the logits T w.z: T g'z. Through T (w.z - |w|^2 / 2): T (g'z - w sum_i g_i).
        gradient = gradient.view_as(weights)
        if self.any_euclidean:
            gradient -= (euclidean[:, None] * column_sums)[:, :, None] * weights
        return value, gradient * temperature[:, None, None]
