"""Births: groups of strangers that are categories, and others that are not."""

import numpy as np
from scipy.special import logit

from newkinds.engine import Partitioner
from newkinds.selection.births import (
    CUTS,
    FIGURES,
    SURE_ENOUGH,
    USUAL,
    BirthRule,
    _are_real,
    _pool,
    find_groups,
    learn_births,
)
from newkinds.selection.strangeness import Portrait, Rule, learn_strangeness, rehearse_strangers
from tests.blobs import blobs
from tests.selection.test_strangeness import by_means

UNIT, COLUMNS = blobs(20, 30)
RETRAIN = by_means(UNIT, COLUMNS)
MODEL: Partitioner = RETRAIN(np.arange(len(UNIT)), COLUMNS, 20)[0]
PORTRAIT = Portrait.of(MODEL, UNIT, UNIT, COLUMNS)
REHEARSALS = rehearse_strangers(UNIT, COLUMNS, np.ones(len(UNIT), bool), RETRAIN, np.random.default_rng(0))
RULE, _ = learn_strangeness(REHEARSALS)
BIRTHS = learn_births(REHEARSALS, RULE)


def born_of(samples, birth_size=8):
    ratios = RULE.apply(PORTRAIT.signs(MODEL, samples, samples))
    return find_groups(PORTRAIT, samples, ratios, BIRTHS, birth_size)


def test_kinds_that_come_are_born_whole_the_largest_first():
    large, _ = blobs(1, 40, seed=1, first=20)
    small, _ = blobs(1, 12, seed=1, first=21)
    groups = born_of(np.concatenate([small, large]))
    assert [min(group.rows) >= 12 for group in groups] == [True, False]
    assert len(groups[0].rows) > 30
    assert set(groups[1].rows) == set(range(12))
    assert all(SURE_ENOUGH < group.probability <= 1 for group in groups)


def test_too_few_are_not_born():
    samples, _ = blobs(1, 12, seed=1, first=20)
    assert born_of(samples, birth_size=13) == []
    assert born_of(samples[:1]) == []
    assert born_of(samples[:0]) == []


def test_odd_samples_that_do_not_agree_are_not_born():
    odd = np.random.default_rng(3).normal(size=(60, 24))
    odd /= np.linalg.norm(odd, axis=1, keepdims=True)
    assert born_of(odd) == []


def test_where_nothing_can_be_rehearsed_a_usual_rule_holds():
    assert learn_births([], RULE) == USUAL


def test_there_is_a_rule_for_each_distance():
    assert len(USUAL.rules) == len(BIRTHS.rules) == len(CUTS) == len(set(CUTS))


def test_no_sample_is_in_two_groups_that_are_born():
    samples, _ = blobs(6, 25, seed=1, first=20)
    groups = born_of(samples)
    assert len(groups) == 6
    rows = np.concatenate([group.rows for group in groups])
    assert len(rows) == len(set(rows.tolist()))


def test_a_kind_is_born_among_many_samples_that_fit():
    ordinary, _ = blobs(20, 50, seed=2)
    rare, _ = blobs(1, 10, seed=1, first=20)
    groups = born_of(np.concatenate([ordinary, rare]))
    assert len(groups) == 1
    assert set(groups[0].rows) <= set(range(1000, 1010))


def test_kinds_that_are_near_each_other_are_born_apart():
    """Each is nearer to the other than to anything else, by a quarter of the way."""
    (first, _), (second, _) = blobs(1, 30, seed=1, first=20), blobs(1, 30, seed=1, first=21)
    nearer = second + 0.25 * (first.mean(axis=0) - second.mean(axis=0))
    groups = born_of(np.concatenate([first, nearer / np.linalg.norm(nearer, axis=1, keepdims=True)]))
    assert [set((group.rows >= 30).tolist()) for group in groups] in ([{False}, {True}], [{True}, {False}])


def test_a_part_of_a_category_or_two_joined_are_none():
    pool = _pool(REHEARSALS[0], RULE)
    one, two = (
        np.flatnonzero(pool.is_strange & (pool.columns == c)) for c in np.unique(pool.columns[pool.is_strange])[:2]
    )
    assert _are_real(
        [one, np.concatenate([one, two]), one[: len(one) // 2], one[: len(one) // 2 + 1]], pool
    ).tolist() == [
        True,
        False,
        False,
        True,
    ]


def test_where_few_samples_are_strange_a_group_has_to_be_surer():
    likely = BirthRule(tuple(Rule(np.zeros(len(FIGURES)), logit(0.7)) for _ in CUTS))
    samples, _ = blobs(1, 30, seed=1, first=20)
    ratios = RULE.apply(PORTRAIT.signs(MODEL, samples, samples))
    n_born = [
        len(find_groups(PORTRAIT, samples, ratios, likely, prior=np.full(len(samples), logit(share))))
        for share in (0.5, 0.2, 0.05)
    ]
    assert n_born == [1, 1, 0]


def test_samples_that_were_seen_before_have_to_be_surer():
    likely = BirthRule(tuple(Rule(np.zeros(len(FIGURES)), logit(0.7)) for _ in CUTS))
    samples, _ = blobs(1, 30, seed=1, first=20)
    ratios = RULE.apply(PORTRAIT.signs(MODEL, samples, samples))
    n_born = [
        len(find_groups(PORTRAIT, samples, ratios, likely, seen=np.full(len(samples), seen)))
        for seen in (0.0, 0.4, 0.7, 1.0)
    ]
    assert n_born == [1, 1, 0, 0]
