"""Consensus: one partition out of several trainings that differ in their start.

Trainings from different starts agree on most categories and fail on different ones. Their categories are matched
(Hungarian method, on the samples they share), their probabilities averaged, and the prototypes of the result are
the start of the last training.
"""

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from newkinds.engine import Committee, Partitioner, category_means
from newkinds.labels import IntArray
from newkinds.selection.problem import Problem


def consensus_start(problem: Problem, partitioners: list[Partitioner]) -> npt.NDArray[np.float32]:
    """Prototypes of the consensus of partitioners of equally many categories, the first leading.

    Known categories, which have the same columns everywhere, stay as they are.
    """
    leader, *others = partitioners
    reference = problem.samples.assign(leader)
    aligned = [leader]
    for other in others:
        order = _matching(reference, problem.samples.assign(other), problem.n_known, len(leader.weights))
        aligned.append(Partitioner(other.weights[order], other.temperature, other.geometry))
    columns = problem.samples.assign(Committee(tuple(aligned)))
    columns = np.where(problem.labelled, problem.columns, columns)
    return category_means(problem.samples, columns, leader.weights)


def _matching(reference: IntArray, columns: IntArray, n_known: int, n_categories: int) -> IntArray:
    """For each column of the reference the one that shares most samples with it; known ones are their own."""
    table = np.bincount(reference * n_categories + columns, minlength=n_categories**2)
    shared = table.reshape(n_categories, n_categories)[n_known:, n_known:]
    _, matched = linear_sum_assignment(shared, maximize=True)
    return np.concatenate([np.arange(n_known), n_known + matched])
