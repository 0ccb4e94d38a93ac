"""The searches for the number of categories."""

from typing import Any

import numpy as np
import pytest

from newkinds import PIM, InputError, KMeans, estimate_n_categories
from newkinds.data import digits
from newkinds.engine import Run, Trained, optimise, seed_centroids
from newkinds.methods import CategoryDiscoverer
from newkinds.names import CountRule, RecipeName
from newkinds.objective import SELECTION, Objective
from newkinds.selection.n_categories import maximise_over_integers
from newkinds.selection.problem import Problem, make_problem
from newkinds.selection.training import Training


def blobs(n_categories: int, known: int, seed: int = 0, spread: float = 0.15) -> tuple[np.ndarray, np.ndarray]:
    """Tight bundles of directions, half of the samples of the first `known` labelled."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_categories, 16))
    truth = np.repeat(np.arange(n_categories), 20)
    X = centres[truth] + spread * rng.normal(size=(len(truth), 16))
    return X, np.where((truth < known) & (np.arange(len(truth)) % 2 == 0), truth, -1)


@pytest.mark.parametrize(("peak", "lower", "upper"), [(37, 10, 1000), (10, 10, 200), (200, 10, 200), (5, 5, 5)])
def test_brent_finds_the_peak_and_tries_no_integer_twice(peak: int, lower: int, upper: int) -> None:
    calls: list[int] = []

    def score(k: int) -> float:
        calls.append(k)
        return -abs(k - peak)

    tried = maximise_over_integers(score, lower, upper)
    assert max(tried, key=lambda k: tried[k]) == peak
    assert len(calls) == len(set(calls)) <= 40
    assert all(lower <= k <= upper for k in calls)


@pytest.mark.parametrize("method", ["max-acc-kmeans", "max-acc-pim"])
def test_max_acc_finds_well_separated_categories(method: CountRule) -> None:
    X, y = blobs(8, known=5)
    found = estimate_n_categories(X, y, method, bounds=(5, 14), random_state=0)
    assert 5 <= found.n_categories <= 9
    assert found.curve[found.n_categories] == max(found.curve.values()) == 1.0
    assert found.bounds == (5, 14)
    assert list(found.curve) == sorted(found.curve)


def test_default_bounds_are_the_known_and_half_of_the_samples() -> None:
    X, y = blobs(4, known=2)
    assert estimate_n_categories(X, y, "max-acc-kmeans", random_state=0).bounds == (2, 40)


def test_the_curve_does_not_depend_on_the_bounds() -> None:
    source = digits()
    X, y = source.features[:300], source.labels[:300]
    curve = estimate_n_categories(X, y, "max-acc-kmeans", bounds=(5, 40), random_state=0).curve
    for k in list(curve)[:3]:
        alone = estimate_n_categories(X, y, "max-acc-kmeans", bounds=(k, k), random_state=0)
        assert alone.curve == {k: curve[k]}


def test_auto_uses_the_estimate() -> None:
    X, y = blobs(5, known=3)
    models: dict[str, CategoryDiscoverer] = {
        "rehearsal": PIM(lam=0.3, max_iter=30, random_state=0),
        "max-acc-pim": PIM.paper(lam=0.3, max_iter=30, solver="lbfgs", random_state=0),
        "max-acc-kmeans": KMeans("max-acc-kmeans", random_state=0),
    }
    for rule, model in models.items():
        search = model.fit(X, y).n_categories_search_
        assert search is not None
        assert search.method == rule
        assert model.n_categories_ == search.n_categories


def test_the_paper_counts_from_seeds_by_adam() -> None:
    X, y = blobs(5, known=3)
    found = estimate_n_categories(X, y, "max-acc-pim", (6, 6), recipe="paper", device="cpu", random_state=0)
    problem = make_problem(X, y, device="cpu", random_state=0)
    rng = np.random.RandomState(problem.rng.randint(2**31 - 1))
    seeds = seed_centroids(problem.samples, 6, seeding="d2", rng=rng)[0].cpu().numpy()
    runs = [Run(seeds, SELECTION.at(1.0))]
    trained = optimise(
        problem.samples, runs, labels=problem.columns, solver="adam", max_iter=500, weight_decay=0.01
    )
    assert found.curve == {6: problem.labelled_accuracy(trained.partitioners[0])}


def test_the_estimator_of_the_paper_counts_as_the_paper_does() -> None:
    X, y = blobs(5, known=3, spread=1.2)
    found = PIM.paper(lam=0.3, max_iter=5, device="cpu", random_state=0).fit(X, y).n_categories_search_
    assert found is not None
    curves = [
        estimate_n_categories(X, y, "max-acc-pim", recipe=recipe, device="cpu", random_state=0).curve
        for recipe in ("paper", "newkinds")
    ]
    assert found.curve == curves[0] != curves[1]


def test_a_recipe_counts_by_its_rule() -> None:
    X, y = blobs(5, known=3)
    recipes: tuple[RecipeName, ...] = ("paper", "release")
    for recipe in recipes:
        found = estimate_n_categories(X, y, None, (5, 5), recipe=recipe, device="cpu", random_state=0)
        assert found.method == "max-acc-pim"
    wrong: tuple[dict[str, Any], ...] = ({"recipe": "paper"}, {"solver": "adam"})
    for options in wrong:
        with pytest.raises(InputError, match="there is nothing to choose for max-acc-kmeans"):
            estimate_n_categories(X, y, "max-acc-kmeans", **options)


@pytest.mark.parametrize(("wrong", "says"), [({"recipe": "mine"}, "recipe"), ({"solver": "sgd"}, "solver")])
def test_what_is_unknown_is_refused(wrong: dict[str, Any], says: str) -> None:
    X, y = blobs(5, known=3)
    with pytest.raises(InputError, match=f"the {says} must be one of"):
        estimate_n_categories(X, y, "max-acc-pim", **wrong)


def test_a_given_number_needs_no_search() -> None:
    X, y = blobs(5, known=3)
    assert KMeans(5, random_state=0).fit(X, y).n_categories_search_ is None


def test_without_labels_the_silhouette_decides() -> None:
    X, _ = blobs(6, known=0)
    model = KMeans(random_state=0).fit(X)
    assert model.n_categories_search_ is not None
    assert model.n_categories_search_.method == "silhouette"
    assert model.n_categories_ == 6


def test_the_silhouette_of_many_categories_is_computed_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = blobs(4, 0)
    whole = estimate_n_categories(X, y, "silhouette", bounds=(2, 6), random_state=0)
    monkeypatch.setattr("newkinds.selection.n_categories.SILHOUETTE_ELEMENTS", 21)
    parts = estimate_n_categories(X, y, "silhouette", bounds=(2, 6), random_state=0)
    assert parts.curve == pytest.approx(whole.curve, rel=1e-4)


def test_the_silhouette_respects_what_is_known() -> None:
    X, y = blobs(6, known=4)
    found = estimate_n_categories(X, y, "silhouette", random_state=0)
    assert found.bounds == (4, 20)
    assert found.n_categories == 6


def test_the_smallest_of_equally_good_numbers_is_taken() -> None:
    X, y = blobs(3, known=1)
    found = estimate_n_categories(X, y, "max-acc-kmeans", bounds=(1, 3), random_state=0)
    best = max(found.curve.values())
    assert found.n_categories == min(k for k, score in found.curve.items() if score == best)


def test_a_result_at_the_bound_says_so() -> None:
    X, y = blobs(8, known=6)
    found = estimate_n_categories(X, y, "max-acc-kmeans", bounds=(6, 7), random_state=0)
    assert found.at_bound
    assert not estimate_n_categories(X, y, "max-acc-kmeans", bounds=(7, 7), random_state=0).at_bound


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bounds": (9, 7)}, r"least <= most; got \(9, 7\)"),
        ({"bounds": (1, 7)}, "fewer than the 6 categories"),
        ({"bounds": (7,)}, "bounds must be two integers"),
        ({"bounds": (7, 8.5)}, "bounds must be two integers"),
        ({"n_init": 0}, "n_init must be at least 1; got 0"),
        ({"bounds": (6, 700)}, "more than 6 known categories"),
        ({"method": "guess"}, "must be one of rehearsal, max-acc-kmeans, max-acc-pim, silhouette; got 'guess'"),
    ],
)
def test_unfit_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    X, y = blobs(8, known=6)
    with pytest.raises(InputError, match=message):
        estimate_n_categories(X, y, **arguments)


@pytest.mark.parametrize("method", ["rehearsal", "max-acc-kmeans", "max-acc-pim"])
def test_rules_that_score_by_labels_are_refused_without_any(method: CountRule) -> None:
    X, _ = blobs(3, known=0)
    with pytest.raises(InputError, match="scores by the labelled samples, and there are none"):
        estimate_n_categories(X, np.full(len(X), -1), method)


def test_where_no_rule_is_named_and_too_little_is_known_the_silhouette_counts() -> None:
    X, _ = blobs(3, known=0)
    for labels in (np.full(len(X), -1), np.where(np.arange(len(X)) == 0, 0, -1)):
        count = estimate_n_categories(X, labels, bounds=(2, 6), random_state=0)
        assert (count.method, count.n_categories) == ("silhouette", 3)


def test_max_acc_with_pim_trains_the_papers_objective(monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[tuple[Objective, float]] = []
    train = Training.train

    def watch(self: Training, problem: Problem, runs: list[Run], stage: str) -> Trained:
        trained.extend((run.objective, run.temperature) for run in runs)
        return train(self, problem, runs, stage)

    monkeypatch.setattr(Training, "train", watch)
    X, y = blobs(4, known=2)
    estimate_n_categories(X, y, "max-acc-pim", bounds=(3, 3), random_state=0)
    assert trained == [(Objective(entropy="all", cross_entropy=0.0, lam=1.0), 25.0)]


def test_with_one_known_category_the_silhouette_decides() -> None:
    """A rehearsal would have to hide it, and nothing would be left."""
    X, y = blobs(4, known=1)
    search = PIM(lam=0.3, max_iter=5, random_state=0).fit(X, y).n_categories_search_
    assert search is not None
    assert search.method == "silhouette"
