"""What RankStats+, UNO+, ORCA and SimGCD share here: a head trained on frozen features, batch by batch.

Their publications train the encoder too. Here the features stay as they are, and a head on them is trained with the
losses of the publication: compare the figures of these methods with each other and with PIM's, not with published
ones. The two views of a sample are its features with noise (or, where they are stored, the features of a second
augmentation: `fit(X, y, second_view=...)`).
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from newkinds.engine import Partitioner, Samples, normalised
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray
from newkinds.methods.base import CategoryDiscoverer, Outcome, check_saved_floats
from newkinds.methods.parameters import NOT_NEGATIVE, POSITIVE, POSITIVE_INTEGER, Constraints, integer_from
from newkinds.objective import log_marginal
from newkinds.runtime import report_progress, resolve_device, seeded
from newkinds.selection.n_categories import Search
from newkinds.selection.problem import Problem, checked_features
from newkinds.workers import by_pytorch

MOMENTUM = 0.9
LAST_LEARNING_RATE = 1e-3
"""Share of the learning rate that is left at the end of its cosine, as in GCD and SimGCD."""
EMBEDDED_ROWS = 1 << 13
PROJECTION_ARRAYS = ("hidden_weights", "hidden_bias", "output_weights", "output_bias")
"""What a trained projection is saved as."""
Arrays = dict[str, npt.NDArray[np.float32]]


@dataclass(frozen=True)
class Batch:
    """What a loss gets to see of one step.

    Attributes
    ----------
    views : Tensor of shape (2, batch, features)
        Two views of each sample, of unit length.
    features : Tensor of shape (batch, features)
        Without noise.
    labels : Tensor of shape (batch,)
        Column of each sample's category, -1 where it has none.
    schedule : Tensor or float
        The number that the method's `_begin_epoch` gave for this epoch.
    """

    views: Tensor
    features: Tensor
    labels: Tensor
    schedule: Tensor | float = 0.0

    @property
    def labelled(self) -> Tensor:
        return self.labels != UNLABELLED


class Projection(nn.Module):
    """Two layers with a batch norm and a ReLU between them; unit vectors out."""

    def __init__(self, width: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, hidden, bias=False)
        self.norm = nn.BatchNorm1d(hidden)
        self.last = nn.Linear(hidden, outputs)

    def forward(self, features: Tensor) -> Tensor:
        return unit_rows(self.last(self.norm(self.first(features)).relu()))

    def arrays(self) -> Arrays:
        """The trained projection, its batch norm folded into the first layer; what `project` takes."""
        norm = self.norm
        assert norm.running_var is not None
        assert norm.running_mean is not None
        scale = norm.weight / (norm.running_var + norm.eps).sqrt()
        tensors = (
            self.first.weight * scale[:, None],
            norm.bias - norm.running_mean * scale,
            self.last.weight,
            self.last.bias,
        )
        return {name: value.detach().cpu().numpy() for name, value in zip(PROJECTION_ARRAYS, tensors, strict=True)}


class CosineHead(nn.Module):
    """Cosines to one prototype a category, divided by a temperature.

    `start` has prototypes to start from; where it is 0 or not there, they start in random directions.
    """

    def __init__(
        self, width: int, n_categories: int, temperature: float, start: npt.NDArray[np.float32] | None = None
    ) -> None:
        super().__init__()
        self.temperature = temperature
        self.prototypes = random_prototypes(n_categories, width)
        if start is not None:
            given = torch.from_numpy(start)
            is_given = given.norm(dim=1, keepdim=True) > 0
            self.prototypes = nn.Parameter(torch.where(is_given, unit_rows(given), self.prototypes.detach()))

    def forward(self, features: Tensor) -> Tensor:
        return features @ unit_rows(self.prototypes).T / self.temperature

    def partitioner(self) -> Partitioner:
        return Partitioner(unit_rows(self.prototypes).detach().cpu().numpy(), 1 / self.temperature)


class LinearHead(nn.Module):
    """A linear classifier without bias; known categories come first."""

    def __init__(self, width: int, n_categories: int, n_known: int) -> None:
        super().__init__()
        self.n_known = n_known
        self.weights = random_prototypes(n_categories, width)

    def forward(self, features: Tensor) -> Tensor:
        return features @ self.weights.T

    def partitioner(self) -> Partitioner:
        return Partitioner(self.weights.detach().cpu().numpy(), 1.0)


def project(features: npt.NDArray[np.floating[Any]], arrays: Arrays) -> npt.NDArray[np.floating[Any]]:
    """Features through a trained projection, of unit length again."""
    projected = np.empty((len(features), len(arrays["output_bias"])), dtype=features.dtype)
    for first in range(0, len(features), EMBEDDED_ROWS):
        rows = slice(first, first + EMBEDDED_ROWS)
        hidden = np.maximum(features[rows] @ arrays["hidden_weights"].T + arrays["hidden_bias"], 0)
        projected[rows] = hidden @ arrays["output_weights"].T + arrays["output_bias"]
    return normalised(projected)


class HeadMethod(CategoryDiscoverer):
    """Base of the methods that train a head on frozen features."""

    _balanced: ClassVar[bool] = False
    """Whether labelled and unlabelled samples are drawn equally often."""

    _parameter_constraints: ClassVar[Constraints] = {
        **CategoryDiscoverer._parameter_constraints,
        "max_iter": [POSITIVE_INTEGER],
        "batch_size": [integer_from(2)],
        "learning_rate": [POSITIVE],
        "weight_decay": [NOT_NEGATIVE],
        "noise": [NOT_NEGATIVE],
    }

    def fit(self, X: Any, y: Any = None, *, second_view: Any = None) -> Self:
        """Find the categories of a partly labelled collection.

        Parameters
        ----------
        X, y
            See `newkinds.methods.base.CategoryDiscoverer.fit`.
        second_view : array-like of shape (samples, features), optional
            Features of a second augmentation of each sample, in place of noise.
        """
        self._check_parameters()
        self._second_view = self._check_second_view(second_view, X)
        try:
            return super().fit(X, y)
        finally:
            del self._second_view

    @abstractmethod
    def _head(self, problem: Problem, n_categories: int) -> nn.Module:
        """The network to train."""

    @abstractmethod
    def _loss(self, head: Any, batch: Batch) -> Tensor:
        """Of one batch.

        What it does must not depend on values: on a GPU it is recorded once for all batches of a size.
        """

    def _trained(self, head: Any) -> tuple[Partitioner, Arrays]:
        """What the head has become: the partitioner, and the projection before it if there is one."""
        return head.partitioner(), {}

    def _begin_epoch(self, head: Any, problem: Problem, progress: float) -> float:
        """Called before each epoch, with the share of the training that is done; gives `Batch.schedule`."""
        return 0.0

    def _step_size(self, n_categories: int) -> float:
        """Learning rate at the start."""
        return float(self.learning_rate)

    def _search(self) -> Search:
        return Search()

    def _discover(self, problem: Problem, n_categories: int) -> Outcome:
        seed = problem.rng.randint(2**31 - 1)
        with seeded(seed, problem.samples.device), by_pytorch():
            head = self._head(problem, n_categories).to(problem.samples.device)
            curve = self._train(head, problem, self._step_size(n_categories), np.random.default_rng(seed))
        partitioner, projection = self._trained(head)
        return Outcome(
            partitioner=partitioner,
            columns=_assign(problem.samples, partitioner, projection),
            n_iter=len(curve),
            stopped="max_iter",
            facts={"loss_curve": np.array(curve), "projection": projection},
        )

    def _check_second_view(self, second_view: Any, X: Any) -> Samples | None:
        if second_view is None:
            return None
        if np.shape(second_view) != np.shape(X):
            raise InputError(f"second_view must be of X's shape, {np.shape(X)}; got {np.shape(second_view)}")
        features = checked_features(second_view, "second_view")
        try:
            return Samples(features, resolve_device(self.device))
        except InputError as error:
            raise InputError(f"second_view: {error}") from error

    def _train(
        self,
        head: nn.Module,
        problem: Problem,
        step_size: float,
        generator: np.random.Generator,
    ) -> list[float]:
        """Mean loss of each epoch."""
        device, second = problem.samples.device, self._second_view
        columns = torch.from_numpy(problem.columns).to(device)
        rate, schedule, lost = torch.zeros(3, device=device).unbind()  # filled anew in each epoch
        optimiser = torch.optim.SGD(
            head.parameters(),
            lr=rate,
            momentum=MOMENTUM,
            weight_decay=self.weight_decay,
            fused=device.type == "cuda",  # which reads the rate where it is
        )

        def step(features: Tensor, labels: Tensor, stored: Tensor | None = None) -> None:
            pair = [self._view(features), self._view(features)] if stored is None else [features, stored]
            loss = self._loss(head, Batch(torch.stack(pair), features, labels, schedule))
            optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            optimiser.step()
            lost.add_(loss.detach())

        steps = CudaGraphReplay(step) if device.type == "cuda" else step
        curve: list[float] = []
        for epoch in range(self.max_iter):
            progress = epoch / self.max_iter
            rate.fill_(cosine_decay(step_size, step_size * LAST_LEARNING_RATE, progress))
            schedule.fill_(self._begin_epoch(head, problem, progress))
            lost.zero_()
            head.train()
            batches = list(self._batches(problem, generator))
            for rows in batches:
                labels = columns[torch.from_numpy(rows).to(device)]
                stored = [] if second is None else [second.take(rows)]
                steps(problem.samples.take(rows), labels, *stored)
            curve.append(float(lost) / len(batches))
            is_finite = [math.isfinite(curve[-1]), *(bool(torch.isfinite(w).all()) for w in head.parameters())]
            if not all(is_finite):
                raise InputError(
                    f"{type(self).__name__}'s training diverged in epoch {epoch + 1} of {self.max_iter}: lower "
                    f"learning_rate, which is {self.learning_rate:g}"
                )
            report_progress(f"training {type(self).__name__}", epoch + 1, self.max_iter)
        head.eval()
        return curve

    def _batches(self, problem: Problem, generator: np.random.Generator) -> Iterator[IntArray]:
        """Rows of each batch of an epoch; none has fewer than two."""
        n, labelled = len(problem.columns), problem.labelled
        if self._balanced and 0 < labelled.sum() < n:
            weights = np.where(labelled, 0.5 / labelled.sum(), 0.5 / (~labelled).sum())
            order = generator.choice(n, n, p=weights)
        else:
            order = generator.permutation(n)
        n_batches = max(1, round(n / self.batch_size))
        yield from (part for part in np.array_split(order, n_batches) if len(part) > 1)

    def _view(self, features: Tensor) -> Tensor:
        """Noise whose length is about `noise`, beside features of length 1."""
        if not self.noise:
            return features
        scale = self.noise / math.sqrt(features.shape[1])
        return unit_rows(torch.randn_like(features).mul_(scale).add_(features))

    def _unit(self, features: npt.NDArray[Any], first_row: int = 0) -> npt.NDArray[np.floating[Any]]:
        unit = super()._unit(features, first_row)
        return project(unit, self.projection_) if self.projection_ else unit

    def fitted_arrays(self) -> dict[str, npt.NDArray[Any]]:
        return super().fitted_arrays() | self.projection_

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> Self:
        super().restore(arrays)
        saved = [name for name in PROJECTION_ARRAYS if name in arrays]
        if saved and len(saved) < len(PROJECTION_ARRAYS):
            raise InputError("the saved model lacks a part of its projection")
        self.projection_ = _saved_projection(arrays, outputs=self.weights_.shape[1]) if saved else {}
        if saved:
            self.n_features_in_ = self.projection_["hidden_weights"].shape[1]
        return self


class CudaGraphReplay:
    """A function of tensors, without a result, whose work on a GPU is recorded once for each size, then replayed.

    Hundreds of small kernels take longer to start than to compute. The first calls are plain, so that what is made
    only once (an optimiser's state, say) is there before the recording begins.
    """

    PLAIN_CALLS = 3

    def __init__(self, function: Callable[..., None]) -> None:
        self._function, self._plain_calls = function, self.PLAIN_CALLS
        self._graphs: dict[int, tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...]]] = {}

    def __call__(self, *arguments: Tensor) -> None:
        if self._plain_calls:
            self._plain_calls -= 1
            self._function(*arguments)
            return
        size = len(arguments[0])
        if size not in self._graphs:
            inputs = tuple(argument.clone() for argument in arguments)
            graph = torch.cuda.CUDAGraph()
            # A stream of the current GPU, which the default one need not be; other threads may go on meanwhile.
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # it has no types
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                self._function(*inputs)
            self._graphs[size] = graph, inputs
        graph, inputs = self._graphs[size]
        for place, argument in zip(inputs, arguments, strict=True):
            place.copy_(argument)
        graph.replay()


def labelled_cross_entropy(log_p: Tensor, labels: Tensor) -> Tensor:
    """Mean of -log p of the labels over all views, log_p (views, samples, categories); 0 if nothing is labelled."""
    n_views = len(log_p)
    every = labels.repeat(n_views)
    picked = functional.nll_loss(log_p.flatten(0, 1), every, ignore_index=UNLABELLED, reduction="sum")
    return picked / (n_views * (labels != UNLABELLED).sum()).clamp_min(1)


def indicator(labels: Tensor, n_categories: int) -> Tensor:
    """Which category is each sample's: (samples, categories); none where the label is -1."""
    return labels[:, None] == torch.arange(n_categories, device=labels.device)


def mean_prediction_entropy(log_p: Tensor) -> Tensor:
    """Entropy of the mean prediction over all but the last axis of log-probabilities."""
    mean = log_p.exp().flatten(0, -2).mean(0)
    return -(mean * log_marginal(mean)).sum()


def _saved_projection(arrays: dict[str, npt.NDArray[Any]], outputs: int) -> Arrays:
    """The arrays of a projection, refused if `project` could not use them."""
    hidden = arrays["hidden_bias"].size
    shapes = ((hidden, None), (hidden,), (outputs, hidden), (outputs,))
    return {
        name: check_saved_floats(name, arrays[name], shape)
        for name, shape in zip(PROJECTION_ARRAYS, shapes, strict=True)
    }


def _assign(samples: Samples, partitioner: Partitioner, projection: Arrays) -> IntArray:
    if not projection:
        return samples.assign(partitioner)
    assigned = np.zeros(samples.own.stop - samples.own.start, dtype=np.int64)
    for first in range(samples.own.start, samples.own.stop, EMBEDDED_ROWS):
        rows = slice(first, min(first + EMBEDDED_ROWS, samples.own.stop))
        unit = samples.read(rows).cpu().numpy()
        assigned[samples.within(rows)] = partitioner.assign(project(unit, projection))
    columns: IntArray = samples.gather(assigned)
    return columns


def cosine_decay(first: float, last: float, progress: float) -> float:
    """A learning rate on its way from the first to the last."""
    return last + (first - last) * (1 + math.cos(math.pi * progress)) / 2


def unit_rows(weights: Tensor) -> Tensor:
    return functional.normalize(weights, dim=-1)


def random_prototypes(n: int, width: int) -> nn.Parameter:
    """Directions at random: (n, width)."""
    return nn.Parameter(unit_rows(torch.randn(n, width)))
