"""The page that `newkinds compare` writes, as data; see `Comparison` in web/src/data.ts."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from newkinds import __version__
from newkinds.comparing import Comparison
from newkinds.report.content import Blocks, as_script, cut, rounded
from newkinds.report.page import render
from newkinds.report.words import UNITS, counted, spoken
from newkinds.run_folder import category_names

MOST_MOVED = 500
TEXT_LENGTH = 500


def make_comparison(comparison: Comparison, before: Path, after: Path) -> str:
    """A page that shows what changed from one run to another."""
    content = _content(comparison, before, after)
    return render(f"{content['title']}: what changed", Blocks(content["summary"], as_script(content)))


def comparison_summary(comparison: Comparison) -> list[str]:
    """What changed, in sentences."""
    unit = _unit(comparison)
    moved = comparison.n_moved
    first = (
        f"{counted(moved, unit)} of {comparison.n_common:,} changed {'its' if moved == 1 else 'their'} kind."
        if moved
        else f"None of the {counted(comparison.n_common, unit)} changed its kind."
    )
    sentences = [first]
    for topic, words in (
        ("born", ("kind is new", "kinds are new")),
        ("gone", ("kind is gone", "kinds are gone")),
        ("split", ("kind was split", "kinds were split")),
        ("merged", ("kind is made of several", "kinds are made of several")),
        ("renamed", ("kind has another name", "kinds have other names")),
    ):
        if n := sum(change.topic == topic for change in comparison.changes):
            sentences.append(f"{spoken(n).capitalize()} {words[n > 1]}.")
    for n, where in ((comparison.n_only_before, "first"), (comparison.n_only_after, "second")):
        if n:
            sentences.append(f"{counted(n, unit)} {'is' if n == 1 else 'are'} in the {where} run only.")
    return sentences


def _unit(comparison: Comparison) -> tuple[str, str]:
    encoder = comparison.after.get("encoder")
    return UNITS.get(encoder["kind"] if encoder else "features", UNITS["features"])


def _content(comparison: Comparison, before: Path, after: Path) -> dict[str, Any]:
    rows, columns = np.nonzero(comparison.flows)
    moved = comparison.moved.slice(0, MOST_MOVED).to_pylist()
    return {
        "page": "comparison",
        "title": comparison.after["source"]["name"],
        "newkinds": __version__,
        "summary": comparison_summary(comparison),
        "unit": _unit(comparison),
        "before": _side(comparison.before, before),
        "after": _side(comparison.after, after),
        "n_common": comparison.n_common,
        "n_only_before": comparison.n_only_before,
        "n_only_after": comparison.n_only_after,
        "n_moved": comparison.n_moved,
        "flows": [[int(i), int(j), int(comparison.flows[i, j])] for i, j in zip(rows, columns, strict=True)],
        "matches": [list(pair) for pair in sorted(comparison.matched.items())],
        "changes": [{**asdict(change), "text": f"{change.text}."} for change in comparison.changes],
        "moved": [
            {
                "id": cut(row["id"], TEXT_LENGTH),
                "text": cut(row["text"], TEXT_LENGTH) if "text" in row else None,
                "before": row["before"],
                "after": row["after"],
                "confidence": rounded(row["confidence"]),
            }
            for row in moved
        ],
    }


def _side(record: dict[str, Any], folder: Path) -> dict[str, Any]:
    return {
        "run": folder.name,
        "created": record["created"],
        "n_samples": record["source"]["samples"],
        "categories": [
            {"id": place, **category_names(category), "kind": category["kind"], "size": category["size"]}
            for place, category in enumerate(record["categories"])
        ],
    }
