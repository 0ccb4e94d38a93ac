"""The metric that categories teach, and few directions to compare in."""

import numpy as np
import pytest
import torch

from newkinds.engine import LinearMap, Samples
from newkinds.selection.metric import NARROW, WIDEST, learnt_metric, narrow_map
from newkinds.selection.metric import within_metric as within_metric_of_samples


def within_metric(features: torch.Tensor, categories: torch.Tensor, strength: float) -> LinearMap:
    return within_metric_of_samples(Samples(features), categories.numpy(), strength)


def centre_of(metric: LinearMap) -> torch.Tensor:
    return torch.from_numpy(metric.centre)


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
    mapped = (features - centre_of(metric)) @ torch.from_numpy(metric.matrix)
    around = torch.cat([mapped[categories == c] - mapped[categories == c].mean(0) for c in range(30)])
    covariance = around.T @ around
    torch.testing.assert_close(covariance / covariance[0, 0], torch.eye(4), atol=1e-3, rtol=0)


def test_without_strength_it_is_the_cosine_around_the_centre() -> None:
    features, categories = sampled([2.0, 0.5, 0.5, 0.1])
    metric = within_metric(features, categories, strength=0.0)
    centred = torch.nn.functional.normalize(features - centre_of(metric))
    torch.testing.assert_close(metric.apply(features), centred)


def test_the_centre_lies_between_categories_whatever_their_sizes() -> None:
    features, categories = sampled([0.1] * 4)
    some = (categories > 0) | (torch.arange(len(categories)) == 0)  # one sample of the first category
    whole, part = (centre_of(within_metric(features[rows], categories[rows], 0.5)) for rows in (some | True, some))
    torch.testing.assert_close(whole, part, atol=0.02, rtol=0)


def test_a_column_without_samples_is_passed_over() -> None:
    features, categories = sampled([1.0, 2.0])
    moved = torch.where(categories == 29, 35, categories)
    one, other = (within_metric(features, labels, 0.5) for labels in (categories, moved))
    np.testing.assert_allclose(one.matrix, other.matrix, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(one.centre, other.centre, rtol=1e-4)


def test_single_labels_teach_nothing_but_the_centre() -> None:
    features = torch.eye(3)
    metric = within_metric(features, torch.arange(3), 0.5)
    np.testing.assert_allclose(metric.matrix, np.eye(3))
    np.testing.assert_allclose(metric.centre, np.full(3, 1 / 3), rtol=1e-6)


def test_directions_in_which_categories_vary_count_less() -> None:
    features, categories = sampled([3.0, 0.2, 0.2, 0.2])
    metric = within_metric(features, categories, 0.5)
    similarity = metric.apply(features) @ metric.apply(features).T
    plain = within_metric(features, categories, 0.0).apply(features)
    same = categories[:, None] == categories

    def told_apart(values: torch.Tensor) -> float:
        return float(values[same].mean() - values[~same].mean())

    assert told_apart(similarity) > told_apart(plain @ plain.T) + 0.1


def unit_samples(width: int, n_categories: int = 20, n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Categories that are all long in the same four directions."""
    rng = np.random.default_rng(seed)
    categories = np.repeat(np.arange(n_categories), n)
    features = rng.normal(size=(n_categories, width))[categories] + rng.normal(size=(len(categories), width))
    features[:, :4] += 8 * rng.normal(size=(len(categories), 4))
    return features.astype(np.float32), categories


def told_apart(features: torch.Tensor, categories: np.ndarray) -> float:
    same = categories[:, None] == categories
    similarity = (features @ features.T).numpy()
    return float(similarity[same].mean() - similarity[~same].mean())


@pytest.mark.parametrize("width", [24, WIDEST + 40])
def test_a_learnt_metric_tells_categories_apart_that_did_not_teach_it(width: int) -> None:
    features, categories = unit_samples(width)
    samples = Samples(features)
    metric = learnt_metric(samples, np.where(categories < 10, categories, -1))
    assert metric.matrix.shape == (width, min(width, WIDEST))
    others = np.flatnonzero(categories >= 10)
    plain = samples.take(others)
    assert told_apart(metric.apply(plain), categories[others]) > 1.1 * told_apart(plain, categories[others])


def test_samples_that_do_not_teach_count_for_nothing() -> None:
    features, categories = unit_samples(12)
    taught = np.where(categories < 10, categories, -1)
    whole = learnt_metric(Samples(features), taught)
    part = learnt_metric(Samples(features[taught >= 0]), taught[taught >= 0])
    np.testing.assert_allclose(whole.centre, part.centre, atol=1e-6)
    np.testing.assert_allclose(whole.matrix, part.matrix, rtol=1e-4, atol=1e-5)


def test_without_anything_to_learn_from_it_is_the_cosine_around_the_centre() -> None:
    metric = learnt_metric(Samples(np.eye(3)), np.arange(3))
    np.testing.assert_allclose(metric.matrix, np.eye(3))


def test_narrow_samples_keep_what_the_wide_ones_say() -> None:
    rng = np.random.default_rng(0)
    inner = rng.normal(size=(400, 20)) @ rng.normal(size=(20, 300))  # of 300 features, 20 directions
    samples = Samples(inner)
    linear = narrow_map(samples, n_categories=10)
    assert linear is not None
    assert linear.width == NARROW
    wide, narrow = samples.take(np.arange(400)), samples.mapped(linear).take(np.arange(400))
    torch.testing.assert_close(narrow @ narrow.T, wide @ wide.T, atol=1e-4, rtol=0)


def test_samples_that_are_narrow_already_stay_as_they_are() -> None:
    assert narrow_map(Samples(np.random.default_rng(0).normal(size=(50, 150))), n_categories=5) is None
    wide = Samples(np.random.default_rng(0).normal(size=(50, 400)))
    assert narrow_map(wide, n_categories=5) is not None
    assert narrow_map(wide, n_categories=700) is None  # so many categories want more directions
