"""Proposals after an update: kinds that look like one, or like two; each once, and only of those that changed."""

import numpy as np
import numpy.typing as npt

from newkinds.editing.proposals import proposals
from newkinds.journal import OUTCOMES, Entry

KNOWN, SIZE, WIDTH = 10, 40, 16
RNG = np.random.default_rng(0)
MIDDLES = RNG.normal(size=(KNOWN + 2, WIDTH))


def unit(middle: npt.NDArray[np.float64], n: int = SIZE) -> npt.NDArray[np.float64]:
    samples = middle + 0.5 * RNG.normal(size=(n, WIDTH))
    return np.asarray(samples / np.linalg.norm(samples, axis=1, keepdims=True))


PLACES = [*range(KNOWN), 0, KNOWN, KNOWN]
"""Where the middles of categories are: the first new one is a known one, the other two are one."""
CATEGORIES = [{"id": i + 5, "kind": "known" if i < KNOWN else "new"} for i in range(len(PLACES))]
FEATURES = np.concatenate([unit(MIDDLES[place]) for place in PLACES])
ASSIGNED = np.repeat([category["id"] for category in CATEGORIES], SIZE)
FIRST, SECOND, THIRD = 5 + KNOWN, 6 + KNOWN, 7 + KNOWN


def pairs(changed: set[int], done: tuple[Entry, ...] = ()) -> set[frozenset[int]]:
    proposed = proposals(CATEGORIES, FEATURES, ASSIGNED, changed, done)
    OUTCOMES["update"].check("outcome", {"version": "0002", "changes": proposed})
    assert proposed["splits"] == []
    return {frozenset(pair[:2]) for pair in proposed["merges"]}


def test_what_looks_like_one_is_proposed_also_with_a_known_kind() -> None:
    assert pairs({FIRST, SECOND}) == {frozenset([5, FIRST]), frozenset([SECOND, THIRD])}


def test_only_kinds_that_changed_are_asked_about() -> None:
    assert pairs(set()) == set()
    assert pairs({THIRD}) == {frozenset([SECOND, THIRD])}
    assert pairs({7}) == set()


def test_a_proposal_is_made_once() -> None:
    changes = {"merges": [[SECOND, THIRD, 0.9]]}
    before = Entry(1, "", "update", "update", {}, {"version": "0002", "changes": changes})
    assert pairs({FIRST, SECOND}, (before,)) == {frozenset([5, FIRST])}


def test_what_looks_like_two_is_proposed() -> None:
    middles = [MIDDLES[KNOWN], MIDDLES[KNOWN + 1]]
    features = np.concatenate([FEATURES[: KNOWN * SIZE], *(unit(middle) for middle in middles)])
    assigned = np.concatenate([ASSIGNED[: KNOWN * SIZE], np.full(2 * SIZE, FIRST)])
    proposed = proposals(CATEGORIES[: KNOWN + 1], features, assigned, {FIRST}, ())
    assert [category for category, _ in proposed["splits"]] == [FIRST]
    assert proposed["merges"] == []
    assert proposals(CATEGORIES[: KNOWN + 1], features, assigned, {5}, ())["splits"] == []
