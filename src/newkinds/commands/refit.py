"""`newkinds refit`"""

from pathlib import Path
from typing import Annotated

import typer

from newkinds.commands.options import Quiet, Reason, RunFolder, Threads


def refit(
    run: RunFolder,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A run folder of its own; by default a new version of the run."),
    ] = None,
    lam: Annotated[float | None, typer.Option(help="Another weight of confidence.", min=0)] = None,
    temperature: Annotated[float | None, typer.Option(help="Another scale of the logits.", min=1e-6)] = None,
    threads: Threads = None,
    reason: Reason = "",
    quiet: Quiet = False,
) -> None:
    """Fit a run again with what you said of it: labels as corrected, confirmed samples, kinds merged and split.

    Ids and names stay, and so does whatever you said; `newkinds undo` goes back.
    """
    from rich.console import Console

    from newkinds.editing import refit as refit_run
    from newkinds.editing_terminal import show_refit
    from newkinds.terminal import Screen, progress_bars

    with progress_bars(Console(stderr=True), quiet):
        done = refit_run(run, out=out, lam=lam, temperature=temperature, reason=reason)
    if not quiet:
        show_refit(Screen(), done)
