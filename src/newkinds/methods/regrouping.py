"""A model whose categories a person has edited since it was fitted: some merged, some dissolved, some added."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.engine import Partitioner
from newkinds.errors import InputError
from newkinds.labels import IntArray

LEAST = 1e-300
"""Probabilities are kept above this, so that their logarithm is finite."""


@dataclass(frozen=True)
class Regrouped:
    """A partitioner with other categories than its columns.

    The probability of a category is the sum of those of the columns that it took in. Columns that were dissolved do
    not count: the others share their probability. A category without a column, which was split off or created, has
    the probability 0 until a refit.

    Attributes
    ----------
    partitioner : Partitioner
    places : ndarray of shape (columns,)
        The category of each column, -1 for dissolved ones.
    n_categories : int
    """

    partitioner: Partitioner
    places: IntArray
    n_categories: int

    def log_probabilities(self, features: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
        """Log-probabilities of shape (samples, categories)."""
        return np.asarray(np.log(np.maximum(self._probabilities(features), LEAST)))

    def verdicts(
        self, features: npt.NDArray[np.floating[Any]], n_first: int, columns: IntArray | None = None
    ) -> tuple[IntArray, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """As `Partitioner.verdicts`."""
        p = self._probabilities(features)
        chosen = p.argmax(axis=1) if columns is None else columns
        return chosen, p[np.arange(len(p)), chosen], p[:, n_first:].sum(axis=1)

    def _probabilities(self, features: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
        by_column = np.exp(self.partitioner.log_probabilities(features))
        lives = np.flatnonzero(self.places >= 0)
        membership = np.zeros((len(lives), self.n_categories))
        membership[np.arange(len(lives)), self.places[lives]] = 1
        p = by_column[:, lives] @ membership
        return np.asarray(p / np.maximum(p.sum(axis=1, keepdims=True), LEAST))


def places_of(ids: IntArray, became: Mapping[int, int | None], categories: IntArray) -> IntArray:
    """Of each id of a fitted model, the place of the category that it became; -1 if it was dissolved."""
    heirs = [became[i] for i in ids.tolist()]
    places = {int(i): place for place, i in enumerate(categories)}
    if all(heir is None for heir in heirs):
        raise InputError("none of the categories that the model was fitted with is left; refit the run")
    return np.array([-1 if heir is None else places[heir] for heir in heirs], dtype=np.int64)
