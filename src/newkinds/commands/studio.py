"""`newkinds studio`"""

from typing import Annotated

import typer

from newkinds.commands.options import RunFolder


def studio(
    run: RunFolder,
    port: Annotated[
        int, typer.Option(help="Port to listen on; by default any that is free.", min=0, max=65535)
    ] = 0,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but this machine's own needs --allow-remote.")
    ] = "127.0.0.1",
    allow_remote: Annotated[
        bool,
        typer.Option(
            "--allow-remote",
            help="Let other machines in: whoever has the address with the token sees the samples and can edit the "
            "run; the connection is not encrypted.",
        ),
    ] = False,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
) -> None:
    """Look at a run in the browser, correct it, and let it learn from that.

    Everything is saved at once, in the run's journal, and can be undone. Ctrl+C ends the studio.
    """
    from newkinds.studio.server import serve

    def ready(address: str) -> None:
        typer.echo(f"The studio is open at {address}\nCtrl+C ends it; everything is saved as you go.")
        if not no_browser:
            typer.launch(address)

    serve(run, host=host, port=port, allow_remote=allow_remote, ready=ready)
