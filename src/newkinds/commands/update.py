"""`newkinds update`"""

from pathlib import Path
from typing import Annotated

import typer

from newkinds.commands.collecting import label_rules, make_encoding, print_notes
from newkinds.commands.options import (
    AsIs,
    Cache,
    DeviceOption,
    EncoderName,
    FullPrecision,
    IdColumn,
    LabelColumn,
    Labels,
    NoCache,
    Quiet,
    Reason,
    RunFolder,
    Source,
    TextColumn,
    Threads,
    UnlabelledNames,
    Workers,
)


def update(
    run: RunFolder,
    source: Source,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A run folder of its own; by default a new version of the run."),
    ] = None,
    labels: Labels = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    id: IdColumn = None,
    unlabelled: UnlabelledNames = None,
    as_is: AsIs = False,
    birth_size: Annotated[
        int | None, typer.Option(help="Samples that a kind has at its birth, at least; by default 8.", min=2)
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(help="Keep at most so many samples of a kind, labelled ones first; by default all.", min=1),
    ] = None,
    keep_versions: Annotated[
        int | None,
        typer.Option(help="Keep so many versions, the last ones (`newkinds undo`); by default all.", min=1),
    ] = None,
    encoder: EncoderName = None,
    device: DeviceOption = "auto",
    threads: Threads = None,  # heeded by its callback
    cache: Cache = None,
    no_cache: NoCache = False,
    workers: Workers = None,
    full_precision: FullPrecision = False,
    reason: Reason = "",
    quiet: Quiet = False,
) -> None:
    """Put new samples into a run: its kinds stay, and new ones are born.

    What fits is assigned. What is like nothing seen is held back, until enough of it agrees to be a kind.
    Labels of the new samples count, also new names. `newkinds undo` goes back. Samples that `newkinds watch` has
    left waiting are taken in first.
    """
    from rich.console import Console

    from newkinds.data import read_source
    from newkinds.editing import update as update_run
    from newkinds.editing_terminal import show_update
    from newkinds.encoders import features_for
    from newkinds.run_folder import check_if_own, read_run
    from newkinds.terminal import Screen, progress_bars

    check_if_own(source, run)
    record = read_run(run)
    rules = label_rules(unlabelled, as_is, None, labels, quiet)
    encoding = make_encoding(encoder, device, cache, no_cache, workers, full_precision)
    with progress_bars(Console(stderr=True), quiet):
        raw = read_source(source, labels=labels, text=text, label=label, id=id, rules=rules)
        arrivals = features_for(record.get("encoder"), raw, encoding)
        done = update_run(
            run,
            arrivals,
            out=out,
            birth_size=birth_size,
            keep=keep,
            keep_versions=keep_versions,
            source=Path(source).name,
            reason=reason,
        )
    if not quiet:
        print_notes(arrivals.notes)
        show_update(Screen(), done)
