"""CIFAR as pickles and as bytes: every version is read, and no pickle ever runs code."""

import pickle

import numpy as np
import pytest

from newkinds.data.published import read_published
from newkinds.errors import InputError
from tests.data.published_trees import (
    cifar10,
    cifar100,
    cifar_rows,
    dump,
    pixels,
)
from tests.data.refusal import Trap, refused

# Pickles


def test_the_trap_would_spring(tmp_path):
    pickle.loads(pickle.dumps(Trap(tmp_path / "sprung")))
    assert (tmp_path / "sprung").exists()


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("place", ["alone", "data", "labels", "key beside"])
def test_a_pickle_that_would_run_code_is_refused_and_never_run(tmp_path, protocol, place):
    cifar10(tmp_path)
    trap, batch = Trap(tmp_path / "sprung"), tmp_path / "cifar-10-batches-py" / "data_batch_2"
    content = {"data": cifar_rows(2), "labels": [0, 1]}
    changed = {
        "alone": trap,
        "data": {**content, "data": trap},
        "labels": {**content, "labels": [0, trap]},
        "key beside": {**content, "filenames": trap},
    }
    dump(changed[place], batch, protocol)
    with refused(str(batch), "it asks for", "mkdir", "nothing was run"):
        read_published("cifar10", tmp_path, check_sizes=False)
    assert not (tmp_path / "sprung").exists()


def test_a_trap_among_the_names_is_refused_and_never_run(tmp_path):
    cifar100(tmp_path)
    dump({"fine_label_names": Trap(tmp_path / "sprung")}, tmp_path / "cifar-100-python" / "meta")
    with refused("meta", "mkdir"):
        read_published("cifar100", tmp_path, check_sizes=False)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("name", ["eval", "exec", "getattr", "__import__", "dict", "list"])
def test_no_builtin_is_handed_out(tmp_path, name):
    cifar10(tmp_path)
    batch = tmp_path / "cifar-10-batches-py" / "data_batch_1"
    batch.write_bytes(f"cbuiltins\n{name}\n.".encode())
    with refused(str(batch), f"builtins.{name}"):
        read_published("cifar10", tmp_path, check_sizes=False)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
def test_copies_saved_again_by_a_newer_python_are_read(tmp_path, protocol):
    tree = cifar10(tmp_path, protocol)
    collection = read_published("cifar10", tmp_path, check_sizes=False)
    assert collection.names is not None
    assert collection.truth is not None
    assert [collection.names[t] for t in collection.truth] == [tree.names[c] for c in tree.classes]
    assert np.array_equal(pixels(collection), cifar_rows(50).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def test_pickles_as_python_2_wrote_them_are_read(tmp_path):
    """The official files: text and bytes are both Python 2's str, and numpy is an old one."""
    tree = cifar10(tmp_path)
    rows = cifar_rows(50)
    for i in range(5):
        part = slice(10 * i, 10 * i + 10)
        raw, labels = rows[part].tobytes(), "".join(f"I{c}\n" for c in tree.classes[part])
        stream = (
            b"(dU\x04datacnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntU\x01btR"
            b"(I1\n(I10\nI3072\ntcnumpy\ndtype\n(U\x02u1I0\nI1\ntR(I3\nU\x01|NNNI-1\nI-1\nI0\ntbI00\n"
            + b"T"
            + len(raw).to_bytes(4, "little")
            + raw
            + b"tbsU\x06labels("
            + labels.encode()
            + b"ls."
        )
        (tmp_path / "cifar-10-batches-py" / f"data_batch_{i + 1}").write_bytes(stream)
    collection = read_published("cifar10", tmp_path, check_sizes=False)
    assert collection.names is not None
    assert collection.truth is not None
    assert [collection.names[t] for t in collection.truth] == [tree.names[c] for c in tree.classes]
    assert np.array_equal(pixels(collection), rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def test_bytes_as_keys_and_names_are_read(tmp_path):
    tree = cifar100(tmp_path)
    top = tmp_path / "cifar-100-python"
    dump({b"data": cifar_rows(200), b"fine_labels": tree.classes}, top / "train")
    dump({b"fine_label_names": [name.encode() for name in tree.names]}, top / "meta")
    assert set(read_published("cifar100", tmp_path, check_sizes=False).names or ()) == set(tree.names)


def test_an_array_in_fortran_order_is_read(tmp_path):
    tree = cifar100(tmp_path)
    rows = np.asfortranarray(cifar_rows(200))
    dump({"data": rows, "fine_labels": tree.classes}, tmp_path / "cifar-100-python" / "train")
    images = pixels(read_published("cifar100", tmp_path, check_sizes=False))
    assert np.array_equal(images[150], cifar_rows(200)[150].reshape(3, 32, 32).transpose(1, 2, 0))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ([1, 2], "holds a list, not a dict"),
        ({"labels": [0]}, "has no 'data', only labels"),
        ({"data": cifar_rows(1)}, "has no 'labels', only data"),
        ({"data": cifar_rows(2), "labels": [0]}, "has 2 images but 1 labels"),
        ({"data": cifar_rows(1).astype(np.float32), "labels": [0]}, "not stored as bytes"),
        ({"data": cifar_rows(1)[:, :9], "labels": [0]}, "3072 bytes an image; the array has shape (1, 9)"),
        ({"data": "text", "labels": [0]}, "data_batch_1 cannot be read"),
        ({"data": cifar_rows(1), "labels": ["owl"]}, "str where there should be the number of a class"),
        ({"data": cifar_rows(1), "labels": [10]}, "sample 0 is given class 10"),
        ({"data": cifar_rows(1), "labels": [-1]}, "sample 0 is given class -1"),
        ({"data": cifar_rows(1), "labels": [2**70]}, "data_batch_1 cannot be read"),
        ({"data": cifar_rows(1), 3: 4}, "int where there should be text"),
    ],
    ids=range(12),
)
def test_a_batch_that_is_none_is_refused_with_the_problem(tmp_path, content, problem):
    cifar10(tmp_path)
    dump(content, tmp_path / "cifar-10-batches-py" / "data_batch_1")
    with refused(problem):
        read_published("cifar10", tmp_path, check_sizes=False)


def test_damaged_pickles_are_refused_with_the_file(tmp_path):
    cifar10(tmp_path)
    batch = tmp_path / "cifar-10-batches-py" / "data_batch_1"
    dump({"data": cifar_rows(1), "labels": [0]}, batch)
    whole = batch.read_bytes()
    pieces = [whole[:end] for end in range(0, len(whole) - 1, 97)]
    pieces += [whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :] for at in range(160)]
    errors = []
    for piece in pieces:
        batch.write_bytes(piece)
        try:
            read_published("cifar10", tmp_path, check_sizes=False)
        except InputError as error:
            errors.append(str(error))
    assert len(errors) > len(pieces) // 2
    assert all("cifar-10-batches-py" in error for error in errors)
