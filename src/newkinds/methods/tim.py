"""TIM: Boudiaf et al., "Transductive information maximization for few-shot learning", NeurIPS 2020."""

from typing import ClassVar

from newkinds.methods.rim import RIM
from newkinds.names import Geometry


class TIM(RIM):
    """TIM: RIM's loss on the logits of distances, `-temperature / 2 · |z - w_k|²`.

    Its own publication weights cross-entropy and conditional entropy by 0.1 and has temperature 15; the PIM
    paper, which is followed here, compares with TIM at the same fixed loss as RIM.

    Parameters
    ----------
    n_categories, lam, temperature, init, n_init, seeding, solver, max_iter, tol, learning_rate, weight_decay, \
device, random_state
        See `RIM`.

    Examples
    --------
    >>> from newkinds import TIM
    >>> X = [[1, 0.1], [1, 0], [0.1, 1], [0, 1], [-1, 0], [-1, 0.1]]
    >>> model = TIM(n_categories=3, max_iter=50, random_state=0)
    >>> model.fit_predict(X, [0, -1, -1, -1, -1, -1]).tolist()
    [0, 0, 1, 1, 2, 2]
    """

    _geometry: ClassVar[Geometry] = "euclidean"
