"""What a benchmark is asked for, what a report is, and what reports share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from newkinds.benchmark.jobs import Counter, Job, Method
from newkinds.benchmark.living.rows import Row
from newkinds.benchmark.runner import Results
from newkinds.benchmark.subjects import Subject
from newkinds.benchmark.tables import Table, Value
from newkinds.names import BenchmarkName, Mix


@dataclass(frozen=True)
class Plan:
    """What a report is made of.

    Attributes
    ----------
    subjects : sequence of Subject
    tails : sequence of Subject
        Long-tailed versions of the balanced ones, for the figure of lambda.
    methods : sequence of Method
    counters : sequence of Counter
    rows : sequence of type of Row
        Of living collections.
    mixes : sequence of {"even", "mostly-old"}
        What comes later there.
    parts : int
        In how many parts the samples of a stage come.
    """

    subjects: Sequence[Subject]
    tails: Sequence[Subject]
    methods: Sequence[Method]
    counters: Sequence[Counter]
    rows: Sequence[type[Row]] = ()
    mixes: Sequence[Mix] = ()
    parts: int = 1

    @property
    def published(self) -> list[str]:
        """The data sets of the paper that feature sets are made of, each once."""
        return list(dict.fromkeys(subject.published for subject in self.subjects if subject.published is not None))


@dataclass(frozen=True)
class Report:
    """One of the benchmarks: the jobs that it needs, and what it writes."""

    name: BenchmarkName
    jobs: Callable[[Plan], list[Job]]
    write: Callable[[Plan, Results, Path], Table]
    methods: tuple[str, ...] = ()
    """It needs at least one of these, if any are named."""
    alone: bool = False
    """Only made where it is asked for by its name, with rows of its own."""


def value_of(values: Sequence[float], digits: int = 1) -> Value:
    """Mean, and the standard deviation of the sample if there are several."""
    return Value(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None, digits)


def group_of_paper(data: str) -> str:
    """What figures of a data set of the paper stand under."""
    return f"{data}, published"
