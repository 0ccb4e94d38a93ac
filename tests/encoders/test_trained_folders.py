"""Folders that `newkinds finetune` made, damaged or made up: an error that says so, never a traceback."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from newkinds import InputError
from newkinds.encoders import load_encoder
from newkinds.encoders.finetune import finetune
from newkinds.encoders.packaged import PACKAGED
from tests.encoders.tiny_training import SMALL, load_encoder_from, tiny_encoder

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
WHOLE = re.compile("[0-9a-f]{32}")
"""A fingerprint: nothing was refused."""
KEYS = ("kind", "base", "base_fingerprint", "tensors_sha256", "settings", "losses")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder that was trained from `tiny`, with an `encoder.json` for each test to write."""
    place = tmp_path_factory.mktemp("trained")
    save_file({"blocks.2.weight": torch.zeros(8, 8, 1, 1)}, place / "trained.safetensors")
    return place


def load_with(folder: Path, content: bytes) -> str:
    """What loading says; the fingerprint if it goes well. Anything but an InputError fails the test."""
    (folder / "encoder.json").write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PACKAGED["images"], "tiny", lambda *_: tiny_encoder())
        patch.setenv("NEWKINDS_CACHE", str(folder / "cache"))
        try:
            return load_encoder(str(folder), "images", device="cpu").fingerprint
        except InputError as error:
            return str(error)


@cache
def valid() -> dict[str, Any]:
    return {"kind": "images", "base": "tiny", "base_fingerprint": tiny_encoder().fingerprint}


def test_the_record_that_the_others_are_made_from_is_valid(folder: Path) -> None:
    assert WHOLE.fullmatch(load_with(folder, json.dumps(valid()).encode()))


@settings(max_examples=300)
@given(st.binary(max_size=30) | VALUES.map(lambda value: json.dumps(value).encode()))
@pytest.mark.slow
def test_an_encoder_json_of_any_shape_is_an_input_error(folder: Path, content: bytes) -> None:
    assert "is not a whole encoder" in load_with(folder, content)


@settings(max_examples=300)
@given(st.sampled_from(KEYS), VALUES | st.sampled_from([".", "..", "/", "a\0b", "a" * 5000, "\ud800", "tiny/x"]))
def test_an_edited_encoder_json_is_an_input_error_or_the_same_encoder(folder: Path, key: str, value: Any) -> None:
    said = load_with(folder, json.dumps({**valid(), key: value}).encode())
    unread = key in ("settings", "losses") or (key, value) in valid().items()
    assert WHOLE.fullmatch(said) if unread else str(folder) in said or "no encoder can be called" in said, said


@settings(max_examples=200)
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_an_encoder_json_with_a_flipped_byte(folder: Path, at: int, change: int) -> None:
    content = bytearray(json.dumps(valid()).encode())
    content[at % len(content)] ^= change
    said = load_with(folder, bytes(content))
    assert not WHOLE.fullmatch(said) or json.loads(content).items() >= valid().items()


def test_trained_weights_with_a_flipped_bit_are_refused(
    tiny: None, tiny_collection: Any, tmp_path: Path, own_cache: Path
) -> None:
    finetune(tiny_collection, "tiny", tmp_path / "own", SMALL, device="cpu")
    load_encoder_from(tmp_path / "own")
    content = bytearray((tmp_path / "own" / "trained.safetensors").read_bytes())
    content[-3] ^= 1
    (tmp_path / "own" / "trained.safetensors").write_bytes(content)
    with pytest.raises(InputError, match=r"is not a whole encoder: the checksum of trained\.safetensors differs"):
        load_encoder_from(tmp_path / "own")
