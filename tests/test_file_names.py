"""Names of folders and files that every file system takes."""

import os
import unicodedata
from pathlib import Path, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newkinds.file_names import free_name, safe_name


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("pug", "pug"),
        ("Shih Tzu (2)", "Shih Tzu (2)"),
        ("猫", "猫"),
        ("a/b\\c", "a_b_c"),
        ("../..", "_"),
        (".hidden", "hidden"),
        ("end. ", "end"),
        ("nul", "_nul"),
        ("LPT1.jpg", "_LPT1.jpg"),
        ("console", "console"),
        ("new\nline\x00", "new_line_"),
        ("\u202egpj.exe", "_gpj.exe"),
        ("cafe\u0301", "café"),
        (" . ", ""),
        ("", ""),
    ],
)
def test_a_name_is_kept_where_it_can_be(name: str, safe: str) -> None:
    assert safe_name(name) == safe


@given(st.text(max_size=400))
def test_a_safe_name_is_one_component_of_a_path_everywhere(name: str) -> None:
    safe = safe_name(name)
    assert len(safe.encode()) <= 250
    assert not safe.startswith(".")
    assert not safe.endswith((".", " "))
    assert safe.isprintable() or any(unicodedata.category(letter)[0] in "CZ" for letter in safe)
    if safe:
        assert Path(safe).parts == (safe,)
        assert PureWindowsPath(safe).parts == (safe,)
        assert not os.path.isabs(safe)
    assert safe_name(safe) == safe


@given(st.lists(st.text("aAß-2", min_size=1, max_size=4), max_size=20))
def test_names_never_meet_not_even_where_case_is_not_told_apart(names: list[str]) -> None:
    taken: dict[str, int] = {}
    given_names = [free_name(name, ".png", taken) for name in names]
    assert len({name.casefold() for name in given_names}) == len(names)
    if names:
        assert given_names[0] == f"{names[0]}.png"


@given(st.lists(st.tuples(st.text("aé猫\udcff", min_size=1, max_size=3), st.integers(70, 251)), max_size=8))
def test_a_free_name_is_never_too_long(names: list[tuple[str, int]]) -> None:
    taken: dict[str, int] = {}
    given_names = [free_name((text * n)[:n], ".png", taken) for text, n in names * 2]
    assert len({name.casefold() for name in given_names}) == len(given_names)
    assert all(len(name.encode("utf-8", "surrogateescape")) <= 255 for name in given_names)
    assert all(name.endswith(".png") for name in given_names)


def test_a_long_name_loses_whole_characters_before_its_number() -> None:
    taken: dict[str, int] = {}
    stem = "é" * 125
    assert [free_name(stem, ".png", taken) for _ in range(2)] == [f"{stem}.png", f"{'é' * 124}-2.png"]
    assert len(free_name("a", "." + "b" * 254, taken)) == 255
