"""The stages in which the samples of a set come, after the protocol of continual category discovery.

Half of the classes are there at first, with 60 % of their samples; four fifths of these classes are known, by
labels of half of those samples. The rest of their samples and the other classes come over five stages: a class
with 70 % of its samples at its first stage, with the others later. Nothing that comes has a label.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from newkinds.benchmark.subjects import Subject
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray
from newkinds.names import Mix

STAGES = 5
"""After the first."""
FIRST_SHARE, COMING_SHARE, KNOWN_SHARE, LABELLED_SHARE = 0.6, 0.7, 0.8, 0.5
NEW_SHARE = 0.05
"""Of what comes, in the mix "mostly-old"."""
LEAST_CLASSES = 2 * STAGES
"""So that every stage can bring a new one."""


@dataclass(frozen=True, eq=False)
class Stream:
    """Samples, the stage at which each comes, and what is known of them.

    Attributes
    ----------
    features : ndarray of shape (samples, features)
    truth : ndarray of shape (samples,)
        Classes, from 0.
    stage : ndarray of shape (samples,)
        0 for those that are there at first.
    labels : ndarray of shape (samples,)
        -1 for unlabelled ones.
    known, first : ndarray
        Classes with labels, and those that are there at first.
    """

    features: npt.NDArray[np.float32]
    truth: IntArray
    stage: IntArray
    labels: IntArray
    known: IntArray
    first: IntArray

    @property
    def unlabelled(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.labels == UNLABELLED)

    @property
    def first_rows(self) -> IntArray:
        """Of the samples that are there at first."""
        return np.flatnonzero(self.stage == 0)

    def arrivals(self, stage: int, parts: int = 1) -> list[IntArray]:
        """Rows of the samples that come at a stage, in so many parts."""
        rows = np.random.default_rng(stage).permutation(np.flatnonzero(self.stage == stage))
        return [part for part in np.array_split(rows, parts) if len(part)]


def draw_stream(subject: Subject, seed: int, mix: Mix = "even") -> Stream:
    """Say when each sample comes.

    Parameters
    ----------
    subject : Subject
        Its own labels are not looked at.
    seed : int
    mix : {"even", "mostly-old"}
        Whether all other classes come, or only so many that 5 % of what comes is of them.
    """
    n = subject.n_categories
    if n < LEAST_CLASSES:
        raise InputError(
            f"{subject.name}: stages need at least {LEAST_CLASSES} classes, half of them to come later; it has {n}"
        )
    truth = np.unique(subject.truth, return_inverse=True)[1].astype(np.int64)
    generator = np.random.default_rng([seed, 7])
    order = generator.permutation(n)
    first, rest = order[: n // 2], order[n // 2 :]
    known = first[: round(KNOWN_SHARE * len(first))]
    stage = np.zeros(len(truth), dtype=np.int64)
    for category in range(n):
        rows = generator.permutation(np.flatnonzero(truth == category))
        if category in first:
            n_first = round(FIRST_SHARE * len(rows))
            stage[rows[n_first:]] = 1 + np.arange(len(rows) - n_first) % STAGES
        else:
            begins = 1 + int(np.flatnonzero(rest == category)[0]) * STAGES // len(rest)
            n_first = round(COMING_SHARE * len(rows)) if begins < STAGES else len(rows)
            stage[rows[:n_first]] = begins
            if begins < STAGES:
                stage[rows[n_first:]] = begins + 1 + np.arange(len(rows) - n_first) % (STAGES - begins)
    labelled = np.isin(truth, known) & (stage == 0) & (generator.random(len(truth)) < LABELLED_SHARE)
    if mix == "mostly-old":
        n_old = int(((stage > 0) & np.isin(truth, first)).sum())
        counts = np.cumsum([int((truth == category).sum()) for category in rest])
        stays = rest[: max(1, int(np.searchsorted(counts, n_old / (1 / NEW_SHARE - 1))))]
        stage[~np.isin(truth, [*first, *stays])] = UNLABELLED
    there = stage >= 0
    if lacking := set(range(STAGES + 1)) - set(stage[there].tolist()):
        raise InputError(f"{subject.name}: too few samples for {STAGES} stages: none would come at {min(lacking)}")
    labels = np.where(labelled, truth, UNLABELLED)
    features = np.asarray(subject.collection.features[there], dtype=np.float32)
    return Stream(features, truth[there], stage[there], labels[there], np.sort(known), np.sort(first))
