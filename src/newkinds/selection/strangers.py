"""What a model knows of samples that belong to none of its categories: how to tell them, and when they are one."""

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from newkinds.engine import Partitioner
from newkinds.errors import InputError
from newkinds.labels import IntArray
from newkinds.selection.births import CUTS, FIGURES, USUAL, BirthRule, learn_births
from newkinds.selection.strangeness import (
    RATIOS,
    SIGNS,
    Frequencies,
    Portrait,
    Retrain,
    Rule,
    learn_strangeness,
    rehearse_strangers,
)

RULE_ARRAY, BIRTHS_ARRAY, REHEARSED_ARRAY = "strange_rule", "strange_births", "strange_rehearsed"
FREQUENCIES_ARRAY, COUNTING_ARRAY = "strange_frequencies", "strange_counting"
PORTRAIT_ARRAYS = tuple(f"strange_{field.name}" for field in fields(Portrait))
RULE_SHAPE = (len(SIGNS) + 1,)
"""Weights and intercept."""
BIRTHS_SHAPE = (len(CUTS), len(FIGURES) + 1)
"""The same for groups at each cut."""


@dataclass(frozen=True)
class Strangers:
    """How strangers are told.

    Attributes
    ----------
    portrait : Portrait
        What the model's categories look like.
    rule : Rule
        How much more probable a sample's signs are of a stranger.
    frequencies : Frequencies
        What that says, counting neighbours.
    births : BirthRule
        When strangers are a category.
    n_rehearsed : int
        How many categories the model had when this was rehearsed.
    """

    portrait: Portrait
    rule: Rule
    frequencies: Frequencies
    births: BirthRule = USUAL
    n_rehearsed: int = 0

    def arrays(self) -> dict[str, npt.NDArray[np.floating]]:
        """As a saved model has it; `restored` takes them back."""
        rule, *births = (np.append(rule.weights, rule.intercept) for rule in (self.rule, *self.births.rules))
        portrait = {name: getattr(self.portrait, name.removeprefix("strange_")) for name in PORTRAIT_ARRAYS}
        return {
            RULE_ARRAY: rule,
            FREQUENCIES_ARRAY: np.stack([self.frequencies.ordinary, self.frequencies.strange]),
            COUNTING_ARRAY: np.array([self.frequencies.middle, self.frequencies.slope]),
            BIRTHS_ARRAY: np.stack(births),
            REHEARSED_ARRAY: np.array([self.n_rehearsed], dtype=np.float64),
            **portrait,
        }


def learn_strangers(
    partitioner: Partitioner,
    unit: npt.NDArray[np.floating],
    mapped: npt.NDArray[np.floating],
    columns: IntArray,
    labelled: npt.NDArray[np.bool_],
    retrain: Retrain,
    rng: np.random.Generator,
) -> Strangers | None:
    """By rehearsals on samples of a collection; None where there are too few categories.

    Parameters
    ----------
    partitioner : Partitioner
        The model's, calibrated.
    unit : ndarray of shape (samples, features)
        Of unit length.
    mapped : ndarray of shape (samples, directions)
        The same as the model's partitioner takes them.
    columns : ndarray of shape (samples,)
        Their categories.
    labelled : ndarray of shape (samples,)
        Whether a label says so.
    retrain : callable
        See `newkinds.selection.strangeness.Retrain`.
    rng : Generator
    """
    rehearsals = rehearse_strangers(unit, columns, labelled, retrain, rng)
    if not rehearsals:
        return None
    rule, frequencies = learn_strangeness(rehearsals)
    portrait = Portrait.of(partitioner, unit, mapped, columns)
    return Strangers(portrait, rule, frequencies, learn_births(rehearsals, rule), partitioner.n_categories)


def restored(arrays: dict[str, npt.NDArray[np.floating]]) -> Strangers | None:
    """What `Strangers.arrays` gave, checked; None where a saved model has none of it."""
    names = (RULE_ARRAY, FREQUENCIES_ARRAY, COUNTING_ARRAY, BIRTHS_ARRAY, REHEARSED_ARRAY, *PORTRAIT_ARRAYS)
    if any(name not in arrays for name in names):  # of an earlier version
        return None
    saved = {name: np.asarray(arrays[name]) for name in names}
    for name, array in saved.items():
        if not np.issubdtype(array.dtype, np.floating) or not np.isfinite(array).all():
            raise InputError(f"the saved {name} should be finite numbers")
    rule, frequencies, counting, births, rehearsed, *portrait = saved.values()
    facets, means, scaling, middle, background, usual = portrait
    square = (len(middle), len(middle)) if middle.ndim == 1 else None
    fits = (
        rule.shape == RULE_SHAPE
        and frequencies.shape == (2, len(RATIOS))
        and frequencies.min() > 0
        and counting.shape == (2,)
        and births.shape == BIRTHS_SHAPE
        and rehearsed.shape == (1,)
        and rehearsed[0] >= 0
        and facets.ndim == 2
        and len(facets) > 0
        and means.ndim == 2
        and len(means) > 0
        and means.shape[1:] == middle.shape
        and scaling.ndim == 2
        and scaling.shape[1:] == middle.shape
        and background.shape == square
        and usual.shape == (len(SIGNS),)
    )
    if not fits:
        raise InputError("the saved model's description of its categories does not fit together")
    strange, *of_births = (Rule(row[:-1], float(row[-1])) for row in (rule, *births))
    return Strangers(
        Portrait(*portrait),
        strange,
        Frequencies(*frequencies, *counting.tolist()),
        BirthRule(tuple(of_births)),
        int(rehearsed[0]),
    )
