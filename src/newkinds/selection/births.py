"""Births: samples that are strange one by one are a new category if they agree.

Strange samples are grouped by average linkage, compared as directions from the middle of everything where
categories vary alike in all directions: up to several distances, since some categories are narrower than others.
To each group come the samples that are nearer to its mean than to anything else. Of groups that overlap, the
surest is taken. Whether a group is a category of its own, or a part of one, or several, or some odd samples of
categories that there are, is told by six figures: how many samples it has, how unlike the nearest category it is,
how unlike the nearest larger group, how strange its samples are, how alike to one another, and how many it has
beside the other groups. What they mean is rehearsed with categories that were taken out
(`newkinds.selection.strangeness`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from scipy.special import expit, logit

from newkinds.labels import IntArray
from newkinds.selection.strangeness import (
    FloatArray,
    Mask,
    Portrait,
    Rehearsed,
    Rule,
    unit_rows,
)

HELD = 0.3
"""Strangeness from which a sample is held back."""
LEAST_RATIO = float(logit(HELD))
"""The same as how much more probable its signs are of a stranger (a logarithm), were half of the samples strange.

From there on samples are grouped, however few strangers there seem to be: that is hard to tell from single
samples, and whether groups are categories is told by other figures."""
CUTS: tuple[float, ...] = tuple(np.round(np.arange(0.6, 1.0, 0.05), 2).tolist())
"""Distances up to which groups are joined: some categories are narrow, some are wide."""
EQUAL = 0.95
"""Groups that are so probable are equally sure: then those at the lowest cut are taken, which are most alike."""
OVERLAP = 0.3
"""Share of a group's samples that may be in surer ones."""
FEWEST = 4
"""Samples of the smallest group that a rehearsal looks at."""
FIGURES: tuple[str, ...] = ("size", "unlike categories", "unlike larger", "strange", "alike", "beside others")
BIRTH_SIZE = 8
"""Of the smallest group that is born, unless a person says otherwise."""
SURE_ENOUGH = 0.45
"""Probability of being a category from which a group is born."""
EXPECTED = 0.5
"""How much it counts how many samples are strange, which is hard to tell. If it counts nothing, ordinary samples
alone make categories; if it counts fully, too few are born where too few strangers are seen."""
SURE_AGAIN = 0.93
"""The same of samples that were looked at before: every arrival gives them another chance to be born wrongly."""
MOSTLY = 0.5
"""Of the samples of a group and a category that was taken out together, both have more than so many where the group
is that category: less is a part of it, or several joined."""
ASKED = 60
"""Samples for each category that rehearsals ask about, at most about so many; in larger arrivals, where odd samples
make larger groups, sizes count in proportion."""
GROUPED = 1 << 12
"""Strange samples that are grouped; of more, the strangest."""
LEAST_CASES = 10
"""Groups of either kind that a rule is learnt from; a few are told apart by anything."""
RIDGE = 1e-2


@dataclass(frozen=True)
class BirthRule:
    """When a group of strange samples is a category.

    Attributes
    ----------
    rules : tuple of Rule
        For the groups of each of `CUTS`: the log-odds of being a category, from the figures of a group.
    """

    rules: tuple[Rule, ...]


USUAL_RULE = Rule(np.array([1.8, 1.0, 3.0, 0.1, 8.0, 0.0]), -6.5)
"""Where nothing could be rehearsed, or nothing went wrong: about what real collections teach."""
NEVER = Rule(np.zeros(len(FIGURES)), -50.0)
FARTHEST = 0.8
"""Cut up to which that holds; beyond, anything is joined."""
USUAL: BirthRule = BirthRule(tuple(USUAL_RULE if cut <= FARTHEST else NEVER for cut in CUTS))


@dataclass(frozen=True)
class Group:
    """Strange samples that agree: their rows, and how probably they are a category."""

    rows: IntArray
    probability: float


def find_groups(
    portrait: Portrait,
    mapped: npt.NDArray[np.floating],
    log_ratios: FloatArray,
    rule: BirthRule,
    birth_size: int = BIRTH_SIZE,
    prior: FloatArray | None = None,
    seen: FloatArray | None = None,
) -> list[Group]:
    """The groups among strange samples that are categories, the largest first.

    Parameters
    ----------
    portrait : Portrait
        Of the categories that there are.
    mapped : ndarray of shape (samples, directions)
        As the partitioner takes them.
    log_ratios : ndarray of shape (samples,)
        How much more probable the signs of each are of a stranger.
    rule : BirthRule
    birth_size : int
        Samples of a group, at least.
    prior : ndarray of shape (samples,), optional
        Log-odds of each to be strange, before its signs are looked at: the fewer strangers there are, the surer a
        group has to be. By default half of the samples are strange; more make no group surer.
    seen : ndarray of shape (samples,), optional
        How much it counts (0 to 1) that each was looked at before, and not born: a group of such has to be surer.
    """
    rows = _strangest(log_ratios)
    directions = portrait.directions(mapped[rows])
    tree = _tree(directions)
    scale = min(1.0, ASKED * len(portrait.means) / max(len(log_ratios), 1))
    expected, old = (np.zeros(len(rows)) if of is None else of[rows] for of in (prior, seen))
    sure: list[Group] = []
    for cut, rule_of_cut in zip(CUTS, rule.rules, strict=True):
        groups = _gathered(portrait, directions, _groups(tree, cut, FEWEST), birth_size)
        if groups:
            odds = rule_of_cut.apply(_figures(portrait, directions, log_ratios[rows], groups, scale))
            odds += [EXPECTED * min(expected[group].mean(), 0.0) for group in groups]
            sure += [
                Group(group, float(p))
                for group, p in zip(groups, expit(odds), strict=True)
                if p > SURE_ENOUGH + (SURE_AGAIN - SURE_ENOUGH) * old[group].mean()
            ]
    chosen = _without_overlaps(sure, len(rows), birth_size)
    return [Group(rows[group.rows], group.probability) for group in chosen]


def _without_overlaps(groups: Sequence[Group], n_samples: int, fewest: int) -> list[Group]:
    """The surest groups, without the samples of surer ones, the largest first; not those mostly the same as one."""
    taken = np.zeros(n_samples, dtype=bool)
    chosen = []
    for group in sorted(groups, key=lambda group: -min(group.probability, EQUAL)):
        own = group.rows[~taken[group.rows]]
        if len(own) >= max(fewest, (1 - OVERLAP) * len(group.rows)):
            taken[own] = True
            chosen.append(Group(own, group.probability))
    return sorted(chosen, key=lambda group: -len(group.rows))


def learn_births(rehearsals: Sequence[Rehearsed], strangeness: Rule) -> BirthRule:
    """How groups of the categories taken out differ from others, at each cut.

    A cut at which hardly a group was wrong, or right, has the rule of all.
    """
    pools = [_pool(rehearsed, strangeness) for rehearsed in rehearsals]
    cases = [_cases(pools, cut) for cut in CUTS]
    together = _learnt(*(np.concatenate(part) for part in zip(*cases, strict=True)))
    if together is None:
        return USUAL
    return BirthRule(tuple(_learnt(*case) or together for case in cases))


def _cases(pools: Sequence["_Pool"], cut: float) -> tuple[FloatArray, Mask]:
    """Figures of all groups at a cut, and which of them are a category."""
    figures, is_real = [np.empty((0, len(FIGURES)))], [np.zeros(0, dtype=bool)]
    for pool in pools:
        groups = _groups(pool.tree, cut, FEWEST)
        if groups := _gathered(pool.portrait, pool.directions, groups, FEWEST):
            figures.append(_figures(pool.portrait, pool.directions, pool.log_ratios, groups))
            is_real.append(_are_real(groups, pool))
    return np.concatenate(figures), np.concatenate(is_real)


def _learnt(figures: FloatArray, is_real: Mask) -> Rule | None:
    """None if there are too few cases."""
    if min(is_real.sum(), (~is_real).sum()) < LEAST_CASES:
        return None
    rule = Rule.learnt(figures, is_real, RIDGE)
    return replace(rule, intercept=rule.intercept + float(logit(is_real.mean())))


@dataclass(frozen=True)
class _Pool:
    """The strange samples of a rehearsal."""

    portrait: Portrait
    directions: FloatArray
    tree: FloatArray
    log_ratios: FloatArray
    is_strange: Mask
    columns: IntArray


def _pool(rehearsed: Rehearsed, strangeness: Rule) -> _Pool:
    log_ratios = strangeness.apply(rehearsed.signs)
    rows = _strangest(log_ratios)
    directions = rehearsed.portrait.directions(rehearsed.mapped[rows])
    return _Pool(
        rehearsed.portrait,
        directions,
        _tree(directions),
        log_ratios[rows],
        rehearsed.is_strange[rows],
        rehearsed.columns[rows],
    )


def _strangest(log_ratios: FloatArray) -> IntArray:
    """Places of the samples that are grouped, the strangest first."""
    order = np.argsort(-log_ratios, kind="stable")[:GROUPED]
    return order[log_ratios[order] > LEAST_RATIO]


def _gathered(
    portrait: Portrait, directions: FloatArray, groups: Sequence[IntArray], fewest: int
) -> list[IntArray]:
    """The groups with all samples that are nearer to their mean than to others and to every category.

    A group by linkage has the core of a category only.
    """
    if not groups:
        return []
    means = unit_rows(np.stack([directions[group].mean(axis=0) for group in groups]))
    to_groups = directions @ means.T
    nearest = to_groups.argmax(axis=1)
    nearest[to_groups.max(axis=1) <= (directions @ portrait.category_directions.T).max(axis=1)] = -1
    gathered = [np.flatnonzero(nearest == place) for place in range(len(groups))]
    return [group for group in gathered if len(group) >= fewest]


def _tree(directions: FloatArray) -> FloatArray:
    """Which samples, and groups of them, are joined at which distance; empty where there are no two."""
    if len(directions) < 2:
        return np.empty((0, 4))
    distances = np.maximum(1 - directions @ directions.T, 0.0)
    return np.asarray(linkage(squareform(distances, checks=False), "average"))


def _groups(tree: FloatArray, cut: float, fewest: int) -> list[IntArray]:
    """Places of the samples of each group that has so many."""
    if len(tree) + 1 < max(2, fewest):
        return []
    places = fcluster(tree, cut, "distance")
    order = np.argsort(places, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(places[order])) + 1)
    return [group for group in groups if len(group) >= fewest]


def _figures(
    portrait: Portrait,
    directions: FloatArray,
    log_ratios: FloatArray,
    groups: Sequence[IntArray],
    scale: float = 1.0,
) -> FloatArray:
    """Of each group, larger ones speaking for a category: (groups, figures).

    Sizes count for so much (`scale`): among more samples odd ones make larger groups.
    """
    sizes = np.array([len(group) for group in groups])
    means = np.stack([directions[group].mean(axis=0) for group in groups])
    lengths = np.linalg.norm(means, axis=1)
    pointed = unit_rows(means)
    to_categories = (pointed @ portrait.category_directions.T).max(axis=1)
    place = np.arange(len(groups))
    is_larger = (sizes > sizes[:, None]) | ((sizes == sizes[:, None]) & (place < place[:, None]))
    to_larger = np.where(is_larger, pointed @ pointed.T, 0.0).max(axis=1)
    strange = np.array([log_ratios[group].mean() for group in groups])
    alike = (sizes * lengths**2 - 1) / np.maximum(sizes - 1, 1)
    beside = np.log(sizes / np.average(sizes, weights=sizes))
    return np.stack([np.log(scale * sizes), -to_categories, -to_larger, strange, alike, beside], axis=1)


def _are_real(groups: Sequence[IntArray], pool: _Pool) -> Mask:
    """Which groups are a category that was taken out: they share most of their samples with its strange ones."""
    strangers = np.bincount(pool.columns[pool.is_strange], minlength=1)
    is_real = np.zeros(len(groups), dtype=bool)
    for place, group in enumerate(groups):
        shared = np.bincount(pool.columns[group][pool.is_strange[group]], minlength=len(strangers))
        is_real[place] = (shared > MOSTLY * (len(group) + strangers - shared)).any()
    return is_real
