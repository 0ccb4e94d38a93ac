"""What a run no longer has of its samples: how many of each category went, and sums of their features.

A run that keeps a bounded number of samples (`--keep`) remembers the others as counts, sums and the scatter within
categories, so that its memory does not grow with the stream. Sums add up exactly, in whatever order and in whatever
parts samples went. NumPy only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.errors import InputError
from newkinds.labels import IntArray

FloatArray = npt.NDArray[np.float64]
BLOCK_ROWS = 1 << 12
"""Samples that are added at a time."""


@dataclass(frozen=True, eq=False)
class Past:
    """Samples that went, as sums.

    Attributes
    ----------
    categories : ndarray of int64 of shape (categories,)
        Ids, ascending; those of which none went are missing.
    counts : ndarray of int64 of shape (categories,)
    sums : ndarray of float64 of shape (categories, features)
        Of features of unit length.
    scatter : ndarray of float64 of shape (features, features)
        Sum over all samples of (x - m)(x - m)ᵀ, m being the mean of those of its category that went.

    Examples
    --------
    >>> past = Past.empty(2).with_samples(np.eye(2), np.array([3, 3]))
    >>> past.count_of(3), past.sums.tolist(), past.scatter.tolist()
    (2, [[1.0, 1.0]], [[0.5, -0.5], [-0.5, 0.5]])
    """

    categories: IntArray
    counts: IntArray
    sums: FloatArray
    scatter: FloatArray

    @classmethod
    def empty(cls, n_features: int) -> "Past":
        nothing = np.zeros(0, dtype=np.int64)
        return cls(nothing, nothing, np.zeros((0, n_features)), np.zeros((n_features, n_features)))

    @property
    def n_samples(self) -> int:
        return int(self.counts.sum())

    @property
    def means(self) -> FloatArray:
        """Of shape (categories, features)."""
        return np.asarray(self.sums / self.counts[:, None])

    def count_of(self, category: int) -> int:
        """How many samples of a category went."""
        return int(self.counts[self.categories == category].sum())

    def counts_of(self, categories: npt.ArrayLike) -> IntArray:
        """How many samples of each of some categories went."""
        return np.array([self.count_of(category) for category in np.asarray(categories).tolist()], dtype=np.int64)

    def with_samples(self, unit: npt.NDArray[Any], categories: IntArray) -> "Past":
        """With samples that go now.

        Parameters
        ----------
        unit : ndarray of shape (samples, features)
            Features of unit length.
        categories : ndarray of shape (samples,)
            Ids.
        """
        past = self
        for first in range(0, len(unit), BLOCK_ROWS):
            rows = slice(first, first + BLOCK_ROWS)
            past = past._with_block(np.asarray(unit[rows], dtype=np.float64), categories[rows])
        return past

    def after(self, became: Mapping[int, int | None]) -> "Past":
        """As it is after categories were merged or dissolved, see `newkinds.standing.lineage`.

        Those that became one add up. Of one that was dissolved nothing remains; the scatter, which is not known of
        each category, shrinks by its share of the samples. Of one that was split all stays with the larger part,
        whose id is the same.
        """
        heirs = [became.get(category, category) for category in self.categories.tolist()]
        if heirs == self.categories.tolist():
            return self
        stays = np.array([heir is not None for heir in heirs])
        counts, means = self.counts[stays], self.means[stays]
        ids, columns = np.unique([heir for heir in heirs if heir is not None], return_inverse=True)
        joined_counts = np.zeros(len(ids), dtype=np.int64)
        joined_sums = np.zeros((len(ids), self.sums.shape[1]))
        np.add.at(joined_counts, columns, counts)
        np.add.at(joined_sums, columns, self.sums[stays])
        around = means - (joined_sums / joined_counts[:, None])[columns]
        left = self.scatter * (int(counts.sum()) / max(self.n_samples, 1))
        scatter = left + (around.T * counts) @ around
        return Past(ids.astype(np.int64), joined_counts, joined_sums, scatter)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What is saved; `restored` makes a `Past` of it."""
        return dict(zip(("categories", "counts", "sums", "scatter"), self._parts(), strict=True))

    @classmethod
    def restored(cls, arrays: Mapping[str, npt.NDArray[Any]], n_features: int) -> "Past":
        """From what was saved; InputError says what is wrong with it."""
        n = len(arrays.get("categories", ()))
        expected = {
            "categories": (np.int64, (n,)),
            "counts": (np.int64, (n,)),
            "sums": (np.float64, (n, n_features)),
            "scatter": (np.float64, (n_features, n_features)),
        }
        for name, (kind, shape) in expected.items():
            if name not in arrays:
                raise InputError(f"it lacks {name}")
            array = arrays[name]
            if array.dtype != kind or array.shape != shape:
                raise InputError(
                    f"{name} should be {np.dtype(kind)} of shape {shape}; got {array.dtype} of {array.shape}"
                )
            if array.dtype == np.float64 and not np.isfinite(array).all():
                raise InputError(f"{name} should be finite")
        if (np.diff(arrays["categories"]) <= 0).any() or (arrays["categories"] < 0).any():
            raise InputError("categories should be ids that ascend")
        if (arrays["counts"] < 1).any():
            raise InputError("counts should be at least 1")
        return cls(*(arrays[name] for name in expected))

    def _parts(self) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
        return self.categories, self.counts, self.sums, self.scatter

    def _with_block(self, unit: FloatArray, categories: IntArray) -> "Past":
        ids, columns, counts = np.unique(categories, return_inverse=True, return_counts=True)
        sums = np.zeros((len(ids), unit.shape[1]))
        np.add.at(sums, columns, unit)
        around = unit - (sums / counts[:, None])[columns]
        return self._joined(Past(ids.astype(np.int64), counts.astype(np.int64), sums, around.T @ around))

    def _joined(self, other: "Past") -> "Past":
        """Both together. With counts a and b and means m and n, the scatter grows by ab/(a + b) (m - n)(m - n)ᵀ."""
        categories = np.union1d(self.categories, other.categories).astype(np.int64)
        counts = np.zeros((2, len(categories)), dtype=np.int64)
        sums = np.zeros((2, len(categories), self.sums.shape[1]))
        for part, past in enumerate((self, other)):
            places = np.searchsorted(categories, past.categories)
            counts[part, places], sums[part, places] = past.counts, past.sums
        in_both = (counts > 0).all(axis=0)
        means = sums[:, in_both] / counts[:, in_both, None]
        weights = counts[0, in_both] * (counts[1, in_both] / counts[:, in_both].sum(axis=0))
        gap = means[0] - means[1]
        scatter = self.scatter + other.scatter + gap.T @ (weights[:, None] * gap)
        return Past(categories, counts.sum(axis=0), sums.sum(axis=0), scatter)
