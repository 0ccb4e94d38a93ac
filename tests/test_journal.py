"""The journal of a run: what is written, what is ignored, what is refused."""

import contextlib
import json
import multiprocessing
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from newkinds import InputError
from newkinds.editing import rename
from newkinds.journal import JOURNAL_FILE, Entry, append_entry, read_journal
from newkinds.run_folder import read_predictions, read_run

OLD_RUN = Path(__file__).parent / "old_runs" / "pim"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(OLD_RUN, tmp_path / "run"))


def write_name(run: Path, number: int, name: str | None) -> None:
    append_entry(run, "rename", {"category": str(number), "name": name or ""}, {"id": number, "name": name})


def test_entries_are_lines_of_json_that_follow_one_another(run: Path) -> None:
    write_name(run, 2, "ant")
    append_entry(run, "rename", {"category": "2"}, {"id": 2, "name": None}, by="refit", reason="it was no ant")
    lines = [json.loads(line) for line in (run / JOURNAL_FILE).read_text("utf-8").splitlines()]
    assert [line["n"] for line in lines] == [1, 2]
    assert all(line["time"].endswith("Z") for line in lines)
    assert [(entry.by, entry.reason) for entry in read_journal(run)] == [("person", ""), ("refit", "it was no ant")]
    assert list(lines[0]) == ["n", "time", "by", "op", "arguments", "outcome", "reason"]


def test_a_run_without_a_journal_has_no_entries(run: Path) -> None:
    assert read_journal(run) == ()
    assert [c["key"] for c in read_run(run)["categories"]] == [c["name"] for c in read_run(run)["categories"]]
    assert not any(category["named"] for category in read_run(run)["categories"])


@pytest.mark.parametrize("n_bytes", [1, 10, 60])
def test_an_interrupted_last_line_never_happened(run: Path, n_bytes: int) -> None:
    write_name(run, 2, "ant")
    whole = (run / JOURNAL_FILE).read_bytes()
    write_name(run, 2, "bee")
    entire = (run / JOURNAL_FILE).read_bytes()
    (run / JOURNAL_FILE).write_bytes(entire[:-n_bytes])
    assert [category["name"] for category in read_run(run)["categories"]] == ["owl", "wren", "ant"]
    write_name(run, 2, "cat")
    content = (run / JOURNAL_FILE).read_bytes()
    assert content.startswith(whole)
    assert [entry.n for entry in read_journal(run)] == [1, 2]
    assert read_run(run)["categories"][2]["name"] == "cat"


GOOD: dict[str, Any] = {
    "n": 1,
    "time": "2026-11-18T00:00:00Z",
    "by": "person",
    "op": "rename",
    "arguments": {},
    "outcome": {"id": 2, "name": "ant"},
    "reason": "",
}


def updated(**outcome: Any) -> str:
    """The line of an update."""
    return json.dumps({**GOOD, "op": "update", "by": "update", "outcome": outcome})


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 1"),
        ("[]", "line 1: the record should be an object"),
        (json.dumps({**GOOD, "n": 2}), "line 1: n should be 1; got 2"),
        (json.dumps({**GOOD, "op": "explode"}), "line 1: op should be 'rename'"),
        (json.dumps({**GOOD, "by": "nobody"}), "line 1: by should be"),
        (json.dumps({**GOOD, "outcome": {"id": -1, "name": "ant"}}), "line 1: outcome.id should be"),
        (json.dumps({**GOOD, "outcome": {"id": 2}}), "line 1: outcome lacks name"),
        (json.dumps({**GOOD, "outcome": {"id": 77, "name": "ant"}}), "a category that the run does not have"),
        (updated(version="../../run", changes={}), "outcome.version should be a number such as 0002"),
        (updated(version="0002"), "outcome lacks changes"),
        (updated(version="0002", changes={"moved": -1}), "outcome.changes.moved should be a whole number"),
        (
            updated(version="0002", changes={"born": [{"id": 3}]}),
            r"outcome.changes.born\[0\] lacks key, name, size",
        ),
        (
            updated(version="0002", changes={"merges": [[1, 2, 3]]}),
            r"merges\[0\]\[2\] should be a number from 0 to 1",
        ),
        ("[" * 100_000, "line 1"),
        ('{"n": NaN}', "line 1: NaN is not JSON"),
    ],
)
def test_a_damaged_line_is_refused_by_its_number(run: Path, line: str, says: str) -> None:
    (run / JOURNAL_FILE).write_text(line + "\n")
    with pytest.raises(InputError, match=says):
        read_run(run)


def test_a_journal_that_is_no_file_is_refused(run: Path) -> None:
    os.mkfifo(run / JOURNAL_FILE)
    with pytest.raises(InputError, match="it is not a plain file"):
        read_run(run)


def test_the_categories_that_were_born_are_known_whatever_made_them() -> None:
    new = {"id": 3, "key": "new-2", "name": None}
    outcomes: dict[str, Any] = {
        "split": {"born": [new]},
        "update": {"version": "0002", "changes": {"born": [{**new, "size": 5}]}},
    }
    entries = [Entry(1, "", "person", op, {}, outcome) for op, outcome in outcomes.items()]
    assert [[category["key"] for category in entry.born] for entry in entries] == [["new-2"], ["new-2"]]
    assert [entry.version for entry in entries] == [None, "0002"]


# Renaming


def test_a_name_is_for_good_and_run_json_is_never_rewritten(run: Path) -> None:
    before = (run / "run.json").read_bytes()
    entry = rename(run, "new-1", "  lost PIN ", reason="looked at ten")
    assert (entry.outcome, entry.reason) == ({"id": 2, "name": "lost PIN"}, "looked at ten")
    assert (run / "run.json").read_bytes() == before
    category = read_run(run)["categories"][2]
    assert (category["key"], category["name"], category["named"]) == ("new-1", "lost PIN", True)
    names = set(read_predictions(run)["name"].to_pylist())
    assert names == {"owl", "wren", "lost PIN"}


def test_a_category_is_found_by_name_key_and_id_and_its_key_takes_the_name_away(run: Path) -> None:
    rename(run, "new-1", "ant")
    rename(run, "ant", "bee")
    rename(run, "new-1", "cat")
    rename(run, "2", "new-1")
    assert not read_run(run)["categories"][2]["named"]
    assert [entry.n for entry in read_journal(run)] == [1, 2, 3, 4]


def test_known_categories_can_be_renamed_and_their_labels_stay_their_keys(run: Path) -> None:
    rename(run, "owl", "barn owl")
    assert read_run(run)["categories"][0] | {"size": 0, "labelled": 0} == {
        "id": 0,
        "name": "barn owl",
        "kind": "known",
        "size": 0,
        "labelled": 0,
        "key": "owl",
        "named": True,
    }


@pytest.mark.parametrize(
    ("category", "name", "says"),
    [
        ("new-1", "OWL", "another category is called 'owl' already"),
        ("new-1", "  ", "a name needs at least one letter"),
        ("new-1", "a\nb", "no control characters or line breaks"),
        ("new-1", "a\x1b[2J", "no control characters or line breaks"),
        ("new-1", "a" * 201, "may have 200 letters; got 201"),
        ("ant", "bee", "the run has no category 'ant'"),
    ],
)
def test_names_that_cannot_be_are_refused_and_nothing_is_written(
    run: Path, category: str, name: str, says: str
) -> None:
    with pytest.raises(InputError, match=says):
        rename(run, category, name)
    assert not (run / JOURNAL_FILE).exists()


def test_the_key_of_a_renamed_category_is_not_free(run: Path) -> None:
    rename(run, "owl", "barn owl")
    with pytest.raises(InputError, match="another category is called 'barn owl' already"):
        rename(run, "new-1", "owl")


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a run folder"):
        rename(tmp_path, "a", "b")


def rename_often(run: Path, letter: str, barrier: Any) -> None:
    barrier.wait()
    done = 0
    while done < 10:
        with contextlib.suppress(InputError):  # the other one is writing
            rename(run, "2", f"{letter}{done}")
            done += 1


def test_two_programs_at_once_lose_nothing(run: Path) -> None:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(2)
    writers = [context.Process(target=rename_often, args=(run, letter, barrier)) for letter in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    entries = read_journal(run)
    assert [entry.n for entry in entries] == list(range(1, 21))
    for letter in "ab":
        names = [entry.outcome["name"] for entry in entries if entry.outcome["name"].startswith(letter)]
        assert names == [f"{letter}{i}" for i in range(10)]
