"""The state of a fine-tuning on disk: whose it is, what damage and a full disk do."""

import errno
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newkinds.data.raw import RawCollection
from newkinds.encoders import finetune as finetuning
from newkinds.encoders import training_state
from newkinds.encoders.finetune import Finetuning, _Training, finetune
from newkinds.errors import InputError
from tests.encoders.tiny_training import SMALL, load_encoder_from, tiny_encoder


@pytest.fixture
def interrupted(
    tiny: None, tiny_collection: RawCollection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The folder with the state of a training to `own` that was interrupted after its first epoch."""
    real = _Training.save

    def save_and_stop(self: _Training, folder: Path) -> None:
        real(self, folder)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_Training, "save", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            finetune(tiny_collection, "tiny", tmp_path / "own", SMALL, device="cpu")
    return tmp_path / ".own.state"


def test_a_state_of_another_training_is_not_taken_up(
    interrupted: Path, tiny_collection: RawCollection, tmp_path: Path
) -> None:
    assert (interrupted / "state.json").is_file()
    other = replace(SMALL, epochs=2)
    expected = finetune(tiny_collection, "tiny", tmp_path / "fresh", other, device="cpu")
    assert finetune(tiny_collection, "tiny", tmp_path / "own", other, device="cpu") == expected


def test_what_decides_a_training_tells_its_states_apart(tiny: None, tiny_collection: RawCollection) -> None:
    def description(
        collection: RawCollection = tiny_collection, seed: int = 0, settings: Finetuning = SMALL
    ) -> str:
        return json.dumps(_Training(collection, tiny_encoder(seed), settings).description)

    one_label_less = replace(tiny_collection, labels=np.where(np.arange(24) == 0, -1, tiny_collection.labels))
    others = [
        description(one_label_less),
        description(replace(tiny_collection, ids=(*tiny_collection.ids[:-1], "another"))),
        description(replace(tiny_collection, items=[*tiny_collection.items[:-1], tiny_collection.items[0]])),
        description(seed=1),
        *(
            description(settings=replace(SMALL, **change))
            for change in ({"seed": 1}, {"supervised": 0.5}, {"momentum": 0.5}, {"blocks": 2}, {"accumulate": 2})
        ),
    ]
    assert description() == description()
    assert len({description(), *others}) == 1 + len(others)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("state.json", b""),
        ("state.json", b"[" * 100_000),
        ("state.json", b"[1, 2]"),
        ("state.json", b"{}"),
        ("trained.safetensors", b"nothing"),
        ("trained.safetensors", None),
    ],
)
def test_a_damaged_state_is_not_taken_up(
    name: str, content: bytes | None, interrupted: Path, tiny_collection: RawCollection, tmp_path: Path
) -> None:
    """Of a machine that lost power: the training begins again."""
    if content is None:
        (interrupted / name).unlink()
    else:
        (interrupted / name).write_bytes(content)
    with pytest.warns(UserWarning, match=f"{re.escape(str(interrupted))} is damaged.*begins anew"):
        losses = finetune(tiny_collection, "tiny", tmp_path / "own", SMALL, device="cpu")
    assert losses == finetune(tiny_collection, "tiny", tmp_path / "fresh", SMALL, device="cpu")
    (aside,) = tmp_path.glob(".own*")
    assert aside.name.startswith(".own.state.")
    assert aside.name.endswith(".damaged")


@pytest.mark.parametrize("name", ["state.json", "trained.safetensors"])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_a_state_with_a_flipped_bit_is_set_aside(
    name: str, part: float, interrupted: Path, tiny_collection: RawCollection, tmp_path: Path
) -> None:
    content = bytearray((interrupted / name).read_bytes())
    content[int(part * len(content))] ^= 1
    (interrupted / name).write_bytes(content)
    with pytest.warns(UserWarning, match="begins anew"):
        losses = finetune(tiny_collection, "tiny", tmp_path / "own", SMALL, device="cpu")
    assert losses == finetune(tiny_collection, "tiny", tmp_path / "fresh", SMALL, device="cpu")


def test_a_flipped_loss_is_noticed(interrupted: Path, tiny_collection: RawCollection, tmp_path: Path) -> None:
    state = json.loads((interrupted / "state.json").read_text())
    state["losses"][0] += 1e-3
    (interrupted / "state.json").write_text(json.dumps(state))
    with pytest.warns(UserWarning, match=r"the checksum of state\.json differs"):
        finetune(tiny_collection, "tiny", tmp_path / "own", SMALL, device="cpu")


def test_another_collection_of_the_same_ids_and_labels_begins_anew(
    interrupted: Path, tiny_collection: RawCollection, tmp_path: Path
) -> None:
    others = [255 - np.asarray(item) for item in tiny_collection.items]
    other = replace(tiny_collection, items=others)
    losses = finetune(other, "tiny", tmp_path / "own", SMALL, device="cpu")
    assert losses == finetune(other, "tiny", tmp_path / "fresh", SMALL, device="cpu")


def test_a_full_disk_is_one_warning_and_the_training_goes_on(
    tiny: None, tiny_collection: RawCollection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    expected = finetune(tiny_collection, "tiny", tmp_path / "fresh", SMALL, device="cpu")
    monkeypatch.setattr(training_state, "save_file", full)
    says = f"cannot be written to {re.escape(str(tmp_path / '.own.state'))}: .*No space left"
    with pytest.warns(UserWarning, match=says) as warned:
        assert finetune(tiny_collection, "tiny", tmp_path / "own", SMALL, device="cpu") == expected
    assert len(warned) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fresh", "own"]


def test_a_result_that_cannot_be_written_is_an_error_and_the_state_stays(
    tiny: None, tiny_collection: RawCollection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(finetuning, "save_file", full)
        with pytest.raises(InputError, match=rf"cannot write {re.escape(str(tmp_path / 'own'))}: .*No space"):
            finetune(tiny_collection, "tiny", tmp_path / "own", SMALL, device="cpu")
    assert [path.name for path in tmp_path.iterdir()] == [".own.state"]
    seen: list[int] = []
    finetune(
        tiny_collection, "tiny", tmp_path / "own", SMALL, device="cpu", watch=lambda epoch, _: seen.append(epoch)
    )
    assert seen == []  # nothing had to be computed again
    load_encoder_from(tmp_path / "own")
