"""k-means and semi-supervised k-means under the contract of the package.

The clustering itself is `newkinds.engine.kmeans`; GCD's baseline is semi-supervised k-means on the features of
its fine-tuned encoder (Vaze et al., "Generalized Category Discovery", CVPR 2022).
"""

from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from newkinds.engine import SEEDINGS, Clustering, Geometry, Partitioner, Seeding, kmeans
from newkinds.labels import IntArray
from newkinds.methods.base import CategoryDiscoverer, Outcome
from newkinds.methods.problem import Problem
from newkinds.metrics import match_categories


class _KMeansBase(CategoryDiscoverer):
    _geometry: ClassVar[Geometry] = "euclidean"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CategoryDiscoverer._parameter_constraints,
        "seeding": [StrOptions(set(SEEDINGS))],
    }

    def __init__(
        self,
        n_categories: int | str = "auto",
        *,
        seeding: Seeding = "greedy",
        n_init: int = 10,
        max_iter: int = 100,
        temperature: float = 25.0,
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
        return kmeans(
            problem.samples,
            n_categories,
            labels=labels,
            seeding=self.seeding,
            n_init=self.n_init,
            max_iter=self.max_iter,
            rng=problem.rng,
        )

    def _outcome(self, clustering: Clustering) -> Outcome:
        return Outcome(
            partitioner=Partitioner(clustering.centroids, float(self.temperature), self._geometry),
            columns=clustering.columns,
            n_iter=clustering.n_iter,
            stopped="converged" if clustering.converged else "max_iter",
            facts={"inertia": clustering.inertia},
        )


class SemiSupervisedKMeans(_KMeansBase):
    """Semi-supervised k-means: labelled samples never leave their category.

    Known centroids start at the class means, new ones by k-means++ among the unlabelled samples; then Lloyd's
    iterations; the restart with the lowest sum of squared distances wins.

    Parameters
    ----------
    n_categories : int, "auto" or the name of a rule
        Known and new together; see `PIM`.
    seeding : {"greedy", "d2", "random"}
        How new centroids are drawn; "d2" is plain k-means++, "greedy" its better variant.
    n_init : int
        Restarts.
    max_iter : int
        Iterations of one restart.
    temperature : float
        Probabilities are softmax(-temperature / 2 · squared distance); no influence on the clustering.
    device : {"auto", "cpu", "cuda", "mps"}
    random_state : int, RandomState or None

    Attributes
    ----------
    inertia_ : float
        Sum of squared distances to the centroids, of unit-length features.

    Examples
    --------
    >>> from newkinds import SemiSupervisedKMeans
    >>> X = [[1, 0.1], [1, 0], [0.1, 1], [0, 1], [-1, 0], [-1, 0.1]]
    >>> SemiSupervisedKMeans(n_categories=3, random_state=0).fit_predict(X, [4, -1, -1, -1, -1, -1]).tolist()
    [4, 4, 5, 5, 6, 6]
    """

    def _discover(self, problem: Problem, n_categories: int) -> Outcome:
        return self._outcome(self._cluster(problem, n_categories, problem.columns))


class KMeans(_KMeansBase):
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
        named = Clustering(
            centroids=clustering.centroids[order],
            columns=position[clustering.columns],
            inertia=clustering.inertia,
            n_iter=clustering.n_iter,
            converged=clustering.converged,
        )
        return self._outcome(named)

    @staticmethod
    def _known_first(problem: Problem, clustering: Clustering) -> IntArray:
        """Clusters in the order: that of each known category, then the rest."""
        labelled = problem.labelled
        matching = match_categories(problem.columns[labelled], clustering.columns[labelled])
        cluster_of = {category: cluster for cluster, category in matching.items()}
        free = iter([k for k in range(len(clustering.centroids)) if k not in matching])
        known = [cluster_of[c] if c in cluster_of else next(free) for c in range(problem.n_known)]
        return np.array([*known, *free], dtype=np.int64)
