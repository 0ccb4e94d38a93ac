"""A metric that labels teach: directions in which samples of one category differ among themselves matter little.

Features are centred between the labelled categories, scaled by the inverse root of the covariance within them, then
to unit length. A covariance from few labels is unsure, so it is mixed with that of a sphere. (The mean of all
samples would be a worse centre: it is nearest to the largest categories, whose samples would seem to differ most.)
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot


@dataclass(frozen=True)
class Metric:
    """A linear map: `(features - centre) @ matrix`, scaled to unit length."""

    centre: Tensor
    matrix: Tensor

    def apply(self, features: Tensor) -> Tensor:
        return normalize((features - self.centre) @ self.matrix)


def within_metric(features: Tensor, categories: Tensor, strength: float) -> Metric:
    """The metric by labelled samples; `strength` is the part of their covariance in the mixture, below 1.

    Examples
    --------
    >>> features = torch.tensor([[0.0, 1.0], [0.0, 3.0], [5.0, 1.0], [5.0, 3.0]])
    >>> metric = within_metric(features, torch.tensor([0, 0, 1, 1]), strength=0.5)
    >>> metric.matrix  # the second direction, in which categories vary, counts less
    tensor([[1.4142, 0.0000],
            [0.0000, 0.8165]])
    """
    members = one_hot(categories).to(features)
    members = members[:, members.any(0)]
    means = members.T @ features / members.sum(0)[:, None]
    centre = means.mean(0)
    around = features - members @ means
    covariance = (around.T @ around).cpu().double()
    even = torch.eye(len(covariance), dtype=torch.float64) * covariance.trace() / len(covariance)
    if not covariance.trace() > 0:  # no category has two samples that differ
        return Metric(centre, torch.eye(len(covariance)).to(features))
    mixed = (strength * covariance + (1 - strength) * even) / (covariance.trace() / len(covariance))
    root = torch.linalg.cholesky(mixed)
    inverse = torch.linalg.solve_triangular(root, torch.eye(len(root), dtype=torch.float64), upper=False)
    return Metric(centre, inverse.T.to(features))
