"""From an image to the pixels that a model wants: resize, crop, scale. Worker processes do this, without PyTorch.

Checked against the image processors of Hugging Face transformers (Pillow backend) in the tests.
"""

import json
import math
import operator
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from newkinds.data.opening import MOST_PIXELS, open_image
from newkinds.data.raw import Item
from newkinds.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

CONFIG_FILE = "preprocessor_config.json"
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
WARPED = 384
"""From this size on, models with a `crop_pct` want the whole image, stretched, and no crop."""
BILINEAR, BICUBIC = 2, 3
"""Pillow's numbers, which `preprocessor_config.json` uses too."""
ROOM = 7 / 8
"""A random crop takes at most so much of an image's height and width; GCD's share."""
Changes = Mapping[str, Any]
"""Attributes of an `ImagePreparation` that replace those of an encoder's own."""


@dataclass(frozen=True)
class ImagePreparation:
    """How an encoder wants its images. Calling it with an image gives the pixels: uint8, (height, width, 3).

    Attributes
    ----------
    size : tuple of int
        Height and width of what the model sees.
    resize : int or tuple of int
        Before the crop the shorter side is resized to this length, or the image to this height and width.
    resample : int
        Pillow's number for the filter.
    mean, std : tuple of float
        For each channel of pixels between 0 and 1: `scaled` subtracts the mean and divides by the deviation.

    Examples
    --------
    >>> paper = ImagePreparation(size=(224, 224), resize=256)
    >>> paper(np.zeros((30, 50, 3), dtype=np.uint8)).shape
    (224, 224, 3)
    """

    size: tuple[int, int] = (224, 224)
    resize: int | tuple[int, int] = 256
    resample: int = BICUBIC
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD

    def __call__(self, item: Item) -> npt.NDArray[np.uint8]:
        return np.asarray(self._crop(self.resized(item)))

    def scaled(self, pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Pixels (images, height, width, 3) as a model takes them: (images, 3, height, width), standardised."""
        mean, std = (np.array(values)[:, None, None] for values in (self.mean, self.std))
        result = pixels.transpose(0, 3, 1, 2).astype(np.float32, order="C")
        result *= (1 / (255 * std)).astype(np.float32)
        result -= (mean / std).astype(np.float32)
        return result

    def resized(self, item: Item) -> "Image":
        """The image before the crop."""
        image = open_image(item, at_least=self.resize if isinstance(self.resize, int) else max(self.resize))
        if isinstance(self.resize, int):
            # The longer side is rounded down, as in every common implementation.
            shorter, longer = sorted(image.size)
            other = int(self.resize * longer / shorter)
            target = (self.resize, other) if image.width <= image.height else (other, self.resize)
        else:
            target = (self.resize[1], self.resize[0])
        if target[0] * target[1] > MOST_PIXELS:
            name = item if isinstance(item, Path) else "an image"
            raise InputError(f"{name} has {image.width} × {image.height} pixels, which is too long and thin")
        return image if image.size == target else image.resize(target, self.resample)

    def _crop(self, image: "Image") -> "Image":
        height, width = self.size
        left, top = (image.width - width) // 2, (image.height - height) // 2
        return image if image.size == (width, height) else image.crop((left, top, left + width, top + height))

    @property
    def with_room(self) -> "ImagePreparation":
        """The same with room for random crops, however little of an image is cut off otherwise."""
        height, width = (math.ceil(side / ROOM) for side in self.size)
        if isinstance(self.resize, int):
            return replace(self, resize=max(self.resize, height, width))
        return replace(self, resize=(max(self.resize[0], height), max(self.resize[1], width)))

    def describe(self) -> dict[str, Any]:
        """As plain values, for records and fingerprints."""
        return asdict(self)

    def changed(self, changes: Changes | None, where: str) -> "ImagePreparation":
        """With some attributes replaced, by values as `describe` gives them or a file of JSON has them."""
        if not changes:
            return self
        plain: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in changes.items()}
        try:
            preparation = replace(self, **plain)
            preparation._check(where)
        except (TypeError, ValueError, ArithmeticError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{where}: images cannot be prepared by {dict(changes)}: {error}") from error
        if preparation != self and any(map(operator.lt, preparation._resized, preparation.size)):
            raise InputError(
                f"{where}: images resized to {preparation.resize} are smaller than the crop of {preparation.size}; "
                "--resize and --crop set both"
            )
        return preparation

    @property
    def options(self) -> str:
        """What makes any encoder prepare images so, on the command line."""
        resize = "x".join(map(str, self.resize)) if isinstance(self.resize, tuple) else self.resize
        return f"--resize {resize} --crop {self.size[0]}"

    @property
    def _resized(self) -> tuple[int, int]:
        """Least height and width after resizing."""
        return self.resize if isinstance(self.resize, tuple) else (self.resize, self.resize)

    def _check(self, where: str) -> None:
        """Refuse what cannot be done, or would take all memory."""
        sides = (*self.size, *self._resized)
        if len(sides) != 4 or not all(type(side) is int for side in sides):
            raise InputError(f"{where}: sizes must be whole numbers; got {self.size} and {self.resize}")
        if min(sides) < 1 or max(math.prod(self.size), math.prod(self._resized)) > MOST_PIXELS:
            raise InputError(
                f"{where}: sizes must be positive, and images of at most {MOST_PIXELS} pixels; got {self.size} and "
                f"{self.resize}"
            )
        if self.resample not in range(6) or len(self.mean) != 3 or len(self.std) != 3:
            raise InputError(f"{where}: resample must be 0 to 5, mean and deviation of three channels")
        if not all(0 < value < math.inf for value in self.std) or not all(map(math.isfinite, self.mean)):
            raise InputError(
                f"{where}: the mean must be finite and the deviation positive; got {self.mean} and {self.std}"
            )

    @classmethod
    def from_config(cls, config: Mapping[str, Any], where: str = CONFIG_FILE) -> "ImagePreparation":
        """Read a `preprocessor_config.json`, the file that Hugging Face models carry."""
        try:
            return cls._from_config(config, where)
        except (TypeError, AttributeError, KeyError, ValueError, ArithmeticError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{where} cannot be understood: {type(error).__name__}: {error}") from error

    @classmethod
    def _from_config(cls, config: Mapping[str, Any], where: str) -> "ImagePreparation":
        crop = _size(config["crop_size"], where) if config.get("do_center_crop") and "crop_size" in config else None
        resize: int | tuple[int, int] | None = None
        if config.get("do_resize", True) and config.get("size") is not None:
            size = config["size"]
            crop_part = config.get("crop_pct")
            if isinstance(size, int):
                resize = size if crop or crop_part else (size, size)
            elif "shortest_edge" in size:
                resize = int(size["shortest_edge"])
            else:
                resize = _size(size, where)
            if crop_part and isinstance(resize, int) and not crop:
                crop = (resize, resize)
                resize = int(resize / crop_part) if resize < WARPED else crop
        size_seen = crop or (resize if isinstance(resize, tuple) else None)
        if size_seen is None or resize is None:
            raise InputError(f"{where} names no fixed size (size, crop_size); it has {', '.join(config)}")
        if not config.get("do_rescale", True) or config.get("rescale_factor", 1 / 255) != 1 / 255:
            raise InputError(f"{where}: images must be scaled by 1/255 (rescale_factor)")
        plain = not config.get("do_normalize", True)
        preparation = cls(
            size=size_seen,
            resize=resize,
            resample=BILINEAR if config.get("resample") is None else int(config["resample"]),
            mean=(0.0,) * 3 if plain else tuple(config.get("image_mean") or IMAGENET_MEAN),
            std=(1.0,) * 3 if plain else tuple(config.get("image_std") or IMAGENET_STD),
        )
        preparation._check(where)
        return preparation

    @classmethod
    def beside(cls, model: Path) -> "ImagePreparation | None":
        """What the `preprocessor_config.json` in a model's folder says, if there is one."""
        path = (model if model.is_dir() else model.parent) / CONFIG_FILE
        if not path.is_file():
            return None
        try:
            config = json.loads(path.read_text("utf-8"))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not JSON: {error}") from error
        if not isinstance(config, dict):
            raise InputError(f"{path} must hold a JSON object; it holds a {type(config).__name__}")
        return cls.from_config(config, str(path))


_DINO = {"size": (224, 224), "resize": 256, "resample": BICUBIC}
PUBLISHED: Mapping[str, Changes] = {
    **{f"facebook/dino-{size}": _DINO for size in ("vits16", "vits8", "vitb16", "vitb8")},
    **{f"facebook/vit-mae-{size}": _DINO for size in ("base", "large", "huge")},
}
"""How encoders were evaluated by their authors, and DINO's by GCD, where the configuration that Hugging Face keeps
differs: it stretches images to the size that the model sees."""


def _size(value: Any, where: str) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    if "height" in value and "width" in value:
        return int(value["height"]), int(value["width"])
    if "shortest_edge" in value:
        return int(value["shortest_edge"]), int(value["shortest_edge"])
    raise InputError(f"{where}: a size must be a number, or have height and width; got {value!r}")
