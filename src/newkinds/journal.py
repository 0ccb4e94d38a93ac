"""The journal of a run: what was done to it since it was written, one line of JSON each, never rewritten.

The state of a run is `run.json` plus its journal. An entry holds its outcome, so replaying it is reading: nothing
is fitted or clustered again. A last line without its end was interrupted while it was written: it never happened.

Whoever writes holds the run (`newkinds.staging.claimed`), so that entries follow one another.
"""

import json
import os
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from newkinds.errors import InputError
from newkinds.run_record import COUNT, OBJECT, TEXT, Keys, Misfit, OrNull, Shape, one_of, open_file, parse_json
from newkinds.staging import bring_to_disk, sync_folder

JOURNAL_FILE = "journal.jsonl"
LARGEST_JOURNAL = 1 << 28
"""Bytes of the largest journal that is read."""
AUTHORS = ("person", "update", "refit")
OUTCOMES: dict[str, Shape] = {"rename": Keys({"id": COUNT, "name": OrNull(TEXT)})}
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


def read_journal(folder: Path) -> tuple[Entry, ...]:
    """The entries of a run's journal, in order; none where there is no journal."""
    path = folder / JOURNAL_FILE
    return tuple(_parsed_entry(line, n, path) for n, line in enumerate(_whole_lines(path).splitlines(), start=1))


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
    path = folder / JOURNAL_FILE
    earlier = _whole_lines(path)
    time = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    entry = Entry(len(read_journal(folder)) + 1, time, by, op, arguments, outcome, reason)
    try:
        line = json.dumps(asdict(entry), ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except UnicodeEncodeError as error:
        raise InputError(f"the journal holds text in UTF-8, which cannot write {error.object!r}") from error
    is_first = not path.exists()
    with open(path, "ab") as file:
        file.truncate(len(earlier))  # without what was interrupted
        file.write(line)
    bring_to_disk(path)
    if is_first:
        sync_folder(folder)
    return entry


def standing(record: dict[str, Any], entries: Sequence[Entry]) -> dict[str, Any]:
    """A run's record as it stands after its journal.

    Each category has a `key`, which never changes (its label, or new-3), and a `name` to show, which is the key
    unless a person gave it another: then `named` is true.
    """
    record = deepcopy(record)
    categories = {category["id"]: category for category in record["categories"]}
    for category in categories.values():
        category |= {"key": category["name"], "named": False}
    for entry in entries:
        category = categories.get(entry.outcome["id"])
        if category is None:
            raise InputError(f"{JOURNAL_FILE}: entry {entry.n} is about a category that the run does not have")
        name = entry.outcome["name"]
        category |= {"name": category["key"] if name is None else name, "named": name is not None}
    return record


def _whole_lines(path: Path) -> bytes:
    """The journal without a last line that was interrupted."""
    if not os.path.lexists(path):
        return b""
    with open_file(path) as file:
        content = file.read(LARGEST_JOURNAL + 1)
    if len(content) > LARGEST_JOURNAL:
        raise InputError(f"{path} is damaged: it is larger than {LARGEST_JOURNAL >> 20} MiB")
    return content[: content.rfind(b"\n") + 1]


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
