"""Samples that occur twice, once with a label and once without: they make scores look better than they are."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from newkinds.labels import UNLABELLED, IntArray
from newkinds.runtime import report_progress

NEAR = 0.985
"""Cosine of two samples that are nearly the same: a photo saved again, a text with another full stop."""
COMPARED_AT_ONCE = 1 << 12


@dataclass(frozen=True)
class Duplicates:
    """Pairs of rows, a labelled sample and an unlabelled one.

    Attributes
    ----------
    exact : list of (int, int)
        Pairs with the same content.
    near : list of (int, int)
        Pairs that are nearly the same by their features: an unlabelled sample and the labelled one nearest to it.
    conflicting : list of (int, int)
        Two labelled samples of the same content, but with different labels.
    """

    exact: list[tuple[int, int]]
    near: list[tuple[int, int]]
    conflicting: list[tuple[int, int]]

    def notes(self, ids: Sequence[str]) -> list[str]:
        """What a user should know: one sentence for each sort of pair."""
        sorts = (
            (self.conflicting, "labelled samples with the same content as one of another label"),
            (self.exact, "unlabelled samples with the same content as a labelled one"),
            (self.near, "unlabelled samples that are nearly the same as a labelled one"),
        )
        return [
            f"{what}: {len(pairs)}, such as {ids[pairs[0][1]]} and {ids[pairs[0][0]]}"
            for pairs, what in sorts
            if pairs
        ]


def find_duplicates(labels: IntArray, keys: Sequence[bytes], features: npt.NDArray[np.floating]) -> Duplicates:
    """Find duplicates by the checksums of the samples' content, and by their features.

    Examples
    --------
    >>> pairs = find_duplicates(np.array([3, -1, -1]), [b"a", b"a", b"b"], np.array([[1.0, 0], [1, 0], [1, 0.01]]))
    >>> pairs.exact, pairs.near
    ([(0, 1)], [(0, 2)])
    """
    rows_of: dict[bytes, list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        rows_of[key].append(row)
    exact: list[tuple[int, int]] = []
    conflicting: list[tuple[int, int]] = []
    for rows in rows_of.values():
        with_label = [row for row in rows if labels[row] != UNLABELLED]
        if with_label:
            exact += [(with_label[0], row) for row in rows if labels[row] == UNLABELLED]
            conflicting += [(with_label[0], row) for row in with_label if labels[row] != labels[with_label[0]]]
    copies = {row for _, row in exact}
    near = [pair for pair in _near(labels, features) if pair[1] not in copies]
    return Duplicates(exact, near, conflicting)


def _near(labels: IntArray, features: npt.NDArray[np.floating]) -> list[tuple[int, int]]:
    labelled, unlabelled = np.flatnonzero(labels != UNLABELLED), np.flatnonzero(labels == UNLABELLED)
    if not len(labelled) or not len(unlabelled):
        return []
    lengths = np.maximum(np.linalg.norm(features, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    unit = (features / lengths).astype(np.float32)
    pairs: list[tuple[int, int]] = []
    for first in range(0, len(unlabelled), COMPARED_AT_ONCE):
        rows = unlabelled[first : first + COMPARED_AT_ONCE]
        best, nearest = np.full(len(rows), -np.inf, dtype=np.float32), np.zeros(len(rows), dtype=np.int64)
        for start in range(0, len(labelled), COMPARED_AT_ONCE):
            cosines = unit[rows] @ unit[labelled[start : start + COMPARED_AT_ONCE]].T
            at = cosines.argmax(axis=1)
            largest = cosines[np.arange(len(rows)), at]
            nearest = np.where(largest > best, start + at, nearest)
            best = np.maximum(best, largest)
        close = np.flatnonzero(best >= NEAR)
        pairs += zip(labelled[nearest[close]].tolist(), rows[close].tolist(), strict=True)
        report_progress("looking for duplicates", min(first + COMPARED_AT_ONCE, len(unlabelled)), len(unlabelled))
    return pairs
