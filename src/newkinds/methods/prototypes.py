"""Prototypes that somebody gives a method to start from."""

from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.errors import InputError
from newkinds.selection.problem import as_array


def checked_prototypes(init: Any, n_categories: int, width: int) -> npt.NDArray[np.float32]:
    """As an array of shape (categories, features); refused if it is of another shape, or not finite."""
    prototypes = np.array(as_array(init), dtype=np.float32, order="C")
    expected = (n_categories, width)
    if prototypes.shape != expected:
        raise InputError(
            f"init as an array must have a row for each category and a column for each feature, "
            f"{expected}; got shape {prototypes.shape}"
        )
    if not np.isfinite(prototypes).all():
        raise InputError("init as an array must be finite; it holds NaN or infinity")
    return prototypes
