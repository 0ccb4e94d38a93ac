"""How many categories are there? One function a rule, one table of rules: `COUNT_RULES`.

Our own rule, by rehearsal, is in `newkinds.selection.counting`. The published ones cluster everything, without
labels.

Max-ACC: cluster all samples without labels into K categories, score by the clustering accuracy on the labelled
ones, and search for the best K by Brent's bounded method. GCD clusters by k-means; the PIM paper by its
unsupervised objective G with lam = 1.

k-means has greedy seeding and `n_init` restarts, G temperature 25 and weight decay 0.01, whatever the estimator
that uses a rule is set to; start and solver of G are its recipe's. Our own starts G from that k-means and trains it
by L-BFGS until it has converged, which makes the curve over K less noisy; the paper's starts it from k-means++
seeds and trains 500 epochs of Adam. A large collection is searched by an excerpt, see `Problem.excerpt`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from newkinds.engine import Run
from newkinds.errors import InputError
from newkinds.labels import named_labels
from newkinds.names import SOLVERS, CountRule, RecipeName, SolverName
from newkinds.progress import begin_part
from newkinds.runtime import report_progress
from newkinds.selection.counting import STAGE, count_categories
from newkinds.selection.efforts import NORMAL, Effort
from newkinds.selection.plan import COUNTING
from newkinds.selection.problem import Problem, as_array, checked_features, make_problem
from newkinds.selection.recipes import RECIPES
from newkinds.selection.rehearsal import REHEARSED
from newkinds.selection.training import Start, Training, cluster
from newkinds.workers import working_together

MOST_CATEGORIES = 1000
"""Upper bound of the published searches."""
SEARCH_EPOCHS = 500
"""Most evaluations of G for one K; for Adam the paper's number of epochs (half of a training)."""
SEARCH_TOLERANCE = 1e-3
"""Of L-BFGS where G is only trained to compare candidates."""
UNSUPERVISED_LAM = 1.0
"""Of G where no label can choose: the paper's in the search for K."""
SILHOUETTE_MOST = 20
"""Largest K tried when no label says anything: the index costs one k-means for each K."""
SILHOUETTE_ELEMENTS = 1 << 28
"""Distances computed at a time: a gigabyte."""


@dataclass(frozen=True)
class CategoryCount:
    """An estimated number of categories and how it was found.

    Attributes
    ----------
    n_categories : int
        The best K that was tried, of equals the smallest; by rehearsal, what all that were tried speak for.
    curve : dict of int to float
        Score of every K tried, ascending in K.
    bounds : tuple of int
        The least and the most categories that were allowed.
    method : str
    interval : tuple of int, optional
        In which the number lies with a probability of 90 %, where the rule says so.
    known_share : float, optional
        Of the unlabelled samples, those that belong to known categories, where the rule says so.
    """

    n_categories: int
    curve: dict[int, float]
    bounds: tuple[int, int]
    method: str
    interval: tuple[int, int] | None = None
    known_share: float | None = None

    @property
    def at_bound(self) -> bool:
        return self.n_categories in self.bounds and self.bounds[0] < self.bounds[1]


def estimate_n_categories(
    X: Any,
    y: npt.ArrayLike,
    method: CountRule | None = None,
    bounds: tuple[int, int] | None = None,
    *,
    n_init: int = 10,
    recipe: RecipeName = "newkinds",
    solver: SolverName | None = None,
    device: str = "auto",
    random_state: int | np.random.RandomState | None = None,
) -> CategoryCount:
    """Estimate the number of categories, known and new, in a partly labelled collection.

    Parameters
    ----------
    X : array-like of shape (samples, features)
    y : array-like of shape (samples,)
        Integers (-1 = unlabelled) or names (None, NaN or blank = unlabelled).
    method : {"rehearsal", "max-acc-pim", "max-acc-kmeans", "silhouette"}, optional
        By default what the recipe does: "rehearsal" in ours, "max-acc-pim" in the others, "silhouette" where too
        little is known for these. "rehearsal" (see `newkinds.selection.counting`) needs two known categories, the
        others one; "silhouette" needs no labels.
    bounds : (int, int), optional
        Least and most categories; by default the number of known ones and min(1000, samples // 2).
    n_init : int
        Restarts of each k-means.
    recipe : {"newkinds", "paper", "release"}
        Of "max-acc-pim": what it minimises and starts from (k-means++ seeds in the paper's, k-means in the others).
    solver : {"lbfgs", "adam"}, optional
        How "max-acc-pim" trains; by default "lbfgs" in our recipe and "adam" in the others.
    device, random_state
        As for `PIM`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> digits = load_digits()
    >>> y = np.where(digits.target < 5, digits.target, -1)
    >>> count = estimate_n_categories(digits.data, y, "max-acc-kmeans", bounds=(5, 20), random_state=0)
    >>> count.bounds, count.n_categories in count.curve
    ((5, 20), True)
    """
    features = checked_features(X)
    labels, _ = named_labels(as_array(y), len(features))
    problem = make_problem(features, labels, device=device, random_state=random_state)
    if bounds is not None and (len(bounds) != 2 or any(int(bound) != bound for bound in bounds)):
        raise InputError(f"bounds must be two integers, the least and the most categories; got {bounds!r}")
    if n_init < 1:
        raise InputError(f"n_init must be at least 1; got {n_init}")
    if recipe not in RECIPES:
        raise InputError(f"the recipe must be one of {', '.join(RECIPES)}; got {recipe!r}")
    if solver is not None and solver not in SOLVERS:
        raise InputError(f"the solver must be one of {', '.join(SOLVERS)}; got {solver!r}")
    wanted = RECIPES[recipe].n_categories_rule if method is None else method
    method = usual_rule(wanted, problem) if method is None else method
    if wanted != "max-acc-pim" and (solver is not None or recipe != "newkinds"):
        raise InputError(f"recipe and solver are those of max-acc-pim: there is nothing to choose for {wanted}")
    with working_together(features.size, problem.samples.device.type):
        return search_n_categories(problem, method, Search(bounds, n_init, recipe, solver))


@dataclass(frozen=True)
class Search:
    """What a rule is given beside the problem: the same as `estimate_n_categories` is."""

    bounds: tuple[int, int] | None = None
    n_init: int = 10
    recipe: RecipeName = "newkinds"
    solver: SolverName | None = None
    effort: Effort = NORMAL


def usual_rule(rule: CountRule, problem: Problem) -> CountRule:
    """A recipe's rule, or the silhouette where too few categories are known for it."""
    return "silhouette" if problem.n_known < (2 if rule == "rehearsal" else 1) else rule


def search_n_categories(problem: Problem, method: CountRule, search: Search) -> CategoryCount:
    """`estimate_n_categories` for a problem that was made already."""
    if method not in COUNT_RULES:
        raise InputError(f"the rule for n_categories must be one of {', '.join(COUNT_RULES)}; got {method!r}")
    if not problem.n_known and method != "silhouette":
        raise InputError(f"{method} scores by the labelled samples, and there are none")
    begin_part(COUNTING)
    return COUNT_RULES[method](problem, search)


def by_rehearsal(problem: Problem, search: Search) -> CategoryCount:
    """Our own: see `newkinds.selection.counting`."""
    if problem.n_known < 2:
        raise InputError("a rehearsal hides a known category, so it needs two; give n_categories, or another rule")
    lower, upper = _check_bounds(problem, *(search.bounds or _published_bounds(problem)))
    if lower == upper:  # nothing to look for; everything may be labelled
        return CategoryCount(lower, {}, (lower, upper), "rehearsal", (lower, upper))
    part = problem.excerpt(2 * problem.n_known, REHEARSED)
    count = count_categories(part, lower, upper, effort=search.effort)
    return CategoryCount(
        count.n_categories, count.curve, (lower, upper), "rehearsal", count.interval, count.known_share
    )


def by_labelled_accuracy(problem: Problem, search: Search, *, method: CountRule) -> CategoryCount:
    """Max-ACC: cluster everything without labels; the K whose clusters match the labels best."""
    seed = int(problem.rng.randint(2**31 - 1))
    lower, upper = _check_bounds(problem, *(search.bounds or _published_bounds(problem)))
    part = problem.excerpt(upper)
    recipe = RECIPES[search.recipe]
    training = Training(search.solver or recipe.solver, max_iter=SEARCH_EPOCHS, tolerance=SEARCH_TOLERANCE)

    def score(k: int) -> float:
        # The same seed for every K: the curve does not depend on the order in which Brent visits them.
        rng, stage = np.random.RandomState(seed), f"trying {k} categories"
        if method == "max-acc-pim" and recipe.selection_start == "kmeans++":
            prototypes = Start("sskm++", recipe.seeding).prototypes(replace(part, rng=rng), k, labels=None)
        else:
            clustering = cluster(part, k, n_init=search.n_init, rng=rng, stage=stage)
            if method == "max-acc-kmeans":
                return part.labelled_accuracy(clustering.columns)
            prototypes = clustering.centroids
        run = Run(prototypes, recipe.selection.at(UNSUPERVISED_LAM))
        return part.labelled_accuracy(training.train(part, [run], stage).partitioners[0])

    return _best(maximise_over_integers(score, lower, upper), (lower, upper), method)


def by_silhouette(problem: Problem, search: Search) -> CategoryCount:
    """Without any labels: the K whose clusters lie farthest apart."""
    seed, n = int(problem.rng.randint(2**31 - 1)), len(problem.columns)
    least = max(problem.n_known, min(2, n - 1))
    most = max(least, min(SILHOUETTE_MOST, n - 1, problem.most_categories))
    lower, upper = _check_bounds(problem, *(search.bounds or (least, most)))
    part = problem.excerpt(upper)
    curve = {}
    for k in range(lower, upper + 1):
        curve[k] = _silhouette(part, k, search.n_init, np.random.RandomState(seed))
        report_progress(STAGE, k - lower + 1, upper - lower + 1)
    return _best(curve, (lower, upper), "silhouette")


COUNT_RULES: dict[CountRule, Callable[[Problem, Search], CategoryCount]] = {
    "rehearsal": by_rehearsal,
    "max-acc-kmeans": partial(by_labelled_accuracy, method="max-acc-kmeans"),
    "max-acc-pim": partial(by_labelled_accuracy, method="max-acc-pim"),
    "silhouette": by_silhouette,
}


def _best(curve: dict[int, float], bounds: tuple[int, int], method: CountRule) -> CategoryCount:
    """The best K of a curve, of equals the smallest."""
    best = max(curve, key=lambda k: (curve[k], -k))
    return CategoryCount(best, dict(sorted(curve.items())), bounds, method)


def _published_bounds(problem: Problem) -> tuple[int, int]:
    """From the known categories to 1000, if there are so many samples."""
    most = min(MOST_CATEGORIES, len(problem.columns) // 2, problem.most_categories)
    return problem.n_known, max(problem.n_known, most)


def maximise_over_integers(score: Callable[[int], float], lower: int, upper: int) -> dict[int, float]:
    """Brent's bounded search for the maximum over integers, each tried once.

    Between integers the score is flat, where Brent's parabolas may stop a step or two early (and never at a bound):
    from the best integer it found, the search goes on to its neighbours while they are better.

    Returns
    -------
    dict of int to float
        Every integer that was tried with its score.

    Examples
    --------
    >>> tried = maximise_over_integers(lambda k: -((k - 37) ** 2), 10, 1000)
    >>> max(tried, key=tried.get)
    37
    """
    tried: dict[int, float] = {}
    # Golden sections shrink the range to less than one integer in about this many steps.
    expected = 2 + int(np.ceil(np.log(max(upper - lower, 1)) / np.log(1.618)))

    def loss(x: float) -> float:
        k = round(float(x))
        if k not in tried:
            tried[k] = score(k)
            report_progress(STAGE, min(len(tried), expected), expected)
        return -tried[k]

    if lower == upper:
        loss(lower)
    else:
        minimize_scalar(loss, bounds=(lower, upper), method="bounded")
        settled = False
        while not settled:
            best = max(tried, key=lambda k: tried[k])
            for neighbour in (best - 1, best + 1):
                if lower <= neighbour <= upper:
                    loss(neighbour)
            settled = tried[best] == max(tried.values())
    report_progress(STAGE, expected, expected)
    return tried


def _check_bounds(problem: Problem, lower: int, upper: int) -> tuple[int, int]:
    if lower > upper:
        raise InputError(f"bounds must be (least, most) with least <= most; got ({lower}, {upper})")
    return problem.check_n_categories(lower), problem.check_n_categories(upper)


def _silhouette(problem: Problem, k: int, n_init: int, rng: np.random.RandomState) -> float:
    """Simplified silhouette of a k-means clustering: distances to centroids in place of all pairs."""
    clustering = cluster(problem, k, n_init=n_init, rng=rng, stage=f"trying {k} categories")
    if k == 1:
        return 0.0
    features = problem.samples.take(np.arange(len(problem.columns))).cpu().numpy()
    lengths = (clustering.centroids**2).sum(1)
    gaps = []
    n_rows = max(1, SILHOUETTE_ELEMENTS // k)
    for first in range(0, len(features), n_rows):
        squares = 1 + lengths - 2 * features[first : first + n_rows] @ clustering.centroids.T
        nearest, second = np.sqrt(np.maximum(np.partition(squares, 1, axis=1)[:, :2], 0)).T
        gaps.append((second - nearest) / np.maximum(second, np.finfo(np.float32).tiny))
    return float(np.mean(np.concatenate(gaps)))
