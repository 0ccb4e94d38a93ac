"""The views of a sample that are compared in fine-tuning."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.data.raw import Item
from newkinds.encoders.encoder import Encoder, Preparation
from newkinds.encoders.preparation import ImagePreparation
from newkinds.errors import InputError

VIEWS = 2
"""Which way of making views this is: a training that began with another does not go on with it."""


@dataclass(frozen=True)
class RandomView:
    """A view of an image: resized as for encoding, cropped at random, mirrored or not; uint8 (height, width, 3).

    Where an encoder wants images whole, they are made larger, so that a crop differs from the next.
    """

    preparation: ImagePreparation

    def __call__(self, sample: tuple[Item, int]) -> npt.NDArray[np.uint8]:
        item, seed = sample
        generator = np.random.default_rng(seed)
        image = self.preparation.with_room.resized(item)
        height, width = self.preparation.size
        top, left = (
            int(generator.integers(max(1, spare + 1))) for spare in (image.height - height, image.width - width)
        )
        pixels = np.asarray(image.crop((left, top, left + width, top + height)))
        return pixels[:, ::-1] if generator.random() < 0.5 else pixels


@dataclass(frozen=True)
class SameView:
    """A view of a text: the text itself, since the encoder's dropout makes the difference."""

    preparation: Preparation

    def __call__(self, sample: tuple[Item, int]) -> Any:
        return self.preparation(sample[0])


def image_preparation(encoder: Encoder) -> ImagePreparation:
    """How an encoder of images prepares them, or InputError if only itself knows."""
    if not isinstance(encoder.preparation, ImagePreparation):
        raise InputError(f"{encoder.name} prepares images in a way of its own: views cannot be made of them")
    return encoder.preparation
