"""What a soft partition is judged by, and the gradient of that judgement in closed form.

An `Objective` says which terms count, over which samples, with which weights. PIM, RIM, TIM, the constrained
mutual information and every row of the paper's loss ablation are values of it. With `p_ik` the probability of
category k for sample i, `pi_k` the marginal over a set S, entropies over a set C, labels on a set L:

    sum_k pi_k log pi_k  +  lam * mean_{i in C} H(p_i)  +  cross_entropy * mean_{i in L} -log p_{i, y_i}

which is minimised. Where categories are expected to have uneven shares, log pi_k is taken relative to them: the
first term is then the divergence of the marginal from the shares, up to a constant.

Everything below works on tensors of shape (runs, categories, samples), so that many partitions of the same samples
are judged at once (samples last: every operation then runs along memory, however few categories there are). The
closed form is checked against autograd and against finite differences in `tests/test_objective.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from newkinds.labels import UNLABELLED

Subset = Literal["all", "unlabelled", "none"]

TINY = 1e-30
"""Least marginal probability inside a logarithm: an abandoned category gives a finite log in float32."""


class SampleWeights(NamedTuple):
    """What one sample counts in each term: (if labelled, if unlabelled)."""

    marginal: tuple[float, float]
    entropy: tuple[float, float]
    cross_entropy: tuple[float, float]


@dataclass(frozen=True)
class Objective:
    """Which terms count, over which samples, with which weights.

    Parameters
    ----------
    marginal : {"all", "unlabelled", "none"}
        Samples whose mean prediction should use the categories evenly; "none" leaves the term out.
    entropy : {"all", "unlabelled", "none"}
        Samples whose predictions should be confident.
    lam : float
        Weight of the conditional entropy.
    cross_entropy : float
        Weight of the labels; 0 ignores them.
    denominator : {"subset", "all"}
        Whether entropy and cross-entropy are means over their own samples, or sums over them divided by the
        number of all samples (the paper's constrained mutual information, which needs no lam).

    Examples
    --------
    >>> Objective(lam=0.5).weights(n_labelled=2, n_unlabelled=4).entropy
    (0.0, 0.125)
    """

    marginal: Subset = "all"
    entropy: Subset = "unlabelled"
    lam: float = 1.0
    cross_entropy: float = 1.0
    denominator: Literal["subset", "all"] = "subset"

    def at(self, lam: float) -> "Objective":
        """The same objective with another weight of the conditional entropy."""
        return replace(self, lam=lam)

    def weights(self, n_labelled: int, n_unlabelled: int) -> SampleWeights:
        """What a labelled and an unlabelled sample count in each term.

        A term over an empty set is left out.
        """
        n = n_labelled + n_unlabelled
        sizes = {"all": n, "unlabelled": n_unlabelled, "none": 0}

        def share(subset: Subset, denominator: int) -> tuple[float, float]:
            weight = 1.0 / denominator if sizes[subset] else 0.0
            return (weight if subset == "all" else 0.0, weight)

        entropy = share(self.entropy, n if self.denominator == "all" else sizes[self.entropy])
        labelled = 1.0 / (n if self.denominator == "all" else n_labelled) if n_labelled else 0.0
        return SampleWeights(
            marginal=share(self.marginal, sizes[self.marginal]),
            entropy=(self.lam * entropy[0], self.lam * entropy[1]),
            cross_entropy=(self.cross_entropy * labelled, 0.0),
        )


PARTITION = Objective()
"""F, with which PIM partitions."""
SELECTION = Objective(entropy="all", cross_entropy=0.0)
"""G, with which the paper chooses lam and the number of categories: the labels take no part."""
SELECTION_RELEASED = Objective(entropy="unlabelled", cross_entropy=0.0)
"""G as the authors' released code has it: conditional entropy over the unlabelled samples only."""
RIM = Objective(marginal="unlabelled")
"""Semi-supervised RIM; the paper gives TIM the same loss."""
TIM_PUBLISHED = Objective(marginal="unlabelled", lam=0.1, cross_entropy=0.1)
"""TIM with the weights of its own publication (which also has temperature 15)."""
CONSTRAINED_MUTUAL_INFORMATION = Objective(denominator="all")
"""The paper's loss before lam enters it."""
ABLATION: tuple[Objective, ...] = (
    Objective(marginal="none", entropy="all", cross_entropy=0.0),
    Objective(marginal="none"),
    Objective(marginal="unlabelled", entropy="all", cross_entropy=0.0),
    SELECTION,
    RIM,
    PARTITION,
)
"""The six rows of the paper's table of loss terms, in its order."""


@dataclass(frozen=True)
class RunWeights:
    """`SampleWeights` of many runs as tensors of shape (runs, 2): if labelled, if unlabelled."""

    marginal: Tensor
    entropy: Tensor
    cross_entropy: Tensor
    same_marginal: bool = False
    """Whether labelled and unlabelled samples count the same in every run's marginal."""

    @classmethod
    def stack(cls, weights: Sequence[SampleWeights], like: Tensor) -> "RunWeights":
        marginal, entropy, cross_entropy = (
            torch.tensor(term, dtype=like.dtype, device=like.device) for term in zip(*weights, strict=True)
        )
        same = all(if_labelled == if_not for if_labelled, if_not in (run.marginal for run in weights))
        return cls(marginal, entropy, cross_entropy, same)

    def select(self, runs: slice | Tensor) -> "RunWeights":
        """Some of the runs."""
        return RunWeights(self.marginal[runs], self.entropy[runs], self.cross_entropy[runs], self.same_marginal)


def per_sample(weight: Tensor, labels: Tensor) -> Tensor:
    """Spread a term's (runs, 2) weights over samples: labels (runs or 1, samples) → (runs, samples)."""
    return torch.where(labels != UNLABELLED, weight[:, :1], weight[:, 1:])


def marginal(p: Tensor, labels: Tensor, weights: RunWeights) -> Tensor:
    """Marginal pi of shape (runs, categories), or a block's share of it: sum_i a_i p_ik."""
    if weights.same_marginal:
        return p.sum(-1) * weights.marginal[:, :1]
    return torch.bmm(p, per_sample(weights.marginal, labels).unsqueeze(-1)).squeeze(-1)


def log_marginal(pi: Tensor) -> Tensor:
    """Logarithm of the marginal that stays finite where a category has been abandoned."""
    return pi.clamp_min(TINY).log()


def value_and_gradient(
    log_p: Tensor,
    log_pi: Tensor,
    labels: Tensor,
    weights: RunWeights,
    *,
    out: Tensor | None = None,
    scratch: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Objective and its gradient with respect to the logits, in closed form.

    With weights a (marginal), c (entropy, lam included) and l (labels) of each sample,

        u_ik = a_i log pi_k - c_i log p_ik,    q_i = sum_k p_ik u_ik
        dF/ds_ik = p_ik (u_ik - q_i + l_i) - l_i [k = y_i],    F = sum_i q_i - l_i log p_{i, y_i}

    Samples may be given in blocks, with log_pi of all of them: values add up, gradients stand side by side.
    A category that a run does not have (padding) carries a very negative, finite log p: its gradient vanishes.

    Parameters
    ----------
    log_p : Tensor of shape (runs, categories, samples)
    log_pi : Tensor of shape (runs, categories)
        Less the logarithms of expected shares, if there are any.
    labels : Tensor of shape (runs, samples) or (1, samples)
        Column of each sample's category, -1 where it has none.
    weights : RunWeights
    out, scratch : Tensor of the shape of log_p, optional
        Where to put the gradient (log_p itself will do), and a place to work in.

    Returns
    -------
    value : Tensor of shape (runs,)
    gradient : Tensor of shape (runs, categories, samples)
    """
    a, c, label_weight = (
        per_sample(term, labels).unsqueeze(1) for term in (weights.marginal, weights.entropy, weights.cross_entropy)
    )  # each (runs, 1, samples)
    column = labels.clamp_min(0).unsqueeze(1).expand_as(label_weight)
    log_p_own = log_p.gather(1, column)
    p = torch.exp(log_p, out=scratch)
    gradient = torch.mul(log_p, -c, out=out).addcmul_(a, log_pi.unsqueeze(-1)).mul_(p)  # p u
    q = gradient.sum(1, keepdim=True)
    gradient.addcmul_(p, label_weight - q)
    gradient.scatter_add_(1, column, -label_weight)
    value = (q - label_weight * log_p_own).sum(2).squeeze(1)
    return value, gradient


def objective_value(
    log_p: Tensor, labels: Tensor, objective: Objective, log_shares: Tensor | float = 0.0
) -> Tensor:
    """The objective of one partition by its definition, term by term.

    This is the plain statement that the closed form is tested against; it can be differentiated by autograd.

    Parameters
    ----------
    log_p : Tensor of shape (samples, categories)
    labels : Tensor of shape (samples,)
    objective : Objective
    log_shares : Tensor of shape (categories,), optional
        Logarithms of expected shares, relative to even ones.
    """
    known = labels != UNLABELLED
    subsets = {"all": torch.ones_like(known), "unlabelled": ~known, "none": torch.zeros_like(known)}
    p = log_p.exp()
    n = len(labels)
    value = log_p.new_zeros(())
    if (members := subsets[objective.marginal]).any():
        pi = p[members].mean(0)
        value = value + (pi * (log_marginal(pi) - log_shares)).sum()
    if (members := subsets[objective.entropy]).any():
        size = n if objective.denominator == "all" else int(members.sum())
        value = value - objective.lam * (p * log_p)[members].sum() / size
    if known.any():
        size = n if objective.denominator == "all" else int(known.sum())
        picked = log_p[known].gather(1, labels[known].unsqueeze(1))
        value = value - objective.cross_entropy * picked.sum() / size
    return value
