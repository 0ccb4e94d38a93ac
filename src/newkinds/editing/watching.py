"""Samples that come one by one: answered at once, and put into the run from time to time.

What was answered is in the run folder before its answer goes out (`newkinds.editing.waiting`), so that nothing is
lost, whatever happens.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from newkinds.answering import Samples
from newkinds.editing.edited_run import EditedRun
from newkinds.editing.sentences import counted, taken_sentences
from newkinds.editing.updating import NO_LIMITS, Limits, check_can_be_updated, take_waiting
from newkinds.editing.waiting import Waiting
from newkinds.predictions import answers_table
from newkinds.runs import load
from newkinds.visible import visible


class Watch:
    """A run that answers samples and grows with them.

    Parameters
    ----------
    run : Path
    waiting : Waiting
        The samples of the run that wait, held until the watch ends. What is there already is taken in at once.
    every : int
        Samples after which the run is updated.
    minutes : float, optional
        It is updated as well once a sample has waited for so long.
    say : callable
        Told in a sentence what an update changed.
    limits : Limits
        As for `newkinds.editing.update`.
    """

    def __init__(
        self,
        run: Path,
        waiting: Waiting,
        every: int,
        minutes: float | None,
        say: Callable[[str], None],
        limits: Limits = NO_LIMITS,
    ) -> None:
        self._run, self._waiting, self._say = EditedRun(run), waiting, say
        self._every, self._seconds = every, None if minutes is None else 60 * minutes
        self._limits = limits
        self._due: float | None = None
        """When the samples that wait have waited long enough."""
        check_can_be_updated(self._run)
        if waiting.n_samples:
            say(f"{counted(waiting.n_samples)} waited since the last time; they are taken in first.")
        self.take_in()
        self.model = load(run)

    def answers(self, samples: Iterator[Samples]) -> Iterator[pa.Table]:
        """The answers to samples as they come; at their end the run is updated with the rest."""
        for block in samples:
            table = answers_table(self.model, block.ids, block.features)
            given = block.given or [True] * len(block.features)
            ids = [str(name) if is_given else None for name, is_given in zip(block.ids, given, strict=True)]
            texts = block.others["text"].to_pylist() if "text" in block.others.column_names else None
            self._waiting.append(ids, block.features, texts)
            yield table
            if self._due is None and self._seconds is not None:
                self._due = time.monotonic() + self._seconds
            if self._waiting.n_samples >= self._every:
                self.take_in()
            self.patience()
        self.take_in()

    def patience(self) -> float | None:
        """Update the run if samples have waited long enough; then, how many seconds until the next ones have."""
        if self._due is not None and time.monotonic() >= self._due:
            self.take_in()
        return None if self._due is None else self._due - time.monotonic()

    def take_in(self) -> None:
        """Update the run with the samples that wait."""
        self._due = None
        taken = take_waiting(self._run, self._limits, self._waiting)
        if taken is None:
            return
        for sentence in taken_sentences(taken):
            self._say(visible(sentence))
        self.model = load(self._run.folder)
