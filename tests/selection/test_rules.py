"""The rules for λ and the temperature: which one is asked, with what, and what happens where none can answer."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from newkinds import InputError
from newkinds.engine import TEMPERATURE, Partitioner, Run, Trained
from newkinds.objective import PARTITION
from newkinds.selection import rules
from newkinds.selection.problem import Problem, make_problem
from newkinds.selection.recipes import RECIPES
from newkinds.selection.rules import (
    LAM_RULES,
    TEMPERATURE_RULES,
    UNREHEARSED,
    UNSUPERVISED,
    Choice,
    Question,
    Rule,
    choose_setting,
    labelled_curve,
)
from newkinds.selection.settings import Setting
from newkinds.selection.training import Training

QUESTION = Question(4, PARTITION, RECIPES["newkinds"], Training(max_iter=5), n_init=2)
PAPER = replace(QUESTION, recipe=RECIPES["paper"])
CHOSEN = Setting(0.7, 7.0)


def problem(n_known: int) -> Problem:
    rng = np.random.default_rng(0)
    truth = np.arange(80) % 4
    labels = np.where((truth < n_known) & (np.arange(80) < 40), truth, -1)
    return make_problem(np.eye(4, 6)[truth] + 0.1 * rng.normal(size=(80, 6)), labels, device="cpu", random_state=0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float | None, float | None]]:
    """Every rule answers at once and writes down what it was asked: its name, and lam and temperature if given."""
    calls: list[tuple[str, float | None, float | None]] = []

    def answering(name: str, rule: Rule) -> Rule:
        def choose(problem: Problem, question: Question) -> Choice:
            calls.append((name, question.lam, question.temperature))
            return Choice(CHOSEN, (CHOSEN,))

        return replace(rule, choose=choose)

    monkeypatch.setattr(rules, "LAM_RULES", {name: answering(name, rule) for name, rule in LAM_RULES.items()})
    return calls


@pytest.mark.parametrize(
    ("question", "lam", "temperature", "expected"),
    [
        (QUESTION, "auto", "auto", ("rehearsal", None, None)),
        (QUESTION, "rehearsal", "auto", ("rehearsal", None, None)),
        (QUESTION, "auto", 30.0, ("rehearsal", None, 30.0)),
        (QUESTION, 0.2, "rehearsal", ("rehearsal", 0.2, None)),
        (QUESTION, "labelled", "auto", ("labelled", None, TEMPERATURE)),
        (QUESTION, "cautious", 12.0, ("cautious", None, 12.0)),
        (PAPER, "auto", "auto", ("labelled", None, TEMPERATURE)),
        (PAPER, "rehearsal", "auto", ("rehearsal", None, None)),
    ],
)
def test_the_right_rule_is_asked(
    asked: list[Any], question: Question, lam: Any, temperature: Any, expected: tuple[Any, ...]
) -> None:
    assert choose_setting(problem(2), lam, temperature, question).setting == CHOSEN
    assert asked == [expected]


def test_numbers_need_no_rule(asked: list[Any]) -> None:
    assert choose_setting(problem(2), 0.2, 30, QUESTION).setting == Setting(0.2, 30.0)
    assert choose_setting(problem(2), 0.2, "auto", QUESTION).setting == Setting(0.2, TEMPERATURE)
    assert not asked


@pytest.mark.parametrize(("n_known", "otherwise"), [(0, UNSUPERVISED), (1, UNREHEARSED)])
def test_without_enough_known_categories_auto_takes_fixed_values(
    asked: list[Any], n_known: int, otherwise: Setting
) -> None:
    assert choose_setting(problem(n_known), "auto", "auto", QUESTION).setting == otherwise
    assert choose_setting(problem(n_known), "auto", 9.0, QUESTION).setting == replace(otherwise, temperature=9.0)
    assert not asked


@pytest.mark.parametrize(
    ("n_known", "lam", "temperature", "message"),
    [
        (1, "rehearsal", "auto", "rule 'rehearsal' needs 2 or more known categories, and there are 1"),
        (1, 0.3, "rehearsal", "rule 'rehearsal' needs 2"),
        (0, "labelled", "auto", "rule 'labelled' needs 1 or more known categories, and there are 0"),
        (2, "labelled", "rehearsal", "lam='labelled' is chosen at a given temperature"),
        (2, "cautious", "rehearsal", "lam='cautious' is chosen at a given temperature"),
    ],
)
def test_a_rule_that_was_named_is_never_replaced(n_known: int, lam: Any, temperature: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        choose_setting(problem(n_known), lam, temperature, QUESTION)


def test_which_rules_choose_the_temperature_too() -> None:
    assert TEMPERATURE_RULES == ("rehearsal",)


def test_the_curve_of_the_labelled_rule_is_at_the_temperature_that_was_given() -> None:
    curves = [
        labelled_curve(problem(3), replace(QUESTION, temperature=temperature, lam_grid=(0.1, 0.9)))
        for temperature in (0.5, 60.0)
    ]
    assert [list(curve) for curve in curves] == [[0.1, 0.9]] * 2
    assert curves[0] != curves[1]


def test_the_first_of_equals_is_taken_and_the_cautious_rule_has_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 30 labelled samples 0.9 are right: the standard error is 0.055."""
    monkeypatch.setattr(rules, "labelled_curve", lambda *_: {0.1: 0.84, 0.2: 0.85, 0.3: 0.9, 0.4: 0.9})
    labelled = problem(3)
    assert int(labelled.labelled.sum()) == 30
    assert LAM_RULES["labelled"].choose(labelled, QUESTION).setting.lam == 0.3
    assert LAM_RULES["cautious"].choose(labelled, QUESTION).setting.lam == 0.2


def test_the_release_trains_a_lam_before_its_grid_and_forgets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each training gives the weights `lam`, and is scored by them: the curve must be that of the grid itself."""
    trained: list[float] = []

    def train(self: Training, problem: Problem, runs: list[Run], stage: str) -> Trained:
        trained.extend(run.objective.lam for run in runs)
        partitioners = tuple(Partitioner(np.full((4, 6), run.objective.lam, dtype=np.float32)) for run in runs)
        return Trained(partitioners, np.zeros((1, len(runs)), dtype=np.float32), np.ones(len(runs), dtype=bool))

    monkeypatch.setattr(Training, "train", train)
    monkeypatch.setattr(Problem, "labelled_accuracy", lambda self, partitioner: float(partitioner.weights[0, 0]))
    question = replace(QUESTION, recipe=RECIPES["release"], temperature=25.0, lam_grid=(0.5, 0.25))
    assert labelled_curve(problem(3), question) == {0.5: 0.5, 0.25: 0.25}
    assert trained == [0.05, 0.5, 0.25]
