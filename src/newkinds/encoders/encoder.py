"""What an encoder is: samples in, feature vectors out."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from newkinds.data.raw import Item, Kind

if TYPE_CHECKING:
    from torch import Tensor, nn

FloatArray = npt.NDArray[np.float32]
Preparation = Callable[[Item], Any]


class Encoder(Protocol):
    """Turns prepared samples into feature vectors.

    Attributes
    ----------
    name : str
        By which `newkinds.encoders.load_encoder` finds it again.
    kind : {"images", "texts"}
    fingerprint : str
        A checksum of what decides the features: weights and preprocessing.
    precision : str
        In which it computes: features in half precision are not quite those in full.
    batch_size : int
        How many samples it wants at once.
    preparation : callable
        From a sample to what `encode` takes; runs in worker processes, so it must be light and can be pickled.
        For images it gives pixels.
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
        """As `encode`, but a tensor through which gradients flow."""
        ...

    def with_tensors(self, tensors: Mapping[str, "Tensor"], name: str) -> Self:
        """Take on other values of some weights, and another name."""
        ...


def fingerprint(facts: Mapping[str, Any], contents: Callable[[Any], None] | None = None) -> str:
    """A short checksum of facts, and of what `contents` feeds to the hash it is called with.

    Examples
    --------
    >>> fingerprint({"model": "a", "size": 224}) == fingerprint({"size": 224, "model": "a"})
    True
    """
    checksum = hashlib.blake2b(json.dumps(facts, sort_keys=True, default=str).encode(), digest_size=16)
    if contents is not None:
        contents(checksum)
    return checksum.hexdigest()
