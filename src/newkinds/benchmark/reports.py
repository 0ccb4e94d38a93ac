"""From results to the paper's tables and figures: what each needs to be computed, and how it is shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from newkinds.benchmark import published
from newkinds.benchmark.figures import LambdaPanel, dot_chart, lambda_figure
from newkinds.benchmark.jobs import (
    BY_KEY,
    SHOWN_LAMS,
    STARTS,
    Ablation,
    Count,
    Fit,
    Job,
    Lambdas,
    Method,
    Result,
    Starts,
)
from newkinds.benchmark.runner import Results
from newkinds.benchmark.subjects import Subject
from newkinds.benchmark.tables import Cell, Column, Row, Section, Table, Value, write_table
from newkinds.methods.n_categories import Rule

PARTS = ("All", "Old", "New")
LARGEST: dict[str, Literal["largest", "smallest"]] = dict.fromkeys(PARTS, "largest")
COUNTS: Mapping[Rule, tuple[str, str | None]] = {
    "max-acc-kmeans": ("Max-ACC, k-means", "Max-ACC (GCD)"),
    "max-acc-pim": ("Max-ACC, PIM", "Max-ACC (PIM)"),
    "rehearsal": ("rehearsal, Newkinds", None),
}
"""Estimators of the number of categories: what they are called, here and in the paper."""
COUNTED: Mapping[str, Rule] = {"sskm": "max-acc-kmeans", "pim-paper": "max-acc-pim", "pim": "rehearsal"}
"""Which method is given which estimate; the first two as in the paper."""
START_LABELS = {"ssrandom": "class means, random samples", "sskm++": "k-means++ seeds", "sskm": "ssKM"}


@dataclass(frozen=True)
class Plan:
    """What a report is made of.

    Attributes
    ----------
    subjects : sequence of Subject
    tails : sequence of Subject
        Long-tailed versions of some, for the figure of lambda.
    methods : sequence of Method
    """

    subjects: Sequence[Subject]
    tails: Sequence[Subject]
    methods: Sequence[Method]


@dataclass(frozen=True)
class Report:
    """One of the benchmarks: the jobs that it needs, and what it writes."""

    name: str
    title: str
    jobs: Callable[[Plan], list[Job]]
    write: Callable[[Plan, Results, Path], Table]


def _fits(plan: Plan) -> list[Job]:
    return [Fit(subject, method) for subject in plan.subjects for method in plan.methods]


def _main(plan: Plan, results: Results, folder: Path) -> Table:
    rows = [
        (method.label, method.published, {s: _scores(results.of(Fit(s, method))) for s in plan.subjects})
        for method in plan.methods
    ]
    notes = [
        "PIM, published rule: λ by the labelled accuracy of G, temperature 25, one start; L-BFGS, to convergence.",
        "PIM, Newkinds: λ and temperature by rehearsal, a consensus of starts.",
    ]
    return _scored("main", "Accuracy with the true number of categories", plan, rows, published.MAIN, notes, folder)


def _counts(plan: Plan) -> list[Job]:
    return [Count(subject, rule) for subject in plan.subjects for rule in COUNTS]


def _estimate_k(plan: Plan, results: Results, folder: Path) -> Table:
    columns, rows = [], []
    for subject in plan.subjects:
        columns += [Column(subject.name, "K̂"), Column(subject.name, "error %")]
    columns.append(Column("", "mean error %"))
    shown = [subject for subject in plan.subjects if subject.published]
    for subject in shown:
        columns += [Column(_paper(subject), "K̂"), Column(_paper(subject), "error %")]
    chart: dict[str, dict[str, tuple[float, float | None]]] = {}
    for rule, (label, paper) in COUNTS.items():
        cells: list[Cell] = []
        means = []
        for subject in plan.subjects:
            found = results.of(Count(subject, rule))
            errors = [_error(result, subject) for result in found]
            means.append(np.mean(errors))
            k, error = _value([result["k"] for result in found], digits=0), _value(errors)
            cells += [_with_interval(k, found), error]
            chart.setdefault(subject.name, {})[label] = (error.mean, error.std)
        cells.append(Value(float(np.mean(means))))
        for subject in shown:
            data = str(subject.published)
            if paper is None:
                cells += [None, None]
            else:
                k_paper, k_true = published.ESTIMATED_K[paper][data], published.DATASETS[data].n_categories
                cells += [Value(k_paper, digits=0), Value(100 * abs(k_paper / k_true - 1))]
        rows.append(Row(label, cells))
    truth: list[Cell] = []
    for subject in plan.subjects:
        truth += [Value(subject.n_categories, digits=0), None]
    truth += [None, *[cell for _ in shown for cell in (None, None)]]
    notes = [
        "Error: |K̂ / K − 1|. In brackets the 90 % interval of the first seed, where the estimator gives one.",
        *_paper_notes(plan, []),
    ]
    table = Table(
        "estimate-k",
        "Estimated number of categories",
        columns,
        [Section("", [*rows, Row("true", truth)])],
        notes,
        {"error %": "smallest", "mean error %": "smallest"},
        "estimator",
    )
    dot_chart(table.title, chart, x_label="error of the estimate, %", path=folder / table.name)
    return table


def _counted(plan: Plan) -> list[tuple[Method, Rule]]:
    return [(method, COUNTED[method.key]) for method in plan.methods if method.key in COUNTED]


def _fits_at_estimates(plan: Plan) -> list[Job]:
    return [Fit(subject, method, rule) for subject in plan.subjects for method, rule in _counted(plan)]


def _estimated_k(plan: Plan, results: Results, folder: Path) -> Table:
    rows = [
        (
            f"{method.label}; K̂ by {COUNTS[rule][0]}",
            method.published,
            {subject: _scores(results.of(Fit(subject, method, rule))) for subject in plan.subjects},
        )
        for method, rule in _counted(plan)
    ]
    title = "Accuracy with the estimated number of categories"
    return _scored("estimated-k", title, plan, rows, published.PARTITION_ESTIMATED_K, [], folder)


def _no_jobs(plan: Plan) -> list[Job]:
    return []


def _datasets(plan: Plan, results: Results, folder: Path) -> Table:
    columns = [
        Column("classes", "known"),
        Column("classes", "all"),
        Column("samples", "labelled"),
        Column("samples", "unlabelled"),
        Column("samples", "largest class"),
        Column("samples", "smallest class"),
        Column("", "features"),
    ]
    rows = []
    for subject in [*plan.subjects, *plan.tails]:
        collection, sizes = subject.collection, subject.class_sizes
        counts = [
            collection.n_known,
            subject.n_categories,
            collection.n_labelled,
            len(collection) - collection.n_labelled,
            int(sizes.max()),
            int(sizes.min()),
            collection.features.shape[1],
        ]
        rows.append(Row(subject.name, [Value(count, digits=0) for count in counts]))
    paper = [
        Row(
            name,
            [
                *(
                    Value(count, digits=0)
                    for count in (each.n_known, each.n_categories, each.n_labelled, each.n_unlabelled)
                ),
                *[None] * 3,
            ],
        )
        for name, each in published.DATASETS.items()
    ]
    sections = [Section("here", rows), Section("the paper's", paper)]
    table = Table("datasets", "Data sets", columns, sections, corner="data set")
    chart = {
        subject.name: {
            part: (float(value), None)
            for part, value in (
                ("labelled", subject.collection.n_labelled),
                ("unlabelled", len(subject.collection) - subject.collection.n_labelled),
            )
        }
        for subject in plan.subjects
    }
    dot_chart("Samples", chart, x_label="samples", path=folder / table.name)
    return table


def _ablations(plan: Plan) -> list[Job]:
    return [Ablation(subject) for subject in plan.subjects]


def _ablation(plan: Plan, results: Results, folder: Path) -> Table:
    rows = [
        (label, label, {subject: _nth_scores(results.of(Ablation(subject)), i) for subject in plan.subjects})
        for i, label in enumerate(published.LOSS_TERMS)
    ]
    notes = ["Every row starts from ssKM and has the λ that PIM chose by the published rule for that set and seed."]
    return _scored("ablation", "Terms of the loss", plan, rows, published.LOSS_TERMS, notes, folder)


def _starts(plan: Plan) -> list[Job]:
    return [Starts(subject) for subject in plan.subjects]


def _init(plan: Plan, results: Results, folder: Path) -> Table:
    rows = [
        (
            START_LABELS[start],
            label,
            {subject: _nth_scores(results.of(Starts(subject)), i) for subject in plan.subjects},
        )
        for i, (start, label) in enumerate(zip(STARTS, published.INIT, strict=True))
    ]
    notes = ["λ is the one that PIM chose by the published rule for that set and seed."]
    return _scored("init", "PIM from different starts", plan, rows, published.INIT, notes, folder)


def _lambdas(plan: Plan) -> list[Job]:
    return [Lambdas(subject) for subject in [*plan.subjects, *plan.tails]]


def _lambda(plan: Plan, results: Results, folder: Path) -> Table:
    panels, rows = [], []
    for subject in [*plan.subjects, *plan.tails]:
        chosen = results.of(Fit(subject, BY_KEY["pim-paper"]))
        curves = np.array([[score[0] for score in result["scores"]] for result in results.of(Lambdas(subject))])
        labelled = np.array([[100 * score for _, score in result["lam_curve"]] for result in chosen])
        grid = [lam for lam, _ in chosen[0]["lam_curve"]]
        # G is drawn over the candidates, of which F has more.
        at = [SHOWN_LAMS.index(lam) for lam in grid]
        best = int(curves.mean(0).argmax())
        best_on_grid = at[int(curves[:, at].mean(0).argmax())]
        several = len(chosen) > 1
        panels.append(
            LambdaPanel(
                title=subject.name,
                lams=grid,
                labelled_accuracy=labelled.mean(0).tolist(),
                lam_chosen=grid[int(labelled.mean(0).argmax())],
                all_accuracy=curves[:, at].mean(0).tolist(),
                lam_best=SHOWN_LAMS[best_on_grid],
                frequencies=subject.class_sizes.tolist(),
                is_known=subject.is_known.tolist(),
                labelled_std=labelled.std(0).tolist() if several else None,
                all_std=curves[:, at].std(0).tolist() if several else None,
            )
        )
        rows.append(
            Row(
                subject.name,
                [
                    Value(float(subject.class_sizes.max() / subject.class_sizes.min())),
                    _value([result["lam"] for result in chosen], digits=2),
                    _value([result["score"][0] for result in chosen]),
                    Value(SHOWN_LAMS[best], digits=2),
                    _value(curves[:, best].tolist()),
                    _value(curves[:, 0].tolist()),
                    _value(curves[:, -1].tolist()),
                ],
            )
        )
    columns = [
        Column("", "largest / smallest class"),
        Column("chosen by labels", "λ̂"),
        Column("chosen by labels", "All"),
        Column("best by the truth", "λ"),
        Column("best by the truth", "All "),
        Column("", "All at λ 0"),
        Column("", "All at λ 1"),
    ]
    notes = [
        "λ̂: the candidate with the best labelled accuracy of G. Best by the truth: of those and 0, 0.01, 0.02, on "
        "average over seeds.",
        "Temperature 25. The figure shows the paper's candidates only, and the λ̂ of the mean curve of all seeds.",
    ]
    lambda_figure(panels, folder / "lambda")
    return Table("lambda", "The weight of the conditional entropy", columns, [Section("", rows)], notes, {}, "set")


REPORTS: dict[str, Report] = {
    report.name: report
    for report in (
        Report("datasets", "Data sets", _no_jobs, _datasets),
        Report("main", "All methods", _fits, _main),
        Report("estimate-k", "How many categories?", _counts, _estimate_k),
        Report("estimated-k", "With the estimated number", _fits_at_estimates, _estimated_k),
        Report("ablation", "Terms of the loss", _ablations, _ablation),
        Report("init", "Starts", _starts, _init),
        Report("lambda", "λ", _lambdas, _lambda),
    )
}


def _scored(
    name: str,
    title: str,
    plan: Plan,
    rows: Sequence[tuple[str, str | None, Mapping[Subject, list[list[float]]]]],
    paper: published.Scores,
    notes: Sequence[str],
    folder: Path,
) -> Table:
    """A table of All, Old and New, the published figures in columns of their own; and its chart."""
    shown = [subject for subject in plan.subjects if subject.published]
    groups = [subject.name for subject in plan.subjects] + ["mean"] * (len(plan.subjects) > 1)
    columns = [Column(group, part) for group in [*groups, *map(_paper, shown)] for part in PARTS]
    table_rows = []
    chart: dict[str, dict[str, tuple[float, float | None]]] = {}
    for label, published_label, scores in rows:
        cells: list[Cell] = []
        for subject in plan.subjects:
            values = [_value([score[part] for score in scores[subject]]) for part in range(3)]
            chart.setdefault(subject.name, {})[label.removesuffix(", head on frozen features")] = (
                values[0].mean,
                values[0].std,
            )
            cells += values
        if len(plan.subjects) > 1:
            means = np.mean([np.mean(scores[subject], axis=0) for subject in plan.subjects], axis=0)
            cells += [Value(float(mean)) for mean in means]
        for subject in shown:
            found = paper.get(str(published_label), {}).get(str(subject.published))
            cells += [None] * 3 if found is None else [Value(value) for value in found]
        table_rows.append(Row(label, cells))
    cited = [own for _, own, _ in rows if own is not None and own in paper]
    table = Table(
        name,
        title,
        columns,
        [Section("", table_rows)],
        [*notes, *_paper_notes(plan, cited)],
        LARGEST,
    )
    dot_chart(title, chart, x_label="All accuracy, %", path=folder / name)
    return table


def _paper(subject: Subject) -> str:
    return f"{subject.published}, published"


def _paper_notes(plan: Plan, rows: Sequence[str]) -> list[str]:
    shown = [subject for subject in plan.subjects if subject.published]
    if not shown:
        return []
    notes = []
    others = [subject.name for subject in shown if not subject.is_as_published]
    if others:
        notes.append(
            f"Published figures ({published.CITATION}) are on other features than {', '.join(others)}: do not "
            "compare them with the figures beside them."
        )
    same = [subject.name for subject in shown if subject.is_as_published]
    if same:
        notes.append(f"{', '.join(same)}: sizes and width of the features are those of the paper's.")
    if rows:
        notes.append(f"How the published figures were obtained: {published.source_note(*rows)}")
    return notes


def _scores(found: Sequence[Result]) -> list[list[float]]:
    return [result["score"] for result in found]


def _nth_scores(found: Sequence[Result], i: int) -> list[list[float]]:
    return [result["scores"][i] for result in found]


def _value(values: Sequence[float], digits: int = 1) -> Value:
    """Mean, and standard deviation if there are several."""
    return Value(float(np.mean(values)), float(np.std(values)) if len(values) > 1 else None, digits)


def _error(result: Result, subject: Subject) -> float:
    return float(100 * abs(result["k"] / subject.n_categories - 1))


def _with_interval(k: Value, found: Sequence[Result]) -> Cell:
    interval = found[0]["interval"]
    return k if interval is None else f"{k} ({interval[0]}–{interval[1]})"


def write_report(report: Report, plan: Plan, results: Results, folder: Path) -> Table:
    """The table (Markdown, CSV, LaTeX) and the figure (PNG, SVG) of a report."""
    table = report.write(plan, results, folder)
    write_table(table, folder)
    return table
