"""The solvers: as low as SciPy's, each run as if it were alone, and to be taken up again at any step."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from newkinds import InputError
from newkinds.engine import Run, Samples, Trained, optimise
from newkinds.engine.evaluation import Batch, BlockEvaluator
from newkinds.engine.moments import second_moment
from newkinds.engine.solvers import LBFGS, Adam, Solver
from newkinds.names import SOLVERS, SolverName
from newkinds.objective import PARTITION, RIM, SELECTION, objective_value
from newkinds.workers import SMALL_WORK, working_together

DECAY = 0.01
Case = tuple[torch.Tensor, np.ndarray, np.ndarray]


def made_case(n: int, width: int, categories: int, seed: int = 0) -> Case:
    """Clouds around as many directions as categories, some samples of the first two labelled, a rough start."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(categories, width))
    truth = rng.integers(0, categories, n)
    features = torch.from_numpy(centres[truth] + 0.7 * rng.normal(size=(n, width))).float()
    labels = np.where((truth < 2) & (rng.random(n) < 0.4), truth, -1)
    start = (centres + rng.normal(size=centres.shape)).astype(np.float32)
    start /= np.linalg.norm(start, axis=1, keepdims=True)
    return torch.nn.functional.normalize(features, dim=1), labels, start


@pytest.fixture
def case() -> Case:
    return made_case(n=400, width=9, categories=4)


def runs_of_all_sorts(start: np.ndarray, labels: np.ndarray) -> list[Run]:
    hidden = np.where(np.arange(len(labels)) % 3 == 0, -1, labels)
    return [
        Run(start, PARTITION.at(0.1)),
        Run(start[:3], PARTITION.at(0.7), temperature=10.0),
        Run(start, SELECTION.at(0.5)),
        Run(start[:2], RIM, geometry="euclidean"),
        Run(start + np.float32(0.1), RIM.at(0.2), temperature=5.0, labels=hidden),
    ]


def penalised(weights: torch.Tensor, features: torch.Tensor, labels: np.ndarray, run: Run) -> torch.Tensor:
    """The objective by its definition, in whatever precision the weights have."""
    samples = features.to(weights.dtype)
    if run.geometry == "euclidean":
        logits = -run.temperature / 2 * (samples[:, None] - weights[None]).square().sum(-1)
    else:
        logits = run.temperature * samples @ weights.T
    log_p = torch.log_softmax(logits, dim=1)
    return objective_value(log_p, torch.from_numpy(labels), run.objective) + DECAY / 2 * weights.square().sum()


def scipy_minimum(features: torch.Tensor, labels: np.ndarray, run: Run) -> float:
    def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = torch.from_numpy(flat.reshape(run.start.shape).copy()).requires_grad_()
        value = penalised(weights, features, labels, run)
        value.backward()
        assert weights.grad is not None
        return value.item(), weights.grad.numpy().ravel()

    options = {"maxiter": 2000, "maxfun": 4000}
    start = run.start.astype(np.float64).ravel()
    return float(minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=options).fun)


@pytest.mark.parametrize("which", range(5))
def test_lbfgs_gets_as_low_as_scipy(case: Case, which: int) -> None:
    features, labels, start = case
    run = runs_of_all_sorts(start, labels)[which]
    own = labels if run.labels is None else run.labels
    trained = optimise(
        features, [run], labels=labels, solver="lbfgs", max_iter=1000, weight_decay=DECAY, tolerance=1e-6
    )
    weights = torch.from_numpy(trained.partitioners[0].weights.astype(np.float64))
    ours, theirs = penalised(weights, features, own, run).item(), scipy_minimum(features, own, run)
    before = penalised(torch.from_numpy(run.start.astype(np.float64)), features, own, run).item()
    assert theirs < before
    assert ours <= theirs + 1e-3 * abs(theirs)


def test_lbfgs_needs_fewer_evaluations_than_adam(case: Case) -> None:
    features, labels, start = case
    run = Run(start, PARTITION.at(0.3))
    fast = optimise(features, [run], labels=labels, solver="lbfgs", max_iter=40)
    slow = optimise(features, [run], labels=labels, solver="adam", max_iter=400)

    def reached(trained: Trained) -> float:
        weights = torch.from_numpy(trained.partitioners[0].weights.astype(np.float64))
        return penalised(weights, features, labels, run).item()

    assert reached(fast) <= reached(slow) + 1e-3


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_run_of_a_batch_is_what_it_is_alone(case: Case, solver: SolverName) -> None:
    features, labels, start = case
    runs = runs_of_all_sorts(start, labels)
    together = optimise(features, runs, labels=labels, solver=solver, max_iter=15, learning_rate=1e-2)
    for r, run in enumerate(runs):
        alone = optimise(features, [run], labels=labels, solver=solver, max_iter=15, learning_rate=1e-2)
        weights = alone.partitioners[0].weights
        assert together.partitioners[r].weights.shape == weights.shape == run.start.shape
        np.testing.assert_allclose(together.partitioners[r].weights, weights, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(together.curve(r), alone.curve(0), rtol=1e-4, atol=1e-5)


def test_the_order_of_the_runs_does_not_matter(case: Case) -> None:
    features, labels, start = case
    runs = runs_of_all_sorts(start, labels)
    one = optimise(features, runs, labels=labels, solver="lbfgs", max_iter=15)
    other = optimise(features, runs[::-1], labels=labels, solver="lbfgs", max_iter=15)
    for a, b in zip(one.partitioners, other.partitioners[::-1], strict=True):
        np.testing.assert_allclose(a.weights, b.weights, rtol=1e-3, atol=1e-3)


def test_runs_leave_when_they_have_converged(case: Case) -> None:
    features, labels, start = case
    runs = runs_of_all_sorts(start, labels)
    trained = optimise(features, runs, labels=labels, solver="lbfgs", max_iter=500, tolerance=1e-4)
    assert trained.converged.dtype == np.bool_
    assert trained.converged.all()
    lengths = [len(trained.curve(r)) for r in range(len(runs))]
    assert len(set(lengths)) > 1
    assert len(trained.values) == max(lengths) < 500
    for r, length in enumerate(lengths):
        assert np.isfinite(trained.values[:length, r]).all()
        assert np.isnan(trained.values[length:, r]).all()


def test_a_run_that_used_all_evaluations_has_not_converged(case: Case) -> None:
    features, labels, start = case
    runs = runs_of_all_sorts(start, labels)
    short = optimise(features, runs, labels=labels, solver="lbfgs", max_iter=8)
    assert not short.converged.any()
    assert short.values.shape == (8, len(runs))
    assert np.isfinite(short.values).all()
    assert not optimise(features, runs, labels=labels, solver="adam", max_iter=8).converged.any()


def test_no_evaluations_leave_the_start(case: Case) -> None:
    """One evaluation of L-BFGS judges the start and moves nowhere yet."""
    features, labels, start = case
    trained = optimise(features, [Run(start, PARTITION)], labels=labels, solver="lbfgs", max_iter=1)
    np.testing.assert_allclose(trained.partitioners[0].weights, start, rtol=1e-5, atol=1e-6)
    expected = objective_value(
        torch.log_softmax(25 * features @ torch.from_numpy(start).T, dim=1), torch.from_numpy(labels), PARTITION
    )
    assert trained.values[0, 0] == pytest.approx(expected.item(), rel=1e-5)


def test_a_tighter_tolerance_takes_no_fewer_evaluations_and_ends_no_higher(case: Case) -> None:
    features, labels, start = case
    runs = runs_of_all_sorts(start, labels)
    lengths, ends = [], []
    for tolerance in (1e-2, 1e-4, 1e-6):
        trained = optimise(features, runs, labels=labels, solver="lbfgs", max_iter=500, tolerance=tolerance)
        lengths.append([len(trained.curve(r)) for r in range(len(runs))])
        ends.append(
            [
                penalised(
                    torch.from_numpy(partitioner.weights.astype(np.float64)),
                    features,
                    labels if run.labels is None else run.labels,
                    run,
                ).item()
                for run, partitioner in zip(runs, trained.partitioners, strict=True)
            ]
        )
    assert (np.diff(lengths, axis=0) >= 0).all()
    assert (np.diff(lengths, axis=0) > 0).any()
    assert (np.diff(ends, axis=0) <= 1e-5).all()


def made_solver(kind: str, case: Case, tolerance: float = 1e-4) -> Solver:
    features, labels, start = case
    samples = Samples(features)
    batch = Batch.of(samples, runs_of_all_sorts(start, labels), labels)
    evaluate = BlockEvaluator(samples, batch)
    if kind == "adam":
        return Adam(evaluate, batch.start, learning_rate=1e-2, weight_decay=DECAY)
    return LBFGS(evaluate, batch.start, DECAY, second_moment(samples), tolerance)


def test_the_penalised_objective_never_goes_up(case: Case) -> None:
    """What L-BFGS stands on, seen from outside: the weights it would give if it were stopped after each step."""
    features, labels, start = case
    runs = runs_of_all_sorts(start, labels)
    solver = made_solver("lbfgs", case)
    reached: list[list[float]] = []
    while solver.n_active and len(reached) < 60:
        solver.step()
        values = [
            penalised(
                weights[: len(run.start)].double(), features, labels if run.labels is None else run.labels, run
            ).item()
            for run, weights in zip(runs, solver.weights(), strict=True)
        ]
        reached.append(values)
    rises = np.diff(reached, axis=0) / np.abs(reached[:-1])
    assert rises.max() <= 2e-6
    assert (np.array(reached[-1]) < np.array(reached[0])).all()


def steps(solver: Solver, count: int) -> list[np.ndarray]:
    taken: list[np.ndarray] = []
    while len(taken) < count and solver.n_active:
        taken.append(solver.step()[0].numpy().copy())
    return taken


def copied(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: values.copy() for name, values in state.items()}


@pytest.mark.parametrize("kind", ["adam", "lbfgs"])
@pytest.mark.parametrize("before", [1, 2, 9, 20])
def test_a_solver_goes_on_from_a_state_as_if_nothing_had_happened(case: Case, kind: str, before: int) -> None:
    undisturbed = made_solver(kind, case)
    expected = steps(undisturbed, 40)
    first = made_solver(kind, case)
    steps(first, before)
    state = copied(first.state())
    second = made_solver(kind, case)
    second.restore(state)
    rest = steps(second, 40 - before)
    assert np.array_equal(rest, expected[before:], equal_nan=True)
    assert torch.equal(second.weights(), undisturbed.weights())
    assert np.array_equal(second.converged(), undisturbed.converged())


def test_lbfgs_goes_on_after_some_runs_have_left(case: Case) -> None:
    undisturbed = made_solver("lbfgs", case, tolerance=1e-3)
    expected = steps(undisturbed, 500)
    assert undisturbed.n_active == 0
    first = made_solver("lbfgs", case, tolerance=1e-3)
    n_before = 0
    while not first.converged().any():
        first.step()
        n_before += 1
    assert first.n_active
    state = copied(first.state())
    second = made_solver("lbfgs", case, tolerance=1e-3)
    second.restore(state)
    rest = steps(second, 500)
    assert np.array_equal(rest, expected[n_before:], equal_nan=True)
    assert torch.equal(second.weights(), undisturbed.weights())
    assert second.converged().all()
    done = made_solver("lbfgs", case, tolerance=1e-3)
    done.restore(copied(second.state()))
    assert done.n_active == 0
    assert torch.equal(done.weights(), undisturbed.weights())


def test_a_run_whose_step_was_just_refused_has_not_converged(case: Case) -> None:
    """Its objective has not fallen because a shorter step is still to be tried."""
    solver = made_solver("lbfgs", case)
    assert isinstance(solver, LBFGS)
    steps(solver, 3)
    solver.recent[:] = solver.value[:, None]
    solver.refusals[:] = [1, 0, 1, 0, 1]
    solver._leave()
    assert solver.converged().tolist() == [False, True, False, True, False]


def test_an_unknown_solver_is_refused(case: Case) -> None:
    features, labels, start = case
    with pytest.raises(InputError, match="solver must be one of lbfgs, adam; got 'newton'"):
        optimise(features, [Run(start, PARTITION)], labels=labels, solver="newton")  # type: ignore[arg-type]  # on purpose


def test_a_start_that_cannot_be_judged_is_refused(case: Case) -> None:
    features, labels, start = case
    endless = start.copy()
    endless[0, 0] = np.nan
    with pytest.raises(InputError, match="the objective is not finite at the start"):
        optimise(features, [Run(endless, PARTITION)], labels=labels, solver="lbfgs", max_iter=5)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_number_of_threads_changes_no_bit(solver: SolverName) -> None:
    features, labels, start = made_case(n=1100, width=64, categories=12)
    runs = runs_of_all_sorts(start, labels)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(optimise(features, runs, labels=labels, solver=solver, max_iter=6))
            with working_together(SMALL_WORK + 1):
                results.append(optimise(features, runs, labels=labels, solver=solver, max_iter=6))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert np.array_equal(results[0].values, other.values, equal_nan=True)
        for one, two in zip(results[0].partitioners, other.partitioners, strict=True):
            assert np.array_equal(one.weights, two.weights)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_order_of_the_samples_hardly_matters(solver: SolverName) -> None:
    features, labels, start = made_case(n=2000, width=16, categories=6)
    order = np.random.default_rng(3).permutation(2000)
    run = Run(start, PARTITION.at(0.3))
    one = optimise(features, [run], labels=labels, solver=solver, max_iter=20)
    other = optimise(features[torch.from_numpy(order)], [run], labels=labels[order], solver=solver, max_iter=20)
    differ = one.partitioners[0].assign(features) != other.partitioners[0].assign(features)
    assert differ.sum() <= 4


def test_a_start_at_zero_is_left() -> None:
    """Where the weights are zero their size says nothing of how far to go."""
    rng = np.random.default_rng(0)
    features = torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(90, 5))).float(), dim=1)
    labels = np.where(np.arange(90) % 2 == 0, np.arange(90) % 3, -1)
    trained = optimise(
        features, [Run(np.zeros((3, 5), dtype=np.float32), PARTITION)], labels=labels, solver="lbfgs"
    )
    assert trained.curve(0)[-1] < trained.curve(0)[0] - 0.1
