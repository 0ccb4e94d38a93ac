"""k-means under the contract of the package; the clustering itself is `newkinds.engine.kmeans`."""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from newkinds.engine import TEMPERATURE, Clustering, Partitioner
from newkinds.labels import IntArray
from newkinds.methods.base import CategoryDiscoverer, Outcome
from newkinds.methods.parameters import Constraints, one_of
from newkinds.metrics import match_categories
from newkinds.names import SEEDINGS, Geometry, Seeding
from newkinds.selection.problem import Problem
from newkinds.selection.training import cluster


class KMeansBase(CategoryDiscoverer):
    """What k-means and semi-supervised k-means share."""

    _geometry: ClassVar[Geometry] = "euclidean"
    _parameter_constraints: ClassVar[Constraints] = {
        **CategoryDiscoverer._parameter_constraints,
        "seeding": [one_of(SEEDINGS)],
    }

    def __init__(
        self,
        n_categories: int | str = "auto",
        *,
        seeding: Seeding = "greedy",
        n_init: int = 10,
        max_iter: int = 100,
        temperature: float = TEMPERATURE,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_categories = n_categories
        self.seeding = seeding
        self.n_init = n_init
        self.max_iter = max_iter
        self.temperature = temperature
        self.device = device
        self.random_state = random_state

    def _cluster(self, problem: Problem, n_categories: int, labels: IntArray | None) -> Clustering:
        return cluster(
            problem,
            n_categories,
            labels=labels,
            seeding=self.seeding,
            n_init=self.n_init,
            max_iter=self.max_iter,
        )

    def _outcome(self, clustering: Clustering) -> Outcome:
        return Outcome(
            partitioner=Partitioner(clustering.centroids, float(self.temperature), self._geometry),
            columns=clustering.columns,
            n_iter=clustering.n_iter,
            stopped="converged" if clustering.converged else "max_iter",
            facts={"inertia": clustering.inertia},
        )


class KMeans(KMeansBase):
    """Plain k-means; labels only serve to say which cluster is which known category.

    Clusters are matched to the known categories on the labelled samples after clustering (Hungarian method). A
    known category whose samples all went to clusters of other categories gets one of the clusters left over.

    Parameters
    ----------
    n_categories, seeding, n_init, max_iter, temperature, device, random_state
        See `SemiSupervisedKMeans`.

    Examples
    --------
    >>> from newkinds import KMeans
    >>> X = [[1, 0.1], [1, 0], [0.1, 1], [0, 1]]
    >>> KMeans(n_categories=2, random_state=0).fit_predict(X, [-1, -1, 7, -1]).tolist()
    [8, 8, 7, 7]
    """

    _uses_labels: ClassVar[bool] = False

    def _discover(self, problem: Problem, n_categories: int) -> Outcome:
        clustering = self._cluster(problem, n_categories, None)
        order = self._known_first(problem, clustering)
        position = np.empty_like(order)
        position[order] = np.arange(n_categories)
        return self._outcome(
            replace(clustering, centroids=clustering.centroids[order], columns=position[clustering.columns])
        )

    @staticmethod
    def _known_first(problem: Problem, clustering: Clustering) -> IntArray:
        """Clusters in the order: that of each known category, then the rest."""
        labelled = problem.labelled
        matching = match_categories(problem.columns[labelled], clustering.columns[labelled])
        cluster_of = {category: cluster for cluster, category in matching.items()}
        free = iter([k for k in range(len(clustering.centroids)) if k not in matching])
        known = [cluster_of[c] if c in cluster_of else next(free) for c in range(problem.n_known)]
        return np.array([*known, *free], dtype=np.int64)
