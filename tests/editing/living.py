"""Made-up samples of a collection that grows, and what may come to it."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from newkinds import FeatureSet
from newkinds.methods import updating
from tests.blobs import blobs

KINDS, KNOWN, SIZE = 10, 7, 24
X, TRUTH = blobs(KINDS, SIZE)
LABELS = [f"kind {c}" if c < KNOWN and row % 2 == 0 else None for row, c in enumerate(TRUTH)]


def arrivals(
    first: int, kinds: int, size: int = 12, seed: int = 1, ids: tuple[str, ...] | None = None
) -> FeatureSet:
    features, _ = blobs(kinds, size, seed=seed, first=first)
    return FeatureSet(features, np.full(len(features), -1), ids=ids)


@contextmanager
def nothing_agrees() -> Iterator[None]:
    """No strangers are alike enough to be a kind, not even those that were."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(updating, "find_groups", lambda *_: [])
        yield
