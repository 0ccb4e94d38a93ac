"""Reading features: every format, and what is refused with the file and the problem."""

import os
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from newkinds import read_features
from tests.data.feature_files import LABELS, NAMES, TRUTH, WIDTH, N, X, npz, parquet, released
from tests.data.refusal import refused

# Every format


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_released_folder(tmp_path, dtype):
    collection = read_features(released(tmp_path, dtype))
    assert collection.features.dtype == dtype
    assert np.array_equal(collection.features, X)
    assert isinstance(collection.features, np.memmap)
    assert collection.labels.tolist() == LABELS.tolist()
    assert collection.truth is not None
    assert collection.truth.tolist() == TRUTH.tolist()
    assert collection.names is None


def test_a_released_folder_whose_masks_are_zeros_and_ones(tmp_path):
    source = released(tmp_path, mask_lab=(LABELS >= 0).astype(np.uint8), mask_cls=(TRUTH < 2).astype(float))
    assert read_features(source).labels.tolist() == LABELS.tolist()


def test_npz_with_everything(tmp_path):
    images = np.arange(N * 4, dtype=np.uint8).reshape(N, 2, 2)
    texts = np.array([f"text {i}" for i in range(N)])
    collection = read_features(
        npz(tmp_path, labels=LABELS, truth=TRUTH, ids=np.array(list("abcdef")), texts=texts, images=images)
    )
    assert np.array_equal(collection.features, X)
    assert collection.labels.tolist() == LABELS.tolist()
    assert collection.truth is not None
    assert collection.truth.tolist() == TRUTH.tolist()
    assert collection.ids == tuple("abcdef")
    assert collection.texts == tuple(texts)
    assert isinstance(collection.images, np.ndarray)
    assert np.array_equal(collection.images, images)


def test_npz_with_features_only_is_unlabelled(tmp_path):
    collection = read_features(npz(tmp_path))
    assert collection.n_labelled == 0
    assert collection.truth is None
    assert collection.ids is None


def test_npz_with_names_and_gaps(tmp_path):
    truth = np.array(["owl", "owl", "wren", "wren", "ant", "ant"])
    collection = read_features(npz(tmp_path, labels=NAMES, truth=truth))
    assert collection.names == ("owl", "wren", "ant")  # known first
    assert collection.labels.tolist() == [0, -1, 1, -1, -1, -1]
    assert collection.truth is not None
    assert collection.truth.tolist() == [0, 0, 1, 1, 2, 2]


def test_npz_with_float_labels_and_nan_for_unlabelled(tmp_path):
    collection = read_features(npz(tmp_path, labels=np.where(LABELS < 0, np.nan, LABELS)))
    assert collection.labels.tolist() == LABELS.tolist()


def test_npy_is_memory_mapped_and_unlabelled_without_a_file_of_labels(npy):
    collection = read_features(npy)
    assert isinstance(collection.features, np.memmap)
    assert np.array_equal(collection.features, X)
    assert collection.n_labelled == 0


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.float32()), pa.list_(pa.float64()), pa.list_(pa.float16(), WIDTH), pa.large_list(pa.int32())],
)
def test_parquet_with_a_list_column(tmp_path, kind):
    number = np.float16 if kind.value_type == pa.float16() else int
    features = pa.array([list(map(number, row)) for row in X], type=kind)
    source = parquet(tmp_path, features=features, label=LABELS, truth=TRUTH, id=list("abcdef"), text=list("ghijkl"))
    collection = read_features(source)
    assert np.array_equal(collection.features, X)
    assert collection.labels.tolist() == LABELS.tolist()
    assert collection.truth is not None
    assert collection.truth.tolist() == TRUTH.tolist()
    assert collection.ids == tuple("abcdef")
    assert collection.texts == tuple("ghijkl")


def test_parquet_with_a_list_column_in_several_row_groups(tmp_path):
    path = tmp_path / "birds.parquet"
    pq.write_table(pa.table({"features": X.tolist()}), path, row_group_size=2)
    assert np.array_equal(read_features(path).features, X)


def test_parquet_with_one_column_a_feature(tmp_path):
    columns = {"a": X[:, 0], "b": X[:, 1].astype(np.int64), "c": X[:, 2].astype(np.float64)}
    collection = read_features(parquet(tmp_path, label=["owl", None, "wren", None, None, None], **columns))
    assert np.array_equal(collection.features, X)
    assert collection.labels.tolist() == LABELS.tolist()
    assert collection.names == ("owl", "wren")


def test_parquet_from_pandas_with_missing_integer_labels(tmp_path):
    frame = pd.DataFrame(X, columns=list("abc")).assign(label=pd.Series([0, None, 1, None, None, None]))
    frame.to_parquet(tmp_path / "birds.parquet")
    collection = read_features(tmp_path / "birds.parquet")
    assert collection.labels.tolist() == LABELS.tolist()
    assert collection.names is None


def test_the_row_names_of_a_pandas_table_are_not_a_feature(tmp_path):
    frame = pd.DataFrame(X, columns=list("abc")).loc[[5, 0, 2]]
    frame.to_parquet(tmp_path / "birds.parquet")
    assert np.array_equal(read_features(tmp_path / "birds.parquet").features, X[[5, 0, 2]])


def test_a_missing_text_is_not_shown_as_the_word_none(tmp_path):
    texts = read_features(parquet(tmp_path, features=X.tolist(), text=["a", None, "c", "d", "e", "f"])).texts
    assert texts == ("a", "", "c", "d", "e", "f")


def test_a_path_may_be_text_and_its_ending_in_capitals(tmp_path):
    np.save(tmp_path / "birds.npy", X)
    os.rename(tmp_path / "birds.npy", tmp_path / "BIRDS.NPY")
    assert len(read_features(str(tmp_path / "BIRDS.NPY"))) == N


# Features that are bad


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("form", ["npy", "npz", "parquet list", "parquet columns", "released"])
def test_nan_and_infinity_are_refused_with_file_and_row(tmp_path, form, value):
    bad = X.copy()
    bad[4, 1] = value
    if form == "npy":
        source = tmp_path / "birds.npy"
        np.save(source, bad)
    elif form == "npz":
        source = npz(tmp_path, features=bad)
    elif form == "released":
        source = released(tmp_path, all_feats=bad)
    elif form == "parquet list":
        source = parquet(tmp_path, features=bad.tolist())
    else:
        source = parquet(tmp_path, a=bad[:, 0], b=bad[:, 1])
    with refused(str(source), "finite", "row 4"):
        read_features(source)


@pytest.mark.parametrize("shape", [(), (N,), (N, WIDTH, 1), (0, WIDTH), (N, 0)])
@pytest.mark.parametrize("form", ["npy", "npz", "released"])
def test_features_of_a_wrong_shape_are_refused_with_file_and_shape(tmp_path, form, shape):
    bad = np.ones(shape)
    if form == "npy":
        source = tmp_path / "birds.npy"
        np.save(source, bad)
    elif form == "npz":
        source = npz(tmp_path, features=bad)
    else:
        none = np.ones(shape[0] if shape else 1, dtype=bool)
        source = released(tmp_path, all_feats=bad, targets=none.astype(int), mask_lab=none, mask_cls=none)
    with refused(str(source), "features"):
        read_features(source)


def test_features_of_text_are_refused(tmp_path):
    with refused("birds.npz", "must be numbers"):
        read_features(npz(tmp_path, features=X.astype(str)))


def test_npz_without_features_is_refused_with_what_it_holds(tmp_path):
    np.savez(tmp_path / "birds.npz", X=X, y=LABELS)
    with refused("birds.npz", "'features' is needed", "X, y"):
        read_features(tmp_path / "birds.npz")


@pytest.mark.parametrize("field", ["labels", "truth", "ids", "texts", "images"])
def test_npz_whose_parts_have_different_lengths_is_refused(tmp_path, field):
    short = np.zeros((N - 1, 2, 2), np.uint8) if field == "images" else np.arange(N - 1)
    with refused("birds.npz", f"{N}", f"{N - 1}"):
        read_features(npz(tmp_path, **{field: short}))


@pytest.mark.parametrize(
    "rows",
    [
        [[1.0, 2.0], [1.0]],
        [[1.0, 2.0], None],
        [[1.0, 2.0], [1.0, None]],
        pa.array([[], []], pa.list_(pa.float32())),
        pa.array([], pa.list_(pa.float32())),
        ["1 2", "3 4"],
        [1.0, 2.0],
        [["a", "b"], ["c", "d"]],
        [[[1.0], [2.0]], [[1.0], [2.0]]],
        [[1.0, 2.0], [1.0, 1e300]],
        pa.array([1.0, 2.0]).dictionary_encode(),
        pa.array([[(1, 2.0)]] * 2, pa.map_(pa.int32(), pa.float32())),
        [{"a": 1.0}, {"a": 2.0}],
    ],
    ids=[
        "ragged",
        "gap",
        "gap inside",
        "empty lists",
        "no rows",
        "texts",
        "numbers",
        "words",
        "nested",
        "too large",
        "categories",
        "maps",
        "objects",
    ],
)
def test_a_parquet_column_of_features_that_is_no_table_is_refused(tmp_path, rows):
    with refused("birds.parquet", "features"):
        read_features(parquet(tmp_path, features=rows))


def test_parquet_with_a_gap_in_a_numeric_column_is_refused_with_the_column(tmp_path):
    with refused("birds.parquet", "'wing'", "missing"):
        read_features(parquet(tmp_path, tail=[1.0, 2.0], wing=[1.0, None]))


@pytest.mark.parametrize("name", ["ids", "labels", "texts"])
def test_a_parquet_column_that_is_hardly_a_feature_is_asked_about(tmp_path, name):
    with refused("birds.parquet", f"is the column '{name}' a feature?", "singular"):
        read_features(parquet(tmp_path, **{"wing": [1.0, 2.0], name: [0, 1]}))


def test_parquet_without_numbers_is_refused_with_what_it_holds(tmp_path):
    with refused("birds.parquet", "'features'", "found name, place"):
        read_features(parquet(tmp_path, name=["a"], place=["b"]))


# Released folders that are bad


@pytest.mark.parametrize("name", ["all_feats.npy", "targets.npy", "mask_lab.npy", "mask_cls.npy"])
def test_a_released_folder_that_lacks_a_file_is_refused_with_its_name(tmp_path, name):
    (released(tmp_path) / name).unlink()
    with refused(str(tmp_path), f"lacks {name};"):
        read_features(tmp_path)


def test_an_empty_folder_is_refused_with_what_it_should_hold(tmp_path):
    with refused(str(tmp_path), "lacks all_feats.npy, targets.npy, mask_lab.npy, mask_cls.npy"):
        read_features(tmp_path)


@pytest.mark.parametrize("name", ["targets", "mask_lab", "mask_cls"])
@pytest.mark.parametrize("shape", [(N - 1,), (N, 1), ()])
def test_a_released_folder_whose_files_have_different_lengths_is_refused(tmp_path, name, shape):
    changed: dict[str, Any] = {name: np.zeros(shape, dtype=int)}
    source = released(tmp_path, **changed)
    with refused(f"{name}.npy", f"each of {N} samples", str(shape)):
        read_features(source)


def test_a_released_folder_with_labelled_samples_of_an_unknown_class_is_refused(tmp_path):
    with refused(str(tmp_path), "mask_lab", "mask_cls"):
        read_features(released(tmp_path, mask_lab=np.ones(N, dtype=bool)))


def test_a_released_folder_with_a_class_that_is_known_and_unknown_is_refused(tmp_path):
    with refused(str(tmp_path), "mask_cls", "known"):
        read_features(released(tmp_path, mask_cls=np.array([1, 0, 1, 1, 0, 0], dtype=bool)))


def test_a_released_folder_with_a_labelled_sample_that_has_no_class_is_refused(tmp_path):
    with refused(str(tmp_path), "targets"):
        read_features(released(tmp_path, targets=np.array([-1, 0, 1, 1, 2, 2])))


@pytest.mark.parametrize("name", ["mask_lab", "mask_cls"])
@pytest.mark.parametrize(
    "mask",
    [
        np.array(["True", "False"] * 3),
        np.array([1, 0, np.nan] * 2),
        np.array([1, 2] * 3),
        np.zeros(N, "datetime64[s]"),
    ],
    ids=["text", "gaps", "numbers", "dates"],
)
def test_a_mask_that_is_not_of_true_and_false_is_refused_and_not_guessed_at(tmp_path, name, mask):
    changed: dict[str, Any] = {name: mask}
    with refused(f"{name}.npy must hold True and False", str(mask.dtype)):
        read_features(released(tmp_path, **changed))


def test_targets_beyond_unicode_are_refused(tmp_path):
    targets = np.full(N, 0x110000, dtype=np.uint32).view("U1")
    with refused("targets.npy cannot be read as a list of classes"):
        read_features(released(tmp_path, targets=targets))


@pytest.mark.parametrize("targets", [TRUTH + 0.5, TRUTH - 5], ids=["fractions", "negative"])
def test_a_released_folder_whose_targets_are_no_classes_is_refused(tmp_path, targets):
    with refused(str(tmp_path), "label"):
        read_features(released(tmp_path, targets=targets))
