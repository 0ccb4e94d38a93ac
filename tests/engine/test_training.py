"""Batched training against a plain autograd loop, one run at a time."""

import threading

import numpy as np
import pytest
import torch

from newkinds import InputError
from newkinds.engine import Partitioner, Run, evaluation, optimise, training
from newkinds.engine import partitioner as partitioner_module
from newkinds.names import Geometry
from newkinds.objective import PARTITION, RIM, SELECTION, objective_value


@pytest.fixture
def case() -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    features = torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(60, 7))).float(), dim=1)
    labels = np.where(rng.random(60) < 0.4, rng.integers(0, 2, 60), -1)
    start = rng.normal(size=(4, 7)).astype(np.float32)
    return features, labels, start


def plain_loop(features: torch.Tensor, labels: np.ndarray, run: Run, epochs: int) -> np.ndarray:
    weights = torch.from_numpy(run.start.copy()).requires_grad_()
    optimiser = torch.optim.Adam([weights], lr=1e-2, weight_decay=0.01)
    for _ in range(epochs):
        optimiser.zero_grad()
        if run.geometry == "euclidean":
            logits = -run.temperature / 2 * torch.cdist(features, weights).square()
        else:
            logits = run.temperature * features @ weights.T
        log_p, log_shares = torch.log_softmax(logits, dim=1), torch.from_numpy(run.log_shares)
        objective_value(log_p, torch.from_numpy(labels), run.objective, log_shares).backward()
        optimiser.step()
    return weights.detach().numpy()


def runs_of_all_sorts(start: np.ndarray, labels: np.ndarray) -> list[Run]:
    hidden = np.where(np.arange(len(labels)) % 3 == 0, -1, labels)
    return [
        Run(start, PARTITION.at(0.1)),
        Run(start[:3], PARTITION.at(0.7), temperature=10.0),
        Run(start, SELECTION.at(0.5)),
        Run(start[:2], RIM, geometry="euclidean"),
        Run(start + np.float32(0.1), RIM.at(0.2), temperature=5.0, labels=hidden),
        Run(start[:3], PARTITION.at(0.3), shares=np.array([0.1, 0.6, 0.3])),
    ]


@pytest.mark.parametrize("padded", [False, True])
def test_each_run_of_a_batch_equals_the_plain_loop(
    case: tuple[torch.Tensor, np.ndarray, np.ndarray], padded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, labels, start = case
    if padded:  # as on a GPU
        monkeypatch.setattr(training, "_batches", lambda runs, at_once, device: [list(range(len(runs)))])
    runs = runs_of_all_sorts(start, labels)
    trained = optimise(features, runs, labels=labels, max_iter=30, learning_rate=1e-2)
    for run, partitioner in zip(runs, trained.partitioners, strict=True):
        own = labels if run.labels is None else run.labels
        expected = plain_loop(features, own, run, 30)
        assert partitioner.weights.shape == run.start.shape
        np.testing.assert_allclose(partitioner.weights, expected, rtol=2e-3, atol=2e-3)
    assert trained.values.shape == (30, len(runs))
    assert (trained.values[-1] < trained.values[0]).all()


def test_runs_of_different_sizes_are_padded_on_a_gpu_only() -> None:
    runs = [Run(np.zeros((n, 3), dtype=np.float32), PARTITION) for n in (4, 3, 4, 4, 3)]
    assert training._batches(runs, 2, "cpu") == [[0, 2], [3], [1, 4]]
    assert training._batches(runs, 4, "cuda") == [[0, 1, 2, 3], [4]]


@pytest.mark.parametrize(("block", "kept"), [(64, 1 << 26), (64, 0), (1 << 18, 0)])
def test_blocks_and_memory_do_not_change_the_result(
    case: tuple[torch.Tensor, np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch, block: int, kept: int
) -> None:
    features, labels, start = case
    runs = runs_of_all_sorts(start, labels)
    expected = optimise(features, runs, labels=labels, max_iter=10)
    monkeypatch.setitem(partitioner_module.BLOCK_ELEMENTS, "cpu", block)
    monkeypatch.setitem(evaluation.KEPT_ELEMENTS, "cpu", kept)
    blocked = optimise(features, runs, labels=labels, max_iter=10)
    for one, other in zip(expected.partitioners, blocked.partitioners, strict=True):
        np.testing.assert_allclose(one.weights, other.weights, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(expected.values, blocked.values, rtol=1e-4)


def test_starts_and_features_are_left_as_they_were(case: tuple[torch.Tensor, np.ndarray, np.ndarray]) -> None:
    features, labels, start = case
    before = features.clone(), start.copy()
    optimise(features, [Run(start, PARTITION)], labels=labels, max_iter=5)
    assert torch.equal(features, before[0])
    assert np.array_equal(start, before[1])


def test_a_label_without_a_category_is_refused(case: tuple[torch.Tensor, np.ndarray, np.ndarray]) -> None:
    features, labels, start = case
    with pytest.raises(InputError, match="one of 4 categories for each of 60 samples; got 60 labels up to 9"):
        optimise(features, [Run(start, PARTITION)], labels=np.where(labels == 1, 9, labels), max_iter=1)


def test_a_start_of_the_wrong_width_is_refused(case: tuple[torch.Tensor, np.ndarray, np.ndarray]) -> None:
    features, labels, start = case
    with pytest.raises(InputError, match="the start has 3 features a category, the samples 7"):
        optimise(features, [Run(start[:, :3], PARTITION)], labels=labels, max_iter=1)


def test_training_leaves_the_number_of_threads_alone(case: tuple[torch.Tensor, np.ndarray, np.ndarray]) -> None:
    features, labels, start = case
    before = torch.get_num_threads()
    optimise(features, runs_of_all_sorts(start, labels), labels=labels, max_iter=2)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert seen == [before]
    assert torch.get_num_threads() == before


def test_a_training_that_diverges_says_so(case: tuple[torch.Tensor, np.ndarray, np.ndarray]) -> None:
    features, labels, start = case
    with pytest.raises(InputError, match="the training diverged; choose a smaller learning_rate"):
        optimise(features, [Run(start, PARTITION)], labels=labels, max_iter=5, learning_rate=1e38)


@pytest.mark.parametrize("geometry", ["linear", "euclidean"])
def test_probabilities_are_the_softmax_of_the_logits(geometry: Geometry) -> None:
    rng = np.random.default_rng(1)
    features, weights = rng.normal(size=(9, 4)), rng.normal(size=(3, 4)).astype(np.float32)
    ours = np.exp(Partitioner(weights, 7.0, geometry).log_probabilities(features))
    if geometry == "linear":
        logits = 7.0 * features @ weights.T
    else:
        logits = -3.5 * ((features[:, None] - weights[None]) ** 2).sum(-1)
    expected = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(ours, expected / expected.sum(axis=1, keepdims=True), rtol=1e-9, atol=1e-20)


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_runs_that_are_trained_one_after_the_other_keep_their_curves(case, monkeypatch, solver) -> None:
    features, labels, start = case
    runs = [Run(start, PARTITION.at(lam)) for lam in (0.1, 0.5, 0.9)]
    together = optimise(features, runs, labels=labels, solver=solver, max_iter=12)
    monkeypatch.setitem(training.STATE_BYTES, "cpu", 1)
    apart = optimise(features, runs, labels=labels, solver=solver, max_iter=12)
    for run in range(3):
        np.testing.assert_allclose(apart.curve(run), together.curve(run), rtol=1e-5)
    assert len({float(together.curve(run)[0]) for run in range(3)}) == 3
