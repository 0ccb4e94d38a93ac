"""`newkinds show`"""

from typing import Annotated

import typer

from newkinds.commands.options import RunFolder


def show(
    run: RunFolder,
    everything: Annotated[bool, typer.Option("--all", help="List every category.")] = False,
) -> None:
    """A summary of a run: categories, sizes, how λ and their number were chosen, warnings."""
    from newkinds.run_folder import read_run
    from newkinds.terminal import Screen, show_run

    show_run(Screen(), read_run(run), everything=everything)
