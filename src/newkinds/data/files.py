"""Files that may be missing, damaged or hostile: every problem becomes a clear error that names the file.

Nothing is unpickled: an array of Python objects is refused.
"""

import lzma
import pickle
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from newkinds.errors import InputError
from newkinds.names import IMAGE_ENDINGS, PACKED_ENDINGS
from newkinds.runtime import check_memory, in_bytes

Content = TypeVar("Content")

UNREADABLE = (
    ValueError,
    EOFError,
    OSError,
    LookupError,
    TypeError,
    AttributeError,
    RuntimeError,  # an encrypted archive; with its subclasses NotImplementedError and RecursionError
    MemoryError,  # a header that claims more than there is
    OverflowError,
    SystemError,  # numpy's, over text beyond Unicode
    SyntaxError,  # numpy reads a header as a Python literal
    tokenize.TokenError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    pickle.UnpicklingError,
)
"""What numpy, scipy, pyarrow and the standard library raise over damaged files."""
PACKINGS = {".gz": "gzip", ".zst": "zstd"}
"""How pyarrow calls what the `PACKED_ENDINGS` stand for."""
UNPACKED_BYTES = 1 << 26
"""Bytes unpacked at a time."""
NPY_MAGIC = b"\x93NUMPY"
STATE, INFO, SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"
"""Files of a data set that Hugging Face's `datasets` saved."""


def load_checked(path: Path, kind: str, load: Callable[[], Content], advice: str = "") -> Content:
    """What `load` makes of a file; whatever is wrong with the file becomes an `InputError`.

    Parameters
    ----------
    path : path
        The file that the error names.
    kind : str
        What the file should be: "a Parquet file".
    load : callable
    advice : str, optional
        The end of the error: how to mend the file.
    """
    end = f"; {advice}" if advice else ""
    if not path.exists():
        raise InputError(f"{path} does not exist{end}")
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(f"{path} is empty{end}")
    return checked(str(path), kind, load, end)


def checked(name: str, kind: str, load: Callable[[], Content], end: str = "") -> Content:
    """As `load_checked`, of something that need not be a file on this machine."""
    try:
        return load()
    except InputError:
        raise
    except UNREADABLE as error:
        if "allow_pickle" in str(error) or "Python objects" in str(error):
            raise InputError(
                f"{name} holds pickled Python objects, which are never loaded: they could run any code; "
                "save plain numbers or text"
            ) from error
        raise InputError(f"{name} cannot be read as {kind}: {str(error) or type(error).__name__}{end}") from error


@contextmanager
def naming_files(*paths: Path) -> Iterator[None]:
    """Put the names of files before an error about what is in them."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{' and '.join(dict.fromkeys(map(str, paths)))}: {error}") from error


def read_array(path: Path, *, memory_map: bool = False) -> npt.NDArray[Any]:
    """An array from an .npy file; never a pickle."""

    def load() -> npt.NDArray[Any]:
        with path.open("rb") as file:
            if file.read(len(NPY_MAGIC)) != NPY_MAGIC:
                raise ValueError("it does not begin like one")
        loaded: npt.NDArray[Any] = np.load(path, mmap_mode="r" if memory_map else None, allow_pickle=False)
        return loaded

    return load_checked(path, "an .npy file", load)


def is_parquet(name: str) -> bool:
    """Whether a file counts as a part of a data set, by its name."""
    return name.lower().endswith(".parquet") and not name.startswith((".", "_"))


def is_columnar(path: Path) -> bool:
    """Whether a path holds columns with types: Parquet, or a saved data set."""
    if path.is_dir():
        return is_saved_dataset(path) or _holds_parquet(path)
    return path.suffix.lower() == ".parquet" and path.is_file()


def is_saved_dataset(folder: Path) -> bool:
    """Whether a folder holds a data set that Hugging Face's `datasets` saved, or one of several parts."""
    return (folder / SPLITS).is_file() or ((folder / STATE).is_file() and (folder / INFO).is_file())


def _holds_parquet(folder: Path) -> bool:
    """Whether a folder is a data set of Parquet files: it holds some, perhaps in folders such as `year=2026`.

    A folder with images, or with other folders in which there may be some, is not: a table may lie beside photos.
    """
    entries = [path for path in folder.iterdir() if not path.name.startswith((".", "_"))]
    if any(path.suffix.lower() in IMAGE_ENDINGS for path in entries):
        return False
    folders = [path for path in entries if path.is_dir()]
    if any("=" not in path.name for path in folders):
        return False
    return any(is_parquet(path.name) for path in entries) or any(map(_holds_parquet, folders))


def unpacked(path: Path) -> bytes:
    """The content of a file; that of a `.gz` or `.zst` file as it was before it was packed."""
    packing = path.suffix.lower()
    if packing not in PACKED_ENDINGS:
        return path.read_bytes()
    import pyarrow as pa

    parts, size = [], 0
    with pa.OSFile(str(path)) as file, pa.CompressedInputStream(file, PACKINGS[packing]) as stream:
        while part := stream.read(UNPACKED_BYTES):
            size += len(part)
            check_memory(4 * UNPACKED_BYTES, f"{path}: unpacking more than {in_bytes(size)} of it", "give a part")
            parts.append(part)
    return b"".join(parts)


def writable_name(name: str) -> str:
    """A file's name as text that can be written: bytes that are no text become escapes."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")
