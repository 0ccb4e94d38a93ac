"""`newkinds apply`"""

from pathlib import Path
from typing import Annotated

import typer

from newkinds.commands.options import Quiet, Reason, RunFolder


def apply(
    run: RunFolder,
    corrections: Annotated[Path, typer.Argument(help="A table with the columns id and category.")],
    reason: Reason = "",
    quiet: Quiet = False,
) -> None:
    """Apply a table of corrections: the right kind beside each sample, by somebody without the studio.

    A blank says nothing. The kind that a sample has already confirms it; a name that no kind has makes a new one.
    In a table that `newkinds export` wrote, names that were not changed say nothing. All of it is applied, as one
    entry of the journal, or nothing.
    """
    from newkinds.editing import apply_corrections
    from newkinds.editing_terminal import show_entry
    from newkinds.terminal import Screen

    entry = apply_corrections(run, corrections, reason=reason)
    if not quiet:
        show_entry(Screen(), run, entry)
