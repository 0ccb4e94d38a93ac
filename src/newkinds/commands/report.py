"""`newkinds report`"""

from pathlib import Path
from typing import Annotated

import typer

from newkinds.commands.options import ForceFile, NoMap, OpenPage, Quiet, RunFolder


def report(
    run: RunFolder,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where to write the page; by default into the run folder.")
    ] = None,
    no_map: NoMap = False,
    open_page: OpenPage = False,
    force: ForceFile = False,
    quiet: Quiet = False,
) -> None:
    """Write the report of a run anew, with the names that kinds have now: one page, works offline."""
    from rich.console import Console

    from newkinds.report import make_report
    from newkinds.run_folder import REPORT_FILE, check_not_of_a_run, read_run
    from newkinds.staging import accept_existing, refuse_existing, staged
    from newkinds.terminal import Screen, progress_bars, show_page

    read_run(run)  # to know at once of what is not a run
    place = run / REPORT_FILE if out is None else out
    if out is not None:
        check_not_of_a_run(out)
    replace = accept_existing if force or out is None else refuse_existing
    with progress_bars(Console(stderr=True), quiet), staged(place, replace=replace) as stage:
        stage.write_bytes(make_report(run, with_map=not no_map).encode())
    show_page(Screen(), place, open_page, quiet)
