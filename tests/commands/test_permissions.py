"""Whatever a command writes has the permissions of any new file: those that the umask leaves."""

import os
import stat
from pathlib import Path

import pytest

from newkinds import KMeans
from newkinds.data import digits
from newkinds.discovery import discover
from newkinds.report import write_report
from newkinds.runs import save_run
from newkinds.staging import staged
from tests.commands.command_line import SMALL, succeed

masks = pytest.mark.parametrize("mask", [0o022, 0o002, 0o077], indirect=True, ids="{:03o}".format)


@pytest.fixture
def mask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def other_modes(folder: Path, mask: int) -> dict[str, str]:
    """Files and folders below a folder that have other permissions than they should."""
    odd = {}
    for path in folder.rglob("*"):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if not path.is_symlink() and mode != (0o777 if path.is_dir() else 0o666) & ~mask:
            odd[str(path.relative_to(folder))] = f"{mode:03o}"
    return odd


@masks
def test_of_runs_and_tables(collection, tmp_path, mask):
    place = tmp_path / "work"
    run = place / "run"
    succeed("discover", collection, "--out", run, *SMALL, "-q")
    succeed("discover", collection, "--out", run, *SMALL, "-q", "--force")
    for name in ("a.csv", "a.jsonl", "a.parquet", "a.xlsx"):
        succeed("export", run, place / name, "-q")
    succeed("export", run, place / "a.csv", "-q", "--force")
    succeed("predict", run, collection, "--out", place / "b.csv", "-q")
    assert len(list(place.rglob("*"))) == 13
    assert other_modes(tmp_path, mask) == {}


@masks
def test_of_photos_that_are_encoded_and_sorted(birds, model, tmp_path, monkeypatch, mask):
    place = tmp_path / "work"
    monkeypatch.setenv("NEWKINDS_CACHE", str(place / "cache"))
    options = ["--encoder", model, "--workers", "0", "-q"]
    succeed("discover", birds, "--out", place / "run", *options, *SMALL)
    succeed("encode", birds, "--out", place / "birds.npz", *options)
    succeed("sort", place / "run", "--into", place / "sorted", "--link", "-q")
    assert list((place / "cache").rglob("*.*"))
    assert other_modes(tmp_path, mask) == {}


@masks
def test_of_a_run_that_is_saved_in_python(tmp_path, mask):
    (tmp_path / "run").mkdir()
    save_run(discover(digits(), method=KMeans(10, random_state=0)), tmp_path / "run", "digits")
    write_report(tmp_path / "run")
    assert other_modes(tmp_path, mask) == {}


@masks
def test_of_files_that_others_wrote_for_their_owner_alone(tmp_path, mask):
    with staged(tmp_path / "made", folder=True) as folder:
        (folder / "inside").mkdir()
        descriptor = os.open(folder / "inside" / "secret", os.O_WRONLY | os.O_CREAT, 0o600)
        os.close(descriptor)
    assert other_modes(tmp_path, mask) == {}
