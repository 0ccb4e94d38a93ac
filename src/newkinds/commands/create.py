"""`newkinds create`"""

from typing import Annotated

import typer

from newkinds.commands.options import Quiet, Reason, RunFolder, SampleIds


def create(
    run: RunFolder,
    name: Annotated[str, typer.Argument(help="What to call the new kind.")],
    samples: SampleIds,
    reason: Reason = "",
    quiet: Quiet = False,
) -> None:
    """Make a new kind of samples."""
    from newkinds.editing import create as create_kind
    from newkinds.editing_terminal import show_entry
    from newkinds.terminal import Screen

    entry = create_kind(run, samples, name, reason=reason)
    if not quiet:
        show_entry(Screen(), run, entry)
