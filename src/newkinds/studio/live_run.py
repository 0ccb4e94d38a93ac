"""The run that a studio shows: one `EditedRun`, its state as pages hold it, and what changes from entry to entry.

Pages count states by the entries of the journal. An operation answers with what it changed: the samples whose
numbers are others now, and the cards of the categories that this touches. The same goes to every other page.
"""

import base64
import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.editing import EditedRun
from newkinds.errors import InputError
from newkinds.journal import Entry
from newkinds.labels import IntArray
from newkinds.names import MEANINGS
from newkinds.report.content import CARD_MEANINGS, MAP_METHODS, View
from newkinds.report.words import UNITS
from newkinds.run_folder import has_pictures
from newkinds.studio.cards import Cards

Listener = Callable[[str, dict[str, Any]], None]
"""Takes the name of an event and what it tells."""
MOST_FLOWS, MOST_MOVED = 30, 60
"""Of what a refit changed: pairs of categories, and samples, that are told."""
MOST_SLOTS = 65_535
"""Pages hold 16 bits of a category."""


class LiveRun:
    """A run that pages look at and change, one at a time.

    Parameters
    ----------
    run : path
        A run folder.
    """

    def __init__(self, run: str | Path) -> None:
        self.edited = EditedRun(run)
        self.folder = self.edited.folder
        self._lock = threading.RLock()
        self._listeners: list[Listener] = []
        self._slots: dict[int, int] = {}
        self.cards = Cards(self.edited)
        self.moved: dict[str, Any] | None = None
        self._take_samples()
        self._take_all()

    # Who looks on

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every change from now on, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell(self, event: str, content: dict[str, Any]) -> None:
        for listener in list(self._listeners):
            listener(event, content)

    @contextmanager
    def held(self) -> Iterator[EditedRun]:
        """The run, while nobody else of this server changes it."""
        with self._lock:
            yield self.edited

    # What there is

    @property
    def n(self) -> int:
        """Which state this is: the entries of the journal."""
        return len(self.edited.entries)

    def state(self) -> dict[str, Any]:
        """All but the samples: see `State` in web/src/studio/server.ts."""
        with self._lock:
            record = self.edited.record
            encoder = record.get("encoder")
            kind = encoder["kind"] if encoder else "features"
            return {
                "n": self.n,
                "title": record["source"]["name"],
                "run": self.folder.name,
                "unit": UNITS.get(kind, UNITS["features"]),
                "created": record["created"],
                "newkinds": record["versions"]["newkinds"],
                "n_samples": record["source"]["samples"],
                "categories": [self._card(category) for category in record["categories"]],
                "map": None
                if self.projection is None
                else {
                    "method": self.projection.method,
                    "explanation": MAP_METHODS.get(self.projection.method, ""),
                },
                "pictures": has_pictures(self.folder, record),
                "samples": self.samples_of,
                "meanings": {**MEANINGS, **CARD_MEANINGS},
                **self._counts(),
            }

    def points(self) -> bytes:
        """Numbers about every sample: see `readPoints` in web/src/studio/server.ts."""
        with self._lock:
            head = np.array([self.n, len(self._numbers["slot"]), self.projection is not None, 0], dtype="<u4")
            places: list[npt.NDArray[Any]] = []
            if self.projection is not None:
                whole = np.clip(self.projection.places, 0, 1)
                places = [np.round(65_535 * whole[:, axis]).astype("<u2") for axis in (0, 1)]
            wide = [self._numbers["slot"], *places]
            narrow = [self._numbers[name] for name in ("confidence", "novelty", "given")]
            return b"".join(array.tobytes() for array in (head, *wide, *narrow))

    def by_key(self, key: str) -> dict[str, Any]:
        """A category of the record by its key, which never changes."""
        for category in self.edited.record["categories"]:
            if category["key"] == key:
                return dict(category)
        raise InputError(f"there is no kind {key!r} any more: somebody has merged or dissolved it")

    def slot(self, category: int) -> int:
        """The number by which pages know a category; it stays the same while the studio runs."""
        return self._slots.setdefault(category, min(len(self._slots), MOST_SLOTS))

    # What happens

    def do(self, work: Callable[[EditedRun], Entry]) -> dict[str, Any]:
        """Do something to the run, tell everybody, and return what it changed."""
        with self._lock:
            try:
                work(self.edited)
            finally:  # what others did meanwhile was read in any case
                change = self._change()
            return change

    def warm_up(self) -> None:
        """Load the model, so that the first operation does not wait for PyTorch."""
        import newkinds.runs  # noqa: F401  # PyTorch takes seconds, during which nobody should wait

        with contextlib.suppress(InputError, OSError), self._lock:
            _ = self.edited.model

    def refresh(self) -> None:
        """Read what others have written into the journal, and tell everybody."""
        with self._lock:
            self.edited.refresh()
            if self.n != self._n:
                self._change()

    def _change(self) -> dict[str, Any]:
        """What is other than when this was last asked; it is told to everybody."""
        before, record = self._n, self.edited.record
        if self.n == before:
            return {"before": before, "n": before}
        if self.edited.version != self._version:
            self.cards.clear()
            ids, has_others = self._ids, self.edited.record.get("samples") != self.samples_of
            if has_others:
                self._take_samples()
            self._take_all()
            self.moved = None if has_others else self._moved(ids)
            change: dict[str, Any] = {"before": before, "n": self.n, "all": True}
        else:
            numbers, categories = self._read_numbers(), record["categories"]
            rows = np.flatnonzero(np.any([numbers[name] != self._numbers[name] for name in numbers], axis=0))
            ids_before = {category["id"]: category for category in self._categories}
            touched = set(np.unique([self._ids[rows], self.edited.samples.categories[rows]]).tolist())
            touched |= {c["id"] for c in categories if ids_before.get(c["id"]) != c}
            gone = set(ids_before) - {category["id"] for category in categories}
            self.cards.move(rows, self._ids[rows], self.edited.samples.categories[rows])
            self.cards.forget(touched | gone)
            self._remember(numbers)
            change = {
                "before": before,
                "n": self.n,
                "categories": [self._card(c) for c in categories if c["id"] in touched],
                "gone": sorted(self.slot(category) for category in gone),
                "samples": _packed_numbers(rows, numbers),
            }
        change |= self._counts()
        self.tell("change", change)
        return change

    def _moved(self, before: IntArray) -> dict[str, Any]:
        """What another version says differently: samples that moved, the surest first, and from where to where."""
        samples = self.edited.samples
        rows = np.flatnonzero(before != samples.categories)
        pairs, counts = np.unique(
            np.stack([before[rows], samples.categories[rows]], axis=1), axis=0, return_counts=True
        )
        order = np.argsort(-counts, kind="stable")[:MOST_FLOWS].tolist()
        flows = [[self.slot(int(pairs[i, 0])), self.slot(int(pairs[i, 1])), int(counts[i])] for i in order]
        surest = rows[np.argsort(-samples.confidence[rows], kind="stable")][:MOST_MOVED].tolist()
        return {
            "n_moved": len(rows),
            "flows": flows,
            "moved": [[row, self.slot(int(before[row]))] for row in surest],
        }

    def _counts(self) -> dict[str, Any]:
        """What can be undone and redone, and how many samples a person has labelled or confirmed."""
        samples = self.edited.samples
        return {
            "undo": _named(self.edited.undoable),
            "redo": _named(self.edited.redoable),
            "last": _named(self.edited.entries[-1] if self.edited.entries else None),
            "version": self.edited.version,
            "n_labelled": int(samples.labelled.sum()),
            "n_confirmed": int(samples.confirmed.sum()),
        }

    def _card(self, category: dict[str, Any]) -> dict[str, Any]:
        card = self.cards.of(category)
        near = [{"slot": self.slot(i), "similarity": similarity} for i, similarity in card["nearest"]]
        return {**card, "nearest": near, "slot": self.slot(category["id"])}

    def _take_samples(self) -> None:
        self.projection = View(self.folder, as_of=self.n).projection
        self.samples_of: str | None = self.edited.record.get("samples")
        """The version whose samples these are; None for the run's own. Rows of others mean nothing here."""

    def _take_all(self) -> None:
        self._remember(self._read_numbers())

    def _remember(self, numbers: dict[str, npt.NDArray[Any]]) -> None:
        self._numbers = numbers
        self._ids: IntArray = self.edited.samples.categories.copy()
        self._categories = self.edited.record["categories"]
        self._n, self._version = self.n, self.edited.version

    def _read_numbers(self) -> dict[str, npt.NDArray[Any]]:
        samples = self.edited.samples
        ids = np.array([category["id"] for category in self.edited.record["categories"]], dtype=np.int64)
        slots = np.array([self.slot(i) for i in ids.tolist()], dtype="<u2")
        return {
            "slot": slots[np.searchsorted(ids, samples.categories)],
            "confidence": np.round(255 * np.clip(samples.confidence, 0, 1)).astype(np.uint8),
            "novelty": np.round(255 * np.clip(samples.novelty, 0, 1)).astype(np.uint8),
            "given": np.where(samples.confirmed, 2, samples.given).astype(np.uint8),
        }


def _named(entry: Entry | None) -> dict[str, Any] | None:
    return None if entry is None else {"n": entry.n, "op": entry.op, "by": entry.by}


def _packed_numbers(rows: IntArray, numbers: dict[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """Some samples as `points` has all of them, in base64, with their rows (32 bits) before."""
    parts = [rows.astype("<u4"), *(numbers[name][rows] for name in ("slot", "confidence", "novelty", "given"))]
    return {"n": len(rows), "bytes": base64.b64encode(b"".join(part.tobytes() for part in parts)).decode()}
