"""How sure is a model really? What rehearsals teach about its probabilities.

A partitioner is trained to be confident, so its probabilities are not to be taken at their word. In rehearsals the
truth of what was hidden is known: they tell how much sharper or softer the probabilities of categories should be,
and what the probability of the new categories together means.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_softmax, logit, logsumexp

from newkinds.labels import IntArray
from newkinds.metrics import match_categories
from newkinds.selection.rehearsal import FloatArray, Trial

CALIBRATED = 1 << 14
"""Hidden samples of one rehearsal that are looked at."""
CALIBRATED_ELEMENTS = 1 << 26
"""Their probabilities, half a gigabyte: of more than 4,096 categories fewer samples are looked at."""
SHARPEST, SOFTEST = 4.0, 0.02
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


def calibrate(trials: Sequence[Trial]) -> Calibration:
    """Learn from what partitioners, trained one in each rehearsal, said of the samples hidden from them."""
    logs, is_right, is_new, n_kept = [], [], [], []
    for trial in trials:
        rehearsal, partitioner = trial.rehearsal, trial.partitioner
        hidden = np.flatnonzero(rehearsal.hidden)
        most = max(1, min(CALIBRATED, CALIBRATED_ELEMENTS // len(partitioner.weights)))
        places = _spread(np.arange(len(hidden)), most)
        truth = rehearsal.truth[places]
        log_p = partitioner.log_probabilities(trial.problem.samples.take(hidden[places]).cpu().numpy())
        predicted = log_p.argmax(1)
        is_right.append(predicted == _own_columns(truth, predicted, rehearsal.n_kept))
        logs.append(log_p)
        is_new.append(truth >= rehearsal.n_kept)
        n_kept.append(rehearsal.n_kept)
    sharpness = _fit_sharpness(logs, np.concatenate(is_right))
    odds = [_log_odds_of_new(log_p, kept, sharpness) for log_p, kept in zip(logs, n_kept, strict=True)]
    new = np.concatenate(is_new)
    if new.all() or not new.any():
        return Calibration(sharpness, share_new=float("nan"))
    return Calibration(sharpness, *_fit_odds(np.concatenate(odds), new), share_new=float(new.mean()))


def _own_columns(truth: IntArray, predicted: IntArray, n_kept: int) -> IntArray:
    """The column of each sample's category: a kept one's is its own, a hidden one's the best match; -1 if none."""
    free = (truth >= n_kept) & (predicted >= n_kept)
    column_of = {category: column for column, category in match_categories(truth[free], predicted[free]).items()}
    column_of |= {category: category for category in range(n_kept)}
    return np.array([column_of.get(int(category), -1) for category in truth])


def _fit_sharpness(logs: Sequence[FloatArray], is_right: npt.NDArray[np.bool_]) -> float:
    """The factor of the logits under which the largest probabilities say best which samples are put right.

    Samples of a category that was not found at all count: they are put wrong, with some confidence.
    """

    def loss(log_factor: float) -> float:
        highest = [log_softmax(np.exp(log_factor) * log_p, axis=1).max(axis=1) for log_p in logs]
        confidence = np.clip(np.exp(np.concatenate(highest)), EXTREME, 1 - EXTREME)
        return float(-np.log(np.where(is_right, confidence, 1 - confidence)).mean())

    bounds = (np.log(SOFTEST), np.log(SHARPEST))
    return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 0.01}).x))


def _log_odds_of_new(log_p: FloatArray, n_kept: int, sharpness: float) -> FloatArray:
    sharpened = sharpness * log_p
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
