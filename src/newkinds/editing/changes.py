"""An edit while it is worked out: what happens to categories and samples, then the outcome for the journal."""

from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.labels import IntArray
from newkinds.standing import SampleState, packed_rows

DIGITS = 4
"""Of probabilities in the journal."""


class Change:
    """What an operation does, part by part; see `newkinds.journal.CHANGE`.

    Parameters
    ----------
    samples : SampleState
        Before it; not changed here.

    Attributes
    ----------
    categories_after : ndarray of shape (samples,)
    retired : list of (int, int or None)
        Ids that are gone, and which took them in.
    """

    def __init__(self, samples: SampleState) -> None:
        self._before = samples
        self.categories_after = samples.categories.copy()
        self.retired: list[tuple[int, int | None]] = []
        self._confirmed = samples.confirmed.copy()
        self._given = samples.given.copy()
        self._born: list[dict[str, Any]] = []
        self._names: list[list[Any]] = []
        self._shares: dict[str, Any] = {}

    @property
    def n_born(self) -> int:
        return len(self._born)

    @property
    def born_keys(self) -> set[str]:
        return {category["key"] for category in self._born}

    @property
    def is_empty(self) -> bool:
        return not self.outcome()

    def bear(self, category: int, key: str, name: str | None = None) -> int:
        """A new category; returns its id."""
        self._born.append({"id": category, "key": key, "name": name})
        return category

    def retire(self, category: int, heir: int | None) -> None:
        self.retired.append((category, heir))

    def name(self, category: int, name: str) -> None:
        self._names.append([category, name])

    def move(self, rows: IntArray, category: int) -> None:
        self.categories_after[rows] = category

    def confirm(self, rows: IntArray) -> None:
        self._confirmed[rows] = True

    def withdraw(self, rows: IntArray) -> None:
        """Labels and confirmations of these samples no longer count."""
        self._confirmed[rows] = self._given[rows] = False

    def judge(self, rows: IntArray, confidence: npt.NDArray[Any], novelty: npt.NDArray[Any]) -> None:
        """What the model says of samples now; `rows` ascend."""
        self._shares = {
            "rows": packed_rows(rows),
            "confidence": [round(float(share), DIGITS) for share in confidence],
            "novelty": [round(float(share), DIGITS) for share in novelty],
        }

    def outcome(self) -> dict[str, Any]:
        """What the journal holds; parts in which nothing happens are left out."""
        before, after = self._before.categories, self.categories_after
        moved = np.flatnonzero(before != after)
        flows = []
        for start in np.unique(before[moved]).tolist():
            of_start = moved[before[moved] == start]
            for end in np.unique(after[of_start]).tolist():
                flows.append([start, end, packed_rows(of_start[after[of_start] == end])])
        # A sample that a person moves is confirmed anew, even if it was before: its confidence is certain.
        confirmed = np.flatnonzero(self._confirmed & (~self._before.confirmed | (before != after)))
        withdrawn = np.flatnonzero(
            (self._before.confirmed & ~self._confirmed) | (self._before.given & ~self._given)
        )
        parts = {
            "born": self._born,
            "retired": [list(pair) for pair in self.retired],
            "flows": flows,
            "confirmed": packed_rows(confirmed),
            "withdrawn": packed_rows(withdrawn),
            "shares": self._shares,
            "names": self._names,
            "sizes": self._sizes(np.concatenate([moved, confirmed, withdrawn])),
        }
        return {name: part for name, part in parts.items() if part}

    def _sizes(self, rows: IntArray) -> list[list[int]]:
        """Size and labelled samples of the categories that these samples are or were in."""
        gone = {category for category, _ in self.retired}
        touched = np.unique(np.concatenate([self._before.categories[rows], self.categories_after[rows]]))
        labelled = self._confirmed | self._given
        sizes = []
        for category in [int(c) for c in touched if int(c) not in gone]:
            members = self.categories_after == category
            sizes.append([category, int(members.sum()), int((members & labelled).sum())])
        return sizes
