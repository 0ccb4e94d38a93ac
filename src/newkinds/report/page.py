"""Run folder → one self-contained HTML page."""

import base64
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from newkinds.names import MEANINGS
from newkinds.report.charts import heat_table, line_chart
from newkinds.run_folder import REPORT_FILE, read_predictions, read_run

TYPICAL = 12
"""How many samples of a category are shown: the most confident ones."""
TEXT_LENGTH = 160
COUNT_SCORES = {"silhouette": "silhouette", "rehearsal": "hidden categories recovered (%)"}
"""What a rule for the number of categories judges by, where it is not the labelled accuracy."""

STYLE = """
:root { --ink: #1c2430; --dim: #667085; --paper: #fff; --card: #f6f7f9; --line: #dfe3e8;
        --known: #3b6fb6; --new: #d9822b; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8ebf0; --dim: #98a2b3; --paper: #14181f; --card: #1d232d; --line: #323b49;
          --known: #6fa0e0; --new: #f0a860; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 2rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
       font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .8rem; }
a { color: inherit; }
.dim { color: var(--dim); } .facts { display: flex; flex-wrap: wrap; gap: .75rem; margin-top: 1.2rem; }
.fact { background: var(--card); border-radius: 8px; padding: .7rem 1rem; min-width: 7rem; }
.fact b { display: block; font-size: 1.35rem; } .fact span { color: var(--dim); font-size: .85rem; }
.warnings { border-left: 4px solid var(--new); background: var(--card); padding: .6rem 1rem .6rem 2rem;
            margin: 1.2rem 0; }
details { margin-top: 2.2rem; } summary { font-size: 1.2rem; font-weight: 600; cursor: pointer; }
.charts { display: flex; flex-wrap: wrap; gap: 1.5rem; margin-top: 1.2rem; }
.charts figure { margin: 0; flex: 1 1 340px; max-width: 520px; }
figcaption { color: var(--dim); font-size: .85rem; } svg { width: 100%; height: auto; }
.grid { stroke: var(--line); } .tick, .label { fill: var(--dim); font: 12px system-ui, sans-serif; }
.curve { fill: none; stroke: var(--known); stroke-width: 2; }
.point { fill: var(--known); } .chosen { fill: var(--new); }
table { border-collapse: collapse; width: 100%; } td, th { padding: .2rem .6rem .2rem 0; text-align: left; }
th { color: var(--dim); font-weight: 500; font-size: .85rem; }
td.number, th.number { text-align: right; width: 6rem; }
.heat td, .heat th { text-align: center; padding: .35rem .3rem; }
.heat td[style] { background: color-mix(in srgb, var(--known) calc(var(--heat) * 70%), var(--card)); }
.heat td.chosen { outline: 3px solid var(--new); outline-offset: -3px; font-weight: 600; }
td.bar { width: 45%; } td.bar i { display: block; height: .8rem; border-radius: 3px; min-width: 2px; }
.known i { background: var(--known); } .new i { background: var(--new); }
.tag { font-size: .75rem; border-radius: 4px; padding: .05rem .4rem; color: var(--paper); }
.known .tag { background: var(--known); } .new .tag { background: var(--new); }
section.category { border-top: 1px solid var(--line); padding: .8rem 0; }
section.category h3 { margin: 0 0 .5rem; font-size: 1rem; }
.samples { display: flex; flex-wrap: wrap; gap: .5rem; margin: 0; padding: 0; list-style: none; }
.samples img { height: 64px; min-width: 64px; image-rendering: pixelated; border-radius: 4px; display: block; }
.samples.texts { display: block; } .samples.texts li { padding: .15rem 0; }
"""


def write_report(folder: str | Path) -> Path:
    """Write `report.html` into a run folder from what the folder holds."""
    path = Path(folder) / REPORT_FILE
    record = read_run(folder)
    path.write_text(render(record, read_predictions(folder, record)), "utf-8")
    return path


def render(record: dict[str, Any], predictions: pa.Table) -> str:
    """The page as text."""
    name = escape(record["source"]["name"])
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{name}: categories found by newkinds</title><style>{STYLE}</style></head><body>",
            f"<h1>{name}</h1>",
            _summary(record),
            _warnings(record),
            _sizes(record),
            _typical(record, predictions),
            _settings(record),
            "</body></html>\n",
        ]
    )


def _summary(record: dict[str, Any]) -> str:
    source, chosen = record["source"], record["chosen"]
    kinds = [category["kind"] for category in record["categories"]]
    facts = [
        (f"{source['samples']:,}", "samples"),
        (f"{source['labelled']:,}", "labelled"),
        (str(kinds.count("known")), "known categories"),
        (str(kinds.count("new")), "new categories"),
    ]
    if chosen.get("n_categories_interval"):
        low, high = chosen["n_categories_interval"]
        facts.append((f"{low}–{high}", "categories in all, with a probability of 90 %"))
    if record["score"] is not None:
        shares = [record["score"][part] for part in ("all", "old", "new")]
        shown = " / ".join("–" if share is None else f"{100 * share:.1f}" for share in shares)
        facts.append((shown, f"accuracy All / Old / New ({record['score']['protocol']})"))
    when = record["created"][:16].replace("T", " ")
    origin = (
        f"{record['method'].upper()} · newkinds {record['versions']['newkinds']} · {when} UTC · "
        f"fitted in {record['seconds'].get('fit', 0):.1f} s"
    )
    return f'<div class="dim">{escape(origin)}</div>{_facts(facts)}'


def _facts(facts: list[tuple[str, str]]) -> str:
    cells = "".join(f'<div class="fact"><b>{value}</b><span>{label}</span></div>' for value, label in facts)
    return f'<div class="facts">{cells}</div>'


def _warnings(record: dict[str, Any]) -> str:
    if not record["warnings"]:
        return ""
    return f'<ul class="warnings">{"".join(f"<li>{escape(text)}</li>" for text in record["warnings"])}</ul>'


def _settings(record: dict[str, Any]) -> str:
    """λ, temperature and how they were chosen: for those who unfold it."""
    chosen = record["chosen"]
    facts = [] if chosen["lam"] is None else [(f"{chosen['lam']:.3g}", "λ")]
    facts.append((f"{chosen['temperature']:g}", "temperature"))
    return f"<details><summary>How it was found</summary>{_facts(facts)}{_charts(record)}</details>"


def _charts(record: dict[str, Any]) -> str:
    curves, chosen = record["curves"], record["chosen"]
    figures = []
    if curves["lam"]:
        chart = line_chart(
            curves["lam"], x_label="λ", y_label="labelled accuracy (%)", marked=chosen["lam"], percent=True
        )
        figures.append(
            (chart, "How λ was chosen: accuracy on the labelled samples of a model trained without labels")
        )
    if curves.get("rehearsal"):
        table = heat_table(curves["rehearsal"], chosen=(chosen["temperature"], chosen["lam"]))
        figures.append((table, "How temperature and λ were chosen: hidden categories found again (%)"))
    if curves["n_categories"]:
        rule = chosen["n_categories_rule"]
        chart = line_chart(
            curves["n_categories"],
            x_label="categories",
            y_label=COUNT_SCORES.get(rule, "labelled accuracy (%)"),
            marked=chosen["n_categories"],
            percent=rule != "silhouette",
        )
        figures.append((chart, f"How the number of categories was estimated ({escape(rule)})"))
    if curves["objective"]:
        chart = line_chart(curves["objective"], x_label="epoch", y_label="objective")
        figures.append((chart, "The objective during training"))
    if not figures:
        return ""
    shown = "".join(f"<figure>{chart}<figcaption>{caption}</figcaption></figure>" for chart, caption in figures)
    return f'<div class="charts">{shown}</div>'


def _sizes(record: dict[str, Any]) -> str:
    largest = max((category["size"] for category in record["categories"]), default=1) or 1
    rows = "".join(
        f'<tr class="{category["kind"]}"><td><a href="#c{category["id"]}">{escape(category["name"])}</a> '
        f'<span class="tag">{category["kind"]}</span></td><td class="bar"><i style="width:'
        f'{100 * category["size"] / largest:.1f}%"></i></td><td class="number">{category["size"]:,}</td>'
        f'<td class="number">{category["labelled"]:,}</td></tr>'
        for category in record["categories"]
    )
    return (
        '<h2>Categories</h2><table><tr><th>name</th><th>size</th><th class="number">samples</th>'
        f'<th class="number">labelled</th></tr>{rows}</table>'
    )


def _typical(record: dict[str, Any], predictions: pa.Table) -> str:
    columns = set(predictions.column_names)
    shown_column = next((name for name in ("thumbnail", "text") if name in columns), "id")
    categories = predictions["category"].to_numpy()
    confidence = predictions["confidence"].to_numpy()
    sections = []
    for category in record["categories"]:
        members = np.flatnonzero(categories == category["id"])
        typical = members[np.argsort(-confidence[members], kind="stable")[:TYPICAL]]
        rows = predictions.take(pa.array(typical)).to_pylist()
        items = (
            "".join(f"<li>{_sample(row, shown_column)}</li>" for row in rows) or '<li class="dim">no sample</li>'
        )
        sections.append(
            f'<section class="category {category["kind"]}" id="c{category["id"]}"><h3>{escape(category["name"])} '
            f'<span class="tag">{category["kind"]}</span> <span class="dim">{category["size"]:,} samples</span>'
            f"</h3>"
            f'<ul class="samples{"" if shown_column == "thumbnail" else " texts"}">{items}</ul></section>'
        )
    words = "<br>".join(f"{name}: {meaning}" for name, meaning in MEANINGS.items())
    return f'<h2>Typical samples</h2><p class="dim">{words}</p>{"".join(sections)}'


def _sample(row: dict[str, Any], column: str) -> str:
    title = escape(f"{row['id']}: confidence {row['confidence']:.2f}, novelty {row['novelty']:.2f}")
    if column == "thumbnail":
        data = base64.b64encode(row["thumbnail"]).decode("ascii")
        return f'<img src="data:image/png;base64,{data}" title="{title}" alt="{escape(row["id"])}">'
    text = row[column]
    shown = text if len(text) <= TEXT_LENGTH else text[: TEXT_LENGTH - 1] + "…"
    return f'<span title="{title}">{escape(shown)}</span>'
