"""The operations on a run. Each checks what is asked, and writes one entry with its outcome into the journal.

`newkinds.journal` says how outcomes are replayed: an operation never touches any other file of the run.
"""

from pathlib import Path

from newkinds.errors import InputError
from newkinds.journal import Entry, append_entry
from newkinds.run_folder import find_category, read_run
from newkinds.staging import claimed
from newkinds.visible import visible

LONGEST_NAME = 200


def rename(run: str | Path, category: str, name: str, *, reason: str = "") -> Entry:
    """Give a category of a run a name, for good. Its key (new-3, or its label) takes the name away again.

    Parameters
    ----------
    run : path
        A run folder.
    category : str
        The category's name, key or id.
    name : str
        No other category may be called so.
    reason : str
        Written down with it.
    """
    folder = Path(run).resolve()
    read_run(folder)  # to know at once of what is not a run
    with claimed(folder):
        record = read_run(folder)
        chosen = find_category(record, category)
        wanted = _checked_name(name)
        for other in record["categories"]:
            taken = {other["name"].casefold(), other["key"].casefold(), str(other["id"])}
            if other["id"] != chosen["id"] and wanted.casefold() in taken:
                what = f"another category is called {other['name']!r} already"
                raise InputError(f"{what}, or has that number; choose another name")
        outcome = {"id": chosen["id"], "name": None if wanted == chosen["key"] else wanted}
        return append_entry(folder, "rename", {"category": category, "name": name}, outcome, reason=reason)


def _checked_name(name: str) -> str:
    """A name as it is kept: one line without blanks around it."""
    wanted = name.strip()
    if not wanted:
        raise InputError("a name needs at least one letter")
    if len(wanted) > LONGEST_NAME:
        raise InputError(f"a name may have {LONGEST_NAME} letters; got {len(wanted)}")
    if wanted != visible(wanted):
        raise InputError(f"a name may hold no control characters or line breaks; got {wanted!r}")
    return wanted
