"""Encoders of images by name: tiny models of Hugging Face and ONNX files, what they give and what they refuse."""

import json
import os
import re
import shutil
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from newkinds import InputError
from newkinds.encoders import ImagePreparation, load_encoder
from newkinds.encoders.images import Pooling, huggingface_encoder
from newkinds.encoders.modules import ModuleEncoder
from newkinds.encoders.preparation import PUBLISHED

PLAIN: dict[str, Any] = {
    "do_resize": True,
    "size": {"height": 32, "width": 32},
    "resample": 3,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}


def pixels(n: int = 3, side: int = 32) -> list[np.ndarray]:
    return list(np.random.default_rng(0).integers(0, 256, size=(n, side, side, 3)).astype(np.uint8))


def scaled(encoder, batch) -> torch.Tensor:
    return torch.from_numpy(encoder.preparation.scaled(np.stack(batch)))


# Hugging Face


def output(folder, batch):
    model = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        return model, model(pixel_values=batch)


@pytest.mark.parametrize("kind", ["vit", "dinov2"])
def test_of_a_transformer_the_class_token(saved_model, kind):
    folder = saved_model(kind)
    encoder = load_encoder(str(folder), "images")
    _, expected = output(folder, scaled(encoder, pixels()))
    assert np.allclose(encoder.encode(pixels()), expected.last_hidden_state[:, 0], atol=1e-5)
    assert encoder.encode(pixels()).shape == (3, 32)


@pytest.mark.parametrize("kind", ["swin", "resnet"])
def test_of_others_the_pooled_features(saved_model, kind):
    folder = saved_model(kind)
    encoder = load_encoder(str(folder), "images")
    _, expected = output(folder, scaled(encoder, pixels()))
    assert np.allclose(encoder.encode(pixels()), expected.pooler_output.flatten(1), atol=1e-4)


def test_of_convnext_the_mean_of_the_last_map(saved_model):
    folder = saved_model("convnextv2")
    encoder = load_encoder(str(folder), "images")
    _, expected = output(folder, scaled(encoder, pixels()))
    assert np.allclose(encoder.encode(pixels()), expected.last_hidden_state.mean(dim=(2, 3)), atol=1e-4)


def test_of_clip_its_image_embedding(saved_model):
    folder = saved_model("clip")
    encoder = load_encoder(str(folder), "images")
    model = transformers.CLIPModel.from_pretrained(folder).eval()
    with torch.no_grad():
        vision = model.vision_model(pixel_values=scaled(encoder, pixels()))
        expected = model.visual_projection(vision.pooler_output)
    assert np.allclose(encoder.encode(pixels()), expected, atol=1e-5)
    assert encoder.encode(pixels()).shape == (3, 12)


def test_of_clip_on_request_the_class_token_or_the_mean(saved_model):
    folder = saved_model("clip")
    model = transformers.CLIPModel.from_pretrained(folder).eval()
    poolings: tuple[Pooling, ...] = ("auto", "cls", "mean")
    auto, cls, mean = (huggingface_encoder(str(folder), pooling=pooling) for pooling in poolings)
    with torch.no_grad():
        last = model.vision_model(pixel_values=scaled(cls, pixels())).last_hidden_state
    assert np.allclose(cls.encode(pixels()), last[:, 0], atol=1e-5)
    assert mean.encode(pixels()).shape == (3, 32)
    assert len({auto.fingerprint, cls.fingerprint, mean.fingerprint}) == 3


def test_the_mean_is_that_of_the_patches_without_the_class_token(saved_model):
    folder = saved_model("vit")
    encoder = huggingface_encoder(str(folder), pooling="mean")
    _, expected = output(folder, scaled(encoder, pixels()))
    assert np.allclose(encoder.encode(pixels()), expected.last_hidden_state[:, 1:].mean(dim=1), atol=1e-5)


def test_the_preparation_is_the_models_own(saved_model):
    config = {**PLAIN, "size": {"shortest_edge": 36}, "do_center_crop": True, "crop_size": 32, "resample": 2}
    encoder = load_encoder(str(saved_model("vit", config)), "images")
    mean, std = tuple(PLAIN["image_mean"]), tuple(PLAIN["image_std"])
    assert encoder.preparation == ImagePreparation((32, 32), 36, 2, mean, std)


def test_a_model_saved_with_transformers_own_processor(saved_model):
    folder = saved_model("dinov2")
    kind = getattr(transformers, "BitImageProcessorPil", None) or transformers.BitImageProcessor
    kind(size={"shortest_edge": 36}, crop_size={"height": 32, "width": 32}).save_pretrained(folder)
    preparation = load_encoder(str(folder), "images").preparation
    assert isinstance(preparation, ImagePreparation)
    assert (preparation.size, preparation.resize, preparation.resample) == ((32, 32), 36, 3)


def test_half_precision(saved_model):
    folder = str(saved_model("vit"))
    full, half = load_encoder(folder, "images"), load_encoder(folder, "images", half=True)
    assert (full.precision, half.precision) == ("float32", "float16")
    assert full.fingerprint == half.fingerprint
    assert 0 < np.abs(full.encode(pixels()) - half.encode(pixels())).max() < 0.05


def test_weights_that_were_saved_in_half_precision_compute_in_full(saved_model):
    folder = saved_model("vit", change=lambda model: model.half())
    encoder = load_encoder(str(folder), "images")
    assert encoder.precision == "float32"
    assert isinstance(encoder, ModuleEncoder)
    assert next(encoder.module.parameters()).dtype == torch.float32
    assert np.isfinite(encoder.encode(pixels())).all()


def test_loading_says_nothing(saved_model, capfd):
    folder = saved_model("vit")
    capfd.readouterr()
    load_encoder(str(folder), "images")
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err == ""


# The fingerprint of a model


@pytest.mark.parametrize("kind", ["vit", "dinov2", "clip", "vit-without-pooler"])
def test_a_model_that_is_loaded_twice_is_the_same(saved_model, kind):
    """facebook/dino-vitb16 has no pooler; what stands in for it is random, and must not matter."""
    folder = str(saved_model(kind))
    one, two = load_encoder(folder, "images"), load_encoder(folder, "images")
    assert np.array_equal(one.encode(pixels()), two.encode(pixels()))
    assert one.fingerprint == two.fingerprint


def test_the_fingerprint_does_not_depend_on_the_place(saved_model, tmp_path):
    folder = saved_model("vit")
    shutil.copytree(folder, tmp_path / "moved")
    one, two = load_encoder(str(folder), "images"), load_encoder(str(tmp_path / "moved"), "images")
    assert one.fingerprint == two.fingerprint
    assert two.name == str((tmp_path / "moved").resolve())


def test_the_name_of_a_folder_can_be_used_from_elsewhere(saved_model, monkeypatch, tmp_path):
    folder = saved_model("vit")
    monkeypatch.chdir(folder.parent)
    encoder = load_encoder(folder.name, "images")
    monkeypatch.chdir(tmp_path)
    assert load_encoder(encoder.name, "images").fingerprint == encoder.fingerprint


def change_a_weight(model) -> None:
    with torch.no_grad():
        model.layernorm.bias[0] += 1e-4


def test_the_fingerprint_depends_on_weights_and_preparation(saved_model):
    folders = [
        saved_model("vit"),
        saved_model("vit", change=change_a_weight),
        saved_model("vit", {**PLAIN, "resample": 2}),
        saved_model("vit", {**PLAIN, "image_mean": [0.5, 0.5, 0.5]}),
    ]
    assert len({load_encoder(str(folder), "images").fingerprint for folder in folders}) == 4


def test_the_fingerprint_depends_on_the_models_configuration(saved_model):
    """The same weights with another number of heads, or another activation, are another encoder."""
    folder = saved_model("vit")
    encoder = load_encoder(str(folder), "images")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_attention_heads": 4}))
    other = load_encoder(str(folder), "images")
    assert not np.allclose(encoder.encode(pixels()), other.encode(pixels()), atol=1e-5)
    assert encoder.fingerprint != other.fingerprint


# Errors over models


def refused(name, *says: str):
    with pytest.raises(InputError, match="(?s)" + ".*".join(map(re.escape, says))):
        load_encoder(str(name), "images", device="cpu")


def test_an_unknown_name_says_what_can_be_given():
    refused("nobody/has-such-a-model", "nobody/has-such-a-model", "cannot be loaded", "huggingface.co", ".onnx")


def test_an_image_size_that_a_model_refuses_names_the_option(saved_model):
    encoder = load_encoder(str(saved_model("vit")), "images", device="cpu", changes={"size": (24, 24)})
    with pytest.raises(InputError, match=r"cannot encode these images: .*; --crop sets the size"):
        encoder.encode(pixels(2, 24))


def test_an_empty_folder(tmp_path):
    refused(tmp_path, str(tmp_path), "cannot be loaded", "preprocessor_config.json")


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors", "preprocessor_config.json"])
def test_a_folder_that_lacks_a_file(saved_model, missing):
    folder = saved_model("vit")
    (folder / missing).unlink()
    refused(folder, str(folder), "cannot be loaded")


@pytest.mark.parametrize(
    "damaged",
    [
        "config.json",
        "model.safetensors",
        "preprocessor_config.json",
    ],
)
def test_a_folder_with_a_damaged_file(saved_model, damaged):
    folder = saved_model("vit")
    (folder / damaged).write_bytes((folder / damaged).read_bytes()[:40])
    refused(folder, str(folder))


def test_weights_that_do_not_fit_the_configuration(saved_model):
    folder = saved_model("vit")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "hidden_size": 16}))
    refused(folder, str(folder))


def test_weights_that_are_missing_are_not_made_up(saved_model):
    """transformers would start them at random: the features would mean nothing, and differ each time."""
    folder = saved_model("vit")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 4}))
    refused(folder, str(folder))


def test_a_model_of_texts_is_no_encoder_of_images(tmp_path):
    config = transformers.BertConfig(
        vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    transformers.BertModel(config).save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(PLAIN))
    with pytest.raises(InputError, match=re.escape(str(tmp_path))):
        load_encoder(str(tmp_path), "images").encode(pixels())


def test_a_size_that_the_model_does_not_take(saved_model):
    folder = saved_model("vit", {**PLAIN, "size": {"height": 24, "width": 24}})
    with pytest.raises(InputError, match=re.escape(str(folder))):
        load_encoder(str(folder), "images").encode(pixels(side=24))


def test_an_unknown_device(saved_model):
    with pytest.raises(InputError, match="device"):
        load_encoder("anything", "images", device="abacus")


# ONNX


def expected_of(encoder, kernel, batch) -> np.ndarray:
    """The mean over patches of 4 x 4 of what the kernel makes of them."""
    found = torch.nn.functional.conv2d(scaled(encoder, batch), torch.from_numpy(kernel), stride=4)
    return found.mean(dim=(2, 3)).numpy()


@pytest.fixture(scope="module")
def kernel() -> np.ndarray:
    return np.random.default_rng(5).normal(size=(5, 3, 4, 4)).astype(np.float32)


@pytest.mark.parametrize("n_axes", [2, 4])
@pytest.mark.parametrize("batch", ["n", 4, 1])
def test_an_onnx_file(image_onnx, tmp_path, kernel, batch, n_axes):
    path = image_onnx(tmp_path / "model.onnx", batch=batch, n_axes=n_axes, kernel=kernel)
    encoder = load_encoder(str(path), "images")
    n = min(3, encoder.batch_size)
    found = encoder.encode(pixels(n, 8))
    assert found.dtype == np.float32
    assert found.shape == (n, 5)
    assert np.allclose(found, expected_of(encoder, kernel, pixels(n, 8)), atol=1e-4)
    assert encoder.batch_size == (32 if batch == "n" else batch)
    assert (encoder.kind, encoder.precision, encoder.name) == ("images", "float32", str(path))


def test_an_onnx_file_with_tokens_gives_vectors_of_their_width(image_onnx, tmp_path, kernel):
    """(n, tokens, width) is what vision transformers give; a mean over the width would be of no use."""
    path = image_onnx(tmp_path / "model.onnx", side=12, n_axes=3, kernel=kernel)
    assert load_encoder(str(path), "images").encode(pixels(3, 12)).shape == (3, 5)


def test_an_onnx_file_that_takes_half_precision(image_onnx, tmp_path, kernel):
    encoder = load_encoder(str(image_onnx(tmp_path / "model.onnx", dtype="float16", kernel=kernel)), "images")
    assert encoder.precision == "float16"
    assert np.allclose(encoder.encode(pixels(3, 8)), expected_of(encoder, kernel, pixels(3, 8)), atol=0.05)


def test_the_preparation_beside_an_onnx_file(image_onnx, tmp_path):
    path = image_onnx(tmp_path / "model.onnx")
    usual = load_encoder(str(path), "images")
    assert usual.preparation == ImagePreparation((8, 8), 9)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**PLAIN, "size": 8}))
    own = load_encoder(str(path), "images")
    assert isinstance(own.preparation, ImagePreparation)
    assert own.preparation.resize == (8, 8)
    assert own.fingerprint != usual.fingerprint


def test_a_known_encoder_has_its_published_preparation_and_changes_come_on_top(saved_model, monkeypatch):
    folder = str(saved_model("vit"))
    stretched = load_encoder(folder, "images")
    monkeypatch.setitem(PUBLISHED, folder, {"resize": 36, "resample": 2})
    known = load_encoder(folder, "images")
    assert isinstance(stretched.preparation, ImagePreparation)
    assert known.preparation == replace(stretched.preparation, resize=36, resample=2)
    asked = load_encoder(folder, "images", changes={"resize": 40})
    assert asked.preparation == replace(stretched.preparation, resize=40, resample=2)
    before = load_encoder(folder, "images", changes=stretched.preparation.describe())  # as a run has recorded it
    assert before.preparation == stretched.preparation
    assert before.fingerprint == stretched.fingerprint
    assert len({encoder.fingerprint for encoder in (stretched, known, asked)}) == 3


def test_changes_for_an_onnx_file(image_onnx, tmp_path):
    path = str(image_onnx(tmp_path / "model.onnx"))
    assert load_encoder(path, "images", changes={"resize": 12}).preparation == ImagePreparation((8, 8), 12)
    with pytest.raises(InputError, match=r"takes images of \[8, 8\]; they would be prepared to \(6, 6\)"):
        load_encoder(path, "images", changes={"size": (6, 6)})


def test_texts_are_not_cropped():
    with pytest.raises(InputError, match="texts have no size"):
        load_encoder(None, "texts", changes={"size": (6, 6)})


def test_an_onnx_file_of_any_size_takes_224_pixels(image_onnx, tmp_path):
    encoder = load_encoder(str(image_onnx(tmp_path / "model.onnx", side="side")), "images")
    assert encoder.preparation == ImagePreparation((224, 224), 256)
    assert encoder.encode(pixels(1, 224)).shape == (1, 5)


def test_the_fingerprint_of_an_onnx_file(image_onnx, tmp_path, kernel):
    one = image_onnx(tmp_path / "a" / "model.onnx", kernel=kernel)
    moved = image_onnx(tmp_path / "b" / "other.onnx", kernel=kernel)
    changed = image_onnx(tmp_path / "c" / "model.onnx", kernel=kernel + 1e-5)
    a, b, c = (load_encoder(str(path), "images").fingerprint for path in (one, moved, changed))
    assert a == b != c


def test_the_fingerprint_covers_weights_in_a_file_beside(image_onnx, tmp_path, kernel):
    """As torch.onnx.export writes them: model.onnx and model.onnx.data."""
    found = []
    for factor in (1, 2):
        path = image_onnx(tmp_path / "model.onnx", kernel=factor * kernel, outside="model.onnx.data")
        encoder = load_encoder(str(path), "images")
        found.append((encoder.fingerprint, encoder.encode(pixels(2, 8))))
    assert np.allclose(2 * found[0][1], found[1][1], atol=1e-4)
    assert found[0][0] != found[1][0]


# Optional packages that are not there


@pytest.mark.parametrize(
    ("package", "name", "kind", "extra"),
    [
        ("transformers", "facebook/dinov2-small", "images", "images"),
        ("onnxruntime", "model.onnx", "images", "onnx"),
        ("onnxruntime", "model.onnx", "texts", "onnx"),
        ("sentence_transformers", "all-MiniLM-L6-v2", "texts", "text"),
    ],
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch, package, name, kind, extra):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=re.escape(f'pip install "newkinds[{extra}]"')):
        load_encoder(name, kind, device="cpu")


# Errors over ONNX files


def test_an_onnx_file_that_is_not_there(tmp_path):
    refused(tmp_path / "model.onnx", "model.onnx does not exist")


@pytest.mark.parametrize("content", [b"", b"nothing of the kind", b"\x08\x08"])
def test_a_file_that_is_no_onnx(tmp_path, content):
    (tmp_path / "model.onnx").write_bytes(content)
    refused(tmp_path / "model.onnx", "model.onnx cannot be read as an ONNX model")


def test_a_damaged_onnx_file(image_onnx, tmp_path):
    path = image_onnx(tmp_path / "model.onnx")
    path.write_bytes(path.read_bytes()[:-200])
    refused(path, "model.onnx cannot be read as an ONNX model")


def test_an_onnx_file_that_takes_something_else(write_onnx, tmp_path):
    path = write_onnx(
        tmp_path / "model.onnx",
        [("Relu", ["x"], ["y"], {})],
        [("x", "float32", ("n", 7))],
        [("y", "float32", ("n", 7))],
        {},
    )
    refused(path, "must take one float input of images", "x ['n', 7]")


def test_an_onnx_file_with_channels_last_is_refused(image_onnx, tmp_path):
    refused(image_onnx(tmp_path / "model.onnx", channels_last=True), "must take one float input of images (n, 3,")


def test_an_onnx_file_that_takes_bytes_is_refused(image_onnx, tmp_path):
    refused(image_onnx(tmp_path / "model.onnx", dtype="uint8"), "must take one float input", "tensor(uint8)")


def test_a_preparation_that_does_not_fit_the_onnx_file_is_refused(image_onnx, tmp_path):
    path = image_onnx(tmp_path / "model.onnx")
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**PLAIN, "size": 16}))
    with pytest.raises(InputError, match="16"):
        load_encoder(str(path), "images").encode(pixels(2, 16))


@pytest.mark.parametrize(("batch", "side"), [(0, 8), ("n", 0)])
def test_an_onnx_file_of_nothing_is_refused(image_onnx, tmp_path, batch, side):
    refused(image_onnx(tmp_path / "model.onnx", batch=batch, side=side), "model.onnx")


def test_an_onnx_file_without_inputs_is_refused(write_onnx, tmp_path):
    weights = {"w": np.ones((2, 7), dtype=np.float32)}
    nodes: list[Any] = [("Relu", ["w"], ["y"], {})]
    path = write_onnx(tmp_path / "model.onnx", nodes, [], [("y", "float32", (2, 7))], weights)
    refused(path, "must take one float input of images", "it takes nothing")


def test_an_onnx_file_that_cannot_compute_is_an_input_error(write_onnx, tmp_path):
    """What it computes does not fit together, which shows only when it is run."""
    nodes: list[Any] = [("Reshape", ["pixels", "shape"], ["y"], {})]
    weights = {"shape": np.array([5, -1], dtype=np.int64)}
    inputs, outputs = [("pixels", "float32", ("n", 3, 8, 8))], [("y", "float32", (5, "m"))]
    path = write_onnx(tmp_path / "model.onnx", nodes, inputs, outputs, weights)
    with pytest.raises(InputError, match=r"model\.onnx cannot encode these images: "):
        load_encoder(str(path), "images").encode(pixels(1, 8))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such a name")
def test_a_file_of_any_name_may_lie_beside_an_onnx_file(image_onnx, tmp_path):
    path = image_onnx(tmp_path / "model.onnx")
    before = load_encoder(str(path), "images").fingerprint
    (tmp_path / os.fsdecode(b"photo-\xff")).write_bytes(b"x")
    assert load_encoder(str(path), "images").fingerprint == before
