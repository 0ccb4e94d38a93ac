"""The compute room: batched training of partitioners and batched k-means, on CPU or GPU.

Features come in as an L2-normalised float32 tensor on the device to work on; results go out as numpy.
"""

from newkinds.engine.clustering import Clustering, Inertia, Seeding, kmeans, seed_centroids
from newkinds.engine.partitioner import Geometry, Partitioner
from newkinds.engine.training import Run, Trained, optimise

__all__ = [
    "Clustering",
    "Geometry",
    "Inertia",
    "Partitioner",
    "Run",
    "Seeding",
    "Trained",
    "kmeans",
    "optimise",
    "seed_centroids",
]
