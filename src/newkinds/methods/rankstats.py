"""RankStats+: pairs of samples with the same largest features belong together.

Han et al., "Automatically discovering and learning new visual categories with ranking statistics", ICLR 2020
(AutoNovel); RankStats+ is its adaptation by Vaze et al., "Generalized Category Discovery", CVPR 2022.
"""

import math
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from newkinds.methods.heads import Batch, HeadMethod, LinearHead, labelled_cross_entropy
from newkinds.methods.parameters import POSITIVE_INTEGER, Constraints
from newkinds.selection.problem import Problem

CONSISTENCY = 5.0
"""Largest weight of the agreement of two views, as in AutoNovel's training on CIFAR10."""
RAMP = 5.0


class RankStats(HeadMethod):
    """RankStats+'s classifier, a head on frozen features.

    A linear classifier of all categories. Its outputs for known categories learn the labels, from the first view;
    two unlabelled samples of a batch should get the same prediction if their `n_ranked` largest features are the
    same ones, and different ones otherwise; the predictions of two views should agree, more and more so as the
    training goes on, among all categories and among the known ones.

    Frozen features of real encoders seldom share all of the five largest: then nearly every pair is one that should
    differ.

    Parameters
    ----------
    n_categories, noise, max_iter, batch_size, weight_decay, device, random_state
        See `SimGCD`.
    learning_rate : float
        Along a cosine to a thousandth.
    n_ranked : int
        How many of the largest features are compared.

    Attributes
    ----------
    loss_curve_ : ndarray of shape (n_iter_,)
        Mean loss of each epoch.

    Examples
    --------
    >>> from newkinds import RankStats
    >>> X = [[1, 0.1], [1, 0], [0.1, 1], [0, 1], [-1, 0], [-1, 0.1]]
    >>> model = RankStats(n_categories=3, n_ranked=1, noise=0.1, random_state=0).fit(X, [4, -1, -1, -1, -1, -1])
    >>> model.categories_
    array([4, 5, 6])
    """

    _parameter_constraints: ClassVar[Constraints] = {
        **HeadMethod._parameter_constraints,
        "n_ranked": [POSITIVE_INTEGER],
    }

    def __init__(
        self,
        n_categories: int | str = "auto",
        *,
        n_ranked: int = 5,
        noise: float = 0.5,
        max_iter: int = 100,
        batch_size: int = 256,
        learning_rate: float = 0.1,
        weight_decay: float = 1e-4,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_categories = n_categories
        self.n_ranked = n_ranked
        self.noise = noise
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.device = device
        self.random_state = random_state

    def _head(self, problem: Problem, n_categories: int) -> LinearHead:
        return LinearHead(problem.samples.width, n_categories, problem.n_known)

    def _begin_epoch(self, head: LinearHead, problem: Problem, progress: float) -> float:
        """Weight of the agreement of two views."""
        return CONSISTENCY * math.exp(-RAMP * (1 - progress) ** 2)

    def _loss(self, head: LinearHead, batch: Batch) -> Tensor:
        logits = head(batch.views)
        p = logits.softmax(-1)
        loss = batch.schedule * functional.mse_loss(p[0], p[1])
        if head.n_known:
            known = functional.log_softmax(logits[..., : head.n_known], dim=-1)
            agreement_on_known = functional.mse_loss(known[0].exp(), known[1].exp())
            loss = loss + batch.schedule * agreement_on_known + labelled_cross_entropy(known[:1], batch.labels)
        # Features of a network end in a ReLU: what is negative has no rank.
        same = same_ranking(batch.features.relu(), min(self.n_ranked, batch.features.shape[1]))
        similarity = p[0] @ p[1].T
        agreement = torch.where(same, similarity, 1 - similarity).clamp_min(1e-7)
        free = (~batch.labelled).to(p.dtype)
        pairs = torch.outer(free, free)
        return loss - (pairs * agreement.log()).sum() / pairs.sum().clamp_min(1)


def same_ranking(features: Tensor, n_ranked: int) -> Tensor:
    """Which pairs of samples have the same `n_ranked` largest features, in whatever order: (samples, samples).

    Examples
    --------
    >>> same_ranking(torch.tensor([[3.0, 2.0, 1.0], [2.0, 3.0, 1.0], [1.0, 2.0, 3.0]]), 2)
    tensor([[ True,  True, False],
            [ True,  True, False],
            [False, False,  True]])
    """
    top = features.topk(n_ranked, dim=1).indices
    chosen = torch.zeros_like(features).scatter_(1, top, 1.0)
    return chosen @ chosen.T > n_ranked - 0.5
