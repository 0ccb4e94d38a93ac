"""The candidates, and which of them is most like another."""

import pytest

from newkinds.selection.settings import (
    FIRST_SETTINGS,
    LAMS,
    TEMPERATURES,
    Setting,
    candidates,
    nearest,
    refinements,
)


def test_candidates_lie_along_the_ridge() -> None:
    assert candidates() == list(FIRST_SETTINGS)
    pairs = [(setting.temperature, -setting.lam) for setting in candidates()]
    assert pairs == sorted(pairs)  # a higher temperature with a lower lam
    assert {setting.metric for setting in candidates()} == {"cosine"}


def test_the_nearest_setting_is_nearest_in_logarithms() -> None:
    settings = [
        Setting(1.0, 10.0),
        Setting(0.0, 40.0),
        Setting(0.02, 40.0),
        Setting(0.1, 40.0),
        Setting(0.03, 90.0),
    ]
    assert nearest(settings, Setting(0.03, 40.0)) == 2
    assert nearest(settings[:2], Setting(0.03, 40.0)) == 1  # a lam of 0 counts as a tenth of our least


def test_refinements_keep_what_is_given() -> None:
    assert len(set(refinements("self"))) == len(refinements("self")) > 1
    assert {setting.metric for setting in refinements("within")} == {"within"}
    assert refinements("self", lams=[0.2], temperatures=[33.0]) == [Setting(0.2, 33.0, "self")]
    assert {setting.lam for setting in refinements("self", lams=[0.2])} == {0.2}
    assert len(refinements("self", lams=[0.2])) > 1


@pytest.mark.parametrize(
    ("lams", "temperatures"), [([0.0, 7.0], None), (None, [1000.0]), ([0.0, 50.0], [1.0, 100.0])]
)
def test_given_candidates_are_all_tried(lams: list[float] | None, temperatures: list[float] | None) -> None:
    expected = {(lam, t) for lam in lams or LAMS for t in temperatures or TEMPERATURES}
    found = candidates(lams, temperatures)
    assert {(each.lam, each.temperature) for each in found} == expected
    assert len(found) == len(expected)
