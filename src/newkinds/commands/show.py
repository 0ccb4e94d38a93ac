"""`newkinds show`"""

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from newkinds.commands.options import RunFolder


def show(
    run: RunFolder,
    kind: Annotated[
        str | None, typer.Argument(help="Name or id of a kind, to see that one.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="List every kind.")] = False,
    details: Annotated[
        bool, typer.Option("--details", help="How λ, the temperature and the number of kinds were chosen.")
    ] = False,
    as_of: Annotated[
        int | None, typer.Option("--as-of", help="The run as it was after this entry of `newkinds history`.", min=0)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """The kinds of a run: their sizes, how sure they are, what can be done next.

    With a kind: its typical and its doubtful samples, and the kinds that are like it.
    """
    from newkinds.run_folder import read_run
    from newkinds.terminal import Screen, show_kind, show_run

    if kind is not None:
        from newkinds.kinds import read_kind

        category = read_kind(run, kind, as_of)
        if as_json:
            print_json(asdict(category))
        else:
            show_kind(Screen(), category)
        return
    from newkinds.kinds import read_sureness

    record = read_run(run, as_of)
    sureness = read_sureness(run, record)
    if as_json:
        print_json({**record, "sureness": asdict(sureness)})
    else:
        show_run(Screen(), record, run, sureness, everything=everything, details=details)


def print_json(content: Any) -> None:
    typer.echo(json.dumps(content, ensure_ascii=False, indent=1))
