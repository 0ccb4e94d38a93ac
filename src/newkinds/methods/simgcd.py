"""SimGCD: a cosine classifier that is its own teacher.

Wen, Zhao and Qi, "Parametric classification for generalized category discovery: a baseline study", ICCV 2023.
"""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.nn import functional

from newkinds.methods.base import Outcome
from newkinds.methods.heads import (
    Batch,
    CosineHead,
    HeadMethod,
    labelled_cross_entropy,
    mean_prediction_entropy,
)
from newkinds.methods.parameters import NOT_NEGATIVE, Constraints
from newkinds.methods.prototypes import checked_prototypes
from newkinds.names import AUTO
from newkinds.selection.n_categories import CategoryCount
from newkinds.selection.problem import Problem

TEMPERATURE = 0.1
TEACHER_TEMPERATURES = (0.07, 0.04)
WARM_UP = 0.15
"""Share of the training in which the teacher's temperature goes from the first to the last: 30 epochs of 200."""
SUPERVISED = 0.35
MEAN_ENTROPY = 2.0


class SimGCD(HeadMethod):
    """SimGCD's classifier, a head on frozen features.

    Cosines to one prototype a category, divided by 0.1. The prediction for each view, sharpened (0.07, later 0.04),
    is the target of the other; the mean prediction of a batch should be spread out; labelled samples have their
    cross-entropy. Labelled and unlabelled samples are drawn equally often. In the publication the encoder's last
    block is trained as well, with contrastive losses beside these.

    Parameters
    ----------
    n_categories : int, "auto" or the name of a rule
        Known and new together; see `PIM`.
    init : array of shape (n_categories, features), optional
        Prototypes to start from, known categories first, such as `prototypes_` of an earlier fit; a row of zeros
        starts in a random direction. By default all directions are random.
    mean_entropy : float
        Weight of the entropy of the mean prediction.
    noise : float
        Length of the noise that makes a view of a sample, whose own length is 1.
    max_iter : int
        Epochs.
    batch_size : int
    learning_rate : float
        For each category, since the share of a batch that moves a prototype is one of so many; along a cosine to a
        thousandth. (The publication's 0.1 is that of a network.)
    weight_decay : float
    device : {"auto", "cpu", "cuda", "mps"}
    random_state : int, RandomState or None

    Attributes
    ----------
    loss_curve_ : ndarray of shape (n_iter_,)
        Mean loss of each epoch.
    prototypes_ : ndarray of shape (n_categories_, features)
        The trained prototypes in the order of `init`, while `weights_` are in the order of `categories_`. A loaded
        model lacks them.
    labels_, categories_, known_categories_, n_categories_, weights_, temperature_, n_categories_search_, \
n_iter_, stopped_
        As for every method, see `newkinds.methods.base.CategoryDiscoverer`.

    Examples
    --------
    >>> from newkinds import SimGCD
    >>> X = [[1, 0.1], [1, 0], [0.1, 1], [0, 1], [-1, 0], [-1, 0.1]]
    >>> model = SimGCD(n_categories=3, noise=0.1, random_state=0).fit(X, [4, -1, -1, -1, -1, -1])
    >>> model.categories_
    array([4, 5, 6])
    """

    _balanced: ClassVar[bool] = True
    _parameter_constraints: ClassVar[Constraints] = {
        **HeadMethod._parameter_constraints,
        "init": ["array-like", None],
        "mean_entropy": [NOT_NEGATIVE],
    }

    def __init__(
        self,
        n_categories: int | str = "auto",
        *,
        init: npt.ArrayLike | None = None,
        mean_entropy: float = MEAN_ENTROPY,
        noise: float = 0.5,
        max_iter: int = 100,
        batch_size: int = 256,
        learning_rate: float = 0.02,
        weight_decay: float = 5e-5,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_categories = n_categories
        self.init = init
        self.mean_entropy = mean_entropy
        self.noise = noise
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.device = device
        self.random_state = random_state

    def _head(self, problem: Problem, n_categories: int) -> CosineHead:
        width = problem.samples.width
        start = None if self.init is None else checked_prototypes(self.init, n_categories, width)
        return CosineHead(width, n_categories, TEMPERATURE, start)

    def _resolve_n_categories(self, problem: Problem) -> tuple[int, CategoryCount | None]:
        if self.init is None or self.n_categories != AUTO:
            return super()._resolve_n_categories(problem)
        return problem.check_n_categories(len(self.init)), None  # type: ignore[arg-type]  # checked to be an array

    def _discover(self, problem: Problem, n_categories: int) -> Outcome:
        outcome = super()._discover(problem, n_categories)
        return replace(outcome, facts=outcome.facts | {"prototypes": outcome.partitioner.weights})

    def _step_size(self, n_categories: int) -> float:
        return self.learning_rate * n_categories

    def _begin_epoch(self, head: CosineHead, problem: Problem, progress: float) -> float:
        return teacher_temperature(round(progress * self.max_iter), self.max_iter)

    def _loss(self, head: CosineHead, batch: Batch) -> Tensor:
        return simgcd_loss(head(batch.views) * TEMPERATURE, batch.labels, batch.schedule, self.mean_entropy)


def teacher_temperature(epoch: int, n_epochs: int) -> float:
    """In an epoch, from 0; the last epoch of the warm-up has the last temperature.

    Examples
    --------
    >>> [round(teacher_temperature(epoch, 20), 3) for epoch in range(4)]
    [0.07, 0.055, 0.04, 0.04]
    """
    first, last = TEACHER_TEMPERATURES
    return first + (last - first) * min(1.0, epoch / max(round(WARM_UP * n_epochs) - 1, 1))


def simgcd_loss(
    cosines: Tensor, labels: Tensor, teacher: Tensor | float, mean_entropy: float = MEAN_ENTROPY
) -> Tensor:
    """SimGCD's loss of a classifier.

    Parameters
    ----------
    cosines : Tensor of shape (2, samples, categories)
        Of both views to the prototypes.
    labels : Tensor of shape (samples,)
        Column of each sample's category, -1 where it has none.
    teacher : float
        Temperature of the targets.
    mean_entropy : float
    """
    log_p = functional.log_softmax(cosines / TEMPERATURE, dim=-1)
    targets = functional.softmax(cosines.detach() / teacher, dim=-1).flip(0)  # each view's from the other
    unsupervised = -(targets * log_p).sum(-1).mean() - mean_entropy * mean_prediction_entropy(log_p)
    return (1 - SUPERVISED) * unsupervised + SUPERVISED * labelled_cross_entropy(log_p, labels)
