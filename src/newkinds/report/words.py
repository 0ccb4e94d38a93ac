"""A run in words: the sentences that the report begins with."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.advice import Advice
from newkinds.labels import IntArray
from newkinds.names import UNSURE

UNITS = {"images": ("photo", "photos"), "texts": ("text", "texts"), "features": ("sample", "samples")}
"""What a sample is called, one and many."""
SMALL_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def counted(n: int, unit: Sequence[str]) -> str:
    """1 photo, 2,000 photos."""
    return f"{n:,} {unit[0] if n == 1 else unit[1]}"


def spoken(n: int) -> str:
    """A number as one says it: two, 48."""
    return SMALL_NUMBERS[n] if n < len(SMALL_NUMBERS) else f"{n:,}"


def summary(
    record: dict[str, Any],
    columns: IntArray,
    given: npt.NDArray[np.bool_],
    confidence: npt.NDArray[np.float64],
    advice: Sequence[Advice],
    unit: Sequence[str],
) -> list[str]:
    """The result in sentences, the most important first.

    Parameters
    ----------
    record : dict
        What `read_run` gives.
    columns, given, confidence : ndarray of shape (samples,)
        The place of each sample's category in the record, whether it was labelled, how sure it is.
    advice : sequence of Advice
    unit : pair of str
        What a sample is called, one and many.
    """
    kinds = np.array([category["kind"] == "new" for category in record["categories"]], dtype=bool)
    n_known, n_new = int((~kinds).sum()), int(kinds.sum())
    sentences = [f"{counted(len(columns), unit)}. {_found(record, n_known, n_new)}"]
    unlabelled = ~given
    in_new = int((unlabelled & kinds[columns]).sum()) if len(kinds) else 0
    n_unlabelled = int(unlabelled.sum())
    if n_known and n_new:
        belong = "belongs" if in_new == 1 else "belong"
        sentences.append(f"{in_new:,} of the {n_unlabelled:,} unlabelled {belong} to the new ones.")
    n_unsure = int((unlabelled & (confidence < UNSURE)).sum())
    if n_unsure:
        sentences.append(f"{n_unsure:,} {'is' if n_unsure == 1 else 'are'} unsure.")
    sentences += [item.title for item in advice if item.topic == "labels" and "wrong" in item.title]
    for topic, one, many in (
        ("merge", "Two new kinds can hardly be told apart.", "{} pairs of new kinds can hardly be told apart."),
        ("split", "One kind looks like two.", "{} kinds look like two each."),
        ("duplicates", "One kind is mostly duplicates.", "{} kinds are mostly duplicates."),
    ):
        if n := sum(item.topic == topic for item in advice):
            sentences.append(one if n == 1 else many.format(spoken(n).capitalize()))
    return sentences


def _found(record: dict[str, Any], n_known: int, n_new: int) -> str:
    """37 kinds were known; 48 more were found (43 to 54 with 90 % probability)."""
    interval = record["chosen"].get("n_categories_interval")
    between = ""
    if interval:
        low, high = (max(0, end - n_known) for end in interval)
        between = f" ({low:,} to {high:,} with 90 % probability)" if low != high else ""
    if not n_known:
        return f"No kind was known; {counted(n_new, ('kind was', 'kinds were'))} found{between}."
    known = f"{spoken(n_known).capitalize()} {'kind was' if n_known == 1 else 'kinds were'} known"
    more = f"{spoken(n_new)} more {'was' if n_new == 1 else 'were'} found"
    return f"{known}; {more}{between}."
