"""The command line: finds the commands, and turns their errors into a line and an exit code.

Exit codes: 0 all went well; 1 out of memory, or a fault of the program; 2 input or options that cannot be used;
130 interrupted.
"""

import functools
import os
import pkgutil
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer

from newkinds import __version__, commands
from newkinds.errors import InputError

OUT_OF_MEMORY, BAD_INPUT, INTERRUPTED = 1, 2, 130

app = typer.Typer(
    name="newkinds",
    help="Finds the kinds in a collection: the ones you know and the ones you don't.",
    epilog="Start with: newkinds demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Interrupted(BaseException):
    """SIGINT or SIGTERM. Not a KeyboardInterrupt: Python turns that into a death by signal if it strikes a module
    that is just being imported, even where it is caught."""


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Bad input and interruption end a command with a line and an exit code, never with a traceback.

    Any other error is a fault of the program, and shows itself as one.
    """

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (Interrupted, KeyboardInterrupt):
            typer.secho("Interrupted.", fg="red", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # whoever read our output has closed it, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except (InputError, OSError) as error:
            typer.secho(f"Error: {error}", fg="red", err=True)
            raise typer.Exit(BAD_INPUT) from None
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and type(error).__name__ != "OutOfMemoryError":
                raise
            typer.secho(f"Error: there is not enough memory ({error})", fg="red", err=True)
            raise typer.Exit(OUT_OF_MEMORY) from None

    return run


def version(value: bool) -> None:
    if value:
        typer.echo(f"newkinds {__version__}")
        raise typer.Exit


@app.callback()
def common(
    _: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Finds the kinds in a collection: the ones you know and the ones you don't."""


for name in sorted(module.name for module in pkgutil.iter_modules(commands.__path__)):
    command = getattr(import_module(f"newkinds.commands.{name}"), name, None)
    if command is not None:  # the other files hold what commands share
        app.command()(guarded(command))


def main() -> None:
    """Entry point of the `newkinds` command."""

    def interrupt(*_: object) -> None:
        raise Interrupted

    for number in (signal.SIGINT, signal.SIGTERM):  # so that a run that is ended clears up after itself
        signal.signal(number, interrupt)
    try:
        app()
    except Interrupted:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
