"""`newkinds move`"""

from typing import Annotated

import typer

from newkinds.commands.options import Quiet, Reason, RunFolder, SampleIds


def move(
    run: RunFolder,
    kind: Annotated[str, typer.Argument(help="Name or id of the kind, such as new-3.")],
    samples: SampleIds,
    reason: Reason = "",
    quiet: Quiet = False,
) -> None:
    """Put samples into a kind, by your word: a refit learns from it."""
    from newkinds.editing import move as move_samples
    from newkinds.editing_terminal import show_entry
    from newkinds.terminal import Screen

    entry = move_samples(run, samples, kind, reason=reason)
    if not quiet:
        show_entry(Screen(), run, entry)
