"""Births: samples that are strange one by one are a new category if they agree.

Strange samples are grouped by average linkage, compared as directions from the middle of everything where
categories vary alike in all directions. Whether a group is a category of its own, or a part of one, or some odd
samples of categories that there are, is told by five figures: how many samples it has, how unlike the nearest
category it is, how unlike the nearest larger group, how strange its samples are, and how alike to one another. What
they mean is rehearsed with categories that were taken out (`newkinds.selection.strangeness`), thinned to sizes of
all kinds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist
from scipy.special import expit, logit

from newkinds.labels import IntArray
from newkinds.selection.strangeness import (
    FloatArray,
    Mask,
    Portrait,
    Rehearsed,
    Rule,
    probability_of_strange,
    share_of_strangers,
    unit_rows,
)

HELD = 0.3
"""Strangeness from which a sample is held back."""
CUTS = tuple(np.round(np.arange(0.6, 1.0, 0.05), 2).tolist())
"""Distances up to which groups are joined, that are tried."""
FEWEST = 4
"""Samples of the smallest group that a rehearsal looks at."""
BIRTH_SIZE = 8
"""Of the smallest group that is born, unless a person says otherwise."""
SURE_ENOUGH = 0.8
"""Probability of being a category from which a group is born."""
THINNEST = 8
"""Samples that a category taken out is thinned to at most."""
GROUPED = 1 << 12
"""Strange samples that are grouped; of more, the strangest."""
LEAST_CASES = 3
"""Groups of each kind that a rule is learnt from."""
RIDGE = 1e-2


@dataclass(frozen=True)
class BirthRule:
    """When a group of strange samples is a category.

    Attributes
    ----------
    cut : float
        Cosine distance up to which groups are joined.
    rule : Rule
        The log-odds of being a category, from the figures of a group.
    """

    cut: float
    rule: Rule


USUAL: BirthRule = BirthRule(0.75, Rule(np.array([1.5, 0.2, 3.0, 0.4, 1.0]), -3.0))
"""Where nothing could be rehearsed, or nothing went wrong: about what real collections teach."""


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
) -> list[Group]:
    """The groups among strange samples that are categories, the largest first."""
    rows = np.argsort(-log_ratios, kind="stable")[:GROUPED]
    directions = portrait.directions(mapped[rows])
    groups = _groups(_tree(directions), rule.cut, birth_size)
    if not groups:
        return []
    odds = rule.rule.apply(_figures(portrait, directions, log_ratios[rows], groups))
    chosen = [Group(rows[group], float(expit(o))) for group, o in zip(groups, odds, strict=True)]
    born = [group for group in chosen if group.probability > SURE_ENOUGH]
    return sorted(born, key=lambda group: -len(group.rows))


def learn_births(rehearsals: Sequence[Rehearsed], strangeness: Rule, rng: np.random.Generator) -> BirthRule:
    """The cut and the rule with which the categories taken out are born best, less those born wrongly.

    Of cuts that do as well, the middle one.
    """
    pools = [_pool(rehearsed, strangeness, rng) for rehearsed in rehearsals]
    tried = [_rehearsed_cut(pools, cut) for cut in CUTS]
    most = max(score for score, _ in tried)
    best = [rule for score, rule in tried if score == most]
    return best[len(best) // 2] if most > 0 else USUAL


def _rehearsed_cut(pools: Sequence["_Pool"], cut: float) -> tuple[int, BirthRule]:
    """How many categories are born rightly, less those born wrongly; and by which rule."""
    figures, is_real = [np.empty((0, len(USUAL.rule.weights)))], [np.zeros(0, dtype=bool)]
    for pool in pools:
        if groups := _groups(pool.tree, cut, FEWEST):
            figures.append(_figures(pool.portrait, pool.directions, pool.log_ratios, groups))
            is_real.append(_are_real(groups, pool))
    together, real = np.concatenate(figures), np.concatenate(is_real)
    if min(real.sum(), (~real).sum()) < LEAST_CASES:
        rule = USUAL.rule
    else:
        rule = Rule.learnt(together, real, RIDGE)
        rule = replace(rule, intercept=rule.intercept + float(logit(real.mean())))
    is_born = rule.apply(together) > 0
    return int((is_born & real).sum() - (is_born & ~real).sum()), BirthRule(cut, rule)


@dataclass(frozen=True)
class _Pool:
    """The strange samples of a rehearsal."""

    portrait: Portrait
    directions: FloatArray
    tree: FloatArray
    log_ratios: FloatArray
    is_strange: Mask
    columns: IntArray


def _pool(rehearsed: Rehearsed, strangeness: Rule, rng: np.random.Generator) -> _Pool:
    kept = ~rehearsed.is_strange
    for category in np.unique(rehearsed.columns[rehearsed.is_strange]):
        members = np.flatnonzero(rehearsed.is_strange & (rehearsed.columns == category))
        fewest = min(THINNEST, len(members))
        size = round(float(np.exp(rng.uniform(np.log(fewest), np.log(len(members))))))
        kept[rng.choice(members, size, replace=False)] = True
    rows = np.flatnonzero(kept)
    log_ratios = strangeness.apply(rehearsed.signs[rows])
    is_held = probability_of_strange(log_ratios, share_of_strangers(log_ratios)) > HELD
    rows, log_ratios = rows[is_held], log_ratios[is_held]
    order = np.argsort(-log_ratios, kind="stable")[:GROUPED]
    rows, log_ratios = rows[order], log_ratios[order]
    directions = rehearsed.portrait.directions(rehearsed.mapped[rows])
    return _Pool(
        rehearsed.portrait,
        directions,
        _tree(directions),
        log_ratios,
        rehearsed.is_strange[rows],
        rehearsed.columns[rows],
    )


def _tree(directions: FloatArray) -> FloatArray:
    """Which samples, and groups of them, are joined at which distance; empty where there are no two."""
    if len(directions) < 2:
        return np.empty((0, 4))
    return np.asarray(linkage(pdist(directions, "cosine"), "average"))


def _groups(tree: FloatArray, cut: float, fewest: int) -> list[IntArray]:
    """Places of the samples of each group that has so many."""
    if len(tree) + 1 < max(2, fewest):
        return []
    places = fcluster(tree, cut, "distance")
    order = np.argsort(places, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(places[order])) + 1)
    return [group for group in groups if len(group) >= fewest]


def _figures(
    portrait: Portrait, directions: FloatArray, log_ratios: FloatArray, groups: Sequence[IntArray]
) -> FloatArray:
    """Of each group, larger ones speaking for a category: (groups, 5)."""
    sizes = np.array([len(group) for group in groups])
    means = np.stack([directions[group].mean(axis=0) for group in groups])
    lengths = np.linalg.norm(means, axis=1)
    pointed = unit_rows(means)
    to_categories = (pointed @ portrait.category_directions.T).max(axis=1)
    place = np.arange(len(groups))
    is_larger = (sizes > sizes[:, None]) | ((sizes == sizes[:, None]) & (place < place[:, None]))
    to_larger = np.where(is_larger, pointed @ pointed.T, -1.0).max(axis=1)
    strange = np.array([log_ratios[group].mean() for group in groups])
    alike = (sizes * lengths**2 - 1) / np.maximum(sizes - 1, 1)
    return np.stack([np.log(sizes), -to_categories, -to_larger, strange, alike], axis=1)


def _are_real(groups: Sequence[IntArray], pool: _Pool) -> Mask:
    """Which groups are a category that was taken out: most of their samples, and its largest such group."""
    best: dict[int, tuple[int, int]] = {}
    for place, group in enumerate(groups):
        strangers = pool.columns[group][pool.is_strange[group]]
        if 2 * len(strangers) <= len(group):
            continue
        categories, counts = np.unique(strangers, return_counts=True)
        category, count = int(categories[counts.argmax()]), int(counts.max())
        if 2 * count > len(group) and count > best.get(category, (0, 0))[0]:
            best[category] = (count, place)
    is_real = np.zeros(len(groups), dtype=bool)
    is_real[[place for _, place in best.values()]] = True
    return is_real
