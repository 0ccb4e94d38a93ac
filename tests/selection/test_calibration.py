"""Probabilities that mean what they say."""

import numpy as np
import pytest
from scipy.special import logit, softmax

from newkinds import PIM, InputError
from newkinds.engine import Partitioner
from newkinds.labels import UNLABELLED
from newkinds.selection.calibration import Calibration, Experience, _own_columns
from newkinds.selection.problem import Problem, make_problem
from newkinds.selection.rehearsal import Rehearsal, Trial

RAW = np.linspace(0.02, 0.98, 25)


def test_by_default_nothing_is_changed() -> None:
    raw = np.array([0.0, 1e-12, 0.3, 1.0])
    assert np.array_equal(Calibration().novelty(raw), raw)
    assert np.array_equal(Calibration().at_share(0.9).novelty(raw), raw)
    assert Calibration().at_share(0.9).sharpness == 1


def test_another_share_moves_the_odds_by_the_ratio_of_the_prior_odds() -> None:
    before = Calibration(sharpness=0.7, slope=1.3, intercept=-0.4, share_new=0.25)
    after = before.at_share(0.6)
    odds = [p / (1 - p) for p in (before.novelty(RAW), after.novelty(RAW))]
    np.testing.assert_allclose(odds[1] / odds[0], (0.6 / 0.4) / (0.25 / 0.75))
    assert (after.sharpness, after.slope, after.share_new) == (0.7, 1.3, 0.6)
    np.testing.assert_allclose(after.at_share(0.25).novelty(RAW), before.novelty(RAW))


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_share_of_none_or_all_leaves_doubt(share: float) -> None:
    novelty = Calibration(slope=0.5, share_new=0.3).at_share(share).novelty(RAW)
    assert ((novelty > 0) & (novelty < 1)).all()


@pytest.mark.parametrize(("slope", "intercept"), [(1.0, -2.0), (0.3, 0.0), (2.5, 1.0)])
def test_novelty_rises_with_the_probability_of_new_categories(slope: float, intercept: float) -> None:
    calibration = Calibration(slope=slope, intercept=intercept)
    novelty = calibration.novelty(RAW)
    assert (np.diff(novelty) > 0).all()
    np.testing.assert_allclose(logit(novelty), slope * logit(RAW) + intercept)
    ends = calibration.novelty(np.array([0.0, 1.0]))
    assert 0 <= ends[0] < novelty[0]
    assert novelty[-1] < ends[1] <= 1


def sampled(temperature: float, n: int = 3000, n_categories: int = 5, seed: int = 0) -> tuple[Problem, Rehearsal]:
    """Samples whose truth was drawn from a softmax at this temperature; categories 3 and 4 were hidden whole."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    p = softmax(temperature * X[:, :n_categories], axis=1)
    truth = (rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(0, n_categories - 1)
    problem = make_problem(X, truth, device="cpu", random_state=0)
    return problem, Rehearsal(np.full(n, UNLABELLED), np.ones(n, dtype=bool), truth, n_kept=3)


WEIGHTS = np.eye(5, 6, dtype=np.float32)


@pytest.mark.parametrize("factor", [0.4, 0.7, 1.0, 1.6, 2.5])
def test_sharpness_makes_up_for_too_much_or_too_little_confidence(factor: float) -> None:
    problem, rehearsal = sampled(6.0)
    calibration = Experience.of([Trial(rehearsal, problem, Partitioner(WEIGHTS, 6.0 / factor))]).calibration()
    assert calibration.sharpness == pytest.approx(factor, rel=0.1)
    if factor != 1:
        assert (calibration.sharpness < 1) == (factor < 1)  # 6 / factor is too high, the model too sure


def test_what_is_true_already_is_left_alone() -> None:
    problem, rehearsal = sampled(6.0)
    calibration = Experience.of([Trial(rehearsal, problem, Partitioner(WEIGHTS, 6.0))]).calibration()
    assert calibration.slope == pytest.approx(1, rel=0.15)
    assert calibration.intercept == pytest.approx(0, abs=0.15)
    assert calibration.share_new == np.mean(rehearsal.truth >= 3)


def test_of_very_many_categories_fewer_samples_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their probabilities would not fit into memory."""
    problem, rehearsal = sampled(6.0)
    n_rows = []
    whole = Partitioner.log_probabilities

    def recording(partitioner: Partitioner, features: np.ndarray) -> np.ndarray:
        n_rows.append(len(features))
        return whole(partitioner, features)

    monkeypatch.setattr(Partitioner, "log_probabilities", recording)
    monkeypatch.setattr("newkinds.selection.calibration.CALIBRATED_ELEMENTS", 500)
    Experience.of([Trial(rehearsal, problem, Partitioner(WEIGHTS, 6.0))]).calibration()
    assert n_rows == [500 // len(WEIGHTS)]


def raw_novelty(problem: Problem, temperature: float, weights: np.ndarray, n_kept: int) -> np.ndarray:
    features = problem.samples.take(np.arange(len(problem.columns))).numpy()
    return np.exp(Partitioner(weights, temperature).log_probabilities(features))[:, n_kept:].sum(axis=1)


def test_novelty_is_how_often_a_sample_is_new() -> None:
    """Of samples with a novelty near 0.3, 30 % are new: for a model five times too sure, seen in two rehearsals."""
    seen = [sampled(4.0, seed=seed) for seed in (0, 1)]
    problem, first = seen[0]
    model = Partitioner(WEIGHTS, 20.0)
    calibration = Experience.of([Trial(first, problem, model)]).calibration()
    checked, truth = seen[1][0], seen[1][1].truth
    novelty = calibration.novelty(raw_novelty(checked, 20.0 * calibration.sharpness, WEIGHTS, 3))
    is_new = truth >= 3
    assert novelty.mean() == pytest.approx(is_new.mean(), abs=0.03)
    for least, most in ((0.0, 0.3), (0.3, 0.5), (0.5, 0.7), (0.7, 1.0)):
        those = (novelty >= least) & (novelty < most)
        assert those.sum() > 50
        assert novelty[those].mean() == pytest.approx(is_new[those].mean(), abs=0.08)


def test_how_new_categories_are_numbered_does_not_matter() -> None:
    problem, rehearsal = sampled(6.0)
    plain = Experience.of([Trial(rehearsal, problem, Partitioner(WEIGHTS, 10.0))]).calibration()
    other = Experience.of([Trial(rehearsal, problem, Partitioner(WEIGHTS[[0, 1, 2, 4, 3]], 10.0))]).calibration()
    assert other.sharpness == pytest.approx(plain.sharpness)
    assert (other.slope, other.intercept) == pytest.approx((plain.slope, plain.intercept), abs=1e-3)


def test_a_category_that_kept_labels_has_its_own_column_wherever_its_samples_end() -> None:
    truth, predicted = np.array([0, 0, 1, 1, 2, 2, 3]), np.array([3, 3, 1, 3, 4, 4, 0])
    assert _own_columns(truth, predicted, n_kept=2).tolist() == [0, 0, 1, 1, 4, 4, -1]


def test_novelty_is_left_alone_where_only_whole_categories_were_hidden() -> None:
    """With one label each, no sample of a kept category is hidden: nothing says how known samples look."""
    problem, rehearsal = sampled(6.0)
    hidden = rehearsal.truth >= 3
    only_new = Rehearsal(np.where(hidden, UNLABELLED, rehearsal.truth), hidden, rehearsal.truth[hidden], n_kept=3)
    calibration = Experience.of([Trial(only_new, problem, Partitioner(WEIGHTS, 6.0))]).calibration()
    np.testing.assert_allclose(calibration.at_share(0.5).novelty(RAW), RAW)


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    truth = np.arange(240) % 6
    X = np.eye(6, 10)[truth] + 0.3 * rng.normal(size=(240, 10))
    return X, np.where((truth < 4) & (rng.random(240) < 0.5), truth + 2, UNLABELLED)


@pytest.fixture(scope="module")
def model(data: tuple[np.ndarray, np.ndarray]) -> PIM:
    return PIM(n_categories=6, random_state=0).fit(*data)


@pytest.fixture(scope="module")
def unseen() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(300, 10))


def test_probabilities_are_probabilities_and_the_largest_is_predicted(model: PIM, unseen: np.ndarray) -> None:
    p = model.predict_proba(unseen)
    assert p.shape == (300, 6)
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert np.array_equal(model.categories_[p.argmax(axis=1)], model.predict(unseen))
    novelty = model.novelty(unseen)
    assert ((novelty >= 0) & (novelty <= 1)).all()


def test_a_default_fit_is_calibrated_for_its_own_share_of_new_samples(
    model: PIM, data: tuple[np.ndarray, np.ndarray]
) -> None:
    unlabelled = data[1] == UNLABELLED
    new = ~np.isin(model.labels_[unlabelled], model.known_categories_)
    assert model.calibration_ != Calibration()
    assert model.calibration_.share_new == pytest.approx(new.mean())


def test_probabilities_are_sharpened_and_novelty_is_corrected(model: PIM, unseen: np.ndarray) -> None:
    cosines = model._unit(unseen) @ model.weights_.T
    p = softmax(model.calibration_.sharpness * model.temperature_ * cosines, axis=1)
    assert model.calibration_.sharpness != pytest.approx(1, abs=0.02)
    np.testing.assert_allclose(model.predict_proba(unseen), p, atol=1e-4)
    np.testing.assert_allclose(
        model.novelty(unseen), model.calibration_.novelty(model.predict_proba(unseen)[:, 4:].sum(axis=1))
    )


def test_sharpness_does_not_change_what_is_predicted(model: PIM, unseen: np.ndarray) -> None:
    by_partitioner = model.categories_[model.partitioner_.assign(model._unit(unseen))]
    assert np.array_equal(by_partitioner, model.predict(unseen))


def test_samples_are_rejected_exactly_where_confidence_is_less(model: PIM, unseen: np.ndarray) -> None:
    confidence = model.predict_proba(unseen).max(axis=1)
    ordered = np.sort(confidence)
    plain = model.predict(unseen)
    for at in (30, 150, 270):
        threshold = (ordered[at - 1] + ordered[at]) / 2
        predicted = model.predict(unseen, reject=threshold)
        assert np.array_equal(predicted == UNLABELLED, confidence < threshold)
        assert (predicted == UNLABELLED).sum() == at
        assert np.array_equal(predicted[confidence >= threshold], plain[confidence >= threshold])
    assert np.array_equal(model.predict(unseen, reject=0), plain)
    assessed = model.assess(unseen)
    kept = model.predict(unseen, reject=float(assessed.confidence[0]))
    assert kept[0] == plain[0]  # as sure as it should be


@pytest.mark.parametrize("reject", [-0.01, 1.01, float("nan"), 50])
def test_what_is_no_probability_cannot_be_a_threshold(model: PIM, unseen: np.ndarray, reject: float) -> None:
    with pytest.raises(InputError, match="reject is a probability"):
        model.predict(unseen, reject=reject)


def test_a_restored_model_is_as_sure_as_before(model: PIM, unseen: np.ndarray) -> None:
    again = PIM().restore(model.fitted_arrays())
    assert again.calibration_ == model.calibration_
    assert np.array_equal(again.predict_proba(unseen), model.predict_proba(unseen))
    assert np.array_equal(again.novelty(unseen), model.novelty(unseen))


def test_a_model_saved_without_calibration_is_taken_at_its_word(model: PIM, unseen: np.ndarray) -> None:
    arrays = model.fitted_arrays()
    del arrays["calibration"]
    old = PIM().restore(arrays)
    assert old.calibration_ == Calibration()
    p = old.predict_proba(unseen)
    np.testing.assert_allclose(old.novelty(unseen), p[:, 4:].sum(axis=1))
    logits = old.temperature_ * old._unit(unseen) @ old.weights_.T
    np.testing.assert_allclose(p, softmax(logits, axis=1), atol=1e-5)


def test_a_fit_without_rehearsal_is_not_calibrated(data: tuple[np.ndarray, np.ndarray]) -> None:
    model = PIM(6, lam=0.1, max_iter=5, consensus=1, random_state=0).fit(*data)
    assert model.calibration_ == Calibration()
    np.testing.assert_allclose(model.novelty(data[0]), model.predict_proba(data[0])[:, 4:].sum(axis=1))
