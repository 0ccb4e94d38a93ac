"""Refinement: from what a training by the cosine found to the start of one in a learnt metric."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from newkinds.engine import Committee, LinearMap, Partitioner, Samples, category_means
from newkinds.labels import UNLABELLED, IntArray
from newkinds.names import MetricName
from newkinds.selection.metric import SURE, learnt_metric
from newkinds.selection.problem import Problem


@dataclass(frozen=True)
class Refined:
    """The problem in the metric, the map that leads there, and prototypes to start from."""

    problem: Problem
    linear: LinearMap
    start: npt.NDArray[np.float32]


def refine(
    problem: Problem, labels: IntArray, samples: Samples, found: Partitioner | Committee, metric: MetricName
) -> Refined:
    """Learn the metric, and start from the means of what was found.

    Parameters
    ----------
    problem : Problem
    labels : ndarray of shape (samples,)
        The labels that may be used, as columns.
    samples : Samples
        The problem's samples as `found` takes them.
    found : Partitioner or Committee
    metric : {"within", "self"}
    """
    is_labelled = labels != UNLABELLED
    columns = np.where(is_labelled, labels, samples.assign(found))
    taught = labels if metric == "within" else np.where(is_labelled, labels, samples.assign(found, least=SURE))
    linear = learnt_metric(problem.samples, taught)
    mapped = problem.samples.mapped(linear)
    # A category without samples starts between all others.
    otherwise = np.zeros((found.n_categories, mapped.width), dtype=np.float32)
    return Refined(replace(problem, samples=mapped), linear, category_means(mapped, columns, otherwise))
