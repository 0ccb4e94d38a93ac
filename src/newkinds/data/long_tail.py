"""A long-tailed version of a collection: every class is still there, a few are large and many are small.

The profile is the usual one of long-tailed benchmarks (Cui et al., Class-Balanced Loss, CVPR 2019): along the ranks
the sizes of the classes fall exponentially, and the imbalance is the largest size over the smallest.
"""

import operator
from collections.abc import Sequence
from dataclasses import replace
from math import floor, isfinite
from typing import SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from newkinds.data.feature_set import FeatureSet
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray
from newkinds.wording import option

Picture = npt.NDArray[np.uint8]


def long_tailed(collection: FeatureSet, imbalance: float, *, seed: int = 0) -> FeatureSet:
    """Leave out samples until the sizes of the true classes fall exponentially.

    With K classes, the one of rank r = 0, …, K - 1 keeps n · imbalance^(-r / (K - 1)) samples, rounded, and at
    least one. If all classes are about equally large, n is the size of the largest; else see `exponential_profile`.
    Ranks are drawn: every order of the classes in which each has enough samples for its rank is equally likely, so
    known and novel classes are spread over head and tail alike. Samples are drawn within each class, labelled and
    unlabelled ones apart, so that the labelled share of a class stays as it was. Every known class keeps a label
    and, if it keeps two samples or more, an unlabelled one too if it had any.

    Parameters
    ----------
    collection : FeatureSet
        The truth of every sample must be there. From a memory map, only the samples that are kept are read.
    imbalance : float
        Size of the largest class over that of the smallest, as nearly as whole samples allow. 1 makes all classes
        equally large. Where the largest has fewer samples than this, the smallest ends at one.
    seed : int
        Seed of the ranks and of the samples. If all classes were equally large, the same seed and a greater
        imbalance keep a part of what a smaller one keeps.

    Returns
    -------
    FeatureSet
        The samples that were kept, in their order, with everything that belongs to them; those without an id are
        called by the row they had. Classes keep their numbers and names. The last of `notes` says what was made.

    Examples
    --------
    >>> from newkinds.data import digits
    >>> tailed = long_tailed(digits(), imbalance=50)
    >>> tailed
    FeatureSet(513 samples × 64, 160 labelled, 5 known categories)
    >>> np.bincount(tailed.truth)
    array([  4,   9, 118, 183,   6,  50,  32,  21,  77,  13])
    """
    if not isfinite(imbalance) or imbalance < 1:
        raise InputError(
            f"imbalance must be a number of at least 1, the largest class over the smallest; got {imbalance}"
        )
    if seed < 0:
        raise InputError(f"seed must be a whole number of at least 0; got {seed}")
    _, classes, sizes = np.unique(_whole_truth(collection), return_inverse=True, return_counts=True)
    if len(sizes) == 1:
        raise InputError(f"a long tail needs two classes or more; all {len(collection)} samples are of one")
    ranks, samples = np.random.default_rng(seed).spawn(2)
    kept = _with_ranks(sizes, exponential_profile(sizes, imbalance), ranks)
    is_labelled = collection.labels != UNLABELLED
    labelled = _labelled_part(kept, sizes, np.bincount(classes[is_labelled], minlength=len(sizes)))
    quotas = np.stack([kept - labelled, labelled], axis=1).reshape(-1)
    rows = _draw(2 * classes + is_labelled, quotas, samples)
    note = (
        f"made long-tailed (imbalance {imbalance:g}, seed {seed}): {len(collection):,} → {len(rows):,} samples; "
        f"the largest class has {kept.max():,}, the smallest {kept.min():,}"
    )
    return _only(collection, rows, note)


def exponential_profile(sizes: IntArray, imbalance: float) -> IntArray:
    """How many samples the classes keep, largest first: the largest profile for which all of them have enough.

    With unequal classes, the profile of the largest one's size may ask others for more than they have. Taking what
    there is would bend the profile and miss the imbalance. So all of it is lowered until the second largest class
    suffices for rank 1, the third for rank 2, and so on.

    Parameters
    ----------
    sizes : ndarray of int64, shape (classes,)
        How many samples each class has, in any order.
    imbalance : float

    Examples
    --------
    >>> exponential_profile(np.array([100, 100, 100]), imbalance=25)
    array([100,  20,   4])
    >>> exponential_profile(np.array([3, 400, 30]), imbalance=25)  # 3 · 25 = 75 suits the smallest
    array([75, 15,  3])
    >>> exponential_profile(np.array([8, 8, 8]), imbalance=100)
    array([8, 1, 1])
    """
    falling = np.sort(sizes)[::-1]
    decay = imbalance ** -np.linspace(0, 1, len(sizes))
    # A rank may ask for half a sample more, which is rounded away; not the last one, which sets the imbalance.
    most = falling + np.where(np.arange(len(sizes)) < len(sizes) - 1, 0.5, 0)
    with np.errstate(over="ignore"):  # a rank that asks for next to nothing sets no limit
        fitting = float((most / decay).min())
    largest = floor(round(fitting, 6))  # 2.9999999 means 3: it comes of powers
    return np.clip(np.rint(largest * decay).astype(np.int64), 1, falling)


def _whole_truth(collection: FeatureSet) -> IntArray:
    truth = collection.truth
    missing = len(collection) if truth is None else int((truth == UNLABELLED).sum())
    if truth is None or missing:
        raise InputError(
            "a long tail is made of true classes, and every sample must have one; "
            f"{missing} of {len(collection)} have none: give them as the truth{option('', ' (--truth)')}"
        )
    return truth


def _with_ranks(sizes: IntArray, profile: IntArray, generator: np.random.Generator) -> IntArray:
    """Give each class a place in the profile that it can fill; every such order is equally likely.

    From the head down, each rank is drawn from the classes that have enough samples and no rank yet. A class with
    enough for one rank has enough for all later ones, so every draw leaves equally many ways to go on.
    """
    kept = np.zeros_like(sizes)
    waiting = np.argsort(sizes, kind="stable").tolist()  # the largest last
    eligible: list[int] = []
    for size in profile:
        while waiting and sizes[waiting[-1]] >= size:
            eligible.append(waiting.pop())
        kept[eligible.pop(int(generator.integers(len(eligible))))] = size
    return kept


def _labelled_part(kept: IntArray, sizes: IntArray, n_labelled: IntArray) -> IntArray:
    """How many labelled samples each class keeps: the same share as before, as nearly as possible."""
    n_unlabelled = sizes - n_labelled
    least = np.maximum(kept - n_unlabelled, n_labelled > 0)
    most = np.minimum(n_labelled, kept - ((n_unlabelled > 0) & (kept > 1)))
    return np.clip(np.rint(kept * n_labelled / sizes).astype(np.int64), least, most)


def _draw(groups: IntArray, quotas: IntArray, generator: np.random.Generator) -> IntArray:
    """The rows, ascending, of a random choice: as many samples of each group as its quota says."""
    shuffled = generator.permutation(len(groups))
    in_groups = shuffled[np.argsort(groups[shuffled], kind="stable")]  # one after the other, each in random order
    sizes = np.bincount(groups, minlength=len(quotas))
    place = np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(in_groups[place < np.repeat(quotas, sizes)])


def _only(collection: FeatureSet, rows: IntArray, note: str) -> FeatureSet:
    """The samples in some rows, with all that belongs to them, and a note on how they were chosen."""
    ids, texts, images, places = collection.ids, collection.texts, collection.images, rows.tolist()
    pictures = (
        None if images is None else images[rows] if isinstance(images, np.ndarray) else _Chosen(images, places)
    )
    features = collection.features[rows]
    return replace(
        collection,
        features=features,
        _finite=features,  # rows of an array that is
        labels=collection.labels[rows],
        truth=None if collection.truth is None else collection.truth[rows],
        ids=tuple(str(place) if ids is None else ids[place] for place in places),
        texts=None if texts is None else tuple(texts[place] for place in places),
        images=pictures,
        notes=(*collection.notes, note),
    )


class _Chosen(Sequence[Picture]):
    """Some pictures of a sequence that makes them when asked; this one does too."""

    def __init__(self, pictures: Sequence[Picture], places: list[int]) -> None:
        self._pictures, self._places = pictures, places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, at: SupportsIndex) -> Picture: ...
    @overload
    def __getitem__(self, at: slice) -> list[Picture]: ...
    def __getitem__(self, at: SupportsIndex | slice) -> Picture | list[Picture]:
        if isinstance(at, slice):
            return [self._pictures[place] for place in self._places[at]]
        return self._pictures[self._places[operator.index(at)]]
