"""`newkinds confirm`"""

from newkinds.commands.options import Quiet, Reason, RunFolder, SampleIds


def confirm(
    run: RunFolder,
    samples: SampleIds,
    reason: Reason = "",
    quiet: Quiet = False,
) -> None:
    """Say that samples belong to the kinds they are in: that is as good as a label."""
    from newkinds.editing import confirm as confirm_samples
    from newkinds.editing_terminal import show_entry
    from newkinds.terminal import Screen

    entry = confirm_samples(run, samples, reason=reason)
    if not quiet:
        show_entry(Screen(), run, entry)
