"""How a run was found, as data for charts and facts with a sentence each."""

from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

METRIC_WORDS = {
    "cosine": "Samples were compared by the angle between their features.",
    "within": "Directions in which samples of one known kind differ counted little.",
    "self": "Directions in which samples of one kind differ counted little, by what a first look was sure of.",
}
COUNT_SCORES = {"silhouette": "silhouette", "rehearsal": "hidden categories recovered"}
"""What a rule for the number of categories judges by, where it is not the labelled accuracy."""


def how_facts(record: dict[str, Any]) -> list[list[str]]:
    """Name, value, and what it means."""
    chosen, seconds = record["chosen"], record["seconds"]
    facts = [["method", record["method"].upper(), "How the samples were grouped; docs/method.md has the maths."]]
    if encoder := record.get("encoder"):
        # Of an encoder of the user's own the last part of its path: pages are sent to others.
        place = PureWindowsPath(encoder["name"]) if "\\" in encoder["name"] else PurePosixPath(encoder["name"])
        name = place.name if place.is_absolute() else encoder["name"]
        facts.append(["encoder", name, "What turned each sample into numbers."])
    if chosen["n_categories_rule"] is None:
        facts.append(["number of kinds", str(chosen["n_categories"]), "It was given."])
    else:
        rule = chosen["n_categories_rule"]
        facts.append(["number of kinds", str(chosen["n_categories"]), f"It was estimated by the rule “{rule}”."])
    if chosen["lam"] is not None:
        facts.append(
            ["λ", f"{chosen['lam']:.3g}", "How much weight it has that samples are put into kinds definitely."]
        )
    if chosen.get("metric") is not None:
        facts.append(["metric", chosen["metric"], METRIC_WORDS.get(chosen["metric"], "How samples were compared.")])
    facts.append(["temperature", f"{chosen['temperature']:g}", "How sharply similarity turns into probability."])
    if (ratio := chosen.get("size_ratio")) is not None:
        facts.append(
            ["size of new kinds", f"{ratio:.2g}", "Relative to known ones, as far as rehearsals could tell."]
        )
    facts.append(
        ["training", f"{record['n_iter']:,} steps", f"The last training ended because: {record['stopped']}."]
    )
    if "fit" in seconds:
        facts.append(["time", f"{seconds['fit']:.1f} s", "For everything between features and result."])
    return facts


def curve_charts(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The curves of a record; see `Chart` in web/src/data.ts."""
    curves, chosen = record["curves"], record["chosen"]
    charts = []
    if curves["lam"]:
        charts.append(
            _curve(
                "How λ was chosen",
                "Accuracy on the labelled samples of a model that was trained without labels; the best is taken.",
                ("λ", "labelled accuracy"),
                curves["lam"],
                chosen["lam"],
                percent=True,
            )
        )
    final = (chosen["lam"], chosen["temperature"])
    if curves.get("rehearsal"):
        first = final if chosen.get("first") is None else tuple(reversed(chosen["first"]))
        charts.append(_heat("How λ and the temperature were chosen", curves["rehearsal"], first))
    if curves.get("refinement"):
        charts.append(_heat("How the last training, in the metric, was chosen", curves["refinement"], final))
    if curves["n_categories"]:
        rule = chosen["n_categories_rule"]
        charts.append(
            _curve(
                "How the number of kinds was estimated",
                "Each number was tried; the better the score, the more plausible the number.",
                ("kinds", COUNT_SCORES.get(rule, "labelled accuracy")),
                curves["n_categories"],
                chosen["n_categories"],
                percent=rule != "silhouette",
            )
        )
    if curves["objective"]:
        text = "What is minimised, step by step; a flat end means that nothing more was to be gained."
        charts.append(_curve("The last training", text, ("step", "objective"), curves["objective"], None))
    return charts


def _curve(
    title: str,
    text: str,
    labels: tuple[str, str],
    points: list[list[float]],
    chosen: float | None,
    *,
    percent: bool = False,
) -> dict[str, Any]:
    return {
        "kind": "curve",
        "title": title,
        "text": text,
        "x_label": labels[0],
        "y_label": labels[1],
        "points": sorted([x, y] for x, y in points),
        "chosen": chosen,
        "percent": percent,
    }


def _heat(title: str, rows: list[list[float]], chosen: tuple[float, ...]) -> dict[str, Any]:
    shares = {(lam, temperature): share for temperature, lam, share, *_ in rows}
    lams = sorted({lam for lam, _ in shares})
    temperatures = sorted({temperature for _, temperature in shares})
    return {
        "kind": "heat",
        "title": title,
        "text": "Rehearsals hid known labels; the cells say how much of them each pair found again.",
        "x_label": "λ",
        "y_label": "temperature",
        "xs": lams,
        "ys": temperatures,
        "shares": [[shares.get((lam, temperature)) for lam in lams] for temperature in temperatures],
        "chosen": list(chosen),
    }
