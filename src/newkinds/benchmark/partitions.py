"""Partitions by objectives and starts that differ, all trained in one batch: what ablations need."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.engine import TEMPERATURE, Run
from newkinds.labels import IntArray
from newkinds.methods.pim import PIM, own_generator
from newkinds.names import Init
from newkinds.objective import Objective
from newkinds.selection.problem import checked_features, make_problem


def partitions(
    X: Any,
    y: npt.ArrayLike,
    runs: Sequence[tuple[int, Init, Objective]],
    n_categories: int,
    *,
    temperature: float = TEMPERATURE,
    device: str = "auto",
) -> list[IntArray]:
    """The categories (columns, known ones first) that objectives find from given starts.

    Each is what `PIM(n_categories, lam=..., temperature=..., init=..., consensus=1, random_state=seed)` finds with
    that objective in place of its own.

    Parameters
    ----------
    X, y
        As for `PIM.fit`.
    runs : sequence of (seed, init, objective)
    n_categories : int
    temperature : float
    device : str
    """
    problem = make_problem(checked_features(X), y, device=device, random_state=0)
    starts: dict[tuple[int, Init], npt.NDArray[np.float32]] = {}
    for seed, init, _ in runs:
        if (seed, init) not in starts:
            seeded = replace(problem, rng=np.random.RandomState(seed))
            own_generator(seeded)  # PIM draws from it before the start, too
            starts[seed, init] = PIM(n_categories, init=init)._start(seeded, n_categories)
    prepared = [Run(starts[seed, init], objective, temperature) for seed, init, objective in runs]
    trained = PIM(n_categories)._training().train(problem, prepared, "partitioning")
    return [problem.samples.assign(partitioner) for partitioner in trained.partitioners]
