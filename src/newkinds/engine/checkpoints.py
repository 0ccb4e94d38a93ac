"""Long work that can be taken up again after an interruption.

Inside `checkpointing(folder)` the engine's trainings and clusterings save their state to the folder from time to
time, and their results when they end. When the same work begins again it finds them by a hash of everything that
decides the result, so an unchanged program with the same seed goes on where it stopped and comes to the same
answer. Changed data or settings, or another version, start anew. Work that ends before its first state is due saves
nothing.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.numpy import load, save

from newkinds import __version__
from newkinds.runtime import n_processes, rank, sum_over_processes

SECONDS = 20.0
"""Between two states of the same work."""

Arrays = dict[str, npt.NDArray[Any]]

_folder: ContextVar[tuple[Path, float] | None] = ContextVar("newkinds_checkpoints", default=None)


@contextmanager
def checkpointing(folder: Path, seconds: float = SECONDS) -> Iterator[None]:
    """Keep the state of the work done inside the `with` block in a folder, made when it is first needed."""
    token = _folder.set((folder, seconds))
    try:
        yield
    finally:
        _folder.reset(token)


class Checkpoint:
    """The state of one piece of work, identified by what decides its result.

    Parameters
    ----------
    *decides
        Arrays, functions that return one (called only where states are kept), and values that their `repr`
        describes completely.
    """

    def __init__(self, *decides: Any) -> None:
        self._where = _folder.get()
        self._saved = self._began = time.monotonic()
        if self._where is not None:
            digest = hashlib.sha256(__version__.encode())
            for fact in decides:
                part = fact() if callable(fact) else fact
                digest.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
                digest.update(b"\0")
            self._path = self._where[0] / f"{digest.hexdigest()[:32]}.safetensors"

    @property
    def due(self) -> bool:
        """Whether it is time to save."""
        return self._where is not None and time.monotonic() - self._saved >= self._where[1]

    def load(self) -> Arrays | None:
        """What was saved last, the same on every process; None if nothing usable is there."""
        if self._where is None:
            return None
        content = b""
        if rank() == 0 and self._path.exists():
            content = self._path.read_bytes()
        content = _from_first(content)
        try:
            return load(content) if content else None
        except SafetensorError:  # half-written by a machine that lost power: begin again
            return None

    def save(self, arrays: Arrays) -> None:
        """Replace what was saved; the old stays until the new is whole."""
        self._saved = time.monotonic()
        if self._where is None or rank() != 0:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".partial")
        partial.write_bytes(save({name: np.asarray(values, order="C") for name, values in arrays.items()}))
        partial.replace(self._path)

    def finish(self, result: Callable[[], Arrays]) -> None:
        """Save the result, if the work took long enough to be worth it."""
        if self._where is not None and time.monotonic() - self._began >= self._where[1]:
            self.save(result())


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
