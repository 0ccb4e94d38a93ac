"""From results to the tables and the figure of living collections."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from newkinds.benchmark import published
from newkinds.benchmark.figures import StagePanel, stage_figure
from newkinds.benchmark.jobs import Job, Result
from newkinds.benchmark.living.jobs import Live
from newkinds.benchmark.living.rows import ROWS, Assign, Refit, Row
from newkinds.benchmark.living.scores import DUE
from newkinds.benchmark.living.stream import STAGES
from newkinds.benchmark.plan import Plan, value_of
from newkinds.benchmark.runner import Results
from newkinds.benchmark.subjects import Subject
from newkinds.benchmark.tables import Cell, Column, Section, Table, Value, write_table
from newkinds.benchmark.tables import Row as TableRow
from newkinds.names import Mix

PARTS = ("all", "old", "new")
LARGEST: dict[str, Literal["largest", "smallest"]] = dict.fromkeys(("All", "Old", "New", "one matching"), "largest")
PROTOCOL = (
    "Half of the classes are there at first, with 60 % of their samples; four fifths of these classes have "
    "labels on half of those. The other samples come over five stages without labels; a class with 70 % of its"
    " samples at its first stage. even: all other classes come, a fifth of them at each stage; mostly old: "
    "only so many that about 5 % of what comes is of them, all from the first stage on. The number of classes "
    "is not told."
)
MEASURES = (
    "Accuracy in percent, of all unlabelled samples that have come by a stage; Old: classes of earlier stages,"
    " New: those that the stage brings; categories are matched with the classes once a stage. One matching: "
    "once for all stages together, so that ids that change cost. Forgotten: by how much the accuracy on the "
    "samples of the first stage has fallen by the end, each time under the best match of these alone, or under"
    " one matching."
)
BIRTHS = (
    "A category is the class that most of its samples are of. False: born categories that are, at their birth,"
    " a class that a category was already; of first: those that are, in the end, a class that was there at "
    f"first, which the first model may have missed. Found: of the classes of which {DUE} samples came, those "
    "that were a born category by the end of the stage that brought the last of these. Delay: how many samples"
    " of a class had come when it was born, the median."
)
MOVES = (
    "Moved: samples of before that get another id in an update, on average; quiet: in stages that bring no new"
    " class. Seconds: of the longest update; % of refit: the largest share of the time that fitting everything"
    " again takes at the same stage."
)


def living_jobs(plan: Plan) -> list[Job]:
    return [
        Live(subject, row, mix, plan.parts) for mix in plan.mixes for subject in plan.subjects for row in plan.rows
    ]


def write_living(plan: Plan, results: Results, folder: Path) -> Table:
    """The table, with a second one of every stage, and the figure."""
    streams = {
        _title(subject, mix): {row: results.of(Live(subject, row, mix, plan.parts)) for row in plan.rows}
        for subject in plan.subjects
        for mix in plan.mixes
    }
    write_table(_stage_table(plan, streams), folder)
    panels = [
        StagePanel(
            title,
            [{row.short: _curve(of_row, measure) for row, of_row in rows.items()} for measure in ("all", "one")],
        )
        for title, rows in streams.items()
    ]
    stage_figure("Collections that live on", panels, ("All, %", "All, one matching, %"), folder / "living")
    return _table(plan, streams)


BIRTH_GROUP = "births"
Measure = Callable[[Result], float | None]
COLUMNS: dict[Column, Measure] = {
    Column("mean of stages", "All"): lambda result: result["mean"]["all"],
    Column("mean of stages", "Old"): lambda result: result["mean"]["old"],
    Column("mean of stages", "New"): lambda result: result["mean"]["new"],
    Column("at the end", "All"): lambda result: result["stages"][-1]["all"],
    Column("at the end", "one matching"): lambda result: result["one"],
    Column("forgotten", "points"): lambda result: result["forgotten_alone"],
    Column("forgotten", "points, one matching"): lambda result: result["forgotten"],
    Column(BIRTH_GROUP, "born"): lambda result: result["born"],
    Column(BIRTH_GROUP, "false"): lambda result: result["false"],
    Column(BIRTH_GROUP, "of first"): lambda result: result["of_first"],
    Column(BIRTH_GROUP, "found %"): lambda result: 100 * result["found"] / result["due"] if result["due"] else None,
    Column(BIRTH_GROUP, "delay"): lambda result: result["delay"],
    Column("samples", "moved %"): lambda result: result["moved"],
    Column("samples", "moved %, quiet"): lambda result: result["moved_quiet"],
    Column("an update", "seconds"): lambda result: max(map(max, result["seconds_of_updates"])),
}
"""What the table shows of a row, but for what needs another row."""
Streams = Mapping[str, Mapping[type[Row], Sequence[Result]]]
"""Set and mix → row → the results of the seeds."""


def _title(subject: Subject, mix: Mix) -> str:
    return f"{subject.name}, {mix.replace('-', ' ')}"


def _table(plan: Plan, streams: Streams) -> Table:
    every = [*COLUMNS, Column("an update", "% of refit")]
    sections = [
        Section(
            title,
            [
                TableRow(
                    row.label,
                    [
                        *(
                            _cell([measure(result) for result in of_row])
                            if row.keeps_ids or column.group != BIRTH_GROUP
                            else None
                            for column, measure in COLUMNS.items()
                        ),
                        _cell(_shares_of_refit(row, rows)),
                    ],
                )
                for row, of_row in rows.items()
            ],
        )
        for title, rows in streams.items()
    ]
    nothing: list[Cell] = [None] * (len(every) - 4)
    for data in plan.published:
        of_data = [(label, cells[data]) for label, cells in published.CONTINUAL.items() if data in cells]
        rows_of_data = [
            TableRow(label, [*map(Value, (*stages.mean, stages.stages[-1].all)), *nothing])
            for label, stages in of_data
        ]
        sections.append(Section(_published_title(data), rows_of_data))
    return Table(
        "living",
        "Collections that live on",
        every,
        sections,
        _notes(plan, streams),
        LARGEST,
        corner="who takes it in",
    )


def _stage_table(plan: Plan, streams: Streams) -> Table:
    """Accuracy after every stage."""
    names = ("All", "Old", "New", "one matching")
    columns = [
        Column(f"stage {stage}", name) for stage in range(STAGES + 1) for name in (names if stage else names[::3])
    ]
    keys = {"All": "all", "Old": "old", "New": "new", "one matching": "one"}
    sections = [
        Section(
            title,
            [
                TableRow(
                    row.label,
                    [
                        _cell([result["stages"][int(group.split()[1])][keys[name]] for result in of_row])
                        for group, name in columns
                    ],
                )
                for row, of_row in rows.items()
            ],
        )
        for title, rows in streams.items()
    ]
    for data in plan.published:
        rows_of_data = [
            TableRow(label, [Value(of.first), None, *(c for s in of.stages for c in (*map(Value, s), None))])
            for label, cells in published.CONTINUAL.items()
            if (of := cells.get(data)) is not None
        ]
        sections.append(Section(_published_title(data), rows_of_data))
    notes = [PROTOCOL, MEASURES, *_published_notes(plan)]
    return Table(
        "living-stages",
        "Collections that live on, stage by stage",
        columns,
        sections,
        notes,
        LARGEST,
        corner="who takes it in",
    )


def _cell(values: Sequence[float | None]) -> Cell:
    """Over seeds; of those that have a value."""
    there = [value for value in values if value is not None]
    return value_of(there) if there else None


def _shares_of_refit(row: type[Row], rows: Mapping[type[Row], Sequence[Result]]) -> list[float | None]:
    """For each seed, the longest update against fitting everything again at that stage, in percent."""
    if row is Refit or Refit not in rows:
        return []
    return [
        max(
            100 * max(updates) / max(refits)
            for updates, refits in zip(ours["seconds_of_updates"], refit["seconds_of_updates"], strict=True)
        )
        for ours, refit in zip(rows[row], rows[Refit], strict=True)
    ]


def _curve(results: Sequence[Result], measure: str) -> tuple[list[float], list[float] | None]:
    values = [value_of([result["stages"][stage][measure] for result in results]) for stage in range(STAGES + 1)]
    spread = [value.std for value in values if value.std is not None]
    return [value.mean for value in values], spread or None


def _notes(plan: Plan, streams: Streams) -> list[str]:
    parts = [f"The samples of a stage come in {plan.parts} parts."] if plan.parts > 1 else []
    signs = []
    for title, rows in streams.items():
        if Assign in rows:
            ours, confidence, error = (
                value_of([result[key] for result in rows[Assign]], digits=3)
                for key in ("auroc", "auroc_of_confidence", "calibration_error")
            )
            signs.append(f"{title} {ours} ({confidence}; {error})")
    told = (
        [f"AUROC of the first model's strangeness (of 1 − confidence; calibration error): {'; '.join(signs)}."]
        if signs
        else []
    )
    rows_told = [f"{row.label}: {row.note}" for row in ROWS.values() if row in plan.rows]
    return [PROTOCOL, *parts, MEASURES, BIRTHS, MOVES, *rows_told, *told, *_published_notes(plan)]


def _published_title(data: str) -> str:
    return f"published, {data}, on other features"


def _published_notes(plan: Plan) -> list[str]:
    if not plan.published:
        return []
    return [
        f"Published figures: {published.CONTINUAL_CITATION}. Do not compare them with ours. "
        f"{published.CONTINUAL_CONDITIONS}"
    ]
