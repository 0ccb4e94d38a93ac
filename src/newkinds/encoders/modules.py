"""Any PyTorch module as an encoder of images."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from newkinds.encoders.encoder import FloatArray, encoding_errors, fingerprint
from newkinds.encoders.preparation import ImagePreparation
from newkinds.errors import InputError
from newkinds.names import Kind

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
        From the module and a batch to features; by default the module itself. For an output (n, tokens, width) the
        first token is taken; one of (n, features, height, width) is averaged over the image.
    facts : mapping, optional
        What else decides the features, for the fingerprint: that covers the module's structure and weights, but not
        `features`.
    unused : collection of str
        Weights that play no part in the features; the fingerprint does not cover them.

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
        self._features = features or (lambda network, batch: network(batch))
        self._device = torch.device(device)
        self._dtype = torch.float16 if (self._device.type == "cuda" if half is None else half) else torch.float32
        self.precision = str(self._dtype).removeprefix("torch.")
        all_facts = {"preparation": preparation.describe(), "module": str(module), **(facts or {})}
        self.fingerprint = fingerprint(all_facts, lambda checksum: feed_weights(checksum, module, unused))
        self.module = module.eval().to(self._device, self._dtype)
        self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in its types

    def with_tensors(self, tensors: Mapping[str, Tensor], name: str) -> Self:
        """Replace the values of some weights, and the name."""
        self.fingerprint = replace_tensors(self.module, tensors, self.fingerprint, name)
        self.name = name
        return self

    def with_preparation(self, preparation: ImagePreparation) -> Self:
        """Prepare images in another way."""
        if preparation != self.preparation:
            self.fingerprint = fingerprint({"base": self.fingerprint, "preparation": preparation.describe()})
            self.preparation = preparation
        return self

    def forward(self, batch: Sequence[npt.NDArray[np.uint8]]) -> Tensor:
        """Features as a tensor through which gradients flow."""
        pixels = torch.from_numpy(np.stack(batch)).to(self._device)
        mean, std = (
            torch.tensor(values, device=self._device) for values in (self.preparation.mean, self.preparation.std)
        )
        scaled = ((pixels / 255 - mean) / std).permute(0, 3, 1, 2)  # channels last, as are the weights: faster
        with encoding_errors(self.name, self.kind):
            output = self._features(self.module, scaled.to(self._dtype))
        if not isinstance(output, Tensor):
            raise InputError(f"{self.name} must give a tensor of features; it gives a {type(output).__name__}")
        if output.ndim == 3:  # (n, tokens, width): the class token
            return output[:, 0]
        return output.flatten(2).mean(dim=2) if output.ndim == 4 else output

    def encode(self, batch: Sequence[npt.NDArray[np.uint8]]) -> FloatArray:
        with torch.inference_mode():
            return np.asarray(self.forward(batch).float().cpu().numpy(), dtype=np.float32)


def feed_weights(checksum: Any, module: nn.Module, unused: Collection[str] = ()) -> None:
    """Add a module's weights to a checksum."""
    for name, value in sorted(item for item in module.state_dict().items() if item[0] not in unused):
        checksum.update(name.encode() + _bytes(value))


def replace_tensors(module: nn.Module, tensors: Mapping[str, Tensor], old: str, name: str) -> str:
    """Replace some of a module's weights; returns the new fingerprint, made from the old one and these tensors."""
    parameters = dict(module.named_parameters())
    if strange := [
        key for key, value in tensors.items() if key not in parameters or parameters[key].shape != value.shape
    ]:
        raise InputError(f"{name} does not fit its encoder: {strange[0]} is not there, or of another shape")

    def contents(checksum: Any) -> None:
        for key in sorted(tensors):
            checksum.update(key.encode() + _bytes(tensors[key]))

    with torch.no_grad():
        for key, value in tensors.items():
            parameters[key].copy_(value)
    return fingerprint({"base": old}, contents)


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
