"""The embedded example: scikit-learn's handwritten digits, as a partly labelled collection of small images."""

import numpy as np

from newkinds.data.feature_set import FeatureSet
from newkinds.labels import UNLABELLED

N_KNOWN = 5


def digits(random_state: int = 0) -> FeatureSet:
    """1,797 images of 8 × 8 pixels: half of the zeros to fours carry their label, nothing else does.

    The features are the pixels themselves; the truth of every sample is there for scoring.

    Examples
    --------
    >>> digits()
    FeatureSet(1797 samples × 64, 450 labelled, 5 known categories)
    """
    from sklearn.datasets import load_digits  # here: reading other collections need not wait for scikit-learn

    bunch = load_digits()
    truth = bunch.target.astype(np.int64)
    known = np.flatnonzero(truth < N_KNOWN)
    labelled = np.random.default_rng(random_state).permutation(known)[: len(known) // 2]
    labels = np.full(len(truth), UNLABELLED)
    labels[labelled] = truth[labelled]
    return FeatureSet(
        features=bunch.data.astype(np.float32),
        labels=labels,
        truth=truth,
        ids=tuple(f"digit-{i:04d}" for i in range(len(truth))),
        images=(bunch.images * (255 / 16)).astype(np.uint8),
    )
