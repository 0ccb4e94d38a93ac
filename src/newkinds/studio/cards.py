"""What stands on the card of a category, worked out when it is asked for and kept until the category changes."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from newkinds.editing import EditedRun
from newkinds.kinds import exemplars
from newkinds.labels import IntArray
from newkinds.middles import ROWS
from newkinds.names import UNSURE
from newkinds.report.content import DOUBTED, NEAREST, SHOWN_OTHERS, SHOWN_PICTURES, rounded
from newkinds.run_folder import category_names, has_pictures

LOOKED_AT = 4096
"""Samples of a large category among which typical ones are looked for, at even distances."""


MOST_FEATURES = 1 << 29
"""Bytes of features that are kept as float32, which makes comparing them many times faster."""


class Cards:
    """The cards of a run; whoever asks holds the run."""

    def __init__(self, run: EditedRun) -> None:
        self._run = run
        self.clear()

    @cached_property
    def features(self) -> npt.NDArray[Any]:
        """Of all samples, of unit length."""
        features = self._run.features
        return np.asarray(features, dtype=np.float32) if features.size * 4 <= MOST_FEATURES else features

    def clear(self) -> None:
        """Forget all: the run is at another version, whose samples may be others."""
        self._most = SHOWN_PICTURES if has_pictures(self._run.folder, self._run.record) else SHOWN_OTHERS
        self.__dict__.pop("features", None)
        self._cards: dict[int, dict[str, Any]] = {}
        self._sums: dict[int, npt.NDArray[np.float32]] = {}

    def forget(self, categories: Iterable[int]) -> None:
        """Forget the cards of categories that changed or are gone."""
        for category in categories:
            self._cards.pop(category, None)

    def move(self, rows: IntArray, before: IntArray, after: IntArray) -> None:
        """Samples have changed their category: the sums of both sides follow."""
        if not self._sums:
            return
        features = np.asarray(self.features[rows], dtype=np.float32)
        for sides, sign in ((before, -1), (after, 1)):
            for category in np.unique(sides).tolist():
                total = self._sums.get(category, np.zeros(features.shape[1], dtype=np.float32))
                self._sums[category] = total + sign * features[sides == category].sum(axis=0)

    def of(self, category: dict[str, Any]) -> dict[str, Any]:
        """The card of a category of the record."""
        card = self._cards.get(category["id"])
        if card is None:
            card = self._cards[category["id"]] = self._make(category)
        return {**card, "nearest": self._nearest(category["id"])}

    def middle(self, category: int) -> npt.NDArray[np.float32]:
        """The mean of a category's features at unit length; zero for one without samples."""
        if not self._sums:
            self._sum_up()
        total = self._sums.get(category)
        if total is None or not (self._run.samples.categories == category).any():
            return np.zeros(self.features.shape[1], dtype=np.float32)
        return np.asarray(total / max(float(np.linalg.norm(total)), 1e-12), dtype=np.float32)

    def looked_at(self, members: IntArray) -> IntArray:
        """Members of a category, or of a large one some."""
        if len(members) <= LOOKED_AT:
            return members
        return members[np.linspace(0, len(members) - 1, LOOKED_AT).astype(np.int64)]

    def typical(self, members: IntArray) -> tuple[IntArray, IntArray]:
        """Typical and doubtful samples among some: see `newkinds.kinds.exemplars`.

        Where enough are labelled, the typical ones are among those: what a kind is, its labels say.
        """
        if not len(members):
            return members, members
        samples = self._run.samples
        labelled = members[samples.labelled[members]]
        some = self.looked_at(labelled if len(labelled) >= self._most[0] else members)
        features = np.asarray(self.features[some], dtype=np.float32)
        middle = features.mean(axis=0)
        near, _ = exemplars(
            some, features @ middle, samples.confidence[some], samples.labelled[some], self._most[0]
        )
        others = members[~samples.labelled[members] & ~np.isin(members, near)]
        others = others[samples.confidence[others] < DOUBTED]
        return near, others[np.argsort(samples.confidence[others], kind="stable")[: self._most[1]]]

    def _make(self, category: dict[str, Any]) -> dict[str, Any]:
        samples = self._run.samples
        members = np.flatnonzero(samples.categories == category["id"])
        typical, doubtful = self.typical(members)
        unlabelled = samples.confidence[members][~samples.labelled[members]]
        return {
            **category_names(category),
            "kind": category["kind"],
            "size": category["size"],
            "labelled": category["labelled"],
            "confidence": rounded(samples.confidence[members].mean()) if len(members) else None,
            "clear": rounded((unlabelled >= UNSURE).mean()) if len(unlabelled) else None,
            "stability": rounded(category.get("stability")),
            "typical": typical.tolist(),
            "doubtful": doubtful.tolist(),
        }

    def _nearest(self, category: int) -> list[tuple[int, float]]:
        others = [c["id"] for c in self._run.record["categories"] if c["size"] and c["id"] != category]
        middle = self.middle(category)
        if not others or not middle.any():
            return []
        sums = np.stack([self._sums[other] for other in others])
        similarity = sums @ middle / np.maximum(np.linalg.norm(sums, axis=1), 1e-12)
        order = np.argsort(-similarity, kind="stable")[:NEAREST]
        return [(others[i], round(float(similarity[i]), 4)) for i in order.tolist()]

    def _sum_up(self) -> None:
        """The sums of all categories, in one pass over the samples."""
        ids = np.unique(self._run.samples.categories)
        columns = np.searchsorted(ids, self._run.samples.categories)
        sums = np.zeros((len(ids), self.features.shape[1]), dtype=np.float32)
        for first in range(0, len(columns), ROWS):
            part = np.asarray(self.features[first : first + ROWS], dtype=np.float32)
            places = columns[first : first + ROWS], np.arange(len(part))
            sums += csr_array((np.ones(len(part), dtype=np.float32), places), shape=(len(ids), len(part))) @ part
        self._sums = dict(zip(ids.tolist(), sums, strict=True))


def nearest_rows(
    features: npt.NDArray[Any], wanted: IntArray, most: int
) -> tuple[IntArray, npt.NDArray[np.float32]]:
    """The samples most like some others, which are left out; with their cosines."""
    middle = np.asarray(features[wanted], dtype=np.float32).mean(axis=0)
    middle /= max(float(np.linalg.norm(middle)), 1e-12)
    similarity = np.concatenate(
        [
            np.asarray(features[first : first + ROWS], dtype=np.float32) @ middle
            for first in range(0, len(features), ROWS)
        ]
    )
    similarity[wanted] = -np.inf
    most = min(most, len(similarity) - len(wanted))
    if most <= 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
    best = np.argpartition(-similarity, most - 1)[:most]
    order = best[np.argsort(-similarity[best], kind="stable")]
    return order, similarity[order]
