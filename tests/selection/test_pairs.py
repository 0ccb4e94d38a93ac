"""The ratio of sizes by similar pairs."""

import numpy as np
import pytest

from newkinds.labels import UNLABELLED
from newkinds.selection.pairs import (
    MOST_LIKENESS,
    THRESHOLDS,
    SizeRatio,
    _Across,
    _likeness,
    _log_ratios,
    _Similar,
    _similar_new,
    size_ratio_by_pairs,
)
from newkinds.selection.problem import make_problem
from newkinds.selection.rehearsal import Rehearsal, draw_rehearsals

WIDTH = 40


def ratio_of(n_known: int, known: int, new: list[int], seed: int = 0, noise: float = 0.15) -> SizeRatio:
    """Every sample ends where it belongs; half of the known samples are labelled."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(n_known + len(new)), [*[known] * n_known, *new])
    X = rng.normal(size=(n_known + len(new), WIDTH))[truth] / np.sqrt(WIDTH)
    X += noise * rng.normal(size=(len(truth), WIDTH))
    y = np.where((truth < n_known) & (np.arange(len(truth)) % 2 == 0), truth, UNLABELLED)
    problem = make_problem(X.astype(np.float32), y, device="cpu", random_state=0)
    rehearsals = draw_rehearsals(problem, 4)
    return size_ratio_by_pairs(problem, rehearsals, [ended(problem.columns, truth, r) for r in rehearsals], 1.0)


def ended(columns: np.ndarray, truth: np.ndarray, rehearsal: Rehearsal) -> np.ndarray:
    kept = rehearsal.labels != UNLABELLED
    column_of = np.full(truth.max() + 1, -1)
    column_of[columns[kept]] = rehearsal.labels[kept]
    others = np.flatnonzero(column_of < 0)
    column_of[others] = rehearsal.n_kept + np.arange(len(others))
    return column_of[truth]


@pytest.mark.parametrize("new", [5, 10, 20, 40, 80])
def test_the_ratio_is_found_whatever_it_is(new: int) -> None:
    found = ratio_of(20, 20, [new] * 20)
    assert abs(found.log - np.log(new / 20)) < 0.7
    assert abs(found.log - np.log(new / 20)) < 2 * found.deviation


def test_new_categories_of_differing_sizes_count_by_their_samples() -> None:
    new = [4] * 10 + [36] * 10
    typical = sum(n * n for n in new) / sum(new)
    assert ratio_of(20, 20, new).log == pytest.approx(np.log(typical / 20), abs=0.4)


def test_a_few_large_categories_do_not_hide_behind_the_centre() -> None:
    """They make most of the mean of all samples; measured from there their samples would seem to differ most."""
    assert ratio_of(10, 12, [60] * 3).log == pytest.approx(np.log(60 / 12), abs=0.35)


def test_few_known_categories_say_less() -> None:
    assert ratio_of(4, 20, [20] * 8).deviation > ratio_of(30, 20, [20] * 30).deviation
    assert ratio_of(4, 20, [20] * 8).deviation > 0.5


def similar(hidden: list[int], new: list[int], within: float, chance: float, likeness: float = 1.0) -> _Similar:
    """Hidden categories, as many unlabelled samples of each, and new ones; pairs as they are expected.

    New samples are similar to those of other categories than hidden ones `likeness` times as often.
    """
    sizes = np.array([*hidden, 0, sum(hidden) + sum(new)], dtype=float)
    parts = np.array([*hidden, *new], dtype=float)  # of the unlabelled samples
    likely = np.full((len(parts), len(parts)), chance)
    likely[len(hidden) :, len(hidden) :] *= likeness
    np.fill_diagonal(likely, within)
    pairs = np.zeros((1, len(sizes), len(sizes)))
    for i, size in enumerate(hidden):
        for j, other in enumerate(hidden):
            pairs[0, i, j] = within * size * (size - 1) if i == j else chance * size * other
        pairs[0, i, -1] = pairs[0, -1, i] = size * (likely[i] @ parts)
    pairs[0, -1, -1] = parts @ likely @ parts - within * parts.sum()
    to_kept = chance * np.array([[*hidden, 0, sum(hidden) + likeness * sum(new)]])
    n = len(THRESHOLDS)
    return _Similar(sizes, np.repeat(pairs, n, axis=0), np.repeat(to_kept, n, axis=0), stand_in=3.0)


@pytest.mark.parametrize(("within", "chance"), [(1.0, 0.0), (0.4, 0.01)])
def test_what_belongs_to_known_categories_is_taken_away_exactly(within: float, chance: float) -> None:
    given = similar([10, 20, 30], [50], within, chance)
    assert given.n_new(1.0) == pytest.approx(50)
    np.testing.assert_allclose(_similar_new(given, 1.0), within * 50 * 49)


@pytest.mark.parametrize("likeness", [1.0, 0.6, 1.7])
def test_expected_pairs_give_the_ratio_exactly(likeness: float) -> None:
    """New categories of 80 samples; hidden ones of 20, with their unlabelled samples 40."""
    given = similar([20, 20, 20], [80] * 5, 0.4, 0.01, likeness)
    # Within a category the chance of hidden ones is counted, which is a little off.
    off = np.log1p((likeness - 1) * 0.01 / 0.39)
    found = _log_ratios([given], [np.arange(3)], np.full(len(THRESHOLDS), 0.01), 1.0)
    np.testing.assert_allclose(found, np.log(80 / 40) - off, atol=1e-3)


def test_likeness_is_seen_by_the_kept_categories() -> None:
    def seen(likeness: float) -> np.ndarray:
        return _likeness([similar([20, 30], [40, 50], 0.4, 0.01, likeness)], [np.arange(2)], unlabelled_ratio=1.0)

    np.testing.assert_allclose(seen(0.7), 0.7)
    np.testing.assert_allclose(seen(1.4), 1.4)
    np.testing.assert_allclose(seen(9.0), MOST_LIKENESS)
    np.testing.assert_allclose(seen(0.0), 1 / MOST_LIKENESS)


def test_of_hardly_any_new_samples_nothing_is_told() -> None:
    given = similar([20, 30], [1], 0.4, 0.01, likeness=5.0)
    assert given.hardly_any_new(1.0)
    assert not given.hardly_any_new(0.9)
    np.testing.assert_allclose(_likeness([given], [np.arange(2)], 1.0), 1.0)
    both = [given, similar([20, 30], [40, 50], 0.4, 0.01, likeness=1.5)]
    np.testing.assert_allclose(_likeness(both, [np.arange(2)] * 2, 1.0), 1.5)


def test_without_any_similar_pair_new_samples_are_taken_to_be_like_hidden_ones() -> None:
    given = similar([20, 30], [40, 50], 0.4, 0.0)
    np.testing.assert_allclose(_likeness([given], [np.arange(2)], 1.0), 1.0)


def across_of(n_known: int, alike: tuple[int, int] | None = None) -> _Across:
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(n_known), 12)
    centres = rng.normal(size=(n_known, WIDTH)) / np.sqrt(WIDTH)
    if alike:
        centres[alike[0]] = centres[alike[1]]
    X = centres[truth] + 0.05 * rng.normal(size=(len(truth), WIDTH))
    problem = make_problem(X.astype(np.float32), truth, device="cpu", random_state=0)
    return _Across.of(problem, np.random.default_rng(0))


def test_categories_that_cannot_be_told_apart_are_similar_as_often_as_one() -> None:
    across = across_of(12, alike=(3, 7))
    assert across.chance(np.array([3, 7])) == pytest.approx(1 - np.array(THRESHOLDS), abs=0.15)
    assert (across.chance(np.delete(np.arange(12), 3)) < 0.01).all()
    # One pair of 66.
    np.testing.assert_allclose(across.chance(np.arange(12)), (1 - np.array(THRESHOLDS)) / 66, rtol=0.7)


def test_categories_that_are_drawn_twice_are_not_compared_with_themselves() -> None:
    across = across_of(12, alike=(3, 7))
    assert across.chance(np.array([5, 5, 8, 8])) == pytest.approx(across.chance(np.array([5, 8])))
    assert (across.chance(np.array([5, 5])) == 0).all()


def test_two_known_categories_cannot_both_be_set_aside() -> None:
    assert (across_of(2).chance(np.arange(2)) == 0).all()
