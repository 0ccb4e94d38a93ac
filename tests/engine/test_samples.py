"""Features as the engine reads them: the same unit vectors wherever they lie, and never too many at a time."""

import tracemalloc
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

from newkinds import InputError
from newkinds.engine import LinearMap, Partitioner, Run, Samples, kmeans, normalised, optimise, samples
from newkinds.names import SOLVERS, Geometry, SolverName
from newkinds.objective import PARTITION, RIM
from newkinds.runtime import listening

N, WIDTH = 300, 13


def random_features(kind: type = np.float32, n: int = N, width: int = WIDTH, seed: int = 0) -> np.ndarray:
    """Vectors of lengths between about 0.1 and 100."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, width)) * 10 ** rng.uniform(-1, 1.5, size=(n, 1))).astype(kind)


def saved_map(folder: Path, features: np.ndarray) -> np.ndarray:
    np.save(folder / "features.npy", features)
    return np.load(folder / "features.npy", mmap_mode="r")


def whole(some: Samples) -> np.ndarray:
    return some.read(some.own).cpu().numpy()


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is held ready."""
    monkeypatch.setattr(samples, "RESIDENT_BYTES", 0)


def resident_and_streamed(source: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Samples, Samples]:
    held = Samples(source)
    with monkeypatch.context() as patch:
        patch.setattr(samples, "RESIDENT_BYTES", 0)
        read = Samples(source)
    assert held.resident is not None
    assert read.resident is None
    return held, read


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("held", [True, False])
def test_an_array_gives_the_unit_vectors_of_normalised(
    kind: type, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = random_features(kind)
    some = resident_and_streamed(features, monkeypatch)[0 if held else 1]
    assert (len(some), some.width) == (N, WIDTH)
    found = whole(some)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, normalised(features), rtol=2e-6, atol=1e-7)
    np.testing.assert_allclose(np.linalg.norm(found.astype(np.float64), axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("held", [True, False])
def test_a_read_only_memory_map_gives_the_same_as_an_array(
    kind: type, held: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = random_features(kind)
    mapped = saved_map(tmp_path, features)
    assert not mapped.flags.writeable
    from_map = resident_and_streamed(mapped, monkeypatch)[0 if held else 1]
    assert np.array_equal(whole(from_map), whole(Samples(features)))
    assert np.array_equal(mapped, features)


def test_a_tensor_is_taken_as_it_is() -> None:
    features = torch.from_numpy(normalised(random_features()))
    some = Samples(features)
    assert some.read(slice(0, N)).data_ptr() == features.data_ptr()
    assert torch.equal(some.read(slice(5, 9)), features[5:9])
    assert Samples.of(some) is some
    assert torch.equal(Samples.of(features).read(slice(0, N)), features)


def test_the_source_is_left_as_it_was() -> None:
    for kind in (np.float16, np.float32, np.float64):
        features = random_features(kind)
        before = features.copy()
        some = Samples(features)
        optimise(some, [Run(whole(some)[:3], PARTITION)], max_iter=3)
        assert np.array_equal(features, before)


@pytest.mark.parametrize(
    ("kind", "size"),
    [(np.float32, 1e30), (np.float32, 1e-30), (np.float64, 1e200), (np.float64, 1e-200), (np.float16, 1e-4)],
)
@pytest.mark.parametrize("held", [True, False])
def test_the_length_of_a_vector_does_not_matter(
    kind: type, size: float, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = random_features(np.float64)
    scaled = features.copy()
    scaled[7] = normalised(scaled[7:8])[0] * size
    some = resident_and_streamed(scaled.astype(kind), monkeypatch)[0 if held else 1]
    tolerance = 3e-2 if kind is np.float16 else 1e-5  # of numbers near the least of float16 few digits are left
    np.testing.assert_allclose(whole(some), normalised(features), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(some.take(np.array([7]))[0], normalised(features)[7], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_held_ready_or_read_every_time_gives_the_same_features(
    kind: type, order: Literal["C", "F"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for maps of which the columns lie together, as `np.save` writes a transposed array."""
    mapped = saved_map(tmp_path, np.asarray(random_features(kind), order=order))
    held, read = resident_and_streamed(mapped, monkeypatch)
    assert torch.equal(held.read(held.own), read.read(read.own))
    for rows in (slice(0, 1), slice(3, 50), slice(N - 7, N)):
        assert torch.equal(held.read(rows), read.read(rows))
    drawn = np.random.default_rng(1).integers(0, N, 50)
    assert torch.equal(held.take(drawn), read.take(drawn))
    assert np.array_equal(held.fingerprint(), read.fingerprint())


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_held_ready_or_read_every_time_gives_the_same_training(
    kind: type, order: Literal["C", "F"], solver: SolverName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = random_features(kind, n=1500, width=24)
    labels = np.where(np.arange(1500) % 4 == 0, np.arange(1500) % 3, -1)
    start = normalised(features[:6]).astype(np.float32)
    runs = [Run(start, PARTITION.at(0.3)), Run(start[:4], RIM, geometry="euclidean")]
    mapped = saved_map(tmp_path, np.asarray(features, order=order))
    one, other = (
        optimise(some, runs, labels=labels, solver=solver, max_iter=15)
        for some in resident_and_streamed(mapped, monkeypatch)
    )
    assert np.array_equal(one.values, other.values, equal_nan=True)
    for a, b in zip(one.partitioners, other.partitioners, strict=True):
        assert np.array_equal(a.weights, b.weights)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_held_ready_or_read_every_time_gives_the_same_clusters(
    kind: type, order: Literal["C", "F"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = random_features(kind, n=1500, width=24)
    labels = np.where(np.arange(1500) % 4 == 0, np.arange(1500) % 3, -1)
    mapped = saved_map(tmp_path, np.asarray(features, order=order))
    one, other = (
        kmeans(some, 9, labels=labels, n_init=3, rng=np.random.RandomState(0))
        for some in resident_and_streamed(mapped, monkeypatch)
    )
    assert np.array_equal(one.centroids, other.centroids)
    assert np.array_equal(one.columns, other.columns)
    assert (one.inertia, one.n_iter, one.converged) == (other.inertia, other.n_iter, other.converged)


@pytest.mark.parametrize("held", [True, False])
def test_samples_are_taken_in_any_order(held: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    features = random_features()
    monkeypatch.setattr(samples, "CHECKED_ROWS", 7)
    some = resident_and_streamed(features, monkeypatch)[0 if held else 1]
    everything = whole(some)
    for wanted in ([0], [N - 1, 0], [5, 5, 5], [250, 3, 299, 3, 17], np.random.default_rng(0).permutation(N), []):
        indices = np.asarray(wanted, dtype=np.int64)
        assert np.array_equal(some.take(indices).numpy(), everything[indices])


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("geometry", ["linear", "euclidean"])
def test_categories_are_those_of_the_partitioner(
    held: bool, geometry: Geometry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "CHECKED_ROWS", 64)
    some = resident_and_streamed(random_features(), monkeypatch)[0 if held else 1]
    weights = np.random.default_rng(1).normal(size=(5, WIDTH)).astype(np.float32)
    partitioner = Partitioner(weights, 9.0, geometry)
    expected = partitioner.assign(whole(some))
    assert len(set(expected)) > 1
    assert np.array_equal(some.assign(partitioner), expected)
    masks = [np.arange(N) % 3 == 0, np.arange(N) >= 200, np.arange(N) == 64, np.ones(N, bool), np.zeros(N, bool)]
    for among in masks:
        assert np.array_equal(some.assign(partitioner, among), expected[among])


@pytest.mark.parametrize("row", [0, 45, N - 1])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.nan, "features must be finite; row {} has NaN or infinity"),
        (np.inf, "features must be finite; row {} has NaN or infinity"),
        (-np.inf, "features must be finite; row {} has NaN or infinity"),
        (0.0, "row {} is a zero vector"),
    ],
)
def test_a_bad_row_is_named(
    row: int, kind: type, bad: float, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whichever block it lies, whether one number of it is bad or (for zeros) all are."""
    monkeypatch.setattr(samples, "CHECKED_ROWS", 16)
    features = random_features(kind)
    features[row, slice(None) if bad == 0 else 3] = bad
    with pytest.raises(InputError, match=message.format(row)):
        Samples(features)


def test_a_bad_row_among_vectors_of_extreme_length_is_named() -> None:
    features = random_features()
    features[:40] *= np.float32(1e25)
    features[123] = 0
    with pytest.raises(InputError, match="row 123 is a zero vector"):
        Samples(features)


@pytest.mark.usefixtures("streamed")
def test_a_map_is_never_copied_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checking, training, clustering and assigning 40 MB take a few blocks of it at a time."""
    monkeypatch.setattr(samples, "CHECKED_ROWS", 1024)
    monkeypatch.setattr(samples, "LOADED_ROWS", 1024)
    n, width = 40_000, 256
    mapped = saved_map(tmp_path, np.random.default_rng(0).random((n, width), dtype=np.float32))
    few = torch.eye(4)
    optimise(
        few, [Run(np.eye(4, dtype=np.float32), PARTITION)], max_iter=1
    )  # what PyTorch imports late is not ours
    tracemalloc.start()
    try:
        some = Samples(mapped)
        start = some.take(np.arange(3)).numpy()
        optimise(some, [Run(start, PARTITION)], max_iter=1)
        optimise(some, [Run(start, PARTITION)], solver="lbfgs", max_iter=1)
        kmeans(some, 3, n_init=1, max_iter=1, rng=np.random.RandomState(0))
        some.assign(Partitioner(start))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert mapped.nbytes > 40_000_000
    assert peak < 8_000_000


class Watched:
    """An array that remembers the most rows that were asked of it at a time."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.shape, self.dtype = values, values.shape, values.dtype
        self.most = 0

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        some = self.values[rows]
        self.most = max(self.most, len(some))
        return some


def test_no_more_than_a_block_is_read_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "CHECKED_ROWS", 512)
    monkeypatch.setattr(samples, "LOADED_ROWS", 512)
    source = Watched(random_features(n=9000))
    held, read = resident_and_streamed(source, monkeypatch)
    for some in (held, read):
        start = some.take(np.arange(3)).numpy()
        optimise(some, [Run(start, PARTITION)], solver="lbfgs", max_iter=3)
        kmeans(some, 3, n_init=2, rng=np.random.RandomState(0))
        some.assign(Partitioner(start), np.arange(9000) % 2 == 0)
        some.take(np.arange(8999, -1, -1))
    assert source.most <= 2048  # a block of the training may be longer than what is loaded ahead


@pytest.mark.parametrize(("n", "count"), [(1, 2), (8191, 2), (8192, 4), (20_000, 8), (1 << 18, 64), (1 << 19, 64)])
def test_the_lanes_depend_on_the_number_of_samples_only(n: int, count: int) -> None:
    """So that several processes, and those that come after them, add up in the same order."""
    some = Samples(torch.ones(n, 1))
    assert len(some.lanes) == count
    assert [lane.start for lane in some.lanes] == [n * lane // count for lane in range(count)]
    assert some.lanes[-1].stop == n


def test_reading_tells_how_far_it_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "CHECKED_ROWS", 100)
    heard = []
    with listening(lambda *report: heard.append(report)):
        Samples(random_features())
    assert heard == [("reading the features", done, N) for done in (100, 200, 300)]


def squeezing(width: int, to: int) -> LinearMap:
    rng = np.random.default_rng(5)
    return LinearMap(rng.normal(size=width).astype(np.float32), rng.normal(size=(width, to)).astype(np.float32))


@pytest.mark.parametrize("resident", [True, False])
def test_mapped_samples_are_the_same_wherever_they_lie(resident: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9000, 12)).astype(np.float32)
    linear = squeezing(12, 5)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    expected = (unit - linear.centre) @ linear.matrix
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    if not resident:
        monkeypatch.setattr("newkinds.engine.samples.RESIDENT_BYTES", 0)
    plain = Samples(X)
    mapped = plain.mapped(linear)
    assert (mapped.resident is not None) == resident
    assert (mapped.width, len(mapped), plain.width) == (5, 9000, 12)
    rows = np.array([8999, 3, 4500, 3])
    np.testing.assert_allclose(mapped.take(rows), expected[rows], atol=1e-5)
    np.testing.assert_allclose(mapped.read(slice(4000, 4100)), expected[4000:4100], atol=1e-5)
    assert not np.array_equal(mapped.fingerprint(), plain.fingerprint())
    twice = mapped.mapped(squeezing(5, 3))
    np.testing.assert_allclose(twice.take(rows), squeezing(5, 3).apply(mapped.take(rows)), atol=1e-6)


def test_a_tensor_can_be_mapped_though_the_result_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    features = torch.nn.functional.normalize(torch.randn(3000, 6, generator=torch.Generator().manual_seed(0)))
    whole = Samples(features)
    monkeypatch.setattr("newkinds.engine.samples.RESIDENT_BYTES", 0)
    mapped = whole.mapped(squeezing(6, 4))
    assert mapped.resident is None
    expected = squeezing(6, 4).apply(features)
    torch.testing.assert_close(mapped.read(slice(100, 200)), expected[100:200])
    torch.testing.assert_close(mapped.take(np.array([2999, 0])), expected[[2999, 0]])


def test_features_are_read_again_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newkinds.engine.samples.RESIDENT_BYTES", 0)
    monkeypatch.setattr("newkinds.engine.samples.LOADED_ROWS", 4)
    features = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    samples = Samples(features)
    first = samples.read(slice(0, 4)).clone()
    with monkeypatch.context() as broken:
        broken.setattr(Samples, "_load", lambda *_: (_ for _ in ()).throw(OSError("the disk is gone")))
        with pytest.raises(OSError, match="the disk is gone"):
            samples.read(slice(8, 12))
    expected = torch.from_numpy(features[8:12] / np.linalg.norm(features[8:12], axis=1, keepdims=True))
    torch.testing.assert_close(samples.read(slice(8, 12)), expected)
    assert torch.equal(samples.read(slice(0, 4)), first)
