"""CIFAR10 and CIFAR100 as their authors publish them: the Python version (pickles) and the binary version.

Reading a pickle can run any code. These are read by an unpickler that knows the few names which the official files
use and puts stand-ins of its own in their place: nothing else is ever looked up, imported or called.
"""

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.data.files import load_checked
from newkinds.data.layouts import DOWNLOAD_AGAIN, Listing
from newkinds.errors import InputError
from newkinds.labels import IntArray

BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))
"""Files of CIFAR10's training images."""
SIDE = 32
N_PIXELS = 3 * SIDE * SIDE
"""Bytes of an image: the red plane, the green one, the blue one, each row by row."""


class _PickledArray:
    """What a pickle says about an array, unchanged."""

    state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def rows(self) -> npt.NDArray[np.uint8]:
        """The array, which must be one of bytes with a row for each image."""
        _, shape, kind, is_fortran, content = self.state
        if not isinstance(kind, _PickledType) or kind.code not in ("u1", b"u1"):
            raise ValueError("the images are not stored as bytes (uint8)")
        if len(shape) != 2 or shape[1] != N_PIXELS:
            raise ValueError(f"there should be {N_PIXELS} bytes an image; the array has shape {tuple(shape)}")
        content = content.encode("latin-1") if isinstance(content, str) else content
        return np.frombuffer(content, dtype=np.uint8).reshape(shape, order="F" if is_fortran else "C")


class _PickledType:
    """What a pickle says about the type of an array's entries."""

    def __init__(self, code: Any, *_: Any) -> None:
        self.code = code

    def __setstate__(self, state: Any) -> None:
        """Byte order and alignment, which mean nothing for single bytes."""


def _blank_array(*_: Any) -> _PickledArray:
    return _PickledArray()


def _latin1_bytes(text: str, *_: Any) -> bytes:
    """Bytes as Python 3 writes them for Python 2."""
    return text.encode("latin-1")


STAND_INS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _blank_array,
    ("numpy._core.multiarray", "_reconstruct"): _blank_array,
    ("numpy", "ndarray"): _PickledArray,
    ("numpy", "dtype"): _PickledType,
    ("_codecs", "encode"): _latin1_bytes,
}
"""All that the official files, and copies saved again by a newer Python, ask for."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        if (module, name) not in STAND_INS:
            raise pickle.UnpicklingError(
                f"it asks for {module}.{name}, which no CIFAR file needs and could run any code; nothing was run"
            )
        return STAND_INS[module, name]


def read_cifar10(top: Path) -> Listing:
    """CIFAR10, Python version."""
    return read_pickled([top / name for name in BATCHES], top / "batches.meta", "labels", "label_names")


def read_cifar10_binary(top: Path) -> Listing:
    """CIFAR10, binary version."""
    return read_binary([top / f"{name}.bin" for name in BATCHES], top / "batches.meta.txt", n_label_bytes=1)


def read_cifar100(top: Path) -> Listing:
    """CIFAR100, Python version, with its 100 fine classes."""
    return read_pickled([top / "train"], top / "meta", "fine_labels", "fine_label_names")


def read_cifar100_binary(top: Path) -> Listing:
    """CIFAR100, binary version, with its 100 fine classes."""
    return read_binary([top / "train.bin"], top / "fine_label_names.txt", n_label_bytes=2)


def read_pickled(batches: Sequence[Path], meta: Path, labels_key: str, names_key: str) -> Listing:
    """The Python version: a dict with `data` and labels in each file, and the names of the classes in another.

    Parameters
    ----------
    batches : sequence of path
        Files of images, in order.
    meta : path
        File with the names.
    labels_key, names_key : str
        The keys of labels and names: `labels` and `label_names` in CIFAR10, `fine_labels` and `fine_label_names` in
        CIFAR100.
    """
    rows, classes = [], []
    for path in batches:
        content = _unpickled(path)
        rows.append(_field(path, content, "data", lambda data: data.rows()))
        labels = _field(
            path, content, labels_key, lambda values: np.array(list(map(_class_number, values)), np.int64)
        )
        if len(labels) != len(rows[-1]):
            raise InputError(f"{path} has {len(rows[-1])} images but {len(labels)} labels; download it again")
        classes.append(labels)
    names = _field(meta, _unpickled(meta), names_key, lambda values: tuple(map(_text, values)))
    return _listing(np.concatenate(rows), np.concatenate(classes), names)


def read_binary(batches: Sequence[Path], names_file: Path, n_label_bytes: int) -> Listing:
    """The binary version: for each image its labels, a byte each, and 3072 bytes of pixels.

    Parameters
    ----------
    batches : sequence of path
        Files of images, in order.
    names_file : path
        Text file with one name a line.
    n_label_bytes : int
        1 in CIFAR10; 2 in CIFAR100, where the class comes after its superclass.
    """
    width = n_label_bytes + N_PIXELS
    records = []
    for path in batches:
        content = load_checked(path, "a binary file of CIFAR", path.read_bytes, DOWNLOAD_AGAIN)
        if len(content) % width:
            raise InputError(
                f"{path} has {len(content)} bytes, no multiple of the {width} of an image; download it again"
            )
        records.append(np.frombuffer(content, dtype=np.uint8).reshape(-1, width))
    table = np.concatenate(records)
    text = load_checked(names_file, "a list of names", lambda: names_file.read_text("utf-8"), DOWNLOAD_AGAIN)
    names = tuple(line.strip() for line in text.splitlines() if line.strip())
    return _listing(table[:, n_label_bytes:], table[:, n_label_bytes - 1].astype(np.int64), names)


def _listing(rows: npt.NDArray[np.uint8], classes: IntArray, names: tuple[str, ...]) -> Listing:
    planes = rows.reshape(-1, 3, SIDE, SIDE)
    pixels = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))  # (images, height, width, 3)
    return Listing(list(pixels), tuple(map(str, range(len(pixels)))), classes, names)  # views of one array


def _unpickled(path: Path) -> dict[str, Any]:
    def load() -> dict[str, Any]:
        with path.open("rb") as file:
            content = _PlainUnpickler(file, encoding="latin-1").load()
        if not isinstance(content, dict):
            raise ValueError(f"it holds a {type(content).__name__}, not a dict")
        return {_text(key): value for key, value in content.items()}

    return load_checked(path, "a pickle of CIFAR", load, DOWNLOAD_AGAIN)


def _field(path: Path, content: dict[str, Any], key: str, convert: Callable[[Any], Any]) -> Any:
    if key not in content:
        raise InputError(
            f"{path} has no {key!r}, only {', '.join(content) or 'nothing'}; is it a file of this set?"
        )
    return load_checked(path, f"a file of CIFAR ({key!r})", lambda: convert(content[key]), DOWNLOAD_AGAIN)


def _text(value: Any) -> str:
    if not isinstance(value, str | bytes):
        raise ValueError(f"it has {type(value).__name__} where there should be text")
    return value.decode("utf-8") if isinstance(value, bytes) else value


def _class_number(value: Any) -> int:
    if not isinstance(value, int):
        raise ValueError(f"it has {type(value).__name__} where there should be the number of a class")
    return value
