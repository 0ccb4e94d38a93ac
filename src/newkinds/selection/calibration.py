"""How sure is a model really? What rehearsals teach about its probabilities.

A partitioner is trained to be confident, so its probabilities are not to be taken at their word. In rehearsals the
truth of what was hidden is known: they tell how much sharper or softer the probabilities of categories should be,
and what the probability of the new categories together means.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize
from scipy.special import expit, log_softmax, logit, logsumexp

from newkinds.labels import IntArray
from newkinds.metrics import match_categories
from newkinds.selection.rehearsal import FloatArray, Trial

CALIBRATED = 1 << 14
"""Hidden samples of one rehearsal that are looked at."""
CALIBRATED_ELEMENTS = 1 << 24
"""Their probabilities, 64 MiB: of more than 1,024 categories fewer samples are looked at."""
SHARPEST, SOFTEST = 4.0, 0.02
LEAST_FACTOR = 1e-3
"""Of a sharpness that follows another one."""
LEAST_SHARE = 0.01
"""Odds are taken of shares no nearer to 0 or 1 than this."""
EXTREME = 1e-9
"""The same of probabilities."""


@dataclass(frozen=True)
class Calibration:
    """How a model's probabilities become what they should mean; by default they are taken as they are.

    Attributes
    ----------
    sharpness : float
        Factor of the logits.
    slope, intercept : float
        The log-odds of being new are `slope` times those the probabilities give, plus `intercept`.
    share_new : float
        Share of new samples that this holds for; NaN where nothing was learnt of novelty.
    """

    sharpness: float = 1.0
    slope: float = 1.0
    intercept: float = 0.0
    share_new: float = 0.5

    def at_share(self, share_new: float) -> "Calibration":
        """The same where another share of the samples is new."""
        if self == Calibration() or np.isnan(self.share_new):
            return self
        before, now = (np.clip(share, LEAST_SHARE, 1 - LEAST_SHARE) for share in (self.share_new, share_new))
        return replace(self, intercept=float(self.intercept + logit(now) - logit(before)), share_new=share_new)

    def novelty(self, raw: FloatArray) -> FloatArray:
        """Probability of being new, from the sum of the new categories' probabilities."""
        if (self.slope, self.intercept) == (1.0, 0.0):
            return raw
        return np.asarray(expit(self.slope * logit(np.clip(raw, EXTREME, 1 - EXTREME)) + self.intercept))


@dataclass(frozen=True)
class Experience:
    """What partitioners, trained one in each rehearsal, said of the samples hidden from them.

    Attributes
    ----------
    log_p : tuple of ndarray of shape (samples, categories)
        Log-probabilities of hidden samples, of each rehearsal.
    n_kept : tuple of int
        Columns of categories that kept labels, which come first.
    is_right, is_new : ndarray of shape (samples of all rehearsals,)
        Which samples were put right, and which belong to a category that lost all labels.
    """

    log_p: tuple[npt.NDArray[np.float32], ...]
    n_kept: tuple[int, ...]
    is_right: npt.NDArray[np.bool_]
    is_new: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, trials: Sequence[Trial]) -> "Experience":
        logs, is_right, is_new = [], [], []
        for trial in trials:
            rehearsal, partitioner = trial.rehearsal, trial.partitioner
            hidden = np.flatnonzero(rehearsal.hidden)
            most = max(1, min(CALIBRATED, CALIBRATED_ELEMENTS // len(partitioner.weights)))
            places = _spread(np.arange(len(hidden)), most)
            truth = rehearsal.truth[places]
            log_p = partitioner.log_probabilities(trial.problem.samples.take(hidden[places]).cpu().numpy())
            predicted = log_p.argmax(1)
            is_right.append(predicted == _own_columns(truth, predicted, rehearsal.n_kept))
            logs.append(log_p.astype(np.float32))
            is_new.append(truth >= rehearsal.n_kept)
        n_kept = tuple(trial.rehearsal.n_kept for trial in trials)
        return cls(tuple(logs), n_kept, np.concatenate(is_right), np.concatenate(is_new))

    def calibration(self, share_new: float | None = None) -> Calibration:
        """What it teaches about a model that takes this share of the samples for new; by default, as many as were.

        Samples of hidden categories are put right less often than others, so their share counts.
        """
        seen = float(self.is_new.mean())
        if seen in (0.0, 1.0):
            return Calibration(self._sharpness(np.ones(len(self.is_new))), share_new=float("nan"))
        share = float(np.clip(seen if share_new is None else share_new, LEAST_SHARE, 1 - LEAST_SHARE))
        sharpness = self._sharpness(np.where(self.is_new, share / seen, (1 - share) / (1 - seen)))
        pairs = zip(self.log_p, self.n_kept, strict=True)
        odds = np.concatenate([_log_odds_of_new(log_p, n_kept, sharpness) for log_p, n_kept in pairs])
        learnt = Calibration(sharpness, *_fit_odds(odds, self.is_new), share_new=seen)
        return learnt if share_new is None else learnt.at_share(share_new)

    def _sharpness(self, weights: FloatArray) -> float:
        """The factor of the logits under which samples are put right as often as the largest probabilities say.

        Samples of a category that was not found at all count: they are put wrong, with some confidence.
        """

        def excess(log_factor: float) -> float:
            highest = [log_softmax(np.exp(log_factor) * log_p, axis=1).max(axis=1) for log_p in self.log_p]
            return float(np.average(np.exp(np.concatenate(highest)) - self.is_right, weights=weights))

        least, most = np.log(SOFTEST), np.log(SHARPEST)
        if excess(least) >= 0:
            return SOFTEST
        return SHARPEST if excess(most) <= 0 else float(np.exp(brentq(excess, least, most, xtol=0.005)))


def matching_sharpness(log_p: npt.NDArray[np.floating[Any]], confidence: float) -> float:
    """The factor of the logits under which the largest probabilities of samples have this mean.

    Examples
    --------
    >>> log_p = np.log([[0.6, 0.4], [0.6, 0.4]])
    >>> round(matching_sharpness(log_p, 0.6), 2), matching_sharpness(log_p, 0.8) > 3
    (1.0, True)
    """

    def excess(log_factor: float) -> float:
        return float(np.exp(log_softmax(np.exp(log_factor) * log_p, axis=1).max(axis=1)).mean()) - confidence

    least, most = np.log(LEAST_FACTOR), np.log(1 / LEAST_FACTOR)
    if excess(least) >= 0:
        return LEAST_FACTOR
    return 1 / LEAST_FACTOR if excess(most) <= 0 else float(np.exp(brentq(excess, least, most, xtol=0.005)))


def _own_columns(truth: IntArray, predicted: IntArray, n_kept: int) -> IntArray:
    """The column of each sample's category: a kept one's is its own, a hidden one's the best match; -1 if none."""
    free = (truth >= n_kept) & (predicted >= n_kept)
    column_of = {category: column for column, category in match_categories(truth[free], predicted[free]).items()}
    column_of |= {category: category for category in range(n_kept)}
    return np.array([column_of.get(int(category), -1) for category in truth])


def _log_odds_of_new(log_p: npt.NDArray[np.floating[Any]], n_kept: int, sharpness: float) -> FloatArray:
    sharpened = sharpness * log_p.astype(np.float64)
    odds = logsumexp(sharpened[:, n_kept:], axis=1) - logsumexp(sharpened[:, :n_kept], axis=1)
    return np.asarray(np.clip(odds, logit(EXTREME), logit(1 - EXTREME)))


def _fit_odds(odds: FloatArray, is_new: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """Logistic regression on one variable: slope (not negative) and intercept."""
    signs = np.where(is_new, 1.0, -1.0)

    def loss(parameters: FloatArray) -> float:
        margin = signs * (parameters[0] * odds + parameters[1])
        return float(np.logaddexp(0, -margin).mean()) + 1e-4 * float((parameters**2).sum())

    fitted = minimize(loss, np.array([1.0, 0.0]), bounds=[(0.01, None), (None, None)]).x
    return float(fitted[0]), float(fitted[1])


def _spread(indices: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """All of them, or so many at even distances."""
    if len(indices) <= most:
        return indices
    return indices[np.linspace(0, len(indices) - 1, most).astype(np.int64)]
