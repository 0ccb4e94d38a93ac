"""`newkinds undo`"""

from newkinds.commands.options import Quiet, Reason, RunFolder


def undo(
    run: RunFolder,
    reason: Reason = "",
    quiet: Quiet = False,
) -> None:
    """Take back the last thing that was done to a run, also a refit."""
    from newkinds.editing import undo as undo_last
    from newkinds.editing_terminal import show_entry
    from newkinds.terminal import Screen

    entry = undo_last(run, reason=reason)
    if not quiet:
        show_entry(Screen(), run, entry)
