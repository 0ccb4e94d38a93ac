"""What PIM, RIM and TIM minimise, from the definition of their losses."""

import numpy as np
import pytest
import torch

from newkinds import PIM, RIM, TIM
from newkinds.objective import Objective, objective_value

N, WIDTH, K = 40, 5, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, WIDTH))
LABELS = np.where(np.arange(N) < 12, np.arange(N) % 2, -1)
START = RNG.normal(size=(K, WIDTH)).astype(np.float32)


def log_probabilities(logits: np.ndarray) -> torch.Tensor:
    return torch.log_softmax(torch.from_numpy(logits), dim=1)


def linear(features: np.ndarray, weights: np.ndarray, temperature: float) -> torch.Tensor:
    return log_probabilities(temperature * features @ weights.T)


def euclidean(features: np.ndarray, weights: np.ndarray, temperature: float) -> torch.Tensor:
    return log_probabilities(-temperature / 2 * ((features[:, None] - weights) ** 2).sum(-1))


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
@pytest.mark.parametrize(
    ("method", "marginal", "model"),
    [(PIM, "all", linear), (RIM, "unlabelled", linear), (TIM, "unlabelled", euclidean)],
)
def test_the_first_value_is_that_of_the_loss_at_the_start(method, marginal, model, solver) -> None:
    fitted = method(
        K, lam=0.7, temperature=3.0, init=START, solver=solver, max_iter=1, weight_decay=0.0, random_state=0
    ).fit(X, LABELS)
    features = X / np.linalg.norm(X, axis=1, keepdims=True)
    expected = objective_value(
        model(features, START.astype(np.float64), 3.0),
        torch.from_numpy(LABELS),
        Objective(marginal=marginal, entropy="unlabelled", lam=0.7, cross_entropy=1.0),
    )
    assert fitted.objective_curve_[0] == pytest.approx(float(expected), abs=1e-5)
    probabilities = np.exp(model(features, fitted.weights_.astype(np.float64), 3.0).numpy())
    np.testing.assert_allclose(fitted.predict_proba(X), probabilities, atol=1e-6)


def test_rim_and_tim_have_the_papers_fixed_weight() -> None:
    for method in (RIM, TIM):
        assert method(K, init=START, max_iter=1).fit(X, LABELS).lam_ == 1.0
