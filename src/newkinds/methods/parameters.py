"""What parameters may be, as data that scikit-learn checks: the one place that knows its private module."""

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils._param_validation import InvalidParameterError as InvalidParameterError

from newkinds.errors import InputError
from newkinds.selection.problem import as_array

Constraints = dict[str, list[Any]]

POSITIVE_INTEGER = Interval(Integral, 1, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")


def integer_from(least: int) -> Any:
    """Whole numbers from `least` on."""
    return Interval(Integral, least, None, closed="left")


def one_of(names: Iterable[str]) -> Any:
    """A name out of some."""
    return StrOptions(set(names))


def checked_prototypes(init: Any, n_categories: int, width: int) -> npt.NDArray[np.float32]:
    """Prototypes that somebody gave to start from: (categories, features)."""
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


class ParameterError(InputError, InvalidParameterError):  # type: ignore[misc]  # scikit-learn has no types
    """A parameter of an estimator that cannot be used; scikit-learn's own kind of error, and ours."""
