"""One measure of progress: the share that is done, whatever the parts took."""

from typing import Any

import numpy as np
import pytest

from newkinds import PIM
from newkinds.data import digits
from newkinds.progress import STEPS, begin_part, planned, report_work
from newkinds.runtime import listening, report_progress
from newkinds.selection.plan import CHECKING, CHOOSING, COUNTING, JOINING, TRAINING

Report = tuple[str, int, int]


def heard_of(parts: dict[str, float], took: dict[str, float], steps: int = 10) -> list[Report]:
    heard: list[Report] = []
    with listening(lambda *report: heard.append(report)), planned("work", parts):
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
    with planned("work", {"one": 1.0}):
        begin_part("one")
        report_work(1.0)


def test_a_plan_within_a_plan_changes_nothing() -> None:
    heard: list[Report] = []
    with listening(lambda *report: heard.append(report)), planned("outer", {"one": 2.0}):
        begin_part("one")
        with planned("inner", {"two": 1.0}):
            report_work(1.0)
    assert {report[0] for report in heard} == {"outer: one"}


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"effort": "quick"}, [COUNTING, CHOOSING, JOINING, TRAINING, CHECKING]),
        ({"n_categories": 10, "lam": 0.1, "temperature": 25.0, "consensus": 1}, [TRAINING, CHECKING]),
        ({"n_categories": 10, "recipe": "paper", "max_iter": 20}, [CHOOSING, TRAINING, CHECKING]),
    ],
)
def test_a_fit_tells_its_parts_in_words(settings: dict[str, Any], parts: list[str]) -> None:
    collection = digits()
    labels = np.where(np.arange(len(collection.labels)) % 3 == 0, collection.labels, -1)
    heard: list[Report] = []
    with listening(lambda *report: heard.append(report)):
        PIM(random_state=0, **settings).fit(collection.features, labels)
    measured = [report for report in heard if report[0].startswith("finding the kinds: ")]
    said = list(dict.fromkeys(name.removeprefix("finding the kinds: ") for name, _, _ in measured))
    assert [part for part in said if part in parts] == parts
    assert heard[-1][1:] == (STEPS, STEPS)
    done = [report[1] for report in measured]
    assert done == sorted(done)
