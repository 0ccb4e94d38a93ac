"""What a run no longer keeps: sums that add up whatever the order, and follow what becomes of categories."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newkinds import InputError
from newkinds.past import Past

N, WIDTH, KINDS = 60, 5, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, WIDTH))
X /= np.linalg.norm(X, axis=1, keepdims=True)
CATEGORIES = RNG.integers(0, KINDS, N) * 3


def at_once(rows: Any, categories: Any = CATEGORIES) -> Past:
    """As the definitions say it."""
    ids = np.unique(categories[rows])
    members = [X[rows][categories[rows] == category] for category in ids]
    scatter = sum((m - m.mean(axis=0)).T @ (m - m.mean(axis=0)) for m in members)
    return Past(ids, np.array([len(m) for m in members]), np.array([m.sum(axis=0) for m in members]), scatter)


def check_same(one: Past, other: Past) -> None:
    assert one.categories.tolist() == other.categories.tolist()
    assert one.counts.tolist() == other.counts.tolist()
    assert np.allclose(one.sums, other.sums, atol=1e-12)
    assert np.allclose(one.scatter, other.scatter, atol=1e-12)


@settings(deadline=None)
@given(st.permutations(range(N)), st.lists(st.integers(0, N), max_size=6))
def test_any_order_and_any_parts_give_the_same(order: list[int], cuts: list[int]) -> None:
    past = Past.empty(WIDTH)
    for rows in np.split(np.array(order), sorted(cuts)):
        past = past.with_samples(X[rows], CATEGORIES[rows])
    check_same(past, at_once(np.arange(N)))
    assert past.n_samples == N


def test_categories_that_became_one_add_up() -> None:
    past = Past.empty(WIDTH).with_samples(X, CATEGORIES)
    merged = np.where(np.isin(CATEGORIES, [0, 9]), 3, CATEGORIES)
    check_same(past.after({0: 3, 9: 3}), at_once(np.arange(N), merged))
    assert past.after({3: 3}) is past
    moved = past.after({0: 12})  # one that takes an id of its own
    assert (moved.count_of(12), moved.count_of(0)) == (past.count_of(0), 0)
    assert moved.counts_of([3, 12]).tolist() == [past.count_of(3), past.count_of(0)]


def test_of_a_category_that_was_dissolved_nothing_remains() -> None:
    past = Past.empty(WIDTH).with_samples(X, CATEGORIES)
    left = past.after({0: None, 9: 3})
    assert left.categories.tolist() == [3, 6]
    assert left.n_samples == N - past.count_of(0)
    assert np.trace(left.scatter) > 0
    nothing = past.after(dict.fromkeys(range(10)))
    assert nothing.n_samples == 0
    assert not nothing.scatter.any()


def test_what_is_saved_is_restored_and_checked() -> None:
    past = at_once(np.arange(N))
    check_same(Past.restored(past.arrays(), WIDTH), past)
    wrong: dict[str, tuple[Any, str]] = {
        "sums": (past.sums[:, 1:], r"sums should be float64 of shape \(4, 5\); got float64 of \(4, 4\)"),
        "counts": (past.counts * 0, "counts should be at least 1"),
        "categories": (past.categories[::-1].copy(), "categories should be ids that ascend"),
        "scatter": (past.scatter * np.nan, "scatter should be finite"),
    }
    for name, (array, says) in wrong.items():
        with pytest.raises(InputError, match=says):
            Past.restored({**past.arrays(), name: array}, WIDTH)
    with pytest.raises(InputError, match="it lacks scatter"):
        Past.restored({name: array for name, array in past.arrays().items() if name != "scatter"}, WIDTH)
