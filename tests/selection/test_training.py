"""The way from a problem to the engine: what reaches it."""

from typing import Any

import numpy as np
import pytest

from newkinds.engine import Run
from newkinds.objective import PARTITION
from newkinds.selection import problem as problem_module
from newkinds.selection import training
from newkinds.selection.problem import EXCERPT_TOLERANCE, Problem, make_problem
from newkinds.selection.training import EVALUATIONS, Start, Training, cluster


@pytest.fixture
def problem() -> Problem:
    rng = np.random.default_rng(0)
    truth = np.arange(90) % 3
    X = np.eye(3, 5)[truth] + 0.1 * rng.normal(size=(90, 5))
    return make_problem(X, np.where((truth < 2) & (np.arange(90) < 45), truth, -1), device="cpu", random_state=0)


def options_passed(monkeypatch: pytest.MonkeyPatch, name: str) -> list[dict[str, Any]]:
    """Keyword arguments of every call of one of the engine's functions from now on."""
    calls: list[dict[str, Any]] = []
    original = getattr(training, name)

    def watch(*arguments: Any, **options: Any) -> Any:
        calls.append(options)
        return original(*arguments, **options)

    monkeypatch.setattr(training, name, watch)
    return calls


def test_k_means_of_an_excerpt_need_not_settle_to_the_last_sample(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = options_passed(monkeypatch, "kmeans")
    cluster(problem, 3)
    monkeypatch.setattr(problem_module, "EXCERPT_CATEGORY", 10)
    part = problem.excerpt(3, most=40)
    assert len(part.columns) < len(problem.columns)
    cluster(part, 3)
    Start().prototypes(part, 3, part.columns)
    assert [call["tolerance"] for call in calls] == [0.0, EXCERPT_TOLERANCE, EXCERPT_TOLERANCE]
    assert EXCERPT_TOLERANCE > 0


def test_a_start_passes_on_all_that_it_is_set_to(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = options_passed(monkeypatch, "kmeans")
    Start("sskm", "greedy", n_init=4, max_iter=7, inertia="nearest").prototypes(problem, 3, problem.columns)
    (call,) = calls
    assert (call["seeding"], call["n_init"], call["max_iter"], call["inertia"]) == ("greedy", 4, 7, "nearest")
    assert call["labels"] is problem.columns
    assert call["rng"] is problem.rng


@pytest.mark.parametrize(("init", "seeding"), [("sskm++", "greedy"), ("ssrandom", "random")])
def test_seeds_alone_are_a_start(
    problem: Problem, monkeypatch: pytest.MonkeyPatch, init: Any, seeding: str
) -> None:
    calls = options_passed(monkeypatch, "seed_centroids")
    start = Start(init, "greedy").prototypes(problem, 3, problem.columns)
    assert calls[0]["seeding"] == seeding
    features = problem.samples.take(np.arange(90)).numpy()
    for known in range(2):  # known categories start at the means of their labelled samples
        np.testing.assert_allclose(start[known], features[problem.columns == known].mean(0), atol=1e-6)
    assert any(np.array_equal(start[2], sample) for sample in features)


def test_known_categories_come_first_with_labels_and_anywhere_without(problem: Problem) -> None:
    features = problem.samples.take(np.arange(90)).numpy()
    start = Start().prototypes(problem, 3, problem.columns)
    assert (start @ features.T).argmax(0).tolist() == (np.arange(90) % 3).tolist()
    assert Start().prototypes(problem, 3, None).shape == (3, 5)


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_a_training_passes_on_all_that_it_is_set_to(
    problem: Problem, monkeypatch: pytest.MonkeyPatch, solver: Any
) -> None:
    calls = options_passed(monkeypatch, "optimise")
    run = Run(np.eye(3, 5, dtype=np.float32), PARTITION)
    trained = Training(solver, 3, learning_rate=0.5, weight_decay=0.25, tolerance=0.125).train(problem, [run], "x")
    expected = {"solver": solver, "max_iter": 3, "learning_rate": 0.5, "weight_decay": 0.25, "tolerance": 0.125}
    assert calls[0].items() >= expected.items()
    assert calls[0]["labels"] is problem.columns
    assert len(trained.values) <= 3
    Training(solver).train(problem, [run], "x")
    assert calls[1]["max_iter"] == EVALUATIONS[solver]
