"""Any PyTorch module as an encoder of images."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from newkinds.data.raw import Kind
from newkinds.encoders.encoder import FloatArray, fingerprint
from newkinds.encoders.preparation import ImagePreparation
from newkinds.errors import InputError

BATCH_SIZE = {"cpu": 32, "cuda": 256, "mps": 64}


class ModuleEncoder:
    """Any PyTorch module from images (n, 3, height, width) to features (n, width).

    Parameters
    ----------
    module : nn.Module
    preparation : ImagePreparation
    name : str
    device : str
        "cpu", "cuda" or "mps".
    half : bool, optional
        Compute in half precision; by default on CUDA only.
    features : callable, optional
        From the module and a batch to features; by default the module itself. Of (n, tokens, width) the first token
        counts, (n, width, height, width) is averaged over the image.
    facts : mapping, optional
        What else decides the features, for the fingerprint: it covers the module's structure and weights, but not
        `features`.
    unused : collection of str
        Weights that play no part, and so are not covered.

    Examples
    --------
    >>> tiny = nn.Sequential(nn.Conv2d(3, 5, 4, stride=4))
    >>> encoder = ModuleEncoder(tiny, ImagePreparation(size=(8, 8), resize=8))
    >>> encoder.encode([np.zeros((8, 8, 3), dtype=np.uint8)]).shape
    (1, 5)
    """

    kind: Kind = "images"

    def __init__(
        self,
        module: nn.Module,
        preparation: ImagePreparation,
        name: str = "module",
        *,
        device: str = "cpu",
        half: bool | None = None,
        features: Callable[[nn.Module, Tensor], Tensor] | None = None,
        facts: Mapping[str, Any] | None = None,
        unused: Collection[str] = (),
    ) -> None:
        self.name, self.preparation = name, preparation
        self.batch_size = BATCH_SIZE[torch.device(device).type]
        self._features = features or (lambda own, batch: own(batch))
        self._device = torch.device(device)
        self._dtype = torch.float16 if (self._device.type == "cuda" if half is None else half) else torch.float32
        self.precision = str(self._dtype).removeprefix("torch.")
        what = {"preparation": preparation.describe(), "module": str(module), **(facts or {})}
        self.fingerprint = fingerprint(what, lambda checksum: feed_weights(checksum, module, unused))
        self.module = module.eval().to(self._device, self._dtype)
        self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in its types

    def with_tensors(self, tensors: Mapping[str, Tensor], name: str) -> Self:
        """Take on other values of some weights, and another name."""
        self.fingerprint = replace_tensors(self.module, tensors, self.fingerprint, name)
        self.name = name
        return self

    def forward(self, batch: Sequence[npt.NDArray[np.uint8]]) -> Tensor:
        """Features as a tensor through which gradients flow."""
        pixels = torch.from_numpy(np.stack(batch)).to(self._device)
        mean, std = (
            torch.tensor(each, device=self._device) for each in (self.preparation.mean, self.preparation.std)
        )
        scaled = ((pixels / 255 - mean) / std).permute(0, 3, 1, 2)  # channels last, as are the weights: faster
        try:
            found = self._features(self.module, scaled.to(self._dtype))
        except (TypeError, ValueError) as error:
            raise InputError(f"{self.name} does not take these images: {error}") from error
        if found.ndim == 3:  # (n, tokens, width): the class token
            return found[:, 0]
        return found.flatten(2).mean(dim=2) if found.ndim == 4 else found

    def encode(self, batch: Sequence[npt.NDArray[np.uint8]]) -> FloatArray:
        with torch.inference_mode():
            return np.asarray(self.forward(batch).float().cpu().numpy(), dtype=np.float32)


def feed_weights(checksum: Any, module: nn.Module, unused: Collection[str] = ()) -> None:
    """Add a module's weights to a checksum."""
    for name, value in sorted(item for item in module.state_dict().items() if item[0] not in unused):
        checksum.update(name.encode() + _bytes(value))


def replace_tensors(module: nn.Module, tensors: Mapping[str, Tensor], old: str, name: str) -> str:
    """Give some of a module's weights other values; returns the new fingerprint, made of the old and those."""
    own = dict(module.named_parameters())
    if strange := [each for each in tensors if each not in own or own[each].shape != tensors[each].shape]:
        raise InputError(f"{name} does not fit its encoder: {strange[0]} is not there, or of another shape")

    def contents(checksum: Any) -> None:
        for each in sorted(tensors):
            checksum.update(each.encode() + _bytes(tensors[each]))

    with torch.no_grad():
        for each, value in tensors.items():
            own[each].copy_(value)
    return fingerprint({"base": old}, contents)


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
