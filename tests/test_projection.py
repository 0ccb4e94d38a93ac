"""The map of the samples."""

import sys

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from newkinds.projection import NEIGHBOURS, project

RNG = np.random.default_rng(0)


def clusters(n_categories: int, n: int, noise: float = 0.05, width: int = 16) -> tuple[np.ndarray, np.ndarray]:
    middles = RNG.normal(size=(n_categories, width))
    middles /= np.linalg.norm(middles, axis=1, keepdims=True)
    columns = np.arange(n) % n_categories
    features = middles[columns] + noise * RNG.normal(size=(n, width))
    return features / np.linalg.norm(features, axis=1, keepdims=True), columns


@pytest.fixture(autouse=True)
def without_umap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newkinds.projection.find_spec", lambda _: None)


@pytest.mark.parametrize("n_categories", [1, 2, 3, 9, 10, 60])
def test_categories_are_clouds_of_their_own(n_categories: int) -> None:
    features, columns = clusters(n_categories, 20 * n_categories)
    projection = project(features, columns, n_categories)
    assert projection.method == "clouds"
    assert (projection.places.shape, projection.places.dtype.name) == ((len(columns), 2), "float32")
    assert projection.places.min() >= 0
    assert projection.places.max() == pytest.approx(1)
    _, rows = NearestNeighbors(n_neighbors=4).fit(projection.places).kneighbors()
    assert (columns[rows] == columns[:, None]).mean() > 0.95


def test_alike_categories_lie_near_each_other() -> None:
    middles = np.eye(32)[:12] + 0.0
    middles[1] = middles[0] + 0.3 * np.eye(32)[20]
    columns = np.arange(240) % 12
    features = middles[columns] + 0.03 * RNG.normal(size=(240, 32))
    places = project(features, columns, 12).places
    anchors = np.array([places[columns == c].mean(axis=0) for c in range(12)])
    distances = np.linalg.norm(anchors - anchors[0], axis=1)
    assert np.argsort(distances)[1] == 1


def test_a_doubtful_sample_lies_on_the_side_of_the_other_category() -> None:
    features, columns = clusters(3, 300)
    middles = [features[columns == c].mean(axis=0) for c in range(2)]
    between = 0.51 * middles[0] + 0.49 * middles[1]
    features = np.vstack([features, between / np.linalg.norm(between)])
    columns = np.append(columns, 0)
    places = project(features, columns, 3).places
    own, other = (places[:-1][columns[:-1] == c].mean(axis=0) for c in range(2))
    towards = (places[-1] - own) @ (other - own) / ((other - own) ** 2).sum()
    assert 0.3 < towards < 0.7


def test_the_map_is_the_same_every_time() -> None:
    features, columns = clusters(12, 240)
    assert np.array_equal(project(features, columns, 12).places, project(features, columns, 12).places)


@pytest.mark.parametrize(
    "features",
    [np.ones((5, 3)), np.eye(5), np.ones((2, 1)), np.array([[1.0, 0]] * 40 + [[0.0, 1]])],
    ids=["the same", "one each", "one feature", "duplicates"],
)
def test_odd_collections_have_a_map_too(features: np.ndarray) -> None:
    for columns in (np.zeros(len(features), dtype=int), np.arange(len(features)) % 3):
        places = project(features, columns, 5).places
        assert np.isfinite(places).all()


def test_thousands_of_categories_have_a_plainer_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newkinds.projection.MOST_LAID_OUT", 20)
    features, columns = clusters(40, 400)
    places = project(features, columns, 40).places
    assert np.isfinite(places).all()
    assert len(np.unique(places, axis=0)) > 300


def test_half_precision_and_many_samples_in_blocks() -> None:
    features, columns = clusters(5, 40_000)
    places = project(features.astype(np.float16), columns, 5).places
    assert np.isfinite(places).all()
    assert len(places) == 40_000


class FakeUMAP:
    """Stands for umap-learn, which takes half a minute to be imported and compiled."""

    def __init__(self, random_state: int, n_jobs: int) -> None:
        self.seed = random_state

    def fit_transform(self, X: np.ndarray) -> np.ndarray:
        assert X.shape[1] <= 50
        return X[:, :2]


def test_umap_sees_some_and_the_others_lie_among_their_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newkinds.projection.find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "umap", type(sys)("umap"))
    monkeypatch.setattr(sys.modules["umap"], "UMAP", FakeUMAP, raising=False)
    monkeypatch.setattr("newkinds.projection.PROJECTED", 300)
    features, columns = clusters(4, 1000)
    projection = project(features, columns, 4)
    assert projection.method == "umap"
    _, rows = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(projection.places).kneighbors()
    assert (columns[rows] == columns[:, None]).mean() > 0.9


def test_a_umap_that_fails_is_done_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("newkinds.projection.find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "umap", type(sys)("umap"))  # another package of that name
    features, columns = clusters(4, 400)
    assert project(features, columns, 4).method == "clouds"
    assert "without UMAP" in caplog.text


@pytest.mark.slow
def test_umap_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("umap", reason="the extra report is not installed")
    monkeypatch.setattr("newkinds.projection.find_spec", lambda name: name)
    features, columns = clusters(6, 600)
    first, second = (project(features, columns, 6) for _ in range(2))
    assert first.method == "umap"
    assert np.array_equal(first.places, second.places)
    _, rows = NearestNeighbors(n_neighbors=4).fit(first.places).kneighbors()
    assert (columns[rows] == columns[:, None]).mean() > 0.95
