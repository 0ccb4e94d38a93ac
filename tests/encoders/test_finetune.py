"""Fine-tuning: what is trained, that it learns, and that it goes on where it was."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from newkinds.commands.collecting import read_changes
from newkinds.data.raw import RawCollection
from newkinds.encoders import encode, load_encoder
from newkinds.encoders import finetune as finetuning
from newkinds.encoders.contrastive import info_nce, supervised_contrastive
from newkinds.encoders.finetune import Finetuning, _Training, block_names, finetune
from newkinds.encoders.modules import ModuleEncoder
from newkinds.encoders.packaged import PACKAGED
from newkinds.encoders.preparation import PUBLISHED
from newkinds.errors import InputError
from newkinds.methods.heads import cosine_decay
from newkinds.methods.simgcd import simgcd_loss, teacher_temperature
from newkinds.methods.uno import UNOHeads
from newkinds.names import Classifier
from tests.commands.photos import save_model
from tests.encoders.tiny_training import PREPARATION, SMALL, Net, load_encoder_from, tiny_encoder


def test_only_the_last_blocks_change_and_the_result_is_an_encoder(
    tiny: None, tiny_collection: RawCollection, tmp_path: Path
) -> None:
    losses = finetune(tiny_collection, "tiny", tmp_path / "own", SMALL, device="cpu")
    assert len(losses) == 3
    assert np.isfinite(losses).all()
    trained = load_encoder_from(tmp_path / "own")
    before, after = (dict(each.module.state_dict()) for each in (tiny_encoder(), trained))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"blocks.2.weight", "blocks.2.bias"}
    assert trained.fingerprint != tiny_encoder().fingerprint
    assert trained.name == str((tmp_path / "own").resolve())
    assert encode(tiny_collection, trained).features.shape == (24, 8)
    assert not list(tmp_path.glob(".own*"))  # no state is left
    record = json.loads((tmp_path / "own" / "encoder.json").read_text())
    assert record["base"] == "tiny"
    assert record["losses"] == losses
    assert record["settings"]["epochs"] == 3


@pytest.mark.slow
def test_samples_of_a_category_come_closer(tiny: None, tiny_collection: RawCollection, tmp_path: Path) -> None:
    settings = Finetuning(epochs=60, batch_size=24, outputs=64, blocks=3, workers=0)
    finetune(tiny_collection, "tiny", tmp_path / "own", settings, device="cpu")

    def within_less_between(encoder: ModuleEncoder) -> float:
        features = encode(tiny_collection, encoder).features
        unit = features / np.linalg.norm(features, axis=1, keepdims=True)
        assert tiny_collection.truth is not None
        cosines, same = unit @ unit.T, tiny_collection.truth[:, None] == tiny_collection.truth
        return float(cosines[same].mean() - cosines[~same].mean())

    assert within_less_between(load_encoder_from(tmp_path / "own")) > within_less_between(tiny_encoder()) + 0.05


def test_the_same_seed_gives_the_same_weights_and_another_others(
    tiny: None, tiny_collection: RawCollection, tmp_path: Path
) -> None:
    state = torch.random.get_rng_state()
    for name, seed in (("one", 0), ("two", 0), ("three", 1)):
        finetune(
            tiny_collection,
            "tiny",
            tmp_path / name,
            Finetuning(epochs=2, batch_size=8, outputs=32, workers=0, seed=seed),
        )
    assert torch.equal(torch.random.get_rng_state(), state)  # the global generator is left alone
    one, two, three = (
        load_encoder_from(tmp_path / name).module.state_dict()["blocks.2.weight"]
        for name in ("one", "two", "three")
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, three)


def test_a_training_that_diverges_leaves_no_encoder(
    tiny: None, tiny_collection: RawCollection, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"the training diverged in epoch \d; choose a smaller learning rate"):
        finetune(tiny_collection, "tiny", tmp_path / "own", replace(SMALL, learning_rate=1e30), device="cpu")
    assert not (tmp_path / "own").exists()


def test_an_interrupted_training_goes_on_and_ends_as_if_nothing_had_been(
    tiny: None, tiny_collection: RawCollection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = finetune(tiny_collection, "tiny", tmp_path / "whole", SMALL, device="cpu")
    real, epochs = _Training.run_epoch, list[int]()

    def run_epoch(self: _Training, views: Iterator[Any]) -> None:
        if len(epochs) == 2:
            raise KeyboardInterrupt
        epochs.append(self.epoch)
        real(self, views)

    monkeypatch.setattr(_Training, "run_epoch", run_epoch)
    with pytest.raises(KeyboardInterrupt):
        finetune(tiny_collection, "tiny", tmp_path / "part", SMALL, device="cpu")
    assert not (tmp_path / "part").exists()
    epochs.clear()
    assert finetune(tiny_collection, "tiny", tmp_path / "part", SMALL, device="cpu") == whole
    assert epochs == [2]  # the first two were not repeated
    one, other = (load_encoder_from(tmp_path / name).module.state_dict() for name in ("whole", "part"))
    assert all(torch.equal(one[name], other[name]) for name in one)


# What is minimised


def test_the_teacher_of_simgcd_warms_up_over_the_epochs(
    tiny: None, tiny_collection: RawCollection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its temperature falls from that of the first epoch to the last one's, as in a training of a head alone."""
    temperatures: list[float] = []

    def loss(cosines: torch.Tensor, labels: torch.Tensor, teacher: float) -> torch.Tensor:
        temperatures.append(teacher)
        return simgcd_loss(cosines, labels, teacher)

    monkeypatch.setattr(finetuning, "simgcd_loss", loss)
    settings = replace(SMALL, epochs=16, batch_size=24, classifier="simgcd", n_categories=3)
    finetune(tiny_collection, "tiny", tmp_path / "own", settings, device="cpu")
    assert temperatures == [teacher_temperature(epoch, 16) for epoch in range(16)]
    assert temperatures[:2] == [0.07, pytest.approx(0.04)]
    assert len(set(temperatures[1:])) == 1


def test_the_learning_rates_fall_along_a_cosine(
    tiny: None, tiny_collection: RawCollection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, rates = torch.optim.SGD.step, list[list[float]]()

    def step(self: torch.optim.SGD) -> None:
        rates.append([group["lr"] for group in self.param_groups])
        real(self)

    monkeypatch.setattr(torch.optim.SGD, "step", step)
    settings = replace(SMALL, epochs=4, batch_size=24, learning_rate=0.05, head_learning_rate=0.2)
    finetune(tiny_collection, "tiny", tmp_path / "own", settings, device="cpu")
    expected = [[cosine_decay(first, 1e-4, epoch / 4) for first in (0.05, 0.2)] for epoch in range(4)]
    np.testing.assert_allclose(rates, expected)
    assert rates[0] == [0.05, 0.2]
    assert rates[3] < rates[2] < rates[1] < rates[0]


@pytest.mark.parametrize("share", [0.0, 0.35, 1.0])
def test_the_loss_weighs_the_supervised_part_by_its_share(share: float, tiny_collection: RawCollection) -> None:
    training = _Training(tiny_collection, tiny_encoder(), replace(SMALL, outputs=8, supervised=share))
    views = nn.functional.normalize(torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(0)), dim=-1)
    labels = torch.tensor([0, 0, 1, 1, -1, -1])
    expected = (1 - share) * info_nce(views, 1.0) + share * supervised_contrastive(views, labels, 0.07)
    torch.testing.assert_close(training._loss(views, labels), expected)


@pytest.mark.parametrize("classifier", ["simgcd", "uno"])
def test_a_classifier_learns_along_and_is_thrown_away(
    classifier: Classifier, tiny: None, tiny_collection: RawCollection, tmp_path: Path
) -> None:
    settings = replace(SMALL, classifier=classifier, n_categories=3)
    training = _Training(tiny_collection, tiny_encoder(), settings)
    views = [[training.view((item, seed)) for item in tiny_collection.items] for seed in (0, 1)]
    losses = [training._step(np.arange(24), views) for _ in range(15)]
    assert losses[-1] < losses[0]
    finetune(tiny_collection, "tiny", tmp_path / "plain", SMALL, device="cpu")
    finetune(tiny_collection, "tiny", tmp_path / "own", settings, device="cpu")
    plain, own = (load_file(tmp_path / name / "trained.safetensors") for name in ("plain", "own"))
    assert own.keys() == plain.keys()
    assert any(not torch.equal(own[name], plain[name]) for name in plain)
    record = json.loads((tmp_path / "own" / "encoder.json").read_text("utf-8"))
    assert (record["settings"]["classifier"], record["settings"]["n_categories"]) == (classifier, 3)


def test_simgcd_compares_the_bottleneck_and_uno_has_no_contrastive_loss(
    tiny: None, tiny_collection: RawCollection
) -> None:
    plain, simgcd, uno = (
        _Training(
            tiny_collection, tiny_encoder(), replace(SMALL, classifier=name, n_categories=3 if name else None)
        )
        for name in (None, "simgcd", "uno")
    )
    assert plain.head is not None
    assert plain.head.prototypes is not None
    assert simgcd.head is not None
    assert simgcd.head.prototypes is None
    assert uno.head is None
    views = [[uno.view((item, seed)) for item in tiny_collection.items] for seed in (0, 1)]
    found = uno._step(np.arange(24), views)
    uno = _Training(tiny_collection, tiny_encoder(), replace(SMALL, classifier="uno", n_categories=3))
    assert isinstance(uno.classifier, UNOHeads)
    features = nn.functional.normalize(uno.encoder.forward([*views[0], *views[1]]), dim=-1)
    expected = uno.classifier.loss(features.unflatten(0, (2, -1)), torch.from_numpy(uno.columns))
    assert found == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize("n_categories", [None, 1])
def test_a_classifier_needs_enough_categories(
    n_categories: int | None, tiny: None, tiny_collection: RawCollection, tmp_path: Path
) -> None:
    settings = replace(SMALL, classifier="simgcd", n_categories=n_categories)
    with pytest.raises(InputError, match=f"at least the 2 known ones; got {n_categories}"):
        finetune(tiny_collection, "tiny", tmp_path / "own", settings, device="cpu")


def test_a_number_of_categories_without_a_classifier_is_refused(
    tiny: None, tiny_collection: RawCollection, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="say which, simgcd or uno"):
        finetune(tiny_collection, "tiny", tmp_path / "own", replace(SMALL, n_categories=3), device="cpu")


def test_accumulating_averages_over_the_parts(
    tiny_collection: RawCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = _Training(tiny_collection, tiny_encoder(), replace(SMALL, outputs=8, accumulate=3))
    monkeypatch.setattr(training, "_loss", lambda views, labels: views.sum() * 0 + 6.0 + labels.float().mean() * 0)
    views = [[training.view((item, seed)) for item in tiny_collection.items] for seed in (0, 1)]
    assert training._step(np.arange(24), views) == pytest.approx(6.0)


def test_every_epoch_has_its_own_views_and_its_own_randomness(
    tiny_collection: RawCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = _Training(tiny_collection, tiny_encoder(), replace(SMALL, outputs=8))
    seeds = [seed for _, seed in training._samples()]
    assert len(seeds) == len(set(seeds)) == 2 * 24 * 3
    drawn: list[float] = []

    def step(*_: object) -> float:
        drawn.append(float(torch.rand(1)))
        return 0.0

    monkeypatch.setattr(training, "_step", step)
    for _ in range(3):
        training.run_epoch(iter(()))
    assert len(drawn) == len(set(drawn)) == 9


def test_accumulating_compares_within_parts_and_still_learns(
    tiny: None, tiny_collection: RawCollection, tmp_path: Path
) -> None:
    settings = Finetuning(epochs=2, batch_size=12, accumulate=3, outputs=32, workers=0)
    assert np.isfinite(finetune(tiny_collection, "tiny", tmp_path / "own", settings, device="cpu")).all()


def test_labelled_and_unlabelled_samples_are_drawn_equally_often(tiny_collection: RawCollection) -> None:
    training = _Training(tiny_collection, tiny_encoder(), Finetuning(epochs=1, batch_size=8, outputs=8))
    drawn = np.concatenate([rows for epoch in range(200) for rows in training._batches(epoch)])
    assert (tiny_collection.labels[drawn] >= 0).mean() == pytest.approx(0.5, abs=0.03)
    counts = np.bincount(drawn, minlength=24)
    assert counts[tiny_collection.labels < 0].min() > 0.7 * counts[tiny_collection.labels < 0].mean()


def test_the_heads_have_a_learning_rate_of_their_own(
    tiny: None, tiny_collection: RawCollection, tmp_path: Path
) -> None:
    still = replace(SMALL, learning_rate=1e-9, final_learning_rate=1e-9, head_learning_rate=0.1, epochs=8)
    losses = finetune(tiny_collection, "tiny", tmp_path / "own", still, device="cpu")
    assert losses[-1] < losses[0] - 0.01
    before, after = tiny_encoder().module.state_dict(), load_file(tmp_path / "own" / "trained.safetensors")
    for name, value in after.items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=1e-6)


def test_unreadable_images_are_left_out(tiny: None, tiny_collection: RawCollection, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no image")
    items = [broken, *tiny_collection.items]
    labels = np.concatenate([[-1], tiny_collection.labels])
    collection = RawCollection("images", items, ("broken", *tiny_collection.ids), labels)
    readable = finetuning._readable(collection, tiny_encoder(), 0)
    assert readable.ids == tiny_collection.ids
    assert [name for name, _ in readable.skipped] == ["broken"]
    assert isinstance(finetune(collection, "tiny", tmp_path / "own", SMALL, device="cpu"), list)
    only = collection.only(np.arange(25) == 0)
    with pytest.raises(InputError, match="no sample could be read"):
        finetune(only, "tiny", tmp_path / "other", SMALL, device="cpu")


def test_too_few_samples_are_refused(tiny: None, tiny_collection: RawCollection, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1 samples are too few"):
        finetune(tiny_collection.only(np.arange(24) == 0), "tiny", tmp_path / "own", SMALL, device="cpu")


def test_blocks_by_name_and_names_that_are_not_there(
    tiny: None, tiny_collection: RawCollection, tmp_path: Path
) -> None:
    settings = Finetuning(epochs=1, batch_size=8, outputs=16, blocks=("stem", "blocks.1"), workers=0)
    finetune(tiny_collection, "tiny", tmp_path / "own", settings, device="cpu")
    after, before = load_encoder_from(tmp_path / "own").module.state_dict(), tiny_encoder().module.state_dict()
    changed = {name.rpartition(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"stem", "blocks.1"}
    with pytest.raises(InputError, match=r"no block of the encoder is called head.*stem, blocks, norm"):
        finetune(tiny_collection, "tiny", tmp_path / "other", Finetuning(blocks=("head",), workers=0), device="cpu")


def test_blocks_of_common_networks_are_found() -> None:
    from transformers import Dinov2Config, Dinov2Model, ViTConfig, ViTModel

    small: dict[str, Any] = {
        "hidden_size": 16,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    for model in (ViTModel(ViTConfig(**small)), Dinov2Model(Dinov2Config(**{**small, "mlp_ratio": 2}))):
        names = block_names(model)
        assert len(names) == 3
        assert names[-1].endswith(".2")
    assert block_names(Net()) == ["blocks.0", "blocks.1", "blocks.2"]
    assert block_names(nn.Linear(2, 2)) == []


def test_the_preparation_of_the_base_comes_back_with_the_trained_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_collection: RawCollection
) -> None:
    def load(name: str, device: str, half: bool | None, changes: Any) -> Any:
        return ModuleEncoder(Net(), PREPARATION.changed(changes, name), name)

    monkeypatch.setitem(PACKAGED["images"], "tiny", load)
    settings = Finetuning(epochs=1, batch_size=4, workers=0, outputs=64)
    side = PREPARATION.size[0]
    changes = {"resize": (side, side)}
    torch.manual_seed(0)
    finetune(tiny_collection, "tiny", tmp_path / "trained", settings, device="cpu", changes=changes)
    record = json.loads((tmp_path / "trained" / "encoder.json").read_text())
    assert record["base_preparation"]["resize"] == [side, side]
    torch.manual_seed(0)
    as_trained = load_encoder(str(tmp_path / "trained"), device="cpu")
    assert as_trained.preparation == replace(PREPARATION, resize=(side, side))
    torch.manual_seed(0)
    other = load_encoder(str(tmp_path / "trained"), device="cpu", changes={"resize": side + 3})
    assert other.preparation == replace(PREPARATION, resize=side + 3)
    assert other.fingerprint != as_trained.fingerprint


def test_on_another_machine_the_advice_leads_to_the_trained_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_collection: RawCollection
) -> None:
    model = str(save_model(tmp_path / "model", seed=0))
    settings = Finetuning(epochs=1, batch_size=4, workers=0, outputs=64)
    finetune(tiny_collection, model, tmp_path / "own", settings, device="cpu", changes={"resize": 40})
    trained = load_encoder(str(tmp_path / "own"), device="cpu").fingerprint
    monkeypatch.setenv("NEWKINDS_CACHE", str(tmp_path / "another"))
    advice = re.escape(f"newkinds encode … --encoder {model!r} --resize 40 --crop 32")
    with pytest.raises(InputError, match=f"never used on this machine; if you trust it.*{advice}"):
        load_encoder(str(tmp_path / "own"), device="cpu")
    load_encoder(model, device="cpu")  # without the options
    with pytest.raises(InputError, match=f"or with another preparation; if you trust it.*{advice}"):
        load_encoder(str(tmp_path / "own"), device="cpu")
    load_encoder(model, device="cpu", changes=read_changes("40", 32))
    assert load_encoder(str(tmp_path / "own"), device="cpu").fingerprint == trained


def test_an_encoder_that_was_trained_before_preparations_were_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_collection: RawCollection
) -> None:
    model = str(save_model(tmp_path / "model", seed=0))
    settings = Finetuning(epochs=1, batch_size=4, workers=0, outputs=64)
    finetune(tiny_collection, model, tmp_path / "own", settings, device="cpu")
    trained = load_encoder(str(tmp_path / "own"), device="cpu")
    path = tmp_path / "own" / "encoder.json"
    record = json.loads(path.read_text())
    del record["base_preparation"]
    path.write_text(json.dumps(record))
    monkeypatch.setitem(PUBLISHED, model, {"resize": 40})
    again = load_encoder(str(tmp_path / "own"), device="cpu")
    assert (again.fingerprint, again.preparation) == (trained.fingerprint, trained.preparation)


def test_an_onnx_file_cannot_be_trained(
    tiny_collection: RawCollection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Frozen:
        name, kind, fingerprint, precision, batch_size = "some.onnx", "images", "x", "float32", 4
        preparation = PREPARATION

        def encode(self, batch: object) -> None: ...

    monkeypatch.setattr(finetuning, "load_encoder", lambda *_, **__: Frozen())
    with pytest.raises(InputError, match=r"some\.onnx cannot be trained"):
        finetune(tiny_collection, "some.onnx", tmp_path / "own", SMALL)


def test_a_trained_encoder_knows_its_base_again(tiny: None, tiny_collection: RawCollection, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    finetune(
        tiny_collection, "tiny", folder, Finetuning(epochs=1, batch_size=8, outputs=16, workers=0), device="cpu"
    )
    record = json.loads((folder / "encoder.json").read_text())
    (folder / "encoder.json").write_text(json.dumps({**record, "base_fingerprint": "0" * 32}))
    with pytest.raises(InputError, match="trained from another 'tiny'"):
        load_encoder_from(folder)
    (folder / "encoder.json").write_text(json.dumps({**record, "kind": "texts"}))
    with pytest.raises(InputError, match="encodes texts; this is a collection of images"):
        load_encoder_from(folder)


# Settings


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"epochs": 0}, "epochs must be at least 1; got 0"),
        ({"batch_size": 0}, "batch_size must be at least 1; got 0"),
        ({"accumulate": 0}, "accumulate must be at least 1; got 0"),
        ({"outputs": 0}, "outputs must be at least 1; got 0"),
        ({"blocks": 0}, "blocks must be at least 1, or names; got 0"),
        ({"blocks": -1}, "blocks must be at least 1, or names; got -1"),
        ({"momentum": 0.0}, "momentum must be between 0 and 1; got 0.0"),
    ],
)
def test_senseless_settings_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Finetuning(**settings)


@pytest.mark.parametrize("out", ["/", "a\0b"])
def test_a_place_that_cannot_be_is_refused_before_anything_is_done(
    out: str, tiny_collection: RawCollection
) -> None:
    with pytest.raises(InputError, match="cannot be the name of a folder to make"):
        finetune(tiny_collection, "no/such-encoder", Path(out), SMALL)


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
