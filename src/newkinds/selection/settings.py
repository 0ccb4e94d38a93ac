"""What is chosen of one training, and the candidates."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from newkinds.names import MetricName


@dataclass(frozen=True)
class Setting:
    """Of one training."""

    lam: float
    temperature: float
    metric: MetricName = "cosine"


FIRST_SETTINGS = (
    Setting(1.0, 10.0),
    Setting(0.3, 15.0),
    Setting(0.1, 25.0),
    Setting(0.03, 40.0),
    Setting(0.01, 60.0),
    Setting(0.01, 100.0),
)
"""Candidates for the training by the cosine, along the ridge."""
LAMS = tuple(dict.fromkeys(setting.lam for setting in FIRST_SETTINGS))
TEMPERATURES = tuple(setting.temperature for setting in FIRST_SETTINGS)
REFINEMENTS = ((0.1, 40.0), (0.3, 25.0), (1.0, 15.0), (1.0, 10.0), (0.03, 60.0))
"""Candidates, lam and temperature, for the training in a metric; the first is the usual one. It needs no proof:
rehearsals favour large lams a little, with which hidden categories are found mixed with really new ones."""


def candidates(
    lams: Sequence[float] | None = None, temperatures: Sequence[float] | None = None, step: int = 1
) -> list[Setting]:
    """Candidates for the training by the cosine: our own, or all pairs with the lams or temperatures given.

    Of our own, every one, every second, … as `step` says.
    """
    if lams is None and temperatures is None:
        return list(FIRST_SETTINGS[::step])
    pairs = itertools.product(temperatures or TEMPERATURES, lams or LAMS)
    return [Setting(lam, temperature) for temperature, lam in pairs]


def refinements(
    metric: MetricName,
    lams: Sequence[float] | None = None,
    temperatures: Sequence[float] | None = None,
    step: int = 1,
) -> list[Setting]:
    """The same for the training in a metric."""
    pairs = [(lam, t) for lam_, t_ in REFINEMENTS[::step] for lam in lams or (lam_,) for t in temperatures or (t_,)]
    return [Setting(lam, temperature, metric) for lam, temperature in dict.fromkeys(pairs)]


def nearest(settings: Sequence[Setting], wanted: Setting) -> int:
    """Which of some settings is most like another."""

    def distance(setting: Setting) -> float:
        lam = np.log(max(setting.lam, min(LAMS) / 10) / wanted.lam)
        return float(abs(lam) + abs(np.log(setting.temperature / wanted.temperature)))

    return int(np.argmin([distance(setting) for setting in settings]))
