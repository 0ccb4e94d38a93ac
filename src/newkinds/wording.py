"""What an option is called where the user is: `--as-is` on the command line, `as_is=True` in Python."""

from collections.abc import Iterator
from contextlib import contextmanager

_is_command_line = False


@contextmanager
def on_command_line() -> Iterator[None]:
    """Within the block, a command is at work, and messages name its options."""
    global _is_command_line
    before, _is_command_line = _is_command_line, True
    try:
        yield
    finally:
        _is_command_line = before


def option(in_python: str, in_command: str) -> str:
    """The words for an option in a message: those of Python, unless a command is at work.

    Examples
    --------
    >>> option("as_is=True", "--as-is")
    'as_is=True'
    >>> with on_command_line():
    ...     option("as_is=True", "--as-is")
    '--as-is'
    """
    return in_command if _is_command_line else in_python
