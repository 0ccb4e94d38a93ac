"""The losses and the projection head of GCD's contrastive training.

Vaze et al., "Generalized Category Discovery", CVPR 2022: InfoNCE on all samples and the supervised contrastive loss
of Khosla et al. (NeurIPS 2020) on labelled ones, both on the outputs of a projection head as in DINO.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from newkinds.labels import UNLABELLED


def info_nce(views: Tensor, temperature: float) -> Tensor:
    """Mean over the views of -log p, p the share of a view's similarity that goes to its sample's other view.

    Parameters
    ----------
    views : Tensor of shape (2, samples, width)
        Unit vectors.
    """
    n = views.shape[1]
    flat = views.flatten(0, 1)
    similarity = (flat @ flat.T / temperature).fill_diagonal_(-torch.inf)  # (2 samples, 2 samples)
    other = torch.arange(2 * n, device=flat.device).roll(n)
    return functional.cross_entropy(similarity, other)


def supervised_contrastive(views: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Like `info_nce`, but towards all views of all samples with the same label; the mean is over their -log p.

    Unlabelled samples (-1) take no part; without any labelled sample the loss is 0.
    """
    labelled = labels != UNLABELLED
    flat = views[:, labelled].flatten(0, 1)
    if not len(flat):
        return views.sum() * 0.0
    columns = labels[labelled].repeat(2)
    itself = torch.eye(len(flat), dtype=torch.bool, device=flat.device)
    log_p = functional.log_softmax((flat @ flat.T / temperature).masked_fill(itself, -torch.inf), dim=1)
    positive = (columns[:, None] == columns) & ~itself
    return -(log_p.masked_fill(~positive, 0.0).sum(1) / positive.sum(1)).mean()


class ProjectionHead(nn.Module):
    """Three layers, a bottleneck of unit length, and cosines to prototypes: unit vectors out.

    `outputs` = 65,536 and `hidden` = 2048 are GCD's. Without `outputs` the bottleneck is what comes out, as in
    SimGCD. Only the directions of prototypes count, but their lengths decide how fast they turn: they begin as the
    rows of a linear layer do, at a length of about 0.58.
    """

    def __init__(self, width: int, hidden: int = 2048, bottleneck: int = 256, outputs: int | None = 65536) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU()),
            nn.Linear(hidden, bottleneck),
        )
        self.prototypes = None if outputs is None else nn.Parameter(torch.empty(outputs, bottleneck))
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                nn.init.trunc_normal_(layer.weight, std=0.02)
                nn.init.zeros_(layer.bias)
        if self.prototypes is not None:
            nn.init.uniform_(self.prototypes, -1 / math.sqrt(bottleneck), 1 / math.sqrt(bottleneck))

    def forward(self, features: Tensor) -> Tensor:
        bottleneck = functional.normalize(self.layers(features), dim=-1)
        if self.prototypes is None:
            return bottleneck
        return functional.normalize(bottleneck @ functional.normalize(self.prototypes, dim=-1).T, dim=-1)
