"""Samples as pages show them: what they are, those of a category, those that match words, those like others."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from newkinds.labels import IntArray
from newkinds.report.content import CARD_LENGTH, ID_LENGTH, cut, rounded
from newkinds.studio.cards import nearest_rows
from newkinds.studio.live_run import LiveRun

PAGE = 60
"""Samples of a list that are sent at a time."""
MOST_ROWS = 500
"""Samples that are described at a time."""
MOST_FOUND = 2_000
"""Matches of a search, and samples like others, that are listed."""
WHOLE_TEXT = 20_000
"""Characters of a text that is shown alone."""
ORDERS = ("doubtful", "typical", "order")


@dataclass(frozen=True)
class _Columns:
    """Ids and texts of the samples of a run, or of one of its versions that has its own."""

    samples_of: str | None
    ids: pa.ChunkedArray
    texts: pa.ChunkedArray | None


class Samples:
    """The samples of a run."""

    def __init__(self, live: LiveRun) -> None:
        self._live = live
        self._kept = self._read()

    @property
    def _columns(self) -> "_Columns":
        if self._kept.samples_of != self._live.samples_of:
            self._kept = self._read()
        return self._kept

    def _read(self) -> "_Columns":
        with self._live.held() as run:
            table = run.predictions
            texts = table["text"] if "text" in table.column_names else None
            return _Columns(self._live.samples_of, table["id"], texts)

    def __len__(self) -> int:
        return len(self._columns.ids)

    def id(self, row: int) -> str:
        """What a sample is called."""
        return str(self._columns.ids[row].as_py())

    def described(self, rows: list[int]) -> list[dict[str, Any]]:
        """Id and text of some samples, as lists show them."""
        at = pa.array(rows, pa.int64())
        columns = self._columns
        ids = columns.ids.take(at).to_pylist()
        texts = [None] * len(rows) if columns.texts is None else columns.texts.take(at).to_pylist()
        return [
            {"row": row, "id": cut(name, ID_LENGTH), "text": None if text is None else cut(text, CARD_LENGTH)}
            for row, name, text in zip(rows, ids, texts, strict=True)
        ]

    def details(self, row: int) -> dict[str, Any]:
        """One sample, its text in full."""
        with self._live.held() as run:
            samples = run.samples
            likely = {place: (i, share) for place, i, share in run.record.get("suspected_labels") or ()}.get(row)
            texts = self._columns.texts
            text = None if texts is None else cut(texts[row].as_py(), WHOLE_TEXT)
            return {
                "row": row,
                "id": self.id(row),
                "text": text,
                "confidence": rounded(samples.confidence[row]),
                "novelty": rounded(samples.novelty[row]),
                "given": bool(samples.given[row]),
                "confirmed": bool(samples.confirmed[row]),
                "slot": self._live.slot(int(samples.categories[row])),
                "suspect": None
                if likely is None
                else {"slot": self._live.slot(likely[0]), "probability": rounded(likely[1])},
            }

    def of_category(self, key: str, order: str, first: int) -> dict[str, Any]:
        """A page of a category's samples."""
        with self._live.held() as run:
            members = run.members(int(self._live.by_key(key)["id"]))
            samples = run.samples
            if order == "doubtful":
                doubt = np.where(samples.labelled[members], 2, samples.confidence[members])
                members = members[np.argsort(doubt, kind="stable")]
            elif order == "typical":
                middle = self._live.cards.middle(int(self._live.by_key(key)["id"]))
                closeness = np.asarray(self._live.cards.features[members], dtype=np.float32) @ middle
                members = members[np.argsort(-closeness, kind="stable")]
        return self._page(members, first)

    def found(self, words: str, first: int) -> dict[str, Any]:
        """A page of the samples whose id or text holds all the words, those with more of them as typed first."""
        matching, columns = None, self._columns
        searched = [column for column in (columns.ids, columns.texts) if column is not None]
        for word in words.split():
            some = [pc.match_substring(column, word, ignore_case=True) for column in searched]
            either = some[0] if len(some) == 1 else pc.or_(*some)
            matching = either if matching is None else pc.and_(matching, either)
        rows = np.empty(0, dtype=np.int64) if matching is None else np.flatnonzero(matching.to_numpy())
        return {**self._page(rows[:MOST_FOUND], first), "matches": len(rows)}

    def like(self, rows: IntArray, first: int) -> dict[str, Any]:
        """A page of the samples most like some others."""
        with self._live.held():
            features = self._live.cards.features
        nearest, similarity = nearest_rows(features, rows, MOST_FOUND)
        shown = [round(float(value), 3) for value in similarity[first : first + PAGE]]
        return {**self._page(nearest, first), "similarity": shown}

    def _page(self, rows: IntArray, first: int) -> dict[str, Any]:
        shown = rows[first : first + PAGE].tolist()
        return {"total": len(rows), "first": first, "rows": shown, "samples": self.described(shown)}
