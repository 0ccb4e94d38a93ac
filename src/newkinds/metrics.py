"""Clustering accuracy: one Hungarian match, three protocols for All / Old / New.

Checked against brute force over all matchings (`tests/test_metrics.py`). NMI and ARI are scikit-learn's.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from newkinds.errors import InputError
from newkinds.labels import IntArray
from newkinds.runtime import check_memory

Protocol = Literal["v2", "v1", "orca"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
MANY_PAIRS = 1 << 22
"""Pairs of a category and a class that may take more memory than there is: from here on that is looked at."""
CALIBRATION_BINS = 15


@dataclass(frozen=True)
class Accuracy:
    """Shares of samples put right, in [0, 1]; NaN for a group without samples."""

    all: float
    old: float
    new: float

    def __str__(self) -> str:
        return " / ".join(f"{100 * share:.1f}" for share in (self.all, self.old, self.new))


def match_categories(truth: npt.ArrayLike, predicted: npt.ArrayLike) -> dict[int, int]:
    """Match predicted categories to true classes so that most samples agree (Hungarian method).

    Works with more categories than classes and with fewer: the surplus stays unmatched.

    Returns
    -------
    dict
        Predicted category → true class, for the matched categories.

    Examples
    --------
    >>> match_categories([0, 0, 1, 1, 2], [5, 5, 9, 9, 9])
    {5: 0, 9: 1}
    """
    truth, predicted = _pair(truth, predicted)
    classes, rows = np.unique(truth, return_inverse=True)
    categories, columns = np.unique(predicted, return_inverse=True)
    n_pairs = len(classes) * len(categories)
    if n_pairs > MANY_PAIRS:
        check_memory(
            3 * 8 * n_pairs,  # the counts, and what the Hungarian method makes of them
            f"matching {len(categories):,} categories with {len(classes):,} classes",
            "leave out the truth, or give fewer categories",
        )
    counts = np.bincount(rows * len(categories) + columns, minlength=n_pairs)
    table = counts.reshape(len(classes), len(categories))
    matched_rows, matched_columns = linear_sum_assignment(table, maximize=True)
    pairs = zip(categories[matched_columns].tolist(), classes[matched_rows].tolist(), strict=True)
    # A match that no sample supports is arbitrary: it would count nothing, so it is left out.
    supported = table[matched_rows, matched_columns] > 0
    return {category: cls for (category, cls), real in zip(pairs, supported, strict=True) if real}


def correct(truth: npt.ArrayLike, predicted: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Which samples agree with their class under the best match.

    Examples
    --------
    >>> correct([0, 0, 1], [3, 3, 3])
    array([ True,  True, False])
    """
    truth, predicted = _pair(truth, predicted)
    if truth.size == 0:
        return np.zeros(0, dtype=np.bool_)
    matching = match_categories(truth, predicted)
    categories, columns = np.unique(predicted, return_inverse=True)
    missing = truth.min() - 1  # no sample has this class
    classes = np.array([matching.get(int(category), missing) for category in categories])
    return np.asarray(classes[columns] == truth)


def clustering_accuracy(truth: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Share of samples that agree with their class under the best match; NaN without samples.

    Examples
    --------
    >>> clustering_accuracy([0, 0, 1, 1], [7, 7, 7, 2])
    0.75
    """
    return _mean(correct(truth, predicted))


def accuracy(
    truth: npt.ArrayLike,
    predicted: npt.ArrayLike,
    known: npt.ArrayLike,
    protocol: Protocol = "v2",
) -> Accuracy:
    """All / Old / New accuracy of the unlabelled samples of a category discovery.

    Parameters
    ----------
    truth, predicted : array-like of int
        True classes and predicted categories of the *unlabelled* samples.
    known : array-like of int
        The classes that had labels: a sample of one of them is Old, any other is New.
    protocol : {"v2", "v1", "orca"}
        - "v2": one match over all samples serves All, Old and New. The official protocol of generalized
          category discovery.
        - "v1": Old and New are matched separately, All is their mean weighted by size.
        - "orca": All and New each with a match of their own, Old is plain accuracy without a match (so
          predictions must use the classes' own ids there).
        Figures of different protocols must not stand in one table.

    Examples
    --------
    >>> print(accuracy(truth=[0, 0, 1, 2, 2, 2, 2], predicted=[0, 0, 5, 5, 5, 5, 4], known=[0, 1]))
    71.4 / 66.7 / 75.0
    """
    if protocol not in PROTOCOLS:
        raise InputError(f"protocol must be one of {', '.join(PROTOCOLS)}; got {protocol!r}")
    truth, predicted = _pair(truth, predicted)
    old = np.isin(truth, np.asarray(known))
    if protocol == "v2":
        right = correct(truth, predicted)
        return Accuracy(_mean(right), _mean(right[old]), _mean(right[~old]))
    new_right = correct(truth[~old], predicted[~old])
    if protocol == "v1":
        old_right = correct(truth[old], predicted[old])
        return Accuracy(_mean(np.concatenate([old_right, new_right])), _mean(old_right), _mean(new_right))
    plain = predicted[old] == truth[old]
    return Accuracy(_mean(correct(truth, predicted)), _mean(plain), _mean(new_right))


def calibration_error(probabilities: npt.ArrayLike, happened: npt.ArrayLike) -> float:
    """Expected calibration error: how far, on average, probabilities are from how often it happened.

    Examples
    --------
    >>> calibration_error([0.75, 0.75, 0.75, 0.75], [True, True, True, False])
    0.0
    >>> calibration_error([0.75, 0.75], [False, False])
    0.75
    """
    p = np.asarray(probabilities, dtype=np.float64)
    bins = np.minimum((p * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    sums = np.bincount(bins, weights=p - np.asarray(happened, dtype=np.float64), minlength=CALIBRATION_BINS)
    return float(np.abs(sums).sum() / len(p))


def _pair(truth: npt.ArrayLike, predicted: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    pair = np.asarray(truth), np.asarray(predicted)
    for name, values in zip(("truth", "predicted"), pair, strict=True):
        if values.ndim != 1 or (values.size and values.dtype.kind not in "iub"):
            raise InputError(f"{name} must be a vector of integers, got {values.dtype} of shape {values.shape}")
    if len(pair[0]) != len(pair[1]):
        raise InputError(f"truth has {len(pair[0])} samples but predicted has {len(pair[1])}")
    return pair[0].astype(np.int64), pair[1].astype(np.int64)


def _mean(right: npt.NDArray[np.bool_]) -> float:
    return float(right.mean()) if right.size else float("nan")
