"""The closed-form gradient against autograd and finite differences, and the objectives against their formulas."""

from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from newkinds.objective import (
    ABLATION,
    CONSTRAINED_MUTUAL_INFORMATION,
    PARTITION,
    RIM,
    SELECTION,
    SELECTION_RELEASED,
    TIM_PUBLISHED,
    Objective,
    RunWeights,
    Subset,
    log_marginal,
    marginal,
    objective_value,
    value_and_gradient,
)

OBJECTIVES = {
    "PIM": PARTITION.at(0.3),
    "G": SELECTION.at(0.7),
    "G released": SELECTION_RELEASED.at(0.7),
    "RIM": RIM,
    "TIM published": TIM_PUBLISHED,
    "CMI": CONSTRAINED_MUTUAL_INFORMATION,
    **{f"ablation {i}": row.at(0.4) for i, row in enumerate(ABLATION, start=1)},
}


def random_case(seed: int, n: int = 14, k: int = 5, labelled: float = 0.4) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    logits = torch.from_numpy(3 * rng.normal(size=(n, k)))
    labels = np.where(rng.permutation(n) < labelled * n, rng.integers(0, k - 1, n), -1)
    return logits, torch.from_numpy(labels)


def closed_form(
    logits: torch.Tensor, labels: torch.Tensor, objective: Objective
) -> tuple[torch.Tensor, torch.Tensor]:
    """Value and gradient of one run, from samples × categories back to samples × categories."""
    log_p = torch.log_softmax(logits, dim=1).T[None]
    n_labelled = int((labels >= 0).sum())
    weights = RunWeights.stack([objective.weights(n_labelled, len(labels) - n_labelled)], like=log_p)
    log_pi = log_marginal(marginal(log_p.exp(), labels[None], weights))
    value, gradient = value_and_gradient(log_p, log_pi, labels[None], weights)
    return value[0], gradient[0].T


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("labelled", [0.0, 0.4, 1.0])
def test_closed_form_equals_autograd(name: str, labelled: float) -> None:
    logits, labels = random_case(3, labelled=labelled)
    logits.requires_grad_()
    value = objective_value(torch.log_softmax(logits, dim=1), labels, OBJECTIVES[name])
    expected = torch.zeros_like(logits)
    if value.requires_grad:  # no term is left where, say, only unlabelled samples count and there are none
        (expected,) = torch.autograd.grad(value, logits)
    ours, gradient = closed_form(logits.detach(), labels, OBJECTIVES[name])
    torch.testing.assert_close(ours, value.detach(), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    lam=st.floats(0, 2),
    cross_entropy=st.floats(0, 2),
    marginal_over=st.sampled_from(["all", "unlabelled", "none"]),
    entropy_over=st.sampled_from(["all", "unlabelled", "none"]),
    denominator=st.sampled_from(["subset", "all"]),
)
def test_closed_form_equals_finite_differences(
    seed: int,
    lam: float,
    cross_entropy: float,
    marginal_over: Subset,
    entropy_over: Subset,
    denominator: Literal["subset", "all"],
) -> None:
    objective = Objective(marginal_over, entropy_over, lam, cross_entropy, denominator)
    logits, labels = random_case(seed, n=6, k=4)
    _, gradient = closed_form(logits, labels, objective)
    direction = torch.from_numpy(np.random.default_rng(seed + 1).normal(size=logits.shape))
    step = 1e-5
    ahead, _ = closed_form(logits + step * direction, labels, objective)
    behind, _ = closed_form(logits - step * direction, labels, objective)
    slope = (ahead - behind) / (2 * step)
    torch.testing.assert_close((gradient * direction).sum(), slope, rtol=1e-5, atol=1e-8)


def test_partition_objective_is_the_papers_formula() -> None:
    logits, labels = random_case(0)
    p = torch.softmax(logits, dim=1).numpy()
    known = labels.numpy() >= 0
    pi = p.mean(axis=0)
    cross_entropy = -np.log(p[known, labels.numpy()[known]]).mean()
    entropy = -(p[~known] * np.log(p[~known])).sum(axis=1).mean()
    expected = (pi * np.log(pi)).sum() + cross_entropy + 0.3 * entropy
    value, _ = closed_form(logits, labels, PARTITION.at(0.3))
    assert value.item() == pytest.approx(expected, rel=1e-12)


def test_constrained_mutual_information_divides_by_all_samples() -> None:
    logits, labels = random_case(1)
    p = torch.softmax(logits, dim=1).numpy()
    known = labels.numpy() >= 0
    pi = p.mean(axis=0)
    labelled = -np.log(p[known, labels.numpy()[known]]).sum()
    unlabelled = -(p[~known] * np.log(p[~known])).sum()
    value, _ = closed_form(logits, labels, CONSTRAINED_MUTUAL_INFORMATION)
    assert value.item() == pytest.approx((pi * np.log(pi)).sum() + (labelled + unlabelled) / len(p), rel=1e-12)


def test_the_six_rows_of_the_ablation() -> None:
    """Without labels: no cross-entropy, and the entropy of all samples. With labels: that of the unlabelled."""
    terms = [(row.marginal, row.entropy, row.cross_entropy, row.denominator) for row in ABLATION]
    assert terms == [
        ("none", "all", 0.0, "subset"),
        ("none", "unlabelled", 1.0, "subset"),
        ("unlabelled", "all", 0.0, "subset"),
        ("all", "all", 0.0, "subset"),
        ("unlabelled", "unlabelled", 1.0, "subset"),
        ("all", "unlabelled", 1.0, "subset"),
    ]
    assert ABLATION[3] == SELECTION
    assert ABLATION[4] == RIM
    assert ABLATION[5] == PARTITION


def test_the_named_objectives_differ_in_what_their_papers_say() -> None:
    assert Objective("all", "unlabelled", 1.0, 0.0) == SELECTION_RELEASED
    assert Objective("unlabelled", "unlabelled", 0.1, 0.1) == TIM_PUBLISHED
    assert Objective("all", "unlabelled", 1.0, 1.0, "all") == CONSTRAINED_MUTUAL_INFORMATION
    assert PARTITION.at(0.25) == Objective("all", "unlabelled", 0.25, 1.0)


def test_what_a_sample_counts_in_each_term() -> None:
    """Two labelled samples and six unlabelled ones."""
    weights = Objective("all", "unlabelled", lam=0.5, cross_entropy=3.0).weights(2, 6)
    assert weights.marginal == pytest.approx((1 / 8, 1 / 8))
    assert weights.entropy == pytest.approx((0, 0.5 / 6))
    assert weights.cross_entropy == pytest.approx((3 / 2, 0))
    over_all = Objective("unlabelled", "all", lam=0.5, cross_entropy=3.0, denominator="all").weights(2, 6)
    assert over_all.marginal == pytest.approx((0, 1 / 6))
    assert over_all.entropy == pytest.approx((0.5 / 8, 0.5 / 8))
    assert over_all.cross_entropy == pytest.approx((3 / 8, 0))
    nothing = Objective("none", "none").weights(2, 6)
    assert nothing.marginal == nothing.entropy == (0, 0)
    assert Objective("unlabelled", "unlabelled").weights(2, 0).entropy == (0, 0)
    assert Objective().weights(0, 6).cross_entropy == (0, 0)


def test_blocks_of_samples_add_up() -> None:
    logits, labels = random_case(5)
    log_p = torch.log_softmax(logits, dim=1).T[None]
    n_labelled = int((labels >= 0).sum())
    weights = RunWeights.stack([PARTITION.at(0.2).weights(n_labelled, len(labels) - n_labelled)], like=log_p)
    pieces = [slice(0, 5), slice(5, 14)]
    shares = [marginal(log_p[..., rows].exp(), labels[None, rows], weights) for rows in pieces]
    log_pi = log_marginal(torch.stack(shares).sum(0))
    parts = [value_and_gradient(log_p[..., rows], log_pi, labels[None, rows], weights) for rows in pieces]
    value, gradient = closed_form(logits, labels, PARTITION.at(0.2))
    torch.testing.assert_close(torch.stack([part for part, _ in parts]).sum(0)[0], value)
    torch.testing.assert_close(torch.cat([part for _, part in parts], dim=-1)[0].T, gradient)


def test_runs_with_different_objectives_are_judged_at_once_as_each_alone() -> None:
    logits, labels = random_case(7)
    objectives = [PARTITION.at(0.2), RIM, SELECTION, Objective(denominator="all", cross_entropy=0.5)]
    n_labelled = int((labels >= 0).sum())
    log_p = torch.log_softmax(logits, dim=1).T.repeat(len(objectives), 1, 1)
    weights = RunWeights.stack(
        [objective.weights(n_labelled, len(labels) - n_labelled) for objective in objectives], like=log_p
    )
    alone = [closed_form(logits, labels, objective) for objective in objectives]

    def check(runs: slice) -> None:
        chosen = weights.select(runs)
        log_pi = log_marginal(marginal(log_p[runs].exp(), labels[None], chosen))
        values, gradients = value_and_gradient(log_p[runs], log_pi, labels[None], chosen)
        torch.testing.assert_close(values, torch.stack([value for value, _ in alone[runs]]))
        torch.testing.assert_close(gradients.mT, torch.stack([gradient for _, gradient in alone[runs]]))

    check(slice(None))
    check(slice(1, 4))
    check(slice(3, 4))


def test_the_gradient_goes_where_it_is_asked_to() -> None:
    logits, labels = random_case(8)
    log_p = torch.log_softmax(logits, dim=1).T[None]
    weights = RunWeights.stack([PARTITION.weights(5, 9)], like=log_p)
    log_pi = log_marginal(marginal(log_p.exp(), labels[None], weights))
    expected = value_and_gradient(log_p, log_pi, labels[None], weights)
    place, scratch = torch.empty_like(log_p), torch.empty_like(log_p)
    value, gradient = value_and_gradient(log_p, log_pi, labels[None], weights, out=place, scratch=scratch)
    assert gradient.data_ptr() == place.data_ptr()
    torch.testing.assert_close((value, place), expected)
    torch.testing.assert_close(scratch, log_p.exp())
    own_place = log_p.clone()
    torch.testing.assert_close(
        value_and_gradient(own_place, log_pi, labels[None], weights, out=own_place, scratch=scratch), expected
    )


def test_only_an_abandoned_category_has_its_logarithm_cut_off() -> None:
    pi = torch.tensor([1.0, 1e-6, 1e-20, 0.0])
    torch.testing.assert_close(log_marginal(pi)[:3], pi[:3].log())
    assert torch.isfinite(log_marginal(pi)[3])


def test_an_abandoned_category_gives_finite_numbers() -> None:
    logits = torch.tensor([[50.0, 0.0, -1e4], [40.0, 0.0, -1e4]])
    value, gradient = closed_form(logits, torch.tensor([-1, -1]), PARTITION.at(0.5))
    assert torch.isfinite(value)
    assert torch.isfinite(gradient).all()
    assert (gradient[:, 2] == 0).all()
