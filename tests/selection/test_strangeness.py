"""Strangeness: what the rule learns, how many strangers there are, and what categories look like."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from newkinds.engine import Partitioner
from newkinds.selection.strangeness import (
    CENTRED,
    COMPARED,
    LEAST_CATEGORIES,
    REHEARSALS,
    TELLING,
    Company,
    Frequencies,
    Portrait,
    Rehearsed,
    Rule,
    even_blocks,
    learn_strangeness,
    rehearse_strangers,
    with_neighbours,
)
from tests.blobs import blobs


def by_means(unit, columns):
    """A model that is trained by taking means."""

    def retrain(rows, places, n):
        means = np.stack([unit[rows][places == place].mean(axis=0) for place in range(n)])
        return Partitioner(means.astype(np.float32), 25.0), unit, places

    return retrain


def portrait_of(unit, columns):
    return Portrait.of(
        by_means(unit, columns)(np.arange(len(unit)), columns, columns.max() + 1)[0], unit, unit, columns
    )


def test_signs_of_the_models_own_samples_are_usual():
    unit, columns = blobs(5, 20)
    partitioner = by_means(unit, columns)(np.arange(len(unit)), columns, 5)[0]
    means = Portrait.of(partitioner, unit, unit, columns).signs(partitioner, unit, unit).mean(axis=0)
    assert means[CENTRED] == pytest.approx(0, abs=1e-4)
    assert (np.abs(means[~CENTRED]) > 0.1).all()


def test_no_sign_is_turned_around():
    rng = np.random.default_rng(0)
    holds = rng.random(400) < 0.3
    figures = np.stack([holds + rng.normal(size=400), -2.0 * holds + rng.normal(size=400)], axis=1)
    rule = Rule.learnt(figures, holds)
    assert rule.weights[0] > 0.1
    assert rule.weights[1] == pytest.approx(0, abs=1e-6)
    ratios = rule.apply(figures)
    assert roc_auc_score(holds, ratios) > 0.7


def test_a_figure_that_never_changes_says_nothing():
    holds = np.arange(40) % 2 == 0
    rule = Rule.learnt(np.stack([holds * 1.0, np.full(40, 3.0)], axis=1), holds)
    assert np.isfinite([*rule.weights, rule.intercept]).all()


def ratios_of(is_strange, rng, ordinary=-2.0, strange=2.0):
    """Of densities whose ratio is the figure itself, unless the means are others."""
    return rng.normal(np.where(is_strange, strange, ordinary), 2.0)


def frequencies():
    is_strange = np.arange(4000) < 2000
    return Frequencies.of(ratios_of(is_strange, np.random.default_rng(7)), is_strange)


@settings(deadline=None, max_examples=25)
@given(st.floats(0.05, 0.9), st.floats(1.4, 2.0), st.integers(0, 2**32 - 1))
def test_the_share_of_strangers_is_found(share, strange, seed):
    """Also where they look more ordinary than those of rehearsals."""
    rng = np.random.default_rng(seed)
    is_strange = rng.random(3000) < share
    company = frequencies().company(ratios_of(is_strange, rng, strange=strange))
    assert company.share == pytest.approx(is_strange.mean(), abs=0.1)


def test_strangers_that_look_more_ordinary_count_less():
    rng = np.random.default_rng(0)
    is_strange = np.arange(3000) < 1500
    there = frequencies()
    alike, ordinary = (there.company(ratios_of(is_strange, rng, strange=strange)) for strange in (2.0, 1.2))
    assert ordinary.slope < alike.slope == pytest.approx(1, abs=0.1)


def test_without_strangers_hardly_any_are_seen():
    ratios = ratios_of(np.zeros(2000, dtype=bool), np.random.default_rng(0))
    company = frequencies().company(ratios)
    assert company.share < 0.05
    assert (company.probability(ratios) > 0.5).mean() < 0.02


def test_of_no_samples_nothing_is_known():
    there = frequencies()
    company = there.company(np.empty(0))
    assert 0 < company.share < 0.5
    assert (company.middle, company.slope) == (pytest.approx(there.middle), pytest.approx(there.slope))


def test_neighbours_count():
    """A stranger that looks ordinary is told by the others of its kind; many samples are compared bit by bit."""
    unit, columns = blobs(2, 40)
    points = unit.astype(np.float64)
    log_ratios = np.where(columns == 0, 2.0, -2.0)
    log_ratios[0] = -2.0
    beside = with_neighbours(log_ratios, points)
    assert -2 < beside[0] < -0.8
    assert beside[1:] == pytest.approx(log_ratios[1:], abs=0.8)
    assert with_neighbours(log_ratios[:1], points[:1]) == pytest.approx([-2.0])
    assert with_neighbours(np.empty(0), np.empty((0, 2))).shape == (0,)


def test_many_samples_are_compared_in_even_blocks():
    assert even_blocks(0) == []
    assert even_blocks(COMPARED) == [slice(0, COMPARED)]
    blocks = even_blocks(2 * COMPARED + 1)
    sizes = [block.stop - block.start for block in blocks]
    assert len(blocks) == 3
    assert sum(sizes) == 2 * COMPARED + 1
    assert max(sizes) - min(sizes) <= 1


def test_probabilities_of_strange():
    company = Company(0.2, 0.5, 0.5)
    assert company.probability(np.array([0.5])) == pytest.approx(0.2)
    assert company.probability(np.array([0.5 + 2 * np.log(4)])) == pytest.approx(0.5)


def test_rehearsals_teach_to_tell_samples_of_absent_kinds():
    unit, columns = blobs(20, 30)
    retrain = by_means(unit, columns)
    rehearsals = rehearse_strangers(unit, columns, np.ones(len(unit), bool), retrain, np.random.default_rng(0))
    assert len(rehearsals) == REHEARSALS
    for rehearsed in rehearsals:
        assert len(np.unique(rehearsed.columns[rehearsed.is_strange])) == 4
        assert set(rehearsed.columns[rehearsed.is_strange]).isdisjoint(rehearsed.columns[~rehearsed.is_strange])
    rule, there = learn_strangeness(rehearsals)
    ordinary, _ = blobs(20, 10, seed=1)
    strange, _ = blobs(5, 10, seed=1, first=20)
    asked = np.concatenate([ordinary, strange])
    partitioner = retrain(np.arange(len(unit)), columns, 20)[0]
    ratios = rule.apply(Portrait.of(partitioner, unit, unit, columns).signs(partitioner, asked, asked))
    is_strange = np.arange(len(asked)) >= len(ordinary)
    assert roc_auc_score(is_strange, ratios) > 0.97
    beside = with_neighbours(ratios, Portrait.of(partitioner, unit, unit, columns).directions(asked))
    assert there.company(beside).share == pytest.approx(is_strange.mean(), abs=0.1)


def test_labels_teach_alone_where_there_are_enough():
    """What a model calls a category, and its absence, may look otherwise."""
    rng = np.random.default_rng(0)
    n = 4 * TELLING
    is_strange, labelled = np.arange(n) % 2 == 0, np.arange(n) < n // 2
    signs = rng.normal(size=(n, 5))
    signs[:, 0] += 2 * (is_strange & labelled)
    signs[:, 1] += 9 * (is_strange & ~labelled)
    unit, columns = blobs(5, 6)
    portrait = portrait_of(unit, columns)
    nothing = np.zeros((n, unit.shape[1]))
    rule, _ = learn_strangeness([Rehearsed(portrait, signs, nothing, is_strange, columns[:1], labelled)])
    assert rule.weights[0] > 1 > 0.3 > rule.weights[1]
    few = np.arange(n) < TELLING
    rule, _ = learn_strangeness([Rehearsed(portrait, signs, nothing, is_strange, columns[:1], few)])
    assert rule.weights[1] > 0.3


def test_too_few_kinds_teach_nothing():
    unit, columns = blobs(LEAST_CATEGORIES - 1, 30)
    assert (
        rehearse_strangers(
            unit, columns, np.ones(len(unit), bool), by_means(unit, columns), np.random.default_rng(0)
        )
        == []
    )


def test_wide_features_are_narrowed():
    unit, columns = blobs(5, 6, width=1100)
    portrait = portrait_of(unit, columns)
    assert portrait.scaling.shape[0] < 1100
    assert portrait.directions(unit).shape == (30, portrait.scaling.shape[1])
