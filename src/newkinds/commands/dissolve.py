"""`newkinds dissolve`"""

from typing import Annotated

import typer

from newkinds.commands.options import Quiet, Reason, RunFolder


def dissolve(
    run: RunFolder,
    kind: Annotated[str, typer.Argument(help="Name or id of the kind, such as new-3.")],
    known: Annotated[
        bool, typer.Option("--known", help="Dissolve a known kind, too: its labels no longer count.")
    ] = False,
    reason: Reason = "",
    quiet: Quiet = False,
) -> None:
    """Say that a kind is none: each of its samples goes to its next most probable kind."""
    from newkinds.editing import dissolve as dissolve_kind
    from newkinds.editing_terminal import show_entry
    from newkinds.terminal import Screen

    entry = dissolve_kind(run, kind, known=known, reason=reason)
    if not quiet:
        show_entry(Screen(), run, entry)
