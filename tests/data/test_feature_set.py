"""FeatureSet: what it says of a collection, and what it refuses to hold."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from newkinds import FeatureSet, InputError
from newkinds.data import digits
from newkinds.data.feature_set import CHECKED_ROWS

X = np.eye(4, 3, dtype=np.float32) + 1
LABELS = np.array([7, -1, 2, 7])


def test_it_counts_samples_labels_and_known_categories():
    collection = FeatureSet(X, LABELS)
    assert len(collection) == 4
    assert collection.n_labelled == 3
    assert collection.known.tolist() == [2, 7]
    assert collection.n_known == 2
    assert repr(collection) == "FeatureSet(4 samples × 3, 3 labelled, 2 known categories)"


def test_samples_are_called_by_their_row_unless_they_have_ids():
    assert FeatureSet(X, LABELS).sample_ids() == ["0", "1", "2", "3"]
    assert FeatureSet(X, LABELS, ids=("a", "b", "c", "d")).sample_ids() == ["a", "b", "c", "d"]


def test_categories_are_called_by_their_number_unless_they_have_names():
    assert FeatureSet(X, LABELS).name_of(7) == "7"
    assert FeatureSet(X, np.array([0, 1, -1, -1]), names=("owl", "wren")).name_of(1) == "wren"


def test_labels_given_as_whole_floats_become_integers():
    as_read: dict[str, Any] = {"labels": LABELS.astype(float), "truth": [7, 3, 2, 7]}
    collection = FeatureSet(X, **as_read)
    assert collection.labels.dtype == np.int64
    assert collection.truth is not None
    assert collection.truth.dtype == np.int64


def test_it_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        FeatureSet(X, LABELS).labels = LABELS  # type: ignore[misc]  # that is what must fail


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "uint8"])
def test_features_of_every_numeric_type_are_taken_as_they_are(dtype):
    features = X.astype(dtype)
    assert FeatureSet(features, LABELS).features is features


@pytest.mark.parametrize("features", [np.zeros(4), np.zeros((4, 3, 2)), np.array(1.0)], ids=["1-d", "3-d", "0-d"])
def test_features_that_are_no_table_are_refused_with_their_shape(features):
    with pytest.raises(InputError, match=r"two-dimensional.*shape \("):
        FeatureSet(features, LABELS)


@pytest.mark.parametrize("features", [np.full((4, 3), "1"), np.ones((4, 3), complex), np.full((4, 3), None)])
def test_features_that_are_no_numbers_are_refused(features):
    with pytest.raises(InputError, match="must be numbers"):
        FeatureSet(features, LABELS)


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
def test_an_empty_table_is_refused(shape):
    with pytest.raises(InputError, match="no features"):
        FeatureSet(np.zeros(shape), np.full(shape[0], -1))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 2, CHECKED_ROWS + 5])
def test_nan_and_infinity_are_refused_with_their_row(value, row):
    features = np.ones((CHECKED_ROWS + 9, 2), dtype=np.float16)
    features[row, 1] = value
    with pytest.raises(InputError, match=rf"finite; row {row} has NaN or infinity"):
        FeatureSet(features, np.full(len(features), -1))


def test_as_many_labels_as_samples_are_needed():
    with pytest.raises(InputError, match="4 samples but 2 labels"):
        FeatureSet(X, LABELS[:2])


def test_labels_below_minus_one_are_refused():
    with pytest.raises(InputError, match="got -5 at position 0"):
        FeatureSet(X, np.array([-5, 0, 0, 0]))


def test_a_truth_that_contradicts_the_labels_is_refused():
    said = r"differs from its truth: '3' is labelled 7 but its truth is 3 \(and 0 more"
    with pytest.raises(InputError, match=said):
        FeatureSet(X, LABELS, truth=np.array([7, 0, 2, 3]))
    with pytest.raises(InputError, match=r"'a' is labelled 'wren' but its truth is unknown \(and 1 more"):
        FeatureSet(
            X,
            np.array([1, -1, 0, 0]),
            truth=np.array([-1, 0, 0, 1]),
            names=("owl", "wren"),
            ids=tuple("abcd"),
        )


@pytest.mark.parametrize("truth", [[7, 7, 2], [7, 7, 2, -2], [7, 7, 2, 0.5]])
def test_the_truth_is_checked_like_labels(truth):
    with pytest.raises(InputError, match="labels"):
        FeatureSet(X, LABELS, truth=np.array(truth))


def test_the_truth_may_be_unknown_for_a_sample_without_a_label():
    truth = FeatureSet(X, LABELS, truth=np.array([7, -1, 2, 7])).truth
    assert truth is not None
    assert truth.tolist() == [7, -1, 2, 7]


def test_a_label_without_a_name_is_refused():
    with pytest.raises(InputError, match="label 7 has no name; there are 2 names"):
        FeatureSet(X, LABELS, names=("owl", "wren"))


def test_a_true_class_without_a_name_is_refused():
    with pytest.raises(InputError, match="no name"):
        FeatureSet(X, np.array([0, -1, -1, -1]), truth=np.array([0, 1, 5, 1]), names=("owl", "wren"))


@pytest.mark.parametrize(
    ("field", "value"),
    [("ids", ("a", "b")), ("texts", ("a",) * 5), ("images", np.zeros((3, 2, 2), np.uint8))],
)
def test_as_many_things_to_show_as_samples_are_needed(field, value):
    with pytest.raises(InputError, match=f"4 samples but {len(value)} {field}"):
        FeatureSet(X, LABELS, **{field: value})


@pytest.mark.parametrize(
    "images",
    [np.zeros((4, 2, 2)), np.zeros((4, 2), np.uint8), np.zeros((4, 2, 2, 4), np.uint8), np.uint8(1)],
    ids=["floats", "no pictures", "four channels", "0-d"],
)
def test_images_of_a_wrong_kind_are_refused_at_once_and_not_after_the_training(images):
    with pytest.raises(InputError, match="image"):
        FeatureSet(X, LABELS, images=images)


@pytest.mark.parametrize("shape", [(4, 2, 3), (4, 2, 5, 3)])
def test_grey_and_colour_images_are_taken(shape):
    images = np.zeros(shape, np.uint8)
    assert FeatureSet(X, LABELS, images=images).images is images


def test_digits_label_half_of_the_zeros_to_fours_and_nothing_else():
    collection = digits(random_state=3)
    labelled = collection.labels >= 0
    assert collection.known.tolist() == [0, 1, 2, 3, 4]
    assert collection.truth is not None
    assert collection.n_labelled == (collection.truth < 5).sum() // 2
    assert (collection.labels[labelled] == collection.truth[labelled]).all()
    assert isinstance(collection.images, np.ndarray)
    assert collection.images.shape == (1797, 8, 8)
    assert collection.images.max() == 255


def test_digits_depend_on_the_seed_only():
    assert (digits(1).labels == digits(1).labels).all()
    assert (digits(1).labels != digits(2).labels).any()
