"""One measure of progress: the share that is done, whatever the parts took."""

from typing import Any

import numpy as np
import pytest

from newkinds import PIM
from newkinds.data import digits
from newkinds.progress import STEPS, begin_part, planned, report_work
from newkinds.runtime import listening, report_progress
from newkinds.selection.efforts import NORMAL
from newkinds.selection.plan import (
    CHECKING,
    CHOOSING,
    COUNTING,
    JOINING,
    STARTING,
    TRAINING,
    counting_work,
    joining_work,
    rehearsing_work,
    start_work,
    sweep_work,
)
from newkinds.selection.problem import make_problem

Report = tuple[str, int, int]


def heard_of(parts: dict[str, float], took: dict[str, float], steps: int = 10) -> list[Report]:
    heard: list[Report] = []
    with listening(lambda *report: heard.append(report)), planned("work", lambda: parts):
        for part, amount in took.items():
            begin_part(part)
            for _ in range(steps):
                report_progress("a stage within", 1, 2)  # is not passed on
                report_work(amount / steps)
    return heard


def test_parts_that_take_what_was_expected_move_the_measure_evenly() -> None:
    heard = heard_of({"one": 30.0, "two": 10.0}, {"one": 30.0, "two": 10.0})
    assert {report[0] for report in heard} == {"work: one", "work: two"}
    at_the_end_of_one = max(done for name, done, _ in heard if name == "work: one")
    assert at_the_end_of_one == pytest.approx(750, abs=30)
    assert heard[-1] == ("work: two", STEPS, STEPS)


@pytest.mark.parametrize("surprise", [0.2, 1.0, 5.0])
def test_the_measure_never_goes_back_and_is_whole_only_at_the_end(surprise: float) -> None:
    heard = heard_of({"one": 10.0, "two": 10.0, "three": 10.0}, {"one": 10.0 * surprise, "three": 10.0})
    done = [report[1] for report in heard]
    assert done == sorted(done)
    assert done.count(STEPS) == 1


def test_after_a_surprise_the_other_parts_are_expected_to_surprise_as_well() -> None:
    """Of three equal parts the first took a ninth: the others may take a third each."""
    heard = heard_of({"one": 9.0, "two": 9.0, "three": 9.0}, {"one": 1.0, "two": 3.0})
    begun = next(done for name, done, _ in heard if name == "work: two")
    assert begun == pytest.approx(STEPS * 1 / (1 + 3 + 3), abs=1)


def test_without_parts_stages_are_passed_on_and_without_a_listener_nothing_happens() -> None:
    assert ("a stage within", 1, 2) in heard_of({}, {"one": 1.0})
    with planned("work", lambda: {"one": 1.0}):
        begin_part("one")
        report_work(1.0)


def test_a_plan_within_a_plan_changes_nothing() -> None:
    heard: list[Report] = []
    with listening(lambda *report: heard.append(report)), planned("outer", lambda: {"one": 2.0}):
        begin_part("one")
        with planned("inner", lambda: {"two": 1.0}):
            report_work(1.0)
    assert {report[0] for report in heard} == {"outer: one"}


def test_a_part_that_is_not_in_the_plan_leaves_the_others_in_it() -> None:
    heard = heard_of({"one": 10.0, "two": 10.0}, {"one": 10.0, "unforeseen": 1.0, "two": 10.0})
    begun = next(done for name, done, _ in heard if name == "work: two")
    assert begun == pytest.approx(STEPS * 11 / 21, abs=30)


def test_where_nobody_listens_nothing_is_planned() -> None:
    with planned("work", lambda: pytest.fail("somebody plans")):
        pass


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"effort": "quick"}, [COUNTING, CHOOSING, JOINING, TRAINING, CHECKING]),
        ({"n_categories": 10, "lam": 0.1, "temperature": 25.0, "consensus": 1}, [STARTING, TRAINING, CHECKING]),
        ({"n_categories": 10, "recipe": "paper", "max_iter": 20}, [CHOOSING, STARTING, TRAINING, CHECKING]),
        ({"n_categories": 10, "init": np.eye(10, 64), "lam": 0.1}, [TRAINING, CHECKING]),
    ],
)
def test_a_fit_tells_its_parts_in_words(settings: dict[str, Any], parts: list[str]) -> None:
    collection = digits()
    labels = np.where(np.arange(len(collection.labels)) % 3 == 0, collection.labels, -1)
    heard: list[Report] = []
    with listening(lambda *report: heard.append(report)):
        PIM(random_state=0, **settings).fit(collection.features, labels)
    measured = [report for report in heard if report[0].startswith("finding the kinds: ")]
    first = {name.removeprefix("finding the kinds: "): done for name, done, _ in reversed(measured)}
    assert [part for part in reversed(first) if part in parts] == parts
    assert heard[-1][1:] == (STEPS, STEPS)
    done = [report[1] for report in measured]
    assert done == sorted(done)
    assert first[TRAINING] < 0.97 * STEPS  # the last training is still expected


def test_what_a_fit_is_expected_to_take_grows_with_it() -> None:
    rng = np.random.default_rng(0)

    def works(n_samples: int, n_categories: int) -> dict[str, float]:
        labels = np.where(np.arange(n_samples) % 2 == 0, np.arange(n_samples) % 4, -1)
        problem = make_problem(rng.normal(size=(n_samples, 8)), labels, device="cpu", random_state=0)
        return {
            "counting": counting_work(problem, "rehearsal", NORMAL, 10),
            "max-acc": counting_work(problem, "max-acc-pim", NORMAL, 10),
            "rehearsing": rehearsing_work(problem, n_categories, NORMAL, refines=True),
            "sweep": sweep_work(problem, n_categories, 19, 100),
            "start": start_work(problem, n_categories, 10),
            "joining": joining_work(problem, n_categories, 8, 100, narrowed=True),
        }

    small, large = works(40, 6), works(80, 12)
    for part in small:
        assert large[part] > 1.5 * small[part] > 0, part
