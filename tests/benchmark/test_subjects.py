"""The feature sets that a benchmark runs on: how they are read, recognised and refused."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from newkinds import FeatureSet, InputError, write_features
from newkinds.benchmark.published import DATASETS
from newkinds.benchmark.subjects import Subject, read_subjects

MakeSet = Callable[..., FeatureSet]


def test_a_folder_of_feature_sets_is_read_whole(tmp_path: Path, feature_set: MakeSet) -> None:
    write_features(feature_set(), tmp_path / "b.npz")
    write_features(feature_set(seed=1), tmp_path / "a")
    write_features(feature_set(seed=2), tmp_path / "c.parquet")
    (tmp_path / "notes.txt").write_text("not a feature set")
    assert [subject.name for subject in read_subjects([tmp_path])] == ["a", "b", "c"]
    assert [subject.name for subject in read_subjects([tmp_path / "a"])] == ["a"]


def test_sets_that_cannot_be_scored_are_refused(tmp_path: Path, feature_set: MakeSet) -> None:
    whole = feature_set()
    assert whole.truth is not None
    cases = {
        "no_truth": (FeatureSet(whole.features, whole.labels), "true class of every sample"),
        "no_labels": (FeatureSet(whole.features, np.full(360, -1), whole.truth), "there are 0"),
        "one_known": (
            FeatureSet(whole.features, np.where(whole.labels == 0, 0, -1), whole.truth),
            "two known classes or more; there are 1",
        ),
        "all_labels": (FeatureSet(whole.features, whole.truth, whole.truth), "of known classes and of new ones"),
        "mean": (whole, "as the mean over the sets is"),
    }
    for name, (collection, message) in cases.items():
        write_features(collection, tmp_path / f"{name}.npz")
        with pytest.raises(InputError, match=message):
            read_subjects([tmp_path / f"{name}.npz"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="is no feature set, and holds none"):
        read_subjects([tmp_path / "empty"])
    write_features(whole, tmp_path / "a.npz")
    with pytest.raises(InputError, match="two feature sets are called a"):
        read_subjects([tmp_path / "a.npz", tmp_path / "a.npz"])


def test_only_unlabelled_samples_are_scored(subject: Subject) -> None:
    """Labelled samples put right, and half of the unlabelled new ones put wrong."""
    categories = subject.truth.copy()
    assert subject.score(categories) == [100, 100, 100]
    is_new = subject.truth >= 3
    categories[is_new & (np.arange(360) % 2 == 0)] = 99
    categories[subject.labels >= 0] = 98
    # 90 unlabelled samples of known classes, all right; 180 of new ones, of which 90 are in the surplus category;
    # that is matched to one of the new classes, and counts its 30 as right in place of the 30 others.
    assert subject.score(categories) == pytest.approx([100 * 180 / 270, 100, 50])


def test_the_papers_own_features_are_known_by_their_sizes(feature_set: MakeSet) -> None:
    paper = DATASETS["CUB"]
    n = paper.n_labelled + paper.n_unlabelled
    truth = np.arange(n) % 200
    labels = np.full(n, -1)
    labelled = np.flatnonzero(truth < 100)[: paper.n_labelled]
    labels[labelled] = truth[labelled]

    def of_width(width: int) -> Subject:
        features = np.ones((n, width), dtype=np.float16)
        return Subject("cub", FeatureSet(features, labels, truth))

    assert of_width(768).is_as_published
    assert not of_width(320).is_as_published
    assert of_width(320).published == "CUB"
    assert Subject("cub", feature_set()).published is None  # 6 classes are not CUB's
    assert not Subject("cub", feature_set()).is_as_published


def test_long_tailed_versions_only_of_balanced_sets_with_enough_samples(feature_set: MakeSet) -> None:
    balanced = Subject("balanced", feature_set())
    assert balanced.deserves_a_tail
    assert not Subject("few", feature_set(n=20)).deserves_a_tail
    tail = balanced.long_tailed(20)
    assert not tail.deserves_a_tail
    assert tail.name == "balanced, long-tailed 20"
    assert tail.class_sizes.max() / tail.class_sizes.min() == pytest.approx(20)


def test_classes_are_known_by_their_labels(subject: Subject) -> None:
    assert subject.class_sizes.tolist() == [60] * 6
    assert subject.is_known.tolist() == [True] * 3 + [False] * 3


def test_the_fingerprint_changes_with_features_labels_and_truth(subject: Subject) -> None:
    whole = subject.collection
    assert Subject("other name", whole).fingerprint == subject.fingerprint
    features, labels, truth = whole.features.copy(), whole.labels.copy(), subject.truth.copy()
    features[-1, -1] += 1
    labels[0], truth[-1] = -1, 4
    for changed in (
        FeatureSet(features, whole.labels, whole.truth),
        FeatureSet(whole.features, labels, whole.truth),
        FeatureSet(whole.features, whole.labels, truth),
    ):
        assert Subject("small", changed).fingerprint != subject.fingerprint
