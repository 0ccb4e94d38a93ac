"""RIM: Krause et al., "Discriminative clustering by regularized information maximization", NeurIPS 2010."""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from newkinds import objective
from newkinds.engine import TEMPERATURE, Run
from newkinds.methods.base import Outcome
from newkinds.methods.infomax import InfoMax
from newkinds.names import Init, Seeding, SolverName
from newkinds.objective import Objective
from newkinds.selection.problem import Problem


class RIM(InfoMax):
    """Semi-supervised RIM: as PIM at a fixed lam, with the marginal over the unlabelled samples only.

    Parameters
    ----------
    n_categories, init, n_init, seeding, solver, max_iter, tol, learning_rate, weight_decay, device, random_state
        See `PIM`.
    lam : float
        Weight of the conditional entropy.
    temperature : float

    Examples
    --------
    >>> from newkinds import RIM
    >>> X = [[1, 0.1], [1, 0], [0.1, 1], [0, 1], [-1, 0], [-1, 0.1]]
    >>> model = RIM(n_categories=3, max_iter=50, random_state=0)
    >>> model.fit_predict(X, [0, -1, -1, -1, -1, -1]).tolist()
    [0, 0, 1, 1, 2, 2]
    """

    _objective: ClassVar[Objective] = objective.RIM

    def __init__(
        self,
        n_categories: int | str = "auto",
        *,
        lam: float = 1.0,
        temperature: float = TEMPERATURE,
        init: Init | npt.ArrayLike = "sskm",
        n_init: int | None = None,
        seeding: Seeding | None = None,
        solver: SolverName | None = None,
        max_iter: int | None = None,
        tol: float = 2e-5,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.01,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_categories = n_categories
        self.lam = lam
        self.temperature = temperature
        self.init = init
        self.n_init = n_init
        self.seeding = seeding
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.device = device
        self.random_state = random_state

    def _discover(self, problem: Problem, n_categories: int) -> Outcome:
        start = self._start(problem, n_categories)
        run = Run(start, self._objective.at(float(self.lam)), float(self.temperature), self._geometry)
        return self._partition(problem, run, {})
