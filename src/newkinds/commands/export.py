"""`newkinds export`"""

from pathlib import Path
from typing import Annotated

import typer

from newkinds.commands.options import ForceFile, OnlyNew, Quiet, RunFolder
from newkinds.names import PREDICTION_FORMATS, listed


def export(
    run: RunFolder,
    out: Annotated[Path, typer.Argument(help=f"File to write; its ending says how: {listed(PREDICTION_FORMATS)}.")],
    kind: Annotated[
        list[str] | None, typer.Option(help="Only this kind, by name or id; may be given several times.")
    ] = None,
    min_confidence: Annotated[
        float | None,
        typer.Option(help="Leave out samples with less confidence; labelled ones stay.", min=0, max=1),
    ] = None,
    only_new: OnlyNew = False,
    labelled: Annotated[
        bool, typer.Option("--labelled", help="All labelled samples, those whose label looks wrong first.")
    ] = False,
    force: ForceFile = False,
    quiet: Quiet = False,
) -> None:
    """Write the samples of a run as a table: id, kind, confidence, novelty, text.

    confidence: how probable it is that a sample belongs to its kind. novelty: how probable it is that it belongs to
    a kind without any label. given: whether the sample came with its label.

    The table can be given to `newkinds discover --labels`.
    """
    from rich.console import Console

    from newkinds.errors import InputError
    from newkinds.predictions import format_of, labelled_samples, saved_predictions, table_writer
    from newkinds.run_folder import RUN_FILES, check_not_of_a_run, read_run
    from newkinds.staging import accept_existing, check_not_read, check_target, refuse_existing
    from newkinds.terminal import Screen, progress_bars, show_exported

    replace = accept_existing if force else refuse_existing
    form = format_of(out, None)
    check_not_read(out, *(run / name for name in RUN_FILES))
    check_not_of_a_run(out)
    check_target(out, folder=False, replace=replace)
    record = read_run(run)
    if labelled:
        if kind or only_new or min_confidence is not None:
            raise InputError("--labelled goes with no other choice of samples")
        table = labelled_samples(run, record)
    else:
        table = saved_predictions(run, record, kinds=kind or (), min_confidence=min_confidence, only_new=only_new)
    if not len(table):
        raise InputError("no sample is left to write; ask for other kinds, or for less confidence")
    with progress_bars(Console(stderr=True), quiet), table_writer(out, form, replace) as write:
        write(table)
    if not quiet:
        show_exported(Screen(), record, table["category"].unique().to_pylist(), len(table), out)
