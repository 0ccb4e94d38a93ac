"""How samples are compared: by the plain cosine, or in a metric that categories teach.

Directions in which samples of one category differ among themselves matter little. Features are centred between the
categories, scaled by the inverse root of the covariance within them, then to unit length. A covariance from few
samples is unsure, so it is mixed with that of a sphere. (The mean of all samples would be a worse centre: it is
nearest to the largest categories, whose samples would seem to differ most.)

"within" learns from the labelled samples only. Their categories may vary in other ways than new ones do; "self"
learns from every sample that a first training, by the cosine, was sure of.
"""

import numpy as np
import torch
from torch import Tensor

from newkinds.discriminants import FloatArray, within_covariance
from newkinds.engine import LinearMap, Samples, scatter_within, second_moment
from newkinds.labels import IntArray
from newkinds.past import Past

SURE = 0.8
"""Probability from which a sample teaches the metric of "self"."""
NARROW = 128
"""Directions that are enough to compare settings and numbers of categories."""
FOR_EACH_CATEGORY = 0.5
"""The same for each category, where there are many."""
WORTHWHILE = 0.75
"""Only so few times as many directions are taken: a product of nearly the same size is no faster."""
WIDEST = 512
"""Directions in which a metric is learnt: a covariance of more would say little and take long."""


def narrow_width(samples: Samples, n_categories: int) -> int:
    """The few directions that are enough to compare so many categories; all where fewer would save nothing."""
    width = max(NARROW, int(FOR_EACH_CATEGORY * n_categories))
    return width if width < WORTHWHILE * samples.width else samples.width


def narrow_map(samples: Samples, n_categories: int) -> LinearMap | None:
    """The map to the few directions in which most of the features lies; None where that would save nothing."""
    width = narrow_width(samples, n_categories)
    return _principal(samples, width) if width < samples.width else None


def learnt_metric(samples: Samples, columns: IntArray, past: Past | None = None) -> LinearMap:
    """The metric that some samples teach; `columns` are their categories, -1 for those that do not take part.

    Samples of the `past` teach too.
    """
    width = samples.width
    earlier = np.zeros((width, width)) if past is None else past.scatter
    degrees = 0 if past is None else past.n_samples - len(past.categories)
    if samples.width > WIDEST:
        first = _principal(samples, WIDEST)
        rest = _metric(samples.mapped(first), columns, first.matrix.T @ earlier @ first.matrix, degrees)
        return LinearMap(first.matrix @ rest.centre, first.matrix @ rest.matrix)
    return _metric(samples, columns, earlier, degrees)


def _metric(samples: Samples, columns: IntArray, earlier: FloatArray, earlier_degrees: int) -> LinearMap:
    scatter, centre, degrees = scatter_within(samples, columns)
    covariance = within_covariance(scatter.cpu().double().numpy() + earlier, degrees + earlier_degrees)
    return _whitening(centre, torch.from_numpy(covariance))


def within_metric(samples: Samples, columns: IntArray, strength: float) -> LinearMap:
    """The same, `strength` being the part of the covariance in the mixture, below 1.

    Examples
    --------
    >>> features = torch.tensor([[0.0, 1.0], [0.0, 3.0], [5.0, 1.0], [5.0, 3.0]])
    >>> metric = within_metric(Samples(features), np.array([0, 0, 1, 1]), strength=0.5)
    >>> metric.matrix.round(3)  # the second direction, in which categories vary, counts less
    array([[1.414, 0.   ],
           [0.   , 0.816]], dtype=float32)
    """
    scatter, centre, _ = scatter_within(samples, columns)
    covariance = scatter.cpu().double()
    even = torch.eye(len(covariance), dtype=torch.float64) * covariance.trace() / len(covariance)
    if not covariance.trace() > 0:  # no category has two samples that differ
        return _whitening(centre, torch.eye(len(covariance), dtype=torch.float64))
    return _whitening(centre, strength * covariance + (1 - strength) * even)


def _whitening(centre: Tensor, covariance: Tensor) -> LinearMap:
    """The map after which a covariance is that of a sphere."""
    root = torch.linalg.cholesky(covariance / (covariance.trace() / len(covariance)))
    inverse = torch.linalg.solve_triangular(root, torch.eye(len(root), dtype=torch.float64), upper=False)
    return LinearMap(centre.cpu().numpy(), np.ascontiguousarray(inverse.T.float().numpy()))


def _principal(samples: Samples, width: int) -> LinearMap:
    """The map to the directions in which features, not centred, are longest."""
    _, directions = torch.linalg.eigh(second_moment(samples).cpu().double())  # ascending
    matrix = np.ascontiguousarray(directions[:, -width:].float().numpy())
    return LinearMap(np.zeros(samples.width, dtype=np.float32), matrix)
