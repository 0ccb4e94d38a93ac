"""FeatureSet: what it says of a collection, and what it refuses to hold."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from newkinds import FeatureSet, InputError, read_features
from newkinds.data import digits, feature_set
from newkinds.data.feature_set import CHECKED_ROWS
from newkinds.data.long_tail import long_tailed
from tests.data.refusal import refused

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


@pytest.mark.parametrize(
    ("rows", "numbers"),
    [
        (slice(2, None), [2, 3]),
        (slice(1, 3), [1, 2]),
        (slice(3, 3), []),
        (slice(2, 9), [2, 3]),
        (slice(-1, None), [3]),
    ],
)
def test_rows_that_do_not_begin_at_the_first_keep_their_own_ids_and_numbers(rows, numbers):
    assert FeatureSet(X, LABELS).sample_ids(rows) == [str(number) for number in numbers]
    named = FeatureSet(X, LABELS, ids=("a", "b", "c", "d"))
    assert named.sample_ids(rows) == ["abcd"[number] for number in numbers]


def test_columns_are_arranged_by_name():
    collection = FeatureSet(X, LABELS, columns=("a", "b", "c"))
    assert np.array_equal(collection.arranged(["c", "a", "b"]), X[:, [2, 0, 1]])
    assert collection.arranged(("a", "b", "c")) is X
    assert collection.arranged(None) is X
    assert FeatureSet(X, LABELS).arranged(("c", "b", "a")) is X


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (["a", "b", "z"], "the column 'z' of the run's features is missing (there are a, b, c, …)"),
        (["a", "b"], "the column 'c' is not among the run's features; remove it"),
    ],
)
def test_columns_that_are_not_those_of_the_run_are_refused_by_name(columns, says):
    with refused(says):
        FeatureSet(X, LABELS, columns=("a", "b", "c")).arranged(columns)


def test_there_must_be_a_name_for_each_column():
    with refused("there are 3 features but 2 columns"):
        FeatureSet(X, LABELS, columns=("a", "b"))


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


@pytest.fixture
def scans(monkeypatch):
    """The arrays that were read whole to see whether they are finite."""
    scanned: list[Any] = []
    monkeypatch.setattr(feature_set, "check_features", scanned.append)
    return scanned


def test_features_are_read_whole_only_once(scans, tmp_path):
    np.save(tmp_path / "birds.npy", X)
    collection = read_features(tmp_path / "birds.npy")
    changed = dataclasses.replace(dataclasses.replace(collection, notes=("a note",)), labels=LABELS)
    assert len(scans) == 1
    assert changed.features is collection.features


def test_a_long_tail_does_not_read_features_again(scans):
    collection = FeatureSet(np.arange(1.0, 9)[:, None], np.full(8, -1), truth=np.repeat([0, 1], 4))
    assert len(long_tailed(collection, 4)) < 8
    assert len(scans) == 1


def test_new_features_in_place_of_others_are_checked():
    bad = X.copy()
    collection = FeatureSet(X, LABELS)
    bad[2, 1] = np.nan
    with refused("finite; row 2"):
        dataclasses.replace(collection, features=bad)
    bad[2, 1] = 0
    again = FeatureSet(bad, LABELS)
    bad[3, 0] = np.inf
    with refused("finite; row 3"):
        FeatureSet(bad, LABELS)
    with refused("finite; row 3"):
        dataclasses.replace(again, features=bad.copy())


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
