"""What is written is whole or not there, and nobody's work is lost: neither by us nor by a power failure."""

import errno
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from newkinds import InputError, staging
from newkinds.staging import accept_existing, check_not_read, check_place, claimed, refuse_existing, staged

OURS = ("a", "b")
NEW, OLD = "new", "old"


def make(target: Path, content: str = NEW, *, folder: bool, **options: Any) -> None:
    with staged(target, folder=folder, **options) as stage:
        for path in [stage / name for name in OURS] if folder else [stage]:
            path.write_text(content)


def content(target: Path) -> dict[str, str] | str:
    return {path.name: path.read_text() for path in target.iterdir()} if target.is_dir() else target.read_text()


def expected(text: str, folder: bool) -> dict[str, str] | str:
    return dict.fromkeys(OURS, text) if folder else text


both = pytest.mark.parametrize("folder", [False, True], ids=["file", "folder"])


@both
def test_it_appears_when_it_is_whole_and_nothing_else_is_left(tmp_path: Path, folder: bool) -> None:
    target = tmp_path / "deep" / "target"
    with staged(target, folder=folder) as stage:
        (stage / "a" if folder else stage).write_text("half")
        assert not target.exists()
    assert target.exists()
    assert os.listdir(target.parent) == ["target"]


@both
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_failure_leaves_what_was_there_and_nothing_else(
    tmp_path: Path, folder: bool, error: type[BaseException]
) -> None:
    def fail(target: Path) -> None:
        with staged(target, folder=folder, replace=accept_existing) as stage:
            (stage / "a" if folder else stage).write_text("half")
            raise error

    with pytest.raises(error):
        fail(tmp_path / "target")
    assert os.listdir(tmp_path) == []
    make(tmp_path / "target", OLD, folder=folder)
    with pytest.raises(error):
        fail(tmp_path / "target")
    assert os.listdir(tmp_path) == ["target"]
    assert content(tmp_path / "target") == expected(OLD, folder)


@both
def test_what_is_there_is_replaced_only_where_that_was_allowed(tmp_path: Path, folder: bool) -> None:
    target = tmp_path / "target"
    make(target, OLD, folder=folder)
    with pytest.raises(InputError, match="already exists; choose another place, or replace it with overwrite=True"):
        make(target, folder=folder)
    assert content(target) == expected(OLD, folder)
    make(target, folder=folder, replace=accept_existing, ours=OURS)
    assert content(target) == expected(NEW, folder)
    assert os.listdir(tmp_path) == ["target"]


@both
def test_what_appears_meanwhile_stays_and_the_work_is_not_lost(tmp_path: Path, folder: bool) -> None:
    target = tmp_path / "run.d"
    (tmp_path / "run-2.d").write_text("taken, too")

    def appears(path: Path) -> None:
        """Somebody makes the target while we are at work."""
        if folder:
            path.mkdir()
            (path / "thesis.txt").write_text("years of work")
        else:
            path.write_text("years of work")

    def work() -> None:
        with staged(target, folder=folder) as stage:
            for path in [stage / name for name in OURS] if folder else [stage]:
                path.write_text(NEW)
            appears(target)

    with pytest.raises(InputError, match=r"run\.d already exists.* The result is in .*run-3\.d$"):
        work()
    assert content(target) == ({"thesis.txt": "years of work"} if folder else "years of work")
    assert content(tmp_path / "run-2.d") == "taken, too"
    assert content(tmp_path / "run-3.d") == expected(NEW, folder)
    assert len(os.listdir(tmp_path)) == 3


@both
@pytest.mark.parametrize("moment", ["writing", "syncing"])
def test_a_full_disk_is_an_error_that_names_the_place(
    tmp_path: Path, folder: bool, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "target", OLD, folder=folder)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if moment == "syncing":
        monkeypatch.setattr(os, "fsync", full)
    with (
        pytest.raises(
            InputError, match=r"cannot write .*target: No space left on device; nothing was changed there"
        ),
        staged(tmp_path / "target", folder=folder, replace=accept_existing, ours=OURS) as stage,
    ):
        full() if moment == "writing" else (stage / "a" if folder else stage).touch()
    assert content(tmp_path / "target") == expected(OLD, folder)
    assert os.listdir(tmp_path) == ["target"]


def test_files_in_a_folder_of_ours_that_we_did_not_write_stay(tmp_path: Path) -> None:
    target = tmp_path / "run"
    make(target, OLD, folder=True)
    (target / "note.txt").write_text("mine")
    (target / "deep" / "er").mkdir(parents=True)
    (target / "deep" / "er" / "data.bin").write_bytes(b"\0\1")
    (target / "link").symlink_to("note.txt")
    make(target, folder=True, replace=accept_existing, ours=OURS)
    assert {path.name for path in target.iterdir()} == {*OURS, "note.txt", "deep", "link"}
    assert (target / "a").read_text() == NEW
    assert (target / "note.txt").read_text() == "mine"
    assert (target / "deep" / "er" / "data.bin").read_bytes() == b"\0\1"
    assert (target / "link").readlink() == Path("note.txt")
    assert os.listdir(tmp_path) == ["run"]


@both
def test_links_devices_and_pipes_are_never_written_to(tmp_path: Path, folder: bool) -> None:
    (tmp_path / "real").write_text("kept")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    says = {
        "link": "is a link",
        "dangling": "is a link",
        "pipe": "is neither a file nor",
        "socket": "is neither a file nor",
    }
    before = sorted(os.listdir(tmp_path))
    for name, message in says.items():
        with pytest.raises(InputError, match=f"/{name} {message}"):
            make(tmp_path / name, folder=folder, replace=accept_existing)
    with pytest.raises(InputError, match="neither a file nor"):
        check_place(Path("/dev/null"))
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "real").read_text() == "kept"


@both
@pytest.mark.parametrize("name", ["a\0b", "a\ud800b", ".."])
def test_a_name_that_nothing_can_have_is_refused(tmp_path: Path, folder: bool, name: str) -> None:
    with pytest.raises(InputError, match=r"no file can be called|cannot be written to"):
        make(tmp_path / name, folder=folder)
    assert os.listdir(tmp_path) == []


def test_a_file_where_a_folder_should_be_and_the_other_way_round(tmp_path: Path) -> None:
    make(tmp_path / "file", OLD, folder=False)
    make(tmp_path / "folder", OLD, folder=True)
    with pytest.raises(InputError, match="folder is a folder; give the name of a file"):
        make(tmp_path / "folder", folder=False, replace=accept_existing)
    with pytest.raises(InputError, match="file is a file; choose another place"):
        make(tmp_path / "file", folder=True, replace=accept_existing)
    with pytest.raises(InputError, match=r"cannot write to .*file"):
        make(tmp_path / "file" / "below", folder=False)


def test_the_folder_one_is_in_is_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "run", OLD, folder=True)
    (tmp_path / "run" / "deep").mkdir()
    for inside in ("run", "run/deep"):
        monkeypatch.chdir(tmp_path / inside)
        with pytest.raises(InputError, match="is the folder you are in, or holds it"):
            make(tmp_path / "run", folder=True, replace=accept_existing, ours=OURS)


def test_what_is_read_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "d.npz").write_text("data")
    os.link(tmp_path / "d.npz", tmp_path / "same.npz")
    for name in ("d.npz", "same.npz", "./d.npz"):
        with pytest.raises(InputError, match="is what is read; choose another place"):
            check_not_read(tmp_path / name, None, tmp_path / "d.npz")
    check_not_read(tmp_path / "other.npz", tmp_path / "d.npz", "cub:downloads", "bad\0name")


def test_a_second_command_for_one_place_is_refused_at_its_start(tmp_path: Path) -> None:
    target = tmp_path / "run"
    with claimed(target):
        make(target, folder=True)  # whoever holds the claim may write
        code = "import sys; from pathlib import Path; from newkinds.staging import claimed\n"
        code += f"with claimed(Path({str(target)!r})): pass"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert other.returncode == 1
        assert f"another command is writing to {target} (process {os.getpid()})" in other.stderr
        with claimed(tmp_path / "elsewhere"):
            pass
    assert os.listdir(tmp_path) == ["run"]
    with claimed(target):
        pass


@both
def test_files_have_the_permissions_of_new_files(tmp_path: Path, folder: bool) -> None:
    mask = os.umask(0o027)
    try:
        with staged(tmp_path / "target", folder=folder) as stage:
            path = stage / "a" if folder else stage
            path.touch(mode=0o600)
    finally:
        os.umask(mask)
    target = tmp_path / "target" / "a" if folder else tmp_path / "target"
    assert target.stat().st_mode & 0o777 == 0o640


def killed_at(target: Path, folder: bool, step: int, plain: bool) -> None:
    """In a process of its own: write, and die at the n-th call that brings something onto the disk."""
    steps = iter(range(10_000))

    def dying(function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            if next(steps) == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return call

    for name in ("rename", "replace", "link", "fsync"):
        setattr(os, name, dying(getattr(os, name)))
    renameat2 = staging._renameat2
    staging._renameat2 = (lambda *_: False) if plain else dying(renameat2)
    make(target, folder=folder, replace=accept_nothing_but_ours, ours=OURS)


def accept_nothing_but_ours(target: Path) -> None:
    if target.is_dir() and not set(OURS) <= set(os.listdir(target)):
        refuse_existing(target)


@both
@pytest.mark.parametrize("plain", [False, True], ids=["one step", "system without exchange"])
@pytest.mark.parametrize("earlier", [False, True], ids=["first", "again"])
def test_whenever_the_power_fails_there_is_the_old_or_the_new_whole(
    tmp_path: Path, folder: bool, plain: bool, earlier: bool
) -> None:
    context = multiprocessing.get_context("fork")
    target, outcomes = tmp_path / "target", set()
    for step in range(40):
        if earlier:
            make(target, OLD, folder=folder, replace=accept_existing, ours=OURS)
            if folder:
                (target / "note").write_text("mine")
        process = context.Process(target=killed_at, args=(target, folder, step, plain))
        process.start()
        process.join()
        with claimed(target):  # the next command for the place
            staging._remove_leftovers(target, is_claimed=True)
        assert os.listdir(tmp_path) == (["target"] if target.exists() else [])
        if target.exists():
            found = content(target)
            if earlier and folder:
                assert isinstance(found, dict)
                assert found.pop("note") == "mine"
            assert found in (expected(OLD, folder), expected(NEW, folder))
            outcomes.add(OLD if found == expected(OLD, folder) else NEW)
            if not earlier:
                shutil.rmtree(target) if folder else target.unlink()
        else:
            assert not earlier
        if process.exitcode == 0:
            break
    else:
        pytest.fail("it never came to its end")
    assert step >= (3 if folder else 2)
    assert outcomes == ({OLD, NEW} if earlier else {NEW})


@pytest.mark.parametrize("has_links", [True, False])
def test_where_the_system_has_no_such_rename_nothing_is_replaced_either(tmp_path, monkeypatch, has_links):
    def no_links(*_, **__):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(staging, "_renameat2", lambda *_: False)
    if not has_links:
        monkeypatch.setattr(os, "link", no_links)
    (tmp_path / "new").write_text("new")
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(FileExistsError):
        staging.rename_to_free(tmp_path / "new", tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "mine"
    staging.rename_to_free(tmp_path / "new", tmp_path / "free")
    assert (tmp_path / "free").read_text() == "new"
    assert not (tmp_path / "new").exists()
