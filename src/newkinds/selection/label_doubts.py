"""Which labels look wrong? Every labelled sample is judged by a classifier that has not seen its label.

The classifier is a linear discriminant: the means of the categories that were found, known and new, and the
covariance within the known ones, which is mixed with that of a sphere, the more the fewer labels there are. The
labelled samples are judged in folds, each by the means and the covariance of the others. Unlabelled samples are
members of the category that they were assigned to. They make the means of the new categories, so that a labelled
sample of a new kind is noticed too, and count a little in those of the known ones.

Its scores become probabilities by a model of how labels come about. With probability `1 - share` a label is the
sample's category; otherwise it is another known one, any of them or, more often, one that is like it. How sharp the
scores are and how large the share is, the labels themselves tell: both are chosen so that the labels are most
probable (and the sharpness is not far from what the margins between categories suggest). Where the classifier errs
often, probabilities become soft and the share small, and hardly any label is doubted. So hard samples, which look a
bit like another category, are told from wrong labels, which look nothing like their own.

A new category may be a part of a known one that was split off. Then other samples of that label are in it too, and
none of them is doubted for it.

No random numbers are drawn, and nothing depends on the method that found the categories.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.special import expit, logit, softmax

from newkinds.discriminants import projected, random_projection, within_covariance
from newkinds.engine.moments import category_sums
from newkinds.labels import UNLABELLED, IntArray
from newkinds.selection.problem import Problem

SUSPECTED = 0.6
"""Probability of being wrong from which a label is reported: most of those that are should be."""
FOLDS = 10
UNLABELLED_WEIGHT = 0.3
"""Of an unlabelled sample in the mean of a known category, where a labelled one has 1: it may belong elsewhere."""
LIKE_CONFUSED = 0.2
"""Part of the wrong labels that go to categories which are like the right one; the others go to any."""
MOST_WRONG = 0.3
"""Share of wrong labels that is thought possible: of more, nobody can tell which."""
FIRST_SHARPNESS = (0.01, 0.03, 0.1, 0.3, 1.0)
FIRST_SHARE = 0.02
VAGUENESS = 1.0
"""How far the logarithm of the sharpness may well be from what margins suggest: where nearly all labels are clear,
they say little about it."""
NORMAL_DEVIATION = 0.6745
"""Median distance from the mean of a normal distribution, in standard deviations."""
SEARCH = {"xatol": 0.02, "fatol": 0.05}
"""How precisely the model of the labels is fitted: logarithms, and that of the likelihood."""
TRAINED = 1 << 15
"""Labelled samples that the classifier learns from: of more, an excerpt."""
TRAINED_ELEMENTS = 1 << 25
"""Their scores, in float32 128 MiB: of more than 1,024 categories the excerpt is smaller."""
FITTED_ELEMENTS = 1 << 19
"""Scores that the model of the labels is fitted on."""
JUDGED_ROWS = 1 << 12
"""Samples beyond the excerpt that are judged at a time."""

FloatArray = npt.NDArray[np.float64]
Scores = npt.NDArray[np.float32]
"""Of samples (rows) for categories (columns), the higher the more alike; -inf for a category without samples."""


@dataclass(frozen=True)
class LabelDoubts:
    """Labels that look wrong, the most doubtful first.

    Attributes
    ----------
    rows : ndarray of shape (doubts,)
        Which samples.
    likely : ndarray of shape (doubts,)
        The category that each is most like beside its own, known or new.
    probabilities : ndarray of shape (doubts,)
        Probability that the label is wrong, at least `SUSPECTED`.
    n_judged : int
        Labelled samples that could be judged: those whose category has other samples, where two or more are known.
    """

    rows: IntArray
    likely: IntArray
    probabilities: FloatArray
    n_judged: int

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class _Members:
    """Sum and weight of the members of each category: sums (categories, features), weights (categories,)."""

    sums: FloatArray
    weights: FloatArray

    def with_labelled(self, sums: FloatArray, counts: FloatArray) -> "_Members":
        """These and labelled samples of the known categories, which come first."""
        more = (0, len(self.weights) - len(counts))
        return _Members(self.sums + np.pad(sums, (more, (0, 0))), self.weights + np.pad(counts, more))


@dataclass(frozen=True)
class _Labelled:
    """Labelled samples summed up: sums (known, features), counts (known,), products (features, features)."""

    sums: FloatArray
    counts: FloatArray
    products: FloatArray

    @classmethod
    def of(cls, features: npt.NDArray[np.float32], own: IntArray, n_known: int) -> "_Labelled":
        precise = features.astype(np.float64)
        sums = np.zeros((n_known, features.shape[1]))
        np.add.at(sums, own, precise)
        return cls(sums, np.bincount(own, minlength=n_known).astype(np.float64), precise.T @ precise)

    def without(self, part: "_Labelled") -> "_Labelled":
        return _Labelled(self.sums - part.sums, self.counts - part.counts, self.products - part.products)

    def covariance(self) -> FloatArray:
        """Within the categories."""
        means = self.sums / np.maximum(self.counts, 1)[:, None]
        degrees = float(np.maximum(self.counts - 1, 0).sum())
        return within_covariance(self.products - means.T @ self.sums, degrees)


@dataclass(frozen=True)
class _Classifier:
    """A linear discriminant: `features @ weights + offsets`."""

    weights: FloatArray
    offsets: FloatArray

    @classmethod
    def of(cls, labelled: _Labelled, unlabelled: _Members) -> "_Classifier":
        members = unlabelled.with_labelled(labelled.sums, labelled.counts)
        is_there = members.weights > 0
        means = members.sums / np.where(is_there, members.weights, 1.0)[:, None]
        weights = cho_solve(cho_factor(labelled.covariance(), lower=True), means.T)
        return cls(weights, np.where(is_there, -0.5 * np.einsum("kd,dk->k", means, weights), -np.inf))

    def scores(self, features: npt.NDArray[np.float32]) -> Scores:
        """Relative to the best of each sample, so that float32 is precise where it matters."""
        scores = features @ self.weights + self.offsets
        scores -= scores.max(axis=1, keepdims=True)
        return np.asarray(scores, dtype=np.float32)


@dataclass(frozen=True)
class _Labelling:
    """How labels come about.

    Attributes
    ----------
    sharpness : float
        Factor of the scores that makes them logarithms of probabilities.
    share : float
        Of wrong labels.
    confusions : ndarray of shape (categories, known)
        Chance of each known category to be the label of a sample of each category, if it is wrong and was confused.
    strayed : ndarray of shape (known, categories)
        How many samples of each label are in each new category, by their probabilities; 0 for the known ones.
    counts : ndarray of shape (known,)
        Samples of each label.
    """

    sharpness: float
    share: float
    confusions: FloatArray
    strayed: FloatArray
    counts: FloatArray

    def judge(self, scores: Scores, own: IntArray, *, has_strayed: bool) -> tuple[FloatArray, IntArray]:
        """Probability that each label is wrong (NaN: nothing to judge by), and the most probable other category.

        `has_strayed` says whether these samples are among those that `strayed` and `counts` are of.
        """
        probabilities = _probabilities(scores, self.sharpness)
        right, wrong = _chances(probabilities, own, self.confusions)
        # Chance of another sample of the label to be in each new category.
        strayed, counts = self.strayed[own], self.counts[own]
        if has_strayed:
            strayed = np.maximum(strayed - probabilities, 0.0) * (strayed > 0)
            counts = counts - 1
        right += np.einsum("nk,nk->n", probabilities, strayed) / np.maximum(counts, 1)
        right, wrong = (1 - self.share) * right, self.share * wrong
        is_judged = np.isfinite(_of_own(scores, own))
        probabilities[np.arange(len(own)), own] = -1.0
        doubt = np.divide(wrong, wrong + right, out=np.full(len(own), np.nan), where=is_judged)
        return doubt, probabilities.argmax(axis=1)


def doubt_labels(problem: Problem, columns: IntArray, n_categories: int) -> LabelDoubts:
    """Find the labels of a problem that look wrong.

    Parameters
    ----------
    problem : Problem
    columns : ndarray of shape (samples,)
        The category of every sample, known ones first; those of labelled samples do not matter.
    n_categories : int

    Returns
    -------
    LabelDoubts
        `likely` holds columns.

    Examples
    --------
    >>> from newkinds.selection.problem import make_problem
    >>> angles = np.r_[np.linspace(0.0, 0.3, 20), np.linspace(1.2, 1.5, 20)]
    >>> labels = np.repeat([0, 1], 20)
    >>> labels[7] = 1
    >>> problem = make_problem(np.c_[np.cos(angles), np.sin(angles)], labels, device="cpu")
    >>> doubts = doubt_labels(problem, problem.columns, 2)
    >>> doubts.rows, doubts.likely, doubts.n_judged
    (array([7]), array([0]), 40)
    """
    if problem.n_known < 2:
        nobody = np.empty(0, dtype=np.int64)
        return LabelDoubts(nobody, nobody, np.empty(0), n_judged=0)
    rows = np.flatnonzero(problem.labelled)
    own = problem.columns[rows]
    projection = random_projection(problem.samples.width)
    unlabelled = _unlabelled_members(problem, columns, n_categories, projection)
    learnt = _excerpt(own, min(TRAINED, max(1, TRAINED_ELEMENTS // n_categories)))
    features = _take(problem, rows[learnt], projection)
    scores, classifier = _scores_by_others(features, own[learnt], problem.n_known, unlabelled)
    labelling = _fit_labelling(scores, own[learnt], problem.n_known)
    probabilities, likely = np.full(len(rows), np.nan), np.zeros(len(rows), dtype=np.int64)
    for first in range(0, len(learnt), JUDGED_ROWS):
        block = learnt[first : first + JUDGED_ROWS]
        probabilities[block], likely[block] = labelling.judge(
            scores[first : first + JUDGED_ROWS], own[block], has_strayed=True
        )
    others = np.setdiff1d(np.arange(len(rows)), learnt, assume_unique=True)
    for first in range(0, len(others), JUDGED_ROWS):  # nothing was learnt from these
        block = others[first : first + JUDGED_ROWS]
        block_scores = classifier.scores(_take(problem, rows[block], projection))
        probabilities[block], likely[block] = labelling.judge(block_scores, own[block], has_strayed=False)
    doubtful = np.flatnonzero(probabilities >= SUSPECTED)
    doubtful = doubtful[np.argsort(-probabilities[doubtful], kind="stable")]
    n_judged = int(np.isfinite(probabilities).sum())
    return LabelDoubts(rows[doubtful], likely[doubtful], probabilities[doubtful], n_judged)


def _take(problem: Problem, rows: IntArray, projection: npt.NDArray[np.float32] | None) -> npt.NDArray[np.float32]:
    """The features of some samples, as the classifier takes them."""
    width = problem.samples.width if projection is None else projection.shape[1]
    taken = np.empty((len(rows), width), dtype=np.float32)
    for first in range(0, len(rows), JUDGED_ROWS):
        block = slice(first, first + JUDGED_ROWS)
        taken[block] = projected(problem.samples.take(rows[block]).cpu().numpy(), projection)
    return taken


def _unlabelled_members(
    problem: Problem, columns: IntArray, n_categories: int, projection: npt.NDArray[np.float32] | None
) -> _Members:
    samples = problem.samples
    assigned = np.where(problem.labelled, UNLABELLED, columns)[samples.own]
    sums, counts = category_sums(samples, torch.from_numpy(assigned).to(samples.device)[:, None], n_categories)
    weights = np.where(np.arange(n_categories) < problem.n_known, UNLABELLED_WEIGHT, 1.0)
    of_category = projected(sums[0].cpu().numpy(), projection).astype(np.float64)
    return _Members(weights[:, None] * of_category, weights * counts[0].cpu().numpy())


def _excerpt(own: IntArray, most: int) -> IntArray:
    """Which labelled samples to learn from: all, or so many, of every category the same share."""
    if len(own) <= most:
        return np.arange(len(own))
    return np.sort(np.argsort(own, kind="stable")[np.linspace(0, len(own) - 1, most).astype(np.int64)])


def _scores_by_others(
    features: npt.NDArray[np.float32], own: IntArray, n_known: int, unlabelled: _Members
) -> tuple[Scores, _Classifier]:
    """Scores of labelled samples, by classifiers that learnt from other folds, and one that learnt from all."""
    folds = np.empty(len(own), dtype=np.int64)
    folds[np.argsort(own, kind="stable")] = np.arange(len(own)) % FOLDS
    members = [np.flatnonzero(folds == fold) for fold in range(min(FOLDS, len(own)))]
    parts = [_Labelled.of(features[rows], own[rows], n_known) for rows in members]
    whole = _Labelled(
        np.sum([part.sums for part in parts], axis=0),
        np.sum([part.counts for part in parts], axis=0),
        np.sum([part.products for part in parts], axis=0),
    )
    scores = np.empty((len(own), len(unlabelled.weights)), dtype=np.float32)
    for rows, part in zip(members, parts, strict=True):
        scores[rows] = _Classifier.of(whole.without(part), unlabelled).scores(features[rows])
    return scores, _Classifier.of(whole, unlabelled)


def _fit_labelling(scores: Scores, own: IntArray, n_known: int) -> _Labelling:
    """The model of the labels under which they are most probable.

    The known categories alone tell the sharpness and the share, for no right label is that of a new one.
    """
    n_categories = scores.shape[1]
    some = np.unique(np.linspace(0, len(own) - 1, max(1, FITTED_ELEMENTS // n_categories)).astype(np.int64))
    some = some[np.isfinite(_of_own(scores[some], own[some]))]
    some_scores, some_own = scores[some].astype(np.float64), own[some]
    expected = _expected_sharpness(some_scores[:, :n_known], some_own)

    def loss(parameters: FloatArray, confusions: FloatArray) -> float:
        sharpness, share = np.exp(parameters[0]), MOST_WRONG * expit(parameters[1])
        probabilities = softmax(sharpness * some_scores[:, :n_known], axis=1)
        right, wrong = _chances(probabilities, some_own, confusions[:n_known])
        unexpected = (parameters[0] - np.log(expected)) / VAGUENESS
        return 0.5 * float(unexpected**2) - float(np.log((1 - share) * right + share * wrong).sum())

    confusions = np.full((n_categories, n_known), 1 / (n_known - 1))
    first_share = float(logit(FIRST_SHARE / MOST_WRONG))
    starts = [np.array([np.log(sharpness), first_share]) for sharpness in (*FIRST_SHARPNESS, expected)]
    found = starts[int(np.argmin([loss(start, confusions) for start in starts]))]
    for _ in range(2):  # confusions need a sharpness, and are needed to find it
        found = minimize(loss, found, (confusions,), method="Nelder-Mead", options=SEARCH).x
        probabilities = _probabilities(some_scores, float(np.exp(found[0])))
        confusions = probabilities.T @ probabilities[:, :n_known]
        np.fill_diagonal(confusions, 0.0)
        confusions /= np.maximum(confusions.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    sharpness, share = float(np.exp(found[0])), float(MOST_WRONG * expit(found[1]))
    strayed = np.zeros((n_known, n_categories))
    for first in range(0, len(own), JUDGED_ROWS):
        block = slice(first, first + JUDGED_ROWS)
        np.add.at(strayed, own[block], _probabilities(scores[block], sharpness))
    strayed[:, :n_known] = 0.0
    return _Labelling(sharpness, share, confusions, strayed, np.bincount(own, minlength=n_known).astype(float))


def _expected_sharpness(scores: FloatArray, own: IntArray) -> float:
    """What the margins suggest: those of bell-shaped categories have a variance of twice their mean."""
    others = scores.copy()
    others[np.arange(len(own)), own] = -np.inf
    margins = _of_own(scores, own) - others.max(axis=1)
    margins = margins[np.isfinite(margins)]
    if not len(margins):
        return 1.0
    middle = float(np.median(margins))
    deviation = float(np.median(np.abs(margins - middle))) / NORMAL_DEVIATION
    if middle <= 0:
        return FIRST_SHARPNESS[0]
    return float(np.clip(2 * middle / max(deviation**2, middle), FIRST_SHARPNESS[0], FIRST_SHARPNESS[-1]))


def _probabilities(scores: Scores | FloatArray, sharpness: float) -> FloatArray:
    return np.asarray(softmax(sharpness * scores.astype(np.float64), axis=1))


def _chances(probabilities: FloatArray, own: IntArray, confusions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Chance of each label if it is right, and if it is wrong."""
    right = _of_own(probabilities, own)
    confused = np.einsum("nk,nk->n", probabilities, confusions.T[own])
    anything = (1 - right) / (confusions.shape[1] - 1)
    return right, LIKE_CONFUSED * confused + (1 - LIKE_CONFUSED) * anything


def _of_own(values: npt.NDArray[Any], own: IntArray) -> npt.NDArray[Any]:
    return values[np.arange(len(own)), own]
