"""`newkinds redo`"""

from newkinds.commands.options import Quiet, Reason, RunFolder


def redo(
    run: RunFolder,
    reason: Reason = "",
    quiet: Quiet = False,
) -> None:
    """Do again what was undone last."""
    from newkinds.editing import redo as redo_next
    from newkinds.editing_terminal import show_entry
    from newkinds.terminal import Screen

    entry = redo_next(run, reason=reason)
    if not quiet:
        show_entry(Screen(), run, entry)
