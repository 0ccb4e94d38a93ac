"""Features that were computed before, found again by the content they were computed from.

Each encoder has a folder of its own (its fingerprint covers weights, preprocessing and precision). The files in it
hold records of equal length: a key, which is a checksum of the sample's content, and the features. Records are only
ever appended, and every process has its own file, so an interruption costs no more than the batch that was being
written: a torn record at the end is ignored. A photo that is moved, renamed or copied keeps its content and key.
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
    if folder := os.environ.get("NEWKINDS_CACHE"):
        return Path(folder)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "newkinds"


def content_key(item: Item) -> bytes:
    """A checksum of a sample's content: the bytes of a file, pixels and their shape, or a text.

    Examples
    --------
    >>> content_key("lost card") == content_key("lost card"), content_key("lost card") == content_key("Lost card")
    (True, False)
    """
    if isinstance(item, Path):
        try:
            with item.open("rb") as file:
                return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=KEY_BYTES)).digest()
        except (OSError, ValueError):  # ValueError: a path with a NUL byte
            return hashlib.blake2b(os.fsencode(item), digest_size=KEY_BYTES, person=b"unreadable").digest()
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
            part = [items[i] for i in range(first, min(first + HASHED_AT_ONCE, len(items)))]
            keys += pool.map(content_key, part)
            report_progress("looking at the samples", len(keys), len(items))
    return keys


class FeatureCache:
    """The features that one encoder has computed. Without a folder (`None`) nothing is remembered.

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
            with suppress(OSError):  # reported when the records were written
                self._file.close()
            self._file = None

    def find(self, keys: Sequence[bytes]) -> tuple[npt.NDArray[np.bool_], FloatArray | None]:
        """Which keys are known, and the features of the known ones in the order of the keys; None if none is."""
        parts = self._parts()
        if not parts or not keys:
            return np.zeros(len(keys), dtype=bool), None
        wanted, rows = np.unique(np.array(keys, dtype=KEY), return_inverse=True)
        features = np.empty((len(wanted), parts[0].dtype["features"].shape[0]), dtype=np.float32)
        is_known = np.zeros(len(wanted), dtype=bool)
        for part in parts:
            recorded = np.ascontiguousarray(part["key"]).view(KEY).reshape(-1)
            at = np.minimum(np.searchsorted(wanted, recorded), len(wanted) - 1)
            same = wanted[at] == recorded
            features[at[same]] = part["features"][same]
            is_known[at[same]] = True
        return is_known[rows], features[rows[is_known[rows]]]

    def add(self, keys: Sequence[bytes], features: FloatArray) -> None:
        """Remember the features of a batch; they are on disk when this returns."""
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
        except (OSError, ValueError) as error:  # ValueError: a path with a NUL byte
            problem = error.strerror if isinstance(error, OSError) else error
            raise InputError(f"cannot write to the cache {self._folder}: {problem}") from error

    def _parts(self) -> list[npt.NDArray[np.void]]:
        """Every file of records, mapped into memory."""
        if self._folder is None or not self._folder.is_dir():
            return []
        parts: list[npt.NDArray[np.void]] = []
        for path in sorted(self._folder.glob(f"[1-9]*-*{ENDING}")):
            width = path.name.partition("-")[0]
            if not (width.isascii() and width.isdecimal()):
                continue  # not one of ours
            dtype = _record(int(width))
            if n := path.stat().st_size // dtype.itemsize:
                parts.append(np.memmap(path, dtype=dtype, mode="r", shape=(n,)))
        return parts


def _record(width: int) -> np.dtype[np.void]:
    return np.dtype([("key", np.uint8, (KEY_BYTES,)), ("features", "<f4", (width,))])
