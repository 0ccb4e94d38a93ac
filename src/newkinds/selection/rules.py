"""How λ and the temperature are chosen: one function a rule, one table of rules, `LAM_RULES`.

To add a rule, write its function, give it a line in the table, and its name to `newkinds.names.LamRule`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from newkinds.engine import TEMPERATURE, Run
from newkinds.errors import InputError
from newkinds.names import AUTO, LamRule, MetricName, Seeding
from newkinds.objective import Objective
from newkinds.progress import begin_part
from newkinds.selection.calibration import Experience
from newkinds.selection.efforts import NORMAL, Effort
from newkinds.selection.n_categories import SEARCH_TOLERANCE, UNSUPERVISED_LAM
from newkinds.selection.plan import CHOOSING
from newkinds.selection.problem import Problem
from newkinds.selection.recipes import Recipe
from newkinds.selection.rehearsal import (
    REHEARSED,
    STAGE,
    Rehearsed,
    draw_rehearsals,
    n_rehearsals,
    rehearse,
    rehearse_refinements,
    try_settings,
)
from newkinds.selection.settings import REFINEMENTS, Setting, candidates, nearest, refinements
from newkinds.selection.sizes import (
    SIZES_SETTING,
    evened,
    expected_shares,
    measure_known_share,
    settled_ratio,
)
from newkinds.selection.training import Start, Training

UNREHEARSED = Setting(lam=0.03, temperature=40.0)
"""Where a single known category leaves nothing to rehearse with: the middle of what rehearsals choose."""
UNSUPERVISED = Setting(UNSUPERVISED_LAM, TEMPERATURE)
"""Where nothing is labelled."""
REHEARSED_METRIC: MetricName = "self"
"""The metric that rehearsals compare with the cosine."""


@dataclass(frozen=True)
class Choice:
    """What was chosen, and what it was chosen by.

    `firsts` are settings of the trainings by the cosine whose consensus the last training starts from, best first.
    """

    setting: Setting
    firsts: tuple[Setting, ...]
    lam_curve: dict[float, float] | None = None
    rehearsal: Rehearsed | None = None
    experience: Experience | None = None
    ratio: float = 1.0
    """Of the size of a new category to that of a known one, to train with."""


@dataclass(frozen=True)
class Question:
    """What a rule is given beside the problem.

    Attributes
    ----------
    n_categories : int
    objective : Objective
        The one that is trained in the end.
    recipe : Recipe
    training : Training
    n_init : int
        Restarts of k-means.
    seeding : {"greedy", "d2", "random"}, optional
        Of k-means, in place of the recipe's.
    lam, temperature : float, optional
        Where they are given as numbers: the rule chooses the other one.
    lam_grid : tuple of float, optional
        Candidates for lam, in place of the rule's own.
    effort : Effort
    metric : {"cosine", "within", "self"}, optional
        Where it is given; otherwise a rehearsal chooses, and other rules take the cosine.
    """

    n_categories: int
    objective: Objective
    recipe: Recipe
    training: Training
    n_init: int
    seeding: Seeding | None = None
    lam: float | None = None
    temperature: float | None = None
    lam_grid: tuple[float, ...] | None = None
    effort: Effort = NORMAL
    metric: MetricName | None = None

    def settle(self, lam: float, temperature: float, lam_curve: dict[float, float] | None = None) -> Choice:
        """A choice of lam and temperature without a rehearsal."""
        return Choice(
            Setting(lam, temperature, self.metric or "cosine"), (Setting(lam, temperature),), lam_curve=lam_curve
        )


@dataclass(frozen=True)
class Rule:
    """A rule for lam.

    Attributes
    ----------
    choose : callable
    least_known : int
        Known categories that it needs.
    chooses_temperature : bool
        Whether it chooses the temperature too, where none is given.
    """

    choose: Callable[[Problem, Question], Choice]
    least_known: int = 1
    chooses_temperature: bool = False


def by_rehearsal(problem: Problem, question: Question) -> Choice:
    """The setting that recovers hidden categories best; see `newkinds.selection.rehearsal`."""
    lams = question.lam_grid if question.lam is None else (question.lam,)
    temperatures = None if question.temperature is None else (question.temperature,)
    n_categories, weight_decay = question.n_categories, question.training.weight_decay
    wide = problem.excerpt(n_categories, REHEARSED)
    narrow = wide.narrowed(n_categories)
    n_rehearsed = n_rehearsals(problem.n_known, question.effort)
    rehearsals, settings = (
        draw_rehearsals(narrow, n_rehearsed),
        candidates(lams, temperatures, question.effort.step),
    )
    common: dict[str, Any] = {"objective": question.objective, "weight_decay": weight_decay}
    known_share, tried = problem.known_share, None
    if n_categories == problem.n_known:
        known_share = 1.0
    elif known_share is None:
        stage = STAGE.format(1, n_rehearsed)
        (tried,) = try_settings(narrow, rehearsals[:1], [n_categories], settings, **common, stage=stage)
        one = tried[nearest(settings, SIZES_SETTING)]
        known_share = measure_known_share(narrow, rehearsals[0], one, n_categories, weight_decay)
    ratio = settled_ratio(narrow, known_share, n_categories)
    if ratio > 1:
        rows = evened(narrow, n_categories, known_share, weight_decay)
        wide, narrow = wide.part(rows), narrow.part(rows)
        rehearsals = draw_rehearsals(narrow, n_rehearsed)
    common["shares"] = expected_shares(min(ratio, 1.0), narrow.n_known, n_categories, rehearsals[0].n_kept)
    common["by_category"] = ratio < 1
    tried = tried if ratio == 1 else None
    rehearsed, trials, labelled_ratio = rehearse(narrow, rehearsals, n_categories, settings, **common, tried=tried)
    if question.metric != "cosine":
        refined = refinements(question.metric or REHEARSED_METRIC, lams, temperatures, question.effort.step)
        if ratio < 1:  # hidden categories are larger than new ones: with a larger lam they live, and new ones die
            most = max(rehearsed.chosen.lam, REFINEMENTS[0][0], min(setting.lam for setting in refined))
            refined = [setting for setting in refined if setting.lam <= most]
        rehearsed, trials = rehearse_refinements(
            wide,
            rehearsed,
            trials,
            refined,
            **common,
            ratio=labelled_ratio,
            may_be_left_out=question.metric is None,
        )
    ratio = settled_ratio(problem, known_share, n_categories)
    return Choice(
        rehearsed.chosen, rehearsed.firsts, rehearsal=rehearsed, experience=Experience.of(trials), ratio=ratio
    )


def by_labelled_accuracy(problem: Problem, question: Question) -> Choice:
    """The paper's rule: the first of the best on the curve of G's labelled accuracy."""
    return _first_within(labelled_curve(problem, question), 0.0, question)


def by_labelled_accuracy_cautiously(problem: Problem, question: Question) -> Choice:
    """The first lam within one standard error of the best: the curve is often flat, and its peak then chance."""
    curve = labelled_curve(problem, question)
    best, n_labelled = max(curve.values()), int(problem.labelled.sum())
    return _first_within(curve, float(np.sqrt(best * (1 - best) / n_labelled)), question)


LAM_RULES: dict[LamRule, Rule] = {
    "rehearsal": Rule(by_rehearsal, least_known=2, chooses_temperature=True),
    "labelled": Rule(by_labelled_accuracy),
    "cautious": Rule(by_labelled_accuracy_cautiously),
}

TEMPERATURE_RULES = tuple(name for name, rule in LAM_RULES.items() if rule.chooses_temperature)


def choose_setting(problem: Problem, lam: float | str, temperature: float | str, question: Question) -> Choice:
    """Choose what is left to choose of lam and the temperature.

    Parameters
    ----------
    problem : Problem
    lam, temperature : float or str
        As the user gave them: numbers, "auto", or the names of rules.
    question : Question
        Its lam and temperature are filled in here.
    """
    begin_part(CHOOSING)
    asked = (lam, temperature)
    lam = question.recipe.rule if lam == AUTO else lam
    if temperature == AUTO:
        # A rule that chooses both stands for both.
        temperature = lam if isinstance(lam, str) and _rule(lam).chooses_temperature else TEMPERATURE
    if isinstance(lam, str) and isinstance(temperature, str) and lam != temperature:
        raise InputError(f"lam={lam!r} is chosen at a given temperature: give one, or lam={temperature!r}")
    fixed_lam = None if isinstance(lam, str) else float(lam)
    fixed_temperature = None if isinstance(temperature, str) else float(temperature)
    name = next((value for value in (lam, temperature) if isinstance(value, str)), None)
    if name is not None and problem.n_known >= _rule(name).least_known:
        return _rule(name).choose(problem, replace(question, lam=fixed_lam, temperature=fixed_temperature))
    if name is not None and name in asked:
        raise InputError(
            f"lam={asked[0]!r}, temperature={asked[1]!r}: the rule {name!r} needs {_rule(name).least_known} or "
            f"more known categories, and there are {problem.n_known}"
        )
    otherwise = UNREHEARSED if problem.n_known else UNSUPERVISED
    return question.settle(
        otherwise.lam if fixed_lam is None else fixed_lam,
        otherwise.temperature if fixed_temperature is None else fixed_temperature,
    )


def _rule(name: str) -> Rule:
    return LAM_RULES[cast(LamRule, name)]  # the estimator has checked the name


def labelled_curve(problem: Problem, question: Question) -> dict[float, float]:
    """Labelled accuracy of the unsupervised objective G for each candidate lam."""
    recipe = question.recipe
    grid = recipe.lam_grid if question.lam_grid is None else question.lam_grid
    temperature = TEMPERATURE if question.temperature is None else question.temperature
    training = replace(question.training, tolerance=max(question.training.tolerance, SEARCH_TOLERANCE))
    start = _selection_start(problem, question)
    stage = "choosing λ"
    if not recipe.cumulative:
        runs = [Run(start, recipe.selection.at(lam), temperature) for lam in grid]
        partitioners = list(training.train(problem, runs, stage).partitioners)
    else:
        partitioners = []
        for i, lam in enumerate((*recipe.lam_warm_up, *grid), start=1):
            run = Run(start, recipe.selection.at(lam), temperature)
            part = f"{stage} ({i} of {len(recipe.lam_warm_up) + len(grid)})"
            partitioners += training.train(problem, [run], part).partitioners
            start = partitioners[-1].weights
        partitioners = partitioners[len(recipe.lam_warm_up) :]
    return {
        lam: problem.labelled_accuracy(partitioner) for lam, partitioner in zip(grid, partitioners, strict=True)
    }


def _selection_start(problem: Problem, question: Question) -> npt.NDArray[np.float32]:
    """What G starts from: k-means without labels, or its seeds."""
    recipe = question.recipe
    if recipe.selection_start == "kmeans++":
        start = Start("sskm++", question.seeding or recipe.seeding)
    else:
        restarts = min(question.n_init, recipe.selection_restarts)
        start = Start("sskm", question.seeding or recipe.selection_seeding, restarts)
    return start.prototypes(problem.excerpt(question.n_categories), question.n_categories, labels=None)


def _first_within(curve: dict[float, float], slack: float, question: Question) -> Choice:
    """The first lam whose score is no more than `slack` below the best."""
    best = max(curve.values())
    lam = next(lam for lam, score in curve.items() if score >= best - slack)
    return question.settle(lam, TEMPERATURE if question.temperature is None else question.temperature, curve)


def check_lam_grid(values: npt.ArrayLike) -> tuple[float, ...]:
    """The candidates for lam as a tuple, or say what is wrong with them."""
    try:
        grid = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        grid = np.empty(0)
    if grid.ndim != 1 or grid.size == 0 or not np.isfinite(grid).all() or (grid < 0).any():
        raise InputError(f"lam_grid must be a non-empty sequence of numbers >= 0; got {values!r}")
    return tuple(dict.fromkeys(grid.tolist()))
