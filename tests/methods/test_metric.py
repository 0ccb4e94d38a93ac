"""PIM in a metric: what is asked for is done, saved, and applied to new samples."""

from pathlib import Path

import numpy as np
import pytest

from newkinds import PIM, InputError
from newkinds.methods.base import METRIC_ARRAYS
from newkinds.metrics import accuracy
from newkinds.selection.efforts import EFFORTS
from newkinds.selection.problem import Problem
from newkinds.selection.rehearsal import Rehearsal, draw_rehearsals

Collection = tuple[np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def long_categories() -> Collection:
    """Eight categories, all long in the same four directions; half of the samples of five are labelled."""
    rng = np.random.default_rng(0)
    truth = np.arange(640) % 8
    X = 0.6 * np.eye(8, 16)[truth] + rng.normal(size=(640, 16)) * ([0.1] * 8 + [0.5] * 4 + [0.05] * 4)
    return X, np.where((truth < 5) & (rng.random(640) < 0.5), truth, -1), truth


@pytest.fixture(scope="module")
def refined(long_categories: Collection) -> PIM:
    X, y, _ = long_categories
    return PIM(8, random_state=0).fit(X, y)


def all_accuracy(model: PIM, collection: Collection) -> float:
    X, y, truth = collection
    return accuracy(truth[y < 0], model.predict(X)[y < 0], np.arange(5)).all


def test_the_default_learns_a_metric(refined: PIM, long_categories: Collection) -> None:
    X, y, _ = long_categories
    plain = PIM(8, metric="cosine", random_state=0).fit(X, y)
    assert (refined.metric_, plain.metric_) == ("self", "cosine")
    assert plain.metric_map_ is None
    assert refined.metric_map_ is not None
    assert refined.rehearsal_.chosen.metric == "self"
    assert {setting.metric for setting in plain.rehearsal_.settings} == {"cosine"}
    assert all_accuracy(refined, long_categories) > 0.98
    assert refined.n_features_in_ == 16


@pytest.mark.parametrize("metric", ["within", "self"])
@pytest.mark.parametrize("consensus", [1, 3])
def test_a_metric_can_be_asked_for_beside_given_settings(
    metric: str, consensus: int, long_categories: Collection
) -> None:
    X, y, _ = long_categories
    model = PIM(8, lam=0.1, temperature=30.0, metric=metric, consensus=consensus, random_state=0).fit(X, y)
    assert (model.metric_, model.lam_, model.temperature_, model.rehearsal_) == (metric, 0.1, 30.0, None)
    plain = PIM(8, lam=0.1, temperature=30.0, consensus=consensus, random_state=0).fit(X, y)
    assert plain.metric_ == "cosine"
    if metric == "within":  # by the cosine alone, two categories are mixed at these settings
        assert all_accuracy(model, long_categories) > all_accuracy(plain, long_categories) + 0.1


def test_given_prototypes_start_the_training_before_the_metric(long_categories: Collection) -> None:
    X, y, truth = long_categories
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    start = np.array([unit[truth == c].mean(axis=0) for c in range(8)])
    model = PIM(8, init=start, lam=0.1, metric="self", random_state=0).fit(X, y)
    assert model.metric_ == "self"
    assert all_accuracy(model, long_categories) > 0.98


def test_the_paper_and_the_release_stay_with_the_cosine(long_categories: Collection) -> None:
    X, y, _ = long_categories
    for make in (PIM.paper, PIM.release):
        assert make(8, max_iter=3, random_state=0).fit(X, y).metric_ == "cosine"
    model = PIM(8, lam="labelled", max_iter=3, random_state=0).fit(X, y)
    assert (model.metric_, model.metric_map_) == ("cosine", None)


def test_an_unknown_metric_is_refused(long_categories: Collection) -> None:
    with pytest.raises(InputError, match="'metric' parameter of PIM must be a str among"):
        PIM(8, metric="euclid").fit(*long_categories[:2])


def test_a_saved_metric_is_applied_again(refined: PIM, long_categories: Collection, tmp_path: Path) -> None:
    X = long_categories[0]
    arrays = refined.fitted_arrays()
    again = PIM().restore(arrays)
    assert again.n_features_in_ == 16
    assert np.array_equal(again.predict_proba(X), refined.predict_proba(X))
    one_by_one = np.concatenate([refined.predict_proba(row[None]) for row in X[:20]])
    np.testing.assert_allclose(one_by_one, refined.predict_proba(X[:20]), atol=1e-12)
    centre, matrix = METRIC_ARRAYS
    with pytest.raises(InputError, match="lacks a part of its metric"):
        PIM().restore({name: array for name, array in arrays.items() if name != centre})
    with pytest.raises(InputError, match="matrix of the metric should be 16 × 16 numbers"):
        PIM().restore({**arrays, matrix: arrays[matrix][:, :-1]})
    with pytest.raises(InputError, match="centre of the metric should be finite"):
        PIM().restore({**arrays, centre: np.full(16, np.nan)})


def test_features_in_a_memory_map_give_the_same(
    refined: PIM, long_categories: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, _ = long_categories
    monkeypatch.setattr("newkinds.engine.samples.RESIDENT_BYTES", 0)
    streamed = PIM(8, random_state=0).fit(X, y)
    assert streamed.metric_ == "self"
    assert (streamed.labels_ == refined.labels_).mean() > 0.99


def test_effort_decides_how_much_is_tried(refined: PIM, long_categories: Collection) -> None:
    X, y, _ = long_categories
    quick = PIM(8, effort="quick", random_state=0).fit(X, y)
    assert quick.stability_ is None  # no consensus
    assert len(quick.rehearsal_.scores) <= 2 < len(refined.rehearsal_.scores)
    assert refined.stability_ is not None
    with pytest.raises(InputError, match="'effort' parameter of PIM must be a str among"):
        PIM(8, effort="more").fit(X, y)


def test_effort_decides_how_many_rehearsals_count(
    long_categories: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []

    def recording(problem: Problem, n: int) -> list[Rehearsal]:
        drawn.append(n)
        return draw_rehearsals(problem, n)

    monkeypatch.setattr("newkinds.selection.counting.draw_rehearsals", recording)
    for effort in EFFORTS:
        PIM(effort=effort, lam=0.1, max_iter=3, random_state=0).fit(*long_categories[:2])
    assert drawn == [effort.counting_rehearsals for effort in EFFORTS.values()]
    assert drawn == sorted(set(drawn))
