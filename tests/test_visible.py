"""Text that is safe to print."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from newkinds.visible import visible, visible_lines

anything = st.text(st.characters(exclude_categories=()))


@given(anything)
def test_no_character_steers_the_terminal(text: str) -> None:
    shown = visible(text)
    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cs", "Zl", "Zp"}
    assert not any("\u202a" <= character <= "\u202e" or "\u2066" <= character <= "\u2069" for character in shown)
    shown.encode("utf-8")


def test_ordinary_text_stays_as_it_is() -> None:
    text = "Möwe 🦉 (C:\\birds\\new), ‘ant’ – עורב, 鴉"
    assert visible(text) == text


@given(anything)
def test_only_the_first_line_begins_at_the_margin(text: str) -> None:
    first, *others = visible_lines(text).split("\n")
    assert first == visible(text.split("\n")[0])
    assert len(others) == text.count("\n")
    assert all(line.startswith("  ") for line in others)
