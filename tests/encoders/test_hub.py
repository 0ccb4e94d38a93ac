"""Models of huggingface.co: what is on this machine needs no network, what is not is announced, or refused soon."""

import logging
import time

import pytest

from newkinds import InputError
from newkinds.encoders import hub, load_encoder
from newkinds.encoders.hub import load_from_hub, was_fetched, why_unreachable
from newkinds.encoders.loading import load_trusted
from newkinds.encoders.packaged import EARLIER_DEFAULT

NAME = "somebody/some-model"


@pytest.fixture
def hub_cache(tmp_path, monkeypatch):
    """Where huggingface_hub keeps what it has fetched: empty."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def fetched(hub_cache):
    """A model, as huggingface_hub leaves it."""
    folder = hub_cache / "models--somebody--some-model"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0" * 40)
    snapshot = folder / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (snapshot / "model.safetensors").write_bytes(b"")
    return folder


@pytest.fixture
def calls():
    """How `load` was called: whether it was to keep off the network."""
    return []


@pytest.fixture
def load(calls):
    def note(offline: bool) -> str:
        calls.append(offline)
        return "the model"

    return note


@pytest.fixture
def answering(monkeypatch):
    monkeypatch.setattr(hub, "why_unreachable", lambda: None)


@pytest.fixture
def silent(monkeypatch):
    """A hub that may not be asked: the test ends if it is."""

    def ask() -> str:
        raise AssertionError("the network was used")

    monkeypatch.setattr(hub, "why_unreachable", ask)


def test_a_folder_never_needs_the_network(tmp_path, silent, load, calls, caplog):
    assert load_from_hub(str(tmp_path), "config.json", load) == "the model"
    assert calls == [True]
    assert not caplog.records


def test_what_was_fetched_before_never_needs_it_again(fetched, silent, load, calls, caplog):
    assert was_fetched(NAME)
    assert load_from_hub(NAME, "config.json", load) == "the model"
    assert calls == [True]
    assert not caplog.records


def test_what_is_not_there_is_fetched_and_said_to_be(hub_cache, answering, load, calls, caplog):
    assert load_from_hub(NAME, "config.json", load) == "the model"
    assert calls == [False]
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        f"{NAME} is not on this machine: fetching it from huggingface.co"
    ]


def test_a_model_of_which_a_file_is_missing_is_fetched(fetched, answering, calls, caplog):
    def load(offline: bool) -> str:
        calls.append(offline)
        if offline:
            raise FileNotFoundError("model.safetensors")
        return "the model"

    assert load_from_hub(NAME, "config.json", load) == "the model"
    assert calls == [True, False]
    calls.clear()
    assert load_from_hub(NAME, "modules.json", load) == "the model"  # it was fetched for another purpose
    assert calls == [False]


def test_a_fault_of_a_fetched_model_is_not_taken_for_its_absence(fetched, silent):
    def load(offline: bool) -> str:
        raise ValueError("an odd configuration")

    with pytest.raises(ValueError, match="an odd configuration"):
        load_from_hub(NAME, "config.json", load)


def test_without_a_network_the_error_says_what_works_offline(hub_cache, monkeypatch, load, calls):
    monkeypatch.setattr(hub, "why_unreachable", lambda: "no route to host")
    says = (
        rf"'{NAME}' cannot be loaded: .*huggingface\.co cannot be reached \(no route to host\).*`newkinds encoders`"
    )
    with pytest.raises(InputError, match=says):
        load_from_hub(NAME, "config.json", load)
    assert calls == []


@pytest.mark.parametrize("name", ["a/b/c", "../x", "-", "a b", "", "x" * 200])
def test_names_that_no_model_can_have_were_never_fetched(hub_cache, name):
    assert not was_fetched(name)


@pytest.mark.parametrize("lost", ["config.json", "model.safetensors"])
def test_a_part_of_a_model_is_no_model(fetched, lost):
    snapshot = fetched / "snapshots" / ("0" * 40)
    (snapshot / lost).unlink()
    assert not was_fetched(NAME)
    absent = fetched / ".no_exist" / ("0" * 40)
    absent.mkdir(parents=True)
    (absent / lost).touch()  # how huggingface_hub remembers that there is no such file
    assert not was_fetched(NAME)


def test_a_run_alone_has_nothing_downloaded(hub_cache, monkeypatch):
    monkeypatch.setattr(hub, "check_reachable", lambda name: pytest.fail("asked the network"))
    with pytest.raises(InputError, match="not on this machine; to have it downloaded, give it"):
        load_trusted(EARLIER_DEFAULT, "f" * 32)


def test_short_names_of_sentence_transformers_are_found(hub_cache, fetched):
    fetched.rename(hub_cache / "models--sentence-transformers--some-model")
    assert was_fetched("some-model")
    assert not was_fetched("another-model")


class Session:
    """In the place of the library for HTTP."""

    def __init__(self, answer):
        self.answer = answer

    def head(self, address: str, timeout: float) -> None:
        assert (address, timeout) == ("https://huggingface.co", hub.PATIENCE)
        self.answer()


def raise_error() -> None:
    raise OSError("no route to host\nat all")


def test_how_the_hub_answers(monkeypatch):
    for answer, why in [(lambda: None, None), (raise_error, "no route to host")]:
        monkeypatch.setattr("huggingface_hub.get_session", lambda answer=answer: Session(answer))
        assert why_unreachable() == why


def test_a_hub_that_keeps_silent_is_given_up(monkeypatch):
    monkeypatch.setattr(hub, "PATIENCE", 0.05)
    monkeypatch.setattr("huggingface_hub.get_session", lambda: Session(lambda: time.sleep(2)))
    assert why_unreachable() == "no answer within 0.05 seconds"


@pytest.mark.parametrize("kind", ["images", "texts"])
def test_a_name_that_would_have_to_be_fetched_is_refused_before_the_libraries_try(hub_cache, monkeypatch, kind):
    monkeypatch.setattr(hub, "why_unreachable", lambda: "no route to host")
    for place in ("transformers.AutoModel.from_pretrained", "sentence_transformers.SentenceTransformer"):
        monkeypatch.setattr(place, lambda *_, **__: pytest.fail("a library was asked"))
    with pytest.raises(InputError, match="cannot be reached"):
        load_encoder(NAME, kind, device="cpu")
