"""Names of files and folders that every file system takes, and that are free."""

import re
import unicodedata
from itertools import count

from newkinds.visible import HIDDEN

LONGEST_NAME = 120
"""Characters of a folder's name, or of an ending."""
UNSAFE = re.compile(rf'[<>:"/\\|?*]|{HIDDEN.pattern}')
"""Characters that some file system does not take, or that do not show."""
DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])\s*(\..*)?", re.IGNORECASE)
"""Names that Windows keeps for itself, with any ending."""
MOST_BYTES = 255
"""Of a name, on most file systems."""


def safe_name(name: str) -> str:
    r"""A name that every file system takes for a folder; empty if nothing remains of it.

    Examples
    --------
    >>> [safe_name(name) for name in ("cat/dog", "..", "St. Bernard ", "aux.txt", "a\nb: c?")]
    ['cat_dog', '', 'St. Bernard', '_aux.txt', 'a_b_ c_']
    """
    text = UNSAFE.sub("_", unicodedata.normalize("NFC", name)).strip().lstrip(".").lstrip()
    while len(text) > LONGEST_NAME or len(text.encode()) > 2 * LONGEST_NAME:
        text = text[: min(LONGEST_NAME, len(text) - 1)]
    text = text.rstrip(". ")
    return f"_{text}" if DEVICE.fullmatch(text) else text


def free_name(stem: str, ending: str, taken: dict[str, int]) -> str:
    """A name, with a number if there is one already that differs in nothing but case; shortened if it is too long.

    `taken` is how often each name was asked for, and is brought up to date.

    Examples
    --------
    >>> taken: dict[str, int] = {}
    >>> [free_name(stem, ".png", taken) for stem in ("owl", "Owl", "owl-2")]
    ['owl.png', 'Owl-2.png', 'owl-2-2.png']
    """
    if len(ending) > LONGEST_NAME // 2:
        stem, ending = stem + ending, ""
    key = name_key(stem + ending)
    for number in count(taken.get(key, 0) + 1):
        taken[key] = number
        name = _joined(stem, ending if number == 1 else f"-{number}{ending}")
        own_key = name_key(name)
        if own_key not in taken or (number == 1 and own_key == key):
            taken.setdefault(own_key, 1)
            return name
    raise AssertionError("numbers do not end")


def _joined(stem: str, ending: str) -> str:
    """A name of at most `MOST_BYTES`; of the stem, whole characters are cut."""
    while len((stem + ending).encode("utf-8", "surrogateescape")) > MOST_BYTES:
        stem = stem[:-1]
    return stem + ending


def name_key(name: str) -> str:
    """Equal for names that some file system takes for the same."""
    return unicodedata.normalize("NFKC", name).casefold()
