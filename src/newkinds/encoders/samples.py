"""Samples in memory, as people pass them in Python, as a collection of texts or images."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from newkinds.data.files import writable_name
from newkinds.data.opening import pixels
from newkinds.data.raw import Item, RawCollection
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED
from newkinds.names import IMAGE_ENDINGS, Kind
from newkinds.raw_samples import is_picture, kind_of_samples


def as_collection(samples: Any, kind: Kind | None = None) -> RawCollection:
    """Samples in memory as a collection, all unlabelled.

    Parameters
    ----------
    samples : sequence
        Texts; or images: paths, contents of files, pictures of Pillow, arrays of pixels (uint8, of shape (height,
        width, 3)).
    kind : {"images", "texts"}, optional
        By default what the samples are. A str is a text, unless all of them end like the files of images.

    Examples
    --------
    >>> as_collection(["card lost", "refund?"])
    RawCollection(2 texts, 0 labelled, 0 skipped)
    """
    if isinstance(samples, str | os.PathLike) or is_picture(samples):
        raise InputError("give a list of samples, not a single one: [sample]")
    present = kind_of_samples(samples)
    if present is None:
        raise InputError(
            "these samples cannot be encoded: give a list of texts, or of images (paths, pictures of Pillow, "
            "arrays of pixels in uint8)"
        )
    if present == "images" and kind == "texts":
        raise InputError("these are images, where texts are wanted")
    if getattr(samples, "ndim", 1) == 3:
        raise InputError(
            f"an array of shape {samples.shape} may be one photo or many: give a list of photos, or an array of "
            "shape (photos, height, width, 3)"
        )
    items = list(samples)
    if present == "texts" and kind is None and all(map(_is_called_image, items)):
        kind = "images"  # that a file is missing should be said, and its path not taken for a text
    kind = kind or present
    make_item = _text if kind == "texts" else _image
    made = [make_item(sample, row) for row, sample in enumerate(items)]
    ids = (writable_name(str(item)) if isinstance(item, Path) else str(row) for row, item in enumerate(made))
    return RawCollection(kind, made, tuple(ids), np.full(len(made), UNLABELLED))


def _is_called_image(sample: Any) -> bool:
    return isinstance(sample, str) and sample.lower().endswith(IMAGE_ENDINGS)


def _text(sample: Any, row: int) -> str:
    if not isinstance(sample, str):
        raise InputError(f"sample {row} is not a text: {sample!r}")
    return str(sample)


def _image(sample: Any, row: int) -> Item:
    if isinstance(sample, str | os.PathLike):
        path = Path(os.fsdecode(sample))
        try:
            if path.is_file():
                return path
        except (OSError, ValueError):  # too long a name, a NUL
            pass
        shown = repr(str(path) if len(str(path)) < 100 else f"{str(path)[:100]}…")
        raise InputError(f"images are wanted, and sample {row} is not the path of a file: {shown}")
    if isinstance(sample, bytes):
        return bytes(sample)
    if isinstance(sample, np.ndarray):
        if sample.dtype != np.uint8:
            raise InputError(f"the pixels of sample {row} must be uint8, from 0 to 255; got {sample.dtype}")
        return sample
    if is_picture(sample):
        try:
            return pixels(sample)
        except (OSError, ValueError, SyntaxError) as error:  # Pillow reads the file only now
            raise InputError(f"sample {row} cannot be read: {error}") from error
    raise InputError(f"sample {row} is not an image: {type(sample).__name__}")
