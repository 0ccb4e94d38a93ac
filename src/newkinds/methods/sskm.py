"""Semi-supervised k-means, which is also what GCD discovers with, on the features of its fine-tuned encoder.

Vaze et al., "Generalized Category Discovery", CVPR 2022.
"""

from newkinds.methods.base import Outcome
from newkinds.methods.kmeans import KMeansBase
from newkinds.selection.problem import Problem


class SemiSupervisedKMeans(KMeansBase):
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
