"""Labels that were made wrong on purpose are found; right ones are left in peace."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from newkinds import discriminants
from newkinds.labels import UNLABELLED, IntArray
from newkinds.selection import label_doubts
from newkinds.selection.label_doubts import SUSPECTED, LabelDoubts, doubt_labels
from newkinds.selection.problem import make_problem


def clusters(
    n_categories: int, n_each: int, width: int = 24, spread: float = 0.5, seed: int = 0
) -> tuple[npt.NDArray[Any], IntArray]:
    generator = np.random.default_rng(seed)
    truth = np.repeat(np.arange(n_categories), n_each)
    centres = generator.normal(size=(n_categories, width))
    return centres[truth] + spread * generator.normal(size=(len(truth), width)), truth


def flipped(truth: IntArray, rows: IntArray, n_known: int, seed: int = 1) -> IntArray:
    labels = truth.copy()
    labels[rows] = (labels[rows] + np.random.default_rng(seed).integers(1, n_known, len(rows))) % n_known
    return labels


def doubts_of(
    features: npt.NDArray[Any], labels: IntArray, columns: IntArray, n_categories: int | None = None
) -> LabelDoubts:
    problem = make_problem(features, labels, device="cpu", random_state=0)
    return doubt_labels(problem, columns, n_categories or int(columns.max()) + 1)


def test_wrong_labels_are_found_with_what_they_should_be() -> None:
    features, truth = clusters(8, 40)
    rows = np.arange(5, 320, 32)
    doubts = doubts_of(features, flipped(truth, rows, 8), truth)
    assert set(doubts.rows) == set(rows)
    np.testing.assert_array_equal(doubts.likely, truth[doubts.rows])
    assert (np.diff(doubts.probabilities) <= 0).all()
    assert doubts.probabilities.min() >= SUSPECTED
    assert doubts.n_judged == 320


@pytest.mark.parametrize("spread", [0.5, 1.5, 4.0])
def test_hardly_any_right_label_is_doubted_however_hard_the_categories(spread: float) -> None:
    features, truth = clusters(8, 40, spread=spread)
    assert len(doubts_of(features, truth, truth)) <= 3


def test_labels_drawn_at_random_are_not_doubted_one_by_one() -> None:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 6, 200)
    assert len(doubts_of(generator.normal(size=(200, 16)), labels, labels)) <= 4


def test_a_labelled_sample_of_a_new_category_is_found() -> None:
    features, truth = clusters(8, 40)
    labels = np.where((truth < 5) & (np.arange(320) % 2 == 0), truth, UNLABELLED)
    rows = np.array([210, 250, 301])
    labels[rows] = 0
    doubts = doubts_of(features, labels, truth)
    assert set(doubts.rows) == set(rows)
    np.testing.assert_array_equal(doubts.likely, truth[doubts.rows])


def test_a_known_category_that_was_split_is_not_doubted() -> None:
    features, truth = clusters(6, 60)
    labels = np.where((truth < 5) & (np.arange(360) % 2 == 0), truth // 2, UNLABELLED)  # 0 and 1 are one kind
    columns = np.where(truth == 1, 3, truth // 2)  # which the method took for two
    assert len(doubts_of(features, labels, columns, n_categories=4)) == 0


def test_unlabelled_members_help_where_labels_are_few() -> None:
    features, truth = clusters(10, 30)
    labels = np.full(300, UNLABELLED)
    labels[::15] = truth[::15]  # two of each
    labels[[15, 165]] = [7, 3]
    doubts = doubts_of(features, labels, truth)
    assert {15, 165} <= set(doubts.rows)
    assert len(doubts) <= 4
    assert doubts.n_judged == 20


@pytest.mark.parametrize("n_known", [0, 1])
def test_with_fewer_than_two_known_categories_there_is_nothing_to_compare(n_known: int) -> None:
    features, truth = clusters(3, 10)
    doubts = doubts_of(features, np.where(truth < n_known, truth, UNLABELLED), truth)
    assert len(doubts) == doubts.n_judged == 0


def test_a_sample_whose_category_has_no_other_is_not_judged() -> None:
    features, truth = clusters(4, 1)
    doubts = doubts_of(features, truth, truth)
    assert len(doubts) == doubts.n_judged == 0


def test_one_label_each_and_unlabelled_samples() -> None:
    features, truth = clusters(5, 20)
    labels = np.full(100, UNLABELLED)
    labels[::20] = truth[::20]
    doubts = doubts_of(features, labels, truth, n_categories=7)  # two are empty
    assert len(doubts) == 0
    assert doubts.n_judged == 5


def test_two_known_categories_and_two_labels() -> None:
    features = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert len(doubts_of(features, np.array([0, 1]), np.array([0, 1]))) == 0


def test_samples_that_are_all_the_same_are_not_doubted() -> None:
    labels = np.repeat([0, 1, 2], 10)
    assert len(doubts_of(np.ones((30, 4)), labels, labels)) == 0


def test_no_right_label_is_doubted_among_duplicates() -> None:
    features = np.repeat(np.eye(4), 10, axis=0)
    labels = np.repeat([0, 1, 2, 3], 10)
    labels[3] = 2
    doubts = doubts_of(features, labels, labels)
    assert set(doubts.rows) <= {3}
    assert doubts.n_judged == 40


def test_samples_beyond_the_excerpt_are_judged_too(monkeypatch: pytest.MonkeyPatch) -> None:
    features, truth = clusters(6, 60)
    rows = np.arange(7, 360, 40)
    labels = flipped(truth, rows, 6)
    for name, value in (("TRAINED", 150), ("JUDGED_ROWS", 32), ("FITTED_ELEMENTS", 600)):
        monkeypatch.setattr(label_doubts, name, value)
    doubts = doubts_of(features, labels, truth)
    assert set(doubts.rows) == set(rows)
    assert doubts.n_judged == 360


def test_wide_features_are_projected(monkeypatch: pytest.MonkeyPatch) -> None:
    features, truth = clusters(6, 30, width=200)
    rows = np.arange(4, 180, 25)
    monkeypatch.setattr(discriminants, "WIDEST", 100)
    monkeypatch.setattr(discriminants, "PROJECTED", 60)
    doubts = doubts_of(features, flipped(truth, rows, 6), truth)
    assert set(doubts.rows) <= set(rows)
    assert len(doubts) >= len(rows) / 2


def test_the_problems_random_numbers_stay_as_they_are() -> None:
    features, truth = clusters(3, 10)
    problem = make_problem(features, truth, device="cpu", random_state=0)
    doubt_labels(problem, truth, 3)
    assert problem.rng.randint(1 << 30) == np.random.RandomState(0).randint(1 << 30)
