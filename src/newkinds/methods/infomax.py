"""What PIM, RIM and TIM share: the start, the training, and the way from weights to categories."""

from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
import torch

from newkinds.engine import Partitioner, Run, category_means
from newkinds.labels import UNLABELLED, IntArray
from newkinds.methods.base import CategoryDiscoverer, Outcome
from newkinds.methods.parameters import NOT_NEGATIVE, POSITIVE, POSITIVE_INTEGER, Constraints, one_of
from newkinds.methods.prototypes import checked_prototypes
from newkinds.methods.wariness import Excerpt
from newkinds.names import AUTO, INITS, SEEDINGS, SOLVERS, CountRule, Init, Seeding, SolverName
from newkinds.objective import Objective
from newkinds.progress import Parts, begin_part, evaluation_work
from newkinds.selection.metric import SURE, learnt_metric
from newkinds.selection.n_categories import CategoryCount, Search, usual_rule
from newkinds.selection.plan import (
    CHECKING,
    COUNTING,
    STARTING,
    TRAINING,
    TRAINING_EVALUATIONS,
    checking_work,
    counting_work,
    start_work,
)
from newkinds.selection.problem import Problem, make_problem
from newkinds.selection.recipes import RECIPES, Recipe
from newkinds.selection.rehearsal import REHEARSAL_TRAINING
from newkinds.selection.strangeness import Retrain
from newkinds.selection.training import EVALUATIONS, Start, Training

AGAIN_EVALUATIONS = 60
"""Of a training without some categories, which begins near its end."""


class InfoMax(CategoryDiscoverer):
    """Base of the methods that maximise information with a linear soft-partitioner."""

    _objective: ClassVar[Objective]

    _parameter_constraints: ClassVar[Constraints] = {
        **CategoryDiscoverer._parameter_constraints,
        "lam": [NOT_NEGATIVE],
        "init": [one_of(INITS), "array-like"],
        "n_init": [POSITIVE_INTEGER, None],
        "seeding": [one_of(SEEDINGS), None],
        "solver": [one_of(SOLVERS), None],
        "max_iter": [POSITIVE_INTEGER, None],
        "tol": [NOT_NEGATIVE],
        "learning_rate": [POSITIVE],
        "weight_decay": [NOT_NEGATIVE],
    }

    def _recipe(self) -> Recipe:
        return RECIPES["newkinds"]

    def _restarts(self) -> int:
        return self._recipe().n_init if self.n_init is None else int(self.n_init)

    def _seeding(self) -> Seeding:
        chosen: Seeding = self._recipe().seeding if self.seeding is None else self.seeding
        return chosen

    def _solver(self) -> SolverName:
        chosen: SolverName = self._recipe().solver if self.solver is None else self.solver
        return chosen

    def _search(self) -> Search:
        return replace(super()._search(), solver=self._solver())

    def _training(self, tolerance: float = 0.0) -> Training:
        """The training that the parameters describe, to `tol` or to a larger tolerance."""
        return Training(
            self._solver(), self.max_iter, self.learning_rate, self.weight_decay, max(self.tol, tolerance)
        )

    def _resolve_n_categories(self, problem: Problem) -> tuple[int, CategoryCount | None]:
        if isinstance(self.init, str) or self.n_categories != "auto":
            return super()._resolve_n_categories(problem)
        return problem.check_n_categories(len(self.init)), None

    def _plan(self, problem: Problem) -> Parts:
        counting: Parts = {}
        if isinstance(self.n_categories, str) and isinstance(self.init, str):
            rule = self._auto_rule() if self.n_categories == AUTO else cast(CountRule, self.n_categories)
            search = self._search()
            counting = {COUNTING: counting_work(problem, usual_rule(rule, problem), search.effort, search.n_init)}
        n_categories = self._expected_number(problem)
        n_evaluations = self._expected_evaluations(TRAINING_EVALUATIONS)
        evaluation = evaluation_work(len(problem.columns), n_categories, problem.samples.width)
        return {
            **counting,
            **self._plan_of_start(problem, n_categories),
            TRAINING: n_evaluations * evaluation,
            CHECKING: checking_work(problem),
        }

    def _plan_of_start(self, problem: Problem, n_categories: int) -> Parts:
        """What comes between the count and the last training."""
        return {STARTING: start_work(problem, n_categories, self._restarts())} if isinstance(self.init, str) else {}

    def _expected_evaluations(self, usual: int) -> int:
        """Of one training: Adam's are given, `usual` are those of L-BFGS."""
        most = EVALUATIONS[self._solver()] if self.max_iter is None else int(self.max_iter)
        return most if self._solver() == "adam" else min(usual, most)

    def _expected_number(self, problem: Problem) -> int:
        """Of categories, before they are counted."""
        if not isinstance(self.n_categories, str):
            return int(self.n_categories)
        return 2 * max(problem.n_known, 1) if isinstance(self.init, str) else len(self.init)

    def _start(self, problem: Problem, n_categories: int) -> npt.NDArray[np.float32]:
        """Prototypes to start from: (categories, features), known ones first."""
        if isinstance(self.init, str):
            begin_part(STARTING)
            part = problem.excerpt(n_categories)
            return self._usual_start().prototypes(part, n_categories, part.columns)
        return checked_prototypes(self.init, n_categories, problem.samples.width)

    def _usual_start(self) -> Start:
        return Start(cast(Init, self.init), self._seeding(), self._restarts(), inertia=self._recipe().inertia)

    def _retraining(self, excerpt: Excerpt) -> Retrain:
        """As a fit trains last: in a metric that the samples teach, from the means of their categories."""
        confidence = self.assess(excerpt.unit, self.categories_[excerpt.columns]).confidence
        teaches = excerpt.labelled | (confidence > SURE)
        training = replace(REHEARSAL_TRAINING, max_iter=AGAIN_EVALUATIONS, weight_decay=self.weight_decay)
        objective, sharpness = self._objective.at(self.lam_), self.calibration_.sharpness

        def retrain(
            rows: IntArray, places: IntArray, n: int
        ) -> tuple[Partitioner, npt.NDArray[np.floating[Any]], IntArray]:
            labels = np.where(excerpt.labelled[rows], places, UNLABELLED)
            problem = make_problem(excerpt.unit[rows], None, device=self.device, random_state=0)
            problem = replace(problem, columns=labels, known=np.arange(n))
            mapped = excerpt.unit
            if self.metric_map_ is not None:
                linear = learnt_metric(problem.samples, np.where(teaches[rows], places, UNLABELLED))
                problem = replace(problem, samples=problem.samples.mapped(linear))
                mapped = linear.apply(torch.from_numpy(excerpt.unit)).numpy()
            otherwise = np.zeros((n, problem.samples.width), dtype=np.float32)
            start = category_means(problem.samples, places, otherwise)
            run = Run(start, objective, self.temperature_, self._geometry)
            partitioner = training.train(problem, [run], "rehearsing strangers").partitioners[0]
            found = np.where(labels == UNLABELLED, problem.samples.assign(partitioner), places)
            return replace(partitioner, temperature=partitioner.temperature * sharpness), mapped, found

        return retrain

    def _partition(self, problem: Problem, run: Run, facts: dict[str, Any]) -> Outcome:
        """Train an objective and read the categories off."""
        begin_part(TRAINING)
        trained = self._training().train(problem, [run], "partitioning")
        partitioner, curve = trained.partitioners[0], trained.curve(0)
        return Outcome(
            partitioner=partitioner,
            columns=problem.samples.assign(partitioner),
            n_iter=len(curve),
            stopped="converged" if trained.converged[0] else "max_iter",
            facts={"lam": run.objective.lam, "objective_curve": curve, **facts},
        )
