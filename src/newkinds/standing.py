"""A run as it stands: its record and its samples after what the journal says was done.

This is the one place where outcomes of entries are applied. Applying is reading: nothing is fitted or clustered.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from newkinds.errors import InputError
from newkinds.journal import JOURNAL_FILE, Entry
from newkinds.labels import IntArray

Mask = npt.NDArray[np.bool_]
Shares = npt.NDArray[np.float32]
NEW_KEY = re.compile(r"new-([1-9][0-9]{0,17})")


@dataclass
class SampleState:
    """What is known of each sample of a run.

    Attributes
    ----------
    categories : ndarray of int64
        Ids.
    given : ndarray of bool
        Whether it came with a label that still counts.
    confirmed : ndarray of bool
        Whether a person said that it belongs to its category.
    confidence, novelty : ndarray of float32
        A person's word is certain: of a confirmed sample the confidence is 1, the novelty 1 or 0.
    strangeness : ndarray of float32
        The probability that it belongs to none of the categories; 0 where nobody asked, and of labelled samples.
    held : ndarray of bool
        Whether it is held back: it is like nothing seen. Labelled samples never are.
    """

    categories: IntArray
    given: Mask
    confirmed: Mask
    confidence: Shares
    novelty: Shares
    strangeness: Shares
    held: Mask

    @property
    def labelled(self) -> Mask:
        """Whether its category is a person's word: by a label or since."""
        return self.given | self.confirmed


class _Before(NamedTuple):
    """What an entry replaced."""

    record: dict[str, Any]
    rows: IntArray
    samples: SampleState | None


class Standing:
    """The state of a run, moved on and back entry by entry.

    Parameters
    ----------
    record : dict
        `run.json` of the run or of its version, as it was written.
    samples : SampleState, optional
        As `predictions.parquet` has them; it is changed in place. Without, only the record is kept.

    Attributes
    ----------
    record : dict
        As it stands. Each category has a `key`, which never changes (its label, or new-3), and a `name` to show,
        which is the key unless a person gave it another: then `named` is true. Records are never changed, but
        replaced by new ones.
    samples : SampleState or None
    """

    def __init__(self, record: dict[str, Any], samples: SampleState | None = None) -> None:
        self.record = {**record, "categories": [_called(category) for category in record["categories"]]}
        self.samples = samples
        self._before: list[_Before] = []

    def apply(self, entry: Entry) -> None:
        """Do what an entry did."""
        before = self.record
        change = _as_change(entry)
        record = _changed_record(before, change, entry.n)
        rows, samples = np.empty(0, dtype=np.int64), None
        if self.samples is not None:
            rows, samples = self._change_samples(change, record, entry.n)
        self.record = record
        self._before.append(_Before(before, rows, samples))

    def revert(self) -> None:
        """Take back the last entry that was applied."""
        self.record, rows, samples = self._before.pop()
        if self.samples is not None and samples is not None:
            for name, array in vars(self.samples).items():
                array[rows] = getattr(samples, name)

    def _change_samples(
        self, change: dict[str, Any], record: dict[str, Any], n: int
    ) -> tuple[IntArray, SampleState]:
        """Change the samples, and return which rows and what was there before."""
        assert self.samples is not None
        samples, n_samples = self.samples, len(self.samples.categories)
        flows = [(start, end, unpacked_rows(rows, n_samples, n)) for start, end, rows in change.get("flows", ())]
        confirmed, withdrawn = (
            unpacked_rows(change.get(part, []), n_samples, n) for part in ("confirmed", "withdrawn")
        )
        shares = change.get("shares", {"rows": [], "confidence": [], "novelty": []})
        judged = unpacked_rows(shares["rows"], n_samples, n)
        if not len(judged) == len(shares["confidence"]) == len(shares["novelty"]):
            raise _damaged(n, "it has more or fewer shares than rows")
        touched = np.unique(np.concatenate([*(rows for *_, rows in flows), confirmed, withdrawn, judged]))
        before = SampleState(**{name: array[touched] for name, array in vars(samples).items()})
        for start, _, rows in flows:
            if (samples.categories[rows] != start).any():
                raise _damaged(n, f"samples that it takes from category {start} are not there")
        for _, end, rows in flows:
            samples.categories[rows] = end
        samples.given[withdrawn] = samples.confirmed[withdrawn] = False
        samples.confidence[judged], samples.novelty[judged] = shares["confidence"], shares["novelty"]
        samples.confirmed[confirmed] = True
        known = [category["id"] for category in record["categories"] if category["kind"] == "known"]
        samples.confidence[confirmed] = 1
        samples.novelty[confirmed] = ~np.isin(samples.categories[confirmed], known)
        samples.strangeness[confirmed], samples.held[confirmed] = 0, False
        return touched, before


def standing(record: dict[str, Any], entries: Iterable[Entry]) -> dict[str, Any]:
    """A run's record as it stands after what was done, see `Standing`."""
    state = Standing(record)
    for entry in entries:
        state.apply(entry)
    return state.record


def packed_rows(rows: npt.ArrayLike) -> list[int | list[int]]:
    """Rows as the journal has them: ascending, neighbours as their first and last.

    Examples
    --------
    >>> packed_rows([7, 3, 4, 5])
    [[3, 5], 7]
    """
    ascending = np.unique(np.asarray(rows, dtype=np.int64))
    if not len(ascending):
        return []
    breaks = np.flatnonzero(np.diff(ascending) > 1)
    firsts = ascending[np.concatenate([[0], breaks + 1])].tolist()
    lasts = ascending[np.concatenate([breaks, [-1]])].tolist()
    return [first if first == last else [first, last] for first, last in zip(firsts, lasts, strict=True)]


def unpacked_rows(items: Sequence[int | list[int]], n_samples: int, n: int = 0) -> IntArray:
    """Rows from the journal's form; those that the run does not have are refused, entry `n` being to blame.

    Examples
    --------
    >>> unpacked_rows([[3, 5], 7], 10)
    array([3, 4, 5, 7])
    """
    if not items:
        return np.empty(0, dtype=np.int64)
    pairs = np.array([item if isinstance(item, list) else (item, item) for item in items], dtype=np.int64)
    if pairs[-1, 1] >= n_samples:
        raise _damaged(n, f"row {pairs[-1, 1]} is beyond the last of {n_samples} samples")
    lengths = pairs[:, 1] - pairs[:, 0] + 1
    starts = np.repeat(pairs[:, 0] - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    return np.asarray(starts + np.arange(len(starts)), dtype=np.int64)


def last_used(record: dict[str, Any], entries: Iterable[Entry]) -> tuple[int, int]:
    """The largest id and the largest number of a key (new-3) that a run ever used, undone ones too.

    Parameters
    ----------
    record : dict
        `run.json` of the run, not of a version: all that versions have came from the journal.
    entries : iterable of Entry
        All of the journal.
    """
    earlier = record.get("last", {"id": -1, "key": 0})
    born = [(category["id"], category["name"]) for category in record["categories"]]
    for entry in entries:
        born += [(category["id"], category["key"]) for category in entry.born]
    numbers = [int(match[1]) for _, key in born if (match := NEW_KEY.fullmatch(key))]
    return max([earlier["id"], *(i for i, _ in born)]), max([earlier["key"], *numbers])


def lineage(ids: Iterable[int], entries: Iterable[Entry]) -> dict[int, int | None]:
    """What became of categories: each one itself, the one that took it in, or None if it was dissolved."""
    became: dict[int, int | None] = {i: i for i in ids}
    for entry in entries:
        for gone, heir in entry.outcome.get("retired", ()):
            became = {i: heir if now == gone else now for i, now in became.items()}
    return became


def _called(category: dict[str, Any]) -> dict[str, Any]:
    """A category of `run.json` with its key, and the name that a person had given it before this version."""
    called = category.get("called")
    return {**category, "key": category["name"], "name": called or category["name"], "named": called is not None}


def _as_change(entry: Entry) -> dict[str, Any]:
    """The outcome of an entry in the one form that is applied."""
    if entry.op == "rename":
        return {"names": [[entry.outcome["id"], entry.outcome["name"]]]}
    return entry.outcome


def _changed_record(record: dict[str, Any], change: dict[str, Any], n: int) -> dict[str, Any]:
    categories: dict[int, dict[str, Any]] = {category["id"]: category for category in record["categories"]}

    def category(i: int) -> dict[str, Any]:
        if i not in categories:
            raise _damaged(n, "it is about a category that the run does not have")
        return categories[i]

    n_samples = record["source"]["samples"]
    for new in change.get("born", ()):
        if new["id"] in categories:
            raise _damaged(n, f"category {new['id']} is there already")
        called = {"name": new["key"] if new["name"] is None else new["name"], "named": new["name"] is not None}
        facts = {"kind": "new", "size": 0, "labelled": 0, "suggestion": None, "stability": None}
        categories[new["id"]] = {"id": new["id"], "key": new["key"], **called, **facts}
    for i, name in change.get("names", ()):
        called = {"name": category(i)["key"] if name is None else name, "named": name is not None}
        categories[i] = {**category(i), **called}
    for start, end, _ in change.get("flows", ()):
        category(start), category(end)
    for i, heir in change.get("retired", ()):
        category(i)
        if heir is not None:
            n_gone = category(heir).get("let_go", 0) + category(i).get("let_go", 0)
            categories[heir] = {**category(heir), **({"let_go": n_gone} if n_gone else {})}
        del categories[i]
    for i, size, n_labelled in change.get("sizes", ()):
        categories[i] = {**category(i), "size": size, "labelled": n_labelled}
    ordered = sorted(categories.values(), key=lambda c: int(c["id"]))
    if sum(c["size"] for c in ordered) != n_samples or any(c["labelled"] > c["size"] for c in ordered):
        raise _damaged(n, "the sizes of categories do not add up after it")
    changed = {**record, "categories": ordered}
    changed["source"] = {**record["source"], "labelled": sum(c["labelled"] for c in ordered)}
    if record.get("suspected_labels"):
        changed["suspected_labels"] = _suspects(record["suspected_labels"], change, categories, n_samples, n)
    return changed


def _suspects(
    suspects: list[list[Any]], change: dict[str, Any], categories: dict[int, Any], n_samples: int, n: int
) -> list[list[Any]]:
    """Labels that still look wrong: nobody has said anything of them, and what they look like is there."""
    settled: set[int] = set()
    for part in ("confirmed", "withdrawn"):
        settled |= set(unpacked_rows(change.get(part, []), n_samples, n).tolist())
    heirs = dict(change.get("retired", ()))
    remaining = [[row, heirs.get(likely, likely), share] for row, likely, share in suspects if row not in settled]
    return [suspect for suspect in remaining if suspect[1] in categories]


def _damaged(n: int, what: str) -> InputError:
    return InputError(f"{JOURNAL_FILE} does not fit the run: entry {n}: {what}")
