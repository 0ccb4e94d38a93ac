"""A category-discovery problem in the form every method works on: unit features on a device, labels as columns."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray, check_labels, known_categories, to_columns
from newkinds.metrics import clustering_accuracy
from newkinds.runtime import resolve_device


@dataclass(frozen=True)
class Problem:
    """What a method gets to see.

    Attributes
    ----------
    features : Tensor of shape (samples, features)
        L2-normalised float32, on the device to work on.
    columns : ndarray of shape (samples,)
        0 … n_known - 1 for a sample with a known category, -1 for the others.
    known : ndarray of shape (n_known,)
        The user's ids of the known categories, ascending.
    rng : RandomState
    """

    features: Tensor
    columns: IntArray
    known: IntArray
    rng: np.random.RandomState

    @property
    def n_known(self) -> int:
        return len(self.known)

    @property
    def labelled(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.columns != UNLABELLED)

    @property
    def most_categories(self) -> int:
        """Each known category, and each unlabelled sample one of its own."""
        return self.n_known + int((~self.labelled).sum())

    def labelled_features(self) -> npt.NDArray[np.float32]:
        return self.features[torch.from_numpy(self.labelled).to(self.features.device)].cpu().numpy()

    def labelled_accuracy(self, predicted: IntArray) -> float:
        """Clustering accuracy on the labelled samples: the paper's score for choosing lam and K.

        `predicted` holds the categories of the labelled samples only.
        """
        return clustering_accuracy(self.columns[self.labelled], predicted)

    def check_n_categories(self, n_categories: int) -> int:
        """`n_categories` if that many can be found here, or say why not."""
        if n_categories < self.n_known:
            raise InputError(
                f"n_categories={n_categories} is fewer than the {self.n_known} categories that have labels"
            )
        if n_categories > self.most_categories:
            raise InputError(
                f"n_categories={n_categories} is more than {self.n_known} known categories and "
                f"{self.most_categories - self.n_known} unlabelled samples can make"
            )
        return int(n_categories)


def pose(
    features: npt.NDArray[Any],
    labels: npt.ArrayLike | None,
    *,
    device: str = "auto",
    random_state: int | np.random.RandomState | None = None,
) -> Problem:
    """Check and prepare a problem: `features` is a finite two-dimensional array, `labels` as the user gave them."""
    checked = check_labels(as_array(labels), len(features))
    known = known_categories(checked)
    return Problem(
        features=torch.from_numpy(normalised(features).astype(np.float32, order="C", copy=False)).to(
            resolve_device(device)
        ),
        columns=to_columns(checked, known),
        known=known,
        rng=check_random_state(random_state),
    )


def normalised(features: npt.NDArray[Any]) -> npt.NDArray[np.floating[Any]]:
    """Features scaled to unit length, float32 or float64 as they came (float16 becomes float32).

    A zero vector has no direction, so it cannot be compared with anything: it is refused.

    Examples
    --------
    >>> normalised(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])
    """
    kind = np.float64 if features.dtype == np.float64 else np.float32
    values: npt.NDArray[Any] = features.astype(kind)
    largest = np.maximum(values.max(axis=1, keepdims=True), -values.min(axis=1, keepdims=True))
    if (zero := np.flatnonzero(largest == 0)).size:
        raise InputError(
            f"{len(zero)} of {len(values)} samples are zero vectors (the first is row {zero[0]}): they have no "
            "direction and cannot be normalised; remove them or encode them again"
        )
    values /= largest  # so that squares neither overflow nor vanish
    values /= np.sqrt(np.einsum("ij,ij->i", values, values))[:, None]
    return values


def as_array(X: Any) -> Any:
    """A torch tensor as a numpy array (bfloat16, which numpy lacks, as float32), anything else as it is."""
    if not isinstance(X, Tensor):
        return X
    return (X.float() if X.dtype == torch.bfloat16 else X).detach().cpu().numpy()
