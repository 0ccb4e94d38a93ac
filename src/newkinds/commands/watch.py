"""`newkinds watch`"""

from typing import Annotated

import typer

from newkinds.commands.collecting import make_encoding, print_notes
from newkinds.commands.options import (
    Cache,
    DeviceOption,
    EncoderName,
    FullPrecision,
    NoCache,
    Quiet,
    RunFolder,
    Threads,
    Workers,
)
from newkinds.names import PredictionFormat


def watch(
    run: RunFolder,
    source: Annotated[str, typer.Argument(help="- : lines on standard input.")] = "-",
    every: Annotated[int, typer.Option(help="Update the run after so many samples.", min=1)] = 1000,
    minutes: Annotated[
        float | None, typer.Option(help="And once a sample has waited for so many minutes.", min=0)
    ] = None,
    birth_size: Annotated[
        int | None, typer.Option(help="Samples that a kind has at its birth, at least; by default 8.", min=2)
    ] = None,
    keep: Annotated[
        int, typer.Option(help="Keep at most so many samples of a kind, labelled ones first.", min=1)
    ] = 200,
    keep_versions: Annotated[
        int, typer.Option(help="Keep so many versions, the last ones: `newkinds undo` goes back no further.", min=1)
    ] = 20,
    file_format: Annotated[PredictionFormat, typer.Option("--format", help="Of the answers.")] = "csv",
    encoder: EncoderName = None,
    device: DeviceOption = "auto",
    threads: Threads = None,  # heeded by its callback
    cache: Cache = None,
    no_cache: NoCache = False,
    workers: Workers = None,
    full_precision: FullPrecision = False,
    quiet: Quiet = False,
) -> None:
    """Answer samples as they come, line by line, and let the run grow with them.

    Lines are as for `newkinds predict RUN -`. Each is answered at once, on standard output. After every so many
    samples, and at the end, the run is updated with them, as by `newkinds update`; what changed is said on standard
    error. Until then they wait in the run folder, so nothing is lost however the command ends: the next
    `newkinds watch` or `newkinds update` takes in what waits.
    """
    from newkinds.answering import Summary, streamed_samples
    from newkinds.data import standard_input
    from newkinds.data.streams import PatientStream
    from newkinds.editing.sentences import counted
    from newkinds.editing.updating import Limits
    from newkinds.editing.waiting import waiting_samples
    from newkinds.editing.watching import Watch
    from newkinds.errors import InputError
    from newkinds.predictions import table_writer
    from newkinds.run_folder import read_run

    if source != "-":
        raise InputError(f"only lines on standard input (-) can be watched; got {source!r}: see `newkinds update`")
    read_run(run)
    summary = Summary()
    encoding = make_encoding(encoder, device, cache, no_cache, workers, full_precision)

    def say(text: str) -> None:
        if not quiet:
            typer.echo(text, err=True)

    with waiting_samples(run) as waiting:
        watch = Watch(run, waiting, every, minutes, say, Limits(birth_size, keep, keep_versions))
        stream = PatientStream(standard_input(), watch.patience)
        try:
            with table_writer(None, file_format) as write:
                for table in watch.answers(streamed_samples(watch.model, stream, encoding, summary)):
                    write(table)
                    if not quiet:
                        print_notes(summary.notes)
                    summary.notes.clear()
        finally:
            if n_waiting := waiting.n_samples:
                say(f"{counted(n_waiting)} will be taken in by the next `newkinds watch` or `newkinds update`.")
