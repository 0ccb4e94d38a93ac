"""The metric that labels teach."""

import numpy as np
import torch

from newkinds.selection.metric import within_metric


def sampled(spread: list[float], n_categories: int = 30, n: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    """Categories that lie evenly around a far centre and are wide in some directions."""
    rng = np.random.default_rng(0)
    categories = np.repeat(np.arange(n_categories), n)
    means = 5.0 + rng.normal(size=(n_categories, len(spread)))
    features = means[categories] + rng.normal(size=(len(categories), len(spread))) * spread
    return torch.from_numpy(features).float(), torch.from_numpy(categories)


def test_at_full_strength_categories_are_round() -> None:
    features, categories = sampled([2.0, 0.5, 0.5, 0.1])
    metric = within_metric(features, categories, strength=1 - 1e-6)
    mapped = (features - metric.centre) @ metric.matrix
    around = torch.cat([mapped[categories == c] - mapped[categories == c].mean(0) for c in range(30)])
    covariance = around.T @ around
    torch.testing.assert_close(covariance / covariance[0, 0], torch.eye(4), atol=1e-3, rtol=0)


def test_without_strength_it_is_the_cosine_around_the_centre() -> None:
    features, categories = sampled([2.0, 0.5, 0.5, 0.1])
    metric = within_metric(features, categories, strength=0.0)
    centred = torch.nn.functional.normalize(features - metric.centre)
    torch.testing.assert_close(metric.apply(features), centred)


def test_the_centre_lies_between_categories_whatever_their_sizes() -> None:
    features, categories = sampled([0.1] * 4)
    some = (categories > 0) | (torch.arange(len(categories)) == 0)  # one sample of the first category
    whole, part = (within_metric(features[rows], categories[rows], 0.5).centre for rows in (some | True, some))
    torch.testing.assert_close(whole, part, atol=0.02, rtol=0)


def test_a_column_without_samples_is_passed_over() -> None:
    features, categories = sampled([1.0, 2.0])
    moved = torch.where(categories == 29, 35, categories)
    one, other = (within_metric(features, labels, 0.5) for labels in (categories, moved))
    torch.testing.assert_close(one.matrix, other.matrix)
    torch.testing.assert_close(one.centre, other.centre)


def test_single_labels_teach_nothing_but_the_centre() -> None:
    features = torch.eye(3)
    metric = within_metric(features, torch.arange(3), 0.5)
    torch.testing.assert_close(metric.matrix, torch.eye(3))
    torch.testing.assert_close(metric.centre, torch.full((3,), 1 / 3))


def test_directions_in_which_categories_vary_count_less() -> None:
    features, categories = sampled([3.0, 0.2, 0.2, 0.2])
    metric = within_metric(features, categories, 0.5)
    similarity = metric.apply(features) @ metric.apply(features).T
    plain = within_metric(features, categories, 0.0).apply(features)
    same = categories[:, None] == categories

    def told_apart(values: torch.Tensor) -> float:
        return float(values[same].mean() - values[~same].mean())

    assert told_apart(similarity) > told_apart(plain @ plain.T) + 0.1
