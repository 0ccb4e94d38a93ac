"""Fitting a model again after its categories were edited: from its own weights, or from means of its samples."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.engine import LinearMap, Run, Trained, category_means
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray
from newkinds.methods.base import CategoryDiscoverer
from newkinds.methods.infomax import InfoMax
from newkinds.past import Past
from newkinds.selection.calibration import matching_sharpness
from newkinds.selection.metric import SURE, learnt_metric
from newkinds.selection.problem import Problem, make_problem
from newkinds.selection.sizes import expected_shares
from newkinds.selection.training import Training
from newkinds.workers import working_together

SURE_ROWS = 1 << 12
"""Samples by which it is told how sure a model is."""
HOLDING = 2
"""How often a training goes on because samples left that should have stayed. Once was enough on texts and birds."""


@dataclass(frozen=True)
class Wanted:
    """The categories that a model is fitted to.

    Attributes
    ----------
    categories, known : ndarray
        All ids and those of the known ones, which come first.
    assigned : ndarray of shape (samples,)
        Each sample's category before the fit.
    labels : ndarray of shape (samples,)
        The categories that samples have to keep, -1 for the others.
    became : mapping of int to int or None
        What became of each category of the model; None if it was dissolved.
    changed : frozenset of int
        Categories that start from the means of their samples, not from weights.
    steady : ndarray of shape (samples,), optional
        Whether a sample should stay where it is although nobody said so.
    """

    categories: IntArray
    known: IntArray
    assigned: IntArray
    labels: IntArray
    became: Mapping[int, int | None]
    changed: frozenset[int] = frozenset()
    steady: npt.NDArray[np.bool_] | None = None


def refit_model(
    model: CategoryDiscoverer,
    features: npt.NDArray[Any],
    wanted: Wanted,
    *,
    lam: float,
    temperature: float | None = None,
    size_ratio: float = 1.0,
    shares: npt.NDArray[np.float64] | None = None,
    training: Training | None = None,
    as_sure: npt.NDArray[np.bool_] | None = None,
    past: Past | None = None,
) -> CategoryDiscoverer:
    """A model with these categories, fitted from the weights of another.

    Parameters
    ----------
    model : fitted method
        As it was fitted, before its categories were edited; it is not changed.
    features : ndarray of shape (samples, features)
    wanted : Wanted
    lam : float
    temperature : float, optional
        By default the model's own.
    size_ratio : float
        Size of new categories relative to known ones, see `newkinds.selection.sizes`.
    shares : ndarray of shape (categories,), optional
        Relative sizes that the categories are drawn to; by default as `size_ratio` says.
    training : Training, optional
        By default the model's own.
    as_sure : ndarray of shape (samples,), optional
        Samples of which the model should be as sure afterwards, on average: its calibration follows, which was
        learnt of other trainings. By default it stays.
    past : Past, optional
        If given, a metric is learnt anew, by the samples and by these sums of those that went.
    """
    if not isinstance(model, InfoMax):
        name = type(model).__name__
        raise InputError(
            f"a run by {name} cannot be refitted: discover again, with the corrected table as --labels"
        )
    n_categories = len(wanted.categories)
    temperature = float(model.temperature_ if temperature is None else temperature)
    # The engine takes labels as columns in any order: here those of `categories`.
    problem = make_problem(features, None, device=model.device, random_state=0)
    before = np.searchsorted(wanted.categories, wanted.assigned).astype(np.int64)
    is_learnt_anew = past is not None and model.metric_map_ is not None
    linear = _metric(model, problem, features, wanted, before, past) if is_learnt_anew else model.metric_map_
    samples = problem.samples if linear is None else problem.samples.mapped(linear)
    columns = np.searchsorted(wanted.categories, np.where(wanted.labels == UNLABELLED, 0, wanted.labels))
    labels = np.where(wanted.labels == UNLABELLED, UNLABELLED, columns)
    problem = replace(problem, samples=samples, columns=labels, known=wanted.categories)
    no_means = np.zeros((n_categories, samples.width), dtype=np.float32)
    means = category_means(samples, before, no_means)
    start = means if is_learnt_anew else _start(model, means, wanted)
    if shares is None:
        shares = expected_shares(size_ratio, len(wanted.known), n_categories)
    run = Run(start, model._objective.at(lam), temperature, model._geometry, shares=shares)
    with working_together(features.size, samples.device.type):
        trained, assigned = _train(training or model._training(), problem, run, before, wanted.steady)
    partitioner = trained.partitioners[0]
    refitted = copy(model)
    refitted.set_params(n_categories=n_categories)
    refitted.weights_, refitted.temperature_, refitted.metric_map_ = partitioner.weights, temperature, linear
    refitted.categories_, refitted.known_categories_ = wanted.categories, wanted.known
    refitted.n_categories_ = n_categories
    refitted.labels_ = np.where(labels == UNLABELLED, wanted.categories[assigned], wanted.labels)
    refitted.lam_ = lam
    refitted.n_iter_, refitted.stopped_ = len(trained.curve(0)), "converged" if trained.converged[0] else "max_iter"
    refitted.objective_curve_ = trained.curve(0)
    refitted.stability_ = refitted.label_doubts_ = refitted.n_categories_search_ = None
    refitted.__dict__.pop("places_", None)
    if as_sure is not None and as_sure.any():
        rows = np.flatnonzero(as_sure)
        some = features[rows[np.linspace(0, len(rows) - 1, min(len(rows), SURE_ROWS)).astype(np.int64)]]
        confidence = float(model.assess(some).confidence.mean())
        sharpness = matching_sharpness(partitioner.log_probabilities(refitted._unit(some)), confidence)
        refitted.calibration_ = replace(model.calibration_, sharpness=sharpness)
    return refitted.with_samples(features, refitted.labels_, labels != UNLABELLED)


def without_categories(model: CategoryDiscoverer, categories: npt.ArrayLike) -> CategoryDiscoverer:
    """The model without some of its categories, not trained again."""
    stays = ~np.isin(model.categories_, categories)
    model = copy(model)
    model._excerpt = None  # in which categories have other places
    model.weights_, model.categories_ = model.weights_[stays], model.categories_[stays]
    model.n_categories_ = len(model.categories_)
    model.set_params(n_categories=model.n_categories_)
    return model


def _metric(
    model: CategoryDiscoverer,
    problem: Problem,
    features: npt.NDArray[Any],
    wanted: Wanted,
    columns: IntArray,
    past: Past | None,
) -> LinearMap:
    """The metric of the categories that are wanted.

    It is taught by samples that have to keep their category, by those the model is sure of, and by those of
    categories that it lacks.
    """
    teaches = (wanted.labels != UNLABELLED) | ~np.isin(wanted.assigned, model.categories_)
    rows = np.flatnonzero(~teaches)
    if len(rows):
        teaches[rows] = model.assess(features[rows], wanted.assigned[rows]).confidence >= SURE
    return learnt_metric(problem.samples, np.where(teaches, columns, UNLABELLED), past)


def _train(
    training: Training, problem: Problem, run: Run, before: IntArray, steady: npt.NDArray[np.bool_] | None
) -> tuple[Trained, IntArray]:
    """Train, and assign the samples.

    Steady samples take part as all others. Only if some of them leave their category, as they do when another grows
    beside it, are those labelled, and the training goes on: few labels, so the others count as much as before.
    """
    trained = training.train(problem, [run], "refitting")
    assigned = problem.samples.assign(trained.partitioners[0])
    for _ in range(HOLDING if steady is not None else 0):
        gone = steady & (problem.columns == UNLABELLED) & (assigned != before)
        if not gone.any():
            break
        problem = replace(problem, columns=np.where(gone, before, problem.columns))
        run = replace(run, start=trained.partitioners[0].weights)
        trained = training.train(problem, [run], "refitting")
        assigned = problem.samples.assign(trained.partitioners[0])
    return trained, assigned


def _start(model: CategoryDiscoverer, means: npt.NDArray[np.float32], wanted: Wanted) -> npt.NDArray[np.float32]:
    """The weights of categories that are what they were; those of others point to the mean of their samples."""
    weights = np.asarray(model.weights_, dtype=np.float32)
    rows = {int(i): row for row, i in enumerate(model.categories_)}
    heirs = [heir for heir in wanted.became.values() if heir is not None]
    usual = float(np.median(np.linalg.norm(weights, axis=1))) or 1.0
    start = np.zeros_like(means)
    for place, category in enumerate(wanted.categories.tolist()):
        length = float(np.linalg.norm(means[place]))
        is_same = category in rows and heirs.count(category) == 1 and category not in wanted.changed
        if is_same or length == 0:
            start[place] = weights[rows[category]] if category in rows else 0
        elif model._geometry == "linear":
            start[place] = means[place] * (usual / length)
        else:
            start[place] = means[place]
    return start
