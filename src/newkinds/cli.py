"""The command line: finds the commands, and turns their errors into a line and an exit code.

Exit codes: 0 all went well; 1 out of memory, or a fault of the program; 2 input or options that cannot be used;
130 interrupted.
"""

import functools
import io
import logging
import os
import pkgutil
import select
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer

from newkinds import __version__, commands
from newkinds.errors import InputError
from newkinds.visible import visible, visible_lines
from newkinds.wording import on_command_line

OUT_OF_MEMORY, BAD_INPUT, INTERRUPTED = 1, 2, 130
SPINS = "1000"
"""How long PyTorch's threads wait for each other before they sleep. Where other work keeps all cores busy, encoders
whose threads spin for longer take several times as long. (Fits have threads of their own: `newkinds.workers`.)"""
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # read when PyTorch is imported

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
            with on_command_line():
                command(*args, **kwargs)
            if sys.stdout is not None:
                sys.stdout.flush()  # here, so that what goes wrong is said, and not when Python ends
        except (Interrupted, KeyboardInterrupt):
            say_error("Interrupted.")
            raise typer.Exit(INTERRUPTED) from None
        except (InputError, OSError) as error:
            if isinstance(error, BrokenPipeError) and reader_has_gone():
                discard_output()
                raise typer.Exit(0) from None
            discard_output()  # what could not be written need not be tried again when Python ends
            say_error(f"Error: {error}")
            raise typer.Exit(BAD_INPUT) from None
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and type(error).__name__ != "OutOfMemoryError":
                raise
            say_error(f"Error: there is not enough memory ({error})")
            raise typer.Exit(OUT_OF_MEMORY) from None

    return run


def say_error(text: str) -> None:
    """A line on standard error, in red where that shows and nobody objects."""
    colour = False if os.environ.get("NO_COLOR") else None  # None: as click finds the terminal
    typer.secho(visible_lines(text), fg="red", err=True, color=colour)


def reader_has_gone() -> bool:
    """Whether whoever read standard output has closed it, as `head` does."""
    try:
        output = select.poll()
        output.register(sys.stdout.fileno(), 0)  # errors are always reported
        return bool(output.poll(0))
    except (AttributeError, OSError, ValueError):  # no poll on this platform, or no descriptor behind the output
        return True


def discard_output() -> None:
    """Send what is left in the buffer of standard output, which cannot be written, to nowhere."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (AttributeError, ValueError):  # it was closed before
        pass


class VisibleFormatter(logging.Formatter):
    """Warnings of the package name files and columns, so they go through `visible`."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return visible(super().formatMessage(record))


def prepare_streams() -> None:
    """Make the standard streams take whatever is written to them, whoever started the program and how."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # closed: a file that is opened later must not get its number, and with it stray output
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows a question mark
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(VisibleFormatter())


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

    prepare_streams()
    for number in (signal.SIGINT, signal.SIGTERM):  # so that a run that is ended clears up after itself
        signal.signal(number, interrupt)
    try:
        app()
    except Interrupted:
        sys.exit(INTERRUPTED)
    except OSError as error:  # the help could not be written; commands deal with their own
        discard_output()
        say_error(f"Error: {error}")
        sys.exit(BAD_INPUT)


if __name__ == "__main__":
    main()
