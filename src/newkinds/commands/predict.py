"""`newkinds predict`"""

from pathlib import Path
from typing import Annotated

import typer

from newkinds.commands.collecting import make_encoding, print_notes
from newkinds.commands.options import (
    Cache,
    DeviceOption,
    EncoderName,
    ForceFile,
    FullPrecision,
    NoCache,
    Quiet,
    RunFolder,
    TextColumn,
    Workers,
)
from newkinds.names import PredictionFormat

PREDICTED_ROWS = 1 << 14
"""Samples answered at a time."""


def predict(
    run: RunFolder,
    source: Annotated[
        str, typer.Argument(help="New samples (as for discover), or - for features on standard input.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write; standard output if not given.")
    ] = None,
    file_format: Annotated[
        PredictionFormat | None, typer.Option("--format", help="By default the ending of --out.")
    ] = None,
    reject: Annotated[
        float | None, typer.Option(help="Leave samples open that are less sure than this probability.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="In CSV, keep texts that a spreadsheet would run as formulas as they are.")
    ] = False,
    text: TextColumn = None,
    encoder: EncoderName = None,
    device: DeviceOption = "auto",
    cache: Cache = None,
    no_cache: NoCache = False,
    workers: Workers = None,
    full_precision: FullPrecision = False,
    force: ForceFile = False,
    quiet: Quiet = False,
) -> None:
    """Give new samples a category, a confidence and a novelty, with the model of a run.

    Photos and texts go through the encoder that the run was made with.

    From standard input, samples are read and answered line by line: {"id": …, "features": […]}, a list, or
    numbers separated by commas.

    In CSV, a text that begins with =, +, -, @, a tab or a carriage return gets an apostrophe before it, so that no
    spreadsheet runs it as a formula; --raw keeps it as it is.
    """
    from rich.console import Console

    from newkinds.data import read_source, read_stream, standard_input
    from newkinds.encoders import features_for
    from newkinds.predictions import format_of, predictions_table, table_writer
    from newkinds.run_folder import RUN_FILES, check_if_own
    from newkinds.runs import load
    from newkinds.runtime import report_progress
    from newkinds.staging import accept_existing, check_not_read, check_target, refuse_existing
    from newkinds.terminal import progress_bars

    replace = accept_existing if force else refuse_existing
    form = format_of(out, file_format)
    if out is not None:
        check_not_read(out, source, *(run / name for name in RUN_FILES))
        check_target(out, folder=False, replace=replace)
    check_if_own(source, run)
    model = load(run)
    names = model.category_names_
    with table_writer(out, form, replace, raw=raw) as write:
        if source == "-":
            for ids, features in read_stream(standard_input(), model.n_features_in_):
                write(predictions_table(model, names, ids, features, reject=reject))
            return
        with progress_bars(Console(stderr=True), quiet):
            encoding = make_encoding(encoder, device, cache, no_cache, workers, full_precision)
            collection = features_for(model.encoder_, read_source(source, text=text), encoding)
            features = collection.arranged(model.source_columns_)
            for first in range(0, len(collection), PREDICTED_ROWS):
                rows = slice(first, first + PREDICTED_ROWS)
                ids = collection.sample_ids(rows)
                write(predictions_table(model, names, ids, features[rows], reject=reject))
                report_progress("predicting", min(rows.stop, len(collection)), len(collection))
    if not quiet:
        print_notes(collection.notes)
