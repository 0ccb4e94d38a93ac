"""PIM, RIM and TIM: partitioning by parametric information maximisation.

PIM: Chiaroni et al., "Parametric Information Maximization for Generalized Category Discovery", ICCV 2023.
RIM: Krause et al., "Discriminative clustering by regularized information maximization", NeurIPS 2010.
TIM: Boudiaf et al., "Transductive information maximization for few-shot learning", NeurIPS 2020.

The authors' released code departs from their paper in several places. `newkinds.methods.recipes` states both, and
ours; the table in `PIM`'s documentation shows them side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, StrOptions

from newkinds.engine import (
    SEEDINGS,
    SOLVERS,
    Geometry,
    Run,
    Seeding,
    SolverName,
    Trained,
    kmeans,
    optimise,
    seed_centroids,
)
from newkinds.errors import InputError
from newkinds.labels import IntArray
from newkinds.methods.base import CategoryDiscoverer, Outcome
from newkinds.methods.calibration import Calibration, calibrate
from newkinds.methods.consensus import consensus_start
from newkinds.methods.n_categories import SEARCH_TOLERANCE, CategoryCount, Rule
from newkinds.methods.problem import FLOATS, Problem, as_array, pose
from newkinds.methods.recipes import RECIPES, Recipe
from newkinds.methods.rehearsal import (
    REHEARSALS,
    REHEARSED,
    Rehearsed,
    Setting,
    candidates,
    draw_rehearsals,
    rehearse,
)
from newkinds.objective import PARTITION, Objective
from newkinds.objective import RIM as RIM_OBJECTIVE

Init = Literal["sskm", "sskm++", "ssrandom"]
INITS: tuple[Init, ...] = get_args(Init)

TEMPERATURE = 25.0
"""The released code's; the paper does not state one."""
UNSUPERVISED_LAM = 1.0
"""Where no label can choose: the value with which the paper's search for K trains the same objective."""
LABELLED_RULES = ("labelled", "cautious")
"""Rules for lam that look at the labelled accuracy of G."""
UNREHEARSED = Setting(lam=0.03, temperature=40.0)
"""Where a single known category leaves nothing to rehearse with: the middle of what rehearsals choose."""
CONSENSUS_TOLERANCE = 2e-4
"""Of the trainings whose consensus is only the start of another."""
START_ITERATIONS = 100
"""Iterations of (semi-supervised) k-means where it is a start."""
EVALUATIONS: dict[SolverName, int] = {"adam": 1000, "lbfgs": 300}
"""Most evaluations of one training: the paper's epochs, and what L-BFGS rarely needs."""


class _InfoMax(CategoryDiscoverer):
    """What PIM, RIM and TIM share: the start, the training and the way from weights to categories."""

    _objective: ClassVar[Objective]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CategoryDiscoverer._parameter_constraints,
        "lam": [Interval(Real, 0, None, closed="left")],
        "init": [StrOptions(set(INITS)), "array-like"],
        "n_init": [Interval(Integral, 1, None, closed="left"), None],
        "seeding": [StrOptions(set(SEEDINGS)), None],
        "solver": [StrOptions(set(SOLVERS)), None],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
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

    def _resolve_n_categories(self, problem: Problem) -> tuple[int, CategoryCount | None]:
        if isinstance(self.init, str) or self.n_categories != "auto":
            return super()._resolve_n_categories(problem)
        return problem.check_n_categories(len(self.init)), None

    def _start(self, problem: Problem, n_categories: int, n_init: int | None = None) -> npt.NDArray[np.float32]:
        """Prototypes to start from: (categories, features), known ones first."""
        if not isinstance(self.init, str):
            start = np.array(as_array(self.init), dtype=np.float32, order="C")
            expected = (n_categories, problem.samples.width)
            if start.shape != expected:
                raise InputError(
                    f"init as an array must have a row for each category and a column for each feature, "
                    f"{expected}; got shape {start.shape}"
                )
            if not np.isfinite(start).all():
                raise InputError("init as an array must be finite; it holds NaN or infinity")
            return start
        part = problem.excerpt(n_categories)
        if self.init == "sskm":
            return kmeans(
                part.samples,
                n_categories,
                labels=part.columns,
                seeding=self._seeding(),
                n_init=n_init or self._restarts(),
                max_iter=START_ITERATIONS,
                tolerance=part.kmeans_tolerance,
                inertia=self._recipe().inertia,
                rng=problem.rng,
                stage="semi-supervised k-means",
            ).centroids
        seeding: Seeding = "random" if self.init == "ssrandom" else self._seeding()
        seeds = seed_centroids(part.samples, n_categories, labels=part.columns, seeding=seeding, rng=problem.rng)
        return seeds[0].cpu().numpy()

    def _optimise(self, problem: Problem, runs: list[Run], stage: str, tolerance: float) -> Trained:
        # For G the labels only say which samples the conditional entropy is taken over.
        solver = self._solver()
        return optimise(
            problem.samples,
            runs,
            labels=problem.columns,
            solver=solver,
            max_iter=EVALUATIONS[solver] if self.max_iter is None else self.max_iter,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            tolerance=tolerance,
            stage=stage,
        )

    def _partition(self, problem: Problem, run: Run, facts: dict[str, Any]) -> Outcome:
        """Train an objective and read the categories off."""
        trained = self._optimise(problem, [run], "partitioning", self.tol)
        partitioner, curve = trained.partitioners[0], trained.curve(0)
        return Outcome(
            partitioner=partitioner,
            columns=problem.samples.assign(partitioner),
            n_iter=len(curve),
            stopped="converged" if trained.converged[0] else "max_iter",
            facts={"lam": run.objective.lam, "objective_curve": curve, **facts},
        )


@dataclass(frozen=True)
class _Settled:
    """What was chosen, and what it was chosen by."""

    setting: Setting
    lam_curve: dict[float, float] | None = None
    rehearsal: Rehearsed | None = None
    calibration: Calibration = field(default_factory=Calibration)


class PIM(_InfoMax):
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
        candidates for lam       5 in [0.01, 1]          19 in [0.05, 1]       0.10, 0.15, …, 1.00 (19)
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
        consensus of             8 trainings             —                     —
        number of categories     by rehearsal            Max-ACC (PIM)         Max-ACC (PIM; not in the code)
        ======================== ======================= ===================== ==============================

        A `lam_grid` of your own is swept cumulatively in the release too, after its 0.05.
        All three: weight decay 0.01, learning rate 1e-3 (of Adam). What our own recipe says of G holds for
        lam="labelled" and "cautious", where its candidates are the paper's.
    lam : float, "auto", "rehearsal" or "labelled"
        Weight of the conditional entropy. "rehearsal": hide labels, some categories whole, and take what finds
        them again best, see `newkinds.methods.rehearsal`. "labelled" is the paper's rule: train the unsupervised
        objective G for each candidate and take the one with the best clustering accuracy on the labelled samples
        (the first of equals); "cautious" takes the first candidate within one standard error of the best, since the
        curve is often flat and its peak then chance. "auto" is the recipe's rule.
    lam_grid : sequence of float, optional
        Candidates for lam; by default the rule's.
    temperature : float, "auto" or "rehearsal"
        Scale of the logits; "auto" is by rehearsal where lam is, otherwise 25.
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
    lam_curve_ : dict of float to float, or None
        Labelled accuracy of G for each candidate, where lam was chosen by it.
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
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_InfoMax._parameter_constraints,
        "recipe": [StrOptions(set(RECIPES))],
        "lam": [*_InfoMax._parameter_constraints["lam"], StrOptions({"auto", "rehearsal", *LABELLED_RULES})],
        "lam_grid": ["array-like", None],
        "temperature": [*_InfoMax._parameter_constraints["temperature"], StrOptions({"auto", "rehearsal"})],
        "consensus": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        n_categories: int | str = "auto",
        *,
        recipe: str = "newkinds",
        lam: float | str = "auto",
        lam_grid: npt.ArrayLike | None = None,
        temperature: float | str = "auto",
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
        self.consensus = consensus
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
        return RECIPES[self.recipe]

    def _auto_rule(self) -> Rule:
        return self._recipe().n_categories_rule

    def _discover(self, problem: Problem, n_categories: int) -> Outcome:
        settled = self._settle(_chooser(problem), n_categories)
        start = self._consensus_start(problem, n_categories, settled.setting)
        run = Run(start, self._objective.at(settled.setting.lam), settled.setting.temperature)
        facts = {"lam_curve": settled.lam_curve, "rehearsal": settled.rehearsal}
        outcome = self._partition(problem, run, facts)
        unlabelled = outcome.columns[~problem.labelled]
        share_new = float((unlabelled >= problem.n_known).mean()) if unlabelled.size else 0.0
        return replace(outcome, calibration=settled.calibration.at_share(share_new))

    def _settle(self, problem: Problem, n_categories: int) -> _Settled:
        """Choose what was left to choose of lam and the temperature."""
        lam = self._recipe().rule if self.lam == "auto" else self.lam
        temperature = self.temperature
        if temperature == "auto":
            temperature = "rehearsal" if lam == "rehearsal" else TEMPERATURE
        if lam in LABELLED_RULES and temperature == "rehearsal":
            raise InputError(f"lam={lam!r} is chosen at a given temperature: give one, or lam='rehearsal'")
        rule, needed = ("rehearsal", 2) if "rehearsal" in (lam, temperature) else (lam, 1)
        if problem.n_known < needed and isinstance(rule, str):
            if rule in (self.lam, self.temperature):
                raise InputError(
                    f"lam={self.lam!r}, temperature={self.temperature!r}: the rule {rule!r} needs {needed} or more "
                    f"known categories, and there are {problem.n_known}"
                )
            otherwise = UNREHEARSED if problem.n_known else Setting(UNSUPERVISED_LAM, TEMPERATURE)
            lam = otherwise.lam if isinstance(lam, str) else lam
            temperature = otherwise.temperature if isinstance(temperature, str) else temperature
        if "rehearsal" in (lam, temperature):
            return self._rehearse(problem, n_categories, lam, temperature)
        if lam in LABELLED_RULES:
            curve = self._labelled_curve(problem, n_categories, float(temperature))
            best = max(curve.values())
            slack = _standard_error(best, int(problem.labelled.sum())) if lam == "cautious" else 0.0
            first = next(lam for lam, score in curve.items() if score >= best - slack)
            return _Settled(Setting(first, float(temperature)), curve)
        return _Settled(Setting(float(lam), float(temperature)))

    def _rehearse(
        self, problem: Problem, n_categories: int, lam: float | str, temperature: float | str
    ) -> _Settled:
        lams: Sequence[float] | None = None
        if not isinstance(lam, str):
            lams = [float(lam)]
        elif self.lam_grid is not None:
            lams = check_lam_grid(self.lam_grid)
        temperatures = None if isinstance(temperature, str) else [float(temperature)]
        part = problem.excerpt(n_categories, REHEARSED)
        rehearsals = draw_rehearsals(part, REHEARSALS)
        rehearsed, partitioners = rehearse(
            part,
            rehearsals,
            n_categories,
            candidates(lams, temperatures),
            objective=self._objective,
            weight_decay=self.weight_decay,
        )
        calibration = calibrate(part, rehearsals, partitioners)
        return _Settled(rehearsed.chosen, rehearsal=rehearsed, calibration=calibration)

    def _consensus_start(self, problem: Problem, n_categories: int, setting: Setting) -> npt.NDArray[np.float32]:
        """The consensus of trainings from different starts, or a single start where that is asked for."""
        n_runs = self._recipe().consensus if self.consensus is None else int(self.consensus)
        if n_runs == 1 or not isinstance(self.init, str):
            return self._start(problem, n_categories)
        part = problem.excerpt(n_categories, REHEARSED)
        runs = [
            Run(
                self._start(part, n_categories, n_init=1),
                self._objective.at(setting.lam),
                setting.temperature,
            )
            for _ in range(n_runs)
        ]
        trained = self._optimise(part, runs, "consensus", max(self.tol, CONSENSUS_TOLERANCE))
        best_first = np.argsort([trained.curve(r)[-1] for r in range(n_runs)], kind="stable")
        return consensus_start(part, [trained.partitioners[r] for r in best_first])

    def _labelled_curve(self, problem: Problem, n_categories: int, temperature: float) -> dict[float, float]:
        """Labelled accuracy of the unsupervised objective G for each candidate lam."""
        recipe = self._recipe()
        grid = recipe.lam_grid if self.lam_grid is None else check_lam_grid(self.lam_grid)
        start = self._selection_start(problem, n_categories)
        stage, tolerance = "choosing λ", max(self.tol, SEARCH_TOLERANCE)
        if recipe.cumulative:
            partitioners = []
            for i, lam in enumerate((*recipe.lam_warm_up, *grid)):
                run = Run(start, recipe.selection.at(lam), temperature)
                part = f"{stage} ({i + 1} of {len(recipe.lam_warm_up) + len(grid)})"
                partitioners.append(self._optimise(problem, [run], part, tolerance).partitioners[0])
                start = partitioners[-1].weights
            partitioners = partitioners[len(recipe.lam_warm_up) :]
        else:
            runs = [Run(start, recipe.selection.at(lam), temperature) for lam in grid]
            partitioners = list(self._optimise(problem, runs, stage, tolerance).partitioners)
        return {lam: problem.labelled_accuracy(found) for lam, found in zip(grid, partitioners, strict=True)}

    def _selection_start(self, problem: Problem, n_categories: int) -> npt.NDArray[np.float32]:
        part = problem.excerpt(n_categories)
        if self._recipe().selection_start == "kmeans++":
            seeds = seed_centroids(part.samples, n_categories, seeding=self._seeding(), rng=problem.rng)
            return seeds[0].cpu().numpy()
        return kmeans(
            part.samples,
            n_categories,
            seeding=self.seeding or self._recipe().selection_seeding,
            n_init=min(self._restarts(), self._recipe().selection_restarts),
            max_iter=START_ITERATIONS,
            tolerance=part.kmeans_tolerance,
            rng=problem.rng,
        ).centroids


class RIM(_InfoMax):
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

    _objective: ClassVar[Objective] = RIM_OBJECTIVE

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


def partitions(
    X: Any,
    y: npt.ArrayLike,
    runs: Sequence[tuple[int, Init, Objective]],
    n_categories: int,
    *,
    temperature: float = TEMPERATURE,
    device: str = "auto",
) -> list[IntArray]:
    """The categories (columns, known ones first) that objectives find from given starts, all trained at once.

    Each is what `PIM(n_categories, lam=..., temperature=..., init=..., consensus=1, random_state=seed)` finds with
    that objective in place of its own.

    Parameters
    ----------
    X, y
        As for `PIM.fit`.
    runs : sequence of (seed, init, objective)
    n_categories : int
    temperature : float
    device : str
    """
    features = check_array(as_array(X), dtype=FLOATS, ensure_all_finite=False)
    problem = pose(features, y, device=device, random_state=0)
    starts: dict[tuple[int, Init], npt.NDArray[np.float32]] = {}
    for seed, init, _ in runs:
        if (seed, init) not in starts:
            own = replace(problem, rng=np.random.RandomState(seed))
            _chooser(own)
            starts[seed, init] = PIM(n_categories, init=init)._start(own, n_categories)
    model = PIM(n_categories)
    prepared = [Run(starts[seed, init], objective, temperature) for seed, init, objective in runs]
    trained = model._optimise(problem, prepared, "partitioning", model.tol)
    return [problem.samples.assign(found) for found in trained.partitioners]


def _chooser(problem: Problem) -> Problem:
    """The problem with a generator of its own: however a setting is chosen by it, the start is the same."""
    return replace(problem, rng=np.random.RandomState(problem.rng.randint(2**31 - 1)))


def _standard_error(share: float, n: int) -> float:
    """Of a share that was found among n."""
    return float(np.sqrt(share * (1 - share) / n))


def check_lam_grid(values: npt.ArrayLike) -> tuple[float, ...]:
    """The candidates for lam as a tuple, or say what is wrong with them."""
    try:
        grid = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        grid = np.empty(0)
    if grid.ndim != 1 or grid.size == 0 or not np.isfinite(grid).all() or (grid < 0).any():
        raise InputError(f"lam_grid must be a non-empty sequence of numbers >= 0; got {values!r}")
    return tuple(dict.fromkeys(grid.tolist()))
