"""A category-discovery problem in the form every method works on: unit features, labels as columns."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
import torch
from sklearn.utils import check_array, check_random_state
from torch import Tensor

from newkinds.engine import Partitioner, Samples, check_fits, clustering_bytes
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray, check_labels, known_categories, to_columns
from newkinds.metrics import clustering_accuracy
from newkinds.runtime import check_memory, n_processes, resolve_device
from newkinds.selection.metric import narrow_map

FLOATS = (np.float64, np.float32, np.float16)
"""Types of features that are worked on as they come; others become the first."""
EXCERPT = 1 << 17
"""Samples: more than any of the paper's data sets has."""
EXCERPT_BYTES = 512 << 20
EXCERPT_CATEGORY = 64
"""Samples for each category."""
EXCERPT_TOLERANCE = 1e-3
"""Of k-means, see `newkinds.engine.kmeans`: in an excerpt the last few samples need not settle."""


@dataclass(frozen=True)
class Problem:
    """What a method gets to see.

    Attributes
    ----------
    samples : Samples
        The features, of unit length.
    columns : ndarray of shape (samples,)
        0 … n_known - 1 for a sample with a known category, -1 for the others.
    known : ndarray of shape (n_known,)
        The user's ids of the known categories, ascending.
    rng : RandomState
    kmeans_tolerance : float
        How far k-means is taken, see `newkinds.engine.kmeans`: to its end, except in an excerpt.
    known_share : float, optional
        Share of the unlabelled samples that belong to known categories, where it was estimated with their number.
    """

    samples: Samples
    columns: IntArray
    known: IntArray
    rng: np.random.RandomState
    kmeans_tolerance: float = 0.0
    known_share: float | None = None

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

    def labelled_accuracy(self, result: Partitioner | IntArray) -> float:
        """Clustering accuracy on the labelled samples: the paper's score for choosing lam and K.

        `result` is a partitioner, or the column of every sample.
        """
        labelled = self.labelled
        predicted = self.samples.assign(result, labelled) if isinstance(result, Partitioner) else result[labelled]
        return clustering_accuracy(self.columns[labelled], predicted)

    def excerpt(self, n_categories: int, most: int | None = None) -> "Problem":
        """The same problem with no more samples than it takes to find a start or to compare numbers of categories.

        A small collection stays as it is. From a large one `most` samples, by default `EXCERPT`, are drawn at
        random (fewer if they take more than `EXCERPT_BYTES`, more if that is less than `EXCERPT_CATEGORY` for each
        category). At least half of them are unlabelled, if there are so many; every known category keeps a labelled
        sample.
        """
        n = len(self.columns)
        most = max(min(most or EXCERPT, EXCERPT_BYTES // (4 * self.samples.width)), EXCERPT_CATEGORY * n_categories)
        if n <= most:
            return self
        generator = np.random.default_rng(self.rng.randint(2**31 - 1))
        unlabelled, labelled = np.flatnonzero(~self.labelled), np.flatnonzero(self.labelled)
        n_unlabelled = min(len(unlabelled), max(most * len(unlabelled) // n, most // 2))
        n_labelled = min(len(labelled), most - n_unlabelled)
        drawn = [
            generator.choice(rows, count, replace=False, shuffle=False)
            for rows, count in ((unlabelled, n_unlabelled), (labelled, n_labelled))
        ]
        one_of_each = np.unique(self.columns, return_index=True)[1]
        rows = np.unique(np.concatenate([*drawn, one_of_each]))
        return replace(self.part(rows), kmeans_tolerance=EXCERPT_TOLERANCE)

    def part(self, rows: IntArray) -> "Problem":
        """The same problem with some of its samples, of which every known category must have a labelled one."""
        return replace(self, samples=Samples(self.samples.take(rows)), columns=self.columns[rows])

    def narrowed(self, n_categories: int) -> "Problem":
        """The same problem in the few directions that are enough to compare so many categories."""
        linear = narrow_map(self.samples, n_categories)
        return self if linear is None else replace(self, samples=self.samples.mapped(linear))

    def check_n_categories(self, n_categories: int) -> int:
        """`n_categories` if that many can be found here, in the memory that there is, or say why not."""
        if n_categories < self.n_known:
            raise InputError(
                f"n_categories={n_categories} is fewer than the {self.n_known} categories that have labels"
            )
        if n_categories > self.most_categories:
            raise InputError(
                f"n_categories={n_categories} is more than {self.n_known} known categories and "
                f"{self.most_categories - self.n_known} unlabelled samples can make"
            )
        least = clustering_bytes(self.samples, n_categories, restarts=1)  # k-means itself counts its restarts
        check_fits(least, self.samples, n_categories, "a fit")
        return int(n_categories)


def make_problem(
    features: npt.NDArray[Any],
    labels: npt.ArrayLike | None,
    *,
    device: str = "auto",
    random_state: int | np.random.RandomState | None = None,
) -> Problem:
    """A problem from two-dimensional features and labels as the user gave them, which are checked."""
    if random_state is None and n_processes() > 1:
        raise InputError("several processes must draw the same numbers: give random_state an integer")
    checked = check_labels(as_array(labels), len(features))
    known = known_categories(checked)
    return Problem(
        samples=Samples(features, resolve_device(device)),
        columns=to_columns(checked, known),
        known=known,
        rng=check_random_state(random_state),
    )


def checked_features(X: Any, name: str = "X", least: int = 2) -> npt.NDArray[Any]:
    """An array of features as scikit-learn checks it; their values are checked later, as they are read."""
    try:
        checked: npt.NDArray[Any] = check_array(
            dense(as_array(X)), dtype=FLOATS, ensure_min_samples=least, ensure_all_finite=False, input_name=name
        )
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from error
    return checked


def as_array(X: Any) -> Any:
    """A torch tensor as a numpy array (bfloat16, which numpy lacks, as float32), anything else as it is."""
    if not isinstance(X, Tensor):
        return X
    return (X.float() if X.dtype == torch.bfloat16 else X).detach().cpu().numpy()


def dense(X: Any) -> Any:
    """A sparse matrix as an array, if there is memory for it; anything else as it is."""
    if not scipy.sparse.issparse(X) or X.ndim != 2:
        return X
    n_samples, width = X.shape
    kind = X.dtype if X.dtype in FLOATS else np.dtype(FLOATS[0])
    check_memory(
        n_samples * width * kind.itemsize,
        f"a sparse matrix of {n_samples:,} × {width:,}, as an array,",
        "reduce its width first: sklearn.decomposition.TruncatedSVD(256).fit_transform(X)",
    )
    rows = X.tocsr()
    if (empty := np.flatnonzero(np.diff(rows.indptr) == 0)).size:
        raise InputError(
            f"row {empty[0]} of the sparse matrix has no entry (and {empty.size - 1} more such), as a text without "
            "any known word: it has no direction; remove such samples"
        )
    return rows.astype(kind).toarray()
