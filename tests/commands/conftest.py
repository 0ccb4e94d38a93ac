"""Collections, runs and encoders that the tests of several commands share."""

import shutil
from pathlib import Path

import pytest

from newkinds.encoders.trust import TRUSTED_FILE
from tests.commands.command_line import SMALL, record_of, succeed, write, write_record
from tests.commands.photos import save_model, save_photo

KINDS = {"owl": (200, 60, 40), "wren": (40, 200, 60), "ant": (50, 60, 210)}


@pytest.fixture(scope="session")
def collection(tmp_path_factory):
    """Three directions, of which two are known and half of their samples labelled."""
    return write(tmp_path_factory.mktemp("collection") / "birds.npz")


@pytest.fixture(scope="session")
def made(collection):
    """A run folder; read it, but do not change it."""
    out = collection.parent / "made"
    succeed("discover", collection, "--out", out, *SMALL)
    return out


@pytest.fixture
def run(made, tmp_path):
    """A run folder of the test's own."""
    copy = tmp_path / "run"
    copy.mkdir()
    for file in made.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


@pytest.fixture(scope="session", autouse=True)
def shared_cache(tmp_path_factory):
    """Where the fixtures that several tests share remember things."""
    place = tmp_path_factory.mktemp("shared-cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEWKINDS_CACHE", str(place))
        yield place


@pytest.fixture(autouse=True)
def own_cache(shared_cache, tmp_path_factory, monkeypatch):
    """No test looks into the user's cache, nor into another test's; the encoders of shared runs are trusted."""
    place = tmp_path_factory.mktemp("cache")
    if (shared_cache / TRUSTED_FILE).exists():
        shutil.copy(shared_cache / TRUSTED_FILE, place)
    monkeypatch.setenv("NEWKINDS_CACHE", str(place))
    return place


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("models") / "tiny", 0)


@pytest.fixture(scope="session")
def other_model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("models") / "other", 1)


@pytest.fixture(scope="session")
def birds(tmp_path_factory):
    """Labelled owls and wrens, unlabelled photos of all three kinds; a broken file and a copy among them."""
    folder = tmp_path_factory.mktemp("photos") / "birds"
    for number, (name, colour) in enumerate(KINDS.items()):
        for i in range(8):
            if name != "ant":
                save_photo(folder / name / f"{i}.png", colour, 100 * number + i)
            save_photo(folder / "unlabelled" / f"{name}-{i}.png", colour, 100 * number + 50 + i)
    (folder / "unlabelled" / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 nothing")
    shutil.copy(folder / "owl" / "0.png", folder / "unlabelled" / "copy.png")
    return folder


@pytest.fixture(scope="session")
def photo_run(birds, model, tmp_path_factory):
    """A run folder; read it, but do not change it. And what was said."""
    folder = tmp_path_factory.mktemp("runs")
    out = folder / "run"
    options = ["--encoder", model, "--cache", folder / "cache", "--workers", "0"]
    return out, succeed("discover", birds, "--out", out, *options, *SMALL)


@pytest.fixture(scope="session")
def new_photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("new")
    for number, colour in enumerate(KINDS.values()):
        save_photo(folder / f"{number}.png", colour, 1000 + number)
    return folder


@pytest.fixture
def photos(birds, tmp_path):
    """The photos of a run, of the test's own."""
    return Path(shutil.copytree(birds, tmp_path / "photos"))


@pytest.fixture
def sortable(photo_run, photos, tmp_path):
    """A run of these photos, of the test's own."""
    run = Path(shutil.copytree(photo_run[0], tmp_path / "run"))
    record = record_of(run)
    record["source"]["root"] = str(photos)
    write_record(run, record)
    return run
