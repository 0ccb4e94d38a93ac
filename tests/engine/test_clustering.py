"""k-means and its semi-supervised form: against scikit-learn, and in the corners."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans as SklearnKMeans

from newkinds import InputError
from newkinds.data import digits
from newkinds.engine import Samples, cluster_each, clustering, clustering_bytes, kmeans, seed_centroids
from newkinds.engine.clustering import _Lloyd
from newkinds.engine.moments import _sum_by_index, _sum_by_product, category_sums
from newkinds.engine.seeding import SEEDING_ELEMENTS, _Draw, draw_seeds
from newkinds.names import SEEDINGS, Seeding


@pytest.fixture(scope="module")
def features() -> torch.Tensor:
    return torch.nn.functional.normalize(torch.from_numpy(digits().features), dim=1)


def state(seed: int = 0) -> np.random.RandomState:
    return np.random.RandomState(seed)


def test_as_good_as_scikit_learn(features: torch.Tensor) -> None:
    theirs = SklearnKMeans(10, n_init=10, random_state=0).fit(features.numpy())
    ours = kmeans(features, 10, n_init=10, rng=state())
    assert ours.inertia == pytest.approx(theirs.inertia_, rel=2e-3)
    assert ours.converged


def test_the_result_is_a_fixed_point(features: torch.Tensor) -> None:
    result = kmeans(features, 10, n_init=2, rng=state())
    squares = ((features.numpy()[:, None] - result.centroids[None]) ** 2).sum(-1)
    assert np.array_equal(squares.argmin(axis=1), result.columns)
    assert result.inertia == pytest.approx(squares.min(axis=1).sum(), rel=1e-4)
    for k in range(10):
        mean = features.numpy()[result.columns == k].mean(axis=0)
        np.testing.assert_allclose(mean, result.centroids[k], atol=1e-5)


def test_labelled_samples_never_leave_their_category(features: torch.Tensor) -> None:
    labels = digits().labels.copy()
    swapped = np.flatnonzero(labels == 0)[:3]
    labels[swapped] = 1  # zeros that were called ones must stay with the ones
    result = kmeans(features, 10, labels=labels, n_init=2, rng=state())
    given = labels >= 0
    assert np.array_equal(result.columns[given], labels[given])
    assert set(result.columns) == set(range(10))


def test_known_centroids_start_at_class_means(features: torch.Tensor) -> None:
    labels = digits().labels
    seeds = seed_centroids(features, 7, labels=labels, n_init=3, rng=state())
    for k in range(5):
        mean = features.numpy()[labels == k].mean(axis=0)
        for restart in range(3):
            np.testing.assert_allclose(seeds[restart, k].numpy(), mean, atol=1e-6)
    unlabelled = features[torch.from_numpy(labels < 0)]
    for centroid in seeds[:, 5:].reshape(-1, 64):
        assert (unlabelled == centroid).all(dim=1).any()


@pytest.mark.parametrize("seeding", SEEDINGS)
def test_seeds_differ_between_restarts_and_repeat_for_a_seed(features: torch.Tensor, seeding: Seeding) -> None:
    one = seed_centroids(features, 6, seeding=seeding, n_init=4, rng=state(1))
    again = seed_centroids(features, 6, seeding=seeding, n_init=4, rng=state(1))
    assert torch.equal(one, again)
    assert len({tuple(restart.flatten().tolist()) for restart in one}) == 4


def test_d2_seeding_draws_in_proportion_to_squared_distance() -> None:
    """One known centroid at x; three candidates at squared distances 0, 2 and 4 of it."""
    features = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    labels = np.array([0, -1, -1, -1])
    seeds = seed_centroids(features, 2, labels=labels, seeding="d2", n_init=3000, rng=state())[:, 1]
    shares = [(seeds == features[i]).all(dim=1).float().mean().item() for i in (1, 2, 3)]
    assert shares == pytest.approx([0, 1 / 3, 2 / 3], abs=0.03)


def test_greedy_seeding_starts_lower_than_plain(features: torch.Tensor) -> None:
    def mean_start(seeding: Seeding) -> float:
        seeds = seed_centroids(features, 30, seeding=seeding, n_init=20, rng=state())
        return float(torch.cdist(features.expand(20, -1, -1), seeds).square().amin(-1).sum(-1).mean())

    assert mean_start("greedy") < 0.97 * mean_start("d2")


def test_restarts_do_not_depend_on_each_other(features: torch.Tensor) -> None:
    """A restart starts from its own seed only: the first of many is the one that runs alone."""
    alone = seed_centroids(features, 10, n_init=1, rng=state(3))
    many = seed_centroids(features, 10, n_init=5, rng=state(3))
    assert torch.equal(alone[0], many[0])
    assert (
        kmeans(features, 10, n_init=5, rng=state(3)).inertia <= kmeans(features, 10, n_init=1, rng=state(3)).inertia
    )


def test_the_best_restart_wins(features: torch.Tensor) -> None:
    inertias = [kmeans(features, 25, n_init=n, rng=state(0)).inertia for n in (1, 3, 10)]
    assert inertias == sorted(inertias, reverse=True)
    assert inertias[-1] < inertias[0]


def test_of_equally_good_restarts_the_first_wins() -> None:
    """Four samples, a category for each: every restart ends at inertia 0, with the categories in another order."""
    orders = set()
    for seed in range(6):
        many, first = (kmeans(torch.eye(4), 4, seeding="random", n_init=n, rng=state(seed)) for n in (9, 1))
        assert many.columns.tolist() == first.columns.tolist()
        orders.add(tuple(first.columns.tolist()))
    assert len(orders) > 1


def test_a_sample_between_two_centroids_goes_to_the_first() -> None:
    features = torch.nn.functional.normalize(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), dim=1)
    result = kmeans(features, 2, labels=np.array([0, 1, -1]), rng=state())
    assert result.columns.tolist() == [0, 1, 0]


@pytest.mark.parametrize("tolerance", [0.0, 0.005, 0.02, 0.1])
def test_a_restart_ends_when_no_larger_share_of_the_samples_moves(features: torch.Tensor, tolerance: float) -> None:
    """What an iteration changes is seen by ending before and after it."""
    result = kmeans(features, 20, n_init=1, tolerance=tolerance, rng=state())
    ends = range(1, result.n_iter + 1)
    columns = [kmeans(features, 20, n_init=1, max_iter=n, rng=state()).columns for n in ends]
    shares = [(one != other).mean() for one, other in pairwise(columns)]
    assert result.converged
    assert shares[-2] <= tolerance < min(shares[:-2])


@pytest.mark.parametrize(("n_categories", "candidates"), [(2, 2), (8, 4), (30, 5)])
def test_greedy_seeding_chooses_among_two_and_the_logarithm_of_the_categories(
    features: torch.Tensor, n_categories: int, candidates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    draw = _Draw._draw

    def counted(self: _Draw, nearest: torch.Tensor, uniform: np.ndarray) -> np.ndarray:
        drawn.append(uniform.shape[1])
        return draw(self, nearest, uniform)

    monkeypatch.setattr(_Draw, "_draw", counted)
    seed_centroids(features, n_categories, seeding="greedy", rng=state())
    assert drawn == [candidates] * (n_categories - 1)


@pytest.mark.parametrize("seeding", ["d2", "random"])
def test_the_first_seeds_are_the_same_whatever_the_number_of_categories(
    features: torch.Tensor, seeding: Seeding
) -> None:
    few, many = (seed_centroids(features, n, seeding=seeding, n_init=3, rng=state(2)) for n in (6, 11))
    assert torch.equal(few, many[:, :6])


def label_sets(n_samples: int) -> np.ndarray:
    """Four sets of labels of the same two categories."""
    drawn = np.random.default_rng(1).integers(-6, 2, size=(4, n_samples))
    return np.maximum(drawn, -1)


@pytest.mark.parametrize("seeding", ["d2", "greedy", "random"])
@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_starts_with_labels_of_their_own_are_what_each_would_be_alone(
    features: torch.Tensor, seeding: Seeding, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates = 2 + int(np.log(9)) if seeding == "greedy" else 1
    monkeypatch.setitem(SEEDING_ELEMENTS, "cpu", at_once * candidates * len(features))
    sets = label_sets(len(features))
    together = seed_centroids(features, 9, labels=sets, seeding=seeding, n_init=4, rng=state(5))
    seeds = state(5).randint(2**31 - 1, size=4)
    for i, labels in enumerate(sets):
        alone = draw_seeds(Samples(features), 9, labels, seeding, seeds[i : i + 1], "")
        torch.testing.assert_close(together[i], alone[0])


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_clusterings_with_labels_of_their_own_are_what_each_would_be_alone(
    features: torch.Tensor, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clustering, "EACH_BYTES", at_once * clustering_bytes(Samples(features), 9, restarts=1))
    sets = label_sets(len(features))
    starts = seed_centroids(features, 9, labels=sets, seeding="d2", n_init=4, rng=state(5))
    together = cluster_each(features, starts, sets, max_iter=50)
    for start, labels, centroids in zip(starts, sets, together, strict=True):
        alone = cluster_each(features, start[None], labels, max_iter=50)[0]
        np.testing.assert_allclose(centroids, alone, atol=1e-6)
        for category in range(2):  # labelled samples never leave
            assert (
                _Lloyd(Samples(features), labels).assign(start[None], np.arange(1))[0].numpy()[:, 0] == category
            )[labels == category].all()
    assert len({centroids.tobytes() for centroids in together}) == 4


def test_an_empty_category_moves_to_the_farthest_sample() -> None:
    """Two tight pairs, three categories: whatever the seeds, no category stays empty."""
    angles = np.array([0.0, 0.01, 1.5, 1.58])
    features = torch.from_numpy(np.stack([np.cos(angles), np.sin(angles)], axis=1)).float()
    for seed in range(10):
        result = kmeans(features, 3, seeding="random", n_init=1, rng=state(seed))
        assert sorted(np.bincount(result.columns, minlength=3)) == [1, 1, 2]
        assert len({*result.columns[2:]}) == 2 or len({*result.columns[:2]}) == 2


def test_duplicates_leave_surplus_categories_empty_without_nan() -> None:
    features = torch.tensor([[1.0, 0.0]] * 5 + [[0.0, 1.0]] * 5)
    result = kmeans(features, 4, n_init=3, rng=state())
    assert result.converged  # they do not move for ever from one sample on its centroid to another
    assert np.isfinite(result.centroids).all()
    assert result.inertia == pytest.approx(0, abs=1e-5)
    assert result.columns[0] != result.columns[-1]


def test_a_class_of_one_sample_is_its_own_mean() -> None:
    features = torch.eye(4)
    result = kmeans(features, 3, labels=np.array([0, -1, -1, -1]), rng=state())
    assert result.columns[0] == 0
    assert np.bincount(result.columns, minlength=3).min() >= 1


def test_as_many_categories_as_samples() -> None:
    result = kmeans(torch.eye(4), 4, rng=state())
    assert sorted(result.columns) == [0, 1, 2, 3]
    assert result.inertia == pytest.approx(0, abs=1e-6)


def test_more_categories_than_samples_is_refused() -> None:
    with pytest.raises(InputError, match="5 categories cannot be started from 0 known ones and 4 unlabelled"):
        kmeans(torch.eye(4), 5, rng=state())


def test_inertia_at_the_nearest_centroid_is_the_release_s() -> None:
    """A labelled sample that is nearer to another category counts at that one, and distances are not squared."""
    features = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    labels = np.array([0, 1, 1, 1])  # the second sample lies among the zeros
    own = kmeans(features, 2, labels=labels, inertia="squared", rng=state())
    nearest = kmeans(features, 2, labels=labels, inertia="nearest", rng=state())
    centroid = np.array([1 / 3, 2 / 3])
    spread = [np.linalg.norm(np.array(z) - centroid) for z in ([1, 0], [0, 1], [0, 1])]
    assert own.inertia == pytest.approx(sum(d**2 for d in spread), rel=1e-5)
    assert nearest.inertia == pytest.approx(spread[1] + spread[2], rel=1e-3, abs=1e-3)
    np.testing.assert_array_equal(own.centroids, nearest.centroids)


def test_sums_of_categories_for_several_restarts() -> None:
    features = torch.arange(6.0).reshape(3, 2)
    columns = torch.tensor([[0, 1], [0, 0], [1, 0]])
    sums, counts = category_sums(Samples(features), columns, 2)
    assert sums.tolist() == [[[2, 4], [4, 5]], [[6, 8], [0, 1]]]
    assert counts.tolist() == [[2, 1], [2, 1]]


def test_sums_by_index_and_by_product_agree(features: torch.Tensor) -> None:
    """The second is the GPU's way; it is checked wherever the tests run."""
    drawn = torch.randint(0, 12, (len(features), 3), generator=torch.Generator().manual_seed(0))
    columns = drawn + 12 * torch.arange(3)  # rows of its own for each restart
    by_index, by_product = torch.zeros(36, 64), torch.zeros(36, 64)
    _sum_by_index(by_index, columns, features)
    _sum_by_product(by_product, columns, features)
    torch.testing.assert_close(by_index, by_product)


def test_labels_cost_no_memory_that_grows_with_the_restarts() -> None:
    """Many restarts with many labelled samples: nothing of the size restarts × labelled × features is made."""
    features = torch.nn.functional.normalize(
        torch.rand(2000, 64, generator=torch.Generator().manual_seed(0)), dim=1
    )
    labels = np.where(np.arange(2000) < 1000, np.arange(2000) % 5, -1)
    centroids = seed_centroids(features, 8, labels=labels, n_init=100, rng=state())
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, acc_events=True
    ) as profile:
        _Lloyd(Samples(features), labels).assign(centroids, np.arange(100))
    largest = max(event.cpu_memory_usage for event in profile.events())
    assert largest < 100 * 1000 * 64 * 4 / 4
