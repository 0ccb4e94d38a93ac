"""PIM: partitioning by parametric information maximisation.

Chiaroni et al., "Parametric Information Maximization for Generalized Category Discovery", ICCV 2023. The authors'
released code departs from their paper in several places. `newkinds.selection.recipes` states both, and ours; the
table in `PIM`'s documentation shows them side by side.
"""

import itertools
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast, get_args

import numpy as np
import numpy.typing as npt

from newkinds.engine import LinearMap, Run
from newkinds.methods.base import Outcome
from newkinds.methods.infomax import InfoMax
from newkinds.methods.parameters import NOT_NEGATIVE, POSITIVE, POSITIVE_INTEGER, Constraints, one_of
from newkinds.names import (
    AUTO,
    METRICS,
    CountRule,
    EffortName,
    Init,
    LamRule,
    MetricName,
    RecipeName,
    Seeding,
    SolverName,
)
from newkinds.objective import PARTITION, Objective
from newkinds.progress import Parts, begin_part
from newkinds.selection.calibration import Calibration
from newkinds.selection.consensus import find_consensus
from newkinds.selection.efforts import EFFORTS, Effort
from newkinds.selection.n_categories import Search
from newkinds.selection.plan import CHOOSING, JOINING, SWEEP_EVALUATIONS, joining_work, rehearsing_work, sweep_work
from newkinds.selection.problem import Problem
from newkinds.selection.recipes import RECIPES, Recipe
from newkinds.selection.refinement import refine
from newkinds.selection.rehearsal import FloatArray
from newkinds.selection.rules import (
    LAM_RULES,
    TEMPERATURE_RULES,
    Choice,
    Question,
    check_lam_grid,
    choose_setting,
)
from newkinds.selection.sizes import expected_shares

CONSENSUS_TOLERANCE = 2e-4
"""Of the trainings whose consensus is only the start of another."""
CONSENSUS_SAMPLES = 1 << 15
"""Samples that those trainings have: a larger collection gives an excerpt."""


class PIM(InfoMax):
    """Parametric information maximisation: a linear soft-partitioner that keeps the labels and finds the rest.

    Minimises `sum_k pi_k log pi_k + CE(labelled) + lam · H(Y|unlabelled)`: categories should be used evenly
    (marginal over all samples), labels be kept, and unlabelled samples be assigned confidently. How much the
    last term counts, lam, is chosen on the data.

    Parameters
    ----------
    n_categories : int, "auto", "rehearsal", "max-acc-pim", "max-acc-kmeans" or "silhouette"
        Known and new together. "auto" is the recipe's rule (with fewer than two known categories "silhouette"). See
        `estimate_n_categories`.
    recipe : {"newkinds", "paper", "release"}
        Whose settings to use where a parameter below is left at "auto" or None:

        ======================== ======================= ===================== ==============================
        \\                        newkinds                paper                 release (the authors' code)
        ======================== ======================= ===================== ==============================
        candidates for lam       6 pairs, see method.md  19 in [0.05, 1]       0.10, 0.15, …, 1.00 (19)
        lam is chosen by         rehearsal               G, H(Y|Z) over all Z  G, H(Y|Z) over unlabelled Z
        G starts from            k-means                 k-means++ seeds       k-means
        trainings of G           independent             independent           each continues the one before,
                                                                               from 0.05 on
        k-means++ of G's start   plain                   plain                 greedy (scikit-learn's)
        k-means++ of ssKM        plain                   plain                 plain
        restarts of ssKM         10                      10 (not stated)       100
        restarts compared by     squared distances,      squared distances,    distances, labelled samples at
                                 labelled at own class   labelled at own class their nearest centroid
        solver                   L-BFGS, to convergence  Adam, 1000 epochs     Adam, 1000 epochs
        temperature              by rehearsal            25 (not stated)       25
        metric                   by rehearsal            cosine                cosine
        consensus of             8 trainings             —                     —
        number of categories     by rehearsal            Max-ACC (PIM)         Max-ACC (PIM; not in the code)
        ======================== ======================= ===================== ==============================

        A `lam_grid` of your own is swept cumulatively in the release too, after its 0.05.
        All three: weight decay 0.01, learning rate 1e-3 (of Adam). What our own recipe says of G holds for
        lam="labelled" and "cautious", where its candidates are the paper's.
    lam : float, "auto", "rehearsal" or "labelled"
        Weight of the conditional entropy. "rehearsal": hide labels, some categories whole, and take what finds
        them again best, see `newkinds.selection.rehearsal`. "labelled" is the paper's rule: train the unsupervised
        objective G for each candidate and take the one with the best clustering accuracy on the labelled samples
        (the first of equals); "cautious" takes the first candidate within one standard error of the best, since the
        curve is often flat and its peak then chance. "auto" is the recipe's rule.
    lam_grid : sequence of float, optional
        Candidates for lam; by default the rule's.
    temperature : float, "auto" or "rehearsal"
        Scale of the logits; "auto" is by rehearsal where lam is, otherwise 25.
    metric : {"auto", "cosine", "within", "self"}
        How samples are compared: by the angle between their features, or in a metric in which directions count
        little that samples of one category differ in. "within" learns it from the labelled samples, "self" also
        from those that a first training, by the cosine, is sure of. "auto" is by rehearsal where lam or the
        temperature is, otherwise the cosine. See `newkinds.selection.metric`.
    effort : {"quick", "normal", "thorough"}
        What is spent on rehearsals, counting and consensus in our recipe: "quick" for a first look (one or two
        rehearsals, no consensus), "thorough" for all that still gains something.
    consensus : int, optional
        Trainings from different starts whose consensus the last one starts from; by default the recipe's. 1: none.
    init : {"sskm", "sskm++", "ssrandom"} or array of shape (n_categories, features)
        Start of the training: semi-supervised k-means, its seeds only, or class means and random samples; or
        prototypes, the known categories' first in the order of their ids.
    n_init : int, optional
        Restarts of semi-supervised k-means, by default the recipe's; G's k-means has as many, but at most 3 (in the
        release 10). The starts of a consensus have one each.
    seeding : {"greedy", "d2", "random"}, optional
        How k-means draws its first centroids; by default the recipe's.
    solver : {"lbfgs", "adam"}, optional
        How a training is done; by default the recipe's. "adam" is the paper's, "lbfgs" gets at least as far in
        about a tenth of the evaluations.
    max_iter : int, optional
        Evaluations of one training (epochs of Adam); by default 1000 for "adam", at most 300 for "lbfgs".
    tol : float
        "lbfgs" ends when five evaluations have lowered the objective by a smaller part than this (in the trainings
        that only serve to choose lam, than 1e-3).
    learning_rate : float
        Of Adam.
    weight_decay : float
        Coupled: added to the gradient.
    device : {"auto", "cpu", "cuda", "mps"}
        Where to train; resolved in `fit`.
    random_state : int, RandomState or None

    Attributes
    ----------
    lam_ : float
        Of the last training, as `temperature_` is. Where that was in a metric, the trainings by the cosine before
        it had others: `rehearsal_.firsts`.
    metric_ : str
        "cosine", "within" or "self".
    lam_curve_ : dict of float to float, or None
        Labelled accuracy of G for each candidate, where lam was chosen by it.
    size_ratio_ : float
        Size of new categories relative to known ones, which the marginal was drawn to. It is 1, the paper's, unless
        rehearsals showed clearly that the sizes are uneven.
    rehearsal_ : Rehearsed or None
        How every setting did in the rehearsals, where there were any.
    objective_curve_ : ndarray of shape (n_iter_,)
        The objective in each evaluation of the final training.
    labels_, categories_, known_categories_, n_categories_, weights_, temperature_, n_categories_search_, \
n_iter_, stopped_
        As for every method, see `newkinds.methods.base.CategoryDiscoverer`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from newkinds import PIM
    >>> X, truth = load_digits(return_X_y=True)
    >>> y = np.where((truth < 5) & (np.arange(len(truth)) % 2 == 0), truth, -1)
    >>> model = PIM(n_categories=10, lam=0.3, max_iter=200, random_state=0).fit(X, y)
    >>> model.categories_
    array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    >>> model.predict_proba(X[:3]).shape, model.novelty(X[:3]).shape
    ((3, 10), (3,))
    """

    _objective: ClassVar[Objective] = PARTITION
    _parameter_constraints: ClassVar[Constraints] = {
        **InfoMax._parameter_constraints,
        "recipe": [one_of(get_args(RecipeName))],
        "lam": [NOT_NEGATIVE, one_of((AUTO, *LAM_RULES))],
        "lam_grid": ["array-like", None],
        "temperature": [POSITIVE, one_of((AUTO, *TEMPERATURE_RULES))],
        "metric": [one_of((AUTO, *METRICS))],
        "effort": [one_of(get_args(EffortName))],
        "consensus": [POSITIVE_INTEGER, None],
    }

    def __init__(
        self,
        n_categories: int | str = "auto",
        *,
        recipe: str = "newkinds",
        lam: float | str = "auto",
        lam_grid: npt.ArrayLike | None = None,
        temperature: float | str = "auto",
        metric: str = "auto",
        effort: str = "normal",
        consensus: int | None = None,
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
        self.recipe = recipe
        self.lam = lam
        self.lam_grid = lam_grid
        self.temperature = temperature
        self.metric = metric
        self.effort = effort
        self.consensus = consensus
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

    @classmethod
    def paper(cls, n_categories: int | str = "auto", **parameters: Any) -> Self:
        """PIM with the settings of the paper: `PIM(recipe="paper")`."""
        return cls(n_categories, recipe="paper", **parameters)

    @classmethod
    def release(cls, n_categories: int | str = "auto", **parameters: Any) -> Self:
        """PIM as the authors' released code runs it, with its departures from the paper: `PIM(recipe="release")`.

        Most visibly, the candidates for lam are not compared like with like: each training of G goes on from
        the weights that the previous lam ended with, so later candidates have been trained up to twenty times
        as long. An empty cluster, which becomes NaN there, is handled here.
        """
        return cls(n_categories, recipe="release", **parameters)

    def _recipe(self) -> Recipe:
        return RECIPES[cast(RecipeName, self.recipe)]

    def _effort(self) -> Effort:
        return EFFORTS[cast(EffortName, self.effort)]

    def _auto_rule(self) -> CountRule:
        return self._recipe().n_categories_rule

    def _search(self) -> Search:
        return replace(super()._search(), recipe=cast(RecipeName, self.recipe), effort=self._effort())

    def _plan_of_start(self, problem: Problem, n_categories: int) -> Parts:
        recipe = self._recipe()
        lam = recipe.rule if self.lam == AUTO else self.lam
        by_rehearsal = "rehearsal" in (lam, self.temperature) and problem.n_known > 1
        parts: dict[str, float] = {}
        if by_rehearsal:
            refines = self.metric != "cosine"
            parts[CHOOSING] = rehearsing_work(problem, n_categories, self._effort(), refines=refines)
        elif isinstance(lam, str) and problem.n_known >= LAM_RULES[cast(LamRule, lam)].least_known:
            n_candidates = len(recipe.lam_grid if self.lam_grid is None else check_lam_grid(self.lam_grid))
            evaluations = self._expected_evaluations(SWEEP_EVALUATIONS)
            parts[CHOOSING] = sweep_work(problem, n_categories, n_candidates, evaluations)
        if not isinstance(self.init, str) or (self._n_members() == 1 and not by_rehearsal):
            parts |= super()._plan_of_start(problem, n_categories)
        else:
            parts[JOINING] = joining_work(
                problem, n_categories, self._n_members(), CONSENSUS_SAMPLES, narrowed=by_rehearsal
            )
        return parts

    def _n_members(self) -> int:
        """Trainings whose consensus the last one starts from."""
        return self._effort().members(self._recipe().consensus) if self.consensus is None else int(self.consensus)

    def _discover(self, problem: Problem, n_categories: int) -> Outcome:
        choice = self._choose(own_generator(problem), n_categories)
        shares = expected_shares(choice.ratio, problem.n_known, n_categories)
        final = self._final_start(problem, n_categories, choice, shares)
        setting = choice.setting
        run = Run(final.start, self._objective.at(setting.lam), setting.temperature, shares=shares)
        facts = {
            "metric": setting.metric,
            "lam_curve": choice.lam_curve,
            "rehearsal": choice.rehearsal,
            "size_ratio": choice.ratio,
        }
        metric_map = final.metric_map
        trained = problem if metric_map is None else replace(problem, samples=problem.samples.mapped(metric_map))
        outcome = self._partition(trained, run, facts)
        unlabelled, experience = outcome.columns[~problem.labelled], choice.experience
        share_new = float((unlabelled >= problem.n_known).mean()) if unlabelled.size else 0.0
        return replace(
            outcome,
            calibration=Calibration() if experience is None else experience.calibration(share_new),
            stability=final.stability,
            metric_map=metric_map,
        )

    def _choose(self, problem: Problem, n_categories: int) -> Choice:
        """lam, the temperature and the metric, as given or by their rules."""
        question = Question(
            n_categories,
            self._objective,
            self._recipe(),
            self._training(),
            self._restarts(),
            self.seeding,
            lam_grid=None if self.lam_grid is None else check_lam_grid(self.lam_grid),
            effort=self._effort(),
            metric=None if self.metric == AUTO else cast(MetricName, self.metric),
        )
        return choose_setting(problem, self.lam, self.temperature, question)

    def _final_start(
        self, problem: Problem, n_categories: int, choice: Choice, shares: FloatArray | None
    ) -> "FinalStart":
        """What the last training starts from: one start, or the consensus of trainings from several.

        In a metric, a training by the cosine comes before it.
        """
        in_metric = choice.setting.metric != "cosine"
        n_members = self._n_members()
        if not isinstance(self.init, str) or (n_members == 1 and choice.rehearsal is None):
            start = self._start(problem, n_categories)
            if not in_metric:
                return FinalStart(start)
            begin_part(JOINING)
            wide = narrow = problem.excerpt(n_categories, CONSENSUS_SAMPLES)
            starts, tolerance = start[None], 0.0
        else:
            begin_part(JOINING)
            wide = problem.excerpt(n_categories, CONSENSUS_SAMPLES)
            narrow = wide.narrowed(n_categories) if choice.rehearsal else wide
            (starts,) = self._usual_start().of_each(narrow, [n_categories], narrow.columns, n_members)
            tolerance = CONSENSUS_TOLERANCE
        settings = list(itertools.islice(itertools.cycle(choice.firsts), len(starts)))
        runs = [
            Run(start, self._objective.at(setting.lam), setting.temperature, shares=shares)
            for start, setting in zip(starts, settings, strict=True)
        ]
        trained = self._training(tolerance).train(narrow, runs, "consensus" if len(runs) > 1 else "first training")
        # The best leads; objectives can be compared where the setting is the same.
        order = sorted(range(len(runs)), key=lambda r: (choice.firsts.index(settings[r]), trained.curve(r)[-1]))
        consensus = find_consensus(narrow, [trained.partitioners[r] for r in order])
        stability = consensus.stability if len(runs) > 1 else None
        if in_metric:
            refined = refine(wide, wide.columns, narrow.samples, consensus.committee, choice.setting.metric)
            return FinalStart(refined.start, refined.linear, stability)
        return FinalStart(consensus.prototypes(wide.samples), None, stability)


@dataclass(frozen=True)
class FinalStart:
    """What the last training starts from, and in which metric it is done; see `Outcome.stability`."""

    start: npt.NDArray[np.float32]
    metric_map: LinearMap | None = None
    stability: npt.NDArray[np.float64] | None = None


def own_generator(problem: Problem) -> Problem:
    """The problem with a generator of its own: however a setting is chosen by it, the start is the same."""
    return replace(problem, rng=np.random.RandomState(problem.rng.randint(2**31 - 1)))
