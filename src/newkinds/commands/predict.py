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
    IdColumn,
    NewSource,
    NoCache,
    Quiet,
    RunFolder,
    TextColumn,
    Threads,
    Workers,
)
from newkinds.errors import InputError
from newkinds.names import PredictionFormat


def predict(
    run: RunFolder,
    source: NewSource,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="File or address (s3://…) to write; standard output if not given."),
    ] = None,
    file_format: Annotated[
        PredictionFormat | None, typer.Option("--format", help="By default the ending of --out.")
    ] = None,
    reject: Annotated[
        float | None, typer.Option(help="Leave samples open that are less sure than this probability.")
    ] = None,
    reject_strange: Annotated[
        float | None, typer.Option(help="Leave samples open that are at least as strange as this probability.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="In CSV, keep texts that a spreadsheet would run as formulas as they are.")
    ] = False,
    text: TextColumn = None,
    id: IdColumn = None,
    encoder: EncoderName = None,
    device: DeviceOption = "auto",
    threads: Threads = None,  # heeded by its callback
    cache: Cache = None,
    no_cache: NoCache = False,
    workers: Workers = None,
    full_precision: FullPrecision = False,
    force: ForceFile = False,
    quiet: Quiet = False,
) -> None:
    """Give new samples a kind, a confidence, a novelty and a strangeness, with the model of a run.

    Photos and texts go through the encoder that the run was made with. The input's own columns are kept beside the
    answers; one that has a name of ours gets the prefix input_.

    From standard input, samples are read and answered line by line: texts for a run made of texts, paths for one
    made of photos, for any run {"id": …, "features": […]}, a list, or numbers separated by commas. Further keys of
    JSON objects are columns; those of the first line.

    In CSV, a text that begins with =, +, -, @, a tab or a carriage return gets an apostrophe before it, so that no
    spreadsheet runs it as a formula; --raw keeps it as it is.
    """
    from rich.console import Console

    from newkinds.answering import Summary, answers, new_samples, streamed_samples
    from newkinds.data import standard_input
    from newkinds.data.remote import check_remote_target
    from newkinds.data.sources import place_of
    from newkinds.predictions import format_of, table_writer
    from newkinds.run_folder import check_if_own, check_not_of_a_run
    from newkinds.runs import load
    from newkinds.runtime import n_cores
    from newkinds.staging import accept_existing, check_not_read, check_target, refuse_existing
    from newkinds.terminal import progress_bars

    replace = accept_existing if force else refuse_existing
    target: Path | str | None = None if out is None else place_of(out)
    form = format_of(target, file_format)
    if isinstance(target, str):
        check_remote_target(target, force)
        if target.rstrip("/") == source.rstrip("/"):
            raise InputError(f"{target} is what is read; choose another place")
    elif target is not None:
        place = place_of(source)
        check_not_read(target, place)
        check_not_of_a_run(target)
        if isinstance(place, Path) and place.is_dir() and target.resolve().is_relative_to(place.resolve()):
            raise InputError(f"{target} is in the folder that is read; choose another place")
        check_target(target, folder=False, replace=replace)
    check_if_own(source, run)
    model = load(run)
    summary = Summary()
    encoding = make_encoding(encoder, device, cache, no_cache, workers, full_precision)
    with progress_bars(Console(stderr=True), quiet), table_writer(target, form, replace, raw=raw) as write:
        if source == "-":
            samples, threads = streamed_samples(model, standard_input(), encoding, summary), 1
        else:
            samples, threads = new_samples(model, source, encoding, summary, text=text, id=id), n_cores()
        for table in answers(
            model, samples, summary, reject=reject, reject_strange=reject_strange, threads=threads
        ):
            write(table)
    if not quiet:
        print_notes(summary.notes)
        typer.echo(summary.described(model), err=True)
