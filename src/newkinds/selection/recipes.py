"""Settings by name: the paper's, those of the authors' released code, and our own."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from newkinds.names import CountRule, Inertia, LamRule, RecipeName, Seeding, SolverName
from newkinds.objective import SELECTION, SELECTION_RELEASED, Objective


@dataclass(frozen=True)
class Recipe:
    """What distinguishes the paper, the authors' released code, and this package's own choice.

    Attributes
    ----------
    lam_grid : tuple of float
        Candidates for lam.
    lam_warm_up : tuple of float
        Values trained before the grid whose results are discarded.
    cumulative : bool
        Whether each lam starts from the weights the previous one ended with.
    selection : Objective
        G, trained without labels for each lam.
    selection_start : {"kmeans", "kmeans++"}
        What G starts from.
    selection_seeding : {"greedy", "d2"}
        Seeding of that k-means.
    selection_restarts : int
        Its restarts, if `n_init` is not less.
    seeding : {"greedy", "d2"}
        Seeding of semi-supervised k-means.
    n_init : int
        Restarts of k-means and of semi-supervised k-means.
    inertia : {"squared", "nearest"}
        By what the restarts of semi-supervised k-means are compared, see `newkinds.engine.kmeans`.
    solver : {"adam", "lbfgs"}
        How every training is done, see `newkinds.engine.optimise`.
    rule : {"labelled", "rehearsal"}
        How lam is chosen; by rehearsal the temperature is too, otherwise it is 25.
    n_categories_rule : {"max-acc-pim", "rehearsal"}
        How the number of categories is.
    consensus : int
        Trainings from different starts whose consensus the last one starts from.
    """

    lam_grid: tuple[float, ...]
    selection: Objective = SELECTION
    selection_start: Literal["kmeans", "kmeans++"] = "kmeans"
    lam_warm_up: tuple[float, ...] = ()
    cumulative: bool = False
    selection_seeding: Seeding = "d2"
    selection_restarts: int = 10
    seeding: Seeding = "d2"
    n_init: int = 10
    inertia: Inertia = "squared"
    solver: SolverName = "adam"
    rule: LamRule = "labelled"
    n_categories_rule: CountRule = "max-acc-pim"
    consensus: int = 1


PAPER_GRID = tuple(np.linspace(0.05, 1.0, 19).tolist())
RELEASED_GRID = tuple((np.arange(2, 21) / 20).tolist())  # 0.10, 0.15, … 1.00

RECIPES: dict[RecipeName, Recipe] = {
    "newkinds": Recipe(
        lam_grid=PAPER_GRID,
        selection_restarts=3,
        solver="lbfgs",
        rule="rehearsal",
        n_categories_rule="rehearsal",
        consensus=8,
    ),
    "paper": Recipe(lam_grid=PAPER_GRID, selection_start="kmeans++"),
    "release": Recipe(
        lam_grid=RELEASED_GRID,
        lam_warm_up=(0.05,),
        cumulative=True,
        selection=SELECTION_RELEASED,
        selection_seeding="greedy",  # scikit-learn's k-means
        n_init=100,
        inertia="nearest",
    ),
}
