"""SimGCD's start: prototypes of an earlier fit."""

from typing import Any

import numpy as np
import pytest

from newkinds import InputError, SimGCD, accuracy
from tests.blobs import blobs


def clusters(n: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Four clusters of n samples in 12 dimensions; half of the first two is labelled."""
    X, truth = blobs(4, n, width=12, noise=0.06)
    y = np.where((truth < 2) & (np.arange(4 * n) % 2 == 0), truth, -1)
    return X, y, truth


def test_simgcd_goes_on_from_given_prototypes_in_their_order() -> None:
    """What it learnt stays where it was, also beside a category that is added and may start anywhere."""
    X, y, truth = clusters()
    seen = truth < 3
    first = SimGCD(3, noise=0.2, random_state=0).fit(X[seen], y[seen])
    start = np.vstack([first.prototypes_, np.zeros((1, X.shape[1]))])
    again = SimGCD(init=start, noise=0.2, max_iter=20, random_state=0).fit(X, y)
    assert again.n_categories_ == 4
    assert ((first.prototypes_ * again.prototypes_[:3]).sum(1) > 0.7).all()
    assert accuracy(truth[y < 0], again.labels_[y < 0], [0, 1]).all > 0.95
    columns = (X @ again.prototypes_.T).argmax(1)
    assert (columns == truth).mean() > 0.95
    assert not np.array_equal(again.weights_, SimGCD(4, noise=0.2, max_iter=20, random_state=0).fit(X, y).weights_)


@pytest.mark.parametrize(
    ("init", "message"),
    [
        (np.ones((3, 12)), r"a row for each category .* \(4, 12\); got shape \(3, 12\)"),
        (np.full((4, 12), np.nan), "init as an array must be finite"),
        ("sskm", "'init' parameter"),
    ],
)
def test_simgcd_refuses_prototypes_that_do_not_fit(init: Any, message: str) -> None:
    X, y, _ = clusters(5)
    with pytest.raises(InputError, match=message):
        SimGCD(4, init=init, max_iter=2).fit(X, y)
