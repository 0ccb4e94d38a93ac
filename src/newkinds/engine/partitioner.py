"""The linear soft-partitioner: features and weights in, log-probabilities of the categories out."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newkinds.labels import IntArray

Geometry = Literal["linear", "euclidean"]
FloatArray = npt.NDArray[np.float32]

BLOCK_ELEMENTS = {"cpu": 1 << 18, "cuda": 1 << 28, "mps": 1 << 24}
"""Log-probabilities worked on at once: about a core's cache on a CPU, a gigabyte on a GPU."""
LEAST_LOG_P = -60.0
"""Log-probabilities are held above this: exp(-60) = 9e-27 counts nothing, but smaller ones, and their products with
weights of a sample, would be denormal float32 numbers, on which a CPU is many times slower."""


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
    temperature: float = 25.0
    geometry: Geometry = "linear"

    def log_probabilities(self, features: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
        """Log-probabilities of shape (samples, categories) of L2-normalised features."""
        result = np.empty((len(features), len(self.weights)))
        for rows, log_p in self.by_blocks(features):
            result[rows] = log_p
        return result

    def assign(self, features: npt.NDArray[np.floating[Any]]) -> IntArray:
        """Most probable category of each sample, the first of equals, without an array of all probabilities."""
        columns = np.empty(len(features), dtype=np.int64)
        for rows, log_p in self.by_blocks(features):
            columns[rows] = log_p.argmax(axis=1)
        return columns

    def by_blocks(self, features: npt.NDArray[np.floating[Any]]) -> Iterator[tuple[slice, npt.NDArray[np.float64]]]:
        """Log-probabilities block by block: which samples, and their (samples, categories).

        In double precision, so that a sample's result does not depend on the samples it comes with.
        """
        weights = torch.from_numpy(np.asarray(self.weights, dtype=np.float64))
        temperature = torch.tensor([self.temperature], dtype=torch.float64)
        scaled, bias = scale(weights[None], temperature, self.geometry == "euclidean")
        for rows in blocks(len(features), len(weights), "cpu"):
            block = torch.from_numpy(features[rows].astype(np.float64))
            yield rows, log_probabilities(block, scaled, bias)[0].T.numpy()


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


def log_probabilities(features: Tensor, scaled: Tensor, bias: Tensor) -> Tensor:
    """Log-softmax of the logits, (runs, categories, samples), for `scaled` and `bias` of `scale`."""
    runs, categories, width = scaled.shape
    logits = torch.addmm(bias.reshape(-1, 1), scaled.reshape(-1, width), features.T)
    return torch.log_softmax(logits.view(runs, categories, -1), dim=1).clamp_min_(LEAST_LOG_P)


def blocks(n_samples: int, columns: int, device: str) -> list[slice]:
    """Cut the samples so that a block of samples × columns stays within `BLOCK_ELEMENTS`."""
    size = max(1, BLOCK_ELEMENTS[device] // max(1, columns))
    return [slice(start, min(start + size, n_samples)) for start in range(0, n_samples, size)]
