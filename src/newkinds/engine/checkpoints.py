"""Long work that can be taken up again after an interruption.

Inside `checkpointing(folder)` the engine's trainings and clusterings save their state to the folder from time to
time, and their results when they end. When the same work begins again it finds them by a hash of everything that
decides the result, so an unchanged program with the same seed goes on where it stopped and comes to the same
answer. Changed data or settings, or another version, start anew. Work that ends before its first state is due saves
nothing.

A state carries a checksum. A damaged one is set aside with a warning, and its work begins anew. States of earlier
versions have no checksum and another name; they are still read. If a state cannot be written (a full disk), one
warning says so, and the work goes on.
"""

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.numpy import load, save

from newkinds import __version__
from newkinds.errors import InputError
from newkinds.runtime import n_processes, rank, sum_over_processes
from newkinds.staging import accept_existing, staged

SECONDS = 20.0
"""Between two states of the same work."""

CHECKED, UNCHECKED, DAMAGED = ".checked.safetensors", ".safetensors", ".damaged"
"""Endings: of states, of states of earlier versions, of states set aside."""

Arrays = dict[str, npt.NDArray[Any]]


@dataclass
class _Place:
    """Where states are kept, and whether a warning was given that they cannot be."""

    folder: Path
    seconds: float
    warned: bool = False


_place: ContextVar[_Place | None] = ContextVar("newkinds_checkpoints", default=None)


@contextmanager
def checkpointing(folder: Path, seconds: float = SECONDS) -> Iterator[None]:
    """Keep the state of the work done inside the `with` block in a folder, made when it is first needed."""
    token = _place.set(_Place(folder, seconds))
    try:
        yield
    finally:
        _place.reset(token)


class Checkpoint:
    """The state of one piece of work, identified by what decides its result.

    Parameters
    ----------
    *decides
        Arrays, functions that return one (called only where states are kept), and values that their `repr`
        describes completely.
    """

    def __init__(self, *decides: Any) -> None:
        self._place = _place.get()
        self._saved = self._began = time.monotonic()
        if self._place is not None:
            digest = hashlib.sha256(__version__.encode())
            for fact in decides:
                part = fact() if callable(fact) else fact
                digest.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
                digest.update(b"\0")
            self._name = digest.hexdigest()[:32]

    @property
    def due(self) -> bool:
        """Whether it is time to save."""
        return self._place is not None and time.monotonic() - self._saved >= self._place.seconds

    def load(self) -> Arrays | None:
        """What was saved last, the same on every process; None if nothing usable is there."""
        if self._place is None:
            return None
        content = b""
        if rank() == 0:
            paths = (self._place.folder / f"{self._name}{ending}" for ending in (CHECKED, UNCHECKED))
            content = next((state for path in paths if (state := _read_whole(path))), b"")
        content = _from_first(content)
        return load(content) if content else None

    def save(self, arrays: Arrays) -> None:
        """Replace what was saved; the old stays until the new is whole."""
        self._saved = time.monotonic()
        if self._place is None or rank() != 0:
            return
        folder = self._place.folder
        arrays = {name: np.asarray(values, order="C") for name, values in arrays.items()}
        content = save(arrays, metadata={"sha256": _checksum(arrays)})
        try:
            with staged(folder / f"{self._name}{CHECKED}", replace=accept_existing) as stage:
                stage.write_bytes(content)
        except (OSError, InputError) as error:
            if not self._place.warned:
                self._place.warned = True
                warnings.warn(
                    f"{error}. The work goes on, but after an interruption it would begin again from an earlier "
                    "state",
                    stacklevel=2,
                )

    def finish(self, result: Callable[[], Arrays]) -> None:
        """Save the result, if the work took long enough to be worth it."""
        if self._place is not None and time.monotonic() - self._began >= self._place.seconds:
            self.save(result())


def _checksum(arrays: Arrays) -> str:
    """Of names, types, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        values = arrays[name]
        digest.update(f"{name}\0{values.dtype.str}\0{values.shape}\0".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def _read_whole(path: Path) -> bytes:
    """The content of a state; nothing if there is none, or a damaged one, which is set aside with a warning."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        _set_aside(path, error.strerror or str(error))
        return b""
    try:
        arrays = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        checksum = header.get("__metadata__", {}).get("sha256")
    except (SafetensorError, ValueError, TypeError, KeyError) as error:  # whatever a damaged header leads to
        _set_aside(path, str(error))
        return b""
    if path.name.endswith(CHECKED) and checksum != _checksum(arrays):
        _set_aside(path, "its checksum differs")
        return b""
    return content


def _set_aside(path: Path, why: str) -> None:
    aside = path.with_name(f"{path.name}.{uuid4().hex[:8]}{DAMAGED}")
    with suppress(OSError):  # it is not read, wherever it is
        path.replace(aside)
    warnings.warn(
        f"the saved state {path} is damaged ({why}). It is set aside as {aside.name}, and its work begins anew",
        stacklevel=4,
    )


def _from_first(content: bytes) -> bytes:
    """Give every process the content that the first one has."""
    if n_processes() == 1:
        return content
    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    size = int(sum_over_processes(torch.tensor([len(content)], device=device)))
    buffer = torch.zeros(size, dtype=torch.uint8, device=device)
    if rank() == 0 and size:
        buffer.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
    return bytes(sum_over_processes(buffer).cpu().numpy()) if size else b""
