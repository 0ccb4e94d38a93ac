"""Writing collections: what is written is what is read, and it appears whole or not at all."""

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from newkinds import FeatureSet, InputError, read_features, write_features
from newkinds.data import check_features_target
from newkinds.names import FEATURE_ENDINGS

N = 6
X = np.random.default_rng(0).normal(size=(N, 4)).astype(np.float16).astype(np.float32)
INTEGERS: dict[str, Any] = {"labels": np.array([3, -1, 8, -1, -1, -1]), "truth": np.array([3, 3, 8, 8, 1, 11])}
NAMED: dict[str, Any] = {
    "labels": np.array([0, -1, 1, -1, -1, -1]),
    "truth": np.array([0, 0, 1, 1, 2, 3]),
    "names": ("owl", "wren", "ant", "bee"),
}
SHOWN: dict[str, Any] = {"ids": tuple("abcdef"), "texts": ("first", "zwölf", "3", "", "five, six", "'7'")}


def assert_equal(
    read: FeatureSet, written: FeatureSet, fields=("labels", "truth", "names", "ids", "texts")
) -> None:
    assert np.array_equal(read.features, written.features)
    for field in fields:
        one, other = getattr(read, field), getattr(written, field)
        assert np.array_equal(one, other), field


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("labels", [INTEGERS, NAMED], ids=["integers", "names"])
def test_npz_round_trip(tmp_path, labels, dtype):
    images = np.arange(N * 12, dtype=np.uint8).reshape(N, 2, 2, 3)
    written = FeatureSet(X, images=images, **labels, **SHOWN)
    write_features(written, tmp_path / "birds.npz", dtype=dtype)
    read = read_features(tmp_path / "birds.npz")
    assert read.features.dtype == dtype
    assert_equal(read, written)
    assert isinstance(read.images, np.ndarray)
    assert np.array_equal(read.images, images)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("labels", [INTEGERS, NAMED], ids=["integers", "names"])
def test_parquet_round_trip(tmp_path, labels, dtype):
    written = FeatureSet(X, **labels, **SHOWN)
    write_features(written, tmp_path / "birds.parquet", dtype=dtype)
    assert_equal(read_features(tmp_path / "birds.parquet"), written)
    kind = pq.read_schema(tmp_path / "birds.parquet").field("features").type
    assert str(kind.value_type) == {"float16": "halffloat", "float32": "float"}[dtype]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("labels", [INTEGERS, NAMED], ids=["integers", "names"])
def test_npy_round_trip_with_the_labels_in_a_file_beside_it(tmp_path, labels, dtype):
    written = FeatureSet(X, **labels)
    write_features(written, tmp_path / "birds.npy", dtype=dtype)
    read = read_features(tmp_path / "birds.npy", labels=tmp_path / "birds.labels.npy")
    assert isinstance(read.features, np.memmap)
    assert read.features.dtype == dtype
    assert_equal(read, written, fields=("labels",))
    assert [read.name_of(i) for i in read.known] == [written.name_of(i) for i in written.known]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_released_round_trip_numbers_the_classes_anew_with_known_ones_first(tmp_path, dtype):
    write_features(FeatureSet(X, **INTEGERS), tmp_path / "birds", dtype=dtype)
    assert sorted(os.listdir(tmp_path / "birds")) == [
        "all_feats.npy",
        "mask_cls.npy",
        "mask_lab.npy",
        "targets.npy",
    ]
    assert np.load(tmp_path / "birds" / "mask_cls.npy").tolist() == [True] * 4 + [False] * 2
    read = read_features(tmp_path / "birds")
    assert read.features.dtype == dtype
    assert np.array_equal(read.features, X)
    assert read.labels.tolist() == [0, -1, 1, -1, -1, -1]
    assert read.truth is not None
    assert read.truth.tolist() == [0, 0, 1, 1, 2, 3]


@pytest.mark.parametrize("ending", [".npz", ".parquet"])
def test_the_record_of_an_encoder_comes_back(tmp_path, ending):
    encoder = {"name": "tiny", "kind": "texts", "fingerprint": "abc", "größe": [1, None]}
    write_features(FeatureSet(X, **INTEGERS, encoder=encoder), tmp_path / f"birds{ending}")
    assert read_features(tmp_path / f"birds{ending}").encoder == encoder


def test_unlabelled_collections_come_back_unlabelled(tmp_path):
    for name in ("birds.npz", "birds.parquet"):
        write_features(FeatureSet(X, np.full(N, -1)), tmp_path / name)
        read = read_features(tmp_path / name)
        assert read.n_labelled == 0
        assert read.truth is None
        assert read.ids is None


def test_a_memory_map_can_be_written_over_itself(tmp_path):
    path = tmp_path / "birds.npy"
    write_features(FeatureSet(X, INTEGERS["labels"]), path)
    write_features(read_features(path), path, dtype="float16", overwrite=True)
    assert np.array_equal(read_features(path).features, X)


@st.composite
def collections(draw):
    n = draw(st.integers(1, 8))
    features = draw(arrays(np.float32, (n, draw(st.integers(1, 4))), elements=st.floats(-1e4, 1e4, width=32)))
    truth = np.array(draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)))
    known = draw(st.sets(st.integers(0, 9)))
    given_labels = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    return FeatureSet(features, np.where(given_labels & np.isin(truth, list(known)), truth, -1), truth=truth)


@given(collections(), st.sampled_from(["birds.npz", "birds.parquet", "birds"]))
@settings(max_examples=60, deadline=None)
def test_any_collection_comes_back_from_any_format_with_a_truth(written, name):
    with tempfile.TemporaryDirectory() as folder:
        write_features(written, Path(folder) / name)
        read = read_features(Path(folder) / name)
        assert np.array_equal(read.features, written.features)
        assert np.array_equal(read.labels >= 0, written.labels >= 0)
        # The same classes, perhaps with other numbers.
        assert read.truth is not None
        assert written.truth is not None
        pairs = set(zip(read.truth.tolist(), written.truth.tolist(), strict=True))
        assert len(pairs) == len(set(read.truth.tolist())) == len(set(written.truth.tolist()))
        if name != "birds":
            assert np.array_equal(read.truth, written.truth)
        del read  # and with it the memory map, before the folder goes


def test_features_too_large_for_float16_are_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(InputError, match="do not fit float16"):
        write_features(FeatureSet(X * 1e6, INTEGERS["labels"]), tmp_path / "birds.npz", dtype="float16")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("truth", [None, np.array([3, 3, 8, 8, 1, -1])], ids=["none", "a gap"])
def test_the_released_layout_needs_the_truth_of_every_sample(tmp_path, truth):
    with pytest.raises(InputError, match="needs the true class of every sample"):
        write_features(FeatureSet(X, INTEGERS["labels"], truth=truth), tmp_path / "birds")
    assert os.listdir(tmp_path) == []


def test_parquet_has_no_place_for_images_and_says_what_has(tmp_path):
    images = np.zeros((N, 2, 2), np.uint8)
    with pytest.raises(InputError, match=r"images.*\.npz"):
        write_features(FeatureSet(X, INTEGERS["labels"], images=images), tmp_path / "birds.parquet")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["birds.npz", "birds.npy", "birds.parquet", "birds"])
def test_a_folder_that_cannot_be_written_to_is_refused_by_its_name(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot write to .*file"):
        write_features(FeatureSet(X, **INTEGERS), tmp_path / "file" / name)


@pytest.mark.parametrize("name", ["birds.npz", "birds.npy", "birds.parquet", "birds"])
def test_what_was_there_is_replaced_and_nothing_else_is_left(tmp_path, name):
    write_features(FeatureSet(X[:3], INTEGERS["labels"][:3], truth=INTEGERS["truth"][:3]), tmp_path / name)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(InputError, match="already exists"):
        write_features(FeatureSet(X, **INTEGERS), tmp_path / name)
    assert len(read_features(tmp_path / name)) == 3
    write_features(FeatureSet(X, **INTEGERS), tmp_path / name, overwrite=True)
    assert np.array_equal(read_features(tmp_path / name).features, X)
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"ids": ("a", "b\ud83e", *"cdef")}, r"the id 'b\\ud83e' holds half a surrogate pair"),
        ({"texts": (*"abcde", "\udd89")}, r"the text '\\udd89' holds half a surrogate pair"),
        ({"names": (*"abc", "\ud83e")}, r"the truth '\\ud83e' holds half a surrogate pair"),
    ],
    ids=["ids", "texts", "names"],
)
def test_what_is_no_text_is_refused_by_parquet_and_kept_by_npz(tmp_path, fields, says):
    written = FeatureSet(X, **{**NAMED, **fields})
    with pytest.raises(InputError, match=says):
        write_features(written, tmp_path / "birds.parquet")
    assert os.listdir(tmp_path) == []
    write_features(written, tmp_path / "birds.npz")
    assert_equal(read_features(tmp_path / "birds.npz"), written)


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"], ids=["NUL", "surrogate"])
@pytest.mark.parametrize("ending", [*FEATURE_ENDINGS, "", "/deeper.npz"])
def test_a_name_that_no_file_can_have_is_refused_before_and_after_features_are_computed(tmp_path, name, ending):
    collection = FeatureSet(X, **INTEGERS)
    target = Path(f"{tmp_path}/{name}{ending}")
    with pytest.raises(InputError, match="no file can be called"):
        check_features_target(target, collection)
    with pytest.raises(InputError, match="no file can be called"):
        write_features(collection, target)
    assert os.listdir(tmp_path) == []


def test_a_target_is_checked_before_features_are_computed(tmp_path):
    complete, without_truth = FeatureSet(X, **INTEGERS), FeatureSet(X, INTEGERS["labels"])
    for ending in FEATURE_ENDINGS:
        check_features_target(tmp_path / f"birds{ending}", without_truth)
        (tmp_path / f"folder{ending}").mkdir()
        with pytest.raises(InputError, match="is a folder; give the name of a file"):
            check_features_target(tmp_path / f"folder{ending}", complete)
    check_features_target(tmp_path / "birds", complete)
    with pytest.raises(InputError, match=r"needs the true class.*\.npz, \.npy or \.parquet"):
        check_features_target(tmp_path / "birds", without_truth)
    write_features(complete, tmp_path / "birds")
    with pytest.raises(
        InputError, match="birds already exists; choose another place, or replace it with overwrite=True"
    ):
        check_features_target(tmp_path / "birds", complete)
    check_features_target(tmp_path / "birds", complete, overwrite=True)
    (tmp_path / "birds" / "notes.txt").touch()
    with pytest.raises(InputError, match="already exists and is not a folder of features"):
        check_features_target(tmp_path / "birds", complete, overwrite=True)
    (tmp_path / "beside.labels.npy").touch()
    with pytest.raises(InputError, match=r"beside\.labels\.npy already exists"):
        check_features_target(tmp_path / "beside.npy", complete)
