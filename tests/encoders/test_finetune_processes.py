"""Fine-tuning in two processes, and in one that is killed.

This file is also the program that the processes run, see `main`.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from newkinds.data.raw import RawCollection
from newkinds.encoders import finetune as finetuning
from newkinds.encoders.contrastive import ProjectionHead
from newkinds.encoders.encoder import Trainable
from newkinds.encoders.modules import ModuleEncoder
from newkinds.encoders.preparation import ImagePreparation
from newkinds.names import Classifier
from newkinds.runtime import processes

PATIENCE = 120
"""Seconds until processes that do not answer are given up."""
CLASSIFIERS: tuple[Classifier | None, ...] = (None, "simgcd", "uno")
EPOCHS = 3


def tiny_encoder(*_: object, **__: object) -> ModuleEncoder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Conv2d(3, 6, 4, stride=4), nn.ReLU(), nn.Conv2d(6, 6, 1))
    return ModuleEncoder(layers, ImagePreparation(size=(16, 16), resize=20), "tiny")


def train(
    out: Path, classifier: Classifier | None = None, watch: Callable[[int, Trainable], None] | None = None
) -> list[float]:
    items = list(np.random.default_rng(0).integers(0, 256, (20, 22, 22, 3), dtype=np.uint8))
    labels = np.where(np.arange(20) % 2 == 0, np.arange(20) % 3, -1)
    collection = RawCollection("images", items, tuple(map(str, range(20))), labels)
    settings = finetuning.Finetuning(
        epochs=EPOCHS,
        batch_size=8,
        outputs=32,
        workers=0,
        learning_rate=0.02,
        classifier=classifier,
        n_categories=None if classifier is None else 4,
    )
    small_head = partial(ProjectionHead, hidden=32, bottleneck=16)
    with patch.multiple(finetuning, load_encoder=tiny_encoder, ProjectionHead=small_head):
        return finetuning.finetune(collection, "tiny", out, settings, device="cpu", watch=watch)


def die_after_two_epochs(epoch: int, _: Trainable) -> None:
    if epoch == 2:
        os.kill(os.getpid(), signal.SIGKILL)


def main(task: str, folder: Path) -> None:
    if task == "killed":
        train(folder / "own", watch=die_after_two_epochs)
        return
    with processes("cpu"):
        for classifier in CLASSIFIERS:
            train(folder / str(classifier), classifier)


def run(*launcher: str, task: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *launcher, __file__, task, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.slow
def test_two_processes_train_what_one_trains(tmp_path: Path) -> None:
    """Without a classifier, and with each: all in one session, since starting it takes longer than the training."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = run(*launcher, task="everything", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    for classifier in CLASSIFIERS:
        two, one = tmp_path / str(classifier), tmp_path / f"{classifier} alone"
        losses = train(one, classifier)
        ours, theirs = (load_file(folder / "trained.safetensors") for folder in (one, two))
        assert ours.keys() == theirs.keys()
        for name, values in ours.items():
            torch.testing.assert_close(values, theirs[name], rtol=1e-3, atol=1e-5)
        assert json.loads((two / "encoder.json").read_text())["losses"] == pytest.approx(losses, rel=1e-4)


@pytest.mark.slow
def test_a_training_that_is_killed_loses_at_most_an_epoch(tmp_path: Path) -> None:
    killed = run(task="killed", folder=tmp_path)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "own").exists()
    state = json.loads((tmp_path / ".own.state" / "state.json").read_text())
    assert len(state["losses"]) == 2
    seen: list[int] = []
    losses = train(tmp_path / "own", watch=lambda epoch, _: seen.append(epoch))
    assert seen == [3]  # the first two were taken over, not computed again
    assert losses[:2] == state["losses"]
    assert losses == pytest.approx(train(tmp_path / "other"), rel=1e-6)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
