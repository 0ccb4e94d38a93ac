"""What people pass as samples: texts, photos, or features already."""

import os
from typing import Any

from newkinds.names import Kind


def kind_of_samples(samples: Any) -> Kind | None:
    """Whether samples in memory are texts or images; None if they are features, or something else.

    The first sample decides: a str is a text; a path, the content of a file (bytes), a picture of Pillow, or an
    array of pixels (uint8, of two or three dimensions) is an image. So is an array of uint8 that has three or four
    dimensions.

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
        if sample is not None and not (isinstance(sample, float) and sample != sample):
            return _kind_of_sample(sample)
    return None


def is_picture(sample: Any) -> bool:
    """Whether a sample is an image of Pillow, which need not be installed."""
    return type(sample).__module__.startswith("PIL.")


def _kind_of_sample(sample: Any) -> Kind | None:
    if isinstance(sample, str):
        return "texts"
    is_pixels = getattr(sample, "ndim", 0) in (2, 3) and _holds_bytes(sample)
    return "images" if isinstance(sample, bytes | os.PathLike) or is_picture(sample) or is_pixels else None


def _holds_bytes(array: Any) -> bool:
    return str(getattr(array, "dtype", "")) == "uint8"
