"""Encoders of images: Hugging Face models and ONNX files.

Neither torchvision nor timm is needed: `ImagePreparation` does the preprocessing that a model asks for.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from newkinds.encoders.encoder import FloatArray, fingerprint, reason
from newkinds.encoders.hub import load_from_hub
from newkinds.encoders.model_folders import check_model_folder
from newkinds.encoders.modules import BATCH_SIZE, ModuleEncoder
from newkinds.encoders.onnx import feed_onnx, open_onnx, run_onnx
from newkinds.encoders.preparation import CONFIG_FILE, Changes, ImagePreparation
from newkinds.errors import InputError
from newkinds.names import Kind

ONNX_TYPES: dict[str, npt.DTypeLike] = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
"""What an ONNX file may take images as."""
Pooling = Literal["auto", "cls", "mean"]


def huggingface_encoder(
    name: str,
    *,
    device: str = "cpu",
    half: bool | None = None,
    pooling: Pooling = "auto",
    changes: Changes | None = None,
) -> ModuleEncoder:
    """A vision model of Hugging Face by name or local folder.

    Parameters
    ----------
    name : str
        `facebook/dino-vitb16` is the paper's.
    pooling : {"auto", "cls", "mean"}
        Which part of a transformer's last layer is the feature: the class token, as in the paper, or the mean of
        the patches. "auto" is the class token if there is one, but for models of images and texts (CLIP, SigLIP)
        their image embedding.
    changes : mapping, optional
        Of the model's own preparation, see `ImagePreparation.changed`.
    """
    if Path(name).is_dir():
        check_model_folder(Path(name))
    try:
        from transformers import AutoModel
        from transformers.utils.hub import cached_file
    except ImportError as error:
        raise InputError(f'{name} needs transformers: pip install "newkinds[images]"') from error

    def load(offline: bool) -> tuple[Any, Any, Any]:
        config_file = cached_file(name, CONFIG_FILE, local_files_only=offline)
        with quiet_transformers():
            model, loaded = AutoModel.from_pretrained(
                name, output_loading_info=True, trust_remote_code=False, local_files_only=offline
            )
        return config_file, model, loaded

    try:
        config_file, model, loaded = load_from_hub(name, CONFIG_FILE, load)
    except InputError:
        raise
    except Exception as error:  # of the hub, of safetensors, of configurations: they share no base
        raise InputError(
            f"the encoder {name!r} cannot be loaded: {reason(error)} Give the name of a model on "
            f"huggingface.co (which must be reachable once), a folder with config.json, {CONFIG_FILE} and weights, "
            "or an .onnx file"
        ) from error
    missing = {str(key) for key in loaded["missing_keys"]}
    needed = sorted(key for key in missing if "pooler" not in key)
    if lacking := needed or sorted(map(str, loaded["mismatched_keys"])):
        raise InputError(f"the encoder {name!r} lacks weights of its own model: {lacking[0]} and perhaps others")
    preparation = ImagePreparation.beside(Path(str(config_file)).parent)
    assert preparation is not None
    return ModuleEncoder(
        model,
        preparation.changed(changes, name),
        name,
        device=device,
        half=half,
        features=lambda network, batch: pooled(network, batch, pooling),
        facts={"pooling": pooling, "config": _decisive(model.config.to_diff_dict())},
        unused=missing,
    )


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence the progress bars of transformers and its remarks on unused weights."""
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
    """The part of a model's configuration that decides the features, for the fingerprint.

    Only what differs from the defaults of its class: another version of transformers may add fields, and the
    encoder is still the same.
    """
    names = ("_name_or_path", "transformers_version", "torch_dtype", "dtype", "architectures")
    return {name: value for name, value in config.items() if name not in names}


def pooled(model: nn.Module, batch: Tensor, pooling: Pooling) -> Tensor:
    """The features that a Hugging Face model computes for images: (n, width)."""
    if pooling == "auto" and (embed := getattr(model, "get_image_features", None)) is not None:
        embedding = embed(pixel_values=batch)
        return embedding if isinstance(embedding, Tensor) else embedding.pooler_output
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


class OnnxImageEncoder:
    """An ONNX file from images (n, 3, height, width) to features.

    A `preprocessor_config.json` beside it says how to prepare images. Without one, the shorter side is resized to
    8/7 of the model's height (bicubic), followed by a centre crop and ImageNet's mean and deviation.
    """

    kind: Kind = "images"

    def __init__(self, path: Path, *, device: str = "cpu", changes: Changes | None = None) -> None:
        self._session = open_onnx(path, device)
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or not _takes_images(inputs[0]):
            shapes = ", ".join(f"{value.name} {value.shape} {value.type}" for value in inputs) or "nothing"
            raise InputError(f"{path} must take one float input of images (n, 3, height, width); it takes {shapes}")
        self._input, shape = inputs[0].name, inputs[0].shape
        self._dtype = np.dtype(ONNX_TYPES[inputs[0].type])
        preparation = ImagePreparation.beside(path) or _usual_preparation(shape)
        self.preparation = preparation.changed(changes, str(path))
        sides = zip(shape[2:], self.preparation.size, strict=True)
        if any(isinstance(side, int) and side != prepared for side, prepared in sides):
            raise InputError(
                f"{path} takes images of {shape[2:]}; they would be prepared to {self.preparation.size}"
            )
        self.name, self.precision = str(path), self._dtype.name
        self._pad = isinstance(shape[0], int)  # a fixed batch size
        self.batch_size = shape[0] if self._pad else BATCH_SIZE["cuda" if device == "cuda" else "cpu"]
        facts = {"preparation": self.preparation.describe()}
        self.fingerprint = fingerprint(facts, lambda checksum: feed_onnx(checksum, path))

    def encode(self, batch: Sequence[npt.NDArray[np.uint8]]) -> FloatArray:
        pixels = self.preparation.scaled(np.stack(batch)).astype(self._dtype, copy=False)
        if self._pad:
            pixels = np.pad(pixels, [(0, self.batch_size - len(batch)), (0, 0), (0, 0), (0, 0)])
        output = run_onnx(self._session, self.name, self.kind, {self._input: pixels})[: len(batch)]
        if output.ndim == 3:  # (n, tokens, width): the class token
            return output[:, 0]
        return output.mean(axis=(2, 3)) if output.ndim == 4 else output


def _takes_images(value: Any) -> bool:
    """Whether an input of an ONNX file is of floats (n, 3, height, width), as far as it says."""
    if value.type not in ONNX_TYPES or len(value.shape) != 4:
        return False
    fixed = [side for side in value.shape if isinstance(side, int)]
    return min(fixed, default=1) >= 1 and (not isinstance(value.shape[1], int) or value.shape[1] == 3)


def _usual_preparation(shape: Sequence[Any]) -> ImagePreparation:
    height, width = (side if isinstance(side, int) else 224 for side in shape[2:])
    return ImagePreparation(size=(height, width), resize=round(max(height, width) * 8 / 7))
