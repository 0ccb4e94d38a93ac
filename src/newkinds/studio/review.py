"""What is most worth a person's look, one question at a time.

A question is about one sample: does it belong to its kind? `y` confirms it, a number moves it to one of the kinds
that are next most probable.
"""

from typing import Any

import numpy as np

from newkinds.labels import IntArray
from newkinds.report.content import DOUBTED
from newkinds.studio.live_run import LiveRun
from newkinds.studio.samples import Samples

ASKED = 12
"""Questions that a page gets at a time."""
OPTIONS = 5
"""Other kinds that are offered."""


class Review:
    """The questions of a studio, those that were passed over left out while it runs."""

    def __init__(self, live: LiveRun, samples: Samples) -> None:
        self._live, self._samples = live, samples
        self._passed: set[int] = set()

    def questions(self) -> dict[str, Any]:
        """The next questions, and how many there are."""
        with self._live.held() as run:
            rows, left = self._order()
            rows = rows[:ASKED]
            model, features = run.model, np.asarray(run.features[rows], dtype=np.float32)
            shares = model.predict_proba(features) if len(rows) else np.empty((0, 0))
            ids = model.categories_.tolist()
            likely = {row: share for row, _, share in run.record.get("suspected_labels") or ()}
            questions = []
            for row, share in zip(rows.tolist(), shares, strict=True):
                own = int(run.samples.categories[row])
                order = [int(i) for i in np.argsort(-share, kind="stable") if ids[int(i)] != own][:OPTIONS]
                questions.append(
                    {
                        "row": row,
                        "topic": "label" if row in likely else "member",
                        "slot": self._live.slot(own),
                        "options": [
                            {"slot": self._live.slot(ids[i]), "share": round(float(share[i]), 4)} for i in order
                        ],
                    }
                )
        described = self._samples.described([question["row"] for question in questions])
        return {"n": self._live.n, "questions": questions, "left": left, "samples": described}

    def skip(self, row: int) -> None:
        """Do not ask about a sample again."""
        self._passed.add(row)

    def _order(self) -> tuple[IntArray, int]:
        """Rows worth a look, the most worth it first; and how many."""
        samples, record = self._live.edited.samples, self._live.edited.record
        sizes = {category["id"]: category["size"] for category in record["categories"]}
        worth = np.where(samples.labelled | (samples.confidence >= DOUBTED), 0.0, 1 - samples.confidence)
        rows = np.flatnonzero(worth)
        worth[rows] *= np.sqrt([sizes[i] for i in samples.categories[rows].tolist()])
        for row, _, share in record.get("suspected_labels") or ():
            worth[row] = share * np.sqrt(sizes[int(samples.categories[row])])
        worth[list(self._passed)] = 0
        order = np.argsort(-worth, kind="stable")
        n = int((worth > 0).sum())
        return order[:n], n
