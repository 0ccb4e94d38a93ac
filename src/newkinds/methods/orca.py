"""ORCA: a classifier that learns known categories no faster than new ones.

Cao, Brbić and Leskovec, "Open-world semi-supervised learning", ICLR 2022.
"""

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from newkinds.labels import UNLABELLED
from newkinds.methods.heads import (
    Batch,
    CosineHead,
    HeadMethod,
    indicator,
    labelled_cross_entropy,
    mean_prediction_entropy,
)
from newkinds.methods.parameters import NOT_NEGATIVE, Constraints
from newkinds.selection.problem import Problem

SCALE = 10.0
MOST_MARGIN = 0.5
MOST_EXAMINED = 1 << 14
"""Unlabelled samples whose uncertainty is computed."""


class ORCA(HeadMethod):
    """ORCA's classifier, a head on frozen features.

    Cosines to one prototype a category, times 10. Labelled samples have a cross-entropy in which their own category
    is favoured by a margin, the mean uncertainty of the unlabelled samples (at most 0.5, anew in each epoch): while
    new categories are uncertain, known ones are not learnt much further. Every sample has a partner in its batch: a
    labelled one another of its category (itself where there is none), any other its nearest neighbour. The
    predictions of one view of the sample and the other view of its partner should agree. The cross-entropy and the
    mean prediction, which should be spread out, are those of the first view.

    Parameters
    ----------
    n_categories, noise, max_iter, batch_size, learning_rate, weight_decay, device, random_state
        See `SimGCD`; the learning rate is for each category here, too.
    mean_entropy : float
        Weight of the entropy of the mean prediction.

    Attributes
    ----------
    loss_curve_ : ndarray of shape (n_iter_,)
        Mean loss of each epoch.

    Examples
    --------
    >>> from newkinds import ORCA
    >>> X = [[1, 0.1], [1, 0], [0.1, 1], [0, 1], [-1, 0], [-1, 0.1]]
    >>> ORCA(n_categories=3, noise=0.1, random_state=0).fit(X, [4, -1, -1, -1, -1, -1]).categories_
    array([4, 5, 6])
    """

    _parameter_constraints: ClassVar[Constraints] = {
        **HeadMethod._parameter_constraints,
        "mean_entropy": [NOT_NEGATIVE],
    }

    def __init__(
        self,
        n_categories: int | str = "auto",
        *,
        mean_entropy: float = 1.0,
        noise: float = 0.5,
        max_iter: int = 100,
        batch_size: int = 512,
        learning_rate: float = 0.02,
        weight_decay: float = 5e-4,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_categories = n_categories
        self.mean_entropy = mean_entropy
        self.noise = noise
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.device = device
        self.random_state = random_state

    def _head(self, problem: Problem, n_categories: int) -> CosineHead:
        return CosineHead(problem.samples.width, n_categories, 1 / SCALE)

    def _begin_epoch(self, head: CosineHead, problem: Problem, progress: float) -> float:
        """The margin: mean uncertainty of the unlabelled samples, 1 minus their largest probability.

        Where there are very many samples, that of some of them.
        """
        unlabelled = np.flatnonzero(~problem.labelled)
        if not len(unlabelled):
            return 0.0
        examined = unlabelled[:: -(-len(unlabelled) // MOST_EXAMINED)]
        certainty = 0.0
        with torch.no_grad():
            for part in np.array_split(examined, -(-len(examined) // self.batch_size)):
                certainty += float(head(problem.samples.take(part)).softmax(-1).amax(-1).sum())
        return min(1 - certainty / len(examined), MOST_MARGIN)

    def _step_size(self, n_categories: int) -> float:
        return self.learning_rate * n_categories

    def _loss(self, head: CosineHead, batch: Batch) -> Tensor:
        logits = head(batch.views)  # (2, batch, categories)
        first, second = functional.log_softmax(logits, dim=-1).unbind()
        partner = partners(batch.features, batch.labels)
        agreement = (first.exp() * second[partner].exp()).sum(-1)
        loss = -agreement.clamp_min(1e-8).log().mean() - self.mean_entropy * mean_prediction_entropy(first)
        favoured = logits[:1] + SCALE * batch.schedule * indicator(batch.labels, logits.shape[-1])
        return loss + labelled_cross_entropy(functional.log_softmax(favoured, dim=-1), batch.labels)


def partners(features: Tensor, labels: Tensor) -> Tensor:
    """For each sample of a batch the position of its partner.

    Of a labelled sample another of the same label, or itself where there is none; of any other the nearest.

    Parameters
    ----------
    features : Tensor of shape (samples, features)
        Of unit length.
    labels : Tensor of shape (samples,)
        -1 = unlabelled.

    Examples
    --------
    >>> partners(torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.6, 0.8]]), torch.tensor([5, -1, 5, 7]))
    tensor([2, 3, 0, 3])
    """
    n = len(features)
    nearest = (features @ features.T).fill_diagonal_(-torch.inf).argmax(1)
    # Of several the next one in the batch, which is in random order; itself comes last.
    position = torch.arange(n, device=labels.device)
    later = (position - position[:, None] - 1) % n
    alike = torch.where(labels[:, None] == labels, later, n).argmin(1)
    return torch.where(labels == UNLABELLED, nearest, alike)
