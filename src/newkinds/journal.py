"""The journal of a run: what was done to it since it was written, one line of JSON each, never rewritten.

The state of a run is `run.json` plus its journal. An entry holds its outcome, so replaying it is reading: nothing
is fitted or clustered again (`newkinds.standing`). A last line without its end was interrupted while it was
written: it never happened.

Whoever writes holds the run (`newkinds.staging.claimed`), so that entries follow one another.
"""

import json
import operator
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from newkinds.errors import InputError
from newkinds.run_record import (
    COUNT,
    OBJECT,
    SHARE,
    TEXT,
    VERSION,
    Items,
    Keys,
    Misfit,
    OrNull,
    Row,
    Shape,
    Value,
    one_of,
    open_file,
    parse_json,
)
from newkinds.staging import bring_to_disk, sync_folder

JOURNAL_FILE = "journal.jsonl"
LARGEST_JOURNAL = 1 << 28
"""Bytes of the largest journal that is read."""
MOST_ROWS = 1 << 40
"""More samples than any run has."""
AUTHORS = ("person", "update", "refit")
VERSION_OPS = ("refit", "update")
"""Operations whose outcome is a version of the run."""


def _is_row(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_ROWS


def _are_rows(value: Any) -> bool:
    """Whether rows ascend; [3, 7] stands for all from 3 to 7."""
    if not isinstance(value, list):
        return False
    before = -1
    for item in value:
        pair = item if isinstance(item, list) else [item, item]
        if len(pair) != 2 or not all(map(_is_row, pair)) or not before < pair[0] <= pair[1]:
            return False
        before = pair[1]
    return True


ROWS = Value("rows of samples that ascend", _are_rows)
CHANGE = Keys(
    optional={
        "born": Items(Keys({"id": COUNT, "key": TEXT, "name": OrNull(TEXT)})),
        "retired": Items(Row((COUNT, OrNull(COUNT)))),
        "flows": Items(Row((COUNT, COUNT, ROWS))),
        "confirmed": ROWS,
        "withdrawn": ROWS,
        "shares": Keys({"rows": ROWS, "confidence": Items(SHARE), "novelty": Items(SHARE)}),
        "names": Items(Row((COUNT, OrNull(TEXT)))),
        "sizes": Items(Row((COUNT, COUNT, COUNT))),
    }
)
"""What came of an edit; every part may be missing.

born       new categories
retired    categories that are gone, each with the one that took it in, or null
flows      from, to, rows: samples that changed their category
confirmed  rows of samples whose category is a person's word from now on
withdrawn  rows of samples whose label or confirmation no longer counts
shares     confidence and novelty of samples of which the model says something else now
names      id and name that a person gave, or null where it was taken away
sizes      id, samples and labelled samples of the categories that changed, after it
"""
UPDATE_CHANGES = Keys(
    optional={
        "born": Items(Keys({"id": COUNT, "key": TEXT, "name": OrNull(TEXT), "size": COUNT})),
        "taken_back": Items(Row((COUNT, OrNull(COUNT)))),
        "named": Items(Row((COUNT, TEXT))),
        "grown": Items(Row((COUNT, COUNT))),
        "dormant": Items(COUNT),
        "merges": Items(Row((COUNT, COUNT, SHARE))),
        "splits": Items(Row((COUNT, SHARE))),
        **dict.fromkeys(("arrived", "held", "held_before", "let_go", "labelled", "moved"), COUNT),
    }
)
"""What came of an update; every part may be missing. Replaying reads the version; this is what people are told.

born        new categories, with their samples
taken_back  ids of categories that were born lately and are no more, each with the one that most of its samples are
            in now; null if most are held back
named       id and name of categories that labels named
grown       id and how many samples joined it
dormant     ids of categories that no longer get any samples
merges      two ids of categories that look like one, and how surely
splits      id of a category that looks like several, and how surely
arrived     samples that came
held        of these, samples that are held back, since they are like nothing seen
held_before samples of before that are held back now
let_go      samples that are no longer kept
labelled    samples that came with a label
moved       samples of before that are in another category now, without those that were held back or taken back
"""
UNDONE = Keys({"entry": COUNT})
OUTCOMES: dict[str, Shape] = {
    "rename": Keys({"id": COUNT, "name": OrNull(TEXT)}),
    **dict.fromkeys(("merge", "split", "move", "confirm", "create", "dissolve", "apply"), CHANGE),
    **dict.fromkeys(("undo", "redo"), UNDONE),
    "refit": Keys({"version": VERSION}),
    "update": Keys({"version": VERSION, "changes": UPDATE_CHANGES}),
}
"""What the outcome of each operation holds."""
ENTRY = Keys(
    {
        "n": COUNT,
        "time": TEXT,
        "by": one_of(*AUTHORS),
        "op": one_of(*OUTCOMES),
        "arguments": OBJECT,
        "outcome": OBJECT,
        "reason": TEXT,
    }
)


@dataclass(frozen=True)
class Entry:
    """Something that was done to a run.

    Attributes
    ----------
    n : int
        1, 2, …
    time : str
        ISO 8601, UTC.
    by : {"person", "update", "refit"}
    op : str
        A key of `OUTCOMES`.
    arguments : dict
        What was asked for.
    outcome : dict
        What came of it: all that replaying needs.
    reason : str
    """

    n: int
    time: str
    by: str
    op: str
    arguments: dict[str, Any]
    outcome: dict[str, Any]
    reason: str = ""

    @property
    def version(self) -> str | None:
        """The version that it made; None where it made none."""
        version: str | None = self.outcome["version"] if self.op in VERSION_OPS else None
        return version

    @property
    def born(self) -> list[dict[str, Any]]:
        """The categories that it made, each with its id, key and name."""
        born: list[dict[str, Any]] = self.outcome.get("changes", self.outcome).get("born", [])
        return born


class Journal:
    """The journal of a run, read once; then only what was added since.

    Parameters
    ----------
    folder : Path
        The run.
    as_of : int, optional
        Only so many entries, the first ones, and nothing that was or is added.

    Attributes
    ----------
    entries : list of Entry
    """

    def __init__(self, folder: Path, as_of: int | None = None) -> None:
        self.path = folder / JOURNAL_FILE
        self.entries: list[Entry] = []
        self._as_of: int | None = None
        self._n_bytes = 0
        """How far the file was read: to the end of a line."""
        self.refresh()
        self.entries, self._as_of = first_entries(self.entries, as_of), as_of

    def refresh(self) -> list[Entry]:
        """Read what somebody added since, and return it."""
        if self._as_of is not None:
            return []
        if not os.path.lexists(self.path):
            if self._n_bytes:
                raise InputError(f"{self.path} is gone; it had {len(self.entries)} entries")
            return []
        with open_file(self.path) as file:
            n_bytes = os.fstat(file.fileno()).st_size
            if n_bytes > LARGEST_JOURNAL:
                raise InputError(f"{self.path} is damaged: it is larger than {LARGEST_JOURNAL >> 20} MiB")
            if n_bytes < self._n_bytes:
                raise InputError(f"{self.path} was cut since it was read; nothing may be taken out of a journal")
            file.seek(self._n_bytes)
            content = file.read(n_bytes - self._n_bytes)
        whole = content[: content.rfind(b"\n") + 1]
        first = len(self.entries) + 1
        added = [_parsed_entry(line, n, self.path) for n, line in enumerate(whole.splitlines(), start=first)]
        self.entries += added
        self._n_bytes += len(whole)
        return added

    def append(
        self,
        op: str,
        arguments: dict[str, Any],
        outcome: dict[str, Any],
        *,
        by: str = "person",
        reason: str = "",
    ) -> Entry:
        """Write one more entry and return when it is on the disk. The caller holds the run, and has refreshed."""
        if self._as_of is not None:
            raise ValueError("a run as it stood earlier is to be read only")
        time = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        entry = Entry(len(self.entries) + 1, time, by, op, arguments, outcome, reason)
        try:
            text = json.dumps(asdict(entry), ensure_ascii=False, allow_nan=False, default=operator.index)
            line = text.encode() + b"\n"
        except UnicodeEncodeError as error:
            raise InputError(f"the journal holds text in UTF-8, which cannot write {error.object!r}") from error
        if self._n_bytes + len(line) > LARGEST_JOURNAL:
            raise InputError(f"{self.path} is full: it may have {LARGEST_JOURNAL >> 20} MiB")
        is_first = not self.path.exists()
        with open(self.path, "ab") as file:
            file.truncate(self._n_bytes)  # without what was interrupted
            file.write(line)
        bring_to_disk(self.path)
        if is_first:
            sync_folder(self.path.parent)
        self.entries.append(entry)
        self._n_bytes += len(line)
        return entry


def read_journal(folder: Path, as_of: int | None = None) -> tuple[Entry, ...]:
    """The entries of a run's journal, in order; none where there is no journal. With `as_of` the first so many."""
    return tuple(Journal(folder, as_of).entries)


def append_entry(
    folder: Path,
    op: str,
    arguments: dict[str, Any],
    outcome: dict[str, Any],
    *,
    by: str = "person",
    reason: str = "",
) -> Entry:
    """Write one more entry and return when it is on the disk. The caller holds the run."""
    return Journal(folder).append(op, arguments, outcome, by=by, reason=reason)


def effective_entries(entries: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """What is done, in order, and what is undone and could be done again, the next one last.

    Undoing takes back the last that is done. A new operation drops what was undone.
    """
    done: list[Entry] = []
    undone: list[Entry] = []
    for entry in entries:
        if entry.op in ("undo", "redo"):
            source, target = (done, undone) if entry.op == "undo" else (undone, done)
            if not source or source[-1].n != entry.outcome["entry"]:
                raise InputError(
                    f"{JOURNAL_FILE}: entry {entry.n} cannot {entry.op} entry {entry.outcome['entry']}"
                )
            target.append(source.pop())
        else:
            done.append(entry)
            undone.clear()
    return done, undone


def first_entries(entries: list[Entry], n: int | None) -> list[Entry]:
    """So many, the first ones; by default all."""
    if n is None:
        return entries
    if not 0 <= n <= len(entries):
        raise InputError(f"the journal has {len(entries)} entries; got {n}")
    return entries[:n]


def since_version(done: Sequence[Entry]) -> tuple[str | None, list[Entry]]:
    """The version that a run is at, None for its first, and what was done since."""
    for place in range(len(done) - 1, -1, -1):
        if (version := done[place].version) is not None:
            return version, list(done[place + 1 :])
    return None, list(done)


def _parsed_entry(line: bytes, n: int, path: Path) -> Entry:
    try:
        content = parse_json(line)
        ENTRY.check("", content)
        OUTCOMES[content["op"]].check("outcome", content["outcome"])
        if content["n"] != n:
            raise Misfit(f"n should be {n}; got {content['n']}")
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged: line {n}: {error or 'nested too deeply'}") from error
    return Entry(**{name: content[name] for name in ENTRY.needed})
