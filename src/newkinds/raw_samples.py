"""What people pass as samples: texts, photos, or features already."""

import os
from typing import Any

from newkinds.errors import InputError
from newkinds.labels import is_missing
from newkinds.names import Kind


def kind_of_samples(samples: Any) -> Kind | None:
    """Whether samples in memory are texts or images; None if they are features, or something else.

    The first sample that is not missing decides: a str is a text; a path, the content of a file (bytes), a picture
    of Pillow, or an array of pixels (uint8, of two or three dimensions) is an image. So is an array of uint8 that
    has three or four dimensions.

    Examples
    --------
    >>> kind_of_samples(["card lost", "refund?"]), kind_of_samples([[0.5, 1.0]])
    ('texts', None)
    """
    if isinstance(samples, str | os.PathLike):
        return _kind_of_sample(samples)
    n_axes = getattr(samples, "ndim", 1)
    if n_axes != 1:
        return "images" if n_axes in (3, 4) and _holds_bytes(samples) else None
    if not hasattr(samples, "__len__") or isinstance(samples, dict):
        return None
    for sample in samples:
        kind = _kind_of_sample(sample)
        if kind is not None or hasattr(sample, "__len__") or not is_missing(sample):
            return kind
    return None


def is_picture(sample: Any) -> bool:
    """Whether a sample is an image of Pillow, which need not be installed."""
    return type(sample).__module__.startswith("PIL.")


def refuse_odd(samples: Any) -> None:
    """Refuse what people pass and scikit-learn would only refuse for its dimensions, with what to do instead."""
    if is_picture(samples):
        raise InputError("give a list of pictures, not a single one: [picture]")
    if isinstance(samples, list | tuple) and not samples:
        raise InputError("there are no samples")
    n_axes = getattr(samples, "ndim", 1)
    if isinstance(samples, list | tuple):
        n_axes += max(1, getattr(samples[0], "ndim", 1))
    is_bytes = _holds_bytes(samples) or (isinstance(samples, list | tuple) and _holds_bytes(samples[0]))
    if n_axes in (3, 4) and not is_bytes:
        raise InputError(
            f"arrays of {n_axes - 1} dimensions for each sample are neither features nor pixels: pixels must be "
            "uint8, from 0 to 255; features are one row of numbers for each sample"
        )


def _kind_of_sample(sample: Any) -> Kind | None:
    if isinstance(sample, str):
        return "texts"
    is_pixels = getattr(sample, "ndim", 0) in (2, 3) and _holds_bytes(sample)
    return "images" if isinstance(sample, bytes | os.PathLike) or is_picture(sample) or is_pixels else None


def _holds_bytes(array: Any) -> bool:
    return str(getattr(array, "dtype", "")) == "uint8"
