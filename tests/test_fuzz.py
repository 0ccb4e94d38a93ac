"""Damaged run folders: a refusal that names the file, or the same answer as before.

`benchmarks/fuzz.py` does the same with thousands of damages.
"""

from pathlib import Path

import pytest

from tests.fuzzing import Target, outcomes
from tests.kept_targets import KEPT_TARGETS
from tests.run_targets import RUN_TARGETS

pytestmark = pytest.mark.slow

EXAMPLES = 40
"""Damages of each target."""


@pytest.mark.parametrize("target", RUN_TARGETS, ids=[target.name for target in RUN_TARGETS])
def test_damage_is_refused_or_changes_nothing(target: Target, tmp_path: Path) -> None:
    results = list(outcomes(target, tmp_path, EXAMPLES))
    faults = [fault for _, fault in results if fault is not None]
    assert not faults, faults[0].reason
    assert len(results) >= EXAMPLES / 2
    assert sum(outcome == "refused" for outcome, _ in results) > EXAMPLES / 4


@pytest.mark.parametrize("target", KEPT_TARGETS, ids=[target.name for target in KEPT_TARGETS])
def test_what_is_kept_is_computed_again_and_a_table_is_read_or_refused(target: Target, tmp_path: Path) -> None:
    results = list(outcomes(target, tmp_path, EXAMPLES))
    faults = [fault for _, fault in results if fault is not None]
    assert not faults, faults[0].reason
    if target.must_agree:
        assert {outcome for outcome, _ in results} == {"same"}
