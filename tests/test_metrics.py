"""The Hungarian match against brute force, and the three protocols on cases worked out by hand."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newkinds import InputError
from newkinds.metrics import accuracy, clustering_accuracy, correct, match_categories

samples = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=30)


def best_by_brute_force(truth: np.ndarray, predicted: np.ndarray) -> float:
    """Highest agreement over all one-to-one maps from categories to classes (or to nothing)."""
    classes, categories = np.unique(truth), np.unique(predicted)
    targets = [*classes, *([-99] * len(categories))]
    best = 0
    for chosen in set(permutations(targets, len(categories))):
        mapping = dict(zip(categories, chosen, strict=True))
        best = max(best, sum(mapping[p] == t for t, p in zip(truth, predicted, strict=True)))
    return best / len(truth)


@settings(max_examples=40, deadline=None)
@given(samples)
def test_match_is_the_best_of_all(pairs: list[tuple[int, int]]) -> None:
    truth, predicted = np.array(pairs).T
    assert clustering_accuracy(truth, predicted) == pytest.approx(best_by_brute_force(truth, predicted))


@settings(max_examples=40, deadline=None)
@given(samples, st.permutations(range(5)))
def test_names_of_the_categories_do_not_matter(pairs: list[tuple[int, int]], names: list[int]) -> None:
    truth, predicted = np.array(pairs).T
    renamed = np.array(names)[predicted] + 17
    assert clustering_accuracy(truth, predicted) == clustering_accuracy(truth, renamed)


def test_more_categories_than_classes_leaves_the_surplus_unmatched() -> None:
    assert match_categories([0, 0, 0, 1], [3, 3, 5, 9]) == {3: 0, 9: 1}
    assert correct([0, 0, 0, 1], [3, 3, 5, 9]).tolist() == [True, True, False, True]


def test_fewer_categories_than_classes() -> None:
    assert clustering_accuracy([0, 0, 1, 2], [4, 4, 4, 4]) == 0.5


# Classes 0 and 1 are known; the unlabelled samples of class 2 are new.
TRUTH = np.array([0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 2])
PREDICTED = np.array([0, 0, 2, 2, 1, 0, 2, 2, 2, 0, 0])


def test_v2_uses_one_match_for_all() -> None:
    result = accuracy(TRUTH, PREDICTED, known=[0, 1], protocol="v2")
    assert result.all == pytest.approx(6 / 11)
    assert result.old == pytest.approx(3 / 6)
    assert result.new == pytest.approx(3 / 5)


def test_v1_matches_old_and_new_apart() -> None:
    predicted = np.where(PREDICTED == 1, 0, PREDICTED)  # without category 1 the old classes can take 0 and 2
    result = accuracy(TRUTH, predicted, known=[0, 1], protocol="v1")
    # Old: {0: 1, 2: 0} puts 2 + 2 right; New: 2 -> 2 puts 3 right.
    assert result.old == pytest.approx(4 / 6)
    assert result.new == pytest.approx(3 / 5)
    assert result.all == pytest.approx(7 / 11)


def test_orca_takes_old_at_their_word() -> None:
    shifted = (PREDICTED + 1) % 3
    result = accuracy(TRUTH, shifted, known=[0, 1], protocol="orca")
    assert result.old == pytest.approx(3 / 6)  # shifted, two zeros called 2 become 0 and a one called 0 becomes 1
    assert result.all == pytest.approx(6 / 11)
    assert result.new == pytest.approx(3 / 5)


def test_orca_wants_the_ids_of_the_old_classes_and_v1_does_not() -> None:
    swapped = [1, 1, 0, 0, 7]
    assert accuracy([0, 0, 1, 1, 2], swapped, known=[0, 1], protocol="orca").old == 0
    assert accuracy([0, 0, 1, 1, 2], swapped, known=[0, 1], protocol="v1").old == 1
    assert accuracy([0, 0, 1, 1, 2], swapped, known=[0, 1], protocol="orca").all == 1


def test_a_category_that_no_sample_speaks_for_stays_unmatched() -> None:
    """Category 6 is all class 0, which category 5 has: it is not matched to class 1, where it has no sample."""
    assert match_categories([0, 0, 0, 0, 1], [5, 5, 5, 6, 5]) == {5: 0}


def test_a_group_without_samples_is_nan() -> None:
    result = accuracy([0, 0], [1, 1], known=[0])
    assert result.all == result.old == 1.0
    assert np.isnan(result.new)


def test_a_million_samples() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 200, 1_000_000)
    right = rng.random(truth.size) < 0.7
    predicted = np.where(right, truth + 500, rng.integers(0, 60, truth.size))
    assert accuracy(truth, predicted, known=np.arange(100)).all == pytest.approx(right.mean(), abs=0.002)


@pytest.mark.parametrize(
    ("truth", "predicted", "message"),
    [
        ([0, 1], [0], "truth has 2 samples but predicted has 1"),
        ([[0], [1]], [0, 1], "truth must be a vector of integers"),
        ([0.5, 1.0], [0, 1], "truth must be a vector of integers"),
    ],
)
def test_bad_input_is_named(truth: list[float], predicted: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        clustering_accuracy(truth, predicted)


def test_unknown_protocol_is_refused() -> None:
    with pytest.raises(InputError, match="protocol must be one of v2, v1, orca; got 'v3'"):
        accuracy([0], [0], known=[0], protocol="v3")  # type: ignore[arg-type]  # wrong on purpose


def test_a_match_that_does_not_fit_into_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newkinds.runtime.available_memory", lambda: 24_000_000_000)
    many = np.arange(100_005)
    with pytest.raises(InputError, match=r"matching 100,005 categories with 100,005 classes takes about 240\.0 GB"):
        match_categories(many, many)
