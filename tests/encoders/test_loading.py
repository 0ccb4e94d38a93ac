"""Encoders by name: packaged ones, folders that were fine-tuned, and names and folders that are no good."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from newkinds import InputError
from newkinds.encoders import DEFAULTS, Encoder, load_encoder
from newkinds.encoders.modules import ModuleEncoder
from newkinds.encoders.packaged import PACKAGED


def pixels(n: int = 2, side: int = 32) -> list[np.ndarray]:
    return list(np.random.default_rng(0).integers(0, 256, size=(n, side, side, 3)).astype(np.uint8))


# Packaged: see test_packaged.py


def test_an_encoder_in_the_table_is_found_by_its_name_and_can_be_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[Any] = []

    def load(name: str, device: str, half: bool | None, changes: Any) -> Any:
        made.append((name, device, half, changes))
        return encoder

    encoder = SimpleNamespace(name="own", fingerprint="1234")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(PACKAGED["images"], "own", load)
    monkeypatch.setitem(DEFAULTS, "images", "own")
    by_name: Any = load_encoder("own", "images", device="cpu", half=True, changes={"resize": 9})
    by_default: Any = load_encoder(None, "images", device="cpu")
    assert by_name == by_default == encoder
    assert made == [("own", "cpu", True, {"resize": 9}), ("own", "cpu", None, None)]
    (tmp_path / "own").mkdir()
    with pytest.raises(InputError, match=re.escape(f"{str(tmp_path / 'own')!r} cannot be loaded")):
        load_encoder("own", "images", device="cpu")  # a folder of that name is meant


# Fine-tuned


@pytest.fixture
def base(saved_model) -> Path:
    return saved_model("vit")


@pytest.fixture
def tuned(base: Path, tmp_path: Path) -> Path:
    """A folder as `finetune` makes it: one weight of the base has changed."""
    encoder = load_encoder(str(base), "images", device="cpu")
    write_tuned(tmp_path / "tuned", base=str(base), base_fingerprint=encoder.fingerprint)
    return tmp_path / "tuned"


def write_tuned(folder: Path, **record: Any) -> None:
    folder.mkdir(exist_ok=True)
    save_file({"layernorm.bias": torch.full((32,), 7.0)}, folder / "trained.safetensors")
    (folder / "encoder.json").write_text(json.dumps({"kind": "images", **record}))


def load(folder: Path) -> Encoder:
    return load_encoder(str(folder), "images", device="cpu")


def test_a_fine_tuned_encoder_has_the_tensors_that_changed(base: Path, tuned: Path) -> None:
    before, after = load(base), load(tuned)
    assert isinstance(before, ModuleEncoder)
    assert isinstance(after, ModuleEncoder)
    old, new = before.module.state_dict(), after.module.state_dict()
    assert [name for name in old if not torch.equal(old[name], new[name])] == ["layernorm.bias"]
    assert before.fingerprint != after.fingerprint
    assert after.name == str(tuned.resolve())


def test_the_same_tensors_upon_another_base_are_another_encoder(saved_model, tuned: Path, tmp_path: Path) -> None:
    """Else the cache would give the features of one to the other."""

    def change_a_weight(model: Any) -> None:
        with torch.no_grad():
            model.layernorm.weight[0] += 1

    other = saved_model("vit", change=change_a_weight)
    write_tuned(tmp_path / "other", base=str(other), base_fingerprint=load(other).fingerprint)
    assert not np.allclose(load(tmp_path / "other").encode(pixels()), load(tuned).encode(pixels()))
    assert load(tmp_path / "other").fingerprint != load(tuned).fingerprint


def test_a_fine_tuned_encoder_can_be_fine_tuned(tuned: Path, tmp_path: Path) -> None:
    write_tuned(tmp_path / "twice", base=str(tuned), base_fingerprint=load(tuned).fingerprint)
    assert load(tmp_path / "twice").fingerprint != load(tuned).fingerprint


DAMAGES: tuple[Any, ...] = (None, 3, [], {})
RECORD = {"kind": "images", "base": "nobody/knows-it", "base_fingerprint": "0"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[" * 100_000,
        "null",
        "[]",
        '"text"',
        "{}",
        *(json.dumps({**RECORD, key: value}) for key in RECORD for value in DAMAGES),
        *(json.dumps({name: value for name, value in RECORD.items() if name != key}) for key in RECORD),
    ],
    ids=lambda content: content[:40],
)
def test_a_damaged_record_is_an_input_error(content: str, tuned: Path) -> None:
    (tuned / "encoder.json").write_text(content)
    with pytest.raises(InputError, match="is not a whole encoder"):
        load(tuned)


def test_a_record_that_is_no_text_is_an_input_error(tuned: Path) -> None:
    (tuned / "encoder.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not a whole encoder"):
        load(tuned)


def test_an_encoder_that_was_trained_from_itself_is_an_input_error(tuned: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write_tuned(tuned, base=str(other), base_fingerprint="0")
    write_tuned(other, base=str(tuned), base_fingerprint="0")
    with pytest.raises(InputError, match="says it was trained from itself"):
        load(tuned)
    write_tuned(tuned, base=str(tuned), base_fingerprint="0")
    with pytest.raises(InputError, match="says it was trained from itself"):
        load(tuned)


@pytest.mark.parametrize("content", [b"", b"nothing", b"\xff" * 100, None])
def test_damaged_tensors_are_an_input_error(content: bytes | None, tuned: Path) -> None:
    path = tuned / "trained.safetensors"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match="is not a whole encoder"):
        load(tuned)


@pytest.mark.parametrize("tensors", [{"layernorm.bias": torch.zeros(31)}, {"no.such.weight": torch.zeros(32)}])
def test_tensors_of_another_network_are_an_input_error(tensors: dict[str, torch.Tensor], tuned: Path) -> None:
    save_file(tensors, tuned / "trained.safetensors")
    with pytest.raises(InputError, match="does not fit its encoder"):
        load(tuned)


# Names that are no good


@pytest.mark.parametrize("kind", ["images", "texts"])
@pytest.mark.parametrize("name", ["a\0b", "a\0b.onnx", "no such model", ".."])
def test_a_name_that_cannot_be_is_an_input_error(name: str, kind: Any) -> None:
    with pytest.raises(InputError):
        load_encoder(name, kind, device="cpu")


def test_an_unknown_kind_is_an_input_error() -> None:
    with pytest.raises(InputError, match="kind must be one of images, texts; got 'image'"):
        load_encoder("anything", "image")  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize("error", [AssertionError(), KeyError(), RuntimeError("first\nsecond")])
@pytest.mark.parametrize("kind", ["images", "texts"])
def test_whatever_a_library_raises_is_an_input_error(
    error: Exception, kind: Any, monkeypatch: pytest.MonkeyPatch, base: Path
) -> None:
    """Also an error without any text."""
    import sentence_transformers
    import transformers

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", fail)
    monkeypatch.setattr(sentence_transformers, "SentenceTransformer", fail)
    reason = "first " if str(error) else type(error).__name__
    with pytest.raises(InputError, match=f"cannot be loaded: {reason}"):
        load_encoder(str(base), kind, device="cpu")
