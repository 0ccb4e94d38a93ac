"""From whatever was read to features: records of encoders, notes, and which samples a run takes."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from newkinds import FeatureSet, InputError, read_features, write_features
from newkinds.data import RawCollection
from newkinds.encoders import Encoding, as_features, encoder_record, features_for, load_encoder

ENCODINGS = ["name", "kind", "fingerprint", "precision", "preparation"]


@pytest.fixture(scope="module")
def model(image_onnx, tmp_path_factory):
    return str(image_onnx(tmp_path_factory.mktemp("model") / "tiny.onnx"))


@pytest.fixture(scope="module")
def other_model(image_onnx, tmp_path_factory):
    kernel = np.random.default_rng(9).normal(size=(5, 3, 4, 4)).astype(np.float32)
    return str(image_onnx(tmp_path_factory.mktemp("model") / "other.onnx", kernel=kernel))


@pytest.fixture
def encoding(model):
    return Encoding(model, device="cpu", workers=0)


@pytest.fixture
def collection(photos, tmp_path):
    """A copy, a broken file, and twenty photos of which ten are labelled."""
    (tmp_path / "copy.png").write_bytes(photos[0].read_bytes())
    (tmp_path / "broken.png").write_bytes(b"nothing")
    paths = [*photos, tmp_path / "copy.png", tmp_path / "broken.png"]
    labels = np.array([i % 2 if i < 10 else -1 for i in range(22)])
    return RawCollection(
        "images",
        paths,
        tuple(path.name for path in paths),
        labels,
        None,
        ("owl", "wren"),
        (("a.heic", "not read"),),
    )


def test_images_become_features_with_everything_that_is_known_of_them(collection, encoding):
    features = as_features(collection, encoding)
    assert features.features.shape == (21, 5)
    assert features.labels.tolist() == collection.labels[:21].tolist()
    assert features.names == ("owl", "wren")
    assert features.ids == collection.ids[:21]
    assert features.images is not None
    assert len(features.images) == 21
    assert max(features.images[0].shape) == 128
    assert features.texts is None
    assert features.encoder is not None
    assert features.encoder["name"] == encoding.name
    assert [name for name, _ in features.skipped] == ["a.heic", "broken.png"]


def test_notes_tell_of_what_was_left_out_and_of_copies(collection, encoding):
    notes = as_features(collection, encoding).notes
    assert "left out: 2 (a.heic: not read; broken.png: is not an image" in notes[0]
    assert any("copy.png and 00.png" in note for note in notes[1:])


def test_notes_do_not_list_hundreds(encoding, photos, tmp_path):
    bad = []
    for i in range(10):
        bad.append(tmp_path / f"{i}.png")
        bad[-1].write_bytes(b"nothing %d" % i)
    paths = [photos[0], *bad]
    collection = RawCollection("images", paths, tuple(path.name for path in paths), np.full(11, -1))
    (note,) = as_features(collection, encoding).notes
    assert "10" in note
    assert note.count(".png") == 3


def test_features_are_taken_as_they_are():
    features = FeatureSet(np.eye(3), np.array([0, -1, -1]))
    assert as_features(features, Encoding()) is features


def test_features_with_an_encoder_are_refused():
    with pytest.raises(InputError, match=r"features already.*'tiny'"):
        as_features(FeatureSet(np.eye(3), np.array([0, -1, -1])), Encoding("tiny"))


def test_the_record_of_an_encoder_is_json(model):
    record = encoder_record(load_encoder(model, "images", device="cpu"))
    assert list(record) == ENCODINGS
    assert json.loads(json.dumps(record))["preparation"]["size"] == [8, 8]


def test_damage_of_the_cache_is_among_the_notes(collection, encoding, tmp_path):
    cached = replace(encoding, cache=tmp_path)
    before = as_features(collection, cached)
    (path,) = tmp_path.rglob("*.records")
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
    after = as_features(collection, cached)
    assert after.notes == (*before.notes, "remembered samples that were damaged and computed again: 1")
    assert np.array_equal(after.features, before.features)


# What a run takes


@pytest.fixture
def made(collection, encoding):
    return as_features(collection, encoding)


def test_new_images_are_encoded_with_the_encoder_of_the_run(made, photos):
    new = RawCollection("images", photos[:3], ("a", "b", "c"), np.full(3, -1))
    found = features_for(made.encoder, new, Encoding(device="cpu", workers=0))
    assert np.array_equal(found.features, made.features[:3])


def test_the_encoder_of_the_run_may_have_moved(made, model, photos, tmp_path):
    moved = shutil.copy(model, tmp_path / "moved.onnx")
    record = {**made.encoder, "name": "/no/longer/there.onnx"}
    new = RawCollection("images", photos[:3], ("a", "b", "c"), np.full(3, -1))
    with pytest.raises(InputError, match=r"'/no/longer/there.onnx', which was never used on this machine"):
        features_for(record, new, Encoding(device="cpu", workers=0))
    found = features_for(record, new, Encoding(str(moved), device="cpu", workers=0))
    assert np.array_equal(found.features, made.features[:3])


def test_another_encoder_is_refused(made, other_model, photos):
    new = RawCollection("images", photos[:3], ("a", "b", "c"), np.full(3, -1))
    with pytest.raises(InputError, match="is not the one the run was made with"):
        features_for(made.encoder, new, Encoding(other_model, device="cpu", workers=0))


def test_an_encoder_that_is_refused_is_refused_before_it_works(made, other_model, photos, tmp_path):
    """A day of encoding, only to be told that the encoder is the wrong one, would be a pity."""
    new = RawCollection("images", photos[:3], ("a", "b", "c"), np.full(3, -1))
    with pytest.raises(InputError, match="is not the one the run was made with"):
        features_for(made.encoder, new, Encoding(other_model, device="cpu", workers=0, cache=tmp_path / "cache"))
    assert not list((tmp_path / "cache").rglob("*.records"))


def test_features_of_another_encoder_are_refused(made):
    other = replace(made, encoder={**made.encoder, "fingerprint": "other", "name": "other.onnx"})
    with pytest.raises(InputError, match=r"these features are of other\.onnx, the run was made with .*tiny\.onnx"):
        features_for(made.encoder, other, Encoding())


def test_features_are_known_by_the_fingerprint_of_their_encoder_not_by_its_name(made):
    changed = replace(made, encoder={**made.encoder, "fingerprint": "other"})
    with pytest.raises(InputError, match=r"these features are of .*tiny\.onnx, the run was made with"):
        features_for(made.encoder, changed, Encoding())
    moved = replace(made, encoder={**made.encoder, "name": "moved.onnx"})
    assert features_for(made.encoder, moved, Encoding()) is moved


def test_features_of_the_same_or_of_an_unknown_encoder_are_taken(made):
    assert features_for(made.encoder, made, Encoding()) is made
    unknown = replace(made, encoder=None)
    assert features_for(made.encoder, unknown, Encoding()) is unknown
    assert features_for(None, made, Encoding()) is made


@pytest.mark.parametrize("key", ["name", "kind", "fingerprint"])
@pytest.mark.parametrize("damage", ["missing", None, 3])
def test_a_damaged_record_of_an_encoder_is_an_input_error(made, photos, key, damage):
    record = {**made.encoder, key: damage}
    if damage == "missing":
        del record[key]
    new = RawCollection("images", photos[:3], ("a", "b", "c"), np.full(3, -1))
    with pytest.raises(InputError, match=f"the run: the record of the encoder is damaged, it has no {key}"):
        features_for(record, new, Encoding(device="cpu", workers=0))
    with pytest.raises(InputError, match=f"the features: the record of the encoder is damaged, it has no {key}"):
        features_for(made.encoder, replace(made, encoder=record), Encoding())


def test_a_run_of_features_refuses_images(photos):
    new = RawCollection("images", photos[:1], ("a",), np.array([-1]))
    with pytest.raises(InputError, match="the run was made of features: give it features, not images"):
        features_for(None, new, Encoding())


def test_a_run_of_images_refuses_texts(made):
    new = RawCollection("texts", ["card"], ("a",), np.array([-1]))
    with pytest.raises(InputError, match="the run was made of images, this is a collection of texts"):
        features_for(made.encoder, new, Encoding())


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_the_record_travels_with_the_features(made, ending, tmp_path):
    write_features(made, tmp_path / f"features.{ending}")
    again = read_features(tmp_path / f"features.{ending}")
    assert again.encoder == json.loads(json.dumps(made.encoder))
    assert np.array_equal(again.features, made.features)
    assert again.ids == made.ids
    assert features_for(made.encoder, again, Encoding()) is again
