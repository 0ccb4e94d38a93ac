"""A collection as the methods see it: feature vectors, labels where there are any, and something to show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.data.pictures import check_image
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray, check_labels, known_categories
from newkinds.runtime import report_progress

CHECKED_ROWS = 1 << 16
"""Features are checked in blocks of this many rows, so that a memory map is never read in whole."""


@dataclass(frozen=True, eq=False)
class FeatureSet:
    """Feature vectors of a partly labelled collection.

    Attributes
    ----------
    features : ndarray of shape (samples, features)
        float16, float32 or float64; may be a memory map.
    labels : ndarray of int64, shape (samples,)
        -1 = unlabelled.
    truth : ndarray of int64, shape (samples,), optional
        True classes, for scoring only; -1 where unknown.
    names : tuple of str, optional
        Name of class 0, 1, …, known ones first; None if labels are plain integers.
    ids : tuple of str, optional
        The name of each sample; by default its row number.
    columns : tuple of str, optional
        Name of each feature.
    texts : tuple of str, optional
        The text to show for each sample.
    images : ndarray of uint8, shape (samples, height, width) or (samples, height, width, 3), optional
        The image to show for each sample; or a sequence that makes single images when asked.
    encoder : mapping, optional
        What made the features of photos or texts, and which of the two they are; see `newkinds.encoders`.
    skipped : tuple of (str, str)
        The id of each sample of the source that is not here, and why.
    others : mapping of str to list
        Further columns of the table that the samples come from; predictions carry them along.
    notes : tuple of str
        What a user should know about the collection.
    root : str, optional
        The folder in which the ids are the paths of files.

    Examples
    --------
    >>> collection = FeatureSet(np.eye(3), labels=np.array([0, -1, -1]))
    >>> collection.n_labelled, collection.n_known
    (1, 1)
    """

    features: npt.NDArray[Any]
    labels: IntArray
    truth: IntArray | None = None
    names: tuple[str, ...] | None = None
    ids: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    texts: tuple[str, ...] | None = None
    images: npt.NDArray[np.uint8] | Sequence[npt.NDArray[np.uint8]] | None = None
    encoder: Mapping[str, Any] | None = None
    skipped: tuple[tuple[str, str], ...] = ()
    others: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    root: str | None = None
    _finite: npt.NDArray[Any] | None = field(default=None, repr=False)
    """The array that was found finite: `dataclasses.replace` passes it on and need not read it all again."""

    def __post_init__(self) -> None:
        if self.features is not self._finite:
            check_features(self.features)
            object.__setattr__(self, "_finite", self.features)
        n = len(self.features)
        if isinstance(self.images, np.ndarray | np.generic):
            check_image(self.images, n_axes=1)
        if self.columns is not None and len(self.columns) != self.features.shape[1]:
            raise InputError(f"there are {self.features.shape[1]} features but {len(self.columns)} columns")
        for name in ("ids", "texts", "images"):
            values: Sequence[Any] | None = getattr(self, name)
            if values is not None and len(values) != n:
                raise InputError(f"there are {n} samples but {len(values)} {name}")
        labels, truth = check_labelling(n, self.labels, self.truth, self.names, self.ids)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "truth", truth)

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        return (
            f"FeatureSet({len(self)} samples × {self.features.shape[1]}, {self.n_labelled} labelled, "
            f"{self.n_known} known categories)"
        )

    @property
    def n_labelled(self) -> int:
        return int((self.labels != UNLABELLED).sum())

    @property
    def known(self) -> IntArray:
        return known_categories(self.labels)

    @property
    def n_known(self) -> int:
        return len(self.known)

    def arranged(self, columns: Sequence[str] | None) -> npt.NDArray[Any]:
        """The features in the order of named columns; unchanged if either side has no names."""
        return in_order(self.features, self.columns, columns)

    def sample_ids(self, rows: slice = slice(None)) -> list[str]:
        """The name of each sample in some rows: its id, or its row number in the whole collection."""
        return [str(i) for i in range(len(self))[rows]] if self.ids is None else list(self.ids[rows])

    def name_of(self, category: int) -> str:
        """Name of a known category."""
        return str(category) if self.names is None else self.names[category]


def in_order(
    features: npt.NDArray[Any], columns: Sequence[str] | None, wanted: Sequence[str] | None
) -> npt.NDArray[Any]:
    """Features whose columns have names, in the order wanted; unchanged if either side has no names."""
    if wanted is None or columns is None or tuple(wanted) == tuple(columns):
        return features
    if missing := [name for name in wanted if name not in columns]:
        present = ", ".join(columns[:3])
        raise InputError(f"the column {missing[0]!r} of the run's features is missing (there are {present}, …)")
    if unknown := [name for name in columns if name not in wanted]:
        raise InputError(f"the column {unknown[0]!r} is not among the run's features; remove it")
    return features[:, [list(columns).index(name) for name in wanted]]


def check_labelling(
    n_samples: int,
    labels: npt.ArrayLike,
    truth: npt.ArrayLike | None,
    names: Sequence[str] | None,
    ids: Sequence[str] | None,
) -> tuple[IntArray, IntArray | None]:
    """Labels and truth as integers; a class without a name, or a label that differs from its truth, is refused."""
    labels = check_labels(labels, n_samples)
    truth = None if truth is None else check_labels(truth, n_samples)
    if names is not None:
        largest = max(values.max(initial=UNLABELLED) for values in (labels, truth) if values is not None)
        if largest >= len(names):
            raise InputError(f"label {largest} has no name; there are {len(names)} names")
    if truth is None:
        return labels, None
    contradictions = np.flatnonzero((labels != UNLABELLED) & (labels != truth))
    if contradictions.size:
        first = int(contradictions[0])

        def named(category: int) -> str:
            if category == UNLABELLED:
                return "unknown"
            return str(category) if names is None else repr(names[category])

        raise InputError(
            f"a label differs from its truth: {str(first) if ids is None else ids[first]!r} is labelled "
            f"{named(labels[first])} but its truth is {named(truth[first])} (and {contradictions.size - 1} more "
            "such); are both of the same data?"
        )
    return labels, truth


def check_shape(features: npt.NDArray[Any]) -> None:
    """Refuse an array that cannot hold features, without reading it."""
    if features.ndim != 2:
        raise InputError(f"features must be two-dimensional (samples × features); got shape {features.shape}")
    if features.dtype.kind not in "fiu":
        raise InputError(f"features must be numbers; got {features.dtype}")
    if 0 in features.shape:
        raise InputError(f"there are no features: the array has shape {features.shape}")


def check_features(features: npt.NDArray[Any]) -> None:
    """Refuse features that are no table of finite numbers; reads the whole array."""
    check_shape(features)
    for first in range(0, len(features), CHECKED_ROWS):
        is_finite = np.isfinite(features[first : first + CHECKED_ROWS])
        if not is_finite.all():
            row = first + int(np.flatnonzero(~is_finite.all(axis=1))[0])
            raise InputError(
                f"features must be finite; row {row} has NaN or infinity "
                "(and perhaps others); remove such samples or encode them again"
            )
        report_progress("checking the features", min(first + CHECKED_ROWS, len(features)), len(features))
