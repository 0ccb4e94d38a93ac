"""Which samples a run keeps where it keeps a bounded number of each category; the others become sums.

Of each category the samples that a person confirmed come first, then labelled ones, then the others. Among those of
equal rank the ones stay whose ids have the smallest hash: a number that has nothing to do with when a sample came
or what it looks like. So what is kept of a category is a uniform sample of all that ever came, in whatever parts
they came, and each of its samples stands for as many as went for each that stayed.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from newkinds.labels import IntArray
from newkinds.standing import SampleState

HELD_ROOM = 10
"""Times `keep`: so many held samples are kept in all."""


def kept_rows(samples: SampleState, ids: Sequence[str], keep: int) -> IntArray:
    """The rows that stay, ascending.

    Parameters
    ----------
    samples : SampleState
    ids : sequence of str
        Of the samples.
    keep : int
        Samples of a category at most. Of held samples, which stand for none yet, the last `HELD_ROOM` times as many
        stay: those of a category that is about to be born came lately.
    """
    stays = np.ones(len(samples.categories), dtype=bool)
    stays[np.flatnonzero(samples.held)[: -HELD_ROOM * keep]] = False
    rank = np.where(samples.confirmed, 0, np.where(samples.given, 1, 2))
    for category in np.unique(samples.categories).tolist():
        members = np.flatnonzero((samples.categories == category) & ~samples.held)
        if len(members) > keep:
            order = np.lexsort((hashes([ids[row] for row in members.tolist()]), rank[members]))
            stays[members[order[keep:]]] = False
    return np.flatnonzero(stays)


def hashes(ids: Sequence[str]) -> npt.NDArray[np.uint64]:
    """A number for each id, the same on every machine."""
    digests = (hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest() for name in ids)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)
