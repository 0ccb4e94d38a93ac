"""What every method says of samples that belong to none of its categories."""

from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from newkinds.engine import Partitioner, normalised
from newkinds.errors import InputError
from newkinds.labels import IntArray
from newkinds.runtime import n_processes
from newkinds.selection.problem import Problem
from newkinds.selection.strangeness import (
    REHEARSED,
    Company,
    Portrait,
    Retrain,
    even_blocks,
    with_neighbours,
)
from newkinds.selection.strangers import Strangers, learn_strangers
from newkinds.workers import working_together

if TYPE_CHECKING:
    from newkinds.engine import LinearMap
    from newkinds.selection.calibration import Calibration

FOR_EACH_CATEGORY = 30
"""Samples that an excerpt has at least for each category."""
AT_LEAST = 10
"""Samples of every category that an excerpt has, where it has so many."""

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Excerpt:
    """Samples of the fit from which is learnt how strangers look, once that is asked for.

    Attributes
    ----------
    unit : ndarray of shape (samples, features)
        Of unit length.
    columns : ndarray of shape (samples,)
        Places of their categories in `categories_`.
    labelled : ndarray of shape (samples,)
        Which had a label.
    """

    unit: npt.NDArray[np.float32]
    columns: IntArray
    labelled: npt.NDArray[np.bool_]


class Looks(NamedTuple):
    """How much more probable it is that samples are strangers, as logarithms.

    Attributes
    ----------
    alone : ndarray of shape (samples,)
        From the signs of each.
    beside : ndarray of shape (samples,)
        The same in which its neighbours count.
    """

    alone: FloatArray
    beside: FloatArray


class Wary:
    """Base of the methods: who is a stranger.

    Attributes
    ----------
    strangers_ : Strangers or None
        How strangers are told; learnt when it is first asked for. None before, and where there are too few
        categories to rehearse with.
    """

    weights_: npt.NDArray[np.floating[Any]]
    categories_: IntArray
    metric_map_: "LinearMap | None"
    calibration_: "Calibration"
    strangers_: Strangers | None
    _excerpt: Excerpt | None

    def strangeness(self, X: Any, share: float | None = None) -> FloatArray:
        """Probability that a sample belongs to none of the model's categories, known or new.

        (`novelty` is something else: the probability of belonging to one of them that had no label.)

        How many strangers there are is estimated from the samples that are asked about together, and the most
        alike of these count for each other. If `share` says it, each sample is told by itself. Of a model with too
        few categories to rehearse with, and of one saved by an earlier version, it is always 1 less the confidence.

        Parameters
        ----------
        X : array-like of shape (samples, features)
        share : float, optional
            Which part of such samples are strangers.
        """
        if share is not None and not 0 < share < 1:
            raise InputError(f"share is a part of the samples, between 0 and 1; got {share}")
        features = self._check_features(X, reset=False)  # type: ignore[attr-defined]  # of the contract
        looks = self.looks_of(features)
        if looks is None:
            confidence: FloatArray = self.assess(features).confidence  # type: ignore[attr-defined]  # likewise
            return 1 - confidence
        if share is None:
            return self.company_of(looks.beside).probability(looks.beside)
        return Company(share).probability(looks.alone)

    def looks_of(self, features: npt.NDArray[Any]) -> Looks | None:
        """How strange samples that are asked about together look; None if nothing was learnt."""
        strangers = self.learnt_strangers()
        if strangers is None:
            return None
        alone, beside = np.empty(len(features)), np.empty(len(features))
        for rows in even_blocks(len(features)):
            unit, mapped = self._unit_and_mapped(np.asarray(features[rows]))
            if not strangers.portrait.fits(unit, mapped):
                raise InputError("the saved model's description of its categories does not fit its features")
            alone[rows] = strangers.rule.apply(strangers.portrait.signs(self._sharpened(), unit, mapped))
            beside[rows] = with_neighbours(alone[rows], strangers.portrait.directions(mapped))
        return Looks(alone, beside)

    def company_of(self, beside: FloatArray) -> Company:
        """What samples are on the whole that look so, their neighbours counting."""
        strangers = self.learnt_strangers()
        assert strangers is not None  # or there would be no looks
        return strangers.frequencies.company(beside)

    def learnt_strangers(self) -> Strangers | None:
        """`strangers_`, learnt now if it was not before; not under torchrun, where one process alone may ask."""
        excerpt = getattr(self, "_excerpt", None)
        if getattr(self, "strangers_", None) is None and excerpt is not None and n_processes() == 1:
            mapped = self._unit_and_mapped(excerpt.unit)[1]
            with working_together(excerpt.unit.size):
                self.strangers_ = learn_strangers(
                    self._sharpened(),
                    excerpt.unit,
                    mapped,
                    excerpt.columns,
                    excerpt.labelled,
                    self._retraining(excerpt),
                    np.random.default_rng(0),
                )
            self._excerpt = None
        return getattr(self, "strangers_", None)

    def with_samples(
        self,
        features: npt.NDArray[Any],
        categories: IntArray,
        labelled: npt.NDArray[np.bool_],
        portrayed: npt.NDArray[np.bool_] | None = None,
        *,
        anew: bool = False,
    ) -> Self:
        """The same model, to which the categories look as these samples of them do.

        Parameters
        ----------
        features : ndarray of shape (samples, features)
        categories : ndarray of shape (samples,)
            Their ids.
        labelled : ndarray of shape (samples,)
            Which have a label.
        portrayed : ndarray of shape (samples,), optional
            Which of them count; by default all.
        anew : bool
            Whether to rehearse again how strangers are told, when that is next asked for.
        """
        model = copy(self)
        rows = np.arange(len(features)) if portrayed is None else np.flatnonzero(portrayed)
        rows = self._excerpt_rows(rows, categories)
        columns = np.searchsorted(self.categories_, categories[rows])
        unit, mapped = self._unit_and_mapped(np.asarray(features[rows], dtype=np.float32))
        learnt = None if anew else self.learnt_strangers()
        if learnt is None:
            model._excerpt, model.strangers_ = Excerpt(np.asarray(unit, np.float32), columns, labelled[rows]), None
        else:
            model.strangers_ = replace(learnt, portrait=Portrait.of(self._sharpened(), unit, mapped, columns))
        return model

    def _excerpt_rows(self, rows: IntArray, categories: IntArray) -> IntArray:
        """Some of these rows by chance, but of every category a few; `categories` are those of all samples."""
        most = max(REHEARSED, FOR_EACH_CATEGORY * len(self.categories_))
        if len(rows) <= most:
            return rows
        rows = np.random.default_rng(0).permutation(rows)
        order = np.argsort(categories[rows], kind="stable")
        sorted_categories = categories[rows][order]
        rank = np.empty(len(rows), dtype=np.int64)
        rank[order] = np.arange(len(rows)) - np.searchsorted(sorted_categories, sorted_categories)
        first = np.argsort(rank >= AT_LEAST, kind="stable")
        return np.sort(rows[first[:most]])

    def _remember(self, problem: Problem, columns: IntArray) -> None:
        """Keep some samples of the fit; `columns` are the places of all in `categories_`."""
        rows = self._excerpt_rows(np.arange(len(columns)), columns)
        unit = problem.samples.take(rows).cpu().numpy()
        self._excerpt = Excerpt(np.asarray(unit, dtype=np.float32), columns[rows], problem.labelled[rows])
        self.strangers_ = None

    def _retraining(self, excerpt: Excerpt) -> Retrain:
        """How the model is trained without some of its categories.

        Here they are only left out; methods that are trained do better.
        """
        mapped = self._unit_and_mapped(excerpt.unit)[1]

        def retrain(
            rows: IntArray, places: IntArray, n: int
        ) -> tuple[Partitioner, npt.NDArray[np.floating[Any]], IntArray]:
            weights = np.asarray(self.weights_)[np.unique(excerpt.columns[rows])]
            return replace(self._sharpened(), weights=weights), mapped, places

        return retrain

    def _sharpened(self) -> Partitioner:
        """The partitioner with calibrated probabilities, of the categories that it was fitted with."""
        partitioner: Partitioner = self.partitioner_  # type: ignore[attr-defined]  # of the contract
        return replace(partitioner, temperature=partitioner.temperature * self.calibration_.sharpness)

    def _unit_and_mapped(
        self, features: npt.NDArray[Any]
    ) -> tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.floating[Any]]]:
        return normalised(features), self._unit(features)  # type: ignore[attr-defined]  # of the contract
