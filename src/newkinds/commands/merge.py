"""`newkinds merge`"""

from typing import Annotated

import typer

from newkinds.commands.options import Quiet, Reason, RunFolder


def merge(
    run: RunFolder,
    kinds: Annotated[list[str], typer.Argument(help="Names or ids of two or more kinds.")],
    into: Annotated[
        str | None, typer.Option(help="The kind that stays; by default a known one, or the largest.")
    ] = None,
    known: Annotated[bool, typer.Option("--known", help="Merge known kinds, too.")] = False,
    reason: Reason = "",
    quiet: Quiet = False,
) -> None:
    """Make one kind of several.

    One stays, with its id and name; the others are gone for good. If nobody has named it, it takes the name that
    you gave to another.
    """
    from newkinds.editing import merge as merge_kinds
    from newkinds.editing_terminal import show_entry
    from newkinds.terminal import Screen

    entry = merge_kinds(run, kinds, into=into, known=known, reason=reason)
    if not quiet:
        show_entry(Screen(), run, entry)
