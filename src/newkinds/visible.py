"""Text from files and names, made safe to print in a terminal."""

import re

HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that steer a terminal instead of showing: control characters (C0, DEL, C1), line and paragraph
separators, marks that turn the direction of writing, and halves of surrogate pairs, which cannot be printed."""


def visible(text: object) -> str:
    r"""Text with every character that would steer the terminal written as an escape.

    Examples
    --------
    >>> print(visible("owl\x1b[2J, wren\nant, \u202egpj.exe"))
    owl\x1b[2J, wren\nant, \u202egpj.exe
    """
    return HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), str(text))


def visible_lines(text: object) -> str:
    r"""The same for text of several lines: these stay, and further ones are indented, so none passes for a message.

    Examples
    --------
    >>> print(visible_lines("2 of 8 jobs failed:\nError: \x07"))
    2 of 8 jobs failed:
      Error: \x07
    """
    return "\n  ".join(map(visible, str(text).split("\n")))
