"""Samples that come one by one: answered at once, and put into the run from time to time."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from newkinds.answering import Samples
from newkinds.data import FeatureSet
from newkinds.editing.sentences import update_sentence
from newkinds.editing.updating import update
from newkinds.labels import UNLABELLED
from newkinds.predictions import answers_table
from newkinds.runs import load
from newkinds.visible import visible


def watched(
    run: Path,
    samples: Iterator[Samples],
    every: int,
    minutes: float | None,
    say: Callable[[str], None],
    *,
    birth_size: int | None = None,
    keep: int | None = None,
) -> Iterator[pa.Table]:
    """The answers to samples as they come; the run is updated with them.

    Parameters
    ----------
    run : Path
    samples : iterator of Samples
    every : int
        Samples after which the run is updated.
    minutes : float, optional
        The same in minutes, looked at when a sample comes.
    say : callable
        Told in a sentence what an update changed.
    birth_size, keep
        As for `newkinds.editing.update`.
    """
    model = load(run)
    waiting: list[Samples] = []
    n_waiting, n_before, since = 0, 0, time.monotonic()

    def take_in() -> None:
        arrivals = _joined(waiting, n_before)
        done = update(run, arrivals, birth_size=birth_size, keep=keep, source="watch")
        say(visible(f"{update_sentence(done.changes, done.names.__getitem__)}."))

    for block in samples:
        yield answers_table(model, block.ids, block.features)
        waiting.append(block)
        n_waiting += len(block.features)
        is_late = minutes is not None and time.monotonic() - since > 60 * minutes
        if n_waiting >= every or is_late:
            take_in()
            model = load(run)
            n_before += n_waiting
            waiting, n_waiting, since = [], 0, time.monotonic()
    if waiting:
        take_in()


def _joined(blocks: list[Samples], n_before: int) -> FeatureSet:
    """Samples as a collection. Those without an id, which are called by their number, get one from the update."""
    ids = [str(name) for block in blocks for name in block.ids]
    numbers = [str(n_before + row) for row in range(len(ids))]
    features = np.concatenate([np.asarray(block.features, dtype=np.float32) for block in blocks])
    texts = [column for block in blocks if "text" in block.others.column_names for column in block.others["text"]]
    return FeatureSet(
        features,
        np.full(len(features), UNLABELLED),
        ids=None if ids == numbers else tuple(ids),
        texts=tuple(text.as_py() or "" for text in texts) if len(texts) == len(features) else None,
    )
