"""Messages name options as the user knows them: in Python by Python's words, in a command by the command's."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import newkinds
from newkinds import InputError
from newkinds.data import read_source
from newkinds.data.raw import RawCollection
from newkinds.wording import option
from tests.commands.command_line import LABELS, NAMES, SMALL, fail, invoke, succeed, write

FLAG = re.compile(r"(?<![\w-])--[a-z]")
Calls = list[tuple[Callable[[], object], list[object], str, str]]


def test_a_note_on_labels(tmp_path: Path) -> None:
    source = write(tmp_path / "birds.npz", labels=["Unsorted" if i < 0 else NAMES[i] for i in LABELS.tolist()])
    discovery = newkinds.discover(source, method="sskm", n_categories=3)
    assert any("count as unlabelled (as_is=True keeps such names)" in note for note in discovery.warnings)
    said = succeed("discover", source, "--out", tmp_path / "run", *SMALL)
    assert "count as unlabelled (--as-is keeps such names)" in " ".join(said.output.split())


def test_a_note_on_ids(tmp_path: Path) -> None:
    (tmp_path / "tickets.csv").write_text("ticket,text,label\n1,card lost,card\n2,refund?,\n")
    tickets = read_source(str(tmp_path / "tickets.csv"))
    assert isinstance(tickets, RawCollection)
    assert tickets.notes == ("samples are named by the column 'ticket' (id=COLUMN for another)",)


def test_errors_that_both_can_meet(tmp_path: Path) -> None:
    (tmp_path / "two.csv").write_text("title,body\na,b\n")
    source = write(tmp_path / "birds.npz")
    out = ["--out", tmp_path / "run"]
    calls: Calls = [
        (lambda: newkinds.discover(tmp_path / "two.csv"), [tmp_path / "two.csv"], "text=…", "--text"),
        (lambda: newkinds.discover(source, text="a"), [source, "--text", "a"], ": text cannot", ": --text cannot"),
        (lambda: newkinds.discover(source, id="a"), [source, "--id", "a"], "; id names", "; --id names"),
    ]
    for call, arguments, in_python, in_command in calls:
        with pytest.raises(InputError) as caught:
            call()
        assert in_python in str(caught.value)
        assert not FLAG.search(str(caught.value))
        fail("discover", *arguments, *out, says=in_command)


def test_after_a_command_python_has_its_words_again(tmp_path: Path) -> None:
    assert invoke("show", tmp_path / "nothing").exit_code == 2
    assert option("as_is=True", "--as-is") == "as_is=True"


def test_what_exists_is_replaced_by_the_word_for_it(tmp_path: Path) -> None:
    collection = newkinds.read_features(write(tmp_path / "birds.npz"))
    newkinds.write_features(collection, tmp_path / "out.npz")
    with pytest.raises(InputError, match="or replace it with overwrite=True"):
        newkinds.write_features(collection, tmp_path / "out.npz")
