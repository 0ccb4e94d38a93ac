"""UNO+: one objective for labels and pseudo-labels.

Fini et al., "A unified objective for novel class discovery", ICCV 2021; UNO+ is its adaptation by Vaze et al.,
"Generalized Category Discovery", CVPR 2022.
"""

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from newkinds.engine import Partitioner
from newkinds.labels import UNLABELLED
from newkinds.methods.heads import Arrays, Batch, HeadMethod, Projection, indicator, random_prototypes, unit_rows
from newkinds.methods.parameters import POSITIVE_INTEGER, Constraints, integer_from
from newkinds.selection.problem import Problem

TEMPERATURE = 0.1
SINKHORN_EPSILON = 0.05
SINKHORN_ITERATIONS = 3
OUTPUTS = 256


class UNO(HeadMethod):
    """UNO+'s classifier, a head on frozen features.

    Cosines to prototypes, divided by 0.1, on a projection of the features (two layers). Each unlabelled sample's
    target is a pseudo-label from the prediction for its other view, made so that the categories of a batch are of
    equal size (Sinkhorn and Knopp); labelled samples keep their labels; all have one cross-entropy. Several sets of
    prototypes learn side by side, and as many with three times the new categories; of the former the one with the
    lowest loss is kept.
    (In the publication the prototypes of known categories lie in the space of the features themselves, and each set
    of new ones has a projection of its own; here all share one.)

    Parameters
    ----------
    n_categories, noise, max_iter, batch_size, weight_decay, device, random_state
        See `SimGCD`.
    learning_rate : float
        Along a cosine to a thousandth.
    n_heads : int
        Sets of prototypes.
    overclustering : int
        How many times the new categories the further sets have; 0: none of them.
    hidden : int
        Width of the projection's first layer.

    Attributes
    ----------
    projection_ : dict of str to ndarray
        The trained projection; `weights_` are prototypes in its space.
    loss_curve_ : ndarray of shape (n_iter_,)
        Mean loss of each epoch.

    Examples
    --------
    >>> from newkinds import UNO
    >>> X = [[1, 0.1], [1, 0], [0.1, 1], [0, 1], [-1, 0], [-1, 0.1]]
    >>> model = UNO(n_categories=3, hidden=16, noise=0.1, random_state=0).fit(X, [4, -1, -1, -1, -1, -1])
    >>> model.categories_
    array([4, 5, 6])
    """

    _parameter_constraints: ClassVar[Constraints] = {
        **HeadMethod._parameter_constraints,
        "n_heads": [POSITIVE_INTEGER],
        "overclustering": [integer_from(0)],
        "hidden": [POSITIVE_INTEGER],
    }

    def __init__(
        self,
        n_categories: int | str = "auto",
        *,
        n_heads: int = 2,
        overclustering: int = 3,
        hidden: int = 2048,
        noise: float = 0.5,
        max_iter: int = 25,
        batch_size: int = 512,
        learning_rate: float = 1.0,
        weight_decay: float = 1.5e-4,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_categories = n_categories
        self.n_heads = n_heads
        self.overclustering = overclustering
        self.hidden = hidden
        self.noise = noise
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.device = device
        self.random_state = random_state

    def _head(self, problem: Problem, n_categories: int) -> "UNOHeads":
        return UNOHeads(
            problem.samples.width, n_categories, problem.n_known, self.n_heads, self.overclustering, self.hidden
        )

    def _begin_epoch(self, head: "UNOHeads", *_: Any) -> float:
        head.losses.zero_()
        return 0.0

    def _loss(self, head: "UNOHeads", batch: Batch) -> Tensor:
        return head.loss(batch.views, batch.labels)

    def _trained(self, head: "UNOHeads") -> tuple[Partitioner, Arrays]:
        best = head.prototypes[int(head.losses.argmin())]
        return Partitioner(unit_rows(best).detach().cpu().numpy(), 1 / TEMPERATURE), head.projection.arrays()


class UNOHeads(nn.Module):
    """UNO's projection and sets of prototypes, known categories first; those with more categories come last.

    Attributes
    ----------
    losses : Tensor of shape (n_heads,)
        What each set has lost since this was last set to 0.
    """

    losses: Tensor

    def __init__(
        self,
        width: int,
        n_categories: int,
        n_known: int,
        n_heads: int = 2,
        overclustering: int = 3,
        hidden: int = 2048,
    ) -> None:
        super().__init__()
        self.projection = Projection(width, hidden, OUTPUTS)
        sizes = [n_categories] * n_heads
        if overclustering:
            sizes += [n_known + overclustering * (n_categories - n_known)] * n_heads
        self.prototypes = nn.ParameterList([random_prototypes(size, OUTPUTS) for size in sizes])
        self.register_buffer("losses", torch.zeros(n_heads))

    def loss(self, views: Tensor, labels: Tensor) -> Tensor:
        """Mean cross-entropy of all sets: views (2, samples, width), labels -1 where there is none."""
        embedded = self.projection(views.flatten(0, 1))  # (2 · samples, outputs)
        losses = []
        for prototypes in self.prototypes:
            cosines = (embedded @ unit_rows(prototypes).T).unflatten(0, (2, -1))
            targets = uno_targets(cosines.detach(), labels)
            log_p = functional.log_softmax(cosines / TEMPERATURE, dim=-1)
            losses.append(-(targets.flip(0) * log_p).sum(-1).mean())
        self.losses += torch.stack(losses[: len(self.losses)]).detach()
        return torch.stack(losses).mean()


def uno_targets(cosines: Tensor, labels: Tensor) -> Tensor:
    """Labels where there are any, else pseudo-labels, each view's of its own.

    Parameters
    ----------
    cosines : Tensor of shape (2, samples, categories)
    labels : Tensor of shape (samples,)
        -1 where there is none.
    """
    free = labels == UNLABELLED
    one_hot = indicator(labels, cosines.shape[-1]).to(cosines.dtype)
    return torch.where(free[:, None], sinkhorn(cosines, free), one_hot)


def sinkhorn(
    cosines: Tensor,
    among: Tensor | None = None,
    epsilon: float = SINKHORN_EPSILON,
    iterations: int = SINKHORN_ITERATIONS,
) -> Tensor:
    """Soft assignments of samples to categories of about equal size: each sample's add up to 1.

    Parameters
    ----------
    cosines : Tensor of shape (..., samples, categories)
    among : Tensor of shape (samples,), optional
        Which samples take part; the others get zeros.
    epsilon : float
        The smaller, the harder the assignments; exp(1 / epsilon) must be an ordinary number.
    iterations : int

    Examples
    --------
    >>> sinkhorn(torch.tensor([[1.0, 0.9], [1.0, 0.0]]), iterations=1000).round(decimals=2)
    tensor([[0., 1.],
            [1., 0.]])
    """
    shares = (cosines / epsilon).exp_()
    if among is not None:
        shares *= among[:, None]
    least = torch.finfo(shares.dtype).tiny  # 0 / least is 0
    for _ in range(iterations):
        shares /= shares.sum(-2, keepdim=True).clamp_min(least)  # categories of equal size
        shares /= shares.sum(-1, keepdim=True).clamp_min(least)  # samples of equal weight
    return shares
