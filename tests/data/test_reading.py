"""Reading collections and labels: every format, and every way in which a file can be bad.

An error must name the file and the problem; nothing is ever unpickled.
"""

import io
import os
import pickle
import re
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from newkinds import InputError, read_features
from newkinds.data import read_array

N, WIDTH = 6, 3
X = np.arange(1.0, N * WIDTH + 1, dtype=np.float32).reshape(N, WIDTH)
TRUTH = np.array([0, 0, 1, 1, 2, 2])
LABELS = np.array([0, -1, 1, -1, -1, -1])
NAMES = np.array(["owl", "", "wren", "", "", ""])


class Trap:
    """An object that, when unpickled, makes a file."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture
def npy(tmp_path):
    """Features alone."""
    np.save(tmp_path / "birds.npy", X)
    return tmp_path / "birds.npy"


def npz(folder: Path, **arrays) -> Path:
    np.savez(folder / "birds.npz", **{"features": X, **arrays})
    return folder / "birds.npz"


def parquet(folder: Path, **columns) -> Path:
    pq.write_table(pa.table(columns), folder / "birds.parquet")
    return folder / "birds.parquet"


def released(folder: Path, dtype: str = "float32", **changed) -> Path:
    arrays = {
        "all_feats": X.astype(dtype),
        "targets": TRUTH,
        "mask_lab": LABELS >= 0,
        "mask_cls": TRUTH < 2,
        **changed,
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def refused(*parts: str):
    """Expect an InputError that says all of `parts`, in order."""
    return pytest.raises(InputError, match="(?s)" + ".*".join(map(re.escape, parts)))


# Every format


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_released_folder(tmp_path, dtype):
    collection = read_features(released(tmp_path, dtype))
    assert collection.features.dtype == dtype
    assert np.array_equal(collection.features, X)
    assert isinstance(collection.features, np.memmap)
    assert collection.labels.tolist() == LABELS.tolist()
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
    assert collection.truth.tolist() == TRUTH.tolist()
    assert collection.ids == tuple("abcdef")
    assert collection.texts == tuple(texts)
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
    assert texts[0] == "a"
    assert "None" not in texts


def test_a_path_may_be_text_and_its_ending_in_capitals(tmp_path):
    np.save(tmp_path / "birds.npy", X)
    os.rename(tmp_path / "birds.npy", tmp_path / "BIRDS.NPY")
    assert len(read_features(str(tmp_path / "BIRDS.NPY"))) == N


# Files of labels


def write_labels(path: Path, values: list) -> None:
    if path.suffix == ".npy":
        np.save(path, np.array(["" if v is None else v for v in values] if "owl" in values else values))
    elif path.suffix == ".parquet":
        pq.write_table(pa.table({"label": values}), path)
    else:
        lines = ["" if v is None else str(v) for v in values]
        path.write_text("\n".join([*([] if path.suffix == ".txt" else ["label"]), *lines]) + "\n", "utf-8")


@pytest.mark.parametrize("ending", ["npy", "txt", "csv", "tsv", "parquet"])
def test_integer_labels_from_every_kind_of_file(npy, ending):
    path = npy.parent / f"labels.{ending}"
    write_labels(path, LABELS.tolist())
    collection = read_features(npy, labels=path, truth=path)
    assert collection.labels.tolist() == collection.truth.tolist() == LABELS.tolist()
    assert collection.names is None


@pytest.mark.parametrize("ending", ["npy", "txt", "csv", "tsv", "parquet"])
def test_names_and_gaps_from_every_kind_of_file(npy, ending):
    path = npy.parent / f"labels.{ending}"
    write_labels(path, ["owl", None, "wren", None, None, None])
    collection = read_features(npy, labels=path)
    assert collection.labels.tolist() == LABELS.tolist()
    assert collection.names == ("owl", "wren")


def test_minus_one_means_unlabelled_among_names_too(npy):
    path = npy.parent / "labels.csv"
    write_labels(path, ["owl", -1, "wren", -1, -1, -1])
    collection = read_features(npy, labels=path)
    assert collection.names == ("owl", "wren")
    assert collection.labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_labels_by_id_in_any_order_leave_the_others_unlabelled(tmp_path, ending):
    path = tmp_path / f"labels.{ending}"
    table = pd.DataFrame({"label": ["wren", "owl"], "note": ["x", "y"], "id": ["c", "a"]})
    if ending == "parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False, sep="," if ending == "csv" else "\t")
    collection = read_features(npz(tmp_path, ids=np.array(list("abcdef"))), labels=path)
    assert collection.labels.tolist() == LABELS.tolist()
    assert collection.names == ("owl", "wren")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_labels_by_row_number_where_the_samples_have_no_ids(npy, ending):
    path = npy.parent / f"labels.{ending}"
    table = pd.DataFrame({"id": [2, 0], "label": [1, 0]})
    if ending == "parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False)
    assert read_features(npy, labels=path).labels.tolist() == LABELS.tolist()


def test_a_file_of_labels_takes_the_place_of_those_in_the_source(tmp_path):
    write_labels(tmp_path / "labels.txt", LABELS.tolist())
    source = npz(tmp_path, labels=np.full(N, 5))
    assert read_features(source, labels=tmp_path / "labels.txt").labels.tolist() == LABELS.tolist()


def test_a_single_column_need_not_be_called_label(npy):
    (npy.parent / "labels.csv").write_text("species\nowl\n\nwren\n\n\n\n")
    assert read_features(npy, labels=npy.parent / "labels.csv").labels.tolist() == LABELS.tolist()


def test_csv_from_a_spreadsheet(npy):
    text = '\ufeffid,label\r\n0,"owl, barn"\r\n1,\r\n2,wren\r\n'
    (npy.parent / "labels.csv").write_bytes(text.encode("utf-8"))
    collection = read_features(npy, labels=npy.parent / "labels.csv")
    assert collection.names == ("owl, barn", "wren")
    assert collection.labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize("ending", ["csv", "txt"])
def test_labels_in_another_encoding_are_read_and_it_is_said(npy, caplog, ending):
    path = npy.parent / f"labels.{ending}"
    lines = ["m\xf6we", "", "wren", "", "", "", ""]
    path.write_bytes("\n".join(lines if ending == "txt" else ["label", *lines]).encode("cp1252"))
    collection = read_features(npy, labels=path)
    assert collection.names == ("möwe", "wren")
    assert collection.labels.tolist() == LABELS.tolist()
    assert f"labels.{ending} is not UTF-8; read as cp1252" in caplog.text


def test_csv_with_semicolons_capitals_and_blank_lines(npy):
    (npy.parent / "labels.csv").write_text("ID;Label;note\r\n2;wren;\r\n\r\n0;owl;1,5\r\n", newline="")
    assert read_features(npy, labels=npy.parent / "labels.csv").labels.tolist() == LABELS.tolist()


def test_csv_that_pandas_wrote_of_integers_with_gaps(npy):
    path = npy.parent / "labels.csv"
    pd.DataFrame({"id": range(N), "label": pd.Series([0, None, 1, None, None, None])}).to_csv(path, index=False)
    collection = read_features(npy, labels=path)
    assert collection.labels.tolist() == LABELS.tolist()
    assert collection.names is None


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
    ],
)
def test_a_parquet_column_of_features_that_is_no_table_is_refused(tmp_path, rows):
    with refused("birds.parquet", "features"):
        read_features(parquet(tmp_path, features=rows))


def test_parquet_with_a_gap_in_a_numeric_column_is_refused_with_the_column(tmp_path):
    with refused("birds.parquet", "'wing'", "missing"):
        read_features(parquet(tmp_path, tail=[1.0, 2.0], wing=[1.0, None]))


def test_parquet_without_numbers_is_refused_with_what_it_holds(tmp_path):
    with refused("birds.parquet", "'features'", "found name, place"):
        read_features(parquet(tmp_path, name=["a"], place=["b"]))


# Files that are bad


def test_a_missing_file_is_refused(tmp_path):
    with refused("nowhere.npz does not exist"):
        read_features(tmp_path / "nowhere.npz")


@pytest.mark.parametrize("name", ["birds.csv", "birds", "birds.h5"])
def test_an_ending_that_is_not_read_is_refused_with_those_that_are(tmp_path, name):
    (tmp_path / name).write_text("1,2\n")
    with refused(name, ".npz", ".npy", ".parquet"):
        read_features(tmp_path / name)


@pytest.mark.parametrize("name", ["birds.npz", "birds.npy", "birds.parquet"])
def test_an_empty_file_is_refused(tmp_path, name):
    (tmp_path / name).touch()
    with refused(name, "is empty"):
        read_features(tmp_path / name)


@pytest.mark.parametrize("name", ["birds.npz", "birds.npy", "birds.parquet"])
@pytest.mark.parametrize(
    "content", [b"1,2,3\n4,5,6\n", b"\x00\xff" * 50, b"PK\x03\x04 no"], ids=["text", "bytes", "archive"]
)
def test_a_file_that_is_something_else_is_refused_for_what_it_is_not(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with refused(f"{name} cannot be read"):
        read_features(tmp_path / name)


@pytest.mark.parametrize(
    ("true", "false"), [("npy", "npz"), ("npz", "npy"), ("parquet", "npy"), ("npz", "parquet")]
)
def test_a_file_with_the_ending_of_another_format_is_refused(tmp_path, true, false):
    np.save(tmp_path / "birds.npy", X)
    sources = {"npy": tmp_path / "birds.npy", "npz": npz(tmp_path), "parquet": parquet(tmp_path, a=X[:, 0])}
    disguised = tmp_path / f"disguised.{false}"
    os.rename(sources[true], disguised)
    with refused(str(disguised), "cannot be read"):
        read_features(disguised)


@pytest.mark.parametrize("name", ["birds.npy", "birds.npz", "birds.parquet"])
def test_a_file_cut_off_anywhere_is_refused(tmp_path, name):
    np.save(tmp_path / "birds.npy", X)
    npz(tmp_path, labels=LABELS)
    parquet(tmp_path, features=X.tolist(), label=LABELS)
    whole = (tmp_path / name).read_bytes()
    path = tmp_path / f"cut{Path(name).suffix}"
    for length in [*range(1, len(whole), max(1, len(whole) // 40)), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with refused(str(path)):
            read_features(path)


@pytest.mark.parametrize("name", ["all_feats", "targets", "mask_lab", "mask_cls"])
def test_a_cut_off_file_in_a_released_folder_is_refused_by_its_name(tmp_path, name):
    path = released(tmp_path) / f"{name}.npy"
    path.write_bytes(path.read_bytes()[:-1])
    with refused(str(path)):
        read_features(tmp_path)


def outcome(path: Path) -> str:
    """What becomes of a damaged file: "read", or the text of the InputError; other errors are let through."""
    try:
        read_features(path)
    except InputError as error:
        return str(error)
    return "read"


def test_a_damaged_npy_header_is_refused_or_makes_no_difference(npy):
    whole = npy.read_bytes()
    outcomes = []
    for place in range(whole.index(b"\n") + 1):
        for flip in (0x01, 0x10, 0xFF):
            npy.write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
            outcomes.append(outcome(npy))
    errors = [text for text in outcomes if text != "read"]
    assert len(errors) > len(outcomes) // 2
    assert all(str(npy) in text for text in errors)


def test_a_damaged_compressed_npz_is_refused_or_makes_no_difference(tmp_path):
    path = tmp_path / "birds.npz"
    np.savez_compressed(path, features=np.arange(900.0).reshape(-1, 3))
    whole = path.read_bytes()
    outcomes = []
    for place in range(0, len(whole), 5):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        outcomes.append(outcome(path))
    errors = [text for text in outcomes if text != "read"]
    assert len(errors) > len(outcomes) // 2
    assert all(str(path) in text for text in errors)


def huge(path: Path) -> None:
    """An .npy file whose header promises more than any machine has."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**15, WIDTH)})
    path.write_bytes(header.getvalue() + bytes(64))


def test_a_header_that_promises_more_than_memory_can_hold_is_refused(tmp_path, npy):
    huge(tmp_path / "huge.npy")
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as archive:
        archive.write(tmp_path / "huge.npy", "features.npy")
    with refused("huge.npy"):
        read_features(tmp_path / "huge.npy")
    with refused("huge.npz"):
        read_features(tmp_path / "huge.npz")
    with refused("huge.npy"):
        read_features(npy, labels=tmp_path / "huge.npy")


# Pickles


def test_the_trap_would_spring(tmp_path):
    np.save(tmp_path / "trap.npy", np.array([Trap(tmp_path / "sprung")], dtype=object))
    np.load(tmp_path / "trap.npy", allow_pickle=True)
    assert (tmp_path / "sprung").exists()


@pytest.mark.parametrize("field", ["features", "labels", "truth", "ids", "texts", "images", "anything"])
def test_a_pickle_inside_an_npz_is_refused_and_never_run(tmp_path, field):
    objects = np.array([Trap(tmp_path / "sprung")] * N, dtype=object)
    with refused("birds.npz", "pickled", "never loaded"):
        read_features(npz(tmp_path, **{field: objects}))
    assert not (tmp_path / "sprung").exists()


def test_a_pickle_inside_an_npy_is_refused_and_never_run(npy):
    np.save(npy.parent / "trap.npy", np.array([[Trap(npy.parent / "sprung")]], dtype=object))
    with refused("trap.npy", "pickled"):
        read_features(npy.parent / "trap.npy")
    with refused("trap.npy", "pickled"):
        read_features(npy, labels=npy.parent / "trap.npy")
    with refused("trap.npy", "pickled"):
        read_array(npy.parent / "trap.npy")
    assert not (npy.parent / "sprung").exists()


@pytest.mark.parametrize("name", ["all_feats", "targets", "mask_lab", "mask_cls"])
def test_a_pickle_inside_a_released_folder_is_refused_and_never_run(tmp_path, name):
    source = released(tmp_path, **{name: np.array([Trap(tmp_path / "sprung")] * N, dtype=object)})
    with refused(f"{name}.npy", "pickled"):
        read_features(source)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("name", ["birds.npz", "birds.npy", "birds.parquet"])
def test_a_bare_pickle_is_refused_and_never_run(tmp_path, name):
    (tmp_path / name).write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    with refused(name):
        read_features(tmp_path / name)
    assert not (tmp_path / "sprung").exists()


# Labels that are bad


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        (np.array([0.5, 1, 1, 1, 1, 1]), "0.5"),
        (np.array([np.inf, 1, 1, 1, 1, 1]), "inf"),
        (np.array([-4, 1, 1, 1, 1, 1]), "-4 at position 0"),
        (np.array([2**64 - 1, 1, 1, 1, 1, 1], np.uint64), "label"),
        (np.array(3), "label"),
        (np.eye(N, dtype=int), "label"),
        (np.zeros((N, 2, 2), int), "label"),
    ],
    ids=["fraction", "infinity", "negative", "too large", "0-d", "one-hot", "3-d"],
)
@pytest.mark.parametrize("form", ["inside", "labels", "truth"])
def test_labels_that_are_no_labels_are_refused_with_file_and_problem(tmp_path, npy, labels, problem, form):
    if form == "inside":
        source, extra, name = npz(tmp_path, labels=labels), {}, "birds.npz"
    else:
        np.save(tmp_path / "given.npy", labels)
        source, extra, name = npy, {form: tmp_path / "given.npy"}, "given.npy"
    with refused(name, problem):
        read_features(source, **extra)


@pytest.mark.parametrize("label", [[0.5, 1.0], [-4, 1], [[1], [2]]], ids=["fraction", "negative", "lists"])
def test_a_parquet_column_that_holds_no_labels_is_refused_with_its_file(tmp_path, label):
    with refused("birds.parquet", "label"):
        read_features(parquet(tmp_path, features=[[1.0, 2.0], [3.0, 4.0]], label=label))


@pytest.mark.parametrize("ending", ["npy", "txt", "csv", "parquet"])
@pytest.mark.parametrize("count", [N - 1, N + 1])
def test_a_file_with_too_few_or_too_many_labels_is_refused_with_both_counts(npy, ending, count):
    path = npy.parent / f"labels.{ending}"
    write_labels(path, [0] * count)
    with refused(f"labels.{ending} has {count} labels for {N} samples"):
        read_features(npy, labels=path)


@pytest.mark.parametrize("ending", ["npy", "txt", "csv", "parquet"])
def test_a_missing_and_an_empty_file_of_labels_are_refused(npy, ending):
    path = npy.parent / f"labels.{ending}"
    with refused(f"labels.{ending} does not exist"):
        read_features(npy, labels=path)
    path.touch()
    with refused(f"labels.{ending}", "is empty"):
        read_features(npy, labels=path)


def test_a_file_of_labels_with_an_ending_that_is_not_read_is_refused(npy):
    (npy.parent / "labels.json").write_text("[]")
    with refused("labels.json", ".npy, .txt, .csv, .tsv or .parquet"):
        read_features(npy, labels=npy.parent / "labels.json")


def test_several_columns_of_which_none_is_called_label_are_refused_with_their_names(npy):
    (npy.parent / "labels.csv").write_text("id,species\n0,owl\n")
    with refused("labels.csv", "'label' is needed", "id, species"):
        read_features(npy, labels=npy.parent / "labels.csv")


def test_an_id_that_no_sample_has_is_refused_with_some_that_are_there(tmp_path):
    (tmp_path / "labels.csv").write_text("id,label\na,owl\nz,wren\n")
    with refused("labels.csv: line 3", "'z'", "not in the collection", "a, b, c"):
        read_features(npz(tmp_path, ids=np.array(list("abcdef"))), labels=tmp_path / "labels.csv")


def test_two_labels_for_one_id_are_refused(tmp_path):
    (tmp_path / "labels.csv").write_text("id,label\na,owl\nb,wren\na,wren\n")
    with refused("labels.csv", "a"):
        read_features(npz(tmp_path, ids=np.array(list("abcdef"))), labels=tmp_path / "labels.csv")


def test_a_label_for_an_id_that_two_samples_have_is_refused(tmp_path):
    (tmp_path / "labels.csv").write_text("id,label\na,owl\n")
    with pytest.raises(InputError, match="'a'"):
        read_features(npz(tmp_path, ids=np.array(list("aacdef"))), labels=tmp_path / "labels.csv")


def test_a_csv_line_with_a_field_too_many_is_refused_with_its_number(npy):
    (npy.parent / "labels.csv").write_text("id,label\n0,owl\n1,owl,barn\n")
    with refused("labels.csv", "line 3 has 3 fields", "2"):
        read_features(npy, labels=npy.parent / "labels.csv")


def test_a_csv_quote_that_is_never_closed_is_refused(npy):
    (npy.parent / "labels.csv").write_text('label\n"' + "owl\n" * 50_000)
    with refused("labels.csv"):
        read_features(npy, labels=npy.parent / "labels.csv")


def test_a_csv_line_is_counted_as_an_editor_does_where_quotes_hold_newlines(npy):
    (npy.parent / "labels.csv").write_text('id,label\n0,"owl\nbarn"\n1,owl,barn\n')
    with refused("labels.csv", "line 4 has 3 fields", "2"):
        read_features(npy, labels=npy.parent / "labels.csv")


def test_two_columns_of_labels_are_refused(npy):
    (npy.parent / "labels.csv").write_text("id,label,label\n0,owl,wren\n")
    with refused("labels.csv", "several columns called 'label'"):
        read_features(npy, labels=npy.parent / "labels.csv")


def test_a_file_of_labels_that_ends_after_its_header_is_refused(npy):
    (npy.parent / "labels.csv").write_text("id,label\n")
    with refused("labels.csv has no rows", "id, label"):
        read_features(npy, labels=npy.parent / "labels.csv")


def test_a_folder_in_place_of_a_file_of_labels_is_refused(npy):
    (npy.parent / "labels.csv").mkdir()
    with refused("labels.csv"):
        read_features(npy, labels=npy.parent / "labels.csv")


def test_a_truth_that_contradicts_the_labels_is_refused(tmp_path):
    with refused("birds.npz", "differs from its truth", "'0' is labelled 0", "truth is 2", "0 more"):
        read_features(npz(tmp_path, labels=LABELS, truth=TRUTH[::-1].copy()))


def test_integer_labels_with_a_truth_of_other_names_are_refused(tmp_path):
    with refused("birds.npz", "labels are integers but the truth has names", "0 is none of them"):
        read_features(npz(tmp_path, labels=LABELS, truth=np.array(list("aabbcc"))))


def test_integer_labels_are_names_where_the_truth_has_names_too(tmp_path):
    truth = np.array(["0", "0", "1", "1", "other", ""])
    collection = read_features(npz(tmp_path, labels=LABELS, truth=truth))
    assert collection.names == ("0", "1", "other")
    assert collection.labels.tolist() == LABELS.tolist()
    assert collection.truth.tolist() == [0, 0, 1, 1, 2, -1]


def test_a_number_that_differs_from_its_named_truth_is_refused(tmp_path):
    truth = np.array(["other", "0", "1", "1", "other", ""])
    with refused("birds.npz", "'0' is labelled '0'", "truth is 'other'"):
        read_features(npz(tmp_path, labels=LABELS, truth=truth))


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
    source = released(tmp_path, **{name: np.zeros(shape, dtype=int)})
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


@pytest.mark.parametrize("targets", [TRUTH + 0.5, TRUTH - 5], ids=["fractions", "negative"])
def test_a_released_folder_whose_targets_are_no_classes_is_refused(tmp_path, targets):
    with refused(str(tmp_path), "label"):
        read_features(released(tmp_path, targets=targets))
