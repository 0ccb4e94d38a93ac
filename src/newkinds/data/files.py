"""Files that may be missing, damaged or hostile: whatever is wrong with one becomes a clear error that names it.

Nothing is unpickled: an array of Python objects is refused.
"""

import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.errors import InputError

UNREADABLE = (
    ValueError,
    EOFError,
    OSError,
    KeyError,
    NotImplementedError,
    MemoryError,  # a header that claims more than there is
    OverflowError,
    SyntaxError,  # numpy reads a header as a Python literal
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What numpy, pyarrow and the standard library raise over damaged files."""
NPY_MAGIC = b"\x93NUMPY"


def guard(path: Path, kind: str, load: Callable[[], Any]) -> Any:
    """Run `load`, turning every way a file can be bad into one clear error."""
    if not path.exists():
        raise InputError(f"{path} does not exist")
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(f"{path} is empty")
    try:
        return load()
    except UNREADABLE as error:
        if "allow_pickle" in str(error) or "Python objects" in str(error):
            raise InputError(
                f"{path} holds pickled Python objects, which are never loaded: they could run any code; "
                "save plain numbers or text"
            ) from error
        raise InputError(f"{path} cannot be read as {kind}: {error}") from error


@contextmanager
def blaming(*paths: Path) -> Iterator[None]:
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

    array: npt.NDArray[Any] = guard(path, "an .npy file", load)
    return array
