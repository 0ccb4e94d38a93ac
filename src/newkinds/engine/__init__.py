"""The compute room: batched training of partitioners and batched k-means, on CPU or GPU, in one process or many.

Features come in as `Samples`, or as an L2-normalised float32 tensor on the device; results go out as numpy.
"""

from newkinds.engine.checkpoints import checkpointing
from newkinds.engine.clustering import Clustering, cluster_each, kmeans
from newkinds.engine.evaluation import Run
from newkinds.engine.linear_map import LinearMap
from newkinds.engine.memory import check_fits, clustering_bytes
from newkinds.engine.moments import category_means, scatter_within, second_moment
from newkinds.engine.partitioner import TEMPERATURE, Committee, Partitioner
from newkinds.engine.samples import Samples, normalised
from newkinds.engine.seeding import seed_centroids
from newkinds.engine.training import Trained, optimise

__all__ = [
    "TEMPERATURE",
    "Clustering",
    "Committee",
    "LinearMap",
    "Partitioner",
    "Run",
    "Samples",
    "Trained",
    "category_means",
    "check_fits",
    "checkpointing",
    "cluster_each",
    "clustering_bytes",
    "kmeans",
    "normalised",
    "optimise",
    "scatter_within",
    "second_moment",
    "seed_centroids",
]
