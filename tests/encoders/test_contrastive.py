"""GCD's losses against formulas written out sample by sample."""

import math
from copy import deepcopy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from newkinds.encoders.contrastive import ProjectionHead, info_nce, supervised_contrastive


def unit_views(n: int, width: int, seed: int) -> torch.Tensor:
    return functional.normalize(torch.randn(2, n, width, generator=torch.Generator().manual_seed(seed)), dim=-1)


def direct_info_nce(views: torch.Tensor, temperature: float) -> float:
    _, n, _ = views.shape
    flat = [views[v, i] for v in range(2) for i in range(n)]
    losses = []
    for a, anchor in enumerate(flat):
        others = [b for b in range(2 * n) if b != a]
        similar = {b: math.exp(float(anchor @ flat[b]) / temperature) for b in others}
        losses.append(-math.log(similar[(a + n) % (2 * n)] / sum(similar.values())))
    return float(np.mean(losses))


def direct_supervised(views: torch.Tensor, labels: list[int], temperature: float) -> float:
    samples = [(views[v, i], label) for v in range(2) for i, label in enumerate(labels) if label >= 0]
    losses = []
    for a, (anchor, own) in enumerate(samples):
        similar = {
            b: math.exp(float(anchor @ other) / temperature) for b, (other, _) in enumerate(samples) if b != a
        }
        positives = [b for b in similar if samples[b][1] == own]
        logs = [math.log(similar[b] / sum(similar.values())) for b in positives]
        losses.append(-sum(logs) / len(positives))
    return float(np.mean(losses))


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 7), st.integers(2, 9), st.integers(0, 10**6), st.sampled_from([0.07, 0.5, 1.0]))
def test_info_nce_is_the_formula(n: int, width: int, seed: int, temperature: float) -> None:
    views = unit_views(n, width, seed)
    assert float(info_nce(views, temperature)) == pytest.approx(direct_info_nce(views, temperature), rel=1e-4)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(-1, 3), min_size=1, max_size=8), st.integers(0, 10**6), st.sampled_from([0.07, 1.0]))
def test_the_supervised_loss_is_the_formula(labels: list[int], seed: int, temperature: float) -> None:
    views = unit_views(len(labels), 5, seed)
    found = float(supervised_contrastive(views, torch.tensor(labels), temperature))
    if max(labels) < 0:
        assert found == 0
    else:
        assert found == pytest.approx(direct_supervised(views, labels, temperature), rel=1e-4, abs=1e-5)


def test_unlabelled_samples_take_no_part_in_the_supervised_loss() -> None:
    views = unit_views(6, 4, 0).requires_grad_()
    labels = torch.tensor([0, 0, 1, -1, -1, 1])
    supervised_contrastive(views, labels, 0.07).backward()
    assert views.grad is not None
    assert (views.grad[:, labels < 0] == 0).all()
    assert (views.grad[:, labels >= 0] != 0).any()


def test_without_labels_the_supervised_loss_is_zero_and_has_a_gradient_of_zero() -> None:
    views = unit_views(3, 4, 0).requires_grad_()
    loss = supervised_contrastive(views, torch.full((3,), -1), 0.07)
    loss.backward()
    assert loss == 0
    assert views.grad is not None
    assert (views.grad == 0).all()


def test_views_that_agree_have_the_smaller_loss() -> None:
    one = functional.normalize(torch.eye(4), dim=-1)
    agreeing, crossed = torch.stack([one, one]), torch.stack([one, one.roll(1, 0)])
    assert info_nce(agreeing, 0.1) < info_nce(crossed, 0.1)
    labels = torch.tensor([0, 1, 2, 3])
    assert supervised_contrastive(agreeing, labels, 0.1) < supervised_contrastive(crossed, labels, 0.1)


def test_projections_have_unit_length_whatever_the_size_of_the_prototypes() -> None:
    head = ProjectionHead(6, hidden=16, bottleneck=8, outputs=32)
    features = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    found = head(features)
    assert found.shape == (5, 32)
    torch.testing.assert_close(found.norm(dim=1), torch.ones(5))
    assert head.prototypes is not None
    with torch.no_grad():
        head.prototypes.mul_(7)
    torch.testing.assert_close(head(features), found)


def test_without_outputs_the_bottleneck_is_projected_to() -> None:
    head = ProjectionHead(6, hidden=16, bottleneck=8, outputs=None)
    found = head(torch.randn(5, 6, generator=torch.Generator().manual_seed(0)))
    assert found.shape == (5, 8)
    torch.testing.assert_close(found.norm(dim=1), torch.ones(5))


def test_prototypes_begin_as_the_rows_of_a_linear_layer_and_turn_as_fast() -> None:
    """GCD's last layer is a linear one with weight norm: a step turns it by the gradient, divided by its length."""
    torch.manual_seed(0)
    head = ProjectionHead(16, hidden=32, outputs=500)
    assert head.prototypes is not None
    lengths = head.prototypes.norm(dim=1)
    assert lengths.mean().item() == pytest.approx(1 / math.sqrt(3), rel=0.02)
    features = functional.normalize(torch.randn(2 * 40, 16), dim=-1)

    def turned(scale: float, steps: int = 20) -> float:
        own = deepcopy(head)
        assert own.prototypes is not None
        with torch.no_grad():
            own.prototypes.mul_(scale)
        before = functional.normalize(own.prototypes.detach(), dim=1).clone()
        optimiser = torch.optim.SGD([own.prototypes], lr=0.01)
        for _ in range(steps):
            optimiser.zero_grad()
            info_nce(own(features).unflatten(0, (2, -1)), 0.1).backward()
            optimiser.step()
        return float((functional.normalize(own.prototypes.detach(), dim=1) - before).norm(dim=1).mean())

    as_rows_of_normal_numbers = 16 / (1 / math.sqrt(3))
    assert turned(1.0) == pytest.approx(turned(as_rows_of_normal_numbers) * as_rows_of_normal_numbers**2, rel=0.3)
