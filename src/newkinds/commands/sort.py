"""`newkinds sort`"""

from pathlib import Path
from typing import Annotated

import typer

from newkinds.commands.collecting import print_notes
from newkinds.commands.options import OnlyNew, Quiet
from newkinds.errors import InputError
from newkinds.names import Transfer


def sort(
    run: Annotated[
        Path | None, typer.Argument(help="A folder made by `newkinds discover` from photos.", show_default=False)
    ] = None,
    into: Annotated[Path | None, typer.Option(help="Folder to make; it gets a folder for each kind.")] = None,
    copy: Annotated[bool, typer.Option("--copy", help="Copy the photos (the default).")] = False,
    link: Annotated[
        bool, typer.Option("--link", help="Make links to the photos, which stay where they are.")
    ] = False,
    move: Annotated[bool, typer.Option("--move", help="Move the photos.")] = False,
    source: Annotated[
        Path | None, typer.Option(help="Where the photos are now, if they moved since the run was made.")
    ] = None,
    min_confidence: Annotated[
        float | None,
        typer.Option(
            help="Photos with less confidence go into a folder `unsure`; labelled ones do not.", min=0, max=1
        ),
    ] = None,
    only_new: OnlyNew = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    undo: Annotated[
        Path | None, typer.Option(help="Take back what was sorted into this folder.", metavar="FOLDER")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Put the photos of a run into folders, one for each kind.

    Labelled photos go with their label. Nothing is overwritten. A list of what was done is written into the folder
    first; `newkinds sort --undo FOLDER` takes it back.
    """
    from rich.console import Console

    from newkinds.sorting import plan_sorting, sort_photos, undo_command
    from newkinds.terminal import Screen, progress_bars, show_sorting

    if undo is not None:
        if run or into or copy or link or move or source or min_confidence is not None or only_new or dry_run:
            raise InputError(
                "--undo takes back what was sorted: it goes without a run and with no option but --quiet"
            )
        take_back(undo, quiet)
        return
    if run is None or into is None:
        raise InputError("give a run and a folder to make: newkinds sort RUN --into FOLDER")
    flags: dict[Transfer, bool] = {"copy": copy, "link": link, "move": move}
    chosen = [how for how, is_chosen in flags.items() if is_chosen] or ["copy"]
    if len(chosen) > 1:
        raise InputError(f"--{' and --'.join(chosen)} contradict each other; give one of them")
    plan = plan_sorting(run, into, how=chosen[0], source=source, min_confidence=min_confidence, only_new=only_new)
    if not dry_run:
        try:
            with progress_bars(Console(stderr=True), quiet):
                sort_photos(plan)
        except InputError:
            raise
        except BaseException:  # interrupted
            typer.echo(f"Not all photos were sorted; `{undo_command(into)}` takes back what was.", err=True)
            raise
    if not quiet or dry_run:
        show_sorting(Screen(), plan, dry_run)
    if not quiet:
        print_notes(plan.notes())


def take_back(folder: Path, quiet: bool) -> None:
    from rich.console import Console

    from newkinds.sorting import undo
    from newkinds.terminal import Screen, progress_bars, show_undone

    with progress_bars(Console(stderr=True), quiet):
        undone = undo(folder)
    if not quiet or undone.left:
        show_undone(Screen(), undone, folder)
    if not quiet:
        print_notes(undone.notes())
