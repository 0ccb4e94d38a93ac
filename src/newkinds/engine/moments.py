"""Sums and second moments of the features, lane by lane: the same bits however many processes there are."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newkinds.engine.samples import Samples, add_product, lane_blocks, sum_over_lanes
from newkinds.labels import UNLABELLED, IntArray


def second_moment(samples: Samples) -> Tensor:
    """Mean of z z' over all samples: (features, features)."""

    def lane_sum(lane: slice) -> Tensor:
        products = torch.zeros(samples.width, samples.width, device=samples.device)
        for rows in lane_blocks(lane, samples.width, samples.device.type):
            features = samples.read(rows)
            add_product(products, features.T, features)
        return products

    return sum_over_lanes(samples, lane_sum) / len(samples)


def scatter_within(samples: Samples, columns: IntArray) -> tuple[Tensor, Tensor, int]:
    """How samples of one category differ from each other.

    Parameters
    ----------
    samples : Samples
    columns : ndarray of shape (samples,)
        Category of each sample, -1 = none.

    Returns
    -------
    scatter : Tensor of shape (features, features)
        Sum of the products of differences from the mean of the own category.
    centre : Tensor of shape (features,)
        Mean of the means of the categories.
    degrees : int
        Samples less categories.
    """
    own = torch.from_numpy(columns[samples.own]).to(samples.device)
    n_columns = max(int(columns.max(initial=-1)) + 1, 1)
    sums, counts = (part[0] for part in category_sums(samples, own[:, None], n_columns))
    means = sums / counts.clamp_min(1)[:, None]
    used = counts > 0

    def lane_sum(lane: slice) -> Tensor:
        products = torch.zeros(samples.width, samples.width, device=samples.device)
        for rows in lane_blocks(lane, samples.width, samples.device.type):
            column = own[samples.within(rows)]
            belongs = column != UNLABELLED
            around = samples.read(rows)[belongs] - means[column[belongs]]
            add_product(products, around.T, around)
        return products

    scatter = sum_over_lanes(samples, lane_sum)
    return scatter, means[used].mean(0), int(counts.sum()) - int(used.sum())


def category_sums(samples: Samples, columns: Tensor, n_categories: int) -> tuple[Tensor, Tensor]:
    """Sum of the features and number of samples of each category, over all processes.

    Parameters
    ----------
    samples : Samples
    columns : Tensor of shape (own samples, restarts)
        Category of each of this process's samples, -1 = none.
    n_categories : int

    Returns
    -------
    sums : Tensor of shape (restarts, categories, features)
    counts : Tensor of shape (restarts, categories)
    """
    restarts, device = columns.shape[1], samples.device
    first = torch.arange(restarts, device=device) * n_categories
    nowhere = restarts * n_categories  # one extra row takes the samples that belong to no category

    def lane_sums(lane: slice) -> Tensor:
        sums = torch.zeros(nowhere + 1, samples.width + 1, device=device)
        for rows in lane_blocks(lane, max(len(sums), samples.width), device.type):
            targets = columns[samples.within(rows)].long()
            targets = torch.where(targets == UNLABELLED, nowhere, targets + first)
            features = torch.nn.functional.pad(samples.read(rows), (0, 1), value=1.0)  # the ones count
            if device.type == "cpu":
                _sum_by_index(sums, targets, features)
            else:  # index_add_ adds in an order that changes between runs on a GPU; a product does not
                _sum_by_product(sums, targets, features)
        return sums

    sums = sum_over_lanes(samples, lane_sums)[:nowhere].view(restarts, n_categories, -1)
    return sums[:, :, :-1], sums[:, :, -1]


def category_means(
    samples: Samples, columns: IntArray, otherwise: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Mean feature of each category, given the column of every sample; `otherwise` where a category has none."""
    own_columns = torch.from_numpy(columns[samples.own]).to(samples.device)
    sums, counts = category_sums(samples, own_columns[:, None], len(otherwise))
    means = sums[0] / counts[0, :, None].clamp_min(1)
    empty = (counts[0] == 0)[:, None].cpu().numpy()
    return np.where(empty, otherwise, means.cpu().numpy())


def _sum_by_index(sums: Tensor, columns: Tensor, features: Tensor) -> None:
    """Add each sample to its row of `sums` for each restart: columns of shape (samples, restarts)."""
    for targets in columns.T:
        sums.index_add_(0, targets, features)


def _sum_by_product(sums: Tensor, columns: Tensor, features: Tensor) -> None:
    """The same by a product with the membership matrix."""
    members = torch.zeros(len(columns), len(sums), dtype=sums.dtype, device=sums.device)
    sums.addmm_(members.scatter_(1, columns, 1.0).T, features)
