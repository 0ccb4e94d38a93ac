"""Made-up collections of many clear kinds, for whatever needs some to be taken out or to come later."""

import numpy as np
import numpy.typing as npt

Features = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


def blobs(
    kinds: int, size: int, *, width: int = 24, noise: float = 0.16, seed: int = 0, first: int = 0
) -> tuple[Features, Labels]:
    """Samples around directions that are the same for every `seed`; kinds are `first`, `first` + 1, …"""
    middles = np.random.default_rng(7).normal(size=(first + kinds, width))
    middles /= np.linalg.norm(middles, axis=1, keepdims=True)
    truth = np.repeat(np.arange(first, first + kinds), size)
    samples = middles[truth] + noise * np.random.default_rng(seed).normal(size=(len(truth), width))
    return (samples / np.linalg.norm(samples, axis=1, keepdims=True)).astype(np.float32), truth
