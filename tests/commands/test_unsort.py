"""`newkinds sort --undo`: what was changed since, links, lists that are none of ours."""

import shutil
from pathlib import Path

import pytest

from newkinds.sorting import LIST_FILE
from tests.commands.command_line import fail, printed, succeed
from tests.commands.photos import listed, tree


def test_what_was_changed_since_is_left(sortable, photos, tmp_path):
    into = tmp_path / "sorted"
    succeed("sort", sortable, "--into", into)
    (into / "owl" / "0.png").write_bytes(b"my work")
    (photos / "owl" / "1.png").unlink()
    (into / "owl" / "notes.txt").write_text("mine")
    said = printed("sort", "--undo", into)
    assert "39 photos taken back" in said
    assert "owl/0.png: it was changed" in said
    assert "owl/1.png: the original is gone, so the copy was kept" in said
    assert set(tree(into)) == {"owl/0.png", "owl/1.png", "owl/notes.txt", LIST_FILE}
    assert [row["to"] for row in listed(into)] == ["owl/0.png", "owl/1.png"]
    (into / "owl" / "0.png").unlink()
    shutil.copy(into / "owl" / "1.png", photos / "owl" / "1.png")
    succeed("sort", "--undo", into)
    assert tree(into) == {"owl/notes.txt": b"mine"}


def test_nothing_is_moved_back_over_something_else(sortable, photos, tmp_path):
    into = tmp_path / "sorted"
    succeed("sort", sortable, "--into", into, "--move")
    (photos / "owl" / "0.png").write_bytes(b"new work")
    shutil.rmtree(photos / "wren")
    (into / "new-1" / "ant-0.png").unlink()
    said = printed("sort", "--undo", into)
    assert "owl/0.png: there is something at its old place" in said
    assert "wren/0.png: its old folder" in said
    assert "new-1/ant-0.png: it is gone" in said
    assert (photos / "owl" / "0.png").read_bytes() == b"new work"
    assert (into / "owl" / "0.png").exists()


def test_only_links_of_ours_are_removed(sortable, tmp_path):
    into = tmp_path / "sorted"
    succeed("sort", sortable, "--into", into, "--link")
    (into / "owl" / "0.png").unlink()
    (into / "owl" / "0.png").write_bytes(b"mine")
    assert "owl/0.png: something else is there now" in printed("sort", "--undo", into)
    assert (into / "owl" / "0.png").read_bytes() == b"mine"


@pytest.mark.parametrize(
    "line",
    [
        "/a/b.png,../outside/keep.png,move,/a",
        "/a/b.png,/etc/passwd,copy,/a",
        "/a/b.png,a/b/c.png,copy,/a",
        "a/b.png,owl/b.png,move,/a",
        "/a/b.png,owl/b.png,erase,/a",
        "/a/b.png,owl/b.png",
        "/a/b.png,owl/b.png,copy",
    ],
)
def test_a_list_that_is_none_of_ours_is_refused(tmp_path, line):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "keep.png").write_bytes(b"keep")
    (tmp_path / "sorted").mkdir()
    (tmp_path / "sorted" / LIST_FILE).write_text(f"from,to,how,root\n{line}\n")
    fail("sort", "--undo", tmp_path / "sorted", says=f"{LIST_FILE} cannot be used")
    assert (tmp_path / "outside" / "keep.png").read_bytes() == b"keep"


@pytest.mark.parametrize("how", ["--copy", "--move"])
def test_a_photo_is_never_removed_for_a_link_to_it(sortable, photos, tmp_path, how):
    before, into = tree(photos), tmp_path / "sorted"
    succeed("sort", sortable, "--into", into, how)
    for row in listed(into):
        Path(row["from"]).unlink(missing_ok=True)
        Path(row["from"]).symlink_to(into / row["to"])
    said = printed("sort", "--undo", into)
    assert tree(photos) == before
    if how == "--move":
        assert "41 photos taken back" in said
        assert not any(path.is_symlink() for path in photos.rglob("*"))
    else:
        assert "0 photos taken back" in said
        assert "owl/0.png: a link is in the original's place, so the copy was kept" in said


def test_folders_that_became_links_do_not_cost_a_photo(sortable, photos, tmp_path):
    into = tmp_path / "sorted"
    succeed("sort", sortable, "--into", into, "--move")
    shutil.rmtree(photos / "owl")
    (photos / "owl").symlink_to(into / "owl")
    (photos / "wren" / "0.png").symlink_to(into / "wren" / "1.png")
    before = tree(into)
    said = printed("sort", "--undo", into)
    assert f"owl/0.png: its old folder {photos / 'owl'} is a link now" in said
    assert "wren/0.png: there is a link at its old place" in said
    assert {f"owl/{i}.png" for i in range(8)} | {"wren/0.png"} <= set(tree(into))
    assert tree(into)["owl/0.png"] == before["owl/0.png"]


def test_a_link_that_leads_elsewhere_now_is_left(sortable, tmp_path):
    into = tmp_path / "sorted"
    succeed("sort", sortable, "--into", into, "--link")
    (tmp_path / "0.png").write_bytes(b"mine")
    (into / "owl" / "0.png").unlink()
    (into / "owl" / "0.png").symlink_to(tmp_path / "0.png")
    said = printed("sort", "--undo", into)
    assert "owl/0.png: it leads elsewhere now" in said
    assert "40 photos taken back" in said
    assert (into / "owl" / "0.png").is_symlink()


@pytest.mark.parametrize("how", ["--copy", "--link"])
def test_what_is_no_longer_there_is_named(sortable, tmp_path, how):
    into = tmp_path / "sorted"
    succeed("sort", sortable, "--into", into, how)
    (into / "owl" / "0.png").unlink()
    said = printed("sort", "--undo", into)
    assert "40 photos taken back" in said
    assert f"{into / 'owl' / '0.png'}: it is no longer there" in said
    assert not into.exists()


@pytest.mark.parametrize("how", ["--copy", "--link"])
def test_what_is_not_there_at_the_end_of_the_list_is_named(sortable, photos, tmp_path, how):
    before, into = tree(photos), tmp_path / "sorted"
    succeed("sort", sortable, "--into", into, how)
    places = [row["to"] for row in listed(into)]
    for place in places[-7:]:
        (into / place).unlink()
    said = succeed("sort", "--undo", into)
    assert "34 photos taken back" in said.stdout
    assert "7 photos from the end of the list not there (sorting was interrupted" in said.stderr
    assert said.stderr.strip().endswith(f"removed since): {', '.join(places[-7:-2])}, …")
    assert tree(photos) == before
    assert not into.exists()


@pytest.mark.parametrize(
    "options",
    [["--dry-run"], ["--move"], ["--copy"], ["--link"], ["--only-new"], ["--min-confidence", 0], ["--source", "."]],
)
def test_taking_back_goes_with_no_other_option(sortable, tmp_path, options):
    succeed("sort", sortable, "--into", tmp_path / "sorted")
    before = tree(tmp_path / "sorted")
    fail("sort", "--undo", tmp_path / "sorted", *options, says="--undo takes back .* no option but --quiet")
    assert tree(tmp_path / "sorted") == before


@pytest.mark.parametrize("how", ["copy", "link", "move"])
@pytest.mark.parametrize("place", ["/keep.png", "//keep.png", "owl/..", "./keep.png"])
def test_a_list_never_leads_out_of_its_folder(tmp_path, place, how):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "keep.png").write_bytes(b"keep")
    (tmp_path / "sorted").mkdir()
    row = f"{tmp_path}/photos/keep.png,{place},{how},{tmp_path}/photos"
    (tmp_path / "sorted" / LIST_FILE).write_text(f"from,to,how,root\n{row}\n")
    fail("sort", "--undo", tmp_path / "sorted", says=f"{LIST_FILE} cannot be used: row 2")


@pytest.mark.parametrize(
    ("photo", "root"),
    [
        ("home/.profile", "photos"),
        ("photos/../home/.profile", "photos"),
        ("home/.profile", "photos/../home"),
        ("home/.profile", ""),
    ],
)
def test_nothing_is_moved_back_to_outside_of_the_photos_folder(tmp_path, photo, root):
    for name in ("photos", "home", "sorted/owl"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "sorted" / "owl" / "a.png").write_bytes(b"evil")
    row = f"{tmp_path}/{photo},owl/a.png,move,{tmp_path}/{root}"
    (tmp_path / "sorted" / LIST_FILE).write_text(f"from,to,how,root\n{row}\n")
    fail("sort", "--undo", tmp_path / "sorted", says=f"{LIST_FILE} cannot be used: row 2")
    assert not (tmp_path / "home" / ".profile").exists()
