"""The feature sets that a benchmark runs on."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from newkinds.benchmark.published import DATASETS, Dataset, dataset_of
from newkinds.data import FeatureSet, read_features
from newkinds.data.long_tail import long_tailed
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray, known_categories
from newkinds.metrics import accuracy
from newkinds.names import RELEASED_FILES

HASHED_ROWS = 1 << 14
PAPER_WIDTH = 768
"""Features of the paper's encoder."""
BALANCED = 5.0
"""Largest class over the smallest, up to which a set counts as balanced."""
WITH_TRUTH = (".npz", ".parquet")
"""Files of features that hold the truth as well."""
MEAN = "mean"
TAIL_SIZE = 50
"""Samples that the largest class needs for a long tail to be worth making."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A feature set with the truth of every sample."""

    name: str
    collection: FeatureSet

    @property
    def truth(self) -> IntArray:
        assert self.collection.truth is not None
        return self.collection.truth

    @property
    def labels(self) -> IntArray:
        return self.collection.labels

    @property
    def n_categories(self) -> int:
        return len(self.class_sizes)

    @cached_property
    def class_sizes(self) -> IntArray:
        """Samples of each class, in ascending order of the classes' numbers."""
        return np.unique(self.truth, return_counts=True)[1]

    @cached_property
    def is_known(self) -> npt.NDArray[np.bool_]:
        """Whether each of those classes is known."""
        return np.isin(np.unique(self.truth), known_categories(self.labels))

    @property
    def is_balanced(self) -> bool:
        return bool(self.class_sizes.max() <= BALANCED * self.class_sizes.min())

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the samples, their labels and their true classes."""
        digest = hashlib.sha256()
        features = self.collection.features
        digest.update(repr((features.shape, str(features.dtype))).encode())
        for first in range(0, len(features), HASHED_ROWS):
            digest.update(np.ascontiguousarray(features[first : first + HASHED_ROWS]).data)
        for column in (self.labels, self.truth):
            digest.update(np.ascontiguousarray(column).data)
        return digest.hexdigest()[:16]

    @property
    def published(self) -> str | None:
        """The data set of the paper that this is made of."""
        return dataset_of(self.name, self.n_categories)

    @property
    def is_as_published(self) -> bool:
        """Whether these may be the paper's own features: they have its sizes and its encoder's width."""
        if self.published is None:
            return False
        paper: Dataset = DATASETS[self.published]
        sizes = (len(self.labels) - self.collection.n_labelled, self.collection.n_labelled)
        return sizes == (paper.n_unlabelled, paper.n_labelled) and self.collection.features.shape[1] == PAPER_WIDTH

    def score(self, categories: IntArray) -> list[float]:
        """All, Old and New of the unlabelled samples, in percent."""
        unlabelled = self.labels == UNLABELLED
        shares = accuracy(self.truth[unlabelled], categories[unlabelled], known_categories(self.labels))
        return [100 * shares.all, 100 * shares.old, 100 * shares.new]

    def long_tailed(self, imbalance: float) -> "Subject":
        return Subject(f"{self.name}, long-tailed {imbalance:g}", long_tailed(self.collection, imbalance))

    @property
    def deserves_a_tail(self) -> bool:
        return self.is_balanced and int(self.class_sizes.max()) >= TAIL_SIZE


def read_subjects(sources: Sequence[Path]) -> list[Subject]:
    """Read feature sets; a folder that is not a feature set itself holds feature sets."""
    subjects = [_subject(path) for path in _feature_sets(sources)]
    names = [subject.name for subject in subjects]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"two feature sets are called {', '.join(repeated)}: rename one")
    if MEAN in names:
        raise InputError(f"a feature set is called {MEAN!r}, as the mean over the sets is: rename it")
    return subjects


def _feature_sets(sources: Sequence[Path]) -> Iterable[Path]:
    if not sources:
        raise InputError("there is nothing to run on: give --features, once for each set")
    for source in sources:
        if not source.is_dir() or any((source / name).exists() for name in RELEASED_FILES):
            yield source
            continue
        inside = sorted(
            path
            for path in source.iterdir()
            if path.suffix.lower() in WITH_TRUTH or (path / RELEASED_FILES[0]).exists()
        )
        if not inside:
            raise InputError(f"{source} is no feature set, and holds none")
        yield from inside


def _subject(path: Path) -> Subject:
    collection = read_features(path)
    name = path.stem if path.is_file() else path.resolve().name
    if collection.truth is None or (collection.truth == UNLABELLED).any():
        raise InputError(f"{path}: a benchmark needs the true class of every sample")
    if collection.n_known < 2:
        raise InputError(f"{path}: a benchmark needs two known classes or more; there are {collection.n_known}")
    is_old = np.isin(collection.truth[collection.labels == UNLABELLED], collection.known)
    if is_old.all() or not is_old.any():
        raise InputError(f"{path}: a benchmark needs unlabelled samples of known classes and of new ones")
    return Subject(name, collection)
