"""Labels: what is known, what is not, and how names become integers.

Inside the package a label vector is int64, one entry a sample, `UNLABELLED` (-1) where nothing is known.
Known categories come first, in the order of their ids; discovered ones follow.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.errors import InputError

UNLABELLED = -1
LARGEST = 2**62
"""Largest id of a known category: there is room above it for the ids of discovered ones."""
LONGEST_NUMBER = 4000
"""Digits of a number; what is longer is a name, and Python would refuse to make a number of it."""
MISREAD_AS_TEXT = ("nan", "None", "<NA>", "NaT")
"""What a missing label turns into where numpy or pandas made text of it."""

CELLS = (str, int, float, np.generic)
"""Types of a label that is an integer or a name."""

IntArray = npt.NDArray[np.int64]


def check_labels(labels: npt.ArrayLike | None, n_samples: int) -> IntArray:
    """Return `labels` as an int64 vector of `n_samples` entries, or say what is wrong with them.

    Parameters
    ----------
    labels : array-like of integers, or None
        -1 marks an unlabelled sample; None means that no sample is labelled.
    n_samples : int
        How many labels there must be.

    Examples
    --------
    >>> check_labels([0, 3, -1], 3)
    array([ 0,  3, -1])
    >>> check_labels(["cat", "dog", ""], 3)
    Traceback (most recent call last):
        ...
    newkinds.errors.InputError: labels must be integers (-1 = unlabelled), got values of type str such as \
'cat'; newkinds.encode_labels turns names into integers
    """
    if labels is None:
        return np.full(n_samples, UNLABELLED, dtype=np.int64)
    values = np.asarray(labels)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise InputError(f"labels must be one-dimensional, one entry a sample; got shape {values.shape}")
    if len(values) != n_samples:
        raise InputError(f"there are {n_samples} samples but {len(values)} labels; there must be one each")
    if values.dtype == object:
        if any(is_missing(value) for value in values):
            raise InputError("labels must be integers and one is missing; write -1 for a missing label")
        values = np.asarray(values.tolist())
    if values.dtype.kind == "f":
        bad = ~np.isfinite(values) | (values != np.floor(values))
        if bad.any():
            raise InputError(
                f"labels must be integers (-1 = unlabelled), got {values[bad][0]} at position "
                f"{int(np.flatnonzero(bad)[0])}; write -1 for a missing label"
            )
    elif values.dtype.kind not in "iub":
        example = values.tolist()[0] if values.size else ""
        raise InputError(
            f"labels must be integers (-1 = unlabelled), got values of type {type(example).__name__} "
            f"such as {example!r}; newkinds.encode_labels turns names into integers"
        )
    if values.size and int(values.max()) > LARGEST:
        raise InputError(f"labels must be at most {LARGEST}, got {int(values.max())}")
    if values.size and values.min() < UNLABELLED:
        where = int(np.argmin(values))
        raise InputError(f"labels must be -1 (unlabelled) or at least 0, got {values[where]} at position {where}")
    return values.astype(np.int64)


def named_labels(labels: Any, n_samples: int) -> tuple[IntArray, tuple[str, ...] | None]:
    """Labels as people have them, as an int64 vector, and the names of the ids.

    Parameters
    ----------
    labels : array-like, or None
        Integers (-1 = unlabelled) keep their value; NaN among them is unlabelled. Anything else is a name, see
        `encode_labels`; None, NaN, NA and blank text are unlabelled.
    n_samples : int
        How many labels there must be.

    Returns
    -------
    labels : ndarray of int64
    names : tuple of str, or None
        The name of id 0, 1, …; None where the labels were integers.

    Examples
    --------
    >>> named_labels(["dog", None, "cat", float("nan")], 4)
    (array([ 1, -1,  0, -1]), ('cat', 'dog'))
    >>> named_labels([3, -1, float("nan")], 3)
    (array([ 3, -1, -1]), None)
    """
    values = None if labels is None else np.asarray(labels)
    if values is not None and values.dtype.kind in "US" and not hasattr(labels, "dtype"):
        values = np.asarray(labels, dtype=object)  # numpy would make the text "nan" of a NaN among names
    if values is None or values.dtype.kind in "iu":
        return check_labels(values, n_samples), None
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim == 1 and len(values) != n_samples:
        raise InputError(f"there are {n_samples} samples but {len(values)} labels; there must be one each")
    if values.dtype.kind == "f" and values.ndim == 1:
        return check_labels(np.where(np.isnan(values), UNLABELLED, values), n_samples), None
    return encode_labels(values)


def category_names(known: Mapping[int, str], new: Iterable[int]) -> dict[int, str]:
    """Name of every category: given ones for the known, new-1, new-2, … for the discovered.

    Where a known one begins with "new-", the discovered ones are called discovered-1, …; where one begins with that
    too, discovered2-1, … and so on.

    Examples
    --------
    >>> category_names({0: "owl", 1: "wren"}, [2, 3])
    {0: 'owl', 1: 'wren', 2: 'new-1', 3: 'new-2'}
    """
    prefixes = itertools.chain(("new", "discovered"), (f"discovered{n}" for n in itertools.count(2)))
    prefix = next(p for p in prefixes if not any(name.startswith(f"{p}-") for name in known.values()))
    return {**known, **{category: f"{prefix}-{j}" for j, category in enumerate(new, start=1)}}


def known_categories(labels: IntArray) -> IntArray:
    """The ids that occur among the labels, ascending, without `UNLABELLED`.

    Examples
    --------
    >>> known_categories(np.array([7, -1, 2, 7]))
    array([2, 7])
    """
    return np.unique(labels[labels != UNLABELLED])


def to_columns(labels: IntArray, known: IntArray) -> IntArray:
    """Replace each id by its position in `known`; unlabelled samples stay `UNLABELLED`.

    Examples
    --------
    >>> to_columns(np.array([7, -1, 2]), np.array([2, 7]))
    array([ 1, -1,  0])
    """
    if known.size == 0:
        return np.full_like(labels, UNLABELLED)
    columns = np.searchsorted(known, labels)
    return np.where(labels == UNLABELLED, UNLABELLED, columns).astype(np.int64)


def is_missing(value: Any) -> bool:
    """Whether a cell of a label column says "no label": None, NaN, pandas' NA, or blank text."""
    if value is None:
        return True
    if isinstance(value, str):
        return not value.strip()
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # pandas.NA refuses to be a truth value
        return True


def encode_labels(
    values: Iterable[Any], names: Sequence[str] = (), *, literal: bool = False
) -> tuple[IntArray, tuple[str, ...] | None]:
    """Turn a column of labels (integers, text, missing) into integers.

    Integers, also when written as text, keep their value and -1 is unlabelled. Anything else is a name:
    names get 0, 1, … in alphabetical order.

    Parameters
    ----------
    values : iterable
        One label a sample. None, NaN and blank text mean unlabelled.
    names : sequence of str, optional
        Names that already have an id (their position); further names come after them.
    literal : bool
        Take texts such as "nan" and "None" as names, not as labels that went missing when they became text.

    Returns
    -------
    labels : ndarray of int64
    names : tuple of str, or None
        The name of id 0, 1, …; None where the labels were integers.

    Examples
    --------
    >>> encode_labels(["dog", None, "cat", "dog"])
    (array([ 1, -1,  0,  1]), ('cat', 'dog'))
    >>> encode_labels([4, float("nan"), 2.0])
    (array([ 4, -1,  2]), None)
    """
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise InputError(f"labels must be one-dimensional, one entry a sample; got shape {values.shape}")
    cells = [None if is_missing(value) or _whole(value) == UNLABELLED else value for value in values]
    present = [cell for cell in cells if cell is not None]
    if odd := [cell for cell in present if isinstance(cell, bytes) or not isinstance(cell, CELLS)]:
        raise InputError(f"a label must be an integer or a name, got {odd[0]!r}")
    if not names and all(_whole(cell) is not None for cell in present):
        integers = [UNLABELLED if cell is None else _whole(cell) or 0 for cell in cells]
        if max(integers, default=0) > LARGEST:
            raise InputError(f"labels must be at most {LARGEST}, got {max(integers)}")
        if min(integers, default=0) < -LARGEST:
            raise InputError(f"labels must be -1 (unlabelled) or at least 0, got {min(integers)}")
        return check_labels(np.array(integers, dtype=np.int64), len(integers)), None
    numbers = [cell for cell in present if isinstance(cell, float | np.floating) and _whole(cell) is None]
    if numbers and not names:
        raise InputError(
            f"labels must be integers or names, got the fraction {numbers[0]}; is this a column of measurements?"
        )
    texts = [None if cell is None else label_name(cell) for cell in cells]
    misread = next((text for text in texts if text in MISREAD_AS_TEXT), None)
    if misread is not None and not literal:
        raise InputError(
            f"a label reads {misread!r}, which is what a missing label becomes when it is turned into text; leave "
            "missing labels blank, or rename the category if it is called so"
        )
    further = sorted({text for text in texts if text is not None} - set(names))
    vocabulary = (*names, *further)
    ids = {name: i for i, name in enumerate(vocabulary)}
    encoded = [UNLABELLED if text is None else ids[text] for text in texts]
    return np.array(encoded, dtype=np.int64), vocabulary


def _whole(cell: Any) -> int | None:
    """The integer that a cell holds, also as text or as a float such as pandas makes of integers with gaps."""
    if isinstance(cell, bool | np.bool_):
        return None
    if isinstance(cell, int | np.integer):
        return int(cell)
    if isinstance(cell, float | np.floating):
        return int(cell) if float(cell).is_integer() else None
    if isinstance(cell, str):
        text = cell.strip().removesuffix(".0")
        digits = text.removeprefix("-")
        if not digits.isdecimal() or len(digits) > LONGEST_NUMBER:
            return None
        return int(text) if str(int(text)) == text else None  # 007 is a name
    return None


def label_name(cell: Any) -> str:
    """A label's name: 3 and 3.0 are the same name, blanks around text do not count."""
    whole = None if isinstance(cell, str) else _whole(cell)
    return str(cell if whole is None else whole).strip()
