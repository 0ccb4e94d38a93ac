"""Consensus: several partitions become one, whatever their categories are called."""

import numpy as np
import pytest
import torch

from newkinds.engine import Committee, Partitioner, Samples, category_means
from newkinds.labels import UNLABELLED
from newkinds.names import Geometry
from newkinds.selection.consensus import find_consensus
from newkinds.selection.problem import Problem, make_problem


def posed(n: int = 300, n_categories: int = 6, n_known: int = 2) -> tuple[Problem, np.ndarray]:
    rng = np.random.default_rng(0)
    truth = np.arange(n) % n_categories
    X = np.eye(n_categories, 8)[truth] + 0.15 * rng.normal(size=(n, 8))
    y = np.where((truth < n_known) & (rng.random(n) < 0.5), truth, UNLABELLED)
    return make_problem(X, y, device="cpu", random_state=0), truth


def unit_features(problem: Problem) -> np.ndarray:
    return problem.samples.take(np.arange(len(problem.columns))).numpy()


def prototypes(problem: Problem, groups: np.ndarray, n_categories: int = 6) -> np.ndarray:
    features = unit_features(problem).astype(np.float64)
    return np.array([features[groups == c].mean(0) for c in range(n_categories)], dtype=np.float32)


def test_copies_with_other_numbers_change_nothing() -> None:
    problem, truth = posed()
    leader = Partitioner(prototypes(problem, truth), 20.0)
    alone = find_consensus(problem, [leader]).prototypes(problem.samples)
    rng = np.random.default_rng(1)
    for _ in range(5):
        copies = [
            Partitioner(leader.weights[np.concatenate([[0, 1], 2 + rng.permutation(4)])], 20.0) for _ in range(3)
        ]
        np.testing.assert_array_equal(find_consensus(problem, [leader, *copies]).prototypes(problem.samples), alone)


def test_alone_a_partitioner_starts_from_the_means_of_its_categories_and_the_labels() -> None:
    problem, truth = posed()
    wrong = prototypes(problem, truth)[[1, 0, 2, 3, 4, 5]]  # it takes the known categories for one another
    start = find_consensus(problem, [Partitioner(wrong, 20.0)]).prototypes(problem.samples)
    columns = Partitioner(wrong, 20.0).assign(unit_features(problem))
    columns[problem.labelled] = problem.columns[problem.labelled]
    np.testing.assert_allclose(start, prototypes(problem, columns), atol=1e-6)


def test_a_majority_outvotes_the_leader() -> None:
    """The leader tears the third category in two and merges the last two; three others have it right."""
    problem, truth = posed()
    right = prototypes(problem, truth)
    features = unit_features(problem)
    halves = right[2] + 0.02 * np.random.default_rng(2).normal(size=(2, 8)).astype(np.float32)
    wrong = np.array([right[0], right[1], halves[0], right[3], (right[4] + right[5]) * 0.8, halves[1]])
    rng = np.random.default_rng(3)
    others = [Partitioner(right[np.concatenate([[0, 1], 2 + rng.permutation(4)])], 25.0) for _ in range(3)]
    leader = Partitioner(wrong.astype(np.float32), 25.0)
    start = find_consensus(problem, [leader, *others]).prototypes(problem.samples)
    columns = Partitioner(start, 25.0).assign(features)
    assert all(len(np.unique(columns[truth == c])) == 1 for c in range(6))
    assert len(np.unique(columns)) == 6
    led = leader.assign(features)
    assert set(led[truth == 4]) == set(led[truth == 5])  # on its own it would not have


def test_one_wrong_is_outvoted_by_two() -> None:
    problem, truth = posed()
    right = prototypes(problem, truth)
    mixed = right.copy()
    mixed[4] = mixed[5] = (right[4] + right[5]) / 2
    mixed[5] += 0.01 * np.random.default_rng(0).normal(size=8)
    for at in range(3):
        voters = [Partitioner(right, 30.0) for _ in range(3)]
        voters[at] = Partitioner(mixed, 30.0)
        columns = Partitioner(find_consensus(problem, voters).prototypes(problem.samples), 30.0).assign(
            unit_features(problem)
        )
        assert all(len(np.unique(columns[truth == c])) == 1 for c in range(6))
        assert len(np.unique(columns)) == 6


def test_known_columns_are_never_matched_with_others() -> None:
    """A second opinion that swaps the known categories stays wrong: it is not read as a change of numbers."""
    problem, truth = posed()
    right = prototypes(problem, truth)
    swapped = right[[1, 0, 2, 3, 4, 5]]
    leader, other = Partitioner(right, 5.0), Partitioner(swapped, 50.0)
    start = find_consensus(problem, [leader, other]).prototypes(problem.samples)
    columns = Committee((leader, other)).assign(unit_features(problem))
    columns[problem.labelled] = problem.columns[problem.labelled]
    np.testing.assert_allclose(start, prototypes(problem, columns), atol=1e-6)
    unlabelled = ~problem.labelled
    assert (columns[unlabelled & (truth == 0)] == 1).all()  # the surer one prevails


def test_there_may_be_nothing_but_known_categories() -> None:
    problem, truth = posed(n_categories=3, n_known=3)
    right = Partitioner(prototypes(problem, truth, 3), 20.0)
    np.testing.assert_allclose(
        find_consensus(problem, [right, right]).prototypes(problem.samples),
        prototypes(problem, truth, 3),
        atol=1e-6,
    )


def test_in_another_space_a_category_without_samples_starts_in_the_middle() -> None:
    problem, truth = posed()
    far = np.vstack([prototypes(problem, truth), -np.ones((1, 8), dtype=np.float32)])
    consensus = find_consensus(problem, [Partitioner(far, 20.0)])
    wider = Samples(torch.nn.functional.pad(problem.samples.take(np.arange(300)), (0, 2)))
    assert np.array_equal(consensus.prototypes(problem.samples)[6], far[6])
    start = consensus.prototypes(wider)
    assert np.array_equal(start[6], np.zeros(10))
    np.testing.assert_allclose(start[:6, :8], prototypes(problem, consensus.columns), atol=1e-6)


@pytest.mark.parametrize("n", [7, 5000])
def test_only_what_is_sure_is_assigned(n: int) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(n, 5))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    one, other = (Partitioner(rng.normal(size=(4, 5)).astype(np.float32), 5.0) for _ in range(2))
    p = np.exp(one.log_probabilities(features))
    expected = np.where(p.max(axis=1) < 0.8, UNLABELLED, p.argmax(axis=1))
    assert np.array_equal(one.assign(features, least=0.8), expected)
    assert (expected == UNLABELLED).any()
    mean = (p + np.exp(other.log_probabilities(features))) / 2
    expected = np.where(mean.max(axis=1) < 0.8, UNLABELLED, mean.argmax(axis=1))
    assert np.array_equal(Committee((one, other)).assign(features, least=0.8), expected)


@pytest.mark.parametrize("n", [7, 5000])
def test_a_committee_decides_by_the_mean_of_its_probabilities(n: int) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(n, 5))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    kinds: tuple[tuple[float, Geometry], ...] = ((2.0, "linear"), (9.0, "linear"), (4.0, "euclidean"))
    members = tuple(
        Partitioner(rng.normal(size=(4, 5)).astype(np.float32), temperature, geometry)
        for temperature, geometry in kinds
    )
    mean = np.mean([np.exp(member.log_probabilities(features)) for member in members], axis=0)
    decided = Committee(members).assign(features)
    assert np.array_equal(decided, mean.argmax(axis=1))
    assert any(not np.array_equal(decided, member.assign(features)) for member in members)


@pytest.mark.parametrize("n", [50, 6000])
def test_means_are_means(n: int) -> None:
    rng = np.random.default_rng(0)
    samples = Samples(rng.normal(size=(n, 7)))
    features = samples.take(np.arange(n)).numpy().astype(np.float64)
    columns = rng.choice([0, 1, 3, 4], n)
    otherwise = rng.normal(size=(6, 7)).astype(np.float32)
    means = category_means(samples, columns, otherwise)
    assert means.dtype == np.float32
    for c in (0, 1, 3, 4):
        np.testing.assert_allclose(means[c], features[columns == c].mean(axis=0), atol=1e-6)
    assert np.array_equal(means[[2, 5]], otherwise[[2, 5]])
