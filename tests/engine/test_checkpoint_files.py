"""The files of checkpoints: damage is noticed, a full disk ends nothing, two commands do not disturb each other."""

import errno
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from newkinds.engine import checkpointing
from newkinds.engine.checkpoints import Arrays, Checkpoint

STATE: Arrays = {"weights": np.arange(6, dtype=np.float32).reshape(2, 3), "_finished": np.array(True)}


def save_state(folder: Path, state: Arrays = STATE) -> Path:
    """The file in which a state was saved."""
    with checkpointing(folder, seconds=0):
        Checkpoint("some work").save(state)
    return next(folder.glob("*.safetensors"))


def load_state(folder: Path) -> Arrays | None:
    with checkpointing(folder, seconds=0):
        return Checkpoint("some work").load()


def same(one: Arrays | None, other: Arrays) -> bool:
    return one is not None and one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in other)


@pytest.mark.filterwarnings("ignore:the saved state")  # it is set aside, with that warning
@settings(max_examples=250)
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_flipped_byte_never_gives_another_state(
    tmp_path_factory: pytest.TempPathFactory, at: int, change: int
) -> None:
    folder = tmp_path_factory.mktemp("states")
    path = save_state(folder)
    content = bytearray(path.read_bytes())
    content[at % len(content)] ^= change
    path.write_bytes(content)
    assert (state := load_state(folder)) is None or same(state, STATE)
    assert path.exists() == (state is not None)


def test_a_damaged_state_is_set_aside_with_a_warning_and_the_next_one_takes_its_place(tmp_path: Path) -> None:
    path = save_state(tmp_path)
    content = bytearray(path.read_bytes())
    content[-2] ^= 1  # of the weights
    path.write_bytes(content)
    with pytest.warns(UserWarning, match=f"{re.escape(str(path))} is damaged .its checksum differs.*begins anew"):
        assert load_state(tmp_path) is None
    (aside,) = tmp_path.iterdir()
    assert aside.name.startswith(path.name)
    assert aside.suffix == ".damaged"
    assert aside.read_bytes() == content
    assert load_state(tmp_path) is None  # nothing more is said
    save_state(tmp_path)
    assert same(load_state(tmp_path), STATE)


def test_rubbish_or_a_folder_in_the_place_of_a_state_is_set_aside(tmp_path: Path) -> None:
    path = save_state(tmp_path)
    for rubbish in (b"", b"[]", np.random.default_rng(0).bytes(1000)):
        path.write_bytes(rubbish)
        with pytest.warns(UserWarning, match="is damaged"):
            assert load_state(tmp_path) is None
    path.mkdir()
    with pytest.warns(UserWarning, match="is damaged .Is a directory"):
        assert load_state(tmp_path) is None
    save_state(tmp_path)


def test_a_state_without_its_checksum_is_damaged(tmp_path: Path) -> None:
    path = save_state(tmp_path)
    path.write_bytes(save(STATE))
    with pytest.warns(UserWarning, match="its checksum differs"):
        assert load_state(tmp_path) is None


def test_a_state_of_an_earlier_version_is_read_until_there_is_a_newer_one(tmp_path: Path) -> None:
    path = save_state(tmp_path)
    old = {"weights": np.ones(2, dtype=np.float32)}
    path.with_name(path.name.replace(".checked", "")).write_bytes(save(old))
    assert same(load_state(tmp_path), STATE)
    path.unlink()
    assert same(load_state(tmp_path), old)


@pytest.mark.parametrize("step", ["write", "fsync", "replace", "mkdtemp"])
def test_a_full_disk_is_one_warning_and_the_last_state_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    save_state(tmp_path)
    with monkeypatch.context() as patch, checkpointing(tmp_path, seconds=0):
        if step == "mkdtemp":
            patch.setattr("tempfile.mkdtemp", full)
        elif step == "write":
            patch.setattr(Path, "write_bytes", full)
        else:
            patch.setattr(os, step, full)
        work = Checkpoint("some work")
        with pytest.warns(UserWarning, match=f"cannot write .*{re.escape(str(tmp_path))}.*: No space left"):
            work.save({"weights": np.zeros(3)})
        work.save({"weights": np.zeros(3)})  # another warning would be an error
        Checkpoint("other work").save({"weights": np.zeros(3)})
    assert same(load_state(tmp_path), STATE)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]  # nothing is half-written
