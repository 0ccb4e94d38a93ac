"""The linear soft-partitioner: features and weights in, log-probabilities of the categories out."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newkinds.labels import UNLABELLED, IntArray
from newkinds.names import Geometry

FloatArray = npt.NDArray[np.float32]

TEMPERATURE = 25.0
"""The released code's; the paper does not state one."""

BLOCK_ELEMENTS = {"cpu": 200_000, "cuda": 1 << 28, "mps": 1 << 24}
"""Log-probabilities worked on at once: what the caches of two cores hold, a gigabyte on a GPU."""
BLOCK_SAMPLES = {"cpu": 2048, "cuda": 1 << 30, "mps": 1 << 30}
"""Most samples in a block, however few the columns."""
LEAST_LOG_P = -60.0
"""Log-probabilities are kept above this. exp(-60) = 9e-27 counts for nothing; smaller numbers, and their products
with the weights of samples, would be denormal in float32, on which a CPU is many times slower."""


@dataclass(frozen=True)
class Partitioner:
    """p(category | z) = softmax of `temperature * w_k . z`, or of `-temperature / 2 * |z - w_k|^2`.

    Attributes
    ----------
    weights : ndarray of shape (categories, features)
    temperature : float
    geometry : {"linear", "euclidean"}
        "linear" is PIM's and RIM's; "euclidean" is TIM's, and that of k-means.
    """

    weights: FloatArray
    temperature: float = TEMPERATURE
    geometry: Geometry = "linear"

    @property
    def n_categories(self) -> int:
        return len(self.weights)

    def log_probabilities(self, features: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
        """Log-probabilities of shape (samples, categories) of L2-normalised features."""
        result = np.empty((len(features), len(self.weights)))
        for rows, log_p in self._by_blocks(features):
            result[rows] = log_p.cpu().numpy()
        return result

    def assign(self, features: npt.NDArray[np.floating[Any]] | Tensor, least: float = 0.0) -> IntArray:
        """Most probable category of each sample, the first of equals, without an array of all probabilities.

        -1 where that probability is below `least`.
        """
        columns = np.empty(len(features), dtype=np.int64)
        for rows, log_p in self._by_blocks(features):
            columns[rows] = _most_probable(log_p.exp_() if least else log_p, least)
        return columns

    def verdicts(
        self, features: npt.NDArray[np.floating[Any]], n_first: int, columns: IntArray | None = None
    ) -> tuple[IntArray, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Of each sample its column, the probability of that, and of all columns but the first `n_first` together.

        The column is the most probable one, the first of equals, or the one in `columns`. Probabilities are those
        of `log_probabilities`, without an array of them all.
        """
        chosen = np.empty(len(features), dtype=np.int64) if columns is None else columns
        confidence, rest = np.empty(len(features)), np.empty(len(features))
        scaled, bias = self._scaled(torch.device("cpu"))
        for rows in blocks(len(features), len(self.weights), "cpu"):
            block = torch.from_numpy(features[rows]).double()
            logits = torch.addmm(bias, block, scaled[0].T)
            if columns is None:
                chosen[rows] = logits.numpy().argmax(axis=1)
            p = logits.sub_(logits.amax(dim=1, keepdim=True)).exp_()
            total = p.sum(dim=1)
            p_chosen = p.gather(1, torch.from_numpy(chosen[rows, None]))[:, 0]
            confidence[rows] = (p_chosen / total).numpy()
            rest[rows] = (p[:, n_first:].sum(dim=1) / total).numpy()
        return chosen, confidence, rest

    def margins(self, features: npt.NDArray[np.floating[Any]] | Tensor, n_first: int) -> npt.NDArray[np.float64]:
        """By how much the log-probability of the best of the first columns exceeds that of the best of the rest."""
        result = np.empty(len(features))
        for rows, log_p in self._by_blocks(features):
            result[rows] = (log_p[:, :n_first].amax(dim=1) - log_p[:, n_first:].amax(dim=1)).cpu().numpy()
        return result

    def _by_blocks(self, features: npt.NDArray[np.floating[Any]] | Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Log-probabilities block by block: which samples, and their (samples, categories).

        In double precision, so that a sample's result does not depend on the samples it comes with.
        """
        samples = features if isinstance(features, Tensor) else torch.from_numpy(features)
        device = (
            torch.device("cpu") if samples.device.type == "mps" else samples.device
        )  # mps has no double precision
        scaled, bias = self._scaled(device)
        for rows in blocks(len(samples), len(self.weights), device.type):
            block = samples[rows].to(device=device, dtype=torch.float64)
            yield rows, log_probabilities(block, scaled, bias)[0].T

    def _scaled(self, device: torch.device) -> tuple[Tensor, Tensor]:
        weights = torch.from_numpy(np.asarray(self.weights, dtype=np.float64)).to(device)
        temperature = torch.tensor([self.temperature], dtype=torch.float64, device=device)
        return scale(weights[None], temperature, self.geometry == "euclidean")


@dataclass(frozen=True)
class Committee:
    """Partitioners of the same categories that decide together, by the mean of their probabilities."""

    members: tuple[Partitioner, ...]

    @property
    def n_categories(self) -> int:
        return self.members[0].n_categories

    def assign(self, features: npt.NDArray[np.floating[Any]] | Tensor, least: float = 0.0) -> IntArray:
        """Most probable category of each sample, the first of equals; -1 where its probability is below `least`."""
        columns = np.empty(len(features), dtype=np.int64)
        for votes in zip(*(member._by_blocks(features) for member in self.members), strict=True):
            rows = votes[0][0]
            probabilities = torch.stack([log_p.exp() for _, log_p in votes]).sum(0)
            columns[rows] = _most_probable(probabilities, least * len(votes))
        return columns


def _most_probable(scores: Tensor, least: float) -> IntArray:
    """Column of the highest score of each row, the first of equals; -1 where that is below `least`, unless 0."""
    columns: IntArray = scores.argmax(dim=1).cpu().numpy()
    if least:
        columns[(scores.amax(dim=1) < least).cpu().numpy()] = UNLABELLED
    return columns


def scale(weights: Tensor, temperature: Tensor, euclidean: Tensor | bool) -> tuple[Tensor, Tensor]:
    """Fold the temperature into the weights: logits are then `features @ scaled.T + bias`.

    The euclidean logits -T/2 |z - w|^2 are those of a linear model with bias -T/2 |w|^2, up to a constant that
    the softmax does not see.

    Parameters
    ----------
    weights : Tensor of shape (runs, categories, features)
    temperature : Tensor of shape (runs,)
    euclidean : bool, or bool Tensor of shape (runs,)

    Returns
    -------
    scaled : Tensor of shape (runs, categories, features)
    bias : Tensor of shape (runs, categories)
    """
    is_euclidean = torch.as_tensor(euclidean, dtype=weights.dtype, device=weights.device)
    half = (0.5 * temperature * is_euclidean)[:, None]
    return weights * temperature[:, None, None], -half * weights.square().sum(-1)


def log_probabilities(
    features: Tensor,
    scaled: Tensor,
    bias: Tensor | None,
    *,
    out: Tensor | None = None,
    scratch: Tensor | None = None,
) -> Tensor:
    """Log-softmax of the logits, (runs, categories, samples), for `scaled` and `bias` of `scale`.

    Leave out a bias that is 0 everywhere: that is faster.
    `out` takes the result and `scratch` the logits, where they are given; both have the result's shape.
    """
    runs, categories, width = scaled.shape
    place = None if scratch is None else scratch.view(runs * categories, -1)
    logits = torch.mm(scaled.reshape(-1, width), features.T, out=place)
    if bias is not None:
        logits += bias.reshape(-1, 1)
    return torch.log_softmax(logits.view(runs, categories, -1), dim=1, out=out).clamp_min_(LEAST_LOG_P)


def blocks(n_samples: int, columns: int, device: str) -> list[slice]:
    """Cut the samples so that a block of samples × columns stays within `BLOCK_ELEMENTS`."""
    size = max(1, min(BLOCK_SAMPLES[device], BLOCK_ELEMENTS[device] // max(1, columns)))
    return [slice(start, min(start + size, n_samples)) for start in range(0, n_samples, size)]
