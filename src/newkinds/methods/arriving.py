"""What arrives at a model that takes samples in, and what becomes of it."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from newkinds.labels import IntArray
from newkinds.methods.base import CategoryDiscoverer

Mask = npt.NDArray[np.bool_]
RECENT = 0.2
"""Share of the samples, the last ones, that are recent. What arrives at once always is."""
BATCH = 0.1
"""Share of all samples from which those that came one after another are a whole batch, which is taken in for good.

In smaller ones kinds come in pieces; in larger ones many kinds are told in a metric that knows none of them."""


def is_whole(n_batch: int, n_all: int) -> bool:
    """Whether so many samples, of all that there are then, are a whole batch."""
    return n_batch >= BATCH * n_all


@dataclass(frozen=True)
class Window:
    """What came last, and is looked at again together with what comes next.

    Whether a kind comes in one arrival or in ten should make no difference. So arrivals are taken in together until
    they are a whole batch, each time from the model before it. And a category that was born of few samples is
    provisional: more of them may show that it is a part of something else, or two kinds.

    Attributes
    ----------
    n_recent : int
        Samples that came last.
    born : frozenset of int
        Ids of categories that were born lately.
    """

    n_recent: int = 0
    born: frozenset[int] = frozenset()

    def with_arrival(self, n_before: int, n_new: int) -> "Window":
        """With samples that come now."""
        most = max(n_new, int(RECENT * (n_before + n_new)))
        return replace(self, n_recent=min(self.n_recent + n_new, most))


@dataclass(frozen=True)
class Lately:
    """A collection as it was after the last arrival of a batch that goes on.

    Attributes
    ----------
    model : CategoryDiscoverer
    categories : ndarray of shape (samples,)
        Ids, of all samples but those that come now.
    held : ndarray of shape (samples,)
    """

    model: CategoryDiscoverer
    categories: IntArray
    held: Mask


@dataclass(frozen=True)
class Arrival:
    """Samples of a collection, the new ones last: all of a batch.

    Attributes
    ----------
    features : ndarray of shape (samples, features)
    categories : ndarray of shape (samples,)
        Ids; of new samples only where they are settled, otherwise -1.
    settled : ndarray of shape (samples,)
        Which have a label or a person's word, and so never change.
    held : ndarray of shape (samples,)
        Which were held back before.
    n_before : int
        Samples that were there before.
    window : Window
        With the new samples.
    named : frozenset of int
        Ids of categories that a person has named: they are there for good.
    lately : Lately, optional
        If samples of the batch came before.
    is_whole : bool
        Whether the batch ends with it. (That a bound of samples ends it is known only afterwards.)
    """

    features: npt.NDArray[np.float32]
    categories: IntArray
    settled: Mask
    held: Mask
    n_before: int
    window: Window
    named: frozenset[int] = frozenset()
    lately: Lately | None = None
    is_whole: bool = True

    def of(self, category: int) -> Mask:
        """The samples that a category had before the batch, without held ones."""
        return np.asarray((self.categories == category) & ~self.held)

    def of_lately(self, category: int) -> Mask:
        """The same of lately."""
        mine = np.zeros(len(self.features), dtype=bool)
        if self.lately is not None:
            mine[: len(self.lately.categories)] = (self.lately.categories == category) & ~self.lately.held
        return mine


@dataclass(frozen=True)
class TakenIn:
    """What became of an arrival.

    Attributes
    ----------
    model : CategoryDiscoverer
    categories : ndarray of shape (samples,)
        Of held samples, the most probable one.
    held : ndarray of shape (samples,)
    strangeness : ndarray of shape (samples,)
        0 for samples that were not asked about: they are decided, or in a category that was born.
    born : tuple of int
        Ids of categories that strangers or labels made, and that were not there lately.
    taken_back : tuple of int
        Ids of categories that were there lately and are no more.
    window : Window
    """

    model: CategoryDiscoverer
    categories: IntArray
    held: Mask
    strangeness: npt.NDArray[np.float64]
    born: tuple[int, ...]
    taken_back: tuple[int, ...]
    window: Window
