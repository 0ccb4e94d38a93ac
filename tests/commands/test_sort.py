"""`newkinds sort`: photos into folders by kind, and back."""

import errno
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from newkinds.sorting import LIST_FILE, PARTIAL_FILE, TRANSFERS
from newkinds.staging import rename_to_free
from tests.commands.command_line import (
    PATIENCE,
    SMALL,
    change_column,
    command,
    fail,
    invoke,
    printed,
    record_of,
    succeed,
    write_record,
)
from tests.commands.photos import listed, rename_kind, rename_sample, tree


def test_a_run_of_photos_remembers_where_they_were(photo_run, birds):
    assert record_of(photo_run[0])["source"]["root"] == str(birds)


def test_a_run_of_features_has_no_such_place(made):
    assert "root" not in record_of(made)["source"]


def test_photos_are_copied_into_folders_by_kind(sortable, photos, tmp_path):
    before = tree(photos)
    said = printed("sort", sortable, "--into", tmp_path / "sorted")
    after = tree(tmp_path / "sorted")
    rows = listed(tmp_path / "sorted")
    assert set(after) == {row["to"] for row in rows} | {LIST_FILE}
    assert len(rows) == 41
    for row in rows:
        assert row["how"] == "copy"
        assert after[row["to"]] == Path(row["from"]).read_bytes()
    sizes = {name: len(os.listdir(tmp_path / "sorted" / name)) for name in ("owl", "wren", "new-1")}
    assert sizes == {"owl": 17, "wren": 16, "new-1": 8}
    assert sorted(os.listdir(tmp_path / "sorted" / "new-1")) == [f"ant-{i}.png" for i in range(8)]
    assert tree(photos) == before
    assert "41 photos copied into" in said
    assert "new-1 new" in said
    assert f"newkinds sort --undo {tmp_path / 'sorted'}" in said


def test_copies_keep_their_times(sortable, photos, tmp_path):
    os.utime(photos / "owl" / "0.png", (1e9, 1e9))
    succeed("sort", sortable, "--into", tmp_path / "sorted", "--quiet")
    assert (tmp_path / "sorted" / "owl" / "0.png").stat().st_mtime == 1e9


def test_copies_are_taken_back(sortable, photos, tmp_path):
    before = tree(photos)
    succeed("sort", sortable, "--into", tmp_path / "sorted")
    assert "41 photos taken back" in printed("sort", "--undo", tmp_path / "sorted")
    assert not (tmp_path / "sorted").exists()
    assert tree(photos) == before


def test_photos_are_moved_and_taken_back(sortable, photos, tmp_path):
    before = tree(photos)
    assert "41 photos moved to" in printed("sort", sortable, "--into", tmp_path / "sorted", "--move")
    assert set(tree(photos)) == {"unlabelled/broken.jpg"}  # which the run did not have
    assert "41 photos taken back" in printed("sort", "--undo", tmp_path / "sorted")
    assert tree(photos) == before
    assert not (tmp_path / "sorted").exists()


def test_links_lead_to_the_photos_and_are_taken_back(sortable, photos, tmp_path):
    before = tree(photos)
    succeed("sort", sortable, "--into", tmp_path / "deep" / "sorted", "--link")
    link = tmp_path / "deep" / "sorted" / "owl" / "0.png"
    assert os.readlink(link) == "../../../photos/owl/0.png"
    assert all(Path(row["from"]).samefile(tmp_path / "deep/sorted" / row["to"]) for row in listed(link.parents[1]))
    succeed("sort", "--undo", tmp_path / "deep" / "sorted")
    assert not (tmp_path / "deep" / "sorted").exists()
    assert tree(photos) == before


def test_links_fit_where_the_folder_is_itself_behind_a_link(sortable, tmp_path):
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "near").symlink_to(tmp_path / "far" / "away")
    succeed("sort", sortable, "--into", tmp_path / "near" / "sorted", "--link")
    assert (tmp_path / "near" / "sorted" / "owl" / "0.png").read_bytes()


def test_the_same_file_name_twice_gets_a_number(sortable, photos, tmp_path):
    (photos / "unlabelled" / "wren-0.png").rename(photos / "unlabelled" / "0.PNG")
    rename_sample(sortable, "unlabelled/wren-0.png", "unlabelled/0.PNG")
    succeed("sort", sortable, "--into", tmp_path / "sorted", "-q")
    names = os.listdir(tmp_path / "sorted" / "wren")
    assert {"0.PNG", "0-2.png"} <= set(names)
    assert len({name.lower() for name in names}) == 16


def test_folders_have_names_that_every_file_system_takes(sortable, tmp_path):
    rename_kind(sortable, "owl", "../Barn: owl/\x1b")
    rename_kind(sortable, "wren", "CON")
    rename_kind(sortable, "new-1", "...")
    succeed("sort", sortable, "--into", tmp_path / "sorted")
    assert sorted(os.listdir(tmp_path / "sorted")) == ["_Barn_ owl__", "_CON", "kind-2", LIST_FILE]


def test_kinds_that_differ_only_in_case_get_folders_of_their_own(sortable, tmp_path):
    rename_kind(sortable, "wren", "OWL")
    rename_kind(sortable, "new-1", "Unsure")
    values = iter([0.9] * 40 + [0.1])
    change_column(sortable, "confidence", lambda _: next(values))
    change_column(sortable, "given", lambda _: False)
    succeed("sort", sortable, "--into", tmp_path / "sorted", "--min-confidence", 0.5)
    assert sorted(os.listdir(tmp_path / "sorted")) == ["OWL-2", "Unsure-2", LIST_FILE, "owl", "unsure"]
    shutil.rmtree(tmp_path / "sorted")
    succeed("sort", sortable, "--into", tmp_path / "sorted")
    assert sorted(os.listdir(tmp_path / "sorted")) == ["OWL-2", "Unsure", LIST_FILE, "owl"]


def test_a_kind_that_is_called_like_the_list_does_not_take_its_place(sortable, tmp_path):
    rename_kind(sortable, "owl", LIST_FILE)
    succeed("sort", sortable, "--into", tmp_path / "sorted")
    assert (tmp_path / "sorted" / LIST_FILE).is_file()
    assert (tmp_path / "sorted" / f"{LIST_FILE}-2").is_dir()


def test_unsure_photos_get_a_folder_of_their_own_and_labelled_ones_do_not(sortable, tmp_path):
    succeed("sort", sortable, "--into", tmp_path / "sorted", "--min-confidence", 1)
    sorted_to = {row["from"]: row["to"] for row in listed(tmp_path / "sorted")}
    assert {to.partition("/")[0] for to in sorted_to.values()} == {"owl", "wren", "unsure"}
    for photo, to in sorted_to.items():
        assert to.startswith("unsure/") == (Path(photo).parent.name == "unlabelled")


def test_what_was_sorted_can_be_discovered_again_the_unsure_without_a_label(sortable, model, tmp_path):
    values = iter([0.9] * 8 + [0.1] * 5 + [0.9] * 28)
    change_column(sortable, "confidence", lambda _: next(values))
    succeed("sort", sortable, "--into", tmp_path / "sorted", "--min-confidence", 0.5)
    options = ["--encoder", model, "--workers", "0", "-q", *SMALL]
    succeed("discover", tmp_path / "sorted", "--out", tmp_path / "again", *options)
    record = record_of(tmp_path / "again")
    assert [category["name"] for category in record["categories"]] == ["new-1", "owl", "wren"]
    assert record["source"]["labelled"] == 36


def test_only_new_kinds_are_sorted_on_request(sortable, photos, tmp_path):
    succeed("sort", sortable, "--into", tmp_path / "sorted", "--only-new", "--move")
    assert sorted(os.listdir(tmp_path / "sorted")) == ["new-1", LIST_FILE]
    assert (photos / "owl" / "0.png").exists()


def test_a_dry_run_changes_nothing(sortable, photos, tmp_path):
    before = tree(tmp_path)
    said = printed("sort", sortable, "--into", tmp_path / "sorted", "--move", "--dry-run")
    assert tree(tmp_path) == before
    assert not (tmp_path / "sorted").exists()
    assert "To move into" in said
    assert "Nothing was changed" in said
    assert "new-1/ant-0.png, …" in said


# What is refused


def test_a_folder_with_something_in_it_is_refused(sortable, tmp_path):
    (tmp_path / "sorted").mkdir()
    (tmp_path / "sorted" / "mine.txt").write_text("mine")
    fail("sort", sortable, "--into", tmp_path / "sorted", says="sorted is not empty; give the name of a new folder")
    fail("sort", sortable, "--into", tmp_path / "sorted" / "mine.txt", says=r"mine\.txt is a file")
    assert tree(tmp_path / "sorted") == {"mine.txt": b"mine"}
    (tmp_path / "sorted" / "mine.txt").unlink()
    succeed("sort", sortable, "--into", tmp_path / "sorted")


def test_what_was_sorted_before_is_named(sortable, tmp_path):
    succeed("sort", sortable, "--into", tmp_path / "sorted")
    fail(
        "sort", sortable, "--into", tmp_path / "sorted", says="sorted before; `newkinds sort --undo .*` takes that"
    )
    (tmp_path / "sorted").rename(tmp_path / "my sorted")
    says = f"`newkinds sort --undo '{tmp_path}/my sorted'` takes that"
    fail("sort", sortable, "--into", tmp_path / "my sorted", says=says)


def test_a_place_among_the_photos_or_in_the_run_is_refused(sortable, photos):
    fail("sort", sortable, "--into", photos / "sorted", says="is in the photos' folder .*; choose a place outside")
    fail("sort", sortable, "--into", sortable / "sorted", says="is in the run folder .*; choose a place outside")


@pytest.mark.parametrize("name", ["../secret.png", "/etc/passwd", "owl/../../secret.png", "..\\secret.png"])
def test_ids_that_lead_outside_are_refused(sortable, tmp_path, name):
    (tmp_path / "secret.png").write_bytes(b"secret")
    rename_sample(sortable, "owl/0.png", name)
    fail(
        "sort", sortable, "--into", tmp_path / "sorted", says="leads out of the photos' folder.*nothing was sorted"
    )
    assert not (tmp_path / "sorted").exists()


def test_ids_may_be_whole_paths_within_the_photos_folder(sortable, photos, tmp_path):
    (tmp_path / "near").symlink_to(photos)
    before = tree(photos)
    rename_sample(sortable, "owl/0.png", str(photos / "owl" / "0.png"))
    rename_sample(sortable, "owl/1.png", str(tmp_path / "near" / "owl" / "1.png"))
    rename_sample(sortable, "owl/2.png", str(photos / "owl" / "3.png"))
    result = succeed("sort", sortable, "--into", tmp_path / "sorted", "--move")
    assert "1 photo left out (the same file as another): owl/3.png" in result.stderr
    assert {"0.png", "1.png", "3.png"} <= set(os.listdir(tmp_path / "sorted" / "owl"))
    assert len(listed(tmp_path / "sorted")) == 40
    succeed("sort", "--undo", tmp_path / "sorted")
    assert tree(photos) == before


def test_long_names_that_meet_are_shortened(sortable, photos, tmp_path):
    long = "é" * 125 + "a.png"
    for i, folder in enumerate(("owl", "unlabelled")):
        old = ("owl/0.png", "unlabelled/owl-0.png")[i]
        (photos / old).rename(photos / folder / long)
        rename_sample(sortable, old, f"{folder}/{long}")
    succeed("sort", sortable, "--into", tmp_path / "sorted")
    assert {long, "é" * 124 + "-2.png"} <= set(os.listdir(tmp_path / "sorted" / "owl"))


@pytest.mark.parametrize("how", ["--copy", "--link", "--move"])
def test_links_that_lead_outside_are_left_out_and_named(sortable, photos, tmp_path, how):
    (photos / "owl").rename(tmp_path / "elsewhere")
    (photos / "owl").symlink_to(tmp_path / "elsewhere")
    result = succeed("sort", sortable, "--into", tmp_path / "sorted", how)
    assert "8 photos left out" in result.stderr
    assert "owl/0.png, owl/1.png, owl/2.png, owl/3.png, owl/4.png, …" in result.stderr
    assert len(listed(tmp_path / "sorted")) == 33
    assert len(os.listdir(tmp_path / "elsewhere")) == 8


def test_a_photo_behind_a_link_within_the_folder_is_copied_but_not_moved(sortable, photos, tmp_path):
    (photos / "owl" / "0.png").rename(photos / "other.png")
    (photos / "owl" / "0.png").symlink_to("../other.png")
    succeed("sort", sortable, "--into", tmp_path / "copied")
    copy = tmp_path / "copied" / "owl" / "0.png"
    assert copy.read_bytes() == (photos / "other.png").read_bytes()
    assert not copy.is_symlink()
    result = succeed("sort", sortable, "--into", tmp_path / "moved", "--move")
    assert "1 photo left out (behind a link, which is not moved): owl/0.png" in result.stderr
    assert (photos / "owl" / "0.png").is_symlink()


def test_photos_that_are_gone_are_reported(sortable, photos, tmp_path):
    for i in range(6):
        (photos / "wren" / f"{i}.png").unlink()
    result = succeed("sort", sortable, "--into", tmp_path / "sorted")
    assert (
        f"6 photos left out (no longer in {photos}): wren/0.png, wren/1.png, wren/2.png, wren/3.png"
        in result.stderr
    )
    assert len(listed(tmp_path / "sorted")) == 35


def test_where_all_are_gone_nothing_is_made(sortable, photos, tmp_path):
    for path in photos.rglob("*.png"):
        path.unlink()
    fail("sort", sortable, "--into", tmp_path / "sorted", says="41 photos left out.*say where with --source")
    assert not (tmp_path / "sorted").exists()


def test_photos_that_moved_are_found_with_source(sortable, photos, tmp_path):
    photos.rename(tmp_path / "moved")
    fail("sort", sortable, "--into", tmp_path / "sorted", says="the photos were in .*photos; say with --source")
    succeed("sort", sortable, "--into", tmp_path / "sorted", "--source", tmp_path / "moved")
    assert len(listed(tmp_path / "sorted")) == 41
    fail("sort", sortable, "--into", tmp_path / "b", "--source", tmp_path / "no", says="there is no folder .*no;")


def test_a_run_that_does_not_say_where_its_photos_are_needs_source(sortable, photos, tmp_path):
    record = record_of(sortable)
    del record["source"]["root"]
    write_record(sortable, record)
    fail("sort", sortable, "--into", tmp_path / "sorted", says="does not say where its photos are.*--source")
    succeed("sort", sortable, "--into", tmp_path / "sorted", "--source", photos)


def test_a_run_of_features_is_exported_instead(made, tmp_path):
    fail("sort", made, "--into", tmp_path / "sorted", says="is a run of features.*newkinds export")


def test_a_run_of_features_whose_ids_are_files_is_sorted_if_it_is_said_where_they_are(run, tmp_path):
    (tmp_path / "photos").mkdir()
    for i in range(60):
        (tmp_path / "photos" / str(i)).write_bytes(bytes([i]))
    succeed("sort", run, "--into", tmp_path / "sorted", "--source", tmp_path / "photos")
    assert {path.name for path in (tmp_path / "sorted" / "new-1").iterdir()} == {str(i) for i in range(2, 60, 3)}


def test_a_run_of_texts_is_exported_instead(run, tmp_path):
    record = record_of(run)
    record["encoder"] = {"name": "a", "kind": "texts", "fingerprint": "b"}
    write_record(run, record)
    says = "is a run of texts.*newkinds export"
    fail("sort", run, "--into", tmp_path / "sorted", "--source", tmp_path, says=says)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["RUN"], "newkinds sort RUN --into FOLDER"),
        (["--into", "a"], "newkinds sort RUN --into FOLDER"),
        (["RUN", "--into", "a", "--copy", "--move"], "--copy and --move contradict each other"),
        (["RUN", "--undo", "a"], "--undo takes back"),
        (["--undo", "nowhere"], f"nowhere holds no {LIST_FILE}"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, says):
    fail("sort", *arguments, says=says)


def test_where_links_cannot_be_made_the_error_says_what_to_do(sortable, tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "symlink", refuse)
    fail("sort", sortable, "--into", tmp_path / "sorted", "--link", says="Operation not permitted.*use --copy")
    assert not (tmp_path / "sorted").exists()


# Interruptions and changes


def test_what_fails_halfway_can_be_taken_back(sortable, photos, tmp_path, monkeypatch):
    before = tree(photos)
    rename, calls = os.rename, []

    def fail_later(source, target):
        calls.append(source)
        if len(calls) == 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        rename(source, target)

    monkeypatch.setattr("newkinds.sorting.rename_to_free", fail_later)
    fail("sort", sortable, "--into", tmp_path / "sorted", "--move", says="4 of 41 were sorted before.*--undo")
    monkeypatch.undo()
    assert "4 photos taken back" in printed("sort", "--undo", tmp_path / "sorted")
    assert tree(photos) == before
    assert not (tmp_path / "sorted").exists()


def test_an_interrupted_sort_says_how_to_take_it_back(sortable, photos, tmp_path, monkeypatch):
    before = tree(photos)

    def interrupt(_, target):
        if target.name == "4.png":
            raise KeyboardInterrupt
        target.write_bytes(b"")

    monkeypatch.setitem(TRANSFERS, "copy", interrupt)
    result = invoke("sort", sortable, "--into", tmp_path / "sorted")
    assert result.exit_code == 130
    assert f"`newkinds sort --undo {tmp_path / 'sorted'}` takes back what was" in result.stderr
    assert (tmp_path / "sorted" / LIST_FILE).exists()
    assert tree(photos) == before


@pytest.mark.slow
@pytest.mark.parametrize("how", ["--copy", "--move"])
def test_a_sort_that_was_killed_can_be_taken_back(sortable, photos, tmp_path, how):
    before = tree(photos)
    process = subprocess.Popen(command("sort", sortable, "--into", tmp_path / "sorted", how))
    until = time.monotonic() + PATIENCE
    while not list((tmp_path / "sorted").glob("*/*.png")) and time.monotonic() < until:
        time.sleep(0.0005)
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE)
    assert (tmp_path / "sorted" / LIST_FILE).exists()
    succeed("sort", "--undo", tmp_path / "sorted")
    assert tree(photos) == before
    assert not (tmp_path / "sorted").exists()


def test_moving_to_another_disk_copies_first_and_is_taken_back(sortable, photos, tmp_path, monkeypatch):
    before = tree(photos)

    def across_disks(source, target):
        if source.parent.parent != target.parent.parent and source.name != PARTIAL_FILE:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        rename_to_free(source, target)

    monkeypatch.setattr("newkinds.sorting.rename_to_free", across_disks)
    succeed("sort", sortable, "--into", tmp_path / "sorted", "--move")
    assert set(tree(photos)) == {"unlabelled/broken.jpg"}
    assert len(tree(tmp_path / "sorted")) == 42
    row = listed(tmp_path / "sorted")[0]
    shutil.copy(tmp_path / "sorted" / row["to"], row["from"])  # as if interrupted before the original went
    succeed("sort", "--undo", tmp_path / "sorted")
    assert tree(photos) == before


def test_names_that_a_spreadsheet_would_run_come_back_as_they_were(sortable, photos, tmp_path):
    rename_kind(sortable, "new-1", "=1+1")
    before = tree(photos)
    succeed("sort", sortable, "--into", tmp_path / "sorted", "--move")
    assert sum(row["to"].startswith("'=1+1/") for row in listed(tmp_path / "sorted")) == 8
    assert len(os.listdir(tmp_path / "sorted" / "=1+1")) == 8
    succeed("sort", "--undo", tmp_path / "sorted")
    assert tree(photos) == before


def test_a_name_that_is_no_text_is_found(sortable, photos, tmp_path):
    os.rename(photos / "owl" / "0.png", os.fsencode(photos / "owl") + b"/\xff.png")
    rename_sample(sortable, "owl/0.png", "owl/\\udcff.png")
    result = succeed("sort", sortable, "--into", tmp_path / "sorted", "--move")
    assert "left out" not in result.stderr
    assert b"\xff.png" in os.listdir(os.fsencode(tmp_path / "sorted" / "owl"))
    succeed("sort", "--undo", tmp_path / "sorted")
    assert b"\xff.png" in os.listdir(os.fsencode(photos / "owl"))
