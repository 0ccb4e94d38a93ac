"""PIM, RIM and TIM: the choice of lam, the recipes, the starts."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from newkinds import PIM, RIM, TIM, InputError, SemiSupervisedKMeans
from newkinds.data import digits
from newkinds.engine import Clustering, Partitioner, Run, Trained
from newkinds.labels import UNLABELLED
from newkinds.metrics import accuracy
from newkinds.objective import SELECTION, SELECTION_RELEASED
from newkinds.selection import rules, training
from newkinds.selection.consensus import Consensus, find_consensus
from newkinds.selection.problem import Problem
from newkinds.selection.recipes import PAPER_GRID, RECIPES, RELEASED_GRID
from newkinds.selection.training import Training


@pytest.fixture(scope="module")
def small() -> tuple[np.ndarray, np.ndarray]:
    source = digits()
    return source.features[:500], source.labels[:500]


def all_accuracy(model: PIM) -> float:
    source = digits()
    assert source.truth is not None
    unlabelled = source.labels == UNLABELLED
    return accuracy(source.truth[unlabelled], model.labels_[unlabelled], source.known).all


def test_pim_discovers_the_unnamed_digits_better_than_clustering() -> None:
    source = digits()
    pim = PIM(n_categories=10, lam=0.3, random_state=0).fit(source.features, source.labels)
    baseline = SemiSupervisedKMeans(n_categories=10, random_state=0).fit(source.features, source.labels)
    assert all_accuracy(pim) > 0.87
    assert all_accuracy(pim) > all_accuracy(baseline) + 0.05


def test_the_grids_are_the_published_ones() -> None:
    assert len(PAPER_GRID) == len(RELEASED_GRID) == 19
    assert (PAPER_GRID[0], PAPER_GRID[-1]) == (0.05, 1.0)
    np.testing.assert_allclose(np.diff(PAPER_GRID), 0.95 / 18)
    np.testing.assert_allclose(RELEASED_GRID, np.arange(0.10, 1.0001, 0.05))


def test_the_recipes_state_the_departures() -> None:
    paper, release, ours = RECIPES["paper"], RECIPES["release"], RECIPES["newkinds"]
    assert paper.selection == ours.selection == SELECTION
    assert release.selection == SELECTION_RELEASED
    assert (paper.selection_start, release.selection_start, ours.selection_start) == (
        "kmeans++",
        "kmeans",
        "kmeans",
    )
    assert (paper.cumulative, release.cumulative, ours.cumulative) == (False, True, False)
    assert release.lam_warm_up == (0.05,)
    assert (release.n_init, release.inertia) == (100, "nearest")
    assert (release.seeding, release.selection_seeding) == ("d2", "greedy")


def test_paper_and_release_are_ordinary_parameters() -> None:
    assert PIM.paper(7, random_state=3).get_params() == PIM(7, recipe="paper", random_state=3).get_params()
    assert clone(PIM.release(7)).recipe == "release"
    with pytest.raises(ValueError, match="'recipe' parameter"):
        PIM(4, recipe="mine").fit(np.eye(4), [0, -1, -1, -1])


def test_lam_is_the_first_best_of_the_curve(small: tuple[np.ndarray, np.ndarray]) -> None:
    model = PIM(10, lam="labelled", lam_grid=[0.1, 0.3, 0.9], max_iter=60, random_state=0).fit(*small)
    assert list(model.lam_curve_) == [0.1, 0.3, 0.9]
    best = max(model.lam_curve_.values())
    assert model.lam_ == next(lam for lam, score in model.lam_curve_.items() if score == best)


def test_a_given_lam_is_used_as_it_is(small: tuple[np.ndarray, np.ndarray]) -> None:
    model = PIM(10, lam=0.42, max_iter=20, random_state=0).fit(*small)
    assert model.lam_ == 0.42
    assert model.lam_curve_ is None


def test_the_choice_of_lam_does_not_change_the_start(small: tuple[np.ndarray, np.ndarray]) -> None:
    chosen = PIM(10, lam="labelled", lam_grid=[0.3], max_iter=20, random_state=0).fit(*small)
    given = PIM(10, lam=0.3, max_iter=20, random_state=0).fit(*small)
    assert np.array_equal(chosen.weights_, given.weights_)


def test_the_release_sweeps_lam_cumulatively(small: tuple[np.ndarray, np.ndarray]) -> None:
    """Each lam goes on from the one before, so what was swept earlier changes what comes later."""
    X, y = small
    settings: dict[str, Any] = {"max_iter": 60, "n_init": 2, "random_state": 0}
    long = PIM.release(10, lam_grid=[0.1, 0.5, 0.5000001], **settings).fit(X, y)
    independent = PIM(10, lam="labelled", lam_grid=[0.1, 0.5, 0.5000001], **settings).fit(X, y)
    assert independent.lam_curve_[0.5] == independent.lam_curve_[0.5000001]
    assert long.lam_curve_[0.5] != long.lam_curve_[0.5000001]
    assert list(long.lam_curve_.values()) != list(independent.lam_curve_.values())


def test_prototypes_are_taken_as_the_start(small: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = small
    prototypes = np.random.default_rng(0).normal(size=(10, 64)).astype(np.float32)
    model = PIM(init=prototypes, lam=0.3, max_iter=1, random_state=0).fit(X, y)
    assert model.n_categories_ == 10
    order = [np.lexsort(rows.T) for rows in (model.weights_, prototypes)]
    np.testing.assert_allclose(model.weights_[order[0]], prototypes[order[1]], atol=1e-4)
    np.testing.assert_allclose(model.weights_[:5], prototypes[:5], atol=1e-5)  # known ones keep their order


@pytest.mark.parametrize(
    ("prototypes", "n_categories", "message"),
    [
        (np.ones((10, 3)), 10, r"\(10, 64\); got shape \(10, 3\)"),
        (np.full((10, 64), np.nan), 10, "must be finite; it holds NaN"),
        (np.ones((4, 64)), "auto", "n_categories=4 is fewer than the 5 categories"),
    ],
)
def test_unfit_prototypes_are_refused(
    small: tuple[np.ndarray, np.ndarray], prototypes: np.ndarray, n_categories: int, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        PIM(n_categories, init=prototypes, lam=0.3, max_iter=1).fit(*small)


@pytest.mark.parametrize("init", ["sskm", "sskm++", "ssrandom"])
@pytest.mark.parametrize("method", [PIM, RIM, TIM])
def test_every_start_by_name(small: tuple[np.ndarray, np.ndarray], method: type[RIM], init: str) -> None:
    model = method(10, init=init, lam=0.3, max_iter=20, random_state=0).fit(*small)
    assert model.n_categories_ == 10
    assert np.isfinite(model.weights_).all()
    assert len(model.objective_curve_) == 20


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"lam": -0.1}, "'lam' parameter"),
        ({"lam": "guess"}, "'lam' parameter"),
        ({"lam_grid": []}, "lam_grid must be a non-empty sequence"),
        ({"lam_grid": [0.1, -1]}, "lam_grid must be a non-empty sequence"),
        ({"lam_grid": ["a"]}, "lam_grid must be a non-empty sequence"),
        ({"init": "kmeans"}, "'init' parameter"),
        ({"learning_rate": 0}, "'learning_rate' parameter"),
        ({"temperature": "hot"}, "'temperature' parameter"),
    ],
)
def test_unfit_parameters_are_named(
    small: tuple[np.ndarray, np.ndarray], parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        PIM(10, **parameters).fit(*small)


@pytest.mark.filterwarnings("ignore:PIM. no sample is labelled")  # the errors are what is looked at
def test_a_named_rule_is_never_replaced_by_another(small: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(InputError, match="rule 'labelled' needs 1 or more known categories, and there are 0"):
        PIM(10, lam="labelled", max_iter=5).fit(small[0])
    with pytest.raises(InputError, match="max-acc-pim scores by the labelled samples, and there are none"):
        PIM("max-acc-pim", lam=0.3, max_iter=5).fit(small[0])


def test_arrays_as_parameters_survive_clone_and_any_memory_layout(small: tuple[np.ndarray, np.ndarray]) -> None:
    prototypes = np.random.default_rng(0).normal(size=(64, 10)).astype(np.float32)
    upside_down = prototypes.T[::-1]
    upside_down.flags.writeable = False
    model = clone(
        PIM(init=upside_down, lam="labelled", lam_grid=np.array([0.3, 0.3, 0.5]), max_iter=3, random_state=0)
    )
    model.fit(*small)
    assert list(model.lam_curve_) == [0.3, 0.5]
    settings: dict[str, Any] = {"lam": "labelled", "lam_grid": [0.3, 0.5], "max_iter": 3, "random_state": 0}
    plain = PIM(init=np.ascontiguousarray(upside_down), **settings).fit(*small)
    assert np.array_equal(model.weights_, plain.weights_)


def test_rim_and_tim_take_no_rule_for_lam(small: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="'lam' parameter"):
        RIM(10, lam="labelled").fit(*small)  # type: ignore[arg-type]  # which is the point


def test_the_cautious_rule_takes_the_first_lam_that_is_not_distinguishably_worse(
    small: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """450 of 500 right is 90 %, and its standard error 1.3 %; the published rule takes the very best."""
    curve = {0.1: 0.880, 0.2: 0.888, 0.3: 0.900, 0.4: 0.895}
    monkeypatch.setattr(rules, "labelled_curve", lambda *_: curve)
    error = np.sqrt(0.9 * 0.1 / int((small[1] >= 0).sum()))
    expected = next(lam for lam, score in curve.items() if score >= 0.9 - error)
    settings: dict[str, Any] = {"max_iter": 2, "random_state": 0, "consensus": 1}
    assert PIM(10, lam="cautious", **settings).fit(*small).lam_ == expected < 0.3
    assert PIM(10, lam="labelled", **settings).fit(*small).lam_ == 0.3
    assert PIM.paper(10, **settings).fit(*small).lam_ == 0.3


def test_a_start_in_an_array_needs_no_consensus(small: tuple[np.ndarray, np.ndarray]) -> None:
    prototypes = np.random.default_rng(0).normal(size=(10, 64)).astype(np.float32)
    settings: dict[str, Any] = {"init": prototypes, "lam": 0.3, "max_iter": 3, "random_state": 0}
    joined, single = PIM(consensus=4, **settings).fit(*small), PIM(consensus=1, **settings).fit(*small)
    assert np.array_equal(joined.weights_, single.weights_)


def test_the_consensus_is_led_by_the_training_that_got_farthest(
    small: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader's categories are those that the others are matched to."""
    values: list[np.ndarray] = []
    leaders: list[np.ndarray] = []
    trained_runs: list[np.ndarray] = []
    tolerances: dict[str, float] = {}
    train = Training.train

    def watch_training(self: Training, problem: Problem, runs: list[Run], stage: str) -> Trained:
        trained = train(self, problem, runs, stage)
        tolerances[stage] = self.tolerance
        if stage == "consensus":
            values.append(np.array([trained.curve(r)[-1] for r in range(len(runs))]))
            trained_runs.extend(partitioner.weights for partitioner in trained.partitioners)
        return trained

    def watch_leader(problem: Problem, partitioners: list[Partitioner]) -> Consensus:
        leaders.extend(partitioner.weights for partitioner in partitioners)
        return find_consensus(problem, partitioners)

    monkeypatch.setattr(Training, "train", watch_training)
    monkeypatch.setattr("newkinds.methods.pim.find_consensus", watch_leader)
    PIM(10, lam=0.3, consensus=5, max_iter=15, random_state=0).fit(*small)
    order = np.argsort(values[0])
    assert len(set(values[0])) == 5  # so that the order says something
    assert all(np.array_equal(leaders[i], trained_runs[order[i]]) for i in range(5))
    assert tolerances == {"consensus": 2e-4, "partitioning": 2e-5}  # what is only a start need not converge


@pytest.mark.parametrize(
    ("model", "restarts"),
    [(PIM(10, lam="labelled"), 3), (PIM(10, lam="labelled", n_init=2), 2), (PIM.release(10, n_init=12), 10)],
)
def test_the_k_means_of_g_has_the_restarts_of_the_recipe(
    small: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch, model: PIM, restarts: int
) -> None:
    asked: list[int] = []
    original = training.cluster

    def watch(problem: Problem, n_categories: int, **options: Any) -> Clustering:
        if options["labels"] is None:
            asked.append(options["n_init"])
        return original(problem, n_categories, **options)

    monkeypatch.setattr(training, "cluster", watch)
    model.set_params(lam_grid=[0.3], max_iter=1, consensus=1, random_state=0).fit(*small)
    assert asked == [restarts]


def test_of_categories_of_equal_size_that_of_the_earlier_sample_comes_first() -> None:
    """Three samples each of four directions, the known one last; the first sample of each says which id it gets."""
    order = [3, 1, 2, 1, 3, 2, 0, 0, 0, 2, 1, 3]
    X = np.eye(4)[order] + 1e-3
    y = np.where(np.array(order) == 0, 7, UNLABELLED)
    for method in (PIM(4, lam=0.3, random_state=0), SemiSupervisedKMeans(4, random_state=0)):
        assert method.fit(X, y).labels_.tolist() == [{0: 7, 3: 8, 1: 9, 2: 10}[c] for c in order]
