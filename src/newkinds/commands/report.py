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

    from newkinds.report import write_report
    from newkinds.run_folder import check_not_of_a_run
    from newkinds.staging import accept_existing, check_target, refuse_existing
    from newkinds.terminal import Screen, progress_bars, show_page

    replace = accept_existing if force or out is None else refuse_existing
    if out is not None:
        check_not_of_a_run(out)
        check_target(out, folder=False, replace=replace)
    with progress_bars(Console(stderr=True), quiet):
        page = write_report(run, out, with_map=not no_map, replace=replace)
    show_page(Screen(), page, open_page, quiet)
