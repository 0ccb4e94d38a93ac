"""What the parts of a fit are expected to take, for one measure of progress; see `newkinds.progress`.

Numbers of evaluations are about those that five collections of photos and texts needed.
"""

from newkinds.names import CountRule
from newkinds.progress import comparison_work, evaluation_work
from newkinds.selection.efforts import Effort
from newkinds.selection.metric import WIDEST, narrow_width
from newkinds.selection.problem import EXCERPT, Problem
from newkinds.selection.rehearsal import REHEARSED, n_rehearsals
from newkinds.selection.settings import FIRST_SETTINGS, REFINEMENTS

COUNTING = "counting the kinds"
STARTING = "looking for a start"
CHOOSING = "trying settings on known kinds"
JOINING = "joining several trainings"
TRAINING = "assigning every sample"
CHECKING = "checking the labels"

COUNTING_EVALUATIONS = 90
"""Of one training of a rehearsal, at the setting that numbers are compared with."""
REHEARSAL_EVALUATIONS = 95
"""The same, on average over the candidates."""
REFINING_EVALUATIONS = 25
JOINING_EVALUATIONS = 95
TRAINING_EVALUATIONS = 60
"""Of L-BFGS; Adam's are given."""
SWEEP_EVALUATIONS = 60
"""Of L-BFGS, for one candidate of the published rules."""
STILL_THERE = 0.6
"""Of the candidates, in rehearsals after the first."""
KMEANS_ITERATIONS = 30
SEARCH_STEPS = 17
"""Numbers of categories that a published search tries."""


def counting_work(problem: Problem, rule: CountRule, effort: Effort, n_init: int) -> float:
    """Of counting the categories."""
    n, n_categories = len(problem.columns), 2 * max(problem.n_known, 1)
    if rule != "rehearsal":
        n = min(n, EXCERPT)
        clustering = n_init * KMEANS_ITERATIONS * comparison_work(n, n_categories, problem.samples.width)
        training = TRAINING_EVALUATIONS * evaluation_work(n, n_categories, problem.samples.width)
        return SEARCH_STEPS * (clustering + (training if rule == "max-acc-pim" else 0.0))
    numbers = 2 + 2 * effort.counting_reach
    evaluation = evaluation_work(min(n, REHEARSED), n_categories, narrow_width(problem.samples, n_categories))
    return numbers * effort.counting_rehearsals * COUNTING_EVALUATIONS * evaluation


def rehearsing_work(problem: Problem, n_categories: int, effort: Effort, *, refines: bool) -> float:
    """Of choosing settings by rehearsal."""
    n, width = min(len(problem.columns), REHEARSED), problem.samples.width
    rehearsals = n_rehearsals(problem.n_known, effort)
    n_settings = len(FIRST_SETTINGS[:: effort.step]) * (1 + STILL_THERE * (rehearsals - 1))
    work = (
        n_settings
        * REHEARSAL_EVALUATIONS
        * evaluation_work(n, n_categories, narrow_width(problem.samples, n_categories))
    )
    if refines:
        n_refinements = len(REFINEMENTS[:: effort.step]) * rehearsals
        work += n_refinements * REFINING_EVALUATIONS * evaluation_work(n, n_categories, min(width, WIDEST))
    return work


def sweep_work(problem: Problem, n_categories: int, n_candidates: int, evaluations: int) -> float:
    """Of choosing λ among candidates by the published rules."""
    return n_candidates * evaluations * evaluation_work(len(problem.columns), n_categories, problem.samples.width)


def start_work(problem: Problem, n_categories: int, n_init: int) -> float:
    """Of semi-supervised k-means."""
    n = min(len(problem.columns), EXCERPT)
    return n_init * KMEANS_ITERATIONS * comparison_work(n, n_categories, problem.samples.width)


def joining_work(problem: Problem, n_categories: int, n_members: int, most: int, *, narrowed: bool) -> float:
    """Of a consensus of so many trainings on at most so many samples."""
    n = min(len(problem.columns), most)
    width = narrow_width(problem.samples, n_categories) if narrowed else problem.samples.width
    start = KMEANS_ITERATIONS * comparison_work(n, n_categories, width)
    return n_members * (start + JOINING_EVALUATIONS * evaluation_work(n, n_categories, width))


def checking_work(problem: Problem) -> float:
    """Of looking for labels that look wrong: ten times a covariance and its inverse."""
    return 20.0 * (int(problem.labelled.sum()) + problem.samples.width) * problem.samples.width**2
