"""Memory that grows with the number of categories is no more than it takes, and refused where it is too much."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from newkinds import InputError
from newkinds.engine import Run, Samples, cluster_each, kmeans, optimise
from newkinds.engine.memory import clustering_bytes, training_bytes
from newkinds.engine.seeding import _Draw
from newkinds.objective import Objective

X = np.random.default_rng(0).normal(size=(200, 8)).astype(np.float32)


def test_the_nearest_of_many_centroids_is_found_without_a_matrix_of_all_distances():
    samples = Samples(X)
    free = torch.arange(200) % 3 > 0
    draw = _Draw(samples, [np.flatnonzero(free.numpy())], free[None], samples.read(slice(0, 50))[None])
    assert torch.equal(draw._nearest(draw.known[0], free), draw._distances(draw.known[0]).amin(0))


MANY_KNOWN = """
import resource
import numpy as np, torch
from newkinds.engine import Samples, seed_centroids
torch.set_num_threads(1)
n = 8_010
samples = Samples(np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32))
labels = np.arange(n)
labels[8_000:] = -1
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
seed_centroids(samples, 8_005, labels=labels, seeding="d2", rng=np.random.RandomState(0))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems count in other units")
def test_seeding_with_many_known_categories_takes_little_memory():
    """All distances at once would take 256 MB; they were what made 100,005 categories want 40 GB."""
    done = subprocess.run([sys.executable, "-c", MANY_KNOWN], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 150


def test_estimates_grow_with_categories_features_and_restarts():
    narrow, wide = Samples(X[:, :4]), Samples(X)
    assert clustering_bytes(wide, 100, 1) == 2 * clustering_bytes(narrow, 100, 1)
    assert clustering_bytes(wide, 100, 10) == 10 * clustering_bytes(wide, 100, 1)
    assert clustering_bytes(wide, 1000, 1) == 10 * clustering_bytes(wide, 100, 1)
    assert training_bytes(wide, 100, 1, "lbfgs") > 3 * training_bytes(wide, 100, 1, "adam") / 2
    assert clustering_bytes(wide, 100, 1) >= 4 * 100 * 8 * 4  # this step's centroids, the last's, and their sums


def test_kmeans_that_does_not_fit_is_refused_before_it_begins(monkeypatch):
    monkeypatch.setattr("newkinds.runtime.available_memory", lambda: 10_000)
    monkeypatch.setattr("newkinds.engine.clustering.draw_seeds", lambda *_: pytest.fail("it has begun"))
    with pytest.raises(
        InputError, match=r"k-means with 50 categories and 8 features takes about .* 10,000 bytes are free"
    ):
        kmeans(Samples(X), 50, rng=np.random.RandomState(0))


def test_several_clusterings_that_do_not_fit_are_refused_too(monkeypatch):
    monkeypatch.setattr("newkinds.runtime.available_memory", lambda: 10_000)
    with pytest.raises(InputError, match=r"k-means with 50 categories .* 10,000 bytes are free"):
        cluster_each(Samples(X), torch.from_numpy(np.stack([X[:50]] * 3)), np.full(len(X), -1))


def test_more_evaluations_than_anybody_has_memory_for_may_be_allowed():
    trained = optimise(Samples(X), [Run(X[:2], Objective(lam=0.3))], solver="lbfgs", max_iter=10**12)
    assert trained.converged.all()
    assert len(trained.values) < 1000


def test_a_training_that_does_not_fit_is_refused_before_it_begins(monkeypatch):
    monkeypatch.setattr("newkinds.runtime.available_memory", lambda: 10_000)
    monkeypatch.setattr("newkinds.engine.training._train", lambda *_: pytest.fail("it has begun"))
    with pytest.raises(InputError, match=r"training with 50 categories .*; give fewer categories"):
        optimise(Samples(X), [Run(X[:50], Objective(lam=0.3))])
