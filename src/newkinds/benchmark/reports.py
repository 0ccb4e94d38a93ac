"""From results to the paper's tables and figures: the jobs that each needs, and how it shows their results."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import numpy as np

from newkinds.benchmark import published
from newkinds.benchmark.figures import LambdaPanel, dot_chart, lambda_figure
from newkinds.benchmark.jobs import (
    BY_KEY,
    COUNTER_BY_KEY,
    HEAD,
    METHODS,
    RULE,
    SHOWN_LAMS,
    STARTS,
    Ablation,
    Count,
    Counter,
    Fit,
    Job,
    Lambdas,
    Method,
    Result,
    Starts,
)
from newkinds.benchmark.living.report import living_jobs, write_living
from newkinds.benchmark.plan import Plan, Report, group_of_paper, value_of
from newkinds.benchmark.runner import Results
from newkinds.benchmark.subjects import MEAN, Subject
from newkinds.benchmark.tables import Cell, Column, Row, Section, Table, Value, write_table
from newkinds.methods.infomax import InfoMax
from newkinds.names import BenchmarkName

PARTS = ("All", "Old", "New")
LARGEST: dict[str, Literal["largest", "smallest"]] = dict.fromkeys(PARTS, "largest")
VARIANTS = (
    "Variants of PIM at temperature 25 and, where no other is named, the λ that the labelled accuracy of G chose "
    "for that set and seed (G from k-means, 3 restarts); ssKM: 10 restarts; L-BFGS."
)
START_LABELS = {"ssrandom": "class means, random samples", "sskm++": "k-means++ seeds", "sskm": "ssKM"}


def _fits(plan: Plan) -> list[Job]:
    return [Fit(subject, method) for subject in plan.subjects for method in plan.methods]


def _main(plan: Plan, results: Results, folder: Path) -> Table:
    rows = [
        (method.label, method.published, {s: _scores(results.of(Fit(s, method))) for s in plan.subjects})
        for method in plan.methods
    ]
    return _scored(
        "main",
        "Accuracy with the true number of categories",
        plan,
        rows,
        published.MAIN,
        _row_notes(plan.methods),
        folder,
        published.MAIN_STD,
        published.TRAINED_ALONG if any(method.label.endswith(HEAD) for method in plan.methods) else (),
        {method.label for method in plan.methods if isinstance(method.estimator, InfoMax)},
    )


def _counts(plan: Plan) -> list[Job]:
    return [Count(subject, counter) for subject in plan.subjects for counter in plan.counters]


def _estimate_k(plan: Plan, results: Results, folder: Path) -> Table:
    parts = ("K̂", "90 %", "error %")
    columns = [Column(subject.name, part) for subject in plan.subjects for part in parts]
    columns.append(Column("", "mean error %"))
    columns += [Column(group_of_paper(data), part) for data in plan.published for part in ("K̂", "error %")]
    rows, interval_notes = [], []
    chart: dict[str, dict[str, tuple[float, float | None]]] = {}
    for counter in plan.counters:
        label, paper = counter.label, counter.published
        is_inside: list[bool] = []
        cells: list[Cell] = []
        errors_of_sets = []
        for subject in plan.subjects:
            counts = results.of(Count(subject, counter))
            error = value_of([100 * abs(count["k"] / subject.n_categories - 1) for count in counts])
            intervals = [count["interval"] for count in counts if count["interval"] is not None]
            is_inside += [low <= subject.n_categories <= high for low, high in intervals]
            cells += [
                value_of([count["k"] for count in counts], digits=0),
                "{}–{}".format(*intervals[0]) if intervals else None,
                error,
            ]
            errors_of_sets.append(error.mean)
            chart.setdefault(subject.name, {})[label] = (error.mean, error.std)
        cells.append(Value(float(np.mean(errors_of_sets))))
        for data in plan.published:
            if paper is None:
                cells += [None, None]
            else:
                printed = published.ESTIMATED_K[paper][data], published.K_ERROR[paper][data]
                cells += [Value(figure, digits=0) for figure in printed]
        rows.append(Row(label, cells))
        if is_inside:
            within = f"{sum(is_inside)} of the {len(is_inside)}"
            interval_notes.append(f"The true number is in {within} intervals ({label}).")
    truth: list[Cell] = []
    for subject in plan.subjects:
        truth += [Value(subject.n_categories, digits=0), None, None]
    rows.append(Row("true", [*truth, *[None] * (len(columns) - len(truth))]))
    notes = [
        "Error: |K̂ / K − 1|. 90 %: the interval that the estimator gives, of the first seed.",
        *_row_notes(plan.counters),
        *interval_notes,
        *_paper_notes(plan, []),
        *([_printed_means(), published.K_ERROR_NOTE] if plan.published else []),
    ]
    table = Table(
        "estimate-k",
        "Estimated number of categories",
        columns,
        [Section("", rows)],
        notes,
        {"error %": "smallest", "mean error %": "smallest"},
        "estimator",
    )
    dot_chart(table.title, chart, x_label="error of the estimate, %", path=folder / table.name)
    return table


def _printed_means() -> str:
    kinds = ("fine-grained", "generic")
    means = [
        f"{rule} {' and '.join(f'{errors[kind]} %' for kind in kinds)}"
        for rule, errors in published.K_ERROR_MEANS.items()
    ]
    names = list(published.DATASETS)
    return f"Mean errors as printed, of {', '.join(names[:3])} and of {', '.join(names[3:])}: {'; '.join(means)}."


def _row_notes(rows: Sequence[Method] | Sequence[Counter]) -> list[str]:
    """What has to be known of the rows, each note once, with the rows that it holds for."""
    labels: dict[str, list[str]] = {}
    for row in rows:
        if row.note:
            labels.setdefault(row.note, []).append(row.label)
    return [f"{', '.join(names)}: {note}" for note, names in labels.items()]


def _counted(plan: Plan) -> list[tuple[Method, Counter]]:
    """Methods with the estimate that each of them takes; k-means and PIM as in the paper."""
    return [(method, COUNTER_BY_KEY[method.counter]) for method in plan.methods if method.counter is not None]


def _fits_at_estimates(plan: Plan) -> list[Job]:
    return [Fit(subject, method, counter) for subject in plan.subjects for method, counter in _counted(plan)]


def _estimated_k(plan: Plan, results: Results, folder: Path) -> Table:
    rows = [
        (
            f"{method.label}; K̂ by {counter.label}",
            method.published,
            {subject: _scores(results.of(Fit(subject, method, counter))) for subject in plan.subjects},
        )
        for method, counter in _counted(plan)
    ]
    title = "Accuracy with the estimated number of categories"
    methods, counters = zip(*_counted(plan), strict=True)
    notes = _row_notes(methods) + _row_notes(list(dict.fromkeys(counters)))
    return _scored("estimated-k", title, plan, rows, published.PARTITION_ESTIMATED_K, notes, folder)


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
                    for count in (data.n_known, data.n_categories, data.n_labelled, data.n_unlabelled)
                ),
                *[None] * 3,
            ],
        )
        for name, data in published.DATASETS.items()
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
        for subject in [*plan.subjects, *plan.tails]
    }
    dot_chart("Samples", chart, x_label="samples", digits=0, path=folder / table.name)
    return table


def _ablations(plan: Plan) -> list[Job]:
    return [Ablation(subject) for subject in plan.subjects]


def _ablation(plan: Plan, results: Results, folder: Path) -> Table:
    rows = [
        (label, label, {subject: _nth_scores(results.of(Ablation(subject)), i) for subject in plan.subjects})
        for i, label in enumerate(published.LOSS_TERMS)
    ]
    notes = [VARIANTS, "Every row starts from ssKM."]
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
    return _scored("init", "PIM from different starts", plan, rows, published.INIT, [VARIANTS], folder)


def _lambdas(plan: Plan) -> list[Job]:
    return [Lambdas(subject) for subject in [*plan.subjects, *plan.tails]]


def _lambda(plan: Plan, results: Results, folder: Path) -> Table:
    panels, rows = [], []
    for subject in [*plan.subjects, *plan.tails]:
        chosen = results.of(Fit(subject, BY_KEY[RULE]))
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
                labelled_std=labelled.std(0, ddof=1).tolist() if several else None,
                all_std=curves[:, at].std(0, ddof=1).tolist() if several else None,
            )
        )
        rows.append(
            Row(
                subject.name,
                [
                    Value(float(subject.class_sizes.max() / subject.class_sizes.min())),
                    value_of([result["lam"] for result in chosen], digits=2),
                    value_of([result["score"][0] for result in chosen]),
                    Value(SHOWN_LAMS[best], digits=2),
                    value_of(curves[:, best].tolist()),
                    value_of(curves[:, 0].tolist()),
                    value_of(curves[:, -1].tolist()),
                ],
            )
        )
    columns = [
        Column("", "largest / smallest class"),
        Column("chosen by labels", "λ̂"),
        Column("chosen by labels", "All"),
        Column("best by the truth", "λ"),
        Column("best by the truth", "best All"),
        Column("", "All at λ 0"),
        Column("", "All at λ 1"),
    ]
    notes = [
        "λ̂: the candidate with the best labelled accuracy of G. Best by the truth: of those and 0, 0.01, 0.02, on "
        "average over seeds.",
        VARIANTS,
        "The figure shows the paper's candidates only, and the λ̂ of the mean curve of all seeds.",
    ]
    lambda_figure(panels, folder / "lambda")
    return Table("lambda", "The weight of the conditional entropy", columns, [Section("", rows)], notes, {}, "set")


REPORTS: dict[BenchmarkName, Report] = {
    report.name: report
    for report in (
        Report("datasets", _no_jobs, _datasets),
        Report("main", _fits, _main),
        Report("estimate-k", _counts, _estimate_k),
        Report(
            "estimated-k",
            _fits_at_estimates,
            _estimated_k,
            tuple(method.key for method in METHODS if method.counter is not None),
        ),
        Report("ablation", _ablations, _ablation),
        Report("init", _starts, _init),
        Report("lambda", _lambdas, _lambda),
        Report("living", living_jobs, write_living, alone=True),
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
    deviations: published.Scores = MappingProxyType({}),
    further: Sequence[str] = (),
    infomax: Collection[str] | None = None,
) -> Table:
    """A table of All, Old and New, the published figures in columns of their own; and its chart.

    `further` are published rows that none of ours can be held to, which get a section; `infomax`, where it is
    given, are the rows of ours that maximise mutual information, which a column says.
    """
    groups = [subject.name for subject in plan.subjects] + [MEAN] * (len(plan.subjects) > 1)
    groups += [group_of_paper(data) for data in plan.published]
    columns = [Column(group, part) for group in groups for part in PARTS]
    if infomax is not None:
        columns.insert(0, Column("", "InfoMax"))
    table_rows = []

    def marked(label: str, cells: list[Cell], labels: Collection[str] | None) -> Row:
        return Row(label, cells if labels is None else ["yes" if label in labels else "no", *cells])

    def as_published(label: str | None) -> list[Cell]:
        cells: list[Cell] = []
        for data in plan.published:
            figures = paper.get(str(label), {}).get(data)
            stds = deviations.get(str(label), {}).get(data, (None,) * 3)
            cells += [None] * 3 if figures is None else list(map(Value, figures, stds))
        return cells

    chart: dict[str, dict[str, tuple[float, float | None]]] = {}
    for label, published_label, scores in rows:
        cells: list[Cell] = []
        for subject in plan.subjects:
            values = [value_of([score[part] for score in scores[subject]]) for part in range(3)]
            short = label.removesuffix(HEAD) + " †" if label.endswith(HEAD) else label
            chart.setdefault(subject.name, {})[short] = (values[0].mean, values[0].std)
            cells += values
        if len(plan.subjects) > 1:
            means = np.mean([scores[subject] for subject in plan.subjects], axis=0)  # a row for each seed
            cells += [value_of(means[:, part].tolist()) for part in range(3)]
        table_rows.append(marked(label, [*cells, *as_published(published_label)], infomax))
    sections = [Section("", table_rows)]
    cited = dict.fromkeys(label for _, label, _ in rows if label is not None and label in paper)
    if further and plan.published:
        not_ours = [None] * (len(groups) - len(plan.published)) * len(PARTS)
        of_paper = None if infomax is None else published.INFOMAX
        along = [marked(label, [*not_ours, *as_published(label)], of_paper) for label in further]
        sections.append(Section("published, with an encoder trained along", along))
        cited |= dict.fromkeys(further)
    table = Table(
        name,
        title,
        columns,
        sections,
        [*notes, *_paper_notes(plan, list(cited))],
        LARGEST,
    )
    has_heads = any(label.endswith(HEAD) for label, _, _ in rows)
    x_label = "All accuracy, %" + f"; † {HEAD.removeprefix(', ')}" * has_heads
    dot_chart(title, chart, x_label=x_label, path=folder / name)
    return table


def _paper_notes(plan: Plan, rows: Sequence[str]) -> list[str]:
    if not plan.published:
        return []
    notes = [f"Published figures: {published.CITATION}. They are on other features: do not compare them with ours."]
    like_released = [subject.name for subject in plan.subjects if subject.is_as_published]
    if like_released:
        notes[0] += f" (Unless {', '.join(like_released)} is the released one: its sizes and width are.)"
    if rows:
        notes.append(f"How they were obtained: {published.source_note(*rows)}")
    return notes


def _scores(results: Sequence[Result]) -> list[list[float]]:
    return [result["score"] for result in results]


def _nth_scores(results: Sequence[Result], i: int) -> list[list[float]]:
    return [result["scores"][i] for result in results]


def write_report(report: Report, plan: Plan, results: Results, folder: Path) -> Table:
    """The table (Markdown, CSV, LaTeX) and the figure (PNG, SVG) of a report."""
    table = report.write(plan, results, folder)
    write_table(table, folder)
    return table
