"""What in a run is worth a look: labels that look wrong, kinds that look like one, like two, or like copies."""

import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.advice import Advice, record_advice
from newkinds.labels import IntArray
from newkinds.report.words import counted
from newkinds.run_folder import shown_name
from newkinds.separation import Separation, mostly_copies

NAMED_FIRST = ("merge", "split", "duplicates")
"""Topics whose titles begin with the name of a kind, which stays as it is."""


def all_advice(
    record: dict[str, Any], features: npt.NDArray[Any], columns: IntArray, unit: Sequence[str], run: str
) -> list[Advice]:
    """Everything, in sentences, the most useful first; RUN in commands is the run's name.

    Parameters
    ----------
    record : dict
        What `read_run` gives.
    features, columns
        Of every sample: its features, and the place of its category in the record.
    unit : pair of str
        What a sample is called, one and many.
    run : str
        The run folder's name.
    """
    advice = [
        *_suspects(record),
        *_separation(record, features, columns),
        *_copies(record, features, columns, unit),
    ]
    advice += record_advice(record)
    keyed = {**record, "categories": [{**category, "name": category["key"]} for category in record["categories"]]}
    titles = {item.title for item in (*advice, *record_advice(keyed))}  # warnings were written with keys
    advice += [Advice("note", text) for text in record["warnings"] if text not in titles]
    place = shlex.quote(run)
    return [
        Advice(a.topic, _title(a), a.text, a.command and a.command.replace("RUN", place, 1), a.categories)
        for a in advice
    ]


def _title(advice: Advice) -> str:
    """With a full stop, and a capital unless it begins with the name of a kind."""
    text = advice.title
    first = text[:1] if advice.topic in NAMED_FIRST else text[:1].upper()
    return f"{first}{text[1:]}{'' if text.endswith(('.', '!', '?', '…')) else '.'}"


def _suspects(record: dict[str, Any]) -> list[Advice]:
    n = len(record.get("suspected_labels") or ())
    if not n:
        return []
    return [
        Advice(
            "labels",
            f"{counted(n, ('label', 'labels'))} {'looks' if n == 1 else 'look'} wrong",
            "Judged by a classifier that had not seen them. In the table of all labels they come first: correct "
            "the wrong names, and discover again with --labels labels.csv in place of the labels that you gave.",
            "newkinds export RUN labels.csv --labelled",
        )
    ]


def _separation(record: dict[str, Any], features: npt.NDArray[Any], columns: IntArray) -> list[Advice]:
    categories = record["categories"]
    n = len(categories)
    is_new = np.array([category["kind"] == "new" for category in categories], dtype=bool)
    separation = Separation(features, columns, is_new)
    advice = []
    for first, second, _ in separation.merges():
        pair = (categories[first], categories[second])
        advice.append(
            Advice(
                "merge",
                f"{shown_name(pair[0])} and {shown_name(pair[1])} can hardly be told apart",
                "They are no better apart than the halves of a known kind. If they are one, merge them, or "
                f"discover again with --n-categories {n - 1}.",
                f"newkinds merge RUN {shlex.quote(pair[0]['key'])} {shlex.quote(pair[1]['key'])}",
                categories=tuple(category["id"] for category in pair),
            )
        )
    for place, _ in separation.splits():
        advice.append(
            Advice(
                "split",
                f"{shown_name(categories[place])} looks like two kinds",
                "Its halves are as well apart as two known kinds. If they are two, split it, or discover again "
                f"with --n-categories {n + 1}.",
                f"newkinds split RUN {shlex.quote(categories[place]['key'])} -k 2",
                categories=(categories[place]["id"],),
            )
        )
    return advice


def _copies(
    record: dict[str, Any], features: npt.NDArray[Any], columns: IntArray, unit: Sequence[str]
) -> list[Advice]:
    categories = record["categories"]
    return [
        Advice(
            "duplicates",
            f"{shown_name(categories[place])} is mostly duplicates",
            f"{share:.0%} of its {unit[1]} are nearly the same as another one.",
            f"newkinds export RUN copies.csv --kind {shlex.quote(categories[place]['key'])}",
            (categories[place]["id"],),
        )
        for place, share in mostly_copies(features, columns, len(categories))
    ]
