"""What a category may be called."""

from collections.abc import Collection
from typing import Any

from newkinds.errors import InputError
from newkinds.visible import visible

LONGEST_NAME = 200


def next_number(last: int, taken: Collection[str]) -> int:
    """The number of the next key (new-3); a label, or a name that a person gave, may have one already.

    Examples
    --------
    >>> next_number(3, {"new-4", "owl"})
    5
    """
    number = last + 1
    while f"new-{number}" in taken:
        number += 1
    return number


def checked_name(name: str, record: dict[str, Any], but: int | None = None) -> str:
    """A name as it is kept: one line without blanks around it, which no category but that one has."""
    wanted = name.strip()
    if not wanted:
        raise InputError("a name needs at least one letter")
    if len(wanted) > LONGEST_NAME:
        raise InputError(f"a name may have {LONGEST_NAME} letters; got {len(wanted)}")
    if wanted != visible(wanted):
        raise InputError(f"a name may hold no control characters or line breaks; got {wanted!r}")
    for other in record["categories"]:
        taken = {other["name"].casefold(), other["key"].casefold(), str(other["id"])}
        if other["id"] != but and wanted.casefold() in taken:
            what = f"another category is called {other['name']!r} already"
            raise InputError(f"{what}, or has that number; choose another name")
    return wanted
