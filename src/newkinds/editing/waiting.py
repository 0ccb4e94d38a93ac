"""Samples that `newkinds watch` has answered and that wait for the next update: a file in the run folder.

Each block of samples is on the disk before its answers go out, so whatever was answered is not lost when the
program is killed. A record is its length, its checksum and its content; a last one that was interrupted never
happened, and its answers never went out.

The file has a token of its own. The entry of the update that takes the samples in names it, and then the file is
removed. Killed in between, the next program finds a file whose token the journal has, and removes it: no sample is
taken in twice. Who reads or writes the file claims it; so there is one watcher of a run at a time.
"""

import json
import os
import secrets
import struct
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.errors import InputError
from newkinds.journal import Entry, read_journal
from newkinds.run_folder import WAITING_FILE
from newkinds.run_record import open_file
from newkinds.staging import PlaceTaken, bring_to_disk, claimed, sync_folder

MAGIC = b"newkinds waiting samples 1\n"
TOKEN_BYTES = 8
HEAD = len(MAGIC) + 2 * TOKEN_BYTES + 1
"""Bytes before the first record: the magic, the token in hexadecimal digits, the end of the line."""
RECORD_HEAD = struct.Struct("<II")
"""Length and checksum (CRC-32) of a record's content."""
MOST_ROWS = 1 << 12
"""Samples of a record at most, so that its length is no matter."""
TOKEN = "waiting"
"""The argument of an update that names the file that it took in."""


@dataclass(frozen=True)
class Block:
    """Samples that wait.

    Attributes
    ----------
    ids : list of str or None
        None for those that came without.
    features : ndarray of float32 of shape (samples, features)
        Of unit length.
    texts : list of str, or None
    """

    ids: list[str | None]
    features: npt.NDArray[np.float32]
    texts: list[str] | None


class Waiting:
    """The samples of a run that wait; `waiting_samples` opens them.

    Attributes
    ----------
    path : Path
    token : str
        Of the file; a new one where there is none yet.
    n_samples : int
        How many there are.
    """

    def __init__(self, folder: Path, taken: Collection[str]) -> None:
        self.path = folder / WAITING_FILE
        self.n_samples = 0
        self._start_anew()
        if not os.path.lexists(self.path):
            return
        with open_file(self.path) as file:
            head = file.read(HEAD)
        if len(head) < HEAD and (MAGIC + head[len(MAGIC) :]).startswith(head):  # killed while it was begun
            return
        token = head[len(MAGIC) : HEAD - 1].decode("ascii", "replace")
        if not head.startswith(MAGIC) or not set(token) <= set("0123456789abcdef"):
            raise InputError(f"{self.path} is not a file of newkinds; move it away to go on")
        if token in taken:
            self.clear()
            return
        self.token, self._n_bytes = token, HEAD
        for block, end in self._records():
            self.n_samples, self._n_bytes = self.n_samples + len(block.ids), end

    def append(
        self, ids: Sequence[str | None], features: npt.NDArray[Any], texts: Sequence[str | None] | None = None
    ) -> None:
        """Add samples, and return when they are on the disk. Blank ids count as none."""
        from newkinds.engine import normalised

        unit = np.asarray(normalised(np.asarray(features)), dtype="<f4")
        content = b""
        for first in range(0, len(ids), MOST_ROWS):
            rows = slice(first, first + MOST_ROWS)
            content += _record(ids[rows], unit[rows], None if texts is None else texts[rows])
        is_first = not self._n_bytes
        if is_first:
            content = MAGIC + self.token.encode() + b"\n" + content
        with open(self.path, "ab") as file:
            file.truncate(self._n_bytes)  # without what was interrupted
            file.write(content)
        bring_to_disk(self.path)
        if is_first:
            sync_folder(self.path.parent)
        self._n_bytes += len(content)
        self.n_samples += len(ids)

    def read(self) -> list[Block]:
        """All samples that wait."""
        return [block for block, _ in self._records()] if self._n_bytes else []

    def clear(self) -> None:
        """Forget them: they are in the run."""
        self.path.unlink(missing_ok=True)
        sync_folder(self.path.parent)
        self._start_anew()

    def _start_anew(self) -> None:
        self.token, self.n_samples = secrets.token_hex(TOKEN_BYTES), 0
        self._n_bytes = 0
        """How far the file is whole; 0 where there is none."""

    def _records(self) -> Iterator[tuple[Block, int]]:
        """The blocks, each with the place in the file where it ends."""
        with open_file(self.path) as file:
            size = os.fstat(file.fileno()).st_size
            place = HEAD
            file.seek(place)
            while place + RECORD_HEAD.size <= size:
                length, checksum = RECORD_HEAD.unpack(file.read(RECORD_HEAD.size))
                end = place + RECORD_HEAD.size + length
                if end > size or not length:  # interrupted; a file may have grown by zeros
                    return
                content = file.read(length)
                if zlib.crc32(content) != checksum:
                    if end == size:  # its last bytes did not come onto the disk
                        return
                    raise self._damaged(place)
                yield self._block(content, place), end
                place = end

    def _block(self, content: bytes, place: int) -> Block:
        try:
            length = int.from_bytes(content[:4], "little")
            facts = json.loads(content[4 : 4 + length])
            ids, texts, width = facts["ids"], facts["texts"], facts["width"]
            features = np.frombuffer(content[4 + length :], dtype="<f4").reshape(len(ids), width)
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(place) from error
        return Block(ids, features.astype(np.float32), texts)

    def _damaged(self, place: int) -> InputError:
        return InputError(
            f"{self.path} is damaged at byte {place}: the samples from there on cannot be read; move it away to go "
            "on without those that wait"
        )


@contextmanager
def waiting_samples(folder: Path) -> Iterator[Waiting]:
    """Hold the samples that wait until the block ends; a run that is watched by another program is refused."""
    folder = folder.resolve()
    holding = claimed(folder / WAITING_FILE)
    try:
        holding.__enter__()
    except PlaceTaken as error:
        raise PlaceTaken(f"another program watches {folder}; end that one first ({error})") from None
    try:
        yield Waiting(folder, taken_tokens(read_journal(folder)))
    finally:
        holding.__exit__(None, None, None)


def taken_tokens(entries: Sequence[Entry]) -> set[str]:
    """Tokens of the files that updates took in, undone ones too."""
    return {entry.arguments[TOKEN] for entry in entries if isinstance(entry.arguments.get(TOKEN), str)}


def _record(
    ids: Sequence[str | None], features: npt.NDArray[np.float32], texts: Sequence[str | None] | None
) -> bytes:
    facts = {
        "ids": [name if name and name.strip() else None for name in ids],
        "texts": None if texts is None else [text or "" for text in texts],
        "width": features.shape[1],
    }
    described = json.dumps(facts, ensure_ascii=False).encode()
    content = len(described).to_bytes(4, "little") + described + features.tobytes()
    return RECORD_HEAD.pack(len(content), zlib.crc32(content)) + content
