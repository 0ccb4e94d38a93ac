"""Features that were computed before, found again by what they were computed from.

A folder for each encoder (its fingerprint covers weights, preprocessing and precision), in it files of records of
equal length: a key, which is a checksum of the sample's content, and its features. Records are only ever appended,
every process to a file of its own, so an interruption costs the batch that was being written and no more: a torn
record at the end is passed over. A photo that is moved, renamed or copied is the same content.
"""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from newkinds.data.raw import Item
from newkinds.errors import InputError
from newkinds.runtime import report_progress

KEY_BYTES = 16
KEY = f"S{KEY_BYTES}"
ENDING = ".records"
HASHED_AT_ONCE = 1 << 12

FloatArray = npt.NDArray[np.float32]


def default_cache() -> Path:
    """`$NEWKINDS_CACHE`, or `newkinds` in the user's cache folder."""
    if given := os.environ.get("NEWKINDS_CACHE"):
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "newkinds"


def content_key(item: Item) -> bytes:
    """A checksum of a sample: of a file's bytes, of pixels and their shape, or of a text.

    Examples
    --------
    >>> content_key("lost card") == content_key("lost card"), content_key("lost card") == content_key("Lost card")
    (True, False)
    """
    if isinstance(item, Path):
        try:
            with item.open("rb") as file:
                return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=KEY_BYTES)).digest()
        except OSError:
            return hashlib.blake2b(str(item).encode(), digest_size=KEY_BYTES, person=b"unreadable").digest()
    if isinstance(item, str):
        content = item.encode("utf-8", "surrogatepass")
    else:
        content = str(item.shape).encode() + np.ascontiguousarray(item).tobytes()
    return hashlib.blake2b(content, digest_size=KEY_BYTES).digest()


def content_keys(items: Sequence[Item]) -> list[bytes]:
    """`content_key` of every sample; files are read by several threads."""
    keys: list[bytes] = []
    with ThreadPoolExecutor(4) as pool:
        for first in range(0, len(items), HASHED_AT_ONCE):
            some = [items[i] for i in range(first, min(first + HASHED_AT_ONCE, len(items)))]
            keys += pool.map(content_key, some)
            report_progress("looking at the samples", len(keys), len(items))
    return keys


class FeatureCache:
    """The features one encoder has computed. `None` as a folder: remembered nowhere.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with FeatureCache(Path(folder), "some-encoder") as cache:
    ...         cache.add([b"0123456789abcdef"], np.ones((1, 3), dtype=np.float32))
    ...     FeatureCache(Path(folder), "some-encoder").find([b"0123456789abcdef", b"another one here"])[0]
    array([ True, False])
    """

    def __init__(self, folder: Path | None, fingerprint: str) -> None:
        self._folder = None if folder is None else folder / "features" / fingerprint
        self._file: BinaryIO | None = None

    def __enter__(self) -> "FeatureCache":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with suppress(OSError):  # said already when it was written to
                self._file.close()
            self._file = None

    def find(self, keys: Sequence[bytes]) -> tuple[npt.NDArray[np.bool_], FloatArray | None]:
        """Which keys are there, and the features of those, in the order of the keys; None where none is."""
        parts = self._parts()
        if not parts or not keys:
            return np.zeros(len(keys), dtype=bool), None
        wanted, rows = np.unique(np.array(keys, dtype=KEY), return_inverse=True)
        features = np.empty((len(wanted), parts[0].dtype["features"].shape[0]), dtype=np.float32)
        found = np.zeros(len(wanted), dtype=bool)
        for part in parts:
            own = np.ascontiguousarray(part["key"]).view(KEY).reshape(-1)
            at = np.minimum(np.searchsorted(wanted, own), len(wanted) - 1)
            same = wanted[at] == own
            features[at[same]] = part["features"][same]
            found[at[same]] = True
        return found[rows], features[rows[found[rows]]]

    def add(self, keys: Sequence[bytes], features: FloatArray) -> None:
        """Remember the features of a batch; written when this returns."""
        if self._folder is None or not len(keys):
            return
        records = np.empty(len(keys), dtype=_record(features.shape[1]))
        records["key"] = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, KEY_BYTES)
        records["features"] = features
        try:
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._file = (self._folder / f"{features.shape[1]}-{uuid4().hex}{ENDING}").open("xb")
            self._file.write(records.tobytes())
            self._file.flush()
        except OSError as error:
            raise InputError(f"cannot write to the cache {self._folder}: {error.strerror}") from error

    def _parts(self) -> list[npt.NDArray[np.void]]:
        """Every file of records, mapped into memory."""
        if self._folder is None or not self._folder.is_dir():
            return []
        parts: list[npt.NDArray[np.void]] = []
        for path in sorted(self._folder.glob(f"[1-9]*-*{ENDING}")):
            dtype = _record(int(path.name.partition("-")[0]))
            if n := path.stat().st_size // dtype.itemsize:
                parts.append(np.memmap(path, dtype=dtype, mode="r", shape=(n,)))
        return parts


def _record(width: int) -> np.dtype[np.void]:
    return np.dtype([("key", np.uint8, (KEY_BYTES,)), ("features", "<f4", (width,))])
