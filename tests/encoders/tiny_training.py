"""A tiny encoder and the settings of a short training of it."""

from pathlib import Path

import torch
from torch import nn

from newkinds.encoders import load_encoder
from newkinds.encoders.contrastive import ProjectionHead
from newkinds.encoders.finetune import Finetuning
from newkinds.encoders.modules import ModuleEncoder
from newkinds.encoders.preparation import ImagePreparation

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
        maps = self.stem(images)
        for block in self.blocks:
            maps = maps + torch.relu(block(maps))
        return self.norm(maps).mean(dim=(2, 3))


def tiny_encoder(seed: int = 0) -> ModuleEncoder:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return ModuleEncoder(Net(), PREPARATION, "tiny")


def small_head(width: int, outputs: int | None) -> ProjectionHead:
    """Narrow, and so fast; its weights are larger, as it has fewer that are added up."""
    head = ProjectionHead(width, hidden=64, bottleneck=32, outputs=outputs)
    with torch.no_grad():
        for layer in head.layers:
            for weights in layer.parameters():
                weights.mul_(5)
    return head


def load_encoder_from(folder: Path) -> ModuleEncoder:
    encoder = load_encoder(str(folder), "images", device="cpu")
    assert isinstance(encoder, ModuleEncoder)
    return encoder
