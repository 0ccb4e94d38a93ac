"""What stands on the card of a category, worked out when it is asked for and kept until the category changes."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.editing import EditedRun
from newkinds.kinds import exemplars
from newkinds.labels import IntArray
from newkinds.middles import blocks, category_middles
from newkinds.names import UNSURE
from newkinds.report.content import DOUBTED, NEAREST, SHOWN_OTHERS, SHOWN_PICTURES, rounded
from newkinds.run_folder import category_names, has_pictures

LOOKED_AT = 4096
"""Samples of a large category among which typical ones are looked for, at even distances."""


class Cards:
    """The cards of a run; whoever asks holds the run."""

    def __init__(self, run: EditedRun) -> None:
        self._run = run
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._cards: dict[int, dict[str, Any]] = {}
        self._middles: dict[int, npt.NDArray[np.float32]] = {}
        self._most = SHOWN_PICTURES if has_pictures(self._run.folder) else SHOWN_OTHERS

    def forget(self, categories: Iterable[int]) -> None:
        """Forget categories that changed or are gone."""
        for category in categories:
            self._cards.pop(category, None)
            self._middles.pop(category, None)

    def of(self, category: dict[str, Any]) -> dict[str, Any]:
        """The card of a category of the record."""
        card = self._cards.get(category["id"])
        if card is None:
            card = self._cards[category["id"]] = self._make(category)
        return {**card, "nearest": self._nearest(category["id"])}

    def middle(self, category: int) -> npt.NDArray[np.float32]:
        """The mean of a category's features at unit length."""
        if category not in self._middles:
            missing = [c["id"] for c in self._run.record["categories"] if c["id"] not in self._middles]
            self._make_middles(missing)
        return self._middles[category]

    def looked_at(self, members: IntArray) -> IntArray:
        """Members of a category, or of a large one some."""
        if len(members) <= LOOKED_AT:
            return members
        return members[np.linspace(0, len(members) - 1, LOOKED_AT).astype(np.int64)]

    def typical(self, members: IntArray) -> tuple[IntArray, IntArray]:
        """Typical and doubtful samples among some: see `newkinds.kinds.exemplars`."""
        if not len(members):
            return members, members
        samples, some = self._run.samples, self.looked_at(members)
        features = np.asarray(self._run.features[some], dtype=np.float32)
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
        middle = self.middle(category)
        others = [c["id"] for c in self._run.record["categories"] if c["size"] and c["id"] != category]
        if not others or not middle.any():
            return []
        similarity = np.stack([self.middle(other) for other in others]) @ middle
        order = np.argsort(-similarity, kind="stable")[:NEAREST]
        return [(others[i], round(float(similarity[i]), 4)) for i in order.tolist()]

    def _make_middles(self, categories: list[int]) -> None:
        """The middles of some categories, in one pass over their samples."""
        ids = np.array(sorted(categories), dtype=np.int64)
        samples = self._run.samples.categories
        places = np.minimum(np.searchsorted(ids, samples), len(ids) - 1)
        rows = np.flatnonzero(ids[places] == samples)
        middles = category_middles(self._run.features, places, len(ids), rows)
        self._middles |= dict(zip(ids.tolist(), middles, strict=True))


def nearest_rows(
    features: npt.NDArray[Any], wanted: IntArray, most: int
) -> tuple[IntArray, npt.NDArray[np.float32]]:
    """The samples most like some others, which are left out; with their cosines."""
    middle = np.asarray(features[wanted], dtype=np.float32).mean(axis=0)
    middle /= max(float(np.linalg.norm(middle)), 1e-12)
    similarity = np.concatenate(
        [np.asarray(features[rows], dtype=np.float32) @ middle for rows in blocks(np.arange(len(features)))]
    )
    similarity[wanted] = -np.inf
    most = min(most, len(similarity) - len(wanted))
    if most <= 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
    best = np.argpartition(-similarity, most - 1)[:most]
    order = best[np.argsort(-similarity[best], kind="stable")]
    return order, similarity[order]
