"""What an encoder is: samples in, feature vectors out."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from newkinds.data.raw import Item
from newkinds.errors import InputError
from newkinds.names import Kind

if TYPE_CHECKING:
    from torch import Tensor, nn

FloatArray = npt.NDArray[np.float32]
Preparation = Callable[[Item], Any]


class Encoder(Protocol):
    """Turns prepared samples into feature vectors.

    Attributes
    ----------
    name : str
        What `newkinds.encoders.load_encoder` finds it by.
    kind : {"images", "texts"}
    fingerprint : str
        A checksum of everything that decides the features: weights and preprocessing.
    precision : str
        The type it computes in: features in half precision differ slightly from those in full.
    batch_size : int
        How many samples it wants at once.
    preparation : callable
        Turns a sample into what `encode` takes; for images, into pixels. It runs in worker processes, so it must
        be light and can be pickled.
    """

    name: str
    kind: Kind
    fingerprint: str
    precision: str
    batch_size: int

    @property
    def preparation(self) -> Preparation: ...

    def encode(self, batch: Sequence[Any]) -> FloatArray:
        """Features (samples, width) of prepared samples."""
        ...


@runtime_checkable
class Trainable(Encoder, Protocol):
    """An encoder that is a PyTorch module.

    Attributes
    ----------
    module : nn.Module
    """

    module: "nn.Module"

    def forward(self, batch: Sequence[Any]) -> "Tensor":
        """Like `encode`, but a tensor through which gradients flow."""
        ...

    def with_tensors(self, tensors: Mapping[str, "Tensor"], name: str) -> Self:
        """Replace the values of some weights, and the name."""
        ...


def fingerprint(facts: Mapping[str, Any], contents: Callable[[Any], None] | None = None) -> str:
    """A short checksum of facts, and of what `contents` feeds to the hash that it gets.

    Examples
    --------
    >>> fingerprint({"model": "a", "size": 224}) == fingerprint({"size": 224, "model": "a"})
    True
    """
    checksum = hashlib.blake2b(json.dumps(facts, sort_keys=True, default=str).encode(), digest_size=16)
    if contents is not None:
        contents(checksum)
    return checksum.hexdigest()


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def reason(error: Exception) -> str:
    """The first line of an error's text; its type where it has no text.

    Examples
    --------
    >>> reason(ValueError("no such model\\nsee the log")), reason(AssertionError())
    ('no such model', 'AssertionError')
    """
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


@contextmanager
def encoding_errors(name: str, kind: Kind) -> Iterator[None]:
    """Turn what a library raises over a model and its samples into an InputError that names the encoder.

    Not a lack of memory, which is neither's fault.
    """
    try:
        yield
    except Exception as error:  # of torch, of onnxruntime, of tokenizers: they share no base
        if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
            raise
        advice = "; --crop sets the size" if kind == "images" and "image size" in str(error).lower() else ""
        raise InputError(f"{name} cannot encode these {kind}: {reason(error)}{advice}") from error
