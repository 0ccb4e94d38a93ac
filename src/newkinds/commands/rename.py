"""`newkinds rename`"""

from typing import Annotated

import typer

from newkinds.commands.options import Quiet, Reason, RunFolder


def rename(
    run: RunFolder,
    kind: Annotated[str, typer.Argument(help="Name or id of the kind, such as new-3.")],
    name: Annotated[str, typer.Argument(help='What to call it, such as "lost PIN".')],
    reason: Reason = "",
    quiet: Quiet = False,
) -> None:
    """Give a kind a name, for good: everything that reads the run uses it.

    The name that it had at first (new-3, or its label) takes yours away again.
    """
    from newkinds.editing import rename as give_name
    from newkinds.terminal import Screen, show_renamed

    entry = give_name(run, kind, name, reason=reason)
    if not quiet:
        show_renamed(Screen(), run, entry)
