"""Which encoders a run may name: the package's own, and those that were given on this machine before."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newkinds import PIM, InputError
from newkinds.data import digits
from newkinds.data.raw import RawCollection
from newkinds.discovery import discover
from newkinds.encoders import (
    Encoding,
    as_features,
    encoder_record,
    features_for,
    load_encoder,
    loading,
)
from newkinds.encoders.finetune import finetune
from newkinds.encoders.packaged import DEFAULTS, PACKAGED, is_own
from newkinds.encoders.trust import MOST_FINGERPRINTS, TRUSTED_FILE, remember_encoder, trusted_encoders
from newkinds.runs import load, save_run
from tests.commands.command_line import SMALL as COMMAND_SMALL
from tests.commands.command_line import fail, record_of, succeed, write_record
from tests.encoders.tiny_training import SMALL, load_encoder_from, tiny_encoder

QUICK = PIM(n_categories=10, lam=0.3, temperature=25, max_iter=3, consensus=1)
OTHER_KERNEL = np.ones((5, 3, 4, 4), dtype=np.float32)
PLAIN = Encoding(device="cpu", workers=0)
NEVER = "the run was made with the encoder {name!r}, which was never used on this machine; if you trust it, give it"


@pytest.fixture
def model(image_onnx, tmp_path: Path) -> Path:
    path: Path = image_onnx(tmp_path / "tiny.onnx")
    return path


@pytest.fixture
def new(photos: list[Path]) -> RawCollection:
    return RawCollection("images", photos[:3], ("a", "b", "c"), np.full(3, -1))


@pytest.fixture
def record(model: Path) -> dict[str, Any]:
    """Of a run that somebody else made with the model."""
    return encoder_record(loading.load_named(str(model), "images", device="cpu", half=None))


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the encoders that are really loaded."""
    names: list[str] = []
    real = loading.load_named

    def load(name: Any, *args: Any, **kwargs: Any) -> Any:
        names.append(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(loading, "load_named", load)
    return names


def never(name: object) -> str:
    return re.escape(NEVER.format(name=str(name)))


def test_an_encoder_that_was_never_given_is_not_loaded(record, new, model, loads) -> None:
    with pytest.raises(InputError, match=never(model) + re.escape(f": newkinds.load(run, encoder={str(model)!r})")):
        features_for(record, new, PLAIN)
    assert loads == []


def test_once_given_with_the_run_it_is_remembered(record, new, model) -> None:
    features = features_for(record, new, Encoding(str(model), device="cpu", workers=0)).features
    assert np.array_equal(features_for(record, new, PLAIN).features, features)


@pytest.mark.parametrize("how", ["as_features", "load_encoder"])
def test_an_encoder_that_was_given_elsewhere_is_trusted(record, new, model, how: str) -> None:
    if how == "as_features":
        as_features(new, Encoding(str(model), device="cpu", workers=0))
    else:
        load_encoder(str(model), device="cpu")
    assert trusted_encoders() == {str(model): [record["fingerprint"]]}
    assert len(features_for(record, new, PLAIN)) == 3


def test_a_relative_path_in_a_run_is_trusted_by_where_it_leads(record, new, model, tmp_path, monkeypatch, loads):
    """The folder in which a command is run may hold anything."""
    load_encoder(str(model), device="cpu")
    loads.clear()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(model, elsewhere / "tiny.onnx")
    relative = {**record, "name": "tiny.onnx"}
    monkeypatch.chdir(elsewhere)
    with pytest.raises(InputError, match=never("tiny.onnx")):
        features_for(relative, new, PLAIN)
    assert loads == []
    monkeypatch.chdir(model.parent)
    assert len(features_for(relative, new, PLAIN)) == 3


def test_a_folder_called_like_an_encoder_of_our_own_is_not_trusted(record, new, tmp_path, monkeypatch, loads):
    monkeypatch.chdir(tmp_path)
    Path(DEFAULTS["images"]).mkdir(parents=True)
    with pytest.raises(InputError, match=never(DEFAULTS["images"])):
        features_for({**record, "name": DEFAULTS["images"]}, new, PLAIN)
    assert loads == []


def test_encoders_of_our_own_need_not_be_given(new, monkeypatch) -> None:
    monkeypatch.setitem(PACKAGED["images"], "tiny", lambda *_: tiny_encoder())
    assert len(features_for(encoder_record(tiny_encoder()), new, PLAIN)) == 3
    assert all(is_own(name) for name in ("all-MiniLM-L6-v2", "efficientnet-lite0", *DEFAULTS.values()))
    assert not is_own("somebody/else")


def test_an_encoder_that_was_another_when_it_was_given_is_refused_before_it_is_loaded(record, new, model, loads):
    remember_encoder(str(model), "0" * 32)
    with pytest.raises(InputError, match="is not the one the run was made with"):
        features_for(record, new, PLAIN)
    assert loads == []


def test_an_encoder_that_has_changed_since_is_refused_and_not_remembered(record, new, model, image_onnx) -> None:
    load_encoder(str(model), device="cpu")
    image_onnx(model, kernel=OTHER_KERNEL)
    with pytest.raises(InputError, match="is not the one the run was made with"):
        features_for(record, new, PLAIN)
    assert trusted_encoders() == {str(model): [record["fingerprint"]]}


def test_the_default_encoder_is_not_written_down(monkeypatch, own_cache) -> None:
    monkeypatch.setitem(PACKAGED["images"], "tiny", lambda *_: tiny_encoder())
    monkeypatch.setitem(DEFAULTS, "images", "tiny")
    load_encoder(None, device="cpu")
    assert not list(own_cache.iterdir())


def test_names_that_no_file_can_have(record, new) -> None:
    for name in ("a\0b", "a" * 5000, "../" * 3000):
        with pytest.raises(InputError):
            features_for({**record, "name": name}, new, PLAIN)
        with pytest.raises(InputError):
            load_encoder(name, device="cpu")


def test_a_name_that_would_change_the_terminal_is_shown_in_escapes(record, new) -> None:
    with pytest.raises(InputError) as refusal:
        features_for({**record, "name": "x\x1b]0;owned\x07"}, new, PLAIN)
    assert str(refusal.value).isprintable()


# The file


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"a": 3}',
        b'{"a": ["1", 2]}',
        b'{"a": "1", "a": "2"}',
        b"\xff",
        b"[" * 100_000,
        b'{"a": NaN}',
        b'{"a": "1"',
    ],
)
def test_a_damaged_list_trusts_nothing_and_is_written_anew(own_cache, content: bytes) -> None:
    (own_cache / TRUSTED_FILE).write_bytes(content)
    assert trusted_encoders() == {}
    remember_encoder("b", "2")
    assert json.loads((own_cache / TRUSTED_FILE).read_text()) == {"b": ["2"]}


@settings(max_examples=30)
@given(st.dictionaries(st.text(), st.text(), max_size=5))
def test_what_is_remembered_is_read_again(tmp_path_factory, encoders: dict[str, str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEWKINDS_CACHE", str(tmp_path_factory.mktemp("cache")))
        for name, mark in encoders.items():
            remember_encoder(name, mark)
        assert trusted_encoders() == {name: [mark] for name, mark in encoders.items()}


def test_the_last_fingerprints_of_a_name_are_remembered(own_cache) -> None:
    (own_cache / TRUSTED_FILE).write_text('{"a": "first"}')  # as earlier versions wrote it
    for mark in map(str, range(MOST_FINGERPRINTS)):
        assert "first" in trusted_encoders()["a"]
        remember_encoder("a", mark)
    assert trusted_encoders()["a"] == [str(mark) for mark in range(MOST_FINGERPRINTS)]


def test_an_encoder_is_trusted_in_every_way_that_it_was_given(new, model) -> None:
    plain = as_features(new, Encoding(str(model), device="cpu", workers=0))
    whole = as_features(new, Encoding(str(model), device="cpu", workers=0, changes={"resize": (8, 8)}))
    assert plain.encoder is not None
    assert whole.encoder is not None
    assert plain.encoder["fingerprint"] != whole.encoder["fingerprint"]
    for made in (plain, whole):
        assert np.array_equal(features_for(made.encoder, new, PLAIN).features, made.features)
    with pytest.raises(InputError, match="its preparation is 'stretched'"):
        features_for({**whole.encoder, "preparation": "stretched"}, new, PLAIN)
    with pytest.raises(InputError, match="images cannot be prepared by"):
        features_for({**whole.encoder, "preparation": {"zoom": 3}}, new, PLAIN)


def test_a_cache_that_cannot_be_written_only_forgets(model, own_cache, monkeypatch, tmp_path) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("NEWKINDS_CACHE", str(tmp_path / "file"))
    load_encoder(str(model), device="cpu")
    assert trusted_encoders() == {}


# Encoders that were trained


def test_the_base_of_a_trained_encoder_must_be_trusted_too(
    tiny: None, tiny_collection: RawCollection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    finetune(tiny_collection, "tiny", tmp_path / "own", SMALL, device="cpu")
    load_encoder_from(tmp_path / "own")
    record = json.loads((tmp_path / "own" / "encoder.json").read_text())
    (tmp_path / "own" / "encoder.json").write_text(json.dumps({**record, "base": "somebody/else"}))
    with pytest.raises(InputError, match="trained from the encoder 'somebody/else', which was never used"):
        load_encoder_from(tmp_path / "own")
    remember_encoder("somebody/else", "0" * 32)
    with pytest.raises(InputError, match="was trained from another 'somebody/else'"):
        load_encoder_from(tmp_path / "own")


# On the command line


def test_predict_with_the_run_of_somebody_else(
    photos: list[Path], model: Path, tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused without --encoder, in the folder where its encoder lies too; then remembered."""
    monkeypatch.chdir(model.parent)
    for number, photo in enumerate(photos):
        target = tmp_path / "photos" / ("unlabelled" if number > 9 else "ab"[number % 2])
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(photo, target)
    run, few = tmp_path / "run", ["--workers", "0"]
    succeed("discover", tmp_path / "photos", "--encoder", model, "--out", run, *few, *COMMAND_SMALL)
    ask = ["predict", run, photos[0].parent, *few]
    answers = succeed(*ask).stdout
    (own_cache / TRUSTED_FILE).unlink()
    record = record_of(run)
    record["encoder"]["name"] = "tiny.onnx"
    write_record(run, record)
    fail(*ask, says="'tiny.onnx', which was never used on this machine; if you trust it", stdin=b"y\n" * 5)
    assert succeed(*ask, "--encoder", "tiny.onnx").stdout == answers
    assert succeed(*ask).stdout == answers


# In Python


def test_loading_a_run_loads_no_encoder_unless_it_is_given(tmp_path, record, new, model, image_onnx, loads) -> None:
    run = tmp_path / "run"
    run.mkdir()
    save_run(discover(replace(digits(), encoder=record), method=QUICK), run, "photos")
    model.rename(moved := tmp_path / "moved.onnx")
    written = load(run).encoder_
    assert written["name"] == record["name"]
    assert loads == []
    given = load(run, encoder=str(moved)).encoder_
    assert given == {**written, "name": str(moved.resolve())}
    assert len(features_for(given, new, PLAIN).features) == len(new)
    with pytest.raises(InputError, match="is not the one the run was made with"):
        load(run, encoder=str(image_onnx(tmp_path / "other.onnx", kernel=OTHER_KERNEL)))


def test_a_run_of_features_takes_no_encoder(tmp_path, model) -> None:
    save_run(discover(digits(), method=QUICK), tmp_path, "digits")
    with pytest.raises(InputError, match=r"the run was made of features; the encoder .* has nothing to do"):
        load(tmp_path, encoder=str(model))
