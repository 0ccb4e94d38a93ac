"""A model takes new samples in: what fits is assigned, what is strange held back, strangers that agree are born.

A model whose categories do not change, and that no label contradicts, stays as it is; only what it knows of their
looks moves with the samples. A birth trains it again: in a metric learnt anew from the means of its categories,
otherwise from its own weights.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from newkinds.labels import UNLABELLED, IntArray
from newkinds.methods.arriving import Arrival, Lately, Mask, TakenIn
from newkinds.methods.base import CategoryDiscoverer
from newkinds.methods.refitting import Wanted, refit_model, without_categories
from newkinds.methods.wariness import Looks
from newkinds.names import AUTO
from newkinds.past import Past
from newkinds.selection.births import BIRTH_SIZE, HELD, MOSTLY, find_groups
from newkinds.selection.metric import SURE
from newkinds.selection.rehearsal import REHEARSAL_TRAINING
from newkinds.selection.settings import Setting
from newkinds.selection.sizes import expected_shares
from newkinds.selection.strangeness import Company
from newkinds.workers import working_together

UPDATE_TRAINING = replace(REHEARSAL_TRAINING, max_iter=60)
"""From a start that is nearly right; what comes later moves it anyway."""
UPDATE_SETTING = Setting(0.3, 25.0)
"""With which models in a learnt metric are trained again. What a fit chose was chosen for its categories: with a
large lam those that are born small die out, with a small one many samples change sides."""
GROWN = 70
"""Samples from which a category is no longer provisional. With half as many, and where size does not matter,
categories that look alike are joined more often."""
SEEN = 0.5
"""How much it counts that recent samples were looked at before, and were no category. If it counts nothing, twice
as much of what comes in ten parts is born twice."""
LEFT = 4
"""Decided samples of a category, at least, by which is told what it looks like."""
CHANGED = 0.1
"""How strangers are told is rehearsed again once the model has so many more or fewer categories, as a share."""
ROOM = 2.0
"""Of a small category, so many times its size is left for samples that were not strange enough to be held."""


def take_in(
    model: CategoryDiscoverer,
    arrival: Arrival,
    wanted: Wanted,
    new_id: Callable[[], int],
    *,
    lam: float,
    size_ratio: float = 1.0,
    birth_size: int = BIRTH_SIZE,
    past: Past | None = None,
) -> TakenIn:
    """Take new samples in.

    A training that a birth asks for is with `lam` and the model's temperature if a person chose one of them, or if
    the model compares samples by the cosine; otherwise with `UPDATE_SETTING`.

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
    past : Past, optional
        Sums of samples that the collection no longer has.
    """
    past = Past.empty(arrival.features.shape[1]) if past is None else past
    with working_together(arrival.features.size):
        return _take_in(model, arrival, wanted, new_id, lam, size_ratio, birth_size, past)


def _take_in(
    model: CategoryDiscoverer,
    arrival: Arrival,
    wanted: Wanted,
    new_id: Callable[[], int],
    lam: float,
    size_ratio: float,
    birth_size: int,
    past: Past,
) -> TakenIn:
    taken = _Taking(model, arrival, wanted, lam, size_ratio, past)
    taken.judge()
    taken.give_birth(new_id, birth_size)
    return taken.result()


def _is_of_rehearsals(model: CategoryDiscoverer) -> bool:
    """Whether rehearsals chose the model's setting, in a learnt metric."""
    chosen = (getattr(model, "lam", None), getattr(model, "temperature", None))
    return model.metric_map_ is not None and chosen == (AUTO, AUTO)


class _Taking:
    """An arrival while it is worked out."""

    def __init__(
        self,
        model: CategoryDiscoverer,
        arrival: Arrival,
        wanted: Wanted,
        lam: float,
        size_ratio: float,
        past: Past,
    ) -> None:
        self.arrival, self.wanted, self.past = arrival, wanted, past
        self.size_ratio = size_ratio
        own = Setting(lam, float(model.temperature_))
        self.setting = UPDATE_SETTING if _is_of_rehearsals(model) else own
        n_samples = len(arrival.features)
        self.is_recent = np.arange(n_samples) >= n_samples - arrival.window.n_recent
        self.young = self._young()
        self.provisional = self._provisional(model)
        self.is_undecided = self._undecided()
        self.was_there = np.arange(n_samples) < arrival.n_before
        self.tentative = self._tentative()
        self.small = {category: arrival.of(category) for category in self.provisional.tolist()}
        self.small |= {category: arrival.of_lately(category) for category in self.tentative.tolist()}
        """Categories that may be taken back, and the samples that they had."""
        self.categories = arrival.categories.copy()
        self.held = arrival.held.copy()
        self.strangeness = np.zeros(n_samples)
        self.born: list[int] = []
        """What labels made, and what is born now or again."""
        self.is_born = np.zeros(n_samples, dtype=bool)
        """Their samples, but for those that came to a model that stays as it was."""
        known_to_model = [*model.categories_.tolist(), *np.unique(arrival.categories[self.was_there]).tolist()]
        self.by_labels = wanted.changed - set(known_to_model)
        """Categories that labels of new samples made, until the model is trained with them."""
        self.made_by_labels = frozenset(self.by_labels)
        there = np.setdiff1d(wanted.categories, list(self.by_labels))
        there = there if arrival.lately is None else arrival.lately.model.categories_
        self.there_lately = frozenset(there.tolist())
        self.is_trained = False
        self.as_before = model, wanted
        self.model = self._judging(model)
        is_new_label = ~self.was_there & arrival.settled
        is_open = (self.categories == UNLABELLED) | np.isin(self.categories, self.provisional)
        answers = self._answers(is_open | is_new_label)
        differs = (answers != self.categories) & (answers != UNLABELLED)
        self.is_contradicted = bool(differs[is_new_label].any())
        """Whether labels of new samples say something else than the model, until it is trained with them."""
        self.categories[is_open] = answers[is_open]

    def _young(self) -> IntArray:
        """Categories that were born lately: most of their samples are recent."""
        young = []
        for category in sorted(self.arrival.window.born):
            mine = self.arrival.of(category)
            is_there = self.wanted.became.get(category, category) == category and mine.any()
            if is_there and 2 * (mine & self.is_recent).sum() >= mine.sum():
                young.append(category)
        return np.array(young, dtype=np.int64)

    def _provisional(self, model: CategoryDiscoverer) -> IntArray:
        """Young categories of few samples, of which no person spoke; none if the model cannot find them again."""
        if model.learnt_strangers() is None:
            return np.empty(0, dtype=np.int64)
        spoken_of = self.wanted.changed | self.arrival.named
        stays = []
        for category in self.young.tolist():
            mine = self.arrival.of(category)
            is_small = mine.sum() < GROWN and not self.past.count_of(category)
            if is_small and category not in spoken_of and not self.arrival.settled[mine].any():
                stays.append(category)
        return np.array(stays, dtype=np.int64)

    def _tentative(self) -> IntArray:
        """Categories that were born earlier in the batch."""
        lately = self.arrival.lately
        there = np.empty(0, dtype=np.int64) if lately is None else lately.model.categories_
        return np.setdiff1d(there, self.wanted.categories)

    def _undecided(self) -> Mask:
        """Which samples may be of a category that is not there yet: those of provisional ones, and recent ones.

        Not those of other young categories; nor of one that would have hardly a sample else.
        """
        ids, columns = np.unique(self.arrival.categories, return_inverse=True)
        free = ~self.arrival.settled
        is_provisional = np.isin(ids, self.provisional)
        undecided = free & (self.is_recent | is_provisional[columns])
        counts = np.bincount(columns, ~undecided & ~self.arrival.held)
        stays = np.isin(ids, self.young) | ((counts < LEFT) & (ids != UNLABELLED))
        undecided &= self.arrival.held | ~(stays & ~is_provisional)[columns]
        return np.asarray(undecided)

    def _judging(self, model: CategoryDiscoverer) -> CategoryDiscoverer:
        """The model that judges: without provisional categories; others look to it as their decided samples do."""
        if len(self.provisional):
            present = np.setdiff1d(self.wanted.categories, self.provisional)
            self.wanted = replace(self.wanted, categories=present)
            model = without_categories(model, self.provisional)
        decided = ~self.is_undecided & ~self.held & ~np.isin(self.categories, [UNLABELLED, *self.by_labels])
        if not (self.is_undecided[self.was_there].any() and decided.any()):
            return model
        return self._portrayed(model, decided)

    def _portrayed(self, model: CategoryDiscoverer, which: Mask) -> CategoryDiscoverer:
        """The model, to which its categories look as these samples of them do.

        Those in categories that it lacks, since a person made them, belong to the ones that it takes them for.
        """
        categories = self.categories.copy()
        lacks = which & ~np.isin(categories, model.categories_)
        if lacks.any():
            categories[lacks] = model.predict(self.arrival.features[lacks])
        return model.with_samples(self.arrival.features, categories, self.arrival.settled, which)

    def _answers(self, which: Mask) -> IntArray:
        """What the model's answer has become, for these samples; -1 for others.

        A category that was dissolved goes to the first that is left.
        """
        answers = np.full(len(which), UNLABELLED)
        if which.any():
            categories = self.model.predict(self.arrival.features[which])
            heirs = {i: self.wanted.became.get(i, i) for i in np.unique(categories).tolist()}
            first = int(self.wanted.categories[0])
            answers[which] = [first if heirs[i] is None else heirs[i] for i in categories.tolist()]
        return answers

    def judge(self) -> None:
        """Say which samples are strange; those in categories that were born are not."""
        asked = self._asked()
        self.held[:] = False
        self.strangeness[:] = 0
        if not len(asked):
            return
        looks = self.model.looks_of(self.arrival.features[asked])
        if looks is None:
            return
        for part, company in self._companies(looks, asked):
            self.strangeness[asked[part]] = company.probability(looks.beside[part])
        self.held[asked] = self.strangeness[asked] > HELD

    def _companies(self, looks: Looks, rows: IntArray) -> list[tuple[Mask, Company]]:
        """Of these rows, those that are held back and no longer recent, and the others, and what either are."""
        was_held = self._was_held()[rows]
        return [(part, self.model.company_of(looks.beside[part])) for part in (was_held, ~was_held)]

    def _asked(self) -> IntArray:
        """Rows of samples that may be strange."""
        return np.flatnonzero((self.is_undecided | self.arrival.held) & ~self.arrival.settled & ~self.is_born)

    def _was_held(self) -> Mask:
        """Samples that are held back and no longer recent."""
        return np.asarray(self.arrival.held & ~self.is_recent)

    def give_birth(self, new_id: Callable[[], int], birth_size: int) -> None:
        """Make categories of strangers that agree, once: what is still strange then may be the rest of those born.

        The model is trained again if any were born, or if categories changed or were contradicted.
        """
        pool = np.union1d(self._asked(), np.flatnonzero(np.isin(self.categories, list(self.by_labels))))
        groups, ids = self._groups_with_ids(pool, birth_size)
        are_others = not np.array_equal(self.model.categories_, self.wanted.categories)
        is_wanted = are_others or bool(self.wanted.changed) or self.is_contradicted
        lately = None if self.arrival.is_whole else self.arrival.lately  # its end is as if it had come at once
        if lately is not None and self._is_as_lately(lately, ids):
            self._stay(groups, ids, lately)
            return
        if not is_wanted and set(ids) == set(self.provisional.tolist()) != set():
            self._stay(groups, ids, Lately(self.as_before[0], *self._before()))
            return
        born = []
        for rows, category in zip(groups, ids, strict=True):
            if category is None:
                category = new_id()
            if category not in self.by_labels:
                born.append(category)
            self.categories[rows[~self.arrival.settled[rows]]] = category
            self.held[rows] = False
        if not (born or len(self.provisional) or is_wanted):
            return
        self.born += [*born, *self.by_labels]
        present = np.union1d(self.wanted.categories, np.array(born, dtype=np.int64))
        self.wanted = replace(self.wanted, categories=present)
        self.is_born = np.isin(self.categories, self.born)
        self.train(frozenset(born))
        self._let_small_go(birth_size)
        self.judge()

    def _before(self) -> tuple[IntArray, Mask]:
        """Categories before the batch, and which samples were held back."""
        n_before = self.arrival.n_before
        return self.arrival.categories[:n_before], self.arrival.held[:n_before]

    def _is_as_lately(self, lately: Lately, ids: Sequence[int | None]) -> bool:
        """Whether what comes now brings nothing new: no kind, and no label that the model did not expect."""
        small = set(self.small) & self.there_lately
        if set(ids) - self.made_by_labels != small:
            return False
        is_new_label = self.arrival.settled.copy()
        is_new_label[: len(lately.categories)] = False
        if not is_new_label.any():
            return True
        found = lately.model.predict(self.arrival.features[is_new_label])
        return bool((found == self.arrival.categories[is_new_label]).all())

    def _stay(self, groups: Sequence[IntArray], ids: Sequence[int | None], lately: Lately) -> None:
        """Leave the model as it was lately, since all its small categories are there again, and no other."""
        self.model = lately.model
        _, wanted = self.as_before
        became = wanted.became if lately is not self.arrival.lately else {}
        self.wanted = replace(wanted, categories=lately.model.categories_, became=became)
        n_lately = len(lately.categories)
        categories = np.concatenate([lately.categories, self.arrival.categories[n_lately:]])
        is_free = np.concatenate([lately.held, np.ones(len(categories) - n_lately, dtype=bool)])
        is_free &= ~self.arrival.settled
        self.categories = np.where(is_free, self._answers(is_free), categories)
        small = sorted({*self.small, *self.made_by_labels} & self.there_lately)
        self.is_born = np.isin(categories, small) & ~is_free
        for rows, category in zip(groups, ids, strict=True):
            if category is not None:
                self.categories[rows[is_free[rows]]] = category
        self.born += small
        self.held[self.is_born] = False
        self.model = self._portrayed(self.model, ~self.held & ~self._is_open())
        self.judge()

    def _is_open(self) -> Mask:
        """Undecided samples that are in no category that was born."""
        return np.asarray(self.is_undecided & ~self.is_born)

    def _groups_with_ids(self, pool: IntArray, birth_size: int) -> tuple[list[IntArray], list[int | None]]:
        """Groups of these samples that are a category, and which; provisional ones may be smaller than a birth."""
        groups = self._groups(pool, self._fewest(birth_size))
        chosen = [
            (rows, category)
            for rows, category in zip(groups, self._ids_of(groups), strict=True)
            if len(rows) >= birth_size or category in self.small
        ]
        return [rows for rows, _ in chosen], [category for _, category in chosen]

    def _fewest(self, birth_size: int) -> int:
        """Samples of the smallest group that is looked for."""
        return min([birth_size, *(int(mine.sum()) for mine in self.small.values())])

    def _ids_of(self, groups: Sequence[IntArray]) -> list[int | None]:
        """The category that each group is already, by a label or since lately; None where it is born."""
        ids: list[int | None] = []
        for rows in groups:
            found, counts = np.unique(self.categories[rows][self.arrival.settled[rows]], return_counts=True)
            ids.append(int(found[counts.argmax()]) if len(found) else None)
        free = [place for place, category in enumerate(ids) if category is None]
        if not free or not self.small:
            return ids
        small = list(self.small)
        shared = np.array([[mine[groups[place]].sum() for mine in self.small.values()] for place in free])
        sizes = np.array([mine.sum() for mine in self.small.values()])
        least = np.minimum(np.array([[len(groups[place])] for place in free]), sizes)
        for place, column in zip(*linear_sum_assignment(-shared), strict=True):
            if shared[place, column] > MOSTLY * least[place, column]:
                ids[free[place]] = small[column]
        return ids

    def _let_small_go(self, birth_size: int) -> None:
        """Take back births of which the training left fewer samples than a category has at its birth."""
        sizes = {category: int((self.categories == category).sum()) for category in self.born}
        least = dict.fromkeys(self.small, self._fewest(birth_size))
        can_go = set(self.born) - self.made_by_labels
        small = [category for category in can_go if sizes[category] < least.get(category, birth_size)]
        if not small:
            return
        model = without_categories(self.model, small)
        gone = np.isin(self.categories, small)
        if gone.any():
            self.categories[gone] = model.predict(self.arrival.features[gone])
        self.born = [category for category in self.born if category not in small]
        self.is_born = np.isin(self.categories, self.born) & ~gone
        stays = ~self.held & ~gone & ~self._is_open()
        self.model = model.with_samples(self.arrival.features, self.categories, self.arrival.settled, stays)
        present = self.model.categories_
        self.wanted = replace(self.wanted, categories=present, became={i: i for i in present.tolist()})

    def _groups(self, pool: IntArray, birth_size: int) -> list[IntArray]:
        """Rows of samples, among these, that are a category."""
        strangers = self.model.learnt_strangers()
        if strangers is None or len(pool) < birth_size:
            return []
        features = self.arrival.features[pool]
        looks = self.model.looks_of(features)
        assert looks is not None  # there are strangers
        mapped = self.model._unit_and_mapped(features)[1]
        prior = np.empty(len(pool))
        for part, company in self._companies(looks, pool):
            prior[part] = company.prior
        seen = self._seen()[pool]
        groups = find_groups(strangers.portrait, mapped, looks.alone, strangers.births, birth_size, prior, seen)
        return [pool[group.rows] for group in groups]

    def _seen(self) -> npt.NDArray[np.float64]:
        """How much it counts that samples have been looked at before: not if that made a provisional category."""
        lately = self.is_recent & self.was_there & ~np.isin(self.arrival.categories, self.provisional)
        return np.where(self._was_held(), 1.0, SEEN * lately)

    def train(self, changed: frozenset[int]) -> None:
        """Train again with the categories that there are now; what is held back or undecided does not take part.

        It would be drawn into categories that it does not belong to, and never be strange again.
        """
        settled = np.where(self.arrival.settled, self.categories, UNLABELLED)
        changed = self.wanted.changed | changed
        takes_part = ~self.held & ~self._is_open()
        rows = np.flatnonzero(takes_part)
        wanted = replace(
            self.wanted,
            assigned=self.categories[rows],
            labels=settled[rows],
            changed=changed,
            steady=self._steady(changed)[rows],
        )
        self.model = refit_model(
            self.model,
            self.arrival.features[rows],
            wanted,
            lam=self.setting.lam,
            temperature=self.setting.temperature,
            shares=self._shares(rows),
            training=UPDATE_TRAINING,
            as_sure=(~self.is_undecided & ~self.arrival.settled)[rows],
            past=self.past,
        )
        self.categories[rows] = self.model.labels_
        if not takes_part.all():
            self.categories[~takes_part] = self.model.predict(self.arrival.features[~takes_part])
        self.is_born = np.isin(self.categories, self.born)
        present = self.wanted.categories.tolist()
        self.wanted = replace(self.wanted, became={i: i for i in present}, changed=frozenset())
        self.by_labels, self.is_contradicted, self.is_trained = frozenset(), False, True

    def _shares(self, rows: IntArray) -> npt.NDArray[np.float64]:
        """Relative sizes: as the run has them, but smaller where a category has few of these samples yet.

        Drawn to an even size, a category of ten samples among large ones would take samples of its neighbours, and
        one that is born larger than others would lose its own to them.
        """
        ids = self.wanted.categories
        sizes = np.bincount(np.searchsorted(ids, self.categories[rows]), minlength=len(ids))
        shares = expected_shares(self.size_ratio, len(self.wanted.known), len(ids))
        even = np.ones(len(ids)) if shares is None else shares
        relative = sizes / max(float(np.median(sizes[sizes > 0])), 1.0)
        small = np.minimum(ROOM * relative, 1.0)
        small = np.where(np.isin(ids, self.born), np.maximum(small, relative), small)
        return np.asarray(even * np.maximum(small, 1 / max(int(sizes.sum()), 1)))

    def _steady(self, changed: frozenset[int]) -> Mask:
        """Decided samples that the model is sure of, in categories that nobody changed."""
        steady = ~self.is_undecided & ~self.held & ~self.arrival.settled & ~np.isin(self.categories, list(changed))
        rows = np.flatnonzero(steady & np.isin(self.categories, self.model.categories_))
        steady[:] = False
        if len(rows):
            steady[rows] = self.model.assess(self.arrival.features[rows], self.categories[rows]).confidence >= SURE
        return steady

    def _rehearses(self) -> bool:
        """Whether the model was trained with so many more, or fewer, categories than it was rehearsed with."""
        learnt = self.model.learnt_strangers()
        n_then = 0 if learnt is None else learnt.n_rehearsed
        return self.is_trained and abs(len(self.wanted.categories) - n_then) > CHANGED * n_then

    def result(self) -> TakenIn:
        model = self.model.with_samples(
            self.arrival.features, self.categories, self.arrival.settled, ~self.held, anew=self._rehearses()
        )
        model.labels_ = self.categories
        present = frozenset(model.categories_.tolist())
        young = frozenset([*self.born, *self.young.tolist()]) & present
        return TakenIn(
            model,
            self.categories,
            self.held,
            self.strangeness,
            tuple(sorted(present - self.there_lately)),
            tuple(sorted(self.there_lately - present)),
            replace(self.arrival.window, born=young),
        )
