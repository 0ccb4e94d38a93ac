"""What parameters may be, as data that scikit-learn checks: the one place that knows its private module."""

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils._param_validation import InvalidParameterError as InvalidParameterError

from newkinds.errors import InputError

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


class ParameterError(InputError, InvalidParameterError):  # type: ignore[misc]  # scikit-learn has no types
    """A parameter of an estimator that cannot be used; scikit-learn's own kind of error, and ours."""
