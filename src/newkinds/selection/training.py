"""The way from a problem to the engine: prototypes to start from, and trainings.

Everything that chooses, and every method that trains partitioners, goes through these functions, so that what holds
for a problem (its samples, its random numbers, how far a k-means is taken) is said in one place.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from newkinds.engine import Clustering, Run, Trained, cluster_each, kmeans, optimise, seed_centroids
from newkinds.labels import IntArray
from newkinds.names import Inertia, Init, Seeding, SolverName
from newkinds.selection.problem import Problem

START_ITERATIONS = 100
"""Of (semi-supervised) k-means where it is the start of a training."""
EVALUATIONS: dict[SolverName, int] = {"adam": 1000, "lbfgs": 300}
"""Most evaluations of one training: the paper's epochs, and what L-BFGS rarely needs."""


@dataclass(frozen=True)
class Training:
    """How partitioners are trained; see `newkinds.engine.optimise`.

    Attributes
    ----------
    solver : {"lbfgs", "adam"}
    max_iter : int, optional
        Evaluations of the objective; by default `EVALUATIONS` of the solver.
    learning_rate : float
        Of Adam.
    weight_decay : float
    tolerance : float
        Of L-BFGS.
    """

    solver: SolverName = "lbfgs"
    max_iter: int | None = None
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    tolerance: float = 2e-5

    def train(self, problem: Problem, runs: list[Run], stage: str) -> Trained:
        """Train runs; those without labels of their own take the problem's.

        An objective without cross-entropy still reads the labels: they say which samples are unlabelled.
        """
        return optimise(
            problem.samples,
            runs,
            labels=problem.columns,
            solver=self.solver,
            max_iter=EVALUATIONS[self.solver] if self.max_iter is None else self.max_iter,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            tolerance=self.tolerance,
            stage=stage,
        )


@dataclass(frozen=True)
class Start:
    """How prototypes are found to start a training from.

    Attributes
    ----------
    init : {"sskm", "sskm++", "ssrandom"}
        k-means (semi-supervised where labels are given), its seeds only, or random seeds.
    seeding : {"greedy", "d2", "random"}
        How k-means draws its seeds.
    n_init : int
        Restarts of k-means.
    max_iter : int
        Iterations of each.
    inertia : {"squared", "nearest"}
        By which restarts are compared.
    """

    init: Init = "sskm"
    seeding: Seeding = "d2"
    n_init: int = 10
    max_iter: int = START_ITERATIONS
    inertia: Inertia = "squared"

    def prototypes(self, problem: Problem, n_categories: int, labels: IntArray | None) -> npt.NDArray[np.float32]:
        """Prototypes of shape (categories, features), those of the labelled categories first.

        `labels` are columns of the problem's samples, -1 = unlabelled; None: nothing is labelled.
        """
        if self.init == "sskm":
            return cluster(
                problem,
                n_categories,
                labels=labels,
                seeding=self.seeding,
                n_init=self.n_init,
                max_iter=self.max_iter,
                inertia=self.inertia,
            ).centroids
        return self._seeds(problem, n_categories, labels)[0].cpu().numpy()

    def of_each(
        self, problem: Problem, numbers: Sequence[int], labels: IntArray, n_starts: int
    ) -> list[npt.NDArray[np.float32]]:
        """Several starts, without restarts to choose from, for several numbers of categories.

        The seeds of a number are the first ones of a larger number, so that what differs between numbers is not
        chance.

        Parameters
        ----------
        problem : Problem
        numbers : sequence of int
        labels : ndarray of shape (samples,) or (n_starts, samples)
            As for `prototypes`; or each start has its own, all with the same number of labelled categories.
        n_starts : int

        Returns
        -------
        list of ndarray of shape (n_starts, categories, features)
            One for each number.
        """
        seeds = self._seeds(problem, max(numbers), labels, n_starts)
        if self.init != "sskm":
            return [seeds[:, :number].cpu().numpy() for number in numbers]
        return [
            cluster_each(
                problem.samples,
                seeds[:, :number],
                labels,
                max_iter=self.max_iter,
                tolerance=problem.kmeans_tolerance,
                stage="semi-supervised k-means",
            )
            for number in numbers
        ]

    def _seeds(self, problem: Problem, n_categories: int, labels: IntArray | None, n_init: int = 1) -> Tensor:
        seeding: Seeding = "random" if self.init == "ssrandom" else self.seeding
        return seed_centroids(
            problem.samples, n_categories, labels=labels, seeding=seeding, n_init=n_init, rng=problem.rng
        )


def cluster(
    problem: Problem,
    n_categories: int,
    *,
    labels: IntArray | None = None,
    seeding: Seeding = "greedy",
    n_init: int = 10,
    max_iter: int = START_ITERATIONS,
    inertia: Inertia = "squared",
    rng: np.random.RandomState | None = None,
    stage: str | None = None,
) -> Clustering:
    """k-means on a problem's samples, semi-supervised where labels are given; see `newkinds.engine.kmeans`.

    `rng` takes the place of the problem's own generator.
    """
    return kmeans(
        problem.samples,
        n_categories,
        labels=labels,
        seeding=seeding,
        n_init=n_init,
        max_iter=max_iter,
        tolerance=problem.kmeans_tolerance,
        inertia=inertia,
        rng=problem.rng if rng is None else rng,
        stage=stage or ("k-means" if labels is None else "semi-supervised k-means"),
    )
