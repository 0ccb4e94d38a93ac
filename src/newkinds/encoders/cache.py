"""Features that were computed before, found again by the content they were computed from.

Each encoder has a folder of its own (its fingerprint covers weights, preprocessing and precision). The files in it
hold records of equal length: a key, which is a checksum of the sample's content, the key again, a checksum of the
record, and the features. Records are only ever appended, and every process has its own file, so an interruption
costs no more than the batch that was being written: a torn record at the end is ignored. A damaged record is
ignored too, and its sample computed again. A photo that is moved, renamed or copied keeps its content and key.

Files of earlier versions have no checksums; they are still read.
"""

import hashlib
import logging
import os
import tempfile
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
CHECKSUM_BYTES = 8
CHECKED, ENDING = "checked-", ".records"
"""A file's name: `checked-WIDTH-UNIQUE.records`; without `checked-` if its records have no checksums."""
MOST_DIGITS = 7
"""Of the width in a file's name."""
HASHED_AT_ONCE = 1 << 12

logger = logging.getLogger(__name__)

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
    elif isinstance(item, bytes):
        content = item
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

    Attributes
    ----------
    notes : list of str
        What a user should know: records that were damaged, a disk that is full.

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
        self._writable = self._folder is not None
        self.notes: list[str] = []

    def __enter__(self) -> "FeatureCache":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def find(self, keys: Sequence[bytes]) -> tuple[npt.NDArray[np.bool_], FloatArray | None]:
        """Which keys are known, and the features of the known ones in the order of the keys; None if none is."""
        parts = self._parts()
        if not parts or not keys:
            return np.zeros(len(keys), dtype=bool), None
        wanted, rows = np.unique(np.array(keys, dtype=KEY), return_inverse=True)
        width = parts[-1].dtype["features"].shape[0]
        features = np.empty((len(wanted), width), dtype=np.float32)
        is_known, is_damaged = np.zeros(len(wanted), dtype=bool), np.zeros(len(wanted), dtype=bool)
        for part in parts:
            if part.dtype["features"].shape[0] != width:
                continue
            records, at, is_whole = _wanted_records(part, wanted)
            is_damaged[at[~is_whole]] = True
            features[at[is_whole]] = records["features"][is_whole]
            is_known[at[is_whole]] = True
        if n_damaged := int((is_damaged & ~is_known)[rows].sum()):
            self.notes.append(f"remembered samples that were damaged and computed again: {n_damaged}")
        return is_known[rows], features[rows[is_known[rows]]]

    def prepare(self, required: bool = True) -> None:
        """Make the folder and see whether it can be written to; if not, InputError, or a note if not `required`."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._folder):
                pass
        except (OSError, ValueError) as error:  # ValueError: a path with a NUL byte
            if required:
                raise InputError(f"cannot write to the cache {self._folder}: {_problem(error)}") from error
            self._give_up(error)

    def add(self, keys: Sequence[bytes], features: FloatArray) -> None:
        """Remember the features of a batch; they are in the file when this returns.

        If they cannot be written (a full disk), a note says so, and from then on nothing is remembered.
        """
        if self._folder is None or not self._writable or not len(keys):
            return
        records = np.empty(len(keys), dtype=_record(features.shape[1]))
        records["key"] = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, KEY_BYTES)
        records["again"] = records["key"]
        records["features"] = features
        records["checksum"] = _checksums(records)
        try:
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                name = f"{CHECKED}{features.shape[1]}-{uuid4().hex}{ENDING}"
                self._file = (self._folder / name).open("xb")
            self._file.write(records.tobytes())
            self._file.flush()
        except (OSError, ValueError) as error:  # ValueError: a path with a NUL byte
            self._give_up(error)

    def _give_up(self, error: OSError | ValueError) -> None:
        """Write no more: after half a record nothing else could be read."""
        self._writable = False
        self._close()
        self.notes.append(f"cannot write to the cache {self._folder}, so nothing is remembered: {_problem(error)}")
        logger.info(self.notes[-1])

    def _close(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # reported when the records were written
                self._file.close()
            self._file = None

    def _parts(self) -> list[npt.NDArray[np.void]]:
        """Every file of records, mapped into memory; those with checksums last."""
        if self._folder is None or not self._folder.is_dir():
            return []
        parts: list[npt.NDArray[np.void]] = []
        for checked in (False, True):
            for path in sorted(self._folder.glob(f"{CHECKED if checked else ''}[1-9]*-*{ENDING}")):
                width = path.name.removeprefix(CHECKED).partition("-")[0]
                if not (width.isascii() and width.isdecimal()) or len(width) > MOST_DIGITS:
                    continue  # not one of ours
                dtype = _record(int(width), checked)
                try:
                    if n := path.stat().st_size // dtype.itemsize:
                        parts.append(np.memmap(path, dtype=dtype, mode="r", shape=(n,)))
                except (OSError, ValueError) as error:  # not readable, or just becoming shorter
                    logger.warning("%s cannot be read and is left out: %s", path, error)
                else:
                    if not checked:
                        logger.info("%s was written by an earlier version: it has no checksums", path)
        return parts


def _record(width: int, checked: bool = True) -> np.dtype[np.void]:
    key, features = ("key", np.uint8, (KEY_BYTES,)), ("features", "<f4", (width,))
    if not checked:
        return np.dtype([key, features])
    return np.dtype([key, ("again", np.uint8, (KEY_BYTES,)), ("checksum", np.uint8, (CHECKSUM_BYTES,)), features])


def _wanted_records(
    part: npt.NDArray[np.void], wanted: npt.NDArray[np.bytes_]
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """The records of wanted keys, the places of these keys among the wanted, and whether each record is whole.

    A record whose key is damaged is found by the key's second copy.
    """
    at, is_wanted = _places(part["key"], wanted)
    if part.dtype.names is not None and "again" in part.dtype.names:
        at_again, is_wanted_again = _places(part["again"], wanted)
        at, is_wanted = np.where(is_wanted, at, at_again), is_wanted | is_wanted_again
    records, at = part[is_wanted], at[is_wanted]
    is_whole = np.isfinite(records["features"]).all(axis=1)
    if part.dtype.names is not None and "again" in part.dtype.names:
        is_whole &= (records["key"] == records["again"]).all(axis=1)
        is_whole &= (records["checksum"] == _checksums(records)).all(axis=1)
    return records, at, is_whole


def _places(
    keys: npt.NDArray[np.uint8], wanted: npt.NDArray[np.bytes_]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    recorded = np.ascontiguousarray(keys).view(KEY).reshape(-1)
    at = np.minimum(np.searchsorted(wanted, recorded), len(wanted) - 1)
    return at, wanted[at] == recorded


def _checksums(records: npt.NDArray[np.void]) -> npt.NDArray[np.uint8]:
    """Of key and features of every record."""
    keys, features = records["key"].tobytes(), memoryview(records["features"].tobytes())
    n_bytes = records.dtype["features"].itemsize
    checksums = b"".join(
        hashlib.blake2b(
            features[row * n_bytes : (row + 1) * n_bytes],
            digest_size=CHECKSUM_BYTES,
            key=keys[row * KEY_BYTES : (row + 1) * KEY_BYTES],
        ).digest()
        for row in range(len(records))
    )
    return np.frombuffer(checksums, dtype=np.uint8).reshape(-1, CHECKSUM_BYTES)


def _problem(error: OSError | ValueError) -> str:
    return str(getattr(error, "strerror", None) or error)
