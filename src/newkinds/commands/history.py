"""`newkinds history`"""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from newkinds.commands.options import RunFolder


def history(
    run: RunFolder,
    as_json: Annotated[bool, typer.Option("--json", help="Print the journal, for programs.")] = False,
) -> None:
    """What was done to a run since it was made, entry by entry.

    `newkinds show RUN --as-of N` shows the kinds as they were after entry N.
    """
    from newkinds.editing_terminal import show_history
    from newkinds.journal import read_journal
    from newkinds.run_folder import read_record
    from newkinds.terminal import Screen

    record, entries = read_record(run), list(read_journal(run))
    if as_json:
        for entry in entries:
            typer.echo(json.dumps(asdict(entry), ensure_ascii=False))
    else:
        show_history(Screen(), record, entries)
