"""`newkinds rename`, and everything that then uses the name."""

import json
import os
from pathlib import Path

import pytest

import newkinds
from tests.commands.command_line import SMALL, X, fail, printed, rows_of, succeed
from tests.report.pages import read_page


def test_a_name_is_used_everywhere(run, collection, tmp_path):
    said = printed("rename", run, "new-1", "tawny owl")
    assert "new-1 is called tawny owl now." in said
    assert f"newkinds report {run}" in said
    assert "tawny owl" in printed("show", run)
    assert printed("show", run, "tawny owl").startswith("tawny owl new-1 (new)")
    assert {row["name"] for row in rows_of(printed("predict", run, collection))} == {"0", "1", "tawny owl"}
    succeed("export", run, tmp_path / "kinds.csv", "--kind", "tawny owl")
    assert {row["name"] for row in rows_of((tmp_path / "kinds.csv").read_text())} == {"tawny owl"}
    assert newkinds.load(run).predict_names(X[:3]).tolist() == ["0", "1", "tawny owl"]
    assert newkinds.open_run(run).names == {0: "0", 1: "1", 2: "tawny owl"}
    assert read_page(run / "report.html").categories["new-1"]["name"] is None
    succeed("report", run)
    assert read_page(run / "report.html").categories["new-1"]["name"] == "tawny owl"


def test_the_suggestion_gives_way_to_a_name(run, collection):
    before = rows_of(printed("predict", run, collection))
    assert {row["suggestion"] for row in before if row["name"] == "new-1"} <= {"near 0, 1", "near 1, 0"}
    succeed("rename", run, "new-1", "ant", "-q")
    after = rows_of(printed("predict", run, collection))
    assert {row["suggestion"] for row in after} == {""}
    assert "?" not in printed("show", run).split("Next:")[0]


def test_an_edited_run_is_never_replaced(run, collection):
    succeed("rename", run, "new-1", "ant", "-q")
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    fail("discover", collection, "--out", run, *SMALL, "--force", says="was edited since.*is not replaced")
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    assert os.listdir(run.parent) == ["run"]


def test_a_name_that_cannot_be_is_refused(run):
    fail("rename", run, "new-1", "0", says="another category is called '0' already")
    fail("rename", run, "new-9", "ant", says="the run has no category 'new-9'; did you mean new-1")
    assert not (run / "journal.jsonl").exists()


def test_the_first_name_comes_back(run):
    succeed("rename", run, "new-1", "ant", "--reason", "by its legs", "-q")
    entry = json.loads((run / "journal.jsonl").read_text())
    assert (entry["op"], entry["reason"]) == ("rename", "by its legs")
    assert "ant has its first name again" in printed("rename", run, "ant", "new-1")


def test_a_name_may_not_be_the_number_of_another(run):
    fail("rename", run, "new-1", "0", says="or has that number")


def test_a_reason_that_cannot_be_written_is_refused(run):
    fail("rename", run, "new-1", "ant", "--reason", "\udcff", says="the journal holds text in UTF-8")
    assert not (run / "journal.jsonl").exists()


# In Python


def test_a_saved_discovery_is_renamed(run, tmp_path):
    discovery = newkinds.open_run(run)
    assert discovery.names[2] == "new-1"
    discovery.rename(2, "ant")
    assert discovery.names[2] == "ant"
    assert set(discovery.predictions["name"].to_pylist()) == {"0", "1", "ant"}
    assert discovery.predict(X[:3])["name"].to_pylist() == ["0", "1", "ant"]
    copy = discovery.save(tmp_path / "copy")
    assert newkinds.open_run(copy).names[2] == "ant"


def test_a_fresh_discovery_is_renamed_once_it_is_saved(tmp_path):
    discovery = newkinds.discover(X, [0, 1] + [-1] * 58, n_categories=3, method="sskm")
    with pytest.raises(newkinds.InputError, match="save the discovery first"):
        discovery.rename("new-1", "ant")
    folder = discovery.save(tmp_path / "run")
    discovery.rename("new-1", "ant")
    assert discovery.names[2] == "ant"
    assert set(discovery.predictions["name"].to_pylist()) == {"0", "1", "ant"}
    assert discovery.record["categories"][2]["key"] == "new-1"
    assert Path(folder / "journal.jsonl").is_file()
    again = newkinds.open_run(discovery.save(tmp_path / "again"))
    assert again.names[2] == "ant"
    assert again.record["categories"][2]["key"] == "new-1"
    with pytest.raises(newkinds.InputError, match="was edited since"):
        discovery.save(folder, overwrite=True)


def test_an_id_is_an_id_and_a_name_that_is_taken_away_is_gone(tmp_path):
    discovery = newkinds.discover(X, ["a", "b"] + [None] * 58, n_categories=3, method="sskm")
    discovery.save(tmp_path / "a")
    discovery.rename(0, "five")
    assert discovery.names == {0: "five", 1: "b", 2: "new-1"}
    discovery.rename("new-1", "ant")
    opened = newkinds.open_run(discovery.save(tmp_path / "b"))
    assert set(opened.predictions["name"].to_pylist()) == {"five", "b", "ant"}
    assert set(opened.predictions["suggestion"].to_pylist()) == {""}
    opened.rename("ant", "new-1")
    assert set(opened.predictions["name"].to_pylist()) == {"five", "b", "new-1"}
    assert any(opened.predictions["suggestion"].to_pylist())
    discovery.rename(2, "new-1")
    assert any(discovery.predictions["suggestion"].to_pylist())


def test_the_journal_of_another_run_is_not_taken(tmp_path):
    first, second = (newkinds.discover(X, [0, 1] + [-1] * 58, n_categories=k, method="sskm") for k in (3, 4))
    first.save(tmp_path / "a")
    second.save(tmp_path / "a", overwrite=True)
    second.rename("new-1", "of the second")
    assert first.names[2] == "new-1"
    assert newkinds.open_run(first.save(tmp_path / "b")).names[2] == "new-1"


def test_a_copy_of_a_renamed_run_has_a_page_with_the_name(run, tmp_path):
    succeed("rename", run, "new-1", "ant", "-q")
    opened = newkinds.open_run(run)
    assert read_page(opened.report()).categories["new-1"]["name"] == "ant"
    copy = opened.save(tmp_path / "copy")
    assert read_page(copy / "report.html").categories["new-1"]["name"] == "ant"
