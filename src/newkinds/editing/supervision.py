"""What a person's edits teach a refit: the samples that have to keep their category."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from newkinds.editing.opened_run import OpenedRun
from newkinds.labels import UNLABELLED, IntArray

TYPICAL = 0.5
"""Of a category that a person merged or split off, the share of its samples, nearest to its middle, that teach."""

SURE = 0.8
"""Confidence from which a sample should keep its category in a refit, if nobody has touched that."""


@dataclass(frozen=True)
class Supervision:
    """What a refit learns from.

    Attributes
    ----------
    settled : ndarray of shape (samples,)
        Categories of samples that keep them: labels as corrected, and confirmed samples; -1 for the others.
    labels : ndarray of shape (samples,)
        The same, and of samples that teach for this fit only.
    changed : frozenset of int
        Categories that a person made or changed since the last fit.
    steady : ndarray of shape (samples,)
        Samples that the model is sure of, in categories that nobody has touched since: they should stay.
    """

    settled: IntArray
    labels: IntArray
    changed: frozenset[int]
    steady: npt.NDArray[np.bool_]


def supervision(run: OpenedRun, unit: npt.NDArray[np.float32]) -> Supervision:
    """What the labels, confirmations, merges and splits of a run teach.

    Labels as corrected and confirmed samples count. Of a category that a person has merged or split, the half
    of its samples nearest to its middle count as well, so that it is one from now on.

    Parameters
    ----------
    run : OpenedRun
    unit : ndarray of shape (samples, features)
        Features in the metric of the run, of unit length.
    """
    samples = run.samples
    settled = np.where(samples.labelled, samples.categories, UNLABELLED)
    labels = settled.copy()
    present = {category["id"] for category in run.record["categories"]}
    for category in sorted(_made(run, since_refit=False) & present):
        members = np.flatnonzero(samples.categories == category)
        if not len(members):
            continue
        middle = unit[members].mean(axis=0)
        nearest = members[np.argsort(-(unit[members] @ middle), kind="stable")]
        typical = nearest[: int(np.ceil(TYPICAL * len(nearest)))]
        typical = typical[labels[typical] == UNLABELLED]
        labels[typical] = category
    touched = [i for entry in run.done_since_refit for i, _, _ in entry.outcome.get("sizes", ())]
    steady = (labels == UNLABELLED) & (samples.confidence >= SURE) & ~np.isin(samples.categories, touched)
    return Supervision(settled, labels, frozenset(_made(run, since_refit=True) & present), steady)


def _made(run: OpenedRun, since_refit: bool) -> set[int]:
    """Categories that took others in, and both sides of a split."""
    made: set[int] = set()
    for entry in run.done_since_refit if since_refit else run.done:
        made |= {heir for _, heir in entry.outcome.get("retired", ()) if heir is not None}
        if entry.op == "split":
            made |= {category["id"] for category in entry.outcome.get("born", ())}
            made |= {start for start, _, _ in entry.outcome.get("flows", ())}
    return made
