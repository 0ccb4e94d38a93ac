"""The GPU's own evaluation and Adam against the plain ones; only where there is an NVIDIA GPU, and Triton."""

from typing import Any

import numpy as np
import pytest
import torch

from newkinds.engine import Run, Samples, optimise
from newkinds.engine.evaluation import Batch, BlockEvaluator
from newkinds.engine.solvers import Adam
from newkinds.objective import PARTITION, RIM, SELECTION

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

Case = tuple[Samples, np.ndarray, np.ndarray]


@pytest.fixture
def fused() -> Any:
    pytest.importorskip("triton", reason="the kernels need Triton")
    from newkinds.engine import fused

    return fused


def made_case(n: int = 5000, width: int = 90, categories: int = 21) -> Case:
    """Sizes of which none is a multiple of what the kernels work on at a time."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, categories, n)
    features = rng.normal(size=(categories, width))[truth] + 0.9 * rng.normal(size=(n, width))
    labels = np.where((truth < 6) & (rng.random(n) < 0.4), truth, -1)
    start = rng.normal(size=(categories, width)).astype(np.float32)
    start /= np.linalg.norm(start, axis=1, keepdims=True)
    return Samples(features.astype(np.float32), torch.device("cuda")), labels, start


def runs_of(kind: str, start: np.ndarray, labels: np.ndarray) -> list[Run]:
    hidden = np.where(np.arange(len(labels)) % 3 == 0, -1, labels)
    linear = [Run(start, PARTITION.at(0.1)), Run(start[::-1].copy(), SELECTION.at(0.5), temperature=10.0)]
    euclidean = [
        Run(start, RIM, temperature=12.0, geometry="euclidean"),
        Run(2 * start, PARTITION.at(0.4), temperature=8.0, geometry="euclidean"),
    ]
    return {
        "linear": linear,
        "euclidean": euclidean,
        "padded": [*linear, Run(start[:9], PARTITION.at(0.7)), Run(start[:6], RIM.at(0.2))],
        "own labels": [*linear, Run(start, RIM.at(0.2), temperature=5.0, labels=hidden)],
        "shares": [*linear, Run(start[:9], PARTITION.at(0.3), shares=np.arange(1.0, 10.0))],
        "unlabelled": [Run(start, SELECTION, labels=np.full(len(labels), -1))],
        "all sorts": [*linear, *euclidean, Run(start[:8], RIM.at(0.2), temperature=5.0, labels=hidden)],
    }[kind]


KINDS = ["linear", "euclidean", "padded", "own labels", "shares", "unlabelled", "all sorts"]


def apart(one: torch.Tensor, other: torch.Tensor) -> np.ndarray:
    """Relative distance of each run's gradient or weights."""
    distance = (one - other).double().flatten(1).norm(dim=1)
    return (distance / other.double().flatten(1).norm(dim=1)).cpu().numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_fused_objectives_and_gradients_are_the_plain_ones(fused: Any, kind: str) -> None:
    samples, labels, start = made_case()
    runs = runs_of(kind, start, labels)
    batch = Batch.of(samples, runs, labels)
    assert fused.fits(samples, batch)
    values, gradients = fused.FusedEvaluator(samples, batch)(batch.start)
    plain_values, plain_gradients = BlockEvaluator(samples, batch)(batch.start)
    assert values.shape == plain_values.shape == (len(runs),)
    assert gradients.shape == plain_gradients.shape == batch.start.shape
    torch.testing.assert_close(values, plain_values, rtol=1e-3, atol=5e-4)
    assert apart(gradients, plain_gradients).max() < 3e-3
    for r, run in enumerate(runs):
        assert not gradients[r, len(run.start) :].any()  # categories that a run does not have stay where they are


@pytest.mark.parametrize(("n", "width", "categories"), [(37, 8, 6), (3000, 64, 200), (700, 33, 1100)])
def test_fused_gradients_are_the_plain_ones_for_other_sizes(
    fused: Any, n: int, width: int, categories: int
) -> None:
    samples, labels, start = made_case(n, width, categories)
    batch = Batch.of(samples, runs_of("all sorts", start, labels), labels)
    values, gradients = fused.FusedEvaluator(samples, batch)(batch.start)
    plain_values, plain_gradients = BlockEvaluator(samples, batch)(batch.start)
    torch.testing.assert_close(values, plain_values, rtol=1e-3, atol=5e-4)
    assert apart(gradients, plain_gradients).max() < 3e-3


@pytest.mark.parametrize("kind", ["linear", "own labels", "all sorts"])
def test_logits_made_in_parts_give_the_same(fused: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where those of all samples take more memory than there is: eight parts, of which the last is shorter."""
    samples, labels, start = made_case()
    batch = Batch.of(samples, runs_of(kind, start, labels), labels)
    values, gradients = fused.FusedEvaluator(samples, batch)(batch.start)
    monkeypatch.setattr(fused, "LOGITS_BYTES", 2 * len(batch) * 24 * 701)  # 21 categories are padded to 24
    evaluate = fused.FusedEvaluator(samples, batch)
    assert len(evaluate.logits) == 701
    some_values, some_gradients = evaluate(batch.start)
    torch.testing.assert_close(some_values, values, rtol=1e-5, atol=1e-5)
    assert apart(some_gradients, gradients).max() < 1e-4
    first, second = (
        fused.FusedAdam(fused.FusedEvaluator(samples, batch), batch.start, 1e-3, 0.01) for _ in range(2)
    )
    assert torch.equal(steps(first, 30), steps(second, 30))


@pytest.mark.parametrize("kind", KINDS)
def test_a_fused_evaluation_repeats_to_the_last_bit(fused: Any, kind: str) -> None:
    samples, labels, start = made_case()
    batch = Batch.of(samples, runs_of(kind, start, labels), labels)
    evaluate = fused.FusedEvaluator(samples, batch)
    values, gradients = (found.clone() for found in evaluate(batch.start))
    evaluate(batch.start + 0.1)
    for again in (evaluate, fused.FusedEvaluator(samples, batch)):
        same_values, same_gradients = again(batch.start)
        assert torch.equal(same_values, values)
        assert torch.equal(same_gradients, gradients)


def test_a_fused_evaluation_of_some_runs_is_that_of_all(fused: Any) -> None:
    samples, labels, start = made_case()
    batch = Batch.of(samples, runs_of("all sorts", start, labels), labels)
    evaluate = fused.FusedEvaluator(samples, batch)
    values, gradients = (found.clone() for found in evaluate(batch.start))
    rows = torch.tensor([0, 3, 4], device="cuda")
    some_values, some_gradients = evaluate.select(rows)(batch.start[rows])
    torch.testing.assert_close(some_values, values[rows], rtol=1e-4, atol=1e-5)
    assert apart(some_gradients, gradients[rows]).max() < 1e-3


def steps(solver: Any, count: int) -> torch.Tensor:
    """So many epochs, however many the solver does in one go."""
    values: list[torch.Tensor] = []
    while (done := sum(len(part) for part in values)) < count:
        values.append(solver.step(count - done).cpu())
    return torch.cat(values)


@pytest.mark.parametrize("kind", KINDS)
def test_fused_adam_moves_as_the_plain_one(fused: Any, kind: str) -> None:
    """Thirty epochs: twenty of them recorded and replayed, ten one by one."""
    samples, labels, start = made_case()
    batch = Batch.of(samples, runs_of(kind, start, labels), labels)
    ours = fused.FusedAdam(fused.FusedEvaluator(samples, batch), batch.start, 1e-3, 0.01)
    plain = Adam(BlockEvaluator(samples, batch), batch.start, 1e-3, 0.01)
    values, plain_values = steps(ours, 30), steps(plain, 30)
    assert values.shape == (30, len(batch))
    torch.testing.assert_close(values, plain_values, rtol=1e-3, atol=1e-3)
    # Adam makes every gradient as large as every other: where labels give no direction, rounding shows more.
    tolerance = 5e-2 if kind == "unlabelled" else 1e-2
    assert apart(ours.weights() - batch.start, plain.weights() - batch.start).max() < tolerance
    assert torch.equal(batch.start, Batch.of(samples, runs_of(kind, start, labels), labels).start)


@pytest.mark.parametrize("kind", ["linear", "all sorts"])
def test_fused_adam_repeats_and_goes_on_to_the_last_bit(fused: Any, kind: str) -> None:
    samples, labels, start = made_case()
    batch = Batch.of(samples, runs_of(kind, start, labels), labels)

    def made_solver() -> Any:
        return fused.FusedAdam(fused.FusedEvaluator(samples, batch), batch.start, 1e-3, 0.01)

    undisturbed, again, first, second = (made_solver() for _ in range(4))
    expected = steps(undisturbed, 60)
    assert torch.equal(steps(again, 60), expected)
    assert torch.equal(again.weights(), undisturbed.weights())
    steps(first, 27)
    second.restore({name: values.copy() for name, values in first.state().items()})
    assert torch.equal(steps(second, 33), expected[27:])
    assert torch.equal(second.weights(), undisturbed.weights())


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_a_training_on_the_gpu_ends_where_one_on_the_cpu_does(fused: Any, solver: str) -> None:
    samples, labels, start = made_case()
    runs = runs_of("all sorts", start, labels)
    on_cpu = Samples(samples.read(samples.own).cpu())
    settings: dict[str, Any] = {"labels": labels, "solver": solver, "max_iter": 60, "learning_rate": 1e-2}
    ours, theirs = (optimise(some, runs, **settings) for some in (samples, on_cpu))
    for r in range(len(runs)):
        assert ours.partitioners[r].weights.shape == theirs.partitioners[r].weights.shape
        assert np.nanmin(ours.curve(r)) == pytest.approx(np.nanmin(theirs.curve(r)), rel=1e-2, abs=1e-2)
