"""What a person might do after an update: categories that look like one, or like several.

Proposals are made of categories that were born or grew by much, and each only once: a person who left one alone is
not asked again. Nothing is merged or split by itself.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.journal import Entry
from newkinds.labels import IntArray
from newkinds.separation import Separation

MUCH = 0.5
"""A category grew by much if so many samples joined it for each that it had."""


def proposals(
    categories: Sequence[dict[str, Any]],
    features: npt.NDArray[Any],
    assigned: IntArray,
    changed: Collection[int],
    done: Sequence[Entry],
) -> dict[str, Any]:
    """`merges` and `splits`, as `newkinds.journal.UPDATE_CHANGES` has them.

    Parameters
    ----------
    categories : sequence of dict
        Of the run after the update, by their ids.
    features, assigned
        Of each sample that is not held: features of unit length, and the id of its category.
    changed : collection of int
        Categories that were born or grew by much; only these are asked about.
    done : sequence of Entry
        What was done before: what an update proposed is not proposed again.
    """
    if not changed:
        return {"merges": [], "splits": []}
    ids = np.array([category["id"] for category in categories], dtype=np.int64)
    is_new = np.array([category["kind"] == "new" for category in categories], dtype=bool)
    asked = np.isin(ids, list(changed))
    separation = Separation(features, np.searchsorted(ids, assigned), is_new)
    earlier = [entry.outcome["changes"] for entry in done if entry.op == "update"]
    told_merges = {frozenset(pair[:2]) for changes in earlier for pair in changes.get("merges", ())}
    told_splits = {category for changes in earlier for category, _ in changes.get("splits", ())}
    merges = [
        [int(ids[first]), int(ids[second]), round(strength, 3)]
        for first, second, strength in separation.merges(with_known=True, asked=asked)
    ]
    splits = [
        [int(ids[category]), round(strength, 3)] for category, strength in separation.splits() if asked[category]
    ]
    return {
        "merges": [merge for merge in merges if frozenset(merge[:2]) not in told_merges],
        "splits": [split for split in splits if split[0] not in told_splits],
    }
