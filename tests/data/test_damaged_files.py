"""Damaged, disguised and hostile files of features: an error names the file, and nothing is ever unpickled."""

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from newkinds import InputError, read_features
from newkinds.data import read_array
from tests.data.feature_files import LABELS, WIDTH, N, X, npz, parquet, released
from tests.data.refusal import Trap, refused

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


def npy_with_header(path: Path, header: str) -> Path:
    length = len(header).to_bytes(2, "little")
    path.write_bytes(b"\x93NUMPY\x01\x00" + length + header.encode() + bytes(64))
    return path


@pytest.mark.parametrize(
    "header",
    [
        "-" * 9000 + "1",
        "(" * 5000,
        "{[]: 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 5000 + ",)}",
        "{'descr': 3, 'fortran_order': False, 'shape': (1,)}",
    ],
    ids=["deep", "open", "unhashable", "fraction", "negative", "too large", "no type"],
)
def test_a_header_that_makes_no_sense_is_refused(tmp_path, npy, header):
    path = npy_with_header(tmp_path / "odd.npy", header)
    with refused("odd.npy cannot be read as an .npy file"):
        read_features(path)
    with refused("odd.npy cannot be read as an .npy file"):
        read_features(npy, labels=path)


BEYOND_UNICODE = np.full(N, 0x110000, dtype=np.uint32).view("U1")


@pytest.mark.parametrize("field", ["labels", "truth", "ids", "texts", "encoder"])
def test_text_beyond_unicode_is_refused(tmp_path, field):
    with refused("birds.npz", field[:7]):
        read_features(npz(tmp_path, **{field: BEYOND_UNICODE}))


def test_a_file_of_labels_beyond_unicode_is_refused(npy):
    np.save(npy.parent / "labels.npy", BEYOND_UNICODE)
    with refused("labels.npy cannot be read as a list of labels"):
        read_features(npy, labels=npy.parent / "labels.npy")


@pytest.mark.parametrize("shape", [(), (N, 1)])
@pytest.mark.parametrize("field", ["labels", "truth", "ids", "texts"])
def test_a_list_of_an_npz_that_is_no_list_is_refused_with_its_shape(tmp_path, field, shape):
    with refused("birds.npz", f"'{field}' must be one-dimensional", str(shape)):
        read_features(npz(tmp_path, **{field: np.zeros(shape, dtype=int)}))


@pytest.mark.parametrize("field", ["features", "ids", "images", "encoder"])
def test_a_member_of_an_npz_that_is_no_array_is_refused(tmp_path, field):
    content = io.BytesIO()
    np.save(content, X)
    with zipfile.ZipFile(tmp_path / "birds.npz", "w") as archive:
        if field != "features":
            archive.writestr("features.npy", content.getvalue())
        archive.writestr(field, b"plain bytes")
    with refused("birds.npz", f"'{field}' is not an array"):
        read_features(tmp_path / "birds.npz")


def test_an_encrypted_archive_is_refused(tmp_path):
    content = bytearray(npz(tmp_path).read_bytes())
    content[6] |= 1  # the flag of the first member, and the same in the list at the end
    content[content.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "birds.npz").write_bytes(content)
    with refused("birds.npz cannot be read as an .npz archive", "encrypted"):
        read_features(tmp_path / "birds.npz")


@pytest.mark.parametrize("compression", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_damage_in_other_compressions_is_refused_or_makes_no_difference(tmp_path, compression):
    path, content = tmp_path / "birds.npz", io.BytesIO()
    np.save(content, np.arange(90.0).reshape(-1, 3))
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("features.npy", content.getvalue())
    whole = path.read_bytes()
    outcomes = []
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        outcomes.append(outcome(path))
    assert sum(text != "read" for text in outcomes) > len(outcomes) // 2


@pytest.mark.parametrize(
    "written",
    ["[" * 100_000, "1" * 5000, "{", '["name"]', '{"name": 1, "kind": 2}'],
    ids=["deep", "long", "open", "list", "incomplete"],
)
def test_a_record_of_an_encoder_that_makes_no_sense_is_refused(tmp_path, written):
    with refused("birds.npz: what it says about its encoder"):
        read_features(npz(tmp_path, encoder=np.array(written)))


NO_TEXT = pa.Array.from_buffers(  # a column of text that is not UTF-8, which pyarrow does not look at
    pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 2], np.int32).tobytes()), pa.py_buffer(b"a\xff")]
)


@pytest.mark.parametrize(
    "values",
    [NO_TEXT, pa.array([1, 2**61], pa.timestamp("ms")), pa.array([1, 2**30], pa.int32()).cast(pa.date32())],
    ids=["bytes", "moments", "days"],
)
@pytest.mark.parametrize("column", ["id", "label", "truth", "text"])
def test_cells_of_a_parquet_file_that_python_cannot_hold_are_refused_with_their_column(tmp_path, column, values):
    columns = {"features": [[1.0, 2.0], [3.0, 4.0]], column: values}
    with refused("birds.parquet cannot be read as a table", f"column '{column}'"):
        read_features(parquet(tmp_path, **columns))


# Pickles


def test_the_trap_would_spring(tmp_path):
    np.save(tmp_path / "trap.npy", np.array([Trap(tmp_path / "sprung")], dtype=object))
    np.load(tmp_path / "trap.npy", allow_pickle=True)
    assert (tmp_path / "sprung").exists()


@pytest.mark.parametrize("field", ["features", "labels", "truth", "ids", "texts", "images", "encoder"])
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
    changed: dict[str, Any] = {name: np.array([Trap(tmp_path / "sprung")] * N, dtype=object)}
    source = released(tmp_path, **changed)
    with refused(f"{name}.npy", "pickled"):
        read_features(source)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("name", ["birds.npz", "birds.npy", "birds.parquet"])
def test_a_bare_pickle_is_refused_and_never_run(tmp_path, name):
    (tmp_path / name).write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    with refused(name):
        read_features(tmp_path / name)
    assert not (tmp_path / "sprung").exists()
