"""Tiny encoders for these tests: ONNX files written byte by byte, Hugging Face models with random weights."""

import json
import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before anything imports huggingface_hub: no test may need a network

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

SIZE = 32
PLAIN = {
    "do_resize": True,
    "size": {"height": SIZE, "width": SIZE},
    "resample": 3,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}
"""A preprocessor_config.json of what the tiny models take."""


@pytest.fixture(scope="session")
def photos(tmp_path_factory) -> list[Path]:
    """Twenty noisy PNG files of different shapes and colours."""
    folder = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(0)
    paths = []
    for i in range(20):
        height, width = random.integers(20, 60, size=2)
        tint = random.integers(0, 160, size=3)
        pixels = (tint + random.integers(0, 90, size=(height, width, 3))).astype(np.uint8)
        paths.append(folder / f"{i:02}.png")
        Image.fromarray(pixels).save(paths[-1])
    return paths


# ONNX, without the package `onnx`: the few messages of onnx.proto that a tiny model needs

FLOAT, UINT8, INT64, HALF = 1, 2, 7, 10
DTYPES = {"float32": FLOAT, "uint8": UINT8, "int64": INT64, "float16": HALF}


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return _number(number << 3) + _number(value)
    value = value.encode() if isinstance(value, str) else value
    return _number(number << 3 | 2) + _number(len(value)) + value


def _node(kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: int | list[int]) -> bytes:
    message = b"".join(_field(1, name) for name in inputs) + b"".join(_field(2, name) for name in outputs)
    message += _field(4, kind)
    for name, value in attributes.items():
        if isinstance(value, int):
            message += _field(5, _field(1, name) + _field(3, value) + _field(20, 2))
        else:
            message += _field(5, _field(1, name) + b"".join(_field(8, each) for each in value) + _field(20, 7))
    return message


def _tensor(name: str, array: np.ndarray, outside: str | None) -> bytes:
    message = b"".join(_field(1, side) for side in array.shape) + _field(2, DTYPES[array.dtype.name])
    message += _field(8, name)
    if outside is None:
        return message + _field(9, array.tobytes())
    place = {"location": outside, "offset": "0", "length": str(array.nbytes)}
    message += b"".join(_field(13, _field(1, key) + _field(2, value)) for key, value in place.items())
    return message + _field(14, 1)


def _value(name: str, dtype: str, shape: Sequence[int | str]) -> bytes:
    dims = b"".join(_field(1, _field(1 if isinstance(side, int) else 2, side)) for side in shape)
    return _field(1, name) + _field(2, _field(1, _field(1, DTYPES[dtype]) + _field(2, dims)))


Write = Callable[..., Path]


@pytest.fixture(scope="session")
def write_onnx() -> Write:
    """Write a model: nodes as (kind, inputs, outputs, attributes), inputs and outputs as (name, dtype, shape)."""

    def write(
        path: Path,
        nodes: Sequence[tuple[str, Sequence[str], Sequence[str], Mapping[str, Any]]],
        inputs: Sequence[tuple[str, str, Sequence[int | str]]],
        outputs: Sequence[tuple[str, str, Sequence[int | str]]],
        weights: Mapping[str, np.ndarray],
        outside: str | None = None,
    ) -> Path:
        graph = b"".join(_field(1, _node(kind, i, o, **a)) for kind, i, o, a in nodes) + _field(2, "tiny")
        graph += b"".join(_field(5, _tensor(name, array, outside)) for name, array in weights.items())
        graph += b"".join(_field(11, _value(*each)) for each in inputs)
        graph += b"".join(_field(12, _value(*each)) for each in outputs)
        path.parent.mkdir(parents=True, exist_ok=True)
        if outside is not None:
            (array,) = weights.values()
            (path.parent / outside).write_bytes(array.tobytes())
        path.write_bytes(_field(1, 8) + _field(7, graph) + _field(8, _field(1, "") + _field(2, 13)))
        return path

    return write


KERNEL = np.random.default_rng(1).normal(size=(5, 3, 4, 4)).astype(np.float32)


@pytest.fixture(scope="session")
def image_onnx(write_onnx) -> Write:
    """An ONNX file of a convolution over patches of 4 x 4 pixels: five numbers an image, or a map of five."""

    def write(
        path: Path,
        *,
        batch: int | str = "n",
        side: int | str = 8,
        dtype: str = "float32",
        n_axes: int = 2,
        kernel: np.ndarray = KERNEL,
        channels_last: bool = False,
        outside: str | None = None,
    ) -> Path:
        shape = (batch, side, side, 3) if channels_last else (batch, 3, side, side)
        nodes: list[Any] = []
        out: tuple[int | str, ...]
        first = "pixels"
        if channels_last:
            nodes.append(("Transpose", ["pixels"], ["turned"], {"perm": [0, 3, 1, 2]}))
            first = "turned"
        # float16 has no convolution on the CPU: the weights stay in float32
        if dtype != "float32":
            nodes.append(("Cast", [first], ["cast"], {"to": FLOAT}))
            first = "cast"
        nodes.append(("Conv", [first, "kernel"], ["map"], {"strides": [4, 4]}))
        if n_axes == 4:
            last, out = "map", (batch, 5, "h", "w")
        elif n_axes == 3:  # (n, tokens, width), as a vision transformer has it
            nodes.append(("Flatten", ["map"], ["flat"], {"axis": 2}))
            nodes[-1] = ("Reshape", ["map", "shape"], ["flat"], {})
            nodes.append(("Transpose", ["flat"], ["tokens"], {"perm": [0, 2, 1]}))
            last, out = "tokens", (batch, "tokens", 5)
        else:
            nodes += [("GlobalAveragePool", ["map"], ["mean"], {}), ("Flatten", ["mean"], ["flat"], {})]
            last, out = "flat", (batch, 5)
        weights = {"kernel": kernel}
        if n_axes == 3:
            weights["shape"] = np.array([0, 5, -1], dtype=np.int64)
        return write_onnx(path, nodes, [("pixels", dtype, shape)], [(last, "float32", out)], weights, outside)

    return write


# Hugging Face


def _model(kind: str) -> Any:
    import torch
    import transformers as hf

    torch.manual_seed(0)
    small: dict[str, Any] = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 48,
    }
    images: dict[str, Any] = {"image_size": SIZE, "patch_size": 8}
    if kind == "vit":
        return hf.ViTModel(hf.ViTConfig(**small, **images))
    if kind == "vit-without-pooler":  # as facebook/dino-vitb16 was published
        return hf.ViTModel(hf.ViTConfig(**small, **images), add_pooling_layer=False)
    if kind == "dinov2":
        return hf.Dinov2Model(hf.Dinov2Config(**{**small, "mlp_ratio": 2}, **images))
    if kind == "clip":
        text = {**small, "vocab_size": 50, "max_position_embeddings": 8, "bos_token_id": 0, "eos_token_id": 1}
        return hf.CLIPModel(hf.CLIPConfig(text_config=text, vision_config={**small, **images}, projection_dim=12))
    if kind == "resnet":
        return hf.ResNetModel(hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1]))
    if kind == "convnextv2":
        return hf.ConvNextV2Model(hf.ConvNextV2Config(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2))
    assert kind == "swin"
    return hf.SwinModel(
        hf.SwinConfig(image_size=SIZE, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[2, 2], window_size=4)
    )


@pytest.fixture(scope="session")
def saved_model(tmp_path_factory) -> Callable[..., Path]:
    """The folder of a tiny model with random weights, made anew each time it is asked for."""

    def save(kind: str, config: Mapping[str, Any] = PLAIN, change: Callable[[Any], None] | None = None) -> Path:
        folder = tmp_path_factory.mktemp(kind)
        model = _model(kind)
        if change is not None:
            change(model)
        model.save_pretrained(folder)
        (folder / "preprocessor_config.json").write_text(json.dumps(config))
        return folder

    return save


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch) -> Path:
    """No test looks into the user's cache, nor into another test's."""
    place: Path = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("NEWKINDS_CACHE", str(place))
    return place


# Fine-tuning


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tiny` is the name of an encoder, for training and for loading what was trained; the head is a small one."""
    from newkinds.encoders import finetune as finetuning
    from newkinds.encoders.packaged import PACKAGED
    from tests.encoders.tiny_training import small_head, tiny_encoder

    monkeypatch.setitem(PACKAGED["images"], "tiny", lambda *_: tiny_encoder())
    monkeypatch.setattr(finetuning, "ProjectionHead", small_head)


@pytest.fixture
def tiny_collection() -> Any:
    """Three colours with noise, 8 of each; of two, half are labelled."""
    from newkinds.data.raw import RawCollection

    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(3), 8)
    colours = np.array([[200, 40, 40], [40, 200, 40], [40, 40, 200]])[truth]
    noise = rng.normal(0, 40, (24, 24, 28, 3))
    items = list(np.clip(colours[:, None, None] + noise, 0, 255).astype(np.uint8))
    labels = np.where((truth < 2) & (np.arange(24) % 2 == 0), truth, -1)
    return RawCollection("images", items, tuple(map(str, range(24))), labels, truth)
