"""How well somebody took in what came: accuracy, what was forgotten, what was born, what moved.

All of it is of unlabelled samples, but for births and moves, and in percent. Categories are matched with the
classes so that most samples agree, in two ways: once for each stage, which does not mind ids that change, or
once for all stages together (*one matching*), which does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.benchmark.living.stream import STAGES, Stream
from newkinds.labels import UNLABELLED, IntArray
from newkinds.metrics import accuracy, clustering_accuracy, match_categories

DUE = 20
"""Samples of a class from which it should have a category."""


@dataclass(frozen=True, eq=False)
class State:
    """A collection after it took something in.

    Attributes
    ----------
    stage : int
    categories : ndarray of shape (samples of the stream,)
        Ids; -1 for samples that have not come yet.
    born : tuple of int
        Ids of the categories that this made.
    n_categories, n_held : int
    seconds : float
        That it took.
    """

    stage: int
    categories: IntArray
    born: tuple[int, ...] = ()
    n_categories: int = 0
    n_held: int = 0
    seconds: float = 0.0

    @property
    def there(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.categories != UNLABELLED)


def score_states(stream: Stream, states: Sequence[State]) -> dict[str, Any]:
    """Everything that is measured of a collection: its states, the first and then one for each part of an arrival.

    Returns
    -------
    dict
        Plain values: see `score_stages`, `score_births` and `score_moves`.
    """
    ends = [[state for state in states if state.stage == stage][-1] for stage in range(STAGES + 1)]
    return {**score_stages(stream, ends), **score_births(stream, states), **score_moves(stream, states)}


def score_stages(stream: Stream, ends: Sequence[State]) -> dict[str, Any]:
    """Accuracy after each stage, and what was forgotten.

    Parameters
    ----------
    stream : Stream
    ends : sequence of State
        The last of each stage.

    Returns
    -------
    dict
        `stages`: for each, All, Old and New of the samples that have come, under the matching of that stage,
        and `one`, All under one matching. Old are classes that came at an earlier stage, New those that this
        stage brings, None where there are none; at first, Old are the classes with labels. `mean`: of these
        over the stages after the first. `final`: after the last stage, Old being the classes with labels.
        `forgotten`: by how much the accuracy on the samples of the first stage has fallen, under one matching;
        `forgotten_alone`: each time under the best match of these samples alone, which minds neither ids that
        change nor what else they hold.
    """
    begins = first_stages(stream)
    rows = [np.flatnonzero(end.there & stream.unlabelled) for end in ends]
    matching = match_categories(
        np.concatenate([stream.truth[r] for r in rows]),
        np.concatenate([end.categories[r] for end, r in zip(ends, rows, strict=True)]),
    )
    stages, rights, alone = [], [], []
    for stage, (end, r) in enumerate(zip(ends, rows, strict=True)):
        truth, categories = stream.truth[r], end.categories[r]
        right = np.array([matching.get(int(c), UNLABELLED) for c in categories]) == truth
        earlier = np.flatnonzero(begins < stage) if stage else stream.known
        shares = accuracy(truth, categories, earlier)
        stages.append(
            {
                "all": _percent(shares.all),
                "old": _percent(shares.old),
                "new": _percent(shares.new),
                "one": _percent(right.mean()),
                "n_categories": end.n_categories,
                "n_held": end.n_held,
            }
        )
        is_first = stream.stage[r] == 0
        rights.append(right[is_first].mean())
        alone.append(clustering_accuracy(truth[is_first], categories[is_first]))
        if stage == STAGES:
            known = accuracy(truth, categories, stream.known)
    return {
        "stages": stages,
        "mean": {part: _mean([stage[part] for stage in stages[1:]]) for part in ("all", "old", "new", "one")},
        "final": {"all": _percent(known.all), "old": _percent(known.old), "new": _percent(known.new)},
        "one": stages[-1]["one"],
        "forgotten": _percent(rights[0] - rights[-1]),
        "forgotten_alone": _percent(alone[0] - alone[-1]),
    }


def first_stages(stream: Stream) -> IntArray:
    """The stage at which each class has its first samples; after the last for those that never come."""
    begins = np.full(int(stream.truth.max()) + 1, STAGES + 1)
    np.minimum.at(begins, stream.truth, stream.stage)
    return begins


def score_births(stream: Stream, states: Sequence[State]) -> dict[str, Any]:
    """What was born, and when.

    A category *is* the class that most of its samples are of.

    Returns
    -------
    dict
        `born`: how many categories. `false`: how many of them were a class, when they were born, that a
        category was already. `of_first`: how many are, after the last stage, a class that was there at first,
        which the first model may have missed. `due`: how many classes come later and have 20 samples; `found`:
        how many of these were a born category by the end of the stage that brought the 20th. `delay`: of a class
        that was born, how many of its samples had come by then, the median; None if nothing was born.
    """
    coming = np.setdiff1d(np.unique(stream.truth), stream.first)
    born: list[int] = []
    come_by_birth: dict[int, int] = {}
    due: set[int] = set()
    n_false = n_found = 0
    before: set[int] = set()
    for i, state in enumerate(states):
        tops = main_classes(stream, state)
        for category in sorted(state.born):
            n_false += category not in tops or tops[category] in before
            before |= {tops[category]} if category in tops else set()
        before = set(tops.values())
        born += state.born
        is_now = {tops[category] for category in born if category in tops}
        counts = np.bincount(stream.truth[state.there], minlength=int(stream.truth.max()) + 1)
        for cls in is_now & set(coming.tolist()):
            come_by_birth.setdefault(cls, int(counts[cls]))
        if i + 1 == len(states) or states[i + 1].stage > state.stage:
            newly_due = set(coming[counts[coming] >= DUE].tolist()) - due
            due |= newly_due
            n_found += len(newly_due & is_now)
    return {
        "born": len(born),
        "false": n_false,
        "of_first": sum(tops.get(category) in stream.first for category in born),
        "due": len(due),
        "found": n_found,
        "delay": float(np.median(list(come_by_birth.values()))) if come_by_birth else None,
    }


def main_classes(stream: Stream, state: State) -> dict[int, int]:
    """Category → the class that most of its samples are of; of equal ones the first."""
    ids, columns = np.unique(state.categories[state.there], return_inverse=True)
    counts = np.zeros((len(ids), int(stream.truth.max()) + 1), dtype=np.int64)
    np.add.at(counts, (columns, stream.truth[state.there]), 1)
    return dict(zip(ids.tolist(), counts.argmax(1).tolist(), strict=True))


def score_moves(stream: Stream, states: Sequence[State]) -> dict[str, Any]:
    """How many of the samples that were there before got another id, on average over what was taken in.

    Returns
    -------
    dict
        `moved`; `moved_quiet`: where no class came for the first time, None if one always did; `moved_stages`: the
        mean of each stage.
    """
    begins = first_stages(stream)
    shares: list[list[float]] = [[] for _ in range(STAGES)]
    for before, after in pairwise(states):
        was_there = before.there
        moved = (before.categories != after.categories)[was_there].mean()
        shares[after.stage - 1].append(100 * float(moved))
    quiet = [share for stage, part in enumerate(shares, 1) if not (begins == stage).any() for share in part]
    return {
        "moved": _mean([share for part in shares for share in part]),
        "moved_quiet": _mean(quiet),
        "moved_stages": [_mean(part) for part in shares],
    }


def _percent(share: float) -> float | None:
    return None if np.isnan(share) else 100 * float(share)


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return float(np.mean(there)) if there else None
