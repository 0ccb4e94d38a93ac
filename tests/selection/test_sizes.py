"""How large known and new categories are, and the shares that follow."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from newkinds import PIM
from newkinds.engine import Partitioner
from newkinds.labels import UNLABELLED
from newkinds.metrics import accuracy
from newkinds.objective import PARTITION
from newkinds.selection import rules
from newkinds.selection.efforts import EFFORTS
from newkinds.selection.problem import Problem, make_problem
from newkinds.selection.recipes import RECIPES
from newkinds.selection.rehearsal import draw_rehearsals, rehearse, try_settings
from newkinds.selection.settings import Setting, refinements
from newkinds.selection.sizes import (
    GENEROUS,
    LEAST_SHARE,
    SIZES_SETTING,
    Endings,
    Stays,
    _least_margin,
    evened,
    expected_shares,
    measure_known_share,
    settled_ratio,
    size_ratio,
)
from newkinds.selection.training import Training

WIDTH = 24
QUICK = EFFORTS["quick"]


def collection(
    known: list[int], new: list[int], share: float = 0.5, noise: float = 0.1, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Categories of so many samples along the axes; features, labels, truth."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(len(known) + len(new)), [*known, *new])
    X = np.eye(len(known) + len(new), WIDTH)[truth] + noise * rng.normal(size=(len(truth), WIDTH))
    is_labelled = (truth < len(known)) & (rng.random(len(truth)) < share)
    is_labelled[np.unique(truth, return_index=True)[1][: len(known)]] = True
    return X.astype(np.float32), np.where(is_labelled, truth, UNLABELLED), truth


def posed(X: np.ndarray, y: np.ndarray) -> Problem:
    return make_problem(X, y, device="cpu", random_state=0)


def test_even_sizes_leave_the_marginal_as_it_is() -> None:
    assert expected_shares(1.0, 5, 10) is None


@pytest.mark.parametrize("n_kept", [5, 3])
def test_shares_add_up_to_what_all_categories_have(n_kept: int) -> None:
    """5 known categories of one size, 4 new ones half as large."""
    shares = expected_shares(0.5, 5, 9, n_kept)
    assert shares is not None
    assert shares.shape == (9,)
    assert (shares[:n_kept] == 1).all()
    assert np.ptp(shares[n_kept:]) == 0
    assert shares.sum() == pytest.approx(5 + 4 * 0.5)


def test_the_ratio_of_sizes_is_that_of_the_samples_left() -> None:
    """4 known categories of 10 labelled and 20 unlabelled samples each; 60 samples are left."""
    y = np.concatenate([np.repeat(np.arange(4), 10), np.full(80 + 60, UNLABELLED)])
    problem = posed(np.random.default_rng(0).normal(size=(len(y), 3)), y)
    for n_new, ratio in ((1, 2.0), (2, 1.0), (8, 0.25)):
        assert size_ratio(problem, 80 / 140, 4 + n_new) == pytest.approx(ratio)
    assert size_ratio(problem, 80 / 140, 4) == 1.0
    assert settled_ratio(problem, 80 / 140, 6) == 1.0
    assert settled_ratio(problem, 75 / 140, 6) == 1.0  # not clearly another
    assert settled_ratio(problem, 80 / 140, 12) == pytest.approx(0.25 * GENEROUS)


def stays(labelled: list[int], unlabelled: list[int], stay: list[float], n_new: int, strays: float) -> Stays:
    """As many samples arrive as should; all categories keep labels, so every stray is of a new one."""
    own = np.array(unlabelled) * np.array(stay) + strays * n_new / len(labelled)
    strayed = np.array([[1000, round(1000 * strays)]])
    known = sum(unlabelled)
    return Stays(np.array(labelled, float), np.array(stay), own, strayed, known + n_new, kept_share=1.0)


@pytest.mark.parametrize("n_new", [100, 1000, 10000])
@pytest.mark.parametrize("strays", [0.0, 0.1])
def test_samples_of_known_categories_are_counted(n_new: int, strays: float) -> None:
    """The strays of known samples are left out here: they too are expected, but do not arrive."""
    seen = stays([100] * 6, [150] * 6, [0.3] * 6, n_new, strays)
    # By the expectation, samples of known categories that are not at home stray as well.
    assert seen.known_share() == pytest.approx(900 / (900 + n_new), rel=0.05 if strays else 0.02)


def test_labels_may_come_unevenly() -> None:
    """The more labels, the fewer unlabelled samples are left, and the more of them stay."""
    labelled, unlabelled, stay = [180, 100, 20], [20, 100, 180], [0.5, 0.3, 0.1]
    seen = stays(labelled, unlabelled, stay, 300, 0.0)
    assert seen.known_share() == pytest.approx(0.5, rel=0.1)
    one_for_all = seen.arrived.sum() / (np.array(stay) @ np.array(labelled)) * sum(labelled) / 600
    assert one_for_all < 0.3  # what a single ratio of unlabelled to labelled samples would say


def test_the_share_stays_within_bounds() -> None:
    none = stays([50] * 3, [0] * 3, [0.3] * 3, 100, 0.0)
    assert none.known_share() == pytest.approx(LEAST_SHARE, abs=0.02)
    assert stays([50] * 3, [100] * 3, [0.3] * 3, 0, 0.0).known_share() == pytest.approx(1 - LEAST_SHARE)


def test_drawn_again_the_share_varies_about_what_it_is() -> None:
    rng = np.random.default_rng(0)
    seen = stays([100] * 20, rng.integers(50, 250, 20).tolist(), [0.3] * 20, 3000, 0.02)
    drawn = [seen.known_share(rng) for _ in range(200)]
    assert np.std(drawn) > 0.01
    assert np.mean(drawn) == pytest.approx(seen.known_share(), rel=0.03)


def test_endings_are_counted_for_each_category() -> None:
    """A partitioner that is always right: nothing strays, a third of what is hidden stays clearly."""
    X, y, truth = collection([30, 30, 30], [30, 30])
    problem = posed(X, y)
    rehearsal = draw_rehearsals(problem, 1)[0]
    kept = rehearsal.labels != UNLABELLED
    order = [problem.columns[rehearsal.labels == k][0] for k in range(rehearsal.n_kept)]
    hidden = [c for c in range(5) if c not in order]
    right = Partitioner(np.eye(5, WIDTH, dtype=np.float32)[[*order, *hidden]], temperature=10.0)
    ending = Endings.of(problem, rehearsal, right)
    assert ending.categories.tolist() == order
    lost = np.bincount(truth[problem.labelled & ~kept], minlength=5)
    assert ending.held_out.tolist() == lost[order].tolist()
    assert ending.stayed.sum() == pytest.approx(ending.held_out.sum() / 3, abs=1)
    assert ending.strayed[:, 0].tolist() == lost[[c for c in hidden if c < 3]].tolist()
    assert ending.strayed[:, 1].sum() == 0
    assert 0 < ending.arrived.sum() <= (~problem.labelled & np.isin(truth, order)).sum()


def test_a_category_that_never_kept_labels_is_taken_to_be_like_the_others() -> None:
    problem = posed(*collection([20, 20, 20], [20])[:2])
    two = np.array([0, 1])
    ending = Endings(two, np.array([6, 6]), np.array([2, 2]), np.array([4, 4]), np.array([[10, 0]]))
    seen = Stays.of(problem, [ending])
    labelled = np.bincount(problem.columns[problem.labelled])
    assert seen.arrived[2] == pytest.approx(4 * labelled[2] * np.mean(1 / labelled[:2]))
    assert seen.kept_share == pytest.approx(2 / 3)
    assert (seen.stay > 0).all()


@pytest.mark.parametrize("new", [[10] * 8, [40] * 8, [120] * 8])
def test_the_share_of_known_categories_is_measured(new: list[int]) -> None:
    X, y, truth = collection([40] * 10, new)
    problem = posed(X, y)
    rehearsal = draw_rehearsals(problem, 1)[0]
    ((one,),) = try_settings(
        problem, [rehearsal], [18], [SIZES_SETTING], objective=PARTITION, weight_decay=0.01, stage=""
    )
    before = problem.rng.get_state(legacy=False)["state"]["key"].copy()
    measured = measure_known_share(problem, rehearsal, one, 18, weight_decay=0.01)
    assert (problem.rng.get_state(legacy=False)["state"]["key"] == before).all()  # nothing was drawn
    assert measured == pytest.approx((truth[y == UNLABELLED] < 10).mean(), rel=0.25)


def test_evened_new_categories_are_as_large_as_known_ones() -> None:
    X, y, truth = collection([20] * 6, [80] * 6)
    problem = replace(posed(X, y), known_share=0.1)
    share = (truth[y == UNLABELLED] < 6).mean()
    ratio = size_ratio(problem, share, 12)
    assert ratio == pytest.approx(4.0)
    # A part of the problem is told by its features.
    part = problem.part(evened(problem, 12, share, weight_decay=0.01))
    rows = [
        int(np.flatnonzero((problem.samples.take(np.arange(len(y))) == row).all(1))[0]) for row in _features(part)
    ]
    sizes = np.bincount(truth[rows], minlength=12)
    assert (sizes[:6] == 20).all()
    assert (abs(sizes[6:] - 20) <= 4).all()
    assert part.labelled.sum() == problem.labelled.sum()


def _features(problem: Problem) -> torch.Tensor:
    return problem.samples.take(np.arange(len(problem.columns)))


@pytest.mark.slow
@pytest.mark.parametrize(("known", "new"), [(60, 10), (12, 60)])
def test_uneven_categories_are_found_better_than_with_an_even_marginal(known: int, new: int) -> None:
    X, y, truth = collection([known] * 8, [new] * 8, noise=0.25)
    settings: dict[str, Any] = {"temperature": 40.0, "consensus": 1, "random_state": 0, "device": "cpu"}
    fitted = PIM(16, **settings).fit(X, y)
    # Eight known categories tell it to within a factor of two: six seeds gave 0.6 to 1.1 of it for the first pair.
    assert abs(np.log(fitted.size_ratio_ / (GENEROUS * new / known))) < np.log(2)
    even = PIM(16, lam=fitted.lam_, **settings).fit(X, y)
    assert even.size_ratio_ == 1.0
    unlabelled = y == UNLABELLED
    found, before = (
        accuracy(truth[unlabelled], model.labels_[unlabelled], np.arange(8)).all for model in (fitted, even)
    )
    assert found > before


def test_collections_of_even_sizes_are_trained_as_ever() -> None:
    X, y, _ = collection([30] * 6, [30] * 6)
    assert PIM(12, max_iter=20, consensus=1, random_state=0, device="cpu").fit(X, y).size_ratio_ == 1.0


class Stop(Exception):
    pass


@pytest.mark.parametrize(("known", "new"), [(40, 10), (40, 40), (10, 40)])
def test_rehearsals_are_held_as_the_sizes_want_it(known: int, new: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Smaller new categories: shares, every category counts the same. Larger ones: fewer samples of them."""
    X, y, truth = collection([known] * 6, [new] * 6)
    share = float((truth[y == UNLABELLED] < 6).mean())
    problem = replace(posed(X, y), known_share=share)
    seen: dict[str, Any] = {}

    def stopping(part: Problem, *_: Any, **given: Any) -> None:
        seen.update(given, n_samples=len(part.columns))
        raise Stop

    monkeypatch.setattr(rules, "rehearse", stopping)
    question = rules.Question(12, PARTITION, RECIPES["newkinds"], Training(), n_init=1)
    with pytest.raises(Stop):
        rules.by_rehearsal(problem, question)
    assert seen["by_category"] is (new < known)
    assert (seen["shares"] is not None) is (new < known)
    assert seen["n_samples"] == pytest.approx(len(y) if new <= known else 12 * known, rel=0.1)
    assert seen["tried"] is None  # the sizes were known already


def settled(counts: list[int], n_categories: int, share: float) -> float:
    """With so many labelled samples of each known category, as many unlabelled ones as they have in all."""
    y = np.concatenate([np.repeat(np.arange(len(counts)), counts), np.full(sum(counts), UNLABELLED)])
    problem = make_problem(np.random.default_rng(0).normal(size=(len(y), 4)), y, device="cpu", random_state=0)
    return settled_ratio(problem, share, n_categories)


def test_sizes_are_even_until_they_clearly_are_not() -> None:
    """Ratio: what is left of the unlabelled samples to what known categories have."""
    even = [20] * 40
    assert settled(even, 80, 0.2) == pytest.approx(1.0)  # 0.67
    assert settled(even, 80, 0.4) == pytest.approx(GENEROUS * 0.6 / 1.4)
    assert settled(even, 56, 0.2) == pytest.approx(GENEROUS * (0.8 / 16) / (1.2 / 40))  # 1.67
    assert settled(even, 68, 0.1) == pytest.approx(1.0)  # 1.17


def test_where_known_categories_differ_in_size_new_ones_may_by_chance() -> None:
    tailed = [2, 3, 4, 5, 8, 10, 15, 23, 50, 80] * 4
    assert settled(tailed, 80, 0.4) == 1.0
    assert settled(tailed, 56, 0.2) == 1.0
    assert settled(tailed, 80, 0.7) == pytest.approx(GENEROUS * 0.3 / 1.7)


def test_what_counts_as_clear_follows_the_samples_of_hidden_categories() -> None:
    of_kept = np.linspace(0.0, 10.0, 1001)
    assert _least_margin(of_kept, np.full(100, 5.0)) == pytest.approx(5.0)
    assert _least_margin(of_kept, np.full(100, 9.0)) == pytest.approx(10 * 2 / 3)  # a third are clear at least
    assert _least_margin(of_kept, np.full(100, -3.0)) == pytest.approx(3.0)  # 70 % at most
    assert _least_margin(of_kept, np.full(10, -3.0)) == pytest.approx(10 * 2 / 3)  # ten tell nothing
    assert _least_margin(of_kept - 8, np.full(100, -3.0)) == 0.0  # below, samples end elsewhere
    assert _least_margin(of_kept - 20, np.full(10, -3.0)) == 0.0
    assert _least_margin(np.empty(0), np.full(100, 5.0)) == 0.0


@pytest.mark.parametrize("first", [Setting(0.01, 60.0), Setting(1.0, 10.0)])
@pytest.mark.parametrize("new", [[10] * 8, [40] * 8])
def test_where_new_categories_are_small_no_refinement_has_a_lam_that_kills_them(
    new: list[int], first: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rehearsals would not see it: the categories that they hide are large."""
    X, y, _ = collection([40] * 10, new)
    tried: list[Setting] = []

    def choosing_first(*arguments: Any, **options: Any) -> Any:
        rehearsed, trials, ratio = rehearse(*arguments, **options)
        return replace(rehearsed, chosen=first), trials, ratio

    def refine(problem: Any, rehearsed: Any, trials: Any, settings: list[Setting], **_: Any) -> Any:
        tried.extend(settings)
        return rehearsed, trials

    monkeypatch.setattr(rules, "rehearse", choosing_first)
    monkeypatch.setattr(rules, "rehearse_refinements", refine)
    question = rules.Question(18, PARTITION, RECIPES["newkinds"], Training(max_iter=30), n_init=1, effort=QUICK)
    rules.by_rehearsal(posed(X, y), question)
    all_of_them = refinements("self", step=QUICK.step)
    if new[0] == 10:
        assert tried == [setting for setting in all_of_them if setting.lam <= max(first.lam, all_of_them[0].lam)]
    else:
        assert tried == all_of_them
