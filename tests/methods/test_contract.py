"""What every method promises, checked for every method."""

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from newkinds import InputError
from newkinds.data import digits
from newkinds.engine.partitioner import BLOCK_ELEMENTS, blocks
from newkinds.methods import METHODS, CategoryDiscoverer

FAST: dict[str, dict[str, Any]] = {
    "pim": {"max_iter": 40, "lam": 0.3, "consensus": 2},
    "rim": {"max_iter": 40},
    "tim": {"max_iter": 40},
    "simgcd": {"max_iter": 4},
    "uno": {"max_iter": 4, "hidden": 32},
    "orca": {"max_iter": 4},
    "rankstats": {"max_iter": 4},
}

HEADS = {"simgcd", "uno", "orca", "rankstats"}

# scikit-learn's suite passes but for this, for every method alike.
WAIVERS = {
    "check_estimators_dtypes": "its integer data holds a zero vector, which has no direction and is refused",
    "check_estimator_sparse_tag": "its sparse data holds zero vectors, likewise",
}


def make(name: str, **parameters: Any) -> CategoryDiscoverer:
    return METHODS[name](**{**FAST.get(name, {}), "random_state": 0, **parameters})


@pytest.fixture(params=METHODS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def collection() -> tuple[np.ndarray, np.ndarray]:
    """Digits, of which 3 and 8 are known under the ids 7 and 2."""
    source = digits()
    assert source.truth is not None
    labels = np.full(400, -1)
    half = np.arange(400) % 2 == 0
    labels[(source.truth[:400] == 3) & half] = 7
    labels[(source.truth[:400] == 8) & half] = 2
    return source.features[:400], labels


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the checks fit tiny data, of which methods warn
def test_scikit_learns_checks_pass_but_for_the_waivers(name: str) -> None:
    results = check_estimator(METHODS[name](**FAST.get(name, {})), expected_failed_checks=WAIVERS, on_fail=None)
    failed = {result["check_name"] for result in results if result["status"] == "failed"}
    waived = {result["check_name"] for result in results if result["status"] == "xfail"}
    assert failed == set()
    assert waived == set(WAIVERS), "a waiver is no longer needed"


def test_ids_labels_and_shapes(name: str, collection: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = collection
    model = make(name, n_categories=6).fit(X, y)
    assert model.categories_.tolist() == [2, 7, 8, 9, 10, 11]
    assert model.known_categories_.tolist() == [2, 7]
    assert model.n_categories_ == 6
    given = y >= 0
    assert np.array_equal(model.labels_[given], y[given])
    assert set(model.labels_) <= set(model.categories_)
    sizes = [np.sum(model.labels_ == c) for c in model.categories_[2:]]
    assert sizes == sorted(sizes, reverse=True)
    assert model.stopped_ in {"max_iter", "converged"}
    assert isinstance(model.weights_, np.ndarray)
    assert model.n_features_in_ == 64


def test_prediction_agrees_with_probabilities(name: str, collection: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = collection
    model = make(name, n_categories=6).fit(X, y)
    p = model.predict_proba(X)
    assert p.shape == (400, 6)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert np.array_equal(model.predict(X), model.categories_[p.argmax(axis=1)])
    np.testing.assert_allclose(model.novelty(X), p[:, 2:].sum(axis=1))
    unlabelled = y < 0
    assert np.array_equal(model.predict(X)[unlabelled], model.labels_[unlabelled])


def test_answers_about_very_many_categories_are_computed_in_smaller_blocks(
    monkeypatch: pytest.MonkeyPatch, collection: tuple[np.ndarray, np.ndarray]
) -> None:
    features, labels = collection
    model = METHODS["sskm"](n_categories=5, random_state=0).fit(features, labels)
    whole = model.assess(features)
    sizes: list[int] = []

    def recording(n_samples: int, columns: int, device: str) -> list[slice]:
        cut = blocks(n_samples, columns, device)
        sizes.extend(part.stop - part.start for part in cut)
        return cut

    monkeypatch.setattr("newkinds.engine.partitioner.blocks", recording)
    monkeypatch.setitem(BLOCK_ELEMENTS, "cpu", 16)
    parts = model.assess(features)
    assert max(sizes) == 3
    log_p = model._calibrated.log_probabilities(features / np.linalg.norm(features, axis=1, keepdims=True))
    assert np.allclose(parts.confidence, np.exp(log_p.max(axis=1)), rtol=1e-6)
    assert np.array_equal(parts.categories, whole.categories)
    assert np.allclose(parts.confidence, whole.confidence, rtol=1e-12)
    assert np.allclose(parts.novelty, whole.novelty, rtol=1e-12)


def test_the_scale_of_a_sample_does_not_matter(name: str, collection: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = collection
    model = make(name, n_categories=6).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X[:5] * 1e-3), model.predict_proba(X[:5]), atol=1e-5)


def test_fit_predict_uses_the_labels(name: str, collection: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = collection
    assert np.array_equal(
        make(name, n_categories=6).fit_predict(X, y), make(name, n_categories=6).fit(X, y).labels_
    )


def test_arrays_frames_and_tensors_give_the_same(name: str, collection: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = collection
    expected = make(name, n_categories=6).fit(X, y).labels_
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(64)])
    model = make(name, n_categories=6).fit(frame, pd.Series(y))
    assert np.array_equal(model.labels_, expected)
    assert model.feature_names_in_[0] == "f0"
    assert np.array_equal(make(name, n_categories=6).fit(torch.tensor(X), torch.tensor(y)).labels_, expected)
    assert np.array_equal(make(name, n_categories=6).fit(X.tolist(), y.tolist()).labels_, expected)


def test_same_seed_same_result_and_global_state_untouched(
    name: str, collection: tuple[np.ndarray, np.ndarray]
) -> None:
    X, y = collection
    np.random.seed(1)  # noqa: NPY002 - the legacy global state is what must not move
    torch.manual_seed(1)
    before = np.random.get_state(legacy=False), torch.get_rng_state()  # noqa: NPY002 - likewise
    one, two = (make(name, n_categories=6).fit(X, y) for _ in range(2))
    assert np.array_equal(one.weights_, two.weights_)
    after: Any = np.random.get_state(legacy=False)  # noqa: NPY002 - likewise
    assert np.array_equal(after["state"]["key"], before[0]["state"]["key"])
    assert after["state"]["pos"] == before[0]["state"]["pos"]
    assert torch.equal(torch.get_rng_state(), before[1])


def test_parameters_survive_clone_and_fitted_models_survive_pickle(
    name: str, collection: tuple[np.ndarray, np.ndarray]
) -> None:
    X, y = collection
    model = make(name, n_categories=6, max_iter=3, device="cpu")
    assert clone(model).get_params() == model.get_params()
    model.fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))


def test_restored_from_its_arrays(name: str, collection: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = collection
    model = make(name, n_categories=6).fit(X, y)
    again = make(name, n_categories=6).restore(model.fitted_arrays())
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(again.labels_, model.labels_)
    with pytest.raises(InputError, match="the saved model lacks weights"):
        make(name).restore({key: value for key, value in model.fitted_arrays().items() if key != "weights"})


def test_wrong_labels_are_doubted(name: str) -> None:
    source = digits()
    assert source.truth is not None
    labels = np.where((source.truth < 5) & (np.arange(len(source.truth)) % 2 == 0), source.truth + 10, -1)[:900]
    wrong = np.flatnonzero(labels >= 0)[::40]
    labels[wrong] = 10 + (labels[wrong] - 9) % 5
    model = make(name, n_categories=10).fit(source.features[:900], labels)
    doubts = model.label_doubts_
    if doubts is None:
        assert name == "kmeans"
        return
    assert doubts.n_judged == (labels >= 0).sum()
    assert np.isin(wrong, doubts.rows).mean() >= 0.7
    assert len(doubts) <= 2 * len(wrong)  # some of these quick fits take a part of a known category for a new one
    assert np.isin(doubts.likely, model.categories_).all()
    right = np.isin(doubts.likely, model.known_categories_) & np.isin(doubts.rows, wrong)
    np.testing.assert_array_equal(doubts.likely[right], source.truth[doubts.rows[right]] + 10)


def test_everything_labelled_is_allowed(name: str, collection: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = collection
    given = y >= 0
    model = make(name).fit(X[given], y[given])
    assert model.categories_.tolist() == [2, 7]
    assert np.array_equal(model.labels_, y[given])


def test_no_labels_is_clustering_with_a_warning(name: str, collection: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = collection
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = make(name, n_categories=4).fit(X)
    said = [str(w.message) for w in caught if "no sample is labelled" in str(w.message)]
    assert len(said) == (0 if name == "kmeans" else 1)
    assert model.categories_.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(model.novelty(X), 1)


def test_a_known_class_of_one_sample(name: str) -> None:
    X = np.array([[1, 0.1], [1, 0], [0.1, 1], [0, 1.0]])
    model = make(name, n_categories=2).fit(X, [5, -1, -1, -1])
    if name in HEADS:  # they start anywhere: of so few samples nothing can be promised
        assert model.labels_[0] == 5
        assert set(model.labels_) <= {5, 6}
    else:
        assert model.labels_.tolist() == [5, 5, 6, 6]


def test_identical_samples_do_not_break_anything(name: str) -> None:
    X = np.ones((8, 3))
    model = make(name, n_categories=4).fit(X, [0, 0, 1, -1, -1, -1, -1, -1])
    assert np.isfinite(model.predict_proba(X)).all()
    assert model.labels_[:3].tolist() == [0, 0, 1]
    assert len(set(model.labels_[3:])) == 1  # equal samples, equal category
    assert model.n_categories_ == 4


BAD: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "nan": (np.array([[1, np.nan], [0, 1], [1, 1.0]]), [0, -1, -1], {}, "NaN"),
    "infinity": (np.array([[1, np.inf], [0, 1], [1, 1.0]]), [0, -1, -1], {}, "infinity"),
    "zero vector": (np.array([[1, 0], [0, 0], [1, 1.0]]), [0, -1, -1], {}, "row 1 is a zero vector"),
    "one dimension": (np.ones(3), [0, -1, -1], {}, "Expected 2D array"),
    "odd labels": (np.eye(3), ["a", {}, ""], {}, "a label must be an integer or a name, got {}"),
    "measurements": (np.eye(3), ["a", 0.5, ""], {}, "got the fraction 0.5; is this a column of measurements"),
    "missing as text": (np.eye(3), np.array(["a", "b", "nan"]), {}, "a label reads 'nan'"),
    "one label": (np.eye(3), "a", {}, "one-dimensional"),
    "fractions": (np.eye(3), [0.5, -1, -1], {}, "labels must be integers .* got 0.5 at position 0"),
    "negative": (np.eye(3), [0, -2, -1], {}, "got -2 at position 1"),
    "lengths": (np.eye(3), [0, -1], {}, "3 samples but 2 labels"),
    "too few": (np.eye(3), [0, 1, -1], {"n_categories": 1}, "fewer than the 2 categories that have labels"),
    "too many": (np.eye(3), [0, 1, -1], {"n_categories": 4}, "more than 2 known categories and 1 unlabelled"),
    "rule": (np.eye(3), [0, 1, -1], {"n_categories": "magic"}, "'n_categories' parameter"),
    "device": (np.eye(3), [0, 1, -1], {"device": "tpu"}, "device must be one of"),
    "max_iter": (np.eye(3), [0, 1, -1], {"max_iter": 0}, "'max_iter' parameter"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_a_reason(name: str, case: str) -> None:
    X, y, parameters, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        make(name, **parameters).fit(X, y)


@pytest.mark.parametrize("parameter", ["n_init", "temperature"])
def test_restarts_and_temperature_are_checked_where_there_are_any(name: str, parameter: str) -> None:
    if parameter not in make(name).get_params():
        pytest.skip(f"{name} has no parameter {parameter}")
    with pytest.raises(ValueError, match=f"'{parameter}' parameter"):
        make(name, **{parameter: 0}).fit(np.eye(3), [0, 1, -1])


def test_prediction_checks_the_width(name: str) -> None:
    model = make(name, n_categories=3).fit(np.eye(4), [0, -1, -1, -1])
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 4"):
        model.predict(np.eye(3))
