"""The commands that edit a run, and everything that then reads it."""

import json

import newkinds
from newkinds.journal import read_journal
from tests.arrivals import N_NEW, arrive
from tests.commands.command_line import fail, printed, rows_of, succeed
from tests.report.pages import read_page


def category_names(run):
    return [category["name"] for category in json.loads(printed("show", run, "--json"))["categories"]]


def test_what_is_merged_is_one_everywhere(run, collection, tmp_path):
    said = printed("merge", run, "new-1", "0")
    assert said.startswith("new-1 became part of 0.\nnewkinds undo ")
    assert category_names(run) == ["0", "1"]
    assert {row["name"] for row in rows_of(printed("predict", run, collection))} == {"0", "1"}
    succeed("export", run, tmp_path / "kinds.csv")
    assert {row["name"] for row in rows_of((tmp_path / "kinds.csv").read_text())} == {"0", "1"}
    assert newkinds.open_run(run).names == {0: "0", 1: "1"}
    succeed("report", run)
    assert set(read_page(run / "report.html").categories) == {"0", "1"}
    fail("merge", run, "0", "1", says="are known: their labels say that they differ; to merge them give --known")
    succeed("merge", run, "0", "1", "--known", "-q")
    assert category_names(run) == ["0"]


def test_samples_are_moved_confirmed_and_made_a_kind(run, tmp_path):
    assert "1 sample went from 0 to new-1; 1 sample is confirmed." in printed("move", run, "new-1", "0")
    assert "2 samples are confirmed." in printed("confirm", run, "3", "6")
    assert printed("create", run, "bee", "9", "12").startswith(
        "bee was made; 2 samples went from 0 to bee; 2 samples"
    )
    fail("move", run, "bee", "nobody", says="the run has no sample 'nobody'")
    fail("create", run, "BEE", "15", says="another category is called 'bee' already")
    succeed("export", run, tmp_path / "kinds.csv", "--kind", "bee")
    rows = rows_of((tmp_path / "kinds.csv").read_text())
    assert [(row["id"], row["confirmed"], row["confidence"]) for row in rows] == [
        ("9", "true", "1"),
        ("12", "true", "1"),
    ]


def test_samples_that_came_are_there_for_every_command(run, collection, tmp_path):
    n_before = len(newkinds.open_run(run).predictions)
    arrive(run, let_go=1)
    n_after = n_before - 1 + N_NEW
    files = tmp_path / "files"
    files.mkdir()
    for name in [*map(str, range(n_before)), *(f"late-{i}" for i in range(N_NEW))]:
        (files / name).write_text(name)

    def exported() -> list[dict[str, str]]:
        succeed("export", run, tmp_path / "kinds.csv", "--force", "-q")
        return rows_of((tmp_path / "kinds.csv").read_text())

    def check(n: int, kinds: list[str]) -> None:
        assert category_names(run) == kinds
        assert json.loads(printed("show", run, kinds[-1], "--json"))["name"] == kinds[-1]
        assert len(exported()) == n
        place = tmp_path / f"sorted-{len(read_journal(run))}"
        succeed("sort", run, "--into", place, "--source", files, "-q")
        assert len([path for path in place.rglob("*") if path.is_file()]) == n + 1
        succeed("report", run)
        page = read_page(run / "report.html")
        assert list(page.categories) == kinds
        assert len(page.texts["ids"]) == n
        assert {row["name"] for row in rows_of(printed("predict", run, collection))} <= set(kinds)
        assert newkinds.open_run(run).collection.features.shape[0] == n

    kinds = ["0", "1", "new-1", "new-2"]
    check(n_after, kinds)
    assert "6 samples arrived: 1 kind born (new-2), 2 held back" in printed("history", run)
    assert [c["name"] for c in json.loads(printed("show", run, "--json", "--as-of", 0))["categories"]] == kinds[:3]
    assert json.loads(printed("show", run, "new-1", "--json", "--as-of", 0))["typical"]
    rows = {row["id"]: row for row in exported()}
    assert (rows["late-5"]["held"], rows["late-5"]["strangeness"]) == ("true", "0.75")
    succeed("move", run, "new-2", "late-5", "-q")
    rows = {row["id"]: row for row in exported()}
    assert (rows["late-5"]["name"], rows["late-5"]["held"], rows["late-5"]["strangeness"]) == (
        "new-2",
        "false",
        "0",
    )
    fail("move", run, "new-2", "0", says="the run has no sample '0'")
    succeed("undo", run, "-q")
    succeed("undo", run, "-q")
    check(n_before, kinds[:3])
    succeed("redo", run, "-q")
    check(n_after, kinds)


def test_a_split_is_shown_before_it_is_done(run):
    shown = printed("split", run, "new-1", "-k", "2", "--dry-run")
    assert shown.startswith("part 1: ")
    assert not (run / "journal.jsonl").exists()
    assert "new-2 was made" in printed("split", run, "new-1", "-k", "2")
    assert category_names(run) == ["0", "1", "new-1", "new-2"]
    assert "new-2 was dissolved" in printed("dissolve", run, "new-2")
    fail("dissolve", run, "0", says="is known, by its labels; to dissolve it give --known")


def test_history_undo_and_redo(run):
    assert printed("history", run) == "Nothing was done to this run since it was made.\n"
    fail("undo", run, says="there is nothing to undo")
    succeed("rename", run, "new-1", "ant", "--reason", "six legs", "-q")
    succeed("move", run, "ant", "0", "-q")
    assert printed("undo", run).startswith("entry 2 was undone.\nnewkinds redo ")
    history = printed("history", run)
    assert "a category is called ant (six legs)" in history
    assert "1 sample went from 0 to ant; 1 sample is confirmed; undone" in history
    assert [json.loads(line)["op"] for line in printed("history", run, "--json").splitlines()] == [
        "rename",
        "move",
        "undo",
    ]
    assert "new-1" in printed("show", run, "--as-of", "0")
    assert "new-1" not in printed("show", run)
    fail("show", run, "--as-of", "4", says="the journal has 3 entries; got 4")
    assert "entry 2 was done again." in printed("redo", run)


def test_a_refit_and_the_way_back(run, collection, tmp_path):
    succeed("move", run, "new-1", "0", "-q")
    assert "version 0002" in printed("refit", run)
    assert "version 0002" in printed("history", run)
    assert {row["name"] for row in rows_of(printed("predict", run, collection))} == {"0", "1", "new-1"}
    succeed("report", run)
    opened = newkinds.open_run(run)
    assert opened.predictions["name"][0].as_py() == "new-1"
    copy = opened.save(tmp_path / "copy")
    assert newkinds.open_run(copy).predictions.equals(opened.predictions)
    succeed("refit", run, "--out", tmp_path / "next", "-q")
    assert "2 known kinds and 1 new one" in printed("show", tmp_path / "next")
    succeed("undo", run, "-q")
    assert newkinds.open_run(run).record["journal"]["version"] is None
    succeed("compare", run, tmp_path / "next")


def corrected(tmp_path, text):
    (tmp_path / "corrections.csv").write_text(text)
    return tmp_path / "corrections.csv"


def test_a_table_of_corrections_is_applied_as_one(run, tmp_path):
    table = corrected(tmp_path, "id,category\n0,new-1\n1,\n3,bee\n6,BEE\n2,new-1\n")
    said = printed("apply", run, table)
    assert "bee was made" in said
    assert "4 samples are confirmed" in said
    assert len(printed("history", run, "--json").splitlines()) == 1
    predictions = newkinds.open_run(run).predictions
    assert [predictions["name"][row].as_py() for row in (0, 3, 6)] == ["new-1", "bee", "bee"]
    fail("apply", run, table, says="says nothing that the run does not say already")


def test_a_table_with_mistakes_is_not_applied_at_all(run, tmp_path):
    table = corrected(tmp_path, "id,category\n0,new-1\nnobody,new-1\n3,0\n3,1\n")
    fail(
        "apply",
        run,
        table,
        says="line 3: the id 'nobody' is not in the run; line 5: '3' is '1' here and '0' in line 4",
    )
    fail("apply", run, corrected(tmp_path, "id,category\n0,\n"), says="says nothing")
    fail("apply", run, corrected(tmp_path, "x,y\n0,1\n"), says="columns 'id' and 'category' are needed")
    fail("apply", run, corrected(tmp_path, f"id,name\n0,{'a' * 201}\n"), says="line 2: a name may have 200 letters")
    assert not (run / "journal.jsonl").exists()


def test_an_exported_table_says_what_was_changed_in_it(run, tmp_path):
    succeed("export", run, tmp_path / "kinds.csv")
    rows = (tmp_path / "kinds.csv").read_text().splitlines()
    changed = tmp_path / "changed.csv"
    cells = rows[1].split(",")
    cells[2] = '"bee"'
    changed.write_text("\n".join([rows[0], ",".join(cells), *rows[2:]]) + "\n")
    assert "1 sample is confirmed" in printed("apply", run, changed)


# In Python


def test_a_discovery_is_edited(run, tmp_path):
    discovery = newkinds.open_run(run)
    discovery.create(["0", "3"], "bee")
    discovery.merge(["bee", 2])
    assert discovery.names == {0: "0", 1: "1", 2: "bee"}
    done = discovery.refit(reason="looked at two")
    assert done.entry is not None
    assert done.entry.reason == "looked at two"
    assert discovery.predictions["confirmed"].to_numpy().sum() == 2
    discovery.undo()
    assert [entry.op for entry in discovery.history] == ["create", "merge", "refit", "undo"]
    assert discovery.collection.n_labelled == 21
