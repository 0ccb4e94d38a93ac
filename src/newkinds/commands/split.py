"""`newkinds split`"""

from typing import Annotated

import typer

from newkinds.commands.options import Quiet, Reason, RunFolder


def split(
    run: RunFolder,
    kind: Annotated[str, typer.Argument(help="Name or id of the kind, such as new-3.")],
    k: Annotated[
        int | None, typer.Option("-k", help="Into how many; by default as many as are best apart.", min=2)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the parts.")] = False,
    reason: Reason = "",
    quiet: Quiet = False,
) -> None:
    """Make several kinds of one: the largest part keeps its id and name."""
    from newkinds.editing import EditedRun
    from newkinds.editing_terminal import show_entry, show_parts
    from newkinds.terminal import Screen

    opened = EditedRun(run)
    if dry_run:
        show_parts(Screen(), opened, opened.preview_split(kind, k))
        return
    entry = opened.split(kind, k, reason=reason)
    if not quiet:
        show_entry(Screen(), run, entry)
