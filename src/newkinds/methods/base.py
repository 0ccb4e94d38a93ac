"""The contract of every method, written once: checks, ids, prediction, saved state. A method adds its maths."""

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from newkinds.engine import LinearMap, Partitioner, normalised
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray, category_names, named_labels
from newkinds.methods.parameters import (
    POSITIVE,
    POSITIVE_INTEGER,
    Constraints,
    InvalidParameterError,
    ParameterError,
    one_of,
)
from newkinds.methods.regrouping import Regrouped, places_of
from newkinds.methods.wariness import Wary
from newkinds.metrics import clustering_accuracy
from newkinds.names import AUTO, COUNT_RULES, CountRule, Geometry
from newkinds.progress import Parts, begin_part, planned
from newkinds.raw_samples import kind_of_samples, refuse_odd
from newkinds.selection.calibration import Calibration
from newkinds.selection.label_doubts import LabelDoubts, doubt_labels
from newkinds.selection.n_categories import CategoryCount, Search, search_n_categories, usual_rule
from newkinds.selection.plan import CHECKING
from newkinds.selection.problem import FLOATS, Problem, as_array, dense, make_problem
from newkinds.selection.strangers import restored
from newkinds.workers import working_together

ASSESSED_ROWS = 1 << 12
"""Samples that `assess` looks at at a time."""
FITTED_ARRAYS = ("weights", "temperature", "categories", "known_categories", "labels")
"""Fitted attributes (without the underscore) that make up a saved model."""
METRIC_ARRAYS = ("metric_centre", "metric_matrix")
"""The map to the metric, also saved; a model by the cosine has none."""
CALIBRATION_ARRAY = "calibration"
"""The numbers of a `Calibration`, also saved; models of before there were any have none."""
LOADED_ONLY = ("source_columns_", "encoder_", "sample_encoder_", "suggestions_", "places_", "sizes_")
"""What a run adds to a model and a new fit takes away.

`sample_encoder_` takes raw samples, `suggestions_` are names that we suggest, by id, `places_` say which row of
`weights_` is which category, where a person has edited them, `sizes_` how many samples each had in all, by id."""


@dataclass(frozen=True)
class Outcome:
    """What a method hands back to the contract: known categories first, in the order of `Problem.known`.

    `facts` are the method's own fitted attributes (name without the trailing underscore → value); `stability` says
    how far each category is found again by several trainings, see `newkinds.selection.consensus`; `metric_map`
    leads from unit features to those that the partitioner takes, where these are others.
    """

    partitioner: Partitioner
    columns: IntArray
    n_iter: int
    stopped: str
    calibration: Calibration = field(default_factory=Calibration)
    facts: dict[str, Any] = field(default_factory=dict)
    stability: npt.NDArray[np.float64] | None = None
    metric_map: LinearMap | None = None


class Assessment(NamedTuple):
    """What a model says of samples: category, its probability, and the probability that it is a new one."""

    categories: IntArray
    confidence: npt.NDArray[np.float64]
    novelty: npt.NDArray[np.float64]


class CategoryDiscoverer(Wary, ClusterMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base of the methods: classify the known, discover the new.

    Attributes
    ----------
    labels_ : ndarray of shape (samples,)
        Category of every sample; given labels are kept.
    categories_ : ndarray of shape (n_categories_,)
        Ids: known ones first, as given; discovered ones are max(known) + 1, …, largest category first (of equal
        ones, that of the earlier sample).
        Categories that no training sample fell into come last and stay available to `predict`.
    known_categories_ : ndarray
        The ids that had labels.
    category_names_ : dict of int to str
        Name of every id: the label for known ones, new-1, new-2, … for discovered ones.
    n_categories_ : int
    weights_ : ndarray of shape (n_categories_, n_features_in_)
        One prototype a category, in the order of `categories_`; in the metric, where there is one.
    metric_map_ : LinearMap or None
        Leads from features of unit length to those that `weights_` apply to; None where these are the same.
    temperature_ : float
    calibration_ : Calibration
        How probabilities and novelty are corrected by what rehearsals showed; without any, not at all.
    stability_ : ndarray of shape (n_categories_,), or None
        Of each category, how far it is found again by trainings from different starts, from 0 to 1; None where
        there was only one training, NaN for a category without unlabelled samples.
    n_categories_search_ : CategoryCount or None
        How the number of categories was found, where it was not given.
    label_doubts_ : LabelDoubts or None
        Labels that look wrong, `likely` being ids; None where labels are not used, and in a loaded model.
    n_iter_ : int
    stopped_ : str
        Why fitting ended: "max_iter" or "converged".
    """

    _geometry: ClassVar[Geometry] = "linear"
    _uses_labels: ClassVar[bool] = True

    _parameter_constraints: ClassVar[Constraints] = {
        "n_categories": [POSITIVE_INTEGER, one_of((AUTO, *COUNT_RULES))],
        "temperature": [POSITIVE],
        "n_init": [POSITIVE_INTEGER],
        "max_iter": [POSITIVE_INTEGER],
        "device": [str],
        "random_state": ["random_state"],
    }

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the categories of a partly labelled collection.

        Parameters
        ----------
        X : array-like, DataFrame, Tensor or sparse matrix of shape (samples, features)
            Scaled to unit length here. A sparse matrix becomes an array, if there is memory for it.
        y : array-like of shape (samples,), optional
            Integers, which become ids (-1 = unlabelled), or names, which get the ids 0, 1, … in alphabetical order
            (None, NaN, NA and blank text = unlabelled).
        """
        self._check_parameters()
        features = self._check_features(X, reset=True)
        labels, names = named_labels(as_array(y), len(features))
        problem = make_problem(features, labels, device=self.device, random_state=self.random_state)
        if self._uses_labels and not problem.n_known:
            warnings.warn(
                f"{type(self).__name__}: no sample is labelled, so this is plain clustering; mark known samples "
                "with their category in y (-1 or None = unlabelled)",
                UserWarning,
                stacklevel=2,
            )
        with (
            working_together(features.size, problem.samples.device.type),
            planned("finding the kinds", lambda: self._plan(problem)),
        ):
            n_categories, search = self._resolve_n_categories(problem)
            if search is not None:
                problem = replace(problem, known_share=search.known_share)
            outcome = self._discover(problem, n_categories)
            for name in LOADED_ONLY:
                self.__dict__.pop(name, None)
            self.n_categories_search_ = search
            self._adopt(problem, outcome)
        self._name_categories(names)
        return self

    def _plan(self, problem: Problem) -> Parts:
        """What the parts of a fit are expected to take; without any, each stage tells its own progress."""
        return {}

    @abstractmethod
    def _discover(self, problem: Problem, n_categories: int) -> Outcome:
        """The method's own maths."""

    def _check_parameters(self) -> None:
        try:
            self._validate_params()
        except InvalidParameterError as error:
            raise ParameterError(str(error)) from error

    def _check_features(self, X: Any, *, reset: bool) -> npt.NDArray[np.floating[Any]]:
        refuse_odd(X)
        sample_encoder = None if reset else getattr(self, "sample_encoder_", None)
        if sample_encoder is not None:
            X = sample_encoder(X)
        elif (kind := kind_of_samples(X)) is not None:
            raise InputError(f"X holds {kind}, and this model takes features: newkinds.encode makes them of {kind}")
        if not reset:
            X = self._arranged(X)
        try:
            checked: npt.NDArray[np.floating[Any]] = validate_data(
                self,
                dense(as_array(X)),
                reset=reset,
                dtype=FLOATS,
                ensure_min_samples=2 if reset else 1,
                ensure_all_finite=False,  # looked at block by block, so that a memory map is never read in whole
            )
        except ValueError as error:
            raise InputError(str(error)) from error
        return checked

    def _arranged(self, X: Any) -> Any:
        """The columns of a data frame in the order of the run's; anything else as it is."""
        wanted = getattr(self, "source_columns_", None)
        if wanted is None or hasattr(self, "feature_names_in_") or not hasattr(X, "iloc") or X.ndim != 2:
            return X
        places = {str(name): place for place, name in enumerate(X.columns)}
        if len(X.columns) != len(wanted) or set(places) != set(wanted):
            lacking = [name for name in wanted if name not in places]
            foreign = [name for name in places if name not in wanted]
            what = f"it lacks {lacking[0]!r}" if lacking else f"{(foreign or ['one'])[0]!r} is too many"
            raise InputError(f"the columns of X should be the {len(wanted)} of the run; {what}")
        return X.iloc[:, [places[name] for name in wanted]].to_numpy()

    def _resolve_n_categories(self, problem: Problem) -> tuple[int, CategoryCount | None]:
        wanted = self.n_categories
        if not isinstance(wanted, str):
            return problem.check_n_categories(wanted), None
        rule = self._auto_rule() if wanted == AUTO else cast(CountRule, wanted)
        usual = usual_rule(rule, problem)
        if wanted == AUTO and usual != rule:
            rule = usual
        elif problem.n_known and problem.most_categories == problem.n_known:
            return problem.n_known, None  # everything is labelled: there is nothing new to find
        count = search_n_categories(problem, rule, self._search())
        return count.n_categories, count

    def _auto_rule(self) -> CountRule:
        """What "auto" means where enough categories are known for it."""
        return "rehearsal"

    def _search(self) -> Search:
        """How the number of categories is looked for."""
        return Search() if self.n_init is None else Search(n_init=int(self.n_init))

    def _adopt(self, problem: Problem, outcome: Outcome) -> None:
        """Number the discovered categories, largest first, and keep the result as numpy."""
        n_known, n_categories = problem.n_known, len(outcome.partitioner.weights)
        columns = np.where(problem.labelled, problem.columns, outcome.columns)
        sizes = np.bincount(columns, minlength=n_categories)
        first = np.full(n_categories, len(columns))
        np.minimum.at(first, columns, np.arange(len(columns)))
        novel = n_known + np.lexsort((first[n_known:], -sizes[n_known:]))
        order = np.concatenate([np.arange(n_known), novel])
        first_new = problem.known[-1] + 1 if n_known else 0
        ids = np.concatenate([problem.known, first_new + np.arange(n_categories - n_known)])
        position = np.empty(n_categories, dtype=np.int64)
        position[order] = np.arange(n_categories)
        self.weights_ = outcome.partitioner.weights[order]
        self.metric_map_ = outcome.metric_map
        self.temperature_ = float(outcome.partitioner.temperature)
        self.calibration_ = outcome.calibration
        self.stability_ = None if outcome.stability is None else outcome.stability[order]
        self.categories_ = ids.astype(np.int64)
        self.known_categories_ = problem.known
        self.n_categories_ = n_categories
        self.labels_ = self.categories_[position[columns]]
        self.label_doubts_: LabelDoubts | None = None
        if self._uses_labels:
            begin_part(CHECKING)
            doubts = doubt_labels(problem, columns, n_categories)
            self.label_doubts_ = replace(doubts, likely=self.categories_[position[doubts.likely]])
        self.n_iter_ = outcome.n_iter
        self.stopped_ = outcome.stopped
        for name, value in outcome.facts.items():
            setattr(self, f"{name}_", value)
        self._remember(problem, position[columns])

    def _name_categories(self, names: Sequence[str] | None) -> None:
        """Name the ids; `names` are those of id 0, 1, …, None where known categories are called by their ids."""
        known = {int(i): str(i) if names is None else names[i] for i in self.known_categories_}
        self.category_names_ = category_names(known, self.categories_[len(known) :].tolist())

    def fit_predict(self, X: Any, y: Any = None, **fit_params: Any) -> IntArray:
        """Fit and return `labels_`. (scikit-learn's own version would drop `y`.)"""
        labels: IntArray = self.fit(X, y, **fit_params).labels_
        return labels

    def predict(self, X: Any, reject: float | None = None) -> IntArray:
        """Most probable category of each sample; of equals the first in `categories_`.

        With `reject`, a probability, samples of which the model is less sure than that get -1.
        """
        return self.assess(X, reject=reject).categories

    def predict_names(self, X: Any, reject: float | None = None) -> npt.NDArray[np.object_]:
        """As `predict`, but the names of the categories, from `category_names_`; None for samples left open."""
        categories = self.predict(X, reject)
        names = {**self.category_names_, UNLABELLED: None}
        found = np.empty(len(categories), dtype=object)
        found[:] = [names[category] for category in categories.tolist()]
        return found

    def score(self, X: Any, y: Any) -> float:
        """Clustering accuracy of `predict(X)`: the share of samples put right, in [0, 1].

        Categories are matched with the classes in `y` so that most samples agree (Hungarian method): this is "All"
        of `newkinds.accuracy`. With it scikit-learn's searches, such as `GridSearchCV`, choose among parameters.

        Parameters
        ----------
        X : array-like of shape (samples, features)
            Samples held out from `fit`.
        y : array-like of shape (samples,)
            Their classes, as for `fit`. Unlabelled samples do not count.
        """
        predicted = self.predict(X)
        truth, _ = named_labels(as_array(y), len(predicted))
        labelled = truth != UNLABELLED
        if not labelled.any():
            raise InputError(
                "no sample in y is labelled: there is nothing to score by; where labelled samples come first, the "
                "folds of a search must be shuffled, such as cv=KFold(5, shuffle=True)"
            )
        return clustering_accuracy(truth[labelled], predicted[labelled])

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Probability of each category, columns in the order of `categories_`."""
        partitioner = self._calibrated
        return np.exp(partitioner.log_probabilities(self._unit(self._check_features(X, reset=False))))

    def novelty(self, X: Any) -> npt.NDArray[np.float64]:
        """Probability that a sample belongs to a category that had no label."""
        return self.assess(X).novelty

    def assess(
        self, X: Any, categories: IntArray | None = None, reject: float | None = None, first_row: int = 0
    ) -> Assessment:
        """Category, confidence and novelty of each sample, in memory that does not grow with the categories.

        Parameters
        ----------
        X : array-like of shape (samples, features)
        categories : ndarray of shape (samples,), optional
            Categories that are settled already, such as `labels_`; by default the most probable ones.
        reject : float, optional
            Samples whose confidence is less get the category -1.
        first_row : int
            The row that X begins with, for errors.
        """
        if reject is not None and not 0 <= reject <= 1:
            raise InputError(f"reject is a probability, from 0 to 1; got {reject}")
        partitioner = self._calibrated
        features = self._check_features(X, reset=False)
        n_known = len(self.known_categories_)
        columns = np.empty(len(features), dtype=np.int64)
        if categories is not None:
            columns[:] = np.searchsorted(self.categories_, categories)
        confidence, novelty = np.empty(len(features)), np.empty(len(features))
        for first in range(0, len(features), ASSESSED_ROWS):
            rows = slice(first, first + ASSESSED_ROWS)
            settled = None if categories is None else columns[rows]
            unit = self._unit(features[rows], first_row + first)
            columns[rows], confidence[rows], rest = partitioner.verdicts(unit, n_known, settled)
            novelty[rows] = self.calibration_.novelty(rest)
        assigned = self.categories_[columns]
        if reject is not None:
            assigned = np.where(confidence < reject, UNLABELLED, assigned)
        return Assessment(assigned, confidence, novelty)

    def _unit(self, features: npt.NDArray[Any], first_row: int = 0) -> npt.NDArray[np.floating[Any]]:
        """Features as the partitioner takes them; `first_row` as in `newkinds.engine.normalised`."""
        unit = normalised(features, first_row)
        return unit if self.metric_map_ is None else self.metric_map_.apply_precisely(unit)

    @property
    def partitioner_(self) -> Partitioner:
        check_is_fitted(self)
        return Partitioner(self.weights_, self.temperature_, self._geometry)

    @property
    def _calibrated(self) -> Partitioner | Regrouped:
        """The partitioner whose probabilities are to be believed."""
        partitioner = self.partitioner_
        calibrated = replace(partitioner, temperature=partitioner.temperature * self.calibration_.sharpness)
        places = getattr(self, "places_", None)
        return calibrated if places is None else Regrouped(calibrated, places, self.n_categories_)

    def regroup(
        self, categories: IntArray, known: IntArray, labels: IntArray, became: Mapping[int, int | None]
    ) -> Self:
        """Take categories as a person has edited them since the fit.

        Parameters
        ----------
        categories, known : ndarray
            All ids and the known ones, ascending.
        labels : ndarray of shape (samples,)
            Category of every sample.
        became : mapping of int to int or None
            What became of each category of the fit; None if it was dissolved.
        """
        self.places_ = places_of(self.categories_, became, categories)
        self.categories_, self.known_categories_, self.labels_ = categories, known, labels
        self.n_categories_ = len(categories)
        self.stability_ = None
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    def fitted_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The fitted state as arrays; `restore` takes them back."""
        check_is_fitted(self)
        arrays = {name: np.asarray(getattr(self, f"{name}_")) for name in FITTED_ARRAYS}
        if self.metric_map_ is not None:
            arrays |= dict(zip(METRIC_ARRAYS, (self.metric_map_.centre, self.metric_map_.matrix), strict=True))
        strangers = self.learnt_strangers()
        arrays |= {} if strangers is None else strangers.arrays()
        return arrays | {CALIBRATION_ARRAY: np.array(astuple(self.calibration_))}

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Make this estimator fitted by what `fitted_arrays` gave; arrays that cannot be that are refused."""
        if missing := [name for name in FITTED_ARRAYS if name not in arrays]:
            raise InputError(f"the saved model lacks {', '.join(missing)}")
        weights = check_saved_floats("weights", arrays["weights"], (None, None))
        temperature = check_saved_floats("temperature", arrays["temperature"].reshape(-1), (1,)).item()
        calibration = _saved_calibration(arrays.get(CALIBRATION_ARRAY))
        categories, known, labels = (
            _saved_ids(name, arrays[name]) for name in ("categories", "known_categories", "labels")
        )
        if len(weights) != len(categories):
            raise InputError(f"the saved model has {len(weights)} weights for {len(categories)} categories")
        if temperature <= 0:
            raise InputError(f"the saved temperature should be greater than 0; got {temperature:g}")
        largest = max(1.0, float(np.abs(weights).max(initial=0.0)))
        if not np.isfinite(temperature * calibration.sharpness * weights.shape[1] * largest * largest):
            raise InputError("the saved weights and temperature are too large")
        if (np.diff(categories) <= 0).any():
            raise InputError("the saved categories should ascend")
        if not np.array_equal(known, categories[: len(known)]):
            raise InputError("the saved known categories should be the first of all")
        if not np.isin(labels, categories).all():
            raise InputError("the saved labels should be among the categories")
        self.weights_, self.temperature_, self.calibration_ = weights, temperature, calibration
        self.categories_, self.known_categories_, self.labels_ = categories, known, labels
        self.n_categories_, self.n_features_in_ = weights.shape
        self.metric_map_ = _saved_metric(arrays, weights.shape[1])
        if self.metric_map_ is not None:
            self.n_features_in_ = len(self.metric_map_.centre)
        self._excerpt, self.strangers_ = None, restored(arrays)
        self.n_categories_search_ = self.stability_ = self.label_doubts_ = None
        self._name_categories(None)
        return self


def check_saved_floats(
    name: str, array: npt.NDArray[Any], shape: tuple[int | None, ...]
) -> npt.NDArray[np.floating[Any]]:
    """An array of a saved model, refused if it is not of finite numbers in this shape; None: any length."""
    fits = array.ndim == len(shape) and all(
        length in (None, n) for length, n in zip(shape, array.shape, strict=True)
    )
    if not fits or not np.issubdtype(array.dtype, np.floating):
        wanted = " × ".join("n" if length is None else str(length) for length in shape)
        raise InputError(f"the saved {name} should be {wanted} numbers; got {array.dtype} of shape {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"the saved {name} should be finite")
    return array


def _saved_ids(name: str, array: npt.NDArray[Any]) -> IntArray:
    if not np.issubdtype(array.dtype, np.integer) or array.ndim != 1:
        raise InputError(f"the saved {name} should be a row of integers; got {array.dtype} of shape {array.shape}")
    ids: IntArray = array.astype(np.int64, copy=False)
    if ids.size and ids.min() < 0:
        raise InputError(f"the saved {name} should not be negative")
    return ids


def _saved_metric(arrays: dict[str, npt.NDArray[Any]], width: int) -> LinearMap | None:
    """The saved map to features of so many directions, if there is one."""
    saved = [name for name in METRIC_ARRAYS if name in arrays]
    if not saved:
        return None
    if len(saved) < len(METRIC_ARRAYS):
        raise InputError("the saved model lacks a part of its metric")
    centre = check_saved_floats("centre of the metric", arrays[METRIC_ARRAYS[0]], (None,))
    matrix = check_saved_floats("matrix of the metric", arrays[METRIC_ARRAYS[1]], (len(centre), width))
    return LinearMap(centre.astype(np.float32), matrix.astype(np.float32))


def _saved_calibration(array: npt.NDArray[Any] | None) -> Calibration:
    """Finite numbers, but for `share_new`."""
    if array is None:
        return Calibration()
    check_saved_floats("calibration", array.reshape(-1)[:-1], (len(fields(Calibration)) - 1,))
    calibration = Calibration(*array.reshape(-1).tolist())
    share_new = calibration.share_new
    if calibration.sharpness <= 0 or not (np.isnan(share_new) or 0 <= share_new <= 1):
        raise InputError(f"the saved calibration makes no sense: {calibration}")
    return calibration
