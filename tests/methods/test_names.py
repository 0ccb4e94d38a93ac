"""Labels as people have them, names of categories, and scores by which scikit-learn can choose."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from newkinds import InputError, KMeans, SemiSupervisedKMeans, accuracy, estimate_n_categories
from newkinds.data import digits
from newkinds.methods import METHODS, make_method
from tests.methods.test_contract import make

SOURCE = digits()
X = SOURCE.features[:200]
assert SOURCE.truth is not None
TRUTH = SOURCE.truth[:200]
GIVEN = (TRUTH < 3) & (np.arange(200) % 2 == 0)
NAMES = np.array(["zero", "one", "two", *"3456789"])[TRUTH]
IDS = {"one": 0, "two": 1, "zero": 2}


@pytest.fixture(params=METHODS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def with_gaps(gap: Any) -> list[Any]:
    return [str(label) if given else gap for label, given in zip(NAMES, GIVEN, strict=True)]


def test_names_are_kept_and_mean_the_same_as_their_ids(name: str) -> None:
    model = make(name, n_categories=6).fit(X, with_gaps(None))
    assert model.category_names_ == {0: "one", 1: "two", 2: "zero", 3: "new-1", 4: "new-2", 5: "new-3"}
    labels = np.array([IDS[label] if given else -1 for label, given in zip(NAMES, GIVEN, strict=True)])
    by_id = make(name, n_categories=6).fit(X, labels)
    assert np.array_equal(model.labels_, by_id.labels_)
    assert np.array_equal(model.weights_, by_id.weights_)
    assert list(by_id.category_names_.values()) == ["0", "1", "2", "new-1", "new-2", "new-3"]
    found = model.predict_names(X)
    assert found.dtype == object
    assert found.tolist() == [model.category_names_[category] for category in model.predict(X).tolist()]
    again = pickle.loads(pickle.dumps(model))
    assert again.predict_names(X).tolist() == found.tolist()
    assert not hasattr(clone(model), "category_names_")


@pytest.mark.parametrize(
    "labels",
    [
        with_gaps(""),
        with_gaps(float("nan")),
        pd.Series(with_gaps(None), dtype="string"),
        pd.Series(with_gaps(None), dtype="category"),
        np.array(with_gaps(None), dtype=object),
        np.array(with_gaps("")),
    ],
    ids=["blank", "NaN", "string", "category", "object", "text"],
)
def test_every_way_to_write_names_gives_the_same(labels: Any) -> None:
    expected = SemiSupervisedKMeans(6, random_state=0).fit(X, with_gaps(None))
    model = SemiSupervisedKMeans(6, random_state=0).fit(X, labels)
    assert np.array_equal(model.labels_, expected.labels_)
    assert model.category_names_ == expected.category_names_
    assert np.array_equal(SemiSupervisedKMeans(6, random_state=0).fit_predict(X, labels), expected.labels_)


def test_integers_with_gaps_are_ids_and_keep_their_value() -> None:
    labels = np.where(GIVEN, TRUTH + 5.0, np.nan)
    model = SemiSupervisedKMeans(5, random_state=0).fit(X, labels)
    assert model.known_categories_.tolist() == [5, 6, 7]
    assert model.category_names_ == {5: "5", 6: "6", 7: "7", 8: "new-1", 9: "new-2"}


def test_samples_left_open_have_no_name() -> None:
    model = SemiSupervisedKMeans(6, random_state=0).fit(X, with_gaps(None))
    categories, names = model.predict(X, reject=0.9), model.predict_names(X, reject=0.9)
    assert 0 < np.sum(categories == -1) < 200
    assert np.array_equal(categories == -1, names == None)  # noqa: E711 - of every entry


def test_a_new_fit_forgets_the_names_of_before() -> None:
    model = SemiSupervisedKMeans(6, random_state=0).fit(X, with_gaps(None))
    model.fit(X, np.where(GIVEN, TRUTH, -1))
    assert model.category_names_[0] == "0"
    assert "zero" not in model.predict_names(X)


def test_no_discovered_category_has_the_name_of_a_known_one() -> None:
    model = SemiSupervisedKMeans(4, random_state=0).fit(np.eye(4), ["new-1", None, None, None])
    assert list(model.category_names_.values()) == ["new-1", "discovered-1", "discovered-2", "discovered-3"]


def test_numbers_of_categories_are_estimated_with_names_too() -> None:
    labels = np.where(GIVEN, TRUTH, -1)
    by_id, by_name = (
        estimate_n_categories(X, y, "max-acc-kmeans", (3, 8), random_state=0) for y in (labels, with_gaps(None))
    )
    assert by_id.curve == by_name.curve


def test_a_method_that_is_not_there_or_lacks_a_parameter() -> None:
    with pytest.raises(InputError, match=r"there is no method 'magic'; the methods are .*pim"):
        make_method("magic")
    with pytest.raises(InputError, match="the method kmeans has no option lam"):
        make_method("kmeans", lam=0.3)


# Scores


def test_the_score_is_the_accuracy_of_the_labelled_samples(name: str) -> None:
    model = make(name, n_categories=6).fit(X, with_gaps(None))
    expected = accuracy(TRUTH, model.predict(X), known=[0, 1, 2]).all
    assert model.score(X, NAMES) == model.score(X, TRUTH) == pytest.approx(expected)
    part = accuracy(TRUTH[GIVEN], model.predict(X)[GIVEN], known=[0, 1, 2]).all
    assert model.score(X, with_gaps(None)) == pytest.approx(part)


def test_without_a_label_there_is_nothing_to_score_by() -> None:
    model = KMeans(3, random_state=0).fit(X)
    with pytest.raises(InputError, match="no sample in y is labelled"):
        model.score(X, np.full(200, -1))
    with pytest.raises(InputError, match="200 samples but 3 labels"):
        model.score(X, [0, 1, 2])


def test_scikit_learn_searches_parameters_and_validates() -> None:
    folds = KFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(SemiSupervisedKMeans(random_state=0), {"n_categories": [3, 10, 60]}, cv=folds)
    search.fit(X, with_gaps(None))
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert scores[2] < scores[:2].max()  # 60 categories tear the known ones apart
    assert search.best_estimator_.category_names_[0] == "one"
    assert search.score(X[GIVEN], NAMES[GIVEN]) > 0.8
    pipeline = make_pipeline(StandardScaler(), SemiSupervisedKMeans(10, random_state=0))
    assert cross_val_score(pipeline, X, with_gaps(None), cv=folds).min() > 0.5
    assert pipeline.fit(X, with_gaps(None)).score(X, NAMES) > 0.5


# Sparse matrices


WORDS = {
    "card": "card lost stolen bank",
    "rate": "exchange rate euro dollar",
    "code": "password forgot login reset",
}


def tf_idf() -> tuple[Any, list[str | None]]:
    rng = np.random.default_rng(0)
    texts, labels = [], []
    for label, words in WORDS.items():
        for i in range(20):
            texts.append(" ".join(rng.permutation(words.split())[:3]))
            labels.append(label if i % 2 and label != "code" else None)
    return TfidfVectorizer().fit_transform(texts), labels


@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.csr_array, scipy.sparse.coo_array])
def test_sparse_matrices_are_taken(name: str, kind: Any) -> None:
    features, labels = tf_idf()
    model = make(name, n_categories=3).fit(kind(features), labels)
    expected = make(name, n_categories=3).fit(features.toarray(), labels)
    assert np.array_equal(model.labels_, expected.labels_)
    assert np.array_equal(model.predict(kind(features)), expected.predict(features.toarray()))


def test_texts_by_tf_idf_with_and_without_fewer_features() -> None:
    features, labels = tf_idf()
    truth = np.repeat(list(WORDS), 20)
    for X in (features, TruncatedSVD(3, random_state=0).fit_transform(features)):
        assert SemiSupervisedKMeans(3, random_state=0).fit(X, labels).score(X, truth) == 1


def test_a_text_without_any_known_word_is_named() -> None:
    features, labels = tf_idf()
    dense = features.toarray()
    dense[[4, 7]] = 0
    with pytest.raises(InputError, match=r"row 4 of the sparse matrix has no entry \(and 1 more such\)"):
        SemiSupervisedKMeans(3, random_state=0).fit(scipy.sparse.csr_array(dense), labels)


def test_a_sparse_matrix_that_does_not_fit_into_memory_is_refused_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("newkinds.runtime.available_memory", lambda: 10**6)
    huge = scipy.sparse.eye_array(10**6, format="csr")
    with pytest.raises(InputError, match=r"1,000,000 × 1,000,000.*8,000.0 GB.*TruncatedSVD"):
        SemiSupervisedKMeans(3).fit(huge)


# Raw samples


@pytest.mark.parametrize(
    ("samples", "kind"),
    [
        (["where is my order?"], "texts"),
        (np.array(["where is my order?"]), "texts"),
        (pd.Series(["where is my order?"]), "texts"),
        ([Path("owl.png")], "images"),
        (np.zeros((2, 4, 4, 3), dtype=np.uint8), "images"),
    ],
)
def test_a_model_of_features_says_that_it_takes_features(samples: Any, kind: str) -> None:
    model = KMeans(3, random_state=0).fit(X)
    with pytest.raises(InputError, match=f"X holds {kind}, and this model takes features: newkinds.encode"):
        model.predict(samples)
    with pytest.raises(InputError, match=f"X holds {kind}"):
        KMeans(3).fit(samples)
