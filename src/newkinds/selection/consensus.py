"""Consensus: one partition out of several trainings that differ in their start.

Trainings from different starts agree on most categories and fail on different ones. Their categories are matched
(Hungarian method, on the samples they share) and their probabilities averaged. The last training starts from the
prototypes of the result.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from newkinds.engine import Committee, Partitioner, Samples, category_means
from newkinds.labels import IntArray
from newkinds.selection.problem import Problem


@dataclass(frozen=True)
class Consensus:
    """What several trainings agree on.

    Attributes
    ----------
    committee : Committee
        The trainings, their categories in the same order.
    columns : ndarray of shape (samples,)
        The category that they agree on; that of its label for a labelled sample.
    stability : ndarray of shape (categories,)
        How far each category is found again by the trainings: the mean overlap (intersection over union, of the
        unlabelled samples) with the category that each of them matched to it. 1: all of them found the same
        samples. NaN without samples.
    """

    committee: Committee
    columns: IntArray
    stability: npt.NDArray[np.float64]

    def prototypes(self, samples: Samples) -> npt.NDArray[np.float32]:
        """Means of the categories; where one has no sample, the weights of the first training or, if the samples
        are wider than those it took, their middle."""
        weights = self.committee.members[0].weights
        if weights.shape[1] != samples.width:
            weights = np.zeros((len(weights), samples.width), dtype=np.float32)
        return category_means(samples, self.columns, weights)


def find_consensus(problem: Problem, partitioners: list[Partitioner]) -> Consensus:
    """The consensus of partitioners of equally many categories, the first leading.

    Known categories, which have the same columns everywhere, stay as they are.
    """
    leader, *others = partitioners
    reference = problem.samples.assign(leader)
    n_categories = len(leader.weights)
    aligned, votes = [leader], [reference]
    for other in others:
        columns = problem.samples.assign(other)
        order = _matching(reference, columns, problem.n_known, n_categories)
        aligned.append(Partitioner(other.weights[order], other.temperature, other.geometry))
        votes.append(np.argsort(order)[columns])
    committee = Committee(tuple(aligned))
    agreed = problem.samples.assign(committee)
    unlabelled = ~problem.labelled
    overlaps = [_overlaps(agreed[unlabelled], columns[unlabelled], n_categories) for columns in votes]
    columns = np.where(problem.labelled, problem.columns, agreed)
    return Consensus(committee, columns, np.mean(overlaps, axis=0))


def _overlaps(columns: IntArray, others: IntArray, n_categories: int) -> npt.NDArray[np.float64]:
    """Intersection over union of each category's samples in two partitions; NaN where neither has any."""
    both = np.bincount(columns[columns == others], minlength=n_categories)
    either = np.bincount(columns, minlength=n_categories) + np.bincount(others, minlength=n_categories) - both
    return np.where(either > 0, both / np.maximum(either, 1), np.nan)


def _matching(reference: IntArray, columns: IntArray, n_known: int, n_categories: int) -> IntArray:
    """For each column of the reference the one that shares most samples with it; known ones are their own."""
    table = np.bincount(reference * n_categories + columns, minlength=n_categories**2)
    shared = table.reshape(n_categories, n_categories)[n_known:, n_known:]
    _, matched = linear_sum_assignment(shared, maximize=True)
    return np.concatenate([np.arange(n_known), n_known + matched])
