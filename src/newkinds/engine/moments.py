"""Second moments of the features, summed lane by lane: the same bits however many processes there are."""

import torch
from torch import Tensor

from newkinds.engine.clustering import category_sums
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
