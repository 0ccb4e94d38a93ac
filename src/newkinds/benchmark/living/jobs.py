"""What the benchmark computes: one row on one stream, which the first model's fit is part of."""

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from newkinds.benchmark.jobs import Job, Result
from newkinds.benchmark.living.rows import ROWS, First, Row
from newkinds.benchmark.living.scores import score_states
from newkinds.benchmark.living.stream import STAGES, Stream, draw_stream
from newkinds.benchmark.subjects import Subject
from newkinds.errors import InputError
from newkinds.methods.pim import PIM
from newkinds.names import Mix

KEPT_FITS = 8
"""First models that a process keeps, since every row begins with one."""


@dataclass(frozen=True)
class Live(Job):
    """A row takes in everything that comes.

    Attributes
    ----------
    row : type of Row
    mix : {"even", "mostly-old"}
    parts : int
        In how many parts the samples of a stage come.
    """

    row: type[Row]
    mix: Mix = "even"
    parts: int = 1

    @property
    def needs(self) -> tuple[Job, ...]:
        return () if self.row.needs is None else (Live(self.subject, ROWS[self.row.needs], self.mix, self.parts),)

    @property
    def label(self) -> str:
        in_parts = f" in {self.parts} parts" if self.parts > 1 else ""
        return f"{self.subject.name}, {self.mix}: {self.row.key}{in_parts}"

    @property
    def cost(self) -> float:
        return self.row.cost

    def settings(self, needed: Sequence[Result]) -> dict[str, Any]:
        parts = self.parts if self.row.in_parts else 1
        return {"row": self.row.key, "mix": self.mix, "parts": parts, "counts": _counts(needed)}

    def compute(self, seeds: Sequence[int], needed: Sequence[Sequence[Result]], device: str) -> list[Result]:
        return [self._live(seed, results, device) for seed, results in zip(seeds, needed, strict=True)]

    def _live(self, seed: int, needed: Sequence[Result], device: str) -> Result:
        stream = draw_stream(self.subject, seed, self.mix)
        first = functools.partial(_first_model, self.subject, seed, device)
        began = time.perf_counter()
        row = self.row(stream, first, device, _counts(needed))
        states = row.run(self.parts)
        seconds = time.perf_counter() - began
        stages = [[s.seconds for s in states if s.stage == stage] for stage in range(1, STAGES + 1)]
        return {
            **score_states(stream, states),
            **row.facts,
            "seconds_of_updates": stages,
            "seconds_at_first": None if self.row.needs else first().seconds,
            "seconds": seconds,
        }


def _counts(needed: Sequence[Result]) -> list[int]:
    """How many categories there were after each stage in the row that this one needs."""
    return [stage["n_categories"] for result in needed for stage in result["stages"]]


@functools.lru_cache(maxsize=KEPT_FITS)
def _first_model(subject: Subject, seed: int, device: str) -> First:
    """PIM as it comes, on the samples that are there at first, which are the same in every mix."""
    stream: Stream = draw_stream(subject, seed)
    rows = stream.first_rows
    began = time.perf_counter()
    model = PIM(random_state=0, device=device).fit(stream.features[rows], stream.labels[rows])
    seconds = time.perf_counter() - began
    model.learnt_strangers()
    return First(model, seconds)


def rows_named(keys: Sequence[str] | None) -> list[type[Row]]:
    """The rows with these keys, by default all, in the order of the table."""
    keys = list(ROWS) if keys is None else keys
    if unknown := [key for key in keys if key not in ROWS]:
        raise InputError(
            f"there is no row {', '.join(map(repr, unknown))} of living collections; choose from {', '.join(ROWS)}"
        )
    return [row for key, row in ROWS.items() if key in keys]
