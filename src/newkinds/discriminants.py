"""What linear discriminants share: a covariance from few samples, and a projection of wide features. NumPy only."""

from typing import Any

import numpy as np
import numpy.typing as npt

SPHERES = 2.0
"""The sphere counts as so many samples for each feature in the covariance within categories."""
WIDEST, PROJECTED = 1024, 512
"""Wider features are projected at random: a covariance of more would take longer than all the rest."""

FloatArray = npt.NDArray[np.float64]


def within_covariance(scatter: FloatArray, degrees: float) -> FloatArray:
    """The covariance within categories, mixed with that of a sphere, the more the fewer samples there are.

    Parameters
    ----------
    scatter : ndarray of shape (features, features)
        Sum of the products of samples' distances from the means of their categories; features are of unit length.
    degrees : float
        Samples less categories.

    Examples
    --------
    >>> within_covariance(np.diag([8.0, 0.0]), 4.0)
    array([[1.5, 0. ],
           [0. , 0.5]])
    """
    width = len(scatter)
    within = scatter / max(degrees, 1.0)
    variance = float(np.trace(within)) / width
    if not variance > np.finfo(np.float32).eps / width:  # no category has two samples that differ
        return np.eye(width)
    sphere = SPHERES * width / (SPHERES * width + degrees)
    return np.asarray((1 - sphere) * within + sphere * variance * np.eye(width))


def random_projection(width: int) -> npt.NDArray[np.float32] | None:
    """A random projection of wide features, always the same; None where they are not wide."""
    if width <= WIDEST:
        return None
    drawn = np.random.default_rng(width).standard_normal((width, PROJECTED), dtype=np.float32)
    return drawn / np.float32(np.sqrt(PROJECTED))


def projected(features: npt.NDArray[Any], projection: npt.NDArray[np.float32] | None) -> npt.NDArray[Any]:
    return features if projection is None else features @ projection
