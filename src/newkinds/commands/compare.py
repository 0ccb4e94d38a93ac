"""`newkinds compare`"""

from pathlib import Path
from typing import Annotated

import typer

from newkinds.commands.options import ForceFile, OpenPage, Quiet


def compare(
    before: Annotated[Path, typer.Argument(help="A run folder.")],
    after: Annotated[Path, typer.Argument(help="Another run of the same samples.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Page to write.")] = None,
    open_page: OpenPage = False,
    force: ForceFile = False,
    quiet: Quiet = False,
) -> None:
    """What changed between two runs on the same samples: kinds born, gone, split and renamed, samples that moved.

    Samples are the same if their ids are; kinds are the same if they share most of their samples.
    """
    from newkinds.comparing import compare_runs
    from newkinds.errors import InputError
    from newkinds.report.comparison import make_comparison
    from newkinds.run_folder import check_not_of_a_run
    from newkinds.staging import accept_existing, check_target, refuse_existing, staged
    from newkinds.terminal import Screen, show_comparison, show_page

    replace = accept_existing if force else refuse_existing
    if out is None and open_page:
        raise InputError("--open shows a page: name it with --out")
    if out is not None:
        check_not_of_a_run(out)
        check_target(out, folder=False, replace=replace)
    comparison = compare_runs(before, after)
    if not quiet:
        show_comparison(Screen(), comparison)
    if out is not None:
        with staged(out, replace=replace) as stage:
            stage.write_bytes(make_comparison(comparison, before, after).encode())
        show_page(Screen(), out, open_page, quiet)
