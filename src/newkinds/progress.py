"""One measure of progress for work of many parts: the arithmetic done, of that which is expected.

Whoever begins the work says what its parts are and how much each is expected to take (`planned`, `begin_part`).
Whoever computes says what was done (`report_work`), in multiplications and additions, about. The expectation of a
part that has ended is replaced by what it took, and if that was more or less, the others are expected to take more
or less too. So the share that is done tells the time that is left: elapsed · (1 − share) / share.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from newkinds.runtime import Listener, current_listener, listening

STEPS = 1000
"""Of one measure."""
OVERDUE = 0.05
"""What a part still takes, relative to what it took, once that is more than was expected."""

Parts = Mapping[str, float]
"""What is expected of each part, in their order; their names are words for the user."""

_measure: ContextVar["Measure | None"] = ContextVar("newkinds_measure", default=None)


class Measure:
    """How much of the work is done.

    Examples
    --------
    >>> measure = Measure("fitting", {"counting": 30.0, "training": 10.0}, print)
    >>> measure.begin("counting")
    fitting: counting 0 1000
    >>> measure.add(10.0)  # a quarter of all
    fitting: counting 250 1000
    >>> measure.begin("training")  # counting took a third of what was expected, so this may take less as well
    fitting: training 633 1000
    """

    def __init__(self, title: str, parts: Parts, listener: Listener) -> None:
        self._title, self._listener = title, listener
        self._expected = dict(parts)
        self._part, self._done_before, self._done = "", 0.0, 0.0
        self._step = 0

    def begin(self, part: str) -> None:
        """The parts before this one have ended; one that is not in the plan only ends the one before it."""
        if part == self._part:
            return
        expected = self._expected.get(self._part)
        surprise = math.sqrt(self._done / expected) if expected and self._done else 1.0
        ended = [self._part]
        if part in self._expected:
            ended += itertools.takewhile(lambda name: name != part, self._expected)
        for earlier in ended:
            self._expected.pop(earlier, None)
        self._expected = {name: surprise * amount for name, amount in self._expected.items()}
        self._done_before, self._done, self._part = self._done_before + self._done, 0.0, part
        self._tell(always=True)

    def add(self, amount: float) -> None:
        self._done += amount
        self._tell()

    def end(self) -> None:
        self._step = STEPS
        self._listener(f"{self._title}: {self._part}", STEPS, STEPS)

    def _tell(self, always: bool = False) -> None:
        done = self._done_before + self._done
        left = max(self._expected.get(self._part, 0.0) - self._done, OVERDUE * self._done)
        left += sum(expected for part, expected in self._expected.items() if part != self._part)
        step = max(self._step, int(STEPS * done / (done + left))) if done else 0  # never back
        if always or step > self._step:
            self._step = min(step, STEPS - 1)
            self._listener(f"{self._title}: {self._part}", self._step, STEPS)


@contextmanager
def planned(title: str, plan: Callable[[], Parts]) -> Iterator[None]:
    """Inside the block there is one measure of progress; what stages within it report is not passed on.

    Where nobody listens nothing is planned, nor within a block that is planned already. Without any parts, stages
    report by themselves.
    """
    listener = current_listener()
    parts = {} if listener is None or _measure.get() is not None else plan()
    if listener is None or not parts:
        yield
        return
    measure = Measure(title, parts, listener)
    token = _measure.set(measure)
    try:
        with listening(lambda *_: None):
            yield
        measure.end()
    finally:
        _measure.reset(token)


def begin_part(part: str) -> None:
    """What is done from now on is this part of the plan, if there is one."""
    if (measure := _measure.get()) is not None:
        measure.begin(part)


def report_work(amount: float) -> None:
    """So much was computed."""
    if (measure := _measure.get()) is not None:
        measure.add(amount)


def evaluation_work(n_samples: int, n_categories: int, width: int) -> float:
    """Of one evaluation of an objective and its gradient: two products, and what is done with each logit.

    The latter takes about as long as 600 features do (benchmarks/scaling.py).
    """
    return float(n_samples) * n_categories * (2 * width + 600)


def comparison_work(n_samples: int, n_centroids: int, width: int) -> float:
    """Of comparing all samples with some centroids, in k-means and when seeds are drawn."""
    return float(n_samples) * n_centroids * (width + 50)
