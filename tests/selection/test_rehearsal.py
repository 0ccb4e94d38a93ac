"""Rehearsals: what they hide, how they are scored, and what settings they choose."""

from typing import Any

import numpy as np
import pytest

from newkinds import PIM, InputError
from newkinds.engine import LinearMap, Samples
from newkinds.labels import UNLABELLED
from newkinds.metrics import clustering_accuracy
from newkinds.objective import PARTITION
from newkinds.selection.efforts import EFFORTS
from newkinds.selection.metric import learnt_metric
from newkinds.selection.problem import Problem, make_problem
from newkinds.selection.rehearsal import (
    ENOUGH,
    Recovery,
    Rehearsal,
    Rehearsed,
    _levelled,
    _smoothed,
    draw_rehearsals,
    n_rehearsals,
    rehearse,
    rehearse_refinements,
    unlabelled_ratio,
)
from newkinds.selection.settings import (
    TEMPERATURES,
    Setting,
    candidates,
    refinements,
)


def blobs(
    n: int, n_categories: int, n_known: int, width: int = 16, noise: float = 0.12
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features of well separated categories, labels of half of the known ones' samples, and the truth."""
    rng = np.random.default_rng(0)
    truth = np.arange(n) % n_categories
    X = np.eye(n_categories, width)[truth] + noise * rng.normal(size=(n, width))
    return X, np.where((truth < n_known) & (rng.random(n) < 0.5), truth, UNLABELLED), truth


def with_labels(counts: list[int], unlabelled: int = 20, seed: int = 0) -> Problem:
    """A problem whose known categories, 10, 13, 16, …, have so many labels."""
    labels = np.repeat([*(10 + 3 * np.arange(len(counts))), UNLABELLED], [*counts, unlabelled])
    rng = np.random.default_rng(1)
    rng.shuffle(labels)
    return make_problem(rng.normal(size=(len(labels), 4)), labels, device="cpu", random_state=seed)


def hidden_whole(problem: Problem, rehearsal: Rehearsal) -> set[int]:
    """The known categories that keep no label, as columns of the problem."""
    return set(range(problem.n_known)) - set(problem.columns[rehearsal.labels != UNLABELLED].tolist())


@pytest.mark.parametrize(("n_known", "n_hidden"), [(2, 1), (3, 1), (5, 1), (6, 2), (8, 2), (9, 3), (100, 33)])
def test_a_third_of_the_categories_loses_all_labels_and_the_others_some(n_known: int, n_hidden: int) -> None:
    problem = with_labels([7] * n_known)
    for rehearsal in draw_rehearsals(problem, 4):
        hidden = hidden_whole(problem, rehearsal)
        assert len(hidden) == n_hidden == n_known - rehearsal.n_kept
        for category in range(n_known):
            lost = int((rehearsal.hidden & (problem.columns == category)).sum())
            assert lost == (7 if category in hidden else 2)  # a third of 7, rounded


def test_a_category_that_is_not_hidden_keeps_a_label() -> None:
    problem = with_labels([1, 1, 2, 3, 4, 5])
    for rehearsal in draw_rehearsals(problem, 40):
        kept = rehearsal.labels[rehearsal.labels != UNLABELLED]
        assert rehearsal.n_kept == 4
        assert set(kept.tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize("n_known", [2, 3, 4, 7, 12])
def test_the_two_of_a_pair_hide_different_categories(n_known: int) -> None:
    problem = with_labels([4] * n_known)
    hidden = [hidden_whole(problem, rehearsal) for rehearsal in draw_rehearsals(problem, 12)]
    assert all(not first & second for first, second in zip(hidden[::2], hidden[1::2], strict=True))
    assert len({frozenset(those) for those in hidden}) > 1


def test_pairs_differ_from_one_another() -> None:
    problem = with_labels([4] * 12)
    first, _, third, _ = (hidden_whole(problem, rehearsal) for rehearsal in draw_rehearsals(problem, 4))
    assert first != third


@pytest.mark.parametrize("counts", [[], [9]])
def test_fewer_than_two_known_categories_cannot_be_rehearsed(counts: list[int]) -> None:
    with pytest.raises(ValueError, match="two known categories"):
        draw_rehearsals(with_labels(counts), 4)


def test_the_numbers_of_a_rehearsal_are_a_renumbering_of_the_categories() -> None:
    problem = with_labels([2, 3, 4, 5, 6, 7, 8])
    for rehearsal in draw_rehearsals(problem, 4):
        stays = rehearsal.labels != UNLABELLED
        numbers = np.full(len(problem.columns), UNLABELLED)
        numbers[stays] = rehearsal.labels[stays]
        numbers[rehearsal.hidden] = rehearsal.truth
        assert not (stays & rehearsal.hidden).any()
        assert np.array_equal(stays | rehearsal.hidden, problem.labelled)
        pairs = set(zip(problem.columns[problem.labelled], numbers[problem.labelled], strict=True))
        assert len(pairs) == 7
        assert {number for _, number in pairs} == set(range(7))
        hidden = hidden_whole(problem, rehearsal)
        assert {number for column, number in pairs if column in hidden} == {5, 6}  # last


def test_what_has_no_label_takes_no_part_in_the_truth() -> None:
    problem = with_labels([5, 5, 5], unlabelled=100)
    for rehearsal in draw_rehearsals(problem, 4):
        assert (rehearsal.labels[~problem.labelled] == UNLABELLED).all()
        assert not rehearsal.hidden[~problem.labelled].any()
        assert len(rehearsal.truth) == rehearsal.hidden.sum() <= 15


def test_the_random_state_decides_what_is_hidden() -> None:
    draws = [draw_rehearsals(with_labels([6] * 9, seed=seed), 4) for seed in (3, 3, 4)]
    same = [
        all(
            np.array_equal(a.labels, b.labels) and np.array_equal(a.truth, b.truth)
            for a, b in zip(draws[0], other, strict=True)
        )
        for other in draws[1:]
    ]
    assert same == [True, False]


# A rehearsal by hand: category 0 keeps 2 of its 4 labels, 1 and 2 lose all of 4. Of the 24 unlabelled samples 8
# belong to each of the three (twice the labelled ones), and 8 more to a new category.
BY_HAND = Rehearsal(
    labels=np.array([0, 0] + [UNLABELLED] * 42),
    hidden=np.repeat([False, True, False], [2, 10, 32]),
    truth=np.repeat([0, 1, 2], [2, 4, 4]),
    n_kept=1,
)
NO_LABEL = np.repeat([False, True], [12, 32])


def columns_by_hand(labelled: list[int], unlabelled: list[int]) -> np.ndarray:
    """Columns of the 4 labelled samples of each category, and of the 8 unlabelled ones of each and of the new."""
    assert (len(labelled), len(unlabelled)) == (12, 32)
    return np.array([*labelled, *unlabelled])


PERFECT = columns_by_hand([0] * 4 + [1] * 4 + [2] * 4, [0] * 8 + [1] * 8 + [2] * 8 + [3] * 8)


def test_a_perfect_clustering_is_seen_as_one() -> None:
    seen = BY_HAND.recovery(PERFECT, NO_LABEL)
    assert seen.sizes.tolist() == [2, 4, 4]
    assert seen.labelled.tolist() == [4, 4, 4]
    assert seen.is_hidden.tolist() == [False, True, True]
    assert seen.unlabelled_in_column.tolist() == [8, 8, 8]
    assert seen.shares.tolist() == [1, 1, 1]
    assert seen.accuracy == 1
    assert seen.unlabelled_ratio == 2
    assert seen.score(2.0) == pytest.approx(1)
    assert seen.score(5.0) == pytest.approx(1)  # nothing is gained by expecting more than there is
    assert seen.score(float("inf")) == 1


def test_merging_a_hidden_category_with_a_new_one_lowers_the_score_but_not_the_accuracy() -> None:
    merged = np.where(PERFECT == 3, 2, PERFECT)
    seen = BY_HAND.recovery(merged, NO_LABEL)
    assert seen.accuracy == 1
    # The third category accounts for 4 + 2 · 4 of the 4 + 16 samples in its column.
    assert seen.scores(2.0) == pytest.approx([1, 1, np.sqrt(12 / 20)])
    assert seen.score(2.0) == pytest.approx((2 + 4 + 4 * np.sqrt(12 / 20)) / 10)
    assert seen.score(float("inf")) == 1  # when nobody knows what to expect


def test_merging_two_hidden_categories_loses_one() -> None:
    seen = BY_HAND.recovery(np.where(PERFECT == 2, 1, PERFECT), NO_LABEL)
    assert sorted(seen.shares[1:]) == [0, 1]
    assert seen.accuracy == pytest.approx(0.6)
    assert seen.score(2.0) < 0.6


def test_splitting_a_hidden_category_lowers_accuracy_and_score() -> None:
    split = columns_by_hand([0] * 4 + [1] * 4 + [2] * 3 + [4], [0] * 8 + [1] * 8 + [2] * 6 + [4] * 2 + [3] * 8)
    seen = BY_HAND.recovery(split, NO_LABEL)
    assert seen.shares == pytest.approx([1, 1, 0.75])
    assert seen.accuracy == pytest.approx(0.9)
    # A quarter is gone from either side: what is left accounts for all of its column.
    assert seen.score(2.0) == pytest.approx(0.9)
    assert seen.unlabelled_ratio == 2


def test_fewer_columns_than_categories_leave_some_unfound() -> None:
    seen = BY_HAND.recovery(np.zeros(44, dtype=np.int64), NO_LABEL)
    assert sorted(seen.recovered.tolist()) == [0, 0, 4]
    assert seen.accuracy == pytest.approx(0.4)
    assert np.isfinite(seen.scores(2.0)).all()


def test_how_new_categories_are_numbered_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 6, 44)
    plain = BY_HAND.recovery(columns, NO_LABEL)
    for _ in range(10):
        seen = BY_HAND.recovery(np.concatenate([[0], 1 + rng.permutation(5)])[columns], NO_LABEL)
        assert seen.accuracy == plain.accuracy
    # Where the matching is unique, neither do the scores change.
    plain = BY_HAND.recovery(PERFECT, NO_LABEL)
    for _ in range(10):
        seen = BY_HAND.recovery(np.concatenate([[0], 1 + rng.permutation(5)])[PERFECT], NO_LABEL)
        assert np.array_equal(seen.scores(1.5), plain.scores(1.5))
        assert seen.unlabelled_ratio == plain.unlabelled_ratio


def recovery(recovered: list[int], hidden: list[int], unlabelled: list[int], is_hidden: list[bool]) -> Recovery:
    """Of categories with four hidden samples each: those recovered, and what else is in their columns."""
    four = np.full(len(recovered), 4)
    return Recovery(four, four, *(np.array(column) for column in (recovered, hidden, unlabelled, is_hidden)))


def test_the_unlabelled_ratio_is_the_median_over_hidden_categories_that_were_found() -> None:
    seen = recovery(
        recovered=[4, 4, 3, 2, 1, 4],
        hidden=[4, 4, 3, 4, 2, 4],
        unlabelled=[400, 4, 6, 40, 200, 800],
        is_hidden=[False, True, True, True, True, False],
    )
    assert seen.unlabelled_ratio == 2  # of 1, 2 and 10; one is not found, two are not hidden
    lost = recovery(recovered=[4, 1], hidden=[4, 1], unlabelled=[8, 8], is_hidden=[False, True])
    assert lost.unlabelled_ratio == float("inf")


def test_the_least_ratio_of_the_better_half_counts() -> None:
    def one(recovered: int, unlabelled: int) -> Recovery:
        return recovery([recovered], [4], [unlabelled], [True])

    assert unlabelled_ratio([one(4, 12), one(2, 4), one(3, 8), one(2, 1)]) == 2
    assert unlabelled_ratio([one(2, 20)]) == 5


def test_the_fewer_categories_are_known_the_more_rehearsals_there_are() -> None:
    for effort in EFFORTS.values():
        counts = [n_rehearsals(n_known, effort) for n_known in (2, 10, 30, 60, 100, 1000)]
        assert counts == sorted(counts, reverse=True)
        assert (counts[-1], counts[0]) == effort.rehearsals
    quick, normal, thorough = (n_rehearsals(40, EFFORTS[name]) for name in ("quick", "normal", "thorough"))
    assert quick < normal < thorough


def test_settings_are_compared_whatever_rehearsals_they_were_in() -> None:
    """Where a score is the setting's quality less the rehearsal's difficulty, differences of quality come out."""
    quality, difficulty = np.array([0.1, 0.5, 0.3, 0.45]), np.array([0.0, 0.4, 0.2])
    scores = quality - difficulty[:, None]
    scores[1:, 0] = scores[2:, 2] = np.nan
    estimates = _levelled(scores, np.array([1, 3]))
    np.testing.assert_allclose(estimates - estimates[1], quality - quality[1], atol=1e-12)
    assert estimates[1] == pytest.approx(scores[:, 1].mean())


def test_neighbours_along_the_ridge_are_averaged() -> None:
    settings = [Setting(lam, t) for lam in (0.1, 0.2, 0.4) for t in (10.0, 20.0, 40.0)]
    values = np.arange(9.0) ** 2
    by_place = dict(zip([(s.lam, s.temperature) for s in settings], values, strict=True))
    smooth = dict(zip([(s.lam, s.temperature) for s in settings], _smoothed(settings, values), strict=True))
    middle = (2 * by_place[0.2, 20] + by_place[0.1, 40] + by_place[0.4, 10]) / 4
    assert smooth[0.2, 20] == pytest.approx(middle)
    assert smooth[0.1, 10] == by_place[0.1, 10]  # a corner that has no neighbour there
    assert smooth[0.1, 40] == pytest.approx((2 * by_place[0.1, 40] + by_place[0.2, 20]) / 3)
    np.testing.assert_allclose(_smoothed(settings, np.ones(9)), 1)


def rehearsed(
    settings: list[Setting], seed: int = 0, noise: float = 0.12, n: int = 6
) -> tuple[Rehearsed, list[np.ndarray], list[Rehearsal]]:
    """A search; with it the columns that the chosen setting gave in each rehearsal that was held."""
    X, y, _ = blobs(400, 8, 6, noise=noise)
    problem = make_problem(X, y, device="cpu", random_state=seed)
    rehearsals = draw_rehearsals(problem, n)
    found, trials, ratio = rehearse(problem, rehearsals, 8, settings, objective=PARTITION, weight_decay=0.01)
    assert np.isfinite(ratio)
    assert all(trial.partitioner.temperature == found.chosen.temperature for trial in trials)
    return found, [trial.columns for trial in trials], [trial.rehearsal for trial in trials]


def test_what_is_clearly_behind_drops_out_and_what_was_always_tried_is_chosen() -> None:
    settings = candidates()
    found, columns, held = rehearsed(settings)
    tried = np.isfinite(found.scores)
    assert found.settings == tuple(settings)
    assert tried[0].all()
    assert not (tried[1:] & ~tried[:-1]).any()  # what has dropped out stays out
    assert len(tried) == len(columns) <= 6
    best = settings.index(found.chosen)
    assert tried[:, best].all()
    assert found.firsts[0] == found.chosen
    assert all(tried[-1, settings.index(setting)] for setting in found.firsts)
    assert found.estimates[best] == found.estimates[tried[-1]].max()
    assert found.spread >= 0
    assert ((found.scores[tried] >= 0) & (found.scores[tried] <= 1)).all()
    for rehearsal, found_there in zip(held, columns, strict=True):
        assert clustering_accuracy(rehearsal.truth, found_there[rehearsal.hidden]) > 0.95


def test_a_search_ends_when_one_setting_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newkinds.selection.rehearsal.NOISE", 1e-6)  # any difference is clear
    found, _, _ = rehearsed(candidates(), noise=0.3)
    assert found.firsts == (found.chosen,)
    assert np.isfinite(found.scores[1:]).sum() == len(found.scores) - 1
    assert len(found.scores) == ENOUGH


def test_scores_count_what_a_category_can_account_for() -> None:
    """With fewer columns than categories, hidden ones are merged with new ones: found again, but not alone."""
    X, y, _ = blobs(400, 8, 6)
    problem = make_problem(X, y, device="cpu", random_state=0)
    rehearsals = draw_rehearsals(problem, 3)
    found, trials, ratio = rehearse(
        problem, rehearsals, 7, [Setting(0.1, 30.0)], objective=PARTITION, weight_decay=0.01
    )
    recoveries = [trial.recovery for trial in trials]
    assert ratio == recoveries[0].unlabelled_ratio  # of the first one
    assert found.scores[:, 0] == pytest.approx([recovery.score(ratio) for recovery in recoveries])
    assert found.scores[:, 0].mean() < np.mean([recovery.accuracy for recovery in recoveries]) - 0.01


def unlike() -> tuple[Problem, Problem]:
    """A problem whose categories are long in the same few directions; and narrowed, which changes nothing."""
    rng = np.random.default_rng(0)
    truth = np.arange(480) % 8
    X = 0.6 * np.eye(8, 16)[truth] + rng.normal(size=(480, 16)) * ([0.1] * 8 + [0.5] * 4 + [0.05] * 4)
    problem = make_problem(X, np.where((truth < 6) & (rng.random(480) < 0.5), truth, -1), random_state=0)
    return problem, problem.narrowed(8)


def test_a_refinement_is_taken_where_it_finds_more_again() -> None:
    wide, narrow = unlike()
    assert narrow is wide
    common: dict[str, Any] = {"objective": PARTITION, "weight_decay": 0.01}
    first, trials, ratio = rehearse(narrow, draw_rehearsals(narrow, 4), 8, [Setting(0.1, 25.0)], **common)
    found, refined = rehearse_refinements(wide, first, trials, refinements("self"), ratio=ratio, **common)
    assert found.chosen.metric == "self"
    assert found.firsts == first.firsts
    assert found.settings == (*first.settings, *refinements("self"))
    assert found.scores.shape == (4, 1 + len(refinements("self")))
    chosen = found.settings.index(found.chosen)
    assert found.estimates[chosen] > found.scores[:, 0].mean() + 0.05
    scores = [trial.recovery.score(ratio) for trial in refined]
    assert scores == pytest.approx(found.scores[:, chosen].tolist())


def test_a_metric_never_learns_from_what_a_rehearsal_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    wide, narrow = unlike()
    seen = []

    def watching(samples: Samples, columns: np.ndarray) -> LinearMap:
        seen.append(columns)
        return learnt_metric(samples, columns)

    monkeypatch.setattr("newkinds.selection.refinement.learnt_metric", watching)
    common: dict[str, Any] = {"objective": PARTITION, "weight_decay": 0.01}
    first, trials, ratio = rehearse(narrow, draw_rehearsals(narrow, 3), 8, [Setting(0.1, 25.0)], **common)
    rehearse_refinements(wide, first, trials, refinements("within"), ratio=ratio, **common)
    assert len(seen) == 3
    for trial, columns in zip(trials, seen, strict=True):
        assert np.array_equal(columns, trial.rehearsal.labels)


def test_a_refinement_that_must_be_is_not_left_out() -> None:
    X, y, _ = blobs(400, 8, 6)
    problem = make_problem(X, y, device="cpu", random_state=0)
    common: dict[str, Any] = {"objective": PARTITION, "weight_decay": 0.01}
    first, trials, ratio = rehearse(problem, draw_rehearsals(problem, 2), 8, [Setting(0.03, 40.0)], **common)
    assert first.scores.mean() > 0.96  # little is left to refine
    kept, _ = rehearse_refinements(problem, first, trials, [Setting(5.0, 0.5, "self")], ratio=ratio, **common)
    assert kept.chosen == first.chosen
    forced, _ = rehearse_refinements(
        problem, first, trials, [Setting(5.0, 0.5, "self")], ratio=ratio, **common, may_be_left_out=False
    )
    assert forced.chosen.metric == "self"


def test_a_single_setting_is_chosen() -> None:
    only = Setting(0.1, 30.0)
    found, _, _ = rehearsed([only])
    assert found.chosen == only
    assert np.isfinite(found.scores).all()
    assert found.estimates == pytest.approx(found.scores.mean(axis=0))


@pytest.mark.slow
def test_a_search_is_repeatable() -> None:
    settings = [Setting(lam, t) for lam in (0.03, 0.3) for t in (15.0, 25.0, 40.0)]
    (first, columns, _), (second, again, _) = (rehearsed(settings, seed=5, n=3) for _ in range(2))
    assert first.chosen == second.chosen
    np.testing.assert_array_equal(first.scores, second.scores)
    np.testing.assert_array_equal(first.estimates, second.estimates)
    np.testing.assert_array_equal(columns, again)


@pytest.fixture(scope="module")
def tiny() -> tuple[np.ndarray, np.ndarray]:
    X, y, _ = blobs(90, 5, 3, width=8)
    return X, y


def test_pim_rehearses_by_default(tiny: tuple[np.ndarray, np.ndarray]) -> None:
    model = PIM(5, max_iter=2, random_state=0).fit(*tiny)
    assert isinstance(model.rehearsal_, Rehearsed)
    assert (model.lam_, model.temperature_) == (model.rehearsal_.chosen.lam, model.rehearsal_.chosen.temperature)
    assert model.lam_curve_ is None


def test_one_known_category_cannot_be_rehearsed_but_fitted(tiny: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = tiny
    y = np.where(y == 0, 0, UNLABELLED)
    for rules in ({"lam": "rehearsal"}, {"temperature": "rehearsal"}, {"lam": 0.1, "temperature": "rehearsal"}):
        with pytest.raises(InputError, match=r"the rule 'rehearsal' needs 2 .*known categories.* there are 1"):
            PIM(5, **rules, max_iter=2, random_state=0).fit(X, y)
    model = PIM(5, lam="auto", max_iter=2, random_state=0).fit(X, y)
    assert model.rehearsal_ is None
    assert model.labels_.shape == y.shape


def test_a_given_lam_goes_with_the_usual_temperature(tiny: tuple[np.ndarray, np.ndarray]) -> None:
    model = PIM(5, lam=0.2, max_iter=2, random_state=0).fit(*tiny)
    assert (model.lam_, model.temperature_, model.rehearsal_) == (0.2, 25.0, None)


def test_what_is_given_is_not_searched(tiny: tuple[np.ndarray, np.ndarray]) -> None:
    warm = PIM(5, lam=0.2, temperature="rehearsal", max_iter=2, random_state=0).fit(*tiny)
    assert warm.lam_ == 0.2
    by_cosine = [each for each in warm.rehearsal_.settings if each.metric == "cosine"]
    assert {each.temperature for each in by_cosine} == set(TEMPERATURES)
    strict = PIM(5, temperature=33.0, lam_grid=[0.05, 0.2], max_iter=2, random_state=0).fit(*tiny)
    assert strict.temperature_ == 33.0
    assert {each.lam for each in strict.rehearsal_.settings} == {0.05, 0.2}
    assert strict.lam_ in (0.05, 0.2)


def test_the_rule_of_the_paper_rehearses_nothing(tiny: tuple[np.ndarray, np.ndarray]) -> None:
    model = PIM(5, lam="labelled", max_iter=2, random_state=0).fit(*tiny)
    assert model.rehearsal_ is None
    assert model.temperature_ == 25.0
    assert model.lam_curve_[model.lam_] == max(model.lam_curve_.values())


def test_the_recipe_of_the_paper_chooses_by_labels_and_trains_once(
    tiny: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unwanted(*_: object) -> None:
        raise AssertionError("the paper knows no consensus")

    monkeypatch.setattr("newkinds.methods.pim.find_consensus", unwanted)
    model = PIM.paper(5, max_iter=2, random_state=0).fit(*tiny)
    assert model.rehearsal_ is None
    assert model.lam_curve_ is not None
    assert (model.lam_ in model.lam_curve_, model.temperature_) == (True, 25.0)
    same = PIM.paper(5, lam="labelled", temperature=25.0, consensus=1, max_iter=2, random_state=0).fit(*tiny)
    assert np.array_equal(model.weights_, same.weights_)


def test_the_rule_of_the_paper_is_refused_beside_a_rehearsed_temperature(
    tiny: tuple[np.ndarray, np.ndarray],
) -> None:
    message = "lam='labelled' is chosen at a given temperature: give one, or lam='rehearsal'"
    with pytest.raises(InputError, match=message):
        PIM(5, lam="labelled", temperature="rehearsal", max_iter=2, random_state=0).fit(*tiny)


def test_a_collection_that_is_labelled_throughout_can_be_fitted() -> None:
    X, _, truth = blobs(60, 3, 3, width=6)
    model = PIM(3, max_iter=2, random_state=0).fit(X, truth)
    assert np.array_equal(model.labels_, truth)
    assert (model.novelty(X) < 0.01).all()
