"""What a user should know before trusting a run, and what to do about it: read off the run's record.

The titles stand in `run.json` as warnings; the report adds the rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

WIDE = 1.5
"""Factor between the ends of an interval from which on it is said to be wide."""
FEW_KNOWN = 5
"""Known categories below which rehearsals, which hide a third of them, have little to go by."""
SHOWN_NAMES = 5


@dataclass(frozen=True)
class Advice:
    """Something to know, and what can be done.

    Attributes
    ----------
    topic : str
        What it is about: "count", "settings", "sizes", "labels", "merge", "split", "duplicates", "note".
    title : str
        One sentence, without a full stop.
    text : str
        What follows from it, or "".
    command : str, optional
        To copy; the first RUN in it stands for the run folder.
    categories : tuple of int
        Ids of those it is about.
    """

    topic: str
    title: str
    text: str = ""
    command: str | None = None
    categories: tuple[int, ...] = ()


def record_advice(record: dict[str, Any]) -> list[Advice]:
    """All that a record shows by itself."""
    rules = (_labels, _few_known, _lam, _count, _interval, _sizes, _small)
    return [advice for rule in rules for advice in rule(record)]


def _labels(record: dict[str, Any]) -> Iterator[Advice]:
    if not record["source"]["labelled"]:
        yield Advice(
            "labels",
            "no sample is labelled: the categories are groups of samples that look alike, and nothing says what a "
            "kind is here; label a few samples of some kinds to say so",
            "Put samples of the kinds that you know into folders of their own, or write their kinds into a column.",
        )


def _few_known(record: dict[str, Any]) -> Iterator[Advice]:
    n_known = sum(category["kind"] == "known" for category in record["categories"])
    if 0 < n_known < FEW_KNOWN and record["curves"].get("rehearsal"):
        kinds = "kind is" if n_known == 1 else "kinds are"
        yield Advice(
            "labels",
            f"only {n_known} {kinds} known: settings are chosen by hiding known kinds and finding them again, and "
            "with so few that says little",
            "Labels for a few samples of further kinds make the result surer.",
        )


def _lam(record: dict[str, Any]) -> Iterator[Advice]:
    curve, lam = record["curves"]["lam"], record["chosen"]["lam"]
    tried = [value for value, _ in curve or ()]
    if tried and lam in (min(tried), max(tried)):
        yield Advice(
            "settings",
            f"λ = {lam:.3g} is at the edge of the range that was tried ({min(tried):.3g} to {max(tried):.3g}): the "
            "best value may lie beyond",
            "Rehearsals choose λ more surely than the labelled accuracy: discover again with --lam rehearsal.",
        )


def _count(record: dict[str, Any]) -> Iterator[Advice]:
    chosen, bounds = record["chosen"], record["chosen"].get("n_categories_bounds")
    n_categories = chosen["n_categories"]
    if bounds and n_categories in bounds and bounds[0] < bounds[1]:
        yield Advice(
            "count",
            f"the estimated number of categories, {n_categories}, is at the bound of its search "
            f"({bounds[0]} to {bounds[1]}): the true one may lie beyond",
            "If you know about how many there are, discover again with --n-categories.",
        )


def _interval(record: dict[str, Any]) -> Iterator[Advice]:
    interval = record["chosen"].get("n_categories_interval")
    if interval and interval[1] > WIDE * interval[0]:
        low, high = interval
        yield Advice(
            "count",
            f"there may be between {low} and {high} categories: how large the new ones are, compared with the "
            "known ones, is not clear",
            "Look at the largest new kinds: if each holds several, there are more. Then give --n-categories.",
        )


def _sizes(record: dict[str, Any]) -> Iterator[Advice]:
    ratio = record["chosen"].get("size_ratio")
    if ratio is not None and ratio != 1.0:
        yield Advice(
            "sizes",
            f"new categories seem to be {ratio:.2g} times as large as known ones, and were looked for as such",
        )


def _small(record: dict[str, Any]) -> Iterator[Advice]:
    for size, what in ((0, "empty"), (1, "of a single sample")):
        small = [category for category in record["categories"] if category["size"] == size]
        if small:
            names = [category["name"] for category in small[:SHOWN_NAMES]]
            shown = ", ".join(names) + (", …" if len(small) > SHOWN_NAMES else "")
            subject = "category is" if len(small) == 1 else "categories are"
            yield Advice(
                "sizes",
                f"{len(small)} {subject} {what}: {shown}",
                categories=tuple(category["id"] for category in small),
            )
