"""Fine-tuning: what is trained, that it learns, and that it goes on where it was."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from newkinds.data.raw import RawCollection
from newkinds.encoders import encode, load_encoder
from newkinds.encoders import finetune as room
from newkinds.encoders.finetune import Finetuning, RandomView, block_names, finetune
from newkinds.encoders.modules import ModuleEncoder
from newkinds.encoders.preparation import ImagePreparation
from newkinds.errors import InputError

SMALL = Finetuning(epochs=3, batch_size=8, outputs=64, learning_rate=0.05, workers=0)
PREPARATION = ImagePreparation(size=(16, 16), resize=20)


class Net(nn.Module):
    """A stem, three blocks and a norm, without any dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 4, stride=4)
        self.blocks = nn.ModuleList([nn.Conv2d(8, 8, 1) for _ in range(3)])
        self.norm = nn.BatchNorm2d(8)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found = self.stem(images)
        for block in self.blocks:
            found = found + torch.relu(block(found))
        return self.norm(found).mean(dim=(2, 3))


def tiny_encoder(seed: int = 0) -> ModuleEncoder:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return ModuleEncoder(Net(), PREPARATION, "tiny")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tiny` is the name of an encoder, for training and, of what was trained, for loading."""
    from newkinds.encoders import loading

    found = loading.load_encoder

    def load(name: str | None, *args: object, **kwargs: object) -> object:
        return tiny_encoder() if name == "tiny" else found(name, *args, **kwargs)  # type: ignore[arg-type]  # as given

    monkeypatch.setattr(loading, "load_encoder", load)
    monkeypatch.setattr(room, "load_encoder", load)


@pytest.fixture
def photos() -> RawCollection:
    """Three colours with noise, 8 of each; of two, half are labelled."""
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(3), 8)
    colours = np.array([[200, 40, 40], [40, 200, 40], [40, 40, 200]])[truth]
    noise = rng.normal(0, 40, (24, 24, 28, 3))
    items = list(np.clip(colours[:, None, None] + noise, 0, 255).astype(np.uint8))
    labels = np.where((truth < 2) & (np.arange(24) % 2 == 0), truth, -1)
    return RawCollection("images", items, tuple(map(str, range(24))), labels, truth)


def test_only_the_last_blocks_change_and_the_result_is_an_encoder(
    tiny: None, photos: RawCollection, tmp_path: Path
) -> None:
    losses = finetune(photos, "tiny", tmp_path / "own", SMALL, device="cpu")
    assert len(losses) == 3
    assert np.isfinite(losses).all()
    trained = load_encoder_from(tmp_path / "own")
    before, after = (dict(each.module.state_dict()) for each in (tiny_encoder(), trained))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"blocks.2.weight", "blocks.2.bias"}
    assert trained.fingerprint != tiny_encoder().fingerprint
    assert trained.name == str((tmp_path / "own").resolve())
    assert encode(photos, trained).features.shape == (24, 8)
    assert not list(tmp_path.glob(".own*"))  # no state is left
    record = json.loads((tmp_path / "own" / "encoder.json").read_text())
    assert record["base"] == "tiny"
    assert record["losses"] == losses
    assert record["settings"]["epochs"] == 3


def load_encoder_from(folder: Path) -> ModuleEncoder:
    from newkinds.encoders import loading

    found = loading.load_encoder(str(folder), "images", device="cpu")
    assert isinstance(found, ModuleEncoder)
    return found


def test_samples_of_a_category_come_closer(tiny: None, photos: RawCollection, tmp_path: Path) -> None:
    settings = Finetuning(epochs=80, batch_size=24, outputs=64, blocks=3, workers=0)
    losses = finetune(photos, "tiny", tmp_path / "own", settings, device="cpu")
    assert np.mean(losses[-10:]) < np.mean(losses[:10])

    def within_less_between(encoder: ModuleEncoder) -> float:
        features = encode(photos, encoder).features
        unit = features / np.linalg.norm(features, axis=1, keepdims=True)
        cosines, same = unit @ unit.T, photos.truth[:, None] == photos.truth  # type: ignore[index]  # not None
        return float(cosines[same].mean() - cosines[~same].mean())

    assert within_less_between(load_encoder_from(tmp_path / "own")) > within_less_between(tiny_encoder())


def test_the_same_seed_gives_the_same_weights_and_another_others(
    tiny: None, photos: RawCollection, tmp_path: Path
) -> None:
    state = torch.random.get_rng_state()
    for name, seed in (("one", 0), ("two", 0), ("three", 1)):
        finetune(
            photos, "tiny", tmp_path / name, Finetuning(epochs=2, batch_size=8, outputs=32, workers=0, seed=seed)
        )
    assert torch.equal(torch.random.get_rng_state(), state)  # the global generator is left alone
    one, two, three = (
        load_encoder_from(tmp_path / name).module.state_dict()["blocks.2.weight"]
        for name in ("one", "two", "three")
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, three)


def test_an_interrupted_training_goes_on_and_ends_as_if_nothing_had_been(
    tiny: None, photos: RawCollection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = finetune(photos, "tiny", tmp_path / "whole", SMALL, device="cpu")
    real, epochs = room._Training.run_epoch, []

    def run_epoch(self: room._Training, views: object) -> None:
        if len(epochs) == 2:
            raise KeyboardInterrupt
        epochs.append(self.epoch)
        real(self, views)  # type: ignore[arg-type]  # as given

    monkeypatch.setattr(room._Training, "run_epoch", run_epoch)
    with pytest.raises(KeyboardInterrupt):
        finetune(photos, "tiny", tmp_path / "part", SMALL, device="cpu")
    assert not (tmp_path / "part").exists()
    epochs.clear()
    assert finetune(photos, "tiny", tmp_path / "part", SMALL, device="cpu") == whole
    assert epochs == [2]  # the first two were not repeated
    one, other = (load_encoder_from(tmp_path / name).module.state_dict() for name in ("whole", "part"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_state_of_another_training_is_not_taken_up(
    tiny: None, photos: RawCollection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = room._Training.save

    def save_and_stop(self: room._Training, folder: Path) -> None:
        real(self, folder)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(room._Training, "save", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            finetune(photos, "tiny", tmp_path / "own", SMALL, device="cpu")
    assert (tmp_path / ".own.state" / "state.json").is_file()
    other = Finetuning(epochs=2, batch_size=8, outputs=64, workers=0)
    expected = finetune(photos, "tiny", tmp_path / "fresh", other, device="cpu")
    assert finetune(photos, "tiny", tmp_path / "own", other, device="cpu") == expected


@pytest.mark.parametrize("classifier", ["simgcd", "uno"])
def test_a_classifier_learns_along_and_is_thrown_away(
    classifier: Literal["simgcd", "uno"], tiny: None, photos: RawCollection, tmp_path: Path
) -> None:
    settings = replace(SMALL, classifier=classifier, n_categories=3)
    training = room._Training(photos, tiny_encoder(), settings)
    views = [[training.view((item, seed)) for item in photos.items] for seed in (0, 1)]
    losses = [training._step(np.arange(24), views) for _ in range(40)]
    assert losses[-1] < losses[0]
    finetune(photos, "tiny", tmp_path / "plain", SMALL, device="cpu")
    finetune(photos, "tiny", tmp_path / "own", settings, device="cpu")
    plain, own = (load_file(tmp_path / name / "trained.safetensors") for name in ("plain", "own"))
    assert own.keys() == plain.keys()
    assert any(not torch.equal(own[name], plain[name]) for name in plain)
    record = json.loads((tmp_path / "own" / "encoder.json").read_text("utf-8"))
    assert (record["settings"]["classifier"], record["settings"]["n_categories"]) == (classifier, 3)


@pytest.mark.parametrize("n_categories", [None, 1])
def test_a_classifier_needs_enough_categories(
    n_categories: int | None, tiny: None, photos: RawCollection, tmp_path: Path
) -> None:
    settings = replace(SMALL, classifier="simgcd", n_categories=n_categories)
    with pytest.raises(InputError, match=f"at least the 2 known ones; got {n_categories}"):
        finetune(photos, "tiny", tmp_path / "own", settings, device="cpu")


def test_a_number_of_categories_without_a_classifier_is_refused(
    tiny: None, photos: RawCollection, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="say which, simgcd or uno"):
        finetune(photos, "tiny", tmp_path / "own", replace(SMALL, n_categories=3), device="cpu")


def test_accumulating_compares_within_parts_and_still_learns(
    tiny: None, photos: RawCollection, tmp_path: Path
) -> None:
    settings = Finetuning(epochs=2, batch_size=12, accumulate=3, outputs=32, workers=0)
    assert np.isfinite(finetune(photos, "tiny", tmp_path / "own", settings, device="cpu")).all()


def test_labelled_and_unlabelled_samples_are_drawn_equally_often(photos: RawCollection) -> None:
    training = room._Training(photos, tiny_encoder(), Finetuning(epochs=1, batch_size=8, outputs=8))
    drawn = np.concatenate([rows for epoch in range(200) for rows in training._batches(epoch)])
    assert (photos.labels[drawn] >= 0).mean() == pytest.approx(0.5, abs=0.03)
    counts = np.bincount(drawn, minlength=24)
    assert counts[photos.labels < 0].min() > 0.7 * counts[photos.labels < 0].mean()


def test_the_heads_have_a_learning_rate_of_their_own(tiny: None, photos: RawCollection, tmp_path: Path) -> None:
    still = replace(SMALL, learning_rate=1e-9, final_learning_rate=1e-9, head_learning_rate=0.1, epochs=8)
    losses = finetune(photos, "tiny", tmp_path / "own", still, device="cpu")
    assert losses[-1] < losses[0] - 0.01
    before, after = tiny_encoder().module.state_dict(), load_file(tmp_path / "own" / "trained.safetensors")
    for name, value in after.items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=1e-6)


def test_unreadable_images_are_left_out(tiny: None, photos: RawCollection, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no image")
    items = [broken, *photos.items]
    labels = np.concatenate([[-1], photos.labels])
    collection = RawCollection("images", items, ("broken", *photos.ids), labels)
    readable = room._readable(collection, tiny_encoder(), 0)
    assert readable.ids == photos.ids
    assert [name for name, _ in readable.skipped] == ["broken"]
    assert isinstance(finetune(collection, "tiny", tmp_path / "own", SMALL, device="cpu"), list)
    only = collection.only(np.arange(25) == 0)
    with pytest.raises(InputError, match="no sample could be read"):
        finetune(only, "tiny", tmp_path / "other", SMALL, device="cpu")


def test_too_few_samples_are_refused(tiny: None, photos: RawCollection, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1 samples are too few"):
        finetune(photos.only(np.arange(24) == 0), "tiny", tmp_path / "own", SMALL, device="cpu")


def test_blocks_by_name_and_names_that_are_not_there(tiny: None, photos: RawCollection, tmp_path: Path) -> None:
    settings = Finetuning(epochs=1, batch_size=8, outputs=16, blocks=("stem", "blocks.1"), workers=0)
    finetune(photos, "tiny", tmp_path / "own", settings, device="cpu")
    after, before = load_encoder_from(tmp_path / "own").module.state_dict(), tiny_encoder().module.state_dict()
    changed = {name.rpartition(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"stem", "blocks.1"}
    with pytest.raises(InputError, match=r"no block of the encoder is called head.*stem, blocks, norm"):
        finetune(photos, "tiny", tmp_path / "other", Finetuning(blocks=("head",), workers=0), device="cpu")


def test_blocks_of_common_networks_are_found() -> None:
    from transformers import Dinov2Config, Dinov2Model, ViTConfig, ViTModel

    small = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
    for model in (ViTModel(ViTConfig(**small)), Dinov2Model(Dinov2Config(**{**small, "mlp_ratio": 2}))):
        names = block_names(model)
        assert len(names) == 3
        assert names[-1].endswith(".2")
    assert block_names(Net()) == ["blocks.0", "blocks.1", "blocks.2"]
    assert block_names(nn.Linear(2, 2)) == []


def test_a_view_is_a_crop_of_the_resized_image_mirrored_or_not() -> None:
    image = np.arange(20 * 26 * 3, dtype=np.uint32).reshape(20, 26, 3).astype(np.uint8)
    view = RandomView(ImagePreparation(size=(16, 16), resize=20))
    seen = [view((image, seed)) for seed in range(60)]
    crops = {image[top : top + 16, left : left + 16].tobytes() for top in range(5) for left in range(11)}
    straight = [each.tobytes() in crops for each in seen]
    mirrored = [each[:, ::-1].tobytes() in crops for each in seen]
    assert all(a or b for a, b in zip(straight, mirrored, strict=True))
    assert 10 < sum(straight) < 50
    assert len({each.tobytes() for each in seen}) > 30
    assert np.array_equal(view((image, 7)), seen[7])


def test_an_onnx_file_cannot_be_trained(
    photos: RawCollection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Frozen:
        name, kind, fingerprint, precision, batch_size = "some.onnx", "images", "x", "float32", 4
        preparation = PREPARATION

        def encode(self, batch: object) -> None: ...

    monkeypatch.setattr(room, "load_encoder", lambda *_, **__: Frozen())
    with pytest.raises(InputError, match=r"some\.onnx cannot be trained"):
        finetune(photos, "some.onnx", tmp_path / "own", SMALL)


def test_a_trained_encoder_knows_its_base_again(tiny: None, photos: RawCollection, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    finetune(photos, "tiny", folder, Finetuning(epochs=1, batch_size=8, outputs=16, workers=0), device="cpu")
    record = json.loads((folder / "encoder.json").read_text())
    (folder / "encoder.json").write_text(json.dumps({**record, "base_fingerprint": "0" * 32}))
    with pytest.raises(InputError, match="trained from another 'tiny'"):
        load_encoder_from(folder)
    (folder / "encoder.json").write_text(json.dumps({**record, "kind": "texts"}))
    with pytest.raises(InputError, match="encodes texts; this is a collection of images"):
        load_encoder_from(folder)
    (folder / "encoder.json").write_text("{")
    with pytest.raises(InputError, match="is not a whole encoder"):
        load_encoder_from(folder)


@pytest.mark.slow
def test_texts_are_trained_with_dropout_as_the_second_view(tmp_path: Path) -> None:
    texts = [
        f"{what} number {i}"
        for what in ("my card is lost", "what is the rate", "transfer failed")
        for i in range(6)
    ]
    labels = np.where(np.arange(18) % 2 == 0, np.repeat([0, 1, -1], 6), -1)
    tickets = RawCollection("texts", texts, tuple(map(str, range(18))), labels)
    settings = Finetuning(epochs=2, batch_size=9, outputs=64, learning_rate=0.01)
    losses = finetune(tickets, None, tmp_path / "own", settings, device="cpu")
    assert np.isfinite(losses).all()
    base, own = (load_encoder(name, "texts", device="cpu") for name in (None, str(tmp_path / "own")))
    assert base.fingerprint != own.fingerprint
    before, after = (encode(tickets, each).features for each in (base, own))
    assert before.shape == after.shape
    assert 1e-4 < np.abs(before - after).max() < 1
    assert np.array_equal(encode(tickets, own).features, after)  # no dropout when encoding


@pytest.mark.slow
def test_a_killed_command_loses_at_most_an_epoch(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text(
        "text,label\n" + "".join(f"ticket {i},{'a' if i % 2 else ''}\n" for i in range(40))
    )
    out = tmp_path / "own"
    command = [
        *(sys.executable, "-m", "newkinds", "finetune", str(tmp_path / "texts.csv"), "--out", str(out), "-q"),
        *("--epochs", "4", "--batch-size", "20", "--device", "cpu"),
    ]
    state = tmp_path / ".own.state" / "state.json"
    running = subprocess.Popen(command)
    until = time.monotonic() + 120
    while not state.is_file() and running.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert not out.exists()
    done = len(json.loads(state.read_text())["losses"])
    assert done >= 1
    first = json.loads(state.read_text())["losses"]
    subprocess.run(command, check=True)
    losses = json.loads((out / "encoder.json").read_text())["losses"]
    assert len(losses) == 4
    assert losses[:done] == first  # taken over, not computed again


SHARED = """
import sys
from pathlib import Path
import numpy as np, torch
from newkinds.data.raw import RawCollection
from newkinds.encoders import finetune as room
from newkinds.encoders.modules import ModuleEncoder
from newkinds.encoders.preparation import ImagePreparation
from newkinds.runtime import processes

def encoder(*_, **__):
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Conv2d(3, 6, 4, stride=4), torch.nn.ReLU(), torch.nn.Conv2d(6, 6, 1))
    return ModuleEncoder(layers, ImagePreparation(size=(16, 16), resize=20), "tiny")

room.load_encoder = encoder
rng = np.random.default_rng(0)
items = list(rng.integers(0, 256, (20, 22, 22, 3), dtype=np.uint8))
labels = np.where(np.arange(20) % 2 == 0, np.arange(20) % 3, -1)
collection = RawCollection("images", items, tuple(map(str, range(20))), labels)
classifier = sys.argv[2] or None
settings = room.Finetuning(
    epochs=2,
    batch_size=8,
    outputs=32,
    workers=0,
    learning_rate=0.02,
    classifier=classifier,
    n_categories=4 if classifier else None,
)
with processes("cpu"):
    room.finetune(collection, "tiny", Path(sys.argv[1]), settings, device="cpu")
"""


@pytest.mark.slow
@pytest.mark.parametrize("classifier", ["", "simgcd", "uno"])
def test_two_processes_train_what_one_trains(classifier: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SHARED)
    together = [
        *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"),
        str(script),
    ]
    for name, command in (("one", [sys.executable, str(script)]), ("two", together)):
        subprocess.run([*command, str(tmp_path / name), classifier], check=True, timeout=120, capture_output=True)
    one, two = (load_file(tmp_path / name / "trained.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=1e-3, atol=1e-5)
    losses = [json.loads((tmp_path / name / "encoder.json").read_text())["losses"] for name in ("one", "two")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
