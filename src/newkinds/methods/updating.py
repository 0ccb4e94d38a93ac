"""A model takes new samples in: what fits is assigned, what is strange held back, strangers that agree are born.

A model whose categories do not change stays as it is; only what it knows of their looks moves with the samples. A
birth trains it again, from its own weights, with its own settings.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from newkinds.labels import UNLABELLED, IntArray
from newkinds.methods.base import CategoryDiscoverer
from newkinds.methods.refitting import Wanted, refit_model
from newkinds.selection.births import BIRTH_SIZE, HELD, find_groups
from newkinds.selection.rehearsal import REHEARSAL_TRAINING
from newkinds.selection.strangeness import probability_of_strange, share_of_strangers

Mask = npt.NDArray[np.bool_]
ROUNDS = 3
"""Of births: what is still strange once some were born may be another category."""
UPDATE_TRAINING = replace(REHEARSAL_TRAINING, max_iter=60)
"""From weights that are nearly right; what comes later moves them anyway."""


@dataclass(frozen=True)
class Arrival:
    """Samples of a collection, the new ones last.

    Attributes
    ----------
    features : ndarray of shape (samples, features)
    categories : ndarray of shape (samples,)
        Ids; of new samples only where they are settled, otherwise -1.
    settled : ndarray of shape (samples,)
        Which have a label or a person's word, and so never change.
    held : ndarray of shape (samples,)
        Which were held back before.
    n_before : int
        Samples that were there before.
    """

    features: npt.NDArray[np.float32]
    categories: IntArray
    settled: Mask
    held: Mask
    n_before: int


@dataclass(frozen=True)
class TakenIn:
    """What became of an arrival.

    Attributes
    ----------
    model : CategoryDiscoverer
    categories : ndarray of shape (samples,)
        Of held samples, the most probable one.
    held : ndarray of shape (samples,)
    strangeness : ndarray of shape (samples,)
        0 for samples that were there before and are not held.
    born : tuple of int
        Ids of categories that strangers made.
    """

    model: CategoryDiscoverer
    categories: IntArray
    held: Mask
    strangeness: npt.NDArray[np.float64]
    born: tuple[int, ...]


def take_in(
    model: CategoryDiscoverer,
    arrival: Arrival,
    wanted: Wanted,
    new_id: Callable[[], int],
    *,
    lam: float,
    size_ratio: float = 1.0,
    birth_size: int = BIRTH_SIZE,
) -> TakenIn:
    """Take new samples in.

    Parameters
    ----------
    model : fitted method
        As it was fitted, before its categories were edited; it is not changed.
    arrival : Arrival
    wanted : Wanted
        The categories that there are now, with those that labels of new samples made; its `assigned` and `labels`
        are not looked at.
    new_id : callable
        Gives the id of each category that is born.
    lam, size_ratio
        As for `newkinds.methods.refitting.refit_model`.
    birth_size : int
        Samples that a category has at its birth, at least.
    """
    taken = _Taking(model, arrival, wanted, lam, size_ratio)
    if wanted.changed or not _is_same(model, wanted):
        taken.train(frozenset())
    taken.judge()
    for _ in range(ROUNDS):
        if not taken.give_birth(new_id, birth_size):
            break
    return taken.result()


def _is_same(model: CategoryDiscoverer, wanted: Wanted) -> bool:
    return np.array_equal(model.categories_, wanted.categories)


class _Taking:
    """An arrival while it is worked out."""

    def __init__(
        self, model: CategoryDiscoverer, arrival: Arrival, wanted: Wanted, lam: float, size_ratio: float
    ) -> None:
        self.model, self.arrival, self.wanted = model, arrival, wanted
        self.lam, self.size_ratio = lam, size_ratio
        self.is_new = np.arange(len(arrival.features)) >= arrival.n_before
        self.categories = arrival.categories.copy()
        self.held = arrival.held.copy()
        self.strangeness = np.zeros(len(arrival.features))
        self.born: list[int] = []
        is_open = self.categories == UNLABELLED
        if is_open.any():
            self.categories[is_open] = self._present(model.predict(arrival.features[is_open]))

    def _present(self, categories: IntArray) -> IntArray:
        """What became of categories of the model; one that was dissolved goes to the first that is left."""
        heirs = {i: self.wanted.became.get(i, i) for i in np.unique(categories).tolist()}
        first = int(self.wanted.categories[0])
        return np.array([first if heirs[i] is None else heirs[i] for i in categories.tolist()], dtype=np.int64)

    def judge(self) -> None:
        """Say which samples are strange; those in categories that were born are not."""
        asked = np.flatnonzero(
            (self.is_new | self.held) & ~self.arrival.settled & ~np.isin(self.categories, self.born)
        )
        self.held[:] = False
        self.strangeness[:] = 0
        if not len(asked):
            return
        ratios = self.model.strange_log_ratios(self.arrival.features[asked])
        if ratios is None:
            return
        self.strangeness[asked] = probability_of_strange(ratios, share_of_strangers(ratios))
        self.held[asked] = self.strangeness[asked] > HELD

    def give_birth(self, new_id: Callable[[], int], birth_size: int) -> bool:
        """Make categories of strangers that agree; whether there were any."""
        strangers = self.model.learnt_strangers()
        pool = np.flatnonzero(self.held)
        if strangers is None or len(pool) < birth_size:
            return False
        features = self.arrival.features[pool]
        ratios = self.model.strange_log_ratios(features)
        if ratios is None:
            return False
        mapped = self.model._unit_and_mapped(features)[1]
        groups = find_groups(strangers.portrait, mapped, ratios, strangers.births, birth_size)
        if not groups:
            return False
        ids = [new_id() for _ in groups]
        for category, group in zip(ids, groups, strict=True):
            self.categories[pool[group.rows]] = category
            self.held[pool[group.rows]] = False
        self.born += ids
        known, all_ids = self.wanted.known, np.concatenate([self.wanted.categories, ids])
        self.wanted = replace(self.wanted, categories=np.sort(all_ids).astype(np.int64), known=known)
        self.train(frozenset(ids))
        self.judge()
        return True

    def train(self, changed: frozenset[int]) -> None:
        """Train again with the categories that there are now."""
        settled = np.where(self.arrival.settled, self.categories, UNLABELLED)
        wanted = replace(
            self.wanted, assigned=self.categories, labels=settled, changed=self.wanted.changed | changed
        )
        self.model = refit_model(
            self.model,
            self.arrival.features,
            wanted,
            lam=self.lam,
            size_ratio=self.size_ratio,
            training=UPDATE_TRAINING,
            portrayed=~self.held,
        )
        self.categories = self.model.labels_.astype(np.int64)
        present = self.wanted.categories.tolist()
        self.wanted = replace(self.wanted, became={i: i for i in present}, changed=frozenset())

    def result(self) -> TakenIn:
        model = self.model.with_samples(
            self.arrival.features, self.categories, self.arrival.settled, ~self.held, anew=bool(self.born)
        )
        model.labels_ = self.categories
        return TakenIn(model, self.categories, self.held, self.strangeness, tuple(self.born))
