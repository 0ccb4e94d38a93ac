"""What a person's edits teach a refit: the samples that have to keep their category."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from newkinds.editing.opened_run import OpenedRun
from newkinds.labels import UNLABELLED, IntArray

TYPICAL = 0.5
"""Of a category that a person merged or split off, the share of its samples, nearest to its middle, that teach."""
OF_A_CATEGORY = 0.04
"""So many nearest neighbours of a confirmed sample teach with it, as a share of its category's samples."""
AGREEING = 0.9
"""They do where this share of the nearest labelled neighbours of labelled samples has the same label."""
ASKED = 1000
"""Labelled samples by which that is judged."""


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
    """

    settled: IntArray
    labels: IntArray
    changed: frozenset[int]


def supervision(run: OpenedRun, unit: npt.NDArray[np.float32]) -> Supervision:
    """What the labels, confirmations, merges and splits of a run teach.

    Labels as corrected and confirmed samples count. Of a category that a person has merged, split or created, the
    half of its samples nearest to its middle count as well, so that it is one from now on. A confirmed
    sample speaks for its nearest neighbours too, `OF_A_CATEGORY` of its category's size, unless they are settled:
    but only where neighbours can be trusted, as the labelled samples show. (Those of photos of birds cannot.)

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
        middle = unit[members].mean(axis=0)
        nearest = members[np.argsort(-(unit[members] @ middle), kind="stable")]
        typical = nearest[: int(np.ceil(TYPICAL * len(nearest)))]
        typical = typical[labels[typical] == UNLABELLED]
        labels[typical] = category
    if _neighbours_agree(settled, unit):
        _spread(samples.confirmed, samples.categories, settled, labels, unit)
    return Supervision(settled, labels, frozenset(_made(run, since_refit=True) & present))


def _made(run: OpenedRun, since_refit: bool) -> set[int]:
    """Categories that took others in, and both sides of a split."""
    made: set[int] = set()
    for entry in run.done_since_refit if since_refit else run.done:
        made |= {heir for _, heir in entry.outcome.get("retired", ()) if heir is not None}
        if entry.op == "split":
            made |= {category["id"] for category in entry.outcome.get("born", ())}
            made |= {start for start, _, _ in entry.outcome.get("flows", ())}
    return made


def _neighbours_agree(settled: IntArray, unit: npt.NDArray[np.float32]) -> bool:
    """Whether the nearest neighbours of labelled samples, among each other, mostly have their label."""
    rows = np.flatnonzero(settled != UNLABELLED)
    if len(rows) < 2:
        return False
    labels = settled[rows]
    numbers = np.maximum((OF_A_CATEGORY * np.bincount(labels)[labels]).round().astype(int), 1)
    asked = np.linspace(0, len(rows) - 1, min(ASKED, len(rows))).astype(np.int64)
    similarity = unit[rows[asked]] @ unit[rows].T
    similarity[np.arange(len(asked)), asked] = -np.inf
    most = min(int(numbers.max()), len(rows) - 1)
    nearest = np.argsort(-similarity, axis=1, kind="stable")[:, :most]
    counts = np.arange(most) < numbers[asked, None]
    return bool((labels[nearest] == labels[asked, None])[counts].mean() >= AGREEING)


def _spread(
    confirmed: npt.NDArray[np.bool_],
    categories: IntArray,
    settled: IntArray,
    labels: IntArray,
    unit: npt.NDArray[np.float32],
) -> None:
    """Give the nearest neighbours of confirmed samples their label, the nearest of several if they disagree."""
    rows = np.flatnonzero(confirmed)
    sizes = np.bincount(categories)
    numbers = (OF_A_CATEGORY * sizes[categories[rows]]).round().astype(int)
    best = np.full(len(labels), -np.inf, dtype=np.float32)
    for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
        if not number:
            continue
        similarity = unit @ unit[row]
        nearest = np.argpartition(-similarity, min(number + 1, len(similarity) - 1))[: number + 1]
        nearest = nearest[(settled[nearest] == UNLABELLED) & (similarity[nearest] > best[nearest])]
        labels[nearest], best[nearest] = categories[row], similarity[nearest]
